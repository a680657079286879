"""The process: ``python -m tests.standins.databricks --port N [--delay S] [--fail KIND=SHARE]``.

HTTP and HTTPS on one port, since the client takes HTTPS alone and a test reads the logs more simply. Pages for tests:
``/calls`` (every call of the model), ``/statements`` (every statement), ``/certificate`` (the file to trust), a POST of
``{"fail": {KIND: SHARE}, "delay": S, "answers": FILE, "answers_fail": {KIND: SHARE}, "poison": TEXT,
"model": "obedient", "history_late": S, "history_hides": [FIELD],
"denied": {TABLE: [VERB]}}`` to ``/settings``, which sets all of them; that model
does what a prompt asks. A POST of ``{"kinds": [...]}`` to ``/once`` lets one statement that asks each meet these
faults. A POST to ``/calls`` clears it, one to ``/clear`` the settings too.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from sqlenrich.llm.messages import Request
from sqlenrich.llm.mock.model import MockModel
from sqlenrich.schema.normalise import normalise
from sqlenrich.spec.loader import load
from tests.standins import spark
from tests.standins.cache import cached_file
from tests.standins.control import LATE_S, LOST
from tests.standins.databricks.statements import ASKS, ModelLog, Statements, schema_of
from tests.standins.databricks.thrift import Service
from tests.standins.obedient import reply

TOKEN = "dapi-standin-token"
PRINCIPAL, SECRET, IDENTITY = "standin-principal", "standin-secret", "an.identity.token"
HTTP_PATH = "/sql/1.0/warehouses/standin"
KINDS = ("throttle", "reset", "session", "statement", "asked", "cut")
DEFAULT_MAX_TOKENS = 4096
HELD_S = 0.05
"""How often a call that is held looks at the delay."""
_HANDSHAKE = 0x16
"""The first byte of TLS."""


def certificate() -> Path:
    """A self-made certificate for this machine and its key, in one file."""

    def make(target: Path) -> None:
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "3650",
            "-subj",
            "/CN=localhost",
        ]
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        key = target.with_suffix(".key")
        subprocess.run([*command, *names, "-keyout", str(key), "-out", str(target)], check=True, capture_output=True)
        target.write_text(target.read_text() + key.read_text())

    return cached_file("databricks-standin.pem", make)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer is one write
    server: Server

    def do_GET(self) -> None:
        """Logs, and the query history."""
        address = urlsplit(self.path)
        pages: dict[str, Callable[[], object]] = {
            "/calls": self.server.model.log.calls,
            "/statements": lambda: [one.record() for one in self.server.service.statements.history([], [])],
            "/certificate": lambda: str(certificate()),
            "/.well-known/databricks-config": lambda: {"host_type": "workspace", "oidc_endpoint": "/oidc"},
        }
        if address.path in pages:
            self._send(200, pages[address.path]())
        elif self._allowed() and address.path == "/api/2.0/sql/history/queries":
            asked = parse_qs(address.query)
            if int(asked.get("max_results", ["100"])[0]) >= 1000 or len(asked.get("filter_by.statuses", [])) > 1:
                told = "max_results is below 1000, and filter_by.statuses is one status"
                self._send(400, {"error_code": "INVALID_PARAMETER_VALUE", "message": told})
                return
            statements = self.server.service.statements
            found = statements.history(asked.get("filter_by.statement_ids", []), asked.get("filter_by.statuses", []))
            start = int(asked.get("page_token", ["0"])[0])
            more = start + self.server.page_rows < len(found)
            page = [self._shown(one.record()) for one in found[start : start + self.server.page_rows]]
            rest = {"next_page_token": str(start + self.server.page_rows)} if more else {}
            self._send(200, {"res": page, "has_next_page": more, **rest})
        elif not self.wfile.closed:
            self._send(404, {"error_code": "ENDPOINT_NOT_FOUND", "message": "no such page"})

    def _shown(self, record: dict[str, Any]) -> dict[str, Any]:
        """A line of the history without what the settings hide."""
        return {name: value for name, value in record.items() if name not in self.server.history_hides}

    def do_POST(self) -> None:
        """Thrift, tokens, and cancelling a statement by its id."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        if path == "/oidc/v1/token":
            self._send_token(dict(parse_qsl(body.decode())))
        elif path == "/calls":
            self.server.model.log.clear()
            self._send(200, {})
        elif path == "/once":
            self.server.service.once.set(json.loads(body)["kinds"])
            self._send(200, {})
        elif path == "/clear":
            self.server.set({})  # a statement that is cancelled still waits for the calls that are held
            self.server.service.once.set(())
            self.server.service.statements.end_all()
            self.server.model.log.clear()
            self._send(200, {})
        elif path == "/settings":
            self.server.set(json.loads(body))
            self._send(200, {})
        elif not self._allowed():
            return
        elif path == HTTP_PATH:
            self._send_thrift(body)
        elif path.startswith("/api/2.0/sql/statements/") and path.endswith("/cancel"):
            found = self.server.service.statements.find(uuid.UUID(path.split("/")[-2]))
            if found is None:
                self._send(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such statement"})
            else:
                self.server.service.statements.cancel(found)
                self._send(200, {})
        else:
            self._send(404, {}, {"x-thriftserver-error-message": f"Endpoint not found for {path.split('/')[-1]}"})

    def _allowed(self) -> bool:
        """Whether the token is right, and no failure comes first; else the answer is sent."""
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(403, {"error_code": "403", "message": "Invalid access token."}, {
                "x-databricks-reason-phrase": "Invalid access token.",
            })  # fmt: skip
            return False
        if self.server.service.happens("throttle"):
            self._send(next(self.server.throttles), {"message": "try later"}, {"Retry-After": "1"})
            return False
        return True

    def _send_thrift(self, body: bytes) -> None:
        reset = self.server.service.happens("reset")
        if reset and next(self.server.resets):  # the request never arrives
            self._reset()
            return
        lost = self.server.service.once.take(*LOST) if ASKS.encode() in body else ""
        lost = lost or ("cut" if self.server.service.happens("cut") else "")
        if lost == "late":
            threading.Timer(LATE_S, self.server.service.call, (body,)).start()
            self._reset()
            return
        answer = self.server.service.call(body)
        if lost == "twice":
            self.server.service.call(body)
        if reset or lost == "reply":  # the request has its effect, and its answer is lost
            self._reset()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-thrift")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if lost == "cut":
            self.wfile.write(answer[: len(answer) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(answer)

    def _send_token(self, form: Mapping[str, str]) -> None:
        import base64

        pair = base64.b64encode(f"{PRINCIPAL}:{SECRET}".encode()).decode()
        by_secret = self.headers.get("Authorization") == f"Basic {pair}"
        exchanged = (
            form.items()
            >= {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "subject_token": IDENTITY,
                "scope": "all-apis",
            }.items()
        )
        if by_secret or exchanged:
            self._send(200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})
        else:
            self._send(401, {"error": "invalid_client"})

    def _send(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    """HTTP, and HTTPS where a client begins with a handshake."""

    daemon_threads = True
    page_rows = 50
    history_hides: Sequence[str] = ()
    """The fields that the history leaves out."""
    request_queue_size = 64

    def __init__(self, port: int, service: Service, model: Model) -> None:
        self.service, self.model = service, model
        self.throttles, self.resets = itertools.cycle([429, 503]), itertools.cycle([True, False])
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate())
        super().__init__(("127.0.0.1", port), Handler)

    def set(self, settings: Mapping[str, Any]) -> None:
        """Change the failures, the delay, the poison, and the prompt file that answers fit."""
        self.service.fail = settings.get("fail", {})
        self.service.statements.history_late_s = settings.get("history_late", 0.0)
        self.service.statements.denied = settings.get("denied", {})
        self.history_hides = settings.get("history_hides", [])
        self.model.delay_s, self.model.poison = settings.get("delay", 0.0), settings.get("poison", "")
        self.model.obeys = settings.get("model") == "obedient"
        self.model.fit(settings.get("answers"), settings.get("answers_fail", {}))

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its thread, where a handshake may take its time."""
        with contextlib.suppress(OSError):
            first = request.recv(1, socket.MSG_PEEK)
            if first and first[0] == _HANDSHAKE:
                request = self._tls.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell what failed, but for clients that went away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Model:
    """A model that depends on the prompt alone: answers that fit the prompt file's output, or the response format."""

    def __init__(self, delay_s: float, prompt_file: str | None) -> None:
        self.delay_s, self.poison, self.log, self.obeys = delay_s, "", ModelLog(), False
        self._by_format: dict[str | None, MockModel] = {}
        self.fit(prompt_file)

    def fit(self, prompt_file: str | None, failures: Mapping[str, float] | None = None) -> None:
        """Give the answers of ``run --mock`` of a prompt file from now on, with failures."""
        self._fixed = MockModel(load(prompt_file).schema, failures=failures or None) if prompt_file else None

    def __call__(self, call: spark.AiCall) -> spark.AiAnswer:
        """Answer one call, which was asked before its delay. A prompt with the poison fails its statement."""
        made = self._answer(call)
        self.log.add(call, made)
        began = time.monotonic()
        while time.monotonic() < began + self.delay_s:  # a test that changes the delay ends it
            time.sleep(min(HELD_S, self.delay_s))
        if self.poison and self.poison in (call.request or ""):
            raise RuntimeError("the model's service failed for a request")
        return made

    def _answer(self, call: spark.AiCall) -> spark.AiAnswer:
        if self.obeys:
            given = call.model_parameters or {}
            heat, schema = given.get("temperature"), schema_of(call.response_format)
            obeyed = reply(call.request or "", schema, heat, given.get("max_tokens", DEFAULT_MAX_TOKENS))
            return spark.AiAnswer(obeyed.text, obeyed.error)
        if self._fixed is None:
            return spark.AiAnswer(self._text(call))
        (made,) = self._fixed.answers([Request("", 1, call.request or "")])
        return spark.AiAnswer(made.response, made.call_error)

    def _text(self, call: spark.AiCall) -> str:
        schema = schema_of(call.response_format)
        if schema is None:
            return json.dumps({"answer": call.request})
        if call.response_format not in self._by_format:
            self._by_format[call.response_format] = MockModel(normalise(schema, columns=False)[0])
        return self._by_format[call.response_format].text(call.request or "")


def _share(written: str) -> tuple[str, float]:
    kind, _, share = written.partition("=")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"kinds are {', '.join(KINDS)}")
    return kind, float(share)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.standins.databricks", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds of each answer of the model")
    parser.add_argument("--fail", type=_share, action="append", default=[], metavar="KIND=SHARE")
    parser.add_argument("--seed", type=int, default=0, help="of the failures")
    parser.add_argument("--answers", help="a prompt file whose output the answers fit")
    options = parser.parse_args()

    for noisy in ("SQLQueryContextLogger", "sqlglot"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    model = Model(options.delay, options.answers)
    statements = Statements()
    spark.register_ai_query(model, statements.is_cancelled)
    server = Server(options.port, Service(statements, dict(options.fail), random.Random(options.seed)), model)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening https://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    server.serve_forever(0.1)


if __name__ == "__main__":
    main()

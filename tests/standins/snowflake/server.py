"""Snowflake's HTTP protocol, as far as snowflake-connector-python 4.x and 5.x use it, before the interpreter.

``python -m tests.standins.snowflake --port 0`` prints ``listening http://127.0.0.1:PORT``. Connect with that host and
port, ``protocol="http"``, any account, user and password. A statement goes on when its client is gone.

``POST /tables`` makes a table: ``{"name": "RAW.T", "columns": {"ID": "VARCHAR"}, "rows": [["1"]]}``. ``GET /tables``
has the names of all. ``GET /calls`` has each model call, and ``POST /calls`` clears the list. ``GET /statements`` has
id, tag, text and seconds of each statement, ``GET /sessions`` the parameters of each session. ``POST /settings``
changes what the command line set: see SETTINGS. ``POST /once`` of ``{"kinds": [...]}`` lets one statement that asks
each meet these faults. ``POST /clear`` forgets tables, calls and settings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import socket
import struct
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Timer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sqlenrich.llm.messages import Request
from sqlenrich.llm.mock.model import MockModel
from sqlenrich.spec.loader import load
from tests.standins.control import ASKED, LATE_S, LOST, Control, Once
from tests.standins.snowflake.calls import Model, elsewhere, obedient
from tests.standins.snowflake.values import SqlType
from tests.standins.snowflake.warehouse import DATABASE, Answer, Statement, Warehouse, wire

FAULTS = ("throttle", "restart", "reset", "session", "statement", "asked")
"""A request that is refused as too many, one that meets a restart, one whose answer is lost (the first of two after it
was done), a session that is gone, and a statement with model calls that fails before it asks, or after it."""
ANSWER = {"label": "a"}
SETTINGS: Mapping[str, Any] = {
    "fail": {},
    "delay": 0.0,
    "password": "",
    "poison": "",
    "answers": "",
    "answers_fail": {},
    "model": "",
    "usage": True,
    "history_late": 0.0,
    "running_as": "RUNNING",
    "denied": {},
}
"""``fail``: fault to share of requests. ``delay``: seconds that a statement with model calls takes. ``password``: the
only one that is taken, any where it is empty. ``poison``: a text in a prompt that fails its statement. ``answers``: a
prompt file, for which the answers are those of ``run --mock``, with the failures ``answers_fail``; empty: the same
answer to all. ``model``: ``obedient``, which does what a prompt asks, or ``elsewhere``, the same with its answers at
unknown places, instead. ``usage``: whether the view of usage may be read. ``history_late``: seconds for
which a statement is missing from the history. ``running_as``: the status of one that runs. ``denied``: what
the role may not write."""
MODELS = {"": None, "obedient": Model(obedient), "elsewhere": Model(elsewhere)}
WAIT_S = 45.0
"""How long a request waits for its result before it says that the statement is in progress."""
NAMES = {"NUMBER": "fixed", "VARCHAR": "text", "FLOAT": "real", "NULL": "text"}
_RESULT = re.compile(r"/queries/([0-9a-fA-F-]{36})/result")
_STATUS = re.compile(r"/monitoring/queries/([0-9a-fA-F-]{36})")
_ABORT = re.compile(r"/queries/([0-9a-fA-F-]{36})/abort-request")


def answer_of(prompt_file: str, failures: Mapping[str, float]) -> Answer:
    """The model of ``sqlenrich run --mock`` for a prompt file, else one fixed answer."""
    if not prompt_file:
        return lambda _: (ANSWER, None)
    model = MockModel(load(prompt_file).schema, failures=failures)

    def answer(prompt: str) -> tuple[Any, str | None]:
        (made,) = model.answers([Request("", 1, prompt)])
        return made.response, made.call_error

    return answer


class Server(ThreadingHTTPServer):
    """Serves one account."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.control, self.once = Control(SETTINGS, FAULTS), Once()
        self.warehouse = Warehouse(answer_of("", {}))
        self.warehouse.fails_after = lambda: self.control.fault(ASKED) is not None or bool(self.once.take(ASKED))
        self.warehouse.fails = lambda: self.control.fault("statement") is not None
        self.sessions: dict[str, dict[str, Any]] = {}
        self.logins: list[dict[str, Any]] = []

    def set(self, changes: Mapping[str, Any]) -> None:
        """Change settings. Raises ValueError for an unknown one."""
        self.control.set(changes)
        self._apply()

    def clear(self) -> None:
        """Forget tables, calls and settings."""
        self.control.clear()
        self.once.set(())
        self.warehouse.clear()
        self.warehouse.calls.clear()
        self._apply()

    def _apply(self) -> None:
        control = self.control
        self.warehouse.delay_s, self.warehouse.history_late_s = control["delay"], control["history_late"]
        self.warehouse.running_as, self.warehouse.denied = control["running_as"], control["denied"]
        self.warehouse.poison = control["poison"]
        self.warehouse.model = MODELS[control["model"]]
        self.warehouse.usage_granted = control["usage"]
        self.warehouse.answer = answer_of(control["answers"], control["answers_fail"])


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        self._answer(json.loads(raw or b"{}"))

    def _answer(self, body: Any) -> None:
        path = re.sub("//+", "/", urlsplit(self.path).path)
        if path in ("/calls", "/clear", "/once", "/tables", "/statements", "/sessions", "/settings"):
            self._control(path, body)
            return
        if path == "/session/v1/login-request":
            self._send(self._login(body["data"]))
            return
        fault = self.server.control.fault("throttle", "restart", "reset", "session")
        late = fault == "reset" and self.server.control.reset_comes_late()
        if fault in ("throttle", "restart"):
            self._send({}, 429 if fault == "throttle" else 503)
            return
        if fault == "session":
            self.server.sessions.pop(self._token(), None)
        if fault == "reset" and not late:
            self._reset()
            return
        lost = self.server.once.take(*LOST) if _asks(body) else ""
        if lost == "late":
            Timer(LATE_S, self._reply, (path, body)).start()
            self._reset()
            return
        reply = self._reply(path, body)
        if lost == "twice":
            self._reply(path, body)
        if late or lost in ("reply", "cut"):
            self._reset()
        else:
            self._send(reply)

    def _control(self, path: str, body: Any) -> None:
        warehouse, post = self.server.warehouse, self.command == "POST"
        match path:
            case "/settings" if post:
                self.server.set(body)
            case "/clear" if post:
                self.server.clear()
            case "/once" if post:
                self.server.once.set(body["kinds"])
            case "/tables" if post:
                warehouse.put(body["name"], body["columns"], body["rows"])
            case "/tables":
                self._send(warehouse.tables())
                return
            case "/calls" if post:
                warehouse.calls.clear()
            case "/calls":
                self._send(list(warehouse.calls))
                return
            case "/statements":
                found = list(warehouse.statements.values())
                names = ("id", "tag", "sql", "seconds")
                self._send([{name: getattr(each, name) for name in names} for each in found])
                return
            case "/sessions":
                self._send(self.server.logins)
                return
        self._send({})

    def _token(self) -> str:
        found = re.search(r'Token="([^"]*)"', self.headers.get("Authorization") or "")
        return found[1] if found else ""

    def _login(self, data: Mapping[str, Any]) -> dict[str, Any]:
        wanted = self.server.control["password"]
        if wanted and data.get("PASSWORD") != wanted:
            return _failure("390100", "Incorrect username or password was specified.", {"nextAction": "RETRY_LOGIN"})
        token = str(uuid.uuid4())
        self.server.sessions[token] = dict(data.get("SESSION_PARAMETERS") or {})
        self.server.logins.append(dict(self.server.sessions[token]))
        given = [{"name": name, "value": value} for name, value in self.server.sessions[token].items()]
        known = {"AUTOCOMMIT": True, "PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON", "CLIENT_TELEMETRY_ENABLED": False}
        (database,) = parse_qs(urlsplit(self.path).query).get("databaseName", [""])
        self.server.sessions[token][DATABASE] = database
        place = dict.fromkeys(("databaseName", "schemaName", "warehouseName", "roleName"))
        return _success(
            {
                "token": token,
                "masterToken": f"master {token}",
                "validityInSeconds": 3600,
                "masterValidityInSeconds": 14400,
                "serverVersion": "10.30.0",
                "sessionId": len(self.server.sessions),
                "parameters": given + [{"name": name, "value": value} for name, value in known.items()],
                "sessionInfo": place,
            }
        )

    def _reply(self, path: str, body: Any) -> dict[str, Any]:
        session = self.server.sessions.get(self._token())
        if session is None:
            return _failure("390111", "Session no longer exists. New login required to access the service.", None)
        warehouse, asked = self.server.warehouse, parse_qs(urlsplit(self.path).query)
        if path == "/queries/v1/query-request":
            tag = (body.get("parameters") or {}).get("QUERY_TAG") or session.get("QUERY_TAG") or ""
            statement = warehouse.submit(body["sqlText"], tag, asked.get("requestId", [""])[0], session)
            return self._progress("333334", statement) if body.get("asyncExec") else self._result(statement)
        if found := _STATUS.fullmatch(path):
            return _status(warehouse.statements.get(found[1]), found[1], self.server.control["running_as"])
        if found := _RESULT.fullmatch(path):
            statement = warehouse.statements[found[1]]
            return self._result(statement)
        if found := _ABORT.fullmatch(path):
            warehouse.cancel(found[1])
        elif path == "/queries/v1/abort-request":
            for each in list(warehouse.statements.values()):
                if each.request_id == body.get("requestId"):
                    warehouse.cancel(each.id)
        elif path == "/session" and asked.get("delete") == ["true"]:
            self.server.sessions.pop(self._token(), None)
        return _success({})

    def _result(self, statement: Statement) -> dict[str, Any]:
        if not statement.done.wait(WAIT_S):
            return self._progress("333333", statement)
        result = statement.result
        if result is None:
            number, state = statement.code
            failed = {"errorCode": f"{number:06d}", "sqlState": state, "queryId": statement.id}
            return _failure(f"{number:06d}", statement.error, failed)
        rows = [
            [wire(value, kind) for value, kind in zip(row, result.columns.values(), strict=True)] for row in result.rows
        ]
        data: dict[str, Any] = {
            "parameters": [{"name": "TIMEZONE", "value": "UTC"}],
            "rowtype": [_column(name, kind) for name, kind in result.columns.items()],
            "rowset": rows,
            "total": len(rows),
            "returned": len(rows),
            "queryId": statement.id,
            "queryResultFormat": "json",
            "statementTypeId": 0x3100 if result.changed else 0x1000,
            "sqlState": "00000",
            "numberOfBinds": 0,
            "arrayBindSupported": False,
            "version": 1,
        }
        return _success(data)

    def _progress(self, code: str, statement: Statement) -> dict[str, Any]:
        data = {"queryId": statement.id, "getResultUrl": f"/queries/{statement.id}/result"}
        return {"success": True, "code": code, "message": None, "data": {**data, "queryAbortsAfterSecs": 300}}

    def _send(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _reset(self) -> None:
        """Close with RST, as a connection that a network lost."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _asks(body: Any) -> bool:
    tag = (body.get("parameters") or {}).get("QUERY_TAG") if isinstance(body, dict) else None
    return '"step":"responses"' in (tag or "")


def _success(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"success": True, "code": None, "message": None, "data": dict(data)}


def _failure(code: str, message: str, data: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"success": False, "code": code, "message": message, "data": data}


def _status(statement: Statement | None, id: str, running_as: str) -> dict[str, Any]:
    if statement is None:
        return _success({"queries": []})
    found: dict[str, Any] = {
        "id": id,
        "status": statement.status if statement.done.is_set() else running_as,
        "errorCode": None,
        "errorMessage": None,
    }
    if statement.status == "FAILED_WITH_ERROR":
        found |= {"errorCode": f"{statement.code[0]:06d}", "errorMessage": statement.error}
    return _success({"queries": [found]})


def _column(name: str, kind: SqlType) -> dict[str, Any]:
    sizes = {"scale": kind.scale, "precision": kind.precision, "length": 16777216, "byteLength": 16777216}
    if kind.name == "TIMESTAMP_NTZ":
        sizes["scale"] = 9
    typed = NAMES.get(kind.name, kind.name.lower())
    return {"name": name, "type": typed, "nullable": True, "database": "", "schema": "", "table": "", **sizes}


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.standins.snowflake", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds of a statement with model calls")
    parser.add_argument("--fail", action="append", default=[], metavar="KIND=SHARE", help=", ".join(FAULTS))
    parser.add_argument("--password", default="", help="the only password that is taken")
    parser.add_argument("--poison", default="", help="a text in a prompt that fails its statement")
    parser.add_argument("--answers", default="", metavar="FILE", help="answer as `run --mock` of this prompt file")
    given = parser.parse_args()
    shares = {kind: float(share) for kind, _, share in (each.partition("=") for each in given.fail)}
    server = Server(given.port)
    names = ("delay", "password", "poison", "answers")
    server.set({"fail": shares, **{name: getattr(given, name) for name in names}})
    print(f"listening http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    server.serve_forever()

"""A proxy between a vendor's client and a stand-in that spoils a share of the requests, as networks do."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = ("dropped", "late", "doubled", "cut")
"""What becomes of a request: its reply is lost, it arrives after its connection was lost, it arrives twice at the same
moment, its reply ends in the middle."""
LATE_S = 0.7
_OF_THE_CONNECTION = ("connection", "transfer-encoding", "content-length", "keep-alive")
_RESET = struct.pack("ii", 1, 0)


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a port of this machine over HTTP. With a certificate it takes them over TLS."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, share: float, seed: int, certificate: str | None) -> None:
        self.target, self.share, self.met = port, share, Counter[str]()
        self.requests = 0
        self._chance, self._lock = random.Random(seed), threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def fault(self) -> str:
        """Return the fault of the next request; an empty text for none."""
        with self._lock:
            self.requests += 1
            kind = self._chance.choice(FAULTS) if self._chance.random() < self.share else ""
            self.met[kind] += 1
            return kind

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Proxy

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault()
        if fault == "late":
            threading.Timer(LATE_S, self._pass_on, (body,)).start()
            self._reset()
            return
        if fault == "doubled":
            threading.Thread(target=self._pass_on, args=(body,), daemon=True).start()
        status, headers, answer = self._pass_on(body)
        if fault == "dropped":
            self._reset()
            return
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_THE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if fault == "cut":
            self.wfile.write(answer[: len(answer) // 2])
            self._reset()
            return
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815

    def _pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send the request and return the status, the headers and the body of its reply."""
        connection = HTTPConnection("127.0.0.1", self.server.target, timeout=120)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body or None, headers)
            reply = connection.getresponse()
            return reply.status, reply.getheaders(), reply.read()
        finally:
            connection.close()

    def _reset(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def faulty_proxy(port: int, share: float, *, seed: int = 1, certificate: str | None = None) -> Iterator[Proxy]:
    """A proxy of a port while the context lasts. Late requests arrive before it ends."""
    with Proxy(port, share, seed, certificate) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield proxy
        finally:
            time.sleep(LATE_S)
            proxy.shutdown()

"""What stands between a client and an endpoint: TLS, a Unix socket, a proxy that others wrote."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

EVERY_ADDRESS = "0.0.0.0"
"""A name of this machine that is no loopback address: proxies are asked for it."""


def handshake(accepted: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
    """Begin TLS as a server. A refused client is told why: closing over unread bytes would take the alert back."""
    made = tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
    try:
        made.do_handshake()
    except OSError:
        with made, contextlib.suppress(OSError):  # a client that reads nothing more resets the connection
            socket.socket.shutdown(made, socket.SHUT_WR)
            while socket.socket.recv(made, 1 << 16):
                pass
        raise
    return made


@contextlib.contextmanager
def forwarder(url: str, *, tls: ssl.SSLContext | None = None, path: Path | None = None) -> Iterator[int]:
    """Forward connections to the origin of a URL; give the port. With ``path`` it listens on a Unix socket."""
    target = urlsplit(url)
    open_sockets: list[socket.socket] = []

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def forward(accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):  # TLS that fails
            here = accepted if tls is None else handshake(accepted, tls)
            there = socket.create_connection((str(target.hostname), target.port or 0))
            open_sockets.extend((here, there))
            threading.Thread(target=copy, args=(here, there), daemon=True).start()
            copy(there, here)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listening.accept()
                open_sockets.append(accepted)
                threading.Thread(target=forward, args=(accepted,), daemon=True).start()

    family = socket.AF_INET if path is None else socket.AF_UNIX
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", 0) if path is None else str(path))
    listening.listen(128)
    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield 0 if path is not None else int(listening.getsockname()[1])
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()
        for one in (listening, *open_sockets):
            one.close()


@contextlib.contextmanager
def serving(reply: Callable[[Message, bytes], tuple[int, dict[str, str], bytes]]) -> Iterator[str]:
    """An endpoint that a function of a request's headers and body answers; gives its url."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # an answer is one write

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"] or 0))
            status, headers, body = reply(self.headers, sent)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128  # a connection that finds no room here hangs for a minute

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


class ProxyProcess:
    """proxy.py as a process; ``requests()`` gives the lines of its log, one for each connection or request."""

    def __init__(self, folder: Path, password: str | None = None) -> None:
        self.log = folder / "proxy.log"
        self.log.touch()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        options = ["--hostname", "127.0.0.1", "--port", self.port, "--num-workers", 1, "--num-acceptors", 1]
        options += ["--log-file", self.log, "--basic-auth", password] if password else ["--log-file", self.log]
        self._command = [sys.executable, "-m", "proxy", *map(str, options)]

    def __enter__(self) -> ProxyProcess:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < until, "the proxy does not listen"
                time.sleep(0.05)
            else:
                return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def requests(self) -> list[str]:
        """The requests that the proxy logged, ``CONNECT host:port`` or ``POST host:port/path``."""
        return [line for line in self.log.read_text().splitlines() if "CONNECT" in line or "/v1" in line]

"""A module of the tests as a process of its own: a server that goes on when its client is killed, or is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
STOP_S = 10.0


class Process:
    """Runs ``python -m MODULE --port 0 OPTIONS`` while it is entered.

    The module prints one line with the address as its last word, ``listening https://127.0.0.1:4711``, once it takes
    connections. Its log goes to stderr, which is this process's.
    """

    url = ""

    def __init__(self, module: str, *options: object) -> None:
        self.module = module
        self._command = [sys.executable, "-m", module, "--port", "0", *map(str, options)]

    def __enter__(self) -> Self:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if not words:
            raise RuntimeError(f"{self.module} ended with {self._process.wait()} before it listened")
        self.url = words[-1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def port(self) -> int:
        """The port that it chose."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it by a signal to its id, and wait until it has ended."""
        self._process.send_signal(how)
        self._process.wait(STOP_S)

    def get(self, page: str, body: Any = None) -> Any:
        """Return the JSON that a page answers over plain HTTP, POST where there is a body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET" if body is None else "POST", page, None if body is None else json.dumps(body))
            raw = connection.getresponse().read()
        finally:
            connection.close()
        return json.loads(raw) if raw else None

"""The scripted endpoint as a process of its own, for what is measured or killed beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

SCRIPT = Path(__file__).with_name("endpoint.py")


class Program:
    """Runs ``endpoint.py`` with ``options`` while it is entered; its log is a file in ``folder``."""

    url = ""

    def __init__(self, folder: Path, *options: object) -> None:
        self.log = folder / "endpoint.jsonl"
        self._options = [str(option) for option in options]
        self._read = 0

    def __enter__(self) -> Program:
        command = [sys.executable, str(SCRIPT), "--log", str(self.log), *self._options]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip().removeprefix("listening ")
        if not self.url:
            raise RuntimeError(f"the endpoint ended with {self._process.wait()}")
        self._connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def get(self, page: str, body: Any = None) -> Any:
        """Return what a page answers, POST where there is a body."""
        sent = None if body is None else json.dumps(body)
        self._connection.request("GET" if body is None else "POST", page, sent)
        raw = self._connection.getresponse().read()
        return json.loads(raw) if raw else None

    def stats(self) -> dict[str, Any]:
        """Return the counts."""
        return dict(self.get("/stats"))

    def reset(self) -> None:
        """Begin to count anew; the log goes on."""
        self.get("/reset", {})

    def settled(self, timeout_s: float = 30.0) -> dict[str, Any]:
        """Wait until nothing is under way; give the counts."""
        until = time.monotonic() + timeout_s
        while (stats := self.stats())["in_flight"]:
            if time.monotonic() > until:
                raise TimeoutError(f"{stats['in_flight']} requests are still under way")
            time.sleep(0.005)
        return stats

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the log that were not given before."""
        if self._process.poll() is None:
            self.stats()
        with self.log.open("rb") as file:
            file.seek(self._read)
            raw = file.read()
        self._read += len(raw)
        return [json.loads(line) for line in raw.splitlines()]

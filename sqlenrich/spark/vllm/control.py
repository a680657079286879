"""The driver's end of the fleet: keepers and tasks connect to it. TCP, a line of JSON a message, a random token.

The first line of a connection has the token, and says whether a keeper or a task is there; anything else is cut off
without a word. A keeper is told its settings, and tells the state of its server until the connection ends. A task whose
executor has a keeper waits until the other executors have theirs, so that each executor gets a task.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from sqlenrich.core.errors import RunError
from sqlenrich.core.loop_thread import LoopThread
from sqlenrich.spark.vllm.keeper import ServerSettings
from sqlenrich.spark.vllm.status import ServerStatus

HELLO_S = 10.0
"""A connection that has not said who it is after this time is closed."""
STOPPED_S = 15.0
"""A keeper has ended this time after the longest time that its server may take to end."""
SILENT_CHECKS = 6
"""A keeper is taken for gone where it says nothing for the time of this many health checks."""


class Control:
    """Listens while it is entered. ``settings`` is what each keeper is told."""

    def __init__(self, host: str, port: int, settings: ServerSettings) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port = port
        self._host, self._settings = host, settings
        self._silent_s = SILENT_CHECKS * max(settings.policy.check_s, 1.0)
        self._changed = threading.Condition()
        self._servers: dict[int, ServerStatus | None] = {}
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._placed: set[str] = set()
        self._wanted = 0
        self._go = asyncio.Event()

    def __enter__(self) -> Control:
        self._thread = LoopThread("sqlenrich-fleet")
        self._thread.start()
        try:
            self._server = self._thread.run(asyncio.start_server(self._converse, self._host, self.port))
        except OSError as error:
            self._thread.end()
            raise RunError(
                f"the fleet can't listen at {self._host}:{self.port}: {error.strerror}; set spark.driver.bindAddress "
                "or control_port"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._stop())
        self._thread.end()

    @property
    def keepers(self) -> int:
        """The number of keepers that are connected."""
        return len(self._servers)

    def servers(self) -> list[ServerStatus]:
        """Return the state of each server whose keeper is connected."""
        with self._changed:
            return [status for status in self._servers.values() if status is not None]

    def wait_for(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``done`` is true; it is asked again at each message. Give False where the time is up."""
        with self._changed:
            return self._changed.wait_for(done, timeout_s)

    def begin_placement(self, executors: int) -> None:
        """Begin a round: its tasks wait until so many executors have a keeper, or ``place_s``."""
        self._thread.run(self._begin(executors))

    async def _begin(self, executors: int) -> None:
        self._placed, self._wanted, self._go = set(), executors, asyncio.Event()

    async def _stop(self) -> None:
        """End all servers; a keeper closes its connection once its server is gone."""
        self._server.close()
        self._go.set()
        for writer in self._writers.values():
            writer.write(b'{"stop": true}\n')
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.policy.stop_s + STOPPED_S
        while self._writers and loop.time() < until:
            await asyncio.sleep(0.02)
        for writer in list(self._writers.values()):
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, TimeoutError, asyncio.CancelledError):
            hello = await _read(reader, HELLO_S)
            if hmac.compare_digest(str(hello.get("token")).encode(), self.token.encode()):
                if hello.get("kind") == "keeper":
                    await self._attend(reader, writer)
                elif hello.get("kind") == "task":
                    await self._hold(writer, str(hello["executor"]))
        with suppress(OSError):
            writer.close()

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = id(writer)
        self._writers[number] = writer
        self._set(number, None)
        writer.write(json.dumps(asdict(self._settings)).encode() + b"\n")
        try:
            while told := await _read(reader, self._silent_s):
                status = told["status"]
                self._set(number, ServerStatus(**{**status, "gpus": tuple(status["gpus"])}))
        finally:
            del self._writers[number]
            with self._changed:
                del self._servers[number]
                self._changed.notify_all()

    def _set(self, number: int, status: ServerStatus | None) -> None:
        with self._changed:
            self._servers[number] = status
            self._changed.notify_all()

    async def _hold(self, writer: asyncio.StreamWriter, executor: str) -> None:
        self._placed.add(executor)
        go = self._go
        if len(self._placed) >= self._wanted:
            go.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(go.wait(), self._settings.policy.place_s)
        writer.write(b'{"go": true}\n')
        await writer.drain()


async def _read(reader: asyncio.StreamReader, timeout_s: float) -> Mapping[str, Any]:
    """Return the next message; an empty one at the end of the connection. Raises ValueError for what is none."""
    line = await asyncio.wait_for(reader.readline(), timeout_s)
    message = json.loads(line) if line else {}
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message

"""Keeps one vLLM server alive, and ends with the process that owns it, such as an executor. Standard library only.

A place starts it with one line of JSON on its standard input, a ``Ticket``. It connects to the driver, which tells it
what to run; that connection also carries the server's state, and its end means that the driver is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from sqlenrich.core.version import __version__
from sqlenrich.spark.sockets import end_when_lost
from sqlenrich.spark.vllm.checks import CheckError, Metrics, Server
from sqlenrich.spark.vllm.guard import KILL_S, exit_status
from sqlenrich.spark.vllm.host import OwnServer, Port, publish_server, sweep
from sqlenrich.spark.vllm.policy import LOG_TAIL_LINES, FleetPolicy
from sqlenrich.spark.vllm.processes import adopt_orphans, kill_descendants, start_of
from sqlenrich.spark.vllm.status import GIVEN_UP, READY, STARTING, ServerStatus, with_metrics

SILENT_S = 15.0
"""The driver is gone where it takes no byte for this time."""
HOPELESS = (
    "error: unrecognized arguments: ",
    "error: argument ",
    "error: can't start ",
    "No module named 'vllm",
    "No module named vllm",
    "  Value error, ",
    "HFValidationError: ",
    "RepositoryNotFoundError: ",
    "GatedRepoError: ",
    "outgoing traffic has been disabled",
)
"""What a server's log says where another start would end in the same way: a bad argument, also one that only shows with
the model or the GPUs (Value error), and a model that is not there. Seen on vLLM 0.32, 2026-11-23."""
LOG_END_BYTES = 1 << 18
"""What is read of a server's log."""
IN_USE = "ddress already in use"
DIED = "died unexpectedly"
"""A server's log says this of a process of its own that ended."""


@dataclass(frozen=True)
class Ticket:
    """What a place tells the keeper that it starts: the driver, its name, and a folder for the server's log.

    ``owner`` is the process with which the keeper ends, such as an executor, and ``owner_start`` its start, as
    ``start_of`` gives it.
    """

    driver: tuple[str, int]
    token: str = field(repr=False)
    executor: str
    owner: int
    owner_start: int
    gpus: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class ServerSettings:
    """What the driver tells each keeper.

    ``command`` has everything but the host, the port and the number of ranks; an empty program is this Python.
    ``room``: the requests that a server works on at a time for each task of its executor. ``gpus_per_rank``: the GPUs
    that one tensor-parallel rank needs; None where the user set the number of ranks.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    key: str = field(repr=False)
    room: int
    gpus_per_rank: int | None
    policy: FleetPolicy

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> ServerSettings:
        """Return the settings of a message."""
        return cls(**{**told, "command": tuple(told["command"]), "policy": FleetPolicy(**told["policy"])})


class _End(NamedTuple):
    """Why a server ended, whether it was ready before, and whether another start would end in the same way."""

    reason: str
    was_ready: bool
    hopeless: bool = False


class Keeper:
    """Starts the server, looks after it, starts it again; until its owner or the driver ends."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._folder = Path(ticket.folder)
        self._status = ServerStatus("", STARTING, ticket.executor, ticket.gpus)
        self._port: Port | None = None
        self._key, self._room = "", 1
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Keep the server until its owner ends, the driver ends or says so, or SIGTERM comes."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        try:
            owner = os.pidfd_open(self._ticket.owner)
        except ProcessLookupError:
            return
        if start_of(self._ticket.owner) != self._ticket.owner_start:
            return
        loop.add_reader(owner, ended.set)
        reader, writer = await asyncio.open_connection(*self._ticket.driver)
        host = self._join(writer)
        if not (line := await reader.readline()):
            return
        settings = ServerSettings.of(json.loads(line))
        self._key, self._room = settings.key, settings.room
        serving = asyncio.create_task(self._serve(host, settings))
        telling = asyncio.create_task(self._tell(writer, settings.policy))
        said = asyncio.create_task(reader.readline())  # the driver says one thing more at most: the end
        told = asyncio.create_task(ended.wait())
        await asyncio.wait({serving, telling, said, told}, return_when=asyncio.FIRST_COMPLETED)
        for task in (serving, telling, said, told):  # the driver hears from it until the server is gone
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        kill_descendants(KILL_S)
        self._publish(None)
        if self._port is not None:
            self._port.close()
        writer.close()

    def _join(self, writer: asyncio.StreamWriter) -> str:
        """Say who it is; give the address by which this host reaches the driver."""
        connection: socket.socket = writer.get_extra_info("socket")
        end_when_lost(connection, SILENT_S)
        _send(writer, {"kind": "keeper", "token": self._ticket.token, "version": __version__})
        return str(connection.getsockname()[0])

    async def _tell(self, writer: asyncio.StreamWriter, policy: FleetPolicy) -> None:
        """Tell the driver the server's state: at once where it changed, and regularly as a sign of life."""
        while True:
            self._changed.clear()
            _send(writer, {"status": asdict(self._status)})
            await writer.drain()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), policy.check_s)

    async def _serve(self, host: str, settings: ServerSettings) -> None:
        """Start the server, again whenever it ends, until it is given up."""
        try:
            reason = await self._serve_until_given_up(host, settings)
        except Exception as error:
            reason = f"its keeper failed: {error!r}"
        self._update(state=GIVEN_UP, reason=reason, pid=None)
        await asyncio.Event().wait()

    async def _serve_until_given_up(self, host: str, settings: ServerSettings) -> str:
        policy = settings.policy
        starts: deque[float] = deque()
        never_ready = 0
        while True:
            starts.append(time.monotonic())
            while starts[0] < starts[-1] - policy.starts_within_s:
                starts.popleft()
            end = await self._start(host, settings)
            never_ready = 0 if end.was_ready else never_ready + 1
            if end.hopeless:
                return end.reason
            if never_ready >= policy.most_starts:
                return self._with_log(f"{end.reason}; {never_ready} starts in a row were never ready")
            if len(starts) >= policy.most_starts:
                return self._with_log(f"{end.reason}; {len(starts)} starts within {policy.starts_within_s:g} s")
            self._update(reason=end.reason)

    async def _start(self, host: str, settings: ServerSettings) -> _End:
        """Run the server once."""
        if self._port is None:
            self._port = Port(host)
        number = self._port.number
        url = f"http://[{host}]:{number}/v1" if ":" in host else f"http://{host}:{number}/v1"
        with (self._folder / "server.log").open("wb") as log:
            guard = await self._spawn([*self._command(settings), "--host", host, "--port", str(number)], settings, log)
        self._update(state=STARTING, url=url, starts=self._status.starts + 1, pid=guard.pid)
        ended = asyncio.create_task(guard.wait())
        judged = asyncio.create_task(self._judge(Server(url, settings.key), settings.policy))
        try:
            await asyncio.wait({ended, judged}, return_when=asyncio.FIRST_COMPLETED)
            was_ready = self._status.state == READY
            self._update(state=STARTING)
            if not ended.done():
                return _End(judged.result(), was_ready)
            if self._line_of((IN_USE,)) is not None:
                self._port.close()
                self._port = None
            if not was_ready and (said := self._line_of(HOPELESS)) is not None:
                return _End(said, was_ready, hopeless=True)
            status = f"it ended with exit status {exit_status(ended.result())}"
            cause = self._line_of((DIED,))
            return _End(f"{status}: {cause}" if cause else status, was_ready)
        finally:
            judged.cancel()
            await _end(guard, ended, settings.policy)

    def _command(self, settings: ServerSettings) -> list[str]:
        program, *arguments = settings.command
        command = [program or sys.executable, *arguments]
        if settings.gpus_per_rank is not None and self._ticket.gpus:
            command += ["--tensor-parallel-size", str(len(self._ticket.gpus) // settings.gpus_per_rank)]
        return command

    async def _spawn(
        self, command: Sequence[str], settings: ServerSettings, log: IO[bytes]
    ) -> asyncio.subprocess.Process:
        guard = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sqlenrich.spark.vllm.guard",
            stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if self._ticket.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(self._ticket.gpus)
        environment |= {**settings.environment, "VLLM_API_KEY": settings.key}
        assert guard.stdin is not None
        told = {"command": command, "environment": environment, "stop_s": settings.policy.stop_s}
        guard.stdin.write(json.dumps(told).encode() + b"\n")
        return guard

    async def _judge(self, server: Server, policy: FleetPolicy) -> str:
        """Wait until the server is ready, then as long as it works. Give why it must be started again."""
        if (reason := await _until_ready(server, policy)) is not None:
            return reason
        self._update(state=READY)
        failed = 0
        progress, progressed_at = -1.0, 0.0
        while True:
            await asyncio.sleep(policy.check_s)
            try:
                metrics = await server.health(policy.answer_s)
            except CheckError as error:
                failed += 1
                if failed >= policy.failed_checks:
                    return f"{failed} health checks in a row failed: {error}"
                continue
            failed = 0
            self._set(with_metrics(self._status, metrics))
            now = time.monotonic()
            if metrics.running == 0 or metrics.tokens_in + metrics.tokens_out != progress:
                progress, progressed_at = metrics.tokens_in + metrics.tokens_out, now
            elif now - progressed_at >= policy.stall_s:
                return f"it processed no token for {policy.stall_s:g} s with {metrics.running:g} requests running"

    def _update(self, **changes: Any) -> None:
        """Change the state; a server that is not ready has no load."""
        status = replace(self._status, **changes)
        ready = status.state == READY
        self._publish(OwnServer(status.url, self._room) if ready else None)
        self._set(status if ready else with_metrics(status, Metrics()))

    def _publish(self, server: OwnServer | None) -> None:
        publish_server(self._ticket.owner, self._ticket.owner_start, server)

    def _set(self, status: ServerStatus) -> None:
        self._status = status
        self._changed.set()

    def _log(self) -> list[str]:
        with (self._folder / "server.log").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_END_BYTES))
            text = file.read().decode("utf-8", "replace")
        return text.replace(self._key, "***").splitlines()

    def _with_log(self, reason: str) -> str:
        return "\n".join([f"{reason}; the end of its log:", *self._log()[-LOG_TAIL_LINES:]])

    def _line_of(self, words: Sequence[str]) -> str | None:
        """Return the last line of the server's log with one of these words, less pydantic's account of the input."""
        found = (line for line in reversed(self._log()) if any(word in line for word in words))
        line = next(found, None)
        return None if line is None else line.partition(" [type=")[0].strip()


async def _until_ready(server: Server, policy: FleetPolicy) -> str | None:
    """Wait until the server has generated a text. Give why it must be started again, None where it is ready."""
    until = time.monotonic() + policy.ready_s
    failed = 0
    problem = "it does not listen"
    while time.monotonic() < until:
        try:
            model = await server.model(policy.answer_s)
        except CheckError as error:
            problem = str(error)
        else:
            try:
                await server.generate(model, policy.generate_s)
                return None
            except CheckError as error:
                problem, failed = str(error), failed + 1
            if failed >= policy.failed_checks:
                return f"it listens, but {failed} trials to generate a text failed: {problem}"
        await asyncio.sleep(policy.poll_s)
    return f"it was not ready after {policy.ready_s:g} s: {problem}"


async def _end(guard: asyncio.subprocess.Process, ended: asyncio.Task[int], policy: FleetPolicy) -> None:
    """End the server and all that it started."""
    assert guard.stdin is not None
    guard.stdin.close()
    await asyncio.wait({ended}, timeout=policy.stop_s + KILL_S)
    if not ended.done():
        guard.kill()
    kill_descendants(KILL_S)  # what a guard that was killed left


def lock_file(folder: Path) -> Path:
    """Return the file that a keeper with this folder holds locked while it runs."""
    return folder.with_name(folder.name + ".lock")


def _send(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


def main() -> None:
    """Keep the server of the ticket on standard input."""
    told = json.loads(sys.stdin.readline())
    ticket = Ticket(**{**told, "driver": tuple(told["driver"]), "gpus": tuple(told["gpus"])})
    adopt_orphans()
    sweep()
    try:
        asyncio.run(Keeper(ticket).run())
    finally:
        shutil.rmtree(ticket.folder, ignore_errors=True)
        lock_file(Path(ticket.folder)).unlink(missing_ok=True)


if __name__ == "__main__":
    main()

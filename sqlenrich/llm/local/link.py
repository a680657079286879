"""How a run is connected to the process of a local model: by pipes to its own, or by a socket to a shared one."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

WORKER = (sys.executable, "-m", "sqlenrich.llm.local.worker")
START_S = 60.0
"""A shared process listens within this time; it loads afterwards."""
_POLL_S = 0.02
_STARTED: list[int] = []
"""The shared processes that this process has started, so that none stays a zombie."""
_PEER = struct.Struct("3i")
"""The process, the user and the group of the other end of a socket: unix(7)."""


@dataclass(frozen=True)
class ProcessPlace:
    """Where a process of a local model runs: the variables that it gets beside those of the run, and who shares it.

    ``shared`` is a path: all processes of the host that name it ask one process. None: the run has its own.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    shared: Path | None = None


class Link(Protocol):
    """A connection to the process of a model. ``end`` and ``leave`` are for any thread."""

    read: IO[bytes]
    write: IO[bytes]

    def end(self) -> None:
        """End the process at once."""
        ...

    def leave(self) -> None:
        """Wait no longer for a reply; a process that is nobody else's ends at once."""
        ...

    def close(self, wait_s: float) -> str:
        """Close the connection. Return how the process ended, which has this time where it is nobody else's."""
        ...


class OwnLink:
    """The pipes of a process that a run has started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.read: IO[bytes] = process.stdout
        self.write: IO[bytes] = process.stdin
        self._process = process

    def end(self) -> None:
        """End the process at once."""
        self._process.kill()

    leave = end

    def close(self, wait_s: float) -> str:
        """Let the process end by itself for a time. Return how it ended."""
        with suppress(OSError):
            self.write.close()
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.read.close()
        return _end_of(self._process.returncode)


class SharedLink:
    """A socket to a process that others ask too."""

    def __init__(self, connection: socket.socket) -> None:
        self.read: IO[bytes] = connection.makefile("rb")
        self.write: IO[bytes] = connection.makefile("wb")
        self._connection = connection

    def end(self) -> None:
        """End the process at once."""
        listening = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        with suppress(OSError):
            os.kill(_PEER.unpack(listening)[0], signal.SIGKILL)

    def leave(self) -> None:
        """Wait no longer for a reply."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self, wait_s: float) -> str:  # noqa: ARG002
        """Close the connection."""
        for file in (self.write, self.read, self._connection):
            with suppress(OSError):
                file.close()
        return "its process ended"


def open_link(place: ProcessPlace) -> Link:
    """Start a process, or join a shared one. Raises OSError."""
    return _own(place) if place.shared is None else _join(place, place.shared)


def _own(place: ProcessPlace) -> Link:
    process = subprocess.Popen(
        WORKER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **place.environment},
        start_new_session=sys.platform != "win32",
    )
    return OwnLink(process)


def _join(place: ProcessPlace, path: Path) -> Link:
    """Connect to the process at a path; start it first where none listens."""
    import fcntl

    with lock_of(path).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # who ends for want of connections has it too
        with short_path(path) as short:
            return SharedLink(_connected(short) or _started(place, path, short))


def _started(place: ProcessPlace, path: Path, short: str) -> socket.socket:
    _STARTED[:] = [pid for pid in _STARTED if _runs(pid)]
    with suppress(FileNotFoundError):
        path.unlink()
    process = subprocess.Popen(
        [*WORKER, str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **place.environment},
        start_new_session=True,
    )
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        if (found := _connected(short)) is not None:
            process.returncode = 0  # nobody waits for it: it may outlive this process
            _STARTED.append(process.pid)
            return found
        time.sleep(_POLL_S)
    process.kill()
    raise OSError(f"the process did not listen at {path}")


def _runs(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _connected(path: str) -> socket.socket | None:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        found.close()
        return None
    return found


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Return a name of a path that a socket may have: at most 107 bytes, whatever folder it lies in."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def lock_of(path: Path) -> Path:
    """Return the file that is locked by who joins, starts or ends a shared process."""
    return path.with_name(f"{path.name}.lock")


def first_message(factory: bytes, *, vectors: bool, timeout_s: float) -> bytes:
    """Return what the process of a class is told first."""
    return pickle.dumps((sys.path, vectors, factory, timeout_s))


def _end_of(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process was ended by signal {-status}"

"""The process of a local model: ``python -m sqlenrich.llm.local.worker`` loads the class once and answers batches.

The first message is what it loads, pickled; each further one is a JSON list of prompts. It answers with JSON:
``{"loaded": true}``; for a batch ``{"begun": true}``, then ``{"answers": [...]}`` or ``{"raised": "..."}``;
``{"broken": "..."}`` for a class that can answer nothing. It ends with its input. With a path as its argument it
listens there, for all processes of a host that share it. What the class prints goes to stderr.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Any

import orjson

from sqlenrich.core.plurals import counted
from sqlenrich.llm.endpoint.response import one_line, storable
from sqlenrich.llm.local.frames import read_frame, write_frame
from sqlenrich.llm.local.link import lock_of, short_path

GRACE_S = 5.0
"""A batch that takes longer than its time by this ends the process, where nobody else ends it."""
LINGER_S = 20.0
"""A shared process to which nobody is connected ends after this time."""


class BrokenError(Exception):
    """What a class returned is no answer to its prompts."""


def answers_of(returned: object, prompts: Sequence[str], *, vectors: bool) -> list[str | None]:
    """Return what a class returned as texts. Raises BrokenError for another number or type."""
    if hasattr(returned, "tolist"):  # an array of NumPy or PyTorch
        returned = returned.tolist()
    if isinstance(returned, str) or not hasattr(returned, "__iter__"):
        raise BrokenError(f"it returned {type(returned).__name__}, not a list of {counted(len(prompts), 'answer')}")
    found = list(returned)
    if len(found) != len(prompts):
        raise BrokenError(f"it returned {counted(len(found), 'answer')} to {counted(len(prompts), 'prompt')}")
    return [_vector(one) if vectors else _text(one) for one in found]


def _text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise BrokenError(f"it returned an answer of type {type(value).__name__}, not str")
    return storable(value)


def _vector(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return orjson.dumps([float(number) for number in value]).decode()
    except (TypeError, ValueError):
        raise BrokenError(f"it returned a vector of type {type(value).__name__}, not numbers") from None


class Served:
    """The class of the first message, and the batches that it answers."""

    def __init__(self) -> None:
        self._model: Callable[[list[str]], object] | None = None
        self._vectors = False
        self._timeout_s = 0.0
        self._broken = ""

    def load(self, first: bytes, write: IO[bytes]) -> bool:
        """Load the class, where that is not done; return whether it can answer."""
        try:
            if self._model is None and not self._broken:
                path, self._vectors, factory, self._timeout_s = pickle.loads(first)
                sys.path[:] = path
                self._model = pickle.loads(factory)()
        except BaseException as error:  # a library may exit
            self._broken = _described(error)
        if self._broken:
            _tell(write, broken=self._broken)
            return False
        _tell(write, loaded=True)
        return True

    def answer(self, raw: bytes, write: IO[bytes]) -> None:
        """Answer a batch."""
        assert self._model is not None
        prompts = orjson.loads(raw)
        _tell(write, begun=True)
        # Whoever asked ends this process before, unless it is gone itself.
        faulthandler.dump_traceback_later(self._timeout_s + GRACE_S, exit=True)
        try:
            reply: dict[str, object] = {
                "answers": answers_of(self._model(list(prompts)), prompts, vectors=self._vectors)
            }
        except BrokenError as error:
            reply = {"broken": str(error)}
        except Exception as error:
            reply = {"raised": _described(error)}
        finally:
            faulthandler.cancel_dump_traceback_later()
        _tell(write, **reply)


def serve(read: IO[bytes], write: IO[bytes]) -> None:
    """Load the class of the first message and answer batches until the input ends."""
    served = Served()
    first = read_frame(read)
    if first is None or not served.load(first, write):
        return
    while (raw := read_frame(read)) is not None:
        served.answer(raw, write)


def serve_shared(path: Path, linger_s: float = LINGER_S) -> None:
    """Listen at a path, and answer whoever connects, one batch at a time; end where nobody is connected."""
    import fcntl  # not on Windows

    served = Served()
    files: dict[socket.socket, tuple[IO[bytes], IO[bytes]]] = {}
    told: set[socket.socket] = set()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening, DefaultSelector() as selector:
        with short_path(path) as short:
            listening.bind(short)
        listening.listen()
        selector.register(listening, EVENT_READ)
        while True:
            ready = selector.select(None if files else linger_s)
            if not ready:
                with lock_of(path).open("ab") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)  # nobody connects now
                    if selector.select(0):
                        continue
                    path.unlink(missing_ok=True)
                    return
            for connection in [key.fileobj for key, _ in ready]:
                assert isinstance(connection, socket.socket)
                if connection is listening:
                    new, _ = listening.accept()
                    files[new] = new.makefile("rb"), new.makefile("wb")
                    selector.register(new, EVENT_READ)
                    continue
                read, write = files[connection]
                with suppress(OSError):
                    if (raw := read_frame(read)) is not None:
                        if connection in told:
                            served.answer(raw, write)
                            continue
                        told.add(connection)
                        if served.load(raw, write):
                            continue
                        with lock_of(path).open("ab") as lock:
                            fcntl.flock(lock, fcntl.LOCK_EX)  # nobody connects now
                            path.unlink(missing_ok=True)
                            waiting = [pair for one, pair in files.items() if one not in told]
                            waiting += _accepted(listening)
                        for other_read, other_write in waiting:
                            with suppress(OSError):
                                if (raw := read_frame(other_read)) is not None:
                                    served.load(raw, other_write)
                        return
                selector.unregister(connection)
                del files[connection]
                told.discard(connection)
                connection.close()


def _accepted(listening: socket.socket) -> list[tuple[IO[bytes], IO[bytes]]]:
    """Accept who waits to be connected."""
    found: list[tuple[IO[bytes], IO[bytes]]] = []
    listening.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            new, _ = listening.accept()
            new.setblocking(True)
            found.append((new.makefile("rb"), new.makefile("wb")))
    return found


def _tell(write: IO[bytes], **facts: object) -> None:
    write_frame(write, orjson.dumps(facts))


def _described(error: BaseException) -> str:
    text = str(error)
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def main() -> None:
    """Serve at a path, or on what were the standard input and output; both are taken from the class."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends this process
    read, write = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    if sys.argv[1:]:
        serve_shared(Path(sys.argv[1]))
    else:
        serve(read, write)


if __name__ == "__main__":
    main()

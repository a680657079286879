"""The process of a local model as the run sees it: started, asked, restarted, ended."""

from __future__ import annotations

import importlib
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import orjson

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.llm.local.frames import read_frame, write_frame

WORKER = (sys.executable, "-m", "sqlenrich.llm.local.worker")
_PICKLERS = ("cloudpickle", "pyspark.cloudpickle")
"""What pickles a class of a script or a notebook by its value."""


@dataclass(frozen=True)
class ProcessPolicy:
    """Times of a model's process, in seconds, and how often it may end."""

    load_s: float = 1800.0
    """Loading may take this long."""
    end_s: float = 5.0
    """An idle process has this time to end by itself."""
    most_rows: int = 3
    """The run ends where this many rows, each asked alone, ended the process without an answer between."""


class DiedError(Exception):
    """The process ended, or was ended, before it answered."""


class RaisedError(Exception):
    """The class raised an exception for a batch."""


def pickled(factory: Callable[[], object], name: str) -> bytes:
    """Return a class for another process. Raises ConfigError for one that can't be pickled."""
    try:
        data = pickle.dumps(factory)
        if b"__main__" not in data:  # another process has another main module
            return data
    except Exception:
        data = b""
    for module in _PICKLERS:
        try:
            found: ModuleType = importlib.import_module(module)
        except ImportError:
            continue
        try:
            return bytes(found.dumps(factory))
        except Exception as error:
            raise ConfigError(
                f"LocalModel {name}: the class can't be pickled ({type(error).__name__}: {error}); write it in a "
                "module, and load the model in its __init__"
            ) from None
    raise ConfigError(
        f"LocalModel {name}: a class of a script or a notebook needs cloudpickle: pip install cloudpickle, or write it "
        "in a module"
    )


class ModelProcess:
    """Loads a class in a process of its own and asks it batches, from one thread. ``kill`` is for any thread."""

    def __init__(self, name: str, factory: bytes, *, vectors: bool, timeout_s: float, policy: ProcessPolicy) -> None:
        self.name, self.policy, self.timeout_s = name, policy, timeout_s
        self._first = pickle.dumps((sys.path, vectors, factory))
        self._process: subprocess.Popen[bytes] | None = None
        self._fatal: set[str] = set()
        """The prompts that ended the process alone since the last answer."""
        self._killed = False
        self._late = False

    def load(self) -> None:
        """Start the process and load the class. Raises RunError where that fails."""
        self._killed = False
        self._process = process = subprocess.Popen(
            WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=sys.platform != "win32"
        )
        try:
            reply = self._exchange(process, self._first, self.policy.load_s)
        except DiedError as error:
            raise RunError(f"LocalModel {self.name} can't be loaded: {error}") from None
        if "broken" in reply:
            self.end()
            raise RunError(f"LocalModel {self.name} can't be loaded: {reply['broken']}")

    def ask(self, prompts: Sequence[str]) -> list[str | None]:
        """Return the answers to some prompts.

        Raises RaisedError where the class raises, DiedError where its process ends, and RunError where it can't be
        used: it gives no answers of the right number and type, or ends again and again.
        """
        if self._process is None:
            self.load()
        assert self._process is not None
        try:
            reply = self._exchange(self._process, orjson.dumps(list(prompts)), self.timeout_s)
        except DiedError as error:
            if len(prompts) == 1:
                self._fatal.add(prompts[0])
            if len(self._fatal) >= self.policy.most_rows and not self._killed:
                raise RunError(
                    f"LocalModel {self.name}: {error}, for each of {len(self._fatal)} rows asked alone; look at what "
                    "it printed"
                ) from None
            raise
        if "broken" in reply:
            raise RunError(f"LocalModel {self.name}: {reply['broken']}")
        if "raised" in reply:
            raise RaisedError(reply["raised"])
        self._fatal.clear()
        found: list[str | None] = reply["answers"]
        return found

    def end(self) -> None:
        """End the process: by itself where it is idle, else at once."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(0 if self._killed else self.policy.end_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def kill(self) -> None:
        """End the process at once; a batch under way raises DiedError."""
        self._killed = True
        if (process := self._process) is not None:
            process.kill()

    def _exchange(self, process: subprocess.Popen[bytes], data: bytes, timeout_s: float) -> dict[str, Any]:
        """Send a message and return the reply. Raises DiedError."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._late = False
        timer = threading.Timer(timeout_s, self._end_late, (process,))
        timer.daemon = True
        timer.start()
        reply = None
        try:
            write_frame(process.stdin, data)  # type: ignore[arg-type]
            reply = read_frame(process.stdout)  # type: ignore[arg-type]
        except OSError:
            pass
        finally:
            timer.cancel()
        if reply is not None:
            found: dict[str, Any] = orjson.loads(reply)
            return found
        self.end()
        raise DiedError(f"no answer for {timeout_s:g} s" if self._late else _end_of(process.returncode))

    def _end_late(self, process: subprocess.Popen[bytes]) -> None:
        self._late = True
        process.kill()


def _end_of(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process was ended by signal {-status}"

"""The process of a local model as the run sees it: started, asked, restarted, ended."""

from __future__ import annotations

import importlib
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import orjson

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.llm.local.frames import read_frame, write_frame
from sqlenrich.llm.local.link import Link, ProcessPlace, first_message, open_link

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
    most_joins: int = 5
    """How often a shared process is joined that ends before it answers once: it was being killed already."""
    join_delay_s: float = 0.1
    most_restarts: int = 100
    """The run ends where batches of others ended a shared process this many times before it began one."""


class DiedError(Exception):
    """The process ended, or was ended, before it answered."""


class NotBegunError(Exception):
    """A process that others share ended before it began this batch."""


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

    def __init__(
        self,
        name: str,
        factory: bytes,
        *,
        vectors: bool,
        timeout_s: float,
        policy: ProcessPolicy,
        place: ProcessPlace | None = None,
    ) -> None:
        self.name, self.policy, self.timeout_s = name, policy, timeout_s
        self._first = first_message(factory, vectors=vectors, timeout_s=timeout_s)
        self._place = place or ProcessPlace()
        self._link: Link | None = None
        self._fatal: set[str] = set()
        """The prompts that ended the process alone since the last answer."""
        self._killed = False
        self._late = False

    def load(self) -> None:
        """Start the process and load the class. Raises RunError where that fails."""
        self._killed = False
        attempts = 1 if self._place.shared is None else self.policy.most_joins
        while True:
            attempts -= 1
            try:
                self._link = link = open_link(self._place)
                reply = self._exchange(link, self._first, self.policy.load_s)
                break
            except OSError as error:
                raise RunError(f"LocalModel {self.name} can't be loaded: {error}") from None
            except DiedError as error:
                # A process that is being killed still takes connections for a moment.
                if not attempts or self._killed or self._late:
                    raise RunError(f"LocalModel {self.name} can't be loaded: {error}") from None
                time.sleep(self.policy.join_delay_s)
        if "broken" in reply:
            self.end()
            raise RunError(f"LocalModel {self.name} can't be loaded: {reply['broken']}")

    def ask(self, prompts: Sequence[str]) -> list[str | None]:
        """Return the answers to some prompts.

        Raises RaisedError where the class raises, DiedError where its process ends, and RunError where it can't be
        used: it gives no answers of the right number and type, or ends again and again.
        """
        data = orjson.dumps(list(prompts))
        for _ in range(self.policy.most_restarts):
            try:
                reply = self._asked(data)
            except NotBegunError:  # others share the process, and a batch of theirs ended it
                continue
            except DiedError as error:
                if len(prompts) == 1:
                    self._fatal.add(prompts[0])
                if len(self._fatal) >= self.policy.most_rows and not self._killed:
                    raise RunError(
                        f"LocalModel {self.name}: {error}, for each of {len(self._fatal)} rows asked alone; look at "
                        "what it printed"
                    ) from None
                raise
            if "broken" in reply:
                raise RunError(f"LocalModel {self.name}: {reply['broken']}")
            if "raised" in reply:
                raise RaisedError(reply["raised"])
            self._fatal.clear()
            found: list[str | None] = reply["answers"]
            return found
        raise RunError(
            f"LocalModel {self.name}: its process ended {self.policy.most_restarts} times before it began; look at "
            "what it printed"
        )

    def end(self) -> str:
        """End the process: by itself where it is idle, else at once. Return how it ended."""
        link, self._link = self._link, None
        return "" if link is None else link.close(0 if self._killed else self.policy.end_s)

    def kill(self) -> None:
        """End the process at once; a batch under way raises DiedError."""
        self._killed = True
        if (link := self._link) is not None:
            link.leave()

    def _asked(self, data: bytes) -> dict[str, Any]:
        """Send a batch and return the reply. Raises NotBegunError and DiedError."""
        if self._link is None:
            self.load()
        assert self._link is not None
        try:
            begun = self._exchange(self._link, data, None)
        except DiedError:
            if self._place.shared is None or self._killed:
                raise
            raise NotBegunError from None
        assert "begun" in begun
        return self._exchange(self._link, None, self.timeout_s)

    def _exchange(self, link: Link, data: bytes | None, timeout_s: float | None) -> dict[str, Any]:
        """Send a message, where there is one, and return the next reply. Raises DiedError."""
        self._late = False
        timer = None if timeout_s is None else threading.Timer(timeout_s, self._end_late, (link,))
        if timer is not None:
            timer.daemon = True
            timer.start()
        reply = None
        try:
            if data is not None:
                write_frame(link.write, data)
            reply = read_frame(link.read)
        except OSError:
            pass
        finally:
            if timer is not None:
                timer.cancel()
        if reply is not None:
            found: dict[str, Any] = orjson.loads(reply)
            return found
        ended = self.end()
        raise DiedError(f"no answer for {timeout_s:g} s" if self._late else ended)

    def _end_late(self, link: Link) -> None:
        self._late = True
        link.end()

"""A folder of answers that several processes share: each appends to a file of its own and reads those of the others."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import orjson

from sqlenrich.core.errors import RunError
from sqlenrich.llm.messages import Answer
from sqlenrich.spark.journal import Journal

SUFFIX = ".answers.jsonl"
_BLOCK = 1 << 20


class _Others:
    """The answers of another process's file: the places of its whole lines, as far as they were read."""

    def __init__(self, path: Path) -> None:
        self.path, self.end = path, 0
        self._file = os.open(path, os.O_RDONLY)

    def new_lines(self) -> Iterable[tuple[int, bytes]]:
        """Return the whole lines that were not read before, each with its place."""
        left, at = b"", self.end
        while block := os.pread(self._file, _BLOCK, at):
            at += len(block)
            *whole, left = (left + block).split(b"\n")
            for line in whole:
                yield self.end, line
                self.end += len(line) + 1

    def line(self, place: int) -> bytes:
        """Return the line at a place."""
        size = 1 << 12
        while (end := (found := os.pread(self._file, size, place)).find(b"\n")) < 0:
            size *= 16
        return found[:end]

    def close(self) -> None:
        os.close(self._file)


class AnswerFolder:
    """Finds and keeps answers in a folder. Use it as a context manager; for one thread at a time.

    Two processes that ask the same request at the same time both pay for it: a coordinator prevents that.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}{SUFFIX}"
        self._own = Journal(self.folder / name)
        self._others: dict[Path, _Others] = {}
        self._places: dict[str, list[tuple[_Others, int]]] = {}

    def __enter__(self) -> Self:
        """Open or make the folder. Raises RunError where that fails."""
        self._own.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._own.__exit__()
        for other in self._others.values():
            other.close()

    def find(self, hashes: Iterable[str]) -> list[Answer]:
        """Return all answers to some requests."""
        self._refresh()
        found = []
        for hashed in hashes:
            attempt = 1
            while (row := self._own.get(hashed, attempt)) is not None:
                found.append(_answer(row))
                attempt += 1
            found += [_answer(orjson.loads(other.line(place))) for other, place in self._places.get(hashed, ())]
        return found

    def keep(self, answers: Sequence[Answer]) -> None:
        """Make answers durable. Raises RunError where the disk takes none."""
        rows = [{**answer._asdict(), "asked_at": answer.asked_at.isoformat()} for answer in answers]
        self._own.add(*rows)
        self._own.sync()

    def _refresh(self) -> None:
        try:
            paths = sorted(self.folder.glob(f"*{SUFFIX}"))
        except OSError as error:
            raise RunError(f"{self.folder} can't be read: {error.strerror}") from None
        for path in paths:
            if path == self._own.path:
                continue
            if path not in self._others:
                self._others[path] = _Others(path)
            other = self._others[path]
            for place, line in other.new_lines():
                if (hashed := _hash_of(line)) is not None:
                    self._places.setdefault(hashed, []).append((other, place))


def _hash_of(line: bytes) -> str | None:
    """Return the request of a line; None for a damaged one."""
    try:
        return str(orjson.loads(line)["request_hash"])
    except (ValueError, KeyError, TypeError):
        return None


def _answer(row: Any) -> Answer:
    return Answer(**{**row, "asked_at": datetime.fromisoformat(row["asked_at"])})

"""The journal: answers that are paid for and not yet in a table, in a locked file that is only appended to."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import orjson

from sqlenrich.core.errors import RunError
from sqlenrich.core.lease import LeasePolicy, wait_for
from sqlenrich.spark.file_lease import FileHolder, FileLease, pause

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

ADVICE = (
    "free space there, or name another folder as the journal of the target, and run again: what is answered is not "
    "paid again"
)
"""What to do where the disk is full."""
BUSY = "another run writes the same answers ({path}): wait for its end"
"""What is said where another process has the file."""
Row = Mapping[str, Any]
"""An answer: the columns of ``responses`` that a client fills, by name."""


class Journal:
    """One file with a line of JSON for each answer. Memory holds the places of the lines only.

    A line that a dead process left half written is removed when the file is opened. Each method may be called from any
    thread. Use it as a context manager: one process has it open at a time. ``advice``: what to do if its disk is full;
    ``busy``: what is said where another process has it.

    Where other machines may use the folder, a lock of the kernel may not reach them: ``policy`` is that of a lease. The
    file of a lease is its own, so that a run that was frozen, and writes when it wakes, spoils no other one.
    """

    def __init__(
        self, path: Path, advice: str = ADVICE, policy: LeasePolicy | None = None, *, busy: str = BUSY
    ) -> None:
        self.path, self.advice, self.busy = path, advice, busy
        self._lease = None if policy is None else FileLease(path.with_name(f"{path.name}.lease"), policy)
        self._lock = threading.Lock()
        self._places: dict[tuple[bytes, int], int] = {}
        self._file = -1
        self._end = self._synced = 0

    def __enter__(self) -> Self:
        """Open or make the file. Raises RunError where another process has it open."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._lease is not None:
                self._open_leased(self._lease)
                return self
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise RunError(f"{self.path} can't be written: {error.strerror}") from None
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._file)
                raise RunError(self.busy.format(path=self.path)) from None
        self._read()
        return self

    def _open_leased(self, lease: FileLease) -> None:
        """Take the lease. Raises RunError where a run that lives has it."""
        shared, poll_s = self.path, lease.policy.poll_s
        try:
            wait_for(lease, poll_s, take=False, pause=pause, waits=lambda _: None, busy=self._busy)
            lease.keep()
            self._take_over(shared, lease.id)
        except BaseException:
            lease.close()
            raise

    def _take_over(self, shared: Path, id: str) -> None:
        """Open a file of this lease's own, and take what dead runs left in theirs."""
        left = [path for path in (shared, *shared.parent.glob(f"{shared.name}.*.rows")) if path.exists()]
        self.path = shared.with_name(f"{shared.name}.{id}.rows")
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        for path in left:
            with path.open("rb") as file:
                self.add(*(row for row in map(_row_of, file) if row is not None))
        self.sync()
        for path in left:
            path.unlink(missing_ok=True)

    def _busy(self, holder: FileHolder) -> RunError:
        whose = f"host {holder.host}, process {holder.pid}"
        return RunError(f"another run writes the same answers ({self.path}; {whose}): wait for its end")

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        if not self._places:
            self.path.unlink(missing_ok=True)
        if self._lease is not None:
            self._lease.close()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: tuple[str, int]) -> bool:
        return _packed(*key) in self._places

    def keys(self) -> list[tuple[str, int]]:
        """Return the request and the attempt of each answer."""
        with self._lock:
            return [_unpacked(packed) for packed in self._places]

    def add(self, *rows: Row) -> None:
        """Append answers; :meth:`sync` makes them durable. Raises RunError, and appends none, where that fails."""
        if self._lease is not None:
            self._look(self._lease.check)
        lines = [orjson.dumps(row) + b"\n" for row in rows]
        with self._lock:
            place = end = self._end
            data = memoryview(b"".join(lines))
            try:
                while data:
                    written = os.pwrite(self._file, data, end)
                    end += written
                    data = data[written:]
            except OSError as error:
                with suppress(OSError):
                    os.ftruncate(self._file, place)  # what follows half a line would be lost with it
                raise self._unwritable(error) from None
            self._end = end
            for row, line in zip(rows, lines, strict=True):
                self._places[_packed(row["request_hash"], row["attempt"])] = place
                place += len(line)

    def hold(self) -> None:
        """Make sure that this run still has the answers.

        Raises LeaseLostError where another one has taken them, RunError where the folder can't be reached.
        """
        if self._lease is not None:
            self._look(self._lease.renew)

    def _look(self, look: Callable[[], None]) -> None:
        try:
            look()
        except OSError as error:
            raise self._unwritable(error) from None

    def sync(self) -> None:
        """Make durable what was added. Raises RunError where that fails."""
        with self._lock:
            end = self._end
        if end > self._synced:
            try:
                os.fdatasync(self._file)
            except OSError as error:
                raise self._unwritable(error) from None
            self._synced = end

    def get(self, request_hash: str, attempt: int) -> Row | None:
        """Return the answer to an attempt of a request, None where there is none."""
        with self._lock:
            place = self._places.get(_packed(request_hash, attempt))
            return None if place is None else orjson.loads(self._line(place))

    def _line(self, place: int) -> bytes:
        """Return the line at a place, which ends before the end of the file."""
        size = _SHORT_LINE
        while (end := (found := os.pread(self._file, size, place)).find(b"\n")) < 0:
            size *= 16
        return found[:end]

    @property
    def end(self) -> int:
        """The place after the last answer."""
        with self._lock:
            return self._end

    def rows(self, end: int | None = None) -> Iterator[Row]:
        """Return the answers up to a place; without one all, but for those that are added meanwhile."""
        yield from self._rows(0, self.end if end is None else end)

    def clear(self, end: int | None = None) -> bool:
        """Forget all answers: they are in a table. False, and none is forgotten, where some stand after ``end``."""
        with self._lock:
            if end is not None and self._end > end:
                return False
            os.ftruncate(self._file, 0)
            self._places.clear()
            self._end = self._synced = 0
            return True

    def _unwritable(self, error: OSError) -> RunError:
        return RunError(
            f"the folder {self.path.parent.absolute()} takes no more answers ({error.strerror}): {self.advice}"
        )

    def _rows(self, start: int, end: int | None = None) -> Iterator[Row]:
        for _, line in self._lines(start, self._end if end is None else end):
            yield orjson.loads(line)

    def _lines(self, place: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Return each whole line and its place."""
        left = b""
        at = place
        while at < end and (block := os.pread(self._file, min(_BLOCK, end - at), at)):
            at += len(block)
            *whole, left = (left + block).split(b"\n")
            for line in whole:
                yield place, line
                place += len(line) + 1

    def _read(self) -> None:
        self._places.clear()
        self._end = 0
        for place, line in self._lines(0, os.fstat(self._file).st_size):
            row = _row_of(line)
            if row is None:
                break  # what follows a damaged line was never acknowledged
            self._places[_packed(row["request_hash"], row["attempt"])] = place
            self._end = place + len(line) + 1
        os.ftruncate(self._file, self._end)
        self._synced = self._end


_BLOCK = 1 << 16
_DIGEST_BYTES = 32
_SHORT_LINE = 1 << 12
"""The bytes that are read for one line, before more are."""


def _row_of(line: bytes) -> Row | None:
    """Return the answer of a line; None for a damaged one."""
    try:
        row = orjson.loads(line)
        _packed(row["request_hash"], row["attempt"])
    except (ValueError, TypeError, KeyError):
        return None
    return row  # type: ignore[no-any-return]


def _packed(request_hash: str, attempt: int) -> tuple[bytes, int]:
    """Return a key in half the memory where the hash is of hexadecimal digits."""
    try:
        return bytes.fromhex(request_hash), attempt
    except ValueError:
        return request_hash.encode(), attempt


def _unpacked(key: tuple[bytes, int]) -> tuple[str, int]:
    packed, attempt = key
    return (packed.hex() if len(packed) == _DIGEST_BYTES else packed.decode()), attempt

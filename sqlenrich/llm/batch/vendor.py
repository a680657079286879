"""The contract of a vendor of batches, and what it takes and gives.

A batch is made in two steps, each of which the caller commits before the next: :meth:`BatchVendor.upload` gives the id
of a file, :meth:`BatchVendor.create` the batch. Neither is ever repeated by itself. After a ReplyLostError ask
:meth:`BatchVendor.find_upload` or :meth:`BatchVendor.find`, and adopt what is there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from sqlenrich.llm.batch.errors import BatchError
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion

BatchState = Literal["validating", "in_progress", "ended", "expired", "cancelled", "failed"]
"""What becomes of a batch. ``expired`` and ``cancelled`` batches may have answers; a ``failed`` one was never begun."""
OPEN: frozenset[BatchState] = frozenset({"validating", "in_progress"})
"""The states of a batch that the vendor still works on."""
Outcome = Literal["answered", "failed", "expired", "cancelled"]
"""What became of a request. ``expired`` and ``cancelled`` ones were never asked, and cost nothing."""

CLOCK_SKEW = timedelta(hours=26)
"""The difference between a vendor's clock and ours that is allowed for: a day, or a wrong time zone."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class BatchRequest(NamedTuple):
    """One request of a batch: the id by which its answer is known, at most 64 characters, and its body."""

    custom_id: str
    body: bytes


@dataclass(frozen=True)
class BatchLimits:
    """What one batch holds at most. ``source`` documents it; ``read_on`` is the day on which that was read."""

    requests: int
    bytes: int
    source: str = ""
    read_on: str = ""

    def lowered(self, requests: int | None = None, bytes: int | None = None) -> BatchLimits:
        """Return these limits with the settings of a user, which can only lower them."""
        return replace(
            self,
            requests=self.requests if requests is None else min(requests, self.requests),
            bytes=self.bytes if bytes is None else min(bytes, self.bytes),
        )


class BatchCounts(NamedTuple):
    """How many requests of a batch came to each end; ``open`` ones have none yet."""

    answered: int = 0
    failed: int = 0
    expired: int = 0
    cancelled: int = 0
    open: int = 0


@dataclass(frozen=True)
class BatchInfo:
    """What a vendor says of a batch.

    ``key`` is ours, None where the vendor keeps none. ``requests`` is 0 where the vendor has not counted them yet.
    ``failure`` is why a batch failed, as the error that its creation would have raised. ``output_files`` hold answers,
    ``error_files`` failures. Times are UTC.
    """

    vendor_id: str
    key: str | None
    state: BatchState
    created_at: datetime
    requests: int
    counts: BatchCounts
    failure: BatchError | None = None
    input_file: str | None = None
    output_files: tuple[str, ...] = ()
    error_files: tuple[str, ...] = ()
    ended_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Whether the vendor still works on it."""
        return self.state in OPEN


class BatchLine(NamedTuple):
    """What became of one request. ``custom_id`` is as the vendor gives it: it may be none of ours, or one twice.

    ``status`` is the HTTP status of its answer, None where the vendor tells none. ``message``, ``code`` and ``param``
    are those of the error, "" where absent.
    """

    custom_id: str
    outcome: Outcome
    completion: Completion | BatchCompletion | None = None
    status: int | None = None
    message: str = ""
    code: str = ""
    param: str = ""
    request_id: str | None = None


@dataclass
class BatchResults:
    """The lines of a batch that has ended, in any order, read as they come. Requests without a line were lost.

    ``gone`` names the files that are no longer there, as far as the lines were read.
    """

    lines: Iterator[BatchLine]
    gone: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[BatchLine]:
        return self.lines


class BatchVendor(Protocol):
    """Takes batches. A context manager, for one thread. Its methods raise :class:`.errors.BatchError`."""

    name: str
    shown: str
    """The place as messages name it, without secrets."""
    limits: BatchLimits

    def __enter__(self) -> BatchVendor: ...

    def __exit__(self, *error: object) -> None: ...

    def request(self, custom_id: str, prompt: str) -> BatchRequest:
        """Return the request for a prompt. Its body is that of a live request."""

    def line(self, request: BatchRequest) -> bytes:
        """Return the line of a request in a file; the sum of their lengths is what ``limits.bytes`` bounds."""

    def upload(self, key: str, lines: Iterable[bytes]) -> str:
        """Send the file of a batch and return its id. Raises OverLimitsError before anything is sent."""

    def find_upload(self, key: str, since: datetime) -> str | None:
        """Return the id of the file of a key that was uploaded since then, None where there is none."""

    def create(self, key: str, file_id: str) -> BatchInfo:
        """Create the batch of an uploaded file. Raises GoneError where the file is not there: upload it again."""

    def find(self, key: str, since: datetime, requests: int, custom_ids: Collection[str]) -> list[BatchInfo]:
        """Return the batches of a key that were created since then, the oldest first.

        A vendor that keeps no key is searched by time and count, then by ``custom_ids``. One that tells no ids before
        it has ended is returned with ``key`` None: it may be ours.
        """

    def state(self, vendor_id: str) -> BatchInfo:
        """Return what the vendor says of a batch now. Raises GoneError where it knows none of that id."""

    def results(self, info: BatchInfo) -> BatchResults:
        """Return the lines of a batch that has ended. Raises GoneError where no file of it is there."""

    def cancel(self, vendor_id: str) -> BatchInfo:
        """Ask for the end of a batch. It stays open until the vendor ends it; what was answered is paid for."""


def checked_key(key: str) -> str:
    """Return a key that a file's name and a vendor's metadata can hold. Raises ValueError."""
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"a batch's key has 1 to 100 letters, digits, _ and -, not {key!r}")
    return key


def oldest_first(found: Sequence[BatchInfo]) -> list[BatchInfo]:
    """Return batches in the order of their creation."""
    return sorted(found, key=lambda info: (info.created_at, info.vendor_id))

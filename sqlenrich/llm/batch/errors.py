"""What a vendor of batches refuses, loses, or can't do.

::

    BatchError                a step of a batch failed; one line
    ├── RefusedBatchError     the vendor takes no batch of this kind: the run can't go on
    │   ├── WrongKeyError         the key is refused
    │   ├── QuotaError            the money or the quota is used up
    │   ├── UnknownModelError     the vendor has no such model
    │   ├── NoBatchesError        the URL or the deployment has no batches
    │   └── OverLimitsError       a file has too many requests or bytes; nothing was sent, or nothing was taken
    ├── EnqueuedLimitError    too many tokens wait already: the next batch is taken once one ends
    ├── GoneError             a file or a batch is no longer there, or never was
    ├── DamagedFileError      a file of answers can't be read
    ├── ReplyLostError        the vendor may have done it: look before it is done again
    └── UnavailableError      nothing was done; the same may succeed later
"""

from __future__ import annotations

from sqlenrich.core.errors import RunError


class BatchError(RunError):
    """A step of a batch failed. The message is one line, without secrets."""


class RefusedBatchError(BatchError):
    """The vendor refuses what every batch of the run would send."""


class WrongKeyError(RefusedBatchError):
    """The key is refused, or has no right to batches."""


class QuotaError(RefusedBatchError):
    """The quota or the money of the account is used up."""


class UnknownModelError(RefusedBatchError):
    """The vendor has no such model."""


class NoBatchesError(RefusedBatchError):
    """The URL or the deployment has no batches."""


class OverLimitsError(RefusedBatchError):
    """A file of requests is over the vendor's limits."""


class EnqueuedLimitError(BatchError):
    """As many tokens or requests wait already as the vendor allows. ``limit`` is that number, None where unknown."""

    def __init__(self, message: str, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class GoneError(BatchError):
    """A file or a batch is not there: it was deleted, it expired, or it belongs to another account."""


class DamagedFileError(BatchError):
    """A file of answers holds what is no answer, or its end is missing."""


class ReplyLostError(BatchError):
    """A call that creates something had no reply: the vendor may have done it."""


class UnavailableError(BatchError):
    """The vendor can't be reached or is busy, and did nothing. ``wait_s`` is the wait that it asks for, or 0."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s

"""Making one batch at a vendor so that it is never made twice: a line of the ledger before each step, and a look for
what a lost reply did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlenrich.core import runtime
from sqlenrich.llm.batch.errors import BatchError, GoneError, ReplyLostError, UnavailableError
from sqlenrich.llm.batch.vendor import BatchInfo, BatchVendor
from sqlenrich.store.batches import Batch, BatchLedger

T = TypeVar("T")


@dataclass(frozen=True)
class CreationPolicy:
    """How long a step of a batch is tried. Times are in seconds."""

    looks_s: tuple[float, ...] = (0.0, 5.0, 15.0, 30.0)
    """The waits before each look for what a lost reply did: a vendor's list may be late."""
    first_delay_s: float = 5.0
    longest_delay_s: float = 60.0
    unavailable_for_s: float = 900.0
    """A vendor that did nothing for so long ends the run."""
    tries: int = 3
    """How often a step is done whose reply is lost and of which the vendor knows nothing."""


@dataclass
class BatchCreation:
    """Sends the requests of a batch and creates it. ``pause`` waits, and returns False where the run is stopped."""

    vendor: BatchVendor
    ledger: BatchLedger
    pause: Callable[[float], bool]
    note: Callable[[str], None]
    policy: CreationPolicy

    def create(self, batch: Batch, lines: Callable[[], Iterable[bytes]]) -> Batch:
        """Return the batch once the vendor has it. Raises BatchError where it does not; its line then says so.

        Where several batches of the vendor may be this one, it is returned as it is: their ends tell which. Where a
        reply is lost again and again and the vendor lists no such batch, the error leaves it to the next run.
        """
        try:
            file_id = self._repeated(
                lambda: self.vendor.upload(batch.key, lines()),
                lambda: self.vendor.find_upload(batch.key, batch.noted_at),
            )
        except BatchError as error:
            self.ledger.write(replace(batch, state="abandoned", unasked=batch.requests, error=str(error)))
            raise
        batch = replace(batch, state="uploaded", file_id=file_id)
        self.ledger.write(batch)
        doubtful = False

        def found() -> BatchInfo | None:
            nonlocal doubtful
            infos = self.candidates(batch)
            doubtful = len(infos) > 1 and infos[0].key is None
            return None if doubtful or not infos else infos[0]

        try:
            info = self._repeated(lambda: self.vendor.create(batch.key, file_id), found, lambda: doubtful)
        except ReplyLostError:
            if doubtful:
                return batch
            raise
        except BatchError as error:
            self.ledger.write(replace(batch, state="abandoned", unasked=batch.requests, error=str(error)))
            raise
        return self._created(batch, info)

    def settle(self, batch: Batch) -> Batch:
        """Return an open batch that the vendor may not have, as it really is: adopted, or abandoned.

        One whose file was never told to be there was not created. One that was about to be created may have been.
        """
        if batch.state == "noted":
            return self._abandoned(batch, "it was not sent")
        for delay in self.policy.looks_s:
            if delay and not self.pause(delay):
                return batch
            try:
                infos = self._available(lambda: self.candidates(batch), runtime.monotonic())
            except UnavailableError:
                if self.pause(0.0):
                    raise
                return batch
            if len(infos) == 1 or (infos and infos[0].key is not None):
                return self._created(batch, infos[0])
            if infos:
                return batch  # one of them may be ours: their ends will tell
        return self._abandoned(batch, "the vendor has no such batch")

    def candidates(self, batch: Batch, *, claimed: bool = False) -> list[BatchInfo]:
        """Return the vendor's batches that may be this one: those of its key alone, where one has it.

        ``claimed``: at last also those that other open batches are taken to be, since one of them may be mistaken.
        """
        owners = {one.batch_id: one for one in self.ledger.batches() if one.batch_id is not None}
        hashes = self.ledger.requests(batch.key).keys()

        def free(info: BatchInfo) -> bool:
            owner = owners.get(info.vendor_id)
            return owner is None or (claimed and owner.open and owner.key != batch.key)

        infos = self.vendor.find(batch.key, batch.noted_at, batch.requests, hashes)
        found = sorted(filter(free, infos), key=lambda info: info.vendor_id in owners)
        named = [info for info in found if info.key is not None]
        for extra in named[1:]:
            if extra.open:  # what it has not asked yet is not paid for
                self.note(f"batch {batch.key} is there twice: {extra.vendor_id} is cancelled")
                self.vendor.cancel(extra.vendor_id)
        return named[:1] or found

    def _created(self, batch: Batch, info: BatchInfo) -> Batch:
        batch = replace(batch, state="created", batch_id=info.vendor_id)
        self.ledger.write(batch)
        return batch

    def _abandoned(self, batch: Batch, why: str) -> Batch:
        batch = replace(batch, state="abandoned", unasked=batch.requests, error=why)
        self.ledger.write(batch)
        self.note(f"batch {batch.key} with {batch.requests:,} requests: {why}; they are asked again")
        return batch

    def _repeated(
        self, step: Callable[[], T], look: Callable[[], T | None], doubtful: Callable[[], bool] = lambda: False
    ) -> T:
        """Return what a step gives, or what a lost reply of it left at the vendor. Raises BatchError.

        It is done again only where the vendor did nothing.
        """
        began, lost = runtime.monotonic(), 0
        while True:
            try:
                return self._available(step, began)
            except ReplyLostError as error:
                lost += 1
                try:
                    found = self._looked(look, doubtful)
                except UnavailableError:  # nobody knows what it did: the next run looks again
                    raise error from None
                if found is not None:
                    return found
                if doubtful() or lost >= self.policy.tries or not self.pause(0.0):
                    raise

    def _looked(self, look: Callable[[], T | None], doubtful: Callable[[], bool]) -> T | None:
        for delay in self.policy.looks_s:
            if delay and not self.pause(delay):
                return None
            try:
                found = self._available(look, runtime.monotonic())
            except GoneError:
                continue
            if found is not None or doubtful():
                return found
        return None

    def _available(self, step: Callable[[], T], began: float) -> T:
        """Return what a step gives. It is repeated while the vendor does nothing. Raises UnavailableError."""
        delay = self.policy.first_delay_s
        while True:
            try:
                return step()
            except UnavailableError as error:
                late = runtime.monotonic() - began > self.policy.unavailable_for_s
                if late or not self.pause(max(error.wait_s, delay)):
                    raise
                delay = min(2 * delay, self.policy.longest_delay_s)

"""Storing the answers of one batch that has ended: each once, whatever a killed run has stored of them already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlenrich.core import runtime
from sqlenrich.core.plurals import counted
from sqlenrich.llm.batch.answers import answer_of, lost_answer, run_failure
from sqlenrich.llm.batch.errors import BatchError, GoneError
from sqlenrich.llm.batch.vendor import BatchInfo, BatchLine, BatchVendor
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.store.batches import Batch, BatchedRequest, BatchLedger


@dataclass
class Collected:
    """What became of the requests of a batch."""

    batch: Batch
    answered: int = 0
    failed: int = 0
    retryable: int = 0
    """Those of ``failed`` that may pass."""
    unasked: int = 0
    """They were not asked: they are pending again, and no attempt is used."""
    cancelled: int = 0
    """Those of ``unasked`` that somebody cancelled."""
    foreign: int = 0
    """The lines of ids that are not ours, which are left aside."""
    tokens_in: int = 0
    tokens_out: int = 0
    failure: BatchError | None = None
    """What every further batch would meet too."""
    notes: list[str] = field(default_factory=list)


@dataclass
class BatchCollection:
    """Reads the lines of a batch. ``store`` takes answers and commits them.

    ``candidates`` gives what else at the vendor may be a batch of ours, where that does not keep its key.
    """

    vendor: BatchVendor
    ledger: BatchLedger
    store: Callable[[Sequence[Answer]], None]
    candidates: Callable[[Batch], Sequence[BatchInfo]]
    sent: frozenset[str]
    """The names of the parameters of every request."""
    committed: int
    """The answers of one commit."""

    def collect(self, batch: Batch, info: BatchInfo) -> Collected:
        """Store the answers of a batch that has ended, then the line that says so.

        Where it was somebody else's, the batch is another one of the vendor from now on, or it is abandoned.
        """
        wanted = self.ledger.requests(batch.key)
        found = Collected(batch)
        gone = self._store_lines(found, info, wanted) if info.failure is None else []
        left = len(wanted) - found.answered - found.failed - found.unasked
        asked = found.answered + found.failed
        if info.failure is not None:
            found.unasked, found.failure = len(wanted), info.failure
            found.notes.append(f"batch {batch.key} was refused: {info.failure}")
        elif found.foreign and left == len(wanted):
            if others := self.candidates(batch):
                found.batch = replace(batch, batch_id=others[0].vendor_id)
                self.ledger.write(found.batch)
                found.notes.append(f"batch {info.vendor_id} is not batch {batch.key}: {found.batch.batch_id} may be")
                return found
            found.unasked = left
            found.notes.append(f"batch {info.vendor_id} is not batch {batch.key}: its requests are asked again")
        elif gone:
            found.unasked += left
            found.notes.append(
                f"batch {batch.key}: the vendor no longer has {', '.join(gone)}; {counted(left, 'request')} without an "
                "answer are asked again"
            )
        found.batch = replace(
            batch,
            state="collected" if asked or found.unasked < len(wanted) else "abandoned",
            at=None,
            ended_at=info.ended_at or runtime.now(),
            answered=found.answered,
            failed=found.failed,
            unasked=found.unasked,
            tokens_in=found.tokens_in,
            tokens_out=found.tokens_out,
            error=None if found.failure is None else str(found.failure),
        )
        self.ledger.write(found.batch)
        if found.foreign:
            found.notes.append(f"batch {batch.key}: {counted(found.foreign, 'line')} of other ids are left aside")
        return found

    def _store_lines(self, found: Collected, info: BatchInfo, wanted: Mapping[str, BatchedRequest]) -> list[str]:
        """Store the answers; return the files that are gone."""
        stored = self.ledger.stored(found.batch)
        seen: set[str] = set()
        part: list[Answer] = []

        def keep(answer: Answer) -> None:
            found.failed += answer.call_error is not None
            found.answered += answer.call_error is None
            found.retryable += answer.retryable
            found.tokens_in += answer.tokens_in or 0
            found.tokens_out += answer.tokens_out or 0
            if answer.request_hash not in stored:
                part.append(answer)
            if len(part) >= self.committed:
                self.store(part)
                part.clear()

        gone: list[str] = []
        for line in self._lines(info, gone):
            asked = wanted.get(line.custom_id)
            if asked is None:
                found.foreign += 1
            elif line.custom_id not in seen:
                seen.add(line.custom_id)
                self._take(found, line, asked, info, keep)
        missing = [asked for request_hash, asked in wanted.items() if request_hash not in seen]
        if info.state in ("cancelled", "expired"):
            found.unasked += len(missing)
            found.cancelled += len(missing) if info.state == "cancelled" else 0
        elif not gone and (seen or not found.foreign):
            for asked in missing:
                keep(lost_answer(_request(asked), model=found.batch.model, asked_at=info.created_at))
        if part:
            self.store(part)
        return gone

    def _take(
        self,
        found: Collected,
        line: BatchLine,
        asked: BatchedRequest,
        info: BatchInfo,
        keep: Callable[[Answer], None],
    ) -> None:
        if line.outcome in ("expired", "cancelled"):
            found.unasked += 1
            found.cancelled += line.outcome == "cancelled"
        elif (failure := run_failure(line, self.sent, self.vendor.shown)) is not None:
            found.unasked += 1
            found.failure = failure
        else:
            model = found.batch.model
            keep(answer_of(line, _request(asked), model=model, sent=self.sent, asked_at=info.created_at))

    def _lines(self, info: BatchInfo, gone: list[str]) -> Iterator[BatchLine]:
        try:
            results = self.vendor.results(info)
            yield from results
            gone += results.gone
        except GoneError as error:
            gone.append(str(error))


def _request(asked: BatchedRequest) -> Request:
    return Request(asked.request_hash, asked.attempt, "", asked.sent_hash)

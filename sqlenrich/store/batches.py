"""The ledger of batches: two tables that are only appended to, beside the tables of the runs.

A batch has a line for each state that it reaches, the last one holds. Its requests are written before its first line,
and both before anything is sent: whatever is lost afterwards, a later run knows what may have been paid for. A batch
that has no last line of ``ENDED`` is open, and its requests are asked by nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlglot import exp

from sqlenrich.core import runtime
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.names import relation
from sqlenrich.core.sql import case, equals, literal
from sqlenrich.core.types import BIGINT, STRING, TIMESTAMP, Type
from sqlenrich.plan.plan import Step
from sqlenrich.store.database import Database, selected
from sqlenrich.store.values import utc_moment

BATCHES, BATCH_REQUESTS = "_sqlenrich_batches", "_sqlenrich_batch_requests"
LedgerState = Literal["noted", "uploaded", "created", "collected", "abandoned"]
STATES: tuple[LedgerState, ...] = ("noted", "uploaded", "created", "collected", "abandoned")
"""What is known of a batch, in order: its requests are written, its file is sent, the vendor has it, its answers are
stored. An abandoned one gives no answers: its requests are pending again."""
ENDED: tuple[LedgerState, ...] = ("collected", "abandoned")
COLUMNS: Mapping[str, Type] = {
    "key": STRING,
    "state": STRING,
    "at": TIMESTAMP,
    "name": STRING,
    "responses": STRING,
    "run_id": STRING,
    "endpoint": STRING,
    "model": STRING,
    "requests": BIGINT,
    "bytes": BIGINT,
    "noted_at": TIMESTAMP,
    "file_id": STRING,
    "batch_id": STRING,
    "ended_at": TIMESTAMP,
    "answered": BIGINT,
    "failed": BIGINT,
    "unasked": BIGINT,
    "tokens_in": BIGINT,
    "tokens_out": BIGINT,
    "error": STRING,
}
REQUEST_COLUMNS: Mapping[str, Type] = {
    "key": STRING,
    "request_hash": STRING,
    "attempt": BIGINT,
    "sent_hash": STRING,
}


@dataclass(frozen=True)
class Batch:
    """A batch as the ledger knows it. Times are UTC. ``endpoint`` holds no secret."""

    key: str
    """The name of its file, and what the vendor keeps beside it."""
    name: str
    """The enrichment's name."""
    responses: str
    """The table of its answers."""
    run_id: str
    """The run that wrote this line."""
    endpoint: str
    model: str
    requests: int
    bytes: int
    noted_at: datetime
    state: LedgerState = "noted"
    at: datetime | None = None
    """When it came to this state."""
    file_id: str | None = None
    batch_id: str | None = None
    """The vendor's id."""
    ended_at: datetime | None = None
    """When the vendor ended it."""
    answered: int | None = None
    failed: int | None = None
    unasked: int | None = None
    """The requests that the vendor did not ask: expired, cancelled, or of a batch that it refused."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    error: str | None = None

    @property
    def open(self) -> bool:
        """Whether its answers may still come."""
        return self.state not in ENDED

    @property
    def seconds(self) -> float | None:
        """How long the vendor took; None while it is open."""
        return None if self.ended_at is None else max(0.0, (self.ended_at - self.noted_at).total_seconds())

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON has them."""
        facts = {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(self).items()
        }
        return {**facts, "seconds": self.seconds}


class BatchedRequest(NamedTuple):
    """A request of a batch: what its answer is stored under."""

    request_hash: str
    attempt: int
    sent_hash: str


@dataclass(frozen=True)
class BatchLedger:
    """The batches whose answers go to one database."""

    database: Database

    def exists(self) -> bool:
        """Tell whether any batch was ever noted here. Raises ConfigError where another version noted it."""
        found = self.database.columns(self._batches)
        if found is not None and (missing := set(COLUMNS) - {name.lower() for name in found}):
            raise ConfigError(
                f"{self.database.home}: {BATCHES} has no column {min(missing)}: another version of sqlenrich made it; "
                "collect its batches with that version, or give another output"
            )
        return found is not None

    def make(self) -> None:
        """Make the tables where they are missing. Raises ConfigError where another version made them."""
        self.exists()
        self.database.append(self._batches, COLUMNS, [])
        self.database.append(self._requests, REQUEST_COLUMNS, [])

    def note(self, batch: Batch, requests: Iterable[BatchedRequest]) -> None:
        """Write the requests of a batch, then its first line: requests without a line are of no batch."""
        self.database.append(self._requests, REQUEST_COLUMNS, [(batch.key, *request) for request in requests])
        self.write(batch)

    def write(self, batch: Batch) -> None:
        """Write a line of a batch."""
        written = {"at": runtime.now(), **{k: v for k, v in asdict(batch).items() if v is not None}}
        row = [written.get(name) for name in COLUMNS]
        plain = [v.astimezone(UTC).replace(tzinfo=None) if isinstance(v, datetime) else v for v in row]
        self.database.append(self._batches, COLUMNS, [plain])

    def batches(self) -> list[Batch]:
        """Return all batches as their last lines tell them, the oldest first; none without a ledger."""
        last: dict[str, Batch] = {}
        for batch in self.lines():
            known = last.get(batch.key)
            if known is None or STATES.index(batch.state) >= STATES.index(known.state):
                last[batch.key] = batch
        return sorted(last.values(), key=lambda one: (one.noted_at, one.key))

    def lines(self) -> Iterator[Batch]:
        """Return all lines of all batches; none without a ledger."""
        if self.exists():
            names = [each.name for each in fields(Batch)]
            for row in self.database.rows(selected(self.database, self._batches, names)):
                yield read_batch(dict(zip(names, row, strict=True)))

    def requests(self, key: str) -> dict[str, BatchedRequest]:
        """Return the requests of a batch by their hashes."""
        query = selected(self.database, self._requests, BatchedRequest._fields).where(equals("key", key))
        found = (BatchedRequest(str(h), int(attempt), str(sent)) for h, attempt, sent in self.database.rows(query))
        return {one.request_hash: one for one in found}

    def stored(self, batch: Batch) -> set[str]:
        """Return the hashes of a batch's requests whose answers are stored already, by a run that was killed."""
        answers, asked = (relation(self.database.engine, table) for table in (batch.responses, self._requests))
        columns = [exp.column(name, table=side) for name in ("request_hash", "attempt") for side in ("a", "r")]
        same = exp.and_(*(exp.EQ(this=a, expression=r) for a, r in (columns[:2], columns[2:])))
        query = (
            exp.select(exp.column("request_hash", table="a"))
            .from_(exp.alias_(answers, "a", table=True))
            .join(exp.alias_(asked, "r", table=True), on=same)
            .where(exp.EQ(this=exp.column("key", table="r"), expression=literal(batch.key)))
        )
        return {str(row[0]) for row in self.database.rows(query)}

    def without_open(self, call: Step) -> exp.Select:
        """Return the pending requests of a call less those of open batches of its table of answers, as they are then.

        A batch is paid for once it is created: nobody else asks its requests.
        """
        assert call.pending is not None
        batches, requests = (relation(self.database.engine, table) for table in (self._batches, self._requests))
        has_ended = case(
            (exp.In(this=exp.column("state"), expressions=[literal(state) for state in ENDED]), literal(1)),
            default=literal(0),
        )
        keys = (
            exp.select("key")
            .from_(batches)
            .where(equals("responses", call.relation))
            .group_by("key")
            .having(exp.EQ(this=exp.Max(this=has_ended), expression=literal(0)))
        )
        asked = (
            exp.select(exp.column("request_hash", table="r"))
            .distinct()
            .from_(exp.alias_(requests, "r", table=True))
            .join(
                keys.subquery("b"),
                on=exp.EQ(this=exp.column("key", table="r"), expression=exp.column("key", table="b")),
            )
        )
        hash_, open_ = exp.column("request_hash", table="p"), exp.column("request_hash", table="o")
        return (
            exp.select(*(exp.column(name, table="p") for name in call.pending.named_selects))
            .from_(call.pending.subquery("p"))
            .join(asked.subquery("o"), on=exp.EQ(this=hash_, expression=open_), join_type="LEFT")
            .where(exp.Is(this=open_.copy(), expression=exp.Null()))
        )

    @property
    def _batches(self) -> str:
        return self.database.named(BATCHES)

    @property
    def _requests(self) -> str:
        return self.database.named(BATCH_REQUESTS)


def read_batch(values: Mapping[str, Any]) -> Batch:
    """Return a line of the ledger from a driver's values."""
    kinds = {name: COLUMNS[name] for name in values}
    read: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            read[name] = None
        elif kinds[name] == TIMESTAMP:
            read[name] = utc_moment(value).replace(tzinfo=UTC)
        else:
            read[name] = int(value) if kinds[name] == BIGINT else str(value)
    return Batch(**read)


def shown_batches(batches: Sequence[Batch]) -> list[Mapping[str, Any]]:
    """Return batches as a report has them."""
    names = ("key", "state", "endpoint", "model", "requests", "answered", "failed", "unasked", "seconds", "error")
    return [{name: facts[name] for name in names} for facts in (one.to_dict() for one in batches)]

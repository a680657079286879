"""The lives of a run's asking by batches: the tables are modelled, the ledger of batches writes to modelled ones."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import sqlenrich as se
from sqlenrich.ask.asker import Asker
from sqlenrich.ask.batch import BatchAsker, BatchPolicy
from sqlenrich.ask.client import ClientAsker
from sqlenrich.ask.progress import Progress
from sqlenrich.llm.messages import Request
from sqlenrich.store.base import CommitPolicy
from sqlenrich.store.batches import BATCH_REQUESTS, BATCHES, COLUMNS, Batch, BatchedRequest, BatchLedger, read_batch
from tests.simulation.asking import Asked, AskingLives, ModelledStore, none_torn
from tests.simulation.lives import BrokenError, lived
from tests.simulation.scenario import Batches, Fault, Scenario, beside_others, by_batches, drawn_run, followed
from tests.simulation.vendor import VendorSide, vendor_maker


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    found = beside_others(by_batches(replace(drawn_run(seed), cascade=False)))
    assert found.batches is not None
    if found.batches.nature.others and not found.batches.nature.keeps_keys:  # it is not clear which batch is whose
        draw = random.Random(f"unheard {seed}")
        unheard = [Fault("vendor", draw.randint(1, 12), "unheard") for _ in range(draw.choice((0, 1, 2)))]
        found = replace(found, faults=(*found.faults, *unheard))
    return followed(replace(found, faults=tuple(none_torn(found.faults))))


@dataclass
class ModelledTables:
    """Two tables that are only appended to. There is a moment before and after each line."""

    lives: BatchingLives
    lines: dict[str, list[Sequence[Any]]] = field(default_factory=lambda: {BATCHES: [], BATCH_REQUESTS: []})

    def named(self, table: str) -> str:
        return table

    def append(self, table: str, columns: object, rows: Sequence[Sequence[Any]]) -> None:  # noqa: ARG002
        self.lives.world.moment("statement")
        self.lines[table] += rows
        self.lives.world.moment("statement")


class ModelledLedger(BatchLedger):
    """The ledger over modelled tables: it writes as the real one does."""

    database: Any

    def lines(self) -> Iterator[Batch]:
        for row in self.database.lines[BATCHES]:
            yield read_batch(dict(zip(COLUMNS, row, strict=True)))

    def requests(self, key: str) -> dict[str, BatchedRequest]:
        return {row[1]: BatchedRequest(*row[1:]) for row in self.database.lines[BATCH_REQUESTS] if row[0] == key}

    def stored(self, batch: Batch) -> set[str]:
        there = {(one.request_hash, one.attempt) for one in self.database.lives.answers}
        return {one.request_hash for one in self.requests(batch.key).values() if one[:2] in there}

    def asked(self) -> set[str]:
        """Return the hashes of the requests of open batches."""
        return {key for one in self.batches() if one.open for key in self.requests(one.key)}


@dataclass
class BatchingStore(ModelledStore):
    """What a batch that is open asks is not pending."""

    ledger: ModelledLedger = field(kw_only=True)

    def pending(self) -> list[Request]:
        asked = self.ledger.asked()
        return [one for one in super().pending() if one.request_hash not in asked]

    @property
    def left(self) -> int:
        return len(super().pending())

    def hold(self) -> None:
        """Nobody else asks."""


@dataclass
class BatchingLives(AskingLives):
    """One seed: all lives of one run's asking by batches."""

    capped_lives: int = 1
    tables: ModelledTables = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tables = ModelledTables(self)

    @property
    def batches(self) -> Batches:
        assert self.scenario.batches is not None
        return self.scenario.batches

    @property
    def endpoint(self) -> se.Endpoint:
        return replace(super().endpoint, batch_requests=self.batches.requests, probe=self.batches.probe)

    def store(self, commits: CommitPolicy) -> ModelledStore:
        return BatchingStore(self, commits, ledger=ModelledLedger(cast("Any", self.tables)))

    def asker(self, store: Any, progress: Progress) -> Asker:
        plan: Any = SimpleNamespace(responses=SimpleNamespace(relation="answers"))
        first = ClientAsker(store, plan, self.origin, progress, lambda _: None, first=1)
        policy = BatchPolicy(vendor=vendor_maker(cast("VendorSide", self.vendor)), wait=self.batches.waits)
        return BatchAsker(first, store.ledger, "intent", policy)

    def measure(self, in_flight: int) -> None:
        """Few requests are sent one by one."""

    def check_no_wait(self, how: str) -> None:
        """Batches are waited for."""

    def check_report(self, report: Asked) -> None:
        life = self.life
        disturbed = life.stopped_at < math.inf or life.halted or report.reached is not None
        if report.pending and self.batches.waits and not disturbed:
            raise BrokenError(f"{report.pending} requests are left, and nothing has stopped the run")
        self.check_calls(report.calls)


def live(scenario: Scenario) -> BatchingLives:
    """Run a scenario. Raises BrokenError."""
    lives: BatchingLives = lived(BatchingLives, scenario)
    return lives

"""The asker of a warehouse alone, over a backend of lists: ranges, halves, caps, rounds, signals."""

# ruff: noqa: ARG002

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

import sqlenrich as se
from sqlenrich.ask.answer_judge import AnswerJudge
from sqlenrich.ask.observer import Stopper
from sqlenrich.ask.progress import Progress
from sqlenrich.ask.rounds import Rounds
from sqlenrich.ask.served_models import ModelPin
from sqlenrich.ask.statements import REQUEST_TOKENS, ChunkPolicy, StatementAsker
from sqlenrich.core.errors import RunError
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.store.base import Origin
from sqlenrich.store.jobs import JobPolicy, JobRunner, Statement, StatementFailedError
from sqlenrich.store.warehouse import Asked, RangeAnswer, RequestRange, WarehouseBackend
from tests.support.warehouse_runs import Recorder

PROMPT_BYTES, MAX_TOKENS = 100, 20
MOST = Decimal(PROMPT_BYTES + REQUEST_TOKENS + MAX_TOKENS)
"""What a request costs at most, at a price of 1 a token."""

JUDGED_BY = se.enrichment("e", prompt="{{ x }}", output={"type": "object", "properties": {"x": {"type": "string"}}})


class Warehouse:
    """Requests by number. A statement with a poisoned one fails after it has asked, and is billed.

    ``failures``: whether each of the first statements fails for a passing reason, and whether after it has asked.
    """

    place = "the warehouse"
    policy = JobPolicy()
    delays = JobRunner.delays

    def __init__(
        self,
        requests: int,
        poisoned: set[int],
        repeatable: int = 0,
        failures: Sequence[str] = (),
        text: str = "{}",
    ) -> None:
        self.text, self.failures = text, list(failures)
        self.left, self.poisoned, self.repeatable = list(range(requests)), poisoned, repeatable
        self.billed: list[int] = []
        self.stored: list[int] = []
        self.failed: list[int] = []
        self.statements: list[int] = []
        self.paused: list[float] = []
        self.jobs = self
        self.stopper = Stopper()

    def next_range(self, call: Any, after: str, most: int, left: int = 0) -> RequestRange | None:
        found = [n for n in self.left if not after or n > int(after)][:most]
        return RequestRange(after, str(found[-1]), len(found), PROMPT_BYTES * len(found)) if found else None

    def ask(self, call: Any, part: RequestRange, chunk: str, tags: Mapping[str, str]) -> Statement:
        asked = [n for n in self.left if (not part.after or n > int(part.after)) and n <= int(part.upto)]
        self.statements.append(len(asked))
        failure = self.failures.pop(0) if self.failures else ""
        if failure:
            error = StatementFailedError(f"the service is down: {failure}")
            error.transient, error.asked = True, failure == "asked"
            self.billed += asked if error.asked else []
            raise error
        self.billed += asked
        if self.poisoned & set(asked):
            raise StatementFailedError("the model failed")
        self.stored += asked
        return Statement("id", None, "responses", None, len(asked), 0.1)

    def answers_of(self, call: Any, asked: RequestRange, most: int) -> list[RangeAnswer]:
        stored = [n for n in self.stored if int(asked.after or -1) < n <= int(asked.upto)]
        return [RangeAnswer(self.text, None, "stop", self.text, "m", "m-2026-01") for _ in stored[:most]]

    def asked_of(self, call: Any, asked: RequestRange) -> Asked:
        stored, failed = (
            sum(int(asked.after or -1) < n <= int(asked.upto) for n in found) for found in (self.stored, self.failed)
        )
        return Asked(stored + failed, failed, self.repeatable, 0, stored * (PROMPT_BYTES // 4), 5 * stored)

    def pending_request(self, call: Any, request_hash: str) -> Request:
        return Request(request_hash, 1, "")

    def append(self, plan: Any, answers: list[Answer], origin: Origin) -> None:
        self.failed += [int(answer.request_hash) for answer in answers]

    def refresh(self, plan: Any, call: Any, limit: Any, *, ordered: bool) -> int:
        done = {*self.stored, *self.failed}
        self.left = [n for n in self.left if n not in done]
        return len(self.left)

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)


def asked(
    warehouse: Warehouse, budget: Budget | None = None, rows: int | None = 8, pin: ModelPin | None = None
) -> Rounds:
    """Ask all requests once, and again what may be repeated."""
    plan, origin = cast(Any, SimpleNamespace(model="m")), Origin("r", None, "f")
    backend = cast(WarehouseBackend, warehouse)
    judge = AnswerJudge(JUDGED_BY)
    progress = Progress(Recorder(), judge, pin)
    asker = StatementAsker(backend, plan, origin, progress, ChunkPolicy(rows), MAX_TOKENS)
    rounds = Rounds(asker, backend, plan, warehouse.stopper, progress)
    choice = cast(Any, SimpleNamespace(budget=budget, price=None, prefix_order=False))
    rounds.ask(choice, cast(Any, "the call"), len(warehouse.left), repeat=True)
    return rounds


@pytest.mark.parametrize(
    ("requests", "rows", "statements"), [(2, 8, [2]), (3, 8, [3]), (20, 8, [3, 8, 8, 1]), (40, None, [3, 30, 7])]
)
def test_the_first_statement_is_the_preflight_and_later_ones_grow(
    requests: int, rows: int | None, statements: list[int]
) -> None:
    warehouse = Warehouse(requests, set())
    rounds = asked(warehouse, rows=rows)
    assert (warehouse.statements, rounds.calls, rounds.progress.stored) == (statements, requests, requests)
    assert warehouse.paused == []


@pytest.mark.parametrize(
    ("wanted", "earlier", "problem"),
    [
        ("m-*", (), None), (True, (), None), (True, ("m-2025-01", "m-2026-01"), None),
        ("m", (), "m is answered by m-2026-01, and pin_model is m: "),
        (True, ("m-2025-01",), "m is answered by m-2026-01, the stored answers are of m-2025-01: "),
    ],
)  # fmt: skip
def test_a_model_that_is_not_pinned_ends_a_run_after_its_first_statement(
    wanted: str | bool, earlier: tuple[str, ...], problem: str | None
) -> None:
    warehouse = Warehouse(20, set())
    pin = ModelPin(wanted, "m", earlier)
    if problem is None:
        assert asked(warehouse, pin=pin).progress.stored == 20
        return
    with pytest.raises(RunError, match=re.escape(problem)):
        asked(warehouse, pin=pin)
    assert warehouse.statements == [3]


def test_one_poisoned_request_costs_at_most_twice_its_statement() -> None:
    warehouse = Warehouse(100, {50})
    asked(warehouse, rows=32)
    assert warehouse.failed == [50]
    assert sorted(warehouse.stored) == [n for n in range(100) if n != 50]
    assert len(warehouse.billed) - 100 <= 2 * 32


@pytest.mark.parametrize("poisoned", [set(), {5}, {4, 5, 9, 30}, set(range(3, 60))], ids=str)
@pytest.mark.parametrize("most", [0, 1, 5, 20, 61, 200])
def test_the_cap_of_cost_holds_although_statements_fail(poisoned: set[int], most: int) -> None:
    """Each submission is billed with the most that its requests may cost."""
    warehouse = Warehouse(60, poisoned)
    budget = Budget(max_cost=float(MOST * most), price=lambda into, _, out: Decimal(into + out))
    asked(warehouse, budget)
    lost = len(warehouse.billed) - len(warehouse.stored)
    counted = len(warehouse.stored) * (PROMPT_BYTES // 4 + 5)
    assert lost * MOST + counted <= MOST * most
    assert budget.reached == (None if len(warehouse.stored) + len(warehouse.failed) == 60 else "max_cost")


@pytest.mark.parametrize(("most", "statements"), [(0, []), (2, [2]), (10, [3, 7]), (60, [3, 8, 8, 1])])
def test_the_cap_of_calls_holds(most: int, statements: list[int]) -> None:
    warehouse = Warehouse(20, set())
    budget = Budget(max_calls=most)
    asked(warehouse, budget)
    assert (warehouse.statements, budget.reached) == (statements, "max_calls" if most < 20 else None)


@pytest.mark.parametrize(
    ("requests", "rows", "statements"),
    [(200, None, [3, 30, 17]), (200, 8, [3, *[8] * 5, 7]), (50, None, [3, 30, 17]), (20, None, [3, 17])],
)
def test_no_more_is_asked_than_tells_that_all_answers_are_refused(
    requests: int, rows: int | None, statements: list[int]
) -> None:
    warehouse, budget = Warehouse(requests, set(), text="Sure!"), Budget()
    rounds = asked(warehouse, budget, rows)
    assert (warehouse.statements, rounds.calls) == (statements, min(requests, 50))
    assert budget.reached == ("stop_after_refused" if requests > 50 else None)


@pytest.mark.parametrize("poisoned", [set(), {5}, {4, 5, 9, 30}, set(range(3, 60))], ids=str)
@pytest.mark.parametrize("failures", [[], ["asked"] * 3, ["", "", "asked", "asked", "not asked"]], ids=str)
@pytest.mark.parametrize("most", [0, 2, 20, 61, 70, 200])
def test_the_cap_of_calls_counts_what_failed_statements_asked(
    poisoned: set[int], failures: list[str], most: int
) -> None:
    warehouse = Warehouse(60, poisoned, failures=failures)
    budget = Budget(max_calls=most)
    rounds = asked(warehouse, budget)
    assert len(warehouse.billed) == rounds.calls <= most
    assert budget.reached == (None if len(warehouse.stored) + len(warehouse.failed) == 60 else "max_calls")


@pytest.mark.parametrize(
    ("failures", "statements", "calls"),
    [
        (["", "asked"], [3, 8, 4, 4, 5], 16 + 8),
        (["", "not asked", "not asked"], [3, 8, 8, 8, 5], 16),
        (["", *["asked"] * 5], [3, 8, 4, 2, 1, 1, 1], 16 + 8 + 4 + 2 + 1 + 1),
    ],
    ids=["halved once", "never started", "down to one request"],
)
def test_a_statement_that_may_have_asked_is_halved_and_one_that_did_not_start_is_repeated(
    failures: list[str], statements: list[int], calls: int
) -> None:
    warehouse = Warehouse(16, set(), failures=failures)
    rounds = asked(warehouse)
    assert warehouse.statements[: len(statements)] == statements
    assert (rounds.calls, len(warehouse.stored), warehouse.failed) == (calls, 16, [])
    assert warehouse.paused == [float(2**n) for n in range(len(failures) - 1)]


def test_a_service_that_stays_down_ends_the_run() -> None:
    warehouse = Warehouse(16, set(), failures=["asked"] * 999)
    warehouse.policy = JobPolicy(retry_for_s=-1.0)
    with pytest.raises(StatementFailedError, match="the service is down"):
        asked(warehouse)
    assert (warehouse.statements, warehouse.failed) == ([3], [])


def test_failures_without_attempts_left_are_not_waited_for() -> None:
    warehouse = Warehouse(10, set(), repeatable=2)
    asked(warehouse)
    assert (warehouse.statements, warehouse.paused) == ([3, 7], [])


def test_a_signal_in_a_failed_statement_asks_no_further_half() -> None:
    warehouse = Warehouse(20, {10})
    told: list[Mapping[str, Any]] = []

    def ask(call: Any, part: RequestRange, chunk: str, tags: Mapping[str, str]) -> Statement:
        if 10 in range(int(part.after or -1) + 1, int(part.upto) + 1):
            warehouse.stopper.stop()
        told.append(part._asdict())
        return Warehouse.ask(warehouse, call, part, chunk, tags)

    warehouse.ask = ask  # type: ignore[method-assign]
    with pytest.raises(StatementFailedError):
        asked(warehouse)
    assert len(told) == 2

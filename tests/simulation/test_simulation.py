"""Some seeds of the simulation; ``make simulate SEEDS=10000`` runs more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from sqlenrich.ask.client import ClientAsker
from sqlenrich.llm.messages import Answer
from sqlenrich.plan.plan import Plan
from sqlenrich.store.base import Origin
from sqlenrich.store.duckdb.backend import DuckDBBackend
from tests.simulation.__main__ import command_of, outcome_of_seed, quiet, shrunk
from tests.simulation.lives import BrokenError, live
from tests.simulation.mutants import MUTANTS
from tests.simulation.scenario import drawn

GROUPS, SEEDS = 4, 16
pytestmark = pytest.mark.filterwarnings("ignore")  # killed processes leave coroutines that are never awaited


@pytest.fixture(autouse=True)
def without_complaints() -> Iterator[None]:
    with quiet():
        yield


@pytest.mark.parametrize("group", range(GROUPS))
def test_what_must_hold_holds_in_every_life(group: int) -> None:
    outcomes = [outcome_of_seed(seed) for seed in range(group * SEEDS + 1, (group + 1) * SEEDS + 1)]
    assert not [f"{one.problem}: {command_of(one.seed)}" for one in outcomes if one.problem]
    assert sum(one.lives for one in outcomes) > SEEDS, "nothing was killed or stopped"
    assert sum(one.faults.total() for one in outcomes) > SEEDS


def test_each_planted_fault_can_be_planted() -> None:
    for mutant in MUTANTS:
        compile(mutant.text(), mutant.file, "exec")


def test_a_seed_replays_exactly() -> None:
    assert live(drawn(13)).world.trace == live(drawn(13)).world.trace


def test_a_lost_commit_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third commit of a process is lost. No fault is needed for that, so that none is left."""
    commits: dict[int, int] = {}
    append = DuckDBBackend.append

    def forgets(self: DuckDBBackend, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        commits[id(self)] = commits.get(id(self), 0) + 1
        if commits[id(self)] != 3:
            append(self, plan, answers, origin)

    monkeypatch.setattr(DuckDBBackend, "append", forgets)
    scenario = drawn(5)
    with pytest.raises(BrokenError, match="answers are lost whose commit had returned"):
        live(scenario)
    assert len(shrunk(scenario)) == len(scenario.faults) > 0


def test_a_request_that_is_sent_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first requests of a round are asked again with the others."""
    ask_first = ClientAsker.ask_first

    def forgets(self: ClientAsker, *, answered: bool) -> None:
        call, pending = self._call, self.left
        ask_first(self, answered=answered)
        assert call is not None
        self.requests = self.backend.requests(call, pending)

    monkeypatch.setattr(ClientAsker, "ask_first", forgets)
    scenario = drawn(6)
    with pytest.raises(BrokenError, match="asked again, although it is answered"):
        live(scenario.without(range(len(scenario.faults))))

"""Some seeds of the simulation; ``make simulate SEEDS=10000`` runs more."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from sqlenrich.ask.client import ClientAsker
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import Plan
from sqlenrich.spark.journal import Journal
from sqlenrich.store.base import Origin
from sqlenrich.store.duckdb.backend import DuckDBBackend
from tests.simulation import asking, fleet, gateway
from tests.simulation.__main__ import SUBJECTS, command_of, outcome_of_seed, quiet, shrunk
from tests.simulation.lives import BrokenError, live, lived
from tests.simulation.mutants import MUTANTS
from tests.simulation.network import PROMPT, answer_to
from tests.simulation.scenario import Fault, with_independent_faults

GROUPS = 4
SEEDS = {"run": 2, "asking": 24, "batching": 24, "gateway": 3, "fleet": 16, "contention": 40}
"""The seeds of each group."""
pytestmark = pytest.mark.filterwarnings("ignore")  # killed processes leave coroutines that are never awaited


@pytest.fixture(scope="module", autouse=True)  # it collects garbage at its end, which takes a second
def without_complaints() -> Iterator[None]:
    with quiet():
        yield


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_must_hold_holds_in_every_life(subject: str, group: int) -> None:
    seeds = range(group * SEEDS[subject] + 1, (group + 1) * SEEDS[subject] + 1)
    outcomes = [outcome_of_seed(subject, seed) for seed in seeds]
    assert not [f"{one.problem}: {command_of(subject, one.seed)}" for one in outcomes if one.problem]
    assert sum(one.lives for one in outcomes) > len(seeds), "nothing was killed or stopped"
    assert sum(one.faults.total() for one in outcomes) > len(seeds)


def test_each_planted_fault_can_be_planted() -> None:
    for mutant in MUTANTS:
        compile(mutant.text(), mutant.file, "exec")


@pytest.mark.parametrize("seed", [5149, 5265])
def test_a_seed_that_failed_once_holds(seed: int) -> None:
    """A batch was created twice where its reply was lost, and then that of the look for it."""
    live(with_independent_faults(seed))


@pytest.mark.parametrize(
    ("seed", "others", "faults"),
    [
        pytest.param(1413, 1.0, (), id="a batch of others was taken for one whose reply was lost"),
        pytest.param(1277, 0.0, (Fault("vendor", 5, "halt"),), id="the last request failed alone, and the run ended"),
    ],
)
def test_a_run_of_a_vendor_that_others_use_holds(seed: int, others: float, faults: tuple[Fault, ...]) -> None:
    found = with_independent_faults(seed)
    assert found.batches is not None
    batches = replace(found.batches, nature=replace(found.batches.nature, others=others))
    live(replace(found, batches=batches, faults=(*found.faults, *faults)))


@pytest.mark.parametrize(
    ("subject", "seed"),
    [
        pytest.param("run", 1059, id="a canary was sent after a stop, to find out whether a request may be halved"),
        pytest.param("run", 20648, id="a canary that had waited for the own rate limit was sent after a stop"),
        pytest.param("run", 21843, id="nine texts at fault, sent with one another, ended each run"),
        pytest.param("run", 25021, id="a batch of another creation was taken for one, and its own was not looked for"),
        pytest.param("run", 226, id="rows at fault that alone were left ended each run"),
        pytest.param("run", 32427, id="a retry of rows that all failed before ended each time"),
        pytest.param("run", 5150, id="the last request whose cost was not known was a canary, and nothing was sent"),
        pytest.param(
            "asking", 541, id="canaries of a silent server used up the own rate limit, and the run never ended"
        ),
        pytest.param("asking", 851, id="max_calls was reached while canaries that were charged waited to be sent"),
        pytest.param("asking", 325, id="max_calls was reached, and requests in flight were abandoned after 10 s"),
        pytest.param("asking", 651, id="no call was left, and a refused request waited to be sent again"),
        pytest.param("asking", 51277, id="no call was left, since the last one had failed, and others waited"),
        pytest.param("asking", 51536, id="no call was left, since a canary had taken it, and a request waited"),
        pytest.param("asking", 63, id="requests whose connection was never made failed for good after three waits"),
        pytest.param("asking", 52783, id="a server that refuses the key answered canaries, and the other was down"),
        pytest.param("asking", 52187, id="a canary waited for the own rate limit after a stop"),
        pytest.param("asking", 53407, id="a connection was waited for after a stop"),
        pytest.param("asking", 71516, id="a run was given up as the canary was answered"),
        pytest.param("asking", 87132, id="the tokens of canaries used up a low limit, and were not given back"),
        pytest.param("asking", 102789, id="the last requests failed some seconds after their last try"),
        pytest.param("batching", 217, id="a vendor that was busy ended a run that looked for a batch of the last one"),
        pytest.param("gateway", 3626, id="under a cap of costs later requests went ahead of one that waited"),
        pytest.param("gateway", 1436, id="who asked again when the only caller left was refused"),
        pytest.param("fleet", 196, id="a look at the model waited for ever for a part of the rate limit"),
        pytest.param("fleet", 90417, id="after an outage all workers gave back at once what they had leased"),
        pytest.param("fleet", 92435, id="a worker had not heard of its last call, which was taken for used"),
        pytest.param("fleet", 53, id="a worker that waits for others held the only place in flight"),
        pytest.param("fleet", 42, id="a worker that had used its calls was waited for to give them back"),
        pytest.param("fleet", 170, id="a failure did not free the place in flight of a worker"),
        pytest.param("fleet", 25, id="a worker without a place in flight held the last call"),
        pytest.param("fleet", 2218, id="a worker waited for what one that was lost might give back of a cap"),
        pytest.param(
            "fleet", 179, id="workers that lacked money held calls, and the run ended before its cap of calls"
        ),
    ],
)
def test_what_failed_once_holds(subject: str, seed: int) -> None:
    draw, live_all = SUBJECTS[subject]
    live_all(draw(seed))


def test_a_run_ends_where_only_a_refused_request_is_left_and_no_call() -> None:
    """The server wants to be left alone for 300 s. Another request has the last call, and is answered after that."""
    drawn = asking.drawn(2)
    scenario = replace(
        drawn, rows=4, texts=4, servers=1, concurrency=2, rpm=None, max_calls=4, max_cost=None, timeout_s=60.0,
        weather=replace(drawn.weather, poison="", rpm=None, latency_s=2.0, spread=0.0), embeds=None,
        faults=(Fault("request", 3, "429", 300.0),),
    )  # fmt: skip
    lives = asking.live(scenario)
    assert lives.lives == 2


def test_rows_at_fault_that_alone_are_left_end_no_run_of_several_workers() -> None:
    """Each of two workers is left with 18 requests that are never answered, and has no answer of its own."""
    texts = [f"{PROMPT}text {number}" for number in range(1000)]
    drawn = fleet.drawn(5)
    weather = replace(drawn.weather, poison="silent", rpm=None)

    class Left(fleet.FleetLives):
        def __post_init__(self) -> None:
            super().__post_init__()
            good = next(one for one in texts if not self.network.poison(one))
            bad = [one for one in texts if self.network.poison(one)][: 18 * self.slots]
            self.prompts = {hashlib.sha256(one.encode()).hexdigest(): one for one in (good, *bad)}
            key, *left = self.prompts
            requests = [Request(one, 1, self.prompts[one]) for one in left]
            self.parts = [requests[number :: self.slots] for number in range(self.slots)]
            (path := self.journal_path(1)).parent.mkdir()
            with Journal(path) as journal:
                answer = {"call_error": None, "response": answer_to(good), "latency_ms": 5}
                journal.add({"request_hash": key, "attempt": 1, **answer})

    scenario = replace(drawn, servers=1, concurrency=16, rpm=None, timeout_s=60.0, faults=(), weather=weather)
    lives = lived(Left, replace(scenario, max_calls=None, max_cost=None))
    assert (lives.slots, lives.lives) == (2, 1)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_seed_replays_exactly(subject: str) -> None:
    draw, lived = SUBJECTS[subject]
    assert lived(draw(13)).world.trace == lived(draw(13)).world.trace


def test_a_lost_commit_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third commit of a process is lost. No fault is needed for that, so that none is left."""
    commits: dict[int, int] = {}
    append = DuckDBBackend.append

    def forgets(self: DuckDBBackend, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        commits[id(self)] = commits.get(id(self), 0) + 1
        if commits[id(self)] != 3:
            append(self, plan, answers, origin)

    monkeypatch.setattr(DuckDBBackend, "append", forgets)
    scenario = with_independent_faults(5)
    with pytest.raises(BrokenError, match="answers are lost whose commit had returned"):
        live(scenario)
    assert len(shrunk("run", scenario)) == len(scenario.faults) > 0


def test_a_gateway_that_gives_an_answer_before_it_is_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "add", lambda *_: None)
    with pytest.raises(BrokenError, match="asked again, although it is stored"):
        gateway.live(gateway.drawn(10))


def test_a_request_that_is_sent_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first requests of a round are asked again with the others."""
    ask_first = ClientAsker.ask_first

    def forgets(self: ClientAsker, *, answered: bool) -> None:
        call, pending = self._call, self.left
        ask_first(self, answered=answered)
        assert call is not None
        self.requests = self.backend.requests(call, pending)

    monkeypatch.setattr(ClientAsker, "ask_first", forgets)
    scenario = with_independent_faults(6)
    with pytest.raises(BrokenError, match="asked again, although it is answered"):
        live(scenario.without(range(len(scenario.faults))))

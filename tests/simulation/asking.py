"""The lives of a run's asking alone: the tables are modelled, so that a seed takes a twentieth of the time."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, cast

from sqlenrich.ask.answer_judge import AnswerJudge, JudgePolicy
from sqlenrich.ask.asker import PREFLIGHT_REQUESTS, Asker
from sqlenrich.ask.client import ClientAsker
from sqlenrich.ask.model_choice import choose_model, wanted_model
from sqlenrich.ask.progress import Progress
from sqlenrich.ask.rounds import Rounds
from sqlenrich.core.errors import RunError, SqlenrichError
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.spec.settings import Config
from sqlenrich.store.backend import evenly
from sqlenrich.store.base import CommitPolicy, Origin
from tests.simulation.faults import AT_END, ENDS, shortest_window
from tests.simulation.lives import IN_TRANSIT_S, MOST_ATTEMPTS, MOST_TIMEOUTS, PRICES, BrokenError, Ended, Lives, lived
from tests.simulation.network import ANSWER_COST, ANSWER_TOKENS, PROMPT, REQUEST_TOKENS, Weather
from tests.simulation.scenario import (
    EMBEDDINGS_EACH,
    EMBEDDINGS_FIRST,
    Fault,
    Scenario,
    drawn_run,
    embedding,
    followed,
    poisoned,
)
from tests.simulation.world import World

CALM_S = 20.0
"""After so long without a failure the client uses what it may."""
BUSY = 0.75
"""The share of the concurrency that is in use then at least, as long as there are requests."""
JITTER_S = 0.05
"""The mean wait before a request is sent again, at least: it is drawn from 0 to 0.5 s and more."""
FEW = 12
"""So many waits have a mean."""
EVEN_S, BURST = 10.0, 0.02
"""In this time there are no more requests than an even rate lets through, and this share of a minute's at once."""
UNKNOWN_TOKENS = 180
"""What a request is taken for before the tokens of an answer are known."""
TOKENS_FIRST, TOKENS_EACH = 4, 8
"""The seeds with a limit of tokens."""
STEADY_FIRST, STEADY_EACH = 2, 8
"""The seeds in which little happens, ..."""
STEADY_TEXTS, STEADY_S = 400, 150.0
"""... and what they ask, in about which time."""
REFUSALS, LOSSES = ("429", "busy"), ("reset", "cut")
SEEN, LOSS_S = 3, 18.0
"""Of so many requests on lost connections one is sent again before this time: it is the shortest timeout but one."""
DECISIVE = 20
"""Where a low rate limit lets few requests through, a life gives up after so many of them without an answer at most."""
MOST_FAILURES = 25
"""A prompt fails so often in a life: 3 attempts have 5 tries each, and some requests show whether a server is well."""
TIMEOUT_LATE_S = 2.0
"""A request is abandoned so long after its timeout at most."""
LOOKS_S = 15.0
"""After so long without a failure no server is looked at by a request that it has answered."""
ENDS_S = 0.5
"""After a stop, and where no request or no call is left, a life ends so long after the last of what is in flight, where
no commit is slow."""
MOST_COST = 1.01
"""What one request costs at most: its answer has 100 tokens."""
OPENED = 4
"""How often each place in flight is given a new connection at most, where none breaks."""
SLOW_S = 0.1
"""Requests that take this long are in flight nearly all of the time."""


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    found = poisoned(drawn_run(seed))
    draw = random.Random(f"asking {seed}")
    faults = [one for one in none_torn(found.faults) if one.moment != "statement"]
    for _ in range(draw.choice((0, 0, 1, 2))):
        faults.append(Fault("request", draw.randint(1, found.texts), draw.choice(("stop", "stop-twice"))))
    if draw.random() < 0.4:
        faults = [one for one in faults if one.kind not in ENDS]
    rpm, cost = int(2 ** draw.uniform(2, 6)), draw.uniform(0.2, 1.2) * ANSWER_COST * found.texts
    found = replace(
        found, cascade=False, faults=tuple(faults),
        rpm=draw.choice((found.rpm, found.rpm, rpm)),
        max_cost=draw.choice((None, found.max_cost, cost)),
    )  # fmt: skip
    if seed % EMBEDDINGS_EACH == EMBEDDINGS_FIRST:
        found = embedding(found)
    if seed % TOKENS_EACH == TOKENS_FIRST:  # half of a request's tokens are never of use
        found = replace(found, rpm=None, tpm=int((draw.randint(11, 24) + 0.5) * REQUEST_TOKENS))
    return steady(found) if seed % STEADY_EACH == STEADY_FIRST else followed(found)


def none_torn(faults: Sequence[Fault]) -> list[Fault]:
    """Return faults of modelled tables: a commit that is torn is none."""
    return [replace(one, kind="kill-before") if one.kind == "torn" else one for one in faults]


def steady(scenario: Scenario) -> Scenario:
    """Return a scenario of many requests in which little happens: it shows how the client comes back from a failure."""
    draw = random.Random(f"steady {scenario.seed}")
    concurrency = draw.choice((4, 8, 16))
    outage = Fault("request", draw.randint(30, 100), draw.choice(("429/1", "busy/1", "500/1")), draw.uniform(2, 10))
    weather = Weather(
        latency_s=STEADY_S * concurrency / STEADY_TEXTS, spread=0.2, poison=draw.choice(("", "", "500", "reset"))
    )
    return replace(
        scenario, rows=STEADY_TEXTS, texts=STEADY_TEXTS, servers=1, concurrency=concurrency, rpm=None, max_calls=None,
        max_cost=None, timeout_s=60.0, weather=weather, faults=(outage,), embeds=None,
    )  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What a life reports."""

    exit_status: int
    calls: int
    pending: int
    reached: str | None
    """The cap that ended it."""

    def to_text(self) -> str:
        return str(self)


@dataclass
class ModelledStore:
    """What an asker needs of a backend: answers are there for good once ``append`` has returned."""

    lives: AskingLives
    commits: CommitPolicy

    def pending(self) -> list[Request]:
        """Return the requests without an answer, or with a last failure that may pass."""
        attempts: dict[str, int] = {}
        settled: set[str] = set()
        for one in self.lives.answers:
            attempts[one.request_hash] = max(attempts.get(one.request_hash, 0), one.attempt)
            if not one.retryable:
                settled.add(one.request_hash)
        return [
            Request(key, attempts.get(key, 0) + 1, prompt)
            for key, prompt in self.lives.prompts.items()
            if key not in settled and attempts.get(key, 0) < MOST_ATTEMPTS
        ]

    @property
    def left(self) -> int:
        """The requests without an answer that is for good."""
        return len(self.pending())

    def requests(self, call: object, pending: int) -> Iterator[Request]:  # noqa: ARG002
        return iter(self.pending())

    def spread(self, call: object, count: int, most: int) -> list[Request]:  # noqa: ARG002
        found = self.pending()
        return [found[place] for place in evenly(count, most)]

    def refresh(self, plan: object, call: object, limit: int | None = None, *, ordered: bool = False) -> int:  # noqa: ARG002
        self.lives.failed.clear()  # a further round asks at once
        return len(self.pending())

    def rows(self, plan: object, query: object) -> list[tuple[str, int | None]]:  # noqa: ARG002
        """Return a request that is answered, the one query of an asker."""
        prompts = self.lives.prompts
        return [(prompts[one.request_hash], one.latency_ms) for one in self.lives.answers if one.call_error is None][:1]

    def append(self, plan: object, answers: Sequence[Answer], origin: Origin) -> None:  # noqa: ARG002
        self.lives.commit(answers, partial(self.lives.answers.extend, answers), RunError("no space left on device"))


class Failed(NamedTuple):
    """A failure that the client has learned of."""

    kind: str
    at: float
    told_s: float
    """The server wants to be left alone for so long."""


@dataclass
class Use:
    """How much of the concurrency is in use while nothing fails."""

    at: float = -math.inf
    """Until when it is measured."""
    failures: int = 0
    """Those until then."""
    troubled_at: float = -math.inf
    calm_s: float = 0.0
    area: float = 0.0
    """The requests in flight, summed over the calm seconds."""

    def measure(self, now: float, in_flight: int, failures: int, down_until: float, *, counts: bool) -> None:
        """Go on to this moment; ``in_flight``: so many were until now. ``counts``: there were more to send."""
        if failures != self.failures:
            self.failures, self.troubled_at = failures, now
        self.troubled_at = max(self.troubled_at, min(now, down_until))
        since = max(self.at, self.troubled_at + CALM_S)
        if counts and since < now:
            self.calm_s += now - since
            self.area += in_flight * (now - since)
        self.at = now


@dataclass
class AskingLives(Lives):
    """One seed: all lives of one run's asking."""

    answers: list[Answer] = field(default_factory=list)
    """Those that are stored."""
    capped_lives: int = 3
    left_at: float = -math.inf
    """When nothing was in flight any more."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The prompts of all requests by their hashes."""
    failed: dict[str, Failed] = field(default_factory=dict)
    """The last failures of the prompts that were not sent again."""
    failed_at: float = -math.inf
    """When a request failed last."""
    troubles: int = 0
    """The failures of texts that are not at fault."""
    timeouts: Counter[str] = field(default_factory=Counter)
    """The timeouts of each prompt in this life."""
    failures: Counter[str] = field(default_factory=Counter)
    """The failures of each prompt in this life, but for refusals."""
    waits: list[float] = field(default_factory=list)
    """The seconds until a refused prompt was sent again, where the server has told none."""
    losses: list[float] = field(default_factory=list)
    """The same where the connection was lost."""
    use: Use = field(default_factory=Use)
    abandoned_s: list[float] = field(default_factory=list)
    """How long requests had been in flight that were abandoned after a cap was reached."""
    budget: Budget = field(default_factory=Budget)
    """That of this life."""
    billed_before: int = 0
    """The answers that the servers had worked on before this life, ..."""
    lost_before: int = 0
    """... and the requests that were lost on closed connections."""
    opened_before: int = 0
    """The connections that were opened before this life, ..."""
    broken_before: int = 0
    """... and those that broke or were to end."""
    unasked: set[str] = field(default_factory=set)
    """The prompts that this life has still to send."""

    def __post_init__(self) -> None:
        super().__post_init__()
        texts = {row["body"]: None for row in self.rows() if row["body"] is not None}
        self.prompts = {sha256(text.encode()).hexdigest(): f"{PROMPT}{text}" for text in texts}

        self.decisive_s = DECISIVE * self.each_s

    @property
    def each_s(self) -> float:
        """The seconds from one request to the next that the own rate limit demands, of tokens at first."""
        rpm, tpm = self.scenario.rpm, self.scenario.tpm
        return max(0.0 if rpm is None else 60.0 / rpm, 0.0 if tpm is None else 60.0 * UNKNOWN_TOKENS / tpm)

    def begin_in(self, world: World) -> None:
        super().begin_in(world)
        network = self.network
        draw = random.Random(f"closes {self.scenario.seed}")
        network.closes_every, network.closes_idle_s = draw.choice((0, 0, 1, 3)), draw.choice((0.0, 0.01, 2.0))
        network.on_misuse = lambda: self.life.problems.append("a request was sent on a connection that was to close")
        network.on_failure, network.on_leave, network.on_abandon = self.on_failure, self.on_leave, self.on_abandon

    def fault_of(self, number: int) -> tuple[str, float] | None:
        """Return what happens to a request. One at which a life ends is answered all the same, or not."""
        found = super().fault_of(number)
        return None if found == AT_END and number % 2 else found

    # What is watched -------------------------------------------------------------------------------------------------

    def on_request(self, prompt: str) -> None:
        super().on_request(prompt)
        self.unasked.discard(prompt)
        now = self.world.seconds
        self.measure(in_flight=self.network.in_flight - 1)  # this one is new
        quiet_s = now - max(self.failed_at, self.life.began, min(self.down_until, now))
        if prompt in self.life.answered and quiet_s > LOOKS_S + self.scenario.timeout_s + 10 * self.each_s:
            self.life.problems.append(f"asked again {quiet_s:.0f} s after the last failure: {prompt!r}")
        failure = self.failed.pop(prompt, None)
        if failure is None or self.scenario.servers > 1 or prompt in self.life.canaries:
            return
        passed_s = now - failure.at
        if passed_s < failure.told_s - IN_TRANSIT_S:
            told = f"told to wait {failure.told_s} s"
            self.life.problems.append(f"sent again after {passed_s:.3f} s, and {told}: {prompt!r}")
        if failure.told_s or self.scenario.embeds is not None:  # several texts are halved at once
            return
        if failure.kind in REFUSALS:
            self.waits.append(passed_s)
        elif failure.kind in LOSSES:
            self.losses.append(passed_s)

    def on_failure(self, kind: str, prompts: tuple[str, ...], told_s: float) -> None:
        """Note what the client learns now of its request."""
        self.trouble(prompts)
        if self.each_s and all(map(self.network.poison, prompts)):
            self.life.pass_gap(self.world.seconds)
            self.life.failed_rows_at = self.world.seconds
        self.failed |= dict.fromkeys(prompts, Failed(kind, self.world.seconds, told_s))
        if kind not in REFUSALS:
            self.failures.update(prompts)
            if len(prompts) == 1 and self.scenario.embeds is None and self.failures[prompts[0]] > MOST_FAILURES:
                self.life.problems.append(f"{prompts[0]!r} failed {self.failures[prompts[0]]} times")

    def trouble(self, prompts: tuple[str, ...]) -> None:
        """Note a failure; those of texts at fault trouble no others."""
        self.failed_at = self.world.seconds
        self.troubles += not any(self.network.poison(prompt) for prompt in prompts)

    def on_abandon(self, prompt: str, seconds: float) -> None:
        self.trouble((prompt,))
        if self.budget.reached and self.life.stopped_at == math.inf and prompt not in self.life.canaries:
            self.abandoned_s.append(seconds)
        if seconds > self.scenario.timeout_s - TIMEOUT_LATE_S and self.scenario.embeds is None:
            self.timeouts[prompt] += 1
            if self.timeouts[prompt] > MOST_TIMEOUTS + 1 and prompt not in self.life.canaries:
                self.life.problems.append(f"{self.timeouts[prompt]} timeouts of {prompt!r}")
        if seconds > self.scenario.timeout_s + TIMEOUT_LATE_S:
            self.life.problems.append(f"an answer to {prompt!r} was awaited for {seconds:.1f} s")

    def on_leave(self, prompt: str) -> None:  # noqa: ARG002
        self.measure(self.network.in_flight)
        self.left_at = self.world.seconds

    def measure(self, in_flight: int) -> None:
        """Measure the use of the concurrency until now."""
        most, calls = self.scenario.concurrency or 0, self.caps[0] or math.inf
        more = len(self.unasked) >= 2 * most and self.life.arrived > most + PREFLIGHT_REQUESTS
        more = more and self.sent + most <= calls
        self.use.measure(self.world.seconds, in_flight, self.troubles, self.down_until, counts=more)

    @property
    def down_until(self) -> float:
        """Until when a server is in trouble."""
        return max((until for _, until in self.network.down.values()), default=-math.inf)

    # Lives -----------------------------------------------------------------------------------------------------------

    def enrich(self) -> Asked:
        scenario = self.scenario
        for seen in (self.failed, self.failures, self.timeouts, self.waits, self.losses, self.abandoned_s):
            seen.clear()
        self.use = Use(self.world.seconds, self.troubles, self.world.seconds)
        self.lost_before, self.billed_before = self.network.lost, self.network.delivered.billed
        self.opened_before, self.broken_before = self.network.opened, self.network.broken
        self.budget = Budget(*self.caps)
        choice = choose_model(self.enrichment, Config(prices=PRICES), wanted_model(self.endpoint), self.budget)
        commits = CommitPolicy(rows=min(scenario.commit_rows, scenario.unstored), unstored=scenario.unstored)
        store = self.store(commits)
        progress = Progress(self.notes, AnswerJudge(self.enrichment, JudgePolicy(0)))
        asker = self.asker(cast("Any", store), progress)
        rounds = Rounds(asker, cast("Any", store), cast("Any", None), self.life.stopper, progress)
        self.unasked = {one.prompt for one in store.pending()}
        if store.left:
            rounds.ask(choice, cast("Any", store), len(self.unasked), repeat=True)
        left = store.left
        return Asked(4 if left else 0, rounds.calls, left, self.budget.reached)

    def store(self, commits: CommitPolicy) -> ModelledStore:
        """Return the tables of this life."""
        return ModelledStore(self, commits)

    def asker(self, store: Any, progress: Progress) -> Asker:
        """Return what asks in this life."""
        return ClientAsker(store, cast("Any", None), self.origin, progress, lambda _: None)

    @property
    def origin(self) -> Origin:
        """Where the answers of this life come from."""
        return Origin(f"life-{self.lives}", None, "f")

    # What must hold --------------------------------------------------------------------------------------------------

    def read_stored(self) -> tuple[set[tuple[str, str, int]], Mapping[str, str]]:
        good = {(one.request_hash, one.model, one.attempt) for one in self.answers if one.call_error is None}
        return good, self.prompts

    def check_life(self) -> None:
        super().check_life()
        scenario, life, use = self.scenario, self.life, self.use
        limited = scenario.rpm is not None or scenario.weather.rpm is not None or scenario.tpm is not None
        if scenario.rpm is not None:
            at = [when for when, _ in self.network.delivered.at[life.asked_before :]]
            most = int(scenario.rpm * EVEN_S / 60 + max(1.0, BURST * scenario.rpm)) + 1
            if (within_s := shortest_window(at, most)) < EVEN_S - 0.5:
                raise BrokenError(f"{most + 1} requests in {within_s:.2f} s, and rpm is {scenario.rpm}")
        if scenario.tpm is not None:
            at = self.network.delivered.billed_at[self.billed_before :]
            if (within_s := shortest_window(at, scenario.tpm // REQUEST_TOKENS)) < 60.0 - 0.5:
                raise BrokenError(f"more than {scenario.tpm} tokens in {within_s:.2f} s")
        if len(self.waits) >= FEW and sum(self.waits) < JITTER_S * len(self.waits):
            raise BrokenError(f"refused requests are sent again after {sum(self.waits) / len(self.waits):.3f} s")
        if len(self.losses) >= SEEN and min(self.losses) > LOSS_S and not limited:
            raise BrokenError(f"lost requests are sent again after {min(self.losses):.0f} s")
        billed = (self.network.delivered.billed - self.billed_before) * ANSWER_COST
        if (most_cost := self.caps[1]) is not None and billed > most_cost + 1e-9:
            raise BrokenError(f"the servers bill {billed:.2f}, and max_cost is {most_cost:.2f}")
        if most_cost is not None and not life.killed and billed > float(self.budget.spent) + 1e-9:
            raise BrokenError(f"the servers bill {billed:.2f}, and {self.budget.spent:.2f} are counted")
        if life.stopped_at < math.inf and not life.killed:
            self.check_no_wait("it was stopped")
        plain = (scenario.concurrency or 0) > 1 and not limited and self.caps[1] is None
        if plain and scenario.weather.latency_s > SLOW_S and scenario.embeds is None:
            self.check_connections()
        if plain and scenario.weather.latency_s > SLOW_S and use.calm_s > CALM_S and scenario.embeds is None:
            mean, most = use.area / use.calm_s, scenario.concurrency or 0
            if mean < BUSY * most and life.stopped_at == math.inf:
                raise BrokenError(f"{mean:.1f} of {most} requests in flight in {use.calm_s:.0f} s without a failure")

    def check_connections(self) -> None:
        """Check that connections are kept: new ones are opened for those that broke, and after waits alone."""
        network, scenario = self.network, self.scenario
        opened, broken = network.opened - self.opened_before, network.broken - self.broken_before
        failures = network.delivered.failures - self.life.failed_before
        most = OPENED * (scenario.concurrency or 0) * scenario.servers + 2 * broken + failures
        if opened > most:
            raise BrokenError(f"{opened} connections were opened, {broken} broke, and {failures} requests failed")

    def check_error(self, error: SqlenrichError) -> None:
        super().check_error(error)
        others_down = any(kind != "401" and until > self.world.seconds for kind, until in self.network.down.values())
        if "HTTP 401" in str(error) and not others_down:  # one that is down may come back
            self.check_no_wait("a server wants a key")

    def check_no_wait(self, how: str) -> None:
        """Check that the life did not wait when nothing was in flight any more."""
        life = self.life
        stopped_at = life.stopped_at if life.stopped_at < math.inf else life.began
        waited_s = self.world.seconds - max(self.left_at, stopped_at)
        if waited_s > ENDS_S and not life.slow_s:
            raise BrokenError(f"{how}, and it ended {waited_s:.1f} s after the last answer")

    def check_report(self, report: Asked) -> None:
        life = self.life
        if report.reached is None:
            self.check_no_wait("nothing is left")
        elif report.reached == "max_calls":
            # A try to connect was the last call, or servers are looked at, since it failed.
            self.left_at = max(self.left_at, self.world.unmade_at, self.network.looked_at)
            self.check_no_wait("no call is left")
        if report.reached and any(seconds < self.scenario.timeout_s - TIMEOUT_LATE_S for seconds in self.abandoned_s):
            raise BrokenError(f"{report.reached} is reached, and requests in flight are abandoned")
        if report.pending and life.stopped_at == math.inf and report.reached is None:
            raise BrokenError(f"{report.pending} requests are left, and nothing has stopped the run")
        calm = life.stopped_at == math.inf and self.network.delivered.failures == life.failed_before
        calm = calm and all(until < life.began for _, until in self.network.down.values())
        lost = self.network.lost - self.lost_before
        paid = len(life.answered) * ANSWER_COST + lost * MOST_COST  # one that is lost may have to be paid
        if report.reached == "max_cost" and calm and paid + MOST_COST < (self.caps[1] or 0):
            raise BrokenError(f"max_cost is {self.caps[1]}, and it ends after {paid:.2f}")
        if report.reached == "max_calls" and report.calls < (self.caps[0] or 0):
            raise BrokenError(f"max_calls is {self.caps[0]}, and it ends after {report.calls}")
        self.check_calls(report.calls)
        if report.calls > self.sent + lost and calm:
            raise BrokenError(f"{report.calls} calls reported of {self.sent}")

    def read_end(self) -> Ended:
        """Judge the stored answers as the tables would."""
        embeds = self.scenario.embeds is not None
        last = {one.request_hash: one for one in self.answers}
        last |= {one.request_hash: one for one in self.answers if one.call_error is None}
        good: dict[int, tuple[Any, ...]] = {}
        bad: dict[int, str] = {}
        attempts: dict[int, int] = {}
        failures = Counter(one.request_hash for one in self.answers if one.call_error is not None)
        times: dict[int, int] = {}
        for row in self.rows():
            if row["body"] is None:
                bad[row["id"]], attempts[row["id"]] = "NO_INPUT", 0
                continue
            answer = last[key := sha256(row["body"].encode()).hexdigest()]
            attempts[row["id"]] = max(one.attempt for one in self.answers if one.request_hash == key)
            times[row["id"]] = failures[key]
            try:
                value = json.loads(answer.response or "")
            except ValueError:
                bad[row["id"]] = "BAD_JSON" if answer.call_error is None else "CALL_ERROR"
            else:
                good[row["id"]] = (
                    (value["embedding"], answer.model)
                    if embeds
                    else (value["label"], value.get("urgency"), answer.model)
                )
        twice = Counter((one.request_hash, one.attempt) for one in self.answers if one.call_error is None)
        attempt = max((one.attempt for one in self.answers), default=0)
        return Ended(good, bad, sum(count > 1 for count in twice.values()), attempt, attempts, times)

    def check_end(self, report: Asked) -> None:
        super().check_end(report)
        tokens = ANSWER_TOKENS if self.scenario.embeds is None else 0
        for one in self.answers:
            if one.calls < 1 and tokens:  # one of several texts counts the calls of all
                raise BrokenError(f"an answer of {one.calls} calls is stored")
            if one.call_error is None and one.tokens_out != tokens:
                raise BrokenError(f"{one.tokens_out} tokens are stored of an answer of {tokens}")


def live(scenario: Scenario) -> AskingLives:
    """Run a scenario. Raises BrokenError."""
    lives: AskingLives = lived(AskingLives, scenario)
    return lives

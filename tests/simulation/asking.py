"""The lives of a run's asking alone: the tables are modelled, so that a seed takes a tenth of a whole run's time."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, cast

from sqlenrich.ask.answer_judge import AnswerJudge, JudgePolicy
from sqlenrich.ask.client import ClientAsker
from sqlenrich.ask.model_choice import choose_model, wanted_model
from sqlenrich.ask.progress import Progress
from sqlenrich.ask.rounds import Rounds
from sqlenrich.core.errors import RunError
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.spec.settings import Config
from sqlenrich.store.backend import evenly
from sqlenrich.store.base import CommitPolicy, Origin
from tests.simulation.lives import IN_TRANSIT_S, MOST_ATTEMPTS, PRICES, BrokenError, Ended, Lives, lived
from tests.simulation.network import ANSWER_TOKENS, PROMPT
from tests.simulation.scenario import (
    EMBEDDINGS_EACH,
    EMBEDDINGS_FIRST,
    Fault,
    Scenario,
    drawn_run,
    embedding,
    followed,
    poisoned,
)  # fmt: skip
from tests.simulation.world import World

CALM_S = 20.0
"""After so long without a failure the client uses what it may."""
BUSY = 0.75
"""The share of the concurrency that is in use then at least, as long as there are requests."""
JITTER_S = 0.05
"""The mean wait before a request is sent again, at least: it is drawn from 0 to 0.5 s and more."""
FEW = 12
"""So many waits have a mean."""
SLOW_S = 0.1
"""Requests that take this long are in flight nearly all of the time."""


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    found = poisoned(drawn_run(seed))
    draw = random.Random(f"asking {seed}")
    faults = [one for one in found.faults if one.moment != "statement"]
    for _ in range(draw.choice((0, 0, 1, 2))):
        faults.append(Fault("request", draw.randint(1, found.texts), draw.choice(("stop", "stop-twice"))))
    found = replace(found, cascade=False, faults=tuple(faults))
    if seed % EMBEDDINGS_EACH == EMBEDDINGS_FIRST:
        found = embedding(found)
    return followed(found)


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

    def requests(self, call: object, pending: int) -> Iterator[Request]:  # noqa: ARG002
        return iter(self.pending())

    def spread(self, call: object, count: int, most: int) -> list[Request]:  # noqa: ARG002
        found = self.pending()
        return [found[place] for place in evenly(count, most)]

    def refresh(self, plan: object, call: object, limit: int | None = None, *, ordered: bool = False) -> int:  # noqa: ARG002
        return len(self.pending())

    def rows(self, plan: object, query: object) -> list[tuple[str, int | None]]:  # noqa: ARG002
        """Return a request that is answered, the one query of an asker."""
        prompts = self.lives.prompts
        return [(prompts[one.request_hash], one.latency_ms) for one in self.lives.answers if one.call_error is None][:1]

    def append(self, plan: object, answers: Sequence[Answer], origin: Origin) -> None:  # noqa: ARG002
        lives = self.lives
        lives.world.moment("append")
        fault, lives.at_append = lives.at_append, None
        kind = "" if fault is None else fault.kind
        if kind in ("kill-before", "torn"):  # a torn commit is none
            lives.kill()
        if kind == "full":
            lives.life.excused = True
            raise RunError("no space left on device")
        if kind == "slow" and fault is not None:
            lives.life.must_end_at += fault.amount
            lives.world.elapse(fault.amount)
        lives.answers += answers
        lives.stored(answers)
        if kind == "kill-after":
            lives.kill()


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
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The prompts of all requests by their hashes."""
    refused_at: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of each prompt that was refused last, when that was, and for how many seconds the server wants to be left."""
    waits: list[float] = field(default_factory=list)
    """The seconds until a refused prompt was sent again, where the server has told none."""
    use: Use = field(default_factory=Use)
    unasked: set[str] = field(default_factory=set)
    """The prompts that this life has still to send."""

    def __post_init__(self) -> None:
        super().__post_init__()
        texts = {row["body"]: None for row in self.rows() if row["body"] is not None}
        self.prompts = {sha256(text.encode()).hexdigest(): f"{PROMPT}{text}" for text in texts}

    def begin_in(self, world: World) -> None:
        super().begin_in(world)
        self.network.on_refused = self.on_refused

    # What is watched -------------------------------------------------------------------------------------------------

    def on_request(self, prompt: str) -> None:
        super().on_request(prompt)
        self.unasked.discard(prompt)
        now = self.world.seconds
        self.measure(in_flight=self.network.in_flight - 1)  # this one is new
        at, told_s = self.refused_at.pop(prompt, (-math.inf, 0.0))
        if self.scenario.servers > 1 or prompt in self.life.canaries:
            return
        if now - at < told_s - IN_TRANSIT_S:
            self.life.problems.append(f"sent again after {now - at:.3f} s, and told to wait {told_s} s: {prompt!r}")
        if at > 0 and not told_s and self.scenario.embeds is None:  # several texts are halved at once
            self.waits.append(now - at)

    def on_refused(self, prompts: tuple[str, ...], told_s: float) -> None:
        self.refused_at |= dict.fromkeys(prompts, (self.world.seconds, told_s))

    def on_answer(self, prompts: tuple[str, ...], port: int) -> None:
        super().on_answer(prompts, port)
        self.measure(in_flight=self.network.in_flight + 1)  # this one was until now

    def measure(self, in_flight: int) -> None:
        """Measure the use of the concurrency until now."""
        more = len(self.unasked) >= 2 * (self.scenario.concurrency or 0)
        down_until = max((until for _, until in self.network.down.values()), default=-math.inf)
        self.use.measure(self.world.seconds, in_flight, self.network.delivered.failures, down_until, counts=more)

    # Lives -----------------------------------------------------------------------------------------------------------

    def enrich(self) -> Asked:
        scenario, first = self.scenario, self.lives == 1
        self.refused_at.clear()
        self.waits.clear()
        self.use = Use(self.world.seconds, self.network.delivered.failures, self.world.seconds)
        budget = Budget(scenario.max_calls if first else None, scenario.max_cost if first else None)
        choice = choose_model(self.enrichment, Config(prices=PRICES), wanted_model(self.endpoint), budget)
        commits = CommitPolicy(rows=min(scenario.commit_rows, scenario.unstored), unstored=scenario.unstored)
        store = cast("Any", ModelledStore(self, commits))
        progress = Progress(self.notes, AnswerJudge(self.enrichment, JudgePolicy(0)))
        origin = Origin(f"life-{self.lives}", None, "f")
        asker = ClientAsker(store, cast("Any", None), origin, progress, lambda _: None)
        rounds = Rounds(asker, store, cast("Any", None), self.life.stopper, progress)
        self.unasked = {one.prompt for one in store.pending()}
        if pending := len(self.unasked):
            rounds.ask(choice, cast("Any", store), pending, repeat=True)
        left = len(store.pending())
        return Asked(4 if left else 0, rounds.calls, left, budget.reached)

    # What must hold --------------------------------------------------------------------------------------------------

    def read_stored(self) -> tuple[set[tuple[str, str, int]], Mapping[str, str]]:
        good = {(one.request_hash, one.model, one.attempt) for one in self.answers if one.call_error is None}
        return good, self.prompts

    def check_life(self) -> None:
        super().check_life()
        scenario, life, use = self.scenario, self.life, self.use
        if len(self.waits) >= FEW and sum(self.waits) < JITTER_S * len(self.waits):
            raise BrokenError(f"refused requests are sent again after {sum(self.waits) / len(self.waits):.3f} s")
        plain = scenario.concurrency is not None and scenario.rpm is None and scenario.weather.rpm is None
        if plain and scenario.weather.latency_s > SLOW_S and use.calm_s > CALM_S and scenario.embeds is None:
            mean, most = use.area / use.calm_s, scenario.concurrency or 0
            if mean < BUSY * most and life.stopped_at == math.inf:
                raise BrokenError(f"{mean:.1f} of {most} requests in flight in {use.calm_s:.0f} s without a failure")

    def check_report(self, report: Asked) -> None:
        life = self.life
        if report.pending and life.stopped_at == math.inf and report.reached is None:
            raise BrokenError(f"{report.pending} requests are left, and nothing has stopped the run")
        sent = len(self.network.delivered.asked) - life.asked_before
        calm = life.stopped_at == math.inf and self.use.troubled_at <= life.began
        if report.calls < sent or (report.calls > sent and calm):
            raise BrokenError(f"{report.calls} calls reported of {sent}")

    def read_end(self, report: Asked) -> Ended:  # noqa: ARG002
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
            if one.call_error is None and one.tokens_out != tokens:
                raise BrokenError(f"{one.tokens_out} tokens are stored of an answer of {tokens}")


def live(scenario: Scenario) -> AskingLives:
    """Run a scenario. Raises BrokenError."""
    lives: AskingLives = lived(AskingLives, scenario)
    return lives

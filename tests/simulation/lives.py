"""The lives of one run: started, killed, stopped, started again, until all is done; and what must hold."""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

import sqlenrich as se
from sqlenrich.ask.batch import BatchPolicy
from sqlenrich.ask.observer import NullObserver, Stopper
from sqlenrich.core.runtime import running_in
from sqlenrich.llm.messages import UNPROVEN_REQUESTS, Answer
from sqlenrich.runner.report import Report
from sqlenrich.runner.retry import retry
from sqlenrich.runner.run import run_one
from sqlenrich.spec.prices import Price, Prices
from tests.simulation.backend import SimBackend
from tests.simulation.faults import FaultyLives, shortest_window, tear
from tests.simulation.network import (
    ANSWER_COST,
    ANSWER_TOKENS,
    PORT,
    PROMPT,
    REQUEST_TOKENS,
    SECOND,
    Network,
    answer_to,
    vector_of,
)
from tests.simulation.scenario import Fault, Scenario
from tests.simulation.vendor import BUSY_VENDOR, CALLS, VendorSide, vendor_maker
from tests.simulation.world import Hung, Killed, World

SECRET = "sk-of-the-simulation"
FILE = """---
key: [id]
model: m
params: {max_tokens: 100}
output: {label(enum): [a, b, c], urgency: integer}
---
Classify: {{ body }}
"""
EMBEDDING_FILE = """---
key: [id]
model: m
output: {embedding: {dimensions: 2}}
---
Classify: {{ body }}
"""
MOST_LIVES = 25
LONGEST_LIFE_S = 600.0
"""The virtual time of one life at most, beyond what its requests take: it gives up after 120 s without an answer."""
STOPPED_S, STOPPED_TWICE_S = 15.0, 5.0
"""A life ends at most this time after it is stopped: the grace of 10 s for what is in flight, and one slow commit. Each
further slow commit has its own time."""
LONGEST_STEP_S = 1800.0
"""A step of a batch is tried for 15 minutes at most, and its end is looked for each 5 minutes."""
QUIET_S = 60.0
"""A model that answered within this time has not stopped answering."""
IN_TRANSIT_S = 0.01
"""A request that was sent before a stop arrives after this time at most."""
GIVES_UP_S = 180.0
"""A life ends after this time without an answer, and some timeouts."""
MOST_ATTEMPTS, MOST_TIMEOUTS = 3, 3
"""After these a failed request is not asked again."""
CANARIES = 3
"""The requests of a server that show whether it is well, beside those of the rows."""
MOST_TRIES = 12
"""The requests of one prompt that one life sends on average at most, where each fails."""
UNKNOWN_S = 1800.0
"""A limit of tokens lets a request through each minute until the tokens of an answer are known."""
PAUSE_S = 90.0
"""The virtual time between two lives."""
MOST_CONCURRENCY = 1024


class BrokenError(AssertionError):
    """What must hold does not."""

    lives: Any
    """The lives of the run, or of the gateway."""


CASCADE = f"cascade: {{ask: {SECOND}, score: urgency, equal: [label], target: 0.7, sample: 30}}\n"


@cache
def enrichment(*, cascade: bool, embeds: bool) -> se.Enrichment:
    """Return what the run asks, of one model or of two, or for vectors."""
    if embeds:
        return se.loads(EMBEDDING_FILE, name="intent")
    return se.loads(FILE.replace("output:", f"{CASCADE}output:") if cascade else FILE, name="intent")


class Notes(NullObserver):
    """Keeps what a user would read."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@dataclass(frozen=True)
class Ended:
    """What a complete run has left, by the keys of its rows."""

    good: Mapping[int, tuple[Any, ...]]
    """The accepted rows: their values and their model."""
    bad: Mapping[int, str]
    """The reasons of the others."""
    twice: int
    """Requests with two answers."""
    most_attempts: int
    attempts: Mapping[int, int]
    failures: Mapping[int, int]
    """The failed calls of each row that has any."""


@dataclass
class Life:
    """One life, from a start to its end, and what is seen of it."""

    number: int
    path: Path
    """The database of this life; ``next_path`` is that of the next one."""
    next_path: Path
    began: float
    asked_before: int
    """The requests that the servers had got before."""
    failed_before: int
    """The failures before."""
    faults_before: int
    """The faults that were still to happen when it began."""
    stored_before: frozenset[tuple[str, str, int]]
    """The answers that were stored before."""
    batched_before: int = 0
    """The requests that were in batches before."""
    stopper: Stopper = field(default_factory=Stopper)
    answered: set[str] = field(default_factory=set)
    """The prompts to which a whole answer came."""
    arrived: int = 0
    """The whole answers that came."""
    answered_at: float = -math.inf
    failed_rows_at: float = -math.inf
    """When a text at fault failed, where the own limits are low: each of its tries has to wait for them."""
    shortest: dict[tuple[int, bool], tuple[int, float]] = field(default_factory=dict)
    """Of each server and model, the length of the shortest prompt that it answered, and when."""
    canaries: set[str] = field(default_factory=set)
    """Those prompts, by which the client sees whether a server is well."""
    stopped_at: float = math.inf
    """When it was stopped first."""
    longest_gap_s: float = 0.0
    """The longest time between two answers."""
    must_end_at: float = math.inf
    """When it has to end, since it was stopped."""
    looks: int = 0
    """How often a stored request may be asked again: once of each server, for each model."""
    slow_s: float = 0.0
    """The time of slow commits."""
    killed: bool = False
    halted: bool = False
    """Whether somebody cancelled a batch."""
    excused: bool = False
    """Whether answers may be lost that had arrived: it was killed, told twice to stop, or could not write."""
    problems: list[str] = field(default_factory=list)
    """What was seen that must not be. It is kept, since a loop hides what its callbacks raise."""

    def __post_init__(self) -> None:
        for path in (self.path, self.next_path):
            path.parent.mkdir(exist_ok=True)

    @property
    def log(self) -> Path:
        """The file of the commits that are not in the database yet."""
        return _log_of(self.path)

    def pass_gap(self, now: float) -> None:
        """Measure the time since the last answer, or since a text at fault failed."""
        began = max(self.began, self.answered_at, self.failed_rows_at)
        self.longest_gap_s = max(self.longest_gap_s, now - began)

    def leave_files(self, torn: tuple[int, float] | None = None) -> None:
        """Copy the files as they are now to the next life.

        ``torn``: the bytes of the log before the last commit, and the share of the bytes since then that is kept.
        """
        for path, copy in ((self.path, self.next_path), (self.log, _log_of(self.next_path))):
            if path.exists():
                shutil.copy(path, copy)
        copied = _log_of(self.next_path)
        if torn is not None and copied.exists():
            tear(copied, *torn)


@dataclass
class Lives(FaultyLives):
    """One seed: all lives of one run, and what they have in common."""

    scenario: Scenario
    folder: Path
    world: World = field(init=False)
    network: Network = field(init=False)
    vendor: VendorSide | None = None
    """The vendor of batches; None for a run without them."""
    at_append: Fault | None = None
    """What happens at the commit that begins now."""
    at_call: str = ""
    """What happens to the call of the vendor that begins now."""
    lost_prompts: set[str] = field(default_factory=set)
    """The prompts whose answers had arrived and were lost with an ended life."""
    looked: set[str] = field(default_factory=set)
    """The prompts that were asked again to find out whether the model answers."""
    committed: set[tuple[str, str, int]] = field(default_factory=set)
    """The request hashes whose answers are stored for good, each with the model and the attempt."""
    stored_prompts: set[str] = field(default_factory=set)
    """The prompts whose answers are stored, of the lives before."""
    refused: frozenset[str] | None = None
    """The prompts that the retry may ask again; None before it."""
    mended: set[str] = field(default_factory=set)
    """Those of them whose answer is stored and can be used."""
    before_retry: frozenset[tuple[str, str, int]] = frozenset()
    """What was ``committed`` when the retry began."""
    lives: int = 0
    failed_lives: int = 0
    """The last lives in a row that ended with an error."""
    life: Life = field(init=False)
    decisive_s: float = 0.0
    """The time that a low rate limit adds until a life gives up."""
    capped_lives: int = 1
    """The first lives, which have caps."""
    notes: Notes = field(default_factory=Notes)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.begin_in(World(scenario.seed))
        self.network.on_lie = self.on_lie
        if scenario.batches is not None:
            self.vendor = VendorSide(self.world, scenario.seed, scenario.batches.nature, self.on_call)

    # Faults ----------------------------------------------------------------------------------------------------------

    def happen(self, moment: str, fault: Fault) -> None:
        if moment == "append":
            self.at_append = fault
        elif fault.kind == "wall":
            self.world.wall_ahead_s += fault.amount
        elif fault.kind == "halt":
            self.life.halted |= self.vendor is not None and self.vendor.halt()
        elif moment == "vendor" and fault.kind not in ("stop", "kill-before", "stop-twice"):
            self.at_call = fault.kind
        else:
            self.end_by(fault)

    def on_call(self, name: str) -> str:
        """Return what happens to a call of the vendor."""
        self.world.moment("vendor")
        if CALLS.get(self.at_call, name) != name:
            return ""
        kind, self.at_call = self.at_call, ""
        self.world.note(f"vendor: {name} {kind}".rstrip())
        return kind

    def end_by(self, fault: Fault) -> None:
        """End the life by a signal or a kill."""
        if fault.kind == "kill-before":
            self.kill()
        longest = STOPPED_S if fault.kind == "stop" else STOPPED_TWICE_S
        life = self.life
        life.must_end_at = min(life.must_end_at, self.world.seconds + longest)
        life.stopped_at = min(life.stopped_at, self.world.seconds)
        life.stopper.stop()
        if fault.kind == "stop-twice":
            life.excused = True
            life.stopper.stop()

    def kill(self, torn: tuple[int, float] | None = None) -> None:
        """End the process here: what is in the files now is what the next life finds."""
        self.world.note("killed")
        self.life.leave_files(torn)
        self.life.excused = self.life.killed = self.world.dead = True
        raise Killed

    def size_of_log(self) -> int:
        """Return the bytes of the log of commits."""
        log = self.life.log
        return log.stat().st_size if log.exists() else 0

    # What is watched -------------------------------------------------------------------------------------------------

    def stored(self, answers: Sequence[Answer]) -> None:
        """Record answers whose commit has returned."""
        self.world.note(f"stored {len(answers)}")
        self.committed |= {(one.request_hash, one.model, one.attempt) for one in answers if one.call_error is None}

    def commit(self, answers: Sequence[Answer], write: Callable[[], None], full: Exception) -> None:
        """Store answers, with what happens to this commit. Raises ``full`` where the disk is full, and Killed."""
        self.world.moment("append")
        fault, self.at_append = self.at_append, None
        kind, amount = ("", 0.0) if fault is None else (fault.kind, fault.amount)
        if kind == "kill-before":
            self.kill()
        if kind == "full":
            self.life.excused = True
            raise full
        if kind == "slow":
            self.life.must_end_at += amount
            self.life.slow_s += amount
            self.world.elapse(amount)
        before = self.size_of_log()
        write()
        if kind == "torn":
            self.kill(torn=(before, amount))
        self.stored(answers)
        if kind == "kill-after":
            self.kill()

    def on_request(self, prompt: str) -> None:
        """Refuse a request whose answer is stored, but for the one that shows whether a server is well."""
        life = self.life
        if self.world.seconds > life.stopped_at + IN_TRANSIT_S:
            life.problems.append(f"sent {self.world.seconds - life.stopped_at:.3f} s after it was stopped: {prompt!r}")
        delivered, down = self.network.delivered, self.network.down.values()
        troubled = delivered.failures > life.failed_before or any(until > life.began for _, until in down)
        if troubled and (prompt in life.canaries or prompt in delivered.lied):
            return  # a canary, perhaps
        if self.refused is None:
            again = prompt in self.stored_prompts or prompt in life.answered
            problem = "asked again, although it is answered"
        else:
            again = prompt not in self.refused or prompt in self.mended
            problem = "asked by the retry, although its row is accepted"
        begins = len(delivered.asked) == life.asked_before + 1
        if (
            again
            and (troubled or begins)
            and life.looks
            and (self.scenario.cascade if prompt in life.answered else prompt in self.stored_prompts)
        ):
            self.looked.add(prompt)
            life.looks -= 1  # where what is left fails: does the model answer what it answered before?
        elif again:
            life.problems.append(f"{problem}: {prompt!r}")

    def on_answer(self, prompts: tuple[str, ...], port: int) -> None:
        life = self.life
        shows_health = life.answered >= {*prompts}
        life.answered |= {*prompts}
        life.arrived += len(prompts)
        life.pass_gap(self.world.seconds)
        life.answered_at = self.world.seconds
        if not shows_health:
            self.note_canary(prompts, port)

    def note_canary(self, prompts: tuple[str, ...], port: int) -> None:
        """Note a request that the client may repeat, to see whether a server is well: the shortest one."""
        life, size = self.life, len(json.dumps(prompts))
        place, found = (port, prompts[0].startswith(SECOND)), (size, self.world.seconds)
        best = life.shortest.get(place)
        if best is None or size < best[0] or found == best:  # of two at the same moment either may be read first
            life.shortest[place] = found
            life.canaries |= {*prompts}

    def on_lie(self, prompts: tuple[str, ...], port: int) -> None:
        """Note that the model gave an answer of other content."""
        self.note_canary(prompts, port)
        self.life.pass_gap(self.world.seconds)
        self.life.answered_at = self.world.seconds

    @property
    def caps(self) -> tuple[int | None, float | None]:
        """The caps of the calls and of the cost of this life."""
        capped = self.lives <= self.capped_lives
        return (self.scenario.max_calls, self.scenario.max_cost) if capped else (None, None)

    @property
    def sent(self) -> int:
        """The requests of this life, alone or in batches."""
        batched = 0 if self.vendor is None else self.vendor.requests() - self.life.batched_before
        return len(self.network.delivered.asked) - self.life.asked_before + batched

    @property
    def most_looks(self) -> int:
        """The requests of a life at most that look at the model by what it answered before."""
        return self.scenario.servers * (1 + self.scenario.cascade)

    @property
    def together(self) -> int:
        """The texts of one request at most."""
        return self.scenario.embeds or 1

    @property
    def enrichment(self) -> se.Enrichment:
        """What the run asks."""
        return enrichment(cascade=self.scenario.cascade, embeds=self.scenario.embeds is not None)

    # Lives -----------------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        scenario = self.scenario
        return [{"id": n, "body": None if n % 17 == 5 else f"text {n % scenario.texts}"} for n in range(scenario.rows)]

    def run(self) -> None:
        """Live until all is done. Raises BrokenError."""
        self.live_on()
        if self.scenario.retried:
            self.begin_retry()
            self.live_on()

    def live_on(self) -> None:
        """Live until a command is done."""
        batches, undisturbed = self.scenario.batches, 0
        most = MOST_LIVES * (1 if batches is None or batches.waits else 2)  # one that does not wait looks again later
        while not self.live():
            undisturbed += len(self.faults) == self.life.faults_before
            if undisturbed == most:
                raise BrokenError(f"not done after {most} lives without a fault")

    def begin_retry(self) -> None:
        """Let the next lives be those of a retry, and its faults happen from now on."""
        self.world.note("the retry begins")
        with duckdb.connect(str(self.life.next_path), read_only=True) as db:
            refused = db.execute("SELECT prompt FROM intent_quarantine WHERE _request_hash IS NOT NULL").fetchall()
        self.refused, self.before_retry = frozenset(prompt for (prompt,) in refused), frozenset(self.committed)
        self.network.mends = self.vendor is None and not self.scenario.cascade
        for (moment, number), fault in list(self.faults.items()):
            if moment.startswith("retry "):
                del self.faults[moment, number]
                moment = moment.removeprefix("retry ")
                self.faults[moment, self.world.numbers.get(moment, 0) + number] = fault

    def live(self) -> bool:
        """Live once; tell whether the run is complete."""
        world, network, scenario = self.world, self.network, self.scenario
        self.lives += 1
        world.note(f"life {self.lives} begins")
        self.life = life = Life(
            self.lives,
            self.folder / f"life-{self.lives}" / "out.duckdb",
            self.folder / f"life-{self.lives + 1}" / "out.duckdb",
            world.seconds,
            len(network.delivered.asked),
            network.delivered.failures,
            len(self.faults),
            frozenset(self.committed),
            0 if self.vendor is None else self.vendor.requests(),
            looks=self.most_looks,
        )
        network.forget_clients()
        report: Report | None = None
        error: se.SqlenrichError | None = None
        try:
            with running_in(world):
                report = self.enrich()
        except Killed:
            pass
        except Hung as hung:
            raise BrokenError(f"hangs: {hung}") from None
        except se.SqlenrichError as failed:
            error = failed
        killed = world.dead
        life.problems += world.bury()
        if killed:
            report = error = None  # it came of the kill
        else:
            life.leave_files()
        ended = "killed" if killed else f"status {report.exit_status}" if report is not None else str(error)
        world.note(f"life {self.lives} ends: {ended.replace(str(self.folder), '...')}")
        if error is not None:
            self.texts.append(str(error))
            self.check_error(error)
        self.check_life()
        self.find_stored()
        if report is not None:
            self.check_report(report)
            if report.exit_status != 4:
                self.check_end(report)
                return True
        self.failed_lives = 0 if error is None else self.failed_lives + 1
        world.seconds += PAUSE_S * 2 ** min(self.failed_lives, 6)  # an outage is waited for
        if scenario.batches is not None and not scenario.batches.waits:
            world.seconds += scenario.batches.nature.longest_s / 3
        return False

    @property
    def endpoint(self) -> se.Endpoint:
        """The servers, as a user names them."""
        scenario = self.scenario
        urls = [f"http://127.0.0.1:{PORT + number}/v1" for number in range(scenario.servers)]
        return se.Endpoint(
            urls[0], others=tuple(urls[1:]), model="m", concurrency=scenario.concurrency, rpm=scenario.rpm,
            tpm=scenario.tpm, timeout=scenario.timeout_s, api_key=SECRET, structured_output="json_schema",
            embed_batch=self.together,
        )  # fmt: skip

    def enrich(self) -> Any:
        """Live a life, and return its report. Raises Killed."""
        scenario, endpoint = self.scenario, self.endpoint
        options: dict[str, Any] = {}
        if (batches := scenario.batches) is not None and self.vendor is not None:
            endpoint = replace(endpoint, batch_requests=batches.requests, probe=batches.probe)
            options = {"batch": BatchPolicy(vendor=vendor_maker(self.vendor)), "wait": batches.waits}
        if self.refused is not None:
            return retry(
                self.enrichment, output=SimBackend(self.life.path, self), model=endpoint,
                observer=self.notes, stopper=self.life.stopper, prices=PRICES, caps=se.Caps(stop_after_refused=0),
            )  # fmt: skip
        calls, cost = self.caps
        caps = se.Caps(max_calls=calls, max_cost=cost, stop_after_refused=0)
        return run_one(
            self.enrichment, input=self.rows(), output=SimBackend(self.life.path, self),
            model=endpoint, caps=caps, observer=self.notes, stopper=self.life.stopper, run_id=f"life-{self.lives}",
            prices=PRICES, **options,
        )  # fmt: skip

    # What must hold --------------------------------------------------------------------------------------------------

    def read_stored(self) -> tuple[set[tuple[str, str, int]], Mapping[str, str]]:
        """Return the answers that the next life finds, as ``committed`` has them, and prompts by their hashes."""
        life = self.life
        if not life.next_path.exists():
            if self.committed:
                raise BrokenError("the database is gone, and answers were stored in it")
            return set(), {}
        with duckdb.connect(str(life.next_path)) as db:
            try:
                found = db.execute(
                    "SELECT DISTINCT request_hash, model, attempt FROM intent_responses WHERE call_error IS NULL"
                ).fetchall()
                prompts = dict(db.execute("SELECT request_hash, prompt FROM intent_prompts").fetchall())
            except duckdb.CatalogException:
                found, prompts = [], {}
        return set(found), prompts

    def find_stored(self) -> None:
        """Check what the next life finds stored: all that a commit has promised, and perhaps more."""
        life = self.life
        there, prompts = self.read_stored()
        if lost := self.committed - there:
            raise BrokenError(f"{len(lost)} answers are lost whose commit had returned")
        self.committed |= there
        new = len(there - life.stored_before)
        if self.network.mends:
            asked = {prompts[key] for key, _, _ in there - self.before_retry if key in prompts}
            self.mended = {one for one in asked - self.network.delivered.lied if self.usable(one)}
        self.stored_prompts |= {named(prompts[key], model) for key, model, _ in there if key in prompts}
        lost_answers = life.answered - self.stored_prompts
        self.lost_prompts |= lost_answers
        in_flight = (self.scenario.concurrency or MOST_CONCURRENCY) * self.together
        most = in_flight + self.scenario.unstored if life.excused else 0
        if len(lost_answers) > most:
            raise BrokenError(
                f"{len(lost_answers)} answers that had arrived are not stored, at most {most} may be lost"
            )
        # Each failure may have had a canary asked, whose answer is not stored; nor is that of a look at the model.
        failures = self.network.delivered.failures - life.failed_before
        unstored = most + failures * self.scenario.servers + self.most_looks - life.looks
        if self.refused is not None and life.arrived - new > unstored:
            raise BrokenError(f"{life.arrived} answers arrived and {new} are stored, at most {most} may be lost")

    def check_error(self, error: se.SqlenrichError) -> None:
        """Refuse an error without a cause."""
        weather, life = self.scenario.weather, self.life
        slowest = weather.latency_s * 6 ** (1 + 3 * weather.spread)
        happened = len(self.faults) < life.faults_before or bool(self.network.down) or weather.rpm is not None
        happened |= weather.poison != ""
        if not happened and slowest < self.scenario.timeout_s:
            raise BrokenError(f"nothing was wrong, and it ended with {error}")
        if BUSY_VENDOR in str(error) and life.stopped_at == math.inf:
            raise BrokenError(f"a vendor that was busy for a moment ended the run: {error}")
        quiet_s = self.world.seconds - life.answered_at
        if "stopped answering" in str(error) and quiet_s < QUIET_S:
            raise BrokenError(f"{error}, and the last answer came {quiet_s:.1f} s before")

    def check_life(self) -> None:
        """Check the caps, limits and times of the life."""
        scenario, world, life = self.scenario, self.world, self.life
        if life.problems:
            raise BrokenError(life.problems[0])
        asked = self.sent
        most_calls, most_cost = self.caps
        if most_calls is not None and asked > most_calls:
            raise BrokenError(f"{asked} requests, and max_calls is {most_calls}")
        paid = sum(cost_of(prompt) for prompt in life.answered)
        if most_cost is not None and paid > most_cost + 1e-9:
            raise BrokenError(f"paid {paid:.2f}, and max_cost is {most_cost:.2f}")
        if scenario.rpm is not None:
            seen = self.network.delivered.at[life.asked_before :]
            for asked_of in {where for _, where in seen}:
                at = [when for when, where in seen if where == asked_of]
                if (within_s := shortest_window(at, scenario.rpm)) < 60.0 - 0.5:
                    raise BrokenError(f"more than {scenario.rpm} requests in {within_s:.2f} s")
        life.pass_gap(world.seconds)
        # At the start one request is asked of all servers, and two further ones. Texts that are never answered are
        # asked one after another while the servers list their models; a few texts fail so in each round.
        longest_s = GIVES_UP_S + (scenario.servers + 2) * scenario.timeout_s
        longest_s += self.decisive_s
        if scenario.texts < UNPROVEN_REQUESTS:
            longest_s *= MOST_ATTEMPTS
        if scenario.batches is None and scenario.weather.poison != "silent" and life.longest_gap_s > longest_s:
            raise BrokenError(f"no answer came for {life.longest_gap_s:.0f} s, and it went on")
        if world.seconds > life.must_end_at:
            raise BrokenError(f"it was stopped, and ended {world.seconds - life.must_end_at:.1f} s too late")
        most = self.network.most_in_flight
        if scenario.concurrency is not None and most > scenario.concurrency + CANARIES * scenario.servers:
            raise BrokenError(f"{most} requests in flight, and the concurrency is {scenario.concurrency}")
        if asked > MOST_TRIES * scenario.texts * (1 + scenario.cascade) + 100:
            raise BrokenError(f"{asked} requests for {scenario.texts} texts")
        failures = self.network.delivered.failures - life.failed_before
        tokens = None if scenario.tpm is None else scenario.tpm / REQUEST_TOKENS
        limits = [one for one in (scenario.rpm, scenario.weather.rpm, tokens) if one is not None]
        weather = scenario.weather
        each = weather.latency_s * math.exp(weather.spread**2 / 2) + (scenario.timeout_s if failures else 0.0)
        allowed = LONGEST_LIFE_S + sum(120.0 * scenario.rows / one for one in limits)
        allowed += 2 * each * (scenario.texts + failures) / min(scenario.concurrency or 8, 8)
        if scenario.batches is not None:
            allowed += (MOST_ATTEMPTS + 1) * (scenario.batches.nature.longest_s + LONGEST_STEP_S)
        allowed += 0.0 if scenario.tpm is None else UNKNOWN_S
        if world.seconds - life.began > allowed:
            raise BrokenError(f"a life took {world.seconds - life.began:,.0f} s")

    def check_report(self, report: Any) -> None:
        """Check the counts of the report."""
        if report.rows_in != self.scenario.rows:
            raise BrokenError(f"{report.rows_in} rows of {self.scenario.rows}")
        if report.results is not None and report.enriched + report.quarantined != report.rows_in:
            raise BrokenError("rows in are not enriched and quarantined ones")
        batches = self.scenario.batches
        waits = (batches is None or batches.waits) and not self.life.halted
        if report.exit_status == 4 and self.life.must_end_at == math.inf and report.stopped_at is None and waits:
            raise BrokenError(f"{report.pending} requests are left, and nothing has stopped the run")
        self.check_calls(report.calls)

    def check_calls(self, calls: int) -> None:
        """Check that the calls which are reported are not fewer than those of this life."""
        if calls < self.sent:
            raise BrokenError(f"{calls} calls reported of {self.sent}")

    def read_end(self) -> Ended:
        """Read the tables of the last life."""
        scenario = self.scenario
        values = "label, urgency" if scenario.embeds is None else "embedding"
        with duckdb.connect(str(self.life.path), read_only=True) as db:
            good = {row[0]: row[1:] for row in db.execute(f"SELECT id, {values}, _model FROM intent").fetchall()}
            bad = dict(db.execute("SELECT id, _error FROM intent_quarantine").fetchall())
            twice = db.execute(
                f"SELECT COUNT(*) FROM (SELECT request_hash, model{'' if self.refused is None else ', attempt'} "
                "FROM intent_responses WHERE call_error IS NULL GROUP BY ALL HAVING COUNT(*) > 1)"
            ).fetchall()[0][0]
            most_attempts = db.execute("SELECT COALESCE(MAX(attempt), 0) FROM intent_responses").fetchall()[0][0]
            attempts = dict(db.execute(
                "SELECT id, COALESCE(MAX(attempt), 0) FROM intent_prompts LEFT JOIN intent_responses "
                "USING (request_hash) GROUP BY id").fetchall())  # fmt: skip
            failures = dict(db.execute(
                "SELECT id, COUNT(*) FROM intent_prompts JOIN intent_responses USING (request_hash) "
                "WHERE call_error IS NOT NULL GROUP BY id").fetchall())  # fmt: skip
            lines = db.execute("SELECT COUNT(*), COUNT(ended_at) FROM _sqlenrich_runs").fetchall()[0]
        if lines[0] != lines[1] or not lines[0]:
            raise BrokenError(f"of {lines[0]} lines of the ledger {lines[1]} are complete")
        if SECRET.encode() in self.life.path.read_bytes():
            raise BrokenError("the key is in the database")
        return Ended(good, bad, twice, most_attempts, attempts, failures)

    def check_end(self, report: Any) -> None:
        """Compare the tables with those of a run that nothing disturbed."""
        delivered, scenario = self.network.delivered, self.scenario
        ended = self.read_end()
        good, bad, attempts, failures = ended.good, ended.bad, ended.attempts, ended.failures
        if ended.twice:
            raise BrokenError(f"{ended.twice} requests have two answers")
        if ended.most_attempts > MOST_ATTEMPTS * (1 + scenario.cascade):  # of each model
            raise BrokenError(f"attempt {ended.most_attempts}, and {MOST_ATTEMPTS} of each model are allowed")
        if len(good) + len(bad) != scenario.rows or set(good) & set(bad):
            raise BrokenError("a row is missing, or there twice")
        for row in self.rows():
            key = row["id"]
            first = f"{PROMPT}{row['body']}"
            second = named(first, SECOND)
            prompt = second if key in good and good[key][-1] == SECOND else first
            if {prompt, second} & delivered.lied:
                continue
            expected = self.expected_of(row, prompt)
            found = good[key][:-1] if key in good else bad.get(key)
            # In a cascade either model may have failed before the other one answered.
            failed = sum(delivered.failed.get(one, 0) for one in (first, second))
            failed += 0 if self.vendor is None else self.vendor.failed(prompt)
            given_up = failed > 0 and (attempts[key] >= MOST_ATTEMPTS or failed >= MOST_TIMEOUTS)
            spent = self.network.mends and found == "BAD_JSON" and attempts[key] >= MOST_ATTEMPTS
            if found != expected and not (found == "CALL_ERROR" and given_up) and not spent:
                raise BrokenError(f"row {key}: {found}, not {expected}")
            if failures.get(key, 0) > failed + self.world.unmade:
                raise BrokenError(f"row {key}: {failures[key]} failed calls are stored, and {failed} failed")
            if self.refused is not None and found == "BAD_JSON" and attempts[key] < MOST_ATTEMPTS:
                raise BrokenError(f"row {key} was not asked again: attempt {attempts[key]}")
        if self.vendor is not None:
            paid = Counter(self.vendor.paid()) + Counter(delivered.good)
            again = [
                prompt for prompt, count in paid.items() if count > 1 and prompt not in self.lost_prompts | self.looked
            ]
            if again:
                raise BrokenError(f"{len(again)} answers were paid for again, such as that to {again[0]!r}")
        for text in (*self.notes.lines, *self.texts, report.to_text()):
            if SECRET in text:
                raise BrokenError(f"the key is in a text: {text}")

    def usable(self, prompt: str) -> bool:
        """Whether the servers' answer to a prompt can be used."""
        return answer_to(prompt, mends=self.network.mends).startswith("{")

    def expected_of(self, row: Mapping[str, Any], prompt: str) -> tuple[Any, ...] | str:
        """Return the result of a row in a run that nothing disturbs: its values, or the reason of its refusal."""
        if row["body"] is None:
            return "NO_INPUT"
        if self.network.poison(prompt):
            return "CALL_ERROR"
        if self.scenario.embeds is not None:
            return (vector_of(prompt),)
        try:
            value = json.loads(answer_to(prompt, mends=self.network.mends))
        except ValueError:
            return "BAD_JSON"
        return value["label"], value["urgency"]


SECOND_COSTS = 3
"""How often the second model costs as much as the first."""
_OUT = Decimal(str(ANSWER_COST)) / ANSWER_TOKENS * 1_000_000
PRICES = Prices(
    date(2026, 1, 1),
    models={"m": Price(Decimal(0), Decimal(0), _OUT), SECOND: Price(Decimal(0), Decimal(0), SECOND_COSTS * _OUT)},
)


def cost_of(prompt: str) -> float:
    """Return what the answer to a recorded prompt costs."""
    return ANSWER_COST * (SECOND_COSTS if prompt.startswith(SECOND) else 1)


def named(prompt: str, model: str) -> str:
    """Return a prompt as it is recorded."""
    return f"{SECOND} {prompt}" if model == SECOND else prompt


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def live(scenario: Scenario) -> Lives:
    """Run a scenario. Raises BrokenError."""
    lives: Lives = lived(Lives, scenario)
    return lives


def lived(kind: Callable[[Scenario, Path], Any], scenario: Scenario) -> Any:
    """Return the lives of a scenario, of a run or of a gateway, once they are lived. Raises BrokenError."""
    folder = Path(tempfile.mkdtemp(prefix="sim-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    lives = kind(scenario, folder)
    random.seed(f"waits {scenario.seed}")  # the client draws its waits
    try:
        lives.run()
    except BrokenError as broken:
        broken.lives = lives
        raise
    finally:
        lives.world.bury()
        shutil.rmtree(folder, ignore_errors=True)
    return lives


def counted_faults(lives: Any) -> Counter[str]:
    """Return how many faults of each kind happened."""
    left = set(lives.faults.values())
    return Counter(one.kind.partition("/")[0] for one in lives.scenario.faults if one not in left)

"""The lives of one run: started, killed, stopped, started again, until all is done; and what must hold."""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, Stopper
from sqlenrich.core.runtime import running_in
from sqlenrich.llm.messages import Answer
from sqlenrich.runner.report import Report
from sqlenrich.runner.run import run_one
from sqlenrich.spec.prices import Price, Prices
from tests.simulation.backend import SimBackend
from tests.simulation.network import ANSWER_COST, ANSWER_TOKENS, PORT, PROMPT, SECOND, Network, answer_to
from tests.simulation.scenario import Fault, Scenario
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
MOST_LIVES = 25
LONGEST_LIFE_S = 600.0
"""The virtual time of one life at most, beyond what its requests take: it gives up after 120 s without an answer."""
STOPPED_S, STOPPED_TWICE_S = 18.0, 8.0
"""A life ends at most this time after it is stopped: the grace of 10 s for what is in flight, and two slow commits."""
QUIET_S = 60.0
"""A model that answered within this time has not stopped answering."""
MOST_ATTEMPTS, MOST_TIMEOUTS = 3, 3
"""After these a failed request is not asked again."""
CANARIES = 3
"""The requests of a server that show whether it is well, beside those of the rows."""
MOST_TRIES = 12
"""The requests of one prompt that one life sends on average at most, where each fails."""
PAUSE_S = 90.0
"""The virtual time between two lives."""
MOST_CONCURRENCY = 1024


class BrokenError(AssertionError):
    """What must hold does not."""

    lives: Lives


CASCADE = f"cascade: {{ask: {SECOND}, score: urgency, equal: [label], target: 0.7, sample: 30}}\n"


@cache
def enrichment(*, cascade: bool) -> se.Enrichment:
    """Return what the run asks, of one model or of two."""
    return se.loads(FILE.replace("output:", f"{CASCADE}output:") if cascade else FILE, name="intent")


class Notes(NullObserver):
    """Keeps what a user would read."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@dataclass
class Lives:
    """One seed: all lives of one run, and what they have in common."""

    scenario: Scenario
    folder: Path
    world: World = field(init=False)
    network: Network = field(init=False)
    at_append: Fault | None = None
    """What happens at the commit that begins now."""
    committed: set[tuple[str, str]] = field(default_factory=set)
    """The request hashes whose answers are stored for good, each with the model."""
    stored_prompts: set[str] = field(default_factory=set)
    """The prompts whose answers are stored, of the lives before."""
    answered: set[str] = field(default_factory=set)
    """The prompts to which a whole answer came in this life."""
    shortest: dict[tuple[int, bool], str] = field(default_factory=dict)
    """The prompts by which the client sees whether a server is well: of each model the shortest one it answered."""
    canaries: set[str] = field(default_factory=set)
    life: int = 0
    stopper: Stopper = field(default_factory=Stopper)
    must_end_at: float = math.inf
    """When this life has to end, since it was stopped."""
    undisturbed: bool = True
    failed_lives: int = 0
    """The last lives in a row that ended with an error."""
    excused: bool = False
    path: Path = Path()
    next_path: Path = Path()
    notes: Notes = field(default_factory=Notes)
    texts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What was seen during this life that must not be."""

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.world = World(scenario.seed)
        self.world.shuffles = scenario.shuffles
        self.world.on_moment = self.on_moment
        self.network = Network(self.world, scenario.seed, scenario.weather, self.fault_of)
        self.network.on_request, self.network.on_answer = self.on_request, self.on_answer
        self.faults: dict[tuple[str, int], Fault] = {(one.moment, one.number): one for one in scenario.faults}

    # Faults ----------------------------------------------------------------------------------------------------------

    def fault_of(self, number: int) -> tuple[str, float] | None:
        """Return what happens to a request; an outage begins with one."""
        fault = self.faults.pop(("request", number), None)
        if fault is None:
            return None
        kind, _, server = fault.kind.partition("/")
        if kind in ("stop", "stop-twice", "kill-before"):
            self.world.note(str(fault))
            self.end_by(fault)
            return "silent", 0.0  # so that something is in flight
        if not server:
            return kind, fault.amount
        port = PORT + int(server) - 1
        self.world.note(f"outage of {port}: {kind} for {fault.amount:.1f} s")
        self.network.down[port] = (kind, self.world.seconds + fault.amount)
        return None

    def on_moment(self, moment: str, number: int) -> None:
        fault = self.faults.pop((moment, number), None)
        if fault is None:
            return
        self.world.note(str(fault))
        if moment == "append":
            self.at_append = fault
        elif fault.kind == "wall":
            self.world.wall_ahead_s += fault.amount
        else:
            self.end_by(fault)

    def end_by(self, fault: Fault) -> None:
        """End the life by a signal or a kill."""
        if fault.kind == "kill-before":
            self.kill()
        longest = STOPPED_S if fault.kind == "stop" else STOPPED_TWICE_S
        self.must_end_at = min(self.must_end_at, self.world.seconds + longest)
        self.stopper.stop()
        if fault.kind == "stop-twice":
            self.excused = True
            self.stopper.stop()

    def kill(self, torn: tuple[int, float] | None = None) -> None:
        """End the process here: what is in the files now is what the next life finds."""
        self.world.note("killed")
        for path in (self.path, _log_of(self.path)):
            if path.exists():
                shutil.copy(path, _beside(path, self.path, self.next_path))
        log = _log_of(self.next_path)
        if torn is not None and log.exists():
            before, share = torn
            size = log.stat().st_size
            with log.open("r+b") as file:
                file.truncate(min(before, size) + int(max(size - before, 0) * share))
        self.world.dead = True
        raise Killed

    def size_of_log(self) -> int:
        log = _log_of(self.path)
        return log.stat().st_size if log.exists() else 0

    # What is watched -------------------------------------------------------------------------------------------------

    def stored(self, answers: Sequence[Answer]) -> None:
        """Record answers whose commit has returned."""
        self.world.note(f"stored {len(answers)}")
        self.committed |= {(answer.request_hash, answer.model) for answer in answers if answer.call_error is None}

    def on_request(self, prompt: str) -> None:
        """Refuse a request whose answer is stored, but for the one that shows whether a server is well."""
        may_be_canary = prompt in self.canaries and self.network.delivered.failures > self.failed_before
        if not may_be_canary and (prompt in self.stored_prompts or prompt in self.answered):
            self.problems.append(f"asked again, although it is answered: {prompt!r}")  # a loop hides what is raised

    def on_answer(self, prompt: str, port: int) -> None:
        self.answered.add(prompt)
        self.answered_at = self.world.seconds
        place = port, prompt.startswith(SECOND)
        if len(prompt) < len(self.shortest.get(place, prompt + "x")):
            self.shortest[place] = prompt
            self.canaries.add(prompt)

    # Lives -----------------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        scenario = self.scenario
        return [{"id": n, "body": None if n % 17 == 5 else f"text {n % scenario.texts}"} for n in range(scenario.rows)]

    def run(self) -> None:
        """Live until all is done. Raises BrokenError."""
        for self.life in range(1, MOST_LIVES + 1):
            self.path = self.folder / f"life-{self.life}" / "out.duckdb"
            self.next_path = self.folder / f"life-{self.life + 1}" / "out.duckdb"
            for path in (self.path, self.next_path):
                path.parent.mkdir(exist_ok=True)
            if self.live():
                return
        raise BrokenError(f"not done after {MOST_LIVES} lives")

    def live(self) -> bool:
        """Live once; tell whether the run is complete."""
        world, scenario = self.world, self.scenario
        world.note(f"life {self.life} begins")
        self.stopper, report, began = Stopper(), None, world.seconds
        self.answered, self.shortest, self.canaries, self.excused = set(), {}, set(), False
        self.must_end_at, self.undisturbed = math.inf, not self.network.down
        self.answered_at, self.failed_before = -math.inf, self.network.delivered.failures
        self.network.in_flight = self.network.most_in_flight = 0
        faults = len(self.faults)
        self.asked_before = len(self.network.delivered.asked)
        error: BaseException | None = None
        try:
            with running_in(world):
                report = self.enrich()
        except Killed as killed:
            error = killed
        except Hung as hung:
            raise BrokenError(f"hangs: {hung}") from None
        except se.SqlenrichError as failed:
            if world.dead:
                error = Killed()
            else:
                error = failed
                self.texts.append(str(failed))
        dead = world.dead
        world.bury()
        if dead:
            report = None
        else:
            for path in (self.path, _log_of(self.path)):
                if path.exists():
                    shutil.copy(path, _beside(path, self.path, self.next_path))
        ended = (
            "killed"
            if dead
            else f"{type(error).__name__}: {error}"
            if error
            else f"status {report and report.exit_status}"
        )
        world.note(f"life {self.life} ends: {ended.replace(str(self.folder), '...')}")
        self.undisturbed &= len(self.faults) == faults and scenario.weather.rpm is None
        self.undisturbed &= scenario.weather.latency_s * 6 ** (1 + 3 * scenario.weather.spread) < scenario.timeout_s
        if self.undisturbed and error is not None:
            raise BrokenError(f"nothing was wrong, and it ended with {error}")
        if error is not None and "stopped answering" in str(error) and world.seconds - self.answered_at < QUIET_S:
            raise BrokenError(f"{error}, and the last answer came {world.seconds - self.answered_at:.1f} s before")
        if self.problems:
            raise BrokenError(self.problems[0])
        self.check_life(began)
        self.find_stored(excused=dead or self.excused)
        if report is not None:
            self.check_report(report)
            if report.exit_status != 4:
                self.check_end(report)
                return True
        self.failed_lives = 0 if error is None or dead else self.failed_lives + 1
        world.seconds += PAUSE_S * 2 ** min(self.failed_lives, 6)  # an outage is waited for
        return False

    def enrich(self) -> Report:
        scenario = self.scenario
        urls = [f"http://127.0.0.1:{PORT + number}/v1" for number in range(scenario.servers)]
        endpoint = se.Endpoint(
            urls[0], others=tuple(urls[1:]), model="m", concurrency=scenario.concurrency, rpm=scenario.rpm,
            timeout=scenario.timeout_s, api_key=SECRET, structured_output="json_schema",
        )  # fmt: skip
        first = self.life == 1
        caps = se.Caps(
            max_calls=scenario.max_calls if first else None,
            max_cost=scenario.max_cost if first else None,
            stop_after_refused=0,
        )
        return run_one(
            enrichment(cascade=scenario.cascade), input=self.rows(), output=SimBackend(self.path, self),
            model=endpoint, caps=caps, observer=self.notes, stopper=self.stopper, run_id=f"life-{self.life}",
            prices=PRICES,
        )  # fmt: skip

    # What must hold --------------------------------------------------------------------------------------------------

    def find_stored(self, *, excused: bool) -> None:
        """Read what the next life finds stored: all that a commit has promised, and perhaps more.

        ``excused``: the process was killed or could not write, so that answers may be lost that had arrived.
        """
        if not self.next_path.exists():
            if self.committed:
                raise BrokenError("the database is gone, and answers were stored in it")
            return
        with duckdb.connect(str(self.next_path)) as db:
            try:
                found = db.execute(
                    "SELECT DISTINCT request_hash, model FROM intent_responses WHERE call_error IS NULL"
                ).fetchall()
                prompts = dict(db.execute("SELECT request_hash, prompt FROM intent_prompts").fetchall())
            except duckdb.CatalogException:
                found, prompts = [], {}
        there = set(found)
        if lost := self.committed - there:
            raise BrokenError(f"{len(lost)} answers are lost whose commit had returned")
        self.committed |= there
        self.stored_prompts |= {named(prompts[key], model) for key, model in there if key in prompts}
        lost_answers = self.answered - self.stored_prompts
        most = (self.scenario.concurrency or MOST_CONCURRENCY) + self.scenario.unstored if excused else 0
        if len(lost_answers) > most:
            raise BrokenError(
                f"{len(lost_answers)} answers that had arrived are not stored, at most {most} may be lost"
            )

    def check_life(self, began: float) -> None:
        scenario, world = self.scenario, self.world
        asked = len(self.network.delivered.asked) - self.asked_before
        if self.life == 1 and scenario.max_calls is not None and asked > scenario.max_calls:
            raise BrokenError(f"{asked} requests, and max_calls is {scenario.max_calls}")
        paid = len(self.answered) * ANSWER_COST
        if self.life == 1 and scenario.max_cost is not None and paid > scenario.max_cost + 1e-9:
            raise BrokenError(f"paid {paid:.2f}, and max_cost is {scenario.max_cost:.2f}")
        if scenario.rpm is not None:
            seen = self.network.delivered.at[self.asked_before :]
            for asked_of in {where for _, where in seen}:
                at = [when for when, where in seen if where == asked_of]
                for place in range(len(at) - scenario.rpm):
                    if at[place + scenario.rpm] - at[place] < 60.0 - 0.5:
                        raise BrokenError(
                            f"more than {scenario.rpm} requests in {at[place + scenario.rpm] - at[place]:.2f} s"
                        )
        if world.seconds > self.must_end_at:
            raise BrokenError(f"it was stopped, and ended {world.seconds - self.must_end_at:.1f} s too late")
        most = self.network.most_in_flight
        if scenario.concurrency is not None and most > scenario.concurrency + CANARIES * scenario.servers:
            raise BrokenError(f"{most} requests in flight, and the concurrency is {scenario.concurrency}")
        if asked > MOST_TRIES * scenario.texts * (1 + scenario.cascade) + 100:
            raise BrokenError(f"{asked} requests for {scenario.texts} texts")
        failures = self.network.delivered.failures - self.failed_before
        limits = [one for one in (scenario.rpm, scenario.weather.rpm) if one is not None]
        weather = scenario.weather
        each = weather.latency_s * math.exp(weather.spread**2 / 2) + (scenario.timeout_s if failures else 0.0)
        allowed = LONGEST_LIFE_S + sum(120.0 * scenario.rows / one for one in limits)
        allowed += 2 * each * (scenario.texts + failures) / min(scenario.concurrency or 8, 8)
        if world.seconds - began > allowed:
            raise BrokenError(f"a life took {world.seconds - began:,.0f} s")

    def check_report(self, report: Report) -> None:
        if report.rows_in != self.scenario.rows:
            raise BrokenError(f"{report.rows_in} rows of {self.scenario.rows}")
        if report.results is not None and report.enriched + report.quarantined != report.rows_in:
            raise BrokenError("rows in are not enriched and quarantined ones")
        if report.exit_status == 4 and self.must_end_at == math.inf and report.stopped_at is None:
            raise BrokenError(f"{report.pending} requests are left, and nothing has stopped the run")
        if report.calls < (sent := len(self.network.delivered.asked) - self.asked_before):
            raise BrokenError(f"{report.calls} calls reported of {sent}")

    def check_end(self, report: Report) -> None:
        """Compare the tables with those of a run that nothing disturbed."""
        delivered, scenario = self.network.delivered, self.scenario
        with duckdb.connect(str(self.path), read_only=True) as db:
            good = {row[0]: row[1:] for row in db.execute("SELECT id, label, urgency, _model FROM intent").fetchall()}
            bad = dict(db.execute("SELECT id, _error FROM intent_quarantine").fetchall())
            twice = db.execute(
                "SELECT COUNT(*) FROM (SELECT request_hash, model FROM intent_responses WHERE call_error IS NULL "
                "GROUP BY ALL HAVING COUNT(*) > 1)"
            ).fetchall()[0][0]
            attempts = dict(db.execute(
                "SELECT id, (SELECT MAX(attempt) FROM intent_responses r WHERE r.request_hash = p.request_hash) "
                "FROM intent_prompts p").fetchall())  # fmt: skip
            open_lines = db.execute("SELECT COUNT(*) FROM _sqlenrich_runs WHERE run_id = ? AND status = 'running'",
                                    [report.run_id]).fetchall()[0][0]  # fmt: skip
        if open_lines:
            raise BrokenError("the last line of the ledger is open")
        if twice:
            raise BrokenError(f"{twice} requests have two answers")
        if len(good) + len(bad) != scenario.rows or set(good) & set(bad):
            raise BrokenError("a row is missing, or there twice")
        for row in self.rows():
            key = row["id"]
            prompt = named(f"{PROMPT}{row['body']}", good[key][2] if key in good else "m")
            if row["body"] is None:
                expected: Any = "NO_INPUT"
            else:
                expected = answer_to(prompt)
            if prompt in delivered.lied:
                continue
            if expected == "NO_INPUT" or expected == "no JSON":
                code = "NO_INPUT" if expected == "NO_INPUT" else "BAD_JSON"
                is_there = bad.get(key) == code
            else:
                value = json.loads(expected)
                is_there = key in good and good[key][:2] == (value["label"], value["urgency"])
            given_up = (
                scenario.cascade or attempts[key] == MOST_ATTEMPTS or delivered.failed.get(prompt, 0) >= MOST_TIMEOUTS
            )
            if not is_there and not (bad.get(key) == "CALL_ERROR" and given_up):
                raise BrokenError(f"row {key}: {good.get(key) or bad.get(key)}, not {expected}")
        for text in (*self.notes.lines, *self.texts, report.to_text()):
            if SECRET in text:
                raise BrokenError(f"the key is in a text: {text}")
        if SECRET.encode() in self.path.read_bytes():
            raise BrokenError("the key is in the database")


A_TOKEN_COSTS = Decimal(str(ANSWER_COST)) / ANSWER_TOKENS
PRICES = Prices(
    date(2026, 1, 1),
    models={
        name: Price(Decimal(0), Decimal(0), Decimal(str(ANSWER_COST)) / ANSWER_TOKENS * 1_000_000)
        for name in ("m", SECOND)
    },
)


def named(prompt: str, model: str) -> str:
    """Return a prompt as it is recorded."""
    return f"{SECOND} {prompt}" if model == SECOND else prompt


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def _beside(path: Path, of: Path, other: Path) -> Path:
    return other.with_name(path.name.replace(of.name, other.name))


def live(scenario: Scenario) -> Lives:
    """Run a scenario. Raises BrokenError."""
    folder = Path(tempfile.mkdtemp(prefix="sim-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    lives = Lives(scenario, folder)
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


def counted_faults(lives: Lives) -> Counter[str]:
    """Return how many faults of each kind happened."""
    left = set(lives.faults.values())
    return Counter(one.kind.partition("/")[0] for one in lives.scenario.faults if one not in left)

"""Runs that are killed at random moments: the requests that each kill exposed, and the tables after the last run."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from tests.support.program import Program
from tests.support.runs import Result, opened, rows, start, wait, write_csv

CONCURRENCY = 32
EXPOSED = CONCURRENCY + 256
ANSWERS = ('{"label":"a","urgency":1}', '```json\n{"label":"b","urgency":2}\n```', '{"label":"z","urgency":1}', "no")
"""Accepted, repaired and refused answers. The prompt chooses."""
PHASES = ("start", "ask", "end")
"""Before the first call; while requests are sent; after the last answer, while the tables are made."""
POLL_S = 0.002
SETTLE_S = 0.05
"""Time for the endpoint to read what a killed process left in the sockets."""
RUN_S = 300.0


@dataclass(frozen=True)
class Kill:
    """One kill: its phase, the requests that the process had sent, and those of them that were not stored."""

    phase: str
    sent: int
    exposed: frozenset[str]


@dataclass(frozen=True)
class Outcome:
    """The result of killed runs. ``asked_again``: requests beyond one per prompt. ``problems``: the failed checks."""

    distinct: int
    kills: Sequence[Kill]
    asked_again: int
    last: Result
    problems: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Calm:
    """The undisturbed run: its result, tables and times. ``prompts`` maps a request to the SHA-256 of its prompt."""

    result: Result
    tables: dict[str, Counter[Any]]
    prompts: dict[str, str]
    until_first_s: float
    after_last_s: float


def make_input(folder: Path, count: int) -> Path:
    """Distinct texts, each tenth row a duplicate, some empty; repeated and NULL keys."""
    asked = [i - 1 if i % 10 == 0 else i for i in range(count)]
    texts = [None if i % 97 == 0 else f"text {i} " + "x" * (i % 50) for i in asked]
    keys = [None if i % 31 == 0 else i // 2 for i in range(count)]
    return write_csv(folder / "in.csv", zip(keys, texts, strict=True))


def command(folder: Path, data: Path, output: Path, url: str) -> tuple[Any, ...]:
    """Return the command of a run of ``intent.prompt``."""
    options = ("--model", "mock", "--json", "--concurrency", CONCURRENCY)
    return ("run", folder / "intent.prompt", "--input", data, "--output", output, "--endpoint", url, *options)


def tables(output: Path) -> dict[str, Counter[Any]]:
    """Both result tables as multisets of rows, without the number of attempts and the times."""
    with opened(output) as db:
        return {
            "intent": Counter(db.execute("SELECT * EXCLUDE (_asked_at) FROM intent").fetchall()),
            "intent_quarantine": Counter(
                db.execute("SELECT * EXCLUDE (_attempts, _asked_at) FROM intent_quarantine").fetchall()
            ),
        }


def undisturbed(folder: Path, data: Path) -> Calm:
    """Run once without a kill, against a separate endpoint."""
    output = folder / "calm.duckdb"
    with Program(folder, *(part for text in ANSWERS for part in ("--content", text)), "--latency", 0.01) as program:
        began = time.time()
        result = wait(start(*command(folder, data, output, program.url)), RUN_S)
        ended = time.time()
        lines = program.lines()
    assert result.status == 0, result.err
    assert len(lines) == len({line["prompt"] for line in lines}) == result.report["distinct_requests"]
    prompts = dict(
        rows(output, "SELECT DISTINCT request_hash, sha256(prompt) FROM intent_prompts WHERE request_hash IS NOT NULL")
    )
    last = max(line["at"] + line["seconds"] for line in lines)
    return Calm(result, tables(output), prompts, min(line["at"] for line in lines) - began, ended - last)


def phases(kills: int, chance: random.Random) -> list[str]:
    """Return the phase of each kill: a fifth at the start, a fifth at the end, and at least one of each."""
    edge = max(kills // 5, 1 if kills >= len(PHASES) else 0)
    early = ["start"] * edge + ["ask"] * (kills - 2 * edge)
    chance.shuffle(early)
    return early + ["end"] * edge


def stored(output: Path, calm: Calm) -> set[str]:
    """Return the prompts whose answers are in the database of a killed run. Reads a copy."""
    with TemporaryDirectory() as name:
        for file in output.parent.glob(f"{output.name}*"):
            shutil.copy(file, name)
        copy = Path(name) / output.name
        if not copy.exists():
            return set()
        with duckdb.connect(str(copy)) as db:
            try:
                found = db.execute("SELECT request_hash FROM intent_responses WHERE call_error IS NULL").fetchall()
            except duckdb.CatalogException:
                return set()
    return {calm.prompts[request_hash] for (request_hash,) in found}


def moments(phase: str, program: Program, calm: Calm, after: int, pause_s: float) -> Iterator[bool]:
    """Return False repeatedly until the moment of the kill, then True."""
    began = time.monotonic()
    if phase == "ask":
        while program.stats()["requests"] < after:
            yield False
    else:
        if phase == "end" and program.stats()["distinct_prompts"] < len(calm.prompts):
            while (stats := program.stats())["distinct_prompts"] < len(calm.prompts) or stats["in_flight"]:
                yield False
            began = time.monotonic()
        while time.monotonic() - began < pause_s:
            yield False
    yield True


def kill_often(folder: Path, data: Path, calm: Calm, kills: int, chance: random.Random) -> Outcome:
    """Start runs and kill each at a random moment. Let the last one end."""
    output, distinct = folder / "killed.duckdb", len(calm.prompts)
    asked: Counter[str] = Counter()
    exposures: Counter[str] = Counter()
    done: list[Kill] = []
    ended = 0
    with Program(folder, *(part for text in ANSWERS for part in ("--content", text)), "--latency", 0.01) as program:
        order = phases(kills, chance)
        while len(done) < kills and ended < kills:
            phase = order[len(done)]
            seen = program.stats()["requests"]
            # Each kill gets an equal share of the remaining requests and falls somewhere in it.
            share = max(distinct - len(asked), 0) // (order[len(done) :].count("ask") + 1)
            after = seen + chance.randint(max(share // 3, 1), max(share, 2))
            # Runs differ in speed: use a part of the undisturbed run's times, so a kill is rarely too late.
            tables_s = 0.7 * calm.after_last_s + (calm.until_first_s if len(asked) == distinct else 0.0)
            pause_s = chance.uniform(0.0, {"start": 0.9 * calm.until_first_s, "ask": 0.0, "end": tables_s}[phase])
            process = start(*command(folder, data, output, program.url))
            for now in moments(phase, program, calm, after, pause_s):
                if now:
                    process.kill()
                elif process.poll() is not None:
                    break
                else:
                    time.sleep(POLL_S)
            process.communicate()
            killed = process.returncode < 0
            time.sleep(SETTLE_S)
            program.settled()
            sent = Counter(line["prompt"] for line in program.lines())
            asked += sent
            if not killed:
                ended += 1
                continue
            exposed = frozenset(sent.keys() - stored(output, calm))
            exposures.update(exposed)
            done.append(Kill(phase, sent.total(), exposed))
        last = wait(start(*command(folder, data, output, program.url)), RUN_S)
        program.settled()
        asked += Counter(line["prompt"] for line in program.lines())
    again = asked.total() - len(asked)
    checks = {
        f"{len(done)} kills of {kills}": len(done) == kills,
        f"the last run ended with {last.status}: {last.err}": last.status == 0,
        "prompts were asked that the undisturbed run did not ask, or the other way": set(asked)
        == set(calm.prompts.values()),
        f"a kill exposed more than {EXPOSED}": all(len(kill.exposed) <= EXPOSED for kill in done),
        "a prompt was asked more often than kills exposed it": all(
            count <= 1 + exposures[prompt] for prompt, count in asked.items()
        ),
        "the last run asked everything anew": last.status != 0 or last.report["calls"] < distinct,
    }
    if last.status == 0:
        found = tables(output)
        open_lines = rows(output, "SELECT count(*) FROM _sqlenrich_runs WHERE status = 'started' OR ended_at IS NULL")
        checks["a killed run has no last line in the ledger"] = open_lines == [(0,)]
        checks |= {f"{name} is not that of the undisturbed run": found[name] == calm.tables[name] for name in found}
    return Outcome(distinct, done, again, last, [problem for problem, fine in checks.items() if not fine])

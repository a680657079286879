"""Enrich many rows with the mock model, kill the run often, and audit the tables: memory, and the rate over time.

    python benchmarks/many_rows.py [--rows 38000000] [--distinct 3800000] [--kills 20] [--folder FOLDER]

Rows are short reviews; each distinct text stands in ``rows / distinct`` rows. A tenth of the kills (SIGKILL) comes
while the input is read, a tenth after the last answer while the tables are made, the others at random answers. Then the
same run goes to the end, and ``sqlenrich audit`` reads its tables. The mock model answers at once, so that all time is
the run's own.

Prints one line of JSON for each life, with its peak memory in MB, then the answers per second of each tenth of all
answers, and what the audit says. The exit status is 1 if rows are missing or the audit fails.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from local import PROMPT, show
from memory import resident

import sqlenrich as se
from sqlenrich.store.duckdb.kept_prompts import SETTLED_S

CHILD = """
import sys
import sqlenrich as se
from sqlenrich.ask.observer import NullObserver

class Counter(NullObserver):
    answers = 0
    def plan(self, line):
        print("plan", line.calls, flush=True)
        return True
    def answered(self, answers, total):
        self.answers += len(answers)
        print("answered", self.answers, flush=True)

report = se.run(se.load(sys.argv[1]), input=sys.argv[2], output=sys.argv[3], mock=True, observer=Counter())
print("rows", report.rows_in, report.enriched, report.quarantined, flush=True)
"""


@dataclass
class Life:
    """One process of the run: when it was killed, what it did, and the moments of its answers."""

    phase: str
    seconds: float = 0.0
    peak_mb: float = 0.0
    killed: bool = False
    pending: int = 0
    answers: int = 0
    before_first_s: float = 0.0
    after_last_s: float = 0.0
    rows: tuple[int, ...] = ()
    moments: list[tuple[float, int]] = field(default_factory=list)


def make_input(path: Path, rows: int, distinct: int) -> None:
    """Write the reviews: a text of about 60 bytes, in no order."""
    body = f"'Review ' || hash(i % {distinct}) || ': the parcel of order ' || (i % {distinct}) || ' has not come'"
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT i AS id, {body} AS body FROM range({rows}) AS t(i)) TO '{path}' (FORMAT parquet)")


def live(folder: Path, phase: str, chance: random.Random, left: int) -> Life:
    """Start the run and kill it at a moment of a phase; the phase ``whole`` is not killed."""
    life = Life(phase)
    command = [
        sys.executable,
        "-c",
        CHILD,
        *(str(folder / name) for name in ("r.prompt", "rows.parquet", "out.duckdb")),
    ]
    until = chance.randint(1, max(1, 2 * left)) if phase == "ask" else None
    pause_s = chance.uniform(0.0, 30.0) if phase in ("start", "end") else None
    began = time.monotonic()
    with (
        (folder / "told").open("wb") as told,
        subprocess.Popen(command, stdout=told, stderr=subprocess.PIPE) as child,
        (folder / "told").open() as lines,
    ):
        due = began + pause_s if pause_s is not None and phase == "start" else None
        for memory in resident(child):
            life.peak_mb = max(life.peak_mb, memory)
            now = time.monotonic()
            for name, *numbers in map(str.split, lines):
                hear(life, name, [int(number) for number in numbers], now - began)
            if phase == "end" and due is None and life.pending <= life.answers and (life.pending or life.moments):
                due = now + (pause_s or 0.0)
            if (until is not None and life.answers >= until) or (due is not None and now >= due):
                child.kill()
                break
        child.wait()
        life.seconds = time.monotonic() - began
        for name, *numbers in map(str.split, lines):
            hear(life, name, [int(number) for number in numbers], life.seconds)
        life.killed = child.returncode < 0
        if child.returncode > 0:
            raise SystemExit((child.stderr.read() if child.stderr else b"").decode())
    if life.moments:
        life.before_first_s, life.after_last_s = life.moments[0][0], life.seconds - life.moments[-1][0]
    return life


def hear(life: Life, name: str, numbers: list[int], at: float) -> None:
    """Take a line of the run."""
    if name == "plan":
        life.pending = numbers[0]
    elif name == "answered":
        life.answers = numbers[0]
        life.moments.append((at, life.answers))
    else:
        life.rows = tuple(numbers)


def rates(lives: list[Life], distinct: int) -> list[int]:
    """Return the answers per second of each tenth of all answers, without the starts and the ends of processes."""
    spent, counts, before = [0.0] * 10, [0] * 10, 0
    for life in lives:
        for (at, total), (later, more) in zip(life.moments, life.moments[1:], strict=False):
            tenth = min(9, (before + total) * 10 // distinct)
            spent[tenth] += later - at
            counts[tenth] += more - total
        before += life.answers
    return [round(count / seconds) if seconds else 0 for count, seconds in zip(counts, spent, strict=True)]


@contextmanager
def folder_of(given: Path | None) -> Iterator[Path]:
    """A folder, a temporary one without a name."""
    if given is None:
        with TemporaryDirectory() as name:
            yield Path(name)
    else:
        given.mkdir(parents=True, exist_ok=True)
        yield given


def main() -> None:
    """Kill, go to the end, audit, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=38_000_000)
    parser.add_argument("--distinct", type=int, default=3_800_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    edge = given.kills // 10
    phases = ["start"] * edge + ["ask"] * (given.kills - 2 * edge) + ["end"] * edge
    with folder_of(given.folder) as folder:
        (folder / "r.prompt").write_text(PROMPT, encoding="utf-8")
        make_input(folder / "rows.parquet", given.rows, given.distinct)
        time.sleep(SETTLED_S)  # of a file that has just changed no prompts are kept
        lives: list[Life] = []
        left = given.distinct
        for number, phase in enumerate([*phases, "whole"]):
            asks = max(1, phases[number:].count("ask") + 1)
            lives.append(life := live(folder, phase, chance, left // asks))
            left -= life.answers
            shown = {"phase": phase, "killed": life.killed, "seconds": round(life.seconds, 1)}
            shown |= {"pending": life.pending, "answers": life.answers, "peak_mb": round(life.peak_mb)}
            show(
                {**shown, "before_first_s": round(life.before_first_s, 1), "after_last_s": round(life.after_last_s, 1)}
            )
        rows_in, enriched, quarantined = lives[-1].rows
        began = time.monotonic()
        audit = se.audit(se.load(folder / "r.prompt"), output=folder / "out.duckdb")
        seconds = sum(life.seconds for life in lives)
        summary = {
            "rows": given.rows,
            "distinct": given.distinct,
            "kills": sum(life.killed for life in lives),
            "hours": round(seconds / 3600, 2),
            "rows_per_second": round(given.rows / seconds),
            "peak_mb": round(max(life.peak_mb for life in lives)),
            "answers_per_second_by_tenths": rates(lives, given.distinct),
            "stored_twice": sum(life.answers for life in lives) - given.distinct,
            "database_mb": round((folder / "out.duckdb").stat().st_size / 2**20),
            "audit_holds": audit.holds,
            "audit_s": round(time.monotonic() - began, 1),
            "audit_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10),
        }
    show(summary)
    if not audit.holds or rows_in != enriched + quarantined or rows_in != given.rows:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

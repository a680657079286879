"""Measure what a run on a warehouse takes beside its statements, on a stand-in whose model answers at once.

    python benchmarks/warehouse_loop.py [snowflake|bigquery|databricks] [--rows 10000] [--chunk-rows 1000]

The stand-in is a process of its own behind the vendor's unmodified client. "statements s" is what all statements and
queries took inside the stand-in, those of the ledger too; "beside s" is the rest of the run: the compiler, the
connection, HTTP, and the ends of statements that are seen late, those of the long last steps too. "loop beside s" is
the rest of the loop that asks, from the first range to the last answer. "own CPU s" is the time that this process
computed. A run of ten rows comes before: it imports the vendor's client.

Prints a line of JSON for each run (the second one asks nothing), and a table.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from local import markdown, show

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine
from tests.support.warehouse_runs import enrich
from tests.support.warehouses import MODULES, Standin, standin

COLUMNS = ("run", "rows", "calls", "asked in", "run s", "statements s", "beside s", "loop beside s", "own CPU s")
PROMPT = """---
source: raw.messages
key: [id]
params: {temperature: 0, max_tokens: 20}
output: {'label(enum)': [a, b]}
---
Label the message: {{ body }}
"""


class LoopClock(NullObserver):
    """Measures the loop that asks: its time beside what its statements took."""

    def __init__(self, place: Standin) -> None:
        self.place, self.began, self.beside_s = place, 0.0, 0.0

    def plan(self, _line: PlanLine) -> bool:
        """Begin."""
        self.began = self._beside()
        return True

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:  # noqa: ARG002
        """End, unless a further chunk follows."""
        self.beside_s = self._beside() - self.began

    def _beside(self) -> float:
        return time.monotonic() - self.place.seconds()


def measured(place: Standin, name: str, chunk_rows: int) -> dict[str, Any]:
    """Run once and give its seconds."""
    se.load(place.folder / "tickets.prompt")
    before, cpu, clock = place.seconds(), time.process_time(), LoopClock(place)
    report = enrich(place, chunk_rows=chunk_rows, observer=clock)
    cpu, statements_s = time.process_time() - cpu, place.seconds() - before
    steps: dict[str, float] = defaultdict(float)
    for one in report.statements:
        steps[one["step"]] += one["seconds"]
    show({"run": name, **{step: round(seconds, 2) for step, seconds in steps.items()}})
    asked = sum(one["step"] == "responses" for one in report.statements)
    seconds = (report.seconds, statements_s, report.seconds - statements_s, clock.beside_s, cpu)
    values = (name, report.rows_in, report.calls, asked, *(round(each, 2) for each in seconds))
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    """Measure a first and a second run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", nargs="?", choices=list(MODULES), default="snowflake")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--chunk-rows", type=int, default=1_000)
    given = parser.parse_args()
    rows = [{"id": str(n), "body": f"text {n}"} for n in range(given.rows)]
    with TemporaryDirectory() as name, standin(given.engine, Path(name)) as place:
        os.environ["DBT_PROFILES_DIR"] = name
        (place.folder / "tickets.prompt").write_text(PROMPT)
        place.clear()
        place.load(rows[:10])
        place.set(answers=str(place.folder / "tickets.prompt"))
        enrich(place, chunk_rows=1)
        place.clear()
        place.load(rows)
        place.set(answers=str(place.folder / "tickets.prompt"))
        found = [measured(place, f"{given.engine} {run}", given.chunk_rows) for run in ("first", "second")]
    print(markdown(found, COLUMNS))


if __name__ == "__main__":
    main()

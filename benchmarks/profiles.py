"""Measure what the profile of a run adds to it.

    python benchmarks/profiles.py [--rows 1000000]

A run over rows of ten output fields with the mock model; its profile is stored three times. Prints a Markdown table:
the seconds of the run, of a profile (the median), and its lines.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import duckdb
from local import markdown, show
from report_page import PROMPT

import sqlenrich as se
from sqlenrich.store.duckdb.backend import DuckDBBackend

COLUMNS = ("rows", "run s", "profile s", "lines")
ROWS = "SELECT i::VARCHAR AS id, 'mail' AS channel, 'text ' || i AS body FROM range({}) AS numbers (i)"
REPEAT = 3


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    seconds: list[float] = []
    append_profile = DuckDBBackend.append_profile

    def measured(backend: DuckDBBackend, *query: object) -> None:
        for _ in range(REPEAT):
            started = time.perf_counter()
            append_profile(backend, *query)  # type: ignore[arg-type]
            seconds.append(time.perf_counter() - started)

    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tickets.prompt").write_text(PROMPT, encoding="utf-8")
        duckdb.sql(f"COPY ({ROWS.format(given.rows)}) TO '{folder / 'rows.parquet'}'")
        output = folder / "out.duckdb"
        with mock.patch.object(DuckDBBackend, "append_profile", measured):
            report = se.run(se.load(folder / "tickets.prompt"), input=folder / "rows.parquet", output=output, mock=True)
        with duckdb.connect(str(output), read_only=True) as db:
            ((lines,),) = db.execute("SELECT count(*) FROM tickets_profiles").fetchall()
    found = (given.rows, round(report.seconds - sum(seconds), 1), round(statistics.median(seconds), 2), lines // REPEAT)
    row = dict(zip(COLUMNS, found, strict=True))
    show(row)
    print(markdown([row], COLUMNS))


if __name__ == "__main__":
    main()

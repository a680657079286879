"""Check that rows with the same prompt are asked once: in a run, in the next, and in enrichments that share answers.

    python benchmarks/duplicates.py [--rows 100000] [--distinct 20000]

The distinct prompts are spread over the whole table. There are four runs. ``first`` asks each prompt once. ``again``
is the same command. ``moved`` has the rows in another order. ``other`` is another enrichment with the same prompt and
output. It shares the answers by ``--responses``, a table of the same database. The requests are counted by the
endpoint. The exit status is 1 if a prompt was asked twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from local import Program, counts, enrich, markdown, show, texts, write_prompt, write_settings

COLUMNS = ("run", "status", "seconds", "rows", "distinct", "seen", "calls", "cached", "enriched", "problems")


def main() -> None:
    """Run all four, one after another."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--distinct", type=int, default=20_000)
    given = parser.parse_args()
    rows, distinct = given.rows, min(given.distinct, given.rows)
    # A step without a common factor with the count visits each text, far from its neighbours.
    spread = f"'Message ' || (i * 7919) % {distinct} || ' about a parcel'"
    moved = f"'Message ' || ({rows} - 1 - i) % {distinct} || ' about a parcel'"
    measured: list[dict[str, Any]] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        output = folder / "out.duckdb"
        inputs = [texts(folder / f"{part}.csv", rows, body) for part, body in (("spread", spread), ("moved", moved))]
        for enrichment in ("ticket", "other"):
            write_prompt(folder, enrichment)
        with Program(folder, "--latency", 0.002) as program:
            write_settings(folder, program.url)
            for part, data, enrichment, expected in (
                ("first", inputs[0], "ticket", distinct),
                ("again", inputs[0], "ticket", 0),
                ("moved", inputs[1], "ticket", 0),
                ("other", inputs[0], "other", 0),
            ):
                program.reset()
                run = enrich(folder, data, output, "--responses", "answers", name=enrichment)
                seen = program.stats()["requests"]
                good, bad, ids, _ = counts(output, enrichment)
                held = {
                    f"exit status {run.status}: {run.error}": run.status == 0,
                    f"{seen} requests seen, {expected} expected": seen == expected,
                    f"{run.report.get('calls')} calls told": run.report.get("calls") == seen,
                    f"{good} + {bad} rows, {ids} ids of {rows}": good + bad == ids == rows,
                }
                figures = {
                    "run": part,
                    "status": run.status,
                    "seconds": run.seconds,
                    "rows": rows,
                    "distinct": run.report.get("distinct_requests"),
                    "seen": seen,
                    "calls": run.report.get("calls"),
                    "cached": run.report.get("cached"),
                    "enriched": good,
                    "problems": [problem for problem, fine in held.items() if not fine],
                }
                measured.append(figures)
                show(figures)
    print(markdown(measured, COLUMNS))
    if any(one["problems"] for one in measured):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

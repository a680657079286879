"""Measure runs against an endpoint that fails: each kind of fault at several shares of the requests.

    python benchmarks/faults.py [--rows 10000] [--kinds 500 hang ...] [--shares 0.01 0.1 0.5 1] [--after 100]
                                [--limit 900]

Each measurement is ``sqlenrich run`` as a process with distinct rows, a fresh database and a fresh endpoint program.
It checks that

- the run ends within the limit;
- each row in is in NAME or NAME_quarantine, once;
- each prompt with a whole completion is stored as answered, and none got two but the canary, which is sent again
  where nothing is answered, to tell an outage from requests at fault;
- an error (exit status 1) comes only if no request can succeed.

In addition to the shares, each kind affects all requests but the first 100 (``--after``): an endpoint that fails
during a run. Prints a line of JSON for each measurement, and a table. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
from local import Program, counts, enrich, markdown, row_count, show, texts, write_prompt, write_settings

KINDS = (
    *("429", "429_after", "500", "503", "reset", "reset_mid", "hang", "stall", "slow", "cut", "wrong_type", "html"),
    *("no_choices", "error_200", "empty", "huge"),
)
SILENT = ("hang", "stall")
HARMLESS = ("slow", "wrong_type", "empty", "huge")
"""Kinds of completions that are whole: a run with nothing else ends well."""
CANARIES = 1
"""The prompts that a run may send again although they were answered: the shortest one."""
HUGE_BYTES = 3_000_000
HUGE_BYTES_OF_RUN = 100_000_000
"""All huge answers of a run together: the more there are, the smaller each is."""
BODY = "'Message ' || i || ' about order ' || hash(i) || ': ' || repeat('the parcel has not come, ', 1 + i % 5)"
COLUMNS = (
    *(
        "fault",
        "share",
        "after",
        "status",
        "seconds",
        "enriched",
        "quarantine",
        "pending",
        "calls",
        "retries",
        "complete",
    ),
    *("lost", "paid_twice", "problems"),
)
LOST = """
WITH whole AS (SELECT prompt FROM read_json('{log}', format = 'newline_delimited') WHERE complete GROUP BY ALL),
stored AS (
  SELECT DISTINCT sha256(p.prompt) AS prompt
  FROM ticket_prompts AS p JOIN ticket_responses AS r USING (request_hash) WHERE r.call_error IS NULL
)
SELECT count(*) FROM whole ANTI JOIN stored USING (prompt)
"""
TWICE = """
SELECT count(*) FROM (
  SELECT prompt FROM read_json('{log}', format = 'newline_delimited') WHERE complete GROUP BY ALL HAVING count(*) > 1
)
"""


def measure(folder: Path, kind: str, share: float, after: int, rows: int, limit_s: float) -> dict[str, Any]:
    """Run once, with faults from the request ``after`` on. ``problems`` names the failed checks."""
    write_prompt(folder)
    data, output = texts(folder / "in.csv", rows, BODY), folder / "out.duckdb"
    huge = min(HUGE_BYTES, round(HUGE_BYTES_OF_RUN / (rows * share)))
    faults = ("--fault", f"{kind}={share}", "--calm", after, "--huge", huge)
    with Program(folder, *faults, "--latency", 0.005) as program:
        write_settings(folder, program.url, timeout=1.0 if kind in SILENT else 10.0)
        run = enrich(folder, data, output, limit_s=limit_s)
        seen = program.stats()
    good, bad, ids, codes = counts(output)
    lost = row_count(output, LOST.format(log=program.log)) if seen["complete"] else 0
    with duckdb.connect() as db:
        twice = db.execute(TWICE.format(log=program.log)).fetchall()[0][0] if seen["complete"] else 0
    figures = {
        "fault": kind,
        "share": share,
        "after": after,
        "rows": rows,
        "status": run.status,
        "seconds": run.seconds,
        "enriched": good,
        "quarantine": codes,
        "pending": run.report.get("pending", codes.get("NOT_ASKED", 0)),
        "calls": run.report.get("calls", seen["requests"]),
        "retries": run.report.get("retries", seen["requests"] - seen["distinct_prompts"]),
        "complete": seen["complete"],
        "lost": lost,
        "paid_twice": twice,
        "hung": run.hung,
        "error": run.error,
    }
    expected = (0, 3) if kind in HARMLESS else (0, 3, 4) if share < 1 else (1, 3, 4)
    held = {
        f"hangs: killed after {limit_s:g} s": not run.hung,
        f"exit status {run.status}": run.hung or run.status in expected,
        f"{good} + {bad} rows of {rows}": good + bad == rows,
        f"{ids} ids of {rows}": ids == rows,
        f"{lost} answers are not stored": lost == 0,
        f"{twice} prompts were answered twice": twice <= CANARIES,
        f"{figures['calls']} calls told, {seen['requests']} seen": figures["calls"] == seen["requests"],
    }
    return {**figures, "problems": [problem for problem, fine in held.items() if not fine]}


def main() -> None:
    """Measure each kind at each share."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.01, 0.1, 0.5, 1.0])
    parser.add_argument("--after", type=int, default=100, metavar="N", help="0: no run whose endpoint dies")
    parser.add_argument("--limit", type=float, default=900.0, metavar="S", help="a run that takes longer hangs")
    given = parser.parse_args()
    measured = []
    dying = [(1.0, given.after)] if given.after else []
    for kind in given.kinds:
        for share, after in [*((share, 0) for share in given.shares), *dying]:
            with TemporaryDirectory() as folder:
                measured.append(measure(Path(folder), kind, share, after, given.rows, given.limit))
                show(measured[-1])
    print(markdown(measured, COLUMNS))
    if any(one["problems"] for one in measured):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

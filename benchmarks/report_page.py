"""Measure how long the page of a large table takes, and how much memory.

    python benchmarks/report_page.py [--rows 1000000]

The tables are those of a run with ten output fields, written without asking a model: 1 % refused, every tenth request
shared by two rows, a review of 500 answers. Prints a Markdown table: the seconds of the whole command, its greatest
resident memory, and the size of the page. The exit status is 1 above 10 s a million rows, 300 MB or 1 MB.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

import sqlenrich as se

MOST_S, MOST_MB, MOST_PAGE_MB = 10.0, 300.0, 1.0
PROMPT = """---
key: [id]
keep: [channel]
review: {share: 0.01, by: intent}
columns: {body: string}
output:
  type: object
  properties:
    intent: {type: string, enum: [refund, bug, billing, outage, other]}
    urgency: {type: integer, minimum: 1, maximum: 5}
    sentiment: {type: string, enum: [good, neutral, bad]}
    has_pii: {type: boolean}
    needs_human: {type: boolean}
    amount: {type: number}
    products: {type: array, items: {type: string}}
    language: {type: string}
    summary: {type: string}
    score: {type: integer, minimum: 0, maximum: 100}
  required: [intent, urgency, sentiment, has_pii, needs_human, amount, products, language, summary, score]
---
Classify. {{ body }}
"""
HASH = "sha256((i - CASE WHEN i % 10 = 1 THEN 1 ELSE 0 END)::VARCHAR)"
SUMMARY = "'The customer ' || i || ' asks for ' || repeat('something ', (i % 20)::INTEGER)"
ENRICHED = f"""SELECT i::VARCHAR AS id, 'mail' AS channel,
    ['refund', 'bug', 'billing', 'outage', 'other'][1 + i // 10 % 5] AS intent, 1 + i // 10 % 5 AS urgency,
    ['good', 'neutral', 'bad'][1 + i // 10 % 3] AS sentiment, i // 10 % 7 = 0 AS has_pii,
    i // 10 % 2 = 0 AS needs_human, i // 10 / 8 AS amount, ['a', 'b'] AS products, 'en' AS language,
    {SUMMARY} AS summary, i // 10 % 101 AS score, {HASH} AS _request_hash, 'mock' AS _model, '1' AS _version,
    'f' AS _fingerprint FROM range(ROWS) AS numbers (i) WHERE i % 100 <> 7"""
QUARANTINE = f"""SELECT i::VARCHAR AS id, 'mail' AS channel, 'BAD_JSON' AS _error, 'no JSON' AS _error_detail,
    false AS _repaired, repeat('x', 3000) AS response, 'Classify. ' || i AS prompt, 1 AS _attempts,
    {HASH} AS _request_hash FROM range(ROWS) AS numbers (i) WHERE i % 100 = 7"""
PROMPTS = f"""SELECT i::VARCHAR AS id, 'Classify. ' || {SUMMARY} AS prompt, {HASH} AS request_hash
    FROM range(ROWS) AS numbers (i)"""


def write_tables(folder: Path, rows: int) -> None:
    """Write the prompt file, and the tables of a run over as many rows."""
    (folder / "tickets.prompt").write_text(PROMPT, encoding="utf-8")
    line = {"id": "x", "channel": "mail", "body": "text"}
    se.run(se.load(folder / "tickets.prompt"), input=[line], output=folder / "out.duckdb", mock=True)
    with duckdb.connect(str(folder / "out.duckdb")) as db:
        for table, query in (("", ENRICHED), ("_quarantine", QUARANTINE), ("_prompts", PROMPTS)):
            db.execute(f"DELETE FROM tickets{table}")
            db.execute(f"INSERT INTO tickets{table} BY NAME {query.replace('ROWS', str(rows))}")


def judge(folder: Path) -> None:
    """Judge the default sample: all right."""
    sheet = folder / "review.csv"
    se.review(se.load(folder / "tickets.prompt"), output=folder / "out.duckdb", sheet=sheet)
    with sheet.open(encoding="utf-8", newline="") as file:
        header, *lines = list(csv.reader(file))
    for line in lines:
        for place, name in enumerate(header):
            if name.startswith("verdict: "):
                line[place] = "y"
    with sheet.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *lines])
    se.review(se.load(folder / "tickets.prompt"), output=folder / "out.duckdb", read=sheet)


def prepare(folder: Path, rows: int) -> None:
    """Write the tables and judge a sample."""
    write_tables(folder, rows)
    judge(folder)


def main() -> None:
    """Measure one size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        # A child's greatest memory begins with that of its parent: the tables are written by another process.
        writer = get_context("spawn").Process(target=prepare, args=(folder, given.rows))
        writer.start()
        writer.join()
        arguments = (
            "report",
            folder / "tickets.prompt",
            "--output",
            folder / "out.duckdb",
            "--page",
            folder / "p.html",
        )
        begun = time.monotonic()
        process = subprocess.Popen([sys.executable, "-m", "sqlenrich", *map(str, arguments)], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        megabytes, page = used.ru_maxrss / 1000, (folder / "p.html").stat().st_size / 1e6
    print("| rows | seconds | memory, MB | page, MB |\n| ---: | ---: | ---: | ---: |")
    print(f"| {given.rows:,} | {seconds:.1f} | {megabytes:.0f} | {page:.2f} |")
    most_s = MOST_S * max(1, given.rows / 1e6)
    sys.exit(0 if status == 0 and seconds <= most_s and megabytes <= MOST_MB and page <= MOST_PAGE_MB else 1)


if __name__ == "__main__":
    main()

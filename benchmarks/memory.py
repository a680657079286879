"""Measure memory and rate of whole runs with the mock model, by size: memory is bounded, and the rate does not fall.

    python benchmarks/memory.py 300000 1000000 3000000 --input parquet

Prints one line of JSON per size: the maximum resident memory of the run's process in MB, for the whole run and (on
Linux) for each tenth of its time; the rows per second; the processor time per row, which other programs disturb less.
Then prints a table that compares each size with the first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

PROMPT = """---
key: [id]
output:
  type: object
  properties:
    label: {type: string, enum: [complaint, question, praise, other]}
    urgency: {type: integer, minimum: 1, maximum: 5}
    reason: {type: string, maxLength: 80}
  required: [label, urgency, reason]
  additionalProperties: false
---
Classify the message of a customer and give its urgency, with a reason of a few words.

Message: {{ body }}
"""
BODY = "'Message ' || i || ' about order ' || hash(i) || ': ' || repeat('the parcel has not come, ', 6)"
CHILD = """
import resource, sys
import sqlenrich as se
report = se.run(se.load(sys.argv[1]), input=sys.argv[2], output=sys.argv[3], mock=True)
assert report.rows_in == report.enriched + report.quarantined == int(sys.argv[4]), report
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_maxrss, used.ru_utime + used.ru_stime)
"""
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLE_S = 0.2


def make_input(path: Path, rows: int) -> None:
    """Write rows of about 220 bytes, which make prompts of about 300."""
    options = {".parquet": "FORMAT parquet", ".jsonl": "FORMAT json", ".csv": "FORMAT csv, HEADER"}[path.suffix]
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT i AS id, {BODY} AS body FROM range({rows}) AS t(i)) TO '{path}' ({options})")


def measure(folder: Path, rows: int, form: str) -> dict[str, object]:
    """Run once in a process of its own."""
    prompt, data, output = folder / "memory.prompt", folder / f"rows.{form}", folder / "out.duckdb"
    prompt.write_text(PROMPT, encoding="utf-8")
    make_input(data, rows)
    command = [sys.executable, "-c", CHILD, str(prompt), str(data), str(output), str(rows)]
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        samples = list(resident(child))
        out, errors = child.communicate()
    if child.returncode:
        raise SystemExit(errors)
    seconds = time.monotonic() - started
    peak, cpu = (float(word) for word in out.split())
    return {
        "rows": rows,
        "input": form,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows / seconds),
        "cpu_us_per_row": round(cpu / rows * 1e6, 1),
        "peak_mb": round(peak / (2**20 if sys.platform == "darwin" else 2**10)),
        "tenths_mb": tenths(samples),
        "database_mb": round(output.stat().st_size / 2**20),
    }


def resident(child: subprocess.Popen[Any]) -> Iterator[float]:
    """Return the resident memory of a process in MB, repeatedly until it ends. Without /proc, give nothing."""
    while child.poll() is None:
        with suppress(OSError, IndexError):
            yield int(Path(f"/proc/{child.pid}/statm").read_text().split()[1]) * PAGE / 2**20
        time.sleep(SAMPLE_S)


def tenths(samples: Sequence[float]) -> list[int]:
    """Return the maximum of each tenth of the time."""
    parts = (samples[len(samples) * n // 10 : len(samples) * (n + 1) // 10] for n in range(10))
    return [round(max(part)) for part in parts if part]


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return the sizes side by side as Markdown."""
    first = lines[0]
    shown = ["| rows | rows/s | of the first | CPU us/row | peak MB | database MB |", "| ---: " * 6 + "|"]
    for line in lines:
        rate = line["rows_per_second"]
        cells = [f"{line['rows']:,}", f"{rate:,}", f"{rate / first['rows_per_second']:.0%}"]
        cells += [str(line["cpu_us_per_row"]), str(line["peak_mb"]), f"{line['database_mb']:,}"]
        shown.append(f"| {' | '.join(cells)} |")
    return "\n".join(shown)


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--input", choices=("csv", "jsonl", "parquet"), default="csv")
    given = parser.parse_args()
    lines = []
    for rows in given.rows:
        with TemporaryDirectory() as folder:
            lines.append(measure(Path(folder), rows, given.input))
        print(json.dumps(lines[-1]), flush=True)
    print(f"\n{table(lines)}")


if __name__ == "__main__":
    main()

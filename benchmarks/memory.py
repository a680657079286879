"""Peak memory and time of whole runs with the mock model: ``python benchmarks/memory.py 100000 1000000``.

Prints one line of JSON per size: rows, the form of the input, seconds, the process's peak resident memory in MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

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
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def make_input(path: Path, rows: int) -> None:
    """Write rows of about 220 bytes, so that a prompt has about 300."""
    options = {".parquet": "FORMAT parquet", ".jsonl": "FORMAT json", ".csv": "FORMAT csv, HEADER"}[path.suffix]
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT i AS id, {BODY} AS body FROM range({rows}) AS t(i)) TO '{path}' ({options})")


def measure(folder: Path, rows: int, form: str) -> dict[str, object]:
    """Run once in a process of its own."""
    prompt, data, output = folder / "memory.prompt", folder / f"rows.{form}", folder / "out.duckdb"
    prompt.write_text(PROMPT, encoding="utf-8")
    make_input(data, rows)
    started = time.monotonic()
    command = [sys.executable, "-c", CHILD, str(prompt), str(data), str(output), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds = time.monotonic() - started
    peak = int(done.stdout) / (2**20 if sys.platform == "darwin" else 2**10)
    return {
        "rows": rows,
        "input": form,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows / seconds),
        "peak_mb": round(peak),
        "database_mb": round(output.stat().st_size / 2**20),
    }


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--input", choices=("csv", "jsonl", "parquet"), default="csv")
    given = parser.parse_args()
    for rows in given.rows:
        with TemporaryDirectory() as folder:
            print(json.dumps(measure(Path(folder), rows, given.input)), flush=True)


if __name__ == "__main__":
    main()

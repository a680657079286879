"""Measure a run of many rows by batches: what is sent, a start with open batches, and what is collected.

    python benchmarks/batches.py [--rows 1000000] [--requests 50000]

A stand-in of OpenAI's Batch API runs in a process of its own; it ends a batch when it is asked for the third time. Each
step is a ``sqlenrich run --batch --no-wait`` on DuckDB. Prints a line of JSON a step: the seconds, the rows a second,
the most resident memory in MB, and the batches that it left open.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

ROOT = Path(__file__).resolve().parents[1]
PROMPT = """---
key: [id]
params: {temperature: 0, max_tokens: 64}
output: {intent(enum): [card, transfer, other]}
---
Which topic has this message of a customer? {{ body }}
"""
POLLS = 3


def measured(command: list[str], folder: Path) -> tuple[float, float, str]:
    """Run a command; return its seconds, its most resident memory in MB, and its JSON."""
    began = time.monotonic()
    with (folder / "told").open("wb") as told, (folder / "lines").open("wb") as lines:
        child = subprocess.Popen(
            command, stdout=told, stderr=lines, cwd=folder, env={**os.environ, "OPENAI_API_KEY": "k"}
        )
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 4):
        sys.exit((folder / "lines").read_text())
    return time.monotonic() - began, usage.ru_maxrss / 1024, (folder / "told").read_text()


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=50_000, help="of a batch")
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "topics.prompt").write_text(PROMPT)
        body = "'Message ' || range || ': my card was declined at a shop, although there is money in my account.'"
        rows = f"SELECT range AS id, {body} AS body FROM range({given.rows})"
        duckdb.execute(f"COPY ({rows}) TO '{folder}/rows.parquet' (FORMAT parquet)")
        command = [sys.executable, "tests/support/batch_vendors.py", "--polls", str(POLLS)]
        stand_in = subprocess.Popen(
            [*command, "--content", '{"intent":"card"}'], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert stand_in.stdout is not None
        try:
            url = stand_in.stdout.readline().split()[1]
            (folder / "sqlenrich.toml").write_text(
                f'[endpoints.nightly]\nurl = "{url}"\napi_key_env = "OPENAI_API_KEY"\napi = "openai"\n'
                f"batch_requests = {given.requests}\nprobe = false\n"
            )
            run = [sys.executable, "-m", "sqlenrich", "run", "topics.prompt", "--input", "rows.parquet"]
            run += [
                "--output",
                "out.duckdb",
                "--endpoint",
                "nightly",
                "--model",
                "mock",
                "--batch",
                "--no-wait",
                "--json",
            ]
            for step in ("send", "start", *["collect"] * POLLS):
                seconds, megabytes, told = measured(run, folder)
                report = json.loads(told)
                line = {"step": step, "seconds": round(seconds, 1), "rows_per_s": round(given.rows / seconds)}
                found = {"mb": round(megabytes), "pending": report["pending"], "enriched": report["enriched"]}
                states = [batch["state"] for batch in report["batches"]]
                print(json.dumps(line | found | {"open": states.count("created")}), flush=True)
                if not report["pending"]:
                    break
        finally:
            stand_in.terminate()
            stand_in.wait()


if __name__ == "__main__":
    main()

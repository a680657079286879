"""Shared by the benchmarks of runs: the command as a process, the endpoint program beside it, and printed figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.limits import TELLS
from tests.support.program import Program

__all__ = [
    "TELLS",
    "Program",
    "Run",
    "counts",
    "enrich",
    "markdown",
    "row_count",
    "show",
    "texts",
    "write_prompt",
    "write_settings",
]

ROOT = Path(__file__).resolve().parents[1]
PROMPT = """---
key: [id]
output:
  type: object
  properties:
    label: {type: string, enum: [complaint, question, praise, other]}
    urgency: {type: integer, minimum: 1, maximum: 5}
  required: [label, urgency]
  additionalProperties: false
---
Classify the message of a customer and give its urgency.

Message: {{ body }}
"""
COMMAND = (sys.executable, "-c", "from sqlenrich.__main__ import main; main()")
KILL_S = 30.0


@dataclass(frozen=True)
class Run:
    """The end of a command. ``hung``: it did not end within the limit. ``report`` is empty if none was printed."""

    status: int
    seconds: float
    report: Mapping[str, Any]
    error: str
    hung: bool


def enrich(
    folder: Path, data: Path, output: Path, *options: object, name: str = "ticket", limit_s: float = 900.0
) -> Run:
    """Run NAME.prompt of a folder as a process, which is killed at ``limit_s``."""
    given = [
        "run",
        folder / f"{name}.prompt",
        "--input",
        data,
        "--output",
        output,
        "--model",
        "mock",
        "--json",
        *options,
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    began = time.monotonic()
    process = subprocess.Popen(
        [*COMMAND, *map(str, given)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    hung = False
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        hung = True
        process.kill()
        out, err = process.communicate(timeout=KILL_S)
    seconds = time.monotonic() - began
    said = [line.removeprefix("Error: ") for line in err.splitlines() if line.startswith("Error: ")]
    report = json.loads(out) if out.strip() else {}
    return Run(process.returncode, round(seconds, 1), report, (said or [""])[-1], hung)


def write_prompt(folder: Path, name: str = "ticket", text: str = PROMPT) -> Path:
    """Write NAME.prompt."""
    path = folder / f"{name}.prompt"
    path.write_text(text, encoding="utf-8")
    return path


def write_settings(folder: Path, url: str, **settings: float) -> None:
    """Write sqlenrich.toml with one endpoint."""
    lines = ["[endpoints.local]", f'url = "{url}"', *(f"{name} = {value}" for name, value in settings.items())]
    (folder / "sqlenrich.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def texts(path: Path, rows: int, body: str) -> Path:
    """Write a CSV file of ids from 0 and texts: ``body`` is SQL over the row's number ``i``."""
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT i AS id, {body} AS body FROM range({rows}) AS t(i)) TO '{path}' (HEADER)")
    return path


def row_count(output: Path, query: str) -> int:
    """Return the result of a counting query on an output database, or 0 if a table is missing."""
    try:
        with duckdb.connect(str(output), read_only=True) as db:
            found = db.execute(query).fetchone()
    except (duckdb.CatalogException, duckdb.IOException):
        return 0
    return int(found[0]) if found else 0


def counts(output: Path, name: str = "ticket") -> tuple[int, int, int, dict[str, int]]:
    """Return the number of enriched and quarantined rows, the distinct ids of both, and the reason codes."""
    good, bad = (row_count(output, f"SELECT count(*) FROM {table}") for table in (name, f"{name}_quarantine"))
    both = f"SELECT id FROM {name} UNION ALL SELECT id FROM {name}_quarantine"
    ids = row_count(output, f"SELECT count(DISTINCT id) FROM ({both})")
    if not bad:
        return good, bad, ids, {}
    with duckdb.connect(str(output), read_only=True) as db:
        codes = db.execute(f"SELECT _error, count(*) FROM {name}_quarantine GROUP BY ALL ORDER BY ALL").fetchall()
    return good, bad, ids, {str(code): int(count) for code, count in codes}


def show(figures: Mapping[str, Any]) -> None:
    """Print one measurement as a line of JSON."""
    print(json.dumps(figures), flush=True)


def markdown(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return measurements as a table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join(
        [*lines, *("| " + " | ".join(_cell(row.get(name, "")) for name in columns) + " |" for row in rows)]
    )


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(count)}" for key, count in value.items())
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return f"{value:,}" if type(value) is int else str(value)

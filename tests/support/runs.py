"""Helpers of the tests of runs: prompt files, data files, the command line in this process and in another one."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlenrich.cli.main import main

COMMAND = (sys.executable, "-c", "from sqlenrich.__main__ import main; main()")
TIMEOUT_S = 60
OUTPUT = """output:
  type: object
  properties:
    label: {type: string, enum: [a, b, c]}
    urgency: {type: integer, minimum: 1, maximum: 5}
  required: [label, urgency]
  additionalProperties: false
"""
TEMPLATE = "Classify: {{ body }}"
GOOD = '{"label":"a","urgency":3}'


@dataclass(frozen=True)
class Result:
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """The report that ``--json`` printed, alone on stdout."""
        return dict(json.loads(self.out))

    @property
    def error(self) -> str:
        """The error, which is one line and the last one."""
        lines = [line for line in self.err.splitlines() if line.startswith("Error: ")]
        assert len(lines) == 1, self.err
        assert self.err.rstrip().endswith(lines[0]), f"more than one line: {self.err}"
        assert "Traceback" not in self.err
        return lines[0].removeprefix("Error: ")


def write_prompt(
    folder: Path, header: str = "key: [id]\n", template: str = TEMPLATE, *, output: str = OUTPUT, name: str = "intent"
) -> Path:
    """Write NAME.prompt."""
    path = folder / f"{name}.prompt"
    path.write_text(f"---\n{header}{output}---\n{template}\n", encoding="utf-8")
    return path


def write_csv(path: Path, rows: Iterable[Sequence[object]], header: Sequence[str] = ("id", "body")) -> Path:
    """Write a CSV file. None is an empty field."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def call(*arguments: object) -> Result:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    given, sys.argv = sys.argv, ["sqlenrich", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = given
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Result(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def start(*arguments: object, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start the command line as a process."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )


def wait(process: subprocess.Popen[str], timeout_s: float = TIMEOUT_S) -> Result:
    """Wait until a process ends. Kill it after the timeout."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Result(process.returncode, out, err)


def run(prompt: Path, data: Path, output: Path, *arguments: object) -> Result:
    """``sqlenrich run`` with the mock model and a report, in this process."""
    return call("run", prompt, "--input", data, "--output", output, "--mock", "--json", *arguments)


def ask(prompt: Path, data: Path, output: Path, url: str, *arguments: object) -> Result:
    """``sqlenrich run`` that asks an endpoint."""
    options = ("--endpoint", url, "--model", "mock", "--json")
    return call("run", prompt, "--input", data, "--output", output, *options, *arguments)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database to read it."""
    db = duckdb.connect(str(path), read_only=True)
    try:
        yield db
    finally:
        db.close()


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on an output database."""
    with opened(path) as db:
        return db.execute(sql).fetchall()


def names(path: Path, table: str) -> list[str]:
    """Return the columns of a table."""
    return [str(row[0]) for row in rows(path, f'DESCRIBE "{table}"')]


def assert_accounted(report: Mapping[str, Any], output: Path, name: str = "intent") -> None:
    """Assert that each row of the source is in one of the two tables, and that the report has their counts."""
    good, bad = (rows(output, f'SELECT count(*) FROM "{table}"')[0][0] for table in (name, f"{name}_quarantine"))
    assert report["rows_in"] == good + bad
    assert (report["enriched"], report["quarantined"]) == (good, bad)
    assert sum(report["quarantine"].values()) == bad

"""Runs of one prompt file over one source table on a stand-in: what the tests of runs, plans and usage share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine
from sqlenrich.core.lease import LeasePolicy
from sqlenrich.runner.place import open_connection
from sqlenrich.store.jobs import JobPolicy
from sqlenrich.store.warehouse import WarehouseBackend
from tests.support.warehouses import Standin

PROMPT = """---
source: raw.messages
key: [id]
keep: [channel]
params: {temperature: 0, max_tokens: 20}
retry: {max_attempts: 2}
output:
  type: object
  properties:
    intent: {type: string, enum: [a, b, c]}
    urgency: {type: integer, minimum: 1, maximum: 5}
    tags: {type: array, items: {type: string, maxLength: 40}, maxItems: 3}
  required: [intent, urgency]
---
Classify the message from {{ channel }}: {{ body }}
"""
ROWS = [
    {"id": f"{n:03}", "channel": ("web", None, 'it\'s \\ "odd"\n')[n % 3], "body": None if n == 8 else f"text {n % 30}"}
    for n in range(60)
]
"""60 rows, 31 distinct requests: rows of one body and channel are one."""
REQUESTS = len({(row["channel"], row["body"]) for row in ROWS})


class Recorder(NullObserver):
    """An observer that keeps the lines that it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def plan(self, line: PlanLine) -> bool:
        self.lines.append(line.to_text())
        return True

    def note(self, line: str) -> None:
        self.lines.append(line)


def enrich(place: Standin, **options: Any) -> se.Report:
    """Run ``tickets.prompt``."""
    given = {"engine": place.engine, "profile": "standin", "input": place.source, "output": place.schema, **options}
    return se.run(se.load(place.folder / "tickets.prompt"), **given)


def quick_backend(
    engine: str, prompt_file: Path, schema: str, *, lasts_s: float = 2.0, take_over: bool = False, late_s: float = 1.5
) -> WarehouseBackend:
    """The backend of the profile ``standin``, whose leases, waits and looks into the history are short."""
    connection, _ = open_connection(engine, {"profile": "standin"}, prompt_file)
    if not connection.starts_once:
        connection.late_s = late_s
    jobs = JobPolicy(
        first_delay_s=0.05, longest_delay_s=0.5, heartbeat_s=lasts_s / 5, unknown_for_s=2.0, find_poll_s=0.1
    )
    leases = LeasePolicy(lasts_s, poll_s=0.1)
    return WarehouseBackend(connection, schema, take_over=take_over, jobs=jobs, policy=leases)


def quick_run(place: Standin, *, take_over: bool = False, **options: Any) -> se.Report:
    """Run ``tickets.prompt`` on such a backend."""
    backend = quick_backend(place.engine, place.folder / "tickets.prompt", place.schema, take_over=take_over)
    return enrich(place, engine=None, profile=None, output=backend, **options)


def start_quick(place: Standin, *, clock_s: float = 0.0, lasts_s: float = 2.0, **options: Any) -> subprocess.Popen[str]:
    """Start such a run as a process, whose clock may be ahead."""
    given = {"engine": place.engine, "folder": str(place.folder), "source": place.source, "schema": place.schema}
    more = {"lasts_s": lasts_s, "clock_s": clock_s, "options": options}
    command = [sys.executable, "-m", "tests.support.warehouse_driver", json.dumps(given | more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy())


def start(place: Standin, *options: str) -> subprocess.Popen[str]:
    """Start the same run as a process."""
    named = ["--engine", place.engine, "--profile", "standin", "--input", place.source, "--output", place.schema]
    command = [sys.executable, "-m", "sqlenrich", "run", str(place.folder / "tickets.prompt"), *named, "--yes"]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    )

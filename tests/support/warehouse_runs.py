"""Runs of one prompt file over one source table on a stand-in: what the tests of runs, plans and usage share."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import sqlenrich as se
from sqlenrich.runner.observer import NullObserver, PlanLine
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


def start(place: Standin, *options: str) -> subprocess.Popen[str]:
    """Start the same run as a process."""
    named = ["--engine", place.engine, "--profile", "standin", "--input", place.source, "--output", place.schema]
    command = [sys.executable, "-m", "sqlenrich", "run", str(place.folder / "tickets.prompt"), *named, "--yes"]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    )

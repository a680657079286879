"""The lines of the ledger as they are read: one for each run, whatever number of lines the engine keeps of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlenrich.plan.relations import RELATIONS
from sqlenrich.store.base import Snapshot
from sqlenrich.store.ledger import COLUMNS
from sqlenrich.store.shared_request import ReadRequest, SharedRequest, read_request
from sqlenrich.store.values import utc_moment


@dataclass(frozen=True)
class RunLine:
    """A run's line of the ledger."""

    run_id: str
    name: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    report: Mapping[str, Any] | None
    """None where the run wrote none."""
    snapshot: Snapshot | None
    read: ReadRequest | None = None
    problem: str | None = None
    """Why a part of the line can't be read."""

    @property
    def request(self) -> SharedRequest | None:
        """What all requests of the run share; None where it is unknown."""
        return None if self.read is None else self.read.request

    @property
    def made_tables(self) -> bool:
        """Whether it made the tables of results; False where it was declined or failed before its first answer."""
        return bool(((self.report or {}).get("stored") or {}).get("tables", True))

    @property
    def responses(self) -> str:
        """The table of the run's answers."""
        named = None if self.snapshot is None else self.snapshot.responses
        return named or RELATIONS["responses"].format(self.name)


def read_lines(rows: Iterable[tuple[Any, ...]]) -> dict[str, RunLine]:
    """Return the runs by their ids, the oldest first. ``rows`` have the columns of the ledger.

    Where the engine's tables take no UPDATE, a run has several rows: each later one knows more, none knows other
    values.
    """
    merged: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = dict(zip(COLUMNS, row, strict=True))
        line = merged.setdefault(str(known["run_id"]), known)
        if line is known:
            continue
        if known["ended_at"] is not None:
            line["status"] = known["status"]
        line.update({name: value for name, value in known.items() if line[name] is None})
    lines = [_read_line(**known) for known in merged.values()]
    return {line.run_id: line for line in sorted(lines, key=lambda line: (line.started_at, line.run_id))}


def _read_line(
    run_id: Any, name: Any, started_at: Any, ended_at: Any, status: Any, report: Any, snapshot: Any, request: Any
) -> RunLine:
    problems = []
    facts, made, read = None, None, None
    try:
        facts = None if report is None else dict(json.loads(report))
    except (ValueError, TypeError):
        problems.append("its report is no JSON")
    try:
        made = None if snapshot is None else Snapshot(**json.loads(snapshot))
    except (ValueError, TypeError):
        problems.append("its snapshot can't be read")
    try:
        read = None if request is None else read_request(request)
    except ValueError as error:
        problems.append(f"its request: {error}")
    started = utc_moment(started_at)
    ended = None if ended_at is None else utc_moment(ended_at)
    return RunLine(
        str(run_id), str(name), started, ended, str(status), facts, made, read, "; ".join(problems) or None
    )  # fmt: skip

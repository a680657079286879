"""What reviewers decided: read from their files, kept in ``NAME_reviews``, and counted as long as the answer stands."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from sqlglot import exp

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.json import compact_json
from sqlenrich.core.names import column
from sqlenrich.core.sql import literal
from sqlenrich.core.types import DATE, STRING, TIMESTAMP, Type
from sqlenrich.plan.relations import REVIEWS
from sqlenrich.quality.answer_hash import answer_hash
from sqlenrich.quality.comparison.metrics import label_value
from sqlenrich.quality.review.sheet import (
    EXPECTED,
    FORMAT,
    NOTHING,
    OWN_COLUMNS,
    VERDICT,
    VERSION,
    is_text,
    may_be_null,
)
from sqlenrich.schema import value_test
from sqlenrich.spec.contract import OutputContract
from sqlenrich.store.database import selected
from sqlenrich.store.store import Store

RIGHT, WRONG, UNSURE = "right", "wrong", "unsure"
_WORDS = {"y": RIGHT, "n": WRONG, "u": UNSURE, **{word: word for word in (RIGHT, WRONG, UNSURE)}}
COLUMNS: Mapping[str, Type] = {
    "request_hash": STRING,
    "answer_hash": STRING,
    "field": STRING,
    "reviewer": STRING,
    "verdict": STRING,
    "expected": STRING,
    "of_run": STRING,
    "read_at": TIMESTAMP,
}
"""``expected`` is the right value as JSON, NULL where it is not told. ``of_run`` is the run of whose rows the sample
was drawn, empty for all runs. Times are in UTC without a time zone."""
_READ = tuple(name for name in COLUMNS if name != "read_at")
"""The columns of a verdict, in its order."""
MOST_PROBLEMS = 10


class Verdict(NamedTuple):
    """What one reviewer says of one field of an answer. ``expected`` is JSON; None where it is not told."""

    request: str
    answer: str
    field: str
    reviewer: str
    verdict: str
    expected: str | None
    of_run: str


@dataclass(frozen=True)
class Stands:
    """The verdicts of a sample whose answers stand, the answers, and the number of verdicts that count no more."""

    verdicts: tuple[Verdict, ...]
    answers: Mapping[str, Mapping[str, Any]]
    gone: int


@dataclass(frozen=True)
class Taken:
    """What reading files changed in ``NAME_reviews``."""

    read: int
    new: int
    changed: int


def read_verdicts(stored: Store, files: Sequence[Path]) -> list[Verdict]:
    """Read the files that reviewers saved. Raises ConfigError with all problems, each with its file and line."""
    problems: list[str] = []
    found: dict[tuple[str, ...], Verdict] = {}
    for path in files:
        for verdict in _of_file(stored, path, problems):
            found[verdict.request, verdict.answer, verdict.field, verdict.reviewer, verdict.of_run] = verdict
    if problems:
        more = f"\n... and {len(problems) - MOST_PROBLEMS:,} more" if len(problems) > MOST_PROBLEMS else ""
        raise ConfigError("\n".join(problems[:MOST_PROBLEMS]) + more)
    return list(found.values())


def _of_file(stored: Store, path: Path, problems: list[str]) -> Iterator[Verdict]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} can't be read: it is not UTF-8 text") from None
    lines = _csv_lines(path, text) if path.suffix.lower() == ".csv" else _json_lines(path, text)
    fields = stored.contract.readings
    checked: set[str] = set()
    for place, about, line in lines:
        key = compact_json(about)
        if key not in checked:
            _check_about(stored, path, about)
            checked.add(key)
        field, word = line["field"], str(line["verdict"]).strip().lower()
        if field not in fields:
            problems.append(f'{place}: no output field "{field}"{did_you_mean(str(field), fields)}')
            continue
        expected, told = line.get("expected"), "expected" in line
        if not word and not told:
            continue
        verdict = _WORDS.get(word or "n")
        if verdict is None:
            problems.append(f'{place}: unknown verdict "{line["verdict"]}" of {field}; write y, n or u')
            continue
        try:
            right = _expected(stored.contract, str(field), expected) if told and verdict == WRONG else None
        except ValueError as error:
            problems.append(f"{place}: {error}")
            continue
        yield Verdict(
            str(line["request"]), str(line["answer"]), str(field), about["reviewer"], verdict, right, about["of_run"]
        )


def _json_lines(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    try:
        saved = json.loads(text)
        lines = saved["verdicts"]
        for line in lines:
            assert {"request", "answer", "field", "verdict"} <= set(line)
    except (ValueError, TypeError, KeyError, AssertionError):
        hint = "; read what its Save button gives" if path.suffix.lower() == ".html" else ""
        raise ConfigError(f"{path} is no file of verdicts{hint or ' that a review sheet saved'}") from None
    for number, line in enumerate(lines, start=1):
        yield f"{path}, verdict {number}", saved, line


def _csv_lines(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader, [])
    places = {name: place for place, name in enumerate(header)}
    if not set(OWN_COLUMNS) <= set(places):
        missing = ", ".join(name for name in OWN_COLUMNS if name not in places)
        raise ConfigError(f"{path} is no review sheet: it lacks the columns {missing}")
    start = VERDICT.format("")
    fields = [name.removeprefix(start) for name in header if name.startswith(start)]
    for row in reader:
        if not any(row):
            continue
        cells = {name: row[place] if place < len(row) else "" for name, place in places.items()}
        try:
            about = dict(json.loads(cells["_about"]))
        except ValueError:
            raise ConfigError(f"{path}, line {reader.line_num}: its column _about was changed") from None
        for field in fields:
            line = {
                "request": cells["_request"],
                "answer": cells["_answer"],
                "field": field,
                "verdict": cells[VERDICT.format(field)],
            }
            if written := cells.get(EXPECTED.format(field), ""):
                line["expected"] = written
            yield f"{path}, line {reader.line_num}", about, line


def _check_about(stored: Store, path: Path, about: Mapping[str, Any]) -> None:
    name, version = stored.name, about.get(FORMAT)
    if version != VERSION:
        raise ConfigError(f"{path} is of version {version} of the sheets, this is version {VERSION}: make it again")
    if about.get("name") != name:
        raise ConfigError(f"{path} is a sheet of {about.get('name')}, not of {name}")
    known = {run.run_id for run in stored.runs}
    if about.get("ledger") not in known or (about.get("of_run") or about.get("ledger")) not in known:
        raise ConfigError(f"{path} is a sheet of another database: {stored.output} has no run {about.get('ledger')}")
    if not isinstance(about.get("reviewer"), str) or not about["reviewer"]:
        raise ConfigError(f"{path} names no reviewer")


def _expected(contract: OutputContract, field: str, given: Any) -> str:
    """Return a right value as JSON. Raises ValueError for what no answer can give."""
    kind, schema = contract.readings[field], contract.schema["properties"][field]
    if given is None or given == NOTHING:
        if not may_be_null(contract, field):
            raise ValueError(f"{field} is never NULL, so {NOTHING} can't be right")
        return "null"
    written = (
        given if isinstance(given, str) and is_text(kind) else given if isinstance(given, str) else compact_json(given)
    )
    try:
        value = _json_value(label_value(written, kind))
        fits = kind in (DATE, TIMESTAMP) or value_test(schema)(value)
    except (ValueError, TypeError):
        fits = False
    if not fits:
        listed = [str(one) for one in schema.get("enum", ()) if one is not None]
        there = f"; there are: {', '.join(listed)}" if listed else ""
        raise ValueError(f'"{written}" is no value of {field}{did_you_mean(written, listed)}{there}')
    return compact_json(value)


def _json_value(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


# The table -----------------------------------------------------------------------------------------------------------


def store_verdicts(stored: Store, verdicts: Sequence[Verdict]) -> Taken:
    """Append verdicts to ``NAME_reviews``, but for those that stand there already.

    The table takes no UPDATE: of several lines of one reviewer on one field of one answer, the latest holds. Raises
    ConfigError where a table of that name is not of this version.
    """
    known = {_identity(one): one for one in stored_verdicts(stored)}
    changed = [one for one in verdicts if known.get(_identity(one)) != one]
    new = sum(_identity(one) not in known for one in changed)
    now = datetime.now(UTC).replace(tzinfo=None)
    if changed:
        stored.database.append(stored.table("reviews"), COLUMNS, [(*one, now) for one in changed])
    return Taken(len(verdicts), new, len(changed) - new)


def check_columns(place: str, table: str, columns: Iterable[str]) -> None:
    """Refuse a table that is not of this version. Raises ConfigError."""
    if list(columns) != list(COLUMNS):
        raise ConfigError(f"{place}: the table {table} is of another version: rename it, then read the files again")


def _identity(one: Verdict) -> tuple[str, ...]:
    return (one.request, one.answer, one.field, one.reviewer, one.of_run)


def verdicts_query(stored: Store, run: str | None) -> exp.Select:
    """Return the query of the verdicts on a sample, None: on all; the earlier ones first."""
    query = selected(stored.database, stored.table("reviews"), _READ)
    if run is not None:
        query = query.where(exp.EQ(this=column(stored.engine, "of_run"), expression=literal(run)))
    return query.order_by(column(stored.engine, "read_at"))


def stored_verdicts(stored: Store, run: str | None = None) -> list[Verdict]:
    """Return the verdicts on a sample that hold. Raises ConfigError for a table of another version."""
    if not stored.has("reviews"):
        return []
    check_columns(stored.output, REVIEWS.format(stored.name), stored.columns("reviews"))
    found: dict[tuple[str, ...], Verdict] = {}
    for row in stored.rows(verdicts_query(stored, run)):
        verdict = Verdict(*row)
        found[_identity(verdict)] = verdict
    return sorted(found.values(), key=lambda one: (*_identity(one), one.verdict))


def standing_verdicts(stored: Store, run: str) -> Stands:
    """Return the verdicts on a sample whose answers stand. Raises ConfigError for a table of another version."""
    found = stored_verdicts(stored, run)
    answers = stored.answers(sorted({one.request for one in found}))
    hashes = {request: answer_hash(answer) for request, answer in answers.items()}
    fields = set(stored.fields)
    stands = tuple(one for one in found if hashes.get(one.request) == one.answer and one.field in fields)
    return Stands(stands, answers, len(found) - len(stands))

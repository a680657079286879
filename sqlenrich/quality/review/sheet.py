"""The sheets of a review: one file per reviewer, an HTML page that works offline or a CSV table."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.json import canonical_json, compact_json
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Type, uncoerced
from sqlenrich.quality.page import check_page, render_page, write_file
from sqlenrich.quality.review.sample import ReviewSample, SampledRow
from sqlenrich.schema import value_test
from sqlenrich.spec.contract import OutputContract
from sqlenrich.spec.enrichment import Enrichment

FORMAT = "sqlenrich_review"
"""The key of a saved file that names its format; its value is the version."""
VERSION = 1
ALONE = "reviewer"
"""The name of the only reviewer of a sheet without names."""
EVERYBODYS = 5
"""One row of so many is judged by every reviewer."""
SUFFIXES = (".html", ".csv")
MOST_CHOICES = 99
MOST_NUMBERS = 20
"""The most integers of a range that are listed as choices."""
NOTHING = "(none)"
"""How a sheet writes NULL."""
OWN_COLUMNS = ("_request", "_answer", "_about")
"""The last columns of a CSV sheet: what identifies a row, its answer and the sheet."""
VERDICT, EXPECTED = "verdict: {}", "right value: {}"
"""The columns of a CSV sheet in which a person writes about a field."""


def check_reviewers(reviewers: Sequence[str]) -> tuple[str, ...]:
    """Return the reviewers. Raises ConfigError for a name that is no part of a file's name, or is twice there."""
    names = tuple(reviewers) or (ALONE,)
    for name in names:
        if not re.fullmatch(r"\w[\w.-]{0,39}", name):
            raise ConfigError(f'reviewer "{name}": a name has letters, digits, _ . and -, at most 40')
    if len({name.lower() for name in names}) < len(names):
        raise ConfigError(f"a reviewer is named twice: {', '.join(names)}")
    return names


def sheet_paths(sheet: Path, reviewers: Sequence[str]) -> dict[str, Path]:
    """Return the file of each reviewer. Raises ConfigError for an unknown kind, and a file that must not be lost."""
    if sheet.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{sheet}: unknown kind of sheet; there are: {', '.join(SUFFIXES)}")
    alone = len(reviewers) == 1 and reviewers[0] == ALONE
    paths = {name: sheet if alone else sheet.with_stem(f"{sheet.stem}-{name}") for name in reviewers}
    for path in paths.values():
        if path.suffix.lower() == ".html":
            check_page(path)
        elif path.exists():
            raise ConfigError(f"{path} is there and may hold verdicts: read it by --read, then remove it")
    return paths


def rows_of(sample: ReviewSample, reviewers: Sequence[str]) -> dict[str, list[SampledRow]]:
    """Deal the rows: one of five is everybody's, the others are dealt in turn."""
    dealt: dict[str, list[SampledRow]] = {name: [] for name in reviewers}
    for place, row in enumerate(sample.drawn):
        shared = place % EVERYBODYS == 0
        own = reviewers[(place - place // EVERYBODYS - 1) % len(reviewers)]
        for name in reviewers if shared else [own]:
            dealt[name].append(row)
    return dealt


def write_sheets(
    enrichment: Enrichment, sample: ReviewSample, ledger: str, paths: Mapping[str, Path]
) -> dict[Path, int]:
    """Write the file of each reviewer; give the rows of each. ``ledger`` is the newest run of the database."""
    written = {}
    for reviewer, rows in rows_of(sample, list(paths)).items():
        about = {FORMAT: VERSION, "name": enrichment.name, "reviewer": reviewer, "of_run": sample.run, "ledger": ledger}
        path = paths[reviewer]
        make = _csv if path.suffix.lower() == ".csv" else _html
        write_file(path, make(enrichment, rows, about))
        written[path] = len(rows)
    return written


def choices_of(contract: OutputContract, field: str) -> list[Any] | None:
    """Return the values from which a reviewer chooses; None for a field of too many."""
    schema = contract.schema["properties"][field]
    kind = contract.readings[field]
    kind = uncoerced(kind)
    low, high = schema.get("minimum"), schema.get("maximum")
    found: list[Any] | None = None
    if (listed := schema.get("enum")) is not None:
        found = [value for value in listed if value is not None]
    elif kind == BOOLEAN:
        found = [True, False]
    elif kind == BIGINT and low is not None and high is not None and high - low < MOST_NUMBERS:
        found = list(range(math.ceil(low), math.floor(high) + 1))
    if found is None or len(found) >= MOST_CHOICES:
        return None
    return [*found, None] if may_be_null(contract, field) else found


def may_be_null(contract: OutputContract, field: str) -> bool:
    """Tell whether an answer may leave a field out or give null."""
    return field not in contract.schema.get("required", ()) or value_test(contract.schema["properties"][field])(None)


def is_text(kind: Type) -> bool:
    """Tell whether the values of a field are written as they are, not as JSON."""
    return uncoerced(kind) == STRING


def fold(prompts: Sequence[str]) -> tuple[str, list[str], str]:
    """Return the text that all prompts begin with, the rest of each, and the text that all end with: whole lines."""
    if len(prompts) == 1:  # nothing to compare with
        return "", list(prompts), ""
    before = common_prefix(prompts)
    before = before[: before.rfind("\n") + 1]
    rests = [prompt[len(before) :] for prompt in prompts]
    after = common_prefix([rest[::-1] for rest in rests])[::-1]
    after = after[after.find("\n") :] if "\n" in after else ""
    return before, [rest[: len(rest) - len(after)] for rest in rests], after


def common_prefix(texts: Sequence[str]) -> str:
    """Return the characters that all texts begin with."""
    first, last = min(texts), max(texts)
    return first[: next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))]


# The page ------------------------------------------------------------------------------------------------------------


def _html(enrichment: Enrichment, rows: Sequence[SampledRow], about: Mapping[str, Any]) -> str:
    before, own, after = fold([row.prompt for row in rows])
    identity = [dict(about), [[row.request, row.answer] for row in rows]]
    properties = enrichment.schema["properties"]
    data = {
        "sheet": hashlib.sha256(canonical_json(identity).encode()).hexdigest()[:16],
        "about": dict(about),
        "file": f"{enrichment.name}.review-{about['reviewer']}.json",
        "before": before,
        "after": after,
        "fields": [
            {
                "name": name,
                "description": properties[name].get("description", ""),
                "choices": choices_of(enrichment, name),
                "text": is_text(kind),
            }
            for name, kind in enrichment.readings.items()
        ],
        "rows": [
            {
                "request": row.request,
                "answer": row.answer,
                "key": [*row.key.items(), *([("rows like this", row.rows)] if row.rows > 1 else [])],
                "text": text,
                "values": [row.values[name] for name in enrichment.readings],
            }
            for row, text in zip(rows, own, strict=True)
        ],
    }
    return render_page(
        "sheet.html",
        styles=("base.css", "sheet.css"),
        script="sheet.js",
        name=enrichment.name,
        reviewer=about["reviewer"],
        rows=len(rows),
        data=json.dumps(data, ensure_ascii=False),
    )


# The table -----------------------------------------------------------------------------------------------------------


def _csv(enrichment: Enrichment, rows: Sequence[SampledRow], about: Mapping[str, Any]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    judged = [(VERDICT.format(name), EXPECTED.format(name)) for name in enrichment.readings]
    pairs = [part for name, own in zip(enrichment.readings, judged, strict=True) for part in (name, *own)]
    writer.writerow([*rows[0].key, "text", *pairs, *OWN_COLUMNS])
    _, texts, _ = fold([row.prompt for row in rows])
    for row, text in zip(rows, texts, strict=True):
        values = [part for name in enrichment.readings for part in (_cell(row.values[name]), "", "")]
        own = (row.request, row.answer, compact_json(dict(about)))
        writer.writerow([*map(_cell, row.key.values()), _cell(text), *values, *own])
    return out.getvalue()


def _cell(value: Any) -> str:
    """Return a value as a cell. A text that a spreadsheet would take for a formula begins with an apostrophe."""
    text = NOTHING if value is None else value if isinstance(value, str) else compact_json(value)
    return f"'{text}" if isinstance(value, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text

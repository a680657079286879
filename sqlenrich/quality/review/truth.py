"""Judged rows as labelled rows: appended to the file of right values that ``evaluate`` reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.json import canonical_json, compact_json
from sqlenrich.quality.review.sheet import choices_of, is_text
from sqlenrich.quality.review.verdicts import RIGHT, UNSURE, Stands
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.inputs import Input, input_name
from sqlenrich.store.scratch import scratch_folder
from sqlenrich.store.store import Store
from sqlenrich.store.values import shown_value, text_of, utc_moment

LABEL = "expected_{}"
"""The column of a field's right values where the header names none."""
NULL_LABEL = "null"
"""How the right value NULL is written: an empty cell means that the right value is not known."""


def right_values(stands: Stands) -> dict[str, dict[str, Any]]:
    """Return the right values of each request by field, where all reviewers who were sure tell the same one."""
    told: dict[tuple[str, str], list[str | None]] = {}
    for one in stands.verdicts:
        if one.verdict != UNSURE:
            value = canonical_json(stands.answers[one.request][one.field]) if one.verdict == RIGHT else one.expected
            told.setdefault((one.request, one.field), []).append(value)
    found: dict[str, dict[str, Any]] = {}
    for (request, field), values in told.items():
        known = {value if value is None else canonical_json(json.loads(value)) for value in values}
        if len(known) == 1 and (value := known.pop()) is not None:
            found.setdefault(request, {})[field] = json.loads(value)
    return found


def append_truth(enrichment: Enrichment, stored: Store, stands: Stands, truth: Path, source: Input) -> int:
    """Append the judged rows to a CSV file and give their number; a key that is there is not appended again.

    A line has the columns of the input that the prompt and the key read, and a column of right values a field. The file
    is made where it is missing, without columns for free texts: of these a right answer is not the only one. Raises
    ConfigError where a header lacks the key or all right values, and for keys of no row.
    """
    if truth.suffix.lower() != ".csv":
        raise ConfigError(f"{truth}: right values are appended to a .csv file")
    key = [enrichment.source_name(name) for name in enrichment.key] or ["_row"]
    read = map(enrichment.source_name, replace(enrichment, keep=()).used_columns())
    labels = {name: enrichment.quality.evaluate.fields.get(name, LABEL.format(name)) for name in stored.fields}
    header, known = _known_lines(truth)
    if header is None:
        free = {name for name in labels if is_text(enrichment.readings[name]) and not choices_of(enrichment, name)}
        labels = {
            name: label for name, label in labels.items() if name not in free - {*enrichment.quality.evaluate.fields}
        }
    else:
        names = header
        labels = {name: label for name, label in labels.items() if label in header}
        for name in key:
            if name not in header:
                near = did_you_mean(name, header)
                raise ConfigError(f'{truth} has no column "{name}"{near} of the key; it has: {", ".join(header)}')
        if not labels:
            raise ConfigError(
                f"{truth} has no column of right values, such as {LABEL.format(stored.fields[0])}; it has: "
                f"{', '.join(header)}"
            )
    columns = [name for name in dict.fromkeys((*key, *read)) if name not in labels.values()]
    if header is None:
        names = [*columns, *labels.values()]
    values = {request: own for request, own in right_values(stands).items() if own.keys() & labels.keys()}
    keys = _keys_of(stored, sorted(values))
    found = _source_rows(enrichment, source, columns, key, list(keys.values()))
    if missing := [one for one in keys.values() if one not in found]:
        raise ConfigError(
            f"{input_name(source)} has no row of the key {', '.join(missing[0])} ({len(missing):,} of {len(keys):,} "
            "judged rows are missing): give the input of the run"
        )
    there = {tuple(line.get(name) or "" for name in key) for line in known}
    lines = []
    for request, one in sorted(keys.items(), key=lambda pair: pair[1]):
        if one not in there:
            told = {labels[name]: _cell(value) for name, value in values[request].items() if name in labels}
            line = {**found[one], **told}
            lines.append([line.get(name, "") for name in names])
    _append(truth, names if header is None else None, lines)
    return len(lines)


def _known_lines(truth: Path) -> tuple[list[str] | None, list[dict[str, str]]]:
    """Return the header and the lines of a file; no header where there is no file."""
    if not truth.is_file() or not truth.stat().st_size:
        return None, []
    with truth.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        return list(reader.fieldnames or ()), list(reader)


def _keys_of(stored: Store, requests: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the key of one row of each request, as texts."""
    key = stored.contract.key or ("_row",)
    names = [name for name in key if name in stored.shown_columns]
    if len(names) < len(key):
        missing = ", ".join({*key} - {*names})
        raise ConfigError(f"{stored.output}: the rows have no column {missing}: run it again first")
    found = stored.first_rows("enriched", names, requests)
    return {request: tuple(map(_key_text, values)) for request, values in found.items()}


def _key_text(value: Any) -> str:
    """Return a value of a key as DuckDB casts it to a text; NULL as an empty one."""
    if isinstance(value, datetime):
        moment = utc_moment(value).isoformat(sep=" ")
        return moment.rstrip("0") if "." in moment else moment
    return "" if value is None else text_of(shown_value(value))


def _source_rows(
    enrichment: Enrichment, source: Input, columns: Sequence[str], key: Sequence[str], wanted: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the rows of some keys, as texts: arrays and structs as JSON, NULL as an empty text."""
    from sqlenrich.core.types import Array, Struct
    from sqlenrich.store.duckdb.database import Database, quote
    from sqlenrich.store.duckdb.source import SOURCE, open_source

    with scratch_folder() as folder, Database(folder / "source.duckdb") as db:
        types = open_source(db, source, enrichment.source, enrichment.query, number_rows="_row" in key)
        for name in (*columns, *key):
            if name not in types:
                raise ConfigError(
                    f'no column "{name}"{did_you_mean(name, types)} in {input_name(source)}; there are: '
                    f"{', '.join(types)}"
                )
        names = list(dict.fromkeys((*columns, *key)))
        nested = {name for name in names if isinstance(types[name], Array | Struct)}
        written = {name: f"to_json({quote(name)})" if name in nested else quote(name) for name in names}
        texts = {name: f"COALESCE(CAST({value} AS VARCHAR), '')" for name, value in written.items()}
        keys = f"[{', '.join(texts[name] for name in key)}]"
        db.db.execute("CREATE TEMP TABLE wanted (key VARCHAR[])")
        db.db.execute("INSERT INTO wanted SELECT unnest($1::VARCHAR[][])", [[list(one) for one in wanted]])
        sql = f"SELECT {keys}, [{', '.join(texts.values())}] FROM {SOURCE} WHERE {keys} IN (SELECT key FROM wanted)"
        found: dict[tuple[str, ...], dict[str, str]] = {}
        for one, row in db.reading(sql):
            found.setdefault(tuple(one), {name: text for name, text in zip(names, row, strict=True) if name in columns})
    return found


def _cell(value: Any) -> str:
    if value is None:
        return NULL_LABEL
    return value if isinstance(value, str) else compact_json(value)


def _append(path: Path, header: Sequence[str] | None, lines: Sequence[Sequence[str]]) -> None:
    if not lines:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = header is None and path.read_bytes()[-1:] not in (b"\n", b"")
    with path.open("a", encoding="utf-8", newline="") as file:
        if begun:
            file.write("\n")
        writer = csv.writer(file, lineterminator="\n")
        if header is not None:
            writer.writerow(header)
        writer.writerows(lines)

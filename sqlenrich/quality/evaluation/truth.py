"""The truth of an evaluation: rows with labels from one file, or a file of labels that the key joins to the rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal as Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import BIGINT, DATE, STRING, TIMESTAMP, Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.source_columns import SourceColumns
from sqlenrich.quality.comparison.metrics import label_value
from sqlenrich.quality.comparison.sample import SAMPLE_TABLE, Sample, as_text, unused_name
from sqlenrich.quality.comparison.side_place import PlacedTable
from sqlenrich.schema import value_test
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.inputs import Input, input_name, is_url

if TYPE_CHECKING:
    from sqlenrich.store.duckdb.database import Database

EXPECTED = "expected_{}"
"""The column of labels of a field that names none."""
LABELS_TABLE = "labels"
SHOWN = 5
"""How many wrong labels or keys a message names."""


class Truth(NamedTuple):
    """The labelled rows, and each label as a value of its field."""

    sample: Sample
    columns: Mapping[str, str]
    """The column of labels of each field."""
    labels: Mapping[str, Mapping[int, Any]]
    """By field and row: the right value. A row without a label is left out."""
    row_keys: Mapping[int, str]
    """What names a row in every evaluation: its key as JSON, else its number."""
    notes: tuple[str, ...]


def read_truth(
    enrichment: Enrichment,
    path: Path,
    truth: Input,
    input: Callable[[], Input | PlacedTable],
    fields: Mapping[str, str],
    required: Sequence[str],
) -> Truth:
    """Write the labelled rows into a new database at ``path``, as the table that a side asks.

    ``truth`` holds whole rows, or the key and labels for rows that ``input`` opens. ``fields`` names columns of
    labels, by default ``expected_FIELD``; ``required`` are fields that must have one. Raises ConfigError for a missing
    file or column, for labels that no answer can equal, and for labels of no row.
    """
    import duckdb

    from sqlenrich.store.duckdb.database import Database, failure
    from sqlenrich.store.duckdb.source import open_source

    name = input_name(truth)
    _check_there(truth)
    with Database(path) as db:
        types = open_source(db, truth, enrichment.source, enrichment.query, number_rows=False)
        columns = _label_columns(enrichment, name, types, fields, required)
        read = [enrichment.source_name(one) for one in replace(enrichment, key=(), keep=()).used_columns()]
        missing = [one for one in read if one not in types]
        try:
            if not missing:
                sample = _whole_rows(db, enrichment, types, columns)
                notes: tuple[str, ...] = ()
            elif (rows := input()) is None:
                lacks = ", ".join(f'"{one}"{did_you_mean(one, types)}' for one in missing)
                raise ConfigError(
                    f"{name} has labels, and no column {lacks} that the prompt reads: give the rows with --input, "
                    "which the key joins to the labels"
                )
            else:
                sample, notes = _joined_rows(db, enrichment, name, types, columns, rows)
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise failure(error, f"{name} can't be read: ") from None
    if not sample.keys:
        raise ConfigError(f"{name} has no labelled row: {', '.join(columns.values())} are empty in all that are taken")
    labels = {field: _values(enrichment, field, name, columns[field], sample.labels[field]) for field in columns}
    return Truth(sample, columns, labels, _row_keys(sample), notes)


def _check_there(truth: Input) -> None:
    if isinstance(truth, str | Path) and not is_url(str(truth)) and not any(mark in str(truth) for mark in "*?["):
        place = Path(truth)
        if str(truth) != "-" and not place.exists():
            raise ConfigError(f"there is no truth file {truth}; give --truth PATH, or correct truth in the header")


def _label_columns(
    enrichment: Enrichment, name: str, types: Mapping[str, Type], fields: Mapping[str, str], required: Sequence[str]
) -> dict[str, str]:
    """Return the column of labels of each field. Raises ConfigError with all that are missing."""
    readings = enrichment.readings
    problems = []
    for field, column in fields.items():
        if field not in readings:
            known = ", ".join(readings)
            problems.append(f'no output field "{field}"{did_you_mean(field, readings)}; there are: {known}')
        elif column not in types:
            problems.append(f'no column "{column}"{did_you_mean(column, types)} of labels for {field}')
    if problems:
        raise ConfigError(f"{name}: {'; '.join(problems)}; its columns are: {', '.join(types)}")
    default = {field: EXPECTED.format(field) for field in readings}
    columns = dict(fields) or {field: column for field, column in default.items() if column in types}
    for field in required:  # a requirement that nothing measures would be no requirement
        if field not in columns:
            if default[field] not in types:
                raise ConfigError(
                    f"{name}: {field} is required, and no column has its labels: add {default[field]}, or give "
                    f"--field {field}=COLUMN; its columns are: {', '.join(types)}"
                )
            columns[field] = default[field]
    if not columns:
        raise ConfigError(
            f"{name} has no column of labels, such as {default[next(iter(default))]}; give --field FIELD=COLUMN; its "
            f"columns are: {', '.join(types)}"
        )
    return columns


def _labelled(columns: Mapping[str, str], types: Mapping[str, Type]) -> str:
    """Return the SQL of the test that a row has a label."""
    texts = (as_text(column, types[column]) for column in dict.fromkeys(columns.values()))
    written = ", ".join(f"nullif({text}, '')" for text in texts)
    return f"coalesce({written}) IS NOT NULL"


def _filter(enrichment: Enrichment, types: Mapping[str, Type]) -> list[str]:
    if not enrichment.where:
        return []
    engine = get_engine("duckdb")
    return [f"({print_sql(engine, SourceColumns(enrichment, engine, types).where(enrichment.where))})"]


def _whole_rows(db: Database, enrichment: Enrichment, types: Mapping[str, Type], columns: Mapping[str, str]) -> Sample:
    """Make the sample from a file that holds the rows and their labels."""
    from sqlenrich.store.duckdb.database import quote
    from sqlenrich.store.duckdb.source import SOURCE

    row = _row_column(enrichment, types)
    tests = " AND ".join([*_filter(enrichment, types), _labelled(columns, types)])
    numbered = f"SELECT row_number() OVER () AS {quote(row)}, * FROM {SOURCE}"
    place = _place(db)
    db.reading(f"CREATE TABLE {place} AS SELECT * FROM ({numbered}) AS numbered WHERE {tests} ORDER BY {quote(row)}")
    keys = [name for name in map(enrichment.source_name, enrichment.key) if name in types]
    texts = {name: as_text(name, types[name]) for name in (*keys, *columns.values())}
    return _read(db, place, row, {row: BIGINT, **types}, keys, columns, texts)


def _joined_rows(
    db: Database,
    enrichment: Enrichment,
    name: str,
    types: Mapping[str, Type],
    columns: Mapping[str, str],
    input: Input | PlacedTable,
) -> tuple[Sample, tuple[str, ...]]:
    """Make the sample from the rows of the input whose key the file of labels has."""
    from sqlenrich.store.duckdb.database import quote
    from sqlenrich.store.duckdb.source import SOURCE, open_source

    keys = list(map(enrichment.source_name, enrichment.key))
    if not keys:
        raise ConfigError(
            f"{enrichment.place}: labels alone need a key that joins them to rows: write key: [column], or give --key"
        )
    for key in keys:
        if key not in types:
            raise ConfigError(f'{name} has no column "{key}"{did_you_mean(key, types)}: the key joins it to the rows')
    named = [f"{as_text(key, types[key])} AS k{i}" for i, key in enumerate(keys)]
    named += [f"{as_text(column, types[column])} AS l{i}" for i, column in enumerate(columns.values())]
    labels = f"{quote(db.catalog())}.main.{LABELS_TABLE}"
    db.reading(
        f"CREATE TABLE {labels} AS SELECT DISTINCT {', '.join(named)} FROM {SOURCE} WHERE {_labelled(columns, types)}"
    )
    ours = ", ".join(f"k{i}" for i in range(len(keys)))
    if twice := db.rows(f"SELECT {ours} FROM {labels} GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT {SHOWN}"):
        raise ConfigError(
            f"{name}: different labels of one key ({', '.join(enrichment.key)}): "
            f"{', '.join(map(_shown_key, twice))}; leave one"
        )
    read = (*keys, *map(enrichment.source_name, replace(enrichment, key=(), keep=()).used_columns()))
    if isinstance(input, PlacedTable):
        listed = [key for (key,) in db.rows(f"SELECT DISTINCT k0 FROM {labels} WHERE k0 IS NOT NULL ORDER BY 1")]
        input = input.with_keys(keys[0], listed, read)
    given = open_source(db, input, enrichment.source, enrichment.query, number_rows=False)
    for column in read:
        if column not in given:
            raise ConfigError(
                f'no column "{column}"{did_you_mean(column, given)} in {input_name(input)}; there are: '
                f"{', '.join(given)}"
            )
    row = _row_column(enrichment, given)
    place = _place(db)
    same = " AND ".join(f"{as_text(key, given[key])} = k{i}" for i, key in enumerate(keys))
    numbered = f"SELECT row_number() OVER () AS {quote(row)}, * FROM {SOURCE}"
    tests = " AND ".join(_filter(enrichment, given)) or "true"
    label_names = [unused_name(f"label_{i}", given) for i in range(len(columns))]
    shown = ", ".join(f"l{i} AS {quote(label)}" for i, label in enumerate(label_names))
    db.reading(
        f"CREATE TABLE {place} AS SELECT numbered.*, {shown} FROM ({numbered}) AS numbered "
        f"JOIN {labels} AS labels ON {same} WHERE {tests} ORDER BY {quote(row)}"
    )
    matched = " AND ".join(f"{as_text(key, given[key])} = k{i}" for i, key in enumerate(keys))
    unmatched = f"FROM {labels} AS labels WHERE NOT EXISTS (SELECT 1 FROM {place} AS sample WHERE {matched})"
    lost = db.rows(f"SELECT {ours}, count(*) OVER () {unmatched} ORDER BY ALL LIMIT {SHOWN}")
    notes: tuple[str, ...] = ()
    if lost:
        many = f"{lost[0][-1]:,} labelled key{'s' if lost[0][-1] > 1 else ''}"
        examples = ", ".join(_shown_key(line[:-1]) for line in lost)
        told = f"{name}: {many} of no row that is taken from {input_name(input)}: {examples}"
        if not db.one(f"SELECT count(*) FROM {place}"):
            raise ConfigError(f"{told}; no label has a row: check key, where and the input")
        notes = (f"{told}; these labels are not scored",)
    texts = {key: as_text(key, given[key]) for key in keys}
    label_of = dict(zip(columns, label_names, strict=True))
    texts |= {label: quote(label) for label in label_names}
    sample = _read(db, place, row, {row: BIGINT, **given, **dict.fromkeys(label_names, STRING)}, keys, label_of, texts)
    return sample, notes


def _read(
    db: Database,
    place: str,
    row: str,
    types: Mapping[str, Type],
    keys: Sequence[str],
    columns: Mapping[str, str],
    texts: Mapping[str, str],
) -> Sample:
    from sqlenrich.store.duckdb.database import quote

    names = (row, *texts)
    found = db.rows(f"SELECT {', '.join((quote(row), *texts.values()))} FROM {place} ORDER BY 1")
    lines = [dict(zip(names, line, strict=True)) for line in found]
    return Sample(
        db.path,
        row,
        types,
        len(lines),
        {line[row]: {name: line[name] for name in keys} for line in lines},
        {field: {line[row]: line[column] or None for line in lines} for field, column in columns.items()},
    )


def _row_column(enrichment: Enrichment, types: Mapping[str, Type]) -> str:
    return unused_name("_row", (*types, *enrichment.output_columns, *enrichment.columns))


def _place(db: Database) -> str:
    from sqlenrich.store.duckdb.database import quote

    return f"{quote(db.catalog())}.main.{SAMPLE_TABLE}"


def _shown_key(line: Sequence[object]) -> str:
    return " / ".join(map(str, line))


def _row_keys(sample: Sample) -> dict[int, str]:
    """Name each row by its key, or by its number where there is none; rows of one key are numbered."""
    seen: Counter[str] = Counter()
    names: dict[int, str] = {}
    for row, key in sample.keys.items():
        name = json.dumps(key or {"_row": row}, ensure_ascii=False)
        seen[name] += 1
        names[row] = name if seen[name] == 1 else f"{name} {seen[name]}"
    return names


def _values(
    enrichment: Enrichment, field: str, name: str, column: str, labels: Mapping[int, str | None]
) -> dict[int, Any]:
    """Return the labels of a field as its values. Raises ConfigError for labels that no answer can equal."""
    kind, form = enrichment.readings[field], enrichment.schema["properties"][field]
    allowed, test = form.get("enum"), value_test(form)
    optional = field not in enrichment.schema.get("required", ())
    values: dict[int, Any] = {}
    wrong: dict[str, None] = {}
    for row, label in labels.items():
        if label is None:
            continue
        absent = label.strip() == "null" and (optional or test(None)) and "null" not in (allowed or ())
        try:
            value = None if absent else label_value(label, kind)
            valid = absent or kind in (DATE, TIMESTAMP) or test(_plain(value))
        except (ValueError, TypeError):
            valid = False
        if not valid:
            wrong[label] = None
            continue
        values[row] = value
    if wrong:
        count = f"{len(wrong):,} label{'s' if len(wrong) > 1 else ''}"
        near = did_you_mean(next(iter(wrong)), map(str, allowed)) if allowed and len(wrong) == 1 else ""
        examples = ", ".join(json.dumps(label, ensure_ascii=False) for label in list(wrong)[:SHOWN])
        fit = f"; the values are: {', '.join(map(str, allowed))}" if allowed else ""
        raise ConfigError(
            f"{name}, column {column}: {count} that no answer of {field} can equal: {examples}{near}{fit}; correct "
            "the label, or the schema"
        )
    return values


def _plain(value: Any) -> Any:
    """Return a label's value as an answer would hold it."""
    if isinstance(value, Number):
        return int(value) if value == value.to_integral_value() else float(value)
    return value

"""The sample of a comparison or an evaluation: rows of the input, drawn once for all sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import BIGINT, Array, Struct, Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.source_columns import SourceColumns
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.inputs import Input, input_name

SAMPLE_TABLE = "sample"


class Sample(NamedTuple):
    """The rows that each side asks: their database, and their keys and labels as text."""

    path: Path
    row_column: str
    """The column of the row's number in the input, from 1. It identifies a row on both sides."""
    types: Mapping[str, Type]
    rows_in: int
    keys: Mapping[int, Mapping[str, str | None]]
    labels: Mapping[str, Mapping[int, str | None]]
    """The label of each row by field."""


def draw_sample(
    files: Sequence[Enrichment], path: Path, input: Input, rows: int, seed: int | None, truth: Mapping[str, str]
) -> Sample:
    """Write the sample into a new database; without a ``seed`` it has the first rows."""
    import duckdb

    from sqlenrich.store.duckdb.database import Database, failure, quote, text
    from sqlenrich.store.duckdb.source import SOURCE, open_source

    a, b = files
    table, query = a.source or b.source, a.query or b.query
    if any((one.source or one.query) and (one.source, one.query) != (table, query) for one in files):
        raise ConfigError("the files read different sources; both sides must be asked about the same rows")
    with Database(path) as db:
        types = open_source(db, input, table, query, number_rows=False)
        check_columns(files, types, truth, input)
        row = unused_name("_row", (*types, *(name for one in files for name in (*one.output_columns, *one.columns))))
        types = {row: BIGINT, **types}
        engine = get_engine("duckdb")
        tests = dict.fromkeys(
            f"({print_sql(engine, SourceColumns(one, engine, types).where(one.where))})" for one in files if one.where
        )
        numbered = f"SELECT row_number() OVER () AS {quote(row)}, * FROM {SOURCE}"
        taken = f"FROM ({numbered}) AS numbered{' WHERE ' + ' AND '.join(tests) if tests else ''}"
        order = quote(row) if seed is None else f"md5(concat({text(str(seed))}, ':', {quote(row)}))"
        place = f"{quote(db.catalog())}.main.{SAMPLE_TABLE}"
        try:
            rows_in = int(db.reading(f"SELECT count(*) {taken}")[0][0])
            drawn = f"SELECT * FROM (SELECT * {taken} ORDER BY {order} LIMIT {rows}) ORDER BY {quote(row)}"
            db.reading(f"CREATE TABLE {place} AS {drawn}")
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise failure(error, f"{input_name(input)} can't be sampled: ") from None
        keys = list(dict.fromkeys(one.source_name(name) for one in files for name in one.key if name != row))
        texts = {name: as_text(name, types[name]) for name in (*keys, *truth.values())}
        select = ", ".join((quote(row), *texts.values()))
        values = [
            dict(zip((row, *texts), line, strict=True))
            for line in db.db.execute(f"SELECT {select} FROM {place} ORDER BY 1").fetchall()
        ]
    return Sample(
        path,
        row,
        types,
        rows_in,
        {line[row]: {name: line[name] for name in keys} for line in values},
        {field: {line[row]: line[column] for line in values} for field, column in truth.items()},
    )


def check_columns(
    files: Sequence[Enrichment], types: Mapping[str, Type], truth: Mapping[str, str], input: Input
) -> None:
    """Refuse a key or a column of labels that the input lacks. Raises ConfigError."""
    wanted = [one.source_name(name) for one in files for name in one.key]
    for name in (*wanted, *truth.values()):
        if name not in types and not (name == "_row" and name in wanted):
            raise ConfigError(
                f'no column "{name}"{did_you_mean(name, types)} in {input_name(input)}; there are: {", ".join(types)}'
            )


def unused_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, with underscores appended until it differs from all that are taken, whatever the case."""
    known = {other.lower() for other in taken}
    while name.lower() in known:
        name += "_"
    return name


def as_text(name: str, kind: Type) -> str:
    """Return the SQL of a column as text: an array or a struct as JSON."""
    from sqlenrich.store.duckdb.database import quote

    column = quote(name)
    return f"CAST({f'to_json({column})' if isinstance(kind, Array | Struct) else column} AS VARCHAR)"


def read_inputs(files: Sequence[Enrichment], sample: Sample, rows: Sequence[int]) -> dict[int, dict[str, str | None]]:
    """Return the columns that the prompts read, as text, for some rows. Names are those in the source."""
    from sqlenrich.store.duckdb.database import Database, quote

    used = (one.source_name(name) for one in files for name in one.prompt().columns)
    names = [name for name in dict.fromkeys(used) if name != sample.row_column and name in sample.types]
    select = ", ".join((quote(sample.row_column), *(as_text(name, sample.types[name]) for name in names)))
    with Database(sample.path) as db:
        found = db.db.execute(
            f"SELECT {select} FROM {SAMPLE_TABLE} WHERE {quote(sample.row_column)} IN (SELECT unnest(?::BIGINT[]))",
            [list(rows)],
        ).fetchall()
    return {row: dict(zip(names, values, strict=True)) for row, *values in found}

"""The rows of a comparison: drawn from the input once, for both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlenrich.core.errors import ConfigError, RunError, did_you_mean
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import BIGINT, Array, Struct, Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.source_columns import SourceColumns
from sqlenrich.spec.enrichment import Enrichment

SAMPLE = "sample"


class Sampled(NamedTuple):
    """The rows that both sides are asked: where they lie, and what of them is told."""

    path: Path
    row: str
    """The column of the row's number in the input, from 1: what the sides are matched by."""
    types: Mapping[str, Type]
    rows_in: int
    keys: Mapping[int, Mapping[str, str | None]]
    labels: Mapping[str, Mapping[int, str | None]]
    """Field to row to label, as text."""


def draw(
    files: Sequence[Enrichment], path: Path, input: str | Path, rows: int, seed: int | None, truth: Mapping[str, str]
) -> Sampled:
    """Write the rows to ask into a database of their own; with ``seed`` None they are the first."""
    import duckdb

    from sqlenrich.runner.backends.duckdb.database import Database, problem, quote, text
    from sqlenrich.runner.backends.duckdb.source import SOURCE, open_source

    a, b = files
    table, query = a.source or b.source, a.query or b.query
    if any((one.source or one.query) and (one.source, one.query) != (table, query) for one in files):
        raise ConfigError("the files read different sources; both sides must be asked about the same rows")
    with Database(path) as db:
        types = open_source(db, str(input), table, query, number_rows=False)
        _check_columns(files, types, truth, input)
        row = _free("_row", (*types, *(name for one in files for name in (*one.output_columns, *one.columns))))
        types = {row: BIGINT, **types}
        engine = get_engine("duckdb")
        tests = dict.fromkeys(
            f"({print_sql(engine, SourceColumns(one, engine, types).where(one.where))})" for one in files if one.where
        )
        numbered = f"SELECT row_number() OVER () AS {quote(row)}, * FROM {SOURCE}"
        taken = f"FROM ({numbered}) AS numbered{' WHERE ' + ' AND '.join(tests) if tests else ''}"
        order = quote(row) if seed is None else f"md5(concat({text(str(seed))}, ':', {quote(row)}))"
        place = f"{quote(db.catalog())}.main.{SAMPLE}"
        try:
            rows_in = int(db.reading(f"SELECT count(*) {taken}")[0][0])
            chosen = f"SELECT * FROM (SELECT * {taken} ORDER BY {order} LIMIT {rows}) ORDER BY {quote(row)}"
            db.reading(f"CREATE TABLE {place} AS {chosen}")
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise RunError(problem(error, f"{input} can't be sampled: ")) from None
        keys = list(dict.fromkeys(one.source_name(name) for one in files for name in one.key if name != row))
        told = {name: _as_text(name, types[name]) for name in (*keys, *truth.values())}
        select = ", ".join((quote(row), *told.values()))
        values = [
            dict(zip((row, *told), line, strict=True))
            for line in db.db.execute(f"SELECT {select} FROM {place} ORDER BY 1").fetchall()
        ]
    return Sampled(
        path,
        row,
        types,
        rows_in,
        {line[row]: {name: line[name] for name in keys} for line in values},
        {field: {line[row]: line[column] for line in values} for field, column in truth.items()},
    )


def _check_columns(
    files: Sequence[Enrichment], types: Mapping[str, Type], truth: Mapping[str, str], input: str | Path
) -> None:
    wanted = [one.source_name(name) for one in files for name in one.key]
    for name in (*wanted, *truth.values()):
        if name not in types and not (name == "_row" and name in wanted):
            raise ConfigError(
                f'no column "{name}"{did_you_mean(name, types)} in {input}; there are: {", ".join(types)}'
            )


def _free(name: str, taken: Iterable[str]) -> str:
    known = {other.lower() for other in taken}
    while name.lower() in known:
        name += "_"
    return name


def _as_text(name: str, kind: Type) -> str:
    """Give the SQL of a column as text: an array or a struct as JSON."""
    from sqlenrich.runner.backends.duckdb.database import quote

    column = quote(name)
    return f"CAST({f'to_json({column})' if isinstance(kind, Array | Struct) else column} AS VARCHAR)"


def read_inputs(files: Sequence[Enrichment], sampled: Sampled, rows: Sequence[int]) -> dict[int, dict[str, str | None]]:
    """Give what the prompts read of some rows, by the names in the source."""
    from sqlenrich.runner.backends.duckdb.database import Database, quote

    used = (one.source_name(name) for one in files for name in one.prompt().columns)
    names = [name for name in dict.fromkeys(used) if name != sampled.row and name in sampled.types]
    select = ", ".join((quote(sampled.row), *(_as_text(name, sampled.types[name]) for name in names)))
    with Database(sampled.path) as db:
        found = db.db.execute(
            f"SELECT {select} FROM {SAMPLE} WHERE {quote(sampled.row)} IN (SELECT unnest(?::BIGINT[]))", [list(rows)]
        ).fetchall()
    return {row: dict(zip(names, values, strict=True)) for row, *values in found}

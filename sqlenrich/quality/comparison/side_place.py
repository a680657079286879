"""Where the sides of a comparison are asked: a DuckDB file, a schema of a warehouse, or Spark's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from sqlenrich.core.errors import ConfigError, SqlenrichError
from sqlenrich.core.names import column, relation
from sqlenrich.core.sql import Sql, cast, concat, literal
from sqlenrich.core.types import STRING, Array, Struct, Type, stored, uncoerced
from sqlenrich.plan.source_columns import SourceColumns
from sqlenrich.quality.comparison.sample import SAMPLE_TABLE, Sample, unused_name
from sqlenrich.runner.place import Output
from sqlenrich.runner.session import backend_of
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.backend import Backend
from sqlenrich.store.database import Database
from sqlenrich.store.inputs import Input, TableInMemory, is_url
from sqlenrich.store.values import utc_moment

UPLOADED = f"_sqlenrich_{SAMPLE_TABLE}"
"""The table of a sample in a warehouse."""
LISTED_KEYS = 5_000
"""The keys that one statement lists: each statement scans the table."""


@dataclass(frozen=True)
class SidePlace:
    """An output of runs. It is closed; each use opens it, and so does each run."""

    backend: Backend
    output: Output
    local: Path | None
    """The DuckDB file, which reads the file of a sample; None: the sample is copied to the place."""

    @contextmanager
    def opened(self) -> Iterator[Database]:
        """Open the tables of the place."""
        with self.backend as backend:
            yield backend.as_database()

    def prepare(self, sample: Sample, read: Sequence[str], tables: Sequence[str]) -> Path | str:
        """Drop tables of an earlier comparison, and return what a side names as its input: the sample.

        ``read`` are the columns of the sample that the sides read.
        """
        if self.local is not None:
            with self.backend as backend:
                self._drop(backend, tables)
            return sample.path
        types = {name: stored(uncoerced(sample.types[name])) for name in read if name in sample.types}
        for name, kind in types.items():
            if isinstance(kind, Array | Struct):
                raise ConfigError(
                    f'the prompt reads the column "{name}", an array or a struct, and the rows of a sample are copied '
                    f"to {self.backend.output} as plain values: evaluate without the warehouse, or read it as text"
                )
        with self.backend as backend:
            self._drop(backend, tables)
            database = backend.as_database()
            table = database.named(UPLOADED)
            database.append(table, types, _rows(sample, list(types)))
            return table

    @contextmanager
    def read(self, tables: Sequence[str]) -> Iterator[Database]:
        """Open the tables of the place; at the end drop some of them, and the copy of a sample."""
        with self.backend as backend:
            yield backend.as_database()
            self._drop(backend, tables)

    def discard(self, tables: Sequence[str]) -> None:
        """Drop tables and the copy of a sample after an error, if that can be done."""
        if self.local is None:
            with suppress(SqlenrichError), self.backend as backend:
                self._drop(backend, tables)

    def _drop(self, backend: Backend, tables: Sequence[str]) -> None:
        database = backend.as_database()
        for name in tables if self.local is not None else (*tables, UPLOADED):
            backend.drop(relation(backend.engine, database.named(name)))
        backend.connection.commit()

    def source(self, given: Input) -> Input | PlacedTable:
        """Return what a caller names as rows: files and frames as they are, or a table of the place.

        A text that names no file is a table of the place. Raises ConfigError where it is neither.
        """
        if self.local is not None or not isinstance(given, str | Path) or _is_file(str(given)):
            return given
        with self.opened() as database:
            try:
                found = database.columns(relation(self.backend.engine, str(given)).sql(self.backend.engine.dialect))
            except ValueError as error:
                raise ConfigError(f"the input {error}") from None
        if found is None:
            raise ConfigError(f"{given} is no file here, and no table of {self.backend.output}")
        return PlacedTable(self, str(given), {name: kind for name, kind in found.items() if kind is not None})


@dataclass(frozen=True)
class PlacedTable:
    """A table of the place: few of its rows are read here."""

    place: SidePlace
    name: str
    types: Mapping[str, Type]

    def __str__(self) -> str:
        return self.name

    def all(self) -> TableInMemory:
        """Return all rows: the table is one of labels."""
        return self._fetched([self._query(self.types)], self.types)

    def with_keys(self, key: str, keys: Sequence[str], names: Sequence[str]) -> TableInMemory:
        """Return some columns of the rows whose key, as a text, is one of some."""
        types = self._typed(names)
        text = self._text(key)
        parts = [keys[at : at + LISTED_KEYS] for at in range(0, len(keys), LISTED_KEYS)]
        queries = [
            self._query(types).where(exp.In(this=text.copy(), expressions=[literal(one) for one in part]))
            for part in parts
        ]
        return self._fetched(queries, types)

    def drawn(
        self, files: Sequence[Enrichment], names: Sequence[str], rows: int, seed: int
    ) -> tuple[TableInMemory, int]:
        """Return the rows whose key has the smallest hashes with a seed, and the number of all that are taken.

        Each engine draws the same rows. Raises ConfigError where no column is a key.
        """
        engine = self.place.backend.engine
        keys = list(dict.fromkeys(one.source_name(name) for one in files for name in one.key))
        if not keys:
            raise ConfigError(f"a sample of the table {self.name} needs a key: write key: [column], or give --key")
        types = self._typed([*keys, *names])
        tests = [SourceColumns(one, engine, self.types).where(one.where) for one in files if one.where]
        texts = (exp.Coalesce(this=self._text(key), expressions=[literal("")]) for key in keys)
        text = concat(literal(f"{seed}"), *(part for found in texts for part in (literal(":"), found)))
        count = exp.select("COUNT(*)").from_(relation(engine, self.name)).where(*(one.copy() for one in tests))
        place = exp.to_identifier(unused_name("draw", self.types))
        taken = self._query(types).where(*tests).select(exp.alias_(engine.sha256(text), place))
        query = exp.select(*(column(engine, name) for name in types)).from_(taken.subquery("taken"))
        query = query.order_by(exp.column(place.copy())).limit(rows)
        with self.place.opened() as database:
            all_rows = int(database.rows(count)[0][0])
        return self._fetched([query], types), all_rows

    def _typed(self, names: Sequence[str]) -> dict[str, Type]:
        return {name: self.types[name] for name in dict.fromkeys(names) if name in self.types}

    def _text(self, name: str) -> Sql:
        engine = self.place.backend.engine
        return cast(column(engine, name), engine.sql_type(STRING))

    def _query(self, types: Mapping[str, Type]) -> exp.Select:
        engine = self.place.backend.engine
        return exp.select(*(column(engine, name) for name in types)).from_(relation(engine, self.name))

    def _fetched(self, queries: Sequence[exp.Select], types: Mapping[str, Type]) -> TableInMemory:
        from sqlenrich.store.duckdb.copied import table_in_memory

        with self.place.opened() as database:
            return table_in_memory((database.rows(query) for query in queries), types, self.name)


def side_place(output: Output | None, default: Path) -> SidePlace:
    """Return the place of an output; ``default`` is the DuckDB file where none is named."""
    from sqlenrich.store.duckdb.files import outputs_of

    if isinstance(output, Backend):
        return SidePlace(output, output, None)
    local = default if output is None else outputs_of(output).database
    return SidePlace(backend_of(local), local, local)


def _is_file(given: str) -> bool:
    return given == "-" or is_url(given) or any(mark in given for mark in "*?[") or Path(given).exists()


def _rows(sample: Sample, names: Sequence[str]) -> list[tuple[object, ...]]:
    """Return columns of a sample; times without a zone are those of UTC."""
    from sqlenrich.store.duckdb.database import Database as DuckDBFile
    from sqlenrich.store.duckdb.database import quote

    with DuckDBFile(sample.path) as db:
        found = db.rows(
            f"SELECT {', '.join(map(quote, names))} FROM {SAMPLE_TABLE} ORDER BY {quote(sample.row_column)}"
        )
    return [tuple(utc_moment(value) if hasattr(value, "tzinfo") else value for value in row) for row in found]

"""Where a Spark run keeps its tables: a schema of a catalog, or folders of Parquet files that need no catalog.

A table is made beside the one that it replaces, then renamed. Its readers see the old one or the new one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import Type
from sqlenrich.engines.spark.engine import NEW, beside, rename
from sqlenrich.renderer.statements import create_responses
from sqlenrich.store.spark.connection import FORMAT, SparkConnection, folder_of, is_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OLD = "__old"
_VIEW = "sqlenrich_rows"


class SparkTables:
    """The tables of an output: ``place`` is a schema, or a folder where it holds a slash."""

    def __init__(self, connection: SparkConnection, place: str) -> None:
        self.connection, self.engine = connection, connection.engine
        self.place = place.rstrip("/") if is_folder(place) else place

    def named(self, table: str) -> str:
        """Return the name of a table of the output in Spark's SQL."""
        if is_folder(self.place):
            path = f"{self.place}/{table}".replace("`", "``")
            return f"{FORMAT}.`{path}`"
        return f"{self.place}.{table}"

    def problem(self) -> str | None:
        """Return why the output can't be written: a schema that is not there."""
        if is_folder(self.place):
            return None
        catalog = self.connection.session.catalog
        if self.connection.checked(lambda: catalog.databaseExists(self.place)):
            return None
        return f"there is no schema {self.place}; make it: CREATE SCHEMA {self.place}"

    def create(self, relation: exp.Table, columns: Mapping[str, Type]) -> None:
        """Make an empty table where it is missing."""
        if (path := folder_of(relation)) is None:
            self._run(create_responses(self.engine, relation, columns))
        elif not self.connection.files.exists(path):
            kinds = ", ".join(f"`{name}` {self.engine.sql_type(kind).sql('spark')}" for name, kind in columns.items())
            empty = self.connection.checked(lambda: self.connection.session.createDataFrame([], kinds))
            self._write(empty, path)

    def make(self, relation: exp.Table, query: Sql, *, by: str | None = None) -> bool:
        """Make a table from a query beside the one of its name; :meth:`publish` puts it into its place.

        ``by``: the last column of the query, by which the table is partitioned. That of a catalog is in its place at
        once (False): renamed, its partitions would keep the place of the name that it had.
        """
        new = beside(relation, NEW)
        if (path := folder_of(new)) is not None:
            with self.views(query) as read:
                self._write(self.connection.query(print_sql(self.engine, read)), path, by=by)
            return True
        made = exp.Create(this=new if by is None else relation, kind="TABLE", expression=query)
        self.drop(made.this)
        if by is not None:
            columns = exp.Schema(expressions=[exp.to_identifier(by)])
            made.set("properties", exp.Properties(expressions=[exp.PartitionedByProperty(this=columns)]))
        self.connection.execute(print_sql(self.engine, made))
        return by is None

    def publish(self, relations: Sequence[exp.Table]) -> None:
        """Rename the tables that were made to their names, and drop those before them."""
        for relation in relations:
            old = beside(relation, _OLD)
            self.drop(old)
            if self.connection.exists(relation):
                self._rename(relation, old)
            self._rename(beside(relation, NEW), relation)
        for relation in relations:
            self.drop(beside(relation, _OLD))

    def append(self, relation: exp.Table, rows: DataFrame) -> None:
        """Append rows, whose columns have the table's names. They are durable when it returns."""
        if (path := folder_of(relation)) is not None:
            self._write(rows, path, mode="append")
            return
        names = [exp.to_identifier(name, quoted=True) for name in rows.columns]
        rows.createOrReplaceTempView(_VIEW)
        select = exp.select(*(exp.column(name) for name in names)).from_(_VIEW)
        try:
            self._run(exp.Insert(this=exp.Schema(this=relation, expressions=names), expression=select))
        finally:
            self.connection.session.catalog.dropTempView(_VIEW)

    def drop(self, relation: exp.Table) -> None:
        """Drop a table where it is there."""
        if (path := folder_of(relation)) is not None:
            self.connection.schemas.pop(path, None)
            self.connection.files.delete(path)
        else:
            self._run(exp.Drop(tables=[relation.copy()], kind="TABLE", exists=True))

    def _rename(self, relation: exp.Table, name: exp.Table) -> None:
        source, target = folder_of(relation), folder_of(name)
        if source is not None and target is not None:
            self.connection.files.rename(source, target)
            if (schema := self.connection.schemas.pop(source, None)) is not None:
                self.connection.schemas[target] = schema
            return
        self._run(rename(relation, name))

    def _run(self, statement: Sql) -> None:
        self.connection.execute(print_sql(self.engine, statement, pretty=False))

    def rows(self, relation: exp.Table) -> DataFrame:
        """Return the rows of a table."""
        if (path := folder_of(relation)) is not None:
            return self.connection.folder(path)
        return self.connection.query(print_sql(self.engine, exp.select("*").from_(relation.copy())))

    def read(self, query: Sql) -> list[tuple[Any, ...]]:
        """Run a query and return its rows. A folder is read by the schema that is known of it."""
        with self.views(query) as read:
            return self.connection.rows(print_sql(self.engine, read, pretty=False))

    def _write(self, rows: DataFrame, path: str, *, mode: str = "overwrite", by: str | None = None) -> None:
        self.connection.checked(lambda: rows.write.mode(mode).parquet(path, partitionBy=by))
        if mode == "overwrite":
            self.connection.schemas[path] = rows.schema

    @contextmanager
    def views(self, query: Sql) -> Iterator[Sql]:
        """Return a query that reads views of this output's folders: for a folder by name Spark runs a job a mention."""
        query, views = query.copy(), dict[str, str]()
        try:
            for table in query.find_all(exp.Table):
                path = folder_of(table)
                if path is None or not path.startswith(f"{self.place}/"):
                    continue
                if path not in views:
                    name = f"sqlenrich_{uuid.uuid4().hex}"
                    self.connection.folder(path).createTempView(name)
                    views[path] = name
                table.set("this", exp.to_identifier(views[path]))
                table.set("db", None)
            yield query
        finally:
            for name in views.values():
                self.connection.session.catalog.dropTempView(name)

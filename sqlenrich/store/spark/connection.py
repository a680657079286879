"""A Spark session as a database that takes a statement at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeVar

from sqlglot import exp

from sqlenrich.core.errors import RunError
from sqlenrich.core.names import relation as named_relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import INSTANT, Type
from sqlenrich.engines import get_engine
from sqlenrich.spark.session import first_line
from sqlenrich.store.spark.types import portable_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")
FORMAT = "parquet"
"""The name by which Spark's SQL reads a folder of files: ``parquet.`/path```."""


def is_folder(place: str) -> bool:
    """Tell whether an output is a folder."""
    return "/" in place


def folder_of(relation: exp.Table) -> str | None:
    """Return the folder of a relation, None for a table of a catalog."""
    return relation.name if relation.db == FORMAT and is_folder(relation.name) else None


class Files:
    """Spark's own file systems: no statement renames or deletes files."""

    def __init__(self, connection: SparkConnection) -> None:
        self.connection = connection

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        return bool(self._do(path, lambda files, found: files.exists(found)))

    def delete(self, path: str) -> None:
        """Delete a file or folder with what it holds, where it is there."""
        self._do(path, lambda files, found: files.delete(found, True))

    def rename(self, path: str, name: str) -> None:
        """Rename a file or folder. Raises RunError where that is refused."""
        if not self._do(path, lambda files, found: files.rename(found, self._path(name))):
            raise RunError(f"{path} can't be renamed to {name}")

    def _do(self, path: str, work: Callable[[Any, Any], T]) -> T:
        context: Any = self.connection.session.sparkContext

        def done() -> T:
            found = self._path(path)
            return work(found.getFileSystem(context._jsc.hadoopConfiguration()), found)

        return self.connection.checked(done)

    def _path(self, path: str) -> Any:
        jvm: Any = self.connection.session.sparkContext._jvm
        return jvm.org.apache.hadoop.fs.Path(path)


class SparkConnection:
    """A session. Its errors are one line."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.engine = get_engine("spark")
        self.files = Files(self)
        self._session: SparkSession | None = None
        self.schemas: dict[str, StructType] = {}
        """Those of folders. Spark runs a job to find one."""

    @property
    def session(self) -> SparkSession:
        """The open session."""
        assert self._session is not None, "the backend is not open"
        return self._session

    def open(self, session: SparkSession | None) -> None:
        """Set the session, or none. Other programs may have written since the last one."""
        self._session = session
        self.schemas.clear()

    def execute(self, sql: str) -> None:
        """Run a statement. Raises RunError with the first line of Spark's message."""
        self.checked(lambda: self.session.sql(sql))

    def query(self, sql: str) -> DataFrame:
        """Return the rows of a query as a frame. Nothing runs yet."""
        return self.checked(lambda: self.session.sql(sql))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query and give its rows. Instants have a time zone: Spark gives them in that of this process."""
        frame = self.query(sql)
        kinds = [portable_type(field.dataType) for field in frame.schema.fields]
        found = self.checked(frame.collect)
        return [
            tuple(v.astimezone(UTC) if k == INSTANT and v is not None else v for v, k in zip(row, kinds, strict=True))
            for row in found
        ]

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Return a relation's columns and types; None: it is not there."""
        table = named_relation(self.engine, relation)
        if not self.exists(table):
            return None
        if (path := folder_of(table)) is not None:
            schema = self.folder(path).schema
        else:
            name = print_sql(self.engine, table, pretty=False)
            schema = self.checked(lambda: self.session.sql(f"SELECT * FROM {name} LIMIT 0").schema)
        return {field.name: portable_type(field.dataType) for field in schema.fields}

    def folder(self, path: str) -> DataFrame:
        """Return the rows of a folder. Its schema is looked for in its files once."""
        read = self.session.read
        if path not in self.schemas:
            self.schemas[path] = self.checked(lambda: read.parquet(path).schema)
        return self.checked(lambda: read.schema(self.schemas[path]).parquet(path))

    def exists(self, table: exp.Table) -> bool:
        """Tell whether a table, a view or a folder of files is there."""
        if (path := folder_of(table)) is not None:
            return self.files.exists(path)
        name = print_sql(self.engine, table, pretty=False)
        return self.checked(lambda: self.session.catalog.tableExists(name))

    def begin(self) -> None:
        """Spark has no transactions."""

    def commit(self) -> None:
        """A statement is durable at its end."""

    def checked(self, work: Callable[[], T]) -> T:
        """Do some work of Spark. Raises RunError with the first line of its message, which names what is at fault."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return work()
        except (PySparkException, Py4JError) as error:
            raise RunError(f"Spark: {first_line(error)}") from None

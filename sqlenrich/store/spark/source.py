"""The source of a run in Spark: a table, a query, or files of Parquet, JSON lines or CSV."""

from __future__ import annotations

import re
from collections.abc import Collection
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import relation as named_relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import BIGINT, STRING, Type
from sqlenrich.store.inputs import TableInMemory
from sqlenrich.store.spark.connection import FORMAT, SparkConnection
from sqlenrich.store.spark.types import portable_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_QUERY = re.compile(r"(?i)\s*(select|with|from|values)\s")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_SUFFIXES = (*_DELIMITERS, *_JSON_LINES, ".parquet")
_CSV = {"header": "true", "quote": '"', "escape": '"', "multiLine": "true", "mode": "FAILFAST"}
"""A quote inside a field is doubled, and a field may hold line breaks. Spark's own defaults take neither."""
_ROW_ORDER = ("_metadata.file_path", "_metadata.file_block_start", "monotonically_increasing_id()")


def is_file(input: str) -> bool:
    """Tell whether an input is files: it has a slash or a known suffix, and is no table of a folder."""
    if is_query(input) or input.startswith(f"{FORMAT}.`"):
        return False
    return "/" in input or Path(input).suffix.lower() in _SUFFIXES


def is_query(input: str) -> bool:
    """Tell whether an input is a query."""
    return _QUERY.match(input) is not None


def open_files(
    connection: SparkConnection, input: str, view: str, *, number_rows: bool, used: Collection[str] | None = ()
) -> dict[str, Type]:
    """Make a temporary view of files; give its columns. With ``number_rows`` the column ``_row`` counts from 1.

    A value of a type that has no portable one is read as text. A column that Spark can't read is left out where it is
    not ``used`` (None: all are). Raises ConfigError.
    """
    frame = _read(connection, input, used)
    types = {field.name: portable_type(field.dataType) for field in frame.schema.fields}
    _check_names(input, list(types))
    columns = [_text(name) if kind is None else _quoted(name) for name, kind in types.items()]
    if number_rows:
        # One task numbers all rows, in the order of the files.
        columns.insert(0, f"CAST(row_number() OVER (ORDER BY {', '.join(_ROW_ORDER)}) AS BIGINT) AS _row")
    connection.checked(lambda: frame.selectExpr(*columns).createOrReplaceTempView(view))
    found = {name: kind or STRING for name, kind in types.items()}
    return {"_row": BIGINT, **found} if number_rows else found


def open_memory(
    connection: SparkConnection,
    given: TableInMemory,
    view: str,
    *,
    number_rows: bool,
    used: Collection[str] | None = (),
) -> dict[str, Type]:
    """Make a temporary view of an Arrow table; give its columns. With ``number_rows`` the column ``_row`` counts.

    A column that Spark can't read is left out where it is not ``used`` (None: all are). Raises ConfigError.
    """
    import pyarrow as pa

    table = given.rows.read_all() if given.once else given.rows
    table = table.select(readable(str(given), table.schema, used))
    if number_rows:
        table = table.add_column(0, "_row", pa.array(range(1, table.num_rows + 1), pa.int64()))
    made: Any = connection.session.createDataFrame
    try:
        frame = connection.checked(lambda: made(table))
    except (RunError, pa.ArrowException) as error:
        raise ConfigError(f"{given} can't be read by Spark: {error}") from None
    connection.checked(lambda: frame.createOrReplaceTempView(view))
    return {field.name: portable_type(field.dataType) or STRING for field in frame.schema.fields}


def readable(place: str, schema: pa.Schema, used: Collection[str] | None) -> list[str]:
    """Return the columns of an Arrow schema that Spark reads. Raises ConfigError where a used one is not among them."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type

    found = []
    for field in schema:
        try:
            from_arrow_type(field.type)
        except (PySparkTypeError, ValueError):
            if used is None or field.name in used:
                raise ConfigError(
                    f'{place}: Spark can\'t read the column "{field.name}", whose type is {field.type}; write it with '
                    "another type, or leave it out of the prompt file"
                ) from None
        else:
            found.append(field.name)
    return found


def open_query(connection: SparkConnection, query: str, view: str) -> dict[str, Type]:
    """Make a temporary view of a query; give its columns. Raises ConfigError."""
    try:
        frame = connection.query(query)
    except RunError as error:
        raise ConfigError(f"the query of --input can't be read: {error}") from None
    connection.checked(lambda: frame.createOrReplaceTempView(view))
    return {field.name: portable_type(field.dataType) or STRING for field in frame.schema.fields}


def open_table(connection: SparkConnection, table: str) -> dict[str, Type]:
    """Return the columns of a table or a temporary view. Raises ConfigError where it is missing."""
    try:
        # The name is checked before it is looked for.
        print_sql(connection.engine, exp.select("*").from_(named_relation(connection.engine, table)))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    found = connection.columns(table)
    if found is None:
        raise ConfigError(f"there is no table {table} in Spark, or it can't be read")
    return {name: kind or STRING for name, kind in found.items()}


def _read(connection: SparkConnection, input: str, used: Collection[str] | None) -> DataFrame:
    suffix = Path(input).suffix.lower()
    reader = connection.session.read
    if "://" not in input and not Path(input).exists() and not re.search(r"[*?\[{]", input):
        raise ConfigError(f"{input}: no such file")
    try:
        if suffix in _DELIMITERS:
            return connection.checked(lambda: reader.options(sep=_DELIMITERS[suffix], **_CSV).csv(input))
        if suffix in _JSON_LINES:
            return connection.checked(lambda: reader.options(mode="FAILFAST").json(input))
        if suffix not in ("", ".parquet"):
            raise ConfigError(f"{input}: unknown kind of file; there are: {', '.join(_SUFFIXES)}")
        try:
            return connection.checked(lambda: reader.parquet(input))
        except RunError:
            if (schema := _readable_schema(input, used)) is None:
                raise
            return connection.checked(lambda: reader.schema(schema).parquet(input))
    except RunError as error:
        raise ConfigError(f"{input} can't be read: {error}") from None


def _readable_schema(input: str, used: Collection[str] | None) -> StructType | None:
    """Return the columns of Parquet files that Spark reads: one of another type makes it read none. None: unknown."""
    import pyarrow as pa
    from pyarrow import dataset
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    files = glob(input) or [input]
    try:
        schema = dataset.dataset(files if len(files) > 1 else files[0], format="parquet").schema
    except (OSError, pa.ArrowException):
        return None
    names = readable(input, schema, used)
    return StructType([StructField(name, from_arrow_type(schema.field(name).type)) for name in names])


def _check_names(input: str, names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise ConfigError(f'{input}: the columns "{other}" and "{name}" are the same but for case; rename one')


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(name: str) -> str:
    return f"CAST({_quoted(name)} AS STRING) AS {_quoted(name)}"

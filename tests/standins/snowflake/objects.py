"""What clients ask of a session and of its objects: ALTER SESSION, SHOW and CREATE SCHEMA, by their texts.

https://docs.snowflake.com/en/sql-reference/sql/alter-session, .../show-parameters, .../show-schemas, .../show-objects,
.../show-user-functions and .../create-schema; the columns are those that dbt-snowflake 1.12 reads, the others are left
out. No name of theirs is quoted here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.standins.snowflake.values import SnowflakeError

Parameters = dict[str, str]
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The columns and the rows of an answer, all of them texts."""
DONE: Table = ("status",), [("Statement executed successfully.",)]
MODELS: Table = (
    ("name", "lifecycle_status", "regions", "legacy_date", "end_of_life_date"),
    [("LLAMA3.3-70B", "GA", "all", "", ""), ("MISTRAL-LARGE2", "LEGACY", "all", "2026-09-01", "2027-01-15")],
)
_NAME = r"([\w.\"$]+)"
_LIMIT = r"(?:\s+LIMIT\s+(\d+))?"


@dataclass
class Objects:
    """The objects of an account by their full names, and the schemas that were made."""

    tables: Iterable[str] = ()
    views: Iterable[str] = ()
    schemas: set[str] = field(default_factory=set)

    def named(self) -> list[tuple[str, str, str, str]]:
        """Database, schema, name and kind of each table and view."""
        found = [(name, kind) for kind, names in (("TABLE", self.tables), ("VIEW", self.views)) for name in names]
        # A name without a schema has no place in a list.
        return sorted((*name.split("."), kind) for name, kind in found if name.count(".") == 2)  # type: ignore[misc]

    def places(self) -> list[tuple[str, str]]:
        """Database and schema of all: those that were made, and those of tables."""
        made = {(database, schema) for database, _, schema in (name.partition(".") for name in self.schemas)}
        return sorted(made | {(database, schema) for database, schema, _, _ in self.named()})


def answered(sql: str, parameters: Parameters, objects: Objects) -> Table | None:
    """The answer to a statement about a session or its objects, None to any other."""
    text = re.sub(r"/\*.*?\*/", " ", sql, flags=re.DOTALL).strip().rstrip(";").strip()
    for pattern, answer in _STATEMENTS.items():
        if found := re.fullmatch(pattern, text, re.IGNORECASE | re.DOTALL):
            return answer(found, parameters, objects)
    return None


def _set(found: re.Match[str], parameters: Parameters, _: Objects) -> Table:
    parameters[found[1].upper()] = found[2].replace("''", "'")
    return DONE


def _unset(found: re.Match[str], parameters: Parameters, _: Objects) -> Table:
    parameters.pop(found[1].upper(), None)
    return DONE


def _parameters(found: re.Match[str], parameters: Parameters, _: Objects) -> Table:
    name = found[1].upper()
    return ("key", "value", "default", "level"), [(name, parameters.get(name, ""), "", "SESSION")]


def _schemas(found: re.Match[str], _: Parameters, objects: Objects) -> Table:
    wanted = _plain(found[1])
    rows = [("", schema, "SCHEMA", database, schema) for database, schema in objects.places() if database == wanted]
    return ("created_on", "name", "kind", "database_name", "schema_name"), _cut(rows, found[2])


def _objects(found: re.Match[str], _: Parameters, objects: Objects) -> Table:
    wanted = _plain(found[1])
    _must_exist(wanted, objects)
    flags = ("N", "N", "N", "N")
    rows = [
        ("2026-01-01 00:00:00", name, database, schema, kind, "", "", "0", "0", "OWNER", *flags)
        for database, schema, name, kind in objects.named()
        if f"{database}.{schema}" == wanted
    ]
    columns = ("created_on", "name", "database_name", "schema_name", "kind", "comment", "cluster_by", "rows", "bytes")
    return (*columns, "owner", "is_hybrid", "is_dynamic", "is_iceberg", "is_interactive"), _cut(rows, found[2])


def _functions(found: re.Match[str], _: Parameters, objects: Objects) -> Table:
    _must_exist(_plain(found[1]), objects)
    return ("created_on", "name", "schema_name", "is_builtin", "catalog_name", "arguments", "language"), []


def _create(found: re.Match[str], _: Parameters, objects: Objects) -> Table:
    objects.schemas.add(_plain(found[1]))
    return ("status",), [("Schema successfully created.",)]


def _must_exist(schema: str, objects: Objects) -> None:
    if tuple(schema.split(".")) not in objects.places():
        raise SnowflakeError(f"SQL compilation error:\nObject does not exist: Schema '{schema}' or not authorized.")


def _plain(name: str) -> str:
    return name.replace('"', "").upper()


def _cut(rows: Sequence[tuple[str, ...]], limit: str | None) -> list[tuple[str, ...]]:
    return list(rows if limit is None else rows[: int(limit)])


_STATEMENTS: Mapping[str, Callable[[re.Match[str], Parameters, Objects], Table]] = {
    r"(?:USE|BEGIN|COMMIT|ROLLBACK)\b.*": lambda *_: DONE,
    r"ALTER SESSION SET (\w+)\s*=\s*'((?:[^']|'')*)'": _set,
    r"ALTER SESSION SET .*": lambda *_: DONE,
    r"ALTER SESSION UNSET (\w+)": _unset,
    r"SHOW PARAMETERS LIKE '(\w+)' IN SESSION": _parameters,
    rf"SHOW TERSE SCHEMAS IN DATABASE {_NAME}{_LIMIT}": _schemas,
    rf"SHOW OBJECTS IN {_NAME}{_LIMIT}": _objects,
    r"SHOW CORTEX BASE MODELS IN SCHEMA SNOWFLAKE\.MODELS": lambda *_: MODELS,
    rf"SHOW USER FUNCTIONS IN {_NAME}": _functions,
    rf"CREATE SCHEMA IF NOT EXISTS {_NAME}": _create,
}
"""Statements by the pattern of their text: no transactions, and no current database."""

"""Views, and Unity Catalog's information schema: what the ``mem`` catalog of Spark has not got.

A view is a temporary view of the session under a name of its own, and statements that read it are rewritten. The
information schema has the relations that dbt-databricks 1.12 reads, with the columns that it reads; all but ``tables``
are empty. https://docs.databricks.com/aws/en/sql/language-manual/sql-ref-information-schema, read 2026-11-23.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence

from sqlglot import exp

from tests.standins import spark

CATALOG = "mem"
SCHEMA_OF: Mapping[str, Sequence[str]] = {
    "tables": ("table_catalog", "table_schema", "table_name", "table_type", "data_source_format", "table_owner"),
    "views": ("table_catalog", "table_schema", "table_name", "view_definition"),
    "row_filters": ("table_catalog", "table_schema", "table_name", "filter_name", "target_columns"),
    "column_masks": ("catalog_name", "schema_name", "table_name", "column_name", "mask_name", "using_columns"),
    "table_tags": ("catalog_name", "schema_name", "table_name", "tag_name", "tag_value"),
    "column_tags": ("catalog_name", "schema_name", "table_name", "column_name", "tag_name", "tag_value"),
}
_PART = r"`?(\w+)`?"
_VIEW = re.compile(
    rf"(?is)^((?:\s|/\*.*?\*/)*)(CREATE\s+(?:OR\s+REPLACE\s+)?|DROP\s+)VIEW\s+(IF\s+EXISTS\s+)?{_PART}\.{_PART}\.{_PART}"
)
_DESCRIBED = re.compile(r"(?is)^(?:\s|/\*.*?\*/)*DESCRIBE\s+TABLE\s+EXTENDED\s+(\S+)\s+AS\s+JSON\b")
_INFORMATION = re.compile(rf"(?i)`?\b(?:system|{CATALOG})`?\.`?information_schema`?\.{_PART}")


class Objects:
    """The views that were made, by schema and name in lower case."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def rewritten(self, sql: str) -> str:
        """A statement as this Spark can run it."""
        with self._lock:
            created = self._keep(match) if (match := _VIEW.match(sql)) else None
            if match and created is not None:
                return match[1] + created + self._read(sql[match.end() :])
            if described := _DESCRIBED.match(sql):
                return _as_json(self._read(described[1]))
            return self._read(sql)

    def _keep(self, found: re.Match[str]) -> str:
        place = (found[5].lower(), found[6].lower())
        name = "view_" + "_".join(place)
        if found[2].upper().startswith("DROP"):
            self._views.pop(place, None)
            return f"DROP VIEW {found[3] or ''}{name}"
        if spark.spark_session().catalog.tableExists(".".join((CATALOG, *place))):
            raise ValueError(f"[TABLE_OR_VIEW_ALREADY_EXISTS] {'.'.join(place)} is a table")
        self._views[place] = name
        return f"CREATE OR REPLACE TEMPORARY VIEW {name}"

    def _read(self, sql: str) -> str:
        for (schema, view), name in self._views.items():
            sql = re.sub(rf"(?i)`?\b{CATALOG}`?\.`?{schema}`?\.`?{view}\b`?", name, sql)
        return _INFORMATION.sub(lambda found: self._information(found[1].lower()), sql)

    def _information(self, name: str) -> str:
        """Make a relation of the information schema afresh, and give the name it has here."""
        rows = self._tables() if name == "tables" else []
        kinds = ", ".join(f"{column} string" for column in SCHEMA_OF[name])
        spark.spark_session().createDataFrame(rows, kinds).createOrReplaceTempView(f"information_schema_{name}")
        return f"information_schema_{name}"

    def _tables(self) -> list[tuple[str, ...]]:
        session = spark.spark_session()
        schemas = [row[0] for row in session.sql(f"SHOW SCHEMAS IN {CATALOG}").collect()]
        listed = [(schema, row[1]) for schema in schemas for row in self._listed(schema) if not row[2]]
        tables = [(CATALOG, schema, name, "MANAGED", "DELTA", "owner") for schema, name in listed]
        return [*tables, *((CATALOG, *place, "VIEW", "UNKNOWN_DATA_SOURCE_FORMAT", "owner") for place in self._views)]

    def _listed(self, schema: str) -> list[tuple[str, str, bool]]:
        found = spark.spark_session().sql(f"SHOW TABLES IN {CATALOG}.{schema}").collect()
        return [(row[0], row[1], bool(row[2])) for row in found]


def _as_json(table: str) -> str:
    """Spark describes its own tables in JSON and no others: the columns alone."""
    schema = spark.spark_session().table(table).schema
    columns = [{"name": column.name, "type": {"name": column.dataType.simpleString()}} for column in schema]
    return f"SELECT {exp.Literal.string(json.dumps({'columns': columns})).sql('databricks')} AS json_metadata"

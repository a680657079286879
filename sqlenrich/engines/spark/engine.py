"""Open-source Spark 4: the SQL of Databricks, where ``ai_query`` is a function that sqlenrich registers."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Call, Engine, Fact
from sqlenrich.core.sql import Sql, named_func
from sqlenrich.engines.spark import json as spark_json
from sqlenrich.engines.spark import text as spark_sql
from sqlenrich.schema.vendor.response_format import json_schema_format


def create_table_as(table: exp.Table, select: Sql) -> list[Sql]:
    """Give the statements that make a table afresh. Spark's own catalog has no CREATE OR REPLACE (4.3)."""
    return [
        exp.Drop(tables=[table.copy()], kind="TABLE", exists=True),
        exp.Create(this=table, kind="TABLE", expression=select),
    ]


def must_exist(call: Call) -> list[str]:
    """Give what the script needs beforehand."""
    model = call.model or "the endpoint's model"
    return [f"Needs: Spark 4 and a function ai_query(endpoint, request, ...) in the session, asking {model}"]


ENGINE = Engine(
    name="spark",
    dialect="spark",
    text=spark_sql.TEXT,
    json=spark_json.JSON,
    sha256=lambda text: named_func("SHA2")(text, exp.Literal.number(256)),
    sql_type=spark_sql.sql_type,
    column=spark_json.column,
    create_table_as=create_table_as,
    facts={
        "call": Fact("ai_query", "a session function over OpenAI-compatible servers", "2026-11-20"),
        "default_model": Fact("default", "the endpoint's name in the session", "2026-11-20"),
    },
    params=spark_sql.PARAMS,
    response_format=json_schema_format,
    call=spark_sql.call,
    must_exist=must_exist,
    name_problem=spark_sql.dollar_brace,
)

"""Databricks: ``ai_query`` over a serving endpoint, Delta tables."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlenrich.core.engine import Call, Engine, Fact, Output, Told
from sqlenrich.core.sql import Sql, func, named_func, replace_table
from sqlenrich.engines.shared import case_mapping as casing
from sqlenrich.engines.spark import json as spark_json
from sqlenrich.engines.spark import text as spark_sql
from sqlenrich.schema.vendor.response_format import DATABRICKS, json_schema_format

_DOCS = "https://docs.databricks.com/aws/en/sql/language-manual/functions/ai_query"


def response_format(output: Output) -> Told:
    """Give the ``json_schema`` envelope: the form that a live workspace takes; a bare schema or a DDL is refused."""
    return json_schema_format(output, DATABRICKS)


def must_exist(call: Call) -> list[str]:
    """Give what the script needs beforehand."""
    return [
        f"Needs: the serving endpoint {call.model} and CAN QUERY on it;",
        "a Pro or serverless SQL warehouse, or a cluster with DBR 15.4 LTS",
    ]


def _lower(text: Sql) -> Sql:
    """Python's lower(): runtimes before Spark 4 map with Java, which finds the end of a word by other rules."""
    return casing.guarded(spark_sql.matches, text, func("LOWER", text), f"{casing.NEW_CASE}|{casing.ODD_SIGMA}")


ENGINE = Engine(
    name="databricks",
    dialect="databricks",
    text=replace(spark_sql.TEXT, lower=_lower),
    json=spark_json.JSON,
    sha256=lambda text: named_func("SHA2")(text, exp.Literal.number(256)),
    sql_type=spark_sql.sql_type,
    column=spark_json.column,
    create_table_as=replace_table,
    facts={
        "call": Fact("ai_query", _DOCS, "2026-11-20"),
        "default_model": Fact("databricks-meta-llama-3-3-70b-instruct", _DOCS, "2026-11-20"),
        "result_fields": Fact(
            (spark_sql.RESULT_FIELD, spark_sql.ERROR_FIELD), "public code; unconfirmed", "2026-11-20"
        ),
        "runtime": Fact(
            "DBR 15.4 LTS", "https://docs.databricks.com/aws/en/large-language-models/ai-query", "2026-11-20"
        ),
    },
    params={**spark_sql.PARAMS, "seed": None},
    response_format=response_format,
    call=spark_sql.call,
    must_exist=must_exist,
    name_problem=spark_sql.dollar_brace,
)

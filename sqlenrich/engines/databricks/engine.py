"""Databricks: ``ai_query`` over a serving endpoint, Delta tables. What is not named here is as on Spark."""

from __future__ import annotations

from dataclasses import replace

from sqlenrich.core.engine import ModelCall, OutputSpec, ResponseFormat, VendorFact
from sqlenrich.core.sql import Sql, func, replace_table
from sqlenrich.engines.shared import case_mapping
from sqlenrich.engines.spark.call import FIELDS
from sqlenrich.engines.spark.engine import ENGINE as SPARK
from sqlenrich.engines.spark.text import matches
from sqlenrich.schema.vendor.dialects import DATABRICKS
from sqlenrich.schema.vendor.response_format import json_schema_format

_DOCS = "https://docs.databricks.com/aws/en/sql/language-manual/functions/ai_query"


def response_format(output: OutputSpec) -> ResponseFormat:
    """Give the ``json_schema`` envelope, the form that a live workspace takes. It refuses a bare schema and a DDL."""
    return json_schema_format(output, DATABRICKS)


def must_exist(call: ModelCall) -> list[str]:
    """Give what the script needs beforehand."""
    return [
        f"Needs: the serving endpoint {call.model} and CAN QUERY on it;",
        "a Pro or serverless SQL warehouse, or a cluster with DBR 15.4 LTS",
    ]


def _lower(text: Sql) -> Sql:
    """Runtimes before Spark 4 map with Java, which finds the end of a word by other rules than Python."""
    patterns = f"{case_mapping.NEW_CASE}|{case_mapping.ODD_SIGMA}"
    return case_mapping.guarded(matches, text, func("LOWER", text), patterns)


ENGINE = replace(
    SPARK,
    name="databricks",
    dialect="databricks",
    text=replace(SPARK.text, lower=_lower),
    create_table_as=replace_table,
    facts={
        "call": VendorFact("ai_query", _DOCS, "2026-11-20"),
        "default_model": VendorFact("databricks-meta-llama-3-3-70b-instruct", _DOCS, "2026-11-20"),
        "result_fields": FIELDS,
        "runtime": VendorFact(
            "DBR 15.4 LTS", "https://docs.databricks.com/aws/en/large-language-models/ai-query", "2026-11-20"
        ),
    },
    params={**SPARK.params, "seed": None},
    response_format=response_format,
    must_exist=must_exist,
)

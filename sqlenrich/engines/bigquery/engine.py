"""BigQuery: a remote model over Vertex AI, asked by :mod:`sqlenrich.engines.bigquery.call`."""

from __future__ import annotations

import re

from sqlglot import exp

from sqlenrich.core.engine import PROBE, Engine, VendorFact
from sqlenrich.core.functions import FunctionSyntax
from sqlenrich.core.sql import cast, concat, func, literal, replace_table
from sqlenrich.engines.bigquery.call import (
    ANSWERS,
    BODY_FIELDS,
    COUNT_TOKENS_DOCS,
    ENDPOINT_MODEL,
    ENDS,
    GENERATE_DOCS,
    GENERATE_TEXT_DOCS,
    NO_SAMPLING,
    READ_ON,
    READING,
    REQUEST_TYPES,
    STRUCT_FIELDS,
    THINKING,
    call,
    count_tokens,
    default_params,
    must_exist,
    response_format,
)
from sqlenrich.engines.bigquery.embed import EMBEDDING
from sqlenrich.engines.bigquery.json import JSON, typed_column
from sqlenrich.engines.bigquery.scripting import SCRIPTING
from sqlenrich.engines.bigquery.text import TEXT, exploded, sql_type


def name_problem(name: str) -> str | None:
    """Refuse the characters that a column of BigQuery can't have, quoted or not."""
    found = re.search(r"[`!\"$()*,./;?@\[\]\\^{}~\x00-\x1f]", name)
    return f"holds {found[0]!r}, which no BigQuery column may" if found else None


def responses_properties() -> list[exp.Property]:
    """Return partitions by day, so that old answers may expire, clustered by what a run looks up."""
    asked_at, hash_ = (exp.column(exp.to_identifier(name, quoted=True)) for name in ("asked_at", "request_hash"))
    return [exp.PartitionedByProperty(this=func("DATE", asked_at)), exp.ClusterProperty(expressions=[hash_])]


ENGINE = Engine(
    name="bigquery",
    dialect="bigquery",
    keeps_deleted="time travel keeps deleted rows for 7 days by default, then fail-safe for 7 days. "
    "ALTER SCHEMA ... SET OPTIONS (max_time_travel_hours = 48) shortens time travel",
    folds_table_names=False,
    text=TEXT,
    json=JSON,
    sha256=lambda text: func("TO_HEX", func("SHA256", text)),
    hex_number=lambda digits: cast(concat(literal("0x"), digits), "INT64"),
    sql_type=sql_type,
    exploded=exploded,
    typed_column=typed_column,
    create_table_as=replace_table,
    responses_properties=responses_properties,
    facts={
        "call": VendorFact("AI.GENERATE (or AI.GENERATE_TEXT)", GENERATE_DOCS, READ_ON),
        "default_model": ENDPOINT_MODEL,
        "ends": ENDS,
        "no_sampling": NO_SAMPLING,
        "max_tokens": VendorFact(
            1024, f"{GENERATE_TEXT_DOCS}; the page of AI.GENERATE tells none", READ_ON, settled_by=PROBE
        ),
        "count_tokens": VendorFact("AI.COUNT_TOKENS", COUNT_TOKENS_DOCS, "2026-11-22"),
        "request_types": REQUEST_TYPES,
        "struct_fields": STRUCT_FIELDS,
        "body_fields": BODY_FIELDS,
        "thinking": THINKING,
        "partitions": VendorFact(
            "PARTITION BY DATE, CLUSTER BY",
            "https://docs.cloud.google.com/bigquery/docs/clustered-tables",
            "2026-11-22",
        ),
        "functions": VendorFact(
            "CREATE OR REPLACE TEMP FUNCTION",
            "https://docs.cloud.google.com/bigquery/docs/user-defined-functions",
            "2026-11-22",
        ),
        **ANSWERS.facts,
    },
    params={
        "temperature": "temperature",
        "max_tokens": "max_output_tokens",
        "top_p": "top_p",
        "seed": "seed",
        "stop": "stop_sequences",
    },
    response_format=response_format,
    call=call,
    reading=READING,
    embedding=EMBEDDING,
    functions=FunctionSyntax(
        temporary="CREATE OR REPLACE TEMP FUNCTION {name}({parameters}) RETURNS {returns} AS ({body})",
        installed="CREATE OR REPLACE FUNCTION {name}({parameters}) RETURNS {returns} AS ({body})",
        json_type="JSON",
        needs_schema=True,
    ),
    count_tokens=count_tokens,
    scripting=SCRIPTING,
    must_exist=must_exist,
    name_problem=name_problem,
    default_params=default_params,
    params_by_model=(
        NO_SAMPLING.value,
        (r"(?i)claude", {"temperature": None, "seed": None, "stop": None}),
    ),
    call_options=("function", "connection", "schema", "request_type"),
)

"""DuckDB, embedded: prompts and checks in SQL. A Python client asks the model between two SQL steps."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Engine, VendorFact
from sqlenrich.core.functions import FunctionSyntax
from sqlenrich.core.sql import cast, concat, exploded_by, func, literal, named_func, replace_table
from sqlenrich.engines.duckdb.json import JSON, typed_column
from sqlenrich.engines.duckdb.text import TEXT, sql_type
from sqlenrich.engines.shared.model_params import OPENAI_COMPATIBLE
from sqlenrich.schema.vendor.response_format import json_schema_format

ENGINE = Engine(
    name="duckdb",
    dialect="duckdb",
    text=TEXT,
    json=JSON,
    sha256=named_func("SHA256"),
    hex_number=lambda digits: cast(concat(literal("0x"), digits), "BIGINT"),
    sql_type=sql_type,
    exploded=exploded_by("UNNEST"),
    typed_column=typed_column,
    create_table_as=replace_table,
    now=lambda: func("TIMEZONE", literal("UTC"), exp.CurrentTimestamp()),
    shares_settings_of="endpoint",
    facts={
        "call": VendorFact("a client of any OpenAI-compatible endpoint", "sqlenrich run", "2026-11-20"),
        "default_model": VendorFact(None, "the endpoint's own, named in sqlenrich.toml or by --model", "2026-11-20"),
    },
    params={"temperature": "temperature", "max_tokens": "max_tokens", "top_p": "top_p", "seed": "seed", "stop": "stop"},
    params_by_model=OPENAI_COMPATIBLE,
    functions=FunctionSyntax(
        temporary="CREATE OR REPLACE TEMP MACRO {name}({parameters}) AS{body}",
        installed="CREATE OR REPLACE MACRO {name}({parameters}) AS{body}",
        typed=False,
    ),
    response_format=json_schema_format,
)

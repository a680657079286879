"""BigQuery: a remote model over Vertex AI, asked by :mod:`sqlenrich.engines.bigquery.call`."""

from __future__ import annotations

import re

from sqlenrich.core.engine import Engine, VendorFact
from sqlenrich.core.sql import func, replace_table
from sqlenrich.engines.bigquery.call import FIELDS, GENERATE_TEXT_DOCS, READ_ON, call, must_exist, response_format
from sqlenrich.engines.bigquery.json import JSON, typed_column
from sqlenrich.engines.bigquery.text import TEXT, sql_type


def name_problem(name: str) -> str | None:
    """Refuse the characters that a column of BigQuery can't have, quoted or not."""
    found = re.search(r"[`!\"$()*,./;?@\[\]\\^{}~\x00-\x1f]", name)
    return f"holds {found[0]!r}, which no BigQuery column may" if found else None


ENGINE = Engine(
    name="bigquery",
    dialect="bigquery",
    text=TEXT,
    json=JSON,
    sha256=lambda text: func("TO_HEX", func("SHA256", text)),
    sql_type=sql_type,
    typed_column=typed_column,
    create_table_as=replace_table,
    facts={
        "call": VendorFact("AI.GENERATE_TEXT (or AI.GENERATE)", GENERATE_TEXT_DOCS, READ_ON),
        "default_model": VendorFact("sqlenrich.gemini", "the remote model that you make once", READ_ON),
        "max_tokens": VendorFact(1024, GENERATE_TEXT_DOCS, READ_ON),
        "fields": FIELDS,
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
    must_exist=must_exist,
    name_problem=name_problem,
    call_options=("function", "connection", "schema"),
)

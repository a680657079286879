"""ClickHouse: tables without NULL-able arrays, no UPDATE on a plain table, ``aiGenerate`` as the call."""

from __future__ import annotations

from sqlenrich.core.engine import Engine, VendorFact
from sqlenrich.core.sql import exploded_by, func, literal, replace_table

from .call import COLLECTION, CONTROL, EMPTY, NO_SCHEMA, READING, call, must_exist, response_format
from .dialect import CALL
from .json import JSON, typed_column
from .text import TEXT, bigint, sql_type

_FUNCTIONS = "https://clickhouse.com/docs/sql-reference/functions/ai-functions; system.functions of 26.9"

ENGINE = Engine(
    name="clickhouse",
    dialect="sqlenrichclickhouse",
    text=TEXT,
    json=JSON,
    sha256=lambda text: func("lower", func("hex", func("SHA256", text))),
    hex_number=lambda digits: bigint(
        func("reinterpretAsUInt64", func("reverse", func("unhex", func("leftPad", digits, literal(16), literal("0")))))
    ),
    sql_type=sql_type,
    exploded=exploded_by("arrayJoin"),
    typed_column=typed_column,
    create_table_as=replace_table,
    now=lambda: func("now64", literal(6), literal("UTC")),
    clock_ms=lambda: func("toUnixTimestamp64Milli", func("now64", literal(3))),
    facts={
        "call": VendorFact(CALL, _FUNCTIONS, "2026-11-25"),
        "default_model": VendorFact(
            "gpt-4o-mini", "the model of the named collection, which the call sets", "2026-11-25"
        ),
        "max_tokens": VendorFact(1024, _FUNCTIONS, "2026-11-25"),
        "collection": COLLECTION,
        "format": NO_SCHEMA,
        "failure": EMPTY,
        "control_characters": CONTROL,
    },
    params={"temperature": "temperature", "max_tokens": "max_tokens", "top_p": None, "seed": None, "stop": None},
    response_format=response_format,
    call=call,
    reading=READING,
    updates=False,  # UPDATE needs a table made with enable_block_number_column
    must_exist=must_exist,
)

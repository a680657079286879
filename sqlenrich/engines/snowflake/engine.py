"""Snowflake: Cortex models, asked by :mod:`sqlenrich.engines.snowflake.call`."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Engine, VendorFact
from sqlenrich.core.functions import FunctionSyntax
from sqlenrich.core.sql import Sql, func, literal, replace_table
from sqlenrich.engines.shared.model_params import NO_SAMPLING
from sqlenrich.engines.snowflake.call import (
    ANSWERS,
    COMPLETE_DOCS,
    DATABASE_ROLE,
    DOCS,
    MODEL_ACCESS_DOCS,
    MODEL_ROLE,
    PRIVILEGE_DOCS,
    READING,
    call,
    count_tokens,
    must_exist,
    response_format,
)
from sqlenrich.engines.snowflake.embed import EMBEDDING
from sqlenrich.engines.snowflake.json import JSON, typed_column
from sqlenrich.engines.snowflake.scripting import SCRIPTING
from sqlenrich.engines.snowflake.text import TEXT, exploded, sql_type

RESERVED = frozenset(
    """
    ACCOUNT ALL ALTER AND ANY AS BETWEEN BY CASE CAST CHECK COLUMN CONNECT CONNECTION CONSTRAINT CREATE CROSS
    CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DATABASE DELETE DISTINCT DROP ELSE EXISTS
    FALSE FOLLOWING FOR FROM FULL GRANT GROUP GSCLUSTER HAVING ILIKE IN INCREMENT INNER INSERT INTERSECT INTO IS
    ISSUE JOIN LATERAL LEFT LIKE LOCALTIME LOCALTIMESTAMP MINUS NATURAL NOT NULL OF ON OR ORDER ORGANIZATION
    QUALIFY REGEXP REVOKE RIGHT RLIKE ROW ROWS SAMPLE SCHEMA SELECT SET SOME START TABLE TABLESAMPLE THEN TO
    TRIGGER TRUE TRY_CAST UNION UNIQUE UPDATE USING VALUES VIEW WHEN WHENEVER WHERE WITH
    """.split()
)
"""https://docs.snowflake.com/en/sql-reference/reserved-keywords, read 2026-11-20."""
MODELS = VendorFact(
    "SHOW CORTEX BASE MODELS IN SCHEMA SNOWFLAKE.MODELS",
    "https://docs.snowflake.com/sql-reference/sql/show-cortex-base-models",
    "2026-11-25",
    settled_by="`sqlenrich probe` on an account: the order of its columns",
)
"""The models that the role may ask: name, lifecycle status, regions, the day of legacy, the end of life."""
CREATE_TABLE_DOCS = "https://docs.snowflake.com/en/sql-reference/sql/create-table"


def create_result_table(table: exp.Table, select: Sql) -> list[Sql]:
    """Return the statement that makes a result table afresh. Without COPY GRANTS readers would lose their access."""
    return replace_table(table, select, exp.CopyGrantsProperty())


def create_work_table(table: exp.Table, select: Sql) -> list[Sql]:
    """Return the statement that makes a work table afresh. A transient one has no Fail-safe, which is billed 7 days."""
    return replace_table(table, select, exp.TransientProperty())


def now() -> Sql:
    """Return the time in UTC. A CURRENT_TIMESTAMP stored as TIMESTAMP_NTZ would be the time of the session's zone."""
    return func("SYSDATE")


ENGINE = Engine(
    name="snowflake",
    dialect="snowflake",
    keeps_deleted="Time Travel keeps deleted rows for 1 day by default, then Fail-safe for 7 days. "
    "ALTER TABLE ... SET DATA_RETENTION_TIME_IN_DAYS = 0 ends Time Travel",
    text=TEXT,
    json=JSON,
    sha256=lambda text: func("SHA2", text, literal(256)),
    hex_number=lambda digits: func("TO_NUMBER", digits, literal("X" * 13)),
    sql_type=sql_type,
    exploded=exploded,
    typed_column=typed_column,
    create_table_as=create_result_table,
    create_work_table=create_work_table,
    now=now,
    clock_ms=lambda: func("DATE_PART", exp.var("EPOCH_MILLISECOND"), now()),
    facts={
        "call": VendorFact("AI_COMPLETE", COMPLETE_DOCS, "2026-11-20"),
        "default_model": VendorFact("llama3.3-70b", DOCS + "ai_complete-prompt-object", "2026-11-20"),
        "max_tokens": VendorFact(4096, COMPLETE_DOCS, "2026-11-20"),
        "count_tokens": VendorFact("AI_COUNT_TOKENS", DOCS + "ai_count_tokens", "2026-11-22"),
        "now": VendorFact("SYSDATE()", DOCS + "sysdate", "2026-11-22"),
        "create_table": VendorFact("COPY GRANTS, TRANSIENT", CREATE_TABLE_DOCS, "2026-11-22"),
        "privileges": VendorFact(("USE AI FUNCTIONS", DATABASE_ROLE), PRIVILEGE_DOCS, "2026-11-25"),
        "model_role": VendorFact(MODEL_ROLE, MODEL_ACCESS_DOCS, "2026-11-22"),
        "models": MODELS,
        "functions": VendorFact(
            "CREATE TEMPORARY FUNCTION", "https://docs.snowflake.com/en/sql-reference/sql/create-function", "2026-11-22"
        ),
        **ANSWERS.facts,
    },
    params={"temperature": "temperature", "max_tokens": "max_tokens", "top_p": "top_p", "seed": None, "stop": None},
    params_by_model=NO_SAMPLING,
    response_format=response_format,
    call=call,
    reading=READING,
    embedding=EMBEDDING,
    functions=FunctionSyntax(
        temporary="CREATE OR REPLACE TEMPORARY FUNCTION {name}({parameters}) RETURNS {returns} AS $${body}$$",
        installed="CREATE OR REPLACE FUNCTION {name}({parameters}) RETURNS {returns} AS $${body}$$",
        json_type="VARIANT",
    ),
    count_tokens=count_tokens,
    models=lambda: exp.Command(this="SHOW", expression=MODELS.value.removeprefix("SHOW ")),
    scripting=SCRIPTING,
    must_exist=must_exist,
    quotes_always=False,
    reserved=RESERVED,
)

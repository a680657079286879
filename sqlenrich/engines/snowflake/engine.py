"""Snowflake: Cortex models, asked by :mod:`sqlenrich.engines.snowflake.call`."""

from __future__ import annotations

from sqlenrich.core.engine import Engine, VendorFact
from sqlenrich.core.sql import func, literal, replace_table
from sqlenrich.engines.snowflake.call import COMPLETE_DOCS, DOCS, FIELDS, call, must_exist, response_format
from sqlenrich.engines.snowflake.json import JSON, typed_column
from sqlenrich.engines.snowflake.text import TEXT, sql_type

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

ENGINE = Engine(
    name="snowflake",
    dialect="snowflake",
    text=TEXT,
    json=JSON,
    sha256=lambda text: func("SHA2", text, literal(256)),
    sql_type=sql_type,
    typed_column=typed_column,
    create_table_as=replace_table,
    facts={
        "call": VendorFact("AI_COMPLETE", COMPLETE_DOCS, "2026-11-20"),
        "default_model": VendorFact("llama3.3-70b", DOCS + "ai_complete-prompt-object", "2026-11-20"),
        "max_tokens": VendorFact(4096, COMPLETE_DOCS, "2026-11-20"),
        "fields": FIELDS,
    },
    params={"temperature": "temperature", "max_tokens": "max_tokens", "top_p": "top_p", "seed": None, "stop": None},
    response_format=response_format,
    call=call,
    must_exist=must_exist,
    quotes_always=False,
    reserved=RESERVED,
)

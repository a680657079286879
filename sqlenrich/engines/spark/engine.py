"""Open-source Spark 4: ``ai_query`` is a function that the user registers in the session. Measured on 4.3."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import Engine, ModelCall, VendorFact
from sqlenrich.core.functions import FunctionSyntax
from sqlenrich.core.sql import Sql, cast, exploded_by, func, literal
from sqlenrich.engines.shared.model_params import OPENAI_COMPATIBLE
from sqlenrich.engines.spark.call import ANSWERS, READING, call
from sqlenrich.engines.spark.embed import embedding_function
from sqlenrich.engines.spark.json import JSON, typed_column
from sqlenrich.engines.spark.scripting import SCRIPTING
from sqlenrich.engines.spark.text import TEXT, sql_type
from sqlenrich.schema.vendor.response_format import json_schema_format


def create_table_as(table: exp.Table, select: Sql) -> list[Sql]:
    """Return the statements that make a table beside the one of its name, then rename it: a SELECT may fail.

    Spark's own catalog has no CREATE OR REPLACE (4.3).
    """
    new = beside(table, NEW)
    return [
        exp.Drop(tables=[new.copy()], kind="TABLE", exists=True),
        exp.Create(this=new.copy(), kind="TABLE", expression=select),
        exp.Drop(tables=[table.copy()], kind="TABLE", exists=True),
        rename(new, table),
    ]


NEW = "__new"
"""How the name of a table ends that is not yet in its place."""


def beside(table: exp.Table, suffix: str) -> exp.Table:
    """Return the table whose name has a suffix."""
    found = table.copy()
    found.set("this", exp.to_identifier(table.name + suffix, quoted=True))
    return found


def rename(table: exp.Table, name: exp.Table) -> exp.Alter:
    """Return the statement that renames a table. A new name is one of the same catalog, and is not written with it."""
    inside = exp.table_(name.this.copy(), db=name.args["db"].copy() if name.args.get("db") else None)
    return exp.Alter(this=table.copy(), kind="TABLE", actions=[exp.AlterRename(this=inside)])


def must_exist(call: ModelCall) -> list[str]:
    """Return what the script needs beforehand."""
    model = call.model or "the endpoint's model"
    return [f"Needs: Spark 4 and a function ai_query(endpoint, request, ...) in the session, asking {model}"]


def name_problem(name: str) -> str | None:
    """Refuse ``${``: Spark substitutes it inside a quoted name too, where it can't be escaped."""
    return "holds ${, which Spark substitutes inside names" if "${" in name else None


ENGINE = Engine(
    name="spark",
    dialect="spark",
    keeps_deleted="a table format with versions (Delta, Iceberg) keeps the files of earlier versions: "
    "VACUUM, or CALL ... expire_snapshots, deletes them",
    text=TEXT,
    json=JSON,
    sha256=lambda text: func("SHA2", text, exp.Literal.number(256)),
    hex_number=lambda digits: cast(func("CONV", digits, literal(16), literal(10)), "BIGINT"),
    sql_type=sql_type,
    exploded=exploded_by("EXPLODE"),
    typed_column=typed_column,
    create_table_as=create_table_as,
    facts={
        "call": VendorFact("ai_query", "a session function over OpenAI-compatible servers", "2026-11-20"),
        "default_model": VendorFact("default", "the endpoint's name in the session", "2026-11-20"),
        "functions": VendorFact(
            "CREATE TEMPORARY FUNCTION ... RETURN, but none in an UPDATE",
            "https://spark.apache.org/docs/4.2.0/sql-ref-syntax-ddl-create-sql-function.html, and what Spark 4.3 does",
            "2026-11-22",
        ),
        **ANSWERS.facts,
    },
    params={"temperature": "temperature", "max_tokens": "max_tokens", "top_p": "top_p", "seed": "seed", "stop": "stop"},
    params_by_model=OPENAI_COMPATIBLE,
    response_format=json_schema_format,
    call=call,
    reading=READING,
    embedding=embedding_function(
        VendorFact("ai_query", "a session function over OpenAI-compatible servers", "2026-11-23"),
        VendorFact("embedding", "the endpoint's name in the session", "2026-11-23"),
    ),
    functions=FunctionSyntax(
        temporary="CREATE OR REPLACE TEMPORARY FUNCTION {name}({parameters}) RETURNS {returns} RETURN{body}",
        installed="CREATE OR REPLACE FUNCTION {name}({parameters}) RETURNS {returns} RETURN{body}",
        json_type="VARIANT",
        in_update=False,  # UNSUPPORTED_SQL_UDF_USAGE (4.3)
    ),
    scripting=SCRIPTING,
    updates=False,  # a table of Spark's own formats takes no UPDATE (4.3)
    must_exist=must_exist,
    name_problem=name_problem,
)

"""What each engine must do: the same steps as the others, SQL that its grammar takes, each text unchanged.

An engine that another distribution registers is tested too, by what there is for its dialect: see ``DIALECTS``.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import sqlenrich as se
from sqlenrich.core.types import BIGINT, STRING, TIMESTAMP, Array, Scalar, Struct, Type
from sqlenrich.engines import ENGINES, engine_names, get_engine
from sqlenrich.plan.plan import RESPONSES, STEPS
from sqlenrich.plan.relations import symbol
from sqlenrich.schema import normalise
from sqlenrich.spec.enrichment import SourceColumn
from sqlenrich.spec.loader import templates
from sqlenrich.spec.settings import Config
from sqlenrich.store.duckdb.types import portable_type
from tests.standins.grammar import check_sqlfluff, check_sqlglot
from tests.support import clickhouse
from tests.support.hostile import NAMES, TEXTS
from tests.support.in_memory import in_memory

TEMPLATES = tuple(templates())
DIALECTS: Mapping[str, Any] = {
    "bigquery": pytest.mark.zetasql,
    "databricks": pytest.mark.spark,
    "duckdb": (),
    "sqlenrichclickhouse": (),
    "snowflake": (),
    "spark": pytest.mark.spark,
}
"""The dialects whose SQL is run here, or for Snowflake read by its documentation, with the mark of the program."""
INSTALLED = engine_names()
DIALECT = {name: get_engine(name).dialect for name in INSTALLED}
ALL = [pytest.param(name, marks=DIALECTS[DIALECT[name]]) for name in INSTALLED if DIALECT[name] in DIALECTS]
EXECUTED = [param for param in ALL if param.values != ("snowflake",)]
MODEL = "sqlenrich.gemini"
"""A remote model of BigQuery."""

each_template = pytest.mark.parametrize("template", TEMPLATES)
each_engine = pytest.mark.parametrize("engine", ALL)


@functools.cache
def script(template: str, engine: str) -> str:
    return se.render(se.load(template), engine=engine, config=Config(), preflight=False)  # grammars know no blocks


@functools.cache
def plan(template: str, engine: str) -> se.Plan:
    return se.compile_plan(se.load(template), engine, {"source": "source"})


# Steps ----------------------------------------------------------------------------------------------------------------


@each_template
@pytest.mark.parametrize("engine", INSTALLED)
def test_steps_and_columns_are_the_same_everywhere(engine: str, template: str) -> None:
    enrichment = se.load(template)
    steps = {step.name: (step.kind, list(step.columns.items())) for step in plan(template, engine).steps}
    kept = [(name, STRING) for name in (*enrichment.key, *enrichment.keep)]
    output = list(enrichment.output_columns.items())
    judged = [("_error", STRING), ("_error_detail", STRING), ("_repaired", Scalar("boolean"))]
    texts = ("_request_hash", "_model", "_version", "_fingerprint")
    when = ("_asked_at", TIMESTAMP)
    asked = [("response", STRING), ("prompt", STRING), ("_attempts", BIGINT), ("_request_hash", STRING), when]
    assert tuple(steps) == STEPS
    assert steps["prompts"] == ("table", [*kept, ("prompt", STRING), ("request_hash", STRING)])
    assert steps["responses"] == ("append", list(RESPONSES.items()))
    assert steps["checked"] == (
        "table",
        [
            *kept,
            *((name, STRING) for name in ("prompt", "request_hash", "response", "answer")),
            ("_attempts", BIGINT),
            ("_model", STRING),
            when,
            *judged,
        ],
    )
    assert steps["enriched"] == ("table", [*kept, *output, *((name, STRING) for name in texts), when])
    assert steps["quarantine"] == ("table", [*kept, *judged, *asked])


@each_template
@pytest.mark.parametrize("param", EXECUTED)
def test_each_select_gives_the_promised_columns(param: str, template: str) -> None:
    compiled = plan(template, param)
    tables = {step.relation.strip('`"'): dict(step.columns) for step in compiled.steps}
    tables["source"] = source_columns(template)
    call = compiled.step("responses")
    pending: dict[str, Type] = {"request_hash": STRING, "attempt": BIGINT, "prompt": STRING}
    tables[str(call.pending_relation).strip('`"')] = pending
    selects = {step.name: (step.sql, {name: step.columns[name] for name in step.selected}) for step in compiled.steps}
    if call.reading is not None:  # what the call leaves out is read from what it stores
        read = exp.select(*(exp.alias_(value.copy(), name) for name, value in call.reading.items()))
        sql = call.relations.sql(read.from_(symbol("responses")))
        selects["reading"] = (sql, {name: RESPONSES[name] for name in call.reading})
        assert {*call.reading, *selects["responses"][1], "latency_ms"} <= set(RESPONSES)
    selects["pending"] = (str(call.pending_sql), pending)
    given = {name: list(columns_of(param, sql, tables).items()) for name, (sql, _) in selects.items()}
    assert given == {
        name: [(column, in_words(param, kind)) for column, kind in columns.items()]
        for name, (_, columns) in selects.items()
    }


def source_columns(template: str) -> dict[str, Type]:
    """The columns that a template reads; all are text."""
    enrichment = se.load(template)
    names = (*enrichment.prompt().columns, *enrichment.key, *enrichment.keep, *(enrichment.require or ()))
    assert {column.type for column in enrichment.columns.values()} <= {STRING, None}
    return {enrichment.source_name(name): STRING for name in names}


WORDS = {
    "bigquery": {
        "string": "STRING",
        "bigint": "INT64",
        "double": "FLOAT64",
        "boolean": "BOOL",
        "timestamp": "TIMESTAMP",
    },
    "spark": {name: name for name in ("string", "bigint", "double", "boolean", "timestamp")},
}


def in_words(engine: str, kind: Type) -> object:
    """A portable type as the engine's analyzer names it; DuckDB's are read back to portable ones."""
    if DIALECT[engine] == "duckdb":
        return kind
    if engine == "clickhouse":
        return clickhouse.shown(get_engine(engine).sql_type(kind).sql("clickhouse"))
    big = DIALECT[engine] == "bigquery"
    match kind:
        case Array(item):
            return f"{'ARRAY' if big else 'array'}<{in_words(engine, item)}>"
        case Struct(fields):
            parts = [f"{name}{' ' if big else ':'}{in_words(engine, field)}" for name, field in fields]
            return f"STRUCT<{', '.join(parts)}>" if big else f"struct<{','.join(parts)}>"
        case Scalar(name):
            return WORDS["bigquery" if big else "spark"][name]
    raise AssertionError(kind)


def columns_of(engine: str, sql: str, tables: Mapping[str, Mapping[str, Type]]) -> dict[str, object]:
    """The columns and types that the engine itself derives for a query over empty tables."""
    words = get_engine(engine)
    typed = {
        table: {column: words.sql_type(kind).sql(words.dialect) for column, kind in columns.items()}
        for table, columns in tables.items()
    }
    if words.dialect == "bigquery":
        from tests.standins.googlesql import googlesql

        return dict(googlesql().analyze(sql, typed, [MODEL]))
    if engine == "clickhouse":
        for table, columns in typed.items():
            clickhouse.fill(clickhouse.quoted(table), columns, [])
        return dict(clickhouse.columns_of(sql))
    if words.dialect == "duckdb":
        with in_memory() as db:
            for macro in stand_ins(words.facts["call"].value, sql):
                db.execute(macro)
            for table, columns in typed.items():
                listed = ", ".join(f"{quoted(engine, column)} {kind}" for column, kind in columns.items())
                db.execute(f"CREATE TABLE {quoted(engine, table)} ({listed})")
            return {row[0]: portable_type(row[1]) for row in db.execute(f"DESCRIBE {sql}").fetchall()}
    from tests.standins.spark import AiAnswer, register_ai_query, spark_session

    session = spark_session()
    register_ai_query(lambda _: AiAnswer(None))
    for table, columns in typed.items():
        shape = ", ".join(f"{quoted(engine, column)} {kind}" for column, kind in columns.items())
        session.createDataFrame([], shape).createOrReplaceTempView(quoted(engine, table))
    try:
        return dict(session.sql(sql).dtypes)
    finally:
        for table in typed:
            session.catalog.dropTempView(table)


def stand_ins(function: str, sql: str) -> list[str]:
    """A macro for each call of a function that DuckDB has not: it takes the same arguments and gives a text."""
    calls = [node for node in sqlglot.parse_one(sql, read="duckdb").find_all(exp.Anonymous) if node.name == function]
    arguments = [
        [f"{arg.name} := NULL" if isinstance(arg, exp.Kwarg) else f"p{n}" for n, arg in enumerate(call.expressions)]
        for call in calls
    ]
    return [f"CREATE OR REPLACE MACRO {function}({', '.join(names)}) AS CAST(NULL AS VARCHAR)" for names in arguments]


def quoted(engine: str, name: str) -> str:
    """A name as the engine quotes it, written here apart from the package."""
    if engine == "clickhouse":
        return clickhouse.quoted(name)
    if DIALECT[engine] == "bigquery":
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
    mark = "`" if DIALECT[engine] in ("spark", "databricks") else '"'
    return mark + name.replace(mark, mark * 2) + mark


# Scripts --------------------------------------------------------------------------------------------------------------


@each_template
@pytest.mark.parametrize("engine", INSTALLED)
def test_every_statement_prints_back(engine: str, template: str) -> None:
    if DIALECT[engine] == "duckdb":  # sqlglot prints a tab of E'\\t' as it is: equal text, another tree
        assert len(duckdb.extract_statements(script(template, engine))) == (
            17 if get_engine(engine).call is None else 20
        )
    elif engine != "clickhouse":  # sqlglot adds parentheses to what it reads; the other tests run each statement
        check_sqlglot(script(template, engine), DIALECT[engine])
    for step in plan(template, engine).steps:
        assert isinstance(sqlglot.parse_one(step.sql, read=get_engine(engine).dialect), exp.Query)


@pytest.mark.parametrize("template", TEMPLATES[::3])
@pytest.mark.parametrize("engine", ["databricks", "snowflake"])
def test_sqlfluff_takes_a_script(engine: str, template: str) -> None:
    check_sqlfluff(script(template, engine), engine)


REPLACED, READ = "ReplaceTableAsSelect", "UpdateTable"
RENAMED = ("DropTable", "CreateTableAsSelect", "DropTable", "RenameTable")
GUARDS = ("CreateTable", "Project") * 5
STATEMENTS = {
    "databricks": [
        *GUARDS, REPLACED, "CreateTable", READ, REPLACED, "InsertIntoStatement", READ, REPLACED, REPLACED, REPLACED,
        "DropTable",
    ],
    "spark": [
        *GUARDS, *RENAMED, "CreateTable", *RENAMED, "InsertIntoStatement", *RENAMED, *RENAMED, *RENAMED, "DropTable",
    ],
}  # fmt: skip


@pytest.mark.spark
@each_template
@pytest.mark.parametrize("engine", ["databricks", "spark"])
def test_spark_parses_every_script(engine: str, template: str) -> None:
    from tests.standins.spark import parse_spark

    assert parse_spark(script(template, engine)) == STATEMENTS[engine]


@pytest.mark.zetasql
@each_template
@pytest.mark.parametrize("model", [MODEL, None])
def test_googles_analyzer_takes_every_script(model: str | None, template: str) -> None:
    from tests.standins.googlesql import googlesql

    sql = se.render(
        se.load(template),
        engine="bigquery",
        relations={"source": "source"},
        config=Config(),
        model=model,
        preflight=False,
    )
    columns = dict.fromkeys(source_columns(template), "STRING")
    found = googlesql().script(sql, {"source": columns}, [MODEL])
    made = "CreateTableAsSelect"
    kinds = [made, "CreateTable", "Update", made, "Insert", "Update", made, made, made]
    assert [statement.kind for statement in found] == [*["CreateTable", "Query"] * 5, *kinds, "Drop"]
    found = found[10:]
    steps = {step.name: step.columns for step in plan(template, "bigquery").steps}
    for place, name in ((0, "prompts"), (1, "responses"), (6, "checked"), (7, "enriched"), (8, "quarantine")):
        assert found[place].typed == [(column, in_words("bigquery", kind)) for column, kind in steps[name].items()]


SAFE_PARSES = {
    "databricks": r"\bTRY_PARSE_JSON\(",
    "snowflake": r"\bTRY_PARSE_JSON\(",
    "bigquery": r"\bSAFE\.PARSE_JSON\(",
    "spark": r"\bTRY_PARSE_JSON\(",
    "duckdb": r"\bTRY_CAST\([^()]* AS JSON\)",
}
CALLS = {
    "databricks": "ai_query(",
    "snowflake": "AI_COMPLETE(",
    "bigquery": "AI.GENERATE(",
    "spark": "ai_query(",
    "duckdb": None,
}


@each_template
@pytest.mark.parametrize("engine", INSTALLED)
def test_one_call_and_safe_parses_alone(engine: str, template: str) -> None:
    code = "\n".join(line for line in script(template, engine).splitlines() if not line.startswith("--"))
    steps = {step.name: step.sql for step in plan(template, engine).steps}
    assert re.search(SAFE_PARSES.get(DIALECT[engine], ""), steps["checked"])
    assert not re.search(r"(?<!TRY_)(?<!SAFE\.)\bPARSE_JSON\(", code)
    call = CALLS[engine] if engine in CALLS else f"{get_engine(engine).facts['call'].value}("
    assert code.count(call or "ai_query(") == (call is not None)
    assert steps["responses"].count(call or "SELECT") == 1
    assert plan(template, engine).step("responses").calls_in_sql is (call is not None)


@pytest.mark.parametrize("engine", INSTALLED)
def test_facts_have_a_source_and_a_date(engine: str) -> None:
    facts = get_engine(engine).facts
    assert {"call", "default_model"} <= set(facts)
    for name, fact in facts.items():
        assert fact.source.strip(), name
        assert dt.date(2026, 1, 1) <= dt.date.fromisoformat(fact.read_on) <= dt.date.today(), name


def test_rendering_is_the_same_in_every_process() -> None:
    code = (
        "import hashlib, sqlenrich as se\n"
        "from sqlenrich.engines import ENGINES\n"
        "from sqlenrich.spec.loader import templates\n"
        "texts = [se.render(se.load(t), engine=e) for t in list(templates())[::4] for e in ENGINES]\n"
        "print(len(texts), hashlib.sha256(''.join(texts).encode()).hexdigest())\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert printed.pop().startswith(f"{len(ENGINES) * len(TEMPLATES[::4])} ")


# Hostile texts --------------------------------------------------------------------------------------------------------

_SNOWFLAKE_TOKEN = re.compile(r"""--[^\n]*|/\*.*?\*/|\$\$.*?\$\$|"(?:[^"]|"")*"|'((?:[^'\\]|''|\\.)*)'""", re.DOTALL)
_SNOWFLAKE_ESCAPE = re.compile(
    r"''|\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))",
    re.DOTALL,
)
_SNOWFLAKE_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def snowflake_texts(sql: str) -> list[str]:
    """The text literals of a Snowflake statement, read by the rules of its documentation."""

    def plain(match: re.Match[str]) -> str:
        octal, pair, four, letter = match.groups()
        if match[0] == "''":
            return "'"
        code = int(octal, 8) if octal else int(pair or four, 16) if pair or four else None
        return chr(code) if code is not None else _SNOWFLAKE_LETTERS.get(letter, letter)

    found = _SNOWFLAKE_TOKEN.finditer(sql)
    return [_SNOWFLAKE_ESCAPE.sub(plain, match[1]) for match in found if match[1] is not None]


def value_of(engine: str, sql: str) -> object:
    """The value of a constant text expression, by the engine's own oracle."""
    if DIALECT[engine] == "snowflake":
        (text,) = snowflake_texts(sql)
        return text
    if DIALECT[engine] == "bigquery":
        from tests.standins.googlesql import googlesql

        ((value,),) = googlesql().evaluate(f"SELECT {sql}")
    elif engine == "clickhouse":
        ((value,),) = clickhouse.rows(f"SELECT {sql}")
    elif DIALECT[engine] == "duckdb":
        with in_memory() as db:
            ((value,),) = db.execute(f"SELECT {sql}").fetchall()
    else:
        from tests.standins.spark import rows

        ((value,),) = rows(f"SELECT {sql}")
    return value


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (r"'a''b' || '\'' -- 'c'", ["a'b", "'"]),
        (r"""'\\' || "x'y" /* 'z' */ || '\u0041\x42\103\n\q' """, ["\\", "ABC\nq"]),
    ],
)
def test_the_reader_of_snowflakes_literals(sql: str, expected: list[str]) -> None:
    assert snowflake_texts(sql) == expected


@each_engine
@pytest.mark.parametrize("name", TEXTS)
def test_constants_are_kept_to_the_letter(engine: str, name: str) -> None:
    text = TEXTS[name]
    sql = se.prompt_sql("{{ constant }}", engine, vars={"constant": text})
    assert value_of(engine, sql) == text
    parsed = sqlglot.parse_one(sql, read=get_engine(engine).dialect)
    assert DIALECT[engine] in ("duckdb", "spark", "databricks") or parsed == exp.Literal.string(text)


@each_engine
@pytest.mark.parametrize("name", TEXTS)
def test_the_templates_own_text_is_kept_to_the_letter(engine: str, name: str) -> None:
    template = TEXTS[name]
    try:
        expected = se.render_prompt(template, {})
    except se.PromptError:
        with pytest.raises(se.PromptError):
            se.prompt_sql(template, engine)
    else:
        assert value_of(engine, se.prompt_sql(template, engine)) == expected


def test_only_jinjas_own_marks_are_refused_as_templates() -> None:
    def refused(template: str) -> bool:
        try:
            return not isinstance(se.render_prompt(template, {}), str)
        except se.PromptError:
            return True

    assert {name for name, text in TEXTS.items() if refused(text)} == {"jinja expression", "jinja statement"}


def enrichment_with(**changes: Any) -> se.Enrichment:
    """A small enrichment, changed."""
    schema, problems = normalise({"type": "object", "properties": {"a": {"type": "string"}}})
    assert not problems
    base = se.Enrichment(
        name="hostile", template="{{ body }}", schema=schema, fingerprint="0123456789abcdef", source="source"
    )
    return replace(base, **changes)


@each_engine
@pytest.mark.parametrize("name", NAMES)
def test_column_names_are_kept_or_refused(engine: str, name: str) -> None:
    column = NAMES[name]
    enrichment = enrichment_with(
        keep=(column,), columns={"body": SourceColumn(STRING, column + "2")}, where=None, require=("body",)
    )
    if (reason := refusal(engine, column, of_column=True)) is not None:
        with pytest.raises(se.UnsupportedError) as caught:
            se.compile_plan(enrichment, engine)
        assert reason in str(caught.value)
        assert f'the name "{column}' in str(caught.value)
        return
    compiled = se.compile_plan(enrichment, engine)
    for step in ("prompts", "enriched"):
        assert column in compiled.step(step).columns
    sql = compiled.step("prompts").sql
    if DIALECT[engine] == "snowflake":
        check_snowflake(sql)
        names = {node.name for node in sqlglot.parse_one(sql, read="snowflake").find_all(exp.Identifier)}
        assert {column, column + "2"} <= names
        return
    given = columns_of(engine, sql, {"source": {column: STRING, column + "2": STRING}})
    assert list(given) == [column, "prompt", "request_hash"]


def check_snowflake(sql: str) -> None:
    """By sqlfluff, but for names that end in a backslash: it takes that for an escape, which Snowflake has not."""
    if '\\"' not in sql:
        check_sqlfluff(f"{sql};", "snowflake")


def refusal(engine: str, name: str, *, of_column: bool = False) -> str | None:
    """Why an engine refuses a name, in a word of its message; of a column more than of a table."""
    if DIALECT[engine] == "bigquery" and (found := re.search(r"[`!\"$()*,./;?@\[\]\\^{}~\x00-\x1f]", name)):
        return f"holds {found[0]!r}, which no BigQuery column may"
    if engine == "databricks" and of_column and (found := re.search(r"[ ,;{}()\n\t=]", name)):
        return f"holds {found[0]!r}, which no column of a Delta table may"
    if DIALECT[engine] in ("spark", "databricks") and "${" in name:
        return "holds ${, which Spark substitutes"
    return None


@each_engine
@pytest.mark.parametrize("name", NAMES)
def test_table_names_are_kept_or_refused(engine: str, name: str) -> None:
    table = NAMES[name]
    relations = {"source": quoted(engine, table), "enriched": quoted(engine, table + "2")}
    enrichment = enrichment_with()
    if (reason := refusal(engine, table)) is not None:
        with pytest.raises(se.UnsupportedError) as caught:
            se.compile_plan(enrichment, engine, relations)
        assert reason in str(caught.value)
        return
    compiled = se.compile_plan(enrichment, engine, relations)
    assert compiled.step("enriched").relation == quoted(engine, table + "2")
    sql = compiled.step("prompts").sql
    if DIALECT[engine] == "snowflake":
        check_snowflake(sql)
        assert table in {node.name for node in sqlglot.parse_one(sql, read="snowflake").find_all(exp.Table)}
        return
    assert list(columns_of(engine, sql, {table: {"body": STRING}})) == ["prompt", "request_hash"]


# What a model gets beside the prompt ----------------------------------------------------------------------------------

ENUM = [text for name, text in TEXTS.items() if name != "100 KB"]
DESCRIPTION = "\n".join(ENUM)


def hostile_call() -> se.Enrichment:
    """Every hostile text as an enum value, in a description and in the parameters."""
    schema, problems = normalise(
        {
            "type": "object",
            "properties": {"a": {"type": "string", "enum": ENUM, "description": DESCRIPTION}},
            "required": ["a"],
        }
    )
    assert not problems
    return enrichment_with(schema=schema, params={"stop": ENUM}, version=DESCRIPTION)


def test_snowflakes_call_holds_every_text() -> None:
    sql = se.compile_plan(hostile_call(), "snowflake").step("responses").sql
    check_sqlfluff(f"{sql};", "snowflake")
    assert set(snowflake_texts(sql)) >= {*ENUM, DESCRIPTION}
    start = snowflake_texts(sql).index(ENUM[0])
    assert snowflake_texts(sql)[start : start + len(ENUM)] == ENUM


@pytest.mark.zetasql
@pytest.mark.parametrize(
    ("model", "written"),
    [("default", r"model_params => JSON ('\{.*')\s*\)"), ("ds.gemini", r"STRUCT\(\s*('\{.*') AS model_params\s*\)")],
)
def test_bigquerys_call_holds_every_text(model: str, written: str) -> None:
    from tests.standins.googlesql import googlesql

    plan = se.compile_plan(replace(hostile_call(), model=model), "bigquery")
    found = re.search(written, plan.step("responses").sql, re.DOTALL)
    assert found
    ((settings,),) = googlesql().evaluate(f"SELECT TO_JSON_STRING(PARSE_JSON({found[1]}))")
    config = json.loads(settings)["generation_config"]
    assert config["stop_sequences"] == ENUM
    asked = config["response_schema"]["properties"]["a"]
    assert (asked["enum"], asked["description"]) == (ENUM, DESCRIPTION)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["databricks", "spark"])
def test_sparks_call_holds_every_text(engine: str) -> None:
    from tests.standins.spark import AiAnswer, AiCall, register_ai_query, rows, spark_session

    calls: list[AiCall] = []

    def answer(call: AiCall) -> AiAnswer:
        calls.append(call)
        return AiAnswer("x")

    register_ai_query(answer)
    step = se.compile_plan(hostile_call(), engine).step("responses")
    pending = spark_session().createDataFrame([("h", 1, "p")], "request_hash string, attempt bigint, prompt string")
    pending.createOrReplaceTempView("hostile_pending")
    (asked_row,) = rows(step.sql)
    spark_session().catalog.dropTempView("hostile_pending")
    assert asked_row[step.selected.index("version")] == DESCRIPTION
    (call,) = calls
    asked = json.loads(call.response_format or "")["json_schema"]["schema"]["properties"]["a"]
    assert (asked["enum"], asked["description"]) == (ENUM, DESCRIPTION)
    assert (call.model_parameters or {})["stop"] == ENUM

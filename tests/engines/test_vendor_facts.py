"""What a vendor fixes: parameters by model, thinking, names of models and columns, grants, tables, the time."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

import sqlenrich as se
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.plan.model import resolve_model
from sqlenrich.renderer.script import model_for
from sqlenrich.spec.loader import loads
from sqlenrich.spec.settings import Config, read_config

OUTPUT = "{label: string}"


def enrichment(header: str = "", output: str = OUTPUT) -> se.Enrichment:
    return loads(f"---\nsource: source\nkey: [id]\n{header}output: {output}\n---\n{{{{ body }}}}", name="facts")


def script(engine: str, header: str = "", model: str | None = None, output: str = OUTPUT) -> str:
    return se.render(enrichment(header, output), engine, config=Config(), model=model, preflight=False)


# Parameters by model --------------------------------------------------------------------------------------------------

ALL = {"temperature": 0, "max_tokens": 60, "top_p": 0.5}


@pytest.mark.parametrize(
    ("engine", "model", "expected"),
    [
        ("databricks", "system.ai.meta-llama-3-3-70b-instruct", ALL),
        ("databricks", "system.ai.claude-sonnet-4-6", ALL),
        ("databricks", "databricks-claude-opus-4-1", ALL),
        ("databricks", "system.ai.claude-sonnet-4", ALL),
        ("databricks", "databricks-claude-opus-4-7", {"max_tokens": 60}),
        ("databricks", "system.ai.claude-opus-4-8", {"max_tokens": 60}),
        ("databricks", "system.ai.claude-sonnet-5", {"max_tokens": 60}),
        ("databricks", "system.ai.gpt-5-5", {"max_tokens": 60}),
        ("databricks", "databricks-gpt-oss-120b", ALL),
        ("snowflake", "claude-4-sonnet", ALL),
        ("snowflake", "claude-haiku-4-5", ALL),
        ("snowflake", "claude-opus-5-5", {"max_tokens": 60}),
        ("snowflake", "openai-gpt-5.4", {"max_tokens": 60}),
        ("snowflake", "openai-o4-mini", {"max_tokens": 60}),
        ("snowflake", "openai-gpt-4.1", ALL),
        ("spark", "gpt-5-mini", {"max_completion_tokens": 60}),
        ("spark", "qwen2.5-7b-instruct", ALL),
        ("duckdb", "openai/gpt-5.1", {"max_completion_tokens": 60}),
        ("duckdb", "gpt-6", {"max_completion_tokens": 60}),
        ("duckdb", "anthropic/claude-opus-4.7", {"max_tokens": 60}),
        ("duckdb", "claude-sonnet-4-20250514", ALL),
        ("duckdb", "openai/gpt-oss-20b", ALL),
        ("bigquery", "ds.claude", {"max_output_tokens": 60, "top_p": 0.5}),
        ("bigquery", "ds.gemini_3_5_flash", {"max_output_tokens": 60}),
        ("bigquery", "ds.gemini_2_5_flash", {"temperature": 0, "max_output_tokens": 60, "top_p": 0.5}),
    ],
)
def test_a_model_gets_only_what_it_takes(engine: str, model: str, expected: dict[str, Any]) -> None:
    asked = enrichment("params: {temperature: 0, max_tokens: 60, top_p: 0.5, bigquery: {schema: false}}\n")
    assert resolve_model(asked, get_engine(engine), model).params == expected


# Facts that the settings set otherwise --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "written", "path"),
    [
        ("snowflake", 'response_2 = "value.reply[0].text"', "'value.reply[0].text'"),
        ("bigquery", '"tokens in 1" = "full_response.meter.input"', "'$.full_response.meter.input'"),
        ("databricks", 'call_error_1 = "failure"', "'$.failure'"),
        ("spark", 'response_1 = "text"', "'$.text'"),
        ("bigquery", 'finish_words = {CUT = "length"}', "'CUT'"),
        ("snowflake", 'finish_by_error = {"too long" = "length"}', "too long"),
    ],
)
def test_settings_change_how_answers_are_read_and_nothing_else(
    tmp_path: Path, engine: str, written: str, path: str
) -> None:
    (tmp_path / "sqlenrich.toml").write_text(f"[facts.{engine}]\n{written}\n")
    config = read_config(tmp_path / "sqlenrich.toml")
    plain = se.compile_plan(enrichment(), engine, model=model_for(enrichment(), engine, Config()))
    set_otherwise = se.compile_plan(enrichment(), engine, model=model_for(enrichment(), engine, config))
    assert set_otherwise.constant == plain.constant
    assert set_otherwise.step("prompts").sql == plain.step("prompts").sql
    before, after = (se.render(enrichment(), engine, config=each) for each in (Config(), config))
    assert path in after
    assert path not in before
    called = get_engine(engine).facts["call"].value.split(" ")[0]
    before_by, after_by = (set(re.findall(rf"'({re.escape(called)} [0-9a-f]{{8}})'", each)) for each in (before, after))
    assert len(before_by) == len(after_by) == 1
    assert before_by != after_by


# BigQuery -------------------------------------------------------------------------------------------------------------


def bigquery_call(sql: str) -> exp.Expr:
    insert = sqlglot.parse_one(sql[sql.index("INSERT INTO") :].split(";\n")[0], read="bigquery")
    assert insert is not None
    return insert


def body_of(sql: str) -> dict[str, Any]:
    """The body of generateContent in the statement that asks."""
    found = next(node for node in bigquery_call(sql).find_all(exp.Literal) if "generation_config" in node.this)
    return dict(json.loads(found.this))


@pytest.mark.parametrize(
    ("model", "params", "thinking", "most"),
    [
        ("ds.gemini", "", {"thinking_level": "LOW"}, 2108),
        ("gemini-2.5-flash", "", {"thinking_budget": 0}, 60),
        ("gemini-2.5-flash-lite", "", {"thinking_budget": 0}, 60),
        ("gemini-2.5-pro", "", {"thinking_budget": 128}, 188),
        ("ds.gemini_2_5_pro", "", {"thinking_budget": 128}, 188),
        ("gemini-3.5-flash", "", {"thinking_level": "MINIMAL"}, 572),
        ("ds.gemini_3_6_flash", "", {"thinking_level": "MINIMAL"}, 572),
        ("gemini-3.7-flash", "", {"thinking_level": "LOW"}, 2108),
        ("gemini-3.8-flash-lite", "", {"thinking_level": "MINIMAL"}, 572),
        ("gemini-3.10-flash", "", {"thinking_level": "LOW"}, 2108),
        ("gemini-3.1-pro", "", {"thinking_level": "LOW"}, 2108),
        ("gemini-4-flash", "", {"thinking_level": "LOW"}, 2108),
        ("ds.m", ", bigquery: {thinking_config: {thinking_level: high}}", {"thinking_level": "high"}, 24_636),
        ("gemini-2.0-flash", "", None, 60),
        ("gemini-2.5-flash", ", bigquery: {thinking_config: {thinking_budget: 512}}", {"thinking_budget": 512}, 572),
        ("gemini-2.5-flash", ", bigquery: {thinking_config: null}", None, 60),
    ],
)
def test_gemini_thinks_beside_the_limit_of_an_answer(
    model: str, params: str, thinking: dict[str, Any] | None, most: int
) -> None:
    config = body_of(script("bigquery", f"params: {{max_tokens: 60{params}}}\n", model))["generation_config"]
    assert (config.get("thinking_config"), config["max_output_tokens"]) == (thinking, most)


SAFETY = "safety_settings: [{category: HARM_CATEGORY_HARASSMENT, threshold: BLOCK_NONE}]"


@pytest.mark.zetasql
@pytest.mark.parametrize(
    ("options", "model", "wanted"),
    [
        (f"{{request_type: SHARED, {SAFETY}}}", "ds.m", r"AS model_params,\s+'SHARED' AS request_type"),
        (f"{{request_type: DEDICATED, {SAFETY}}}", "gemini-2.5-flash", r"request_type => 'DEDICATED'"),
        (
            f"{{schema: false, request_type: SHARED, {SAFETY}}}",
            "ds.m",
            r"\[\s*STRUCT\(\s*'HARM_CATEGORY_HARASSMENT' AS category,\s*'BLOCK_NONE' AS threshold\s*\)\s*\]"
            r" AS safety_settings"
            r",\s+'SHARED' AS request_type",
        ),
    ],
)
def test_the_request_type_and_the_safety_settings_stand_in_their_place(options: str, model: str, wanted: str) -> None:
    from tests.standins.googlesql import googlesql

    sql = script("bigquery", f"params: {{temperature: 0, bigquery: {options}}}\n", model)
    googlesql().script(sql, {"source": {"id": "STRING", "body": "STRING"}}, ["ds.m"])
    assert re.search(wanted, sql), sql
    if "schema: false" not in options:
        assert list(body_of(sql)) == ["generation_config", "safety_settings"]


@pytest.mark.parametrize(
    ("model", "function"),
    [
        ("gemini-2.5-flash", "AI.GENERATE("),
        ("https://aiplatform.googleapis.com/v1/projects/p/models/x", "AI.GENERATE("),
        ("ds.gemini", "FROM AI.GENERATE_TEXT("),
        ("my-project.ds.gemini-flash", "FROM AI.GENERATE_TEXT("),
        ("`my-model`", "FROM AI.GENERATE_TEXT("),
    ],
)
def test_the_models_name_decides_the_function(model: str, function: str) -> None:
    assert script("bigquery", model=model).count(function) == 1


@pytest.mark.parametrize(
    ("model", "options", "problem"),
    [
        ("ds.`gemini", "", 'the model "ds.`gemini" for AI.GENERATE_TEXT'),
        ("ds.gemini'", "", 'the model "ds.gemini\'" for AI.GENERATE_TEXT'),
        ("claude-sonnet-4-6", "", "make one by CREATE MODEL"),
        ("gemini-2.5-flash", "function: AI.GENERATE_TEXT", "and write its name: dataset.model"),
        ("a.b.c.d", "", "asks a remote model"),
        ("ds.m", "request_type: FAST", "write one of SHARED, DEDICATED, UNSPECIFIED"),
        ("ds.m", "schema: false, thinking_config: {thinking_budget: 1}", "the parameter thinking_config with schema"),
    ],
)
def test_what_names_no_remote_model_is_refused(model: str, options: str, problem: str) -> None:
    with pytest.raises(se.UnsupportedError) as caught:
        script("bigquery", f"params: {{bigquery: {{{options}}}}}\n", model)
    assert problem in str(caught.value)


# Databricks -----------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_databricks_takes_nested_parameters() -> None:
    from tests.standins.spark import AiAnswer, AiCall, register_ai_query, rows, spark_session

    calls: list[AiCall] = []

    def answer(call: AiCall) -> AiAnswer:
        calls.append(call)
        return AiAnswer("x")

    spark_session()
    register_ai_query(answer)
    thinking = "{thinking: {type: enabled, depth: {budget: 7, of: [a, b]}}, stop: [x]}"
    step = se.compile_plan(enrichment(f"params: {{databricks: {thinking}}}\n"), "databricks").step("responses")
    pending = spark_session().createDataFrame([("h", 1, "p")], "request_hash string, attempt bigint, prompt string")
    pending.createOrReplaceTempView("facts_pending")
    rows(step.sql)
    spark_session().catalog.dropTempView("facts_pending")
    (call,) = calls
    assert call.model_parameters == {
        "thinking": {"type": "enabled", "depth": {"budget": 7, "of": ["a", "b"]}},
        "stop": ["x"],
    }


@pytest.mark.parametrize("name", ["Message Text", "a,b", "a;b", "a{b", "a(b", "x=y"])
def test_names_that_delta_refuses_are_refused_before_anything_is_paid(name: str) -> None:
    with pytest.raises(se.UnsupportedError) as caught:
        script("databricks", f'keep: ["{name}"]\n')
    assert f'the name "{name}" holds' in str(caught.value)
    assert "which no column of a Delta table may; give it another name in the header" in str(caught.value)
    assert f'as in columns: {{name: {{from: "{name}"}}}}' in str(caught.value)
    assert f"`{name}` AS `n`" in script("databricks", f'keep: [n]\ncolumns: {{n: {{from: "{name}"}}}}\n')


# Heads and tables of scripts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "model", "wanted"),
    [
        (
            "snowflake",
            None,
            "GRANT USE AI FUNCTIONS ON ACCOUNT TO ROLE your_role; -- or USE AI FUNCTION AI_COMPLETE alone "
            "GRANT DATABASE ROLE SNOWFLAKE.AI_FUNCTIONS_USER TO ROLE your_role;",
        ),
        ("snowflake", None, 'GRANT APPLICATION ROLE SNOWFLAKE."CORTEX-MODEL-ROLE-LLAMA3.3-70B" TO ROLE your_role;'),
        ("databricks", None, "Needs: the model service system.ai.meta-llama-3-3-70b-instruct"),
        ("databricks", None, "GRANT USE SCHEMA ON SCHEMA system.ai TO `your_group`;"),
        (
            "databricks",
            "databricks-gpt-oss-20b",
            "ends the endpoints databricks-* with 2026: write model: system.ai.gpt",
        ),
        ("databricks", "my_endpoint", "Needs: the serving endpoint my_endpoint and CAN QUERY on it;"),
        ("bigquery", "gemini-2.5-flash", "Needs: access to the Vertex AI endpoint gemini-2.5-flash"),
    ],
)
def test_the_head_names_the_grants(engine: str, model: str | None, wanted: str) -> None:
    sql = script(engine, model=model)
    assert wanted in sql[: sql.index("\n\n")].replace("\n-- ", " ")


@pytest.mark.parametrize(
    ("engine", "wanted"),
    [
        ("snowflake", "read_by VARCHAR\n);"),
        ("snowflake", "CREATE OR REPLACE TABLE facts\nCOPY GRANTS AS"),
        ("snowflake", "CREATE OR REPLACE TABLE facts_quarantine\nCOPY GRANTS AS"),
        ("snowflake", "CREATE OR REPLACE TRANSIENT TABLE facts_checked AS"),
        ("bigquery", ")\nPARTITION BY DATE(`asked_at`) CLUSTER BY `request_hash`;"),
        ("databricks", ")\nCLUSTER BY (`request_hash`);"),
    ],
)
def test_tables_are_made_as_the_warehouse_has_them(engine: str, wanted: str) -> None:
    assert wanted in script(engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_groups_its_own_answers_alone(engine: str) -> None:
    pending = sqlglot.parse_one(
        str(se.compile_plan(enrichment(), engine).step("responses").pending_sql), read=get_engine(engine).dialect
    )
    (asked,) = (cte.this for cte in pending.find_all(exp.CTE) if cte.alias == "asked")
    assert asked.args["group"] is not None
    assert {table.name for table in asked.args["where"].find_all(exp.Table)} == {"facts_prompts"}


def test_snowflake_stores_the_time_in_utc() -> None:
    from tests.standins import snowflake

    database = snowflake.Database(
        {"source": ({"id": "VARCHAR", "body": "VARCHAR"}, [("1", "x")])}, lambda _: ("{}", None)
    )
    database.run(script("snowflake"))
    columns = list(se.compile_plan(enrichment(), "snowflake").step("responses").columns)
    (row,) = database.rows("facts_responses")
    asked_at = dict(zip(columns, row, strict=True))["asked_at"]
    assert abs(dt.datetime.now(dt.UTC).replace(tzinfo=None) - asked_at) < dt.timedelta(minutes=5)

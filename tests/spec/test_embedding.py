"""``output: {NAME: {dimensions: N}}``: what is read, what is refused, what each engine asks."""

from __future__ import annotations

from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.embedding import Embedding
from sqlenrich.core.types import parse_type
from sqlenrich.engines import ENGINES
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.schema import check_response
from sqlenrich.spec.settings import Config, ModelAlias

IN_SQL = [name for name in ENGINES if name != "duckdb"]
MODELS = {"snowflake": "voyage-multilingual-2", "databricks": "qwen3-embedding-0-6b", "bigquery": "ds.m", "spark": "m"}


def enrichment(output: Any = None, **header: Any) -> se.Enrichment:
    given = {"key": ["id"], "source": "raw.products", **header}
    return se.enrichment("products", prompt="{{ title }}", output=output or {"v": {"dimensions": 1024}}, **given)


@pytest.mark.parametrize(
    ("output", "embedding", "described"),
    [
        ({"embedding": {"dimensions": 1024}}, Embedding("embedding", 1024), None),
        ({"v": {"dimensions": 3, "description": "of the title"}}, Embedding("v", 3), "of the title"),
        ({"dimensions": "integer"}, None, None),
        ({"box(object)": {"dimensions": "string"}}, None, None),
        ({"type": "object", "properties": {"dimensions": {"type": "integer"}}}, None, None),
    ],
)
def test_what_is_an_embedding(output: Any, embedding: Embedding | None, described: str | None) -> None:
    made = enrichment(output)
    assert made.embedding == embedding
    if embedding is not None:
        assert made.output_columns == {embedding.field: parse_type({"array": "double"})}
        assert made.schema["properties"][embedding.field].get("description") == described
        assert (made.repairs, made.hint, made.model) == ((), "never", "embedding")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"v":[0.1,2,-3e-4]}', None),
        ('{"v":[0.1,2]}', "BAD_ITEMS"),
        ('{"v":[0.1,2,3,4]}', "BAD_ITEMS"),
        ('{"v":[0.1,2,null]}', "WRONG_TYPE"),
        ('{"v":"PLA/"}', "WRONG_TYPE"),
        ('{"w":[0.1,2,3]}', "MISSING_FIELD"),
        ('{"v":[0.1,2,3],"w":1}', "EXTRA_FIELD"),
        ('{"v":[0.1,2,NaN]}', "BAD_JSON"),
    ],
)
def test_an_answer_is_judged_by_its_length(text: str, code: str | None) -> None:
    assert check_response(dict(enrichment({"v": {"dimensions": 3}}).schema), text) == code


@pytest.mark.parametrize(
    ("header", "problems"),
    [
        ({"output": {"v": {"dimensions": 0}}}, ["dimensions must be a whole number from 1 to 65,536, not 0"]),
        ({"output": {"v": {"dimensions": "8"}}}, ["dimensions must be a whole number from 1 to 65,536, not '8'"]),
        ({"output": {"v": {"dimensions": True}}}, ["dimensions must be a whole number from 1 to 65,536, not True"]),
        ({"output": {"v": {"dimensions": 8, "dimension": 8}}}, ['an embedding has no "dimension" (dimensions?)']),
        ({"output": {"v": {"dimensions": 8, "description": 1}}}, ["description must be a text, not 1"]),
        ({"output": {"v": {"dimensions": 8}, "label": "string"}}, ["an embedding is the only field of its output"]),
        ({"hint": "always"}, ["leave out hint: a model of embeddings writes no JSON @ hint"]),
        ({"repairs": ["trim"]}, ["leave out repairs: a vector needs no repair @ repairs"]),
        ({"system": "Hi"}, ["leave out system: a model of embeddings is told nothing but the text @ system"]),
        ({"messages": []}, ["leave out messages: a model of embeddings is told nothing but the text"]),
        ({"retry": {"feedback": True}}, ["leave out feedback: its text would be embedded as well @ retry.feedback"]),
        ({"retry": {"escalate": "m"}}, ["leave out escalate: the vectors of two models can't be compared"]),
        ({"review": {}}, ["leave out review: a vector is neither right nor wrong @ review"]),
        (
            {"params": {"temperature": 0, "max_tokens": 9}},
            ["leave out temperature: a model of embeddings has no such parameter", "leave out max_tokens: a model of"],
        ),
        ({"embed": True}, ['"embed" is no key of the header: write output: {embedding: {dimensions: 1024}}']),
    ],
)
def test_what_is_refused_in_one_line_each(header: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(se.SpecError) as caught:
        enrichment(**header)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(problems)
    for line, problem in zip(lines, problems, strict=True):
        assert problem in line


def test_a_refused_key_hides_no_other_problem() -> None:
    header = "key: [id]\nhint: auto\ncolumns: {boddy: string}\noutput: {e: {dimensions: 4}}"
    with pytest.raises(se.SpecError) as refused:
        se.loads(f"---\n{header}\n---\n{{{{ body }}}}\n")
    assert "leave out hint" in str(refused.value)
    assert 'the column "boddy" (body?) is not used' in str(refused.value)


def test_the_length_and_the_model_are_part_of_the_hash_on_every_engine() -> None:
    def constants(model: str, dimensions: int) -> set[str]:
        made = enrichment({"v": {"dimensions": dimensions}})
        return {compile_plan(made, engine, model=ResolvedModel(model)).constant for engine in (*ENGINES,)}

    found = [constants("ds.m", 8), constants("ds.m", 16), constants("ds.n", 8)]
    assert [len(one) for one in found] == [1, 1, 1]
    assert len(set.union(*found)) == 3


def test_a_described_field_changes_the_hash_but_a_vector_is_no_array_of_numbers() -> None:
    vector = compile_plan(enrichment({"v": {"dimensions": 8}}), "duckdb", model=ResolvedModel("m")).constant
    array = {"type": "object", "properties": {"v": {"type": "array", "items": {"type": "number"}}}, "required": ["v"]}
    written = compile_plan(enrichment(array, hint="never"), "duckdb", model=ResolvedModel("m")).constant
    assert vector != written


CALLS = {
    "snowflake": "CAST(AI_EMBED('voyage-multilingual-2', prompt) AS ARRAY)",
    "databricks": "ai_query('qwen3-embedding-0-6b', prompt, returnType => 'ARRAY<FLOAT>', failOnError => FALSE)",
    "bigquery": "STRUCT(1024 AS output_dimensionality)",
    "spark": "'m', prompt, returnType => 'ARRAY<FLOAT>', modelParameters => named_struct('dimensions', 1024)",
}


@pytest.mark.parametrize("engine", IN_SQL)
def test_each_engine_asks_its_own_function(engine: str) -> None:
    plan = compile_plan(enrichment(model=MODELS[engine]), engine)
    asked = " ".join(str(plan.step("responses").sql).split()).replace("( ", "(").replace(" )", ")")
    assert CALLS[engine] in asked


@pytest.mark.parametrize(
    ("engine", "header", "problem"),
    [
        (
            "snowflake",
            {"output": {"v": {"dimensions": 768}}},
            "snowflake-arctic-embed-l-v2.0 gives vectors of 1,024 numbers, not of 768; write dimensions: 1024",
        ),
        (
            "databricks",
            {"output": {"v": {"dimensions": 768}}},
            "databricks: databricks-gte-large-en gives vectors of 1,024 numbers, not of 768; write dimensions: 1024",
        ),
        ("snowflake", {"params": {"snowflake": {"x": 1}}}, "snowflake: the parameter x of AI_EMBED, which has none"),
        (
            "bigquery",
            {"params": {"bigquery": {"title": "x"}}},
            "bigquery: the parameter title of AI.GENERATE_EMBEDDING; it takes task_type",
        ),
        ("bigquery", {"model": "gemini-embedding-001"}, "write its name: dataset.model"),
    ],
)
def test_what_a_warehouse_refuses_before_anything_is_paid(engine: str, header: dict[str, Any], problem: str) -> None:
    with pytest.raises(se.UnsupportedError) as caught:
        compile_plan(enrichment(**header), engine)
    assert problem in str(caught.value)


def test_parameters_of_a_vendor_are_sent() -> None:
    made = enrichment(params={"bigquery": {"task_type": "RETRIEVAL_DOCUMENT"}})
    sql = compile_plan(made, "bigquery").step("responses").sql
    assert "STRUCT(1024 AS output_dimensionality, 'RETRIEVAL_DOCUMENT' AS task_type)" in sql


@pytest.mark.parametrize(
    ("models", "name"),
    [
        ({}, "sqlenrich.embedding"),
        ({"default": "ds.chat"}, "sqlenrich.embedding"),
        ({"default": "ds.chat", "embedding": "ds.vectors"}, "ds.vectors"),
    ],
)
def test_without_a_model_the_alias_embedding_counts(models: dict[str, str], name: str) -> None:
    config = Config(models={alias: {"bigquery": ModelAlias(model)} for alias, model in models.items()})
    assert f"model {name};" in se.render(enrichment(), "bigquery", config=config).splitlines()[0]

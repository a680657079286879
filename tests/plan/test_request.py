"""The identity of a request: what changes its hash, and what does not."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.json import canonical_json, compact_json
from sqlenrich.engines import get_engine
from sqlenrich.plan.model import resolve_model
from sqlenrich.plan.request import ResolvedModel, request_constant, request_hash
from sqlenrich.schema import normalise
from sqlenrich.schema.json_schema import HINT, hint_text, json_schema, shape
from sqlenrich.spec.loader import loads

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["bug", "praise"], "description": "What it is"},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 9, "pattern": "^a"}, "maxItems": 3},
    },
    "required": ["label"],
}
MODEL = ResolvedModel("m", {"temperature": 0, "max_tokens": 9})


def constant(
    schema: dict[str, Any] = SCHEMA, model: ResolvedModel = MODEL, hint: str | None = None, **changed: Any
) -> str:
    """The constant of a schema, with some properties changed."""
    schema = {**schema, "properties": {**schema["properties"], **changed}}
    plain, problems = normalise(schema)
    assert problems == []
    return request_constant(model, plain, hint)


def test_the_constant_never_changes() -> None:
    """A change of this text changes every hash, so every stored request would be asked again."""
    assert constant() == "128a5049b8ca8e16cfa585f31d44a80269a3cb37bbb09a391becde1b68a5cd16"
    assert (
        request_hash(constant(), "Say hello, Zoë 😀")
        == "07fe0ff03ffa96e83064ee36c0625c78dae5dc03ae37b58bbb367d70376a0bf6"
    )


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"score": {"type": "integer", "minimum": 2, "maximum": 5}}, id="range"),
        pytest.param({"score": {"type": "integer"}}, id="no range"),
        pytest.param(
            {"tags": {"type": "array", "items": {"type": "string", "maxLength": 8, "pattern": "^a"}}}, id="length"
        ),
        pytest.param(
            {"tags": {"type": "array", "items": {"type": "string", "pattern": "b$"}, "minItems": 1}}, id="pattern"
        ),
        pytest.param({"score": {"type": ["integer"], "title": "Score", "default": 1}}, id="annotations"),
    ],
)
def test_a_check_changes_nothing(changed: dict[str, Any]) -> None:
    assert constant(**changed) == constant()


def test_a_closed_object_changes_nothing() -> None:
    assert constant({**SCHEMA, "additionalProperties": False}) == constant()


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"score": {"type": "number", "minimum": 1, "maximum": 5}}, id="type"),
        pytest.param({"score": {"type": ["integer", "null"]}}, id="null"),
        pytest.param({"label": {"type": "string", "enum": ["bug"], "description": "What it is"}}, id="enum"),
        pytest.param(
            {"label": {"type": "string", "enum": ["bug", "praise"], "description": "Other"}}, id="description"
        ),
        pytest.param({"label": {"type": "string", "enum": ["bug", "praise"]}}, id="no description"),
        pytest.param({"tags": {"type": "array", "items": {"type": "integer"}}}, id="items"),
        pytest.param({"more": {"type": "string"}}, id="property"),
    ],
)
def test_the_shape_changes_it(changed: dict[str, Any]) -> None:
    assert constant(**changed) != constant()


def test_required_the_model_its_parameters_and_the_hint_change_it() -> None:
    others = [
        constant({**SCHEMA, "required": ["label", "score"]}),
        constant({**SCHEMA, "description": "An answer"}),
        constant(model=ResolvedModel("n", MODEL.params)),
        constant(model=ResolvedModel("m", {"temperature": 0})),
        constant(model=ResolvedModel("m", {"temperature": 1, "max_tokens": 9})),
        constant(hint="Answer in JSON"),
    ]
    assert len({constant(), *others}) == 7


def test_the_order_of_properties_and_parameters_changes_nothing() -> None:
    turned = {**SCHEMA, "properties": dict(reversed(SCHEMA["properties"].items()))}
    assert constant(turned, ResolvedModel("m", {"max_tokens": 9, "temperature": 0})) == constant()


@pytest.mark.parametrize(
    ("engine", "names", "equal"),
    [
        ("databricks", ("databricks-gpt-oss-20b", "system.ai.gpt-oss-20b"), True),
        ("databricks", ("my-endpoint", "system.ai.my-endpoint"), False),
        ("spark", ("databricks-gpt-oss-20b", "system.ai.gpt-oss-20b"), False),
    ],
)
def test_names_of_one_model_give_one_hash(engine: str, names: tuple[str, str], equal: bool) -> None:
    asked = se.enrichment("x", prompt="{{ body }}", output={"n": "integer"})
    first, second = (
        se.compile_plan(asked, engine, {"source": "s"}, model=resolve_model(asked, get_engine(engine), name)).constant
        for name in names
    )
    assert (first == second) is equal


def test_the_hash_of_a_prompt() -> None:
    assert request_hash("c", "é") == hashlib.sha256("cé".encode()).hexdigest()
    assert request_hash("c", "") == hashlib.sha256(b"c").hexdigest()
    assert request_hash("c", None) is None


@pytest.mark.parametrize(
    ("value", "canonical", "compact"),
    [
        ({"b": 1, "a": [True, None, 0.5]}, '{"a":[true,null,0.5],"b":1}', '{"b":1,"a":[true,null,0.5]}'),
        ({"é": 'ü\n"😀/'}, '{"é":"ü\\n\\"😀/"}', '{"é":"ü\\n\\"😀/"}'),
        ([], "[]", "[]"),
    ],
)
def test_json(value: object, canonical: str, compact: str) -> None:
    assert (canonical_json(value), compact_json(value)) == (canonical, compact)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_has_no_such_numbers(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(value)


def test_shape() -> None:
    plain, _ = normalise(SCHEMA)
    assert shape(plain) == {
        "type": ["object"],
        "properties": {
            "label": {"type": ["string"], "enum": ["bug", "praise"], "description": "What it is"},
            "score": {"type": ["integer"]},
            "tags": {"type": ["array"], "items": {"type": ["string"]}},
        },
        "required": ["label"],
    }


def test_a_plain_schema_is_written_as_usual() -> None:
    plain, _ = normalise(SCHEMA)
    assert json_schema(plain) == SCHEMA
    nullable, _ = normalise({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": []})
    assert json_schema(nullable) == {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
    combined = {"type": ["object"], "properties": {"a": {"anyOf": [{"type": ["string"], "coerce": True}, {"not": {}}]}}}
    assert json_schema(combined) == {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, False]}}}


def test_hint_text() -> None:
    plain, _ = normalise({"type": "object", "properties": {"a": {"type": "string"}}})
    assert hint_text(plain) == HINT + '{"properties":{"a":{"type":"string"}},"type":"object"}'


def test_parameters_of_the_endpoint_reach_a_client_run() -> None:
    header = "---\nparams: {temperature: 0, max_tokens: 9, endpoint: {min_p: 0.1}}\noutput:\n  type: object\n"
    text = header + "  properties: {a: {type: string}}\n---\n{{ b }}"
    resolved = resolve_model(loads(text, name="x"), get_engine("duckdb"), "gpt-5-mini")
    assert resolved.params == {"max_completion_tokens": 9, "min_p": 0.1}

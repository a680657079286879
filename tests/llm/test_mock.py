"""The mock model: answers that are valid under every schema, repeatable, and failures at the rates that are set."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.mock.model import FAILURES, MockModel
from sqlenrich.schema import build_checks, evaluate_checks, normalise
from sqlenrich.schema.json_schema import json_schema
from tests.support.plain_schemas import DOCUMENTS, ROOTS

PROMPT = "Classify the customer message.\n\nMessage: my card has not arrived yet, what should I do?"


def props(**properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def mock(schema: dict[str, Any], **options: Any) -> MockModel:
    """Return the model of a schema as written, from its plain form."""
    plain, problems = normalise(schema, columns=False)
    assert not problems
    return MockModel(plain, **options)


def answer(model: MockModel, prompt: str = PROMPT, attempt: int = 1) -> Answer:
    return asyncio.run(model.ask(Request("h", attempt, prompt)))


STRING = {"type": "string"}
VALUES: dict[str, object] = {
    "any": {},
    "true": True,
    "string": STRING,
    "min_length": {"type": "string", "minLength": 300},
    "max_length": {"type": "string", "maxLength": 3},
    "empty_text": {"type": "string", "maxLength": 0},
    "exact_length": {"type": "string", "minLength": 7, "maxLength": 7},
    "untyped_length": {"minLength": 2, "maxLength": 4},
    "integer": {"type": "integer"},
    "integer_range": {"type": "integer", "minimum": -3, "maximum": 3},
    "integer_open": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2},
    "integer_fractions": {"type": "integer", "minimum": 1.5, "maximum": 3.5},
    "integer_wide": {"type": "integer", "minimum": 2**70, "maximum": 2**71},
    "integer_step": {"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 30},
    "integer_part_step": {"type": "integer", "multipleOf": 1.5, "minimum": 1, "maximum": 10},
    "integer_max": {"type": "integer", "maximum": -5},
    "number": {"type": "number"},
    "number_range": {"type": "number", "minimum": 0, "maximum": 1},
    "number_point": {"type": "number", "minimum": 0.1, "maximum": 0.1},
    "number_narrow": {"type": "number", "exclusiveMinimum": 0.001, "exclusiveMaximum": 0.002},
    "number_cents": {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 3},
    "number_tenths": {"type": "number", "multipleOf": 0.1, "minimum": 0.1, "exclusiveMaximum": 1000},
    "number_min": {"type": "number", "minimum": 1e6},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "types": {"type": ["integer", "string", "null"], "minimum": 3, "minLength": 2},
    "enum": {"enum": ["a", 1, None, True, {"x": []}]},
    "enum_typed": {"type": "string", "enum": ["a", "b", 3]},
    "enum_nullable": {"type": ["string", "null"], "enum": ["a", None]},
    "const": {"const": "fixed"},
    "digits": {"type": "string", "pattern": r"^\d{3}-\d{4}$"},
    "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2,4}(-[a-z]+)?$"},
    "alternatives": {"type": "string", "pattern": r"^(yes|no|may ?be)$"},
    "unanchored": {"type": "string", "pattern": "[aeiou]", "minLength": 10, "maxLength": 12},
    "negated": {"type": "string", "pattern": r"^[^\s,]+$", "minLength": 4},
    "date": {"type": "string", "format": "date"},
    "date_time": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"},
    "email": {"type": "string", "format": "email"},
    "uuid": {"type": "string", "format": "uuid"},
    "uri": {"type": "string", "format": "uri"},
    "date_pattern": {"type": "string", "format": "date", "pattern": "-01-"},
    "email_short": {"type": "string", "format": "email", "maxLength": 17},
    "array": {"type": "array"},
    "array_items": {"type": "array", "items": STRING, "minItems": 2, "maxItems": 5},
    "array_empty": {"type": "array", "items": STRING, "maxItems": 0},
    "array_unique": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "maxItems": 9},
    "array_unique_all": {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3},
    "array_prefix": {
        "type": "array",
        "prefixItems": [STRING, {"type": "integer"}],
        "items": False,
        "minItems": 1,
    },
    "array_prefix_rest": {"type": "array", "prefixItems": [STRING], "items": {"type": "null"}, "minItems": 3},
    "array_contains": {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 900}},
    "array_of_objects": {"type": "array", "items": props(a=STRING), "minItems": 1},
    "object_open": {"type": "object", "required": ["z"], "properties": {"a": STRING}},
    "object_typed_rest": {"type": "object", "required": ["z"], "additionalProperties": {"type": "integer"}},
    "object_counts": {"type": "object", "minProperties": 3, "properties": {"a": STRING}},
    "object_most": {
        "type": "object",
        "maxProperties": 1,
        "properties": {"a": STRING, "b": STRING, "c": STRING},
    },
    "object_dependent": {
        "type": "object",
        "properties": {"a": STRING, "b": STRING, "c": STRING},
        "dependentRequired": {"a": ["b"], "b": ["c"]},
    },
    "never_there": {"type": "object", "properties": {"a": False, "b": STRING}, "required": ["b"]},
    "ref": {"$ref": "#/$defs/color"},
    "ref_deep": {"$ref": "#/$defs/palette/properties/main"},
    "ref_twice": {"type": "array", "items": {"$ref": "#/$defs/palette"}, "minItems": 2},
    "ref_escaped": {"$ref": "#/$defs/a~1b~0c"},
    "ref_sibling": {"$ref": "#/$defs/text", "maxLength": 5},
    "any_of": {"anyOf": [STRING, {"type": "integer"}]},
    "any_of_null": {"anyOf": [{"$ref": "#/$defs/color"}, {"type": "null"}]},
    "any_of_impossible": {"anyOf": [{"type": "string", "minLength": 5, "pattern": "^a$"}, {"const": 3}]},
    "one_of": {"oneOf": [props(kind={"const": "a"}, x=STRING), props(kind={"const": "b"}, y={"type": "null"})]},
    "all_of": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "number", "minimum": 3}}, "required": ["a"]},
            {
                "type": "object",
                "properties": {"a": {"type": "integer", "maximum": 5}, "b": STRING},
                "required": ["b"],
            },
        ]
    },
    "all_of_any": {
        "type": "integer",
        "allOf": [{"anyOf": [{"maximum": 0}, {"minimum": 9}]}, {"minimum": -2}],
    },
    "all_of_patterns": {"type": "string", "allOf": [{"pattern": "^[a-z]{6}$"}, {"pattern": "[aeiou]"}]},
    "all_of_enums": {"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 4]}]},
    "all_of_steps": {"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "minimum": 1},
    "all_of_items": {
        "type": "array",
        "minItems": 1,
        "allOf": [{"items": {"minimum": 2}}, {"items": {"maximum": 2}}],
    },
}
DEFS = {
    "color": {"type": "string", "enum": ["red", "blue"]},
    "palette": props(main={"$ref": "#/$defs/color"}, other={"$ref": "#/$defs/color"}),
    "a/b~c": {"const": "escaped"},
    "text": {"type": "string", "minLength": 4},
}


KIND = {"enum": ["card", "loan"]}
WITH_VALIDATOR: dict[str, object] = {
    "not_enum": {"type": "string", "enum": ["a", "b", "c"], "not": {"enum": ["b"]}},
    "not_type": {"not": {"type": ["string", "integer", "null"]}},
    "not_required": {"type": "object", "properties": {"a": STRING, "b": STRING}, "not": {"required": ["a", "b"]}},
    "enum_limited": {"enum": [1, 5, 9, "x"], "type": "integer", "minimum": 4},
    "enum_of_objects": {"enum": [{"a": 1}, [1, 2], {"b": 2}], "type": "object", "required": ["b"]},
    "one_of_overlapping": {"oneOf": [{"type": "number", "minimum": 3}, {"type": "integer", "minimum": 0}]},
    "if_then_else": {
        "type": "object",
        "properties": {"kind": KIND, "amount": {"type": "integer", "minimum": 0}, "limit": {"type": "integer"}},
        "required": ["kind"],
        "additionalProperties": False,
        "if": {"properties": {"kind": {"enum": ["loan"]}}},
        "then": {"required": ["amount"], "properties": {"amount": {"minimum": 1000}}},
        "else": {"required": ["limit"], "properties": {"amount": False}},
    },
    "dependent_schemas": {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        "dependentSchemas": {"a": {"required": ["b"], "properties": {"b": {"minLength": 30}}}},
    },
    "dependent_elsewhere": {"type": "object", "required": ["a"], "dependentRequired": {"a": ["z"]}},
    "dependent_and_most": {
        "type": "object",
        "properties": {"a": STRING, "b": STRING, "c": STRING},
        "dependentRequired": {"a": ["b"]},
        "minProperties": 1,
        "maxProperties": 2,
    },
    "contains_twice": {
        "type": "array",
        "prefixItems": [STRING],
        "items": {"type": "integer", "minimum": 0, "maximum": 30},
        "contains": {"type": "integer", "minimum": 9},
        "minContains": 2,
        "maxContains": 3,
    },
    "contains_never": {
        "type": "array",
        "items": KIND,
        "contains": {"enum": ["loan"]},
        "minContains": 0,
        "maxContains": 0,
        "minItems": 1,
    },
    "contains_in_prefix": {"type": "array", "prefixItems": [STRING, {}], "items": False, "contains": {"type": "null"}},
    "contains_both": {
        "type": "array",
        "allOf": [{"contains": {"enum": ["a"]}}, {"contains": {"enum": ["b"]}}],
        "items": {"enum": ["a", "b", "c"]},
    },
    "unique_objects": {
        "type": "array",
        "items": props(a={"enum": [1, 2]}, b={"type": "boolean"}),
        "uniqueItems": True,
        "minItems": 3,
        "maxItems": 4,
    },
    "pattern_properties": {
        "type": "object",
        "properties": {"x_a": {"minimum": 5}},
        "required": ["x_a", "x_b"],
        "patternProperties": {"^x_": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 4,
    },
    "property_names": {"type": "object", "propertyNames": {"pattern": "^[a-c]{2}$"}, "minProperties": 3},
    "property_names_known": {
        "type": "object",
        "properties": {"ab": STRING, "abc": STRING},
        "propertyNames": {"maxLength": 2},
        "minProperties": 1,
    },
    "all_of_prefix": {"allOf": [{"prefixItems": [{"minimum": 3}]}, {"items": {"type": "integer"}}], "type": "array"},
    "untyped_but_impossible": {"minLength": 3, "pattern": "^a$"},
    "nested": {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [{"type": "string", "not": {"pattern": "a"}}, {"type": "integer", "not": {"minimum": 5}}]},
    },
}


def validator(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """The test of a schema by another validator."""
    draft = jsonschema.Draft202012Validator
    checker: Callable[[Any], bool] = draft(schema, format_checker=draft.FORMAT_CHECKER).is_valid
    return checker


@pytest.mark.parametrize("name", [*WITH_VALIDATOR, *VALUES])
def test_answers_that_need_a_validator_are_valid(name: str) -> None:
    schema = props(value=(WITH_VALIDATOR | VALUES)[name]) | {"$defs": DEFS}
    model = mock(schema, validator=validator)
    made = [json.loads(model.text(f"{PROMPT} {number}")) for number in range(60)]
    assert all(map(validator(schema), made))


@pytest.mark.parametrize("column", ["decimal(12,2)", "decimal(5,1)", "decimal(2,2)", "decimal(4,0)", "decimal(15,9)"])
@pytest.mark.parametrize(
    "kind",
    [
        {"type": "number"},
        {"type": "string"},
        {"type": ["string", "null"]},
        {"type": "number", "minimum": 0.25},
        {"type": "number", "maximum": 0, "multipleOf": 0.5},
    ],
)
def test_decimals_fit_their_column(column: str, kind: dict[str, Any]) -> None:
    plain, problems = normalise(props(value={**kind, "column": column}))
    assert not problems
    model, checks = MockModel(plain), build_checks(plain)
    assert [evaluate_checks(checks, model.text(f"{PROMPT} {number}")) for number in range(40)] == [None] * 40


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(ROOTS, st.lists(DOCUMENTS, min_size=3, max_size=6))
def test_answers_are_valid_under_every_keyword(schema: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    valid = validator(json_schema(schema))
    try:
        model = MockModel(schema, validator=lambda part: validator(json_schema(part)))
    except ValueError:
        assert not any(map(valid, documents))
        return
    assert all(valid(json.loads(model.text(f"prompt {number}"))) for number in range(5))


@pytest.mark.parametrize("name", VALUES)
def test_answers_are_valid(name: str) -> None:
    schema = props(value=VALUES[name]) | {"$defs": DEFS}
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    model = mock(schema)
    for number in range(120):
        made = answer(model, f"{PROMPT} {number}")
        assert made.response is not None
        checker.validate(json.loads(made.response))
        assert (made.call_error, made.finish_reason, made.model) == (None, "stop", "mock")


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("string", 20),
        ("integer", 40),
        ("integer_range", 7),
        ("number_range", 40),
        ("enum", 5),
        ("types", 20),
        ("code", 20),
        ("date", 60),
        ("uuid", 100),
        ("array_unique", 4),
        ("any_of_null", 3),
        ("object_most", 4),
    ],
)
def test_answers_vary(name: str, least: int) -> None:
    model = mock(props(value=VALUES[name]) | {"$defs": DEFS})
    assert len({answer(model, f"{PROMPT} {number}").response for number in range(120)}) >= least


def test_optional_properties_are_there_about_half_of_the_time() -> None:
    model = mock({"type": "object", "properties": {"a": STRING, "b": STRING}, "required": ["a"]})
    there = sum("b" in json.loads(model.text(f"p{number}")) for number in range(400))
    assert 150 < there < 250


def test_free_text_comes_from_the_end_of_the_prompt() -> None:
    text = json.loads(mock(props(summary=STRING)).text("noise " * 500 + "alpha beta gamma delta " * 20))["summary"]
    assert set(text.split()) <= {"alpha", "beta", "gamma", "delta"}
    assert text


@pytest.mark.parametrize("prompt", ["", " \n", "\x00", "😀" * 300, "\ud800 lone", "x" * 100_000])
def test_any_prompt_is_answered(prompt: str) -> None:
    schema = props(value={"type": "string", "minLength": 1, "maxLength": 20})
    made = answer(mock(schema), prompt)
    assert made.response is not None
    made.response.encode()
    if "\ud800" not in prompt:
        jsonschema.validate(json.loads(made.response), schema)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": ["integer"], "minimum": 3, "maximum": 2}, "no number with minimum 3, maximum 2"),
        ({"type": ["integer"], "minimum": 1, "maximum": 6, "multipleOf": 7}, "no number"),
        ({"type": ["number"], "exclusiveMinimum": 1, "maximum": 1}, "no number"),
        ({"type": ["string"], "minLength": 3, "maxLength": 2}, "no text with minLength 3"),
        ({"type": ["string"], "pattern": "^a$", "minLength": 2}, "no text for minLength 2 pattern"),
        ({"type": ["string"], "pattern": r"^[\d-x]$"}, "can't read the pattern"),
        ({"type": ["array"], "minItems": 2, "maxItems": 1}, "no array"),
        ({"enum": []}, "no value"),
        ({"not": {}}, 'may not write the required "v"'),
        ({"allOf": [{"type": ["string"]}, {"type": ["null"]}]}, "no value"),
        ({"type": ["object"], "required": ["a"], "additionalProperties": False}, 'may not write the required "a"'),
    ],
)
def test_impossible_schemas(value: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        MockModel({"type": ["object"], "properties": {"v": value}, "required": ["v"]})


@pytest.mark.parametrize(
    ("failures", "text"),
    [
        ({"bad_jsn": 0.1}, "unknown failure.*bad_json, missing_field, error, refusal, truncation"),
        ({"error": 0.6, "refusal": 0.6}, "more than 1"),
        ({"error": -0.1}, "from 0 to 1"),
        ({"error": float("nan")}, "from 0 to 1"),
    ],
)
def test_wrong_failures(failures: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        mock(SIMPLE, failures=failures)


SIMPLE = props(intent={"type": "string", "enum": ["a", "b"]}, urgency={"type": "integer", "minimum": 1, "maximum": 5})


def kind_of(made: Answer) -> str:
    """Return the kind of an answer, from the answer alone."""
    if made.call_error is not None:
        assert made.call_error.startswith("mock: HTTP 500")
        assert (made.response, made.retryable, made.finish_reason) == (None, True, None)
        return "error"
    assert made.response is not None
    assert not made.retryable
    if made.finish_reason == "refusal":
        return "refusal"
    try:
        value = json.loads(made.response.strip().removeprefix("```json").removesuffix("```"))
    except ValueError:
        return "truncation" if made.finish_reason == "length" else "bad_json"
    return "good" if jsonschema.Draft202012Validator(SIMPLE).is_valid(value) else "missing_field"


@pytest.mark.parametrize("kind", FAILURES)
def test_each_failure_is_what_it_says(kind: str) -> None:
    model = mock(SIMPLE, failures={kind: 1})
    for attempt in (1, 2):
        assert {kind_of(answer(model, f"p{number}", attempt)) for number in range(200)} == {kind}


def test_shares_add_up() -> None:
    shares = {"bad_json": 0.1, "missing_field": 0.05, "error": 0.1, "refusal": 0.02, "truncation": 0.03}
    model = mock(SIMPLE, failures=shares)
    for attempt in (1, 2):
        requests = [Request("h", attempt, f"prompt {number}") for number in range(8000)]
        counts = Counter(kind_of(made) for made in model.answers(requests))
        for kind, share in shares.items():
            assert counts[kind] == pytest.approx(8000 * share, rel=0.2), kind
    both = [answer(model, f"p{n}", 1).call_error and answer(model, f"p{n}", 2).call_error for n in range(2000)]
    assert 5 <= sum(one is not None for one in both) <= 40  # attempts draw separately: about 1 in 100


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "integer"}, STRING, {"type": "array"}])
@pytest.mark.parametrize("kind", ["missing_field", "bad_json", "truncation"])
def test_failing_without_required_properties(schema: dict[str, Any], kind: str) -> None:
    model = mock(schema, failures={kind: 1})
    for number in range(100):
        with pytest.raises(ValueError, match=r"Expecting|Unterminated|Extra|Invalid"):
            json.loads(answer(model, f"p{number}").response or "")


def test_failures_leave_good_answers_as_they_are() -> None:
    plain, failing = mock(SIMPLE), mock(SIMPLE, failures={"bad_json": 0.3})
    same = [answer(plain, f"p{n}").response == answer(failing, f"p{n}").response for n in range(300)]
    assert 170 < sum(same) < 250


def test_attempt_and_seed_change_the_answer() -> None:
    schema = props(n={"type": "integer", "minimum": 0, "maximum": 10**9})
    made = {mock(schema, seed=seed).text("p", attempt) for seed in (0, 1, 2) for attempt in (1, 2, 3)}
    assert len(made) == 9


def test_order_and_process_do_not_matter() -> None:
    schema = props(a=STRING, b={"type": "string", "pattern": "^[A-Z]{5}$"}, c={"type": "number"})
    requests = [Request(str(n), 1 + n % 2, f"prompt {n % 50}") for n in range(100)]
    model = mock(schema, failures={"bad_json": 0.2, "error": 0.2}, seed=4)
    one = {made.request_hash: (made.response, made.call_error) for made in model.answers(requests)}
    other = {made.request_hash: (made.response, made.call_error) for made in model.answers(requests[::-1])}
    assert one == other
    plain = normalise(schema, columns=False)[0]
    code = (
        "import json, sys\nfrom sqlenrich.llm.mock.model import MockModel\n"
        "from sqlenrich.llm.messages import Request\n"
        f"model = MockModel({plain!r}, failures={{'bad_json': 0.2, 'error': 0.2}}, seed=4)\n"
        "made = model.answers([Request(str(n), 1 + n % 2, f'prompt {n % 50}') for n in range(100)])\n"
        "sys.stdout.write(json.dumps({one.request_hash: [one.response, one.call_error] for one in made}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert {name: tuple(value) for name, value in json.loads(done.stdout).items()} == one


def test_counts_and_hash_of_an_answer() -> None:
    made = answer(mock(SIMPLE, latency_s=0.01), "x" * 400)
    assert (made.tokens_in, made.tokens_cached, made.calls, made.latency_ms) == (101, 0, 1, 10)
    assert made.tokens_out == len(made.response or "") // 4 + 1
    assert made.sent_hash == made.request_hash


def scalars() -> st.SearchStrategy[dict[str, Any]]:
    def ordered(low: str, high: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.tuples(values, values).map(lambda pair: {low: min(pair), high: max(pair)})

    def typed(name: str, part: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        return part.map(lambda fields: {"type": name} | fields)

    wide = st.integers(-(2**66), 2**66)
    reals = st.floats(-1e12, 1e12).map(lambda value: round(value, 4))
    plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    return st.one_of(
        typed("integer", ordered("minimum", "maximum", wide)),
        typed("integer", st.integers(1, 999).map(lambda step: {"multipleOf": step})),
        typed("number", ordered("minimum", "maximum", reals)),
        typed("string", ordered("minLength", "maxLength", st.integers(0, 60))),
        st.lists(plain | st.integers() | st.none() | st.booleans(), min_size=1).map(lambda values: {"enum": values}),
        st.sampled_from(["boolean", "null", "string", "integer", "number"]).map(lambda name: {"type": name}),
    )


def nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.dictionaries(st.text('abcé_"\\ ', min_size=1, max_size=4), inner, max_size=4)
    objects = st.tuples(names, st.booleans()).map(
        lambda pair: {
            "type": "object",
            "properties": pair[0],
            "required": sorted(pair[0])[::2],
            "additionalProperties": pair[1],
        }
    )
    arrays = st.tuples(inner, st.integers(0, 3), st.integers(0, 4)).map(
        lambda part: {"type": "array", "items": part[0], "minItems": part[1], "maxItems": part[1] + part[2]}
    )
    return objects | arrays | st.lists(inner, min_size=1, max_size=3).map(lambda many: {"anyOf": many})


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.recursive(scalars(), nested, max_leaves=8),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
)
def test_answers_are_valid_under_made_up_schemas(schema: dict[str, Any], prompt: str) -> None:
    model = mock(props(value=schema))
    checker = jsonschema.Draft202012Validator(props(value=schema))
    for attempt in range(4):
        checker.validate(json.loads(model.text(prompt, attempt)))

"""The part of a schema that each vendor takes: the largest one, and never stricter than the checks."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlenrich.core import endpoint
from sqlenrich.core.engine import OutputSpec, ResponseFormat
from sqlenrich.engines import get_engine
from sqlenrich.llm.mock.model import MockModel
from sqlenrich.schema.json_schema import json_schema
from sqlenrich.schema.keywords import walk
from sqlenrich.schema.vendor.dialects import DATABRICKS, GEMINI, OPENAI, SNOWFLAKE, XGRAMMAR, Dialect
from sqlenrich.schema.vendor.openai_strict import strict_part
from sqlenrich.schema.vendor.response_format import NAMED, dialect_of, json_schema_format
from sqlenrich.schema.vendor.subset import vendor_part
from tests.support.plain_schemas import DOCUMENTS, ROOTS

DIALECTS = (OPENAI, XGRAMMAR, DATABRICKS, SNOWFLAKE, GEMINI)
Plain = dict[str, Any]


def obj(properties: Plain, **more: Any) -> Plain:
    return {"type": ["object"], "properties": properties, **more}


def closed(properties: Plain, **more: Any) -> Plain:
    return obj(properties, required=list(properties), additionalProperties=False, **more)


TEXT: Plain = {"type": ["string"]}
WHOLE: Plain = {"type": ["integer"]}
NULL: Plain = {"type": ["null"]}
RANGE = {"type": ["integer"], "minimum": 1, "maximum": 5}
LENGTH = {"type": ["string"], "maxLength": 9}
PAIR = {"type": ["array"], "prefixItems": [TEXT, RANGE], "items": {"not": {}}}

# A property's plain schema, the dialects, the part that they take, and what is left out.
PARTS: list[tuple[Plain, tuple[Dialect, ...], Plain, tuple[str, ...]]] = [
    (TEXT, DIALECTS, TEXT, ()),
    ({"type": ["string"], "coerce": True}, DIALECTS, TEXT, ()),
    ({"type": ["string", "null"]}, DIALECTS, {"type": ["string", "null"]}, ()),
    (RANGE, (OPENAI, XGRAMMAR, GEMINI), RANGE, ()),
    (RANGE, (DATABRICKS, SNOWFLAKE), WHOLE, ("x.minimum", "x.maximum")),
    ({"type": ["integer"], "minimum": 1.5, "exclusiveMaximum": 3.5}, (XGRAMMAR,),
     {"type": ["integer"], "minimum": 2, "exclusiveMaximum": 4}, ()),
    ({"anyOf": [TEXT, {"type": ["integer"], "exclusiveMinimum": 2, "exclusiveMaximum": 3}]}, (XGRAMMAR,),
     {"anyOf": [TEXT, WHOLE]}, ("x.anyOf[1].exclusiveMinimum", "x.anyOf[1].exclusiveMaximum")),
    ({"anyOf": [TEXT, {"type": ["number"], "minimum": 3, "exclusiveMaximum": 3}]}, (OPENAI,),
     {"anyOf": [TEXT, {"type": ["number"]}]}, ("x.anyOf[1].minimum", "x.anyOf[1].exclusiveMaximum")),
    ({"anyOf": [TEXT, {"type": ["array"], "minItems": 3, "maxItems": 2}]}, (XGRAMMAR,),
     {"anyOf": [TEXT, {"type": ["array"]}]}, ("x.anyOf[1].minItems", "x.anyOf[1].maxItems")),
    ({"type": ["object"], "minProperties": 2, "properties": {"a": TEXT}, "additionalProperties": False}, (XGRAMMAR,),
     {"type": ["object"], "properties": {"a": TEXT}, "additionalProperties": False}, ("x.minProperties",)),
    ({**PAIR, "maxItems": 1}, (XGRAMMAR,), {**PAIR, "prefixItems": [TEXT], "maxItems": 1}, ()),
    ({"type": ["integer"], "maximum": 10**30}, (XGRAMMAR, OPENAI), WHOLE, ("x.maximum",)),
    ({"type": ["number"], "multipleOf": 0.5}, (OPENAI,), {"type": ["number"], "multipleOf": 0.5}, ()),
    ({"type": ["number"], "multipleOf": 0.5}, (XGRAMMAR, GEMINI), {"type": ["number"]}, ("x.multipleOf",)),
    (LENGTH, (XGRAMMAR,), LENGTH, ()),
    (LENGTH, (OPENAI, DATABRICKS, SNOWFLAKE, GEMINI), TEXT, ("x.maxLength",)),
    ({**TEXT, "pattern": "^a$"}, (OPENAI, XGRAMMAR), {**TEXT, "pattern": "^a$"}, ()),
    ({**TEXT, "pattern": "^a$"}, (DATABRICKS, SNOWFLAKE, GEMINI), TEXT, ("x.pattern",)),
    ({**LENGTH, "pattern": "^a*$"}, (XGRAMMAR,), {**TEXT, "pattern": "^a*$"}, ("x.maxLength",)),
    ({**LENGTH, "pattern": "a"}, (XGRAMMAR,), LENGTH, ("x.pattern",)),
    ({**TEXT, "format": "date"}, (OPENAI, XGRAMMAR), {**TEXT, "format": "date"}, ()),
    ({**TEXT, "format": "date-time"}, (OPENAI, XGRAMMAR, GEMINI), {**TEXT, "format": "date-time"}, ()),
    ({**TEXT, "format": "date"}, (GEMINI,), TEXT, ("x.format",)),
    ({**TEXT, "format": "uri"}, (OPENAI, DATABRICKS, GEMINI), TEXT, ("x.format",)),
    ({**TEXT, "minimum": 3}, DIALECTS, TEXT, ()),
    ({**TEXT, "enum": ["a", "b"]}, DIALECTS, {**TEXT, "enum": ["a", "b"]}, ()),
    ({"enum": ["a", None]}, DIALECTS, {"type": ["string", "null"], "enum": ["a", None]}, ()),
    ({"enum": [1, 2]}, (OPENAI, XGRAMMAR, SNOWFLAKE), {**WHOLE, "enum": [1, 2]}, ()),
    ({"enum": [1, 2]}, (GEMINI,), WHOLE, ("x.enum",)),
    ({"type": ["array"], "enum": [["a"]], "items": TEXT}, (XGRAMMAR,),
     {"type": ["array"], "enum": [["a"]], "items": TEXT}, ()),
    ({"type": ["array"], "enum": [["a"]], "items": TEXT}, (OPENAI, SNOWFLAKE),
     {"type": ["array"], "items": TEXT}, ("x.enum",)),
    ({"type": ["array"], "items": LENGTH, "maxItems": 3, "uniqueItems": True}, (XGRAMMAR,),
     {"type": ["array"], "items": LENGTH, "maxItems": 3}, ("x.uniqueItems",)),
    ({"type": ["array"], "items": LENGTH, "maxItems": 3}, (SNOWFLAKE,),
     {"type": ["array"], "items": TEXT}, ("x.maxItems", "x[].maxLength")),
    ({"type": ["array"], "items": TEXT, "contains": LENGTH, "minContains": 2}, DIALECTS,
     {"type": ["array"], "items": TEXT}, ("x.contains", "x.minContains")),
    (PAIR, (XGRAMMAR,), PAIR, ()),
    (PAIR, (OPENAI, GEMINI), {"type": ["array"], "maxItems": 2, "items": {"anyOf": [TEXT, RANGE]}}, ("x.prefixItems",)),
    (PAIR, (SNOWFLAKE,), {"type": ["array"]}, ("x.prefixItems",)),
    ({**PAIR, "prefixItems": [TEXT]}, (SNOWFLAKE,), {"type": ["array"], "items": TEXT}, ("x.prefixItems",)),
    ({"type": ["array"], "prefixItems": [TEXT]}, (XGRAMMAR,),
     {"type": ["array"], "prefixItems": [TEXT], "items": {}}, ()),
    (closed({"a": RANGE}), (SNOWFLAKE,), closed({"a": WHOLE}), ("x.a.minimum", "x.a.maximum")),
    (closed({"a": TEXT}), (GEMINI,), obj({"a": TEXT}, required=["a"]), ()),
    (obj({"a": TEXT}, required=["a", "b"]), DIALECTS, obj({"a": TEXT}, required=["a"]), ("x.required.b",)),
    (obj({"a": TEXT}, additionalProperties=RANGE), (XGRAMMAR,), obj({"a": TEXT}, additionalProperties=RANGE), ()),
    (obj({"a": TEXT}, additionalProperties=RANGE), (OPENAI, DATABRICKS), obj({"a": TEXT}),
     ("x.additionalProperties",)),
    (obj({"a": TEXT}, additionalProperties=False, patternProperties={"^b": TEXT}), (XGRAMMAR, OPENAI),
     obj({"a": TEXT}), ("x.additionalProperties", "x.patternProperties")),
    (obj({"a": TEXT, "b": {"not": {}}}, additionalProperties=False), (XGRAMMAR,),
     obj({"a": TEXT}, additionalProperties=False), ()),
    (obj({"a b": TEXT}, required=["a b"]), (SNOWFLAKE,), {"type": ["object"]}, ("x.properties", "x.required")),
    ({"anyOf": [TEXT, RANGE]}, (OPENAI, XGRAMMAR, GEMINI), {"anyOf": [TEXT, RANGE]}, ()),
    ({"anyOf": [TEXT, RANGE]}, (DATABRICKS, SNOWFLAKE), {}, ("x.anyOf",)),
    ({"oneOf": [TEXT, RANGE]}, (OPENAI, XGRAMMAR, GEMINI), {"anyOf": [TEXT, RANGE]}, ("x.oneOf",)),
    ({"type": ["string"], "anyOf": [{"pattern": "^a$"}, {"enum": ["b"]}]}, (XGRAMMAR,),
     {"anyOf": [{**TEXT, "pattern": "^a$"}, {**TEXT, "enum": ["b"]}]}, ()),
    ({**TEXT, "maxLength": 3, "anyOf": [{"pattern": "^a$"}, {"pattern": "^b$"}]}, (XGRAMMAR,),
     {**TEXT, "maxLength": 3}, ("x.anyOf",)),
    ({"anyOf": [TEXT, {"minimum": 3}]}, (XGRAMMAR,), {}, ("x.anyOf",)),
    ({**TEXT, "not": {"enum": ["a"]}, "if": TEXT, "then": LENGTH, "allOf": [LENGTH]}, DIALECTS, TEXT,
     ("x.not", "x.if", "x.then", "x.allOf")),
    ({"maxLength": 3}, (XGRAMMAR, SNOWFLAKE, OPENAI), {}, ("x.maxLength",)),
    ({"type": ["string", "integer"], "maxLength": 3, "minimum": 1}, (XGRAMMAR,),
     {"type": ["string", "integer"], "maxLength": 3, "minimum": 1}, ()),
    ({"type": ["string", "integer"], "maxLength": 3, "minimum": 1}, (GEMINI,),
     {"anyOf": [TEXT, {**WHOLE, "minimum": 1}]}, ("x.anyOf[0].maxLength",)),
    ({"type": ["string", "integer"], "minimum": 1}, (DATABRICKS,), {}, ("x.type", "x.minimum")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "dialect", "told", "left_out"),
    [
        pytest.param(schema, dialect, told, left_out, id=f"{number}-{dialect.name}")
        for number, (schema, dialects, told, left_out) in enumerate(PARTS)
        for dialect in dialects
    ],
)
def test_the_part_that_a_vendor_takes(schema: Plain, dialect: Dialect, told: Plain, left_out: tuple[str, ...]) -> None:
    part, left = vendor_part(obj({"x": schema}), dialect)
    assert part is not None
    assert (part["properties"]["x"], sorted(left)) == (told, sorted(left_out))


@pytest.mark.parametrize(
    ("schema", "reasons"),
    [
        ({}, ("x: a value of any type",)),
        ({"type": ["object"]}, ("x: an object without named properties",)),
        ({"type": ["array"]}, ("x: an array without items",)),
        ({"type": ["array"], "items": {"type": ["array"]}}, ("x[]: an array without items",)),
        (NULL, ("x: only null",)),
        ({"allOf": [TEXT]}, ("x: a value of any type",)),
    ],
)
def test_gemini_takes_no_part_of_a_schema_without_types(schema: Plain, reasons: tuple[str, ...]) -> None:
    assert vendor_part(obj({"x": schema}), GEMINI) == (None, reasons)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=ROOTS, documents=st.lists(DOCUMENTS, min_size=3, max_size=8))
def test_the_part_forbids_no_valid_answer(dialect: Dialect, schema: Plain, documents: list[Plain]) -> None:
    part, left_out = vendor_part(schema, dialect)
    if part is None:
        assert left_out
        return
    checked = jsonschema.Draft202012Validator(json_schema(schema))
    told = jsonschema.Draft202012Validator(json_schema(part))
    told.check_schema(told.schema)
    for document in documents:
        valid = checked.is_valid(document)
        assert told.is_valid(document) or not valid
        if not left_out and not dialect.typed:  # such a model writes named properties only
            assert told.is_valid(document) is valid


ITEMS = {"type": ["array"], "items": closed({"b": TEXT})}
STRICTLY: list[tuple[Plain, Plain | None, Plain | None]] = [
    (closed({"a": TEXT}), closed({"a": TEXT}), closed({"a": TEXT})),
    (obj({"a": TEXT}, required=["a"]), None, None),
    (obj({"a": TEXT}, additionalProperties=False), None, closed({"a": {"type": ["string", "null"]}})),
    (closed({"a": obj({"b": TEXT}, required=["b"])}), None, None),
    (closed({"a": ITEMS}), closed({"a": ITEMS}), closed({"a": ITEMS})),
    (
        obj({"a": {**TEXT, "enum": ["x"]}, "b": NULL, "c": {"anyOf": [TEXT, WHOLE]}}, additionalProperties=False),
        None,
        closed(
            {"a": {"type": ["string", "null"], "enum": ["x", None]}, "b": NULL, "c": {"anyOf": [TEXT, WHOLE, NULL]}}
        ),
    ),
    (
        closed({"a": {"type": ["array"], "items": obj({"b": TEXT}, additionalProperties=False)}}),
        None,
        closed({"a": {"type": ["array"], "items": closed({"b": {"type": ["string", "null"]}})}}),
    ),
    (
        obj({"a": {"type": ["string", "null"]}}, additionalProperties=False),
        closed({"a": {"type": ["string", "null"]}}),
        closed({"a": {"type": ["string", "null"]}}),
    ),
    (
        closed(
            {
                "a": obj({"x": TEXT}, additionalProperties=False),
                "b": obj({"x": {"type": ["string", "null"]}}, additionalProperties=False),
            }
        ),
        None,
        None,
    ),
    (closed({"a": {"anyOf": [obj({"b": TEXT}, additionalProperties=False), TEXT]}}), None, None),
    (closed({"a": {"type": ["array"]}}), None, None),
    (closed({"a": {}}), None, None),
    (closed({"a": LENGTH}), None, None),
    (closed({"a": {**TEXT, "format": "uri"}}), None, None),
    (closed({"a": {**TEXT, "enum": [f"{n}" for n in range(1001)]}}), None, None),
    (closed({"a": {**TEXT, "enum": [f"{n:060}" for n in range(251)]}}), None, None),
    (closed({f"a{n}": TEXT for n in range(5001)}), None, None),
]


@pytest.mark.parametrize(("part", "strict", "nullable"), STRICTLY)
def test_strict_mode_takes_closed_and_wholly_required_objects(
    part: Plain, strict: Plain | None, nullable: Plain | None
) -> None:
    assert strict_part(part) == strict
    assert strict_part(part, nullable=True) == nullable


@pytest.mark.parametrize(("left_out", "strict"), [("a.maxLength", True), ("dependentRequired", False), ("a.if", False)])
def test_strict_mode_needs_checks_that_take_null_as_missing(left_out: str, strict: bool) -> None:
    part = obj({"a": {"type": ["string", "null"]}}, additionalProperties=False)
    assert (strict_part(part, left_out=(left_out,)) is not None) is strict


LEAVES = st.sampled_from(
    [TEXT, {"type": ["string", "null"]}, {**TEXT, "enum": ["x", "y"]}, {"anyOf": [TEXT, WHOLE]}, RANGE, NULL]
)


def closed_objects(inner: st.SearchStrategy[Plain]) -> st.SearchStrategy[Plain]:
    """Closed objects of some required properties, and arrays."""
    members = st.dictionaries(st.sampled_from("abc"), st.tuples(inner, st.booleans()), min_size=1, max_size=3)
    objects = members.map(
        lambda pairs: obj(
            {name: child for name, (child, _) in pairs.items()},
            required=[name for name, (_, must) in pairs.items() if must],
            additionalProperties=False,
        )
    )
    return objects | inner.map(lambda items: {"type": ["array"], "items": items})


def without_nulls(value: Any, keep: set[str]) -> Any:
    """An answer after the repair null_as_absent."""
    if isinstance(value, list):
        return [without_nulls(one, keep) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(one, keep) for name, one in value.items() if one is not None or name in keep}


@settings(max_examples=200, deadline=None)
@given(closed_objects(st.recursive(LEAVES, closed_objects, max_leaves=5)), st.booleans())
def test_answers_in_strict_mode_are_valid(part: Plain, nullable: bool) -> None:
    strict = strict_part(part, nullable=nullable)
    if strict is None:
        assert not nullable or any(name in json.dumps(part) for name in ('"null"', '"anyOf"'))
        return
    keep = {
        name
        for _, _, node in walk(part)
        for name, child in node.get("properties", {}).items()
        if jsonschema.Draft202012Validator(json_schema(child)).is_valid(None)
    }
    model = MockModel(strict)
    for number in range(5):
        answer = json.loads(model.text(f"p{number}"))
        repaired = without_nulls(answer, keep) if nullable else answer
        assert jsonschema.Draft202012Validator(json_schema(part)).is_valid(repaired)


def nested(levels: int) -> Plain:
    schema = closed({"a": TEXT})
    for _ in range(levels - 1):
        schema = closed({"a": schema})
    return schema


@pytest.mark.parametrize(("levels", "strict"), [(10, True), (11, False)])
def test_strict_mode_is_ten_objects_deep(levels: int, strict: bool) -> None:
    assert (strict_part(nested(levels)) is not None) is strict


@pytest.mark.parametrize(
    ("schema", "repairs", "form", "left_out"),
    [
        (obj({"a": LENGTH}, additionalProperties=False), ("null_as_absent",),
         {"schema": json_schema(closed({"a": {"type": ["string", "null"]}})), "strict": True}, ("a.maxLength",)),
        (closed({"a": ITEMS}), (), {"schema": json_schema(closed({"a": ITEMS})), "strict": True}, ()),
        (obj({"a": TEXT}), (), {"schema": json_schema(obj({"a": TEXT}))}, ()),
    ],
)  # fmt: skip
def test_the_response_format(schema: Plain, repairs: tuple[str, ...], form: Any, left_out: tuple[str, ...]) -> None:
    found = json_schema_format(OutputSpec("n" * 70, schema, repairs=repairs), OPENAI)
    assert found == ResponseFormat({"type": "json_schema", "json_schema": {"name": "n" * 64, **form}}, left_out)


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("https://api.openai.com/v1", OPENAI),
        ("https://eu.api.openai.com/v1", OPENAI),
        ("https://me.openai.azure.com/openai/v1", OPENAI),
        ("http://127.0.0.1:8000/v1", XGRAMMAR),
        ("https://openai.com.example.org/v1", XGRAMMAR),
        ("https://dbc-1.cloud.databricks.com/serving-endpoints", DATABRICKS),
        ("https://adb-1.2.azuredatabricks.net/serving-endpoints", DATABRICKS),
        ("https://generativelanguage.googleapis.com/v1beta/openai", GEMINI),
        ("", XGRAMMAR),
    ],
)
def test_the_dialect_of_an_endpoint(url: str, dialect: Dialect) -> None:
    assert dialect_of(url) is dialect
    assert dialect_of(url, "gemini") is GEMINI


def test_every_dialect_of_the_settings_is_known() -> None:
    assert tuple(NAMED) == endpoint.DIALECTS


def test_too_many_properties_lose_the_deepest_first() -> None:
    many = {f"p{number}": RANGE for number in range(40)}
    part, left_out = vendor_part(obj({"a": obj({"b": obj(many)}), "c": obj(many)}), DATABRICKS)
    assert part == obj({"a": obj({"b": {"type": ["object"]}}), "c": obj(dict.fromkeys(many, WHOLE))})
    assert "a.b.properties" in left_out
    assert vendor_part(obj({f"p{n}": TEXT for n in range(65)}), DATABRICKS) == (
        None,
        ("65 properties, of 64 that are taken",),
    )


def test_too_deep_a_schema_loses_its_depth() -> None:
    part, left_out = vendor_part(nested(40), XGRAMMAR)
    assert part is not None
    assert json_depth(json_schema(part)) <= 60
    assert len(left_out) == 1
    assert left_out[0].endswith(".properties")


def json_depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(json_depth, inner), default=0) if isinstance(value, dict | list) else 0


OPTIONAL = obj({"a": TEXT}, additionalProperties=False)


@pytest.mark.parametrize(
    ("engine", "output", "told"),
    [
        (
            "snowflake",
            OutputSpec("n", OPTIONAL, model="llama3.3-70b"),
            {"type": "json", "schema": json_schema(OPTIONAL)},
        ),
        ("snowflake", OutputSpec("n", OPTIONAL, model="openai-gpt-5"), None),
        (
            "snowflake",
            OutputSpec("n", OPTIONAL, repairs=("null_as_absent",), model="openai-gpt-5"),
            {"type": "json", "schema": json_schema(closed({"a": {"type": ["string", "null"]}}))},
        ),
        (
            "bigquery",
            OutputSpec(
                "n",
                closed(
                    {
                        "a": {"type": ["string", "integer", "null"], "minimum": 1},
                        "b": {**RANGE, "description": "d"},
                    }
                ),
            ),
            {
                "type": "OBJECT",
                "properties": {
                    "a": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER", "minimum": 1}], "nullable": True},
                    "b": {"type": "INTEGER", "description": "d", "minimum": 1, "maximum": 5},
                },
                "propertyOrdering": ["a", "b"],
                "required": ["a", "b"],
            },
        ),
        ("bigquery", OutputSpec("n", obj({"a": {}})), None),
        (
            "databricks",
            OutputSpec("n", closed({"a": RANGE})),
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": json_schema(closed({"a": WHOLE})), "strict": True},
            },
        ),
    ],
)  # fmt: skip
def test_the_forms(engine: str, output: OutputSpec, told: Any) -> None:
    found = get_engine(engine).response_format(output)
    assert isinstance(found, ResponseFormat)
    assert found.form == told

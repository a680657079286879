"""The short form of an output: what it expands to, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.schema.short_form import expand, is_short
from sqlenrich.spec.loader import loads

STRING = {"type": "string"}


def closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


FORMS: dict[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "scalars": (
        {"a": "string", "b": "integer", "c": "number", "d": "boolean", "e": "any"},
        closed({"a": STRING, "b": {"type": "integer"}, "c": {"type": "number"}, "d": {"type": "boolean"}, "e": {}}),
    ),
    "dates": (
        {"a": "date, The day it happened", "b?": "date-time"},
        closed(
            {
                "a": {"type": "string", "format": "date", "description": "The day it happened"},
                "b": {"type": ["string", "null"], "format": "date-time"},
            },
            ["a"],
        ),
    ),
    "description": (
        {"a": "string, One sentence, in English"},
        closed({"a": {**STRING, "description": "One sentence, in English"}}),
    ),
    "optional": ({"a?": "integer", "b?": "any"}, closed({"a": {"type": ["integer", "null"]}, "b": {}}, [])),
    "enum": (
        {"a(enum, What it is (roughly))": ["x", "y"], "b?(enum)": [1, 2], "c(enum)": ["x", 1, None]},
        closed(
            {
                "a": {**STRING, "enum": ["x", "y"], "description": "What it is (roughly)"},
                "b": {"type": ["integer", "null"], "enum": [1, 2, None]},
                "c": {"enum": ["x", 1, None]},
            },
            ["a", "c"],
        ),
    ),
    "array": (
        {"a(array)": "string", "b ( array , All of them )": "string, One of them", "c?(array)": {"d": "integer"}},
        closed(
            {
                "a": {"type": "array", "items": STRING},
                "b": {
                    "type": "array",
                    "items": {**STRING, "description": "One of them"},
                    "description": "All of them",
                },
                "c": {"type": ["array", "null"], "items": closed({"d": {"type": "integer"}})},
            },
            ["a", "b"],
        ),
    ),
    "object": (
        {"a": {"b": "string"}, "c?(object, Whom)": {"d?": "string"}},
        closed(
            {
                "a": closed({"b": STRING}),
                "c": {
                    **closed({"d": {"type": ["string", "null"]}}, []),
                    "type": ["object", "null"],
                    "description": "Whom",
                },
            },
            ["a"],
        ),
    ),
    "wildcard": (
        {"a(object)": {"b": "string", "(*)": "integer, A count"}, "(*)": "any"},
        {
            **closed(
                {
                    "a": {
                        **closed({"b": STRING}),
                        "additionalProperties": {"type": "integer", "description": "A count"},
                    }
                }
            ),
            "additionalProperties": True,
        },
    ),
    "a field of the name type": (
        {"type": "string", "urgency": "integer"},
        closed({"type": STRING, "urgency": {"type": "integer"}}),
    ),
    "a type that is an enum": ({"type(enum)": ["a"]}, closed({"type": {**STRING, "enum": ["a"]}})),
    "fields of keywords' names": (
        {"format": "string", "items": "integer", "required": "boolean"},
        closed({"format": STRING, "items": {"type": "integer"}, "required": {"type": "boolean"}}),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_short_form(name: str) -> None:
    written, schema = FORMS[name]
    expanded = expand(written)
    assert (expanded.schema, expanded.problems) == (schema, [])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "summary": "string"},
        {"type": ["object", "null"]},
        {"type": "string"},
        {"type": "array", "items": {}},
        {"properties": {"a": {}}},
        {"$ref": "#/$defs/a"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"allOf": [{}]},
        {"anyOf": [{}]},
        {"oneOf": [{}]},
        {},
        True,
        "string",
        None,
    ],
)
def test_json_schema_stays_as_it_is(schema: Any) -> None:
    assert not is_short(schema)
    assert expand(schema).schema is schema


WRONG: list[tuple[dict[Any, Any], list[tuple[str, tuple[str, ...]]]]] = [
    (
        {"a": "strng, x", "b": {"c": "int"}},
        [
            ('unknown type "strng" (string?); there are: string, integer, number, boolean, null, any, date, date-time',
             ("a",)),
            ('unknown type "int" (integer?); there are: string, integer, number, boolean, null, any, date, date-time',
             ("b", "c")),
        ],
    ),
    ({"a(enm)": ["x"]}, [('unknown kind "enm" (enum?); there are: enum, array, object', ("a(enm)",))]),
    ({"a(enum)": "x, y"}, [("an enum is a list of its values, as in [a, b], not 'x, y'", ("a(enum)",))]),
    ({"a(enum)": []}, [("an enum is a list of its values, as in [a, b], not []", ("a(enum)",))]),
    ({"a(enum)": [["x"]]}, [("an enum is a list of its values, as in [a, b], not [['x']]", ("a(enum)",))]),
    ({"a": ["x"]}, [("a list of values is an enum: write name(enum): [a, b]", ("a",))]),
    ({"a": None}, [("a type is missing: write name: string", ("a",))]),
    ({"a": 3}, [("a field is a type, as in name: string, what it is; not 3", ("a",))]),
    ({"a(object)": "string"}, [("an object is a mapping of its fields, not 'string'", ("a(object)",))]),
    ({"a(array)": ["x"]}, [("a list of values is an enum: write name(enum): [a, b]", ("a(array)",))]),
    ({"a": "string", "a?": "string"}, [('"a" is written twice', ("a?",))]),
    ({"?": "string"}, [('"?" is no field: write name, name? or name(enum, description)', ("?",))]),
    ({"a(enum": ["x"]}, [('"a(enum" is no field: write name, name? or name(enum, description)', ("a(enum",))]),
]  # fmt: skip


@pytest.mark.parametrize(("written", "problems"), WRONG)
def test_what_is_wrong_with_it(written: dict[Any, Any], problems: list[tuple[str, tuple[str, ...]]]) -> None:
    assert expand(written).problems == problems


FILE = """---
key: [id]
output:
  intent(enum, What the customer wants): [card, other]
  urgency?: integer, From 1 to 5
  products(array):
    name: string
---
{{ body }} {{ output.intent.enum | join("/") }}"""


def test_a_file_in_the_short_form() -> None:
    enrichment = loads(FILE, name="x")
    assert list(enrichment.output_columns) == ["intent", "urgency", "products"]
    assert se.render_prompt(enrichment.template, {"body": "b"}, vars={"output": enrichment.schema["properties"]}) == (
        "b card/other"
    )


def test_problems_have_the_line_where_they_are_written() -> None:
    text = (
        FILE.replace("integer, From", "intger, From").replace("name: string", "n me: string").replace("[card", "[[c]")
    )
    with pytest.raises(se.SpecError) as caught:
        loads(text, name="x")
    lines = [problem.split(" @ ")[0][:60] + " @ " + problem.split(" @ ")[1] for problem in caught.value.problems]
    assert lines == [
        "line 4: an enum is a list of its values, as in [a, b], not [ @ output.intent(enum, What the customer wants)",
        'line 5: unknown type "intger" (integer?); there are: string, @ output.urgency?',
        'line 6: the property name "n me" is no column name: letters, @ output.products(array)',
    ]

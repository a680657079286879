"""A JSON Schema as it is read, as tests, as verdicts and as vendors take it."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlenrich as se
from sqlenrich.core.engine import OutputSpec, ResponseFormat
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, JSON, STRING, TIMESTAMP, Array, Coerced, Struct, Type
from sqlenrich.schema import CODES, build_tests, judge, normalise, output_columns
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.schema.checks.repairs import kept_nulls
from sqlenrich.schema.columns import nullable_items
from sqlenrich.schema.vendor.response_format import json_schema_format
from sqlenrich.spec.loader import loads


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object's schema."""
    return {"type": "object", "properties": properties, **more}


A = "output.properties.a"
DECIMAL = {"type": "number", "column": "decimal(5,2)"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param({"type": "strng"}, f'unknown type "strng" (string?) @ {A}', id="type"),
        pytest.param({"type": 3}, f"type 3 is neither a name nor a list of names @ {A}", id="type as a number"),
        pytest.param({"type": []}, f"type [] is neither a name nor a list of names @ {A}", id="no types"),
        pytest.param(
            {"type": [{}]}, f"type [{{}}] is neither a name nor a list of names @ {A}", id="a type as a mapping"
        ),
        pytest.param(
            {"allOf": [obj({"Ab": {"type": "string"}}), obj({"aB": {"type": "string"}})], "type": "object"},
            f'"Ab" and "aB" are equal but for case; SQL columns are not @ {A}',
            id="case in parts",
        ),
        pytest.param({"type": "integer", "coerce": "no"}, f"coerce is true or false, not 'no' @ {A}", id="coerce: no"),
        pytest.param(
            {"type": "number", "column": "decimal(5,2)", "allOf": [{"type": "number", "column": "decimal(4,1)"}]},
            f"column stands twice: decimal(4,1) and decimal(5,2) @ {A}",
            id="two columns",
        ),
        pytest.param({"type": "null"}, f"a value that is always null is no column @ {A}", id="null"),
        pytest.param(
            {"properties": {"x": {}}}, f'a type is missing: write "type: object" @ {A}', id="properties without a type"
        ),
        pytest.param(
            {"items": {"type": "string"}}, f'a type is missing: write "type: array" @ {A}', id="items without a type"
        ),
        pytest.param(3, f"a schema is a mapping, not 3 @ {A}", id="no schema"),
        pytest.param(
            {"type": "string", "minLenght": 3},
            f'the keyword "minLenght" (minLength?) is not supported @ {A}',
            id="keyword",
        ),
        pytest.param(
            {"not": {"$dynamicRef": "#a"}}, f'the keyword "$dynamicRef" is not supported @ {A}.not', id="keyword inside"
        ),
        pytest.param({"type": "string", "enum": []}, f"enum is a list with at least one value @ {A}", id="empty enum"),
        pytest.param(
            {"type": "string", "enum": [[1]]},
            f"can't be met: no value of the enum is of type string @ {A}",
            id="a list",
        ),
        pytest.param(
            {"enum": [{"x": [10**400]}]}, f"enum and const hold no number beyond a double @ {A}", id="too wide in enum"
        ),
        pytest.param({"const": float("inf")}, f"enum and const hold no number beyond a double @ {A}", id="inf"),
        pytest.param({"maximum": 10**400}, f"maximum is no number that a double holds @ {A}", id="too wide a limit"),
        pytest.param({"multipleOf": float("nan")}, f"multipleOf is no number that a double holds @ {A}", id="nan"),
        pytest.param({"multipleOf": 0}, f"multipleOf is above 0, not 0 @ {A}", id="multiples of 0"),
        pytest.param(
            {"multipleOf": 1e-19},
            f"multipleOf 1e-19 has more digits than every engine can divide by @ {A}",
            id="digits",
        ),
        pytest.param(
            {"type": "string", "enum": [1]}, f"can't be met: no value of the enum is of type string @ {A}", id="unmet"
        ),
        pytest.param({"type": "integer", "minimum": "1"}, f"minimum is a number, not '1' @ {A}", id="minimum"),
        pytest.param(
            {"type": "integer", "minimum": 2, "maximum": 1},
            f"can't be met: minimum 2 is above maximum 1 @ {A}",
            id="range",
        ),
        pytest.param(
            {"type": "string", "maxLength": -1}, f"maxLength is an integer of at least 0, not -1 @ {A}", id="length"
        ),
        pytest.param(
            {"type": "string", "minLength": True}, f"minLength is an integer of at least 0, not True @ {A}", id="true"
        ),
        pytest.param(
            {"type": "string", "pattern": "(?=a)"},
            f'pattern "(?=a)": a group that starts with (? is not the same on all engines; write it without @ {A}',
            id="pattern",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "strng"}}, f'unknown type "strng" (string?) @ {A}.items', id="items"
        ),
        pytest.param({"type": "object", "properties": 3}, f"properties is a mapping of names @ {A}", id="properties"),
        pytest.param(
            obj({"x y": {"type": "string"}}),
            f'the property name "x y" is no column name: letters, digits, _ and -, at most 64 @ {A}',
            id="name",
        ),
        pytest.param(
            obj({"x": {"type": "string"}, "X": {"type": "string"}}),
            f'"x" and "X" are equal but for case; SQL columns are not @ {A}',
            id="case",
        ),
        pytest.param(
            obj({"label": {"type": "string"}}, required=["lable"]),
            f'required "lable" (label?) is not among the properties @ {A}',
            id="required",
        ),
        pytest.param(
            obj({"x": {"type": "string"}}, required="x"), f"required is a list of property names @ {A}", id="text"
        ),
        pytest.param(
            obj({"x": {"type": "string"}}, additionalProperties=3),
            f"additionalProperties is true, false or a schema, not 3 @ {A}",
            id="additionalProperties",
        ),
        pytest.param({"$ref": "#/$defs/none"}, f'"#/$defs/none" points to nothing in this schema @ {A}', id="no $ref"),
        pytest.param(
            {"$ref": "other.json"}, f'"other.json" points to nothing in this schema @ {A}', id="a file's $ref"
        ),
        pytest.param({"anyOf": []}, f"a list of at least one schema @ {A}.anyOf", id="no choice"),
        pytest.param({"allOf": {}}, f"a list of at least one schema @ {A}.allOf", id="allOf as a mapping"),
        pytest.param(
            {"oneOf": [{"type": "string"}, {"type": "strng"}]},
            f'unknown type "strng" (string?) @ {A}.oneOf.1',
            id="a choice",
        ),
        pytest.param(
            {"anyOf": [{"type": "object", "properties": {"x y": {}}}, {"type": "null"}]},
            f'the property name "x y" is no column name: letters, digits, _ and -, at most 64 @ {A}.anyOf.0',
            id="a name in X or null",
        ),
        pytest.param(
            {"patternProperties": {"(?=a)": {}}},
            f'pattern "(?=a)": a group that starts with (? is not the same on all engines; write it without'
            f" @ {A}.patternProperties",
            id="the pattern of a name",
        ),
        pytest.param({"prefixItems": 3}, f"a list of at least one schema @ {A}.prefixItems", id="prefixItems"),
        pytest.param({"uniqueItems": 1}, f"uniqueItems is true or false @ {A}", id="uniqueItems"),
        pytest.param(
            {"dependentRequired": {"x": "y"}},
            f"dependentRequired.x is a list of property names @ {A}",
            id="dependentRequired",
        ),
        pytest.param({"contains": 3}, f"a schema is a mapping, not 3 @ {A}.contains", id="contains"),
        pytest.param({"items": [{}]}, f"a schema is a mapping, not [{{}}] @ {A}.items", id="items as a list"),
        pytest.param({"if": 3}, f"a schema is a mapping, not 3 @ {A}.if", id="if"),
        pytest.param(
            {"type": "string", "format": "dat"},
            f'the format "dat" (date?) is not checked; there are: date, date-time, time, email, uuid, uri; '
            f"or write a pattern @ {A}",
            id="format",
        ),
        pytest.param({"format": 3}, f"format is a text, not 3 @ {A}", id="format as a number"),
        pytest.param({"$ref": 3}, f"$ref is a text, not 3 @ {A}", id="$ref as a number"),
        pytest.param(
            {"$ref": "#/properties/a/type/0"},
            f'"#/properties/a/type/0" points to nothing in this schema @ {A}',
            id="$ref into a text",
        ),
        pytest.param(
            {"type": "string", "coerce": True},
            f"coerce is for a number, an integer, a boolean, or a text with an enum @ {A}",
            id="coerce a text",
        ),
        pytest.param(
            {"enum": ["a", "A"], "type": "string", "coerce": True},
            f"coerce reads an enum in any case: its values are ASCII and differ by more than case @ {A}",
            id="coerce case",
        ),
        pytest.param(
            {"$ref": "#"}, f'"#" refers to itself; a column has a fixed depth @ {A}.properties.a', id="recursive"
        ),
    ],
)
def test_problems(schema: Any, problem: str) -> None:
    _, problems = normalise(obj({"a": schema}))
    assert str(problems[0]) == problem


@pytest.mark.parametrize("own", [{"type": "integer", "coerce": True}, DECIMAL])
@pytest.mark.parametrize(
    ("place", "wrap"),
    [
        pytest.param(A, lambda own: {"minimum": 0, "allOf": [{**own, "minimum": 1}]}, id="beside a limit"),
        pytest.param(f"{A}.anyOf.0", lambda own: {"anyOf": [own, {"type": "array"}]}, id="in a choice"),
        pytest.param(f"{A}.not", lambda own: {"type": "integer", "not": own}, id="in a negation"),
        pytest.param(
            f"{A}.additionalProperties", lambda own: {"type": "object", "additionalProperties": own}, id="map"
        ),
        pytest.param(f"{A}.prefixItems.0", lambda own: {"type": "array", "prefixItems": [own]}, id="tuple"),
    ],
)
def test_what_reads_a_column_is_refused_where_none_is(own: dict[str, Any], place: str, wrap: Any) -> None:
    _, problems = normalise(obj({"a": wrap(own)}))
    keyword = "coerce" if "coerce" in own else "column"
    assert [one.place for one in problems if one.message.startswith(f"{keyword} says how a column is read")] == [place]
    assert not normalise(obj({"a": wrap(own)}), columns=False)[1]


def nested(depth: int, wrap: Any) -> Any:
    """A schema around a text, and around that, ..."""
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


def doubling(levels: int) -> dict[str, Any]:
    """Each definition refers twice to the next."""
    pairs = {
        f"d{n}": obj({side: {"$ref": f"#/$defs/d{n + 1}"} for side in ("left", "right")}, required=["left"])
        for n in range(levels)
    }
    return {**obj({"a": {"$ref": "#/$defs/d0"}}), "$defs": {**pairs, f"d{levels}": {"type": "string"}}}


MUTUAL = {f"d{n}": obj({f"p{m}": {"$ref": f"#/$defs/d{m}"} for m in range(10)}) for n in range(10)}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param(doubling(8), None, id="many references"),
        pytest.param(doubling(12), "it holds 16,383 schemas, each $ref written out where it is used", id="references"),
        pytest.param(doubling(40), "schemas nest more than 32 deep", id="references of references"),
        pytest.param({**obj({"a": MUTUAL["d0"]}), "$defs": MUTUAL}, "refers to itself", id="circles through circles"),
        pytest.param(obj({"a": nested(24, lambda s: obj({"x": s}))}), None, id="objects"),
        pytest.param(obj({"a": nested(600, lambda s: obj({"x": s}))}), "nest more than 32 deep", id="deep objects"),
        pytest.param(obj({"a": nested(600, lambda s: {"not": s})}), "nest more than 32 deep", id="deep negations"),
        pytest.param(obj({"a": nested(9, lambda s: {"type": "array", "items": s})}), None, id="arrays"),
        pytest.param(
            obj({"a": nested(11, lambda s: {"type": "array", "items": s})}),
            "arrays or maps nest 11 deep, and at most 10 can be checked in SQL",
            id="deep arrays",
        ),
        pytest.param(
            obj({"a": nested(7, lambda s: {"type": "object", "if": s, "then": {"maxProperties": 1}, "else": s})}),
            "more than the 5,000 that a query can hold",
            id="conditions",
        ),
        pytest.param(obj({"a": {"type": "string", "enum": [f"v{n}" for n in range(5000)]}}), None, id="a long enum"),
        pytest.param(
            obj({"a": nested(14, lambda s: {"anyOf": [obj({"x": s}), {"type": "null"}]})}), None, id="optional objects"
        ),
    ],
)
def test_a_schema_has_a_size_that_every_engine_plans(schema: Any, problem: str | None) -> None:
    _, problems = normalise(schema)
    assert {problem is not None and problem in str(one) for one in problems} == ({True} if problem else set())
    for engine in () if problem else ("duckdb", "snowflake", "bigquery", "spark"):
        assert se.check_sql(schema, engine)


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        (True, {}),
        (False, {"not": {}}),
        ({"type": "string", "title": "x", "default": "y", "x-z": 1}, {"type": ["string"]}),
        ({"enum": ["a", "b"]}, {"enum": ["a", "b"]}),
        ({"enum": ["a", None]}, {"enum": ["a", None]}),
        ({"const": 3}, {"enum": [3]}),
        ({"const": None}, {"enum": [None]}),
        ({"enum": [1, 2], "const": 2}, {"enum": [1, 2], "allOf": [{"enum": [2]}]}),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, {"type": ["integer", "null"], "minimum": 1}),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}], "default": None}, {"enum": ["a", None]}),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, {"type": ["string", "null"]}),
        (
            {"oneOf": [{"type": ["string", "null"]}, {"type": "null"}]},
            {"oneOf": [{"type": ["string", "null"]}, {"type": ["null"]}]},
        ),
        (
            {"anyOf": [{"not": {"type": "string"}}, {"type": "null"}]},
            {"anyOf": [{"not": {"type": ["string"]}}, {"type": ["null"]}]},
        ),
        ({"type": "array", "items": {"type": "string"}}, {"type": ["array"], "items": {"type": ["string"]}}),
        ({"type": "array", "items": True, "uniqueItems": False, "minContains": 2}, {"type": ["array"]}),
        ({"type": "string", "minLength": 2.0}, {"type": ["string"], "minLength": 2}),
        ({"type": "object", "required": [], "additionalProperties": True}, {"type": ["object"]}),
        ({"type": "object", "additionalProperties": {}}, {"type": ["object"], "additionalProperties": {}}),
        ({"$ref": "#/$defs/d", "description": "x"}, {"enum": ["p"], "description": "x"}),
        ({"allOf": [{"$ref": "#/$defs/d"}], "description": "x"}, {"enum": ["p"], "description": "x"}),
        ({"allOf": [{"type": "number"}, {"type": "integer", "minimum": 1}]}, {"type": ["integer"], "minimum": 1}),
        (
            {"allOf": [{"minimum": 1}, {"minimum": 2}, {"allOf": [{"maximum": 5}, {"maximum": 6}]}]},
            {"minimum": 1, "maximum": 5, "allOf": [{"maximum": 6}, {"minimum": 2}]},
        ),
    ],
)
def test_plain_form(schema: Any, plain: dict[str, Any]) -> None:
    given, problems = normalise({**obj({"a": schema}), "$defs": {"d": {"enum": ["p"]}}})
    assert problems == []
    assert given["properties"]["a"] == plain


def test_columns() -> None:
    plain, _ = normalise(
        obj(
            {
                "s": {"type": "string"},
                "i": {"type": ["integer", "null"]},
                "d": {"type": "number"},
                "b": {"type": "boolean"},
                "l": {"type": "array", "items": {"type": "integer"}},
                "o": obj({"x": {"type": "string"}}),
                "j": {"type": "object"},
                "m": {"type": "array"},
            }
        )
    )
    assert output_columns(plain) == {
        "s": STRING,
        "i": BIGINT,
        "d": DOUBLE,
        "b": BOOLEAN,
        "l": Array(BIGINT),
        "o": Struct((("x", STRING),)),
        "j": JSON,
        "m": JSON,
    }


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ({}, JSON),
        (True, JSON),
        ({"type": ["string", "integer"]}, JSON),
        ({"type": ["number", "integer"]}, DOUBLE),
        ({"type": ["integer", "null"]}, BIGINT),
        ({"enum": ["a", "b"]}, STRING),
        ({"enum": ["a", None]}, STRING),
        ({"enum": ["a", 1]}, JSON),
        ({"const": 1}, BIGINT),
        ({"enum": [1, 2.0]}, BIGINT),
        ({"enum": [1, 2.5]}, DOUBLE),
        ({"type": "number", "enum": [1, 2]}, BIGINT),
        ({"enum": [[1]]}, JSON),
        ({"enum": [{"x": 1}]}, JSON),
        ({"type": "string", "format": "date"}, DATE),
        ({"type": ["string", "null"], "format": "date-time"}, TIMESTAMP),
        ({"type": "string", "format": "email"}, STRING),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, DATE),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, JSON),
        ({"anyOf": [{"const": "a"}, {"type": "string", "minLength": 3}]}, STRING),
        ({"oneOf": [{"type": "integer"}, {"type": "integer", "minimum": 3}]}, BIGINT),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, Array(Array(BIGINT))),
        ({"type": "array", "items": {}}, JSON),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, JSON),
        ({"type": "array", "items": {"type": ["string", "integer"]}}, JSON),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, JSON),
        (obj({"x": {"type": "integer"}, "y": {}}), Struct((("x", BIGINT), ("y", JSON)))),
        (
            {"allOf": [obj({"x": {"type": "integer"}}), obj({"y": {"type": "string"}})]},
            Struct((("x", BIGINT), ("y", STRING))),
        ),
        ({"allOf": [obj({"x": {"type": "number"}}), obj({"x": {"type": "integer"}})]}, Struct((("x", BIGINT),))),
        ({"type": "integer", "coerce": True}, Coerced(BIGINT)),
        ({"type": ["boolean", "null"], "coerce": True}, Coerced(BOOLEAN)),
        ({"enum": ["a", "B"], "type": "string", "coerce": True}, Coerced(STRING, ("a", "B"))),
    ],
)
def test_the_column_of_a_schema(schema: Any, column: Type) -> None:
    plain, problems = normalise(obj({"a": schema}))
    assert problems == []
    assert output_columns(plain) == {"a": column}


NULLABLE = {"type": ["string", "null"]}


def arrays(items: Any) -> dict[str, Any]:
    """The schema of an array."""
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("schema", "places"),
    [
        pytest.param(arrays({"type": "string"}), [], id="texts"),
        pytest.param(arrays(NULLABLE), ["a"], id="texts or null"),
        pytest.param(arrays({"enum": ["x", None]}), ["a"], id="an enum without a type"),
        pytest.param(arrays({"anyOf": [{"type": "string"}, {"type": "null"}]}), ["a"], id="a choice"),
        pytest.param(arrays({**NULLABLE, "allOf": [{"type": "string"}]}), [], id="null ruled out"),
        pytest.param(arrays(arrays(NULLABLE)), ["a[]"], id="arrays in arrays"),
        pytest.param(arrays(obj({"x": arrays(NULLABLE)})), ["a[].x"], id="arrays in objects in arrays"),
        pytest.param(arrays({**obj({"x": {"type": "string"}}), "type": ["object", "null"]}), ["a"], id="objects"),
        pytest.param(obj({"x": arrays(NULLABLE), "y": arrays({"enum": [1, None]})}), ["a.x", "a.y"], id="in an object"),
        pytest.param(arrays({"type": ["string", "integer", "null"]}), [], id="JSON text"),
        pytest.param({**arrays(NULLABLE), "prefixItems": [NULLABLE]}, [], id="a tuple is JSON text"),
        pytest.param({"type": ["array", "null"], "items": {"type": "string"}}, [], id="null itself"),
    ],
)
def test_array_columns_that_may_hold_null_are_refused_where_no_array_does(schema: Any, places: list[str]) -> None:
    plain, problems = normalise(obj({"a": schema}))
    assert not problems
    assert list(nullable_items(plain)) == places
    header = f"key: [id]\nsource: raw\nmodel: m\noutput: {json.dumps(obj({'a': schema}))}"
    enrichment = loads(f"---\n{header}\n---\n{{{{ body }}}}\n", name="t")
    if places:
        with pytest.raises(se.UnsupportedError, match=f"^bigquery: {re.escape(places[0])}, an array whose"):
            se.compile_plan(enrichment, "bigquery")
    else:
        assert se.compile_plan(enrichment, "bigquery")


FULL = obj(
    {
        "t": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"},
        "e": {"type": "string", "enum": ["x", "y"]},
        "i": {"type": "integer", "minimum": 1, "exclusiveMaximum": 5},
        "d": {"type": "number", "exclusiveMinimum": 0, "maximum": 1.5},
        "b": {"type": ["boolean", "null"], "enum": [True, None]},
        "l": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 2},
        "o": obj({"x": {"type": "integer"}}, required=["x"], additionalProperties=False),
    },
    required=["t"],
    additionalProperties=False,
)


def test_the_tests_stand_in_the_order_of_their_codes() -> None:
    verdicts = build_tests(normalise(FULL)[0])
    places = [CODES.index(verdict.code) for verdict in verdicts]
    assert places == sorted(places)
    assert {verdict.code for verdict in verdicts} == {
        "MISSING_FIELD",
        "EXTRA_FIELD",
        "WRONG_TYPE",
        "NOT_IN_ENUM",
        "OUT_OF_RANGE",
        "BAD_LENGTH",
        "BAD_PATTERN",
        "BAD_ITEMS",
    }


JUDGED = [
    (None, "NO_RESPONSE"),
    ("", "NO_RESPONSE"),
    (" \t\r\n", "NO_RESPONSE"),
    ('{"t": "ab"}', None),
    (' \n{"t": "ab"}\t', None),
    ("\u00a0", "BAD_JSON"),
    ("text", "BAD_JSON"),
    ('{"t": "ab"', "BAD_JSON"),
    ('{"t": "ab",}', "BAD_JSON"),
    ('{"t": "ab"} x', "BAD_JSON"),
    ('{"t": "ab"}{}', "BAD_JSON"),
    ("{'t': 'ab'}", "BAD_JSON"),
    ('{"t": "ab", "d": NaN}', "BAD_JSON"),
    ('{"t": "ab", "d": -Infinity}', "BAD_JSON"),
    ('{"t": "ab", "t": "ab"}', "BAD_JSON"),
    ('{"t": "ab", "\\u0074": "ab"}', "BAD_JSON"),
    ('{"t": "ab", "o": {"x": 1, "x": 1}}', "BAD_JSON"),
    ('{"t": "\\ud800"}', "BAD_JSON"),
    ('{"\\udc00": 1}', "BAD_JSON"),
    ('{"t": "\\ud83d\\ude00"}', "BAD_LENGTH"),
    ('{"t": "a\nb"}', "BAD_JSON"),
    ('{"t": "ab", "i": 01}', "BAD_JSON"),
    ('\ufeff{"t": "ab"}', "BAD_JSON"),
    ("[]", "NOT_OBJECT"),
    ("null", "NOT_OBJECT"),
    ('"t"', "NOT_OBJECT"),
    ("3", "NOT_OBJECT"),
    ("{}", "MISSING_FIELD"),
    ('{"t": "ab", "o": {}}', "MISSING_FIELD"),
    ('{"t": "ab", "z": 1}', "EXTRA_FIELD"),
    ('{"t": "ab", "o": {"x": 1, "y": 1}}', "EXTRA_FIELD"),
    ('{"t": 1}', "WRONG_TYPE"),
    ('{"t": null}', "WRONG_TYPE"),
    ('{"t": "ab", "i": "1"}', "WRONG_TYPE"),
    ('{"t": "ab", "i": 1.5}', "WRONG_TYPE"),
    ('{"t": "ab", "i": true}', "WRONG_TYPE"),
    ('{"t": "ab", "i": 1.0}', None),
    ('{"t": "ab", "i": 1e0}', None),
    ('{"t": "ab", "d": 1}', None),
    ('{"t": "ab", "l": [1]}', "WRONG_TYPE"),
    ('{"t": "ab", "l": {}}', "WRONG_TYPE"),
    ('{"t": "ab", "b": null}', None),
    ('{"t": "ab", "b": true}', None),
    ('{"t": "ab", "b": false}', "NOT_IN_ENUM"),
    ('{"t": "ab", "e": "z"}', "NOT_IN_ENUM"),
    ('{"t": "ab", "e": "X"}', "NOT_IN_ENUM"),
    ('{"t": "ab", "i": 0}', "OUT_OF_RANGE"),
    ('{"t": "ab", "i": 5}', "OUT_OF_RANGE"),
    ('{"t": "ab", "i": 4}', None),
    ('{"t": "ab", "d": 0}', "OUT_OF_RANGE"),
    ('{"t": "ab", "d": 1.6}', "OUT_OF_RANGE"),
    ('{"t": "ab", "d": 1.5}', None),
    ('{"t": "ab", "i": 9223372036854775808}', "OUT_OF_RANGE"),
    ('{"t": "ab", "i": 1e400}', "OUT_OF_RANGE"),
    ('{"t": "a"}', "BAD_LENGTH"),
    ('{"t": "abcde"}', "BAD_LENGTH"),
    ('{"t": "ab", "l": ["abcd"]}', "BAD_LENGTH"),
    ('{"t": "AB"}', "BAD_PATTERN"),
    ('{"t": "ab\\n"}', "BAD_PATTERN"),
    ('{"t": "ab", "l": []}', "BAD_ITEMS"),
    ('{"t": "ab", "l": ["a", "b", "c"]}', "BAD_ITEMS"),
    # Where several apply, the first code in the order.
    ('{"z": 1}', "MISSING_FIELD"),
    ('{"t": 1, "z": 1}', "EXTRA_FIELD"),
    ('{"t": 1, "e": "z"}', "WRONG_TYPE"),
    ('{"t": "A", "e": "z"}', "NOT_IN_ENUM"),
    ('{"t": "A", "i": 0}', "OUT_OF_RANGE"),
    ('{"t": "A"}', "BAD_LENGTH"),
    ('{"t": "AB", "l": []}', "BAD_PATTERN"),
]


@pytest.mark.parametrize(("text", "code"), JUDGED)
def test_check_response(text: str | None, code: str | None) -> None:
    assert se.check_response(FULL, text) == code


def test_the_detail_says_where() -> None:
    verdicts = build_tests(normalise(FULL)[0])
    assert judge(verdicts, '{"t": "ab", "o": {}}') == ("MISSING_FIELD", "o.x is missing")
    assert judge(verdicts, '{"t": "ab", "l": [1]}') == ("WRONG_TYPE", "l[] is not string")
    assert judge(verdicts, '{"t": "ab", "i": 0}') == ("OUT_OF_RANGE", "i is below 1")
    assert judge(verdicts, '{"t": "ab"}') is None


def test_a_schema_that_can_t_be_checked_is_an_error() -> None:
    with pytest.raises(se.SpecError, match=r'the keyword "nott" .* is not supported @ schema'):
        se.check_response({"nott": {}}, "{}")
    with pytest.raises(se.UnsupportedError, match=r'the keyword "nott" .* is not supported @ schema'):
        se.check_sql({"nott": {}}, "duckdb")


@pytest.mark.parametrize(
    ("text", "repairs", "repaired"),
    [
        (None, ["trim"], None),
        (" {} ", ["trim"], "{}"),
        (" {} ", [], " {} "),
        ("\u00a0{}", ["trim"], "\u00a0{}"),
        ("```json\n{}\n```", ["fence"], "{}"),
        ("```json\n{}\n```", ["trim"], "```json\n{}\n```"),
        (" ```\n{}``` ", ["fence"], "{}"),
        (" {} ", ["fence"], " {} "),
    ],
)
def test_repair(text: str | None, repairs: list[str], repaired: str | None) -> None:
    assert repair(text, repairs) == repaired


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (obj({"a": {"type": "string"}}, required=["a"], additionalProperties=False), True),
        (obj({"a": {"type": "string"}}, required=["a"]), False),
        (obj({"a": {"type": "string"}}, additionalProperties=False), False),
        (obj({"a": obj({"b": {"type": "string"}})}, required=["a"], additionalProperties=False), False),
        (
            obj(
                {"a": {"type": "array", "items": obj({"b": {"type": "string"}})}},
                required=["a"],
                additionalProperties=False,
            ),
            False,
        ),
        (
            obj(
                {
                    "a": {
                        "type": "array",
                        "items": obj({"b": {"type": "string"}}, required=["b"], additionalProperties=False),
                    }
                },
                required=["a"],
                additionalProperties=False,
            ),
            True,
        ),
    ],
)
def test_strict_only_where_everything_is_closed_and_required(schema: dict[str, Any], strict: bool) -> None:
    plain, _ = normalise(schema)
    told = json_schema_format(OutputSpec("n" * 70, plain))
    assert told == ResponseFormat(
        {
            "type": "json_schema",
            "json_schema": {"name": "n" * 64, "schema": schema, **({"strict": True} if strict else {})},
        }
    )


# Random schemas and documents: the verdict is that of another validator.

WORDS = st.sampled_from(["", "a", "ab", "abc", "b1", "é😀"])
NUMBERS = st.integers(-3, 4) | st.sampled_from([0.5, 1.5, -2.0, 3.0, 1e300])


def _counts(low: str, high: str) -> st.SearchStrategy[dict[str, Any]]:
    pairs = st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(0, 3))

    def counts(pair: tuple[int | None, int | None]) -> dict[str, Any]:
        least, most = pair
        if least is not None and most is not None and least > most:
            least, most = most, least
        return {key: n for key, n in ((low, least), (high, most)) if n is not None}

    return pairs.map(counts)


def _kind(name: str, *parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    kinds = st.sampled_from([name, [name, "null"]])
    return st.builds(
        lambda kind, *more: {k: v for part in more for k, v in part.items()} | {"type": kind}, kinds, *parts
    )


def _enum(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | st.lists(values, min_size=1, max_size=3).map(lambda listed: {"enum": listed})


PATTERN = st.sampled_from([{}, {"pattern": "^a"}, {"pattern": "b$"}, {"pattern": r"\d"}])
LEAVES = st.one_of(
    _kind("string", _counts("minLength", "maxLength"), PATTERN, _enum(WORDS)),
    _kind("integer", _counts("minimum", "maximum"), _enum(st.integers(-3, 4))),
    _kind("number", _counts("exclusiveMinimum", "exclusiveMaximum"), _enum(NUMBERS)),
    _kind("boolean", _enum(st.booleans())),
)


def _objects(values: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda properties, required, extra: obj(
            properties, required=[name for name in required if name in properties], additionalProperties=extra
        ),
        st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=1, max_size=3),
        st.sets(st.sampled_from(["a", "b", "c"])).map(sorted),
        st.booleans(),
    )


SCHEMAS = _objects(
    st.recursive(
        LEAVES,
        lambda inner: (
            _objects(inner)
            | st.builds(
                lambda item, counts: {"type": "array", "items": item, **counts}, inner, _counts("minItems", "maxItems")
            )
        ),
        max_leaves=4,
    )
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.recursive(
        st.none() | st.booleans() | NUMBERS | WORDS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), inner, max_size=3)
        ),
        max_leaves=4,
    ),
    max_size=4,
)


def _agrees(schema: dict[str, Any], document: Any) -> None:
    code = se.check_response(schema, json.dumps(document))
    assert (code is None) is jsonschema.Draft202012Validator(schema).is_valid(document), code


def _fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Documents that have the schema's names and types, so that the finer checks decide."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    match kinds[0]:
        case "object":
            return st.fixed_dictionaries({}, optional={n: _fitting(c) for n, c in schema["properties"].items()})
        case "array":
            return st.lists(_fitting(schema["items"]), max_size=4)
        case "string":
            return WORDS
        case "boolean":
            return st.booleans()
    return st.integers(-3, 4) if kinds[0] == "integer" else NUMBERS


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_the_verdict_is_that_of_a_validator(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    if normalise(schema)[1]:
        return
    _agrees(schema, data.draw(_fitting(schema) | DOCUMENTS))


def test_nulls_that_stay_are_those_of_required_nullable_properties() -> None:
    nullable = {"type": ["string", "null"]}
    inner = obj({"a": nullable, "b": nullable, "c": {"type": "string"}}, required=["a", "c"])
    schema = obj({"d": inner, "e": {"type": "array", "items": inner}, "f": nullable}, required=["d", "f"])
    plain, problems = normalise(schema)
    assert not problems
    assert kept_nulls(plain) == {"a", "f"}

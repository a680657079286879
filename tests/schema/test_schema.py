"""A JSON Schema as it is read: its plain form, its problems, its columns, its checks."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, JSON, STRING, TIMESTAMP, Array, Coerced, Struct, Type
from sqlenrich.schema import CODES, build_checks, evaluate_checks, normalise, output_columns
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.schema.checks.repairs import kept_nulls
from sqlenrich.schema.columns import nullable_items
from sqlenrich.spec.loader import loads


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object's schema."""
    return {"type": "object", "properties": properties, **more}


A = "output.properties.a"
DECIMAL = {"type": "number", "column": "decimal(5,2)"}


PROBLEMS: list[tuple[Any, str, str]] = [
    ({"type": "strng"}, 'unknown type "strng" (string?)', ""),
    ({"type": 3}, "type 3 is neither a name nor a list of names", ""),
    ({"type": []}, "type [] is neither a name nor a list of names", ""),
    ({"type": [{}]}, "type [{}] is neither a name nor a list of names", ""),
    ({"allOf": [obj({"Ab": {"type": "string"}}), obj({"aB": {"type": "string"}})], "type": "object"},
     '"Ab" and "aB" are equal but for case; SQL columns are not', ""),
    ({"type": "integer", "coerce": "no"}, "coerce is true or false, not 'no'", ""),
    ({"type": "number", "column": "decimal(5,2)", "allOf": [{"type": "number", "column": "decimal(4,1)"}]},
     "column is written twice: decimal(4,1) and decimal(5,2)", ""),
    ({"type": "null"}, "a value that is always null is no column", ""),
    ({"properties": {"x": {}}}, 'a type is missing: write "type: object"', ""),
    ({"items": {"type": "string"}}, 'a type is missing: write "type: array"', ""),
    (3, "a schema is a mapping, not 3", ""),
    ({"type": "string", "minLenght": 3}, 'the keyword "minLenght" (minLength?) is not supported', ""),
    ({"not": {"$dynamicRef": "#a"}}, 'the keyword "$dynamicRef" is not supported', ".not"),
    ({"type": "string", "enum": []}, "enum is a list with at least one value", ""),
    ({"type": "string", "enum": [[1]]}, "can't be met: no value of the enum is of type string", ""),
    ({"enum": [{"x": [10**400]}]}, "enum and const hold no number beyond a double", ""),
    ({"const": float("inf")}, "enum and const hold no number beyond a double", ""),
    ({"maximum": 10**400}, "maximum is no number that a double holds", ""),
    ({"multipleOf": float("nan")}, "multipleOf is no number that a double holds", ""),
    ({"multipleOf": 0}, "multipleOf is above 0, not 0", ""),
    ({"multipleOf": 1e-19}, "multipleOf 1e-19 has more digits than every engine can divide by", ""),
    ({"type": "string", "enum": [1]}, "can't be met: no value of the enum is of type string", ""),
    ({"type": "integer", "minimum": "1"}, "minimum is a number, not '1'", ""),
    ({"type": "integer", "minimum": 2, "maximum": 1}, "can't be met: minimum 2 is above maximum 1", ""),
    ({"type": "string", "maxLength": -1}, "maxLength is an integer of at least 0, not -1", ""),
    ({"type": "string", "minLength": True}, "minLength is an integer of at least 0, not True", ""),
    ({"type": "string", "pattern": "(?=a)"},
     'pattern "(?=a)": a group that starts with (? is not the same on all engines; write it without', ""),
    ({"type": "array", "items": {"type": "strng"}}, 'unknown type "strng" (string?)', ".items"),
    ({"type": "object", "properties": 3}, "properties is a mapping of names", ""),
    (obj({"x y": {"type": "string"}}),
     'the property name "x y" is no column name: letters, digits, _ and -, at most 64', ""),
    (obj({"x": {"type": "string"}, "X": {"type": "string"}}),
     '"x" and "X" are equal but for case; SQL columns are not', ""),
    (obj({"label": {"type": "string"}}, required=["lable"]),
     'required "lable" (label?) is not among the properties', ""),
    (obj({"x": {"type": "string"}}, required="x"), "required is a list of property names", ""),
    (obj({"x": {"type": "string"}}, additionalProperties=3),
     "additionalProperties is true, false or a schema, not 3", ""),
    ({"$ref": "#/$defs/none"}, '"#/$defs/none" points to nothing in this schema', ""),
    ({"$ref": "other.json"}, '"other.json" points to nothing in this schema', ""),
    ({"anyOf": []}, "a list of at least one schema", ".anyOf"),
    ({"allOf": {}}, "a list of at least one schema", ".allOf"),
    ({"oneOf": [{"type": "string"}, {"type": "strng"}]}, 'unknown type "strng" (string?)', ".oneOf.1"),
    ({"anyOf": [{"type": "object", "properties": {"x y": {}}}, {"type": "null"}]},
     'the property name "x y" is no column name: letters, digits, _ and -, at most 64', ".anyOf.0"),
    ({"patternProperties": {"(?=a)": {}}},
     'pattern "(?=a)": a group that starts with (? is not the same on all engines; write it without',
     ".patternProperties"),
    ({"prefixItems": 3}, "a list of at least one schema", ".prefixItems"),
    ({"uniqueItems": 1}, "uniqueItems is true or false", ""),
    ({"dependentRequired": {"x": "y"}}, "dependentRequired.x is a list of property names", ""),
    ({"contains": 3}, "a schema is a mapping, not 3", ".contains"),
    ({"items": [{}]}, "a schema is a mapping, not [{}]", ".items"),
    ({"if": 3}, "a schema is a mapping, not 3", ".if"),
    ({"type": "string", "format": "dat"},
     'the format "dat" (date?) is not checked; there are: date, date-time, time, email, uuid, uri; or write a pattern',
     ""),
    ({"format": 3}, "format is a text, not 3", ""),
    ({"$ref": 3}, "$ref is a text, not 3", ""),
    ({"$ref": "#/properties/a/type/0"}, '"#/properties/a/type/0" points to nothing in this schema', ""),
    ({"type": "string", "coerce": True}, "coerce is for a number, an integer, a boolean, or a text with an enum", ""),
    ({"enum": ["a", "A"], "type": "string", "coerce": True},
     "coerce reads an enum in any case: its values are ASCII and differ by more than case", ""),
    ({"$ref": "#"}, '"#" refers to itself; a column has a fixed depth', ".properties.a"),
]  # fmt: skip
"""The schema of a property, its first problem, and the path inside the schema."""


@pytest.mark.parametrize(("schema", "problem", "path"), PROBLEMS)
def test_problems(schema: Any, problem: str, path: str) -> None:
    _, problems = normalise(obj({"a": schema}))
    assert str(problems[0]) == f"{problem} @ {A}{path}"


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
def test_own_keywords_are_refused_outside_columns(own: dict[str, Any], place: str, wrap: Any) -> None:
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
def test_a_schema_that_is_too_large_is_refused(schema: Any, problem: str | None) -> None:
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


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ({}, JSON),
        (True, JSON),
        ({"type": "object"}, JSON),
        ({"type": "array"}, JSON),
        ({"type": "string"}, STRING),
        ({"type": "number"}, DOUBLE),
        ({"type": "boolean"}, BOOLEAN),
        ({"type": "array", "items": {"type": "integer"}}, Array(BIGINT)),
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
def test_nullable_items_are_found_and_bigquery_refuses_them(schema: Any, places: list[str]) -> None:
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


def test_checks_are_in_the_order_of_their_codes() -> None:
    checks = build_checks(normalise(FULL)[0])
    places = [CODES.index(check.code) for check in checks]
    assert places == sorted(places)
    assert {check.code for check in checks} == {
        "MISSING_FIELD",
        "EXTRA_FIELD",
        "WRONG_TYPE",
        "NOT_IN_ENUM",
        "OUT_OF_RANGE",
        "BAD_LENGTH",
        "BAD_PATTERN",
        "BAD_ITEMS",
    }


ANSWERS = [
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


@pytest.mark.parametrize(("text", "code"), ANSWERS)
def test_check_response(text: str | None, code: str | None) -> None:
    assert se.check_response(FULL, text) == code


def test_the_detail_says_where() -> None:
    checks = build_checks(normalise(FULL)[0])
    assert evaluate_checks(checks, '{"t": "ab", "o": {}}') == ("MISSING_FIELD", "o.x is missing")
    assert evaluate_checks(checks, '{"t": "ab", "l": [1]}') == ("WRONG_TYPE", "l[] is not string")
    assert evaluate_checks(checks, '{"t": "ab", "i": 0}') == ("OUT_OF_RANGE", "i is below 1")
    assert evaluate_checks(checks, '{"t": "ab"}') is None


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


def test_nulls_of_required_nullable_properties_are_kept() -> None:
    nullable = {"type": ["string", "null"]}
    inner = obj({"a": nullable, "b": nullable, "c": {"type": "string"}}, required=["a", "c"])
    schema = obj({"d": inner, "e": {"type": "array", "items": inner}, "f": nullable}, required=["d", "f"])
    plain, problems = normalise(schema)
    assert not problems
    assert kept_nulls(plain) == {"a", "f"}

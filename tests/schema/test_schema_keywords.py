"""Each keyword's reason code, in Python and on each engine: a schema of the property ``a``, its value, the code."""

from __future__ import annotations

import datetime
import enum
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import pydantic
import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, JSON, STRING, TIMESTAMP, Array, Struct
from sqlenrich.schema import build_checks, evaluate_checks, normalise, output_columns
from tests.support.checkers import ENGINES, Sample, checker_of

MARKS = {"spark": [pytest.mark.spark], "bigquery": [pytest.mark.zetasql]}
each_engine = pytest.mark.parametrize("engine", [pytest.param(name, marks=MARKS.get(name, [])) for name in ENGINES])
Cases: TypeAlias = "Sequence[tuple[Any, str, str | None]]"
X_IS_1 = {"properties": {"x": {"const": 1}}, "required": ["x"]}
HAS_X, HAS_Y = {"required": ["x"]}, {"required": ["y"]}

KEYWORDS: Cases = [
    # Several types, none, enums of anything
    ({}, "null", None),
    (True, "[{}]", None),
    (False, "1", "EXTRA_FIELD"),
    ({"not": {}}, "null", "EXTRA_FIELD"),
    ({"type": ["string", "integer"]}, '"x"', None),
    ({"type": ["string", "integer"]}, "1.0", None),
    ({"type": ["string", "integer"]}, "1.5", "WRONG_TYPE"),
    ({"type": ["string", "integer"]}, "null", "WRONG_TYPE"),
    ({"type": ["string", "integer"], "minLength": 2, "minimum": 5}, '"x"', "BAD_LENGTH"),
    ({"type": ["string", "integer"], "minLength": 2, "minimum": 5}, "4", "OUT_OF_RANGE"),
    ({"type": ["string", "integer"], "minLength": 2, "minimum": 5}, "5", None),
    ({"minimum": 5}, '"x"', None),
    ({"minLength": 2}, "[]", None),
    ({"enum": [1, "1", True, None, [1], {"x": 1}]}, '"1"', None),
    ({"enum": [1, "1", None]}, "true", "NOT_IN_ENUM"),
    ({"enum": [True]}, "1", "NOT_IN_ENUM"),
    ({"enum": [[1, 2], {"x": [None]}]}, "[1,2.0]", None),
    ({"enum": [[1, 2], {"x": [None]}]}, "[2,1]", "NOT_IN_ENUM"),
    ({"enum": [[1, 2], {"x": [None]}]}, '{"x":[null]}', None),
    ({"enum": [[1, 2], {"x": [None]}]}, '{"x":[null],"y":1}', "NOT_IN_ENUM"),
    ({"enum": [{"x": 1}, None]}, "null", None),
    ({"type": ["object", "null"], "enum": [{"x": 1}, None]}, "null", None),
    ({"type": "object", "enum": [{"x": []}]}, '{"x":[]}', None),
    ({"type": "object", "enum": [{"x": []}]}, '{"x":{}}', "NOT_IN_ENUM"),
    ({"enum": [{"x": 1}]}, '"x"', "NOT_IN_ENUM"),
    ({"const": []}, "[]", None),
    ({"const": []}, "{}", "NOT_IN_ENUM"),
    ({"enum": [1, 2], "const": 3}, "3", "NOT_IN_ENUM"),
    ({"enum": [1, 2], "const": 2}, "2", None),
    ({"enum": []}, "1", "NOT_IN_ENUM"),
    ({"type": "integer", "enum": [-1]}, "9223372036854775808", "NOT_IN_ENUM"),
    ({"additionalProperties": {"type": "integer", "const": 5}}, '{"x":1e300}', "NOT_IN_ENUM"),
    # Numbers
    ({"multipleOf": 0.1}, "0.3", None),
    ({"multipleOf": 0.1}, "0.35", "OUT_OF_RANGE"),
    ({"multipleOf": 3}, "-9", None),
    ({"multipleOf": 3, "type": "integer"}, "10.0", "OUT_OF_RANGE"),
    ({"multipleOf": 1e-18}, "12345678901234567890", None),
    ({"multipleOf": 1}, "1e20", "OUT_OF_RANGE"),
    ({"multipleOf": 2}, '"x"', None),
    ({"exclusiveMinimum": 1}, "1", "OUT_OF_RANGE"),
    # Arrays
    ({"items": {"type": "integer"}}, '[1,"x"]', "WRONG_TYPE"),
    ({"items": {"type": "integer"}}, '{"x":"x"}', None),
    ({"items": False}, "[]", None),
    ({"items": False}, "[1]", "BAD_ITEMS"),
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, "[1]", None),
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, "[1,2]", "WRONG_TYPE"),
    ({"prefixItems": [{}], "items": {"minLength": 2}}, '["x","xy"]', None),
    ({"prefixItems": [{}], "items": {"minLength": 2}}, '["x","x"]', "BAD_LENGTH"),
    ({"prefixItems": [{}], "items": False}, "[1,2]", "BAD_ITEMS"),
    ({"prefixItems": [{}, False]}, "[1,null]", "BAD_ITEMS"),
    ({"contains": {"const": 1}}, "[2]", "BAD_ITEMS"),
    ({"contains": {"const": 1}}, "[2,1]", None),
    ({"contains": {"const": 1}}, "{}", None),
    ({"contains": {"const": 1}, "minContains": 0}, "[]", None),
    ({"contains": {"const": 1}, "minContains": 2, "maxContains": 2}, "[1,1,1]", "BAD_ITEMS"),
    ({"contains": True}, "[]", "BAD_ITEMS"),
    ({"uniqueItems": True}, "[1,true,\"1\",[1],[true],null]", None),
    ({"uniqueItems": True}, "[1,1.0]", "BAD_ITEMS"),
    ({"uniqueItems": True}, '[{"x":1,"y":2},{"y":2,"x":1}]', "BAD_ITEMS"),
    ({"uniqueItems": True}, "[[[[1]]],[[[2]]]]", None),
    ({"uniqueItems": True}, "[[[[[1]]]],1]", "BAD_ITEMS"),
    ({"uniqueItems": True}, '["1:a","a"]', None),
    ({"minItems": 1}, "[]", "BAD_ITEMS"),
    # Objects
    ({"properties": {"x": {"type": "integer"}}}, '{"x":"1"}', "WRONG_TYPE"),
    ({"properties": {"x": {"type": "integer"}}}, '["x"]', None),
    ({"properties": {"x": False}}, '{"x":null}', "EXTRA_FIELD"),
    ({"properties": {"0": {"type": "integer"}}}, '["x"]', None),
    ({"properties": {"": {"type": "integer"}, "/~": {"type": "integer"}}}, '{"":1,"/~":"x"}', "WRONG_TYPE"),
    ({"required": ["x"]}, "{}", "MISSING_FIELD"),
    ({"required": ["x"]}, '"x"', None),
    ({"required": ["x"]}, '{"x":null}', None),
    ({"additionalProperties": False, "properties": {"x": {}}}, '{"x":1,"y":1}', "EXTRA_FIELD"),
    ({"additionalProperties": False, "patternProperties": {"^x": {}}}, '{"x":1,"xy":1}', None),
    ({"additionalProperties": False, "patternProperties": {"^x": {}}}, '{"x":1,"yx":1}', "EXTRA_FIELD"),
    ({"additionalProperties": {"type": "integer"}, "properties": {"x": {}}}, '{"x":"x","y":"x"}', "WRONG_TYPE"),
    ({"additionalProperties": {"type": "integer"}}, '{"y":1}', None),
    ({"patternProperties": {"^x": {"type": "integer"}}}, '{"xy":"x"}', "WRONG_TYPE"),
    ({"patternProperties": {"^x": False}}, '{"xy":1}', "EXTRA_FIELD"),
    ({"patternProperties": {"^x": {"patternProperties": {"y$": {"maximum": 1}}}}}, '{"x":{"zy":2}}', "OUT_OF_RANGE"),
    ({"propertyNames": {"maxLength": 1}}, '{"xy":1}', "SCHEMA"),
    ({"propertyNames": {"enum": ["x", 1]}}, '{"x":1}', None),
    ({"propertyNames": {"type": "integer"}}, '{"1":1}', "SCHEMA"),
    ({"propertyNames": False}, "{}", None),
    ({"minProperties": 1}, "{}", "SCHEMA"),
    ({"maxProperties": 1}, '{"x":1,"y":1}', "SCHEMA"),
    ({"maxProperties": 1}, "[1,2]", None),
    ({"dependentRequired": {"x": ["y"]}}, '{"x":1}', "MISSING_FIELD"),
    ({"dependentRequired": {"x": ["y"]}}, '{"y":1}', None),
    ({"dependentSchemas": {"x": {"minProperties": 2}}}, '{"x":1}', "SCHEMA"),
    ({"dependentSchemas": {"x": {"minProperties": 2}}}, '{"z":1}', None),
    ({"dependentSchemas": {"x": False}}, '{"x":1}', "SCHEMA"),
    # Schemas over the same value
    ({"allOf": [{"minimum": 1}, {"type": "integer"}]}, "0", "OUT_OF_RANGE"),
    ({"allOf": [{"minimum": 1}, {"minimum": 3}]}, "2", "OUT_OF_RANGE"),
    ({"allOf": [{"minimum": 1}, {"minimum": 3}, {"allOf": [{"type": "array"}, {"type": "null"}]}]}, "6", "WRONG_TYPE"),
    ({"allOf": [{"minimum": 1}, {"minimum": 3}, {"allOf": [{"type": "number"}, {"type": "null"}]}]}, "6", "WRONG_TYPE"),
    ({"allOf": [HAS_X, False]}, "1", "SCHEMA"),
    ({"anyOf": [{"type": "integer"}, {"minLength": 2}]}, '"x"', "SCHEMA"),
    ({"anyOf": [{"type": "integer"}, {"minLength": 2}]}, "1.5", None),
    ({"anyOf": [X_IS_1, HAS_Y]}, '{"x":2}', "SCHEMA"),
    ({"anyOf": [X_IS_1, HAS_Y]}, '{"y":2}', None),
    ({"anyOf": [False, {"type": "integer"}]}, '"x"', "SCHEMA"),
    ({"oneOf": [HAS_X, HAS_Y]}, '{"x":1,"y":1}', "SCHEMA"),
    ({"oneOf": [HAS_X, HAS_Y]}, '{"x":1}', None),
    ({"oneOf": [HAS_X, HAS_Y]}, "{}", "SCHEMA"),
    ({"oneOf": [{"type": ["string", "null"]}, {"type": "null"}]}, "null", "SCHEMA"),
    ({"not": {"type": "integer"}}, "1", "SCHEMA"),
    ({"not": {"type": "integer"}}, "1.5", None),
    ({"not": {"not": {"type": "integer"}}}, "1.5", "SCHEMA"),
    ({"not": {"items": {"type": "integer"}, "type": "array"}}, "[1]", "SCHEMA"),
    ({"not": {"items": {"type": "integer"}, "type": "array"}}, '["x"]', None),
    ({"if": HAS_X, "then": HAS_Y}, '{"x":1}', "SCHEMA"),
    ({"if": HAS_X, "then": HAS_Y}, '{"z":1}', None),
    ({"if": HAS_X, "else": HAS_Y}, '{"z":1}', "SCHEMA"),
    ({"if": HAS_X, "else": HAS_Y}, '{"x":1}', None),
    ({"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "string"}}, "null", "SCHEMA"),
    ({"then": False, "else": False}, "1", None),
    # X or null
    ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}, "null", None),
    ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}, "2", "OUT_OF_RANGE"),
    ({"anyOf": [{"enum": ["x"]}, {"type": "null"}]}, "null", None),
    ({"anyOf": [{"enum": ["x"]}, {"type": "null"}]}, '"y"', "NOT_IN_ENUM"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "type": "integer"}, "null", "WRONG_TYPE"),
    # Texts for numbers
    ({"type": "integer", "coerce": True, "maximum": 5}, '"5"', None),
    ({"type": "integer", "coerce": True, "maximum": 5}, '"6"', "OUT_OF_RANGE"),
    ({"type": "integer", "coerce": True}, '"5.00"', None),
    ({"type": "integer", "coerce": True}, '"5.5"', "WRONG_TYPE"),
    ({"type": "integer", "coerce": True}, '" 5"', "WRONG_TYPE"),
    ({"type": "integer", "coerce": True}, '"0x5"', "WRONG_TYPE"),
    ({"type": "integer", "coerce": True}, '"9223372036854775808"', "OUT_OF_RANGE"),
    ({"type": "integer", "coerce": True}, "true", "WRONG_TYPE"),
    ({"type": "number", "coerce": True}, '"-5.5e1"', None),
    ({"type": "number", "coerce": True}, '"1e400"', "OUT_OF_RANGE"),
    ({"type": "number", "coerce": True}, '"NaN"', "WRONG_TYPE"),
    ({"type": "boolean", "coerce": True}, '"TRUE"', None),
    ({"type": "boolean", "coerce": True}, '"yes"', "WRONG_TYPE"),
    ({"type": "boolean", "coerce": True}, "1", "WRONG_TYPE"),
    ({"type": ["boolean", "null"], "coerce": True}, "null", None),
    ({"type": "string", "enum": ["Yes", "no"], "coerce": True}, '"YES"', None),
    ({"type": "string", "enum": ["Yes", "no"], "coerce": True}, '"maybe"', "NOT_IN_ENUM"),
]  # fmt: skip

FORMATS: Cases = [
    ({"format": "date"}, '"2024-02-29"', None),
    ({"format": "date"}, '"2026-02-29"', "BAD_PATTERN"),
    ({"format": "date"}, '"2026-1-31"', "BAD_PATTERN"),
    ({"format": "date"}, '"2026-01-31\\n"', "BAD_PATTERN"),
    ({"format": "date"}, '"0000-01-01"', "BAD_PATTERN"),
    ({"format": "date"}, "20260131", None),
    ({"format": "date-time"}, '"2026-01-31T23:59:59Z"', None),
    ({"format": "date-time"}, '"2026-01-31t23:59:59.123456789+05:30"', None),
    ({"format": "date-time"}, '"2026-02-30T00:00:00Z"', "BAD_PATTERN"),
    ({"format": "date-time"}, '"2026-01-31 23:59:59Z"', "BAD_PATTERN"),
    ({"format": "date-time"}, '"2026-01-31T23:59:59"', "BAD_PATTERN"),
    ({"format": "date-time"}, '"2026-01-31T23:59:60Z"', "BAD_PATTERN"),
    ({"format": "time"}, '"23:59:59Z"', None),
    ({"format": "time"}, '"24:00:00Z"', "BAD_PATTERN"),
    ({"format": "email"}, '"a.b+c@d-e.example"', None),
    ({"format": "email"}, '"a@b@c"', "BAD_PATTERN"),
    ({"format": "email"}, '"é@example.com"', "BAD_PATTERN"),
    ({"format": "uuid"}, '"2EB8AA08-aa98-11ea-b4aa-73b441d16380"', None),
    ({"format": "uuid"}, '"2eb8aa08aa9811eab4aa73b441d16380"', "BAD_PATTERN"),
    ({"format": "uri"}, '"https://example.com/a?b=c#d%20e"', None),
    ({"format": "uri"}, '"//example.com"', "BAD_PATTERN"),
    ({"format": "uri"}, '"https://example.com/a b"', "BAD_PATTERN"),
    ({"type": ["string", "null"], "format": "uri"}, "null", None),
    ({"type": ["string", "null"], "format": "date"}, "null", None),
    ({"type": "string", "format": "date"}, '"2026-01-32"', "BAD_PATTERN"),
    ({"type": "string", "format": "date-time"}, '"0001-01-01T00:00:00Z"', None),
    ({"not": {"format": "date"}}, '"2026-01-31"', "SCHEMA"),
]

DEFS = {
    "d": {"type": "integer", "minimum": 3},
    "a/b": {"type": "integer"}, "a~b": {"type": "boolean"}, "a%b": {"type": "null"}, "é f": {"type": "array"},
    "all": [{"type": "string"}, {"type": "object"}], "no": False, "twice": {"$ref": "#/$defs/d", "maximum": 5},
}  # fmt: skip
REFERENCES: Cases = [
    ({"$ref": "#/$defs/d"}, "2", "OUT_OF_RANGE"),
    ({"$ref": "#/$defs/a~1b"}, '"x"', "WRONG_TYPE"),
    ({"$ref": "#/$defs/a~0b"}, "1", "WRONG_TYPE"),
    ({"$ref": "#/$defs/a%25b"}, "1", "WRONG_TYPE"),
    ({"$ref": "#/$defs/%C3%A9%20f"}, "1", "WRONG_TYPE"),
    ({"$ref": "#/$defs/é f"}, "[]", None),
    ({"$ref": "#/$defs/all/1"}, '"x"', "WRONG_TYPE"),
    ({"$ref": "#/$defs/all/0"}, '"x"', None),
    ({"$ref": "#/$defs/no"}, "1", "EXTRA_FIELD"),
    ({"$ref": "#/$defs/twice"}, "6", "OUT_OF_RANGE"),
    ({"$ref": "#/$defs/twice"}, "2", "OUT_OF_RANGE"),
    ({"$ref": "#/$defs/twice", "description": "x", "multipleOf": 2}, "5", "OUT_OF_RANGE"),
    ({"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]}, "null", None),
    ({"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]}, "2", "OUT_OF_RANGE"),
    ({"properties": {"$ref": {"$ref": "#/$defs/d"}}}, '{"$ref":"x"}', "WRONG_TYPE"),
    ({"const": {"$ref": "#/$defs/d"}}, '{"$ref":"#/$defs/d"}', None),
]


def whole(schema: Any) -> dict[str, Any]:
    """The schema of an answer with a property ``a``."""
    return {"type": "object", "properties": {"a": schema}, "$defs": DEFS}


@each_engine
@pytest.mark.parametrize("cases", [KEYWORDS, FORMATS, REFERENCES], ids=["keywords", "formats", "references"])
def test_the_code(engine: str, cases: Cases) -> None:
    samples = [Sample(whole(schema), (f'{{"a":{value}}}', "{}"), assert_format=True) for schema, value, _ in cases]
    with checker_of(engine) as checker:
        found = checker(samples)
    given = [codes if isinstance(codes, Exception) else (codes[0], codes[1]) for codes in found]
    # A missing value violates nothing.
    wrong = [(case, codes) for case, codes in zip(cases, given, strict=True) if codes != (case[2], None)]
    assert wrong == []


def test_formats_are_annotations_unless_they_are_asserted() -> None:
    for schema, value, code in FORMATS:
        if "not" not in schema:
            assert se.check_response(whole(schema), f'{{"a":{value}}}') is None, (schema, code)
    assert se.check_response(whole({"format": "hostname"}), '{"a":"-"}') is None
    with pytest.raises(se.SpecError, match='the format "hostname"'):
        se.check_response(whole({"format": "hostname"}), '{"a":"-"}', assert_format=True)


@pytest.mark.parametrize(
    ("schema", "value", "detail"),
    [
        ({"items": {"minLength": 2}}, '["x"]', "a[] is shorter than 2"),
        ({"prefixItems": [{}, {"minimum": 2}]}, "[1,1]", "a[1] is below 2"),
        ({"contains": {}}, "[]", "a has fewer than 1 items of the kind that it must contain"),
        ({"uniqueItems": True}, "[1,1]", "a repeats an item"),
        ({"items": False}, "[1]", "a has more than 0 items"),
        ({"minItems": 2}, "[1]", "a has fewer than 2 items"),
        ({"maxProperties": 0}, '{"x":1}', "a has more than 0 names"),
        ({"patternProperties": {"^x": {"type": "integer"}}}, '{"xy":"x"}', "a.* is not integer"),
        ({"propertyNames": {"maxLength": 1}}, '{"xy":"x"}', "a has a name that propertyNames refuses"),
        ({"dependentRequired": {"x": ["y"]}}, '{"x":1}', "a.y is missing beside x"),
        ({"items": {"additionalProperties": False}}, '[{"y":1}]', "a[] has a name that is not in the schema"),
        ({"type": ["string", "null"]}, "1", "a is not string or null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "null", "a fits none of anyOf"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "null", "a fits not exactly one of oneOf"),
        ({"not": {"type": "null"}}, "null", "a is what not forbids"),
        ({"if": True, "then": {"type": "string"}}, "null", "a does not fit then"),
        (False, "1", "a must not be there"),
    ],
)  # fmt: skip
def test_the_detail_says_where(schema: Any, value: str, detail: str) -> None:
    checks = build_checks(normalise(whole(schema), columns=False)[0])
    found = evaluate_checks(checks, f'{{"a":{value}}}')
    assert found is not None
    assert found[1] == detail


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"$ref": "#/$defs/none"}, '"#/$defs/none" points to nothing in this schema @ schema.properties.a'),
        ({"$ref": "#/$defs/all/2"}, '"#/$defs/all/2" points to nothing in this schema @ schema.properties.a'),
        ({"$ref": "#/$defs/all/-1"}, '"#/$defs/all/-1" points to nothing in this schema @ schema.properties.a'),
        ({"$ref": "#/$defs/all"}, '"#/$defs/all" points to nothing in this schema @ schema.properties.a'),
        ({"$ref": "#d"}, '"#d" points to nothing in this schema @ schema.properties.a'),
        ({"$ref": "https://x/y#/a"}, '"https://x/y#/a" points to nothing in this schema @ schema.properties.a'),
        (
            {"items": {"$ref": "#/properties/a"}},
            '"#/properties/a" refers to itself; a column has a fixed depth @ schema.properties.a.items.items',
        ),
    ],
)
def test_references_that_point_nowhere_or_back(schema: Any, problem: str) -> None:
    with pytest.raises(se.SpecError) as raised:
        se.check_response(whole(schema), "{}")
    assert raised.value.problems == (problem,)


# Schemas of Pydantic --------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    red = "red"
    blue = "blue"


class Inner(pydantic.BaseModel):
    x: int = pydantic.Field(ge=0)
    y: float | None = None


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    name: str


class Model(pydantic.BaseModel):
    """Each way in which a model describes a value."""

    model_config = pydantic.ConfigDict(extra="forbid")
    text: str = pydantic.Field(min_length=1, pattern="^a")
    stars: int | None = pydantic.Field(None, ge=1, le=5, description="out of five")
    label: Literal["p", "q"] | None = None
    color: Color = pydantic.Field(Color.red, description="a color")
    shade: Color | None = None
    inner: Inner = pydantic.Field(Inner(x=1), description="inside")
    other: Inner | None = None
    some: list[Inner] = pydantic.Field([], max_length=2)
    words: list[str] | None = pydantic.Field(None, max_length=1)
    named: dict[str, int] = {}
    mixed: int | str | None = None
    day: datetime.date | None = None
    at: datetime.datetime | None = None
    pair: tuple[int, str] = (1, "a")
    unique: set[int] = set()
    anything: Any = None
    pet: Annotated[Cat | Dog | None, pydantic.Field(discriminator="kind")] = None
    sure: bool = True
    share: float = pydantic.Field(0.5, gt=0, multiple_of=0.5)


INNER = Struct((("x", BIGINT), ("y", DOUBLE)))


def test_a_model_of_pydantic_has_columns() -> None:
    plain, problems = normalise(Model.model_json_schema())
    assert problems == []
    assert output_columns(plain) == {
        "text": STRING, "stars": BIGINT, "label": STRING, "color": STRING, "shade": STRING, "inner": INNER,
        "other": INNER, "some": Array(INNER), "words": Array(STRING), "named": JSON, "mixed": JSON, "day": DATE,
        "at": TIMESTAMP, "pair": JSON, "unique": Array(BIGINT), "anything": JSON, "pet": JSON, "sure": BOOLEAN,
        "share": DOUBLE,
    }  # fmt: skip
    assert plain["properties"]["stars"]["description"] == "out of five"
    assert plain["properties"]["inner"]["description"] == "inside"


MODEL: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"stars": None, "label": None, "shade": None, "other": None, "words": None, "day": None, "pet": None}, None),
    ({"stars": 6}, "OUT_OF_RANGE"),
    ({"stars": "5"}, "WRONG_TYPE"),
    ({"label": "r"}, "NOT_IN_ENUM"),
    ({"color": None}, "WRONG_TYPE"),
    ({"shade": "green"}, "NOT_IN_ENUM"),
    ({"inner": {"x": -1}}, "OUT_OF_RANGE"),
    ({"other": {"x": -1}}, "OUT_OF_RANGE"),
    ({"other": {}}, "MISSING_FIELD"),
    ({"some": [{"x": 1}, {"x": 1, "y": None}]}, None),
    ({"some": [{"x": 1}, {"x": 1, "y": "2"}]}, "WRONG_TYPE"),
    ({"words": ["a", "b"]}, "BAD_ITEMS"),
    ({"named": {"x": 1, "y": "2"}}, "WRONG_TYPE"),
    ({"mixed": "x"}, None),
    ({"mixed": 1.5}, "SCHEMA"),
    ({"day": "2026-02-30"}, "BAD_PATTERN"),
    ({"at": "2026-02-28T10:00:00Z"}, None),
    ({"pair": [1, "a"]}, None),
    ({"pair": ["a", 1]}, "WRONG_TYPE"),
    ({"pair": [1]}, "BAD_ITEMS"),
    ({"unique": [1, 1]}, "BAD_ITEMS"),
    ({"anything": [{"x": [None]}]}, None),
    ({"pet": {"kind": "cat", "lives": 9}}, None),
    ({"pet": {"kind": "cat", "name": "x"}}, "SCHEMA"),
    ({"share": 1.25}, "OUT_OF_RANGE"),
    ({"z": 1}, "EXTRA_FIELD"),
]


@each_engine
def test_a_model_of_pydantic_gives_the_codes(engine: str) -> None:
    answers = [{"text": "a", **more} for more, _ in MODEL]
    texts = tuple(json.dumps(answer) for answer in answers)
    with checker_of(engine) as checker:
        (found,) = checker([Sample(Model.model_json_schema(), texts, assert_format=True)])
    assert found == [code for _, code in MODEL]

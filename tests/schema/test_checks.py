"""Hard cases of the answer checks: one table of schemas and answers, judged in Python and by each engine's SQL."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlglot import exp

import sqlenrich as se
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    JSON,
    STRING,
    TIMESTAMP,
    Array,
    Coerced,
    Decimal,
    Struct,
    Type,
)
from sqlenrich.engines import get_engine
from tests.prompt.test_conformance import plain, select

ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]
each_engine = pytest.mark.parametrize("engine", ENGINES)

NAMES = (
    '"', "'", "\\", "a.b", "a[0]", "$", "", " ", " a", "a ", "?", "*", "~", "/", "~1", "a/b", "0", "-1", "\n", "\t",
    "]", '"]["',
    "ü", "😀", "${x}", "`", "--", "%s", "a\\'b", "#", "@", "NULL",
)  # fmt: skip
"""Names that a path of some engine can't quote."""


def one(**keywords: Any) -> dict[str, Any]:
    """The schema of an object with one property, ``a``."""
    return {"type": "object", "properties": {"a": keywords}}


def a(text: str) -> str:
    """The answer that holds this JSON as ``a``."""
    return f'{{"a": {text}}}'


def codes(code: str | None, *texts: str) -> list[tuple[str, str | None]]:
    return [(a(text), code) for text in texts]


SCHEMAS: dict[str, tuple[dict[str, Any], list[tuple[str, str | None]]]] = {
    "odd names, required": (
        {"type": "object", "properties": {name: {"type": "integer"} for name in NAMES}, "required": list(NAMES)},
        [
            (json.dumps(dict.fromkeys(NAMES, 1)), None),
            *((json.dumps({n: 1 for n in NAMES if n != name}), "MISSING_FIELD") for name in NAMES),
            *((json.dumps({**dict.fromkeys(NAMES, 1), name: "1"}), "WRONG_TYPE") for name in NAMES),
            *((json.dumps({**dict.fromkeys(NAMES, 1), name: None}), "WRONG_TYPE") for name in NAMES),
        ],
    ),
    "odd names inside": (
        {"type": "object", "properties": {name: one(const=1) for name in NAMES}, "additionalProperties": False},
        [
            *((json.dumps({name: {"a": 1}}), None) for name in NAMES),
            *((json.dumps({name: {"a": 2}}), "NOT_IN_ENUM") for name in NAMES),
            *((json.dumps({name + "x": {"a": 1}}), "EXTRA_FIELD") for name in NAMES if name != "x"),
        ],
    ),
    "names of digits are no positions": (
        {"type": "object", "properties": {"a": {"properties": {"0": {"const": 1}}, "required": ["0"]}}},
        [*codes(None, "[2]", '"x"', "5", "null", '{"0": 1}'), *codes("MISSING_FIELD", "{}")],
    ),
    "positions are no names": (one(prefixItems=[{"const": 1}]), codes(None, '{"0": 2}', "[]", "[1, 2]", "5")),
    "names by pattern": (
        {
            "type": "object",
            "patternProperties": {"^[\"']": {"type": "string"}, r"\\$": {"type": "null"}},
            "additionalProperties": {"type": "integer"},
        },
        [
            (json.dumps({'"x': "y", "'x": "y", "a\\": None, "": 1}), None),
            (json.dumps({'"x': 1}), "WRONG_TYPE"),
            (json.dumps({"'\\": "y"}), "WRONG_TYPE"),
            (json.dumps({"b": "y"}), "WRONG_TYPE"),
        ],
    ),
    "names of names": (
        {
            "type": "object",
            "properties": {"a": {"propertyNames": {"maxLength": 1, "not": {"enum": ["b", "😁"]}}}},
            "maxProperties": 1,
        },
        [
            *codes(None, '{"c": 1, "😀": 1}', "[1, 2]", '"bb"', "{}"),
            *codes("SCHEMA", '{"b": 1}', '{"cc": 1}', '{"😁": null}'),
            ('{"a": {}, "b": {}}', "SCHEMA"),
        ],
    ),
    "counts of what is none": (
        one(minProperties=2, minItems=2, minLength=2),
        [
            *codes(None, "1", "null", "true", "[1, 2]", '"ab"', '{"a": null, "b": null}'),
            *codes("SCHEMA", '{"a": 1}', "{}"),
            *codes("BAD_ITEMS", "[]", "[null]"),
            *codes("BAD_LENGTH", '""', '"😀"'),
        ],
    ),
    "one of, in items": (
        one(
            type="array",
            items={
                "oneOf": [
                    {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
                    {
                        "type": "object",
                        "properties": {"c": {"type": "array", "items": {"type": "integer"}}},
                        "required": ["c"],
                    },
                    {"type": "integer", "oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]},
                ]
            },
        ),
        [
            *codes(None, "[]", '[{"b": "x"}, {"c": []}, 2, 9]', '[{"b": 1, "c": [1]}]'),
            *codes("SCHEMA", "[6]", "[1]", '[{"b": "x", "c": [1]}]', '[{"c": ["1"]}]', "[null]", "[[2]]", '[2, "b"]'),
            *codes("WRONG_TYPE", "{}", "null"),
        ],
    ),
    "any of, nested": (
        one(
            anyOf=[
                {"type": "array", "items": {"anyOf": [{"type": "null"}, {"minimum": 3}]}},
                {"not": {"type": ["array", "object"]}},
            ]
        ),
        [*codes(None, '[null, 3, "x"]', "2", "null", '""'), *codes("SCHEMA", "[2]", "{}", "[3, 2]")],
    ),
    "if, then, else": (
        {
            "type": "object",
            "if": {"properties": {"a": {"const": "x"}}, "required": ["a"]},
            "then": {"required": ["b"]},
            "else": {"properties": {"b": False}},
        },
        [
            ('{"a": "x", "b": null}', None),
            ('{"a": "x"}', "SCHEMA"),
            ('{"a": "y"}', None),
            ("{}", None),
            ('{"b": 1}', "SCHEMA"),
            ('{"a": null, "b": 1}', "SCHEMA"),
        ],
    ),
    "dependents": (
        {
            "type": "object",
            "dependentRequired": {"a'": ["b.c"]},
            "dependentSchemas": {"d": {"maxProperties": 1}},
        },
        [
            ('{"a\'": null, "b.c": 1}', None),
            ('{"a\'": null, "b": {"c": 1}}', "MISSING_FIELD"),
            ('{"d": 1}', None),
            ('{"d": null, "e": 1}', "SCHEMA"),
        ],
    ),
    "contains, in arrays of arrays": (
        one(items={"contains": {"contains": {"const": 1}, "minContains": 2}, "maxContains": 1}),
        [
            *codes(None, "[]", "[[[1, 1]]]", "[[[1.0, 1], [1]]]", '[[["1"], [1, 2, 1]]]', '["x"]', "{}"),
            *codes("BAD_ITEMS", "[[]]", "[[[1]]]", "[[[1, 1], [1, 1]]]", "[[1, 1]]"),
        ],
    ),
    "contains none": (
        one(contains={"type": "null"}, minContains=0, maxContains=0),
        [*codes(None, "[1]", "null"), *codes("BAD_ITEMS", "[null]")],
    ),
    "items after the first": (
        one(prefixItems=[{"type": "string"}, {"enum": [1, None]}], items={"type": "boolean"}),
        [
            *codes(None, '["x", 1, true, false]', '["x"]', "[]", '["x", null]'),
            *codes("WRONG_TYPE", '["x", 1, 1]', "[1]", '["x", 1, true, null]'),
            *codes("NOT_IN_ENUM", '["x", "1"]', '["x", true]', '["x", [1]]'),
        ],
    ),
    "no item after the first": (
        one(prefixItems=[True], items=False),
        [*codes(None, "[1]", "[]", "{}"), *codes("BAD_ITEMS", "[1, null]")],
    ),
    "a constant object": (
        one(const={"b": [1, {"c": None}], 'd"': "x", "e": True, "f": 1.5}),
        [
            *codes(
                None,
                '{"b": [1, {"c": null}], "d\\"": "x", "e": true, "f": 1.5}',
                '{"f": 15e-1, "e": true, "d\\u0022": "\\u0078", "b": [1.0, {"c": null}]}',
            ),
            *codes(
                "NOT_IN_ENUM",
                '{"b": [1, {"c": null}], "d\\"": "x", "e": 1, "f": 1.5}',
                '{"b": [1, {"c": null}], "d\\"": "x", "e": true}',
                '{"b": [1, {"c": null}], "d\\"": "x", "e": true, "f": 1.5, "g": null}',
                '{"b": [1, {}], "d\\"": "x", "e": true, "f": 1.5}',
                '{"b": [{"c": null}, 1], "d\\"": "x", "e": true, "f": 1.5}',
                '{"b": [1, {"c": null}, 1], "d\\"": "x", "e": true, "f": "1.5"}',
                '{"b": {"0": 1}, "d\\"": "x", "e": true, "f": 1.5}',
                "null",
                "[]",
            ),
        ],
    ),
    "values of all types": (
        one(enum=["1", 1.5, False, None, [], {}, "", -7]),
        [
            *codes(None, '"1"', "1.5", "false", "null", "[]", "{}", '""', "-7", "-7.0", "-70e-1"),
            *codes("NOT_IN_ENUM", "1", "0", '"false"', '"null"', "[null]", '{"": 1}', '" "', '"-7"', "true"),
        ],
    ),
    "wide values": (
        one(enum=[2**53 + 1, 2**63 - 1]),
        [
            *codes(None, "9007199254740993", "9223372036854775807"),
            *codes("NOT_IN_ENUM", "9007199254740992", "9007199254740994", "9223372036854775806", "1e400", "1.5"),
        ],
    ),
    "limits wider than decimals": (
        one(maximum=10**40, exclusiveMinimum=-(10**40)),
        [
            *codes(None, "1", f"1{'0' * 40}", '"x"', "[1e300]"),
            *codes("OUT_OF_RANGE", "1.1e40", f"2{'0' * 40}", "1e400", "-1e40", "-1e308"),
        ],
    ),
    "unique": (
        one(uniqueItems=True),
        [
            *codes(
                None,
                '[1, "1", true, "true", null, "null", [], {}, "[]", "{}", [1], ["1"], 1.5, 0, false, ""]',
                '[{"a": 1}, {"a": "1"}, {"b": 1}, {}, {"a": null}, {"a": [1]}, {"a": 1, "b": 2}]',
                '[[1, 2], [2, 1], [[1], 2], [[1, 2]], ["1,2"], ["1", "2"], [12]]',
                '["a", "A", "á", "a\\u0301", " a", "a\\u0000", "\\u0000"]',
                "[9007199254740993, 9007199254740992, 9223372036854775807, 9223372036854775806]",
                '[{"a,b": 1}, {"a": 1, "b": 1}, {"1:a": 1}]',
                "{}",
                "[]",
                "1",
                "null",
            ),
            *codes(
                "BAD_ITEMS",
                "[1, 1.0]",
                "[100, 1e2]",
                "[0, -0]",
                "[0.0, -0.0]",
                "[1.10, 1.1]",
                "[5e-1, 0.50]",
                '["a", "\\u0061"]',
                "[null, null]",
                "[true, 1, true]",
                "[[], []]",
                "[{}, 1, {}]",
                '[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]',
                '[[1, {"x": null}], [1.0, {"x": null}]]',
                "[18446744073709551616, 18446744073709551617]",
                "[1e300, 10e299]",
                "[1e400, 1e401]",
                "[[[[[1]]]], [[[[2]]]]]",
            ),
        ],
    ),
    "unique scalars": (
        one(type="array", items={"type": ["string", "number", "null"]}, uniqueItems=True),
        [*codes(None, '["1", 1, null]'), *codes("BAD_ITEMS", "[1, 1.0]", "[null, null]", '["x", "x"]')],
    ),
    "multiples of a decimal": (
        one(multipleOf=0.01),
        [
            *codes(None, "0", "-0.0", "4.02", "19.99", "1.1", "-0.07", "1e2", "1e19", "123456789.12", '"x"', "0.070"),
            *codes(
                "OUT_OF_RANGE", "0.001", "19.995", "1e-19", "1e20", "1e400", "-1e300", "0.010000000000000002", "1e-300"
            ),
        ],
    ),
    "multiples of the least decimal": (
        one(multipleOf=1e-18),
        [*codes(None, "1e-18", "0.5", "12345678901234567890"), *codes("OUT_OF_RANGE", "1e-19", "1.5e-18", "1e20")],
    ),
    "multiples of a large number": (
        one(type="integer", multipleOf=10**18),
        [*codes(None, "0", "9000000000000000000", "-1e18"), *codes("OUT_OF_RANGE", "1", "9000000000000000001", "1e19")],
    ),
    "whole numbers": (
        one(type="integer"),
        [
            *codes(
                None, "5", "5.0", "-0", "-0.0", "1e2", "9223372036854775807", "-9223372036854775808", "1.5e1", "0e-400"
            ),
            *codes(
                "OUT_OF_RANGE", "9223372036854775808", "9.223372036854775808E18", "1e19", "1e400", "-1e300", "1" * 40
            ),
            *codes("WRONG_TYPE", "5.5", '"5"', "true", "null", "[5]", "{}", "1e-1", "1e-300"),
        ],
    ),
    "any whole number": (
        one(contains={"type": "integer", "minimum": 1e300}),
        [*codes(None, "[1e300, 0.5]", "[1e400]"), *codes("BAD_ITEMS", "[1e299]", '["1e300"]', "[-1e400]", "[]")],
    ),
    "numbers": (
        one(type="number", exclusiveMaximum=0.3, minimum=-1),
        [
            *codes(None, "0.29999999999999993", "-1", "-1.00000000000000000001", "0.1", "1e-400"),
            *codes("OUT_OF_RANGE", "0.3", "0.30000000000000000001", "1e400", "-1e400", "-1.1"),
        ],
    ),
    "whole numbers in texts": (
        one(type="integer", coerce=True, minimum=-5, maximum=10, multipleOf=5),
        [
            *codes(None, '"5"', '"5.0"', '"-5.000"', "10", "10.0", '"-0"', '"0.0"', "1e1"),
            *codes(
                "WRONG_TYPE",
                '"5.5"',
                '" 5"',
                '""',
                '"05"',
                '"five"',
                "true",
                "null",
                '"1e1"',
                '"+5"',
                '"5."',
                '"NaN"',
                "[5]",
            ),
            *codes(
                "OUT_OF_RANGE",
                '"15"',
                "15",
                '"-10.0"',
                '"7"',
                '"9223372036854775808"',
                '"9223372036854775808.0"',
                '"1' + "0" * 400 + '"',
                "1e400",
            ),
        ],
    ),
    "values that are whole numbers in texts": (
        one(type=["integer", "null"], coerce=True, enum=[1, 2, None]),
        [
            *codes(None, '"1"', '"2.0"', "2", "1.0", "null"),
            *codes("NOT_IN_ENUM", '"3"', "0"),
            *codes("WRONG_TYPE", '"null"', "1.5"),
        ],
    ),
    "numbers in texts": (
        one(type="number", coerce=True, maximum=2.5),
        [
            *codes(None, '"2.5"', '"-1e3"', "2.5", '"0.1"', '"1E-400"'),
            *codes("WRONG_TYPE", '"inf"', '"Infinity"', '"nan"', '".5"', '"2,5"', '"0x1"', '"1d"', '"1f"', "false"),
            *codes("OUT_OF_RANGE", '"2.6"', "3", '"1e400"', '"-1e400"'),
        ],
    ),
    "booleans in texts": (
        one(type="boolean", coerce=True),
        [
            *codes(None, "true", "false", '"true"', '"FALSE"', '"True"'),
            *codes("WRONG_TYPE", '"yes"', '"t"', '"1"', "1", "0", '" true"', "null", '""', '"ſalse"'),
        ],
    ),
    "a boolean in a text, of an enum": (
        one(type="boolean", coerce=True, enum=[False]),
        [
            *codes(None, '"false"', '"FALSE"', "false"),
            *codes("NOT_IN_ENUM", "true", '"true"'),
            *codes("WRONG_TYPE", '"no"', "null", "0"),
        ],
    ),
    "values in any case": (
        one(type="string", coerce=True, enum=["Ask", "kiss", "İ".encode("ascii", "ignore").decode() + "i"]),
        [
            *codes(None, '"ASK"', '"ask"', '"KiSs"', '"I"'),
            *codes("NOT_IN_ENUM", '"\u212aiss"', '"a sk"', '"\u0130"', '""'),
            *codes("WRONG_TYPE", "1"),
        ],
    ),
    "formats": (
        {
            "type": "object",
            "properties": {name: {"format": name} for name in ("date", "date-time", "time", "email", "uuid", "uri")},
        },
        [
            (json.dumps({name: value}), code)
            for name, code, values in (
                ("date", None, ("2024-02-29", "0001-01-01", "9999-12-31", 5, None, ["x"])),
                (
                    "date",
                    "BAD_PATTERN",
                    ("2023-02-29", "1900-02-29", "2024-04-31", "0000-01-01", "2024-2-1", "2024-01-01 ", ""),
                ),
                (
                    "date-time",
                    None,
                    ("2024-02-29T23:59:59Z", "2024-01-01t00:00:00.123456789z", "2024-01-01T00:00:00+14:00", 1),
                ),
                (
                    "date-time",
                    "BAD_PATTERN",
                    (
                        "2023-02-29T00:00:00Z",
                        "2024-01-01T24:00:00Z",
                        "2024-01-01T00:00:60Z",
                        "2024-01-01T00:00:00",
                        "2024-01-01 00:00:00Z",
                        "0001-01-01T00:00:00+01:00",
                        "2024-01-01T00:00:00+14:01",
                    ),
                ),
                ("time", None, ("00:00:00Z", "23:59:59.9-00:30")),
                ("time", "BAD_PATTERN", ("24:00:00Z", "00:00:00", "1:00:00Z")),
                ("email", None, ("a@b", "a.b+c@d-e.f")),
                ("email", "BAD_PATTERN", ("a", "@b", "a@", "a@b_c", "a@-b", "a@b\n")),
                ("uuid", None, ("2eb8aa08-AA98-11ea-b4aa-73b441d16380",)),
                ("uuid", "BAD_PATTERN", ("2eb8aa08aa9811eab4aa73b441d16380", "")),
                ("uri", None, ("http://a.b/c?d=e#f", "a:", "a:%20%C3%A9", "u:" + "x" * 5000)),
                ("uri", "BAD_PATTERN", ("//a", "a:b c", "a:%2", "a:#b#c", "a:é", ":a")),
            )
            for value in values
        ],
    ),
    "nothing but the formats of texts": (
        one(type=["string", "null", "integer"], format="date"),
        [*codes(None, "null", "20240101", '"2024-01-01"'), *codes("BAD_PATTERN", '"20240101"')],
    ),
    "not": (
        one(**{"not": {"type": "object", "required": ["b"], "properties": {"b": {"not": {"const": None}}}}}),
        [*codes(None, "{}", "1", "null", '{"b": null}', '[{"b": 1}]'), *codes("SCHEMA", '{"b": 1}', '{"b": "null"}')],
    ),
    "nothing": (
        {"type": "object", "properties": {"a": False}},
        [("{}", None), ('{"b": 1}', None), *codes("EXTRA_FIELD", "1", "null")],
    ),
    "deep": (
        one(
            items={"items": {"items": {"properties": {"b": {"items": {"maximum": 1}}}, "additionalProperties": False}}}
        ),
        [
            *codes(None, '[[[{"b": [1]}]]]', "[[[1]]]", '[[["b"]]]', '[[{"c": 1}]]'),
            *codes("OUT_OF_RANGE", '[[], [[], [{"b": [1, 2]}]]]'),
            *codes("EXTRA_FIELD", '[[[{"c": 1}]]]'),
        ],
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_reference_gives_the_expected_code(name: str) -> None:
    schema, answers = SCHEMAS[name]
    found = {text: se.check_response(schema, text, assert_format=True) for text, _ in answers}
    assert found == dict(answers)


@each_engine
@pytest.mark.parametrize("name", SCHEMAS)
def test_check_sql_gives_the_expected_code(name: str, engine: str) -> None:
    schema, answers = SCHEMAS[name]
    sql = f"SELECT n, {se.check_sql(schema, engine, 'response', assert_format=True)} FROM source"
    rows = [(n, text) for n, (text, _) in enumerate(answers)]
    found: dict[Any, Any] = dict(select(engine, sql, {"n": BIGINT, "response": STRING}, rows))
    assert {answers[n][0]: code for n, code in found.items()} == dict(answers)


PLACE = Struct((("city", STRING), ("tags", Array(STRING))))
COLUMNS: list[tuple[Type, str, Any]] = [
    (JSON, '{"x": [1, "a", null]}', {"x": [1, "a", None]}),
    (JSON, '"null"', "null"),
    (JSON, "null", None),
    (JSON, "[]", []),
    (DATE, '"2024-02-29"', "2024-02-29"),
    (DATE, "null", None),
    (TIMESTAMP, '"2024-01-31T10:00:00Z"', "2024-01-31 10:00:00"),
    (TIMESTAMP, '"2024-01-31t10:00:00.5z"', "2024-01-31 10:00:00.500000"),
    (TIMESTAMP, '"2024-01-31T10:00:00.1234569+05:30"', "2024-01-31 04:30:00.123456"),
    (TIMESTAMP, '"2024-01-31T23:00:00-14:00"', "2024-02-01 13:00:00"),
    (TIMESTAMP, "null", None),
    (Coerced(BIGINT), '"5.0"', 5),
    (Coerced(BIGINT), '"-12"', -12),
    (Coerced(BIGINT), "7.0", 7),
    (Coerced(BIGINT), "null", None),
    (Coerced(DOUBLE), '"1.5e1"', 15.0),
    (Coerced(DOUBLE), "2", 2.0),
    (Coerced(BOOLEAN), '"TRUE"', True),
    (Coerced(BOOLEAN), "false", False),
    (Coerced(STRING, ("Ask", "Kiss")), '"ASK"', "Ask"),
    (Coerced(STRING, ("Ask", "Kiss")), "null", None),
    (Array(Coerced(BIGINT)), '["1", 2, null]', [1, 2, None]),
    (Array(BIGINT), "null", None),
    (Array(Array(DOUBLE)), "[[1], [], null]", [[1.0], [], None]),
    (PLACE, '{"tags": ["x"], "city": "y"}', ("y", ["x"])),
    (PLACE, "{}", (None, None)),
    (PLACE, "null", None),
    (Decimal(10, 2), "19.99", "19.99"),
    (Decimal(30, 10), '"12345678901234567890.0123456789"', "12345678901234567890.0123456789"),
]


@each_engine
def test_columns(engine: str) -> None:
    words = get_engine(engine)
    parts: list[str] = []
    for n, (kind, _, _) in enumerate(COLUMNS):
        value = words.typed_column(words.json.get(words.json.accepted(exp.column("response")), "a"), kind)
        if kind in (TIMESTAMP, DATE):
            value = (words.text.text_timestamp if kind == TIMESTAMP else words.text.text_date)(value)
        if isinstance(kind, Decimal):
            value = words.text.text_decimal(value, kind)
        parts.append(f"SELECT {n} AS n, {print_sql(words, value)} AS v FROM source WHERE n = {n}")
    rows = [(n, a(text)) for n, (_, text, _) in enumerate(COLUMNS)]
    for n, part in enumerate(parts):
        ((_, found),) = select(engine, part, {"n": BIGINT, "response": STRING}, rows[n : n + 1])
        kind, text, expected = COLUMNS[n]
        found = json.loads(found) if kind == JSON and found is not None else plain(found)
        assert (text, found) == (text, expected)

"""Hard answers on BigQuery, by Google's evaluator: the codes that the reference gives, and the values of columns."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from sqlglot import exp

import sqlenrich as se
from sqlenrich.core.printer import print_sql
from sqlenrich.engines import get_engine
from sqlenrich.schema import normalise, output_columns
from tests.support.hostile import HOSTILE

Answers = dict[str, str | None]
ODD = ["a b", "", 'q"x', "b\\s", "d.t", "$", "'", "`", "n\nl", "\u0001", "é", "💩", "1", "-", '"', '"x"', "[0]", "${x}"]
LIMIT = 1_000_000
"""BigQuery takes a query of so many characters."""


def of(value: Any, **more: Any) -> dict[str, Any]:
    """The schema of an answer with one value, ``v``."""
    return {"type": "object", "properties": {"v": value}, **more}


def answers(code: str | None, *values: str) -> Answers:
    """Answers whose value is written so."""
    return {f'{{"v": {value}}}': code for value in values}


CASES: dict[str, tuple[dict[str, Any], Answers]] = {
    "odd names of properties": (
        {
            "type": "object",
            "properties": {name: {"type": "integer"} for name in ODD},
            "required": ODD,
            "additionalProperties": False,
        },
        {
            json.dumps(dict.fromkeys(ODD, 1)): None,
            json.dumps(dict.fromkeys(ODD, 1), ensure_ascii=False): None,
            json.dumps(dict.fromkeys(ODD[1:], 1)): "MISSING_FIELD",
            json.dumps({**dict.fromkeys(ODD, 1), "x": 1}): "EXTRA_FIELD",
            json.dumps({**dict.fromkeys(ODD, 1), '"q': 1}): "EXTRA_FIELD",
            **{json.dumps({**dict.fromkeys(ODD, 1), name: "1"}): "WRONG_TYPE" for name in ODD},
            **{json.dumps({n: 1 for n in ODD if n != name}): "MISSING_FIELD" for name in ODD},
        },
    ),
    "names of a value that is no object": (
        of({"properties": {"0": {"type": "string"}, "a": {"type": "string"}}, "dependentRequired": {"a": ["b"]}}),
        answers(None, "[1, 2]", '"a"', "7", "null", "{}", '{"0": "x"}', '{"a": "x", "b": 1}')
        | answers("WRONG_TYPE", '{"0": 1}')
        | answers("MISSING_FIELD", '{"a": "x"}'),
    ),
    "names by patterns": (
        of(
            {
                "type": "object",
                "properties": {"a.b": {}},
                "patternProperties": {'^"': {"type": "integer"}, "\\\\$": {"type": "string"}, "^$": {"type": "null"}},
                "additionalProperties": {"type": "boolean"},
            }
        ),
        answers(None, "{}", '{"a.b": 1}', r'{"\"": 1, "x\\": "", "": null, "e": true}', r'{"\u0022x": 1}')
        | answers(
            "WRONG_TYPE", r'{"\"": "1"}', r'{"x\\": 1}', '{"": 1}', '{"e": 1}', r'{"\"x\\": 1}', '{"a": {"b": 1}}'
        ),
    ),
    "what names may be": (
        of({"type": "object", "propertyNames": {"maxLength": 2, "pattern": '^[a-z"\\\\é💩.]*$'}}),
        answers(None, "{}", '{"": 1, "ab": 2}', r'{"\"\"": 1}', r'{"\\.": 1}', '{"é💩": 1}', r'{"\u00e9": 1}')
        | answers("SCHEMA", '{"abc": 1}', r'{"\\\\\\": 1}', r'{"a\n": 1}', '{"a b": 1}', '{"A": 1}'),
    ),
    "members of members": (
        of({"additionalProperties": {"additionalProperties": {"items": {"type": "integer"}}}}),
        answers(None, '{"a.b": {"c": [1, 2]}}', '{"a": {"b": {"c": 1}}}', "[]")
        | answers("WRONG_TYPE", '{"a.b": {"\\"": [1, "x"]}}', '{"": {"": [null]}}'),
    ),
    "oneOf in items": (
        of(
            {
                "type": "array",
                "items": {
                    "oneOf": [
                        {"type": "integer", "multipleOf": 2},
                        {"type": "integer", "multipleOf": 3},
                        {"type": "object", "properties": {"k": {"oneOf": [{"type": "string"}, {"maxLength": 2}]}}},
                    ]
                },
            }
        ),
        answers(None, "[]", "[2, 3, 4, 9]", '[{"k": "abc"}, {}]', '[{"k": 7}]', '[{"x": 1}, 2.0]')
        | answers("SCHEMA", "[6]", "[5]", "[2, 3, 12]", '[{"k": "ab"}]', '["a"]', "[null]", "[2.5]", "[[]]"),
    ),
    "anyOf, not, if": (
        of(
            {
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "not": {"required": ["c"]},
                "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
                "then": {"required": ["b"]},
                "else": {"properties": {"b": {"type": "string"}}},
            }
        ),
        answers(None, '{"a": 2}', '{"a": 1, "b": 1}', '{"b": "x"}', '{"a": null}')
        | answers("SCHEMA", "{}", '{"a": 2, "c": 1}', '{"a": 1}', '{"a": 1.0}', '{"b": 1}'),
    ),
    "contains over arrays": (
        of(
            {
                "type": "array",
                "contains": {"type": "array", "contains": {"const": 5}, "minItems": 2},
                "minContains": 1,
                "maxContains": 2,
            }
        ),
        answers(None, "[[5, 1]]", "[1, [5, 5], [1, 5]]", "[[1, 2], [5.0, null]]")
        | answers("BAD_ITEMS", "[]", "[[5]]", "[5, 5]", "[[1, 2]]", "[[5, 1], [5, 2], [5, 3]]", '[["5", 1]]'),
    ),
    "contains none": (
        of({"type": "array", "contains": {"type": "string"}, "minContains": 0, "maxContains": 1}),
        answers(None, "[]", "[1]", '["a", 1]') | answers("BAD_ITEMS", '["a", "b"]'),
    ),
    "first items, then others": (
        of({"prefixItems": [{"type": "string"}, {"enum": [1, None]}], "items": {"type": "boolean"}, "maxItems": 4}),
        answers(None, "[]", '["a"]', '["a", null, true]', '["a", 1.0, true, false]', '{"0": 1}', "7")
        | answers("WRONG_TYPE", "[1]", '["a", 1, true, 1]')
        | answers("NOT_IN_ENUM", '["a", 2]', '["a", "1"]')
        | answers("BAD_ITEMS", '["a", 1, true, true, true]'),
    ),
    "const objects and arrays": (
        of({"enum": [{"a": [1, {"b": None}], "": "x"}, [[], {}], "a", 1.5, True, 0]}),
        answers(
            None,
            *('{"": "x", "a": [1.0, {"b": null}]}', "[[], {}]", '"a"', "1.5", "15e-1", "true", "0", "-0.0"),
        )
        | answers(
            "NOT_IN_ENUM",
            *('{"": "x", "a": [1, {"b": 0}]}', '{"": "x", "a": [1, {}]}', '{"a": [1, {"b": null}]}', "[{}, []]", "[]"),
            *('{"": "x", "a": [1, {"b": null}], "c": 1}', "{}", "null", "1", "false", '"true"', '"1.5"', "[[], {}, 1]"),
        ),
    ),
    "items that must differ": (
        of({"type": "array", "uniqueItems": True}),
        answers(
            None,
            *("[]", '[1, "1", true, "true", null, "null", [], {}, "", [[]], [{}]]', '["a,b", "a", "b"]', "[1, 1.5]"),
            *('[["a", "b"], ["a,b"], ["ab"]]', '[{"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1}]', "[0, false, [0]]"),
            *('[{"a": "1b"}, {"a1": "b"}]', '["1:a", "a"]', "[9007199254740992, 9007199254740993]", '["a", "A"]'),
            *(
                "[[[1]], [[2]]]",
                '["é", "e\u0301"]',
                "[[1, 2], [2, 1]]",
            ),
        )
        | answers(
            "BAD_ITEMS",
            *("[1, 2, 1.0]", "[0, -0.0]", "[1e2, 100]", '["é", "\\u00e9"]', "[null, null]", "[[], []]", "[{}, {}]"),
            *('[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]', "[1e300, 1e300]", "[0.1, 1e-1]", "[[1, [2]], [1.0, [2]]]"),
            *('[{"": 1}, {"": 1}]', '[{"\\"": 1}, {"\\u0022": 1}]', "[[[[[1]]]]]", '[{"a": {"b": {"c": {}}}}]'),
            *("[1, 18446744073709551616, 18446744073709551616.0]", "[true, 1, true]"),
        ),
    ),
    "scalars that must differ": (
        of({"type": "array", "items": {"type": ["string", "number", "null"]}, "uniqueItems": True}),
        answers(None, '[1, "1", null, "null", 2.5]') | answers("BAD_ITEMS", "[1, 1.0]", '["a", "a"]', "[null, null]"),
    ),
    "multiples of a decimal": (
        of({"type": "number", "multipleOf": 0.01}),
        answers(None, "0", "-0.0", "0.07", "19.99", "4.35", "1e19", "-0.29", "99999999999999990000", "1.1e1")
        | answers(
            "OUT_OF_RANGE", "0.005", "0.07000000000000002", "1e20", "1e300", "1e-300", "1e-40", "5e-324", "1e-19"
        ),
    ),
    "multiples of a small decimal": (
        of({"type": "number", "multipleOf": 1e-16}),
        answers(None, "0.1234567890123456", "0.3", "1e-16", "1")
        | answers("OUT_OF_RANGE", "0.30000000000000004", "1e-17", "0.12345678901234567"),
    ),
    "multiples of whole numbers": (
        of({"properties": {"i": {"type": "integer", "multipleOf": 7}, "n": {"multipleOf": 3}}}),
        answers(None, '{"i": 0, "n": 9007199254740990}', '{"i": -14.0}', '{"n": "x", "i": 9223372036854775807}')
        | answers(
            "OUT_OF_RANGE",
            '{"i": 1}',
            '{"i": 9223372036854775808}',
            '{"n": 4}',
            '{"n": 9007199254740993}',
            '{"n": 1.5}',
        ),
    ),
    "numbers of any size": (
        of({"properties": {"i": {"type": "integer"}, "n": {"maximum": 10**30, "not": {"const": 10**25}}}}),
        answers(
            None,
            *('{"i": -9223372036854775808, "n": 1e30}', '{"i": 1e18, "n": 1000000000000000000000000000000}'),
            '{"i": 10.0, "n": -1e300}',
        )
        | answers(
            "OUT_OF_RANGE", '{"i": 9223372036854775808}', '{"i": -9223372036854775809}', '{"n": 1.1e30}', '{"i": 1e19}'
        )
        | answers("WRONG_TYPE", '{"i": 1.5}', '{"i": 1e-300}')
        | answers("SCHEMA", '{"n": 1e25}', '{"n": 10000000000000000000000000}'),
    ),
    "wide integers in an enum": (
        of({"enum": [9007199254740993, 1]}),
        answers(None, "9007199254740993", "1.0")
        | answers("NOT_IN_ENUM", "9007199254740992", "9007199254740994", "1.5", "1e19", "9223372036854775808"),
    ),
    "integers in an enum": (
        of({"items": {"anyOf": [{"type": "integer", "enum": [1, 2]}, {"const": "1"}]}, "type": ["array", "integer"]}),
        answers(None, '[1, 2.0, "1"]', "7") | answers("SCHEMA", "[1e19]", "[3]", "[1.5]", '["2"]', "[-1e300]"),
    ),
    "an enum of integers": (
        of({"type": ["integer", "null"], "enum": [1, 2, None]}),
        answers(None, "1", "2.0", "null") | answers("NOT_IN_ENUM", "3", "1e19") | answers("WRONG_TYPE", "1.5", '"1"'),
    ),
    "texts where coerced": (
        of(
            {
                "properties": {
                    "i": {"type": "integer", "minimum": 2, "coerce": True},
                    "n": {"type": ["number", "null"], "multipleOf": 0.5, "coerce": True},
                    "b": {"type": "boolean", "coerce": True},
                    "e": {"type": "string", "enum": ["Yes", "no"], "coerce": True},
                }
            }
        ),
        answers(
            None,
            *('{"i": "7", "n": "1.5", "b": "TRUE", "e": "yES"}', '{"i": "2.0", "n": "1e3"}', '{"n": null, "b": false}'),
        )
        | answers(
            "WRONG_TYPE",
            *('{"i": "7.5"}', '{"i": " 7"}', '{"i": "inf"}', '{"n": "nan"}', '{"n": ""}', '{"b": "1"}', '{"b": 1}'),
            *('{"n": "0x1"}', '{"n": "1_0"}', '{"i": null}', '{"n": true}', '{"e": 1}'),
        )
        | answers("NOT_IN_ENUM", '{"e": "\u212aes"}', '{"e": "yes "}')
        | answers("OUT_OF_RANGE", '{"i": "1"}', '{"i": "9223372036854775808"}', '{"n": "1e400"}', '{"n": "0.3"}'),
    ),
    "formats": (
        of(
            {
                "properties": {
                    "d": {"type": "string", "format": "date"},
                    "t": {"type": ["string", "null"], "format": "date-time"},
                    "u": {"format": "uuid"},
                    "m": {"type": "string", "format": "email"},
                }
            }
        ),
        answers(
            None,
            *("{}", '{"d": "2024-02-29", "t": null}', '{"t": "2024-02-29t23:59:59.1234567890z"}', '{"u": 1}'),
            *('{"t": "0001-01-01T00:00:00Z"}', '{"m": "a.b+c@d-e.fg"}'),
        )
        | answers(
            "BAD_PATTERN",
            *('{"d": "2023-02-29"}', '{"d": "2024-2-9"}', '{"d": "0000-01-01"}', '{"d": "2024-04-31"}', '{"d": ""}'),
            *('{"t": "2024-04-31T00:00:00Z"}', '{"t": "2024-04-30 00:00:00Z"}', '{"t": "2024-04-30T00:00:00"}'),
            *('{"d": "2024-02-29\\n"}', '{"u": "x"}', '{"m": "a@b@c"}', '{"t": "2024-04-30T23:59:60Z"}'),
        ),
    ),
    "counts": (
        of(
            {"properties": {"o": {"minProperties": 1, "maxProperties": 2}, "s": {"maxLength": 1}, "a": {"minItems": 1}}}
        ),
        answers(None, '{"o": 1, "s": "💩", "a": {}}', '{"o": {"": 1, "\\"": 2}, "a": [null]}', '{"s": ["a", "b"]}')
        | answers("SCHEMA", '{"o": {}}', '{"o": {"a": 1, "b": 2, "c": 3}}')
        | answers("BAD_LENGTH", '{"s": "e\u0301"}')
        | answers("BAD_ITEMS", '{"a": []}'),
    ),
}


def judged(schema: dict[str, Any], texts: list[str | None]) -> list[str | None]:
    from tests.standins.googlesql import googlesql

    sql = se.check_sql(schema, "bigquery", "response", assert_format=True)
    assert len(sql) < LIMIT // 10
    rows = googlesql().evaluate(
        f"SELECT n, {sql} FROM t", {"t": ({"n": "INT64", "response": "STRING"}, list(enumerate(texts)))}
    )
    return [code for _, code in sorted(rows)]


@pytest.mark.parametrize("name", CASES)
def test_the_reference_gives_the_expected_code(name: str) -> None:
    schema, expected = CASES[name]
    assert {text: se.check_response(schema, text, assert_format=True) for text in expected} == expected


@pytest.mark.zetasql
@pytest.mark.parametrize("name", CASES)
def test_the_code_is_that_of_the_reference(name: str) -> None:
    """For the answers of all cases, so that none makes a query fail."""
    texts = [None, "", "[]", "{", *HOSTILE, *(text for _, expected in CASES.values() for text in expected)]
    schema, _ = CASES[name]
    found = zip(texts, judged(schema, texts), strict=True)
    assert [one for one in found if one[1] != se.check_response(schema, one[0], assert_format=True)] == []


UTC = dt.UTC
COLUMNS: list[tuple[dict[str, Any], str, Any]] = [
    ({}, '{"b": [1, null], "a": "é\\n"}', '{"a":"é\\n","b":[1,null]}'),
    ({"type": ["string", "number"]}, '"x"', '"x"'),
    ({"type": ["string", "number", "null"]}, "null", None),
    ({"type": "array"}, "[]", "[]"),
    ({"type": "string", "format": "date"}, '"2024-02-29"', dt.date(2024, 2, 29)),
    ({"type": ["string", "null"], "format": "date"}, "null", None),
    (
        {"type": "string", "format": "date-time"},
        '"2024-02-29t01:02:03.1234569z"',
        dt.datetime(2024, 2, 29, 1, 2, 3, 123456, UTC),
    ),
    (
        {"type": "string", "format": "date-time"},
        '"2024-03-01T00:30:00+05:30"',
        dt.datetime(2024, 2, 29, 19, 0, tzinfo=UTC),
    ),
    ({"type": "integer", "coerce": True}, '"12.0"', 12),
    ({"type": "integer", "coerce": True}, "12", 12),
    ({"type": "number", "coerce": True}, '"-1.5e1"', -15.0),
    ({"type": "boolean", "coerce": True}, '"FALSE"', False),
    ({"type": "boolean", "coerce": True}, "true", True),
    ({"type": "string", "enum": ["Yes", "no"], "coerce": True}, '"yES"', "Yes"),
    ({"type": "array", "items": {"type": "string", "format": "date"}}, '["2024-02-29"]', [dt.date(2024, 2, 29)]),
    ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, "[[1], []]", [([1],), ([],)]),
    (
        {"type": "object", "properties": {"j": {}, "b": {"type": "boolean", "coerce": True}}},
        '{"j": {"x": 1}, "b": "True"}',
        ('{"x":1}', True),
    ),
]


@pytest.mark.zetasql
@pytest.mark.parametrize(("schema", "text", "expected"), COLUMNS)
def test_columns(schema: dict[str, Any], text: str, expected: Any) -> None:
    from tests.standins.googlesql import googlesql

    plain, problems = normalise(of(schema))
    assert problems == []
    answer = f'{{"v": {text}}}'
    assert judged(of(schema), [answer]) == [None]
    engine = get_engine("bigquery")
    value = engine.json.get(engine.json.accepted(exp.column("r")), "v")
    sql = print_sql(engine, engine.typed_column(value, output_columns(plain)["v"]))
    [(found,)] = googlesql().evaluate(f"SELECT {sql} FROM t", {"t": ({"r": "STRING"}, [(answer,)])})
    assert _plain(found) == expected


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_plain(one) for one in value.values())
    return [_plain(one) for one in value] if isinstance(value, list) else value

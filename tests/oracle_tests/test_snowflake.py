"""The stand-in for Snowflake gives what Snowflake's documentation shows."""

from __future__ import annotations

import pytest

from tests.standins.snowflake import SnowflakeError, rows

DOCUMENTED = {
    "ARRAY_GENERATE_RANGE(0, 16, 5)::VARCHAR": "[0,5,10,15]",
    "ARRAY_GENERATE_RANGE(8, 2, 2)::VARCHAR": "[]",
    'ARRAY_TO_STRING(PARSE_JSON(\'[true, 1, "Abc", ["x","y"], {"a":1}]\'), \', \')': 'true, 1, Abc, ["x","y"], {"a":1}',
    "ARRAY_TO_STRING(ARRAY_CONSTRUCT(1, NULL, 2), ',')": "1,,2",
    "ARRAY_CONTAINS('hello'::VARIANT, ARRAY_CONSTRUCT('hello', 'hi'))": True,
    "ARRAY_CONTAINS(TO_VARIANT(NULL), ARRAY_CONSTRUCT('hello', NULL))": True,
    "ARRAY_CONTAINS(TO_VARIANT(NULL), ARRAY_CONSTRUCT('hello'))": None,
    "ARRAY_CONTAINS(PARSE_JSON('null'), ARRAY_CONSTRUCT('hello'))": False,
    "ARRAY_POSITION('hi'::VARIANT, ARRAY_CONSTRUCT('hello', 'hi'))": 1,
    "ARRAY_SLICE(ARRAY_CONSTRUCT(0, 1, 2, 3, 4, 5, 6), 0, -2)::VARCHAR": "[0,1,2,3,4]",
    "ARRAY_SLICE(ARRAY_CONSTRUCT(0, 1, 2), 10, 12)::VARCHAR": "[]",
    "TRANSFORM(ARRAY_CONSTRUCT(1, 2, 3), a -> a::INT * 2)::VARCHAR": "[2,4,6]",
    "FILTER(ARRAY_CONSTRUCT(1, 2, NULL), a -> a::INT > 1)::VARCHAR": "[2]",
    "REDUCE(ARRAY_CONSTRUCT(1, 2, 3), 0, (acc, val) -> acc + val::INT)": 6,
    "TRANSFORM(NULL::ARRAY, a -> a)": None,
    "GET(PARSE_JSON('[1, null]'), 1) IS NULL": False,
    "GET(PARSE_JSON('[1, null]'), 1)::VARCHAR IS NULL": True,
    "GET(PARSE_JSON('[1, null]'), 2) IS NULL": True,
    "SUBSTR('testing 1 2 3', 9, 5)": "1 2 3",
    "SUBSTR('abc', -2)": "bc",
    "SUBSTR('abc', 5, 1)": "",
    "TRIM('  a ')": "a",
    "TRIM('*-*ABC-*-', '*-')": "ABC",
    "SPLIT('127.0.0.1', '.')::VARCHAR": '["127","0","0","1"]',
    "SPLIT('|a||', '|')::VARCHAR": '["","a","",""]',
    "SPLIT_PART('11.22.33', '.', -1)": "33",
    "POSITION('an', 'banana', 1)": 2,
    "POSITION('x', 'banana')": 0,
    "POSITION('', 'banana')": 1,
    "REGEXP_INSTR('nevermore', '[a-z]more')": 5,
    "REGEXP_LIKE('nevermore', 'never')": False,
    "REGEXP_INSTR('a\\n', 'a$')": 0,
    "REGEXP_INSTR('a\\nb', 'a.b')": 0,
    "REGEXP_REPLACE('It was the best of times', '( ){1,}', '')": "Itwasthebestoftimes",
    "TRY_TO_NUMBER('12.5', 38, 0)": 13,
    "TRY_TO_NUMBER('-0.5', 38, 0)": -1,
    "TRY_TO_NUMBER('1e3x')": None,
    "GREATEST(1, NULL, 3)": None,
    "LEAST('b', 'a')": "a",
    "ROUND(2.5)::VARCHAR": "3",
    "ROUND(2.5, 0, 'HALF_TO_EVEN')::VARCHAR": "2",
    "ROUND(135.135, -2)::VARCHAR": "100",
    "TRUNC(-975.975, 1)::VARCHAR": "-975.9",
    "FLOOR(-135.135)::VARCHAR": "-136",
    "1.50::DECIMAL(5, 2)::VARCHAR": "1.50",
    "7 / 2": 3.5,
    "1.0::FLOAT::VARCHAR": "1",
    "TRUE::VARCHAR": "true",
    "17 || '76'": "1776",
    "TO_CHAR('2013-04-05'::DATE, 'YYYY-MM-DD')": "2013-04-05",
    "EQUAL_NULL(NULL, NULL)": True,
    "NULL AND FALSE": False,
    "NULL OR FALSE": None,
    "1 IN (2, NULL)": None,
    "CASE 2 WHEN 1 THEN 'one' WHEN 2 THEN 'two' END": "two",
    "SHA2('a', 256)": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "TYPEOF(PARSE_JSON('1.5'))": "DECIMAL",
    "AS_OBJECT(PARSE_JSON('null'))": None,
    'TRY_PARSE_JSON(\'{"a": 1, "a": 2}\')': None,
    r"'a\tb\'c''d\u00e9\x41\z'": "a\tb'c'dé" + "Az",
}
REFUSED = {
    "ARRAY_CONTAINS('a', ARRAY_CONSTRUCT('a'))": "a VARIANT is needed, not VARCHAR",
    "REDUCE(ARRAY_CONSTRUCT(1), 0, x -> x)": "a lambda of 2 arguments is needed",
    "TRANSFORM(ARRAY_CONSTRUCT(1), x -> x + 1)": "VARIANT is no number; cast it",
    "CASE WHEN TRUE THEN 'a' ELSE 1 END": "mixed types",
    "ARRAY_CONSTRUCT(1) || 'a'": "ARRAY is not coerced to VARCHAR",
    "LENGTH()": "LENGTH: 0 arguments",
    "STRPOS('a', 'b')": "Unknown function STRPOS",
    "LIST_CONTAINS(x, 1)": "invalid identifier x",
    "REGEXP_INSTR('a', '(?:a)')": "is not supported",
    "TRY_TO_NUMBER(1.5)": "a text is needed",
    "CAST('x' AS BIGINT)": "Numeric value 'x' is not recognized",
    "99999999999999999999999999999999999999 + 1": "out of representable range",
    "CAST(1e19 AS VARCHAR)": "is not documented",
    "POSITION('a' IN 'b', ": "SQL compilation error",
    "ARRAY_FLATTEN(ARRAY_CONSTRUCT(1))": "not a nested array",
}


@pytest.mark.parametrize("expression", DOCUMENTED)
def test_gives_what_is_documented(expression: str) -> None:
    ((found,),) = rows(f"SELECT {expression}", {})
    assert (found, type(found) is bool) == (DOCUMENTED[expression], type(DOCUMENTED[expression]) is bool)


@pytest.mark.parametrize("expression", REFUSED)
def test_refuses_what_is_not_documented(expression: str) -> None:
    with pytest.raises(SnowflakeError) as error:
        rows(f"SELECT {expression}", {})
    assert REFUSED[expression] in str(error.value)


def test_names_are_upper_case_unless_quoted() -> None:
    table = {"source": ({"a": "BIGINT", '"b"': "VARCHAR", '"A b"': "DECIMAL(5, 2)"}, [(1, "x", "2.5")])}
    assert [tuple(map(str, row)) for row in rows('SELECT A, a AS c, "b", s."A b" FROM source AS s', table)] == [
        ("1", "1", "x", "2.50")
    ]
    for name in ("b", '"a"', "source.a"):
        with pytest.raises(SnowflakeError, match="invalid identifier"):
            rows(f"SELECT {name} FROM source AS s", table)


def test_a_query_has_entries_and_a_condition() -> None:
    sql = "WITH t AS (SELECT a + 1 AS b FROM source WHERE NOT a IS NULL) SELECT b, t.b * 2 FROM t"
    assert rows(sql, {"source": ({"a": "BIGINT"}, [(1,), (None,), (2,)])}) == [(2, 4), (3, 6)]
    for refused in ("SELECT a FROM source LIMIT 1", "SELECT COUNT(*) FROM source", "SELECT a FROM source ORDER BY a"):
        with pytest.raises(SnowflakeError):
            rows(refused, {"source": ({"a": "BIGINT"}, [(1,)])})

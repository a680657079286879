"""The stand-in for Snowflake gives what Snowflake's documentation shows."""

from __future__ import annotations

import pytest

from tests.standins.snowflake import READINGS, Data, Database, SnowflakeError, rows

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
    "TO_NUMBER('ae5', 'XXX')": 2789,  # the example of its documentation
    "TO_NUMBER('0A', 'XXXXXXXXXXXXX')": 10,
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
    # JSON: functions/parse_json, functions/typeof, functions/as
    "TYPEOF(PARSE_JSON('null'))": "NULL_VALUE",
    "TYPEOF(PARSE_JSON('true'))": "BOOLEAN",
    "TYPEOF(PARSE_JSON('-17'))": "INTEGER",
    "TYPEOF(PARSE_JSON('123.12'))": "DECIMAL",
    "TYPEOF(PARSE_JSON('1.912e2'))": "DOUBLE",
    "TYPEOF(PARSE_JSON('\"Om ara pa ca na dhih\"  '))": "VARCHAR",
    "PARSE_JSON('[-1, 12, 289, 2188, false,]')::VARCHAR": "[-1,12,289,2188,false,undefined]",
    'PARSE_JSON(\'{"x" : "abc", "y" : false, "z": 10}\')::VARCHAR': '{"x":"abc","y":false,"z":10}',
    'TO_JSON(PARSE_JSON(\'{"b": [1, null], "a": "x y"}\'))': '{"a":"x y","b":[1,null]}',
    "TYPEOF(PARSE_JSON(REPEAT('9', 38)))": "INTEGER",
    "TYPEOF(PARSE_JSON(REPEAT('9', 39)))": "DOUBLE",
    "TYPEOF(PARSE_JSON('0.' || REPEAT('1', 37)))": "DECIMAL",
    "TYPEOF(PARSE_JSON('0.' || REPEAT('1', 38)))": "DOUBLE",
    "PARSE_JSON('123.450')::VARCHAR": "123.450",
    "PARSE_JSON('-0')::VARCHAR": "0",
    "PARSE_JSON('1e400')::DOUBLE > 1e300": True,
    "PARSE_JSON('null')::VARCHAR": None,
    "PARSE_JSON('null') IS NULL": False,
    "TRY_PARSE_JSON(' ') IS NULL": True,
    "TRY_PARSE_JSON('[1] x') IS NULL": True,
    "TRY_PARSE_JSON('{\"a\": 1,}')::VARCHAR": '{"a":1}',
    r"TRY_PARSE_JSON('\"\\ud83d\\ude00\"')::VARCHAR": "😀",
    "PARSE_JSON('\"x\"')::VARCHAR": "x",
    "PARSE_JSON('[\"x\"]')::VARCHAR": '["x"]',
    "PARSE_JSON('true')::VARCHAR": "true",
    "PARSE_JSON('12.7')::INT": 13,
    "PARSE_JSON('\"12\"')::INT": 12,
    "PARSE_JSON('1') = 1": True,
    "PARSE_JSON('\"a\"') = 'a'": True,
    "AS_REAL(PARSE_JSON('-17'))": -17.0,
    "AS_REAL(PARSE_JSON('123.12'))": 123.12,
    "AS_REAL(PARSE_JSON('1.912e2'))": 191.2,
    "AS_REAL(PARSE_JSON('true'))": None,
    "AS_REAL(PARSE_JSON('\"1\"'))": None,
    "AS_INTEGER(PARSE_JSON('15'))": 15,
    "AS_INTEGER(PARSE_JSON('1.23'))": None,
    "AS_NUMBER(PARSE_JSON('2.345'), 6, 2)::VARCHAR": "2.35",
    "AS_NUMBER(PARSE_JSON('2e0'))": None,
    "AS_BOOLEAN(PARSE_JSON('false'))": False,
    "AS_BOOLEAN(PARSE_JSON('0'))": None,
    "AS_VARCHAR(PARSE_JSON('1'))": None,
    "AS_CHAR(PARSE_JSON('\"x\"'))": "x",
    "AS_ARRAY(PARSE_JSON('{}'))": None,
    "IS_INTEGER(PARSE_JSON('1.23'))": False,
    "IS_DECIMAL(PARSE_JSON('1'))": True,
    "IS_REAL(PARSE_JSON('1.23'))": True,
    "IS_VARCHAR(PARSE_JSON('1'))": False,
    "IS_ARRAY(PARSE_JSON('[]'))": True,
    "IS_OBJECT(PARSE_JSON('null'))": False,
    "IS_NULL_VALUE(PARSE_JSON('null'))": True,
    "IS_NULL_VALUE(NULL)": None,
    "STRIP_NULL_VALUE(PARSE_JSON('null')) IS NULL": True,
    "GET(PARSE_JSON('{\"a\": null}'), 'a') IS NULL": False,
    "GET(PARSE_JSON('{\"a\": 1}'), 'A') IS NULL": True,
    "GET(PARSE_JSON('[1]'), 'a') IS NULL": True,
    "GET(PARSE_JSON('[1, 2]'), 1)::INT": 2,
    "GET_PATH(PARSE_JSON('{\"a\": {\"b c\": [5, 7]}}'), 'a[\\'b c\\'][1]')::INT": 7,
    "GET_PATH(PARSE_JSON('{\"a\": 1}'), 'a.b') IS NULL": True,
    'PARSE_JSON(\'{"a": [{"b": 3}]}\'):a[0].b::INT': 3,
    'ARRAY_SORT(OBJECT_KEYS(PARSE_JSON(\'{"b": 1, "a": null}\')::OBJECT))::VARCHAR': '["a","b"]',
    "OBJECT_CONSTRUCT('a', 1, 'b', NULL)::VARCHAR": '{"a":1}',
    "OBJECT_CONSTRUCT_KEEP_NULL('a', 1, 'b', NULL)::VARCHAR": '{"a":1,"b":null}',
    "[1, 'a', NULL]::VARCHAR": '[1,"a",undefined]',
    "ARRAY_SIZE(ARRAY_EXCEPT(['a', 'b', 'b'], ['b']))": 2,
    "ARRAY_SIZE(ARRAY_DISTINCT(PARSE_JSON('[1, 1, \"1\", [1], [1]]')))": 3,
    "ARRAY_SORT([3, 1, NULL, 2])::VARCHAR": "[1,2,3,undefined]",
    "ARRAY_INTERSECTION(['a', 'a', 'b'], ['a'])::VARCHAR": '["a"]',
    "ARRAY_REMOVE([1, 2, 1], 1::VARIANT)::VARCHAR": "[2]",
    "ARRAY_REMOVE_AT([1, 2, 3], -1)::VARCHAR": "[1,2]",
    "ARRAY_INSERT([1, 3], 1, 2)::VARCHAR": "[1,2,3]",
    "TRANSFORM(PARSE_JSON('[1, null]'), x -> TYPEOF(x))::VARCHAR": '["INTEGER","NULL_VALUE"]',
    "FILTER(PARSE_JSON('[1, \"a\"]'), x -> TYPEOF(x) = 'VARCHAR')::VARCHAR": '["a"]',
    # Numbers: operators-arithmetic
    "(10.001 * .001)::VARCHAR": "0.010001",
    "(.1 * .0000000000001)::VARCHAR": "0.0000000000000",
    "7 % 3": 1,
    "(-7) % 3": -1,
    "(TRY_TO_NUMBER('0.3', 38, 18) % 0.1)::VARCHAR": "0.000000000000000000",
    "MOD(5.5, 2)::VARCHAR": "1.5",
    "TRY_TO_NUMBER('1.5e2', 38, 0)": 150,
    "TRY_TO_NUMBER('1000', 3, 0)": None,
    "TRY_CAST('12345.67' AS DECIMAL(5, 2))": None,
    "TRY_CAST('x' AS INT)": None,
    "TRY_TO_DOUBLE('1.912000000000000e+02')": 191.2,
    "1 IN (SELECT 2)": False,
    "NULL IN (SELECT 2)": None,
    "'abc' LIKE 'a%'": True,
    "'abc' LIKE 'a_'": False,
    "COALESCE(NULL, 2, 3)": 2,
    # Dates
    "TRY_TO_DATE('2024-02-29', 'YYYY-MM-DD')::VARCHAR": "2024-02-29",
    "TRY_TO_DATE('2023-02-29', 'YYYY-MM-DD')": None,
    "TRY_TO_TIMESTAMP_TZ('2024-01-01T00:30:00.5+01:00')::TIMESTAMP_NTZ::VARCHAR": "2024-01-01 00:30:00.500",
    "CONVERT_TIMEZONE('UTC', TRY_TO_TIMESTAMP_TZ('2024-01-01 00:30:00+01:00'))::TIMESTAMP_NTZ::VARCHAR": (
        "2023-12-31 23:30:00.000"
    ),
    "TRY_TO_TIMESTAMP_TZ('2024-13-01T00:00:00Z')": None,
    "TRY_TO_TIMESTAMP_TZ('x')": None,
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
    'PARSE_JSON(\'{"a": 1, "a": 2}\')': "Error parsing JSON",
    "PARSE_JSON('1e19')::VARCHAR": "is not documented",
    "TYPEOF('a')": "a VARIANT is needed, not VARCHAR",
    "AS_ARRAY(ARRAY_CONSTRUCT(1))": "a VARIANT is needed, not ARRAY",
    "AS_NUMBER(PARSE_JSON('1000'), 3, 0)": "out of representable range",
    "GET(PARSE_JSON('{}'), PARSE_JSON('\"a\"'))": "no element VARIANT of VARIANT",
    "PARSE_JSON('\"a\"') || 1 + PARSE_JSON('1')": "VARIANT is no number; cast it",
    "PARSE_JSON('\"a\"')::INT": "failed to cast variant value",
    "PARSE_JSON('[1]')::BOOLEAN": "failed to cast",
    "PARSE_JSON('1.0') = PARSE_JSON('1')": "is not documented",
    "ARRAY_DISTINCT([1, 1.0, 2])": "is not documented",
    "OBJECT_KEYS(PARSE_JSON('[1]'))": "VARIANT is not coerced to OBJECT",
    "JSON_EXTRACT_PATH_TEXT('{}', 'a')": "Unknown function JSON_EXTRACT_PATH_TEXT",
    "1 % 0": "Division by zero",
    "TRY_TO_DATE('01/02/2024', 'MM/DD/YYYY')": "is not known here",
    "TRY_TO_TIMESTAMP_TZ('2024-01-01T00:00:00')": "an offset and microseconds at most are known here",
    "REGEXP_INSTR('a', 'a+?')": "is not supported",
    "REGEXP_REPLACE('abc', 'a|ab', '')": "matches 'ab' in two ways",
    "REGEXP_SUBSTR('xabc', 'a?(ab)?', 2)": "matches 'ab' in two ways",
    "REGEXP_INSTR('a', '\\\\t')": "is not supported",
    "MAX(1) OVER (ORDER BY 1 ROWS UNBOUNDED PRECEDING)": "not known",
    "AI_COMPLETE(model => 'm', prompt => 'p')": "only with show_details => TRUE",
    "AI_COMPLETE('m', 'p')": "are not known here",
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


NUMBER, TEXT = "NUMBER(38, 0)", "VARCHAR"
TABLES: Data = {
    "a": ({"id": NUMBER, "name": TEXT}, [(1, "x"), (2, "y"), (None, "z"), (2, "y")]),
    "b": ({"id": NUMBER, "n": NUMBER, "at": TEXT}, [(1, 10, "p"), (1, 20, None), (3, 30, "q"), (None, 40, "r")]),
}
QUERIES = {
    "WITH t AS (SELECT id + 1 AS n FROM a WHERE NOT id IS NULL) SELECT n, t.n * 2 FROM t": [(2, 4), (3, 6), (3, 6)],
    "SELECT name, n FROM a JOIN b ON a.id = b.id": [("x", 10), ("x", 20)],
    "SELECT name, n FROM a LEFT JOIN b ON b.id = a.id AND n > 10": [("x", 20), ("y", None), ("z", None), ("y", None)],
    "SELECT a.*, n FROM a LEFT JOIN b AS b ON a.id = b.id WHERE n IS NULL": [
        (2, "y", None), (None, "z", None), (2, "y", None),
    ],
    "SELECT DISTINCT id, name FROM a": [(1, "x"), (2, "y"), (None, "z")],
    "SELECT id, MAX(n) AS n, COUNT(*), COUNT(at), SUM(n) FROM b GROUP BY id": [
        (1, 20, 2, 1, 30), (3, 30, 1, 1, 30), (None, 40, 1, 1, 40),
    ],
    "SELECT COUNT(*), MAX(n), MIN(at) FROM b WHERE n > 100": [(0, None, None)],
    "SELECT n, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at NULLS FIRST) FROM b": [
        (10, 2), (20, 1), (30, 1), (40, 1),
    ],
    "SELECT n, ROW_NUMBER() OVER (ORDER BY at DESC NULLS LAST, n) FROM b": [(10, 3), (20, 4), (30, 2), (40, 1)],
    "SELECT n, DENSE_RANK() OVER (ORDER BY id NULLS FIRST), SUM(n) OVER (ORDER BY id NULLS FIRST) FROM b": [
        (10, 2, 70), (20, 2, 70), (30, 3, 100), (40, 1, 40),
    ],
    "SELECT n > 20 AS many, SUM(n), POWER(2, 3), SQRT(4) FROM b GROUP BY n > 20": [
        (False, 30, 8.0, 2.0), (True, 70, 8.0, 2.0),
    ],
    "SELECT n, MAX(n) OVER (PARTITION BY id) FROM b": [(10, 20), (20, 20), (30, 30), (40, 40)],
    "SELECT name FROM a WHERE EXISTS(SELECT 1 FROM b AS c WHERE c.id = a.id)": [("x",)],
    "SELECT name FROM a WHERE NOT id IN (SELECT id FROM b WHERE NOT id IS NULL)": [("y",), ("y",)],
    "SELECT name FROM a WHERE NOT id IN (SELECT id FROM b)": [],
    "SELECT id FROM a WHERE id = 1 UNION ALL SELECT n FROM b WHERE n > 30": [(1,), (40,)],
    "SELECT t.id FROM (SELECT id FROM a WHERE id = 1) AS t": [(1,)],
}  # fmt: skip
REFUSED_QUERIES = {
    "SELECT id FROM a LIMIT 1": "not known: LIMIT without ORDER BY",
    "SELECT id FROM a ORDER BY GET(v, 'x')": "not known: ORDER BY",
    "SELECT id FROM a JOIN b ON a.id = b.id": "ambiguous column name ID",
    "SELECT a.id FROM a FULL JOIN b ON a.id = b.id": "not known: FULL",
    "SELECT name, COUNT(*) FROM a GROUP BY id": "name is not a valid group by expression",
    "SELECT id FROM a WHERE MAX(id) = 1": "an aggregate function in WHERE",
    "SELECT id, id FROM a": "duplicate column name ID",
    "SELECT * FROM a JOIN b ON a.id = b.id": "duplicate column name ID",
    "SELECT id FROM c": "Object C does not exist",
    "SELECT id FROM a UNION SELECT id FROM b": "a set operation other than UNION ALL",
    "SELECT id FROM a QUALIFY ROW_NUMBER() OVER (ORDER BY id) = 1": "not known: qualify",
}


@pytest.mark.parametrize("sql", QUERIES)
def test_gives_the_rows_of_a_query(sql: str) -> None:
    assert rows(sql, TABLES) == QUERIES[sql]


@pytest.mark.parametrize("sql", REFUSED_QUERIES)
def test_refuses_a_query(sql: str) -> None:
    with pytest.raises(SnowflakeError) as error:
        rows(sql, TABLES)
    assert REFUSED_QUERIES[sql] in str(error.value)


OPEN = {
    "1.0": ("DECIMAL 1.0", "INTEGER 1"),
    "2.50": ("DECIMAL 2.50", "DECIMAL 2.5"),
    "1.912e2": ("DOUBLE 191.2", "DOUBLE 1.912000000000000e+02"),
    "1e19": ("DOUBLE 1e+19", "DOUBLE 1.000000000000000e+19"),
    "1.0000000000000002e0": ("DOUBLE 1.0000000000000002", "DOUBLE 1.000000000000000e+00"),
    "{'a': 1}": (None, 'OBJECT {"a":1}'),
    "{a: 1}": (None, 'OBJECT {"a":1}'),
    "[1,,2]": (None, "ARRAY [1,undefined,2]"),
    "[1] // x": (None, "ARRAY [1]"),
    "[/* x */ 1]": (None, "ARRAY [1]"),
    "NaN": (None, "DOUBLE NaN"),
    "-Infinity": (None, "DOUBLE -inf"),
    "True": (None, "BOOLEAN true"),
    "+1": (None, "INTEGER 1"),
    "012": (None, "INTEGER 12"),
    ".5": (None, "DECIMAL 0.5"),
    '"a\tb"': (None, "VARCHAR a\tb"),
    r'"\x"': (None, "VARCHAR x"),
    r'"\ud83d"': (None, "VARCHAR \ufffd"),
    "\ufeff1": (None, "INTEGER 1"),
    "\u00a01": (None, "INTEGER 1"),
    '{"a": 1, "a": 2}': (None, None),
    "[1] 2": (None, None),
    "1-": (None, None),
    '"a': (None, None),
    "[1": (None, None),
    "{1: 2}": (None, None),
}
"""JSON that the documentation leaves open, and what is told without doubt: the strict reading, the loose one."""


@pytest.mark.parametrize("text", OPEN)
def test_reads_in_two_ways_what_is_open(text: str) -> None:
    table = {"t": ({"x": "VARCHAR"}, [(text,)])}
    sql = "SELECT TYPEOF(v) || ' ' || v::VARCHAR FROM (SELECT TRY_PARSE_JSON(x) AS v FROM t) AS p"
    found = tuple(rows(sql, table, read_as=reading)[0][0] for reading in READINGS.values())
    assert found == OPEN[text]


def test_a_script_stores_what_it_makes() -> None:
    answers = {"x": ("text", None), "y": ({"b": 1, "a": [2]}, None), "z": (None, "429")}
    database = Database(TABLES, answers.__getitem__)
    script = """
        CREATE TABLE IF NOT EXISTS log (n NUMBER(38, 0), "Text" VARCHAR, error VARCHAR, at TIMESTAMP_NTZ);
        CREATE OR REPLACE TABLE asked AS SELECT DISTINCT name FROM a;
        INSERT INTO log (n, "Text", error)
        SELECT GET_PATH(r, 'value.usage.prompt_tokens')::INT,
          COALESCE(TO_JSON(GET_PATH(r, 'value.structured_output[0].raw_message')),
            GET_PATH(r, 'value.choices[0].messages')::VARCHAR),
          GET_PATH(r, 'error')::VARCHAR
        FROM (SELECT AI_COMPLETE(model => 'm', prompt => name, model_parameters => {'temperature': 0},
          show_details => TRUE, return_error_details => TRUE) AS r FROM asked) AS s"""
    once = [(1, "text", None, None), (1, '{"a":[2],"b":1}', None, None), (None, None, "429", None)]
    database.run(script)
    assert (database.rows("asked"), database.rows("log")) == ([("x",), ("y",), ("z",)], once)
    database.run(script)
    assert (database.rows("asked"), database.rows("log")) == ([("x",), ("y",), ("z",)], once + once)


def test_an_update_reads_the_rows_before_it() -> None:
    database = Database(TABLES)
    database.run("UPDATE a SET name = name || 'x', id = id + 1 WHERE id IN (SELECT id FROM b) OR name = 'z'")
    assert database.rows("a") == [(2, "xx"), (2, "y"), (None, "zx"), (2, "y")]
    database.run("UPDATE b SET at = 'all'")
    assert {row[2] for row in database.rows("b")} == {"all"}


def test_a_view_has_the_rows_of_now() -> None:
    database = Database(TABLES)
    database.run(
        """CREATE VIEW few AS (SELECT id FROM a WHERE id = 1);
        CREATE OR REPLACE TABLE counted (n VARCHAR(16777216)) AS (SELECT (SELECT COUNT(*) FROM few) AS n);
        INSERT OVERWRITE INTO a (id, name) VALUES (1, 'p'), (1, 'q');
        INSERT INTO counted (n) SELECT COUNT(*) FROM few;
        INSERT INTO counted (n) SELECT DATE_PART(EPOCH_SECOND, CAST('1970-01-02 00:00:01.9' AS TIMESTAMP_NTZ))"""
    )
    assert database.rows("counted") == [("1",), ("2",), ("86401",)]


def test_a_block_runs_its_loop() -> None:
    database = Database({**TABLES, "made": ({"n": NUMBER, "first": TEXT}, [])})
    database.run(
        """EXECUTE IMMEDIATE $$
DECLARE
  part INTEGER DEFAULT 0;
  chosen VARCHAR;
BEGIN
  LOOP
    IF (part = 0) THEN
      chosen := (SELECT MAX(name) FROM (SELECT name FROM a ORDER BY name LIMIT 2) AS few);
    ELSEIF (part = 2) THEN
      BREAK;
    END IF;
    INSERT INTO made (n, first) SELECT id, :chosen FROM a WHERE id = :part + 1 AND name <= :chosen;
    part := part + 1;
  END LOOP;
END
$$;"""
    )
    assert database.rows("made") == [(1, "y"), (2, "y"), (2, "y")]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE TABLE a AS SELECT 1 AS x", "Object A already exists"),
        ("CREATE TABLE c AS SELECT 1", "missing column specification"),
        ("CREATE VIEW a AS SELECT 1 AS x", "Object A already exists as TABLE"),
        ("CREATE SECURE VIEW c AS SELECT 1 AS x", "not known"),
        ("DROP VIEW IF EXISTS a", "Object A already exists as TABLE"),
        ("CREATE TABLE c (x NUMBER) AS SELECT 1 AS x, 2 AS y", "the columns differ"),
        ("SELECT (SELECT id FROM a) AS x", "returns more than one row"),
        ("INSERT INTO a (id) SELECT 1, 2", "the columns differ"),
        ("INSERT INTO a (id) SELECT ARRAY_CONSTRUCT(1)", "ARRAY is not coerced to NUMBER"),
        ("INSERT INTO a SELECT 1, 'x'", "not known"),
        ("DELETE FROM a", "not known"),
        ("UPDATE a SET id = 1 FROM b", "not known"),
        ("UPDATE a SET x = 1", "unknown or repeated columns"),
        ("UPDATE a SET id = ARRAY_CONSTRUCT(1)", "ARRAY is not coerced to NUMBER"),
    ],
)
def test_refuses_a_statement(script: str, message: str) -> None:
    with pytest.raises(SnowflakeError, match=message):
        Database(TABLES).run(script)

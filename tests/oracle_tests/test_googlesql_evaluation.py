"""The GoogleSQL oracle runs queries and whole scripts on rows in memory."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from decimal import Decimal
from typing import Any

import pytest

from tests.standins.googlesql import Data, GoogleSQLError, googlesql

pytestmark = pytest.mark.zetasql

ROWS: Data = {"p.d.t": ({"id": "INT64", "body": "STRING"}, [(1, "a"), (2, None), {"id": 3, "body": "é'`\\\n$"}])}

VALUES: dict[str, list[tuple[Any, ...]]] = {
    "1 + 1": [(2,)],
    "SELECT CONCAT('a', 'b') AS x, NULL": [("ab", None)],
    "TO_HEX(SHA256('v1'))": [(hashlib.sha256(b"v1").hexdigest(),)],
    "SAFE.PARSE_JSON('{\"a\": 1} x')": [(None,)],
    "SAFE.PARSE_JSON('NaN')": [(None,)],
    "LAX_INT64(JSON '5.9'), LAX_INT64(JSON '\"10\"'), SAFE.INT64(JSON '\"10\"')": [(6, 10, None)],
    "JSON '{\"a\": [1, null]}'": [('{"a":[1,null]}',)],
    "DATE '1960-01-02', DATETIME '2020-01-02 03:04:05.678901'": [
        (dt.date(1960, 1, 2), dt.datetime(2020, 1, 2, 3, 4, 5, 678901))
    ],
    "TIMESTAMP '2020-01-02 00:00:00+01'": [(dt.datetime(2020, 1, 1, 23, tzinfo=dt.UTC),)],
    "NUMERIC '-12.345', BIGNUMERIC '1e-38'": [(Decimal("-12.345"), Decimal("1e-38"))],
    "b'\\x00\\xff', 0.1, TRUE, [1, 2]": [(b"\x00\xff", 0.1, True, [1, 2])],
    "STRUCT(1 AS a, [STRUCT('x' AS b)] AS c), (1, 'y')": [({"a": 1, "c": [{"b": "x"}]}, (1, "y"))],
    "(SELECT COUNT(*) FROM UNNEST([1, 2, 3]))": [(3,)],
}


@pytest.mark.parametrize("sql", VALUES)
def test_values(sql: str) -> None:
    assert googlesql().evaluate(sql) == VALUES[sql]


HOSTILE = [
    "it's",
    '"',
    "\\",
    "\\'",
    "`x.y`",
    "${x}",
    "{{ y }}",
    "%s %% :a @b ?",
    "-- x\n/*",
    ";",
    "😀\u2028\t",
    "'''",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_in_rows_and_literals(text: str) -> None:
    literal = "'" + "".join(f"\\U{ord(c):08x}" for c in text) + "'"
    data = {"t": ({"x": "STRING"}, [(text,)])}
    assert googlesql().evaluate(f"x, x = {literal}, {literal}", data) == [(text, True, text)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CONCAT('x', body)", [("xa",), (None,), ("xé'`\\\n$",)]),
        ("SELECT t.id FROM `p.d.t` ORDER BY id DESC", [(3,), (2,), (1,)]),
        ("SELECT x.id FROM p.d.t AS x JOIN d.t ON t.id = x.id + 1 ORDER BY 1", [(1,), (2,)]),
        ("WITH t AS (SELECT 7 AS id) SELECT id, (SELECT COUNT(*) FROM `p.d.t`) FROM t", [(7, 3)]),
        ("INSERT INTO p.d.t (id, body) SELECT id + 1, 'x' FROM p.d.t WHERE id < 2", [(2, "x")]),
        ("CREATE TABLE p.d.u AS SELECT id FROM p.d.t WHERE body IS NULL", [(2,)]),
    ],
)
def test_queries_over_rows(sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert googlesql().evaluate(sql, ROWS) == expected


@pytest.mark.parametrize("size", [3, 150])
@pytest.mark.parametrize("none", [[], [(None,)]], ids=["texts", "a NULL too"])
@pytest.mark.parametrize("sought", ["h IN (SELECT h FROM p.d.few)", "NOT x.h IN (SELECT h FROM `p.d.few` AS y)"])
def test_a_column_of_a_table_is_searched(sought: str, none: list[tuple[None]], size: int) -> None:
    texts = ["", "Z", "a", "é", "\uffff", "\U0001f600", *(f"{n:03}" for n in range(size))]
    data: Data = {
        "p.d.few": ({"h": "STRING"}, [*((text,) for text in reversed(texts)), *none]),
        "p.d.t": ({"id": "INT64", "h": "STRING"}, [(n, text) for n, text in enumerate([*texts, None, "b", "\ufffe"])]),
    }
    absent = None if none else False
    is_in = [True] * len(texts) + [None, absent, absent]
    wanted = [value if value is None or "NOT" not in sought else not value for value in is_in]
    found = googlesql().evaluate(f"SELECT id, {sought} FROM p.d.t AS x", data)
    assert [value for _, value in sorted(found)] == wanted


def test_tables_of_any_size_are_joined() -> None:
    data: Data = {"few": ({"n": "INT64"}, [(7,), (300,)]), "many": ({"n": "INT64"}, [(n,) for n in range(100)])}
    script = "INSERT INTO few SELECT n + 1 FROM many AS m WHERE EXISTS (SELECT 1 FROM few WHERE few.n = m.n)"
    assert googlesql().evaluate_script(script, data, lambda _: {}).tables["few"] == [{"n": 7}, {"n": 300}, {"n": 8}]
    assert googlesql().evaluate("SELECT f.n, m.n FROM few AS f LEFT JOIN many AS m USING (n)", data) == [
        (7, 7),
        (300, None),
    ]


def test_values_of_every_type_go_in_and_out() -> None:
    types = {
        "a": "NUMERIC",
        "b": "BIGNUMERIC",
        "c": "DATETIME",
        "d": "TIMESTAMP",
        "e": "DATE",
        "f": "ARRAY<STRUCT<x INT64, y STRING>>",
        "g": "BYTES",
        "h": "FLOAT64",
        "i": "BOOL",
    }
    row = (
        Decimal("-1.000000001"),
        Decimal("123456789012345678901234567890.5"),
        dt.datetime(1999, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2020, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC),
        dt.date(1583, 1, 1),
        [{"x": 1, "y": None}],
        b"\x00",
        -0.5,
        False,
    )
    assert googlesql().evaluate("SELECT * FROM t", {"t": (types, [row, [None] * len(row)])}) == [
        row,
        (None, None, None, None, None, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("body +", "Syntax error"),
        ("SELECT bdy FROM p.d.t", "Unrecognized name: bdy; Did you mean body? [at 1:8]"),
        ("CONCAT(body,\n bdy)", "Unrecognized name: bdy; Did you mean body? [at 2:2]"),
        ("1 / 0", "division by zero"),
        ("PARSE_JSON('{')", "Invalid input to PARSE_JSON"),
        ("JSON_VALUE(JSON '{}', '$[')", "JSONPath"),
        ("DROP TABLE p.d.t", "holds no query"),
        ("INSERT INTO p.d.t (id, nope) SELECT id, id FROM p.d.t", "Column nope is not present in table"),
    ],
)
def test_refused(sql: str, reason: str) -> None:
    with pytest.raises(GoogleSQLError) as caught:
        googlesql().evaluate(sql, ROWS)
    assert reason in str(caught.value)


SCRIPT = """-- Ask what is new, then split.
CREATE OR REPLACE TABLE `p.o.prompts` AS
SELECT id, CONCAT('Q: ', body) AS prompt, TO_HEX(SHA256(body)) AS h FROM `p.d.t`;
CREATE TABLE IF NOT EXISTS `p.o.responses` (h STRING NOT NULL, attempt INT64, response STRING, error STRING);
INSERT INTO `p.o.responses` (h, attempt, response, error)
WITH pending AS (
  SELECT DISTINCT p.h, p.prompt FROM `p.o.prompts` AS p
  WHERE p.h IS NOT NULL AND NOT EXISTS (SELECT 1 FROM `p.o.responses` AS r WHERE r.h = p.h)
)
SELECT g.h, 1, g.result, NULLIF(g.status, '') FROM AI.GENERATE_TEXT(
  MODEL `p.ai.gemini`, (SELECT h, prompt FROM pending), STRUCT('{"a":[{}]}' AS model_params)) AS g;
MERGE `p.o.responses` AS T USING (SELECT h FROM `p.o.prompts` WHERE h IS NOT NULL UNION ALL SELECT 'new') AS S
ON T.h = S.h WHEN NOT MATCHED THEN INSERT (h, attempt) VALUES (S.h, 9);
CREATE OR REPLACE TABLE `p.o.good` AS
SELECT p.id, LAX_INT64(PARSE_JSON(r.response).n) AS n
FROM `p.o.prompts` AS p JOIN `p.o.responses` AS r ON r.h = p.h WHERE r.error IS NULL;
SELECT COUNT(*) FROM `p.o.good`;
"""


def test_a_whole_script_and_its_second_run() -> None:
    asked: list[str | None] = []

    def reply(prompt: str | None) -> dict[str, Any]:
        asked.append(prompt)
        if prompt == "Q: a":
            return {"status": "RESOURCE EXHAUSTED"}
        return {"result": json.dumps({"n": len(prompt or "")}), "status": "", "full_response": {"ok": True}}

    first = googlesql().evaluate_script(SCRIPT, ROWS, reply)
    assert sorted(map(str, asked)) == ["Q: a", "Q: é'`\\\n$"]
    assert [(row["id"], row["prompt"]) for row in first.tables["p.o.prompts"]][:2] == [(1, "Q: a"), (2, None)]
    assert {(row["attempt"], row["error"]) for row in first.tables["p.o.responses"]} == {
        (1, "RESOURCE EXHAUSTED"),
        (1, None),
        (9, None),
    }
    assert first.tables["p.o.good"] == [{"id": 3, "n": 9}]
    assert first.results == [[(1,)]]

    types = {"h": "STRING", "attempt": "INT64", "response": "STRING", "error": "STRING"}
    asked.clear()
    again = googlesql().evaluate_script(
        SCRIPT, {**ROWS, "p.o.responses": (types, first.tables["p.o.responses"])}, reply
    )
    assert asked == []
    assert again.tables == first.tables


def test_scalar_calls_are_asked_once_a_row() -> None:
    asked: list[str | None] = []

    def reply(prompt: str | None) -> dict[str, Any]:
        asked.append(prompt)
        return {"a": None if prompt is None else len(prompt), "status": "", "full_response": '{"x": 1}'}

    script = """
        CREATE TEMP TABLE r AS
        SELECT id, AI.GENERATE(('Q ', body), endpoint => 'e', output_schema => 'a INT64') AS g
        FROM (SELECT id, body FROM `p.d.t`) AS x WHERE id < 3;
        SELECT id, g.a, g.status, LAX_INT64(g.full_response.x) FROM r ORDER BY id
    """
    result = googlesql().evaluate_script(script, ROWS, reply)
    assert asked == ["Q a", None]
    assert result.results == [[(1, 3, "", 1), (2, None, "", 1)]]


def test_a_call_fed_by_another_call() -> None:
    script = """
        SELECT g.prompt, g.result FROM AI.GENERATE_TEXT(MODEL m, (
            WITH b AS (SELECT AI.GENERATE(body).result AS r FROM p.d.t WHERE id = 1)
            SELECT CONCAT('2', r) AS prompt FROM b
        ), STRUCT(1 AS temperature)) AS g
    """
    result = googlesql().evaluate_script(script, ROWS, lambda prompt: {"result": f"<{prompt}>"})
    assert result.results == [[("2<a>", "<2<a>>")]]


def test_variables_and_other_statements() -> None:
    script = """
        DECLARE a, b INT64 DEFAULT 3;
        DECLARE words ARRAY<STRING> DEFAULT ['x', "y;z"];
        SET a = a + b;
        SELECT a, b, words;
        BEGIN TRANSACTION;
        TRUNCATE TABLE p.d.t;
        INSERT INTO p.d.t VALUES (a, 'v');
        MERGE p.d.t USING (SELECT 9 AS id, 'z' AS body UNION ALL SELECT 0, 'q') AS S ON FALSE
        WHEN NOT MATCHED AND S.id > 1 THEN INSERT ROW;
        COMMIT TRANSACTION;
        DROP TABLE IF EXISTS p.d.nope;
        SELECT * FROM p.d.t ORDER BY id;
    """
    result = googlesql().evaluate_script(script, ROWS, lambda _: {})
    assert result.results == [[(6, 3, ["x", "y;z"])], [(6, "v"), (9, "z")]]


def test_a_view_is_its_query_whenever_it_is_read() -> None:
    script = """
        CREATE VIEW p.d.v AS SELECT id FROM p.d.t WHERE id > 1;
        INSERT INTO p.d.t VALUES (9, 'z');
        SELECT id FROM p.d.v ORDER BY id;
        CREATE OR REPLACE VIEW p.d.v AS SELECT COUNT(*) AS n FROM p.d.t;
        CREATE TABLE p.d.u (m INT64 NOT NULL) AS SELECT n FROM p.d.v;
        SELECT m FROM p.d.u;
        DROP VIEW p.d.v;
        DROP VIEW IF EXISTS p.d.v;
    """
    result = googlesql().evaluate_script(script, ROWS, lambda _: {})
    before = len(result.results[0]) - 1
    assert result.results[0][-1] == (9,)
    assert result.results[1] == [(before + 2,)]
    assert "p.d.v" not in result.tables


def test_a_loop_updates_until_it_breaks() -> None:
    script = """BEGIN
      DECLARE part INT64 DEFAULT 0;
      LOOP
        UPDATE p.d.t SET body = CONCAT(COALESCE(body, ''), CAST(id AS STRING)), id = id + 10 WHERE id = part + 1;
        IF part = 0 THEN SET part = (SELECT COUNT(*) FROM p.d.t WHERE id > 10);
        ELSEIF part = 1 THEN SET part = 2;
        ELSE BREAK;
        END IF;
      END LOOP;
    END"""
    made = googlesql().evaluate_script(script, {"p.d.t": ({"id": "INT64", "body": "STRING"}, ROW_TEXTS)}, lambda _: {})
    assert [tuple(row.values()) for row in made.tables["p.d.t"]] == [(11, "a1"), (12, "2"), (13, "c3")]


ROW_TEXTS = [(1, "a"), (2, None), (3, "c")]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("UPDATE p.d.t AS t SET id = 1 WHERE TRUE", "not emulated: UPDATE"),
        ("UPDATE p.d.t SET id = 'x' WHERE TRUE", "type STRING"),
        ("BEGIN RAISE USING MESSAGE = CONCAT('a', 'b'); END", "ab"),
        ("DELETE FROM p.d.t AS x WHERE TRUE", "not emulated: DELETE"),
        ("MERGE p.d.t T USING p.d.t S ON T.id = S.id WHEN MATCHED THEN DELETE", "not emulated: MERGE"),
        ("CREATE TABLE p.d.t (a INT64)", "Already Exists"),
        ("CREATE TABLE p.d.u (a INT64 DEFAULT 1)", "not emulated: column defaults"),
        ("CREATE TABLE p.d.u (a INT64 NOT NULL); INSERT INTO p.d.u (a) SELECT NULL", "cannot be null"),
        ("DROP TABLE p.d.nope", "Not found"),
        ("DROP VIEW p.d.t", "is not a view"),
        ("CREATE OR REPLACE VIEW p.d.t AS SELECT 1 AS a", "Already Exists"),
        ("CREATE VIEW p.d.v AS SELECT 1 AS a; DROP TABLE p.d.v", "is not a table"),
        ("CREATE TABLE p.d.u (a FLOAT64) AS SELECT 1 AS a", "not emulated: a column list before AS with other types"),
        ("SELECT id FROM p.d.t WHERE AI.IF(body)", "not emulated: AI.IF outside a SELECT list"),
        ("SELECT PARSE_JSON(body) FROM p.d.t", "Invalid input to PARSE_JSON"),
    ],
)
def test_what_a_script_may_not_hold(script: str, reason: str) -> None:
    with pytest.raises(GoogleSQLError) as caught:
        googlesql().evaluate_script(script, ROWS, lambda _: {"result": "x"})
    assert reason in str(caught.value)


def test_a_reply_with_an_unknown_field() -> None:
    with pytest.raises(ValueError, match="the reply has no place for resutl"):
        googlesql().evaluate_script("SELECT AI.GENERATE('x').result", {}, lambda _: {"resutl": "x"})

"""The local Spark parses, runs and merges, with an ai_query answered by Python."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.standins.spark import (
    AiAnswer,
    AiCall,
    mem_catalog,
    parse_spark,
    register_ai_query,
    rows,
    run_script,
    split_spark,
)

pytestmark = pytest.mark.spark


def test_statements_are_cut_by_sparks_lexer() -> None:
    script = "-- é 😀 x;y\nSELECT 'a;😀' AS `c;d`; /* ; */ ;\nSELECT r'\\', \"it's;\" -- end;\n;"
    assert split_spark(script) == [
        "-- é 😀 x;y\nSELECT 'a;😀' AS `c;d`",
        "\nSELECT r'\\', \"it's;\" -- end;\n",
    ]


PARSED = {
    "SELECT 1": ["Project"],
    "-- x\nINSERT INTO a.b (c) SELECT 1; -- y": ["InsertIntoStatement"],
    "CREATE OR REPLACE TABLE a.b USING delta AS SELECT 1": ["ReplaceTableAsSelect"],
    "CREATE TABLE IF NOT EXISTS a.b (c STRING NOT NULL, d VARIANT)": ["CreateTable"],
    "MERGE INTO a t USING b s ON t.x = s.x WHEN NOT MATCHED THEN INSERT (x) VALUES (s.x); SELECT 1": [
        "MergeIntoTable",
        "Project",
    ],
    "SELECT nope(failOnError => false).x FROM nowhere": ["Project"],
}


@pytest.mark.parametrize("sql", PARSED)
def test_parsed(sql: str) -> None:
    assert parse_spark(sql) == PARSED[sql]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT a,, b", "at or near ','"),
        ("SELECT 1; SELECT 'abc", "PARSE_SYNTAX_ERROR"),
        ("SELECT $$a$$", "at or near '$$'"),
        ("SELECT a b c", "extra input 'c'"),
        ("SELECT 'a${spark.sql.session.timeZone}' FROM ${spark.sql.session.timeZone} '", "at or near '''"),
    ],
)
def test_not_parsed(sql: str, reason: str) -> None:
    from pyspark.errors import ParseException

    with pytest.raises(ParseException) as caught:
        parse_spark(sql)
    assert reason in str(caught.value)


def test_variables_are_put_in_before_parsing() -> None:
    # What a variable holds could end the literal: the reason why `${` must be escaped.
    rows("SET test.hostile = x' AS a, 'y")
    try:
        assert rows("SELECT '${test.hostile}'") == [("x", "y")]
        assert rows("SELECT '$\\{test.hostile}', '${nope}'") == [("${test.hostile}", "")]
    finally:
        rows("RESET test.hostile")


def test_rows_are_plain() -> None:
    struct = "named_struct('a', 1, 'b', array(named_struct('c', 2)))"
    assert rows(f"SELECT {struct}, parse_json('{{\"a\": [1]}}'), map('k', NULL)") == [
        ((1, [(2,)]), '{"a":[1]}', {"k": None})
    ]
    assert type(rows("SELECT 1")[0]) is tuple


HOSTILE = ["it's", '"', "`x`", "{{ y }}", "%s :a ?", "-- x\n/*", ";", "😀\u2028\t", "\\n", "$\\{x}"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_in_literals(text: str) -> None:
    escaped = "".join(f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le")).cast("H"))
    assert rows(f"SELECT '{escaped}'") == [(text,)]


SCRIPT = """CREATE SCHEMA IF NOT EXISTS out;
CREATE TABLE IF NOT EXISTS out.responses (h STRING NOT NULL, response STRING, error STRING) USING delta;
CREATE OR REPLACE TABLE out.pending AS
SELECT sha2(body, 256) AS h, concat('Q: ', body) AS prompt FROM source
WHERE NOT EXISTS (SELECT 1 FROM out.responses AS r WHERE r.h = sha2(body, 256));
INSERT INTO out.responses
SELECT h, r.result, nullif(r.errorMessage, '') FROM (
  SELECT h, ai_query('e', prompt, modelParameters => named_struct('temperature', 0.0, 'max_tokens', 9),
    responseFormat => '{"type":"json_object"}', failOnError => false) AS r FROM out.pending
);
MERGE INTO out.responses AS t USING (SELECT 'new' AS h UNION ALL SELECT sha2('a', 256)) AS s ON t.h = s.h
WHEN NOT MATCHED THEN INSERT (h, response, error) VALUES (s.h, NULL, NULL);
SELECT h = 'new', variant_get(try_parse_json(response), '$.n', 'int'), error FROM out.responses
ORDER BY 1, 2 NULLS FIRST;
"""


def test_a_whole_script_and_its_second_run() -> None:
    asked: list[AiCall] = []

    def answer(call: AiCall) -> AiAnswer:
        asked.append(call)
        if call.request == "Q: bad":
            return AiAnswer(None, "429")
        return AiAnswer(json.dumps({"n": len(call.request or "")}), "")

    register_ai_query(answer)
    with mem_catalog():
        rows("CREATE TABLE source AS SELECT explode(array('a', 'bad', 'ccc')) AS body")
        expected = [(False, None, "429"), (False, 4, None), (False, 6, None), (True, None, None)]
        assert run_script(SCRIPT)[-1] == expected
        assert sorted(call.request or "" for call in asked) == ["Q: a", "Q: bad", "Q: ccc"]
        assert asked[0].model_parameters == {"temperature": 0.0, "max_tokens": 9}
        assert (asked[0].endpoint, asked[0].fail_on_error) == ("e", False)
        assert run_script(SCRIPT)[-1] == expected
        assert len(asked) == 3


def test_the_mem_catalog_forgets_and_replaces() -> None:
    from pyspark.errors import AnalysisException

    with mem_catalog():
        rows("CREATE TABLE t AS SELECT 1 AS a")
        rows("CREATE OR REPLACE TABLE t AS SELECT a + 1 AS a FROM t")
        rows("INSERT INTO t SELECT 5")
        rows("MERGE INTO t USING (SELECT 5 AS b) ON a = b WHEN MATCHED THEN UPDATE SET a = 6")
        rows("DELETE FROM t WHERE a = 2")
        assert rows("SELECT * FROM mem.default.t") == [(6,)]
        with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
            rows("CREATE TABLE nope.t (a INT)")
    with mem_catalog(), pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        rows("SELECT * FROM t")


@pytest.mark.parametrize(
    ("beside", "left"),
    [
        ("INSERT INTO default.lines VALUES (2, 'new')", [(1, "changed"), (2, "new")]),
        ("UPDATE default.lines SET state = 'other'", [(1, "other")]),
    ],
)
def test_an_update_keeps_what_was_appended_beside_it_and_fails_beside_another(beside: str, left: list[Any]) -> None:
    asked = threading.Event()

    def answer(_: AiCall) -> AiAnswer:
        asked.set()
        time.sleep(2.0)
        return AiAnswer("changed")

    register_ai_query(answer)
    with mem_catalog(), ThreadPoolExecutor(1) as threads:
        rows("CREATE TABLE default.lines (id INT, state STRING)")
        rows("INSERT INTO default.lines VALUES (1, 'old')")
        update = threads.submit(rows, "UPDATE default.lines SET state = ai_query('m', state).result")
        assert asked.wait(60)
        rows(beside)
        error = update.exception(60)
        assert ("DELTA_CONCURRENT" in str(error)) == beside.startswith("UPDATE")
        assert rows("SELECT * FROM default.lines ORDER BY id") == left


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT ai_query('e', 'bad')", "ai_query: 429"),
        ("SELECT ai_query('e', 'bad', failOnError => true)", "ai_query: 429"),
        ("SELECT ai_query('e', 'raise', failOnError => false)", "ValueError: broken"),
        ("SELECT ai_query('e', 'x', nope => 1)", "nope"),
    ],
)
def test_an_ai_query_that_fails(sql: str, reason: str) -> None:
    from pyspark.errors import PythonException

    def answer(call: AiCall) -> AiAnswer:
        if call.request == "raise":
            raise ValueError("broken")
        return AiAnswer(None, "429")

    register_ai_query(answer)
    with pytest.raises(PythonException) as caught:
        rows(sql)
    assert reason in str(caught.value)


def test_nothing_is_left_in_the_working_folder() -> None:
    left: list[Any] = [path for path in ("spark-warehouse", "metastore_db", "derby.log") if Path(path).exists()]
    assert left == []

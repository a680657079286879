"""``ai_query`` in a Spark session: Databricks' text of the call, through the desk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sqlenrich as se
from sqlenrich.spark import register
from sqlenrich.spark.ai_query import arguments, config_of
from tests.standins.spark import mem_catalog, run_script, spark_session
from tests.support.endpoint import ScriptedEndpoint
from tests.support.vectors import unit_vector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CALL = """SELECT id, a.result, a.errorMessage FROM (
  SELECT id, ai_query('fast', body, modelParameters => named_struct('temperature', 0.0, 'max_tokens', 9),
    RESPONSEFORMAT => '{{"type": "json_object"}}', failOnError => false) AS a FROM {}
) ORDER BY id"""


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.mark.spark
def test_each_request_is_asked_once_and_a_failure_is_a_row(spark: SparkSession) -> None:
    rows = [(number, None if number == 3 else f"text {number % 10}") for number in range(50)]
    spark.createDataFrame(rows, "id int, body string").repartition(2).createOrReplaceTempView("asked")
    with ScriptedEndpoint(by_prompt={"text 7": "400_context"}, content="{}") as server:
        with register(spark, endpoint=se.Endpoint(server.url, concurrency=4), models={"fast": "mock"}) as registered:
            found = [tuple(row) for row in spark.sql(CALL.format("asked")).collect()]
            assert found[3] == (3, None, None)
            assert found[0] == (0, "{}", None)
            assert found[7][1] is None
            assert found[7][2]
            bodies = {bytes(one.body) for one in server.asked}
            assert len(bodies) == len(server.asked) == 10
            assert all(b'"model":"mock","max_tokens":9,"temperature":0.0' in one for one in bodies)
            asked_again = [tuple(row) for row in spark.sql(CALL.format("asked")).collect()]
            assert (asked_again, len(server.asked)) == (found, 10)
            for argument, problem in (
                ("tone => 'x'", "ai_query has no argument tone; there are: endpoint, request"),
                ("returnType => 'STRING'", "ai_query: returnType is 'ARRAY<FLOAT>' beside modelParameters"),
                ("responseFormat => 'STRUCT<x: INT>'", "ai_query: responseFormat is .*; no type of SQL"),
            ):
                with pytest.raises(Exception, match=problem):
                    spark.sql(f"SELECT ai_query('fast', concat('new ', body), {argument}) FROM asked").collect()
            assert len(server.asked) == 10
        with pytest.raises(Exception, match="ai_query"):
            spark.sql(CALL.format("asked")).collect()
        registered.close()


@pytest.mark.spark
def test_the_script_of_databricks_runs_as_it_is(tmp_path: Path) -> None:
    answer = '{"intent":"refund","urgency":2,"product":"api","needs_human":false,"summary":"x"}'
    script = se.render(se.load("support_ticket"), engine="databricks")
    with ScriptedEndpoint(content=answer) as server, mem_catalog() as spark:
        spark.sql("CREATE SCHEMA raw")
        spark.sql("CREATE TABLE raw.tickets (id STRING, subject STRING, body STRING)")
        spark.sql("INSERT INTO raw.tickets VALUES ('1', 'a', 'b'), ('2', 'c', 'it''s'), ('3', NULL, NULL)")
        with register(spark, endpoint=server.url):
            run_script(script)
        assert spark.table("support_ticket").count() == 2
        assert [row._error for row in spark.table("support_ticket_quarantine").collect()] == ["NO_INPUT"]


@pytest.mark.spark
def test_the_script_of_vectors_runs_as_it_is() -> None:
    header = "---\nsource: raw.articles\nkey: [id]\noutput: {v: {dimensions: 4}}\n---\n"
    script = se.render(se.loads(header + "{{ body }}", name="articles"), engine="spark")
    with ScriptedEndpoint(by_prompt={"bad": "400_context"}) as server, mem_catalog() as spark:
        spark.sql("CREATE SCHEMA raw")
        spark.sql("CREATE TABLE raw.articles (id STRING, body STRING)")
        spark.sql("INSERT INTO raw.articles VALUES ('1', 'a'), ('2', 'it''s'), ('3', 'bad'), ('4', 'a')")
        with register(spark, endpoint=server.url, models={"embedding": "mock"}):
            run_script(script)
        found = {row.id: row.v for row in spark.table("articles").collect()}
        refused = [(row.id, row._error) for row in spark.table("articles_quarantine").collect()]
        answered = [seen for seen in server.asked if seen.status == 200]
        asked = [text for seen in answered for text in json.loads(seen.body)["input"]]
    assert found == {"1": unit_vector("a", 4), "2": unit_vector("it's", 4), "4": unit_vector("a", 4)}
    assert refused == [("3", "CALL_ERROR")]
    assert (asked.count("a"), asked.count("it's")) == (1, 1)


@pytest.mark.parametrize(("positional", "named", "problem"), [
    (1, {}, "ai_query needs request"),
    (2, {"REQUEST": 1}, "ai_query got request twice"),
    (2, {"tone": 1}, "ai_query has no argument tone"),
    (7, {}, "ai_query takes 6 arguments"),
])  # fmt: skip
def test_arguments_that_are_refused(positional: int, named: dict[str, Any], problem: str) -> None:
    column = pa.array(["x"])
    with pytest.raises(TypeError, match=problem):
        arguments([column] * positional, dict.fromkeys(named, column))


@pytest.mark.parametrize(("parts", "problem"), [
    (("", "", ""), "the first argument is NULL"),
    (("m", "", "{"), "responseFormat is JSON .*; no type of SQL. It is '{'"),
    (("m", "", "[]"), 'responseFormat is .*"json_schema"'),
    (("m", "", "STRUCT<result: STRUCT<x: INT>>"), "responseFormat is .*no type of SQL. It is 'STRUCT<result: STRUCT"),
    (("m", "", '{"type": "json_schema"}'), 'responseFormat is .*"json_schema"'),
    (("m", "", '{"type": "xml"}'), 'responseFormat is .*"json_schema"'),
    (("m", "hot", ""), "modelParameters is named_struct.* It is 'hot'"),
    (("m", "[1]", ""), "modelParameters is named_struct"),
    (("m", "", "", "STRING"), "returnType is 'ARRAY<FLOAT>' beside modelParameters .*It is 'STRING'"),
    (("m", "", "", "ARRAY<FLOAT>"), "returnType is 'ARRAY<FLOAT>' beside modelParameters"),
])  # fmt: skip
def test_what_no_request_can_be_made_of(parts: tuple[str, ...], problem: str) -> None:
    model, *others = parts
    with pytest.raises(ValueError, match=problem):
        config_of(model, {}, *others)

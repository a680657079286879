"""dbt-spark on a real Spark by ``method: session``, with an ``ai_query`` that Python answers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.standins.spark import ANSI_OFF, INTERPRETED, AiAnswer, AiCall, register_ai_query, settings, spark_session
from tests.support.dbt_projects import copy_consumer

ROWS = 6
ANSWER = '{"intent": "bug", "urgency": 3, "needs_human": true, "summary": "s"}'


@pytest.fixture
def spark() -> Iterator[Any]:
    """Spark's interpreter."""
    with settings(INTERPRETED):
        yield spark_session()


@pytest.mark.spark
def test_a_build_on_spark_halves_a_statement_that_fails_and_asks_nothing_again(tmp_path: Path, spark: Any) -> None:
    """The request at fault becomes a row; the others are answered, and a second build asks nothing."""
    calls: list[AiCall] = []

    def answer(call: AiCall) -> AiAnswer:
        calls.append(call)
        if "Terminals dead" in str(call.request):
            raise ValueError("no statement with this request ends")
        return AiAnswer(ANSWER)

    register_ai_query(answer)
    project = copy_consumer(tmp_path / "app", None)
    # dbt-spark can't load a seed that has quotes by this method.
    seed = project.folder / "seeds" / "messages.csv"
    with seed.open(encoding="utf-8", newline="") as file:
        rows = [(row["id"], row["subject"] or None, row["body"]) for row in csv.DictReader(file)][:ROWS]
    seed.unlink()
    spark.sql("CREATE SCHEMA dbt")
    spark.createDataFrame(rows, "id string, subject string, body string").write.saveAsTable("dbt.messages")
    source = {"name": "dbt", "schema": "dbt", "tables": [{"name": "messages"}]}
    (project.folder / "models" / "raw.yml").write_text(json.dumps({"version": 2, "sources": [source]}), "utf-8")
    project.change_prompt("max_quarantine: 0.05", "max_quarantine: 0.2", source="dbt.messages")
    profile = {"type": "spark", "method": "session", "host": "localhost", "schema": "dbt", "threads": 1}
    project.write_profile(spark=profile)
    try:
        with settings(ANSI_OFF):  # dbt-spark sets it, and the session is that of other tests too
            asked = []
            for arguments in (["build"], ["run", "--full-refresh", "--select", "+tickets_responses"]):
                outcome = project.dbt(*arguments, sqlenrich_chunk_rows=4)
                assert outcome.success, outcome.message
                asked.append(len(calls))
        assert asked[0] == asked[1]
        assert len({call.request for call in calls}) == ROWS
        counted = {name: spark.table(f"dbt.{name}").count() for name in ("tickets_responses", "tickets")}
        assert counted == {"tickets_responses": ROWS, "tickets": ROWS - 1}
        ((error, detail),) = spark.table("dbt.tickets_quarantine").select("_error", "_error_detail").collect()
        assert error == "CALL_ERROR"
        assert "failed" in detail
        assert [row[0] for row in spark.sql("SELECT urgency FROM dbt.tickets GROUP BY 1").collect()] == [3]
    finally:
        spark.sql("DROP SCHEMA dbt CASCADE")

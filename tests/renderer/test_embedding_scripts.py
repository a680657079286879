"""The scripts of an enrichment whose output is a vector, executed: typed columns, reasons, one call per text."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import STRING
from sqlenrich.engines import ENGINES
from sqlenrich.spec.settings import Config
from tests.prompt.test_conformance import fill_spark, typed

MARK = {"bigquery": pytest.mark.zetasql, "spark": pytest.mark.spark, "databricks": pytest.mark.spark}
IN_SQL = [name for name in ENGINES if name != "duckdb"]
each_engine = pytest.mark.parametrize("engine", [pytest.param(e, marks=MARK.get(e, ())) for e in IN_SQL])
COLUMNS = {"id": STRING, "body": STRING}
ROWS = [("1", "good"), ("2", "good"), ("3", "short"), ("4", "fails"), ("5", None), ("6", "also good")]
VECTORS = {"good": [0.5, -0.25, 1e-05], "short": [0.5, 0.5], "fails": None, "also good": [0.0, 1.0, -1.0]}
TOLD = "the text is refused"
WANTED = {
    "1": [0.5, -0.25, 1e-05],
    "2": [0.5, -0.25, 1e-05],
    "3": "BAD_ITEMS",
    "4": "CALL_ERROR",
    "5": "NO_INPUT",
    "6": [0.0, 1.0, -1.0],
}
"""The vector or the reason of each row."""


def enrichment(dimensions: int = 3) -> se.Enrichment:
    header = f"source: source\nkey: [id]\nmodel: ds.m\noutput: {{embedding: {{dimensions: {dimensions}}}}}"
    return se.loads(f"---\n{header}\n---\n{{{{ body }}}}", name="made")


def run(engine: str, sql: str, asked: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Run a script on the stand-in of an engine; the rows of its two result tables."""

    def vector(prompt: str | None) -> list[float] | None:
        asked.append(str(prompt))
        return VECTORS[str(prompt)]

    if engine == "bigquery":
        from tests.standins.googlesql import googlesql

        def reply(prompt: str | None) -> dict[str, Any]:
            found = vector(prompt)
            return {"embedding": found or [], "status": "" if found else TOLD, "statistics": {"token_count": 7}}

        tables = googlesql().evaluate_script(sql, {"source": (typed(engine, COLUMNS), ROWS)}, reply).tables
        return {name: [tuple(row.values()) for row in tables[name]] for name in ("made", "made_quarantine")}
    if engine == "snowflake":
        from tests.standins import snowflake

        data = {"source": (typed(engine, COLUMNS), ROWS)}

        def ask(prompt: str) -> tuple[Any, str | None]:
            found = vector(prompt)
            return found, None if found else TOLD

        database = snowflake.Database(data, ask)
        database.run(sql)
        return {name: database.rows(name.upper()) for name in ("made", "made_quarantine")}
    from tests.standins import spark

    def answer(call: spark.AiCall) -> spark.AiAnswer:
        assert call.return_type == "ARRAY<FLOAT>"
        found = vector(call.request)
        return spark.AiAnswer(None if found is None else json.dumps(found), "" if found else TOLD)

    spark.spark_session()
    spark.register_ai_query(answer)
    with spark.mem_catalog():
        fill_spark("source", COLUMNS, ROWS)
        try:
            spark.run_script(sql)
            return {name: spark.rows(f"SELECT * FROM {name}") for name in ("made", "made_quarantine")}
        finally:
            spark.rows("DROP VIEW source")


@each_engine
def test_a_script_gives_typed_vectors_and_reasons(engine: str) -> None:
    asked: list[str] = []
    found = run(engine, se.render(enrichment(), engine, config=Config()), asked)
    given = {row[0]: list(map(float, row[1])) for row in found["made"]} | {
        row[0]: row[1] for row in found["made_quarantine"]
    }
    assert given == WANTED  # AI_EMBED tells no reason: its NULL is a failed call that may be repeated
    assert Counter(asked) == Counter(VECTORS.keys())


@pytest.mark.parametrize(
    ("engine", "dimensions"),
    [
        pytest.param("snowflake", 1024),
        pytest.param("bigquery", 1024, marks=pytest.mark.zetasql),
        pytest.param("spark", 3072, marks=pytest.mark.spark),
        pytest.param("databricks", 4096, marks=pytest.mark.spark),  # Java's regular expressions recurse
    ],
)
def test_long_vectors_are_judged(engine: str, dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = [round((n % 97 - 48) / 97, 8) for n in range(dimensions)]
    monkeypatch.setitem(VECTORS, "good", right)
    monkeypatch.setitem(VECTORS, "also good", right[1:])
    found = run(engine, se.render(enrichment(dimensions), engine, config=Config(), preflight=False), [])
    assert {row[0]: list(map(float, row[1])) for row in found["made"]} == {"1": right, "2": right}
    reasons = {row[0]: row[1] for row in found["made_quarantine"]}
    assert (reasons["3"], reasons["6"]) == ("BAD_ITEMS", "BAD_ITEMS")

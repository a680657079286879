"""The tables of a script: foreign ones are left alone, a source is never written, and what holds prompts is dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.types import STRING
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.renderer.tables import MARKS
from sqlenrich.spec.loader import loads
from sqlenrich.spec.settings import Config
from tests.prompt.test_conformance import fill_duckdb, fill_spark, typed

MARK = {"bigquery": pytest.mark.zetasql, "spark": pytest.mark.spark, "databricks": pytest.mark.spark}
each_engine = pytest.mark.parametrize("engine", [pytest.param(e, marks=MARK.get(e, ())) for e in ENGINES])
SECRET = "a text of a customer"
COLUMNS = {"id": STRING, "body": STRING}
ROWS = [("1", SECRET), ("2", SECRET), ("3", None)]

Data = dict[str, list[tuple[Any, ...]]]
Run = Callable[[str], Data]
"""Runs a script and gives the rows of every table there is."""


def enrichment(header: str = "", source: str = "source", name: str = "made") -> se.Enrichment:
    text = f"---\nsource: {source}\nkey: [id]\n{header}output: {{label: string}}\n---\n{{{{ body }}}}"
    return loads(text, name=name)


def script(engine: str, header: str = "") -> str:
    return se.render(enrichment(header), engine, config=Config())


@contextmanager
def warehouse(engine: str, foreign: Sequence[str], calls: list[str]) -> Iterator[Run]:
    """A warehouse with the source, and with tables of the names ``foreign`` that hold ``ours``."""
    tables: Mapping[str, Any] = {"source": (COLUMNS, ROWS), **{name: ({"ours": STRING}, [("x",)]) for name in foreign}}
    names = [form.format("made") for form in RELATIONS.values()]

    def answer(prompt: str) -> str:
        calls.append(prompt)
        return '{"label":"a"}'

    if engine == "duckdb":
        with duckdb.connect() as db:
            for name, (columns, rows) in tables.items():
                fill_duckdb(db, name, columns, rows)

            def run(sql: str) -> Data:
                db.execute(sql)
                found = [name for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
                return {name: db.execute(f"FROM {name}").fetchall() for name in found}

            yield run
    elif engine == "bigquery":
        from tests.standins.googlesql import googlesql

        data = {name: (typed(engine, columns), rows) for name, (columns, rows) in tables.items()}

        def run_bigquery(sql: str) -> Data:
            made = googlesql().evaluate_script(sql, data, lambda prompt: {"result": answer(str(prompt)), "status": ""})
            return {name: [tuple(row.values()) for row in rows] for name, rows in made.tables.items()}

        yield run_bigquery
    elif engine == "snowflake":
        from tests.standins import snowflake

        data = {name: (typed(engine, columns), rows) for name, (columns, rows) in tables.items()}
        database = snowflake.Database(data, lambda prompt: (answer(prompt), None))

        def run_snowflake(sql: str) -> Data:
            database.run(sql)
            return {name.lower(): database.rows(name) for name in database.tables}

        yield run_snowflake
    else:
        from tests.standins import spark

        session = spark.spark_session()
        spark.register_ai_query(lambda call: spark.AiAnswer(answer(str(call.request))))
        with spark.mem_catalog():
            fill_spark("source", COLUMNS, ROWS)
            for name in foreign:
                spark.rows(f"CREATE TABLE {name} AS SELECT 'x' AS ours")

            def run_spark(sql: str) -> Data:
                spark.run_script(sql)
                there = [name for name in names if session.catalog.tableExists(name)]
                return {name: spark.rows(f"SELECT * FROM {name}") for name in there}

            try:
                yield run_spark
            finally:
                spark.rows("DROP VIEW source")


@each_engine
@pytest.mark.parametrize("role", MARKS)
def test_a_script_ends_before_it_replaces_a_foreign_table(engine: str, role: str) -> None:
    calls: list[str] = []
    name = RELATIONS[role].format("made")
    with warehouse(engine, [name], calls) as run:
        with pytest.raises(Exception, match=f"(?i){MARKS[role]}"):
            run(script(engine))
        kept = run("" if engine == "duckdb" else "SELECT 1;")
    assert kept[name] == [("x",)]
    assert calls == []


@each_engine
@pytest.mark.parametrize("keep", [True, False])
def test_what_holds_prompts_is_dropped(engine: str, keep: bool) -> None:
    calls: list[str] = []
    header = "" if keep else "keep_prompts: false\n"
    with warehouse(engine, [], calls) as run:
        sql = script(engine, header)
        first = run(sql)
        again = run(sql)
    asks = get_engine(engine).call is not None
    assert len(calls) == (1 if engine != "bigquery" else 2) * asks  # the stand-in for BigQuery starts afresh
    for tables in (first, again):
        holding = {name for name, rows in tables.items() if name != "source" and SECRET in str(rows)}
        refused = () if asks else ("made_checked", "made_quarantine")
        assert holding == ({"made_prompts", *refused} if keep else set())
        wanted = {"made", "made_quarantine", "made_checked", "made_responses", *(["made_prompts"] if keep else [])}
        assert set(tables) - {"source"} == wanted
        assert (len(tables["made"]), len(tables["made_quarantine"])) == ((2, 1) if asks else (0, 3))


@each_engine
def test_a_script_that_measures_stores_one_profile_of_what_is_new(engine: str) -> None:
    sql = se.render(enrichment(), engine, config=Config(), quality=True)
    if engine == "snowflake":  # the interpreter knows no DENSE_RANK
        before, rest = sql.split("-- drift: ")
        sql = before + "-- sample: " + rest.split("-- sample: ")[1]
    with warehouse(engine, [], []) as run:
        run(sql)
        tables = run(sql)
    asks = get_engine(engine).call is not None
    lines = {(field, level): count for _, _, field, level, count in tables["made_profiles"]}
    assert len(lines) == len(tables["made_profiles"])
    assert {key: count for key, count in lines.items() if key[0] in ("label", "_error")} == (
        {("label", "length 1"): 2, ("_error", "accepted"): 2} if asks else {}
    )
    assert {line[0] for line in tables["made_profiles"]} == {line[14] for line in tables["made_responses"]}
    assert tables["made_evaluations"] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_without_prompts_nothing_is_asked_again(engine: str) -> None:
    with pytest.raises(se.ConfigError) as caught:
        se.render(enrichment("keep_prompts: false\n"), engine, config=Config(), retry=True)
    assert "made.prompt: keep_prompts: false leaves no prompt to ask again; run it once with" in str(caught.value)


# The source -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "clash"),
    [
        ("tickets", "enriched", "the enriched table"),
        ("raw.tickets", "db.raw", "the enriched table"),
        ("tickets_responses", "enriched", "the responses table"),
        ("{query: 'SELECT id, body FROM tickets'}", "enriched", "the enriched table"),
        ("{query: 'SELECT id, body FROM tickets'}", "", "the enriched table"),
        (
            "{query: 'SELECT t.id, t.body FROM x JOIN raw.tickets_prompts AS t ON t.id = x.id'}",
            "raw",
            "the prompts table",
        ),
        ("raw.tickets", "", ""),
        ("RAW.Tickets", "", ""),
        ("db.raw.tickets_checked", "raw", ""),
        ("{query: 'SELECT id, body FROM raw.tickets'}", "", ""),
        ("raw.tickets", "enriched", None),
        ("db.raw.tickets", "db.enriched", None),
        ("raw.ticket", "", None),
        ("{query: 'WITH tickets AS (SELECT id, body FROM raw.t) SELECT * FROM tickets'}", "", None),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_that_may_be_a_made_table_is_refused(engine: str, source: str, target: str, clash: str | None) -> None:
    place = f"{target}." if target else ""
    relations = {role: place + form.format("tickets") for role, form in RELATIONS.items()}
    asked = enrichment(source=source, name="tickets")
    if not clash:  # in one schema only, where the guards find it: the head says so
        head = " ".join(se.compile_plan(asked, engine, relations).must_exist)
        assert ("Needs: a current schema without the source" in head) is (clash is not None)
        return
    with pytest.raises(se.ConfigError) as caught:
        se.compile_plan(asked, engine, relations)
    assert f"may be {clash}" in str(caught.value)
    assert "write the source with its schema, or rename the prompt file" in str(caught.value)


# Names that a source query uses ---------------------------------------------------------------------------------------

QUERIES = {
    "a common table expression": "WITH rendered AS (SELECT id, body, rendered FROM source) SELECT * FROM rendered",
    "a table": "SELECT * FROM rendered",
    "an alias": "SELECT rendered.id, rendered.body, rendered.rendered FROM source AS rendered",
    "a common table expression of another step": "WITH p AS (SELECT * FROM source), r AS (SELECT * FROM p) "
    "SELECT r.id, r.body, r.rendered FROM r",
}


@each_engine
@pytest.mark.parametrize("keep", [[], ["rendered"]])
@pytest.mark.parametrize("query", QUERIES)
def test_a_source_query_may_use_every_name(engine: str, query: str, keep: list[str]) -> None:
    written = QUERIES[query]
    asked = enrichment(f"keep: {keep}\n", source=f'{{query: "{written}"}}')
    plan = se.compile_plan(asked, engine)
    columns = {"id": STRING, "body": STRING, "rendered": STRING}
    rows = [("1", "x", "r")]
    table = "rendered" if query == "a table" else "source"
    sql = plan.step("prompts").sql
    if engine == "duckdb":
        with duckdb.connect() as db:
            fill_duckdb(db, table, columns, rows)
            found = db.execute(sql).fetchall()
    elif engine == "bigquery":
        from tests.standins.googlesql import googlesql

        found = googlesql().evaluate(sql, {table: (typed(engine, columns), rows)})
    elif engine == "snowflake":
        from tests.standins import snowflake

        found = snowflake.rows(sql, {table: (typed(engine, columns), rows)})
        # Snowflake takes a name inside its own common table expression for recursion; the stand-in does not.
        assert query != "a table" or "WITH rendered_ AS" in sql
    else:
        from tests.standins import spark

        fill_spark(table, columns, rows)
        found = spark.rows(sql)
        spark.spark_session().catalog.dropTempView(table)
    assert [row[:-1] for row in found] == [("1", *["r" for _ in keep], "x")]

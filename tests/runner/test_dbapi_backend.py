"""A run over a DB-API connection: the same tables and the same report as on the DuckDB backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.types import INSTANT, Array, parse_type
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.store.backend import StatementPolicy
from sqlenrich.store.dbapi import DbApiBackend, portable_type
from sqlenrich.store.duckdb.backend import DuckDBBackend
from tests.support.hostile import TEXTS
from tests.support.runs import write_prompt

HEADER = "source: raw.messages\nkey: [id]\n"
FAILURES = {"bad_json": 0.2, "missing_field": 0.1, "error": 0.1}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with a source of hostile texts, repeated and NULL ones among them."""
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as db:
        db.execute("CREATE SCHEMA raw")
        db.execute("CREATE SCHEMA enriched")
        db.execute("CREATE TABLE raw.messages (id BIGINT, body VARCHAR)")
        texts = [*TEXTS, None, "", *(f"text {n % 40}" for n in range(80))]
        db.executemany("INSERT INTO raw.messages VALUES (?, ?)", list(enumerate(texts)))
        yield db


def tables(db: duckdb.DuckDBPyConnection, schema: str) -> list[list[tuple[Any, ...]]]:
    """Return the rows of the result tables, less run ids and times."""
    names = ("intent_prompts", "intent_checked", "intent", "intent_quarantine")
    found = [
        db.execute(f"SELECT COLUMNS(lambda c: c <> '_asked_at') FROM {schema}.{name} ORDER BY ALL").fetchall()
        for name in names
    ]
    answers = "SELECT * EXCLUDE (run_id, asked_at, latency_ms) FROM {}.intent_responses ORDER BY ALL"
    return [*found, db.execute(answers.format(schema)).fetchall()]


def test_the_tables_are_those_of_the_duckdb_backend(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    enrichment, mock = se.load(write_prompt(tmp_path, HEADER)), se.Mock(FAILURES)
    backend = DbApiBackend(database, engine="duckdb", schema="enriched")
    report = se.run(enrichment, output=backend, model=mock)
    own = tmp_path / "own.duckdb"
    with duckdb.connect(str(own)) as db:
        db.execute("CREATE SCHEMA raw")
        db.execute("CREATE TABLE raw.messages (id BIGINT, body VARCHAR)")
        db.executemany("INSERT INTO raw.messages VALUES (?, ?)", database.execute("FROM raw.messages").fetchall())
    expected = se.run(enrichment, output=own, model=mock)
    ignored = {"run_id", "seconds", "latency_ms"}
    facts = ({k: v for k, v in one.to_dict().items() if k not in ignored} for one in (report, expected))
    assert next(facts) == next(facts)
    assert min(report.enriched, report.quarantined) > 0
    with duckdb.connect(str(own)) as db:
        assert tables(database, "enriched") == tables(db, "main")


def test_nothing_answered_is_asked_again_and_refused_rows_are_retried(
    database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    enrichment = se.load(write_prompt(tmp_path, HEADER))
    backend = DbApiBackend(database, engine="duckdb", schema="enriched")
    first = se.run(enrichment, output=backend, model=se.Mock({"bad_json": 0.5}), caps=se.Caps(max_rows=20))
    assert (first.calls, first.exit_status, first.stopped_at) == (20, 4, "max_rows")
    second = se.run(enrichment, output=backend, model=se.Mock({"bad_json": 0.5}))
    assert second.calls == second.distinct_requests - 20
    third = se.run(enrichment, output=backend, mock=True)
    assert (third.calls, third.enriched, third.quarantine) == (0, second.enriched, second.quarantine)
    retried = se.retry(enrichment, output=backend, model=se.Mock())
    assert retried.calls > 0
    assert (retried.rows_in, retried.quarantine.get("BAD_JSON")) == (second.rows_in, None)
    ledger = database.execute("SELECT status FROM enriched._sqlenrich_runs ORDER BY started_at").fetchall()
    assert ledger == [("stopped",), ("done",), ("done",), ("done",)]


def test_the_requests_are_read_in_pages(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    enrichment, pages = se.load(write_prompt(tmp_path, HEADER)), StatementPolicy(page_rows=7)
    backend = DbApiBackend(database, engine="duckdb", schema="enriched", statements=pages)
    report = se.run(enrichment, output=backend, mock=True)
    assert (report.calls, report.pending) == (report.distinct_requests, 0)


@pytest.mark.parametrize(
    ("header", "input", "spoil", "message"),
    [
        ("source: raw.nowhere\nkey: [id]\n", None, "", "there is no table raw.nowhere, or it can't be read"),
        ("key: [id]\n", None, "", "which table? Write source: in the header, or give --input"),
        (
            "source: raw.messages\n",
            None,
            "",
            "a table has no row numbers: write key: [column] in the header; a file or a frame needs no key",
        ),
        (
            "key: [nr]\n",
            "raw.messages",
            "",
            'no column "nr" in raw.messages; there are: id, body; change key of the file, or give --key; files '
            "and frames need none: with key: [] the column _row counts their rows",
        ),
        ("key: [id]\nkeep: [nr]\n", "raw.messages", "", "there are: id, body; change keep of the file"),
        (HEADER, 'raw."mess', "", 'the input "raw."mess" is not a table name on duckdb'),
        (HEADER, "t'", "", 'the input "t\'" is not a table name on duckdb'),
        (HEADER, None, "CREATE TABLE enriched.intent (x INT)", 'the table "enriched"."intent" is not sqlenrich\'s'),
    ],
)
def test_what_is_refused(
    database: duckdb.DuckDBPyConnection, tmp_path: Path, header: str, input: str | None, spoil: str, message: str
) -> None:
    if spoil:
        database.execute(spoil)
    backend = DbApiBackend(database, engine="duckdb", schema="enriched")
    with pytest.raises(se.ConfigError, match=message.replace("(", r"\(").replace("?", r"\?").replace("[", r"\[")):
        se.run(se.load(write_prompt(tmp_path, header)), input=input, output=backend, mock=True)


def test_a_table_of_the_same_name_in_another_schema_is_another_table(
    database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE raw.intent (x INT); CREATE TABLE enriched.messages (id VARCHAR, other INT)")
    backend = DbApiBackend(database, engine="duckdb", schema="enriched")
    assert se.run(se.load(write_prompt(tmp_path, HEADER)), output=backend, mock=True).exit_status == 0


def test_the_source_may_be_a_query(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    header = 'source: {query: "SELECT id, body FROM raw.messages WHERE id < 5"}\nkey: [id]\n'
    backend = DbApiBackend(database, engine="duckdb", schema="enriched")
    assert se.run(se.load(write_prompt(tmp_path, header)), output=backend, mock=True).rows_in == 5


def test_long_answers_are_stored_by_several_statements(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    short = StatementPolicy(insert_bytes=2000)
    backend = DbApiBackend(database, engine="duckdb", schema="enriched", statements=short)
    report = se.run(se.load(write_prompt(tmp_path, HEADER)), output=backend, mock=True)
    stored = database.execute("SELECT count(*), count(DISTINCT request_hash) FROM enriched.intent_responses").fetchone()
    assert stored == (report.calls, report.distinct_requests)


@pytest.mark.parametrize("names", [("times",), ("_key_0", "_key_rows"), ("count", "rows")])
@pytest.mark.parametrize("repeated", [False, True])
def test_repeated_keys_of_any_name(tmp_path: Path, names: tuple[str, ...], repeated: bool) -> None:
    """Both backends count the same: rows, rows that repeat another's key, rows with a NULL in their key."""
    columns = ", ".join(f'"{name}" VARCHAR' for name in names)
    values = [("a", "NULL")] * 2 + [("b", "'x'")] if repeated else [("a", "'x'"), ("b", "'x'"), ("c", "'x'")]
    path = tmp_path / "w.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(f"CREATE TABLE src ({columns}, body VARCHAR)")
        for first, last in values:
            cells = [f"'{first}'"] * (len(names) - 1) + [last if len(names) > 1 else f"'{first}'"]
            db.execute(f"INSERT INTO src VALUES ({', '.join(cells)}, 'text')")
        plan = se.compile_plan(
            se.load(write_prompt(tmp_path, f"source: src\nkey: [{', '.join(names)}]\n")), "duckdb", asked_by_client=True
        )
        db.execute(f"CREATE TABLE intent_prompts AS {plan.step('prompts').sql}")
        expected = (3, int(repeated), 2 if repeated and len(names) > 1 else 0)
        assert DbApiBackend(db, engine="duckdb").repeated_keys(plan, names) == expected
    with DuckDBBackend(path) as backend:
        assert backend.repeated_keys(plan, names) == expected


def test_a_failing_statement_is_one_line(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    backend = DbApiBackend(database, engine="duckdb", schema="missing", place="the warehouse")
    with pytest.raises(se.RunError, match=r"^the warehouse: Catalog Error: Schema with name missing does not exist!$"):
        se.run(se.load(write_prompt(tmp_path, HEADER)), output=backend, mock=True)


@pytest.mark.parametrize(
    ("engine", "written", "expected"),
    [
        ("duckdb", "VARCHAR", "string"),
        ("duckdb", "HUGEINT", None),
        ("duckdb", "STRUCT(a INTEGER, b VARCHAR[])", {"struct": {"a": "bigint", "b": {"array": "string"}}}),
        ("duckdb", "TIMESTAMP WITH TIME ZONE", INSTANT),
        ("snowflake", "TIMESTAMP_LTZ(9)", INSTANT),
        ("snowflake", "TIMESTAMP_NTZ(9)", "timestamp"),
        ("spark", "timestamp", INSTANT),
        ("databricks", "timestamp_ntz", "timestamp"),
        ("databricks", "array<timestamp>", Array(INSTANT)),
        ("snowflake", "NUMBER(38,0)", "decimal(38,0)"),
        ("snowflake", "TEXT", "string"),
        ("snowflake", "VARIANT", None),
        ("bigquery", "ARRAY<STRING>", {"array": "string"}),
        ("bigquery", "FLOAT64", "double"),
        ("bigquery", "BYTES", None),
        ("databricks", "struct<a:bigint,b:array<date>>", {"struct": {"a": "bigint", "b": {"array": "date"}}}),
        ("databricks", "decimal(10,2)", "decimal(10,2)"),
    ],
)
def test_types(engine: str, written: str, expected: object) -> None:
    found = portable_type(get_engine(engine), written)
    assert found == (None if expected is None else parse_type(expected))


def test_a_client_may_ask_for_an_engine_that_has_its_own_function(tmp_path: Path) -> None:
    enrichment = se.load(write_prompt(tmp_path, HEADER))
    for engine in ENGINES:
        plan = se.compile_plan(enrichment, engine, asked_by_client=True)
        assert not plan.responses.calls_in_sql


def test_a_backend_of_a_path_is_the_output(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,body\n1,a\n", encoding="utf-8")
    enrichment = se.load(write_prompt(tmp_path))
    report = se.run(enrichment, input=tmp_path / "in.csv", output=DuckDBBackend(tmp_path / "o.csv"), mock=True)
    assert (report.output, (tmp_path / "o.csv").exists()) == (str(tmp_path / "o.csv"), True)

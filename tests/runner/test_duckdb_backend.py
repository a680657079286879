"""The database of a run: types, names, row numbers of large files, and requests in chunks."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.errors import RunError
from sqlenrich.core.types import INSTANT, parse_type
from sqlenrich.engines import ENGINES
from sqlenrich.llm.messages import Answer
from sqlenrich.store.base import Origin
from sqlenrich.store.duckdb.backend import DuckDBBackend
from sqlenrich.store.duckdb.database import Database, Policy, name_parts
from sqlenrich.store.duckdb.types import portable_type
from tests.support.runs import rows, run, write_prompt


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("VARCHAR", "string"),
        ("UBIGINT", "bigint"),
        ("FLOAT", "double"),
        ("DECIMAL(9,2)", "decimal(9,2)"),
        ("TIMESTAMP WITH TIME ZONE", INSTANT),
        ("VARCHAR[][]", {"array": {"array": "string"}}),
        ("STRUCT(a INTEGER, b VARCHAR[])", {"struct": {"a": "bigint", "b": {"array": "string"}}}),
        ('STRUCT("x, (y) ""z""" DATE, b STRUCT(c DECIMAL(3,1))[])', {
            "struct": {'x, (y) "z"': "date", "b": {"array": {"struct": {"c": "decimal(3,1)"}}}}
        }),
    ],
)  # fmt: skip
def test_types(written: str, expected: object) -> None:
    assert portable_type(written) == parse_type(expected)


@pytest.mark.parametrize(
    "written", ["BLOB", "UUID", "MAP(VARCHAR, INTEGER)", "TIME", "BLOB[]", "STRUCT(a BLOB)", "JSON"]
)
def test_types_that_are_read_as_text(written: str) -> None:
    assert portable_type(written) is None


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ("messages", ["messages"]),
        ("raw.messages", ["raw", "messages"]),
        ('raw."a.b"', ["raw", "a.b"]),
        ('"say ""x"""', ['say "x"']),
        ('"a"."b"."c d"', ["a", "b", "c d"]),
    ],
)
def test_names_of_tables(table: str, parts: list[str]) -> None:
    assert name_parts(table) == parts


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_row_numbers_of_a_large_file_follow_the_file(tmp_path: Path, kind: str) -> None:
    """Read by several threads, numbered in the file's order all the same; each request is asked once."""
    data, output, count = tmp_path / f"in.{kind}", tmp_path / "out.duckdb", 40_000
    form = {"csv": "FORMAT csv, HEADER", "jsonl": "FORMAT json", "parquet": "FORMAT parquet, ROW_GROUP_SIZE 5000"}[kind]
    with duckdb.connect() as db:
        db.execute(
            f"COPY (SELECT 'text ' || i || repeat('x', 400) AS body FROM range({count}) t(i)) TO '{data}' ({form})"
        )
    result = run(write_prompt(tmp_path, "key: []\nwhere: body <> 'text 5'\n", "{{ body[:10] }}"), data, output)
    assert result.report["rows_in"] == count
    assert result.report["calls"] == result.report["distinct_requests"] > Policy.page_rows * 2
    wrong = "SELECT count(*) FROM intent_prompts WHERE prompt <> ('text ' || (_row - 1) || repeat('x', 400))[:10]"
    assert rows(output, wrong) == [(0,)]
    twice = "SELECT count(*) FROM (SELECT request_hash FROM intent_responses GROUP BY ALL HAVING count(*) > 1)"
    assert rows(output, twice) == [(0,)]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_file_larger_than_the_memory_limit(tmp_path: Path, kind: str) -> None:
    data, count = tmp_path / f"in.{kind}", 20_000
    line = '{"id":"%d","body":"%s"}\n' if kind == "jsonl" else '%d,"%s"\n'
    with data.open("w", encoding="utf-8") as file:
        file.write("id,body\n" if kind == "csv" else "")
        file.writelines(line % (i, "x" * 10_000) for i in range(count))
    assert data.stat().st_size > 190 * 2**20
    enrichment = se.load(write_prompt(tmp_path, template="{{ body[:9] }} {{ id }}"))
    backend = DuckDBBackend(tmp_path / "out.duckdb", Policy(memory_mib=80))
    report = se.run(enrichment, input=data, output=backend, mock=True)
    assert (report.exit_status, report.calls) == (0, count)


def test_columns_that_are_read_as_text(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "in.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS id, '{\"a\": 1}'::JSON AS body, TIME '10:00:00' AS at")
    prompt = write_prompt(tmp_path, "source: t\nkey: [id]\n", "{{ body }} {{ at }}")
    result = run(prompt, tmp_path / "in.duckdb", tmp_path / "out.duckdb")
    assert result.status == 0, result.err
    assert rows(tmp_path / "out.duckdb", "SELECT prompt FROM intent_prompts") == [('{"a": 1} 10:00:00',)]


def test_a_failing_statement_is_one_line_and_the_store_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    with pytest.raises(RunError) as raised, Database(path) as database:
        database.rows("SELECT * FROM nowhere")
    assert str(raised.value) == f"{path}: Table with name nowhere does not exist!"
    duckdb.connect(str(path)).close()


def test_an_answer_is_stored_with_its_moment_in_utc(tmp_path: Path) -> None:
    path, east = tmp_path / "out.duckdb", timezone(timedelta(hours=5))
    (tmp_path / "in.csv").write_text("id,body\n1,a\n", encoding="utf-8")
    enrichment = se.load(write_prompt(tmp_path))
    se.run(enrichment, input=tmp_path / "in.csv", output=path, mock=True)
    plan = se.compile_plan(replace(enrichment, source="t"), engine="duckdb")
    asked_at = datetime(2026, 1, 2, 3, tzinfo=east)
    answer = Answer("h", 2, "s", "{}", None, False, "stop", "m", 1, 0, None, 5, asked_at, 1)
    with DuckDBBackend(path) as backend:
        backend.append(plan, [answer, answer._replace(asked_at=asked_at.astimezone(UTC))], Origin("r", "7", "f"))
    found = rows(path, f"SELECT * FROM {plan.step('responses').relation} WHERE run_id = 'r'")
    moment, others = datetime(2026, 1, 1, 22), (None,) * 5
    stored = ("h", 2, "s", "{}", None, False, "stop", "m", "7", "f", 1, 0, None, 5, "r", moment, *others)
    assert found == [stored, stored]


def test_the_ledger_tells_of_failed_and_stopped_runs(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,body\n1,a\n2,b\n", encoding="utf-8")
    prompt, data, output = write_prompt(tmp_path), tmp_path / "in.csv", tmp_path / "out.duckdb"
    with pytest.raises(RunError):
        se.run(se.load(prompt), input=data, output=output, endpoint="http://127.0.0.1:9/v1", model="m")
    run(prompt, data, output, "--max-rows", 1)
    run(prompt, data, output)
    ledger = rows(output, "SELECT status, report FROM _sqlenrich_runs ORDER BY started_at")
    assert [row[0] for row in ledger] == ["failed", "stopped", "done"]
    assert [json.loads(row[1])["quarantine"] for row in ledger] == [{"NOT_ASKED": 2}, {"NOT_ASKED": 1}, {}]


def rewritten(path: Path) -> None:
    """As long as before, and with the time of the old content."""
    before = path.stat()
    path.write_text(path.read_text().replace("text 1", "text 7"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


CHANGES: dict[str, tuple[Callable[[Path], object], bool]] = {
    "nothing": (lambda _: None, True),
    "the content": (rewritten, False),
    "another row": (lambda folder: folder.write_text(folder.read_text() + "9,text 9\n"), False),
    "the same file, written again": (lambda path: path.write_text(path.read_text()), False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_prompts_of_an_unchanged_file_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("sqlenrich.store.duckdb.kept_prompts.SETTLED_S", 0.0)
    data, output = tmp_path / "in.csv", tmp_path / "out.duckdb"
    data.write_text("id,body\n0,text 0\n1,text 1\n2,text 2\n")
    prompt = write_prompt(tmp_path, "key: [id]\n")
    se.run(prompt, input=data, output=output, mock=True)
    with duckdb.connect(str(output)) as db:
        db.execute("UPDATE intent_prompts SET prompt = 'mark' WHERE id = '2'")
    act, kept = CHANGES[change]
    time.sleep(0.01)  # a tick of the clock of the file system
    act(data)
    report = se.run(prompt, input=data, output=output, mock=True)
    with duckdb.connect(str(output)) as db:
        found = dict(db.execute("SELECT id, prompt FROM intent_prompts").fetchall())
        assert (found["2"] == "mark") is kept
        written = {line[0]: line[2:] for line in data.read_text().splitlines()[1:]}
        assert all(text == "mark" or written[key] in text for key, text in found.items())
        assert found.keys() == written.keys()
        assert (report.rows_in, report.enriched) == (len(written), len(written))
        db.execute("DELETE FROM intent_prompts WHERE id = '0'")  # a table that somebody else has changed is made again
    assert se.run(prompt, input=data, output=output, mock=True).rows_in == len(written)


@pytest.mark.parametrize("where", [None, "id <> '9'"])
def test_prompts_are_made_again_where_the_same_file_may_give_other_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    """A condition may be one of the day; and a file that has changed just now may do so again within a tick."""
    monkeypatch.setattr("sqlenrich.store.duckdb.kept_prompts.SETTLED_S", 3600.0 if where is None else 0.0)
    data, output = tmp_path / "in.csv", tmp_path / "out.duckdb"
    data.write_text("id,body\n0,text 0\n1,text 1\n2,text 2\n")
    prompt = write_prompt(tmp_path, "key: [id]\n")
    se.run(prompt, input=data, output=output, mock=True, where=where)
    with duckdb.connect(str(output)) as db:
        db.execute("UPDATE intent_prompts SET prompt = 'mark'")
    se.run(prompt, input=data, output=output, mock=True, where=where)
    assert ("mark",) not in rows(output, "SELECT prompt FROM intent_prompts")


@pytest.mark.parametrize(
    ("slice_rows", "slices_most", "passes"), [(1, 64, 1), (1, 3, 1), (3, 64, 4), (11, 1, 16), (40, 64, 256)]
)
def test_tables_are_the_same_in_slices_of_any_size(
    tmp_path: Path, slice_rows: int, slices_most: int, passes: int
) -> None:
    data = tmp_path / "in.csv"
    data.write_text("id,body\n" + "".join(f"{i},{'' if i % 9 == 0 else i % 17}\n" for i in range(40)), encoding="utf-8")
    prompt, tables = write_prompt(tmp_path), []
    for policy in (Policy(), Policy(slice_rows=slice_rows, slices_most=slices_most, passes=passes)):
        output = tmp_path / f"{policy.passes}-{policy.slice_rows}.duckdb"
        report = se.run(se.load(prompt), input=data, output=DuckDBBackend(output, policy), mock=True)
        assert (report.exit_status, report.rows_in, report.distinct_requests, report.calls) == (0, 40, 17, 17)
        steps = ("intent", "intent_quarantine", "intent_checked")
        tables.append([rows(output, f"SELECT * EXCLUDE (_asked_at) FROM {step} ORDER BY ALL") for step in steps])
    assert tables[0] == tables[1]
    assert [len(table) for table in tables[0]] == [35, 5, 40]


@pytest.mark.parametrize("passes", [1, 4])
def test_requests_are_in_the_order_of_their_prompts(tmp_path: Path, passes: int) -> None:
    data, output = tmp_path / "in.csv", tmp_path / "out.duckdb"
    data.write_text("id,body\n" + "".join(f"{i},text {i * 7 % 10}\n" for i in range(10)), encoding="utf-8")
    enrichment = se.load(write_prompt(tmp_path))
    se.run(enrichment, input=data, output=output, mock=True)
    plan = se.compile_plan(replace(enrichment, source="t"), engine="duckdb")
    with DuckDBBackend(output, Policy(passes=passes)) as backend:
        backend.database.execute("DELETE FROM intent_responses")
        assert backend.refresh(plan, plan.responses, ordered=True) == 10
        prompts = [request.prompt for request in backend.requests(plan.responses, 10)]
    assert prompts == sorted(prompts)


@pytest.mark.parametrize(("enough", "tried"), [(1, [1]), (16, [1, 1, 4, 16]), (17, [1, 1, 4, 16, 1, 4, 16])])
def test_what_lacks_memory_is_done_in_more_passes(tmp_path: Path, enough: int, tried: list[int]) -> None:
    done: list[int] = []

    def work(passes: int) -> str:
        done.append(passes)
        if passes < enough:
            raise duckdb.OutOfMemoryException
        return "done"

    with Database(tmp_path / "out.duckdb", Policy(100, 400, passes_most=16, passes_mib=200)) as database:
        if enough <= 16:
            assert database.in_passes(work) == "done"
        else:
            with pytest.raises(duckdb.OutOfMemoryException):
                database.in_passes(work)
    assert done == tried


SPILLS = """
import os, sys
from pathlib import Path
from sqlenrich.store.duckdb.database import Database
with Database(Path(sys.argv[1])) as database:
    database.db.execute("SET memory_limit = '24MiB'")
    database.db.execute("CREATE TEMP TABLE t AS SELECT uuid() AS a, uuid() AS b FROM range(2000000)")
    os._exit(0)
"""


@pytest.mark.parametrize("own", ["", "notes.txt"])
def test_what_a_killed_process_spilled_is_removed(tmp_path: Path, own: str) -> None:
    output, spill = tmp_path / "out.duckdb", tmp_path / "out.duckdb.tmp"
    subprocess.run([sys.executable, "-c", SPILLS, str(output)], check=True)
    assert sum(file.stat().st_size for file in spill.iterdir()) > 1_000_000
    if own:
        (spill / own).write_text("not DuckDB's")
    with Database(output):
        assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["out.duckdb"] + [own] * bool(own)
    assert spill.exists() == bool(own)


def test_a_backend_is_used_again(tmp_path: Path) -> None:
    """The second run attaches the input's database again, and begins with the first limit of the memory."""
    with duckdb.connect(str(tmp_path / "in.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT i AS id, 'text ' || i AS body FROM range(5) AS r(i)")
    enrichment = se.load(write_prompt(tmp_path, "source: t\nkey: [id]\n"))
    backend = DuckDBBackend(tmp_path / "out.duckdb")
    calls = [se.run(enrichment, input=tmp_path / "in.duckdb", output=backend, mock=True).calls for _ in range(2)]
    assert calls == [5, 0]


@pytest.mark.parametrize("as_backend", [False, True])
def test_an_output_that_no_run_wrote_is_refused(tmp_path: Path, as_backend: bool) -> None:
    (tmp_path / "in.csv").write_text("id,body\n1,a\n", encoding="utf-8")
    enrichment = se.load(write_prompt(tmp_path))

    def output(name: str) -> Path | DuckDBBackend:
        return DuckDBBackend(tmp_path / name) if as_backend else tmp_path / name

    for name in ("in.csv", "mine.csv"):
        (tmp_path / "mine.csv").write_text("mine\n1\n", encoding="utf-8")
        with pytest.raises(se.ConfigError):
            se.run(enrichment, input=tmp_path / "in.csv", output=output(name), mock=True)
    with pytest.raises(se.ConfigError, match="holds no run of intent: run it first"):
        se.retry(enrichment, output=output("sub/none.duckdb"), mock=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "intent.prompt", "mine.csv"]


def test_a_commit_that_fails_is_an_error(tmp_path: Path) -> None:
    """A full disk shows at the commit: the tables would silently stay as they were."""

    class Full:
        """A connection whose disk is full when a transaction is committed."""

        def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
            self.db = db

        def __getattr__(self, name: str) -> object:
            return getattr(self.db, name)

        def execute(self, sql: str) -> object:
            if sql == "COMMIT":
                raise duckdb.TransactionException("TransactionContext Error: Failed to commit: File too large")
            return self.db.execute(sql)

    database = Database(tmp_path / "o.duckdb")
    with database:
        database.db = Full(database.db)  # type: ignore[assignment]
        database.begin()
        with pytest.raises(duckdb.TransactionException, match="Failed to commit: File too large"):
            database.commit()


@pytest.mark.parametrize("function", ["run", "retry", "estimate", "compare"])
def test_a_misspelt_keyword_is_refused(tmp_path: Path, function: str) -> None:
    enrichment = se.load(write_prompt(tmp_path))
    with pytest.raises(TypeError, match=rf"{function}\(\) got an unexpected keyword argument 'max_rowz'"):
        getattr(se, function)(enrichment, output=tmp_path / "o.duckdb", mock=True, max_rowz=3)


def test_the_report_names_the_tables_that_were_made(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,body\n1,a\n", encoding="utf-8")
    output, mock = tmp_path / "o.duckdb", se.Mock({"bad_json": 1.0})
    report = se.run(
        se.load(write_prompt(tmp_path)), input=tmp_path / "in.csv", output=output, model=mock, tables="other"
    )
    assert report.to_text().endswith("see other_quarantine")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_is_pickled(tmp_path: Path, engine: str) -> None:
    plan = se.compile_plan(se.load(write_prompt(tmp_path, "source: t\nkey: [id]\n")), engine)
    again = pickle.loads(pickle.dumps(plan))
    assert [step.sql for step in again.steps] == [step.sql for step in plan.steps]

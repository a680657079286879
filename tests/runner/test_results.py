"""Tables out: a report's tables, several outputs, rows that stay, and what ``show`` and ``export`` give."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine
from tests.support.runs import call, rows, write_csv, write_prompt


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


OUTPUT = {"label(enum)": ["a", "b"], "n": "integer"}


def few(*ids: int, text: str = "text") -> list[dict[str, Any]]:
    return [{"id": n, "body": f"{text} {n}"} for n in ids]


def made() -> se.Enrichment:
    return se.enrichment("intent", prompt="Classify {{ body }}", key=["id"], output=OUTPUT)


FAILING = {"bad_json": 0.5}


def test_a_report_has_its_tables() -> None:
    """Without an output they are temporary, and last as long as the report."""
    report = se.run(made(), input=few(*range(8)), model=se.Mock(FAILING))
    assert 0 < report.enriched < 8
    assert report.table().select(["id", "label"]).num_rows == report.enriched
    refused = report.quarantine()
    assert refused.num_rows == report.quarantined == sum(report.quarantine.values())
    assert set(refused["_error"].to_pylist()) == {"BAD_JSON"} == set(report.quarantine)
    assert json.loads(report.to_json())["quarantine"] == {"BAD_JSON": report.quarantined}
    assert report.output == ""
    assert "next: " not in report.to_text()
    assert list(Path().iterdir()) == []
    place = report.results.database if report.results is not None else Path()
    assert place.is_file()
    del report
    assert not place.parent.exists()


def test_frames() -> None:
    report = se.run(made(), input=few(1, 2), mock=True)
    pytest.importorskip("pandas")
    assert list(report.df()["id"]) == [1, 2]
    pytest.importorskip("polars")
    assert report.pl()["id"].to_list() == [1, 2]


def test_rows_keep_the_order_of_the_source() -> None:
    """Whatever DuckDB does: its threads take a table in parts, and its joins give the rows of either side first."""
    ids = [n * 7919 % 20_011 for n in range(20_000)]
    report = se.run(made(), input=few(*ids), model=se.Mock(FAILING))
    for table in (report.table(), report.quarantine()):
        found = set(table["id"].to_pylist())
        assert table["id"].to_pylist() == [n for n in ids if n in found]
    assert report.enriched + report.quarantined == len(ids)


def test_a_report_in_a_notebook() -> None:
    hostile = [{"id": 1, "body": "<script>x</script>"}, *few(*range(2, 9))]
    report = se.run(made(), input=hostile, model=se.Mock(FAILING))
    shown = report._repr_html_()
    assert "<pre>8 rows in" in shown
    assert f"intent_quarantine: {report.quarantined} rows" in shown
    assert "<script>" not in shown
    # A table that is gone is told, not raised.
    kept = se.run(made(), input=few(1), output="out.duckdb", mock=True)
    Path("out.duckdb").unlink()
    assert "out.duckdb is gone" in kept._repr_html_()


def test_a_run_without_an_observer_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sqlenrich")
    se.run(made(), input=few(1, 2), output="out.duckdb", mock=True)
    se.run(made(), input=few(1), output="out.duckdb", mock=True)
    assert [(one.levelname, re.split(",|: --", one.getMessage())[0]) for one in caplog.records] == [
        ("INFO", "plan: 2 rows"),
        ("INFO", "2/2 answered"),
        ("WARNING", "warning: intent and intent_quarantine shrink from 2 rows to 1"),
        ("INFO", "plan: 1 row"),
    ]


def test_several_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ["out.duckdb", "o.csv", "o.parquet", "o.jsonl", "-"]
    report = se.run(made(), input=few(*range(8)), output=outputs, model=se.Mock(FAILING))
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = report.table().to_pylist()
    lines = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
    for row in (*printed, *lines):
        row["_asked_at"] = datetime.fromisoformat(row["_asked_at"])
    assert printed == lines == wanted == pq.read_table("o.parquet").to_pylist()
    assert len(Path("o.csv").read_text().splitlines()) == report.enriched + 1
    assert len(Path("o_quarantine.jsonl").read_text().splitlines()) == report.quarantined
    again = "sqlenrich retry intent --output out.duckdb --output o.csv --output o.parquet --output o.jsonl --mock"
    assert all(report.exit_status == 0 or again in line for line in report.to_text().splitlines()[-1:])
    # The files are replaced, since a run wrote them; another file is not.
    assert se.run(made(), input=few(1), output=outputs, mock=True).rows_in == 1
    Path("mine.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(se.ConfigError, match=r"mine\.jsonl was not written by sqlenrich"):
        se.run(made(), input=few(1), output=["out.duckdb", "mine.jsonl"], mock=True)
    with pytest.raises(se.ConfigError, match="a run has one database"):
        se.run(made(), input=few(1), output=["a.duckdb", "b.db"], mock=True)


def test_standard_output_of_the_command() -> None:
    prompt, data = write_prompt(Path()), write_csv(Path("in.csv"), [(1, "a"), (2, "b")])
    done = call("run", prompt, "--input", data, "--output", "-", "--mock")
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == ["1", "2"]
    assert call("run", prompt, "--input", data, "--output", "-", "--mock").err.startswith(
        "plan: 2 rows, 2 distinct requests, 2 already answered"
    )
    assert "give one of them" in call("run", prompt, "--input", data, "--output", "-", "--mock", "--json").err


class Notes(NullObserver):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


def test_daily_deltas_give_the_table_of_one_run() -> None:
    """Rows of this input replace rows of the same key; a NULL is a key; the others stay, refused ones too."""
    e, days = made(), [few(*range(3 * day, 3 * day + 4), text=f"day {day}") for day in range(10)]
    days[4] += [{"id": None, "body": "nobody"}]
    days[7] += [{"id": None, "body": "somebody"}, {"id": None, "body": "else"}]
    whole: dict[Any, list[dict[str, Any]]] = {}
    for day in days:
        keys = {row["id"] for row in day}
        whole = {key: kept for key, kept in whole.items() if key not in keys}
        for row in day:
            whole.setdefault(row["id"], []).append(row)
        # DuckDB gives a column of NULLs no type, and of a mixture the type of its values.
        report = se.run(e, input=day, output="days.duckdb", model=se.Mock(FAILING), incremental=True)
        assert report.rows_in == sum(map(len, whole.values()))
    once = [row for kept in whole.values() for row in kept]
    se.run(e, input=once, output="once.duckdb", model=se.Mock(FAILING))
    for table in ("intent", "intent_quarantine"):
        query = f"SELECT * EXCLUDE (_request_hash, _asked_at) FROM {table} ORDER BY ALL"
        assert rows(Path("days.duckdb"), query) == rows(Path("once.duckdb"), query) != []
    assert rows(Path("days.duckdb"), "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%incoming'") == []
    retried = se.retry(e, output="days.duckdb", model=se.Mock())
    assert (retried.rows_in, retried.quarantined) == (len(once), 0)


def test_a_run_that_ends_early_leaves_complete_results() -> None:
    """Rows of the tables and lines of the file after each call, and whether the call published them."""
    steps: list[tuple[Any, dict[str, Any], int, bool]] = [
        (se.run, {"input": few(*range(4)), "max_calls": 2}, 4, True),  # there are none before
        (se.run, {"input": few(*range(6))}, 6, True),  # those of a run that ended early are replaced
        (se.run, {"input": few(*range(10)), "max_calls": 2}, 6, False),
        (se.retry, {}, 6, False),
        (se.run, {"input": few(*range(9)), "incremental": True, "max_rows": 1}, 6, False),
        (se.run, {"input": few(*range(10)), "max_rows": 1, "publish_partial": True}, 10, True),
        (se.run, {"input": few(*range(9)), "max_rows": 1}, 9, True),
        (se.run, {"input": few(*range(3))}, 3, True),
    ]
    kept = "intent and intent_quarantine are those of the run before; --publish-partial replaces them"
    for verb, options, expected, published in steps:
        report = verb(made(), output=["out.duckdb", "out.csv"], model=se.Mock(), **options)
        found = rows(Path("out.duckdb"), "SELECT id FROM intent UNION ALL SELECT id FROM intent_quarantine")
        assert len(found) == expected, options
        lines = [len(Path(name).read_text().splitlines()) - 1 for name in ("out.csv", "out_quarantine.csv")]
        assert sum(lines) == expected, options
        assert se.audit(made(), output="out.duckdb").exit_status == (0 if published else 3), options
        assert (report.to_dict()["published"], kept in report.to_text()) == (published, not published), options
        assert report.rows_in == report.enriched + report.quarantined, options
        assert report.exit_status == (4 if report.pending else 0), options


def test_a_run_that_shrinks_the_table_says_so() -> None:
    notes = Notes()
    for ids, said in ((range(5), []), (range(6), []), (range(2), ["--incremental keeps the rows"])):
        se.run(made(), input=few(*ids), output="out.duckdb", mock=True, observer=notes)
        assert [line for line in said if line not in " ".join(notes.lines)] == []
    assert notes.lines == [
        "warning: intent and intent_quarantine shrink from 6 rows to 2: --incremental keeps the rows that the input "
        "lacks"
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": []}, "an incremental run needs a key"),
        ({"keep_prompts": False}, "an incremental run needs the earlier rows: keep_prompts is false"),
        ({"keep": ["body"]}, "has other columns than this prompt file gives"),
    ],
)
def test_rows_that_can_not_be_joined(changes: dict[str, Any], words: str) -> None:
    se.run(made(), input=few(1), output="out.duckdb", mock=True)
    header: dict[str, Any] = {"key": ["id"], "output": OUTPUT, **changes}
    changed = se.enrichment("intent", prompt="Classify {{ body }}", **header)
    with pytest.raises(se.ConfigError, match=words):
        se.run(changed, input=few(2), output="out.duckdb", mock=True, incremental=True)
    assert rows(Path("out.duckdb"), "SELECT id FROM intent") == [(1,)]


def test_two_prompt_files_of_one_name() -> None:
    for name in ("a", "b"):
        Path(name).mkdir()
        write_prompt(Path(name), template=f"{name}: {{{{ body }}}}")
    data = write_csv(Path("in.csv"), [(1, "a")])
    run = ("--input", data, "--output", "out.duckdb", "--mock")
    assert [call("run", "a/intent.prompt", *run).status for _ in range(2)] == [0, 0]
    refused = call("run", "b/intent.prompt", *run)
    assert (refused.status, refused.error) == (
        2,
        "out.duckdb has the tables of another intent.prompt: a/intent.prompt; rename one, give another --output, "
        "or --replace",
    )
    assert call("run", "b/intent.prompt", *run, "--replace").status == 0
    assert call("run", "b/intent.prompt", *run).status == 0
    # A file that is moved is the same file.
    Path("b").rename("c")
    assert call("run", "c/intent.prompt", *run).status == 0


@pytest.mark.parametrize(
    ("first", "second", "table"),
    [
        ("product", "Product", "Product_prompts"),
        ("product_reviews", "product", "product_reviews"),
        ("product", "PRODUCT_quarantine", "PRODUCT_quarantine"),
    ],
)
def test_enrichments_that_would_write_each_others_tables(first: str, second: str, table: str) -> None:
    data = write_csv(Path("in.csv"), [(1, "a")])
    files = []
    for name in (first, second):
        Path(name).mkdir()
        files.append(str(write_prompt(Path(name)).rename(Path(name, f"{name}.prompt"))))
    checked = call("check", *files)
    assert checked.status == 2
    assert f"{files[0]} and {files[1]} would both write the table" in checked.error
    run = ("--input", data, "--output", "out.duckdb", "--mock")
    assert call("run", files[0], *run).status == 0
    tables = "SELECT table_name, estimated_size FROM duckdb_tables() ORDER BY ALL"
    before = rows(Path("out.duckdb"), tables)
    refused = call("run", files[1], *run)
    assert (refused.status, refused.error) == (
        2,
        f"out.duckdb has runs of {first}, which writes the table {table} too: rename {second}.prompt, or give "
        "another --output; --replace writes over it",
    )
    assert rows(Path("out.duckdb"), tables) == before


@pytest.mark.parametrize(("first", "second"), [("product", "product_quarantine"), ("product_quarantine", "product")])
def test_tables_of_another_enrichment_without_a_ledger(first: str, second: str) -> None:
    """As dbt leaves them."""
    enrichments = [se.enrichment(name, prompt="{{ body }}", key=["id"], output=OUTPUT) for name in (first, second)]
    se.run(enrichments[0], input=few(1), output="out.duckdb", mock=True)
    with duckdb.connect("out.duckdb") as db:
        db.execute("DROP TABLE _sqlenrich_runs")
    with pytest.raises(se.ConfigError, match=r"the table \"product_quarantine\" is not one of this enrichment; rename"):
        se.run(enrichments[1], input=few(1), output="out.duckdb", mock=True)


@pytest.fixture
def finished(folder: Path) -> Path:
    data = write_csv(folder / "in.csv", [(n, f"text {n}") for n in range(8)])
    prompt = write_prompt(folder, "key: [id]\nmax_quarantine: 0.01\n")
    mock = ("--mock", "--mock-failures", "bad_json=0.5")
    done = call("run", prompt, "--input", data, "--output", "out.duckdb", *mock)
    assert done.status == 3
    assert done.err.splitlines()[-1] == (
        "next: sqlenrich show intent --quarantine --output out.duckdb, or "
        f"sqlenrich retry {folder / 'intent.prompt'} --output out.duckdb --mock"
    )
    return folder / "out.duckdb"


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        (("intent",), "SELECT id, label, urgency FROM intent"),
        (("intent.prompt", "-n", "1"), "SELECT id, label, urgency FROM intent LIMIT 1"),
        (("intent", "--quarantine", "--columns", "_error,id"), "SELECT _error, id FROM intent_quarantine"),
        (("intent", "--where", "id > '3'", "--columns", "id"), "SELECT id FROM intent WHERE id > '3'"),
    ],
)
def test_show_and_export(finished: Path, arguments: Sequence[str], query: str) -> None:
    wanted = rows(finished, query)
    shown = call("show", *arguments, "--output", finished).out
    assert [tuple(cell.strip() for cell in line.split("│")[1:-1]) for line in shown.splitlines()[4:-1]] == [
        tuple(map(str, row)) for row in wanted
    ]
    if "-n" not in arguments:
        printed = [json.loads(line) for line in call("export", *arguments, "--output", finished).out.splitlines()]
        names = list(printed[0])[: len(wanted[0])]
        assert [tuple(row[name] for name in names) for row in printed] == wanted
        assert call("export", *arguments, "--output", finished, "--to", "x.parquet").status == 0
        assert pq.read_table("x.parquet").num_rows == len(wanted)


JOINED = "id,body,label,Urgency\n5,e,x,1\n3,c,,\n4,,y,2\n1,a,z,\n"


@pytest.mark.parametrize(
    ("header", "given"),
    [
        ("key: [id]\nkeep: [label2]\ncolumns: {label2: {from: label}}\n", "in.csv"),
        ("key: [nr]\ncolumns: {nr: {type: bigint, from: id}}\n", "in.csv"),
        ("key: []\nwhere: \"id <> '3'\"\n", "in.csv"),
        ("key: [id]\nkeep: [nr]\ncolumns: {nr: {from: id}}\n", "in.duckdb#t"),
        ("key: [id]\n", "out.duckdb#t"),
        ("key: [id]\n", "old.csv"),
    ],
)
def test_results_joined_to_their_input(folder: Path, header: str, given: str) -> None:
    """In the input's order: a label, NULL and a reason for a row without input, NULL for one that was not read."""
    prompt = write_prompt(folder, header)
    Path("in.csv").write_text(JOINED, encoding="utf-8")
    Path("old.csv").write_bytes(JOINED.replace("e,x", "e,ü").encode("cp1252"))
    encoding = ("--encoding", "cp1252") if given == "old.csv" else ()
    for name in ("in.duckdb", "out.duckdb"):
        with duckdb.connect(name) as db:
            db.execute("CREATE TABLE t AS FROM read_csv('in.csv', all_varchar = true)")
    run = call("run", prompt, "--input", given, *encoding, "--output", "out.duckdb", "--mock")
    assert run.status == 0, run.err
    for to in ("all.csv", "all.parquet", "all.parquet"):  # the second replaces what the first wrote
        done = call("export", "intent", "--output", "out.duckdb", "--join", given, *encoding, "--to", to)
        assert done.status == 0, done.err
        told = f"rows of {given} that the run did not read, so without a result: 1\n" if "where" in header else ""
        assert done.err == told
    joined = pq.read_table("all.parquet")
    names = ["label_intent", "urgency_intent", "_error", "_error_detail", "_request_hash"]
    assert joined.column_names == ["id", "body", "label", "Urgency", *names]
    wanted = JOINED.replace("e,x", "e,ü") if given == "old.csv" else JOINED
    source = [tuple(one or None for one in line.split(",")) for line in wanted.splitlines()[1:]]
    found = [tuple(row.values()) for row in joined.to_pylist()]
    assert [row[:4] for row in found] == source
    read = {row[0]: (row[4] is not None, row[6]) for row in found}
    skipped = (False, None) if "where" in header else (True, None)
    assert read == {"5": (True, None), "3": skipped, "4": (False, "NO_INPUT"), "1": (True, None)}
    assert len(Path("all.csv").read_text(encoding="utf-8").splitlines()) == len(JOINED.splitlines())
    some = ("--where", "_error IS NOT NULL", "--columns", "id,_error")
    printed = call("export", prompt, "--output", "out.duckdb", "--join", given, *encoding, *some).out
    assert printed == '{"id":"4","_error":"NO_INPUT"}\n'


@pytest.mark.parametrize(
    ("header", "given", "more", "words"),
    [
        ("key: [id]\n", "in.csv", ("--quarantine",), "leave out --quarantine"),
        ("key: [id]\n", "b.csv", (), 'b.csv has no column "id" (ID?), the key of the run; it has: ID, body'),
        ("key: [id]\n", "no.csv", (), "no.csv: no such file"),
        ("key: [id]\n", "in.csv", ("--columns", "nope"), "out.duckdb joined to in.csv: "),
        ("key: [id]\n", "in.csv", ("--to", "in.csv"), "in.csv was not written by sqlenrich"),
        ("key: [id]\n", "in.csv", ("--to", "x.xlsx"), "x.xlsx: unknown kind of file"),
        ("key: [body]\n", "in.csv", (), "run it with key: [] in the header, then _row counts the rows"),
        ("key: []\n", "b.csv", (), "b.csv has 1 rows, and the run read row 3: give the input of the run"),
    ],
)
def test_what_can_not_be_joined(folder: Path, header: str, given: str, more: Sequence[str], words: str) -> None:
    prompt = write_prompt(folder, header)
    write_csv(Path("in.csv"), [(1, "a"), (2, "b"), (3, "a")])
    write_csv(Path("b.csv"), [(1, "a")], ("ID", "body"))
    assert call("run", prompt, "--input", "in.csv", "--output", "out.duckdb", "--mock").status == 0
    refused = call("export", "intent", "--output", "out.duckdb", "--join", given, *more)
    assert refused.status == 2
    assert words in refused.error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "intnt", "--output", "out.duckdb"), "out.duckdb has no results of intnt; it has those of: intent"),
        (("show", "intent", "--output", "no.duckdb"), "no.duckdb: no run has written it"),
        (("show", "intent", "--output", "out.duckdb", "--columns", "labl"), "labl"),
        (("show", "intent", "--output", "out.duckdb", "--where", "label ="), "out.duckdb, table intent: "),
        (("export", "intent", "--output", "out.duckdb", "--to", "x.xlsx"), "x.xlsx: unknown kind of file"),
        (("export", "intent", "--output", "out.duckdb", "--to", "in.csv"), "in.csv was not written by sqlenrich"),
    ],
)
def test_what_can_not_be_shown(finished: Path, arguments: Sequence[str], words: str) -> None:
    assert finished.is_file()
    result = call(*arguments)
    assert result.status == 2
    assert words in result.error


def test_aliases(finished: Path) -> None:
    prompt = finished.parent / "intent.prompt"
    run = ("run", prompt, "--input", "in.csv", "--mock", "--output")
    assert "of 8: --max-rows ends the run" in call(*run, "new.duckdb", "--limit", 3, "--dry-run").out
    assert not Path("new.duckdb").exists()
    assert "stopped at --max-rows with 5 requests to go" in call(*run, "new.duckdb", "--limit", 3).err


class Model:
    """What a Pydantic model gives."""

    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        properties = {"z": {"type": "string"}, "a": {"type": "integer"}}
        return {"type": "object", "properties": properties, "required": ["z", "a"]}


def test_an_enrichment_without_a_file() -> None:
    e = se.enrichment("mine", prompt="{{ body }}", output=Model, key=("id",), max_quarantine=0.5, vars={"x": 1})
    assert (e.name, e.key, list(e.output_columns), e.vars) == ("mine", ("id",), ["z", "a"], {"x": 1})
    assert se.enrichment("mine", prompt="{{ body }}", output=Model).fingerprint != e.fingerprint
    with pytest.raises(se.SpecError) as caught:
        se.enrichment("mine", prompt="{{ body | uper }", output={"a": "strng"}, kee=["id"])
    assert len(caught.value.problems) == 3
    assert all(problem.startswith("mine.prompt: ") for problem in str(caught.value).splitlines())
    assert "line 1" in str(caught.value)  # of the prompt
    with pytest.raises(se.SpecError, match="a value is none that a file can have"):
        se.enrichment("mine", prompt="{{ body }}", output=Model, vars={"x": object()})
    text = "---\nkey: [id]\noutput: {a: string}\n---\n{{ body }}\n"
    assert (se.loads(text).name, se.loads(text, name="other").name) == ("enrichment", "other")
    assert se.run(se.loads(text), input=pa.table({"id": [1], "body": ["x"]}), mock=True).enriched == 1


def test_a_plan_of_a_table_in_memory() -> None:
    assert se.estimate(made(), input=few(1, 2, 3), mock=True).calls == 3
    assert isinstance(PlanLine(1, 1, 0, 1, "m", "").to_text(), str)

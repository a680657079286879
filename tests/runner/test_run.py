"""Whole runs with the mock model: inputs, settings, outputs, what is asked again and what the report says."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import sqlenrich as se
from tests.support import runs
from tests.support.endpoint import ScriptedEndpoint
from tests.support.hostile import HOSTILE, NAMES, TEXTS
from tests.support.runs import GOOD, ask, call, names, rows, run, write_csv, write_prompt

ROWS: list[tuple[Any, ...]] = [("007", "hello"), ("008", "two\nlines"), ("1e5", 'say "x", please')]
ENRICHED = ["label", "urgency", "_request_hash", "_model", "_version", "_fingerprint", "_asked_at"]
QUARANTINE = ["_error", "_error_detail", "_repaired", "response", "prompt", "_attempts", "_request_hash", "_asked_at"]


def make_input(folder: Path, kind: str) -> Path:
    """The three rows in a file of each kind."""
    path = folder / f"data.{kind}"
    if kind == "csv":
        return write_csv(path, ROWS)
    if kind == "tsv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter="\t").writerows([("id", "body"), *ROWS])
    elif kind in ("jsonl", "ndjson"):
        path.write_text("".join(json.dumps({"id": i, "body": b}) + "\n" for i, b in ROWS), encoding="utf-8")
    else:
        with duckdb.connect(str(path) if kind in ("duckdb", "db") else ":memory:") as db:
            db.execute("CREATE TABLE messages (id VARCHAR, body VARCHAR)")
            db.executemany("INSERT INTO messages VALUES (?, ?)", ROWS)
            db.execute("CREATE SCHEMA raw; CREATE TABLE raw.messages AS FROM messages")
            if kind == "parquet":
                db.execute(f"COPY messages TO '{path}' (FORMAT parquet)")
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "ndjson", "parquet", "duckdb", "db"])
def test_each_kind_of_input_gives_the_same_rows_and_prompts(tmp_path: Path, kind: str) -> None:
    prompt = write_prompt(tmp_path, "source: messages\nkey: [id]\n")
    result = run(prompt, make_input(tmp_path, kind), tmp_path / "out.duckdb")
    assert result.status == 0, result.err
    found = rows(tmp_path / "out.duckdb", "SELECT id, prompt FROM intent_prompts")
    assert found == [(key, f"Classify: {body}") for key, body in ROWS]


@pytest.mark.parametrize(
    "source",
    [
        "messages",
        "raw.messages",
        "'raw.\"messages\"'",
        "{query: SELECT * FROM messages}",
        "{query: 'SELECT m.id, r.body FROM messages m JOIN raw.messages r USING (id) -- a comment'}",
    ],
)
@pytest.mark.parametrize("apart", [True, False])
def test_sources_in_a_database(tmp_path: Path, source: str, apart: bool) -> None:
    """The source is a table or a query of the input's database, or of the output's where no input is given."""
    prompt = write_prompt(tmp_path, f"source: {source}\nkey: [id]\n")
    data = make_input(tmp_path, "duckdb")
    given, output = (("--input", data), tmp_path / "out.duckdb") if apart else ((), data)
    result = call("run", prompt, *given, "--output", output, "--mock", "--json")
    assert result.status == 0, result.err
    assert sorted(rows(output, "SELECT id FROM intent")) == sorted((key,) for key, _ in ROWS)


def test_the_input_and_the_output_may_be_one_database(tmp_path: Path) -> None:
    prompt, data = write_prompt(tmp_path, "source: messages\nkey: [id]\n"), make_input(tmp_path, "duckdb")
    assert run(prompt, data, data).report["enriched"] == 3
    assert len(rows(data, "FROM messages")) == 3


@pytest.mark.parametrize("source", ["messages", "{query: SELECT * FROM messages}"])
def test_names_mean_the_tables_of_the_input(tmp_path: Path, source: str) -> None:
    """The output database may hold another table of the source's name."""
    output = tmp_path / "my out.duckdb"
    with duckdb.connect(str(output)) as db:
        db.execute("CREATE TABLE messages AS SELECT 'wrong' AS id, 'wrong' AS body")
    prompt = write_prompt(tmp_path, f"source: {source}\nkey: [id]\n")
    assert run(prompt, make_input(tmp_path, "duckdb"), output).report["rows_in"] == 3
    assert rows(output, "SELECT count(*) FROM intent WHERE id = 'wrong'") == [(0,)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfid,body\r\n007,a\r\n\r\n8,\"b\r\nc\"\r\n", [("007", "a"), ("8", "b\r\nc")]),
        (b"id,body\r1,a\r2,b\r", [("1", "a"), ("2", "b")]),
        (b"id,body\n1,#a\n# x,b\n", [("1", "#a"), ("# x", "b")]),
        (b"id,body\n# x,y\n1,a\n", [("# x", "y"), ("1", "a")]),
        (b"id,body\n2024-01-01,2024-01-01\ntrue,1.50\n", [("2024-01-01", "2024-01-01"), ("true", "1.50")]),
        (b"id,body\nNULL,null\nNaN,  x  \n", [("NULL", "null"), ("NaN", "  x  ")]),
        (b'id,body\n1,"say ""x"""\n', [("1", 'say "x"')]),
        (b"id,body\n1,a'b\\\n", [("1", "a'b\\")]),
        (b"id,body\n1,a", [("1", "a")]),
        (b"id,body,\n1,a,z\n", [("1", "a")]),
    ],
)  # fmt: skip
def test_delimited_text_stays_as_it_is(tmp_path: Path, content: bytes, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "in.csv").write_bytes(content)
    result = run(write_prompt(tmp_path), tmp_path / "in.csv", tmp_path / "out.duckdb")
    assert result.status == 0, result.err
    found = rows(tmp_path / "out.duckdb", "SELECT id, prompt FROM intent_prompts")
    assert found == [(key, f"Classify: {body}") for key, body in expected]


@pytest.mark.parametrize("value", ["2024-01-02", "2024-01-02T03:04:05Z", "10:00:00", "007", "1.50", "true", "{}"])
@pytest.mark.parametrize("uuid", ["550e8400-e29b-41d4-a716-446655440000"])
def test_texts_of_json_lines_stay_texts(tmp_path: Path, value: str, uuid: str) -> None:
    data = tmp_path / "in.jsonl"
    lines = [{"id": uuid, "body": value, "in": {"day": value}}, {"id": uuid, "body": value, "in": {"day": value}}]
    data.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    header = "key: [id]\ncolumns: {inner: {type: {struct: {day: string}}, from: in}}\n"
    prompt = write_prompt(tmp_path, header, "{{ body }}|{{ id }}|{{ inner.day }}")
    result = run(prompt, data, tmp_path / "out.duckdb")
    assert result.status == 0, result.err
    found = rows(tmp_path / "out.duckdb", "SELECT DISTINCT prompt FROM intent_prompts")
    assert found == [(f"{value}|{uuid}|{value}",)]


def test_odd_names_and_nulls_of_json_lines(tmp_path: Path) -> None:
    data = tmp_path / "in.jsonl"
    inner = {"DATE": "2024-01-02", "JSON": 1, "TIME": "x", 'Say "UUID" DATE': "10:00:00"}
    data.write_text(json.dumps({"id": 1, "body": inner, "none": None}) + "\n", encoding="utf-8")
    fields = "{DATE: string, JSON: bigint, TIME: string}"
    prompt = write_prompt(
        tmp_path,
        f"key: [id]\ncolumns: {{body: {{struct: {fields}}}}}\n",
        "{{ body.DATE }}|{{ body.JSON }}|{{ body.TIME }}|{{ none }}",
    )
    result = run(prompt, data, tmp_path / "out.duckdb")
    assert result.status == 0, result.err
    assert rows(tmp_path / "out.duckdb", "SELECT prompt FROM intent_prompts") == [("2024-01-02|1|x|",)]


def test_values_of_json_lines_of_several_kinds(tmp_path: Path) -> None:
    data = tmp_path / "in.jsonl"
    data.write_text('{"id":1,"body":"x"}\n{"id":2,"body":7}\n\n{"id":3,"body":{"a":[1]}}\n{"id":4}\n', encoding="utf-8")
    run(write_prompt(tmp_path), data, tmp_path / "out.duckdb")
    found = rows(tmp_path / "out.duckdb", "SELECT id, prompt FROM intent_prompts")
    assert found == [(1, "Classify: x"), (2, "Classify: 7"), (3, 'Classify: {"a":[1]}'), (4, "Classify: ")]


@pytest.mark.parametrize(
    ("kind", "good", "bad", "printed"),
    [
        ("bigint", " 12 ", "12.5x", "12"),
        ("boolean", "true", "maybe", "True"),
        ("date", "2024-02-29", "2023-02-29", "2024-02-29"),
    ],
)
def test_declared_types(tmp_path: Path, kind: str, good: str, bad: str, printed: str) -> None:
    """A value that does not cast is BAD_PROMPT; an empty one is NULL and prints as nothing."""
    prompt = write_prompt(tmp_path, f"key: [id]\ncolumns: {{n: {kind}}}\n", "{{ body }} {{ n }}")
    data = write_csv(tmp_path / "in.csv", [(1, "x", good), (2, "x", bad), (3, "x", None)], ("id", "body", "n"))
    result = run(prompt, data, tmp_path / "out.duckdb")
    assert result.report["quarantine"] == {"BAD_PROMPT": 1}
    found = rows(tmp_path / "out.duckdb", "SELECT id, prompt FROM intent_prompts")
    assert found == [("1", f"x {printed}"), ("2", None), ("3", "x ")]


@pytest.mark.parametrize(
    ("header", "arguments", "prompts"),
    [
        ("key: [id]\ncolumns: {body: {from: Message Text}}\n", (), ["Classify: a", "Classify: b"]),
        ("key: [id]\n", ("--column", "body=Message Text"), ["Classify: a", "Classify: b"]),
        ("key: [id]\ncolumns: {body: {from: id}}\n", ("--column", "body=Message Text"), ["Classify: a", "Classify: b"]),
        ("key: [id]\nwhere: \"id = '2'\"\n", ("--column", "body=Message Text"), ["Classify: b"]),
        ("key: [id]\nwhere: \"id = '2'\"\n", ("--column", "body=id", "--where", "id <> '2'"), ["Classify: 1"]),
        ("key: [id]\nwhere: \"body = 'b'\"\n", ("--column", "body=Message Text"), ["Classify: b"]),
    ],
)
def test_names_and_filters(tmp_path: Path, header: str, arguments: tuple[str, ...], prompts: list[str]) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "a"), (2, "b")], ("id", "Message Text"))
    run(write_prompt(tmp_path, header), data, tmp_path / "out.duckdb", *arguments)
    assert rows(tmp_path / "out.duckdb", "SELECT prompt FROM intent_prompts") == [(p,) for p in prompts]


def test_the_columns_of_the_results(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [("1", "x", "a", "b")], ("id", "body", "channel", "lang"))
    prompt = write_prompt(tmp_path, "key: [id, lang]\nkeep: [channel]\nversion: 3\n")
    output = tmp_path / "out.duckdb"
    assert run(prompt, data, output).status == 0
    assert names(output, "intent") == ["id", "lang", "channel", *ENRICHED]
    assert names(output, "intent_quarantine") == ["id", "lang", "channel", *QUARANTINE]
    assert rows(output, "SELECT id, lang, channel, _model, _version FROM intent") == [("1", "b", "a", "mock", "3")]
    types = dict(row[:2] for row in rows(output, "DESCRIBE intent"))
    assert (types["label"], types["urgency"]) == ("VARCHAR", "BIGINT")


def test_keys_of_the_flag_and_row_numbers(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [(f"k{i}", "same" if i % 2 else f"text {i}") for i in range(2000)])
    prompt = write_prompt(tmp_path, "key: []\n")
    for name in ("one", "two"):
        run(prompt, data, tmp_path / f"{name}.duckdb")
        found = rows(tmp_path / f"{name}.duckdb", "SELECT _row, prompt FROM intent_prompts ORDER BY _row")
        assert found == [(i + 1, f"Classify: {'same' if i % 2 else f'text {i}'}") for i in range(2000)]
    run(prompt, data, tmp_path / "three.duckdb", "--key", "id")
    assert "_row" not in names(tmp_path / "three.duckdb", "intent")
    assert rows(tmp_path / "three.duckdb", "SELECT count(DISTINCT id) FROM intent") == [(2000,)]


@pytest.mark.parametrize(
    ("require", "blank", "codes"),
    [
        ("", (None, None), {"NO_INPUT": 1}),
        ("", (" \t", None), {"NO_INPUT": 1}),
        ("", (None, "title"), {}),
        ("require: [body]\n", (" \n", "title"), {"NO_INPUT": 1}),
        ("require: [body, title]\n", ("x", None), {"NO_INPUT": 1}),
        ("require: [body]\n", ("x", None), {}),
        ("require: []\n", (None, None), {}),
    ],
)
def test_rows_without_input_are_not_asked(
    tmp_path: Path, require: str, blank: tuple[str | None, str | None], codes: dict[str, int]
) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "text", "title"), (2, *blank)], ("id", "body", "title"))
    prompt = write_prompt(tmp_path, f"key: [id]\n{require}", "{{ title }}: {{ body }}")
    result = run(prompt, data, tmp_path / "out.duckdb")
    assert result.report["quarantine"] == codes
    assert result.report["calls"] == 2 - len(codes)
    assert result.status == 0


def test_repeated_and_null_keys_and_duplicates(tmp_path: Path) -> None:
    """One output row per input row, each distinct request asked once, one warning."""
    keys = ["1", "1", "1", None, None, "2"]
    texts = ["a", "a", "b", "a", "c", None]
    output = tmp_path / "out.duckdb"
    data = write_csv(tmp_path / "in.csv", zip(keys, texts, strict=True))
    result = run(write_prompt(tmp_path), data, output)
    report = result.report
    assert (report["rows_in"], report["enriched"], report["quarantined"]) == (6, 5, 1)
    assert (report["distinct_requests"], report["calls"], report["cached"]) == (3, 3, 0)
    runs.assert_accounted(report, output)
    assert result.err.count("warning: the key id ") == 1
    assert "not unique (rows with the key of another: 3 of 6; with NULL: 2 of 6); every row is enriched" in result.err
    again = run(write_prompt(tmp_path), data, output)
    assert (again.report["calls"], again.report["cached"], again.report["enriched"]) == (0, 3, 5)
    unique = run(write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a"), (2, "a")]), output)
    assert "warning: the key" not in unique.err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_file_outputs(tmp_path: Path, kind: str) -> None:
    """The results are in two files; the database lies beside them and remembers what was paid."""
    data = write_csv(tmp_path / "in.csv", [("007", 'a "quoted"\ntext'), ("008", None)])
    output, prompt = tmp_path / f"out.{kind}", write_prompt(tmp_path, "key: [id]\nkeep: [body]\n")
    assert run(prompt, data, output).report["calls"] == 1
    refused = tmp_path / f"out_quarantine.{kind}"
    if kind == "csv":
        with output.open(newline="", encoding="utf-8") as file:
            good = list(csv.reader(file))
        with refused.open(newline="", encoding="utf-8") as file:
            bad = list(csv.reader(file))
        assert good[0] == ["id", "body", *ENRICHED]
        assert good[1][:2] == ["007", 'a "quoted"\ntext']
        assert bad[0] == ["id", "body", *QUARANTINE]
        assert [row[2] for row in bad[1:]] == ["NO_INPUT"]
    else:
        table = pq.read_table(output)
        assert table.column_names == ["id", "body", *ENRICHED]
        assert table.column("body").to_pylist() == ['a "quoted"\ntext']
        assert pq.read_table(refused).column("_error").to_pylist() == ["NO_INPUT"]
    assert (tmp_path / ".sqlenrich" / f"out.{kind}.duckdb").is_file()
    assert run(prompt, data, output).report["calls"] == 0


def test_arrays_and_structs_are_json_in_csv(tmp_path: Path) -> None:
    output = 'output:\n  tags(array): string\n  at(object):\n    "n?": number\n    d: date\n'
    prompt = write_prompt(tmp_path, output=output)
    data = write_csv(tmp_path / "in.csv", [(1, "a")])
    assert call("run", prompt, "--input", data, "--output", tmp_path / "out.csv", "--mock", "--json").status == 0
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    stored = names_and_values(tmp_path / ".sqlenrich" / "out.csv.duckdb")
    assert json.loads(row["tags"]) == stored["tags"]
    assert json.loads(row["at"]) == {"n": stored["at"]["n"], "d": stored["at"]["d"].isoformat()}


def names_and_values(database: Path) -> dict[str, Any]:
    """The only row of the results."""
    with duckdb.connect(str(database), read_only=True) as db:
        (row,) = db.execute("SELECT * FROM intent").fetchall()
        return dict(zip([str(column[0]) for column in db.description or ()], row, strict=True))


def test_the_report(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "a"), (2, "a"), (3, None)])
    report = run(write_prompt(tmp_path), data, tmp_path / "out.duckdb").report
    assert list(report) == [
        "run_id", "rows_in", "distinct_requests", "cached", "calls", "retries", "enriched", "quarantined", "pending",
        "quarantine", "tokens_in", "tokens_out", "cost", "seconds", "tokens_cached", "currency", "prices_as_of",
        "latency_ms", "cost_unknown", "stopped_at", "limits", "served", "served_changes", "pin_problem", "published",
    ]  # fmt: skip
    assert (report["cost"], report["pending"], report["quarantine"]) == (None, 0, {"NO_INPUT": 1})
    assert report["tokens_in"] > 0
    ledger = rows(tmp_path / "out.duckdb", "SELECT run_id, name, status, report FROM _sqlenrich_runs")
    assert [row[:3] for row in ledger] == [(report["run_id"], "intent", "done")]
    kept = json.loads(ledger[0][3])
    stored = kept.pop("stored")  # what an audit compares
    assert kept == report
    assert (stored["answers"], stored["tables"]) == (1, True)
    assert rows(tmp_path / "out.duckdb", "SELECT DISTINCT run_id FROM intent_responses") == [(report["run_id"],)]


def test_the_function_gives_the_same_report(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "a"), (2, None)])
    enrichment = se.load(write_prompt(tmp_path))
    report = se.run(enrichment, input=data, output=tmp_path / "out.duckdb", mock=True)
    assert (report.rows_in, report.enriched, report.quarantine, report.exit_status) == (2, 1, {"NO_INPUT": 1}, 0)


NOTE = """output:
  type: object
  properties: {note: {type: string, maxLength: LIMIT}}
  required: [note]
"""


def test_a_changed_check_judges_stored_answers_and_a_changed_prompt_asks_again(tmp_path: Path) -> None:
    data, output = write_csv(tmp_path / "in.csv", [(1, "a"), (2, "b")]), tmp_path / "out.duckdb"
    answer = json.dumps({"note": "x" * 20})
    with ScriptedEndpoint(content=answer) as endpoint:

        def ask_with(limit: int, template: str = runs.TEMPLATE) -> dict[str, Any]:
            prompt = write_prompt(tmp_path, template=template, output=NOTE.replace("LIMIT", str(limit)))
            return ask(prompt, data, output, endpoint.url).report

        assert (ask_with(30)["enriched"], len(endpoint.asked)) == (2, 2)
        stricter = ask_with(10)
        assert (stricter["calls"], stricter["quarantine"], len(endpoint.asked)) == (0, {"BAD_LENGTH": 2}, 2)
        looser = ask_with(20)
        assert (looser["calls"], looser["enriched"], len(endpoint.asked)) == (0, 2, 2)
        changed = ask_with(20, "Judge: {{ body }}")
        assert (changed["calls"], changed["cached"], len(endpoint.asked)) == (2, 0, 4)
        back = ask_with(20)
        assert (back["calls"], len(endpoint.asked)) == (0, 4)


def test_repaired_answers_attempts_and_details(tmp_path: Path) -> None:
    answers = {"good": GOOD, "fenced": f"```json\n{GOOD}\n```", "bad": "no", "enum": '{"label":"z","urgency":1}'}

    def answer(prompt: str) -> str:
        return answers[prompt.removeprefix("Classify: ")]

    data, output = write_csv(tmp_path / "in.csv", [(name, name) for name in answers]), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=answer) as endpoint:
        ask(write_prompt(tmp_path), data, output, endpoint.url)
        assert rows(output, "SELECT id FROM intent ORDER BY id") == [("fenced",), ("good",)]
        found = rows(output, "SELECT id, _error, _repaired, response, _attempts FROM intent_quarantine ORDER BY id")
        assert found == [
            ("bad", "BAD_JSON", False, "no", 1),
            ("enum", "NOT_IN_ENUM", False, '{"label":"z","urgency":1}', 1),
        ]
        details = dict(rows(output, "SELECT id, _error_detail FROM intent_quarantine"))
        assert "label" in details["enum"]
        repaired = dict(rows(output, "SELECT id, _repaired FROM intent_checked"))
        assert repaired == {"good": False, "fenced": True, "bad": False, "enum": False}
        plain = ask(write_prompt(tmp_path, "key: [id]\nrepairs: []\n"), data, output, endpoint.url).report
        assert (plain["calls"], plain["quarantine"]) == (0, {"BAD_JSON": 2, "NOT_IN_ENUM": 1})


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("bad_json", "BAD_JSON"),
        ("missing_field", "MISSING_FIELD"),
        ("error", "CALL_ERROR"),
        ("refusal", "REFUSED"),
        ("truncation", "TRUNCATED"),
    ],
)
def test_mock_failures(tmp_path: Path, kind: str, code: str) -> None:
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(200)])
    output = tmp_path / "out.duckdb"
    result = run(write_prompt(tmp_path), data, output, "--mock-failures", f"{kind}=0.5")
    report = result.report
    assert list(report["quarantine"]) == [code]
    # Errors are asked again, up to three times.
    low, high = (5, 50) if kind == "error" else (70, 130)
    assert low <= report["quarantine"][code] <= high
    assert (report["retries"] > 0) == (kind == "error")
    assert result.status == 0
    runs.assert_accounted(report, output)
    all_fail = ("--mock-failures", f"{kind}=1", "--stop-after-refused", "0")
    every = run(write_prompt(tmp_path), data, tmp_path / "all.duckdb", *all_fail)
    assert (every.status, every.report["quarantine"]) == (3, {code: 200})
    assert rows(tmp_path / "all.duckdb", "SELECT DISTINCT _attempts FROM intent_quarantine") == [
        (3 if kind == "error" else 1,)
    ]


@pytest.mark.parametrize(
    ("limit", "refused", "status"),
    [(None, 9, 0), (None, 10, 3), (0.5, 5, 0), (0.5, 6, 3), (0, 0, 0), (0, 1, 3), (1, 9, 0), (1, 10, 3)],
)
def test_exit_status_over_max_quarantine(tmp_path: Path, limit: float | None, refused: int, status: int) -> None:
    """Rows without input don't count: neither as asked nor as refused."""
    answers = {f"Classify: {i}": "no" if i < refused else GOOD for i in range(10)}
    data = write_csv(tmp_path / "in.csv", [*((i, i) for i in range(10)), *((i, None) for i in range(10, 40))])
    header = "key: [id]\n" if limit is None else f"key: [id]\nmax_quarantine: {limit}\n"
    with ScriptedEndpoint(content=answers.__getitem__) as endpoint:
        result = ask(write_prompt(tmp_path, header), data, tmp_path / "out.duckdb", endpoint.url)
    assert result.status == status
    assert result.report["rows_in"] == 40
    assert ("too many refused" in result.err) == (status == 3)


def test_max_rows_stops_and_the_next_run_goes_on(tmp_path: Path) -> None:
    data, output = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(50)]), tmp_path / "out.duckdb"
    prompt = write_prompt(tmp_path)
    for limit, calls, pending in ((0, 0, 50), (7, 7, 43), (7, 7, 36)):
        result = run(prompt, data, output, "--max-rows", limit)
        assert (result.status, result.report["calls"], result.report["pending"]) == (4, calls, pending)
        assert result.report["quarantine"] == {"NOT_ASKED": pending}
        assert result.report["stopped_at"] == "max_rows"
        assert f"{pending} requests to go" in result.err
        runs.assert_accounted(result.report, output)
    assert {row[0] for row in rows(output, "SELECT id::INT FROM intent")} == set(range(14))
    last = run(prompt, data, output)
    assert (last.status, last.report["calls"], last.report["cached"], last.report["pending"]) == (0, 36, 14, 0)
    assert run(prompt, data, output, "--max-rows", 3).status == 0


def test_hostile_texts_go_through_unchanged(tmp_path: Path) -> None:
    """What the endpoint sees is the reference's prompt, byte for byte; both results hold the texts of the source."""
    template = 'A {{ body }}\n\'\\ {% raw %}{{ x }}{% endraw %} ${y} %s "{{ other }}" 😀'
    with duckdb.connect(str(tmp_path / "in.duckdb")) as db:
        db.execute("CREATE TABLE messages (id VARCHAR, body VARCHAR, other VARCHAR)")
        db.executemany("INSERT INTO messages VALUES (?, ?, 'x')", list(HOSTILE.items()))
    prompt = write_prompt(tmp_path, "source: messages\nkey: [id]\nkeep: [body]\n", template)
    free = runs.OUTPUT.replace("{type: string, enum: [a, b, c]}", "{type: string}")
    odd = write_prompt(tmp_path, "source: messages\nkey: [id]\nkeep: [body]\n", template, output=free, name="odd")
    with ScriptedEndpoint(content=lambda seen: json.dumps({"label": seen, "urgency": 1})) as endpoint:
        report = ask(odd, tmp_path / "in.duckdb", tmp_path / "out.duckdb", endpoint.url).report
        assert report["enriched"] == len(HOSTILE)
        seen = {one.prompt for one in endpoint.asked}
        bodies = {text: se.render_prompt(template, {"body": text, "other": "x"}) for text in HOSTILE.values()}
        assert seen == set(bodies.values())
        found = rows(tmp_path / "out.duckdb", "SELECT id, body, label FROM odd")
        assert {row[0]: row[1:] for row in found} == {n: (text, bodies[text]) for n, text in HOSTILE.items()}
        # All refused: the quarantine table holds the same texts.
        places = (tmp_path / "in.duckdb", tmp_path / "out.duckdb")
        assert ask(prompt, *places, endpoint.url, "--stop-after-refused", "0").status == 3
        found = rows(tmp_path / "out.duckdb", "SELECT id, body, prompt, response FROM intent_quarantine")
        assert {row[0]: row[1:3] for row in found} == {n: (text, bodies[text]) for n, text in HOSTILE.items()}
        assert all(json.loads(row[3])["label"] == row[2] for row in found)


def test_hostile_texts_of_a_csv_file(tmp_path: Path) -> None:
    """A quoted field holds anything but a byte order mark at the file's start; an empty one is NULL."""
    texts = {name: text for name, text in TEXTS.items() if text}
    output = tmp_path / "out.csv"
    run(write_prompt(tmp_path, "key: [id]\nkeep: [body]\nrequire: []\n"), _quoted(tmp_path / "in.csv", texts), output)
    found = rows(tmp_path / ".sqlenrich" / "out.csv.duckdb", "SELECT id, body, prompt FROM intent_prompts")
    assert {row[0]: row[1:] for row in found} == {n: (text, f"Classify: {text}") for n, text in texts.items()}
    csv.field_size_limit(1_000_000)
    with output.open(newline="", encoding="utf-8") as file:
        assert {row["id"]: row["body"] for row in csv.DictReader(file)} == texts


def _quoted(path: Path, texts: dict[str, str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([("id", "body"), *texts.items()])
    return path


def test_the_mock_model_s_answers_pass_the_checks(tmp_path: Path) -> None:
    """An enum beside a limit is no value of the enum alone: what is made up is judged as an answer is."""
    prompt = tmp_path / "judged.prompt"
    output = """output:
  type: object
  properties:
    label: {type: string, enum: [a, bb, ccc], minLength: 2}
    level: {type: integer, enum: [1, 5, 9], minimum: 2, maximum: 8}
  required: [label, level]
"""
    prompt.write_text(f"---\nkey: [id]\n{output}---\n{{{{ body }}}}", encoding="utf-8")
    data = write_csv(tmp_path / "in.csv", [(str(number), f"text {number}") for number in range(40)], ("id", "body"))
    report = se.run(se.load(prompt), input=data, output=tmp_path / "out.duckdb", mock=True)
    assert (report.enriched, report.quarantined) == (40, 0)
    assert rows(tmp_path / "out.duckdb", "SELECT DISTINCT label, level FROM judged ORDER BY 1") == [
        ("bb", 5),
        ("ccc", 5),
    ]
    prompt.write_text(prompt.read_text(encoding="utf-8").replace("maximum: 8", "maximum: 4"), encoding="utf-8")
    with pytest.raises(se.ConfigError, match="--mock: the mock model finds no value"):
        se.run(se.load(prompt), input=data, output=tmp_path / "out.duckdb", mock=True)


COLUMN_NAMES = {n: t for n, t in NAMES.items() if t.strip() == t and "\ue000" not in t}


def in_yaml(text: str) -> str:
    """Return a text as YAML writes it: a character outside the BMP is one escape, where JSON writes two."""
    return '"' + "".join(json.dumps(c)[1:-1] if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in text) + '"'


@pytest.mark.parametrize("name", COLUMN_NAMES)
def test_hostile_column_and_table_names(tmp_path: Path, name: str) -> None:
    column = COLUMN_NAMES[name]
    written, quoted = in_yaml(column), column.replace('"', '""')
    data = tmp_path / "in.duckdb"
    with duckdb.connect(str(data)) as db:
        db.execute(f"CREATE TABLE \"{quoted}\" AS SELECT unnest(['k1', 'k2']) AS \"{quoted}\"")
    source = 'source: "\\"' + written[1:-1].replace('\\"', '\\"\\"') + '\\""\n'
    header = f"key: [{written}]\ncolumns: {{body: {{from: {written}}}}}\n{source}"
    result = run(write_prompt(tmp_path, header), data, tmp_path / "out.duckdb")
    assert result.status == 0, result.err
    assert rows(tmp_path / "out.duckdb", f'SELECT "{quoted}" FROM intent ORDER BY 1') == [("k1",), ("k2",)]


def test_hostile_columns_of_a_file(tmp_path: Path) -> None:
    columns = list({name.lower(): name for name in COLUMN_NAMES.values()}.values())
    # Not the first column: a byte order mark there is the file's own.
    values = [("x", *(f"{n} of {row}" for n in range(len(columns)))) for row in "ab"]
    data = write_csv(tmp_path / "in.csv", values, ("first", *columns))
    of_columns = "".join(f"  c{n}: {{from: {in_yaml(name)}}}\n" for n, name in enumerate(columns))
    header = f"key: [{', '.join(map(in_yaml, columns))}]\ncolumns:\n{of_columns}"
    template = " ".join(f"{{{{ c{n} }}}}" for n in range(len(columns)))
    result = run(write_prompt(tmp_path, header, template), data, tmp_path / "out.duckdb")
    assert result.status == 0, result.err
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    assert sorted(rows(tmp_path / "out.duckdb", f"SELECT {quoted} FROM intent")) == [row[1:] for row in values]
    prompts = rows(tmp_path / "out.duckdb", "SELECT prompt FROM intent_prompts ORDER BY 1")
    assert prompts == [(" ".join(row[1:]),) for row in values]


def test_bad_rows_that_come_first_do_not_stop_a_run(tmp_path: Path) -> None:
    """Requests of several columns are sorted by their prompts: rows that fail alike stand together."""
    prompt = write_prompt(tmp_path, template="{{ kind }} {{ id }}")
    kinds = [(i, "bad" if i < 5 else "good") for i in range(60)]
    data = write_csv(tmp_path / "in.csv", kinds, ("id", "kind"))
    with ScriptedEndpoint(content=GOOD, by_prompt={"bad": "400_unclear"}) as endpoint:
        result = ask(prompt, data, tmp_path / "out.duckdb", endpoint.url)
        assert len(endpoint.asked) == 60
    assert result.status == 0, result.err
    assert (result.report["enriched"], result.report["quarantine"]) == (55, {"CALL_ERROR": 5})


def test_requests_that_a_further_round_sends_are_retries(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "in.csv", [(i, "bad" if i >= 20 else "good") for i in range(60)])
    prompt, options = write_prompt(tmp_path, template="{{ body }} {{ id }}"), ("--max-calls", 225)
    with ScriptedEndpoint(content=GOOD, by_prompt={"bad": "500"}) as endpoint:
        report = ask(prompt, data, tmp_path / "out.duckdb", endpoint.url, *options).report
        prompts = Counter(seen.prompt for seen in endpoint.asked)
    assert report["calls"] == sum(prompts.values()) <= 225
    assert report["retries"] == report["calls"] - len(prompts)


def test_a_run_that_keeps_no_prompts_leaves_their_hashes_alone(tmp_path: Path) -> None:
    data, out = write_csv(tmp_path / "data.csv", [*ROWS, ("x", "")]), tmp_path / "out.duckdb"
    prompt = write_prompt(tmp_path, "key: [id]\nkeep_prompts: false\n", name="bare")
    failures = ("--mock-failures", "bad_json=1")
    first = run(prompt, data, out, *failures)
    assert first.status == 3, first.err
    tables = {name for (name,) in rows(out, "SELECT table_name FROM duckdb_tables()")}
    assert tables == {"_sqlenrich_runs", "bare", "bare_checked", "bare_quarantine", "bare_responses", "bare_profiles"}
    for table in sorted(tables):
        assert not any(body in str(rows(out, f"FROM {table}")) for _, body in ROWS), table
    found = rows(out, "SELECT id, prompt, _request_hash IS NULL, _error FROM bare_quarantine ORDER BY id")
    assert found == [
        (key, None, key == "x", "NO_INPUT" if key == "x" else "BAD_JSON") for key in ("007", "008", "1e5", "x")
    ]
    again = run(prompt, data, out, *failures)
    assert (again.report["calls"], again.report["cached"]) == (0, 3)
    refused = call("retry", prompt, "--output", out, "--mock")
    assert refused.status == 2
    assert "keep_prompts: false leaves no prompt to ask again; run it once with keep_prompts: true" in refused.error
    # The stored answers serve a run that keeps the prompts, and then a retry.
    prompt.write_text(prompt.read_text(encoding="utf-8").replace("false", "true"), encoding="utf-8")
    assert run(prompt, data, out, *failures).report["calls"] == 0
    retried = call("retry", prompt, "--output", out, "--mock", "--json")
    assert retried.report["enriched"] == 3, retried.err

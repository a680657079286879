"""Each error is one line: what is wrong, where, and what to do. Nothing hangs and no row is lost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlenrich.store.duckdb.database import Database
from sqlenrich.store.duckdb.source import SOURCE, open_source
from tests.support import runs
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import GOOD, ask, call, rows, run, write_csv, write_prompt

CSV: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "{file} is empty: it has not even a header"),
    "blank first line": (b"\nid,body\n1,a\n", "{file}: line 1 is blank; it must be the header"),
    "unclosed quote": (b'id,body\n1,a\n2,"b\n', "{file}, line 3: a quote is not closed"),
    "too few fields": (b"id,body\n1,a\n2\n", "{file}, line 3: 1 fields where the header has 2"),
    "too many fields": (b"id,body\n1,a\n2,b,c\n", "{file}, line 3: 3 fields where the header has 2"),
    "not UTF-8": (b"id,body\n1,caf\xe9\n", "{file} can't be read: it is not UTF-8 text; save it as UTF-8"),
    "not UTF-8 further down": (
        b"id,body\n" + b"1,abc\n" * 50_000 + b"2,caf\xe9\n",
        "{file}, line 50002: not UTF-8 text; save the file as UTF-8",
    ),
    "UTF-16": ("id,body\n1,a\n".encode("utf-16"), "{file} can't be read: it is not UTF-8 text; save it as UTF-8"),
    "two line ends": (b"id,body\n1,a\r\n2,b\n", "{file}: it is no plain CSV: an unquoted field contains a quote"),
    "quote inside": (b'id,body\n1,a "b" c\n2,"b\n', "{file}"),
    "equal but for case": (
        b"id,body,Body\n1,a,b\n",
        '{file}: the columns "body" and "Body" are the same but for case; rename one',
    ),
    "equal names": (b"id,body,body\n1,a,b\n", '{file}: the column "body" occurs twice; rename one'),
    "unknown column": (b"id,boby\n1,a\n", 'unknown column "body" (boby?); there are: id, boby'),
    "unknown key": (b"Id,body\n1,a\n", 'no column "id" (Id?) in {file}; there are: Id, body'),
    "a column missing between semicolons": (b"id;text\n1;a\n", 'unknown column "body"; there are: id, text'),
    "two delimiters": (b"id;body|x\n1;a|b\n", "{file}: is it separated by ; and |? The header has both"),
    "a line for a spreadsheet": (b"sep=;\nid;body\n1;a\n", '{file}: line 1 is "sep=", which is no header'),
    "decimal commas": (b"id;body\n1;a;b\n", "{file}, line 2: 3 fields where the header has 2"),
    "quotes of no delimiter": (b'"id":"body"\n1:a\n', "{file} can't be read: "),
    "a database": (b"\x00\x01\x02\xff\xfe" * 200, "{file} can't be read: "),
}


@pytest.mark.parametrize("case", CSV)
def test_bad_csv_files(tmp_path: Path, case: str) -> None:
    content, expected = CSV[case]
    data = tmp_path / "in.csv"
    data.write_bytes(content)
    result = run(write_prompt(tmp_path), data, tmp_path / "out.duckdb")
    assert (result.status, result.out) == (2, "")
    assert expected.replace("{file}", str(data)) in result.error


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("written", "columns", "row"),
    [
        ("id;body~1;a, b", ["id", "body"], ("1", "a, b")),
        ('id;body~1;"a;b, ""c"""', ["id", "body"], ("1", 'a;b, "c"')),
        ('"id";"body"~"1";"a;b"', ["id", "body"], ("1", "a;b")),
        ('"id";"body, and more";body~1;2,5;c', ["id", "body, and more", "body"], ("1", "2,5", "c")),
        ('id;"body, and more";body~1;2,5;c', ["id", "body, and more", "body"], ("1", "2,5", "c")),
        ("id\tbody~1\ta;b, c", ["id", "body"], ("1", "a;b, c")),
        ("id|body~1|a;b", ["id", "body"], ("1", "a;b")),
        # A comma outside quotes is the separator: the rest is text.
        ("id,body~1,a;b", ["id", "body"], ("1", "a;b")),
        ('id,body,"a;b"~1,a;b,c', ["id", "body", "a;b"], ("1", "a;b", "c")),
        ("id,body,a;b~1,a|b,c", ["id", "body", "a;b"], ("1", "a|b", "c")),
        ('id,body,"say ""a;b"""~1,a,c', ["id", "body", 'say "a;b"'], ("1", "a", "c")),
        ("body~1", ["body"], ("1",)),
        ("body;~1;", ["body", "column1"], ("1", None)),
    ],
)
def test_the_header_tells_the_delimiter(
    tmp_path: Path, written: str, columns: list[str], row: tuple[str, ...], mark: bytes, end: str
) -> None:
    data = tmp_path / "in.csv"
    data.write_bytes(mark + (written + "~").replace("~", end).encode())
    with Database(tmp_path / "o.duckdb") as db:
        assert list(open_source(db, str(data), None, None, number_rows=False)) == columns
        assert db.reading(f"FROM {SOURCE}") == [row]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "in.jsonl",
            b'{"id":1,"body":"a"}\n\n{"id":2,"body":\n{"id":3}\n',
            ", line 3: Malformed JSON: Expecting value at character 16",
        ),
        ("in.jsonl", b'{"id":1,"body":"a"}\n[1,2]\n', ", line 2: a line is not a JSON object"),
        ("in.jsonl", b"id,body\n1,a\n", "Malformed JSON"),
        ("in.jsonl", b'{"body":"a","Body":"b"}\n', '"Body" and "body" are the same but for case'),
        ("in.json", b'[{"id":1,"body":"a"},\n{"id":2,"body":]', ", line 2: Malformed JSON: Expecting value"),
        ("in.json", b'[{"id":1,"body":"a"}, 7]', ": value 2 is not a JSON object"),
        ("in.json", b"[]", " has no rows: its columns are unknown"),
        ("in.parquet", b"id,body\n1,a\n", "can't be read"),
        ("in.duckdb", b"id,body\n1,a\n", "it is not a valid DuckDB database file"),
        (
            "in.xlsx",
            b"PK",
            "unknown kind of file; there are: .csv, .tsv, .jsonl, .ndjson, .json, .parquet",
        ),
        ("in.csv.gz", b"x", "Not a gzipped file"),
    ],
)
def test_bad_files_of_other_kinds(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    data = tmp_path / name
    data.write_bytes(content)
    result = run(write_prompt(tmp_path), data, tmp_path / "out.duckdb")
    assert result.status in (1, 2)
    assert expected in result.error
    assert str(data) in result.error


@pytest.mark.parametrize(
    ("name", "before", "after", "where"),
    [
        ("in.csv", b"id,body\n1,", b"\n2,b\n", "a line of the input is"),
        ("in.csv", b"id,body\n1,", b"\n", "the last line is"),  # DuckDB itself leaves such a row out
        ("in.jsonl", b'{"id":0}\n{"id":1,"body":"', b'"}\n', "line 2:"),
        ("in.json", b'[{"id":"', b'"}]', "a line of the input is"),
    ],
)
def test_a_text_that_is_longer_than_a_line_may_be(
    tmp_path: Path, name: str, before: bytes, after: bytes, where: str
) -> None:
    data = tmp_path / name
    data.write_bytes(before + b"x" * (2**25 + 2**20) + after)
    result = run(write_prompt(tmp_path), data, tmp_path / "out.duckdb")
    assert result.status in (1, 2)
    assert f"{where} longer than 16 MiB; shorten its texts, or write the file as Parquet" in result.error


def test_missing_files_and_folders(tmp_path: Path) -> None:
    prompt, output = write_prompt(tmp_path), tmp_path / "out.duckdb"
    assert run(prompt, tmp_path / "no.csv", output).error == f"{tmp_path / 'no.csv'}: no such file"
    (tmp_path / "folder.csv").mkdir()
    assert run(prompt, tmp_path / "folder.csv", output).error == f"{tmp_path / 'folder.csv'}: the folder has no file"
    assert "which table?" in call("run", prompt, "--output", output, "--mock").error
    assert "no such file, and no template" in call("run", tmp_path / "no.prompt", "--output", output, "--mock").error


def test_an_empty_table_is_no_error(tmp_path: Path) -> None:
    for content in ("id,body\n", "id,body"):
        (tmp_path / "in.csv").write_text(content, encoding="utf-8")
        result = run(write_prompt(tmp_path), tmp_path / "in.csv", tmp_path / "out.duckdb")
        assert (result.status, result.report["rows_in"], result.report["enriched"]) == (0, 0, 0)
        assert rows(tmp_path / "out.duckdb", "FROM intent") == []


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_columns_equal_but_for_case(tmp_path: Path, kind: str) -> None:
    data = tmp_path / f"in.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table([["1"], ["a"], ["b"]], names=["id", "body", "BODY"]), data)
    else:
        duckdb.connect(str(data)).close()
    header = """key: [id]\nsource: {query: 'SELECT 1 AS id, 2 AS body, 3 AS "BODY"'}\n"""
    result = run(write_prompt(tmp_path, header), data, tmp_path / "out.duckdb")
    assert result.status == 2
    assert result.error.endswith('the columns "body" and "BODY" are the same but for case; rename one')


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT", "DECIMAL(9,8)"])
def test_types_that_print_differently_are_refused_unless_declared(tmp_path: Path, kind: str) -> None:
    data = tmp_path / "in.duckdb"
    with duckdb.connect(str(data)) as db:
        db.execute(f"CREATE TABLE t AS SELECT 1 AS id, CAST(1.5 AS {kind}) AS body")
    refused = run(write_prompt(tmp_path, "source: t\nkey: [id]\n"), data, tmp_path / "out.duckdb")
    assert refused.status == 2
    assert f"{tmp_path / 'intent.prompt'}:12:14: " in refused.error
    assert "body" in refused.error
    cast = f"source: {{query: 'SELECT id, CAST(body AS VARCHAR) AS body FROM t'}}\nkey: [id]\n"  # noqa: F541
    assert run(write_prompt(tmp_path, cast), data, tmp_path / "out.duckdb").status == 0


@pytest.mark.parametrize(
    ("header", "template", "expected"),
    [
        ("key: [id]\n", "{{ body }", "intent.prompt: line 11: unexpected '}'"),
        ("key: [id]\n", "{{ bodi }}", 'unknown column "bodi" (body?); there are: id, body'),
        ("key: [id]\n", "{{ body | uper }}", "upper"),
        ("kee: [id]\n", "{{ body }}", 'line 2: unknown key "kee" (keep?)'),
        ("key: [id]\nwhere: 'chanel = 1'\n", "{{ body }}", "chanel"),
        ("key: [id]\nwhere: 'body = = 1'\n", "{{ body }}", "is no SQL"),
        ("key: [nope]\n", "{{ body }}", 'no column "nope"'),
        ("key: [id]\nkeep: [chanel]\n", "{{ body }}", 'no column "chanel"'),
        ("key: [id]\nrequire: [bdy]\n", "{{ body }}", "bdy"),
        ("key: [id]\nsource: {query: SELEC 1}\n", "{{ body }}", "in.duckdb can't be read: syntax error at or near"),
    ],
)
def test_bad_prompt_files(tmp_path: Path, header: str, template: str, expected: str) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "a")])
    if "query" in header:
        data = tmp_path / "in.duckdb"
        duckdb.connect(str(data)).close()
    result = run(write_prompt(tmp_path, header, template), data, tmp_path / "out.duckdb")
    assert result.status in (1, 2)
    assert expected in result.error


@pytest.mark.parametrize(
    "output",
    [
        "output:\n  type: object\n  properties:\n    n: {type: integer, minimum: 5, maximum: 1}\n  required: [n]\n",
        "output:\n  type: object\n  properties:\n    s: {type: string, minLength: 5, maxLength: 1}\n  required: [s]\n",
        "output:\n  type: object\n  properties:\n    s: {type: string, enum: []}\n  required: [s]\n",
    ],
)
def test_a_schema_that_nothing_fits(tmp_path: Path, output: str) -> None:
    """Refused in one line, without a traceback and without an endless search for a value."""
    data = write_csv(tmp_path / "in.csv", [(1, "a")])
    result = run(write_prompt(tmp_path, output=output), data, tmp_path / "out.duckdb")
    assert result.status in (1, 2)
    assert result.error


def test_bad_outputs(tmp_path: Path) -> None:
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a")])
    (tmp_path / "file").write_text("x")
    for output, expected in (
        ("file/out.duckdb", "can't be made: "),
        ("file/out.csv", "can't be made: "),
        ("out.xlsx", "unknown kind of output; there are: .duckdb, .db, .csv, .parquet"),
        ("out", "unknown kind of output"),
        ("text.duckdb", "it is not a valid DuckDB database file"),
        ("folder.duckdb", "can't be opened"),
        ("folder.csv", "folder.csv"),
    ):
        (tmp_path / "text.duckdb").write_text("no database " * 1000)
        for name in ("folder.duckdb", "folder.csv"):
            (tmp_path / name).mkdir(exist_ok=True)
        result = run(prompt, data, tmp_path / output)
        assert result.status in (1, 2)
        assert str(tmp_path / output.partition("/")[0]) in result.error
        assert expected in result.error
    # A missing folder is created.
    assert run(prompt, data, tmp_path / "new" / "er" / "out.duckdb").status == 0


def test_an_output_that_may_not_be_written(tmp_path: Path) -> None:
    folder = Path("/proc/closed")  # nobody can create a file there, not even root
    result = run(write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a")]), folder / "out.duckdb")
    assert result.status == 1
    assert str(folder) in result.error


@pytest.mark.parametrize(
    "table", ["intent", "intent_quarantine", "intent_responses", "intent_prompts", "intent_pending"]
)
def test_tables_that_are_not_ours_are_left_alone(tmp_path: Path, table: str) -> None:
    output = tmp_path / "out.duckdb"
    with duckdb.connect(str(output)) as db:
        db.execute(f"CREATE TABLE {table} AS SELECT 42 AS mine")
    result = run(write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a")]), output)
    assert result.status == 2
    assert f"the table {table} is not sqlenrich's; rename the prompt file or give another --output" in (
        result.error.replace('"', "")
    )
    assert rows(output, f"FROM {table}") == [(42,)]


PAID = "id,body,label\n1,a,my own\n"


@pytest.mark.parametrize(
    ("name", "content", "refused"),
    [
        ("out.csv", PAID.encode(), True),
        ("out.csv", b"\xef\xbb\xbf" + PAID.encode(), True),
        ("out.csv", b"\xff\xfe\x00", True),
        ("out.csv", b'"unclosed\n' * 30_000, True),
        ("out_quarantine.csv", PAID.encode(), True),
        ("out.csv", b"", False),
        ("out.csv", b"id,label,_request_hash,_model,_version,_fingerprint\n", False),
        ("out_quarantine.csv", b"id,_error,_error_detail,_request_hash\n", False),
        ("out_quarantine.csv", b"id,_error\n", True),
        ("out.duckdb", None, False),
    ],
)
def test_files_that_are_not_ours_are_left_alone(
    tmp_path: Path, name: str, content: bytes | None, refused: bool
) -> None:
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a")])
    output = tmp_path / f"out{Path(name).suffix}"
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = run(prompt, data, output)
    if not refused:
        assert result.status == 0
        assert output.is_file()
        return
    assert result.status == 2
    assert result.error == f"{tmp_path / name} was not written by sqlenrich: remove it, or give another --output"
    assert (tmp_path / name).read_bytes() == content
    assert not (tmp_path / ".sqlenrich").exists()  # before any table or request
    assert call("plan", prompt, "--input", data, "--output", output, "--mock").status == 2


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_earlier_run_is_replaced(tmp_path: Path, suffix: str) -> None:
    """Also if its database is gone. A file that replaced it in the meantime is not replaced, not even by a retry."""
    prompt, output = write_prompt(tmp_path), tmp_path / f"out{suffix}"
    refused = tmp_path / f"out_quarantine{suffix}"
    other = tmp_path / f"tmp_{output.name}"  # the name of DuckDB's own temporary file
    other.write_text("mine")
    for count in (1, 2):
        data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(count)])
        assert run(prompt, data, output, "--mock-failures", "bad_json=0.5").status in (0, 3)
    database = tmp_path / ".sqlenrich" / f"{output.name}.duckdb"
    database.unlink()
    assert run(prompt, data, output).report["enriched"] == 2
    for foreign in (output, refused):
        ours = foreign.read_bytes()
        foreign.write_bytes(b"mine")
        for result in (run(prompt, data, output), call("retry", prompt, "--output", output, "--mock")):
            assert result.error == f"{foreign} was not written by sqlenrich: remove it, or give another --output"
        assert foreign.read_bytes() == b"mine"
        foreign.write_bytes(ours)
    assert other.read_text() == "mine"
    assert not list(tmp_path.glob(".out*"))  # nothing is left beside them


def test_a_run_does_not_write_over_its_source(tmp_path: Path) -> None:
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a")])
    assert "would write over its own input" in run(prompt, data, data).error
    other = write_csv(tmp_path / "out_quarantine.csv", [(1, "a")])
    assert "would write over its own input" in run(prompt, other, tmp_path / "out.csv").error
    output = tmp_path / "out.duckdb"
    assert run(prompt, data, output).status == 0
    write_prompt(tmp_path, "source: INTENT\nkey: [id]\n", "{{ id }}")
    assert "the source INTENT is a table that this run makes" in call("run", prompt, "--output", output, "--mock").error
    assert "the source INTENT is a table that this run makes" in run(prompt, output, output).error


# The endpoint ------------------------------------------------------------------------------------------------------

COUNT = 12


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "in.csv", [(i, f"text {i}.") for i in range(COUNT)])


def settings(folder: Path, url: str, **more: Any) -> None:
    """Write sqlenrich.toml beside the prompt."""
    lines = [f"{key} = {value!r}" for key, value in more.items()]
    (folder / "sqlenrich.toml").write_text(f'[endpoints.local]\nurl = "{url}"\n' + "\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("fault", "calls", "expected"),
    [
        (
            "401",
            1,
            "refuses the key (HTTP 401: Incorrect API key provided: ***): set the variable that api_key_env names",
        ),
        ("403", 6, "refuses the key (HTTP 403: no access for ***)"),
        ("404_model", 6, "HTTP 404: The model `x` does not exist.; correct the url"),
        ("404_path", 6, "HTTP 404: Not Found; correct the url (it usually ends in /v1) or the model's name"),
        ("307", 1, "correct the url"),
        ("quota", 1, "the quota is used up"),
        ("400_format", 3, "refuses what every request sends: HTTP 400: Grammar error"),
        ("400_unclear", 6, "refuses the requests: HTTP 400: computer says no"),
        ("500", 12, "fails: HTTP 500: boom; look at the server, then run again"),
        ("html", 12, "fails: the answer is not JSON: <html><body>Sign in to the network</body></html>"),
        ("no_choices", 12, "fails: the answer has no choices"),
        ("reset", 12, "connection closed before the answer; start the server there or correct the url"),
        ("hang", 6, "timeout: no byte for 0.2 s; start the server there or correct the url"),
    ],
)
def test_an_endpoint_that_refuses_everything(
    tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, fault: str, calls: int, expected: str
) -> None:
    """One line, few requests, no secret. Each row is NOT_ASKED or CALL_ERROR."""
    secret = "sk-very-secret-key"
    monkeypatch.setenv("MY_KEY", secret)
    prompt, output = write_prompt(tmp_path), tmp_path / "out.duckdb"
    with ScriptedEndpoint(rates={fault: 1.0}) as endpoint:
        # Only a server that hangs is to time out: on a busy machine an answer may take longer than that.
        settings(tmp_path, endpoint.url, timeout=0.2 if fault == "hang" else 10, api_key_env="MY_KEY")
        result = call("run", prompt, "--input", texts, "--output", output, "--model", "mock", "--json")
    assert (result.status, result.out) == (1, "")
    assert expected in result.error
    assert endpoint.url in result.error
    assert secret not in result.err
    assert len(endpoint.asked) == calls
    found = dict(rows(output, "SELECT _error, count(*) FROM intent_quarantine GROUP BY ALL"))
    assert sum(found.values()) == COUNT
    assert set(found) <= {"NOT_ASKED", "CALL_ERROR"}
    assert secret.encode() not in output.read_bytes()


def test_an_endpoint_that_is_down(tmp_path: Path, texts: Path) -> None:
    with ScriptedEndpoint() as endpoint:
        pass
    prompt, output = write_prompt(tmp_path), tmp_path / "out.duckdb"
    result = ask(prompt, texts, output, endpoint.url)
    assert result.status == 1
    assert result.error == (
        f"{endpoint.url}: connection refused: nothing listens there; start the server there or correct the url"
    )
    unnamed = call("run", prompt, "--input", texts, "--output", output, "--endpoint", endpoint.url)
    assert unnamed.status == 1
    assert endpoint.url in unnamed.error


@pytest.mark.parametrize(
    ("fault", "code", "detail"),
    [
        ("400_context", "CALL_ERROR", "HTTP 400: This model's maximum context length is 2048 tokens."),
        ("413", "CALL_ERROR", "HTTP 413: too big"),
        ("400_policy", "CALL_ERROR", "HTTP 400: flagged by the content management policy"),
        ("refusal", "REFUSED", ""),
        ("empty", "NO_RESPONSE", ""),
        ("blank", "NO_RESPONSE", ""),
        ("null", "NO_RESPONSE", ""),
        ("surrogate", "BAD_JSON", ""),
        ("huge", "MISSING_FIELD", ""),
    ],
)
def test_one_row_that_fails(tmp_path: Path, texts: Path, fault: str, code: str, detail: str) -> None:
    output = tmp_path / "out.duckdb"
    with ScriptedEndpoint(by_prompt={"text 7.": fault}) as endpoint:
        result = ask(write_prompt(tmp_path), texts, output, endpoint.url)
    assert result.status == 0, result.err
    report = result.report
    assert (report["enriched"], report["quarantine"], report["calls"]) == (COUNT - 1, {code: 1}, COUNT)
    found = rows(output, "SELECT id, _error, coalesce(_error_detail, '') FROM intent_quarantine")
    assert found[0][:2] == ("7", code)
    assert found[0][2].startswith(detail)


def test_one_row_that_is_always_500(tmp_path: Path, texts: Path) -> None:
    """The client retries, then the run asks again: one attempt each. Other rows are not affected."""
    output = tmp_path / "out.duckdb"
    prompt = write_prompt(tmp_path, "key: [id]\nretry: {max_attempts: 1}\n")
    with ScriptedEndpoint(by_prompt={"text 7.": "500"}) as endpoint:
        result = ask(prompt, texts, output, endpoint.url)
    assert (result.status, result.report["quarantine"]) == (0, {"CALL_ERROR": 1})
    assert rows(output, "SELECT id, _error_detail, _attempts FROM intent_quarantine") == [("7", "HTTP 500: boom", 1)]
    assert result.report["calls"] == len(endpoint.asked)
    assert COUNT + 2 <= len(endpoint.asked) <= COUNT + 5, "at most five tries, one of them a canary"


def test_an_endpoint_that_asks_to_wait(tmp_path: Path, texts: Path) -> None:
    with ScriptedEndpoint(script={1: "429_after", 6: "429_after"}) as endpoint:
        began = time.monotonic()
        result = ask(write_prompt(tmp_path), texts, tmp_path / "out.duckdb", endpoint.url)
        assert time.monotonic() - began >= 1.0
    assert (result.status, result.report["enriched"], result.report["retries"]) == (0, COUNT, 2)


def test_nonsense_is_no_error_but_all_refused(tmp_path: Path, texts: Path) -> None:
    with ScriptedEndpoint(content="what?") as endpoint:
        result = ask(write_prompt(tmp_path), texts, tmp_path / "out.duckdb", endpoint.url)
    assert (result.status, result.report["quarantine"], result.report["calls"]) == (3, {"BAD_JSON": COUNT}, COUNT)
    assert "all rows were refused" in result.err


def test_every_failure_at_once(tmp_path: Path) -> None:
    """No row is lost, and no answered row is asked again."""
    data, output = write_csv(tmp_path / "in.csv", [(i, f"text {i}.") for i in range(300)]), tmp_path / "out.duckdb"
    rates = {"500": 0.05, "reset": 0.05, "cut": 0.05, "429": 0.05, "html": 0.05, "refusal": 0.05, "empty": 0.05}
    with ScriptedEndpoint(rates=rates, content=GOOD, seed=3) as endpoint:
        result = ask(write_prompt(tmp_path), data, output, endpoint.url)
        assert result.status == 0, result.err
        runs.assert_accounted(result.report, output)
        assert set(result.report["quarantine"]) == {"NO_RESPONSE", "REFUSED"}
        assert result.report["calls"] == len(endpoint.asked) > 300
        before = len(endpoint.asked)
        assert ask(write_prompt(tmp_path), data, output, endpoint.url).report["calls"] == 0
        assert len(endpoint.asked) == before


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            '[endpoints.local]\nurl = "http://127.0.0.1:1/v1"\nconcurency = 3\n',
            'unknown key "concurency" (concurrency?)',
        ),
        ("[endpoints\n", "sqlenrich.toml: "),
        ('[endpoints.a]\nurl = "http://u:pw-secret@a/v1"\n', "holds a password: use api_key_env instead"),
    ],
)
def test_bad_settings(tmp_path: Path, texts: Path, written: str, expected: str) -> None:
    (tmp_path / "sqlenrich.toml").write_text(written, encoding="utf-8")
    output = tmp_path / "out.duckdb"
    result = call("run", write_prompt(tmp_path), "--input", texts, "--output", output, "--model", "mock")
    assert result.status == 2, result.err
    assert expected in result.error
    assert "pw-secret" not in result.err

"""Any table in: files packed, in parts, elsewhere or in another encoding, standard input, tables in memory."""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlenrich as se
from sqlenrich.store.duckdb.database import Database
from sqlenrich.store.duckdb.source import SOURCE, open_source
from sqlenrich.store.inputs import input_of
from tests.support.runs import call, write_csv, write_prompt

ROWS = [(1, "a,b"), (2, "ü"), (3, None)]
CSV = 'id,body\n1,"a,b"\n2,ü\n3,\n'
JSONL = "".join(json.dumps({"id": n, "body": body}) + "\n" for n, body in ROWS)
ARRAY = json.dumps([{"id": n, "body": body} for n, body in ROWS], indent=2, ensure_ascii=False)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(given: Any, encoding: str | None = None) -> list[tuple[int, Any, Any]]:
    """Return the rows of an input with their numbers, the id as an integer."""
    with Database(Path("o.duckdb")) as db:
        assert list(open_source(db, input_of(given, encoding), None, None, number_rows=True)) == ["_row", "id", "body"]
        return [(row, int(key), body) for row, key, body in db.reading(f"FROM {SOURCE}")]


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def write(files: dict[str, bytes | str]) -> None:
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


PART: dict[str, bytes | str] = {
    "d/1.csv": 'id,body\n1,"a,b"\n',
    "d/2.csv": "id;body\r\n2;ü\r\n",
    "d/sub/3.csv": "id,body\n3,\n",
}


@pytest.mark.parametrize(
    ("files", "given", "encoding"),
    [
        pytest.param({"a.csv.gz": gzip.compress(CSV.encode())}, "a.csv.gz", None, id="gzip"),
        pytest.param({"a.csv.zst": zstd(CSV.encode())}, "a.csv.zst", None, id="zstd"),
        pytest.param({"a.tsv.gz": gzip.compress(CSV.replace('"a,b"', "a,b").replace("1,", "1\t").replace("2,", "2\t")
                                                .replace("3,", "3\t").replace("id,", "id\t").encode())},
                     "a.tsv.gz", None, id="packed tsv"),
        pytest.param({"a.jsonl.gz": gzip.compress(JSONL.encode())}, "a.jsonl.gz", None, id="packed json"),
        pytest.param({"a.json": ARRAY}, "a.json", None, id="json array"),
        pytest.param({"a.jsonl": ARRAY}, "a.jsonl", None, id="an array as lines"),
        pytest.param({"a.json": JSONL}, "a.json", None, id="lines as json"),
        pytest.param({"a.json": ARRAY.strip("[]").replace("},", "}")}, "a.json", None, id="objects over several lines"),
        pytest.param({"a.json.gz": gzip.compress(ARRAY.encode("cp1252"))}, "a.json.gz", "cp1252", id="packed array"),
        pytest.param({"a.ndjson.zst": zstd(JSONL.encode())}, "a.ndjson.zst", None, id="zstd json"),
        pytest.param({"a.csv": CSV.encode("cp1252")}, "a.csv", "cp1252", id="encoding"),
        pytest.param({"a.csv": CSV.encode("utf-16")}, "a.csv", "utf-16", id="utf-16"),
        pytest.param({"a.csv.gz": gzip.compress(CSV.encode("latin-1"))}, "a.csv.gz", "latin-1", id="both"),
        pytest.param({"a.csv": CSV}, "a.csv", "utf-8", id="plain"),
        pytest.param(PART, "d", None, id="folder"),
        pytest.param({**PART, "d/_SUCCESS": "", "d/.crc/x.csv": "no"}, "d", None, id="folder with other files"),
        pytest.param(PART, "d/**/*.csv", None, id="pattern"),
        pytest.param({"[x].csv": CSV}, "[x].csv", None, id="a name that looks like a pattern"),
        pytest.param({"a.csv": CSV}, "file://{folder}/a.csv", None, id="URL"),
    ],
)  # fmt: skip
def test_files(folder: Path, files: dict[str, bytes | str], given: str, encoding: str | None) -> None:
    if "://" in given:
        pytest.importorskip("fsspec")
    write(files)
    assert read(given.replace("{folder}", str(folder)), encoding) == [(n, *row) for n, row in enumerate(ROWS, 1)]


@pytest.mark.parametrize("content", [CSV, JSONL, ARRAY, gzip.compress(CSV.encode()), zstd(JSONL.encode()), "parquet"],
                         ids=["csv", "json", "array", "gzip", "zstd", "parquet"])  # fmt: skip
def test_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes | str) -> None:
    if content == "parquet":
        file = io.BytesIO()
        pq.write_table(arrow(), file)
        content = file.getvalue()
    data = content.encode() if isinstance(content, str) else content
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read("-") == [(n, *row) for n, row in enumerate(ROWS, 1)]


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
@pytest.mark.parametrize("encoding", [None, "cp1252"])
@pytest.mark.parametrize("name", ["-", "a.csv", "a.jsonl"])
def test_a_packed_file_that_was_cut_off(
    monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes], encoding: str | None, name: str
) -> None:
    """It is an error at work, told in words: click takes EOFError for a closed terminal."""
    head, line = ("", '{{"id": {}, "body": {}}}') if name == "a.jsonl" else ("id,body\n", "{},{}")
    data = pack((head + "".join(line.format(n, n * 7919 % 1013) + "\n" for n in range(40_000))).encode())[:-100]
    given = name if name == "-" else name + {gzip.compress: ".gz", zstd: ".zst"}[pack]
    write({} if name == "-" else {given: data})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    own = ("--encoding", encoding) if encoding else ()
    done = call("run", write_prompt(Path()), "--input", given, *own, "--output", "o.duckdb", "--mock")
    assert done.status == 1, done.error
    shown = "standard input" if name == "-" else given
    assert done.error == f"{shown} can't be read: it ends too early: copy it again"


def test_parquet_in_parts() -> None:
    """Columns in another order are the same columns, and the names of folders are columns as Spark writes them."""
    for day, rows in (("2026-01-01", arrow().slice(0, 1)), ("2026-01-02", arrow().slice(1).select(["body", "id"]))):
        Path(f"p/day={day}").mkdir(parents=True)
        pq.write_table(rows, f"p/day={day}/a.parquet")
    with Database(Path("o.duckdb")) as db:
        assert list(open_source(db, "p", None, None, number_rows=False)) == ["id", "body", "day"]
        assert [row[:2] for row in db.reading(f"FROM {SOURCE}")] == ROWS


@pytest.mark.parametrize(
    ("files", "given", "encoding", "words"),
    [
        ({"d/a.csv": CSV, "d/b.jsonl": JSONL}, "d", None, "d: the files are not of one kind that can be read together"),
        ({"d/a.csv": CSV, "d/b.csv": "id,text\n"}, "d/*.csv", None,
         "d/b.csv: its columns are id, text; those of d/a.csv are id, body"),
        ({"d/x": ""}, "d/*.csv", None, "d/*.csv: no file fits the pattern"),
        ({"d/_x": ""}, "d", None, "d: the folder has no file"),
        ({"a.csv.gz": b"no"}, "a.csv.gz", None, "a.csv.gz can't be read: Not a gzipped file"),
        ({"a.parquet.gz": b"no"}, "a.parquet.gz", None, "unknown kind of file"),
        ({"a.csv": "id,body\n1,\xff\n".encode("latin-1")}, "a.csv", "utf-16", "a.csv is not in the encoding utf-16"),
        ({"a.csv": CSV}, "a.csv", "utf-99", 'no encoding "utf-99"; examples: cp1252'),
        ({"a.parquet": b"PAR1"}, "a.parquet", "cp1252", "a.parquet: encoding is that of files of text"),
        ({}, "nosuch://a/b.csv", None, "nosuch://a/b.csv"),
    ],
)  # fmt: skip
def test_files_that_can_not_be_read(
    files: dict[str, bytes | str], given: str, encoding: str | None, words: str
) -> None:
    write(files)
    with pytest.raises(se.ConfigError) as caught:
        read(given, encoding)
    assert words in str(caught.value)


@pytest.mark.parametrize("given", ["d", "d/*.csv", "d/**/*.csv"])
def test_a_run_does_not_read_what_it_writes(given: str) -> None:
    write(PART)
    run = ("run", write_prompt(Path()), "--input", given, "--mock", "--output")
    assert f"{given} would have d/o.csv, which the run writes, as input" in call(*run, "d/o.csv").error
    assert call(*run, "d/o.duckdb", "--dry-run").status == 0


@pytest.fixture
def site(folder: Path) -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.func.log_message = lambda *_: None  # type: ignore[attr-defined]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_urls(site: str) -> None:
    """A problem names the URL, not the copy."""
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    write({"a.csv": CSV, "b.csv": "id,body\n1,a\n2,b,c\n"})
    assert read(f"{site}/a.csv?token=secret") == [(n, *row) for n, row in enumerate(ROWS, 1)]
    run = ("run", write_prompt(Path()), "--output", "out.duckdb", "--mock", "--input")
    assert call(*run, f"{site}/b.csv").error == f"{site}/b.csv, line 3: 3 fields where the header has 2"
    assert call(*run, f"{site}/c.csv?token=secret").error == f"{site}/c.csv: no such file"
    assert call(*run, f"{site}/a.csv?token=secret", "--key", "no").error.startswith(f'no column "no" in {site}/a.csv;')
    memory = fsspec.filesystem("memory")
    for name, content in PART.items():
        memory.pipe(f"/{name}", str(content).encode())
    for given in ("memory://d", "memory://d/**/*.csv"):
        assert read(given) == [(n, *row) for n, row in enumerate(ROWS, 1)]


def arrow() -> pa.Table:
    return pa.table({"id": [1, 2, 3], "body": ["a,b", "ü", None]})


def polars_frame(kind: str) -> Any:
    polars = pytest.importorskip("polars")
    return getattr(polars, kind)({"id": [1, 2, 3], "body": ["a,b", "ü", None]})


def pandas_frame() -> Any:
    return arrow().to_pandas().set_index(pa.array([7, 8, 9]).to_pandas())


IN_MEMORY: dict[str, Callable[[], Any]] = {
    "Arrow table": arrow,
    "record batch": lambda: arrow().to_batches()[0],
    "Arrow stream": lambda: arrow().to_reader(),
    "pandas": pandas_frame,
    "polars": lambda: polars_frame("DataFrame"),
    "lazy polars": lambda: polars_frame("LazyFrame"),
    "DuckDB relation": lambda: duckdb.connect().sql("FROM (VALUES (1, 'a,b'), (2, 'ü'), (3, NULL)) t (id, body)"),
    "list of dicts": lambda: [{"id": 1, "body": "a,b"}, {"id": 2, "body": "ü"}, {"id": 3}],
}


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_tables_in_memory(kind: str) -> None:
    if kind == "pandas":
        pytest.importorskip("pandas")
    assert read(IN_MEMORY[kind]()) == [(n, *row) for n, row in enumerate(ROWS, 1)]


def test_the_order_of_a_large_table_is_kept() -> None:
    table = pa.concat_tables(
        [pa.table({"id": range(n, n + 1000), "body": ["x"] * 1000}) for n in range(0, 50_000, 1000)]
    )
    assert [row == key + 1 for row, key, _ in read(table)] == [True] * 50_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "not int"),
        ([], "the given list has no rows"),
        ([1], "not list"),
        ([{"id": 1}, {"id": "x"}], "the given list is no table of typed columns"),
        (pa.table([[1], [2]], names=["id", "ID"]), 'the columns "id" and "ID" are the same but for case'),
    ],
)
def test_what_is_no_table(given: object, words: str) -> None:
    with pytest.raises(se.ConfigError) as caught:
        read(given)
    assert words in str(caught.value)


def test_an_encoding_on_the_command_line() -> None:
    prompt = write_prompt(Path())
    write({"a.csv": CSV.encode("cp1252")})
    run = ("run", prompt, "--input", "a.csv", "--output", "out.csv", "--mock")
    assert call(*run).error == (
        "a.csv can't be read: it is not UTF-8 text; save it as UTF-8, or name its encoding, as in --encoding cp1252"
    )
    assert call(*run, "--encoding", "cp1252").status == 0
    for command in ("preview", "plan", "compare"):
        extra = ("--model", "a") if command == "compare" else ()
        done = call(command, prompt, "--input", "a.csv", "--encoding", "cp1252", "--mock", *extra)
        assert "UTF-8" not in done.err


def test_the_given_table_of_other_databases(folder: Path) -> None:
    from sqlenrich.store.dbapi import DbApiBackend

    write_csv(folder / "in.csv", [(1, "a")])
    backend = DbApiBackend(duckdb.connect(), engine="duckdb", schema="main")
    with pytest.raises(se.ConfigError, match="reads its own tables, not the given table"):
        se.run(se.load(write_prompt(folder)), input=[{"id": 1, "body": "x"}], output=backend, mock=True)


# Columns that no table holds, and what stands for an enrichment -------------------------------------------------------


def odd_tables() -> dict[str, Any]:
    pd = pytest.importorskip("pandas")
    big = pa.table({"id": [1], "body": ["a"], "odd": pa.array([Decimal("1" * 60)], pa.decimal256(76, 0))})
    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    return {
        "mixed objects": pd.DataFrame({"id": [1, 2], "body": ["a", "b"], "odd": [1, "q"]}),
        "complex": pd.DataFrame({"id": [1], "body": ["a"], "odd": [1 + 2j]}),
        "mixed list": [{"id": 1, "body": "a", "odd": 1}, {"id": 2, "body": "b", "odd": "q"}],
        "decimal256": big,
        "decimal256 stream": big.to_reader(),
        "half": pa.table({"id": [1], "body": ["a"], "odd": pa.array([1.0], pa.float16())}),
        "union": pa.table({"id": [1], "body": ["a"], "odd": union}),
    }


@pytest.mark.parametrize(
    "case", ["mixed objects", "complex", "mixed list", "decimal256", "decimal256 stream", "half", "union"]
)
def test_a_column_that_nothing_reads_ends_no_run(folder: Path, case: str) -> None:
    prompt = write_prompt(folder)
    assert se.run(str(prompt), input=odd_tables()[case], mock=True).quarantined == 0


def test_a_column_of_mixed_types_that_is_read() -> None:
    mine = se.enrichment("mine", prompt="{{ odd }}", key=["id"], output={"kind(enum)": ["a"]})
    with pytest.raises(se.ConfigError, match=r'the column "odd" of the given table is read, and it .*one type'):
        se.run(mine, input=odd_tables()["mixed list"], mock=True)
    assert se.run(mine, input=odd_tables()["decimal256"], mock=True).enriched == 1
    frame = pytest.importorskip("pandas").DataFrame([[1, "a", "b"]], columns=["id", "odd", "odd"])
    with pytest.raises(se.ConfigError, match='the given DataFrame: the column "odd" occurs twice'):
        se.run(mine, input=frame, mock=True)


def test_a_path_or_a_template_stands_for_an_enrichment(folder: Path) -> None:
    prompt = write_prompt(folder)
    data = write_csv(Path("in.csv"), [(1, "a")])
    assert "SELECT" in se.render("support_ticket", engine="duckdb")
    with pytest.raises(se.SpecError, match="nope: no such file, and no template of that name"):
        se.run("nope", input=data, mock=True)
    estimated, report = (
        se.estimate(prompt, input=data, mock=True),
        se.run(prompt, input=data, output="o.duckdb", mock=True),
    )
    told = se.report(prompt, output="o.duckdb")
    shown: list[Any] = [estimated, report, told, se.drift(prompt, output="o.duckdb"), se.load(prompt)]
    for one in shown:
        assert str(one) == repr(one) == one.to_text()
        assert one._repr_html_().startswith("<pre>")
    assert str(se.load(prompt)).splitlines()[1:3] == ["  reads  body", "  key    id"]


def test_a_console_that_lacks_a_character(folder: Path) -> None:
    """Each command that draws lines or prints a sigma ends with its status on a console of cp1252."""
    prompt, data = write_prompt(folder), write_csv(Path("in.csv"), [(1, "ü→")])
    code = "import sqlenrich.cli.main as m; m.main()"
    env = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    for command in (
        ("run", prompt, "--input", data, "--output", "o.duckdb", "--mock"),
        ("show", "intent", "--output", "o.duckdb"),
        ("preview", prompt, "--input", data, "--prompt-only"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, command)], env=env, capture_output=True, check=False
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr


KEPT = [{"id": 7, "body": "a", "Message Text": "m", "tags": ["x"], "at": {"y": 1}}]


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ('key: [id]\nkeep: "*"\n', ["id", "body", "Message Text", "tags", "at"]),
        ('key: []\nkeep: "*"\n', ["_row", "id", "body", "Message Text", "tags", "at"]),
        (
            'key: [number]\nkeep: "*"\ncolumns: {number: {from: id}, text: {from: "Message Text"}}\n',
            ["number", "body", "text", "tags", "at"],
        ),
        ('key: [id]\nkeep: "*"\ncolumns: {label: string}\n', ["id", "body", "Message Text", "tags", "at"]),
    ],
)
def test_all_columns_are_kept(folder: Path, header: str, kept: list[str]) -> None:
    report = se.run(write_prompt(folder, header), input=KEPT, mock=True)
    assert report.table().column_names[: len(kept) + 1] == [*kept, "label"]
    assert tuple(report.table().to_pylist()[0].values())[len(kept) - 4 : len(kept)] == ("a", "m", ["x"], {"y": 1})


def test_the_verbs_on_a_run_that_kept_all_columns(folder: Path) -> None:
    """Those that read its tables know what it kept. A comparison keeps nothing."""
    prompt = write_prompt(folder, 'key: [id]\nkeep: "*"\n')
    write({"a.jsonl": json.dumps(KEPT[0]) + "\n"})
    kept = list(KEPT[0])
    se.run(prompt, input="a.jsonl", output="o.duckdb", mock=True, mock_failures={"bad_json": 1})
    with duckdb.connect("o.duckdb") as db:
        assert db.table("intent_quarantine").columns[: len(kept) + 1] == [*kept, "_error"]
        assert db.table("intent_prompts").fetchall()[0][len(kept)] == "Classify: a"
    assert se.retry(prompt, output="o.duckdb", mock=True).enriched == 1
    with duckdb.connect("o.duckdb") as db:
        assert db.table("intent").fetchall()[0][: len(kept)] == (7, "a", "m", ["x"], {"y": 1})
    assert se.drift(prompt, output="o.duckdb").exit_status == 0
    assert se.audit(prompt, output="o.duckdb").exit_status == 0
    assert se.compare(prompt, prompt, input="a.jsonl", mock=True).exit_status == 0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [{"id": 1, "body": "a", "Label": "x", "prompt": "p", "b c": 1}],
            'keep: "*" can\'t keep Label, prompt: a result table has another column of that name; '
            'write keep: [body, "b c"]',
        ),
        (
            [{"id": 1, "body": "a", "odd": 1}, {"id": 2, "body": "b", "odd": "q"}],
            'the column "odd" of the given table is read, and it can\'t be',
        ),
    ],
)
def test_columns_that_can_not_be_kept(folder: Path, rows: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(se.SqlenrichError, match=re.escape(words)):
        se.run(write_prompt(folder, 'key: [id]\nkeep: "*"\n'), input=rows, mock=True)


def test_a_script_that_keeps_all_columns(folder: Path) -> None:
    """It knows those that the header names."""
    header = 'source: raw.t\nkey: [id]\nkeep: "*"\n'
    prompt = write_prompt(folder, header)
    with pytest.raises(se.SpecError, match=r"write keep: \[COLUMN, \.\.\.\], or name all .* \(body, id too\)"):
        se.render(prompt, engine="duckdb")
    checked = call("check", prompt)
    assert checked.status == 0
    assert "keeps       all other columns of the source, in a run; keep: " in checked.out
    named = write_prompt(folder, f"{header}columns: {{id: bigint, body: string, channel: string}}\n")
    query = se.render(named, engine="duckdb", step="prompts")
    with duckdb.connect() as db:
        db.execute("CREATE SCHEMA raw; CREATE TABLE raw.t AS SELECT 1 AS id, 'a' AS body, 'mail' AS channel")
        assert db.sql(query).columns[:3] == ["id", "body", "channel"]
    assert "keeps       body, channel\n" in call("check", named).out


NESTED = [
    {"id": n, "customer": {"name": "Ann", "tier": {"x": n}}, "items": [{"sku": "a", "qty": n}, {"sku": "b", "qty": 2}]}
    for n in (1, 2)
]
NESTED_TEMPLATE = "{{ customer.name }} {{ customer['tier'].x + 1 }}{% for one in items %} {{ one.sku }}{% endfor %}"


@pytest.mark.parametrize("given", ["a.jsonl", "rows"])
def test_nested_columns_need_no_types(folder: Path, given: str) -> None:
    """A run reads them from its source. A script can't, and its message is what the header needs."""
    prompt = write_prompt(folder, template=NESTED_TEMPLATE.replace(" + 1", ""))
    write({"a.jsonl": "".join(json.dumps(row) + "\n" for row in NESTED)})
    report = se.run(prompt, input=NESTED if given == "rows" else given, output="o.duckdb", mock=True)
    assert report.enriched == 2
    assert se.retry(prompt, output="o.duckdb", mock=True).exit_status == 0
    with duckdb.connect("o.duckdb") as db:
        assert db.sql("SELECT prompt FROM intent_prompts ORDER BY id").fetchall() == [("Ann 1 a b",), ("Ann 2 a b",)]
    declared = (
        "columns: {customer: {struct: {name: string, tier: {struct: {x: string}}}}, "
        "items: {array: {struct: {sku: string}}}}"
    )
    write({"dbt_project.yml": "name: app\nprofile: app\n"})
    sourced = write_prompt(folder, "source: raw.t\nkey: [id]\n", NESTED_TEMPLATE.replace(" + 1", ""))
    for written in (lambda: se.render(sourced, engine="duckdb"), lambda: se.write_dbt([se.load(sourced)], folder)):
        with pytest.raises(se.PromptError) as refused:
            written()
        assert f"declare its type: {declared}" in str(refused.value)
    assert f"render, dbt refused: {refused.value} (a run reads the types from its source)" in call("check", sourced).out
    typed = write_prompt(folder, f"source: raw.t\nkey: [id]\n{declared}\n", NESTED_TEMPLATE.replace(" + 1", ""))
    assert "customer" in se.render(typed, engine="duckdb")
    wrong = write_prompt(folder, template="{{ customer.nome }}")
    with pytest.raises(se.PromptError, match="nome"):
        se.run(wrong, input=NESTED, mock=True)

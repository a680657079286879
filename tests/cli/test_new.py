"""``sqlenrich new`` writes a prompt file that works at once, with any names of columns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.cli.data_columns import columns_of
from sqlenrich.cli.new import new
from sqlenrich.spec.loader import templates
from tests.support.hostile import NAMES
from tests.support.runs import call, run, write_csv


@pytest.fixture(autouse=True)
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_fresh_file_is_valid_and_commented(tmp_path: Path) -> None:
    result = call("new", "intent")
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        "wrote intent.prompt; next: sqlenrich preview intent.prompt --input YOUR_DATA.csv --prompt-only\n"
    )
    enrichment = se.load("intent.prompt")
    assert (enrichment.name, enrichment.source, enrichment.key) == ("intent", "raw.messages", ("id",))
    assert sum(line.startswith("#") for line in Path("intent.prompt").read_text().splitlines()) >= 3
    again = call("new", "intent.prompt")
    assert (again.status, again.error) == (2, "intent.prompt exists; choose another name, or --force")
    assert call("new", "intent", "--force").status == 0


@pytest.mark.parametrize(
    ("header", "key", "main"),
    [
        (("id", "message", "channel"), ("id",), "message"),
        (("Ticket ID", "Message Text", "2nd note"), ("Ticket ID",), "message_text"),
        (("customer_id", "a", "b"), ("customer_id",), "a"),
        (("a", "b"), (), "a"),
        (("id", "if", "for"), ("id",), "if_"),
        (("id", "output", "None", "true"), ("id",), "output_"),
        (("id", "a b", "a-b", "a_b"), ("id",), "a_b_"),
        (("id", "für", "naïve text"), ("id",), "na_ve_text"),
        (("id", "response", "prompt"), ("id",), "response"),
        (("id", "x\x1fy", "new\nline"), ("id",), "x_y"),
    ],
)
def test_columns_and_key_are_read_from_data(header: tuple[str, ...], key: tuple[str, ...], main: str) -> None:
    data = write_csv(Path("in.csv"), [tuple(f"value {i}" for i in range(len(header)))], header)
    assert new("intent", data=data).endswith("--input in.csv --prompt-only")
    enrichment = se.load("intent.prompt")
    assert enrichment.key == key
    assert enrichment.require == (main,)
    result = run(Path("intent.prompt"), data, Path("out.duckdb"))
    assert (result.status, result.report["enriched"]) == (0, 1), result.err


@pytest.mark.parametrize("name", [name for name in NAMES if "private" not in name])
def test_hostile_column_names(name: str) -> None:
    column = NAMES[name]
    data = write_csv(Path("in.csv"), [("1", "hello")], ("id", column))
    new("intent", data=data)
    result = run(Path("intent.prompt"), data, Path("out.duckdb"))
    assert (result.status, result.report["enriched"]) == (0, 1), result.err
    spec = next(iter(se.load("intent.prompt").columns.values()))
    assert spec.source_name == column


def test_types_of_other_files() -> None:
    Path("in.jsonl").write_text('{"id": 1, "text": "x", "n": 3, "ok": true, "day": "2024-01-02"}\n')
    assert {name: getattr(kind, "name", "") for name, kind in columns_of(Path("in.jsonl")).items()} == {
        "id": "bigint", "text": "string", "n": "bigint", "ok": "boolean", "day": "string",
    }  # fmt: skip
    assert call("new", "intent", "--from", "in.jsonl").status == 0
    Path("n.jsonl").write_text('{"id": 1, "n": 3}\n')
    refused = call("new", "numbers", "--from", "n.jsonl")
    assert (refused.status, refused.error) == (2, "n.jsonl has no text column to ask about; there are: id, n")


CUSTOMER = {
    "id": 7,
    "customer": {"name": "Ann", "tier": {"level": 2, "first name": "A"}, "items": "3", "n": 0.5},
    "lines": [{"sku": "s1", "qty": 2, "n": 1.5}, None, {"sku": None, "qty": 1, "n": None}],
    "tags": ["x", None, "y"],
    "grid": [[1.5]],
}
WRITTEN = """columns:
  customer: {struct: {name: string, tier: {struct: {level: bigint, "first name": string}}, items: string, n: double}}
  lines: {array: {struct: {sku: string, qty: bigint, n: double}}}
  tags: {array: string}
  # Not in the prompt, with their types:
  # grid: {array: {array: double}}
"""
PROMPTED = """<text>
lines:
- sku: s1, qty: 2
- sku: , qty: 1
tags:
- x
- y
customer.name: Ann
customer.tier.level: 2
customer.tier.first name: A
customer.items: 3

</text>"""


@pytest.mark.parametrize("file", ["in.jsonl", "in.parquet"])
def test_nested_columns(file: str) -> None:
    """Their types are written, their fields are printed, and what is NULL at any depth is left out."""
    empty = {"id": 8, "customer": {"name": None, "tier": None}, "lines": None, "tags": None}
    Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (CUSTOMER, empty)), encoding="utf-8")
    with duckdb.connect() as db:
        db.execute("COPY (FROM 'in.jsonl') TO 'in.parquet'")
    assert call("new", "intent", "--from", file).status == 0
    assert WRITTEN in Path("intent.prompt").read_text(encoding="utf-8")
    result = run(Path("intent.prompt"), Path(file), Path("out.duckdb"))
    assert (result.status, result.report["enriched"]) == (0, 2), result.err
    with duckdb.connect("out.duckdb") as db:
        texts = [text for (text,) in db.execute("SELECT prompt FROM intent_prompts ORDER BY id").fetchall()]
    assert [text[text.index("<text>\n") :] for text in texts] == [PROMPTED, "<text>\n\n</text>"]
    assert "customer" in se.render(
        se.loads(f"---\nsource: t\n{Path('intent.prompt').read_text()[4:]}"), engine="snowflake"
    )


def test_nested_columns_beside_a_text() -> None:
    row = {
        "id": {"a": 1},
        "body": "x",
        "one": {"items": "i"},
        "messages": ["m"],
        "A B": {"c": "d"},
        "category": {"x": "y"},
    }
    Path("in.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert call("new", "intent", "--from", "in.jsonl").status == 0
    made = se.load("intent.prompt")
    assert (made.key, made.require, tuple(made.columns)) == ((), ("body",), ("body", "id", "one"))
    assert '  # "A B": {struct: {c: string}}\n' in Path("intent.prompt").read_text(encoding="utf-8")
    result = run(Path("intent.prompt"), Path("in.jsonl"), Path("out.duckdb"))
    assert (result.status, result.report["enriched"]) == (0, 1), result.err


@pytest.mark.parametrize(
    ("given", "options", "shown"),
    [
        ("in.csv", ("--encoding", "cp1252"), "--input in.csv --prompt-only --encoding cp1252"),
        ("d.duckdb#t", (), "--input 'd.duckdb#t' --prompt-only"),
        ("parts", (), "--input parts --prompt-only"),
        ("parts/*.csv.gz", (), "--input 'parts/*.csv.gz' --prompt-only"),
    ],
)
def test_data_is_all_that_a_run_takes(given: str, options: tuple[str, ...], shown: str) -> None:
    Path("in.csv").write_bytes("id,größe,body\n1,ä,ü\n".encode("cp1252"))
    Path("parts").mkdir()
    for part in ("1", "2"):
        Path(f"parts/{part}.csv.gz").write_bytes(gzip.compress(f"id,größe,body\n{part},ä,ü\n".encode()))
    with duckdb.connect("d.duckdb") as db:
        db.execute("CREATE TABLE t AS SELECT '1' AS id, 'ä' AS \"größe\", 'ü' AS body")
    made = call("new", "intent", "--from", given, *options)
    assert (made.status, made.out) == (0, f"wrote intent.prompt; next: sqlenrich preview intent.prompt {shown}\n")
    assert (se.load("intent.prompt").key, se.load("intent.prompt").require) == (("id",), ("body",))
    done = call("run", "intent.prompt", "--input", given, *options, "--output", "out.duckdb", "--mock")
    assert done.status == 0, done.err


@pytest.mark.parametrize("template", list(templates()))
def test_templates(template: str) -> None:
    assert call("new", "mine", "--template", template).status == 0
    assert se.load("mine.prompt").schema == se.load(template).schema


@pytest.mark.parametrize("name", ["a b", "1a", "a-b", "ä", "a.b"])
def test_names_that_are_no_tables(name: str) -> None:
    result = call("new", name)
    assert result.status == 2
    assert "becomes a table: letters, digits and _, not a digit first" in result.error
    assert not list(Path().glob("*.prompt"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "no.csv"), "no.csv: no such file"),
        (("--from", "no.duckdb#t"), "no.duckdb#t: no such file"),
        (("--from", "d.duckdb"), "d.duckdb: which table? Write source: in the header, or give d.duckdb#TABLE"),
        (("--from", "d.duckdb#u"), "d.duckdb#u can't be read: "),
        (("--from", "in.csv", "--encoding", "utf-99"), 'no encoding "utf-99"'),
        (("--encoding", "cp1252"), "--encoding is that of the data: give --from FILE"),
    ],
)
def test_data_that_can_not_be_read(arguments: tuple[str, ...], words: str) -> None:
    duckdb.connect("d.duckdb").close()
    assert words in call("new", "a", *arguments).error
    assert not Path("a.prompt").exists()

"""``sqlenrich new`` writes a prompt file that works at once, with any names of columns."""

from __future__ import annotations

from pathlib import Path

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


def test_data_that_is_missing() -> None:
    assert call("new", "a", "--from", "no.csv").error == "no.csv: no such file"

"""The header's JSON Schema, and the line of each value."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sqlenrich.spec.header import ELSEWHERE, HEADER, PLACED, RESERVED, Header, header_schema
from sqlenrich.spec.loader import templates

OUTPUT = {"type": "object", "properties": {"label": {"type": "string"}}}


def header_of(file: Path) -> Any:
    """The values of a file's header."""
    return Header(file.read_text(encoding="utf-8").split("\n---\n")[0].removeprefix("---\n"), 2).values


def validator() -> Any:
    """The validator of headers."""
    jsonschema.Draft202012Validator.check_schema(header_schema())
    return jsonschema.Draft202012Validator(header_schema())


@pytest.mark.parametrize("name", sorted(templates()))
def test_the_schema_accepts_every_template_s_header(name: str) -> None:
    assert [error.message for error in validator().iter_errors(header_of(templates()[name]))] == []


@pytest.mark.parametrize(("more", "place"), [
    pytest.param({"descripton": "x"}, [], id="unknown key"),
    pytest.param({"images": "x"}, [], id="reserved key"),
    pytest.param({"key": "id"}, ["key"], id="key"),
    pytest.param({"keep": "all"}, ["keep"], id="keep"),
    pytest.param({"version": 1.5}, ["version"], id="version"),
    pytest.param({"columns": {"a": "strng"}}, ["columns", "a"], id="type"),
    pytest.param({"columns": {"a": {"typ": "string"}}}, ["columns", "a"], id="column key"),
    pytest.param({"params": {"temperature": 3}}, ["params", "temperature"], id="temperature"),
    pytest.param({"params": {"stop": list("abcde")}}, ["params", "stop"], id="stop"),
    pytest.param({"hint": "maybe"}, ["hint"], id="hint"),
    pytest.param({"repairs": ["fense"]}, ["repairs", 0], id="repair"),
    pytest.param({"retry": {"feedbak": True}}, ["retry"], id="retry"),
    pytest.param({"max_quarantine": 2}, ["max_quarantine"], id="max_quarantine"),
    pytest.param({"pin_model": 4}, ["pin_model"], id="pin_model"),
    pytest.param({"source": {"qery": "x"}}, ["source"], id="source"),
])  # fmt: skip
def test_the_schema_refuses(more: dict[str, Any], place: list[str | int]) -> None:
    assert validator().is_valid({"output": OUTPUT})
    assert [list(error.path) for error in validator().iter_errors({"output": OUTPUT, **more})] == [place]


@pytest.mark.parametrize("more", [
    {"version": "v1", "key": [], "columns": {"a": "decimal(9,2)", "b": {"array": "string"}, "c": {"from": "C"}}},
    {"source": {"query": "SELECT 1"}, "retry": {"max_attempts": 3, "feedback": False, "escalate": None}},
    {"params": {"temperature": 0.5, "snowflake": {"guardrails": True}}, "repairs": [], "hint": "auto"},
    {"output": {"pydantic": "package.module:Model"}, "pin_model": True},
    {"pin_model": "gpt-4o-2024-*", "keep": "*"},
])  # fmt: skip
def test_the_schema_accepts(more: dict[str, Any]) -> None:
    assert [error.message for error in validator().iter_errors({"output": OUTPUT, **more})] == []


def test_output_is_required() -> None:
    assert not validator().is_valid({"version": 1})


@pytest.mark.parametrize("others", [RESERVED, PLACED, ELSEWHERE])
def test_a_key_that_is_told_to_be_none_is_none(others: Iterable[str]) -> None:
    assert not set(others) & set(HEADER)


@pytest.mark.parametrize(("path", "line"), [
    pytest.param((), 2, id="root"),
    pytest.param(("key",), 2, id="key"),
    pytest.param(("output",), 3, id="mapping"),
    pytest.param(("output", "properties", "label"), 6, id="nested"),
    pytest.param(("output", "properties", "label", "nothing"), 6, id="nearest above"),
    pytest.param(("repairs", "1"), 10, id="element"),
    pytest.param(("nothing",), 2, id="unknown"),
])  # fmt: skip
def test_line(path: tuple[str, ...], line: int) -> None:
    text = "key: [id]\noutput:\n  type: object\n  properties:\n    label:\n      type: x\nrepairs:\n  - fence\n  - x\n"
    assert Header(text, 2).line(path) == line


@pytest.mark.parametrize(("text", "values"), [
    pytest.param("", {}, id="empty"),
    pytest.param("# a comment", {}, id="comment"),
    pytest.param("a: yes\nb: no", {"a": "yes", "b": "no"}, id="yes is text"),
    pytest.param("a: [2026-01-31]", {"a": ["2026-01-31"]}, id="a date is text"),
    pytest.param("a: &x [1]\nb: *x", {"a": [1], "b": [1]}, id="anchor"),
    pytest.param("a: |\n  x\n  y\n", {"a": "x\ny\n"}, id="block"),
])  # fmt: skip
def test_values(text: str, values: dict[str, Any]) -> None:
    assert Header(text, 2).values == values


@pytest.mark.parametrize("text", ["- a", "text", "3"])
def test_a_header_is_a_mapping(text: str) -> None:
    with pytest.raises(ValueError, match="line 2: the header must be a mapping of keys to values"):
        Header(text, 2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: 1\nb: &b {c: *b}\n", "line 3: an alias is inside the value of its own anchor", id="circle"),
        pytest.param(f"a: {'[' * 5000}", "line 2: the header nests too deep", id="deep"),
    ],
)
def test_a_header_has_an_end(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        Header(text, 2)


def test_escaped_surrogates_are_one_character_or_an_error() -> None:
    assert Header('a: "\\ud83d\\ude00"\n', 2).values == {"a": "\U0001f600"}
    with pytest.raises(ValueError, match=r"^line 3: half of a surrogate pair is not a character$"):
        Header('b: 1\na: "\\ud83d"\n', 2)


def test_a_control_character_is_reported_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^line 2: the header is not YAML: unacceptable character #x0001"):
        Header("a: \x01\n", 2)


def test_the_schema_in_the_docs_is_the_one_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "header.schema.json"
    assert json.loads(page.read_text(encoding="utf-8")) == header_schema(), "write header_schema() to the page"

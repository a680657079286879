"""The table of constructs in docs/prompts.md is what the compiler says, engine by engine, and what it says holds.

``pytest tests/prompt/test_prompt_docs.py --update-readme`` writes the table.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, parse_type
from tests.prompt.test_conformance import select

FILE = Path(__file__).parents[2] / "docs" / "prompts.md"
BEGIN, END = "<!-- constructs: begin -->\n", "<!-- constructs: end -->\n"
ENGINES = ("duckdb", "spark", "databricks", "bigquery", "snowflake")
COLUMNS: dict[str, Any] = {
    "body": "string",
    "n": "bigint",
    "ratio": "double",
    "price": "decimal(9,2)",
    "flag": "boolean",
    "day": "date",
    "at": "timestamp",
    "info": {"struct": {"name": "string", "size": "bigint"}},
    "tags": {"array": "string"},
    "nums": {"array": "bigint"},
    "people": {"array": {"struct": {"name": "string", "age": "bigint"}}},
    "grid": {"array": {"array": "string"}},
}
VARS: dict[str, Any] = {"labels": ["bug", "feature"], "names": {"a": "Anna", "b": "Bert"}}
ROWS: list[dict[str, Any]] = [
    {
        "body": "Héllo, big world", "n": 7, "ratio": 2.675, "price": Decimal("19.50"), "flag": True,
        "day": datetime.date(2026, 1, 31), "at": datetime.datetime(2026, 1, 31, 9, 5, 7),
        "info": {"name": "x", "size": 3}, "tags": ["b", "A", "a"], "nums": [3, 1, 2],
        "people": [{"name": "Ann", "age": 30}, {"name": "Bo", "age": None}], "grid": [["p", "q"], ["r"]],
    },
    {
        "body": "a", "n": 0, "ratio": -0.5, "price": Decimal("-0.05"), "flag": False,
        "day": datetime.date(1999, 12, 1), "at": datetime.datetime(1999, 12, 1, 0, 0, 0, 500),
        "info": {"name": None, "size": 0}, "tags": [], "nums": [], "people": [], "grid": [],
    },
    dict.fromkeys(COLUMNS),
]  # fmt: skip


class Construct(NamedTuple):
    """A line of the table: words for it, and a template that uses it."""

    words: str
    template: str


LINES = (Path(__file__).parent / "prompt_constructs.txt").read_text(encoding="utf-8").splitlines()
CONSTRUCTS = [Construct(*line.split(" => ")) for line in LINES]


def compiled(construct: Construct, engine: str) -> str | se.SqlenrichError:
    """The SQL of a construct's template, or why there is none."""
    try:
        return se.prompt_sql(construct.template, engine, columns=COLUMNS, vars=VARS)
    except (se.PromptError, se.UnsupportedError) as error:
        return error


def table() -> str:
    """The table in Markdown."""
    lines = [
        "| construct | for example | " + " | ".join(ENGINES) + " | instead |",
        "| --- | --- |" + " --- |" * (len(ENGINES) + 1),
    ]
    for construct in CONSTRUCTS:
        found = [compiled(construct, engine) for engine in ENGINES]
        refusals = [problem for problem in found if isinstance(problem, se.SqlenrichError)]
        marks = ["no" if isinstance(problem, se.SqlenrichError) else "yes" for problem in found]
        example = construct.template.replace("|", "\\|")
        instead = refusals[0].args[0].rpartition("; ")[2] if refusals else ""
        lines.append(f"| {construct.words} | `{example}` | {' | '.join(marks)} | {instead} |")
    return "\n".join(lines) + "\n"


def test_the_table_is_what_the_compiler_says(request: pytest.FixtureRequest) -> None:
    written = FILE.read_text(encoding="utf-8")
    before, _, rest = written.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = before + BEGIN + table() + END + after
    if request.config.getoption("--update-readme"):
        FILE.write_text(made, encoding="utf-8")
    assert made == written or request.config.getoption("--update-readme"), "run pytest with --update-readme"


@pytest.mark.parametrize("number", range(len(CONSTRUCTS)), ids=lambda n: CONSTRUCTS[n].words)
def test_what_the_table_promises_holds(number: int) -> None:
    construct = CONSTRUCTS[number]
    sql = compiled(construct, "duckdb")
    if isinstance(sql, se.SqlenrichError):
        assert str(sql).startswith("prompt:1:"), "a refusal has its place"
        return
    kinds = {"place": BIGINT, **{name: parse_type(kind) for name, kind in COLUMNS.items()}}
    rows = [(place, *row.values()) for place, row in enumerate(ROWS)]
    found: dict[int, str | None] = dict(select("duckdb", f"SELECT place, {sql} FROM source", kinds, rows))
    for place, row in enumerate(ROWS):
        try:
            expected: str | None = se.render_prompt(construct.template, row, VARS)
        except se.PromptError:
            expected = None
        assert found[place] == expected

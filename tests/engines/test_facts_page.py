"""docs/facts.md lists every vendor fact of the engines' tables, with its source.

``pytest tests/engines/test_facts_page.py --update-readme`` writes the lists.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sqlenrich.engines import ENGINES, get_engine

FILE = Path(__file__).parents[2] / "docs" / "facts.md"
BEGIN, END = "<!-- facts: begin -->\n", "<!-- facts: end -->\n"
NAMES = {
    "bigquery": "BigQuery",
    "databricks": "Databricks",
    "duckdb": "DuckDB",
    "snowflake": "Snowflake",
    "spark": "Spark",
}


def cell(value: object) -> str:
    """A value as a cell of a table."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=sorted)
    return "–" if value is None else "`" + text.replace("|", "\\|").replace("\n", "\\n").replace("\t", "\\t") + "`"


def lists() -> str:
    """The facts, a table an engine."""
    lines: list[str] = []
    for engine in sorted(ENGINES):
        lines += [
            f"## {NAMES[engine]}",
            "",
            "| fact | value | source | read on | seen live |",
            "| --- | --- | --- | --- | --- |",
        ]
        facts = dict(get_engine(engine).facts)
        if (vectors := get_engine(engine).embedding) is not None:
            facts |= {f"embedding: {name}": fact for name, fact in vectors.facts.items()}
        unsettled = []
        for name, fact in facts.items():
            words = re.sub(r"_", " ", name)
            unsettled += [f"| {words} | {fact.settled_by} |"] if fact.settled_by else []
            seen = "yes" if fact.seen_live else "no"
            source = fact.source.replace("|", "\\|")
            lines.append(f"| {words} | {cell(fact.value)} | {source} | {fact.read_on} | {seen} |")
        if unsettled:
            lines += ["", "### Not settled", "", "| fact | what would settle it |", "| --- | --- |", *unsettled]
        lines.append("")
    return "\n".join(lines)


def test_the_page_lists_every_fact(request: pytest.FixtureRequest) -> None:
    head, _, rest = FILE.read_text(encoding="utf-8").partition(BEGIN)
    stored, _, tail = rest.partition(END)
    if request.config.getoption("--update-readme"):
        FILE.write_text(head + BEGIN + lists() + END + tail, encoding="utf-8")
        return
    assert stored == lists(), "run: pytest tests/engines/test_facts_page.py --update-readme"

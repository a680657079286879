"""The same rows through three warehouses and DuckDB: equal prompts, verdicts, values and hashes.

The rows are customer messages of Banking77. The model is the mock, which depends on the prompt alone and fails at
times. ``docs/parity.md`` holds the numbers.
"""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.plan.compile import compile_plan
from sqlenrich.renderer.script import model_for
from sqlenrich.spec.settings import Config
from tests.support.corpus import CORPORA
from tests.support.runs import rows as duckdb_rows
from tests.support.warehouses import Standin

MESSAGES = CORPORA / "banking77" / "test.csv"
ROWS = 500
PAGE = Path(__file__).parents[2] / "docs" / "parity.md"
FAILURES = {"bad_json": 0.1, "missing_field": 0.1}
PROMPT = """---
source: raw.messages
key: [id]
keep: "*"
params: {temperature: 0, max_tokens: 60}
output:
  type: object
  properties:
    intent: {type: string, enum: [card, transfer, top_up, cash, other]}
    urgency: {type: integer, minimum: 1, maximum: 5}
    confidence: {type: number, minimum: 0, maximum: 1}
    asks: {type: boolean}
    topics: {type: array, items: {type: string, maxLength: 30}, maxItems: 4}
    due: {type: string, format: date}
  required: [intent, urgency, asks]
---
Classify the customer message{% if text | length > 60 %} (a long one){% endif %}: {{ text | trim }}
"""
COLUMNS = ("id", "category", "text", "intent", "urgency", "confidence", "asks", "topics", "due")
REFUSED = ("id", "category", "text", "_error", "_error_detail", "_repaired", "response", "prompt", "_attempts")


@pytest.fixture(scope="module")
def messages() -> list[dict[str, str | None]]:
    if not MESSAGES.exists():
        pytest.skip("the corpus of customer messages is not there")
    with MESSAGES.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))[:ROWS]
    return [{"id": str(n), "category": row["category"], "text": row["text"]} for n, row in enumerate(found)]


@pytest.fixture(scope="module")
def expected(messages: list[dict[str, str | None]], tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """DuckDB's prompts, accepted rows and refused rows."""
    folder = tmp_path_factory.mktemp("duckdb")
    (folder / "messages.jsonl").write_text("\n".join(json.dumps(row) for row in messages))
    (folder / "tickets.prompt").write_text(PROMPT)
    output = folder / "out.duckdb"
    e = se.load(folder / "tickets.prompt")
    se.run(e, input=folder / "messages.jsonl", output=output, mock=True, mock_failures=FAILURES)
    tables = {"tickets_prompts": ("id", "prompt"), "tickets": COLUMNS, "tickets_quarantine": REFUSED}
    found = [duckdb_rows(output, f"SELECT {', '.join(names)} FROM {table}") for table, names in tables.items()]
    return tuple(sorted(map(plain, rows), key=str) for rows in found)  # type: ignore[return-value]


def plain(row: Any) -> tuple[Any, ...]:
    """A row with each array as a list: some drivers give its JSON text, some an array of numpy."""
    return tuple(
        json.loads(value)
        if isinstance(value, str) and value.startswith("[")
        else getattr(value, "tolist", lambda v=value: v)()
        for value in row
    )


def test_the_same_rows_give_the_same(
    warehouse: Standin, messages: list[dict[str, str | None]], expected: tuple[Any, Any, Any]
) -> None:
    place, engine = warehouse, warehouse.engine
    (place.folder / "tickets.prompt").write_text(PROMPT)
    e = se.load(place.folder / "tickets.prompt")
    place.load(messages)
    place.set(answers=str(place.folder / "tickets.prompt"), answers_fail=FAILURES)
    report = se.run(e, engine=engine, profile="standin", input=place.source, output=place.schema, chunk_rows=250)
    again = se.run(e, engine=engine, profile="standin", input=place.source, output=place.schema)
    prompts, good, bad = (
        sorted(map(plain, place.rows(table, *names)), key=str)
        for table, names in (
            ("tickets_prompts", ("id", "prompt")),
            ("tickets", COLUMNS),
            ("tickets_quarantine", REFUSED),
        )
    )
    hashes = dict(place.rows("tickets_prompts", "prompt", "request_hash"))
    asked = len(place.prompts())
    assert prompts == expected[0]
    # BigQuery stores a NULL array as an empty one.
    wanted = [(*row[:7], row[7] or [], row[8]) for row in expected[1]] if engine == "bigquery" else expected[1]
    assert good == sorted(wanted, key=str)
    assert bad == expected[2]
    constant = compile_plan(replace(e, keep_all=False), engine, model=model_for(e, engine, Config())).constant
    assert hashes == {text: hashlib.sha256((constant + text).encode()).hexdigest() for text in hashes}
    assert (report.rows_in, report.calls, again.calls) == (ROWS, asked, 0)
    line = f"| {engine} | {len(prompts):,} | {len(good):,} | {len(bad):,} | {asked:,} | {again.calls} | 0 |"
    assert line in PAGE.read_text(), f"docs/parity.md has no line {line}"

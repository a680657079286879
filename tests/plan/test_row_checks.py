"""Row checks: the same on every engine and in Python, refused where engines would differ, free to change."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlenrich as se
from sqlenrich.core.engine import Engine
from sqlenrich.core.names import column
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import BIGINT, BOOLEAN, DOUBLE, STRING, Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.row_check_sql import failed_check_sql
from sqlenrich.spec.row_checks import check_kinds, failed_check, kind_of_type, parse_check
from tests.support.corpus import RUNNERS, Run
from tests.support.endpoint import ScriptedEndpoint

TYPES: Mapping[str, Type] = {
    "body": STRING, "quote": STRING, "first": BIGINT, "last": BIGINT, "score": DOUBLE, "flag": BOOLEAN,
}  # fmt: skip
KINDS = {name: kind_of_type(kind) for name, kind in TYPES.items()}
TEXTS = [None, "", "cat", "the cat", "Cat!", "a_b%c", "é😀", "the é😀 cat", "x" * 9, "it's", "CAT\n"]
NUMBERS = [None, 0, 1, -7, 3, 2**62, -(2**63) + 1, 2**63 - 1]
SCORES = [None, 0.0, 0.5, -1.25, 3.0, 1e300]
SEED = 11
CONDITIONS = int(os.environ.get("SQLENRICH_EXAMPLES", "0")) or 250


class Drawn:
    """Draws conditions over the columns."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, values: Sequence[str]) -> str:
        return self.random.choice(values)

    def literal_text(self) -> str:
        text = self.random.choice([text for text in TEXTS if text is not None])
        return "'" + text.replace("'", "''") + "'"

    def text(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.5:
            return self.one(["body", "quote", self.literal_text()])
        return self.one([
            f"lower({self.one(['body', 'quote'])})",
            f"upper({self.one(['body', 'quote'])})",
            f"coalesce({self.text(0)}, {self.text(0)})",
            f"({self.text(0)} || {self.text(0)})",
        ])  # fmt: skip

    def number(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.4:
            return self.one(["first", "last", "0", "3", "-7", "9223372036854775807"])
        return self.one([
            f"({self.number(depth - 1)} {self.one(['+', '-', '*'])} {self.number(depth - 1)})",
            f"length({self.text(depth - 1)})",
            f"position({self.text(0)} in {self.text(depth - 1)})",
            f"coalesce({self.number(0)}, {self.number(0)})",
            f"-({self.number(0)})",
        ])  # fmt: skip

    def score(self) -> str:
        return self.one(["score", "0.5", "-1.25", "1.5e2", "(score + 0.25)", "(score * 2.0)", "(first + 0.5)"])

    def condition(self, depth: int) -> str:
        compare = self.one(["=", "<>", "<", "<=", ">", ">="])
        if depth and self.random.random() < 0.6:
            joined = f"({self.condition(depth - 1)}) {self.one(['and', 'or'])} ({self.condition(depth - 1)})"
            return self.one([joined, f"not ({self.condition(depth - 1)})", joined])
        return self.one([
            f"{self.text(1)} {compare} {self.text(1)}",
            f"{self.number(2)} {compare} {self.number(1)}",
            f"{self.score()} {compare} {self.score()}",
            f"{self.one(['body', 'quote', 'first', 'score', 'flag'])} is {self.one(['', 'not '])}null",
            "flag",
            "flag = true",
            f"first between {self.number(0)} and {self.number(1)}",
            f"last in ({self.number(0)}, {self.number(0)}, 3)",
            f"quote in ({self.literal_text()}, {self.literal_text()})",
            f"body like {self.one(['%cat%', '_at', '%', 'the%', '']).join(chr(39) * 2)}",
            f"starts_with(body, {self.text(0)})",
            "position(quote in body) > 0",
        ])  # fmt: skip


def drawn_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Draw rows."""
    chance = random.Random(seed)
    return [
        {
            "body": chance.choice(TEXTS), "quote": chance.choice(TEXTS), "first": chance.choice(NUMBERS),
            "last": chance.choice(NUMBERS), "score": chance.choice(SCORES), "flag": chance.choice([None, True, False]),
        }
        for _ in range(count)
    ]  # fmt: skip


def conditions() -> list[str]:
    drawn = Drawn(SEED)
    found = [drawn.condition(2) for _ in range(CONDITIONS)]
    for one in found:
        check_kinds("c", parse_check("c", one), KINDS)
    return found


@pytest.mark.parametrize(
    "engine",
    ["duckdb", pytest.param("spark", marks=pytest.mark.spark), "bigquery", "snowflake"],
)
def test_conditions_are_the_same_everywhere(engine: str) -> None:
    target, rows = get_engine(engine), drawn_rows(25, SEED)
    written = conditions()
    expected = [[failed_check({"c": one}, KINDS, row, {}) for row in rows] for one in written]
    assert {None, "c"} == {result for results in expected for result in results}
    with RUNNERS[engine]() as run:
        compare(run, target, written, expected, rows)


def compare(
    run: Run, target: Engine, written: list[str], expected: list[list[str | None]], rows: list[dict[str, Any]]
) -> None:
    """Run the conditions on an engine, a hundred in one query."""
    for start in range(0, len(written), 100):
        arms = []
        for place, one in enumerate(written[start : start + 100]):
            sql = failed_check_sql(target, {"c": one}, KINDS, lambda name: column(target, name))
            arms.append(f"WHEN {place} THEN {print_sql(target, sql)}")
        given = [{"place": place, **row} for place in range(len(arms)) for row in rows]
        found = run(f"CASE place {' '.join(arms)} END", {"place": BIGINT, **TYPES}, given)
        wanted = [result for results in expected[start : start + 100] for result in results]
        differ = [
            (written[start + place // len(rows)], given[place], one, other)
            for place, (one, other) in enumerate(zip(found, wanted, strict=True))
            if one != other
        ]
        assert differ == []


HEADER = """---
source: t
key: [id]
keep: [body, amount, tags]
columns: {{amount: bigint, tags: {{array: string}}}}
checks: {{{}}}
output: {{quote: string, start: integer, "topics?(array)": string}}
---
{{{{ body }}}}
"""
REFUSED = [
    ("c: 'position(quote in title) > 0'", 'c reads "title", which the results do not have: write it under keep'),
    ("c: 'quote > 3'", 'c: "quote > 3" compares a text with a integer, in which engines differ'),
    ("c: 'amount = quote'", "compares a integer with a text"),
    ("c: 'topics = quote'", "compares an array or a struct"),
    ("c: 'start + quote > 1'", '"quote" is a text, where a integer or number must stand'),
    ("c: 'start'", "c is no condition, but a integer"),
    ("c: 'trim(quote) = body'", '"TRIM(quote)" is not the same on all engines; write another condition'),
    ("c: 'regexp_like(quote, body)'", "is not the same on all engines"),
    ("c: 'quote like body'", "LIKE takes a constant pattern without a backslash"),
    ("c: 'start in (select 1)'", "is not the same on all engines"),
    ("c: 'quote ='", 'c "quote =" is no SQL'),
    ("c: ''", "c must be a condition in SQL, not ''"),
    ("'a b': 'start > 0'", "the name of a check has letters, digits and _ only"),
    ("c: 3", "c must be a condition in SQL, not 3"),
]


@pytest.mark.parametrize(("written", "told"), REFUSED)
def test_a_check_that_engines_would_read_differently_is_refused(written: str, told: str) -> None:
    with pytest.raises(se.SpecError) as caught:
        se.loads(HEADER.format(written), name="spans")
    assert told in str(caught.value)
    assert "@ checks." in str(caught.value)


SPANS = """---
key: [id]
keep: [body, size]
columns: {size: bigint}
checks:
  quote_in_text: "position(quote in body) > 0"
  order: "finish >= start"
  fits: "finish <= size or size is null"
output: {quote: string, start: integer, finish: integer}
---
Find {{ body }}
"""
ROWS: list[dict[str, Any]] = [
    {"id": 1, "body": "the cat", "size": 7},
    {"id": 2, "body": "nothing", "size": 7},
    {"id": 3, "body": "cat backwards", "size": None},
    {"id": 4, "body": "cat", "size": 1},
    {"id": 5, "body": None, "size": 1},
    {"id": 6, "body": "cat broken", "size": 1},
]


def answer(prompt: str) -> str:
    start = 5 if "backwards" in prompt else 0
    return "no JSON" if "broken" in prompt else json.dumps({"quote": "cat", "start": start, "finish": 3})


def test_a_refused_row_has_the_name_of_its_check_and_a_changed_check_pays_nothing(tmp_path: Path) -> None:
    file, output = tmp_path / "spans.prompt", tmp_path / "o.duckdb"
    file.write_text(SPANS)
    with ScriptedEndpoint(content=answer) as endpoint:
        served = se.Endpoint(endpoint.url, model="mock")
        report = se.run(file, input=ROWS, output=output, model=served)
        refused = {row["id"]: (row["_error"], row["_error_detail"]) for row in report.quarantine().to_pylist()}
        assert refused.pop(6)[0] == "BAD_JSON"
        assert refused == {
            2: ("CHECK", "quote_in_text"), 3: ("CHECK", "order"), 4: ("CHECK", "fits"), 5: ("NO_INPUT", None),
        }  # fmt: skip
        assert se.audit(file, output=output).holds
        spans = se.load(file)
        told = {row["id"]: spans.failed_check(row, json.loads(answer(row["body"] or ""))) for row in ROWS[:4]}
        assert told == {1: None, 2: "quote_in_text", 3: "order", 4: "fits"}

        enriched = se.Enricher(file, endpoint=served)(pa.Table.from_pylist(ROWS))
        assert dict(zip(enriched["id"].to_pylist(), enriched["_error"].to_pylist(), strict=True)) == {
            1: None, 2: "CHECK", 3: "CHECK", 4: "CHECK", 5: "NO_INPUT", 6: "BAD_JSON",
        }  # fmt: skip
        before = len(endpoint.asked)
        file.write_text(SPANS.replace('  order: "finish >= start"\n', ""))
        changed = se.run(file, input=ROWS, output=output, model=served)
        assert (changed.calls, len(endpoint.asked), changed.quarantine["CHECK"]) == (0, before, 2)
        retried = se.retry(file, output=output, reasons=["CHECK"], model=served)
        assert (retried.calls, retried.quarantine["CHECK"]) == (4, 2), "two rows, up to three attempts"


def test_a_column_is_checked_by_its_declared_type(tmp_path: Path) -> None:
    untyped = SPANS.replace("columns: {size: bigint}\n", "")
    with pytest.raises(se.SpecError, match=r'fits: "finish <= size" compares a integer with a text.* under columns'):
        se.loads(untyped, name="spans")
    texts = [{**row, "size": None if row["size"] is None else str(row["size"])} for row in ROWS]
    with ScriptedEndpoint(content=answer) as endpoint:
        found = se.run(se.loads(SPANS, name="spans"), input=texts, model=se.Endpoint(endpoint.url, model="mock"))
    assert found.quarantine["CHECK"] == 3
    file = tmp_path / "spans.prompt"
    file.write_text(untyped.replace("finish <= size", "quote = size"))
    with pytest.raises(se.SpecError, match=r"checks read size as a text, and it is a bigint; write columns: \{size"):
        se.run(file, input=ROWS, model=se.Mock())

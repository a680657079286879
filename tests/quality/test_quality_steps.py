"""The steps of ``Plan.quality``, executed on small tables: each engine gives what DuckDB gives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.names import identifier
from sqlenrich.core.types import Type
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.plan.evaluations import EVALUATIONS
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.profiles import PROFILES
from sqlenrich.plan.sample import sample
from sqlenrich.spec.settings import Config
from tests.support.in_memory import in_memory, insert

HEADER = """---
source: raw_rows
key: [id]
review: {by: kind, share: 0.1}
output:
  type: object
  properties:
    kind: {type: string, enum: [a, b, c]}
    sure: {type: boolean}
    score: {type: number}
    note: {type: string}
    tags: {type: array, items: {type: string}}
---
{{ body }}
"""
ROWS = 700
BEGUN = datetime(2026, 1, 1)
EARLIER, PARTS = ("r1", "r2", "r3"), ("2026-01-09 10:00", "2026-01-09 11:00")
"""Runs that have a profile, and the parts of a script that have none."""
MARK = {"bigquery": pytest.mark.zetasql, "spark": pytest.mark.spark, "databricks": pytest.mark.spark}
Tables = dict[str, tuple[Mapping[str, Type], list[tuple[Any, ...]]]]


def hashed(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()


def tables_of(plan: se.Plan) -> Tables:
    """Tables as a script leaves them: 40 answers of three runs with profiles, the others of two parts without one.

    The kinds are rare, frequent and NULL; each tenth request has three rows.
    """
    enriched, refused, answers = [], [], []
    columns = {step.name: step.columns for step in plan.steps}
    for number in range(ROWS):
        run, at = (EARLIER[number % 3], number % 3) if number < 40 else (PARTS[number % 2], 200 + number % 2)
        line = dict.fromkeys(RESPONSES, None) | {
            "request_hash": hashed(number), "attempt": 1, "model": "m", "tokens_in": 90 + number, "tokens_out": 7,
            "run_id": run, "asked_at": BEGUN + timedelta(hours=at), "call_error": "503" if number % 97 == 5 else None,
        }  # fmt: skip
        answers.append(tuple(line.values()))
        if number % 50 == 7:
            kept = dict.fromkeys(columns["quarantine"], None) | {
                "id": str(number), "_error": "BAD_JSON", "_request_hash": hashed(number)
            }  # fmt: skip
            refused.append(tuple(kept.values()))
            continue
        values = {
            "id": str(number), "kind": "a" if number % 20 else ("b" if number % 40 else None), "sure": number % 3 == 0,
            "score": number / 8 - 30, "note": "x" * (number % 90), "tags": ["t"] * (number % 4),
            "_request_hash": hashed(number),
        }  # fmt: skip
        row = tuple((dict.fromkeys(columns["enriched"], None) | values).values())
        enriched += [row] * (3 if number % 10 == 0 else 1)
    profiles = [
        (run, BEGUN + timedelta(hours=place), field, level, rows)
        for place, run in enumerate(EARLIER)
        for field, level, rows in (("kind", "a", 150 + place), ("kind", "b", 250), ("_error", "accepted", 400 + place))
    ]
    labels = [
        (evaluation, BEGUN, "m", None, "f", "labels.csv", str(row), hashed(row), field, '"a"', '"a"', None, row % 3 > 0)
        for evaluation in ("e1", "e2")
        for row in range(9)
        for field in ("kind", "sure")
    ]
    return {
        "enriched": (columns["enriched"], enriched),
        "quarantine": (columns["quarantine"], refused),
        "responses": (RESPONSES, answers),
        "profiles": (PROFILES, profiles),
        "evaluations": (EVALUATIONS, labels),
    }


def found(engine: str, plan: se.Plan, tables: Tables, queries: Sequence[str]) -> list[list[tuple[Any, ...]]]:
    """The rows of queries."""
    words = get_engine(engine)
    typed = {
        plan.relations.table(role).name: (
            {name: words.sql_type(kind).sql(words.dialect) for name, kind in columns.items()},
            rows,
        )
        for role, (columns, rows) in tables.items()
    }
    if engine == "bigquery":
        from tests.standins.googlesql import googlesql

        return [list(googlesql().evaluate(sql, typed)) for sql in queries]
    if engine == "snowflake":
        from tests.standins import snowflake

        quoted = {  # a name that is a word of SQL's keeps its case
            table: ({identifier(words, name).sql("snowflake"): kind for name, kind in columns.items()}, rows)
            for table, (columns, rows) in typed.items()
        }
        return [snowflake.rows(sql, quoted) for sql in queries]
    if engine == "duckdb":
        with in_memory() as db:
            for name, (columns, rows) in typed.items():
                listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
                db.execute(f"CREATE TABLE {name} ({listed})")
                insert(db, name, rows)
            return [db.execute(sql).fetchall() for sql in queries]
    from tests.standins import spark

    session = spark.spark_session()
    try:
        for name, (columns, rows) in typed.items():
            shape = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
            session.createDataFrame(rows, shape).coalesce(1).createOrReplaceTempView(name)
        return [spark.rows(sql) for sql in queries]
    finally:
        for name in typed:
            session.catalog.dropTempView(name)


def in_order(name: str, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, numbers as Python compares them."""
    if name == "profiles":  # engines give times with and without a zone
        rows = [(run, str(at)[:19], *rest) for run, at, *rest in rows]
    return sorted(map(tuple, rows), key=lambda row: (row[3], row[0]) if name == "sample" else row)


def same(name: str, one: Sequence[tuple[Any, ...]], other: Sequence[tuple[Any, ...]]) -> None:
    assert len(one) == len(other) > 0, name
    for mine, theirs in zip(in_order(name, one), in_order(name, other), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a == pytest.approx(b, abs=1e-9)) if isinstance(b, float) else a == b, (name, mine, theirs)


@pytest.mark.parametrize("engine", [pytest.param(e, marks=MARK.get(e, ())) for e in ENGINES if e != "duckdb"])
def test_each_engine_gives_what_duckdb_gives(engine: str) -> None:
    enrichment = se.loads(HEADER, name="t")
    ours, theirs = se.compile_plan(enrichment, "duckdb"), se.compile_plan(enrichment, engine)
    names = [step.name for step in theirs.quality]
    tables = tables_of(ours)
    if engine == "bigquery":  # its evaluator joins by nested loops
        tables = {role: (columns, rows[:70] + rows[-30:]) for role, (columns, rows) in tables.items()}
    expected = found("duckdb", ours, tables, [step.sql for step in ours.quality])
    for name, one, other in zip(
        names, found(engine, theirs, tables, [step.sql for step in theirs.quality]), expected, strict=True
    ):
        same(name, one, other)


def test_a_profile_counts_the_answers_that_none_has_counted() -> None:
    """The parts that a script asked have one profile together; a script that asks nothing adds none."""
    plan = se.compile_plan(se.loads(HEADER, name="t"), "duckdb")
    tables = tables_of(plan)
    profiles, drift = (step.sql for step in plan.quality[:2])
    (lines,) = found("duckdb", plan, tables, [profiles])
    assert {line[:2] for line in lines} == {(PARTS[1], BEGUN + timedelta(hours=200))}
    rows = Counter({field: 0 for _, _, field, _, _ in lines})
    for _, _, field, _, count in lines:
        rows[field] += count
    new = len([row for row in tables["enriched"][1] if int(row[0]) >= 40])
    assert rows["kind"] == rows["note"] == new
    assert rows["_error"] == new + 13
    assert rows["_model"] == ROWS - 40 - len([n for n in range(40, ROWS) if n % 97 == 5])
    tables["profiles"][1].extend(lines)
    again, told = found("duckdb", plan, tables, [profiles, drift])
    assert again == []
    assert {(row[0], row[1], row[-1]) for row in told if row[1] == "kind"} == {(PARTS[1], "kind", 1)}


@pytest.mark.parametrize(
    ("sizes", "rows", "taken"),
    [
        ({"a": 900, "b": 90, "c": 10}, 50, {"a": 45, "b": 5, "c": 5}),
        ({"a": 900, "b": 90, "c": 10}, 200, {"a": 180, "b": 18, "c": 5}),
        ({"a": 9, "b": 3}, 100, {"a": 9, "b": 3}),
        ({"a": 9, "b": 3}, 2, {"a": 2, "b": 1}),
        ({"a": 1000, None: 5000}, None, {"a": 84, "(none)": 417}),  # 8.34 % of 6,000 would be more than 500
        ({"a": 300}, None, {"a": 50}),
    ],
)
def test_what_is_drawn_of_each_stratum(
    sizes: Mapping[str | None, int], rows: int | None, taken: Mapping[str, int]
) -> None:
    enrichment = se.loads(HEADER, name="t")
    plan = se.compile_plan(enrichment, "duckdb")
    names = list(plan.step("enriched").columns)
    kinds = [kind for kind, count in sizes.items() for _ in range(count)]
    enriched = [
        tuple((dict.fromkeys(names, None) | {"kind": kind, "_request_hash": hashed(place)}).values())
        for place, kind in enumerate(kinds)
    ]
    tables: Tables = {"enriched": (plan.step("enriched").columns, enriched)}
    queries = [
        plan.relations.sql(sample(enrichment, plan.relations.engine, rows=size, seed=seed))
        for size, seed in ((rows, 0), ((rows or 500) + 40, 0), (rows, 1))
    ]
    drawn, more, other = found("duckdb", plan, tables, queries)
    assert Counter(stratum for _, stratum, _, _ in drawn) == taken
    assert {row[0] for row in drawn} <= {row[0] for row in more}
    if sum(taken.values()) < len(enriched):
        assert {row[0] for row in drawn} != {row[0] for row in other}
    for request, _, size, draw in drawn:
        assert draw == int(sha256(f"0:{request}".encode()).hexdigest()[:13], 16) / 2**52 / size


def test_options_of_the_script() -> None:
    enrichment = se.loads(HEADER, name="t")
    plain, measured = (se.render(enrichment, "snowflake", config=Config(), quality=on) for on in (False, True))
    assert measured.startswith(plain.rstrip("\n"))
    titles = re.findall(r"^-- (\w+): ", measured[len(plain) :], re.MULTILINE)
    assert titles == ["profiles", "drift", "sample", "evaluation"]
    plan = se.compile_plan(enrichment, "snowflake")
    for step in plan.quality:
        assert se.render(enrichment, "snowflake", config=Config(), step=step.name) == step.sql + "\n"
    for options in ({"step": "drift"}, {"reread": True}):
        with pytest.raises(se.ConfigError, match="--quality goes with a whole script that asks"):
            se.render(enrichment, "snowflake", config=Config(), quality=True, **options)
    with pytest.raises(se.ConfigError, match=r"there are: prompts, .*, drift, sample, evaluation, pending"):
        se.render(enrichment, "snowflake", config=Config(), step="drfit")


def test_vectors_are_not_judged() -> None:
    text = "---\nsource: raw_rows\nkey: [id]\noutput: {embedding: {dimensions: 3}}\n---\n{{ body }}\n"
    plan = se.compile_plan(se.loads(text, name="t"), "duckdb")
    assert [step.name for step in plan.quality] == ["profiles", "drift"]

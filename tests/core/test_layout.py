"""Where printed SQL breaks its lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import case, literal, noted
from sqlenrich.engines import ENGINES, get_engine

GOLDEN = Path(__file__).parents[1] / "golden"
LONGEST_LINE = 100
LONGEST_TEXT = 40
LONG_PARTS = (" => {", "AS model_params", " {'", "ARRAY_CONSTRUCT(", "; made by sqlenrich")
"""Schemas, structs, and the first line."""
A, B, LONG = "a" * 50, "b" * 60, "c" * 130

TABLE = {
    "a short CASE": ("CASE WHEN a THEN 1 ELSE 2 END", "CASE WHEN a THEN 1 ELSE 2 END"),
    "one WHEN a line": (
        f"CASE WHEN a THEN '{A}' WHEN {B} THEN '{A}' ELSE 3 END",
        f"CASE\n  WHEN a THEN '{A}'\n  WHEN {B}\n    THEN '{A}'\n  ELSE 3\nEND",
    ),
    "a condition of several lines": (
        f"CASE WHEN {LONG} AND {B} THEN 1 END",
        f"CASE\n  WHEN {LONG}\n    AND {B}\n    THEN 1\nEND",
    ),
    "a list of values": (f"x IN ('{A}', '{B}', 'c')", f"x IN (\n  '{A}',\n  '{B}',\n  'c'\n)"),
    "values that fit, but not behind what is tested": (f"{B} IN ('abc', 'def')", f"{B} IN (\n  'abc',\n  'def'\n)"),
    "IS NOT NULL": ("NOT a IS NULL", "a IS NOT NULL"),
    "a long IS NOT NULL": (f"NOT F({A}, {B}) IS NULL", f"F(\n  {A},\n  {B}\n) IS NOT NULL"),
    "NOT IN": ("NOT a IN (1, 2)", "a NOT IN (1, 2)"),
    "a query": ("SELECT a, b FROM t WHERE c", "SELECT\n  a,\n  b\nFROM t\nWHERE c"),
    "a short query in a query": (
        "SELECT a FROM t WHERE b IN (SELECT b FROM s)",
        "SELECT\n  a\nFROM t\nWHERE b IN (SELECT b FROM s)",
    ),
    "a long query in a query": (
        f"SELECT b FROM (SELECT {A} FROM {B}) AS t",
        f"SELECT\n  b\nFROM (\n  SELECT\n    {A}\n  FROM {B}\n) AS t",
    ),
    "a join": (f"SELECT a FROM b JOIN c ON {A} = {B}", f"SELECT\n  a\nFROM b\nJOIN c\n  ON {A}\n    = {B}"),
    "a CASE and its name": (
        f"SELECT CASE WHEN a THEN {A} END AS {B} FROM t",
        f"SELECT\n  CASE\n    WHEN a THEN {A}\n  END AS {B}\nFROM t",
    ),
    "an operator on its line": (f"F({A}) = G({B})", f"F({A})\n  = G({B})"),
    "a long cast": (f"CAST({A} AS DECIMAL(38, 9))", f"CAST(\n  {A} AS DECIMAL(38, 9)\n)"),
    "a long BETWEEN": (f"{A} BETWEEN 1000000 AND 2000000", f"{A}\n  BETWEEN 1000000 AND 2000000"),
    "a chain of conditions": (f"{A} AND {LONG} AND c > 1", f"{A}\nAND {LONG}\nAND c > 1"),
    "conditions in brackets": (f"a AND ({LONG} OR {A})", f"a\nAND (\n  {LONG}\n  OR {A}\n)"),
    "joined texts": (f"{A} || '{LONG}' || c", f"{A}\n  || '{LONG}'\n  || c"),
    "a text with a line break": ("SELECT 'a\nb', c FROM t", "SELECT\n  E'a\\nb',\n  c\nFROM t"),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_line_is_broken_where_it_does_not_fit(name: str) -> None:
    sql, expected = TABLE[name]
    tree = sqlglot.parse_one(sql, read="duckdb")
    assert print_sql(get_engine("duckdb"), tree) == expected


def test_a_note_stands_above_its_when() -> None:
    arms = [noted(exp.If(this=exp.column("a"), true=literal(A)), "why"), exp.If(this=exp.column("b"), true=literal(A))]
    printed = print_sql(get_engine("duckdb"), exp.Case(ifs=arms))
    assert printed == f"CASE\n  /* why */\n  WHEN a THEN '{A}'\n  WHEN b THEN '{A}'\nEND"


@pytest.mark.parametrize("engine", ENGINES)
def test_one_line_says_the_same_as_several(engine: str) -> None:
    tree = case(*((exp.EQ(this=exp.column("x"), expression=literal(str(n))), literal(n)) for n in range(30)))
    several, one = (print_sql(get_engine(engine), tree, pretty=pretty) for pretty in (True, False))
    assert len(several.splitlines()) == 32
    assert " ".join(several.split()) == one


@pytest.mark.parametrize("engine", ENGINES)
def test_only_a_long_text_makes_a_long_line(engine: str) -> None:
    """Prompts and schemas are long."""
    for path in (GOLDEN / engine).glob("*.sql"):
        for section in path.read_text(encoding="utf-8").split("\n\n"):
            for line in section.splitlines() if not section.startswith("-- prompts") else ():
                short = re.sub(r"'(?:[^'\\]|\\.|'')*'", lambda text: text[0][:LONGEST_TEXT], line)
                assert len(short) <= LONGEST_LINE or any(word in line for word in LONG_PARTS), line

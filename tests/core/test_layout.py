"""Where printed SQL breaks its lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import case, func, literal, noted
from sqlenrich.engines import ENGINES, get_engine

GOLDEN = Path(__file__).parents[1] / "golden"
LONGEST_LINE = 160
LONGEST_TEXT = 50
A, B, LONG = "a" * 60, "b" * 60, "c" * 130

TABLE = {
    "a short CASE": ("CASE WHEN a THEN 1 ELSE 2 END", "CASE WHEN a THEN 1 ELSE 2 END"),
    "one WHEN a line": (
        f"CASE WHEN {A} THEN '{A}' WHEN {B} THEN 2 ELSE 3 END",
        f"CASE\n  WHEN {A} THEN '{A}'\n  WHEN {B} THEN 2\n  ELSE 3 END",
    ),
    "a THEN that does not fit": (
        f"CASE WHEN {LONG} THEN '{A}' END",
        f"CASE WHEN {LONG}\n  THEN '{A}' END",
    ),
    "a THEN behind a condition of several lines": (
        f"CASE WHEN {LONG} AND {B} THEN 1 END",
        f"CASE WHEN {LONG}\n  AND {B} THEN 1 END",
    ),
    "a list of values": (
        f"x IN ('{A}', '{B}', 'c', '{A}', 'd')",
        f"x IN ('{A}', '{B}', 'c',\n  '{A}', 'd')",
    ),
    "IS NOT NULL": ("NOT a IS NULL", "a IS NOT NULL"),
    "a long IS NOT NULL": (f"NOT F({A}, {A}, {A}) IS NULL", f"F({A}, {A},\n  {A}) IS NOT NULL"),
    "NOT IN": ("NOT a IN (1, 2)", "a NOT IN (1, 2)"),
    "a short query": ("SELECT a, b FROM t WHERE c", "SELECT a, b FROM t WHERE c"),
    "a long query": (f"SELECT {A}, b FROM {B} WHERE c", f"SELECT {A}, b\nFROM {B} WHERE c"),
    "clauses that do not fit together": (
        f"SELECT {A} FROM b AS t JOIN {A} AS u ON a WHERE {B} > 1",
        f"SELECT {A}\nFROM b AS t JOIN {A} AS u ON a\nWHERE {B} > 1",
    ),
    "a query in a query": (
        f"SELECT b FROM (SELECT {A} FROM {B} WHERE {A}) AS t",
        f"SELECT b FROM (SELECT {A}\n FROM {B} WHERE {A}) AS t",
    ),
    "short columns together": (
        f"SELECT a, {A}, {A} AS {B}, x, y FROM t",
        f"SELECT a, {A},\n  {A} AS {B},\n  x, y FROM t",
    ),
    "a CASE and its name": (
        f"SELECT a, b, CASE WHEN {A} THEN {A} END AS {B} FROM t",
        f"SELECT a, b,\n  CASE WHEN {A} THEN {A}\n  END AS {B} FROM t",
    ),
    "an operator on its line": (f"F({A}, {A}) = G({B})", f"F({A}, {A})\n  = G({B})"),
    "a chain of conditions": (f"{A} AND {LONG} AND c > 1", f"{A}\nAND {LONG}\nAND c > 1"),
    "short conditions together": (f"{A} AND {B} AND {A} > 1", f"{A} AND {B}\nAND {A} > 1"),
    "conditions in brackets": (f"a AND ({LONG} OR {A})", f"a\nAND ({LONG}\n OR {A})"),
    "an argument of several lines": (
        f"F(a, G({A}, {A}, {A}), b)",
        f"F(a, G({A}, {A},\n  {A}), b)",
    ),
    "joined texts": (f"{A} || '{LONG}' || c", f"{A}\n|| '{LONG}'\n|| c"),
    "a prompt": (f"x || '{LONG}{LONG}' || y", f"x || '{LONG}{LONG}' || y"),
    "a text with a line break": ("SELECT 'a\nb', c FROM t", "SELECT E'a\\nb', c FROM t"),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_line_is_broken_where_it_does_not_fit(name: str) -> None:
    sql, expected = TABLE[name]
    tree = sqlglot.parse_one(sql, read="duckdb")
    assert print_sql(get_engine("duckdb"), tree) == expected


def test_a_note_stands_behind_its_when() -> None:
    arms = [noted(exp.If(this=exp.column(A), true=literal(A)), "why"), exp.If(this=exp.column(B), true=literal(1))]
    printed = print_sql(get_engine("duckdb"), exp.Case(ifs=arms))
    assert printed == f"CASE\n  WHEN /* why */ {A} THEN '{A}'\n  WHEN {B} THEN 1\nEND"


def test_replacements_are_rules() -> None:
    rules: exp.Expr = literal(LONG)
    for name in ("a", "b", "c"):
        rules = func("REPLACE", rules, literal(name), literal(A))
    expected = f"  '{LONG}',\n  'a', '{A}'), 'b', '{A}'),\n  'c', '{A}')"
    assert print_sql(get_engine("duckdb"), rules) == "REPLACE(REPLACE(REPLACE(\n" + expected


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
                assert len(short) <= LONGEST_LINE or " => {" in line, line

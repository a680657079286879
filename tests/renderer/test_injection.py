"""No text changes a statement: ten thousand hostile texts as constants, row values, columns and tables, each engine."""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import TokenType

import sqlenrich as se
from sqlenrich.core.engine import Engine
from sqlenrich.core.names import identifier, relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import STRING
from sqlenrich.engines import get_engine
from tests.prompt.test_conformance import select
from tests.standins.grammar import check_sqlfluff
from tests.support.hostile import TEXTS
from tests.support.in_memory import in_memory

COUNT = 4_000
ALL = ("duckdb", "snowflake", "bigquery", "spark", "databricks")
MARKS = {"bigquery": pytest.mark.zetasql, "spark": pytest.mark.spark, "databricks": pytest.mark.spark}
EXECUTED = [pytest.param(engine, marks=MARKS.get(engine, ())) for engine in ("duckdb", "bigquery", "spark")]
PARSED = [pytest.param(engine, marks=MARKS.get(engine, ())) for engine in ALL]

PIECES = (
    "'", '"', "`", "''", '""', "``", "'''", '"""', "\\", "\\\\", "\\'", '\\"', "\\`", "\\n", "\\x27", "\\u0027",
    "\\047", "\\U00000027", "‘", "’", "“", "”", "＇", "＂", "ʼ", "´", "′", "«", "‹", "--", "-- ", "#", "/*", "*/",
    "//", "/*+ x */", ";", ";\n", "; DROP TABLE source; --", "' OR 1=1 --", "') FROM x; --", "' || x || '",
    "` FROM x; --", '" FROM x; --', "${", "${x}", "$\\{", "}", "$", "$$", "$a$", "$1", "@", "@@x", "@{", ":name",
    "::", "?", "%s", "%(x)s", "%", "%%", "&x", "&&x", "!", "{", "[", "]", "(", ")", "E'", "e'\\'", "r'", "R\"",
    "b'", "B'", "X'27'", "N'", "U&'", "\\0027", "UESCAPE", "_utf8'", "\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c",
    "\x85", "\u2028", "\u2029", "\t", "\x01", "\x08", "\x1a", "\x1b", "\x7f", "\u200e", "\u200f", "\u202e",
    "\u2066", "\u0301", "\u0338", "\ufeff", "\u200b", "\u200d", "\xa0", "\u3000", "\ufffd", "\uffff", "\ue000",
    "\ue0000\ue001", "\ue001", "\U0001f600", "\U0010ffff", "𝟎", "ﬁ", "İ", "ß", "a", "B", "x y", "0", "NULL",
    "SELECT", "__LINE_BREAK__", "__SQLGLOT__LB__", "__SQLGLOT__", "<%", "%>", "\\{\\{", "<!--", "-->", ",", ".",
    "=", "/", "|", "||", "~", "^", "*", "+", "<", ">", "GO\n", "\\.", "\\g", "!x", "BEGIN", "END;", "x" * 500,
    "'" * 99, "\\" * 98, "\\" * 99, "`" * 51, '"' * 77, " ",
)  # fmt: skip
JINJA = ("{{", "}}", "{%", "%}", "{#", "#}", "{{ x }}", "{% raw %}", "{# c #}")
NUL = "\x00"


@functools.cache
def hostile() -> tuple[str, ...]:
    """The same texts at each run: every piece, every pair of the first ones, then pieces at random."""
    draw = random.Random(20_261_120)
    pieces = (*PIECES, *JINJA)
    made = dict.fromkeys((*pieces, *(text for text in TEXTS.values() if 0 < len(text) < 1000)))
    made |= dict.fromkeys("".join(pair) for pair in itertools.product(pieces[:50], pieces[:50]))
    while len(made) < COUNT:
        made["".join(draw.choice(pieces) for _ in range(draw.randint(2, 9)))] = None
    return tuple(made)[:COUNT]


def batches(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def query(engine: str, sql: str) -> list[tuple[Any, ...]]:
    if engine == "duckdb":
        with in_memory() as db:
            return db.execute(sql).fetchall()
    if engine == "bigquery":
        from tests.standins.googlesql import googlesql

        return googlesql().evaluate(sql, {})
    from tests.standins.spark import rows

    return rows(sql)


@functools.cache
def constants(engine: str) -> list[str]:
    """Each text as the SQL of a template that says it, and as Jinja may write it in an expression."""
    return [se.prompt_sql("{{ t }}", engine, vars={"t": text}) for text in hostile()]


# Constants -----------------------------------------------------------------------------------------------------------


def test_ten_thousand_texts() -> None:
    assert len(set(hostile())) == COUNT


@pytest.mark.parametrize("engine", EXECUTED)
def test_constants_keep_every_byte(engine: str) -> None:
    size = 1000
    given: list[str] = []
    for batch in batches(constants(engine), size):
        listed = ",\n".join(batch)
        ((values,),) = query(engine, f"SELECT ARRAY({listed})" if engine == "spark" else f"SELECT [{listed}]")
        given += values
    assert [(t, g) for t, g in zip(hostile(), given, strict=True) if t != g][:5] == []


@pytest.mark.parametrize("engine", ["snowflake", "databricks"])
def test_constants_are_one_token(engine: str) -> None:
    tokenizer = sqlglot.Dialect.get_or_raise(engine)
    wrong = []
    for text, sql in zip(hostile(), constants(engine), strict=True):
        found = [(token.token_type, token.text.replace("$\\{", "${")) for token in tokenizer.tokenize(sql)]
        if found != [(TokenType.STRING, text.replace("$\\{", "${"))]:
            wrong.append((text, sql))
    assert wrong[:5] == []


def test_databricks_constants_are_sparks() -> None:
    assert constants("databricks") == constants("spark")


@pytest.mark.parametrize("engine", ["snowflake", "databricks"])
def test_a_sample_of_constants_is_one_statement(engine: str) -> None:
    sample = constants(engine)[:: COUNT // 200]
    sql = "SELECT " + ",\n".join(f"{constant} AS c{i}" for i, constant in enumerate(sample))
    assert len(sqlglot.parse(sql, read=engine)) == 1
    check_sqlfluff(f"{sql};", engine)


NULS = ("\0", "a\0b", "\x0012", "\0\t\0", "\\\0", "'\0'", "\0\0a", "${\0}", "a\n\0")


@pytest.mark.parametrize("engine", EXECUTED)
def test_nul_is_kept(engine: str) -> None:
    for text in NULS:
        constant = se.prompt_sql("{{ t }}", engine, vars={"t": text})
        sql = se.prompt_sql("{{ t }}", engine, {"t": "string"})
        assert query(engine, f"SELECT {constant}") == [(text,)]
        assert select(engine, f"SELECT {sql} FROM source", {"t": STRING}, [(text,)]) == [(text,)]


# Row values ----------------------------------------------------------------------------------------------------------

AROUND = "{{ a }}'{{ a | replace(\"'\", '\"') }}`{{ a ~ a }}{{ a[1:] }}"


@pytest.mark.parametrize("engine", EXECUTED)
def test_row_values_are_only_values(engine: str) -> None:
    sql = f"SELECT {se.prompt_sql(AROUND, engine, {'a': 'string'})} FROM source"
    if engine == "duckdb":
        source = pa.table({"a": list(hostile())})
        with in_memory() as db:
            db.register("source", source)
            given = db.execute(sql).fetchall()
    else:
        given = select(engine, sql, {"a": STRING}, [(text,) for text in hostile()])
    wanted = [f"{a}'" + a.replace("'", '"') + f"`{a}{a}{a[1:]}" for a in hostile()]
    assert [(w, g) for (g,), w in zip(given, wanted, strict=True) if g != w][:5] == []


# Names ---------------------------------------------------------------------------------------------------------------


def holds(engine: str) -> list[str]:
    """The texts that the engine takes for a name, apart from those that differ by case alone."""
    problem = get_engine(engine).name_problem
    return list({text.casefold(): text for text in hostile() if text.strip() and problem(text) is None}.values())


def named(engine: str, name: str) -> str:
    return print_sql(get_engine(engine), identifier(get_engine(engine), name))


@pytest.mark.parametrize(
    ("engine", "held"),
    [
        ("duckdb", 3_983),
        pytest.param("bigquery", 545, marks=pytest.mark.zetasql),
        pytest.param("spark", 3_699, marks=pytest.mark.spark),
    ],
)
def test_column_names_are_only_names(engine: str, held: int) -> None:
    names = holds(engine)
    for batch in batches(names, 250):
        quoted = [named(engine, name) for name in batch]
        made = ", ".join(f"{i} AS {name}" for i, name in enumerate(quoted))
        assert query(engine, f"SELECT {', '.join(quoted)} FROM (SELECT {made}) AS q") == [tuple(range(len(batch)))]
    assert len(names) == held


@pytest.mark.parametrize("engine", ALL)
def test_names_are_one_token(engine: str) -> None:
    tokenizer = sqlglot.Dialect.get_or_raise(get_engine(engine).dialect)
    for name in holds(engine):
        (token,) = tokenizer.tokenize(named(engine, name))
        assert token.text == name
        assert token.token_type in (TokenType.IDENTIFIER, TokenType.VAR) or name.isalpha()


QUOTED = {
    "duckdb": r'"(?:[^"]|"")*"',
    "snowflake": r'"(?:[^"]|"")*"',
    "bigquery": r"`(?:[^`\\]|\\.)*`",
    "spark": r"`(?:[^`]|``)*`",
    "databricks": r"`(?:[^`]|``)*`",
}


def table(engine: Engine, name: str) -> str | None:
    """The table of a dotted name as it is printed; None where it is refused with words that say so."""
    try:
        return print_sql(engine, relation(engine, name))
    except ValueError as error:
        return None if "is not a table name" in str(error) else str(error)


@pytest.mark.parametrize("name", ["$1", ":x", "?", "f(x)", "", "''", "a\0b"])
@pytest.mark.parametrize("engine", ALL)
def test_a_name_that_is_none_is_refused(engine: str, name: str) -> None:
    enrichment = replace(se.load("support_ticket"), name="t")
    with pytest.raises(se.SqlenrichError):
        se.compile_plan(enrichment, engine, {"source": name})


@pytest.mark.parametrize("engine", ALL)
def test_table_names_are_names_or_refused(engine: str) -> None:
    target = get_engine(engine)
    part = rf"(?:{QUOTED[engine]}|[A-Za-z_]\w*)"
    refused = 0
    for name in hostile():
        printed = table(target, name)
        if printed is None:
            refused += 1
            continue
        assert re.fullmatch(rf"{part}(?:\.{part})*", printed, re.DOTALL), name
    assert refused > COUNT // 3
    for name in holds(engine):
        assert relation(target, named(engine, name)).name == name
        assert print_sql(target, relation(target, named(engine, name))) == named(engine, name)

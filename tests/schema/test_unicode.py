"""All of Unicode through each text operation: Python's answer on every engine, or NULL for a known set."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import literal
from sqlenrich.core.types import STRING
from sqlenrich.engines import get_engine
from sqlenrich.engines.shared.case_mapping import NEW_CASE, plain
from tests.prompt.test_conformance import select
from tests.support.in_memory import in_memory

ENGINES = [
    "duckdb",
    pytest.param("bigquery", marks=pytest.mark.zetasql),
    pytest.param("spark", marks=pytest.mark.spark),
]
EXECUTED = [*ENGINES, pytest.param("databricks", marks=pytest.mark.spark)]

BLOCK = 1024
SEPARATOR, NOTHING = "|\x1f|", "\x02NULL\x02"
SURROGATES = range(0xD800, 0xE000)
CASED = range(0x20000 // BLOCK)
"""The blocks of the first two planes. Beyond them no character has a case, in any version of Unicode up to 17."""

FORMS = {
    "duckdb": "SELECT STRING_AGG(v, {sep} ORDER BY c) FROM (SELECT c, COALESCE({sql}, {null}) AS v FROM "
    "(SELECT c, {pre} || CHR(c::INT) || {post} AS t FROM RANGE({first}, {last}) AS r(c) "
    "WHERE c NOT BETWEEN 55296 AND 57343)) GROUP BY c // {block} ORDER BY c // {block}",
    "spark": "SELECT ARRAY_JOIN(TRANSFORM(SORT_ARRAY(COLLECT_LIST(STRUCT(c, v))), x -> x.v), {sep}) FROM "
    "(SELECT c, COALESCE({sql}, {null}) AS v FROM (SELECT id AS c, CONCAT({pre}, "
    "SUBSTRING(DECODE(UNHEX(CONCAT('00000061', LPAD(HEX(id), 8, '0'))), 'UTF-32'), 2), {post}) AS t "
    "FROM RANGE({first}, {last}) WHERE NOT id BETWEEN 55296 AND 57343)) GROUP BY c DIV {block} ORDER BY c DIV {block}",
    "bigquery": "SELECT STRING_AGG(v, {sep} ORDER BY c) FROM (SELECT c, COALESCE({sql}, {null}) AS v FROM "
    "(SELECT c, CONCAT({pre}, CODE_POINTS_TO_STRING([c]), {post}) AS t FROM (SELECT g * {block} + i AS c "
    "FROM UNNEST({blocks}) AS g, UNNEST(GENERATE_ARRAY(0, {block} - 1)) AS i) WHERE c NOT BETWEEN 55296 AND 57343)) "
    "GROUP BY DIV(c, {block}) ORDER BY MIN(c)",
}
"""One text per block of code points, each in its context: made by the engine, since a million rows are slow to send."""


def block_of(number: int) -> str:
    """The text of all characters of a block."""
    return "".join(chr(code) for code in code_points([number]))


def code_points(blocks: Sequence[int]) -> list[int]:
    return [code for block in blocks for code in range(block * BLOCK, (block + 1) * BLOCK) if code not in SURROGATES]


def query(engine: str, sql: str) -> list[tuple[Any, ...]]:
    if engine == "duckdb":
        with in_memory() as db:
            return db.execute(sql).fetchall()
    if engine == "bigquery":
        from tests.standins.googlesql import googlesql

        return googlesql().evaluate(sql, {})
    from tests.standins.spark import rows

    return rows(sql)


def mapped(engine: str, template: str, pre: str, post: str, blocks: Sequence[int]) -> list[str | None]:
    """The prompt of each code point in its context."""
    dialect = "spark" if engine == "databricks" else engine

    def text(value: str) -> str:
        return print_sql(get_engine(dialect), literal(value))

    form = FORMS[dialect].format(
        sql=se.prompt_sql(template, engine, {"t": "string"}),
        pre=text(pre),
        post=text(post),
        sep=text(SEPARATOR),
        null=text(NOTHING),
        first=blocks[0] * BLOCK,
        last=(blocks[-1] + 1) * BLOCK,
        blocks=list(blocks),
        block=BLOCK,
    )
    found = [value for (block,) in query(dialect, form) for value in block.split(SEPARATOR)]
    return [None if value == NOTHING else value for value in found]


Python = Callable[[str], str]


def refused(engine: str, template: str, python: Python, pre: str, post: str, blocks: Sequence[int]) -> int:
    """The number of code points that give NULL, once all others are known to give what Python does."""
    codes = code_points(blocks)
    given = mapped(engine, template, pre, post, blocks)
    assert len(given) == len(codes)
    wrong = [
        (f"U+{code:04X}", value)
        for code, value in zip(codes, given, strict=True)
        if value is not None and value != python(pre + chr(code) + post)
    ]
    assert wrong[:5] == []
    return given.count(None)


def may_change(text: str) -> bool:
    """Whether a text changes with its case in Python, or did not in an older version of Unicode."""
    return text != text.upper() or text != text.lower() or re.search(plain(NEW_CASE), text) is not None


EVERY: dict[str, Sequence[int]] = {
    **dict.fromkeys(("duckdb", "spark", "databricks"), CASED),
    "bigquery": [block for block in CASED if may_change(block_of(block))],
}
"""Google's evaluator takes a tenth of a millisecond for a code point: it maps the other blocks as a whole."""
FEW = dict.fromkeys(EVERY, range(0x3000 // BLOCK))

Case = tuple[str, Python, str, str, Mapping[str, Sequence[int]], dict[str, int]]
"""A template, what Python does, the texts around each code point, the blocks, how many give NULL."""

OPERATIONS: dict[str, Case] = {
    "lower": (
        "{{ t.lower() }}", str.lower, "", "", EVERY, {"duckdb": 210, "bigquery": 209, "spark": 209, "databricks": 209},
    ),
    "upper": (
        "{{ t.upper() }}", str.upper, "a", "b", EVERY,
        {"duckdb": 310, "bigquery": 209, "spark": 209, "databricks": 209},
    ),
    "capitalize": (
        "{{ t.capitalize() }}", str.capitalize, "", "b", EVERY,
        {"duckdb": 370, "bigquery": 345, "spark": 345, "databricks": 345},
    ),
    "capitalize, second": (
        "{{ t.capitalize() }}", str.capitalize, "A", "", FEW, {"duckdb": 7, "bigquery": 6, "spark": 6, "databricks": 6},
    ),
    "before a last sigma": (
        "{{ t.lower() }}", str.lower, "a", "Σ", FEW,
        {"duckdb": 12288, "bigquery": 58, "spark": 58, "databricks": 12161},
    ),
    "after a sigma": (
        "{{ t.lower() }}", str.lower, "aΣ", "b", FEW,
        {"duckdb": 12167, "bigquery": 58, "spark": 58, "databricks": 12161},
    ),
    "strip": ("{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}",
        lambda t: f"{t.strip()}|{t.lstrip()}|{t.rstrip()}", "", " x\u3000", FEW, dict.fromkeys(EVERY, 0),
    ),
    "characters": (
        "{{ t | length }}{{ t[1] }}{{ t[-1] }}{{ t[:2] }}{{ t[1:-1] }}",
        lambda t: f"{len(t)}{t[1]}{t[-1]}{t[:2]}{t[1:-1]}", "e\u0301", "😀", FEW, dict.fromkeys(EVERY, 0),
    ),
    "replace": ("{{ t.replace('b', 'e\u0301') }}", lambda t: t.replace("b", "e\u0301"), "ab", "\u0301b", FEW,
        dict.fromkeys(EVERY, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("engine", EXECUTED)
def test_every_code_point_gives_pythons_answer_or_null(engine: str, operation: str) -> None:
    template, python, pre, post, blocks, nulls = OPERATIONS[operation]
    assert refused(engine, template, python, pre, post, blocks[engine]) == nulls[engine]


@pytest.mark.parametrize("engine", EXECUTED)
def test_the_other_blocks_have_no_case(engine: str) -> None:
    blocks = [block for block in range(0x110000 // BLOCK) if block not in EVERY[engine]]
    texts = [text for text in map(block_of, blocks) if text]
    template = "{{ t.upper() }}{{ t.lower() }}{{ t.capitalize() }}{{ t.strip() }}{{ t | length }}"
    sql = f"SELECT {se.prompt_sql(template, engine, {'t': 'string'})} FROM source"
    given = select("spark" if engine == "databricks" else engine, sql, {"t": STRING}, [(t,) for t in texts])
    wanted = [f"{text * 3}{text.strip()}{len(text)}" for text in texts]
    assert [row[0] == text for row, text in zip(given, wanted, strict=True)] == [True] * len(texts)


# A capital sigma among what may stand between it and the end of its word: each text in lower case, or NULL.
AROUND = (
    "", "A", "α", "'", "’", ".", ":", "·", "\u0301", "\u00ad", "\u200d", "1", " ", "-", "ª", "ʰ", "字", "ǅ", "ב", "Σ",
)  # fmt: skip
SIGMAS = [f"{a}{b}Σ{c}{d}" for a, b, c, d in itertools.product(AROUND, AROUND, AROUND, ("", "a", " ", "."))]


@pytest.mark.parametrize(
    ("engine", "nulls"),
    [
        ("duckdb", 28_160),
        pytest.param("bigquery", 0, marks=pytest.mark.zetasql),
        pytest.param("spark", 0, marks=pytest.mark.spark),
        pytest.param("databricks", 30_740, marks=pytest.mark.spark),
    ],
)
def test_final_sigma(engine: str, nulls: int) -> None:
    sql = f"SELECT {se.prompt_sql('{{ t.lower() }}', engine, {'t': 'string'})} FROM source"
    given = select("spark" if engine == "databricks" else engine, sql, {"t": STRING}, [(t,) for t in SIGMAS])
    wrong = [
        (text, row[0]) for text, row in zip(SIGMAS, given, strict=True) if row[0] is not None and row[0] != text.lower()
    ]
    assert wrong[:5] == []
    assert sum(row[0] is None for row in given) == nulls


TEXTS = (
    "", " ", "a", "a ", "A", "a\x00", "\x00", "a\u0301", "\xe1", "\xc5", "\u212b", "A\u030a", "ß", "ss", "İ", "i\u0307",
    "I", "ı", "J\u0307", "I\u0307\u0300", "\ud7ff", "\ue000", "\ufeff", "\uffff", "\U00010000", "😀", "\U0010ffff",
    "\u200b", "\u180e", "\xa0", "\u3000", "\x85", "ﬁ", "fi", "ａ", "\u0345", "Σ", "ς", "σ",
)  # fmt: skip
COMPARED = (
    "{{ a < b }} {{ a <= b }} {{ a > b }} {{ a >= b }} {{ a == b }} {{ a != b }} {{ a in [b, 'x'] }} "
    "{{ a.startswith(b) }} {{ a.endswith(b) }} {{ b in a }}"
)


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_compare_by_code_points(engine: str) -> None:
    pairs = list(itertools.product(TEXTS, TEXTS))
    sql = f"SELECT {se.prompt_sql(COMPARED, engine, {'a': 'string', 'b': 'string'})} FROM source"
    given = [row[0] for row in select(engine, sql, {"a": STRING, "b": STRING}, pairs)]
    wanted = [
        f"{a < b} {a <= b} {a > b} {a >= b} {a == b} {a != b} {a in [b, 'x']} "
        f"{a.startswith(b)} {a.endswith(b)} {b in a}"
        for a, b in pairs
    ]
    assert [(p, g) for p, g, w in zip(pairs, given, wanted, strict=True) if g != w][:5] == []

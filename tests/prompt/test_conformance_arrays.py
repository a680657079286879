"""Arrays in prompts: the same text on DuckDB, Google's evaluator, Spark and the stand-in for Snowflake as in jinja2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, parse_type
from tests.prompt.test_conformance import columns_of_snowflake, each_expression, rendered, select
from tests.standins import snowflake

COLUMNS: dict[str, Any] = {
    "tags": {"array": "string"},
    "more": {"array": "string"},
    "nums": {"array": "bigint"},
    "flags": {"array": "boolean"},
    "people": {"array": {"struct": {"name": "string", "age": "bigint"}}},
    "body": "string",
    "k": "bigint",
    "x": "bigint",
}
ROWS: list[tuple[Any, ...]] = [
    ([], [], [], [], [], "", 0, 0),
    (["a"], ["b", "a"], [0], [True], [{"name": "Ann", "age": 3}], "a", 0, 1),
    (["a", "b", "c"], ["x"], [3, 1, 2], [True, False], [{"name": "B", "age": 1}, {"name": "C", "age": 2}], "a,", 1, -1),
    (["é", "日本", "😀\n", "it's \"q\"\\"], ["é"], [10**15, -5], [False], [{"name": "É", "age": -5}], "日,本", -2, 3),
    (["None", "", "{{ k }}${y}"], ["1", "2"], [5, 4, 3, 2, 1], [True], [{"name": None, "age": 0}], ",", 3, -5),
    (["b", "a", "b"], ["b", "z"], [2, 2], [False], [{"name": "b", "age": 2}, {"name": "c", "age": None}], "N", -1, 2),
    (["a", "b"], ["c"], [1], [True], [], None, None, None),
    (["a", "b"], ["c"], [7], [False], [{"name": "", "age": 7}], "b", 10**18, -(10**18)),
]  # fmt: skip
WITH_NULLS: list[tuple[Any, ...]] = [
    (None, None, None, None, None, None, None, None),
    (None, ["a"], [1], [True], None, "a", 0, 1),
    (["a"], None, None, None, [{"name": "n", "age": 1}], "b", 1, 0),
    ([None], [None, "a"], [None], [None], [None], "a", 0, -1),
    (["a", None, ""], ["a", None, ""], [1, None, -2], [None, True], [None, {"name": None, "age": 4}], "c", 2, 1),
]
"""BigQuery's tables hold no NULL in an array, and no missing array."""


def rows_of(engine: str) -> list[tuple[Any, ...]]:
    """The rows that an engine's tables can hold: ClickHouse's hold a NULL in an array, but no missing array."""
    if engine == "clickhouse":
        return [*ROWS, *(row for row in WITH_NULLS if None not in row[:5])]
    return ROWS if engine == "bigquery" else [*ROWS, *WITH_NULLS]


TEMPLATES = [
    "{{ tags|join(', ') }}|{{ nums|join('-') }}|{{ flags|join }}",
    "{{ tags|join(body) }}",
    "{{ people|join(', ', attribute='name') }}",
    "{{ tags[0] }}{{ tags[-1] }}",
    "{{ tags[k] }}",
    "{{ tags[k]|default('d') }}{{ tags[k] is defined }}",
    "{{ people[0].name }}",
    "{{ (tags|first|default('none')) ~ (tags|last|default('none')) }}",
    "{{ tags[1:]|join(',') }}|{{ tags[:-1]|join(',') }}|{{ tags[-2:]|join(',') }}",
    "{{ tags[k:]|join(',') }}|{{ tags[:x]|join(',') }}|{{ tags[k:x]|join(',') }}",
    "{{ tags|length }}{{ nums|length > 1 }}{{ 'x' if tags else 'y' }}{{ tags == [] }}",
    "{{ tags.index(body) }}",
    "{{ nums.index(x) }}",
    "{{ body in tags }}{{ 'a' in tags }}{{ 2 in nums }}{{ k in nums }}",
    "{{ tags|map('upper')|join(', ') }}{{ nums|map('string')|join }}",
    "{{ people|map(attribute='name')|join(', ') }}{{ people|map(attribute='age')|list|length }}",
    "{{ tags|select|join(',') }}|{{ tags|reject('in', more)|join(',') }}|{{ nums|select('gt', 1)|join(',') }}",
    "{{ people|selectattr('age', 'gt', 1)|map(attribute='name')|join }}{{ people|rejectattr('name')|list|length }}",
    "{% for t in tags %}{{ loop.index }}/{{ loop.length }} {{ t }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for t in tags %}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{% else %}{{ k }}{% endfor %}",
    "{% for t in tags if t != 'a' %}{{ loop.index }}{{ t }}{% else %}none{% endfor %}",
    "{% for p in people %}{{ p.name }}={{ p.age }}{{ x }};{% endfor %}",
    "{% for t in tags %}{% for m in more %}{{ t }}{{ m }}{{ loop.index }};{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for t, n in zip(tags, nums) %}{{ t }}{{ n }};{% endfor %}",
    "{% for t, l in zip(tags, ['p', 'q']) %}{{ t }}{{ l }};{% endfor %}",
    "{% for i in range(nums|length) %}{{ nums[i] + 1 }},{% endfor %}",
    "{% for i in range(nums|length - 1) %}{{ i }}{% endfor %}",
    "{{ body.split(',')|join('|') }}{{ body.split(',')[1]|default('d') }}{{ body.split(',')|length }}",
    "{{ [k, x]|min }}{{ nums[0]|abs }}",
    "{% set t = tags[3] %}{% set i = tags.index('a') %}{{ i }}{% if tags|length > 3 %}{{ t }}{% endif %}",
    "{% for t in tags or ['z'] %}{{ t }}{% endfor %}{{ (tags|default(['z'], true))|join }}",
    "{{ {'a': body, 'b': 'B'}[tags[0]] }}",
]


@each_expression
@pytest.mark.parametrize("number", range(len(TEMPLATES)))
def test_arrays_equal_the_reference(number: int, engine: str) -> None:
    template = TEMPLATES[number]
    rows = rows_of(engine)
    sql = se.prompt_sql(template, engine, columns=COLUMNS)
    columns = {"place": BIGINT, **{name: parse_type(kind) for name, kind in COLUMNS.items()}}
    placed = [(place, *row) for place, row in enumerate(rows)]
    found: dict[Any, Any] = dict(select(engine, f"SELECT place, {sql} FROM source", columns, placed))
    assert found == expected(template, rows)


def expected(template: str, rows: Sequence[tuple[Any, ...]]) -> dict[int, str | None]:
    """What jinja2 renders for each row."""
    return {place: rendered(template, dict(zip(COLUMNS, row, strict=True)), {}) for place, row in enumerate(rows)}


@pytest.mark.parametrize("number", range(len(TEMPLATES)))
def test_elements_that_snowflake_calls_undefined_are_missing(number: int) -> None:
    """The other tests' NULLs in arrays are JSON nulls there; a NULL in ARRAY_CONSTRUCT is none."""
    columns = {"place": BIGINT, **{name: parse_type(kind) for name, kind in COLUMNS.items()}}
    placed = [(place, *row) for place, row in enumerate(WITH_NULLS)]
    sql = f"SELECT place, {se.prompt_sql(TEMPLATES[number], 'snowflake', columns=COLUMNS)} FROM source"
    found = snowflake.rows(sql, {"source": (columns_of_snowflake(columns), placed)}, missing=None)
    assert dict(found) == expected(TEMPLATES[number], WITH_NULLS)


NESTED = {
    "column": "{{ grid[0]|join }}{{ grid|length }}{{ grid[-1][0] }}",
    "loop": "{% for t in grid %}{{ t|join('-') }}{% for u in t %}{{ u }}{{ loop.index }};{% endfor %}{% endfor %}",
    "map": "{% for w in boxes|map(attribute='grid') %}{{ w|join }}{% endfor %}",
    "concatenated": "{{ (grid + grid)[1:]|last|default(['?'])|join }}{{ grid|reverse|first|join }}",
    "append": "{% set l = [] %}{% for t in grid %}{% do l.append(t[0]|default('-')) %}{% endfor %}{{ l|join }}",
    "flat": "{% set n = namespace(l=[]) %}{% for t in grid %}{% set n.l = n.l + t %}{% endfor %}{{ n.l|join }}",
    "split": "{% for p in ['a,b;c', body]|map('upper') %}{{ p.split(';')[0].split(',')|join('+') }}{% endfor %}",
}
NESTED_COLUMNS: dict[str, Any] = {
    "grid": {"array": {"array": "string"}},
    "boxes": {"array": {"struct": {"grid": {"array": "string"}}}},
    "body": "string",
}
NESTED_ROWS: list[tuple[Any, ...]] = [
    ([["a", "b"], [], ["é"]], [{"grid": ["x", "y"]}, {"grid": []}], "p,q;r"),
    ([], [], ""),
    ([["None"]], [{"grid": ["1"]}], ";"),
]


@each_expression
@pytest.mark.parametrize("name", NESTED)
def test_arrays_of_arrays_equal_the_reference(name: str, engine: str) -> None:
    template = NESTED[name]
    columns = {"place": BIGINT, **{name: parse_type(kind) for name, kind in NESTED_COLUMNS.items()}}
    placed = [(place, *row) for place, row in enumerate(NESTED_ROWS)]
    sql = se.prompt_sql(template, engine, columns=NESTED_COLUMNS)
    found: dict[Any, Any] = dict(select(engine, f"SELECT place, {sql} FROM source", columns, placed))
    names = list(NESTED_COLUMNS)
    rows = [dict(zip(names, row, strict=True)) for row in NESTED_ROWS]
    assert found == {place: rendered(template, row, {}) for place, row in enumerate(rows)}

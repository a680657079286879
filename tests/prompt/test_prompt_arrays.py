"""Arrays in prompts: the SQL gives exactly what Jinja renders for the row, whatever the arrays hold."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from tests.prompt.test_prompt import VARS
from tests.support.prompt_table import PromptTable

COLUMNS: dict[str, Any] = {
    "tags": {"array": "string"},
    "more": {"array": "string"},
    "nums": {"array": "bigint"},
    "flags": {"array": "boolean"},
    "people": {"array": {"struct": {"name": "string", "age": "bigint", "pets": {"array": "string"}}}},
    "grid": {"array": {"array": "bigint"}},
    "box": {"struct": {"title": "string", "list": {"array": "string"}}},
    "body": "string",
    "n": "bigint",
    "k": "bigint",
    "flag": "boolean",
    "x1": "string",
}


def row(**values: Any) -> dict[str, Any]:
    """One row; a column that is not given is NULL."""
    return {name: values.get(name) for name in COLUMNS}


def person(name: str | None = None, age: int | None = None, pets: list[str | None] | None = None) -> dict[str, Any]:
    """A struct of the array of structs."""
    return {"name": name, "age": age, "pets": pets}


ROWS = [
    row(),
    row(tags=[], more=[], nums=[], flags=[], people=[], grid=[], box={"title": "", "list": []}, body="", n=0, k=0),
    row(tags=["a"], more=["b", "a"], nums=[0], flags=[True], people=[person("Ann", 3, [])], grid=[[1, 2], [3]],
        box={"title": "t", "list": ["a", None]}, body="a", n=0, k=1, flag=True, x1="X"),
    row(tags=["a", "b", "c"], more=["x"], nums=[3, 1, 2], flags=[True, False], grid=[[], [1]],
        people=[person("Bo", 1, ["cat", "dog"]), person("Cy", 2, ["eel"])],
        box={"title": None, "list": None}, body="a,b", n=1, k=-1, flag=False, x1=""),
    row(tags=[None], more=[None, "a"], nums=[None], flags=[None], people=[None], grid=[None], body=",", n=-1, k=2),
    row(tags=["a", None, ""], more=["a", None, ""], nums=[1, None, -2], flags=[None, True, False],
        people=[person("", None, None), None, person(None, 0, [None])], grid=[[None], None, []],
        body="b,,é", n=2, k=-3, flag=True),
    row(tags=["é", "日本", "😀\n", "it's \"q\"\\", "{{ n }}${y}"], more=["é", "b"], nums=[10**15, -(10**15)],
        flags=[False], people=[person("É日😀", -5, ["'"])], grid=[[7, 8, 9], [0, -1]],
        body="日,本,😀", n=-2, k=3, flag=False, x1="日"),
    row(tags=["None", "True", "0"], nums=[5, 4, 3, 2, 1], people=[person("a", 9, ["x"]), person("b", 8, ["y", "z"])],
        more=["1", "2", "3", "4"], grid=[[1]], body="None", n=3, k=-5, flag=True, x1="x1"),
    row(tags=["b", "a", "b"], nums=[2, 2], flags=[True, True, True], people=[person("b", 2, []), person("b", 2, None)],
        more=[], n=5, k=4, body="x"),
]  # fmt: skip

RENDERED = {
    "join": [
        "{{ tags|join(', ') }}", "{{ tags|join }}", "{{ nums|join('-') }}", "{{ flags|join('-') }}",
        "{{ ', '.join(tags) }}", "{{ tags|join(body) }}", "{{ people|join(', ', attribute='name') }}",
        "{{ people|join('; ', 'age') }}", "{{ box.list|join(' ') }}", "{{ body.split(',')|join('|') }}",
        "{{ ', '.join(body.split(',')) }}", "{{ tags|list|join(',') }}", "{{ (tags|join(','))|upper|length }}",
        "{% if tags %}{{ tags|join(',') }}{% else %}none{% endif %}", "{{ tags[1:]|join(',') }}",
        "{{ grid[0]|join(',') }}", "{{ (tags|default(['z'], true))|join }}", "{{ (tags or ['z'])|join }}",
        "{{ (tags if flag else more)|join }}",
    ],
    "elements": [
        "{{ tags[0] }}", "{{ tags[-1] }}", "{{ tags[2] }}", "{{ tags[-3] }}", "{{ nums[0] + 1 }}", "{{ flags[0] }}",
        "{{ tags[n] }}", "{{ tags[n + 1] }}", "{{ tags[-n] }}", "{{ tags[k] }}", "{{ nums[nums[0]] }}",
        "{{ grid[0][0] }}", "{{ grid[n][k] }}", "{{ people[0].name }}", "{{ people[-1]['age'] }}",
        "{{ people[n].name|upper }}", "{{ people[0].pets[0] }}", "{{ people[1].pets|join('+') }}", "{{ box.list[0] }}",
        "{{ tags|first }}", "{{ tags|last }}", "{{ nums|first }}{{ nums|last }}", "{{ people|first is none }}",
        "{{ (people|first).name }}", "{{ body.split(',')[0] }}", "{{ body.split(',')[1] }}",
        "{{ body.split(',')[-1] }}", "{{ body.split(',')|last|upper }}", "{{ tags[0]|upper }}",
        "{{ tags[0]|lower ~ tags[1] }}", "{{ tags[0] == 'a' }}{{ tags[0] is none }}", "{{ tags[0] == none }}",
        "{{ tags[0] or 'x' }}", "{% if tags and tags[0] %}{{ tags[0] }}{% endif %}",
        "{% if tags|length > 1 %}{{ tags[1] }}{% endif %}", "{{ tags[0] if tags else 'none' }}",
        "{{ tags[n] if flag else '-' }}", "{{ ['p', 'q', 'r'][nums[0]] }}",
        "{% set t = tags[0] %}x{% if tags %}{{ t }}{% endif %}",
        "{% set t = tags[n] %}x{% if flag %}{{ t }}{% endif %}", "{% set t = people[0].name %}x",
        "{% set t = tags|first %}x", "{% set t = grid[0][0] %}x", "{% set t = body.split(',')[3] %}x",
        "{% set t = tags[1:] %}x{% if flag %}{{ t|join }}{% endif %}", "{% set t = tags|length %}x",
        "{% set t = tags.index('a') %}x", "{% set t %}{{ tags[0] }}{% endset %}x",
        "{% set t %}{{ people[n].name }}{% endset %}x{% if flag %}{{ t }}{% endif %}",
        "{% set t %}{{ ['p', body, 'q'][k] }}{% endset %}x",
        "{{ tags[9223372036854775807] is defined }}{{ tags[:9223372036854775807]|join }}",
        "{{ tags[-9223372036854775807] is defined }}{{ tags[-9223372036854775807:]|join }}", "{{ +k }}x",
        "{{ +nums[0] }}x", "{% set a, b = tags[0], nums[0] %}x",
        "{% set a = tags[5] if flag else 'z' %}x{% if not flag %}{{ a }}{% endif %}", "{% set a = tags[5] or 'z' %}x",
        "{% set a = tags[0] ~ 'z' %}x", "{% with t = tags[0] %}x{% if tags %}{{ t }}{% endif %}{% endwith %}",
        "{% with t = tags.index('a') %}x{% endwith %}", "{% set t = people|map(attribute='name')|list %}x",
        "{% set t = people|map(attribute='name')|join %}x", "{% set t = nums|select('gt', 1)|list %}x",
    ],
    "defaults": [
        "{{ tags[0]|default('d') }}", "{{ tags[3]|default('d') }}", "{{ tags[n]|default('d') }}",
        "{{ tags[n]|default('d', true) }}", "{{ tags|first|default('d') }}", "{{ tags|last|default('d', true) }}",
        "{{ tags[n] is defined }}", "{{ tags[n] is undefined }}", "{{ people[0].name|default('d') }}",
        "{{ people[5].name|default('d') }}", "{{ people[n].name is defined }}", "{{ tags|default([])|join }}",
        "{{ nums[n]|default(7) + 1 }}", "{{ nums[n]|default(k) }}", "{{ tags[n] is none }}",
        "{{ (tags|first) is none }}", "{{ grid[0][5]|default(3) }}", "{{ grid[5]|default([])|join }}",
        "{{ body.split(',')[1]|default('d') }}", "{{ body.split(',')[1]|default('d')|upper }}",
    ],
    "slices": [
        "{{ tags[:2]|join(',') }}", "{{ tags[1:3]|join(',') }}", "{{ tags[-2:]|join(',') }}",
        "{{ tags[:-1]|join(',') }}", "{{ tags[-3:-1]|join(',') }}", "{{ tags[2:1]|join(',') }}",
        "{{ tags[9:]|join(',') }}", "{{ tags[:0]|join(',') }}", "{{ tags[:]|join(',') }}", "{{ tags[0:]|join(',') }}",
        "{{ tags[:n]|join(',') }}", "{{ tags[n:]|join(',') }}", "{{ tags[n:k]|join(',') }}",
        "{{ tags[k:n]|join(',') }}", "{{ tags[-n:]|join(',') }}", "{{ nums[n:-1]|join(',') }}",
        "{{ tags[:none]|join(',') }}", "{{ tags[:2]|length }}{{ tags[n:]|length }}", "{{ tags[1:][0] }}",
        "{{ tags[:-1][-1] }}", "{{ tags[:nums[0]]|join }}", "{{ body.split(',')[1:]|join('|') }}",
        "{% for t in tags[:2] %}{{ t }};{% endfor %}", "{% for t in tags[n:] %}{{ t }};{% endfor %}",
        "{{ grid[1:]|length }}{{ grid[1:][0]|join }}",
    ],
    "size": [
        "{{ tags|length }}", "{{ nums|count }}", "{{ grid|length }}{{ grid[0]|length }}", "{{ people|length }}",
        "{% if tags %}yes{% else %}no{% endif %}", "{% if not tags %}no{% endif %}",
        "{% if tags|length == 1 %}one{% endif %}", "{% if tags|length > n %}more{% endif %}",
        "{{ tags == [] }}{{ tags != [] }}", "{{ [] == tags }}", "{% if tags == [] or tags is none %}none{% endif %}",
        "{{ tags is none }}{{ tags is defined }}", "{{ tags|select('ne', 'a')|list|length }}",
        "{{ (nums|length) - 1 }}", "{{ people|selectattr('age')|list|length }}",
        "{% if tags and flag %}x{% else %}y{% endif %}", "{% if flag or tags %}x{% else %}y{% endif %}",
        "{% if people|selectattr('age', 'gt', 1)|list %}x{% endif %}", "{% if nums[1:] %}x{% else %}y{% endif %}",
        "{{ 'x' if tags|select|list else 'y' }}",
    ],
    "index": [
        "{{ tags.index('a') }}", "{{ tags.index(body) }}", "{{ nums.index(2) }}", "{{ nums.index(n) }}",
        "{{ nums.index(k) }}", "{{ tags.index(x1) }}", "{{ more.index(tags[0]) }}", "{{ flags.index(true) }}",
        "{{ tags.index('') + 1 }}", "{% if 'a' in tags %}{{ tags.index('a') }}{% endif %}", "{{ body.index(',') }}",
        "{{ body.split(',').index('b') }}", "{{ more[tags.index('a')] }}", "{{ ['A', 'B', 'C'][more.index('a')] }}",
    ],
    "in": [
        "{{ 'a' in tags }}", "{{ 'a' not in tags }}", "{{ body in tags }}", "{{ 1 if (box.title in tags) else 0 }}",
        "{{ none in tags }}", "{{ n in nums }}{{ k not in nums }}", "{{ 1 in nums }}", "{{ true in flags }}",
        "{{ 'a' in nums }}", "{{ tags[0] in more }}", "{{ 'a' in body.split(',') }}",
        "{% if 'a' in tags and 'b' in tags %}both{% endif %}", "{% if tags and 'a' in tags %}x{% else %}y{% endif %}",
        "{{ 'Ann' in people|map(attribute='name')|list }}", "{{ 'A' in tags|map('upper')|list }}",
        "{{ 'a' in tags[1:] }}", "{{ 1 in grid[0] }}", "{{ tags[0] in ['a', 'b', none] }}", "{{ tags[0] in body }}",
        "{{ (flags|join) in tags }}", "{{ grid[0]|length in nums }}", "{{ body.upper() in tags }}",
    ],
    "map": [
        "{{ tags|map('upper')|join(', ') }}", "{{ tags|map('trim')|map('lower')|join }}",
        "{{ tags|map('length')|join(',') }}", "{{ tags|map('string')|join(',') }}",
        "{{ tags|map('replace', 'a', 'z')|join(',') }}", "{{ tags|map('default', 'd')|join(',') }}",
        "{{ tags|map('default', 'd', true)|join(',') }}", "{{ nums|map('string')|join(',') }}",
        "{{ nums|map('abs')|join(',') }}", "{{ people|map(attribute='name')|join(', ') }}",
        "{{ people|map(attribute='age')|join(', ') }}", "{{ people|map(attribute='name')|map('upper')|join(', ') }}",
        "{{ people|map(attribute='name')|list|length }}", "{{ ', '.join(people|map(attribute='name')) }}",
        "{% for name in people|map(attribute='name') %}{{ name }};{% endfor %}",
        "{% for name in tags|map('upper') %}{{ loop.index }}{{ name }};{% endfor %}", "{{ n|abs }}",
        "{{ nums[0]|abs }}",
    ],
    "select": [
        "{{ tags|select|join(',') }}", "{{ tags|reject|join(',') }}", "{{ nums|select|join(',') }}",
        "{{ flags|select|join(',') }}", "{{ tags|select('ne', 'a')|join(',') }}",
        "{{ tags|reject('equalto', 'a')|join(',') }}", "{{ tags|select('in', ['a', 'b'])|join(',') }}",
        "{{ tags|select('in', more)|join(',') }}", "{{ tags|reject('in', more)|join(',') }}",
        "{{ tags|reject('none')|join(',') }}", "{{ tags|select('none')|list|length }}",
        "{{ nums|select('gt', 1)|join(',') }}", "{{ nums|select('ge', n)|join(',') }}",
        "{{ nums|reject('none')|select('lt', 3)|join(',') }}", "{{ nums|select('eq', n)|join(',') }}",
        "{{ nums|select('gt', 1)|list|length }}", "{{ nums|select('gt', 1)|list|first }}",
        "{{ people|selectattr('name')|map(attribute='name')|join }}",
        "{{ people|rejectattr('name')|map(attribute='age')|join }}",
        "{{ people|selectattr('name', 'equalto', 'b')|map(attribute='age')|join('-') }}",
        "{{ people|selectattr('age', 'gt', 1)|map(attribute='name')|join('-') }}",
        "{{ people|selectattr('age', 'none')|map(attribute='name')|join('-') }}",
        "{{ people|rejectattr('age', 'none')|map(attribute='name')|join('-') }}",
        "{{ people|selectattr('name', 'defined')|list|length }}",
        "{{ people|selectattr('name', 'in', tags)|map(attribute='name')|join('-') }}",
        "{{ (people|selectattr('name', 'eq', 'b')|list)[0].age }}",
        "{% for p in people|selectattr('age') %}{{ p.name }}{% endfor %}", "{{ tags|select('defined')|join(',') }}",
    ],
    "minimum": [
        "{{ [n, k]|min }}", "{{ [n, k, 2]|max }}", "{{ [nums|length, 2]|min }}", "{{ tags[:[2, n]|min]|join(',') }}",
        "{{ [tags|length, more|length]|max }}",
    ],
    "loops": [
        "{% for t in tags %}{{ t }},{% endfor %}", "{% for t in tags %}- {{ t }}\n{% endfor %}",
        "{% for t in tags %}{{ t|upper }}{% endfor %}", "{% for t in tags %}{{ t.upper() }}{% endfor %}",
        "{% for t in tags %}{% if t %}{{ t.upper() }}{% endif %}{% endfor %}",
        "{% for t in tags %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}",
        "{% for t in tags %}{{ t }}{% if not loop.last %}, {% endif %}{% endfor %}",
        "{% for t in tags %}{{ loop.first }}{{ loop.last }}{{ loop.length }}{% endfor %}",
        "{% for t in tags %}{{ t }}{{ ', ' if not loop.last else '.' }}{% endfor %}",
        "{% for t in tags %}{{ loop.previtem if not loop.first else '-' }}{% endfor %}",
        "{% for t in tags %}{{ loop.nextitem if not loop.last else '-' }}{% endfor %}",
        "{% for t in tags %}{{ loop.previtem }}{% endfor %}",
        "{% for t in tags %}{% if loop.nextitem is defined %}{{ loop.nextitem }}{% endif %}{% endfor %}",
        "{% for t in tags %}{{ loop.previtem|default('d') }}{% endfor %}",
        "{% for t in tags %}{{ loop.nextitem|default('d', true) }}{% endfor %}",
        "{% for t in tags %}{% if loop.previtem != t %}{{ t }}{% endif %}{% endfor %}",
        "{% for t in tags %}{% if not loop.first and loop.previtem == t %}={% endif %}{% endfor %}",
        "{% for p in people %}{{ loop.previtem.name if not loop.first else '' }}{% endfor %}",
        "{% for t in tags %}{% set before = loop.previtem %}x{% endfor %}",
        "{% for t in tags %}{% set after = loop.nextitem %}{% if not loop.last %}{{ after }}{% endif %}{% endfor %}",
        "{% for t in tags %}{{ t }}{% else %}empty{% endfor %}",
        "{% for t in tags %}{{ t }}{% else %}{{ body }}!{% endfor %}",
        "{% for t in tags %}{{ t }}{% else %}{{ body.upper() }}!{% endfor %}",
        "{% for t in tags %}{{ body.upper() }}{% else %}e{% endfor %}", "{% for t in tags if t %}{{ t }};{% endfor %}",
        "{% for t in tags if t != 'a' %}{{ loop.index }}/{{ loop.length }}{{ t }};{% endfor %}",
        "{% for t in tags if t %}{{ t }}{% if not loop.last %},{% endif %}{% endfor %}",
        "{% for t in tags if t %}{{ t }}{% else %}empty{% endfor %}",
        "{% for t in tags if t %}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{% endfor %}",
        "{% for x in nums if x > 1 %}{{ x }}{% endfor %}", "{% for x in nums if x > 1 %}{{ x }}{% else %}e{% endfor %}",
        "{% for x in nums if x and x > n %}{{ x }}{% endfor %}", "{% for t in tags if t in more %}{{ t }}{% endfor %}",
        "{% for p in people if p.age %}{{ p.name }}{% endfor %}",
        "{% for p in people if p and p.age %}{{ loop.index }}{{ p.name }}{% endfor %}",
        "{% for p in people %}{{ p.name }} ({{ p.age }});{% endfor %}",
        "{% for p in people %}{% if p %}{{ p['name'] }}{% endif %};{% endfor %}",
        "{% for p in people %}{% for q in p.pets %}{{ p.name }}:{{ q }}{{ loop.index }};{% endfor %}{% endfor %}",
        "{% for p in people if p %}{% for q in p.pets or [] %}{{ q }}{% else %}none{% endfor %};{% endfor %}",
        "{% for p in people %}{{ p.pets|join('+') }};{% endfor %}", "{% for p in people %}{{ p.pets[0] }};{% endfor %}",
        "{% for g in grid %}{% for x in g %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %};{% endfor %}",
        "{% for g in grid %}{% for x in g %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
        "{% for g in grid %}{% set i = loop.index %}{% for x in g %}{{ i }}.{{ loop.index }} {% endfor %}{% endfor %}",
        "{% for g in grid %}{{ g|join('') }}{{ g|length }}{% endfor %}",
        "{% for t in tags %}{% for m in more %}{{ t }}{{ m }};{% endfor %}{% endfor %}",
        "{% for t in tags %}{% for l in labels %}{{ loop.index }}{{ t }}{{ l }};{% endfor %}{% endfor %}",
        "{% for l in labels %}{% for t in tags %}{{ l }}{{ t }};{% endfor %}{% endfor %}",
        "{% for t in tags %}{{ body }}{{ x1 }}{{ n }}{% endfor %}", "{% for x1 in tags %}{{ x1 }}{% endfor %}{{ x1 }}",
        "{% for i1 in nums %}{{ i1 }}{{ loop.index }}{% endfor %}",
        "{% for tags in tags %}{{ tags }}{% endfor %}{{ tags|length }}",
        "{% for t in tags %}{% set x = t %}{{ x }}{% endfor %}",
        "{% for t in tags %}{% set x = t.upper() %}{% endfor %}x",
        "{% set x = 'o' %}{% for t in tags %}{{ x }}{% set x = t %}{{ x }}{% endfor %}{{ x }}",
        "{% for t in tags %}{% if t == 'a' %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}{% endfor %}",
        "{% for t in tags %}{% set x %}<{{ t }}>{% endset %}{{ x }}{% endfor %}",
        "{% for t in tags %}{% with x = t %}{{ x }}{% endwith %}{% endfor %}",
        "{% for t in tags %}{% set x = nums[loop.index0] %}{% endfor %}x",
        "{% for t in tags %}{% set x = more.index(t) %}{% endfor %}x",
        "{% for t in tags %}{{ nums[loop.index0] }}{% endfor %}",
        "{% for t in tags %}{{ more[loop.index0]|default('-') }}{% endfor %}",
        "{% for t in tags %}{{ t }}{{ ['x', 'y', 'z'][loop.index0] }}{% endfor %}",
        "{% for t in tags %}{{ ['x', 'y', 'z', 'w', 'v'][loop.index0] }}.{{ t }} {% endfor %}",
        "{% for x in nums %}{{ x + 1 }},{% endfor %}", "{% for x in nums %}{% if x > 1 %}big{% endif %}{% endfor %}",
        "{% for x in nums %}{{ labels[x] }}{% endfor %}",
        "{% for f in flags %}{{ f }}{{ 'y' if f else 'n' }}{% endfor %}",
        "{% for w in body.split(',') %}{{ w|trim }};{% endfor %}",
        "{% for w in body.split(',') if w %}{{ w }};{% endfor %}",
        "{% if tags %}{% for t in tags %}{{ t }}{% endfor %}{% else %}none{% endif %}",
        "{% if flag %}{% for t in tags %}{{ t }}{% endfor %}{% endif %}x",
        "{% for t in tags or [] %}{{ t }}{% else %}none{% endfor %}",
        "{% for t in tags|default([], true) %}{{ t }}{% else %}none{% endfor %}",
        "{% for t in (tags if flag else more) %}{{ t }}{% endfor %}",
        "{% set x %}{% for t in tags %}{{ t }}{% endfor %}{% endset %}{{ x|length }}{{ x }}",
        "{% for t in box.list %}{{ t }}{{ box.title }}{% endfor %}", "{% for t in tags %}{% endfor %}x",
        "{% for t in tags %} {% endfor %}x", "{% for t in tags %}{% if false %}{{ t }}{% endif %}{% endfor %}x",
        "{% for t in more %}{% if t in tags %}{{ tags.index(t) }}{% endif %}{% endfor %}",
        "{% for x in [body, tags[0]] %}{{ x }}{% endfor %}", "{% for x in [body, tags[0]] %}x{% endfor %}",
        "{% for x in ['x', box.title] %}x{% endfor %}", "{% for x in ['x', people[0].name|upper] %}x{% endfor %}",
        "{% for t in (tags|list) or ['z'] %}{{ t }}{% endfor %}", "{{ tags|list == [] }}{{ tags|list is none }}",
        "{% for t in tags %}{{ t == body }}{% endfor %}", "{% for t in tags %}{{ t in labels }}{% endfor %}",
        "{% for t in tags %}{{ {'a': 'A', 'b': 'B'}[t] }}{% endfor %}",
        "{% for t in tags %}{{ {'a': 'A', 'b': body}[t]|default('?') }}{% endfor %}",
        "{% for t in tags %}{{ t[:1] }}{% endfor %}", "{% for t in tags %}{{ t[0] }}{% endfor %}",
    ],
    "range": [
        "{% for i in range(n) %}{{ i }}{% endfor %}", "{% for i in range(k) %}{{ i }}{% else %}none{% endfor %}",
        "{% for i in range(tags|length) %}{{ i }}{{ tags[i] }}{% endfor %}",
        "{% for i in range(tags|length) %}{{ tags[i] }}{{ more[i] }}{% endfor %}",
        "{% for i in range(tags|length) %}{{ loop.last }}{{ loop.length }}{% endfor %}", "{{ range(n)|join(',') }}",
        "{{ range(n)|list|length }}", "{% for i in range(nums|length - 1) %}{{ nums[i] }}{{ nums[i + 1] }}{% endfor %}",
        "{% for i in range(n) if i != 1 %}{{ i }}{% endfor %}",
    ],
    "zip": [
        "{% for a, b in zip(tags, more) %}{{ a }}{{ b }};{% endfor %}",
        "{% for a, b in zip(tags, nums) %}{{ loop.index }}{{ a }}={{ b }}{{ loop.last }}{% endfor %}",
        "{% for a, b in zip(tags, ['x', 'y']) %}{{ a }}{{ b }};{% endfor %}",
        "{% for a, b in zip(['x', 'y', none], tags) %}{{ a }}{{ b }};{% endfor %}",
        "{% for a, b in zip(range(10), tags) %}{{ a }}{{ b }};{% endfor %}",
        "{% for a, b in zip(tags, people) %}{{ a }}{{ b.name }};{% endfor %}",
        "{% for a, b in zip(tags, body.split(',')) %}{{ a }}{{ b }};{% else %}none{% endfor %}",
        "{% for a, b, c in zip(tags, more, nums) %}{{ a }}{{ b }}{{ c }}{% endfor %}",
        "{% for p in zip(tags, more) %}{{ p[0] }}{{ p[1] }};{% endfor %}",
        "{% for p in zip(tags) %}{{ p[0] }}{% endfor %}",
        "{% for a, b in zip(tags, more) %}{% set x = a.upper() %}{% endfor %}x",
        "{% for a, b in zip(tags, [body, 'z']) %}{{ a }}{{ b }};{% endfor %}",
        "{% for a, b in zip(tags, tags[1:]) %}{{ a }}{{ b }};{% endfor %}",
    ],
    "mappings": [
        "{% set m = {'a': body, 'b': 'x'} %}{{ m.a }}{{ m['b'] }}", "{{ {'a': body, 'b': x1}[tags[0]] }}",
        "{% set m = {'t': tags} %}{{ m['t']|join }}", "{{ {0: body, 1: x1}[n] }}", "{{ [tags, more][0]|join }}",
        "{{ [tags, more][n]|join }}", "{{ {'a': 'x'}[body] if body in ['a'] else '-' }}",
    ],
}  # fmt: skip
CASES = [pytest.param(t, id=f"{g}-{i}") for g, templates in RENDERED.items() for i, t in enumerate(templates)]


@pytest.fixture(scope="module")
def table() -> PromptTable:
    return PromptTable(COLUMNS, ROWS, VARS)


@pytest.mark.parametrize("template", CASES)
def test_sql_gives_what_jinja_renders(table: PromptTable, template: str) -> None:
    assert table.by_sql(template) == table.by_jinja(template)


# Where computing an array fails for one element only, the prompt may be NULL: never a different text.
CAUTIOUS = [
    "{{ people|map(attribute='name')|first }}",
    "{{ people|map(attribute='pets')|first|join }}",
    "{{ 'Ann' in people|map(attribute='name') }}",
    "{{ (people|selectattr('age', 'eq', 3)|first).name }}",
    "{{ 1 in nums|map('abs') }}",
    "{{ people|map(attribute='name')|list|first }}",
    "{{ (people|map(attribute='name')|list)[0] }}",
    "{{ (people|map(attribute='name')|list)[1:]|join }}",
    "{{ tags|map('int')|join(',') }}",
]


@pytest.mark.parametrize("template", CAUTIOUS)
def test_sql_gives_what_jinja_renders_or_null(table: PromptTable, template: str) -> None:
    pairs = list(zip(table.by_sql(template), table.by_jinja(template), strict=True))
    assert all(given in (expected, None) for given, expected in pairs)
    assert sum(given == expected for given, expected in pairs) >= len(ROWS) - 3


def test_a_range_that_would_fill_the_memory_is_null() -> None:
    rows = [row(n=10**15), row(n=100_001), row(n=2), row(n=-(10**15))]
    assert PromptTable(COLUMNS, rows).by_sql("{% for i in range(n) %}{{ i }}{% endfor %}.") == [None, None, "01.", "."]


def test_bounds_far_beyond_an_array() -> None:
    rows = [row(tags=["a", "b"], n=n, k=1, body="ab") for n in (10**18, -(10**18), 2**63 - 1, -(2**63))]
    table = PromptTable(COLUMNS, rows)
    for template in (
        "{{ tags[n] is defined }}",
        "{{ tags[n]|default('d') }}",
        "{{ body[n] }}",
        "{{ body[n:] }}.",
        "{{ body[k:n] }}.",
        "{{ tags[n:]|join }}.",
        "{{ tags[:n]|join }}.",
        "{{ tags[k:n]|join }}.",
        "{{ tags[n] }}",
    ):
        assert table.by_sql(template) == table.by_jinja(template)


@pytest.mark.parametrize("name", ["x1", "x2", "i1", "x1_at", "X1", "e0", "e0_at"])
def test_a_column_is_never_taken_for_an_element(name: str) -> None:
    template = f"{{% for t in tags if t != 'z' %}}{{{{ t }}}}{{{{ {name} }}}}{{{{ loop.index }}}}{{% endfor %}}"
    columns = {"tags": {"array": "string"}, name: "string"}
    sql = se.prompt_sql(template, "duckdb", columns=columns)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE source AS SELECT ['a', 'z', 'b'] AS tags, 'v' AS \"{name}\"")
        assert connection.execute(f"SELECT {sql} FROM source").fetchall() == [("av1bv2",)]


# What is refused, at which line, and with which words.

REFUSED = [
    ("a\n{{ tags }}", 2, "printing array of string (tags)"),
    ("{{ people[0] }}", 1, "printing struct (people)"),
    ("{{ tags|string }}", 1, "printing array of string (tags)"),
    ("{{ tags|map('upper') }}", 1, "can be read only once; write |list after it"),
    ("\n{% set t = tags|map('upper') %}", 2, "can be read only once; write |list"),
    ("{% set t = zip(tags, more) %}", 1, "can be read only once"),
    ("{{ tags|select|length }}", 1, '"length" of a map or a select; write |list'),
    ("{{ tags|select|last }}", 1, '"last" of a map or a select; write |list'),
    ("{% if tags|select %}{% endif %}", 1, "a map or a select is empty; write |list"),
    ("{{ (tags|select)[0] }}", 1, "indexing a map or a select; write |list after it"),
    ("{{ (tags|select)[1:] }}", 1, "write |list after it"),
    ("{{ tags|sort(reverse=flag)|join }}", 1, "as constants"),
    ("{{ tags|tojson }}", 1, 'the filter "tojson" on an array is not compiled'),
    ("{{ tags|map('title')|join }}", 1, 'map with the filter "title"'),
    ("{{ people|map(attribute='nme')|join }}", 1, 'no field "nme"'),
    ("{{ tags|select('match', 'a')|join }}", 1, 'the test "match" is not compiled'),
    ("{{ tags['a'] }}", 1, "an array indexed by string; it must be an integer"),
    ("{{ tags[::2]|join }}", 1, "a slice with a step"),
    ("{{ tags[body:]|join }}", 1, "a slice bound that is string"),
    ("{{ tags == more }}", 1, "comparing arrays or structs"),
    ("{{ tags.append('a') }}", 1, 'the method "append" of'),
    ("{{ tags.index(n) }}", 1, "index of bigint in"),
    ("{{ people[0] in people }}", 1, "comparing arrays or structs"),
    ("{{ body.split(none, 1)|join }}", 1, "splitting at white space with other"),
    ("{{ body.split(',', 1)|join }}", 1, "split with a limit"),
    ("a\n\n{% for a, b in grid %}{% endfor %}", 3, "only plain names can be set"),
    ("{% for t in box %}{% endfor %}", 1, "it must be an array"),
    ("{% for t in tags %}{{ loop.cycle('a', 'b') }}{% endfor %}", 1, 'the method "cycle" of a mapping'),
    ("{% for t in tags %}{{ loop.depth }}{% endfor %}", 1, '"loop.depth" over an array'),
    ("{% for a, b in zip(tags, more) if a %}{% endfor %}", 1, "a filtered loop over zip"),
    ("{{ ['a', 1]|join }}{% for a, b in zip(tags, ['a', 1]) %}{% endfor %}", 1, "several types"),
    ("{{ tags|join(', ') if flag else nums }}", 1, "for some rows and"),
]


@pytest.mark.parametrize(("template", "line", "words"), REFUSED)
def test_refused(template: str, line: int, words: str) -> None:
    with pytest.raises(se.PromptError, match=re.escape(words)) as caught:
        se.prompt_sql(template, "duckdb", columns=COLUMNS, vars=VARS)
    assert caught.value.line == line


def test_a_prompt_that_would_explode_is_refused() -> None:
    template = "{% set x = grid[n][n] %}" + "".join(f"{{% set x = grid[x|length][x|length + {i}] %}}" for i in range(9))
    nested = "{{ " + "nums[" * 12 + "n" + "]" * 12 + " }}"
    for many in ("{{ body" + "|capitalize" * 8 + " }}", "{{ body" + "|int|string" * 8 + " }}", nested):
        with pytest.raises(se.PromptError, match="a value of the prompt needs over 20,000 parts of SQL"):
            se.prompt_sql(many, "duckdb", {"nums": {"array": "bigint"}, "n": "bigint", "body": "string"})
    with pytest.raises(se.PromptError, match="needs over"):
        se.prompt_sql(template + "{{ x }}", "duckdb", {"grid": {"array": {"array": "string"}}, "n": "bigint"})

"""Lists that are ordered, joined or changed in a template: the same text on every engine as in jinja2."""

from __future__ import annotations

from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, parse_type
from tests.prompt.test_conformance import each_expression, select
from tests.prompt.test_conformance_arrays import COLUMNS, expected, rows_of

ORDERED = [
    "{{ tags|sort|join(',') }}|{{ nums|sort|join(',') }}",
    "{{ tags|sort(reverse=true)|join(',') }}|{{ tags|sort(case_sensitive=true)|join }}",
    "{{ people|sort(attribute='age')|map(attribute='name')|join(',') }}",
    "{% for p in people|sort(attribute='name', reverse=true) %}{{ p.age }},{% endfor %}",
    "{% for t in tags|sort %}{{ loop.index }}{{ t }};{% endfor %}{{ tags|sort|first|default('-') }}",
    "{{ nums|min }}|{{ nums|max }}",
    "{{ tags|max }}",
]
"""None has no order: where it is the only key, Python compares nothing, and SQL gives NULL."""
TEMPLATES = [
    "{{ tags|unique|join(',') }}|{{ nums|unique|join(',') }}",
    "{% for t in tags|unique %}{{ t }}{{ loop.last }}{% endfor %}",
    "{{ tags|reverse|join(',') }}{{ nums|reverse|list|length }}",
    "{% for t in tags|reverse %}{{ t }}{% else %}-{% endfor %}",
    "{{ nums|sum }}",
    "{{ people|sum(attribute='age') }}",
    "{{ [k, x, 3]|sort|join(',') }}{{ [k, x]|sum }}{{ [k, x]|min }}",
    "{{ (tags + more)|join(',') }}",
    "{{ (tags + ['x'])|length }}{{ ([body] + tags)|join }}",
    "{{ body.split()|join('|') }}{{ body.split()|length }}",
    "{% for t in tags %}{% for c in t.split() %}{{ c }}.{% endfor %}{% endfor %}",
    "{{ body|truncate(3, true, '', 0) }}|{{ (body ~ ' b c')|truncate(5, false, '..', 0) }}",
    "{{ body.find('a') }}{{ body.find(',') }}",
    "{{ 'a,b'|replace(',', body) }}{{ body.replace('a', body) }}{{ body|replace(x|string, '-') }}",
    "{{ ['a', 'b', ''].index(body) }}",
    "{% for t in (['a', 'b'] if k else ['c']) %}{{ t }}{% endfor %}",
    "{% set xs = [] %}{% for t in tags %}{% set _ = xs.append(t ~ k) %}{% endfor %}{{ xs|join('+') }}{{ xs|length }}",
    "{% set xs = ['i'] %}{% for t in tags %}{% if t != 'a' %}{% do xs.append(t) %}{% do xs.append(body) %}{% endif %}"
    "{% endfor %}{{ xs|join('+') }}",
    "{% set xs = [] %}{% if k %}{% do xs.append('k') %}{% elif body %}{% do xs.append(body) %}{% else %}"
    "{% do xs.append('-') %}{% do xs.append(x|string) %}{% endif %}{{ xs|join(',') }}|{{ xs[0] }}",
    "{% set xs = [] %}{% for t in tags %}{% for m in more %}{% do xs.append(t ~ m) %}{% endfor %}{% endfor %}"
    "{{ xs|join(' ') }}",
    "{% set xs = [] %}{% for t in tags %}{% do xs.append(t) %}{% endfor %}"
    "{% for t in xs %}{{ loop.index }}{{ t }};{% endfor %}{{ 'a' in xs }}",
    "{% set xs = [] %}{% for p in people %}{% if p.age and p.age > 1 %}{% do xs.append(p.name) %}{% endif %}"
    "{% endfor %}{{ xs|join(',') }}{{ xs|unique|list|length }}",
    "{% set ns = namespace(a='', n=0) %}{% for t in tags %}{% set ns.a = t %}{% set ns.n = ns.n + 1 %}{% endfor %}"
    "{{ ns.a }}{{ ns.n }}",
    "{% set ns = namespace(found=false) %}{% for t in tags %}{% if t == body %}{% set ns.found = true %}{% endif %}"
    "{% endfor %}{{ ns.found }}",
    "{% set ns = namespace(l=[]) %}{% for p in people %}{% set ns.l = ns.l + [p.name|string] %}{% endfor %}"
    "{{ ns.l|join('-') }}",
    "{% set ns = namespace(n=0) %}{% for q in nums %}{% if q > 1 %}{% set ns.n = ns.n + q %}{% endif %}{% endfor %}"
    "{{ ns.n }}",
    "{% set ns = namespace(a='') %}{% for i in range(3) %}{% set ns.a = ns.a ~ i ~ body %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace(last='-') %}{% for p in people %}{% if p.age %}{% set ns.last = p.name %}{% endif %}"
    "{% endfor %}{{ ns.last }}",
    "{% set d = {'v': 'd'} %}{% if k %}{% do d.update({'v': body}) %}{% endif %}{{ d.v }}{{ d['v'] }}",
]


def alone(row: tuple[Any, ...]) -> bool:
    """Whether None stands alone in a list, or is the name of the only one."""
    lists = [value for value in row if isinstance(value, list)]
    return any(
        len(each) == 1 and None in (each[0], *(each[0].values() if isinstance(each[0], dict) else ())) for each in lists
    )


@each_expression
@pytest.mark.parametrize("template", [*ORDERED, *TEMPLATES])
def test_lists_equal_the_reference(template: str, engine: str) -> None:
    rows = rows_of(engine)
    sql = se.prompt_sql(template, engine, columns=COLUMNS)
    columns = {"place": BIGINT, **{name: parse_type(kind) for name, kind in COLUMNS.items()}}
    placed = [(place, *row) for place, row in enumerate(rows)]
    found: dict[Any, Any] = dict(select(engine, f"SELECT place, {sql} FROM source", columns, placed))
    texts = expected(template, rows)
    for place, row in enumerate(rows):
        if template in ORDERED and found[place] is None and alone(row):
            texts[place] = None
    assert found == texts

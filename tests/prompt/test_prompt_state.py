"""Templates that change lists, mappings and namespaces, and macros: what Jinja renders, or a refusal."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, parse_type
from tests.prompt.test_conformance import fill_duckdb

COLUMNS: dict[str, Any] = {
    "t": {"array": "string"},
    "m": {"array": "bigint"},
    "s": "string",
    "k": "bigint",
    "b": "boolean",
    "g": {"array": {"struct": {"w": "string", "z": {"array": "string"}}}},
}
VARS: dict[str, Any] = {"labels": ["bug", "it's"], "names": {"a": "Anna", "b": "Bob"}}
ROWS: list[tuple[Any, ...]] = [
    (["a", "b"], [1, 2], "x", 1, True, [{"w": "p", "z": ["u", "v"]}, {"w": "q", "z": []}]),
    ([], [], None, 0, False, []),
    (["q", None], [3, None], "q", 2, None, [None]),
    (None, None, "a,b", None, True, None),
    (["B", "", "b"], [0, -1, 5], "", -1, False, [{"w": None, "z": None}, {"w": "a", "z": []}]),
]


def expected(template: str, row: tuple[Any, ...]) -> str | None:
    """What Jinja renders for a row, None where it fails."""
    try:
        return se.render_prompt(template, dict(zip(COLUMNS, row, strict=True)), VARS)
    except se.PromptError:
        return None


SAME = r"""
{% set xs=['a'] %}{% with a = xs %}{{ xs.append('z') or '' }}{{ a|join }}{% endwith %}
{% set xs=['a'] %}{% with a = xs %}{{ a.append('z') or '' }}{% endwith %}{{ xs|join }}
{% macro f(a=[]) %}{{ a.append('z') or '' }}{{ a|join }}{% endmacro %}{{ f() }}{{ f() }}
{% macro f(a) %}x{% endmacro %}{{ f(s + 'x') }}
{% macro f(a, c=a+'x') %}x{% endmacro %}{{ f(s) }}
{% macro f(a) %}{% if b %}{{ a }}{% endif %}x{% endmacro %}{{ f(t[1]) }}
{% macro f(a) %}x{% endmacro %}{{ f(t[5]) }}
{% set ns=namespace(items='a') %}{{ ns.items }}
{% set d={} %}{% if d %}x{% endif %}{{ d.update(a='q') or '' }}
{% set d={} %}{{ d.update(a='q') or '' }}{% if d %}x{% endif %}{{ d.a }}
{% set ns=namespace() %}{% if ns %}x{% endif %}
{% set xs=['a'] %}{{ "{} {a}".format(xs.append('q') or 'p', a=xs|length) }}
{% set xs=['a'] %}{{ xs.append(xs|length) or '' }}{{ xs|join }}
{% set ns=namespace(a='') %}{% for v in t %}{% set ns.a = ns.a + v %}{% endfor %}done
{% set ns=namespace(a='') %}{% for v in t %}{% set ns.a = ns.a + v %}{% set ns.a = 'z' %}{% endfor %}{{ ns.a }}
{% set ns=namespace(n=0) %}{% for v in m %}{% set ns.n = ns.n + v %}{% endfor %}done
{% for v in ['a'] %}{{ loop }}{% endfor %}
{% for v in ['a'] %}{{ loop|length }}{% endfor %}
{% for v in ['a','b'] %}{{ loop['index'] }}{% endfor %}
{% for v in ['a','b'] %}{{ loop is mapping }}{% endfor %}
{% for v in ['a','b'] %}{% for w in ['c','d'] if loop.first %}{{ w }}{% endfor %}{% endfor %}
{% for v in ['a','b'] %}{% for w in t if loop.first %}{{ w }}{% endfor %}{% endfor %}
{% for v in t %}{% for w in t if loop.first %}{{ w }}{% endfor %}{% endfor %}
{% for v in ['a','b'] %}{% macro m() %}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}
{% for v in ['a','b'] %}{% set o = loop %}{% for w in t %}{{ o.index }}{{ loop.index }}{% endfor %}{% endfor %}
{% if labels|select('eq','zzz') %}x{% endif %}
{{ (labels|map('upper')) == ['BUG', "IT'S"] }}
{{ dict }}{{ range }}
{{ names.items() }}{{ names.keys() }}
{{ names.values()|list }}{% set v = names.values() %}{{ v|join }}{{ v|join }}
{% if k %}{% set s = 'z' %}{% endif %}{{ s }}
{% set xs=['a'] %}{% set ys=xs %}{{ xs.append('z') or '' }}{{ ys|join }}
{% set xs=['a'] %}{% set d={'l':xs} %}{{ xs.append('z') or '' }}{{ d.l|join }}
{% set xs=['a'] %}{% set d={'l':xs} %}{{ d.l.append(s) or '' }}{{ xs|join }}
{% set xs=['a'] %}{% macro p(l) %}{{ l.append(s) or '' }}{% endmacro %}{{ p(xs) }}{{ p(xs) }}{{ xs|join }}
{% set ns=namespace(l=[]) %}{% set xs=ns.l %}{{ xs.append('q') or '' }}{{ ns.l|join }}
{% set ns=namespace(a=1) %}{% set n2=ns %}{% set n2.a=k %}{{ ns.a }}
{% set ns=namespace(a=1) %}{% for v in t %}{% set ns.a = loop.index %}{% endfor %}{{ ns.a }}
{% set ns=namespace(a='x') %}{% for v in t %}{% if v == 'b' %}{% set ns.a = v %}{% endif %}{% endfor %}{{ ns.a }}
{% set ns=namespace(a='x') %}{% for v in g %}{% for w in v.z %}{% set ns.a = w %}{% endfor %}{% endfor %}{{ ns.a }}
{% set xs=[] %}{% for v in t %}{{ xs.append(v) }}{% endfor %}
{% set xs=[] %}{{ xs.append(s) }}{{ xs|first }}{{ xs|last|upper }}{{ xs|length }}
{% set xs=[] %}{{ xs.append('q') or '' }}{% set xs=[] %}{{ xs|join }}
{% set d={'a':'x'} %}{{ d.update(c='z') or '' }}{{ d[s] }}
{% set xs=['a'] %}{{ xs.append('z') or '' }}{{ xs }}
{% set xs=['a'] %}{{ xs.append('z') or '' }}{{ xs == ['a','z'] }}{{ 'z' in xs }}
{% set xs=['a'] %}{% filter upper %}{{ xs.append('z') or '' }}{{ xs|join }}{% endfilter %}{{ xs|join }}
{% set xs=['a'] %}{% set q %}{{ xs.append('z') or '' }}{{ xs|join }}{% endset %}{{ xs|join }}{{ q }}
{% set ns=namespace(a='x') %}{% with ns=namespace(a='y') %}{% set ns.a='z' %}{% endwith %}{{ ns.a }}
{% set xs=['a'] %}{% for xs in t %}{{ xs }}{% endfor %}{{ xs.append('q') or '' }}{{ xs|join }}
{% set xs=['a'] %}{% for v in t %}{% set xs = [v] %}{{ xs.append('q') or '' }}{{ xs|join }}{% endfor %}{{ xs|join }}
{% macro m(s) %}[{{ s }}]{% endmacro %}{{ m('q') }}{{ m(s) }}{{ s }}
{% macro m(t) %}{% for s in t %}{{ s }}{% endfor %}{{ s }}{% endmacro %}{{ m(['q']) }}{{ m(t) }}
{% macro m(a) %}{% set s = a %}{{ s }}{% endmacro %}{{ m('q') }}{{ s }}
{% macro m(a, c='d') %}{{ a }}{{ c }}{% endmacro %}{{ m() }}
{% macro m(a, c='d') %}{{ a is defined }}{{ c }}{% endmacro %}{{ m() }}{{ m(c=s) }}{{ m(none, none) }}
{% macro m(a) %}{{ a|default('z') }}{{ a is none }}{% endmacro %}{{ m(none) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(s)|upper }}{{ m(s)|length }}{{ m(s) == '' }}{{ 1 if m(s) else 0 }}
{% macro m(n) %}{{ n }}{% endmacro %}{% if k %}{{ m(s[5]) }}{% endif %}x
{% set ns=namespace(a='x') %}{% set ns.a, q = 'p', 'r' %}{{ ns.a }}{{ q }}
{% set xs=[] %}{% for v in t or [] if v %}{{ xs.append(loop.index) or '' }}{% endfor %}{{ xs|join }}{{ xs|sum }}
{% set ns=namespace(l=[]) %}{% for v in g or [] %}{% set ns.l = ns.l + v.z %}{% endfor %}x
{% set ns=namespace(a='') %}{% for v in t or [] %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a }}
{% set xs=[] %}{% if b %}{{ xs.append('q') or '' }}{% endif %}{{ xs|join }}{{ xs|length }}{{ xs is defined }}
{% set xs=[] %}{% if xs.append('q') %}{% elif b %}{{ xs.append(s) or '' }}{% endif %}{{ xs|join }}
{% set xs=[] %}{{ t|map('default', xs.append('q') or 'z')|join }}{{ xs|join }}
{{ labels|map('upper')|default('x')|join }}
{% for q in zip(labels, [1,2]) %}{{ q }}{% endfor %}
{{ dict(labels|zip(labels)) if false else 'x' }}
{% if labels|map('upper') %}y{% endif %}{{ (labels|map('upper')) is iterable }}
{{ (labels|map('upper')) is sequence }}
{{ 'BUG' in labels|map('upper') }}
{% set q = names|items|list %}{{ q }}
{% macro f(a) %}{{ a|join }}{% endmacro %}{{ f(t) }}{{ f(labels) }}{{ f([s,'a']) }}{{ f(t or []) }}
{% macro f(a=[]) %}{{ a.append('z') or '' }}{{ a|join }}{% endmacro %}{{ f() }}{{ f() }}{{ f(['q']) }}
{% macro f(a, n=1) %}{{ n }}{{ a }}{% endmacro %}{{ f(s, n=2) }}{{ f(n=k, a='x') }}{{ f('a' ~ s, k + 1) }}
{% macro f(n) %}{% set n.a = n.a ~ s %}{% endmacro %}{% set ns = namespace(a='') %}{{ f(ns) }}{{ f(ns) }}{{ ns.a }}
{% macro f(loop) %}{{ loop }}{% endmacro %}{% for v in ['a'] %}{{ f('q') }}{{ loop.index }}{% endfor %}
{% for v in t %}{% macro f() %}{{ loop.index }}{{ v }}{% endmacro %}{{ f() }}{% endfor %}
{% with %}{% macro f() %}1{% endmacro %}{{ f() }}{% endwith %}
{% macro f(s) %}{{ s }}{% set s = 'n' %}{{ s }}{% endmacro %}{{ f('a') }}{{ s }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(s)|upper|trim ~ f(k)|int + 1 if false else f(f(s)) }}
{% macro f(a) %}{% if a %}{{ a }}{% else %}none{% endif %}{% endmacro %}{{ f() }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1)|int + 1 }}{{ f(k)|int }}{{ f(s) == s }}{{ f(s) in ['x',''] }}
{% macro f(a) -%}  {{ a }}  {%- endmacro %}[{{ f(s) }}]
{% set xs = ['a'] %}{% set n = xs|length %}{{ xs.append('c') or '' }}{{ n }}{{ xs|length }}
{% set xs = ['a'] %}{% set j = xs|join %}{{ xs.append(s) or '' }}{{ j }}{{ xs|join }}
{% set d = {'a': 'x'} %}{% set e = d %}{{ e.update(a=s) or '' }}{{ d.a }}
{% set d = {'a': 'x'} %}{% if b %}{{ d.update(a=s) or '' }}{% else %}{{ d.update(a='e') or '' }}{% endif %}{{ d.a }}
{% set d = {'a': 'x', 'b': 'y'} %}{% for q in ['a','b'] %}{{ d.update({q: s}) or '' }}{% endfor %}{{ d.a }}{{ d.b }}
{% set d = {1: 'x'} %}{{ d.update({true: 'z'}) or '' }}{{ d[1] }}
{% set d = {'a': []} %}{{ d.a.append(s) or '' }}{{ d.a|join }}{{ d.a|length }}
{% set ns = namespace(d={'l': []}) %}{% for v in t or [] %}{{ ns.d.l.append(v) or '' }}{% endfor %}{{ ns.d.l|join }}
{% set ns = namespace(v=none) %}{% for v in m %}{% if v %}{% set ns.v = v %}{% endif %}{% endfor %}{{ ns.v }}
{% set ns = namespace(v=none) %}{% for v in g %}{% set ns.v = v %}{% endfor %}{{ ns.v.w }}
{% set ns = namespace(v=none) %}{% for v in g %}{% set ns.v = v.w %}{% endfor %}{{ ns.v }}
{% set ns = namespace(v='a') %}{% for v in t %}{% for w in m %}{% set ns.v = v %}{% endfor %}{% endfor %}{{ ns.v }}
{{ (range(k) or [])|join }}
{{ range(0) == [] }}
{{ (m or range(2)) == [] }}
{{ (range(k)|list + m)|join }}
{{ (t + ['z'])|join }}
{{ (s.split(',') + t)|join }}
{{ range(k)[k]|default(k) }}
{% if b %}{% macro f() %}1{% endmacro %}{{ f() }}{% endif %}{{ s }}
{% set t | upper %}{{ k }}{{ m[0] }}{% endset %}
{% set q | upper %}{{ k }}{{ m[0] }}{% endset %}x
{% set q %}{{ k }}{{ m[0] }}{% endset %}{% set r = q|upper|trim %}x
{% set ns=namespace(a=s or '') %}{% for v in t %}{% set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}
{{ ('' or 'abc')[k] or '' }}{% set ns = namespace(a=('' or 'abc')[k] or '', n=k or 0) %}{{ ns.a }}|{{ ns.n }}
{% set d = {'a': ['q']} %}{% set e = d.a %}{% do d.update(a=['r']) %}{% do e.append('z') %}{{ d.a|join }}{{ e|join }}
{% set d = {'a': 'x'} %}{% for k2 in ['a'] %}{% do d.update({k2: 'z'}) %}{% endfor %}{{ d.a }}{{ d['a'] }}
{% set d = {'a': 'x'} %}{% do d.update(a=d.a ~ 'y') %}{% do d.update({'a': d['a'] ~ 'z'}) %}{{ d.a }}
{% set d = {'a': 1} %}{% do d.update({'a': 2}, b=3) %}{{ d.a }}{{ d.b }}
{% set d = {'a': 1, 'a': 2} %}{% do d.update(b=3) %}{{ d.a }}
{% set xs = [[1], [2]] %}{% do xs.append([3]) %}{{ xs|length }}{{ xs[2][0] }}{{ xs }}
{% set xs = [s] %}{% set y = xs[0] %}{% do xs.append('q') %}{{ y }}{{ xs|join }}
{% set xs = ['p'] %}{% set j %}{{ xs|join }}{% endset %}{% do xs.append('q') %}{{ j }}{{ xs|join }}
{% set ns = namespace(c=0) %}{% macro m() %}{% set ns.c = ns.c + 1 %}x{% endmacro %}{{ m() ~ ns.c ~ m() ~ ns.c }}
{% set ns = namespace(c=0) %}{% macro m() %}{% set ns.c = ns.c + 1 %}x{% endmacro %}{{ [m(), ns.c, m(), ns.c]|join }}
{% macro m(a, a2=a) %}{{ a2 }}{% set a = 'z' %}{{ a }}{{ a2 }}{% endmacro %}{{ m(s) }}
{% macro m(a=s) %}{{ a }}{% endmacro %}{{ m() }}{{ m('q') }}{{ m(none) }}
{% set s = 'v' %}{% macro m() %}{{ s }}{% endmacro %}{{ m() }}
{% for v in t %}{% set w = v %}{% macro m() %}{{ w }}{% endmacro %}{{ m() }}{% endfor %}
{% for v in t %}{% if loop.first %}{% set w = 'f' %}{% endif %}{{ w is defined }}{% endfor %}
{% for v in ['a','c'] %}{% if loop.first %}{% set s = 'f' %}{% endif %}{{ s }}{% endfor %}{{ s }}
{% for v in t %}{% if loop.first %}{% set s = 'f' %}{% endif %}{{ s }}{% endfor %}{{ s }}
{% for s in t %}{{ s }}{% else %}{{ s }}{% endfor %}{{ s }}
{% for v in t %}{% for t in m %}{{ t }}{% endfor %}{{ v }}{% endfor %}{{ t|length }}
{% for t in t %}{{ t }}{% endfor %}{{ t|length }}
{% for v in t if v != s %}{{ loop.length }}{{ v }}{% endfor %}
{% set loop = 'x' %}{% for v in t %}{{ loop.index }}{% endfor %}{{ loop }}
{% with loop = 'x' %}{% for v in t %}{{ v }}{% endfor %}{{ loop }}{% endwith %}
{% for v in t %}{% for w in m %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% set x = 'a' %}{% with x = 'b', y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}
{% with a = 'p' %}{% set s = a %}{{ s }}{% endwith %}{{ s }}
{% set s = s|upper %}{{ s }}{% set s = s ~ s %}{{ s }}
{% if b %}{% set v %}{{ s }}{% endset %}{% else %}{% set v = 'e' %}{% endif %}{{ v }}
{% if b %}{% set v = s %}{% endif %}{{ v is defined }}{{ v|default('d') }}
{% for a, c in [('p', s), ('q', 'r')] %}{{ a }}{{ c }}{% endfor %}
{% set ns = namespace(a='') %}{% filter upper %}{% set ns.a = s or '' %}{% endfilter %}{{ ns.a }}
{% set ns = namespace(a=k) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{% set ns.a = 'x' %}{{ ns.a }}
{% set ns = namespace(a='') %}{% for v, w in zip(t, m) %}{% set ns.a = ns.a ~ v ~ w %}{% endfor %}{{ ns.a }}
{% set ns = namespace(a='') %}{% for v in range(k) %}{% set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}
{% set ns = namespace(a='') %}{% for v in t|sort %}{% set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}
{% set ns = namespace(a='') %}{% for v in t|select %}{% set ns.a = v %}{% endfor %}{{ ns.a }}
{% set ns = namespace(n=0) %}{% for v in m %}{% set ns.n = ns.n + v * loop.index %}{% endfor %}{{ ns.n }}
{% set ns = namespace(x=none) %}{% for v in t %}{% set ns.x = loop.last %}{% endfor %}{{ ns.x }}
{% set ns = namespace(x=1.5) %}{% for v in m %}{% set ns.x = v / 2 %}{% endfor %}{{ ns.x|round(1) }}
{{ 3 * 'ab' }}{{ [1] * 2 }}
{{ x9 if false else 'a' }}
{% macro m(a) %}{% set v = a %}{{ v }}{% endmacro %}{% for v in ['p'] %}{{ m(v) }}{% endfor %}
{% set q = [0, 4][k]|int(7) %}x
{% set q = names[s]|string %}x
{{ (names[s]|string) is defined }}{{ (names[s]|default('d')) is defined }}
{{ (names[s]|string)|default('d') }}
{% set q = m[5]|int %}x{% set q = [1.5, 2.5][k]|float %}y
{% set q = m[5]|abs %}x
{% set q = m[5]|round %}x
{{ ((s + '') ~ '') }}
{{ ('' + s) ~ '' }}{{ (s + '')|string }}
{% set q = s + '' %}{{ q ~ q }}
{{ 'nan'|float(1.5) }}{{ 'inf'|int }}
{{ ' NaN '|int }}
{{ (g|min(attribute='w')).w ~ 'x' }}{{ '%s'|format((g|max(attribute='w')).w) }}
{{ s.strip() in [] }}{{ g[0].w in [] }}
{{ names[(g|max(attribute='w')).w]|default('d') }}
""".strip().splitlines()


@pytest.mark.parametrize("template", SAME)
def test_what_changes_gives_what_jinja_renders(template: str) -> None:
    sql = se.prompt_sql(template, "duckdb", columns=COLUMNS, vars=VARS)
    columns = {"place": BIGINT, **{name: parse_type(kind) for name, kind in COLUMNS.items()}}
    with duckdb.connect() as db:
        fill_duckdb(db, "source", columns, [(place, *row) for place, row in enumerate(ROWS)])
        found = [text for (text,) in db.execute(f"SELECT {sql} FROM source ORDER BY place").fetchall()]
    assert found == [expected(template, row) for row in ROWS]


REFUSED = [
    (
        "{% set xs=['a'] %}{% set ys=['b'] %}{% set ns=namespace(a=['q']) %}{% for v in xs %}{% if b "
        "%}{% set ns.a = xs %}{% endif %}{% endfor %}{{ xs.append('z') or '' }}{{ ns.a|join }}",
        "copied",
    ),
    (
        "{% set ys=['a'] %}{% set xs=[ys] %}{{ ys.append('b') or '' }}{{ xs[0]|join }}",
        "copied",
    ),
    (
        "{% set xs=['a'] %}{% macro f(a=xs or ['q']) %}{{ xs.append('z') or '' }}{{ a|join }}{% endmacro %}{{ f() }}",
        "copied",
    ),
    (
        "{% macro f(a) %}{{ a|join }}{{ a|join }}{% endmacro %}{{ f(t|select) }}",
        "read only once",
    ),
    (
        "{% set d={'items':'a'} %}{{ d.items }}{{ d.update(c='x') or '' }}",
        "means a method",
    ),
    (
        "{% set ns={'a':'x'} %}{% set ns.a='y' %}{{ ns.a }}{{ ns.update(a='z') or '' }}",
        "is not a namespace",
    ),
    (
        "{% set xs=['a'] %}{% set xs.a='y' %}{{ xs.append('z') or '' }}{{ xs.a }}",
        "is not a namespace",
    ),
    (
        "{% set xs=['a'] %}{% set ys=['b'] %}{{ xs.append(ys) or '' }}{{ ys.append('z') or '' }}{{ xs[1]|join }}",
        "copied",
    ),
    (
        "{% set xs=['a'] %}{{ 1 if (k == 1 == (xs.append('z') or 1)) else 0 }}{{ xs|join }}",
        "that some rows do not evaluate",
    ),
    (
        "{% set xs=['a'] %}{{ xs[(xs.append('q') or -1)] }}",
        "in a statement that also reads",
    ),
    (
        "{% set xs=['a'] %}{{ (xs + [xs.append('q') or 'z'])|join }}",
        "in a statement that also reads",
    ),
    (
        "{% set xs=['a'] %}{{ xs|join(xs.append('q') or ',') }}",
        "in a statement that also reads",
    ),
    (
        "{% set xs=['a'] %}{{ [xs, xs.append('q')][0]|join }}",
        "in a statement that also reads",
    ),
    (
        "{% set xs=['a'] %}{% macro m() %}{{ xs.append('q') or '' }},{% endmacro %}{{ xs|join(m()) }}",
        "in a statement that also reads",
    ),
    (
        "{% set xs=['a'] %}{{ xs.append(xs) or '' }}{{ xs|length }}{{ xs[1]|length }}",
        "copied",
    ),
    (
        "{% set xs=['a'] %}{{ xs|join ~ (xs.append('b') or '') ~ xs|join }}",
        "in a statement that also reads",
    ),
    (
        "{% set ns=namespace(a=none) %}{% for v in t %}{% set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}",
        "may be None before",
    ),
    (
        "{% set ns=namespace(a=s) %}{% for v in t %}{% set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}",
        "may be None before",
    ),
    (
        "{% set ns=namespace(a=s) %}{% for v in t or [] %}{% set ns.a = ns.a + (v or '') %}{% endfor %}{{ ns.a }}",
        "may be None before",
    ),
    (
        "{% set ns=namespace(n=k) %}{% for v in t or [] %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
        "may be None before",
    ),
    (
        "{% set ns=namespace(n=k) %}{% for v in m %}{% set ns.n = ns.n + v %}{% endfor %}{{ ns.n }}",
        "may be None before",
    ),
    (
        "{% set ns=namespace(l=t) %}{% for v in m or [] %}{% set ns.l = ns.l + ['q'] %}{% endfor %}{{ ns.l is none }}",
        "may be None before",
    ),
    (
        "{% set d={'a':1} %}{% if b %}{{ d.update(c='x') or '' }}{% endif %}{{ d.c }}",
        "set for some rows",
    ),
    (
        "{% set ns=namespace() %}{% if b %}{% set ns.c='x' %}{% endif %}{{ ns.c }}",
        "set for some rows",
    ),
    (
        "{% set ns=namespace() %}{% if b %}{% set ns.c='x' %}{% endif %}{{ ns.c is defined }}",
        "set for some rows",
    ),
    (
        "{% set d={'a':'x'} %}{% for v in t %}{{ d.update(c=v) or '' }}{% endfor %}{{ d.c }}",
        "adds the entry",
    ),
    (
        "{% set ns=namespace() %}{% for v in t %}{% set ns.c=v %}{% endfor %}{{ ns.c }}",
        "adds the entry",
    ),
    (
        "{% set ns=namespace(a='') %}{% for v in t %}{% set ns.a='k' %}{% set ns.c=v %}{% endfor %}{{ ns.c }}",
        "adds the entry",
    ),
    (
        "{% set ns=namespace(a='') %}{% for v in t or [] %}{% set ns.a='k' %}{% set ns.c='v' %}{% endfor %}{{ ns.c }}",
        "adds the entry",
    ),
    (
        "{% set xs=['a'] %}{% for v in t if xs.append('q') or true %}{{ v }}{% endfor %}{{ xs|join }}",
        "that some rows do not evaluate",
    ),
    (
        "{% set xs=['a'] %}{% for v in [1,2] if (xs.append(v) or true) %}{{ xs|join }};{% endfor %}",
        "that some rows do not evaluate",
    ),
    (
        "{% set xs=['a'] %}{% macro m() %}{{ xs.append('q') or '' }}{% endmacro %}{% for v in t if m() "
        "== '' %}{{ v }}{% endfor %}{{ xs|join }}",
        "that some rows do not evaluate",
    ),
    (
        "{% macro c() %}1{% endmacro %}{% macro a() %}{{ c() }}{% endmacro %}{% macro c() %}2{% endmacro %}{{ a() }}",
        "set after it",
    ),
    (
        "{% set q='1' %}{% macro a() %}{{ q }}{% endmacro %}{% set q %}2{% endset %}{{ a() }}",
        "set after it",
    ),
    (
        "{% for v in ['a','b'] %}{% for w in loop %}{{ w }}{% endfor %}{% endfor %}",
        "a loop over",
    ),
    (
        "{% for v in ['a','b'] %}{{ loop|list|length }}{% endfor %}",
        "for every row",
    ),
    (
        "{% for v in ['a','b'] %}{{ 'index' in loop }}{% endfor %}",
        "a loop over",
    ),
    (
        "{% for v in ['a','b'] %}{{ loop.changed(v) }}{{ loop.depth }}{% endfor %}",
        "for every row",
    ),
    (
        "{% for v in ['a','b'] %}{{ loop.get('index') }}{% endfor %}",
        "for every row",
    ),
    (
        "{% for v in ['a','b'] %}{{ loop.keys()|length }}{% endfor %}",
        "for every row",
    ),
    (
        "{{ labels|map('upper') }}",
        "read only once",
    ),
    (
        "{{ labels|map('upper')|length }}",
        "for every row",
    ),
    (
        "{% set g = labels|map('upper') %}{{ g|join }}{{ g|join }}",
        "read only once",
    ),
    (
        "{{ (labels|map('upper'))[0] }}",
        "read only once",
    ),
    (
        "{{ labels|map('upper')|last }}",
        "for every row",
    ),
    (
        "{{ labels|reverse|length }}",
        "for every row",
    ),
    (
        "{{ (labels|reverse)[0] }}",
        "read only once",
    ),
    (
        "{{ labels|batch(1)|length }}",
        "for every row",
    ),
    (
        "{% macro m(a) %}{{ a|join }}{{ a|join }}{% endmacro %}{{ m(labels|map('upper')) }}",
        "read only once",
    ),
    (
        "{% for q in zip(labels, labels) %}{{ q[0] }}{% endfor %}{% set z = zip(labels,labels) %}{% for "
        "q in z %}1{% endfor %}{% for q in z %}2{% endfor %}",
        "read only once",
    ),
    (
        "{{ 'a'.upper }}",
        "printing a function",
    ),
    (
        "{{ labels.append }}",
        "printing a function",
    ),
    (
        "{% set xs=['a'] %}{{ xs.append('c') or '' }}{% if b %}{{ xs.__iadd__(['b'])|length }}{% endif "
        "%}{{ xs|length }}",
        "means a method",
    ),
    (
        "{% set xs=['a'] %}{% if b %}{% set ys=xs %}{% else %}{% set ys=['q'] %}{% endif %}{{ "
        "xs.append('z') or '' }}{{ ys|join }}",
        "copied",
    ),
    (
        "{% set xs=['a','c'] %}{% for v in xs %}{{ xs.append('z') or '' }}{% endfor %}{{ xs|join }}",
        "copied",
    ),
    (
        "{% set xs=['a','c'] %}{% for v in xs[:] %}{{ xs.append('z') or '' }}{% endfor %}{{ xs|join }}",
        "copied",
    ),
    (
        "{% set ns=namespace(l=[]) %}{% set xs=ns.l %}{% set ns.l = ns.l + ['z'] %}{{ xs.append('q') or "
        "'' }}{{ ns.l|join }}{{ xs|join }}",
        "copied",
    ),
    (
        "{% set ns=namespace(a='x') %}{% for v in t %}{% set ns.a = v %}{% endfor %}{% for v in t %}{% "
        "set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}",
        "may be None before",
    ),
    (
        "{% set xs=[] %}{{ xs.append('q') if b else '' }}{{ xs|join }}",
        "that some rows do not evaluate",
    ),
    (
        "{% set xs=[] %}{{ (b and xs.append('q')) or '' }}{{ xs|join }}",
        "that some rows do not evaluate",
    ),
    (
        "{% set xs=[] %}{% if b and not xs.append('q') %}{% endif %}{{ xs|join }}",
        "that some rows do not evaluate",
    ),
    (
        "{{ 1 in 5 }}",
        "for every row",
    ),
    (
        "{{ 1 < 'a' }}",
        "for every row",
    ),
    (
        "{% set z = [t|select, 'a'] %}{{ z[0]|join }}{{ z[0]|join }}",
        "read only once",
    ),
    (
        "{% set z = {'a': t|select, 'b': s} %}{{ z.a|join }}{{ z.a|join }}",
        "read only once",
    ),
    (
        "{{ [t|select]|first|join }}",
        "read only once",
    ),
    (
        "{{ (labels|map('upper'))[k] }}",
        "read only once",
    ),
    (
        "{{ labels|map('upper')|string }}",
        "for every row",
    ),
    (
        "{{ labels|map('upper') ~ 'x' }}",
        "read only once",
    ),
    (
        "{{ [labels|map('upper')]|length }}",
        "read only once",
    ),
    (
        "{% for a in labels %}{{ loop.cycle('x','y') }}{{ loop.revindex }}{{ loop }}{{ loop|length }}{% "
        "if loop %}t{% endif %}{{ loop.nextitem is defined }}{% endfor %}",
        "for every row",
    ),
    (
        "{% for a in labels %}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{% endfor %}",
        "for every row",
    ),
    (
        "{% for a in labels %}{% if not loop.first and a != loop.previtem %}n{% endif %}{% endfor %}",
        "for every row",
    ),
    (
        "{% macro f(n) %}{% set n.a = n.a ~ 'q' %}{% endmacro %}{% set ns = namespace(a='') %}{{ f(ns) "
        "if b else '' }}{{ ns.a }}",
        "that some rows do not evaluate",
    ),
    (
        "{% set xs = ['a'] %}{% set ys = xs + ['b'] %}{{ xs.append('c') or '' }}{{ ys|join }}{{ xs|join }}",
        "copied",
    ),
    (
        "{% set xs = ['a'] %}{% set d = {'l': {'m': xs}} %}{% set e = [d] %}{{ xs.append('z') or '' }}{{ "
        "e[0].l.m|join }}",
        "copied",
    ),
    (
        "{% set xs = [] %}{% for v in t or [] %}{% set xs = xs + [v] %}{% endfor %}{{ xs|join }}{{ "
        "xs.append('z') or '' }}",
        "copied",
    ),
    (
        "{{ (range(k) + [k])|join }}",
        "adding a list to a range or a tuple",
    ),
    (
        "{{ (m + range(3))|join }}",
        "adding a list to a range or a tuple",
    ),
    (
        "{{ ((1, 2) + m)|join }}",
        "adding a list to a range or a tuple",
    ),
    (
        "{{ ((k, 2) + [3])|join }}",
        "to a tuple",
    ),
    (
        "{{ range(k) == [] }}",
        "comparing a range",
    ),
    (
        "{{ ([] == range(k)[1:]) }}",
        "comparing a range",
    ),
    (
        "{% set ns = namespace(l=[]) %}{% for v in t or [] %}{% set ns.l = ns.l + range(2) %}{% endfor "
        "%}{{ ns.l|join }}",
        "for every row",
    ),
    (
        "{% set ns = namespace(l=[]) %}{% for v in t or [] %}{% set ns.l = ns.l + (v, 'a') %}{% endfor "
        "%}{{ ns.l|join }}",
        "to a tuple",
    ),
    (
        "{% set ns = namespace(l=(1,2)) %}{% for v in t or [] %}{% set ns.l = ns.l + [3] %}{% endfor %}{{ ns.l|join }}",
        "for every row",
    ),
    (
        "{% set ns = namespace(l=range(2)) %}{% for v in t or [] %}{% set ns.l = ns.l + [3] %}{% endfor "
        "%}{{ ns.l|join }}",
        "for every row",
    ),
    (
        "{% set xs = [s] %}{% set ys = xs|map('upper')|list %}{% do xs.append('q') %}{{ ys|join }}{{ xs|join }}",
        "copied",
    ),
    (
        "{% set xs = ['p'] %}{% macro m(a) %}{% do xs.append('q') %}{{ a|join }}{% endmacro %}{{ m(xs) "
        "}}{{ m(xs|list) }}",
        "in a statement that also reads",
    ),
    (
        "{% set xs = ['p'] %}{% macro m(a) %}{% for v in a %}{% do xs.append('q') %}{% endfor %}{% "
        "endmacro %}{{ m(xs) }}",
        "copied",
    ),
    (
        "{% set xs = ['p'] %}{% macro m(a) %}{{ a }}{% do xs.append('q') %}{% endmacro %}{{ m(xs|length) "
        "}}{{ m(xs|length) }}",
        "in a statement that also reads",
    ),
    (
        "{% set ns = namespace(c=0) %}{% macro m(x) %}{% set ns.c = ns.c + 1 %}{{ x }}{% endmacro %}{{ "
        "m(s) or m('q') }}{{ ns.c }}",
        "that some rows do not evaluate",
    ),
    (
        "{% macro m(a=b) %}{{ a }}{% endmacro %}{% with b = 'w' %}{{ m() }}{% endwith %}",
        "set after it",
    ),
    (
        "{% macro m() %}{{ s }}{% endmacro %}{% with s = 'w' %}{{ m() }}{% endwith %}",
        "set after it",
    ),
    (
        "{% macro m() %}{{ s }}{% endmacro %}{% for s in ['w'] %}{{ m() }}{% endfor %}",
        "set after it",
    ),
    (
        "{{ none.x }}",
        "for every row",
    ),
    (
        "{% macro m(a) %}{{ v }}{% for v in a %}{{ v }}{% endfor %}{% endmacro %}{% for v in ['p'] %}{{ "
        "m(t) }}{% endfor %}",
        "set after it",
    ),
    (
        "{% macro m(a) %}{% set v = v %}{{ v }}{% endmacro %}{% for v in ['p'] %}{{ m(v) }}{% endfor %}",
        "set after it",
    ),
    (
        "{% macro m(a) %}{% macro o() %}{{ v }}{% endmacro %}{{ o() }}{% endmacro %}{% set v = 'p' %}{{ m(1) }}",
        "set after it",
    ),
    (
        "{% macro m(a) %}{% for a in [1] %}{{ a }}{% endfor %}{{ s }}{% endmacro %}{% for s in ['p'] "
        "%}{{ m(1) }}{% endfor %}",
        "set after it",
    ),
    (
        "{% macro m(a=v) %}{{ a }}{% endmacro %}{% set v = 'p' %}{{ m(1) }}{{ m() }}",
        "set after it",
    ),
    (
        "{% macro m() %}{% if false %}{{ v }}{% endif %}x{% endmacro %}{% set v = 'p' %}{{ m() }}",
        "set after it",
    ),
    (
        "{% macro m() %}{{ loop.index }}{% endmacro %}{% for loop in ['p'] %}{{ m() }}{% endfor %}",
        "set after it",
    ),
]


@pytest.mark.parametrize(("template", "why"), REFUSED)
def test_what_no_engine_could_follow_is_refused(template: str, why: str) -> None:
    with pytest.raises(se.PromptError, match=why):
        se.prompt_sql(template, "duckdb", columns=COLUMNS, vars=VARS)


@pytest.mark.parametrize("text", ["nan", " NaN ", "INF", "infinity\n", "-inf", "infinit", "n"])
def test_a_text_that_python_reads_as_no_finite_number_is_not_given_the_default(text: str) -> None:
    template = "{{ s|float(1.5) > 0 }}"
    sql = se.prompt_sql(template, "duckdb", columns=COLUMNS)
    with duckdb.connect() as db:
        (found,) = db.execute(f"SELECT {sql} FROM (SELECT ? AS s)", [text]).fetchone() or ("",)
    assert found in (None, se.render_prompt(template, {"s": text}))
    assert (found is None) == (("inf" in text.lower() and text != "infinit") or "nan" in text.lower())

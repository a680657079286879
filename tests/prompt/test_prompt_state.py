"""Templates that change lists, mappings and namespaces, and macros: what Jinja renders, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

import sqlenrich as se
from tests.support.prompt_table import PromptTable

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


@pytest.fixture(scope="module")
def table() -> PromptTable:
    return PromptTable(COLUMNS, [dict(zip(COLUMNS, row, strict=True)) for row in ROWS], VARS)


@pytest.mark.parametrize("template", SAME)
def test_what_changes_gives_what_jinja_renders(table: PromptTable, template: str) -> None:
    assert table.by_sql(template) == table.by_jinja(template)


REFUSED: dict[str, str] = {
    "copied": r"""
{% set xs=['a'] %}{% set ys=['b'] %}{% set ns=namespace(a=['q']) %}{% for v in xs %}{% if b %}{% set ns.a = xs %}{% endif %}{% endfor %}{{ xs.append('z') or '' }}{{ ns.a|join }}
{% set ys=['a'] %}{% set xs=[ys] %}{{ ys.append('b') or '' }}{{ xs[0]|join }}
{% set xs=['a'] %}{% macro f(a=xs or ['q']) %}{{ xs.append('z') or '' }}{{ a|join }}{% endmacro %}{{ f() }}
{% set xs=['a'] %}{% set ys=['b'] %}{{ xs.append(ys) or '' }}{{ ys.append('z') or '' }}{{ xs[1]|join }}
{% set xs=['a'] %}{{ xs.append(xs) or '' }}{{ xs|length }}{{ xs[1]|length }}
{% set xs=['a'] %}{% if b %}{% set ys=xs %}{% else %}{% set ys=['q'] %}{% endif %}{{ xs.append('z') or '' }}{{ ys|join }}
{% set xs=['a','c'] %}{% for v in xs %}{{ xs.append('z') or '' }}{% endfor %}{{ xs|join }}
{% set xs=['a','c'] %}{% for v in xs[:] %}{{ xs.append('z') or '' }}{% endfor %}{{ xs|join }}
{% set ns=namespace(l=[]) %}{% set xs=ns.l %}{% set ns.l = ns.l + ['z'] %}{{ xs.append('q') or '' }}{{ ns.l|join }}{{ xs|join }}
{% set xs = ['a'] %}{% set ys = xs + ['b'] %}{{ xs.append('c') or '' }}{{ ys|join }}{{ xs|join }}
{% set xs = ['a'] %}{% set d = {'l': {'m': xs}} %}{% set e = [d] %}{{ xs.append('z') or '' }}{{ e[0].l.m|join }}
{% set xs = [] %}{% for v in t or [] %}{% set xs = xs + [v] %}{% endfor %}{{ xs|join }}{{ xs.append('z') or '' }}
{% set xs = [s] %}{% set ys = xs|map('upper')|list %}{% do xs.append('q') %}{{ ys|join }}{{ xs|join }}
{% set xs = ['p'] %}{% macro m(a) %}{% for v in a %}{% do xs.append('q') %}{% endfor %}{% endmacro %}{{ m(xs) }}
""",  # noqa: E501
    "read only once": r"""
{% macro f(a) %}{{ a|join }}{{ a|join }}{% endmacro %}{{ f(t|select) }}
{{ labels|map('upper') }}
{% set g = labels|map('upper') %}{{ g|join }}{{ g|join }}
{{ (labels|map('upper'))[0] }}
{{ (labels|reverse)[0] }}
{% macro m(a) %}{{ a|join }}{{ a|join }}{% endmacro %}{{ m(labels|map('upper')) }}
{% for q in zip(labels, labels) %}{{ q[0] }}{% endfor %}{% set z = zip(labels,labels) %}{% for q in z %}1{% endfor %}{% for q in z %}2{% endfor %}
{% set z = [t|select, 'a'] %}{{ z[0]|join }}{{ z[0]|join }}
{% set z = {'a': t|select, 'b': s} %}{{ z.a|join }}{{ z.a|join }}
{{ [t|select]|first|join }}
{{ (labels|map('upper'))[k] }}
{{ labels|map('upper') ~ 'x' }}
{{ [labels|map('upper')]|length }}
""",  # noqa: E501
    "means a method": r"""
{% set d={'items':'a'} %}{{ d.items }}{{ d.update(c='x') or '' }}
{% set xs=['a'] %}{{ xs.append('c') or '' }}{% if b %}{{ xs.__iadd__(['b'])|length }}{% endif %}{{ xs|length }}
""",
    "is not a namespace": r"""
{% set ns={'a':'x'} %}{% set ns.a='y' %}{{ ns.a }}{{ ns.update(a='z') or '' }}
{% set xs=['a'] %}{% set xs.a='y' %}{{ xs.append('z') or '' }}{{ xs.a }}
""",
    "that some rows do not evaluate": r"""
{% set xs=['a'] %}{{ 1 if (k == 1 == (xs.append('z') or 1)) else 0 }}{{ xs|join }}
{% set xs=['a'] %}{% for v in t if xs.append('q') or true %}{{ v }}{% endfor %}{{ xs|join }}
{% set xs=['a'] %}{% for v in [1,2] if (xs.append(v) or true) %}{{ xs|join }};{% endfor %}
{% set xs=['a'] %}{% macro m() %}{{ xs.append('q') or '' }}{% endmacro %}{% for v in t if m() == '' %}{{ v }}{% endfor %}{{ xs|join }}
{% set xs=[] %}{{ xs.append('q') if b else '' }}{{ xs|join }}
{% set xs=[] %}{{ (b and xs.append('q')) or '' }}{{ xs|join }}
{% set xs=[] %}{% if b and not xs.append('q') %}{% endif %}{{ xs|join }}
{% macro f(n) %}{% set n.a = n.a ~ 'q' %}{% endmacro %}{% set ns = namespace(a='') %}{{ f(ns) if b else '' }}{{ ns.a }}
{% set ns = namespace(c=0) %}{% macro m(x) %}{% set ns.c = ns.c + 1 %}{{ x }}{% endmacro %}{{ m(s) or m('q') }}{{ ns.c }}
""",  # noqa: E501
    "in a statement that also reads": r"""
{% set xs=['a'] %}{{ xs[(xs.append('q') or -1)] }}
{% set xs=['a'] %}{{ (xs + [xs.append('q') or 'z'])|join }}
{% set xs=['a'] %}{{ xs|join(xs.append('q') or ',') }}
{% set xs=['a'] %}{{ [xs, xs.append('q')][0]|join }}
{% set xs=['a'] %}{% macro m() %}{{ xs.append('q') or '' }},{% endmacro %}{{ xs|join(m()) }}
{% set xs=['a'] %}{{ xs|join ~ (xs.append('b') or '') ~ xs|join }}
{% set xs = ['p'] %}{% macro m(a) %}{% do xs.append('q') %}{{ a|join }}{% endmacro %}{{ m(xs) }}{{ m(xs|list) }}
{% set xs = ['p'] %}{% macro m(a) %}{{ a }}{% do xs.append('q') %}{% endmacro %}{{ m(xs|length) }}{{ m(xs|length) }}
""",
    "may be None before": r"""
{% set ns=namespace(a=none) %}{% for v in t %}{% set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}
{% set ns=namespace(a=s) %}{% for v in t %}{% set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}
{% set ns=namespace(a=s) %}{% for v in t or [] %}{% set ns.a = ns.a + (v or '') %}{% endfor %}{{ ns.a }}
{% set ns=namespace(n=k) %}{% for v in t or [] %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}
{% set ns=namespace(n=k) %}{% for v in m %}{% set ns.n = ns.n + v %}{% endfor %}{{ ns.n }}
{% set ns=namespace(l=t) %}{% for v in m or [] %}{% set ns.l = ns.l + ['q'] %}{% endfor %}{{ ns.l is none }}
{% set ns=namespace(a='x') %}{% for v in t %}{% set ns.a = v %}{% endfor %}{% for v in t %}{% set ns.a = ns.a ~ v %}{% endfor %}{{ ns.a }}
""",  # noqa: E501
    "set for some rows": r"""
{% set d={'a':1} %}{% if b %}{{ d.update(c='x') or '' }}{% endif %}{{ d.c }}
{% set ns=namespace() %}{% if b %}{% set ns.c='x' %}{% endif %}{{ ns.c }}
{% set ns=namespace() %}{% if b %}{% set ns.c='x' %}{% endif %}{{ ns.c is defined }}
""",
    "adds the entry": r"""
{% set d={'a':'x'} %}{% for v in t %}{{ d.update(c=v) or '' }}{% endfor %}{{ d.c }}
{% set ns=namespace() %}{% for v in t %}{% set ns.c=v %}{% endfor %}{{ ns.c }}
{% set ns=namespace(a='') %}{% for v in t %}{% set ns.a='k' %}{% set ns.c=v %}{% endfor %}{{ ns.c }}
{% set ns=namespace(a='') %}{% for v in t or [] %}{% set ns.a='k' %}{% set ns.c='v' %}{% endfor %}{{ ns.c }}
""",
    "set after it": r"""
{% macro c() %}1{% endmacro %}{% macro a() %}{{ c() }}{% endmacro %}{% macro c() %}2{% endmacro %}{{ a() }}
{% set q='1' %}{% macro a() %}{{ q }}{% endmacro %}{% set q %}2{% endset %}{{ a() }}
{% macro m(a=b) %}{{ a }}{% endmacro %}{% with b = 'w' %}{{ m() }}{% endwith %}
{% macro m() %}{{ s }}{% endmacro %}{% with s = 'w' %}{{ m() }}{% endwith %}
{% macro m() %}{{ s }}{% endmacro %}{% for s in ['w'] %}{{ m() }}{% endfor %}
{% macro m(a) %}{{ v }}{% for v in a %}{{ v }}{% endfor %}{% endmacro %}{% for v in ['p'] %}{{ m(t) }}{% endfor %}
{% macro m(a) %}{% set v = v %}{{ v }}{% endmacro %}{% for v in ['p'] %}{{ m(v) }}{% endfor %}
{% macro m(a) %}{% macro o() %}{{ v }}{% endmacro %}{{ o() }}{% endmacro %}{% set v = 'p' %}{{ m(1) }}
{% macro m(a) %}{% for a in [1] %}{{ a }}{% endfor %}{{ s }}{% endmacro %}{% for s in ['p'] %}{{ m(1) }}{% endfor %}
{% macro m(a=v) %}{{ a }}{% endmacro %}{% set v = 'p' %}{{ m(1) }}{{ m() }}
{% macro m() %}{% if false %}{{ v }}{% endif %}x{% endmacro %}{% set v = 'p' %}{{ m() }}
{% macro m() %}{{ loop.index }}{% endmacro %}{% for loop in ['p'] %}{{ m() }}{% endfor %}
""",
    "a loop over": r"""
{% for v in ['a','b'] %}{% for w in loop %}{{ w }}{% endfor %}{% endfor %}
{% for v in ['a','b'] %}{{ 'index' in loop }}{% endfor %}
""",
    "for every row": r"""
{% for v in ['a','b'] %}{{ loop|list|length }}{% endfor %}
{% for v in ['a','b'] %}{{ loop.changed(v) }}{{ loop.depth }}{% endfor %}
{% for v in ['a','b'] %}{{ loop.get('index') }}{% endfor %}
{% for v in ['a','b'] %}{{ loop.keys()|length }}{% endfor %}
{{ labels|map('upper')|length }}
{{ labels|map('upper')|last }}
{{ labels|reverse|length }}
{{ labels|batch(1)|length }}
{{ 1 in 5 }}
{{ 1 < 'a' }}
{{ labels|map('upper')|string }}
{% for a in labels %}{{ loop.cycle('x','y') }}{{ loop.revindex }}{{ loop }}{{ loop|length }}{% if loop %}t{% endif %}{{ loop.nextitem is defined }}{% endfor %}
{% for a in labels %}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{% endfor %}
{% for a in labels %}{% if not loop.first and a != loop.previtem %}n{% endif %}{% endfor %}
{% set ns = namespace(l=[]) %}{% for v in t or [] %}{% set ns.l = ns.l + range(2) %}{% endfor %}{{ ns.l|join }}
{% set ns = namespace(l=(1,2)) %}{% for v in t or [] %}{% set ns.l = ns.l + [3] %}{% endfor %}{{ ns.l|join }}
{% set ns = namespace(l=range(2)) %}{% for v in t or [] %}{% set ns.l = ns.l + [3] %}{% endfor %}{{ ns.l|join }}
{{ none.x }}
""",  # noqa: E501
    "printing a function": r"""
{{ 'a'.upper }}
{{ labels.append }}
""",
    "adding a list to a range or a tuple": r"""
{{ (range(k) + [k])|join }}
{{ (m + range(3))|join }}
{{ ((1, 2) + m)|join }}
""",
    "to a tuple": r"""
{{ ((k, 2) + [3])|join }}
{% set ns = namespace(l=[]) %}{% for v in t or [] %}{% set ns.l = ns.l + (v, 'a') %}{% endfor %}{{ ns.l|join }}
""",
    "comparing a range": r"""
{{ range(k) == [] }}
{{ ([] == range(k)[1:]) }}
""",
}
"""A part of each error, and the templates that raise it."""


@pytest.mark.parametrize(
    ("template", "why"), [(t, why) for why, templates in REFUSED.items() for t in templates.strip().splitlines()]
)
def test_what_no_engine_could_follow_is_refused(template: str, why: str) -> None:
    with pytest.raises(se.PromptError, match=why):
        se.prompt_sql(template, "duckdb", columns=COLUMNS, vars=VARS)


@pytest.mark.parametrize("text", ["nan", " NaN ", "INF", "infinity\n", "-inf", "infinit", "n"])
def test_a_text_that_python_reads_as_no_finite_number_is_not_given_the_default(text: str) -> None:
    table = PromptTable({"s": "string"}, [{"s": text}])
    found, expected = table.by_sql("{{ s|float(1.5) > 0 }}"), table.by_jinja("{{ s|float(1.5) > 0 }}")
    assert found in ([None], expected)
    assert (found == [None]) == (("inf" in text.lower() and text != "infinit") or "nan" in text.lower())

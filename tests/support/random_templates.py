"""Random prompts and rows: a grammar of every construct that is compiled, as a table of rules by type.

A rule is a pattern of Jinja with holes: ``"(<text>|trim)"`` under ``text``. A new construct is one more pattern.
Words after a hole's kind say what its inside may read: ``<body loop person>`` may use ``loop`` and ``p``.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.support.hostile import TEXTS

COLUMNS: dict[str, Any] = {
    "body": "string",
    "other": "string",
    "n": "bigint",
    "k": "bigint",
    "flag": "boolean",
    "day": "date",
    "info": {
        "struct": {
            "name": "string",
            "age": "bigint",
            "ok": "boolean",
            "born": "date",
            "home": {"struct": {"city": "string"}},
            "pets": {"array": "string"},
        }
    },
    "tags": {"array": "string"},
    "more": {"array": "string"},
    "nums": {"array": "bigint"},
    "flags": {"array": "boolean"},
    "days": {"array": "date"},
    "people": {"array": {"struct": {"name": "string", "age": "bigint", "pets": {"array": "string"}}}},
    "grid": {"array": {"array": "bigint"}},
    "x1": "string",
    "x": "double",
    "y": "double",
    "ratios": {"array": "double"},
    "price": "decimal(9,2)",
    "seen": "timestamp",
}
VARS: dict[str, Any] = {
    "labels": ["bug", "it's", "é😀"],
    "names": {"a": "Anna", "": "none", "None": "\\n"},
    "numbers": {0: "zero", -1: "minus", 2: "two"},
}

# The reasons for which an engine may give NULL instead of a text, as docs/prompts.md says, and the engines.
ALL = frozenset({"duckdb", "bigquery", "spark", "snowflake"})
MAY_BE_NULL = {
    "case": frozenset({"duckdb", "snowflake"}),  # rare letters
    "title": ALL,  # rare first letters
    "int": ALL,  # odd texts
    "early": ALL,  # an element that fails though Jinja stops before it
    "overflow": ALL,  # beyond 64 bits
    "blank": ALL,  # other uses of an `if` without `else` than printing it
    "digits": ALL,  # doubles of over 15 digits, NaN and infinities printed
    "infinity": frozenset({"bigquery"}),  # whose operators give none
    "keys": ALL,  # None among sort keys
    "undefined": ALL,  # an undefined element or index of a list literal
}


class Rule(NamedTuple):
    """A pattern, the variables that it reads, and the reason for which an engine may give NULL."""

    pattern: str
    needs: str = ""
    null: str = ""


def needing(needs: str, *patterns: str) -> list[Rule]:
    """Rules that read what only some places have."""
    return [Rule(pattern, needs=needs) for pattern in patterns]


def cautious(null: str, *patterns: str) -> list[Rule]:
    """Rules for which NULL instead of a text is documented."""
    return [Rule(pattern, null=null) for pattern in patterns]


GRAMMAR: dict[str, list[str | Rule]] = {
    "text": [
        "body", "'a'", "''", "other", "x1", "info.name", "info['name']", "info.home.city", "t", "'É b😀'", '"it\'s"',
        "labels[0]", "names.a", *needing("person", "p.name", "p['name']"),
        *needing("loop", "(loop.previtem|default('-'))|string", "(loop.nextitem|default('-', true))|string"),
        *needing("cycle", "loop.cycle('a', 'b')"), "(<text>|trim)", "(<text>|trim(' a'))", "(<text>|string)",
        "(<number>|string)", "(<boolean>|string)", "(<date>|string)", "(<text>|replace('a', <text>))",
        "(<text>|replace(\"'\", '\\\\'))",
        *cautious("case", "(<text>|upper)", "(<text>|lower)", "(<text> or '').upper()", "(<text> or '').lower()"),
        *cautious("title", "(<text>|capitalize)", "(<text> or '').capitalize()"), "(<text>|default(<text>))",
        "(<text>|default(<text>, true))", "(<text>|d('d', boolean=true))", "(<text> or 'z').strip()",
        "(<text> or 'z').lstrip(' a')", "(<text> or 'z').rstrip()", "(body or '').strip('')",
        "(<text> or 'z').replace('a', 'bc')", "(<text> or '').replace('b', other or '')", "<text>[:<bound>]",
        "<text>[<bound>:]", "<text>[<bound>:<bound>]", "(<text> or '')[<bound>:<bound>]", "(<text> or 'abc')[<index>]",
        "(<text> ~ <text>)", "(<text> ~ <number> ~ <boolean>)", "((<text> or '') + (<text> or ''))",
        "(<text> if <test> else <text>)", "(<text> or <text>)", "(<text> and <text>)",
        *cautious("blank", "(<text> if <test>)"), "['p', <text>, 'q'][<index>]",
        *cautious("undefined", "[<text>, <text>][<boolean>]"), "[<text>, <text>]|first", "[<text>, <text>]|last",
        "{'a': <text>, 'b': <text>}[<text>]", "{'a': <text>}.a", "({'a': <text>, '': 'e'}[<text>]|default(<text>))",
        "labels[<index>]", "names[<text>]", "numbers[<number>]", "(numbers[<number>]|default('d'))", "(<array>|join)",
        "(<array>|join(', '))", "(<array>|join(<text>))", "(<array>|join(k))", "(<people>|join(';', attribute='name'))",
        "(<people>|join('', 'age'))", "', '.join(<texts>)", "'-'.join([<text>, <text>])",
        "([<text>, <number>]|join('-'))", "<texts>[<index>]", "(<texts>[<index>]|default(<text>))",
        "(<texts>[<index>]|default('d', true))", "(<texts>|first)", "(<texts>|last)", "(<texts>|first|default('d'))",
        "(<texts>|last|default(<text>, true))", "<people>[<index>].name", "(<people>[<index>].name|default('d'))",
        "(<people>|first).name", "<people>[<index>]['pets'][<index>]", "(<text>|truncate(5))",
        "(<text>|truncate(4, true))", "(<text>|truncate(6, false, '-'))", "(<text>|truncate(3, true, '', 0))",
        "(<text>|replace(<text>, <text>))", "(<text> or '').replace(<text> or 'a', 'y')",
        "('%s-%d' % (<text>, <number>))", "('%s|%s%%' % (<text>, <boolean>))", "('%s'|format(<text>))",
        "('%d.'|format(<number>))", "('{1}{0}'.format(<text>, <number>))", "('{} {a}'.format(<text>, a=<date>))",
        *cautious("digits",
            "('%.1f'|format(<double>))", "('%.3f' % <double>)", "('{:.2f} {}'.format(<double>, <text>))",
            "(<double>|round(2)|string)", "(<double>|round(1) ~ <text>)"),
        "(<decimal>|string)", "(<stamp>|string)", "(<decimal> ~ <stamp>)",
        *cautious("undefined",
            "([<text>, <text>]|select|join('-'))", "([<text>, <text>]|reject('none')|join)",
            "([<text>, <text>]|map('default', 'z', true)|join('-'))", "([<text>, 'b', <text>]|map('trim')|join)"),
        *cautious("case keys undefined",
            "([<text>, 'b', <text>]|unique|join)", "([<text>, 'B']|sort|join)", "(<texts>|min)", "(<texts>|max)",
            "(<people>|min(attribute='name')).name", "(<people>|max(attribute='age')).name"),
        *needing("state !loop", "ns.a", "dd.v", "dd['w']", "(xs|join)", "(xs|last)", "xs[<index>]", "(ys|join)"),
    ],
    "number": [
        "k", "0", "1", "n", "(-2)", "2", "u", "info.age", "info['age']", "nums[0]", "9223372036854775807",
        *needing("person", "p.age"),
        *needing("loop", "loop.index", "loop.index0", "loop.revindex", "loop.revindex0", "loop.length"),
        *cautious("overflow",
            "(<number> + <number>)", "(<number> - <number>)", "(<number> * <number>)", "(-<number>)", "(<number>|abs)"),
        "(+<number>)", "(<texts>|length)", "(<numbers>|count)", "(<people>|length)", "(<text>|string|length)",
        "(<number>|int)", "(<boolean>|int)", "(<number>|int(7))", *cautious("int", "(<text>|int)", "(<text>|int(-1))"),
        "(<number> if <test> else <number>)", "(<number> or <number>)", "(<number>|default(<number>))",
        "(<number>|default(5, true))", "([<number>, <number>]|min)", "([k, <number>, 2]|max)", "<numbers>[<index>]",
        "(<numbers>[<index>]|default(<number>))", "(<numbers>|first)", "(<numbers>|last)",
        "(<numbers>|last|default(9))", "<people>[<index>].age", "[<number>, 4][<index>]",
        "{'a': <number>, 'b': 7}[<text>]", "<texts>.index(<text>)", "<numbers>.index(<number>)",
        "(<text> or 'a').index('a')", "(<text> or '').find('a')", "(<number> % 3)", "(<number> // 2)",
        "(<number> % -4)", "(<number> // -7)", "['a', 'b', ''].index(<text>)", "[0, 1, -1].index(<number>)",
        *cautious("overflow", "(<numbers>|sum)", "(<people>|sum(attribute='age'))"),
        *cautious("keys", "(<numbers>|min)", "(<numbers>|max)", "(<people>|max(attribute='age')).age"),
        *cautious("int",
            "(<double>|int)", "(<double>|round|int)", "(<decimal>|int)", "(<double>|round(0, 'ceil')|int)"),
        *needing("state !loop", "(xs|length)", "ns.n"),
        *needing("nested", "grid[<index>][<index>]", "(grid[<index>]|length)"),
    ],
    "index": [
        "k", "0", "1", "-1", "2", "-3", "n", *needing("loop", "loop.index0"), "<number>", "<number>",
    ],
    "bound": [
        "1", "k", "-1", "2", "-3", "0", "n", "none", "info.age", *needing("loop", "loop.index"), "<number>",
    ],
    "boolean": [
        "flag", "true", "info.ok", "b", *needing("loop", "loop.first", "loop.last"), "(<text> == <text>)",
        "(<text> != <text>)", "(<text> == 'a')", "(<text> == none)", "(<text> is none)", "(<text> is not none)",
        "(<number> is none)", "(<text> == <number>)", "(<boolean> == true)", "(<boolean> != flag)",
        "(<number> == <number>)", "(<number> != <number>)", "(<number> == 1)", "(<date> == day)", "(<date> is none)",
        "(<text> < <text>)", "((<text> or '') >= (<text> or ''))", "(<number> < <number>)", "((k or 0) >= <number>)",
        "(-2 < <number> <= 3)", "(day < <date>)", "(<number> is gt 1)", "(<number> is eq <number>)",
        "(<text> is in labels)", "(<text> in ['a', '', other])", "(<text> in ['a', 'b'])", "(<text> not in labels)",
        "(<number> in [1, n, none])", "(<number> not in [0, 2])", "('a' in (<text> or ''))", "(<text> in (body or ''))",
        "(<text> in names)", "(<text> in <texts>)", "(<text> not in <texts>)", "(<number> in <numbers>)",
        "(none in <texts>)", "(true in flags)", "(day in days)", "('a' in nums)", "(<text> in <lazy_texts>)",
        "(not <test>)", "(flag and <boolean>)", "(<boolean> or <boolean>)", "(<boolean> if <test> else <boolean>)",
        "(<array> == [])", "([] != <array>)", "(<text> is defined)", "(<texts>[<index>] is defined)",
        "(<people>[<index>].name is undefined)", "(<numbers>[<index>] is undefined)", "(<texts>[<index>] is none)",
        "((<text> or '').startswith('a'))", "((<text> or '').startswith(('b', '')))",
        "((<text> or '').endswith(other or ''))", "flags[<index>]", "(flags|first)", "(flags[<index>]|default(false))",
        "info is none", "(<people>[<index>] is none)", "(<number> is divisibleby(3))", "(<number> is even)",
        "(<number> is odd)", "(<double> < <double>)", "(<double> == <double>)", "(<double> != <double>)",
        "(<double> > 0.5)", "(<double> <= 2)", "(<double> == 0)", "(<double> is none)", "(<number> < 1.5)",
        "(<number> == 2.0)", "(<decimal> < 10)", "(<decimal> == 19.5)", "(<decimal> >= <decimal>)",
        "(<stamp> < <stamp>)", "(<stamp> == seen)",
        *needing("state !loop", "ns.f", "(<text> in xs)", "(ns.a == dd.v)", "(xs|length > 1)"),
    ],
    "double": [
        "x", "0.5", "y", "2.0", "ratios[0]", "ratios[<index>]", "(ratios|first)",
        *cautious("infinity",
            "(<double> + <double>)", "(<double> - <double>)", "(<double> * <double>)", "(<double> / 3)"),
        *cautious("overflow", "(<number> / 4)", "(<number> / 3)", "(<number> * 0.5)", "(<number>|float)"),
        *cautious("digits",
            "(<double>|round)", "(<double>|round(1))", "(<double>|round(2))", "(<double>|round(3))",
            "(<double>|round(4))", "(<double>|round(0, 'floor'))", "(<double>|round(0, 'ceil'))",
            "(<double>|round(1) / 5)"),
        *cautious("int", "(<text>|float)", "(<text>|float(1.5))"), "(<double>|float)", "(<double>|abs)", "(-<double>)",
        "(<double> or 0.5)", "(<double> if <test> else <double>)", "(<double>|default(0.5, true))",
    ],
    "decimal": [
        "price", "(<decimal> if <test> else <decimal>)", "(<decimal> or price)",
    ],
    "stamp": [
        "seen", "(<stamp> if <test> else <stamp>)", "(<stamp> or seen)",
    ],
    "test": [
        "flag", "body", "k", "tags", "info", "day", "n", "people", "b", "t", *needing("person", "p", "p.pets"),
        *needing("loop", "not loop.last", "loop.first"), "<boolean>", "<boolean>", "<boolean>", "<text>", "<number>",
        "<array>", "<double>", "<decimal>", "<stamp>", *needing("state !loop", "xs", "ns.a", "ys"), "not <test>",
        "<test> and <test>", "(<test> or <test>)",
    ],
    "date": [
        "day", "info.born", "days[0]", "days[<index>]", "(days|first)", "(days|last)", "(<date> if <test> else <date>)",
        "(<date> or day)", "(<date>|default(day, true))",
    ],
    "array": [
        "flags", "days", "<texts>", "<texts>", "<numbers>", "days[<bound>:<bound>]",
        *needing("nested", "grid[<index>]"),
    ],
    "texts": [
        "tags", "more", "info.pets", *needing("person", "p.pets"), "(body or '').split(',')",
        "(<text> or 'a').split('a')", "(<text> or '').split(', ')", "<texts>[<bound>:<bound>]", "<texts>[:<bound>]",
        "(<texts>|list)", "(<texts> or [])", "(<texts> if <test> else <texts>)", "(<lazy_texts>|list)",
        "<people>[<index>].pets", "(<people>|first).pets", "(<text> or '').split()", "(<texts> + <texts>)",
        "(<texts>|reverse|list)",
        *cautious("undefined", "(<texts> or ['z', <text>])", "(<texts>|default([<text>], true))"),
        *cautious("undefined", "(<texts> + ['z', <text>])", "(['a', <text>] if <test> else ['b'])"),
        *cautious("case keys", "(<texts>|sort)", "(<texts>|sort(reverse=true))", "(<texts>|unique|list)"),
        *cautious("keys", "(<texts>|sort(case_sensitive=true))", "(<texts>|unique(case_sensitive=true)|list)"),
        *needing("state !loop", "xs", "ns.l", "ys"),
    ],
    "lazy_texts": [
        "(tags|select)", "(more|reject('none'))",
        *cautious("early",
            "(<texts>|map('string'))", "(<texts>|map('trim'))", "(<texts>|map('replace', 'a', <text>))",
            "(<texts>|map('default', <text>, true))", "(<people>|map(attribute='name'))", "(<numbers>|map('string'))",
            "(<texts>|select)", "(<texts>|reject)", "(<texts>|select('ne', <text>))", "(<texts>|reject('eq', 'a'))",
            "(<texts>|select('in', ['a', 'b']))", "(<texts>|reject('in', <texts>))", "(<texts>|select('none'))",
            "(<lazy_texts>|reject('none'))", "(<lazy_texts>|map('trim'))"),
        *cautious("early case", "(<texts>|map('upper'))", "(<lazy_texts>|map('lower'))"),
    ],
    "numbers": [
        "nums", *needing("nested", "grid[0]", "grid[<index>]"), "range(k)", "range(<texts>|length)",
        "range([<number>, 3]|min)", "<numbers>[<bound>:<bound>]", "<numbers>[<bound>:]", "(<numbers> or [1, n])",
        "(<lazy_numbers>|list)", "(<numbers> if <test> else nums)", "(<numbers>|default([k], true))",
        "(<numbers> + <numbers>)", *cautious("undefined", "(<numbers> + [<number>])"), "(<numbers>|reverse|list)",
        *cautious("keys", "(<numbers>|sort)", "(<numbers>|sort(reverse=true))", "(<numbers>|unique|list)"),
    ],
    "lazy_numbers": [
        "(nums|select)",
        *cautious("early",
            "(<people>|map(attribute='age'))", "(<texts>|map('length'))", "(<numbers>|select('gt', <number>))",
            "(<numbers>|reject('lt', 1))", "(<numbers>|select('le', 2))", "(<numbers>|reject('none'))",
            "(<lazy_numbers>|select('ne', k))", "(<numbers>|select('in', nums))"),
        *cautious("early overflow", "(<numbers>|map('abs'))"),
    ],
    "people": [
        "people", "people[<bound>:<bound>]", "(people or [])", "(<lazy_people>|list)",
        "(<people> if <test> else people)", "(<people>|reverse|list)",
        *cautious("case keys",
            "(<people>|sort(attribute='age'))", "(<people>|sort(attribute='name', reverse=true))",
            "(<people>|unique(attribute='name')|list)"),
    ],
    "lazy_people": [
        "(people|select)",
        *cautious("early",
            "(<people>|selectattr('name'))", "(<people>|rejectattr('age'))", "(<people>|reject('none'))",
            "(<people>|selectattr('age', 'gt', <number>))", "(<people>|selectattr('name', 'eq', <text>))",
            "(<people>|rejectattr('name', 'none'))", "(<people>|selectattr('name', 'in', <texts>))",
            "(<people>|selectattr('age', 'defined'))", "(<lazy_people>|selectattr('pets'))"),
    ],
    "prompt": [
        *["<body>"] * 4,
        "{% set xs = ['i'] %}{% set ys = ['y'] %}{% set dd = {'v': 'd', 'w': <text>} %}"
        "{% set ns = namespace(a='', n=0, l=['l'], f=false) %}<body state>"
        "|{{ xs|join('+') }}|{{ ns.a }}|{{ ns.n }}|{{ ns.l|join('-') }}|{{ dd.v }}{{ dd.w }}|{{ ns.f }}{{ ys|join }}",
        *cautious(
            "overflow",
            "{% set xs = [] %}{% set ys = [] %}{% set dd = {'v': '', 'w': 'w'} %}"
            "{% set ns = namespace(a=<text> or '', n=<number> or 0, l=[], f=true) %}<body state><body state>"
            "|{{ xs|length }}|{{ ns.a }}|{{ ns.n }}|{{ ns.l|join }}|{{ dd['v'] }}|{{ xs|join }}{{ ys|length }}",
        ),
    ],
    "body": [
        "<statement>", "<statement>", "<statement><statement>", "<statement><statement><statement>",
    ],
    "statement": [
        "{{ <text> }}", "words ", "{{ <number> }}", "{{ <boolean> }}", "{{ <date> }}", "{{ 1 if <test> else 0 }}",
        "\n\\n'", "{{ t }}{{ u }}", "{{ <text> if <test> }}", "{{ <text> }}", "{{ <text> }}", "{{ <number> }}",
        *needing("person", "{{ p.name }}={{ p.age }};"),
        *needing("loop", "{{ loop.index }}/{{ loop.length }}", "{% if not loop.last %}, {% endif %}"),
        "{% set t = <text> %}", "{% set u = <number> %}", "{% set b = <boolean> %}",
        "{% set t, u = <text>, <number> %}", "{% set t %}<body>{% endset %}", "{% if <test> %}<body>{% endif %}",
        "{% if <test> %}<body>{% else %}<body>{% endif %}",
        "{%- if <test> -%} <body> {%- elif <test> %}<body>{% else %}<body>{%- endif %}",
        "{% with t = <text> %}<body>{% endwith %}", "{% with %}<body>{% endwith %}",
        "{% for t in <texts> %}<body loop>{% endfor %}", "{% for t in <texts> if <test> %}<body loop>{% endfor %}",
        "{% for t in <texts> %}<body loop>{% else %}<body>{% endfor %}",
        "{% for t in <lazy_texts> %}<body loop>{% endfor %}", "{% for u in <numbers> %}<body loop>{% endfor %}",
        "{% for u in <numbers> if u %}<body loop>{% else %}<body>{% endfor %}",
        "{% for b in flags %}<body loop>{% endfor %}", "{% for d in days %}{{ d }}<body loop>{% endfor %}",
        "{% for p in <people> %}<body loop person>{% endfor %}",
        "{% for p in <people> if p %}<body loop person>{% endfor %}",
        "{% for p in <lazy_people> %}<body loop person>{% else %}<body>{% endfor %}",
        *needing("nested", "{% for g in grid %}{% for u in g %}<body loop>{% endfor %};{% endfor %}"),
        "{% for t in labels %}<body loop cycle>{% endfor %}",
        "{% for t in ['x', <text>] %}<body loop cycle>{% endfor %}",
        "{% for t in labels if t != 'bug' %}<body loop cycle>{% else %}<body>{% endfor %}",
        "{% for t, u in zip(<texts>, <numbers>) %}<body loop>{% endfor %}",
        "{% for t, u in zip(labels, <numbers>) %}<body loop>{% else %}<body>{% endfor %}",
        "{% for q in zip(<texts>, <people>) %}{{ q[0] }}<body loop>{% endfor %}",
        "{% for u in range(3) %}<body loop cycle>{% endfor %}", "{% raw %}{{ x }}{% endraw %}{# c #}",
        *cautious("digits",
            "{{ <double>|round(2) }}", "{{ <double>|round }}", "{{ <double>|round(0, 'floor') }}",
            "{{ '%.2f'|format(<double>) }}"),
        *cautious("digits overflow", "{{ <number> / 4 }}"), "{{ <decimal> }}{{ <stamp> }}", "{{ <decimal>|round(1) }}",
        "{% filter upper %}{{ k }}<body>{% endfilter %}", "{% filter trim|replace('a', 'bb') %} <body> {% endfilter %}",
        "{% set t | upper %}{{ k }}<body>{% endset %}", "{% set t | trim %}<body>{% endset %}{{ t }}",
        "{% do <text> %}", "{% macro m(t, u=1) %}<body>{% endmacro %}{{ m(<text>) }}{{ m(u=<number>, t=<text>) }}",
        "{% macro m(t) %}[{{ t }}]{% endmacro %}{% for t in <texts> %}{{ m(t) }}{% endfor %}",
        "{% macro m(t, b=<boolean>) %}{{ t }}{% if b %}<body>{% endif %}{% endmacro %}{{ m(<text>, <boolean>)|trim }}",
        "{% macro m(t) %}<body>{% endmacro %}{% macro o(u, t='d') %}{{ m(t) }}{{ u }}{% endmacro %}"
        "{{ o(<number>) }}{{ o(u=<number>, t=<text>) }}",
        "{% macro m(q) %}{% for t in q %}<body loop>{% endfor %}{% endmacro %}{{ m(<texts>) }}{{ m(labels) }}",
        *needing("state",
            "{% do xs.append(<text>) %}", "{{ xs.append(<text>) or '' }}", "{% set ns.a = ns.a ~ <text> %}",
            "{% set ns.a = ns.a + (<text> or '') %}", "{% set ns.a = <text> or '' %}",
            "{% set ns.l = ns.l + [<text>] %}", "{% set ns.l = ns.l + <texts> %}", "{% set ns.f = <boolean> %}",
            "{% do dd.update({'v': <text>}) %}", "{% do dd.update(w=<text>) %}",
            "{% if <test> %}{% do xs.append(<text>) %}{% endif %}",
            "{% if <test> %}{% set ns.a = <text> or '' %}{% else %}{% do dd.update(v=<text>) %}{% endif %}",
            "{% for t in <texts> %}{% do xs.append(t) %}{% endfor %}",
            "{% for t in <texts> %}{% if <test> %}{% do xs.append(t) %}{% set ns.f = true %}{% endif %}{% endfor %}",
            "{% for t in <texts> if t %}{% set ns.a = ns.a ~ t %}{% else %}{% set ns.f = true %}{% endfor %}",
            "{% for p in <people> %}{% for t in p.pets or [] %}{% do xs.append(t) %}{% endfor %}{% endfor %}",
            "{% for t in labels %}{% do xs.append(t ~ <text>) %}{% endfor %}",
            "{% macro push(l, t='m') %}{% do l.append(t) %}{% endmacro %}{{ push(xs) }}{{ push(ys, <text>) }}"),
        *(
            Rule(pattern, needs="state", null="overflow")
            for pattern in (
                "{% set ns.n = ns.n + 1 %}",
                "{% set ns.n = ns.n + (<number> or 0) %}",
                "{% for u in <numbers> %}{% if u %}{% set ns.n = ns.n + u %}{% endif %}{% endfor %}",
            )
        ),
        *needing("state !loop",
            "{% set ys = xs %}", "{% set ys = xs[:1] %}", "{% set ys = xs or ['a'] %}", "{{ xs|join(',') }}{{ ns.a }}",
            "{{ ns.n }}{{ dd.v }}", "{% for t in xs %}<body loop>{% endfor %}",
            "{% with ys = xs %}<body>{% endwith %}"),
        *needing("state cycle", "{{ xs|length }}{{ ns.a }}{% if ns.f %}f{% endif %}"),
        *needing("state loop", "{{ xs|length }}"),
    ],
}  # fmt: skip
"""By type. The first rules are the simplest: a failing prompt is shrunk to them."""

START = "{% set t = 'T' %}{% set u = 1 %}{% set b = true %}"
"""What every prompt begins with, so that these names can be read everywhere."""
STATEMENTS = frozenset({"prompt", "body", "statement"})
_HOLE = re.compile(r"<([a-z_]+)((?: [a-z]+)*)>")


@dataclass(frozen=True)
class Node:
    """A rule with its holes filled."""

    kind: str
    rule: Rule
    children: tuple[Node, ...] = ()
    available: frozenset[str] = frozenset()

    def __str__(self) -> str:
        parts = map(str, self.children)
        return _HOLE.sub(lambda _: next(parts), self.rule.pattern)

    def inside(self) -> Iterator[Node]:
        """The node and all below it."""
        yield self
        for child in self.children:
            yield from child.inside()

    def may_be_null(self, engine: str) -> bool:
        """Whether an engine may give NULL instead of a text."""
        words = {word for node in self.inside() for word in node.rule.null.split()}
        return any(engine in MAY_BE_NULL[word] for word in words)


def template(node: Node) -> str:
    """The prompt."""
    return START + str(node)


@cache
def rules(kind: str, leaves: bool, available: frozenset[str]) -> list[Rule]:
    """The rules of a type, those without a hole of a deeper level alone or among all."""
    found = []
    for each in GRAMMAR[kind]:
        rule = each if isinstance(each, Rule) else Rule(each)
        deeper = any((hole in STATEMENTS) == (kind in STATEMENTS) for hole, _ in _HOLE.findall(rule.pattern))
        fits = all((word.strip("!") in available) != word.startswith("!") for word in rule.needs.split())
        if fits and not (leaves and deeper):
            found.append(rule)
    if leaves and not found:  # a body is one statement
        found = [Rule("<statement>")]
    return found


def holes(rule: Rule, available: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """The kind of each hole, and what its inside may read."""
    for kind, words in _HOLE.findall(rule.pattern):
        added = frozenset(words.split())
        yield kind, (available - {"cycle"} if added else available) | added


def grow(pick: random.Random, kind: str, depth: int, inner: int, available: frozenset[str] = frozenset()) -> Node:
    """A random node of a type, ``depth`` levels deep, with expressions ``inner`` levels deep in its statements."""
    leaves = depth <= 0 or (kind not in STATEMENTS and pick.random() < 0.25)
    rule = pick.choice(rules(kind, leaves, available))
    children = []
    for hole, words in holes(rule, available):
        same = (hole in STATEMENTS) == (kind in STATEMENTS)
        left = (depth - (kind == "statement") if kind in STATEMENTS else depth - 1) if same else inner
        children.append(grow(pick, hole, left, inner, words))
    return Node(kind, rule, tuple(children), available)


def nodes(depth: int = 2, inner: int = 2, nested: bool = True) -> st.SearchStrategy[Node]:
    """Random prompts; ``nested`` ones may read arrays of arrays.

    One number decides all of one: :func:`shrink` finds smaller ones by their trees.
    """
    available = frozenset({"nested"} if nested else ())

    def made(number: int) -> Node:
        pick = random.Random(number)
        return grow(pick, "prompt", pick.randint(1, depth), pick.randint(1, inner), available)

    return st.integers(0, 2**62).map(made)


# Rows -----------------------------------------------------------------------------------------------------------------

SMALL = st.integers(-4, 5)
WIDE = st.one_of(
    SMALL,
    SMALL,
    st.sampled_from([2**63 - 1, -(2**63), 2**31, -(2**31) - 1, 2**53 + 1, 10**18, 2**62]),
    st.integers(-(2**63), 2**63 - 1),
)
PLAIN = st.one_of(
    st.integers(-400, 400).map(lambda n: n / 8),
    st.integers(-9999, 9999).map(lambda n: n / 100),
    st.sampled_from([0.0, -0.0, 0.5, 2.5, -0.5, 2.675, 1.005, 1e-5, 123456789.125, 1.0, 2.0]),
)
ODD = st.one_of(
    st.integers(-99, 99).flatmap(lambda n: st.sampled_from([math.nextafter(n / 2, -9e9), math.nextafter(n / 2, 9e9)])),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e15, 1e16, 2.0**53, 1e308, -1e308, 5e-324, 1e-300, 1e22, -1e14]),
    st.floats(),
)
DOUBLE = st.one_of(PLAIN, PLAIN, PLAIN, ODD)
STAMP = st.one_of(
    st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1)),
    st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(microsecond=0)),
)
ANY_TEXT = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=6)
TEXT = st.one_of(
    st.sampled_from(["a", "b", "", "a,b", "None", " aB ", "1", "-7 ", "x1", "É😀b", "Σας", "İß"]),
    st.text(alphabet="abAB \n\t'\"\\{}%é日😀0-,_.+ß", max_size=6),
    ANY_TEXT,
    st.sampled_from([text for text in TEXTS.values() if len(text) < 100]),
)


def rows(nulls: bool = True, nested: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """One row; without NULL in or instead of arrays, or without arrays of arrays, for engines that have none."""
    eighth = st.integers(0, 7)

    def maybe(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return eighth.flatmap(lambda n: value if n else st.none())

    def many(item: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        filled = st.lists(maybe(item) if nulls else item, max_size=4)
        return maybe(filled) if nulls else filled

    text, number, day = maybe(TEXT), maybe(WIDE), maybe(st.dates())
    person = st.fixed_dictionaries({"name": text, "age": number, "pets": many(TEXT)})
    info = {"name": text, "age": maybe(SMALL), "ok": maybe(st.booleans()), "born": day}
    info |= {"home": maybe(st.fixed_dictionaries({"city": text})), "pets": many(TEXT)}
    columns = {
        "body": text,
        "other": text,
        "n": number,
        "k": maybe(SMALL),
        "flag": maybe(st.booleans()),
        "day": day,
        "info": maybe(st.fixed_dictionaries(info)),
        "tags": many(TEXT),
        "more": many(TEXT),
        "nums": many(st.one_of(SMALL, SMALL, WIDE)),
        "flags": many(st.booleans()),
        "days": many(st.dates()),
        "people": many(person),
        "grid": many(many(SMALL)),
        "x1": text,
        "x": maybe(DOUBLE),
        "y": maybe(DOUBLE),
        "ratios": many(DOUBLE),
        "price": maybe(st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2))),
        "seen": maybe(STAMP),
    }
    return st.fixed_dictionaries({name: value for name, value in columns.items() if nested or name != "grid"})


# Drawing and shrinking ------------------------------------------------------------------------------------------------

T = TypeVar("T")


def drawn(strategy: st.SearchStrategy[T], count: int, number: int) -> list[T]:
    """So many random values; the number decides which."""
    found: list[T] = []

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(value: T) -> None:
        found.append(value)

    keep()
    return found


def simpler(node: Node) -> Iterator[Node]:
    """The same tree with one node replaced by a simpler one of its type."""
    for leaf in rules(node.kind, True, node.available)[:4]:
        if not _HOLE.search(leaf.pattern) and leaf.pattern != node.rule.pattern:
            yield Node(node.kind, leaf, (), node.available)
    for below in node.inside():
        if below is not node and below.kind == node.kind:
            yield below
    if node.kind == "body" and len(node.children) > 1:
        for place in range(len(node.children)):
            children = node.children[:place] + node.children[place + 1 :]
            yield Node("body", Rule("<statement>" * len(children)), children, node.available)
    for place, child in enumerate(node.children):
        for less in simpler(child):
            yield Node(
                node.kind, node.rule, (*node.children[:place], less, *node.children[place + 1 :]), node.available
            )


def simpler_row(value: Any, nulls: bool = True) -> Iterator[Any]:
    """A value of a row with one part of it simpler."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from ({**value, name: less} for less in simpler_row(inner, nulls))
        case list():
            for place, inner in enumerate(value):
                yield [*value[:place], *value[place + 1 :]]
                yield from ([*value[:place], less, *value[place + 1 :]] for less in simpler_row(inner, nulls))
        case str() if value not in ("", "a"):
            yield from ("", "a", value[: len(value) // 2], value[len(value) // 2 :], value[1:], value[:-1])
        case bool():
            pass
        case float() if value not in (0.5, 1.0):
            yield from (0.5, 1.0)
        case int() if value not in (0, 1):
            yield from (0, 1, value // 2)
    if nulls and value is not None:
        yield None


def shrink(
    node: Node,
    row: dict[str, Any],
    fails: Callable[[list[Node], list[dict[str, Any]]], list[tuple[int, int]]],
    nulls: bool,
    rounds: int = 60,
) -> tuple[Node, dict[str, Any]]:
    """The smallest prompt and row found that still fail; ``fails`` tells which pairs of some do."""
    for _ in range(rounds):
        smaller = {str(less): less for less in simpler(node) if len(str(less)) < len(str(node))}
        candidates = sorted(smaller.values(), key=lambda less: len(str(less)))[:120]
        found = next((candidates[i] for i, _ in _one_by_one(candidates, row, fails)), None)
        if found is not None:
            node = found
            continue
        # A NULL struct is no simpler than one with fields: what is missing everywhere fails everywhere.
        others = [{**row, name: less} for name in row for less in simpler_row(row[name], nulls and name != "info")]
        others = [other for other in others if len(repr(other)) < len(repr(row))]
        failing = [others[j] for _, j in fails([node], others)] if others else []
        if not failing:
            break
        row = min(failing, key=lambda other: len(repr(other)))
    return node, row


def _one_by_one(
    candidates: list[Node],
    row: dict[str, Any],
    fails: Callable[[list[Node], list[dict[str, Any]]], list[tuple[int, int]]],
) -> Iterator[tuple[int, int]]:
    for start in range(0, len(candidates), 20):
        for i, j in fails(candidates[start : start + 20], [row]):
            yield start + i, j

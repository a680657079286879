"""A compiled template gives, in SQL, exactly what Jinja renders for the row: the oracle is the reference itself."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, STRING
from sqlenrich.prompt import compile_prompt
from tests.support.prompt_table import PromptTable

COLUMNS: dict[str, Any] = {
    "body": "string",
    "other": "string",
    "n": "bigint",
    "k": "bigint",
    "flag": "boolean",
    "day": "date",
    "info": {"struct": {"name": "string", "age": "bigint", "home": {"struct": {"city": "string"}}}},
}
VARS: dict[str, Any] = {
    "labels": ["bug", "praise", "other"],
    "names": {"a": "Anna", "b": "Berta"},
    "numbers": {0: "zero", 2: "two"},
    "limit": 3,
    "ratio": 0.5,
    "output": {"label": {"type": ["string"], "enum": ["bug", "praise"], "description": "What it is"}},
}


def row(
    body: str | None = None,
    other: str | None = None,
    n: int | None = None,
    k: int | None = None,
    flag: bool | None = None,
    day: str | None = None,
    info: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One row of the table that the templates of this file read."""
    date = None if day is None else dt.date.fromisoformat(day)
    return {"body": body, "other": other, "n": n, "k": k, "flag": flag, "day": date, "info": info}


def person(name: str | None, age: int | None, city: str | None) -> dict[str, Any]:
    """A value of the struct column with a home."""
    return {"name": name, "age": age, "home": {"city": city}}


ROWS = [
    row(),
    row("", "", 0, 0, False, "1999-12-31", person("", 0, "")),
    row(" \t\n ", "\u00a0\u3000", -1, 1, True, "2026-01-31", person(None, None, None)),
    row("Hello World", "World", 1, -1, True, "2024-02-29", {"name": "Ann", "age": 3, "home": None}),
    row("b", "a", 2, 2, False, "0001-01-01", person("Bo", -1, "Ω")),
    row("a", "b", 3, -3, None, "9999-12-31", person("b", 9, "Rome")),
    row("ÉCOLE straße ß", "straße", -4, 5, True, None, None),
    row("日本語 😀 e\u0301 שלום", "😀", 10**15, -(10**15), False, "1970-01-01", person("😀", 2, "東京")),
    row('it\'s "q" \\ {{ n }} ${y} %s @p <b>&\n', "'", 7, 7, None, "2000-02-29", person("a'b", 7, "\\")),
    row("None", "True", -2, 3, False, "2026-11-20", person("None", 1, "None")),
    row(body="Hello", n=3),
    row(body="Hello World", k=-2, flag=True),
    row(other="World", n=1, k=3, flag=False, info={"name": None, "age": None, "home": None}),
    row("ab", n=10**17, k=-(10**17), day="2026-11-20"),
    row("  padded\t", "xx", 5, -2, True, "2026-11-20", person(" x ", 5, " y ")),
]

# Every construct that is compiled, over all the rows above.
RENDERED = {
    "printing": [
        "{{ body }}", "{{ n }}", "{{ flag }}", "{{ day }}", "{{ info.name }}", '{{ info["age"] }}',
        "{{ info.home.city }}", "constant only", "{{ none }}{{ true }}{{ 1 }}{{ 1.5 }}{{ 'x' }}",
        "a {{ body }} b {{ other }} c {{ n }}", "'{{ body }}' \\n \\ ' \" ${body} __LINE_BREAK__ {{ '{{' }}",
        "\t{{ body }}\r\x07 -- /* */ ;\n\n", "{% raw %}{{ body }}{% endraw %}{{ body }}", "{# a comment #}{{ body }}",
        "{{ (body) }}{{ -n }}{{ +n }}",
    ],
    "filters": [
        "{{ body|lower }}", "{{ body|upper }}", "{{ body|trim }}", "{{ body|trim('a ') }}",
        "{{ body|replace('l', 'L') }}", "{{ body|replace('o', other) }}", "{{ body|replace(\"'\", '') }}",
        "{{ body|capitalize }}", "{{ body|default('d') }}", "{{ body|default('d', true) }}",
        "{{ body|d(other, true) }}", "{{ body|default('d', boolean=true) }}", "{{ n|default(5, true) }}",
        "{{ body|string }}", "{{ n|string }}", "{{ flag|string }}", "{{ day|string }}", "{{ n|int }}", "{{ flag|int }}",
        "{{ flag|int + 1 }}", "{% if flag|int == 1 %}x{% endif %}", "{{ (1 if flag else 0) + n|int }}",
        "{{ (1 if n == 1 else 0) }}{{ (true if n == 1 else false) }}", "{{ n|int(7) }}", "{{ body|length }}",
        "{{ body|count }}", "{{ n|string|length }}", "{{ flag|lower }}", "{{ n|upper }}",
        "{{ body|trim|lower|replace(' ', '_')|length }}", "{{ body|lower|trim|default('none', true) }}",
        "{{ info.name|upper }}", "{{ info.home.city|default('nowhere', true) }}",
    ],
    "methods": [
        "{{ body.lower() }}", "{{ body.upper() }}", "{{ body.strip() }}", "{{ body.lstrip() }}|{{ body.rstrip() }}|",
        "{{ body.strip('a ') }}", "{{ body.strip('') }}", "{{ body.lstrip(' ') }}", "{{ body.capitalize() }}",
        "{{ body.replace('l', 'L') }}", "{{ body.replace('o', other) }}", "{{ body.startswith('H') }}",
        "{{ body.startswith(('H', 'i')) }}", "{{ body.endswith(other) }}",
        "{% if body.endswith('d') %}d{% else %}no{% endif %}", "{{ body.strip().lower() }}",
        "{{ ', '.join([body, other]) }}", "{{ 'x'.join(labels) }}{{ body }}", "{{ 'abc'.upper() }}{{ body }}",
    ],
    "slices": [
        "{{ body[:3] }}", "{{ body[2:] }}", "{{ body[1:3] }}", "{{ body[-3:] }}", "{{ body[:-2] }}",
        "{{ body[-4:-1] }}", "{{ body[3:1] }}", "{{ body[:0] }}", "{{ body[0:] }}", "{{ body[:] }}", "{{ body[100:] }}",
        "{{ body[:n] }}", "{{ body[n:] }}", "{{ body[n:k] }}", "{{ body[-n:] }}", "{{ body[1:n] }}", "{{ body[n:-1] }}",
        "{{ body[:none] }}", "{{ (body ~ other)[:4] }}", "{{ body|trim|lower }}{{ body[:2]|upper }}",
    ],
    "characters": [
        "{% if body|length > 2 %}{{ body[0] }}{{ body[2] }}{% endif %}",
        "{% if body %}{{ body[0] }}{{ body[-1] }}{% endif %}", "{% if body|length > 3 %}{{ body[-3] }}{% endif %}",
    ],
    "joining": [
        "{{ body ~ other }}", "{{ body ~ ' ' ~ n ~ flag ~ day }}", "{{ 'a' ~ 1 ~ none }}{{ body }}",
        "{{ body + other }}", "{{ body + '!' }}", "{{ n + k }}", "{{ n - k }}", "{{ n * 2 - (k - 1) }}",
        "{{ n - (k + 1) * 2 }}", "{{ -(n + 1) }}", "{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 5 }}{{ 1 / 4 }}{{ n + 7 // 2 }}",
        "{{ [body, other]|join(', ') }}", "{{ [body, n, 'c']|join }}", "{{ labels|join(', ') }}{{ body }}",
        "{{ [body, other]|length }}{{ [body, other]|first }}{{ [body, other]|last }}",
    ],
    "conditions": [
        "{% if body %}yes{% endif %}", "{% if body %}yes{% else %}no{% endif %}",
        "{% if n %}a{% elif k %}b{% else %}c{% endif %}",
        "{% if n == 0 %}zero{% elif n == 1 %}one{% elif n == 2 %}two{% endif %}.", "{% if not body %}no{% endif %}",
        "{% if not n %}no{% endif %}", "{% if not flag %}no{% else %}yes{% endif %}",
        "{% if not not flag %}yes{% else %}no{% endif %}", "{% if day %}{{ day }}{% endif %}",
        "{% if info %}has{% endif %}", "{% if not info %}has no{% endif %}",
        "{% if info and info.home and info.home.city %}{{ info.home.city }}{% endif %}",
        "{% if body and n %}both{% endif %}", "{% if body or n %}one{% else %}none{% endif %}",
        "{% if not (body and flag) %}x{% else %}y{% endif %}", "{% if not (body or flag) %}x{% else %}y{% endif %}",
        "{% if body and other and n and k and flag %}all{% else %}not all{% endif %}",
        "{% if flag and n == 1 or body == 'b' and not k == 2 %}x{% else %}y{% endif %}",
        "{{ body if flag else other }}", "{{ 'a' if n == 1 else 'b' if n == 2 else 'c' }}",
        "{{ body if body else none }}", "{{ body or other }}", "{{ body and other }}", "{{ body or 'default' }}",
        "{{ (body or other or 'x')|upper }}", "{{ n or k }}", "{{ not body }}{{ not n }}{{ not flag }}",
        "{{ flag or false }}{{ flag and true }}", "{{ (body == 'b') or (n == 1) }}",
        "{% if true and body %}a{% endif %}{% if false or body %}b{% endif %}{% if body or true %}c{% endif %}",
        "{% if false %}x{% endif %}{{ body }}",
        "{% if body %}{% if other %}two{% else %}one{% endif %}{% else %}none{% endif %}",
        "{% if (body if flag else other) %}x{% else %}y{% endif %}", "{{ body if flag }}",
        "{{ 'x' if flag }}{{ n if flag }}.",
        "{{ (body if flag)|upper }}{{ (body if flag) ~ 'x' }}{{ [body if flag, 'b']|join('-') }}",
        "{{ (body if flag) or 'z' }}{% if (body if flag) %}x{% else %}y{% endif %}",
        "{{ (body if flag)|default('d') }}{{ (body if flag)|default('d', true) }}",
        "{{ (body if flag) == 'a' }}{{ (body if flag) == none }}{{ (body if flag) is none }}",
        "{{ (body if flag) == other }}{{ (body if flag) == (other if flag) }}{{ (body if flag) in ['a', 'b'] }}",
        "{{ (body if flag)[:2] }}", "{{ (body if flag) + 'x' }}", "{% set x = body if flag %}{{ x }}{{ x is defined }}",
        "{% if (n if flag else k) == 1 %}x{% else %}y{% endif %}",
    ],
    "comparisons": [
        "{{ body == 'b' }}", "{{ 'b' == body }}", "{{ body != 'b' }}", "{{ body == other }}", "{{ body != other }}",
        "{{ body == none }}", "{{ body != none }}", "{{ n == none }}{{ none == n }}",
        "{{ body is none }}{{ body is not none }}{{ info is none }}", "{{ body is defined }}{{ body is undefined }}",
        "{{ n == 1 }}{{ n != 1 }}", "{{ n == k }}{{ n != k }}", "{{ flag == true }}{{ flag != true }}",
        "{{ flag == false }}{{ flag == 1 }}{{ flag == 0 }}", "{{ body == 1 }}{{ n == 'b' }}{{ n != 'b' }}",
        "{{ body == n }}{{ flag == body }}", "{{ day == none }}", "{{ none == none }}{{ body }}",
        "{% if n != none and n > 1 %}big{% else %}small{% endif %}",
        "{% if n is not none and n >= limit %}big{% else %}small{% endif %}",
        "{% if n is none or n <= 1 %}small{% else %}big{% endif %}", "{% if n > 1 %}big{% endif %}",
        "{% if n < k %}less{% else %}not{% endif %}", "{{ 0 < n <= 3 }}",
        "{% if 0 < n <= 3 %}in{% else %}out{% endif %}", "{% if body < 'b' %}less{% else %}not{% endif %}",
        "{% if body >= other %}ge{% endif %}", "{{ body is eq('b') }}{{ n is eq(1) }}",
        "{% if n is not none and n is gt(1) %}x{% endif %}", "{{ body is ne('b') }}{{ body is in(['b', 'a']) }}",
        "{{ n > 1 }}", "{{ not n > 1 }}", "{{ not (n == 1) }}{{ not (body == other) }}", "{{ (n == 1) == (k == 2) }}",
        "{{ n + 1 == k }}", "{{ body|lower == 'hello world' }}", "{{ body|length > 3 }}", "{{ info.age == 9 }}",
        "{{ info is not none and info.age == 9 }}",
    ],
    "in": [
        "{{ body in ['a', 'b'] }}", "{{ body not in ['a', 'b'] }}", "{{ body in labels }}{{ body in names }}",
        "{{ body in [] }}", "{{ n in [1, 2] }}{{ n not in [1, 2] }}", "{{ n in (0, 3) }}", "{{ body in ['a', none] }}",
        "{{ body in [other, 'b'] }}", "{{ n in ['a', 1, none] }}", "{{ 'o' in body }}", "{{ 'o' not in body }}",
        "{{ other in body }}", "{{ '' in body }}", "{{ body in 'abc' }}", "{{ 'bug' in labels }}{{ body }}",
        "{% if body and 'ell' in body %}x{% else %}y{% endif %}", "{{ none in [body] }}", "{{ flag in [true, none] }}",
    ],
    "set": [
        "{% set x = body %}{{ x }}", "{% set x = 'a' %}{% if flag %}{% set x = 'b' %}{% endif %}{{ x }}",
        "{% set x = body %}{% if n == 1 %}{% set x = other %}{% elif n == 2 %}{% set x = 'two' %}{% endif %}{{ x }}",
        "{% if flag %}{% set x = body %}{% else %}{% set x = other %}{% endif %}[{{ x }}]",
        "{% if flag %}{% set body = 'new' %}{% endif %}{{ body }}",
        "{% set x = none %}{% if body %}{% set x = body|upper %}{% endif %}{{ x }}{{ x is none }}",
        "{% set x %}{{ body }}-{{ n }}{% endset %}{{ x }}{{ x|length }}", "{% set a, b = body, other %}{{ b }}{{ a }}",
        "{% with x = body %}{{ x }}{% endwith %}", "{% with x = body, y = 'z' %}{{ y }}{{ x }}{% endwith %}",
        "{% set x = 1 %}{% if flag %}{% set x = 2 %}{% endif %}{{ x + 1 }}{{ ['a', 'b', 'c', 'd'][x] }}",
        "{% set x = 'a' %}{% for i in [1, 2] %}{% set x = body %}{{ x }}{% endfor %}{{ x }}",
        "{% if flag %}{% set x = body %}{% endif %}{{ x if flag else '' }}",
        "{% set x = 0 %}{% if n == 1 %}{% set x = 1 %}{% endif %}{{ x }}",
        "{% set x = true %}{% if n == 1 %}{% set x = false %}{% endif %}{{ x }}{% if x %}t{% endif %}",
    ],
    "loops": [
        "{% for l in labels %}{{ l }}{% if not loop.last %}, {% endif %}{% endfor %}{{ body }}",
        "{% for l in labels %}{{ loop.index }}/{{ loop.length }} {{ l }} {{ body }}\n{% endfor %}",
        "{% for i in range(3) %}{{ i }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}{{ body }}",
        "{% for l in labels if l != 'bug' %}{{ l }}{% endfor %}{{ body }}",
        "{% for l in labels %}{% if body == l or loop.first %}{{ l }}{% endif %}{% endfor %}",
        "{% for x in [body, other] %}{{ loop.index }}:{{ x }};{% endfor %}",
        "{% for x in [] %}{{ x }}{% else %}empty {{ body }}{% endfor %}",
        "{% for k, v in names.items() %}{{ k }}={{ v }} {% if body == k %}!{% endif %}{% endfor %}",
        "{% for a, b in zip(labels, [1, 2, 3]) %}{{ a }}{{ b }}{% endfor %}{{ body }}",
        "{% for a, b in [('x', body), ('y', other)] %}{{ a }}: {{ b }}\n{% endfor %}",
        "{% for l in labels %}{{ loop.cycle('a', 'b') }}{% endfor %}{{ body }}",
        "{% for l in labels %}{{ loop.previtem if not loop.first else '-' }}{{ l }}{% endfor %}{{ body }}",
        "{% for l in labels %}{% for m in [1, 2] %}{{ l }}{{ m }}{{ body }}{% endfor %}{% endfor %}",
        "{% for c in 'abc' %}{{ c }}{% if c in body|string %}*{% endif %}{% endfor %}",
    ],
    "indexing": [
        "{% if body in names %}{{ names[body] }}{% endif %}", "{{ ['zero', 'one', 'two'][n] }}", "{{ labels[n] }}",
        "{{ labels[n]|upper }}", "{{ labels[n] == 'bug' }}", "{{ labels[k] ~ '!' }}", "{{ names[body] }}",
        "{{ numbers[n] }}", "{{ {'a': 'x', 'b': 'y'}[body] }}", "{{ [body, other][n] }}",
        "{{ [body, other][0] }}{{ [body, other][-1] }}", "{{ ['no', 'yes'][flag] }}", "{{ ['no', 'yes'][n == 1] }}",
        "{% if n == 1 %}{{ labels[n] }}{% endif %}.", "{{ 'x' if n is none else labels[n] }}", "{{ [1, none, 3][n] }}",
        "{{ labels[n]|default('x') }}", "{{ labels[n] is defined }}", "{{ names[body]|default(body)|upper }}",
        "{{ [1, none, 3][n]|default(7, true) }}", "{{ labels[n] if n in [0, 1] else 'out' }}",
        "{{ [[1, 2], [3]][1][0] }}{{ body }}", "{{ labels[1] }}{{ names.a }}{{ names['b'] }}{{ body }}",
        "{{ labels[1:] | join('-') }}{{ body }}",
    ],
    "structs": [
        "{{ info.name }}", "{{ info.home.city|upper }}",
        "{% if info is none %}none{% else %}{{ info.name }}{% endif %}", "{% if info %}{{ info.name }}{% endif %}",
        "{{ info.name or 'nobody' }}", "{{ info.age + 1 }}", "{{ info.home is none }}",
        "{{ info.name if flag else body }}", "{{ info.name is defined }}{{ info.home.city is defined }}",
        "{{ info.name is undefined }}{{ info.name is none }}", "{{ info.name|default('x') }}",
        "{{ info.home.city|default(body, true)|upper }}", "{{ info.name|string }}", "{{ info.name ~ info.age }}",
        "{{ [info.name, body]|join(' ') }}", "{{ info.name == body }}", "{{ info.age == body }}{{ body == info.age }}",
        "{% set x = info.name %}{% if info %}{{ x }}{% endif %}", "{% if flag and info.age > 2 %}x{% endif %}",
        "{% if not flag or info.name %}x{% else %}y{% endif %}",
    ],
    "constants": [
        "{{ output.label.enum|join(', ') }}{{ body }}", "{{ output.label.description }}{{ body }}",
        "{% for v in output.label.enum %}- {{ v }}\n{% endfor %}{{ body }}",
        "{{ limit + 1 }}{{ ratio }}{{ ratio * 2 }}{{ labels }}{{ names }}{{ body }}",
        "{{ labels|map('upper')|join(' ') }}{{ labels|reverse|join(' ') }}{{ labels|sort|first }}{{ body }}",
        "{{ labels|length }}{{ 3.14159|round(2) }}{{ {'a': 1}|tojson }}{{ body }}",
        "{% if limit > 2 %}{{ body }}{% else %}{{ other }}{% endif %}", "{{ body[:limit] }}",
    ],
    "whitespace": [
        "a\n{%- if body %}\n  x\n{%- endif %}\nb", "a {{- body -}} b",
        "{% for l in labels -%}\n  {{ l }}\n{%- endfor %}\n{{ body }}\n",
        "{% if body -%}   x   {%- else -%}   y   {%- endif %} \n", "  {%+ if body %}x{% endif %}  ", "{{ body }}\n\n",
        "\n\n{{ body }}",
    ],
}  # fmt: skip
CASES = [pytest.param(t, id=f"{g}-{i}") for g, templates in RENDERED.items() for i, t in enumerate(templates)]


@pytest.fixture(scope="module")
def table() -> PromptTable:
    return PromptTable(COLUMNS, ROWS, VARS)


@pytest.mark.parametrize("template", CASES)
def test_sql_gives_what_jinja_renders(table: PromptTable, template: str) -> None:
    assert table.by_sql(template) == table.by_jinja(template)


# Where an engine can't follow Python to the last character, the prompt is NULL: never a different text.

OR_NULL: dict[str, dict[str | None, str | None]] = {
    "{{ body|int }}": {
        "42": "42", " 42\n": "42", "-7": "-7", "+5": "5", "007": "7", "": "0", "abc": "0", "inf": "0", None: "0",
        "1.5": "1",
        "1_000": None,  # 1000 in Python
        "12abc": None,  # 0 in Python
        "٣": None,  # 3 in Python
        "9999999999999999999": None,  # beyond 64 bits
    },
    "{{ body|upper }}": {"straße ŉ": None, "ß": "SS"},
    "{{ body|lower }}": {"ΟΔΟΣ": None, "ΑΣ日": None, "ΣΟ": "σο", "İ": "i\u0307"},  # None: a final sigma
}  # fmt: skip


@pytest.mark.parametrize(
    ("template", "text", "expected"), [(t, text, made) for t, cases in OR_NULL.items() for text, made in cases.items()]
)
def test_the_sql_of_some_texts_is_null(template: str, text: str | None, expected: str | None) -> None:
    table = PromptTable(COLUMNS, [row(text)])
    assert table.by_sql(template) == [expected]
    if expected is not None:
        assert table.by_jinja(template) == [expected]


def test_an_integer_beyond_64_bits_is_null() -> None:
    assert PromptTable(COLUMNS, [row(n=2**63 - 1), row(n=1)]).by_sql("{{ n + 1 }}") == [None, "2"]


@pytest.mark.parametrize(
    ("template", "columns"),
    [
        pytest.param("{{ b }}{{ a }}{{ b }}", ("b", "a"), id="first use"),
        pytest.param("{% if c %}{{ a }}{% endif %}", ("c", "a"), id="in a test"),
        pytest.param("{{ x }}{% set y = a %}", ("x",), id="set but never used"),
        pytest.param("{% if false %}{{ a }}{% endif %}{{ b }}", ("b",), id="in a branch that is never taken"),
        pytest.param("constant {{ v }}", (), id="none"),
    ],
)
def test_columns(template: str, columns: tuple[str, ...]) -> None:
    assert compile_prompt(template, vars={"v": 1}).columns == columns


def test_columns_default_to_text_and_keep_their_declared_type() -> None:
    assert compile_prompt("{{ a }}").columns == ("a",)
    assert compile_prompt("{{ a + 1 }}", columns={"a": BIGINT}).columns == ("a",)
    with pytest.raises(se.PromptError, match="adding string and bigint"):
        compile_prompt("{{ a + 1 }}", columns={"a": STRING})


# What is refused, at which line, and with which words.

REFUSED = [
    ("{% set l = [] %}{{ l.pop() }}", 1, "changes a value in place"),
    ("{{ body }}\n{{ lipsum() }}", 2, "is random or keeps a state"),
    ("{% set j = joiner(',') %}{{ j() }}{{ body }}", 1, "is random or keeps a state"),
    ("a\n{{ body", 2, "unexpected end of template"),
    ("a\n{% if body %}", 2, "Unexpected end of template"),
    ("{{ body|uper }}", 1, 'the filter "uper" (upper?) is not compiled'),
    ("\n\n{{ bdy }}", 3, 'unknown column "bdy" (body?); there are: body, other, n'),
    ("{{ body|random }}", 1, "a prompt must be the same on each run"),
    ("{{ body|tojson }}", 1, "build the JSON in the source query"),
    ("{{ body|wordcount }}", 1, 'the filter "wordcount" is not compiled'),
    ("{{ body.zfill(3) }}", 1, 'the method "zfill" is not compiled'),
    ("{{ body.strp() }}", 1, 'the method "strp" (strip?) is not compiled'),
    ("{{ n.upper() }}", 1, 'the method "upper" of bigint; only text, dates and arrays have them'),
    ("{{ body.name }}", 1, '".name" of string'),
    ("{{ info.nme }}", 1, 'no field "nme" (name?); there are: name, age, home'),
    ("{{ info.keys }}", 1, 'write ["keys"]'),
    ("{{ info }}", 1, "printing struct (info)"),
    ("{{ ratio * n }}", 1, "printing double (n) is not the same"),
    ("{{ n / 3 }}", 1, "printing double (n) is not the same"),
    ("{{ n % 0 }}", 1, '"%" by 0'),
    ("{{ body * 2 }}", 1, "multiplying string by bigint"),
    ("{{ body + n }}", 1, "adding string and bigint"),
    ("{{ body - n }}", 1, "subtracting bigint from string"),
    ("{{ -body }}", 1, "the negative of string"),
    ("{{ body < n }}", 1, "ordering string and bigint"),
    ("{{ flag == 2 }}", 1, "comparing a boolean with an integer"),
    ("{{ info == info }}", 1, "comparing arrays or structs"),
    ("{{ n in body }}", 1, "looking for bigint in string"),
    ("{{ body[::2] }}", 1, "a slice with a step"),
    ("{{ body['x'] }}", 1, "text indexed by string"),
    ("{{ body[:other] }}", 1, "a slice bound that is string"),
    ("{{ n[1:] }}", 1, "a slice of bigint; it must be text or an array"),
    ("{{ labels[body] }}", 1, "declare the column as bigint"),
    ("{{ names[n] }}", 1, "a mapping indexed by bigint"),
    ("{{ ['a', 1][n] }}", 1, "a list of several types indexed by row"),
    ("{{ labels[9] }}{{ body }}", 1, "this fails for every row: list object has no element 9"),
    ("{{ [body][3] }}", 1, "index 3 is out of range for every row"),
    ("{{ {'a': body} }}", 1, "printing a mapping where one value is needed; index it"),
    ("{{ [body, other] }}", 1, "printing a list where one value is needed"),
    ("a\nb {% for c in body %}{{ c }}{% endfor %}", 2, "a loop over string; it must be an array"),
    ("{% for l in labels if l == body %}{% endfor %}", 1, "put an if inside the loop"),
    ("{% for i in 5 %}{% endfor %}", 1, "the loop fails for every row"),
    ("{% for l in labels recursive %}{% endfor %}", 1, "a recursive loop"),
    ("{% for i in range(30000) %}{{ body }}{% endfor %}", 1, "prints over 20000 parts"),
    ("{% for a, b in [body] %}{% endfor %}", 1, "only plain names can be set"),
    ("{% set ns.x = body %}", 1, '"ns" is not a namespace'),
    ("{{ body if n else n }}", 1, "a value that is string for some rows and bigint for"),
    ("{{ n|default('none', true) }}", 1, "a default that is string of a value that is bigint"),
    ("{{ body[0]|default('x') }}", 1, "compare its length instead"),
    ("{{ n|length }}", 1, "the length of bigint"),
    ("{{ body|int(base=2) }}", 1, "named arguments"),
    ("{{ body|int(0, 2) }}", 1, "a base other than 10"),
    ("{{ body|int('x') }}", 1, "a default that is not an integer"),
    ("{{ day|int }}", 1, "int of date"),
    ("{{ body|replace('a', 'x', 1) }}", 1, "replacing only the first occurrences"),
    ("{{ body|replace('', 'x') }}", 1, "replacing an empty text"),
    ("{{ body|replace('a', 'b', 1) }}", 1, "leave the count out"),
    ("{{ body.replace('a', n) }}", 1, "write x|replace(a, b)"),
    ("{{ ', '.join([body, n]) }}", 1, "joining bigint; write [...]|join"),
    ("{{ body|trim(other) }}", 1, "stripping characters that differ by row"),
    ("{{ body.startswith(n) }}", 1, "startswith of bigint"),
    ("{{ body|upper(1) }}", 1, 'the filter "upper" with 1 arguments'),
    ("{{ body|upper(*labels) }}", 1, "arguments given with * or **"),
    ("{{ body is lower }}", 1, 'the test "lower" is not compiled'),
    ("{{ body() }}", 1, "a call with row values"),
    ("{{ 1 / 0 }}{{ body }}", 1, "this fails for every row: division by zero"),
    ("{{ output.lable.enum }}", 1, "this fails for every row: 'dict object' has no"),
    ("x\n{% call m() %}{% endcall %}", 2, '"callblock" is not compiled to SQL'),
    ("{% include 'x' %}", 1, "and this prompt has no file"),
    ("{% do labels.append(body) %}", 1, '".append" changes a value in place'),
    ("{% filter tojson %}{{ body }}{% endfilter %}", 1, 'the filter "tojson"'),
]


@pytest.mark.parametrize(("template", "line", "words"), REFUSED)
def test_refused(template: str, line: int, words: str) -> None:
    with pytest.raises(se.PromptError, match=re.escape(words)) as caught:
        se.prompt_sql(template, "duckdb", columns=COLUMNS, vars=VARS)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"prompt:{line}:")


@pytest.mark.parametrize("kind", ["double", "decimal(9,7)", {"array": "string"}])
@pytest.mark.parametrize("template", ["a\n{{ x }}", "a\n{{ x|string }}", "a\n{{ x ~ 'a' }}", "a\n{{ ['a', x]|join }}"])
def test_a_value_that_engines_print_differently_is_refused(kind: Any, template: str) -> None:
    with pytest.raises(
        se.PromptError, match=r"prompt:2:\d+: printing .* \(x\) is not the same on all engines; (round|join)"
    ):
        se.prompt_sql(template, "duckdb", columns={"x": kind})
    assert "IS NULL" in se.prompt_sql("{{ 'none' if x is none else 'some' }}", "duckdb", columns={"x": kind})


def test_messages_name_the_file_and_its_line() -> None:
    with pytest.raises(se.PromptError, match=r"^my\.prompt:12:\d+: "):
        compile_prompt("a\nb\n{{ body|split }}", source="my.prompt", first_line=10)


@pytest.mark.parametrize(
    ("template", "values", "words"),
    [
        pytest.param("a\n{{ b", {}, "prompt:2: unexpected end of template", id="syntax"),
        pytest.param("{{ x }}", {}, "prompt: the template fails for this row: 'x' is undefined", id="undefined"),
        pytest.param("{{ x.upper() }}", {"x": None}, "'None' has no attribute 'upper'", id="none"),
    ],
)
def test_the_reference_says_why(template: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(se.PromptError) as caught:
        se.render_prompt(template, values)
    assert words in str(caught.value)


def test_vars_hide_columns_of_that_name() -> None:
    assert se.render_prompt("{{ x }}", {"x": "row"}, {"x": "constant"}) == "constant"
    assert se.prompt_sql("{{ x }}", "duckdb", columns={"x": "string"}, vars={"x": "constant"}) == "'constant'"

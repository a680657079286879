"""A compiled template gives, in SQL, exactly what Jinja renders for the row: the oracle is the reference itself."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sqlenrich as se
from sqlenrich.core.types import BIGINT, STRING
from sqlenrich.prompt import compile_prompt

COLUMNS: dict[str, Any] = {
    "body": "string",
    "other": "string",
    "n": "bigint",
    "k": "bigint",
    "flag": "boolean",
    "day": "date",
    "info": {"struct": {"name": "string", "age": "bigint", "home": {"struct": {"city": "string"}}}},
}
SQL_COLUMNS = (
    "body VARCHAR, other VARCHAR, n BIGINT, k BIGINT, flag BOOLEAN, day DATE, "
    "info STRUCT(name VARCHAR, age BIGINT, home STRUCT(city VARCHAR))"
)
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
        "{{ body }}",
        "{{ n }}",
        "{{ flag }}",
        "{{ day }}",
        "{{ info.name }}",
        '{{ info["age"] }}',
        "{{ info.home.city }}",
        "constant only",
        "{{ none }}{{ true }}{{ 1 }}{{ 1.5 }}{{ 'x' }}",
        "a {{ body }} b {{ other }} c {{ n }}",
        "'{{ body }}' \\n \\ ' \" ${body} __LINE_BREAK__ {{ '{{' }}",
        "\t{{ body }}\r\x07 -- /* */ ;\n\n",
        "{% raw %}{{ body }}{% endraw %}{{ body }}",
        "{# a comment #}{{ body }}",
        "{{ (body) }}{{ -n }}{{ +n }}",
    ],
    "filters": [
        "{{ body|lower }}",
        "{{ body|upper }}",
        "{{ body|trim }}",
        "{{ body|trim('a ') }}",
        "{{ body|replace('l', 'L') }}",
        "{{ body|replace('o', other) }}",
        "{{ body|replace(\"'\", '') }}",
        "{{ body|capitalize }}",
        "{{ body|default('d') }}",
        "{{ body|default('d', true) }}",
        "{{ body|d(other, true) }}",
        "{{ body|default('d', boolean=true) }}",
        "{{ n|default(5, true) }}",
        "{{ body|string }}",
        "{{ n|string }}",
        "{{ flag|string }}",
        "{{ day|string }}",
        "{{ n|int }}",
        "{{ flag|int }}",
        "{{ flag|int + 1 }}",
        "{% if flag|int == 1 %}x{% endif %}",
        "{{ (1 if flag else 0) + n|int }}",
        "{{ (1 if n == 1 else 0) }}{{ (true if n == 1 else false) }}",
        "{{ n|int(7) }}",
        "{{ body|length }}",
        "{{ body|count }}",
        "{{ n|string|length }}",
        "{{ flag|lower }}",
        "{{ n|upper }}",
        "{{ body|trim|lower|replace(' ', '_')|length }}",
        "{{ body|lower|trim|default('none', true) }}",
        "{{ info.name|upper }}",
        "{{ info.home.city|default('nowhere', true) }}",
    ],
    "methods": [
        "{{ body.lower() }}",
        "{{ body.upper() }}",
        "{{ body.strip() }}",
        "{{ body.lstrip() }}|{{ body.rstrip() }}|",
        "{{ body.strip('a ') }}",
        "{{ body.strip('') }}",
        "{{ body.lstrip(' ') }}",
        "{{ body.capitalize() }}",
        "{{ body.replace('l', 'L') }}",
        "{{ body.replace('o', other) }}",
        "{{ body.startswith('H') }}",
        "{{ body.startswith(('H', 'i')) }}",
        "{{ body.endswith(other) }}",
        "{% if body.endswith('d') %}d{% else %}no{% endif %}",
        "{{ body.strip().lower() }}",
        "{{ ', '.join([body, other]) }}",
        "{{ 'x'.join(labels) }}{{ body }}",
        "{{ 'abc'.upper() }}{{ body }}",
    ],
    "slices": [
        "{{ body[:3] }}",
        "{{ body[2:] }}",
        "{{ body[1:3] }}",
        "{{ body[-3:] }}",
        "{{ body[:-2] }}",
        "{{ body[-4:-1] }}",
        "{{ body[3:1] }}",
        "{{ body[:0] }}",
        "{{ body[0:] }}",
        "{{ body[:] }}",
        "{{ body[100:] }}",
        "{{ body[:n] }}",
        "{{ body[n:] }}",
        "{{ body[n:k] }}",
        "{{ body[-n:] }}",
        "{{ body[1:n] }}",
        "{{ body[n:-1] }}",
        "{{ body[:none] }}",
        "{{ (body ~ other)[:4] }}",
        "{{ body|trim|lower }}{{ body[:2]|upper }}",
    ],
    "characters": [
        "{% if body|length > 2 %}{{ body[0] }}{{ body[2] }}{% endif %}",
        "{% if body %}{{ body[0] }}{{ body[-1] }}{% endif %}",
        "{% if body|length > 3 %}{{ body[-3] }}{% endif %}",
    ],
    "joining": [
        "{{ body ~ other }}",
        "{{ body ~ ' ' ~ n ~ flag ~ day }}",
        "{{ 'a' ~ 1 ~ none }}{{ body }}",
        "{{ body + other }}",
        "{{ body + '!' }}",
        "{{ n + k }}",
        "{{ n - k }}",
        "{{ n * 2 - (k - 1) }}",
        "{{ n - (k + 1) * 2 }}",
        "{{ -(n + 1) }}",
        "{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 5 }}{{ 1 / 4 }}{{ n + 7 // 2 }}",
        "{{ [body, other]|join(', ') }}",
        "{{ [body, n, 'c']|join }}",
        "{{ labels|join(', ') }}{{ body }}",
        "{{ [body, other]|length }}{{ [body, other]|first }}{{ [body, other]|last }}",
    ],
    "conditions": [
        "{% if body %}yes{% endif %}",
        "{% if body %}yes{% else %}no{% endif %}",
        "{% if n %}a{% elif k %}b{% else %}c{% endif %}",
        "{% if n == 0 %}zero{% elif n == 1 %}one{% elif n == 2 %}two{% endif %}.",
        "{% if not body %}no{% endif %}",
        "{% if not n %}no{% endif %}",
        "{% if not flag %}no{% else %}yes{% endif %}",
        "{% if not not flag %}yes{% else %}no{% endif %}",
        "{% if day %}{{ day }}{% endif %}",
        "{% if info %}has{% endif %}",
        "{% if not info %}has no{% endif %}",
        "{% if info and info.home and info.home.city %}{{ info.home.city }}{% endif %}",
        "{% if body and n %}both{% endif %}",
        "{% if body or n %}one{% else %}none{% endif %}",
        "{% if not (body and flag) %}x{% else %}y{% endif %}",
        "{% if not (body or flag) %}x{% else %}y{% endif %}",
        "{% if body and other and n and k and flag %}all{% else %}not all{% endif %}",
        "{% if flag and n == 1 or body == 'b' and not k == 2 %}x{% else %}y{% endif %}",
        "{{ body if flag else other }}",
        "{{ 'a' if n == 1 else 'b' if n == 2 else 'c' }}",
        "{{ body if body else none }}",
        "{{ body or other }}",
        "{{ body and other }}",
        "{{ body or 'default' }}",
        "{{ (body or other or 'x')|upper }}",
        "{{ n or k }}",
        "{{ not body }}{{ not n }}{{ not flag }}",
        "{{ flag or false }}{{ flag and true }}",
        "{{ (body == 'b') or (n == 1) }}",
        "{% if true and body %}a{% endif %}{% if false or body %}b{% endif %}{% if body or true %}c{% endif %}",
        "{% if false %}x{% endif %}{{ body }}",
        "{% if body %}{% if other %}two{% else %}one{% endif %}{% else %}none{% endif %}",
        "{% if (body if flag else other) %}x{% else %}y{% endif %}",
        "{{ body if flag }}",
        "{{ 'x' if flag }}{{ n if flag }}.",
        "{{ (body if flag)|upper }}{{ (body if flag) ~ 'x' }}{{ [body if flag, 'b']|join('-') }}",
        "{{ (body if flag) or 'z' }}{% if (body if flag) %}x{% else %}y{% endif %}",
        "{{ (body if flag)|default('d') }}{{ (body if flag)|default('d', true) }}",
        "{{ (body if flag) == 'a' }}{{ (body if flag) == none }}{{ (body if flag) is none }}",
        "{{ (body if flag) == other }}{{ (body if flag) == (other if flag) }}{{ (body if flag) in ['a', 'b'] }}",
        "{{ (body if flag)[:2] }}",
        "{{ (body if flag) + 'x' }}",
        "{% set x = body if flag %}{{ x }}{{ x is defined }}",
        "{% if (n if flag else k) == 1 %}x{% else %}y{% endif %}",
    ],
    "comparisons": [
        "{{ body == 'b' }}",
        "{{ 'b' == body }}",
        "{{ body != 'b' }}",
        "{{ body == other }}",
        "{{ body != other }}",
        "{{ body == none }}",
        "{{ body != none }}",
        "{{ n == none }}{{ none == n }}",
        "{{ body is none }}{{ body is not none }}{{ info is none }}",
        "{{ body is defined }}{{ body is undefined }}",
        "{{ n == 1 }}{{ n != 1 }}",
        "{{ n == k }}{{ n != k }}",
        "{{ flag == true }}{{ flag != true }}",
        "{{ flag == false }}{{ flag == 1 }}{{ flag == 0 }}",
        "{{ body == 1 }}{{ n == 'b' }}{{ n != 'b' }}",
        "{{ body == n }}{{ flag == body }}",
        "{{ day == none }}",
        "{{ none == none }}{{ body }}",
        "{% if n != none and n > 1 %}big{% else %}small{% endif %}",
        "{% if n is not none and n >= limit %}big{% else %}small{% endif %}",
        "{% if n is none or n <= 1 %}small{% else %}big{% endif %}",
        "{% if n > 1 %}big{% endif %}",
        "{% if n < k %}less{% else %}not{% endif %}",
        "{{ 0 < n <= 3 }}",
        "{% if 0 < n <= 3 %}in{% else %}out{% endif %}",
        "{% if body < 'b' %}less{% else %}not{% endif %}",
        "{% if body >= other %}ge{% endif %}",
        "{{ body is eq('b') }}{{ n is eq(1) }}",
        "{% if n is not none and n is gt(1) %}x{% endif %}",
        "{{ body is ne('b') }}{{ body is in(['b', 'a']) }}",
        "{{ n > 1 }}",
        "{{ not n > 1 }}",
        "{{ not (n == 1) }}{{ not (body == other) }}",
        "{{ (n == 1) == (k == 2) }}",
        "{{ n + 1 == k }}",
        "{{ body|lower == 'hello world' }}",
        "{{ body|length > 3 }}",
        "{{ info.age == 9 }}",
        "{{ info is not none and info.age == 9 }}",
    ],
    "in": [
        "{{ body in ['a', 'b'] }}",
        "{{ body not in ['a', 'b'] }}",
        "{{ body in labels }}{{ body in names }}",
        "{{ body in [] }}",
        "{{ n in [1, 2] }}{{ n not in [1, 2] }}",
        "{{ n in (0, 3) }}",
        "{{ body in ['a', none] }}",
        "{{ body in [other, 'b'] }}",
        "{{ n in ['a', 1, none] }}",
        "{{ 'o' in body }}",
        "{{ 'o' not in body }}",
        "{{ other in body }}",
        "{{ '' in body }}",
        "{{ body in 'abc' }}",
        "{{ 'bug' in labels }}{{ body }}",
        "{% if body and 'ell' in body %}x{% else %}y{% endif %}",
        "{{ none in [body] }}",
        "{{ flag in [true, none] }}",
    ],
    "set": [
        "{% set x = body %}{{ x }}",
        "{% set x = 'a' %}{% if flag %}{% set x = 'b' %}{% endif %}{{ x }}",
        "{% set x = body %}{% if n == 1 %}{% set x = other %}{% elif n == 2 %}{% set x = 'two' %}{% endif %}{{ x }}",
        "{% if flag %}{% set x = body %}{% else %}{% set x = other %}{% endif %}[{{ x }}]",
        "{% if flag %}{% set body = 'new' %}{% endif %}{{ body }}",
        "{% set x = none %}{% if body %}{% set x = body|upper %}{% endif %}{{ x }}{{ x is none }}",
        "{% set x %}{{ body }}-{{ n }}{% endset %}{{ x }}{{ x|length }}",
        "{% set a, b = body, other %}{{ b }}{{ a }}",
        "{% with x = body %}{{ x }}{% endwith %}",
        "{% with x = body, y = 'z' %}{{ y }}{{ x }}{% endwith %}",
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
        "{% if body in names %}{{ names[body] }}{% endif %}",
        "{{ ['zero', 'one', 'two'][n] }}",
        "{{ labels[n] }}",
        "{{ labels[n]|upper }}",
        "{{ labels[n] == 'bug' }}",
        "{{ labels[k] ~ '!' }}",
        "{{ names[body] }}",
        "{{ numbers[n] }}",
        "{{ {'a': 'x', 'b': 'y'}[body] }}",
        "{{ [body, other][n] }}",
        "{{ [body, other][0] }}{{ [body, other][-1] }}",
        "{{ ['no', 'yes'][flag] }}",
        "{{ ['no', 'yes'][n == 1] }}",
        "{% if n == 1 %}{{ labels[n] }}{% endif %}.",
        "{{ 'x' if n is none else labels[n] }}",
        "{{ [1, none, 3][n] }}",
        "{{ labels[n]|default('x') }}",
        "{{ labels[n] is defined }}",
        "{{ names[body]|default(body)|upper }}",
        "{{ [1, none, 3][n]|default(7, true) }}",
        "{{ labels[n] if n in [0, 1] else 'out' }}",
        "{{ [[1, 2], [3]][1][0] }}{{ body }}",
        "{{ labels[1] }}{{ names.a }}{{ names['b'] }}{{ body }}",
        "{{ labels[1:] | join('-') }}{{ body }}",
    ],
    "structs": [
        "{{ info.name }}",
        "{{ info.home.city|upper }}",
        "{% if info is none %}none{% else %}{{ info.name }}{% endif %}",
        "{% if info %}{{ info.name }}{% endif %}",
        "{{ info.name or 'nobody' }}",
        "{{ info.age + 1 }}",
        "{{ info.home is none }}",
        "{{ info.name if flag else body }}",
        "{{ info.name is defined }}{{ info.home.city is defined }}",
        "{{ info.name is undefined }}{{ info.name is none }}",
        "{{ info.name|default('x') }}",
        "{{ info.home.city|default(body, true)|upper }}",
        "{{ info.name|string }}",
        "{{ info.name ~ info.age }}",
        "{{ [info.name, body]|join(' ') }}",
        "{{ info.name == body }}",
        "{{ info.age == body }}{{ body == info.age }}",
        "{% set x = info.name %}{% if info %}{{ x }}{% endif %}",
        "{% if flag and info.age > 2 %}x{% endif %}",
        "{% if not flag or info.name %}x{% else %}y{% endif %}",
    ],
    "constants": [
        "{{ output.label.enum|join(', ') }}{{ body }}",
        "{{ output.label.description }}{{ body }}",
        "{% for v in output.label.enum %}- {{ v }}\n{% endfor %}{{ body }}",
        "{{ limit + 1 }}{{ ratio }}{{ ratio * 2 }}{{ labels }}{{ names }}{{ body }}",
        "{{ labels|map('upper')|join(' ') }}{{ labels|reverse|join(' ') }}{{ labels|sort|first }}{{ body }}",
        "{{ labels|length }}{{ 3.14159|round(2) }}{{ {'a': 1}|tojson }}{{ body }}",
        "{% if limit > 2 %}{{ body }}{% else %}{{ other }}{% endif %}",
        "{{ body[:limit] }}",
    ],
    "whitespace": [
        "a\n{%- if body %}\n  x\n{%- endif %}\nb",
        "a {{- body -}} b",
        "{% for l in labels -%}\n  {{ l }}\n{%- endfor %}\n{{ body }}\n",
        "{% if body -%}   x   {%- else -%}   y   {%- endif %} \n",
        "  {%+ if body %}x{% endif %}  ",
        "{{ body }}\n\n",
        "\n\n{{ body }}",
    ],
}
CASES = [pytest.param(t, id=f"{g}-{i}") for g, templates in RENDERED.items() for i, t in enumerate(templates)]


def reference(template: str, rows: Sequence[Mapping[str, Any]], vars: Mapping[str, Any] = VARS) -> list[str | None]:
    """What Jinja renders for each row; None where the template fails for it."""
    results: list[str | None] = []
    for values in rows:
        try:
            results.append(se.render_prompt(template, values, vars))
        except se.PromptError:
            results.append(None)
    return results


class Table:
    """The rows in an in-memory DuckDB, and what a template's SQL gives for each of them."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows
        self.connection = duckdb.connect()
        self.connection.execute(f"CREATE TABLE source (_place BIGINT, {SQL_COLUMNS})")
        marks = ", ".join("?" for _ in range(len(COLUMNS) + 1))
        for place, values in enumerate(rows):
            self.connection.execute(
                f"INSERT INTO source VALUES ({marks})", [place, *(values[name] for name in COLUMNS)]
            )

    def render(self, template: str, vars: Mapping[str, Any] = VARS) -> list[str | None]:
        """The SQL's text for each row, in order."""
        sql = se.prompt_sql(template, "duckdb", columns=COLUMNS, vars=vars)
        found = self.connection.execute(f"SELECT ({sql}) FROM source ORDER BY _place").fetchall()
        return [text for (text,) in found]


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    made = Table(ROWS)
    yield made
    made.connection.close()


@pytest.mark.parametrize("template", CASES)
def test_sql_gives_what_jinja_renders(table: Table, template: str) -> None:
    assert table.render(template) == reference(template, ROWS)


# Where an engine can't follow Python to the last character, the prompt is NULL: never a different text.

INTEGERS = [
    pytest.param("42", "42", id="plain"),
    pytest.param(" 42\n", "42", id="blanks around"),
    pytest.param("-7", "-7", id="negative"),
    pytest.param("+5", "5", id="sign"),
    pytest.param("007", "7", id="zeros"),
    pytest.param("", "0", id="empty"),
    pytest.param("abc", "0", id="no number"),
    pytest.param("inf", "0", id="infinity"),
    pytest.param(None, "0", id="none"),
    pytest.param("1.5", "1", id="decimals"),
    pytest.param("1_000", None, id="underscore (1000 in Python)"),
    pytest.param("12abc", None, id="digits and letters (0 in Python)"),
    pytest.param("٣", None, id="other digits (3 in Python)"),
    pytest.param("9999999999999999999", None, id="beyond 64 bits"),
]


@pytest.mark.parametrize(("text", "expected"), INTEGERS)
def test_int_of_a_text_is_pythons_or_null(text: str | None, expected: str | None) -> None:
    template = "{{ body|int }}"
    assert Table([row(text)]).render(template) == [expected]
    if expected is not None:
        assert reference(template, [row(text)]) == [expected]


@pytest.mark.parametrize(
    ("text", "template", "expected"),
    [
        pytest.param("straße ŉ", "{{ body|upper }}", None, id="a letter that becomes two"),
        pytest.param("ΟΔΟΣ", "{{ body|lower }}", None, id="a final sigma"),
        pytest.param("ΑΣ日", "{{ body|lower }}", None, id="a final sigma before a letter without case"),
        pytest.param("ΣΟ", "{{ body|lower }}", "σο", id="another sigma"),
        pytest.param("ß", "{{ body|upper }}", "SS", id="sharp s"),
        pytest.param("İ", "{{ body|lower }}", "i\u0307", id="dotted I"),
    ],
)
def test_case_is_pythons_or_null(text: str, template: str, expected: str | None) -> None:
    assert Table([row(text)]).render(template) == [expected]
    if expected is not None:
        assert reference(template, [row(text)]) == [expected]


def test_an_integer_beyond_64_bits_is_null() -> None:
    assert Table([row(n=2**63 - 1), row(n=1)]).render("{{ n + 1 }}") == [None, "2"]


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
    pytest.param("{% set l = [] %}{{ l.pop() }}", 1, "changes a value in place", id="pop"),
    pytest.param("{{ body }}\n{{ lipsum() }}", 2, "is random or keeps a state", id="lipsum"),
    pytest.param("{% set j = joiner(',') %}{{ j() }}{{ body }}", 1, "is random or keeps a state", id="joiner"),
    pytest.param("a\n{{ body", 2, "unexpected end of template", id="not closed"),
    pytest.param("a\n{% if body %}", 2, "Unexpected end of template", id="if not closed"),
    pytest.param("{{ body|uper }}", 1, 'the filter "uper" (upper?) is not compiled', id="unknown filter"),
    pytest.param("\n\n{{ bdy }}", 3, 'unknown column "bdy" (body?); there are: body, other, n', id="unknown column"),
    pytest.param("{{ body|random }}", 1, "a prompt must be the same on each run", id="random"),
    pytest.param("{{ body|tojson }}", 1, "build the JSON in the source query", id="tojson"),
    pytest.param("{{ body|wordcount }}", 1, 'the filter "wordcount" is not compiled', id="known filter"),
    pytest.param("{{ body.zfill(3) }}", 1, 'the method "zfill" is not compiled', id="method"),
    pytest.param("{{ body.strp() }}", 1, 'the method "strp" (strip?) is not compiled', id="method typo"),
    pytest.param(
        "{{ n.upper() }}",
        1,
        'the method "upper" of bigint; only text, dates and arrays have them',
        id="method of integer",
    ),
    pytest.param("{{ body.name }}", 1, '".name" of string', id="attribute of text"),
    pytest.param("{{ info.nme }}", 1, 'no field "nme" (name?); there are: name, age, home', id="field typo"),
    pytest.param("{{ info.keys }}", 1, 'write ["keys"]', id="a dict's method"),
    pytest.param("{{ info }}", 1, "printing struct (info)", id="a struct"),
    pytest.param("{{ ratio * n }}", 1, "printing double (n) is not the same", id="float product"),
    pytest.param("{{ n / 3 }}", 1, "printing double (n) is not the same", id="thirds"),
    pytest.param("{{ n % 0 }}", 1, '"%" by 0', id="modulo of zero"),
    pytest.param("{{ body * 2 }}", 1, "multiplying string by bigint", id="repeated text"),
    pytest.param("{{ body + n }}", 1, "adding string and bigint", id="text and integer"),
    pytest.param("{{ body - n }}", 1, "subtracting bigint from string", id="text minus integer"),
    pytest.param("{{ -body }}", 1, "the negative of string", id="negative text"),
    pytest.param("{{ body < n }}", 1, "ordering string and bigint", id="ordering types"),
    pytest.param("{{ flag == 2 }}", 1, "comparing a boolean with an integer", id="boolean and integer"),
    pytest.param("{{ info == info }}", 1, "comparing arrays or structs", id="structs"),
    pytest.param("{{ n in body }}", 1, "looking for bigint in string", id="integer in text"),
    pytest.param("{{ body[::2] }}", 1, "a slice with a step", id="step"),
    pytest.param("{{ body['x'] }}", 1, "text indexed by string", id="text by text"),
    pytest.param("{{ body[:other] }}", 1, "a slice bound that is string", id="slice by text"),
    pytest.param("{{ n[1:] }}", 1, "a slice of bigint; it must be text or an array", id="slice of integer"),
    pytest.param("{{ labels[body] }}", 1, "declare the column as bigint", id="list by text"),
    pytest.param("{{ names[n] }}", 1, "a mapping indexed by bigint", id="mapping by integer"),
    pytest.param("{{ ['a', 1][n] }}", 1, "a list of several types indexed by row", id="mixed list"),
    pytest.param("{{ labels[9] }}{{ body }}", 1, "this fails for every row: list object has no element 9", id="range"),
    pytest.param("{{ [body][3] }}", 1, "index 3 is out of range for every row", id="range of row values"),
    pytest.param("{{ {'a': body} }}", 1, "printing a mapping where one value is needed; index it", id="mapping"),
    pytest.param("{{ [body, other] }}", 1, "printing a list where one value is needed", id="a list"),
    pytest.param(
        "a\nb {% for c in body %}{{ c }}{% endfor %}", 2, "a loop over string; it must be an array", id="loop"
    ),
    pytest.param("{% for l in labels if l == body %}{% endfor %}", 1, "put an if inside the loop", id="loop filter"),
    pytest.param("{% for i in 5 %}{% endfor %}", 1, "the loop fails for every row", id="loop over integer"),
    pytest.param("{% for l in labels recursive %}{% endfor %}", 1, "a recursive loop", id="recursive"),
    pytest.param("{% for i in range(30000) %}{{ body }}{% endfor %}", 1, "prints over 20000 parts", id="explosion"),
    pytest.param("{% for a, b in [body] %}{% endfor %}", 1, "only plain names can be set", id="unpacking"),
    pytest.param("{% set ns.x = body %}", 1, '"ns" is not a namespace', id="namespace"),
    pytest.param("{{ body if n else n }}", 1, "a value that is string for some rows and bigint for", id="two types"),
    pytest.param(
        "{{ n|default('none', true) }}", 1, "a default that is string of a value that is bigint", id="default's type"
    ),
    pytest.param("{{ body[0]|default('x') }}", 1, "compare its length instead", id="default of a character"),
    pytest.param("{{ n|length }}", 1, "the length of bigint", id="length"),
    pytest.param("{{ body|int(base=2) }}", 1, "named arguments", id="named argument"),
    pytest.param("{{ body|int(0, 2) }}", 1, "a base other than 10", id="base"),
    pytest.param("{{ body|int('x') }}", 1, "a default that is not an integer", id="int default"),
    pytest.param("{{ day|int }}", 1, "int of date", id="int of date"),
    pytest.param("{{ body|replace('a', 'x', 1) }}", 1, "replacing only the first occurrences", id="replace"),
    pytest.param("{{ body|replace('', 'x') }}", 1, "replacing an empty text", id="replace nothing"),
    pytest.param("{{ body|replace('a', 'b', 1) }}", 1, "leave the count out", id="replace count"),
    pytest.param("{{ body.replace('a', n) }}", 1, "write x|replace(a, b)", id="replace by integer"),
    pytest.param("{{ ', '.join([body, n]) }}", 1, "joining bigint; write [...]|join", id="join integer"),
    pytest.param("{{ body|trim(other) }}", 1, "stripping characters that differ by row", id="trim"),
    pytest.param("{{ body.startswith(n) }}", 1, "startswith of bigint", id="startswith"),
    pytest.param("{{ body|upper(1) }}", 1, 'the filter "upper" with 1 arguments', id="argument count"),
    pytest.param("{{ body|upper(*labels) }}", 1, "arguments given with * or **", id="star"),
    pytest.param("{{ body is lower }}", 1, 'the test "lower" is not compiled', id="test"),
    pytest.param("{{ body() }}", 1, "a call with row values", id="call"),
    pytest.param("{{ 1 / 0 }}{{ body }}", 1, "this fails for every row: division by zero", id="constant failure"),
    pytest.param("{{ output.lable.enum }}", 1, "this fails for every row: 'dict object' has no", id="output typo"),
    pytest.param("x\n{% call m() %}{% endcall %}", 2, '"callblock" is not compiled to SQL', id="call"),
    pytest.param("{% include 'x' %}", 1, "and this prompt has no file", id="include"),
    pytest.param("{% do labels.append(body) %}", 1, '".append" changes a value in place', id="do"),
    pytest.param("{% filter tojson %}{{ body }}{% endfilter %}", 1, 'the filter "tojson"', id="filter block"),
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


# Random templates over random rows.

TEXTS = st.text(alphabet="abAB \n\t'\"\\{}%é日😀0-", max_size=6)
WHOLE = st.integers(-4, 5)


def _rows() -> st.SearchStrategy[dict[str, Any]]:
    text, number = st.none() | TEXTS, st.none() | WHOLE
    home = st.none() | st.fixed_dictionaries({"city": text})
    info = st.none() | st.fixed_dictionaries({"name": text, "age": number, "home": home})
    day = st.none() | st.dates()
    return st.fixed_dictionaries(
        {
            "body": text,
            "other": text,
            "n": number,
            "k": number,
            "flag": st.none() | st.booleans(),
            "day": day,
            "info": info,
        }
    )


def _expressions(depth: int) -> tuple[st.SearchStrategy[str], st.SearchStrategy[str], st.SearchStrategy[str]]:
    """Texts, integers and conditions, with so many levels of nesting."""
    texts = st.sampled_from(["body", "other", "info.name", "info.home.city", "x", "'a'", "'Ab '", "''", '"it\'s"'])
    numbers = st.sampled_from(["n", "k", "info.age", "0", "2", "(-3)"])
    tests = st.sampled_from(["flag", "n", "body", "info", "day", "flag == true", "body == n", "body is none"])
    if depth == 0:
        return texts, numbers, tests
    text, number, test = _expressions(depth - 1)
    bound = st.sampled_from(["", "n", "k", "-1", "1", "2", "-3", "0"])
    filters = st.sampled_from(
        [
            "lower",
            "upper",
            "string",
            "capitalize",
            "replace('a', 'bc')",
            "replace('b', other)",
            "trim('a')",
            "default('d', true)",
            "default(other)",
        ]
    )
    methods = st.sampled_from(["lower()", "upper()", "strip()", "lstrip('a')", "rstrip(' ')", "replace('a', other)"])
    order = st.sampled_from(["==", "!=", "<", ">="])
    more_texts = st.one_of(
        texts,
        st.builds("({}|{})".format, text, filters),
        st.builds("{}.{}".format, st.sampled_from(["body", "other", "x"]), methods),
        st.builds("({}[{}:{}])".format, text, bound, bound),
        st.builds("({} ~ {})".format, text, st.one_of(text, number)),
        st.builds("({} + {})".format, text, text),
        st.builds("({} if {} else {})".format, text, test, text),
        st.builds("({} {} {})".format, text, st.sampled_from(["or", "and"]), text),
        st.builds("({}|string)".format, st.one_of(number, st.sampled_from(["flag", "day"]))),
        st.builds("(['p', {}, 'q'][{}])".format, st.sampled_from(["'r'", "body"]), st.sampled_from(["n", "k", "flag"])),
        st.sampled_from(["labels[n]", "names[body]", "([body, other]|join('-'))", "', '.join([body, other])"]),
    )
    more_numbers = st.one_of(
        numbers,
        st.builds("({} {} {})".format, number, st.sampled_from(["+", "-", "*"]), number),
        st.builds("({}|length)".format, text),
        st.builds("({}|int)".format, st.sampled_from(["n", "flag", "k"])),
        st.builds("({} if {} else {})".format, number, test, number),
        st.builds("(-{})".format, number),
    )
    more_tests = st.one_of(
        tests,
        text,
        st.builds("({} {} {})".format, text, order, text),
        st.builds("({} {} {})".format, number, order, number),
        st.builds("({} {} none)".format, text, st.sampled_from(["==", "!=", "is", "is not"])),
        st.builds("({} in ['a', 'b', other])".format, text),
        st.builds("({} not in [1, n, none])".format, number),
        st.builds("('a' in {})".format, text),
        st.builds("(not {})".format, test),
        st.builds("({} {} {})".format, test, st.sampled_from(["and", "or"]), test),
        st.builds("(0 < {} <= 3)".format, number),
    )
    return more_texts, more_numbers, more_tests


def _templates() -> st.SearchStrategy[str]:
    text, number, test = _expressions(2)
    plain = st.one_of(
        st.sampled_from(["words ", "\n", "{{ day }}", "{{ flag }}"]),
        st.builds("{{{{ {} }}}}".format, st.one_of(text, number, test.map(lambda t: f"(1 if {t} else 0)"))),
    )
    setting = st.builds("{{% set x = {} %}}".format, text)
    branches = st.one_of(
        st.builds(
            "{{% if {} %}}{}{{% elif {} %}}{}{{% else %}}{}{{% endif %}}".format, test, plain, test, setting, plain
        ),
        st.builds("{{%- if {} -%}} {} {{%- endif %}}".format, test, st.one_of(setting, plain)),
        st.builds("{{% for i in labels %}}{{{{ loop.index }}}}{}{{% endfor %}}".format, plain),
    )
    pieces = st.lists(st.one_of(plain, setting, branches), min_size=1, max_size=3)
    return pieces.map(lambda parts: "{% set x = 'start' %}" + "".join(parts))


COMPILED: dict[bool, int] = {True: 0, False: 0}


@settings(
    max_examples=300,
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(template=_templates(), rows=st.lists(_rows(), min_size=1, max_size=4))
def test_random_templates(template: str, rows: list[dict[str, Any]]) -> None:
    table = Table([*rows, *ROWS[:4]])
    try:
        given = table.render(template)
    except se.PromptError:
        COMPILED[False] += 1
        return
    finally:
        table.connection.close()
    COMPILED[True] += 1
    assert given == reference(template, [*rows, *ROWS[:4]])


def test_most_random_templates_are_compiled() -> None:
    if not any(COMPILED.values()):  # they may have run in another process
        test_random_templates()
    assert COMPILED[True] > 4 * COMPILED[False]

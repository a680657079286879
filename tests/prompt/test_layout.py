"""How prompts are laid out, and what ``check`` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlenrich.cli.check import LONG_CONSTANT_CHARACTERS, check
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array, Type
from sqlenrich.prompt import compile_prompt
from sqlenrich.prompt.layout import layout, printed_columns
from sqlenrich.spec.loader import templates
from tests.support.runs import write_prompt

TYPES: dict[str, Type] = {"n": BIGINT, "flag": BOOLEAN, "tags": Array(STRING)}
VARS = {"labels": ["x", "yy"]}


@pytest.mark.parametrize(("template", "before", "column", "behind", "line"), [
    ("12345", 5, "", 0, None),
    ("123{{ a }}", 3, "a", 0, 1),
    ("123{{ a }}4567", 3, "a", 4, 1),
    ("{{ a }}12{{ b }}345{{ a }}6", 0, "a", 6, 1),
    ("12{{ labels | join(', ') }}\n{{ a | trim }}", 8, "a", 0, 2),
    ("12\n\n{{ n + 1 }}345", 4, "n", 3, 3),
    # branches: the shortest
    ("{% if flag %}1234{% else %}12{% endif %}{{ a }}", 2, "a", 0, 1),
    ("{% if flag %}1234{% endif %}{{ a }}", 0, "a", 0, 1),
    ("{{ a }}{% if flag %}1234{% else %}12{% endif %}{% if flag %}1{% endif %}", 0, "a", 2, 1),
    ("{% if flag %}12{{ a }}345{% else %}1234567{% endif %}89", 2, "a", 5, 1),
    ("{% if flag %}12{{ a }}345678901{% else %}1{{ b }}234{% endif %}\n", 1, "a", 4, 1),
    ("{{ 'yes' if flag else 'no' }}{{ a }}", 2, "a", 0, 1),
    ("{% if not a %}{% else %}It says: {% endif %}123", 3, "", 0, None),
    # loops: one turn
    ("12{% for t in tags %}- {{ t }},{% endfor %}345", 2, "tags", 6, 1),
    ("12{{ tags | join(', ') }}345", 2, "tags", 3, 1),
    ("{% for l in labels %}{{ l }}: {{ a }}\n{% endfor %}", 3, "a", 6, 1),
    ("{% for t in tags %}12{% endfor %}345", 0, "tags", 5, None),
    # macros: where they print
    ("{% macro m(x) %}<{{ x }}>{% endmacro %}12\n{{ m(a) }}", 4, "a", 1, 1),
    ("{% filter upper %}abc{{ a }}{% endfilter %}12", 0, "a", 2, 1),
    ("{% set x = a | trim %}12\n{{ x }}3", 3, "a", 1, 2),
])  # fmt: skip
def test_layout(template: str, before: int, column: str, behind: int, line: int | None) -> None:
    compiled = compile_prompt(template, columns=TYPES, vars=VARS)
    found = layout(compiled.expr)
    assert (found.before, found.column, found.behind) == (before, column, behind)
    assert found.constant == before + behind
    assert (None if found.value is None else compiled.lines.get(found.value)) == line


def test_layout_counts_as_it_is_told() -> None:
    expr = compile_prompt("é{{ a }}漢字").expr
    assert layout(expr)[::2] == (1, 2)
    assert layout(expr, lambda text: len(text.encode()))[::2] == (2, 6)


@pytest.mark.parametrize(("template", "columns"), [
    ("{{ a }} {{ b | trim | upper }}", "a b"),
    ("{% if a %}{{ b }}{% endif %}", "b"),
    ("{{ b if a == 'x' else c }}", "b c"),
    ("{{ a | replace(b, c) }}", "a b c"),
    ("{{ labels[n] }} {{ a }}", "a"),
    ("{{ a == b }} {{ a | length }}", ""),
    ("{% for t in tags %}{{ t }} {{ a }}{% endfor %}", "a tags"),
    ("{{ tags | select('equalto', a) | join(b) }}", "b tags"),
    ("{{ n }}", "n"),
])  # fmt: skip
def test_printed_columns(template: str, columns: str) -> None:
    found = dict(printed_columns(compile_prompt(template, columns=TYPES, vars=VARS).expr))
    assert " ".join(sorted(found)) == columns
    assert all(kind == TYPES.get(name, STRING) for name, kind in found.items())


def said(prompt: Path) -> list[str]:
    lines = [line.strip() for line in check(prompt).text.splitlines()]
    return [line for line in lines if line.startswith(("tokens", "prompt"))]


LATE = "word " * (LONG_CONSTANT_CHARACTERS // 5)
ADVICE = "put them before it, then endpoints that cache prefixes read them once"


@pytest.mark.parametrize(("template", "warning"), [
    pytest.param(LATE + "{{ body }}", None, id="constants first"),
    pytest.param("{{ body }}" + LATE[1:], None, id="too few behind"),
    pytest.param("{{ body }}" + LATE, f"prompt      200 constant characters follow the row's body (line 11): {ADVICE}",
                 id="behind"),
    pytest.param(LATE + "\n\n{{ body }}" + LATE * 10,
                 f"prompt      2,000 constant characters follow the row's body (line 13): {ADVICE}", id="around"),
    pytest.param("{{ body }}{% if body %}" + LATE + "{% endif %}", None, id="not for every row"),
])  # fmt: skip
def test_check_warns_of_constants_behind_a_value(tmp_path: Path, template: str, warning: str | None) -> None:
    found = said(write_prompt(tmp_path, template=template))
    assert found[1:] == ([] if warning is None else [warning])


@pytest.mark.parametrize(("header", "more"), [
    ("", ""),
    ("max_input_tokens: 8000\n", "; a request of over 8,000 is not asked"),
    ("max_input_tokens: 8000\non_overflow: truncate:body\n", "; a request of over 8,000 has its body cut"),
])  # fmt: skip
def test_check_tells_the_tokens(tmp_path: Path, header: str, more: str) -> None:
    prompt = write_prompt(tmp_path, f"key: [id]\n{header}", template="漢字 {{ body }} of it")
    assert said(prompt) == [f"tokens      about 4 of each prompt are constant, the schema has 67{more}"]


@pytest.mark.parametrize("name", sorted(templates()))
def test_the_templates_put_their_constants_first(name: str) -> None:
    assert len(said(Path(name))) == 1

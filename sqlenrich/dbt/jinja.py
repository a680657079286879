"""SQL text as Jinja that both of dbt's template engines render unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql
from sqlenrich.plan.relations import Relations, Symbol

_ACTIVE = re.compile(r"[{\r][{%#\r]+|\r")
"""What Jinja would read as its own. A carriage return would become a line feed."""


def string(text: str) -> str:
    """Return a text as a string literal of Jinja."""
    return json.dumps(text, ensure_ascii=False)


def inert(text: str) -> str:
    """Return a template that renders as the text."""
    return _ACTIVE.sub(lambda found: "{{ " + string(found[0]) + " }}", text)


def template(engine: Engine, query: Sql, pieces: Mapping[str, str]) -> str:
    """Print a query with a piece of Jinja for each of its symbols; ``pieces`` maps a role to its piece."""
    used = [symbol.name for symbol in query.find_all(Symbol)]
    for number in count():
        printed = marked(engine, pieces, number).sql(query)
        if all(printed.count(_mark(role, number)) == used.count(role) for role in pieces):
            break  # no text of the query contains a mark
    return filled(printed, pieces, number)


def marked(engine: Engine, roles: Iterable[str], number: int = 0) -> Relations:
    """Return relations that print as marks."""
    return Relations(engine, {role: exp.Table(this=exp.var(_mark(role, number))) for role in roles})


def filled(printed: str, pieces: Mapping[str, str], number: int = 0) -> str:
    """Return a template for a text with marks: each mark as its piece of Jinja."""
    found = inert(printed)
    for role, piece in pieces.items():
        found = found.replace(_mark(role, number), piece)
    return found


def _mark(role: str, number: int) -> str:
    return f"\ue000{role}{number}\ue001"


def chosen(forms: Sequence[tuple[str, str]]) -> str:
    """Return a template of which a condition chooses the form; one form needs none."""
    if len(forms) == 1:
        return forms[0][1]
    written = [f"{{%- {'elif' if n else 'if'} {test} -%}}\n{text}" for n, (test, text) in enumerate(forms)]
    return "\n".join([*written, "{%- endif -%}"])


def arms(templates: Mapping[str, str], default: str) -> str:
    """Return a template with one arm for each type of adapter."""
    written, word = [], "if"
    for adapter, text in templates.items():
        written.append(f"{{%- {word} target.type == '{adapter}' -%}}\n{text}")
        word = "elif"
    return "\n".join([*written, f"{{%- else -%}}\n{default}", "{%- endif -%}"])


def macro(name: str, arguments: str, body: str) -> str:
    """Return the definition of a macro."""
    return f"{{% macro {name}({arguments}) -%}}\n{body}\n{{%- endmacro %}}\n"

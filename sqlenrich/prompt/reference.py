"""The reference: the text that Jinja itself renders for a row. Every engine's SQL gives the same bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2.lexer import Lexer, newline_re

from sqlenrich.core.errors import PromptError
from sqlenrich.core.zones import DEFAULT_ZONE, local_times, time_zone


class SourceLine(int):
    """A line number with a column number, both from 1."""

    column: int = 1


class _PositionLexer(Lexer):
    """Jinja's lexer with columns: its line numbers are :class:`SourceLine`, which the nodes keep."""

    def tokeniter(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> Iterator[tuple[int, str, str]]:
        lines = newline_re.split(source)[::2]
        text = "\n".join(lines)
        at = 0
        for line, token, value in super().tokeniter(source, name, filename, state):
            found = text.find(value, at)
            position = SourceLine(line)
            if found >= 0:
                position.column = found - (text.rfind("\n", 0, found) + 1) + 1
                at = found + len(value)
            yield position, token, value


class _Environment(jinja2.Environment):
    @property
    def lexer(self) -> Lexer:
        return _PositionLexer(self)


@functools.cache
def environment(folder: Path | None = None) -> jinja2.Environment:
    """Return the Jinja environment that defines what a prompt means. NULL prints as nothing; an undefined name raises.

    ``include`` and ``import`` read files of ``folder``.
    """
    env = _Environment(
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: "" if value is None else value,
        extensions=["jinja2.ext.do"],
        loader=None if folder is None else jinja2.FileSystemLoader(folder),
    )
    env.globals.update(zip=zip)
    return env


def render_prompt(
    template: str,
    row: Mapping[str, Any],
    vars: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    timezone: str = DEFAULT_ZONE,
) -> str:
    """Render a template for one row, as every engine does in SQL.

    ``row`` maps column names to Python values (None for NULL, lists for arrays, dicts for structs); ``vars`` are the
    compile-time constants; ``folder`` is where included templates lie; ``timezone`` is the IANA name of the zone in
    which datetimes with a time zone are read. Raises :class:`~sqlenrich.PromptError` where the template fails for the
    row, ValueError for an unknown zone.
    """
    zone = time_zone(timezone)
    try:
        return _compiled(template, folder).render(local_times({**row, **(vars or {})}, zone))
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(error.message or "syntax error", line=error.lineno) from error
    except Exception as error:
        raise PromptError(f"the template fails for this row: {error}") from error


@functools.lru_cache(maxsize=64)
def _compiled(template: str, folder: Path | None) -> jinja2.Template:
    return environment(folder).from_string(template)

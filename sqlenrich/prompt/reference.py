"""The reference: what Jinja itself renders for a row. Every engine's SQL gives these very bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

from ..errors import PromptError


def environment() -> jinja2.Environment:
    """Give the Jinja environment that defines what a prompt means: a NULL prints as nothing, a typo raises."""
    env = jinja2.Environment(
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: "" if value is None else value,
        extensions=["jinja2.ext.do"],
    )
    env.globals.update(zip=zip)
    return env


def render_prompt(template: str, row: Mapping[str, Any], vars: Mapping[str, Any] | None = None) -> str:
    """Render a template for one row, as every engine does in SQL.

    ``row`` maps column names to Python values (None for NULL, lists for arrays, dicts for structs); ``vars`` are the
    compile-time constants. Raises :class:`~sqlenrich.PromptError` where the template fails for the row.
    """
    try:
        return environment().from_string(template).render({**row, **(vars or {})})
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(error.message or "syntax error", line=error.lineno) from error
    except Exception as error:
        raise PromptError(f"the template fails for this row: {error}") from error

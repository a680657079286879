"""Single SQL expressions for queries of one's own: a prompt, a verdict, a repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, UnsupportedError, did_you_mean
from sqlenrich.core.names import column
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import parse_type
from sqlenrich.core.zones import DEFAULT_ZONE, time_zone
from sqlenrich.engines import get_engine
from sqlenrich.prompt import compile_prompt
from sqlenrich.prompt.sql import printer as printer
from sqlenrich.prompt.sql.local_times import local_times
from sqlenrich.schema import build_checks, normalise
from sqlenrich.schema.checks.repairs import REPAIRS, repaired_sql
from sqlenrich.schema.checks.sql import checks_sql
from sqlenrich.spec.contract import DEFAULT_REPAIRS


def prompt_sql(
    template: str,
    engine: str,
    columns: Mapping[str, Any] | None = None,
    vars: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    timezone: str = DEFAULT_ZONE,
) -> str:
    """Return the SQL expression of a template over the columns' names: NULL where the template fails for the row.

    ``columns`` maps names to types; a name that is neither there nor in ``vars`` is refused. ``folder`` has the
    included templates. A ``timestamp`` that is an instant is read in ``timezone``, an IANA name, whatever the session's
    zone is. Raises :class:`~sqlenrich.PromptError` with every construct that can't be compiled and its place,
    :class:`~sqlenrich.UnsupportedError` for what the engine lacks, ValueError for an unknown zone.
    """
    target = get_engine(engine)
    types = {name: parse_type(kind) for name, kind in (columns or {}).items()}
    compiled = compile_prompt(template, columns=types, vars=vars, default=None, folder=folder)
    time_zone(timezone)
    made = printer.prompt_sql(
        compiled.expr,
        target.text,
        lambda name: local_times(target.text, column(target, name), types[name], timezone, known=False),
    )
    return _print(target, made)


def check_sql(schema: Any, engine: str, column: str = "response", assert_format: bool = False) -> str:
    """Return the SQL expression of an answer's verdict: NULL = accepted, else the reason code.

    The text of ``column`` is judged without repairs. ``schema`` is any JSON Schema whose value is an object; with
    ``assert_format`` its formats are checked. Raises :class:`~sqlenrich.UnsupportedError` for a schema that the engine
    can't check.
    """
    target = get_engine(engine)
    plain, problems = normalise(schema, "schema", columns=False, assert_format=assert_format)
    if problems:
        raise UnsupportedError(engine, "; ".join(str(p) for p in problems), "write the schema without it")
    text = _column(target, column)
    checks = build_checks(plain)
    doc = target.json.parse(text)
    checked = target.json.let(doc, lambda d: checks_sql(target.json, text.copy(), d, checks, detail=False))
    return _print(target, checked)


def repair_sql(engine: str, column: str = "response", repairs: Sequence[str] = DEFAULT_REPAIRS) -> str:
    """Return the SQL expression of a text after the declared repairs."""
    target = get_engine(engine)
    for repair in repairs:
        if repair not in REPAIRS:
            known = ", ".join(REPAIRS)
            raise ConfigError(f'unknown repair "{repair}"{did_you_mean(repair, REPAIRS)}; there are: {known}')
    return _print(target, repaired_sql(target.json, target.text, _column(target, column), repairs))


def _column(engine: Engine, name: str) -> exp.Column:
    return column(engine, name)


def _print(engine: Engine, value: Sql) -> str:
    return print_sql(engine, value)

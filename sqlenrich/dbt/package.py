"""The generated macros of the dbt package: what an adapter's SQL says of every enrichment, and the ready-made ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlenrich.core.engine import Engine
from sqlenrich.core.json import compact_json
from sqlenrich.core.printer import print_sql
from sqlenrich.core.version import __version__
from sqlenrich.dbt.jinja import arms, filled, macro, marked, string
from sqlenrich.dbt.macros import ARGUMENTS, answer_columns, dbt_plan, enrichment_macros, macro_name, plans
from sqlenrich.dbt.yaml import dump
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.plan.plan import RESPONSES, Plan
from sqlenrich.renderer.statements import create_responses, read_answers
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import load, templates
from sqlenrich.spec.settings import Config

HEAD = f"{{#- Made by sqlenrich {__version__}: tests/dbt compares it, and writes it with --update-golden. -#}}\n"

ROLES = {
    "source": "The table whose rows are asked.",
    "prompts": "The relation of the step `prompts`.",
    "pending": "The relation of the step `pending`.",
    "responses": "The table of answers.",
    "checked": "The relation of the step `checked`.",
}
"""What the relations are that a macro reads."""


def package_files() -> dict[str, str]:
    """Return the generated files of the package by their place in it."""
    ready_made = {name: load(path) for name, path in templates().items()}
    first = next(iter(ready_made.values()))
    by_engine = {engine: dbt_plan(first, engine, Config()) for engine in ENGINES}
    files = {"macros/answers.sql": HEAD + "\n".join(_answer_macros(by_engine))}
    for name, enrichment in ready_made.items():
        head = (
            f"{{#- The ready-made enrichment {name}, made by sqlenrich {__version__}: {enrichment.description}. -#}}\n"
        )
        files[f"macros/enrichments/{name}.sql"] = head + enrichment_macros(enrichment, plans(enrichment, Config()))
    described = [entry for name, enrichment in ready_made.items() for entry in _macro_properties(name, enrichment)]
    files["macros/enrichments/enrichments.yml"] = dump({"version": 2, "macros": described})
    return files


def _macro_properties(name: str, enrichment: Enrichment) -> list[dict[str, Any]]:
    """Return the properties of the macros of an enrichment: each gives a SELECT over relations."""
    return [
        {
            "name": macro_name(name, step),
            "description": f"{enrichment.description.rstrip('.')}: the SELECT of the step `{step}`.",
            "arguments": [{"name": role, "type": "relation", "description": ROLES[role]} for role in arguments],
        }
        for step, arguments in ARGUMENTS.items()
    ]


def _answer_macros(by_engine: dict[str, Plan]) -> list[str]:
    unknown = "{{ sqlenrich.refused('sqlenrich has no SQL for ' ~ target.type) }}"
    types = {
        engine: {
            name: get_engine(engine).sql_type(kind).sql(get_engine(engine).dialect) for name, kind in RESPONSES.items()
        }
        for engine in by_engine
    }
    asked = {engine: answer_columns(plan) for engine, plan in by_engine.items()}
    bodies = {
        "version": ("", __version__),
        "create_responses": ("responses", arms({e: _create(get_engine(e)) for e in by_engine}, unknown)),
        "read_answers": ("responses, prompts", arms({e: _read(plan) for e, plan in by_engine.items()}, unknown)),
        "responses_types": ("", _by_adapter(types)),
        "asked_columns": ("", _by_adapter(asked)),
    }
    return [macro(name, arguments, body) for name, (arguments, body) in bodies.items()]


def _create(engine: Engine) -> str:
    table = marked(engine, ["responses"]).table("responses")
    return filled(print_sql(engine, create_responses(engine, table, RESPONSES)), {"responses": "{{ responses }}"})


def _read(plan: Plan) -> str:
    engine, step = get_engine(plan.engine), plan.responses
    if step.reading is None or not engine.updates:
        return ""
    pieces = {role: f"{{{{ {role} }}}}" for role in ("responses", "prompts")}
    return filled(read_answers(engine, step.bound(marked(engine, pieces))), pieces)


def _by_adapter(values: Mapping[str, object]) -> str:
    listed = ",\n  ".join(f"{string(engine)}: {compact_json(value)}" for engine, value in values.items())
    return f"{{{{ return({{\n  {listed}\n}}[target.type]) }}}}"

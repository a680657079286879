"""The macros of an enrichment: one per step, with an arm per adapter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.json import compact_json
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.core.version import __version__
from sqlenrich.dbt.client_call import CLIENT_COLUMNS, answers_of_client, client_pieces, with_constant_of_client
from sqlenrich.dbt.jinja import arms, chosen, macro, string, template
from sqlenrich.dbt.variants import Variants, model_macro, other_models
from sqlenrich.engines import ENGINES, get_engine
from sqlenrich.plan.compile import compile_script
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import symbol
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.renderer.script import model_for
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "prompts": ("source",),
    "pending": ("prompts", "responses"),
    "responses": ("pending",),
    "checked": ("prompts", "responses"),
    "enriched": ("checked",),
    "quarantine": ("checked",),
}
"""The macros, and the relations that each reads."""
RUN_ID = "'{{ invocation_id }}'"
"""dbt's name of a run, as a literal."""
ORIGIN = {"version": ("version", "_version"), "fingerprint": ("fingerprint", "_fingerprint")}
"""What the rows say of the prompt file, and the columns that say it."""
FACTS = "facts_of"
"""The name by which a macro calls the facts of its enrichment.

dbt finds the macros that a macro depends on by their names. Through another name it finds none, so that changed facts,
which ask nothing else, are no change of a node in ``state:modified``.
"""
_SOURCE = "sqlenrich_source"
"""Stands for the source while a plan is compiled: dbt names it when it runs."""


def macro_name(enrichment: str, step: str) -> str:
    """Return the name of a step's macro."""
    return f"{enrichment}__{step}"


def dbt_plan(enrichment: Enrichment, engine: str, config: Config, name: str | None = None) -> Plan:
    """Compile the plan of an engine, of a model's alias. Raises as :func:`compile_script` does."""
    if enrichment.cascade is not None:
        raise UnsupportedError(engine, "dbt has no cascade", "run it with sqlenrich run, or remove cascade")
    # The plugin chooses a client's model when it asks.
    model = model_for(enrichment, engine, config, name) if get_engine(engine).call is not None else ResolvedModel("")
    return compile_script(enrichment, engine, {"source": _SOURCE}, model=model)


def plans(
    enrichment: Enrichment, config: Config, engines: Iterable[str] = ENGINES
) -> dict[str, Plan | UnsupportedError]:
    """Compile the plan of each engine, or give why it can't be."""
    found: dict[str, Plan | UnsupportedError] = {}
    for engine in engines:
        try:
            found[engine] = dbt_plan(enrichment, engine, config)
        except UnsupportedError as error:
            found[engine] = error
    return found


def other_plans(
    enrichment: Enrichment, config: Config, plans: Mapping[str, Plan | UnsupportedError]
) -> dict[str, dict[str, Plan]]:
    """Compile the plans of the other models by engine and alias. What an engine can't ask is left out."""
    found: dict[str, dict[str, Plan]] = {}
    for engine, plan in plans.items():
        if isinstance(plan, Plan) and plan.responses.calls_in_sql:
            for alias in other_models(enrichment, engine, config):
                with suppress(UnsupportedError):
                    found.setdefault(engine, {})[alias] = dbt_plan(enrichment, engine, config, alias)
    return found


def enrichment_macros(
    enrichment: Enrichment,
    plans: Mapping[str, Plan | UnsupportedError],
    others: Mapping[str, Mapping[str, Plan]] | None = None,
) -> str:
    """Return the text of the macros of an enrichment. ``others``: its plans of other models, by engine and alias."""
    values: dict[str, dict[str, dict[str, str]]] = {}
    texts: dict[str, dict[str, str]] = {}
    for name, plan in plans.items():
        if isinstance(plan, Plan) and plan.responses.calls_in_sql:
            by_alias = {enrichment.model: plan, **(others or {}).get(name, {})}
            variants = Variants(get_engine(name), model_macro(enrichment.name), by_alias)
            texts[name] = _templates(plan, enrichment, variants)
            values[name] = variants.table()
        else:
            texts[name] = _templates(plan, enrichment)
    unknown = _refusal(string(f"sqlenrich: {enrichment.name} has no SQL for this adapter; it has for: ")
                       + f" ~ {string(', '.join(texts))}")  # fmt: skip
    facts = macro_name(enrichment.name, "facts")
    made_for = f"{{{{- sqlenrich.made_for({FACTS}('made_by'), {string(enrichment.name)}) -}}}}\n"
    model = ", ".join((string(enrichment.name), string(enrichment.model), _listed(values), "value"))
    of_model = f"{{{{- sqlenrich.of_model({model}) -}}}}"
    written = [
        macro(facts, "name", _facts(enrichment, texts)),
        macro(model_macro(enrichment.name), "value", of_model),
    ]
    for step, arguments in ARGUMENTS.items():
        body = arms({engine: found[step] for engine, found in texts.items()}, unknown)
        body = (made_for if step == "prompts" else "") + body
        if FACTS in body:
            body = f"{{%- set {FACTS} = {facts} -%}}\n{body}"
        written.append(macro(macro_name(enrichment.name, step), ", ".join(arguments), body))
    return "\n".join(written)


def _listed(values: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    """Return the values by adapter and alias as a mapping of Jinja, with a line for each alias."""
    lines = []
    for engine, by_alias in values.items():
        aliases = ",\n    ".join(f"{string(alias)}: {compact_json(known)}" for alias, known in by_alias.items())
        lines.append(f"{string(engine)}: {{\n    {aliases}\n  }}")
    return "{\n  " + ",\n  ".join(lines) + "\n}"


def _templates(
    plan: Plan | UnsupportedError, enrichment: Enrichment, variants: Variants | None = None
) -> dict[str, str]:
    if isinstance(plan, UnsupportedError):
        return dict.fromkeys(ARGUMENTS, _refusal(string(f"sqlenrich: {enrichment.name}: {plan}")))
    engine = get_engine(plan.engine)
    pieces = {"run_id": RUN_ID, **{name: f"{{{{ {FACTS}('{name}') }}}}" for name in ORIGIN}}
    if not plan.responses.calls_in_sql:
        pieces |= client_pieces(engine, enrichment)
    found = {}
    by_alias = {"": plan} if variants is None else variants.plans
    queries = {alias: _queries(one, engine, enrichment) for alias, one in by_alias.items()}
    for step in ARGUMENTS:
        of_step = {alias: known[step] for alias, known in queries.items()}
        forms = [("", of_step[""])] if variants is None else variants.forms(step, of_step)
        if variants is not None:
            pieces |= variants.pieces
        roles = {role: f"{{{{ {role} }}}}" for role in ARGUMENTS[step]}
        found[step] = chosen([(test, template(engine, query, {**roles, **pieces})) for test, query in forms])
    return found


def answer_columns(plan: Plan) -> list[str]:
    """Return the columns of a call's answers, in their order: the same for every enrichment on an engine."""
    if plan.responses.calls_in_sql:
        return plan.responses.selected
    return list(CLIENT_COLUMNS)


def _queries(plan: Plan, engine: Engine, enrichment: Enrichment) -> dict[str, Sql]:
    prompts, call = plan.step("prompts").query, plan.responses
    assert call.pending is not None
    if call.calls_in_sql:
        answers = _with_symbols(call.query, {"run_id": ("run_id",), **ORIGIN})
    else:
        prompts = with_constant_of_client(prompts, plan)
        answers = _with_symbols(answers_of_client(engine, enrichment, symbol("run_id")), ORIGIN)
    return {
        "prompts": prompts,
        "pending": call.pending,
        "responses": answers,
        "checked": plan.step("checked").query,
        "enriched": _with_symbols(plan.step("enriched").query, ORIGIN),
        "quarantine": plan.step("quarantine").query,
    }


def _with_symbols(query: Sql, columns: Mapping[str, tuple[str, ...]]) -> Sql:
    """Return a query whose named columns are symbols, to be printed as pieces of Jinja."""
    query = query.copy()
    assert isinstance(query, exp.Select)
    roles = {name: role for role, names in columns.items() for name in names}
    for column in query.expressions:
        if isinstance(column, exp.Alias) and column.alias in roles:
            column.set("this", symbol(roles[column.alias]))
    return query


def _facts(enrichment: Enrichment, engines: Iterable[str]) -> str:
    """Return the Jinja of the facts that ask nothing: which prompt file, and which sqlenrich wrote its macros."""
    versions = {}
    for engine in map(get_engine, engines):
        versions[engine.name] = print_sql(engine, References(engine).text(enrichment.version))
    by_adapter = ", ".join(f"{string(name)}: {string(text)}" for name, text in versions.items())
    facts = {
        "made_by": string(__version__),
        "fingerprint": string(f"'{enrichment.fingerprint}'"),
        "version": f"{{{by_adapter}}}[target.type]",
    }
    listed = ",\n  ".join(f"{string(name)}: {text}" for name, text in facts.items())
    return f"{{{{- {{\n  {listed}\n}}[name] -}}}}"


def _refusal(message: str) -> str:
    """Return the Jinja that ends a compilation. A parse goes on: other models of the project are not concerned."""
    return "{{ sqlenrich.refused(" + message + ") }}"

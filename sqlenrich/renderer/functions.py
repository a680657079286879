"""The functions that a script makes or calls: expressions that every enrichment repeats, each written once."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlenrich.core.functions import PREFIX, FunctionSyntax, SharedFunction, functions_of
from sqlenrich.core.types import Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.relations import Relations
from sqlenrich.renderer.statements import Statement, titled

TEMPORARY_TITLE = "functions of this session: each expression that is long or needed more than once"
INSTALLED_TITLE = "functions that scripts call; the end of each name tells its version, so that none is ever changed"


def function_statements(plan: Plan, printed: Sequence[Step] | None = None) -> list[Statement]:
    """Return the statements that make the functions which steps call, by default all of the plan."""
    relations = plan.relations
    syntax = get_engine(plan.engine).functions
    if relations.functions == "inline" or syntax is None:
        return []
    found = {function.name: function for function in _calls(syntax, plan.steps if printed is None else printed)}
    names = {function: name for function in found.values() if (name := relations.function(function)) is not None}
    made = [_create(relations, syntax, name, function) for function, name in names.items()]
    title = TEMPORARY_TITLE if relations.functions == "temporary" else INSTALLED_TITLE
    return titled(title, made)


def with_repeated_functions(plan: Plan, printed: Sequence[Step]) -> Plan:
    """Return the plan of which a script calls, of its temporary functions, those that it needs."""
    syntax = get_engine(plan.engine).functions
    if plan.relations.functions != "temporary" or syntax is None:
        return plan
    calls = list(_calls(syntax, printed))
    counts = Counter(function.name for function in calls)
    named = {function.name for function in calls if function.always or counts[function.name] > 1}
    relations = replace(plan.relations, repeated=frozenset(named))
    return plan.over(relations)


def needed_functions(plan: Plan) -> list[str]:
    """Return lines for the head of a script that calls functions which it does not make."""
    if plan.relations.functions != "installed":
        return []
    return [
        f"Needs: the functions {PREFIX}*, made once by the statements that this command prints:",
        f"sqlenrich render {plan.name} --engine {plan.engine} --functions installed --step functions",
    ]


def _calls(syntax: FunctionSyntax, steps: Sequence[Step]) -> Iterator[SharedFunction]:
    for step in steps:
        read = step.reading.values() if syntax.in_update and step.reading is not None else ()
        for tree in (step.query, *read):
            yield from functions_of(tree)


def _create(relations: Relations, syntax: FunctionSyntax, name: str, function: SharedFunction) -> str:
    engine = relations.engine

    def kind(of: Type | None) -> str:
        return syntax.json_type if of is None else engine.sql_type(of).sql(engine.dialect)

    named = [f"{name} {kind(of)}" if syntax.typed else name for name, of in function.parameters.items()]
    statement = syntax.temporary if relations.functions == "temporary" else syntax.installed
    body = textwrap.indent(f"-- {function.about}\n{relations.sql(function.expression())}", "  ")
    return statement.format(
        name=name, parameters=", ".join(named), returns=kind(function.returns), body=f"\n{body}\n"
    ).rstrip()

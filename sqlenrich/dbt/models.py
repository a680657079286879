"""The six models of an enrichment: each calls its macro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlenrich.dbt.macros import macro_name
from sqlenrich.dbt.variants import CONSTANT, model_macro
from sqlenrich.plan.relations import RELATIONS

LINE = 120
"""What a line of a model has at most: sqlfluff reads calls as they are written."""
TABLE = ("materialized='table'",)
RESULTS = ("enriched", "quarantine")
"""The steps whose models have versions."""


@dataclass(frozen=True)
class Family:
    """An enrichment among its versions: the name of their result models, and its number; None: no versions."""

    base: str
    number: int | None = None

    def ref(self, step: str, enrichment: str) -> str:
        """Return the ``ref`` of a step's model."""
        if step in RESULTS and self.number is not None:
            return f"ref('{RELATIONS[step].format(self.base)}', v={self.number})"
        return f"ref('{node_name(enrichment, step)}')"


def node_name(enrichment: str, step: str) -> str:
    """Return the name of a step's model, which is that of its relation."""
    return RELATIONS[step].format(enrichment)


def model_files(name: str, family: Family, source: str) -> dict[str, str]:
    """Return the SQL of each model by its file's name. ``source`` is the ``ref`` or ``source`` that dbt calls."""

    def relation(step: str) -> str:
        return f"sqlenrich.relation({family.ref(step, name)})"

    def model(step: str, arguments: Sequence[str], config: Sequence[str]) -> str:
        return _call("config", config) + _call(macro_name(name, step), arguments)

    answers = node_name(name, "responses")
    prompts = f"{macro_name(name, 'prompts')}(sqlenrich.relation({source}))"
    responses = f"sqlenrich.responses_relation('{answers}')"
    asked = f"{macro_name(name, 'responses')}({family.ref('pending', name)})"
    prepared = f"sqlenrich.prepare_responses('{answers}', {family.ref('prompts', name)})"
    pre_hook = f'"{{{{ {prepared} }}}}"'
    texts: Mapping[str, str] = {
        # DuckDB's file would grow by every prompt with each build.
        "prompts": _call(
            "config",
            [
                "materialized='incremental' if target.type == 'duckdb' else 'table'",
                "on_schema_change='append_new_columns'",
                f'pre_hook="{{{{ sqlenrich.compare_rows({prompts}) }}}}"',
                "post_hook=\"{{ sqlenrich.drop_new_rows() if target.type == 'duckdb' }}\"",
            ],
        )
        + _call("sqlenrich.new_rows", [prompts]),
        "pending": model(
            "pending",
            [relation("prompts"), f"sqlenrich.stored_responses({responses}, '{answers}')"],
            ["materialized='view'", f"pre_hook={pre_hook}"],
        ),
        # Which model the files ask, for the refusal of requests that were made for another one.
        "responses": _call(
            "config",
            [
                "materialized='sqlenrich_responses'",
                f"meta={{'sqlenrich_constant': {model_macro(name)}('{CONSTANT}')}}",
            ],
        )
        + _call("sqlenrich.asked_or_shown", [asked, family.ref("prompts", name)]),
        "checked": model(
            "checked",
            [relation("prompts"), f"sqlenrich.stored_responses({family.ref('responses', name)}, '{answers}')"],
            TABLE,
        ),
        "quarantine": model("quarantine", [relation("checked")], TABLE),
        # The gate on the quarantine stands before the accepted rows.
        "enriched": f"-- depends_on: {{{{ {family.ref('quarantine', name)} }}}}\n"
        + model("enriched", [relation("checked")], TABLE),
    }
    return {f"{node_name(name, step)}.sql": text for step, text in texts.items()}


def _call(name: str, arguments: Sequence[str]) -> str:
    """Return a call in Jinja: on one line, or with a line for each argument."""
    line = f"{{{{ {name}({', '.join(arguments)}) }}}}\n"
    if len(line) <= LINE + 1:
        return line
    listed = ",\n  ".join(arguments)
    return f"{{{{ {name}(\n  {listed}\n) }}}}\n"

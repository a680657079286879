"""The six models of an enrichment: each calls its macro."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlenrich.dbt.macros import macro_name
from sqlenrich.plan.relations import RELATIONS

RESULTS = ("enriched", "quarantine")
"""The steps whose models have versions."""


@dataclass(frozen=True)
class Family:
    """An enrichment among its versions: the name of their result models, and its number; None: no versions."""

    base: str
    number: int | None = None

    def ref(self, step: str, enrichment: str) -> str:
        """Give the ``ref`` of a step's model."""
        if step in RESULTS and self.number is not None:
            return f"ref('{RELATIONS[step].format(self.base)}', v={self.number})"
        return f"ref('{node_name(enrichment, step)}')"


def node_name(enrichment: str, step: str) -> str:
    """Give the name of a step's model, which is that of its relation."""
    return RELATIONS[step].format(enrichment)


def model_files(name: str, family: Family, source: str) -> dict[str, str]:
    """Give the SQL of each model by its file's name. ``source`` is the ``ref`` or ``source`` that dbt calls."""

    def relation(step: str) -> str:
        return f"sqlenrich.relation({family.ref(step, name)})"

    def model(step: str, arguments: str, config: str) -> str:
        return f"{{{{ config({config}) }}}}\n{{{{ {macro_name(name, step)}({arguments}) }}}}\n"

    prompts = f"{macro_name(name, 'prompts')}(sqlenrich.relation({source}))"
    responses = f"sqlenrich.responses_relation('{node_name(name, 'responses')}')"
    asked = f"{macro_name(name, 'responses')}({family.ref('pending', name)})"
    pre_hook = f'"{{{{ sqlenrich.create_responses({responses}) }}}}"'
    texts: Mapping[str, str] = {
        # DuckDB's file would grow by every prompt with each build.
        "prompts": "{{ config(\n"
        "  materialized='incremental' if target.type == 'duckdb' else 'table',\n"
        "  on_schema_change='append_new_columns',\n"
        f'  pre_hook="{{{{ sqlenrich.compare_rows({prompts}) }}}}",\n'
        "  post_hook=\"{{ sqlenrich.drop_new_rows() if target.type == 'duckdb' }}\"\n"
        ") }}\n"
        f"{{{{ sqlenrich.new_rows({prompts}) }}}}\n",
        "pending": model(
            "pending",
            f"{relation('prompts')}, sqlenrich.stored_responses({responses})",
            f"materialized='view', pre_hook={pre_hook}",
        ),
        "responses": "{{ config(materialized='sqlenrich_responses') }}\n"
        f"{{{{ sqlenrich.asked_or_shown({asked}, {family.ref('prompts', name)}) }}}}\n",
        "checked": model(
            "checked",
            f"{relation('prompts')}, sqlenrich.stored_responses({family.ref('responses', name)})",
            "materialized='table'",
        ),
        "quarantine": model("quarantine", relation("checked"), "materialized='table'"),
        # The gate on the quarantine stands before the accepted rows.
        "enriched": f"-- depends_on: {{{{ {family.ref('quarantine', name)} }}}}\n"
        + model("enriched", relation("checked"), "materialized='table'"),
    }
    return {f"{node_name(name, step)}.sql": text for step, text in texts.items()}

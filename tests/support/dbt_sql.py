"""What dbt compiled, beside what ``sqlenrich render --step`` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import sqlenrich as se
from sqlenrich.dbt.macros import ARGUMENTS
from sqlenrich.dbt.models import node_name
from sqlenrich.engines import get_engine
from sqlenrich.renderer.script import step_sql
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import templates
from tests.support.dbt_projects import DbtProject
from tests.support.hostile import TEXTS

PLACES = {
    "databricks": "main.default",
    "snowflake": "DB.S",
    "bigquery": "project.dataset",
    "spark": "`default`",
    "duckdb": "integration_tests.main",
}
"""The schema of each target of the consuming project's profile."""
RUN_ID = re.compile(r"'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}' AS (.?run_id)")
NOW = re.compile(r"CAST\((?:CURRENT_TIMESTAMP|SYSDATE)\(\) AS (?:STRING|VARCHAR)\) AS (.?run_id)")


WRITTEN, CHOSEN = "project.us.written", "project.us.chosen"
"""The connection of BigQuery's AI.GENERATE in the prompt file, and that of a build."""
BUILD = {"sqlenrich_model_connection": CHOSEN}
"""The variables of a build whose SQL is compared."""
HOSTILE = {name: text for name, text in TEXTS.items() if len(text) < 1000} | {
    "raw block": "{% raw %}{{ x }}{% endraw %} {%- endmacro -%}",
    "braces": "{{{%{#}}}%}#}{",
    "brace before a return": "{\r{\r\n{",
    "call": "{{ sqlenrich.refused('x') }} {{ target }}",
    "marks": "\ue000prompts0\ue001 \ue000source0\ue001 \ue000run_id0\ue001",
}
"""Texts that Jinja or a literal could change."""


def same_layout(sql: str) -> str:
    """Return SQL without spaces and line breaks: where they are depends on the length of names."""
    return re.sub("[ \n]+", "", sql)


def differences(target: Path, engine: str, enrichments: Iterable[Enrichment]) -> list[str]:
    """Return the models whose compiled SQL is not that of the enrichment's plan."""
    found = []
    for enrichment in enrichments:
        place = PLACES[engine]
        relations = {role: f"{place}.{node_name(enrichment.name, role)}" for role in (*ARGUMENTS, "responses")}
        relations["source"] = f"{place}.messages"
        plan = se.compile_plan(replace(enrichment, source="messages", query=None), engine, relations)
        client = get_engine(engine).call is None
        for step in ARGUMENTS:
            if client and step in ("prompts", "responses"):
                continue  # a function of the plugin asks, and gives the constant
            name = node_name(enrichment.name, step)
            (path,) = target.rglob(f"compiled/**/{name}.sql")
            compiled = RUN_ID.sub(r"RUN_ID AS \2", path.read_bytes().decode())
            expected = NOW.sub(r"RUN_ID AS \1", step_sql(plan, step)).replace(WRITTEN, CHOSEN)
            if engine == "spark":  # dbt 1 quotes no relation there
                compiled, expected = (re.sub(r"`default`\.`(\w+)`", r"default.\1", sql) for sql in (compiled, expected))
            # The compiled model of the accepted rows begins with a comment that names their other parent.
            if same_layout(re.sub(r"^-- depends_on: .*\n", "", compiled)) != same_layout(expected):
                found.append(f"{engine}: {name}")
    return found


def write_all(project: DbtProject, chosen: Sequence[str] = ()) -> list[Enrichment]:
    """Write ready-made enrichments, all where none is chosen, and one with hostile texts, and give them."""
    texts = [*HOSTILE.values()]
    names = [f"t{number}" for number in range(len(texts))]
    label = {"type": "string", "description": "".join(texts), "enum": [*dict.fromkeys(texts)]}
    header = {
        "description": "".join(texts),
        "source": "messages",
        "key": ["id"],
        "columns": {"id": "string"},
        "vars": dict(zip(names, texts, strict=True)),
        "params": {"bigquery": {"function": "AI.GENERATE", "connection": WRITTEN}},
        "output": {"properties": {"label": label}},
    }
    body = "".join(f"{{{{ {name} }}}} {{{{ body }}}}" for name in names)
    path = project.folder / "prompts" / "hostile.prompt"
    path.write_text(f"---\n{json.dumps(header)}\n---\n{body}", encoding="utf-8")
    ready_made, hostile = [se.load(name) for name in chosen or templates()], se.load(path)
    se.write_dbt(ready_made, project.folder, source="messages")
    se.write_dbt([hostile], project.folder)
    return [*ready_made, hostile]

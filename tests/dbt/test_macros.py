"""The macros render, in Jinja, to the SQL that ``sqlenrich render --step`` prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest

import sqlenrich as se
from sqlenrich.dbt.macros import ARGUMENTS, enrichment_macros, macro_name, other_plans, plans
from sqlenrich.engines import ENGINES
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import Plan
from sqlenrich.renderer.script import model_for, step_sql
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import templates
from sqlenrich.spec.settings import Config, ModelAlias
from tests.support.dbt_sql import HOSTILE, same_layout

RUN_ID = {"snowflake": "CAST(SYSDATE() AS VARCHAR)"}
"""What ``render`` writes as the name of a run."""
PARTS = 6


def rendered(enrichment: Enrichment, engine: str, plan: Plan, text: str, alias: str = "") -> dict[str, str]:
    """Return each macro of an engine as Jinja renders it, for a model's alias."""
    package = SimpleNamespace(
        made_for=lambda *_: "",
        constant=lambda call, _: f"sqlenrich_constant({call})",
        ask=lambda call, _: f"sqlenrich_ask({call})",
        of_model=lambda _, own, models, value: models[engine][alias or own].get(value, ""),
        model_dataset=lambda written: written,
        model_connection=lambda written: written,
    )
    known = {"target": SimpleNamespace(type=engine), "invocation_id": "RUN", "sqlenrich": package}
    module: Any = jinja2.Environment().from_string(text, globals=known).module
    return {
        step: getattr(module, macro_name(enrichment.name, step))(*(plan.relations.text(role) for role in arguments))
        for step, arguments in ARGUMENTS.items()
    }


def check(enrichment: Enrichment, config: Config | None = None, alias: str = "") -> None:
    settings = config or Config()
    compiled = plans(enrichment, settings)
    text = enrichment_macros(enrichment, compiled, other_plans(enrichment, settings, compiled))
    for engine in ENGINES:
        model = model_for(enrichment, engine, settings, alias or None)
        plan = compile_plan(enrichment, engine, model=model)
        found = rendered(enrichment, engine, plan, text, alias)
        client = not plan.responses.calls_in_sql
        for step in ARGUMENTS:
            if client and step in ("prompts", "responses"):
                continue  # a function of the plugin asks, and gives the constant
            expected = step_sql(plan, step)
            if step == "responses":
                now = RUN_ID.get(engine, "CAST(CURRENT_TIMESTAMP() AS STRING)")
                assert now in expected
                expected = expected.replace(now, "'RUN'", 1)
            assert same_layout(found[step]) == same_layout(expected), (engine, step)


@pytest.mark.parametrize("name", templates())
def test_a_ready_made_enrichment_equals_its_script(name: str) -> None:
    check(se.load(name))


MODELS = {
    "cheap": {
        "snowflake": ModelAlias("mistral-7b"),
        "databricks": ModelAlias("system.ai.gpt-oss-20b", {"max_tokens": 90}),
        "bigquery": ModelAlias("lab.flash"),
        "spark": ModelAlias("small"),
    },
    "thinking": {  # models without sampling parameters, another function of BigQuery
        "snowflake": ModelAlias("openai-gpt-5"),
        "databricks": ModelAlias("system.ai.gpt-5"),
        "bigquery": ModelAlias("gemini-2.5-pro"),
        "spark": ModelAlias("o3"),
    },
}


@pytest.mark.parametrize("alias", ["", *MODELS])
def test_each_model_equals_the_script_that_names_it(alias: str) -> None:
    """One prompt file, and a variable that chooses the model."""
    check(se.load("support_ticket"), Config(models=MODELS), alias)


def test_a_system_of_the_row_equals_its_script() -> None:
    shots = [{"role": "user", "content": "it's"}, {"role": "assistant", "content": "{{ what }}"}]
    header: dict[str, Any] = {"source": "messages", "key": ["id"], "vars": {"what": "x"}, "messages": shots}
    check(se.enrichment("own", prompt="{{ body }}", output={"n": "integer"}, system="For {{ lang }}", **header))


@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_prompts_equal_their_scripts(part: int, tmp_path: Path) -> None:
    texts = {name.replace(" ", "_"): text for name, text in [*HOSTILE.items()][part::PARTS]}
    names = [f"t{number}" for number in range(len(texts))]
    label = {"type": "string", "description": "".join(texts.values()), "enum": [*dict.fromkeys(texts.values())]}
    header = {
        "source": "messages",
        "key": ["id"],
        "vars": dict(zip(names, texts.values(), strict=True)),
        "output": {"properties": {"label": label}},
    }
    path = tmp_path / "hostile.prompt"
    body = "".join(f"{{{{ {name} }}}} {{{{ body }}}}" for name in names)
    path.write_text(f"---\n{json.dumps(header)}\n---\n{body}", encoding="utf-8")
    check(se.load(path))


def test_a_client_is_told_what_a_request_is_made_of() -> None:
    """On DuckDB the plugin chooses the model, so the prompts take its constant."""
    enrichment = se.load("support_ticket")
    plan = se.compile_plan(enrichment, "duckdb")
    found = rendered(enrichment, "duckdb", plan, enrichment_macros(enrichment, plans(enrichment, Config())))
    assert plan.constant not in found["prompts"]
    call = re.search(r"\(SELECT sqlenrich_constant\('(.*)'\)\)", found["prompts"])
    assert call is not None
    facts = json.loads(call[1].replace("''", "'"))
    assert list(facts["schema"]["properties"]) == ["intent", "urgency", "product", "needs_human", "summary"]
    assert facts["params"] == {"temperature": 0, "max_tokens": 250}
    assert se.check_response(facts["schema"], facts["sample"]) is None
    assert "'RUN' AS \"run_id\"" in found["responses"]

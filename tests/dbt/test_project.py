"""What dbt makes of the files: versions, contracts, the graph, and the same SQL on every adapter."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.dbt.macros import ARGUMENTS
from sqlenrich.engines import ENGINES
from sqlenrich.spec.enrichment import Enrichment
from tests.support.dbt_projects import MODELS_ALONE, ROWS, WRITE, DbtProject, copy_consumer
from tests.support.dbt_sql import BUILD, differences, write_all
from tests.support.warehouses import MODULES

on_duckdb = pytest.mark.xdist_group("dbt on DuckDB")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> DbtProject:
    """A project with two versions of an enrichment, and models that read each."""
    project = copy_consumer(tmp_path_factory.mktemp("built") / "app", {"dev": {"mock": True}, "fresh": {"mock": True}})
    with (project.folder / "dbt_project.yml").open("a", encoding="utf-8") as file:
        file.write("models: {sqlenrich_integration_tests: {sqlenrich: {+contract: {enforced: true}}}}\n")
    second = project.folder / "prompts" / "tickets_v2.prompt"
    second.write_text(project.prompt.read_text(encoding="utf-8").replace("Triage one", "Look at one"), encoding="utf-8")
    se.write_dbt([se.load(second)], project.folder)
    for name, ref in {"first": "'tickets', v=1", "second": "'tickets', v=2", "unpinned": "'tickets'"}.items():
        text = f"select distinct _fingerprint from {{{{ ref({ref}) }}}}\n"
        (project.folder / "models" / f"{name}.sql").write_text(text, encoding="utf-8")
    outcome = project.dbt("build", WRITE, *MODELS_ALONE)
    assert outcome.success, outcome.message
    return project


@on_duckdb
def test_versions_are_built_side_by_side(built: DbtProject) -> None:
    first, second = (se.load(built.folder / "prompts" / f"{name}.prompt") for name in ("tickets", "tickets_v2"))
    assert first.fingerprint != second.fingerprint
    for relation, expected in {
        "tickets": first, "tickets_v2": second, "first": first, "second": second, "unpinned": second,
    }.items():  # fmt: skip
        assert built.rows(f"SELECT DISTINCT _fingerprint FROM dev.{relation}") == [(expected.fingerprint,)]
    for relation in ("tickets_responses", "tickets_v2_responses"):
        assert built.value(f"SELECT count(*) FROM dev.{relation}") == ROWS
    se.write_dbt([first], built.folder, latest=1)
    assert built.dbt("run", "--select", "unpinned").success
    assert built.rows("SELECT _fingerprint FROM dev.unpinned") == [(first.fingerprint,)]


@on_duckdb
def test_tables_have_the_columns_of_a_run(built: DbtProject, tmp_path: Path) -> None:
    """The same names and types as the tables of ``sqlenrich run``, and the contract that dbt holds them to."""
    se.run(
        se.load(built.prompt), input=built.folder / "seeds" / "messages.csv", output=tmp_path / "run.duckdb", mock=True
    )
    with duckdb.connect(str(tmp_path / "run.duckdb")) as database:
        for table in ("tickets", "tickets_quarantine", "tickets_responses", "tickets_prompts"):
            described = f"SELECT column_name, column_type FROM (DESCRIBE {{}}{table})"
            assert built.rows(described.format("dev.")) == database.execute(described.format("")).fetchall()
        hashes = "SELECT DISTINCT request_hash FROM {}tickets_responses ORDER BY 1"
        assert built.rows(hashes.format("dev.")) == database.execute(hashes.format("")).fetchall()
    manifest = json.loads((built.folder / "target" / "manifest.json").read_text(encoding="utf-8"))
    enforced = {
        node["alias"] for node in manifest["nodes"].values() if node["config"].get("contract", {}).get("enforced")
    }
    assert enforced == {
        f"{name}{step}" for name in ("tickets", "tickets_v2") for step in ("", "_quarantine", "_prompts")
    }


@on_duckdb
@pytest.mark.parametrize("selected", ["+tickets_responses", "+tickets_checked"])
def test_a_part_of_the_graph_in_a_fresh_schema(built: DbtProject, selected: str) -> None:
    """Tests of models that the build leaves out do not run."""
    outcome = built.dbt("build", "--target", "fresh", "--select", selected)
    assert outcome.success, outcome.message
    assert built.value(f"SELECT count(*) FROM fresh.{selected[1:]}") == ROWS


@on_duckdb
def test_the_graph(built: DbtProject) -> None:
    manifest = json.loads((built.folder / "target" / "manifest.json").read_text(encoding="utf-8"))
    nodes = {node["alias"]: node for node in manifest["nodes"].values() if node["resource_type"] in ("model", "seed")}
    aliases = {key: node["alias"] for key, node in manifest["nodes"].items()}
    parents = {
        alias: sorted(aliases[key] for key in node.get("depends_on", {}).get("nodes", ()))
        for alias, node in nodes.items()
    }
    assert {name: parents[name] for name in parents if name.startswith("tickets") and "_v2" not in name} == {
        "tickets_prompts": ["messages"],
        "tickets_pending": ["tickets_prompts"],
        "tickets_responses": ["tickets_pending", "tickets_prompts"],
        "tickets_checked": ["tickets_prompts", "tickets_responses"],
        "tickets_quarantine": ["tickets_checked"],
        "tickets": ["tickets_checked", "tickets_quarantine"],
    }


@pytest.fixture(scope="module")
def all_adapters(tmp_path_factory: pytest.TempPathFactory) -> tuple[DbtProject, list[Enrichment]]:
    """A project with a ready-made enrichment and hostile prompts, and a target per adapter."""
    project = copy_consumer(tmp_path_factory.mktemp("adapters") / "app", None)
    return project, write_all(project, ["review_aspects"])


GROUPS = {"duckdb": "dbt on DuckDB", "spark": "spark"} | {name: f"{name} of dbt" for name in MODULES}
"""The worker that builds on an engine has imported its adapter."""


@pytest.mark.parametrize(
    "engine", [pytest.param(engine, marks=pytest.mark.xdist_group(GROUPS[engine])) for engine in ENGINES]
)
def test_dbt_compiles_what_render_prints_without_a_connection(
    all_adapters: tuple[DbtProject, list[Enrichment]], engine: str
) -> None:
    """Jinja alone renders the other ready-made enrichments, in test_macros.py."""
    project, enrichments = all_adapters
    target = project.folder / f"target_{engine}"
    offline = ("--no-introspect", "--no-populate-cache", "--target", engine, "--target-path", str(target))
    assert project.dbt("compile", *offline, **BUILD).success
    assert differences(target, engine, enrichments) == []
    compiled = {path.name for path in target.rglob("compiled/**/*.sql")}
    assert len(compiled) >= len(ARGUMENTS) * len(enrichments)

"""dbt-snowflake, dbt-bigquery and dbt-databricks, unmodified, on stand-ins of their warehouses."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sqlenrich as se
from tests.support.dbt_projects import CONSUMER, LEAN, MODELS_ALONE, ROWS, DbtProject, copy_consumer, dbt_command
from tests.support.warehouses import Standin, standin

NOW = {
    "snowflake": "DATE_PART(EPOCH_SECOND, SYSDATE())",
    "bigquery": "UNIX_SECONDS(CURRENT_TIMESTAMP())",
    "databricks": "UNIX_TIMESTAMP(CURRENT_TIMESTAMP())",
}
MODELS = {
    "snowflake": "llama3.3-70b",
    "bigquery": "gemini-3.5-flash-lite",
    "databricks": "system.ai.meta-llama-3-3-70b-instruct",
}
"""The models that the written files ask."""
ENGINES = [
    "snowflake",
    pytest.param("bigquery", marks=pytest.mark.zetasql),
    pytest.param("databricks", marks=pytest.mark.spark),
]
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # connections that dbt leaves open


@dataclass(frozen=True)
class Warehouse:
    """A stand-in and a project that builds there."""

    standin: Standin
    project: DbtProject

    def calls(self) -> int:
        """How often the model was asked."""
        return len(self.standin.prompts())

    def count(self, table: str) -> int:
        """The rows of a table."""
        ((rows,),) = self.standin.rows(table, "COUNT(*)")
        return int(rows)


@pytest.fixture(scope="module", params=ENGINES)
def warehouse(
    request: pytest.FixtureRequest, standins: Callable[[str], Standin], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Warehouse]:
    running = standins(request.param)
    with pytest.MonkeyPatch.context() as environment:
        if running.engine == "databricks":  # its SDK trusts no file of the profile
            environment.setenv("REQUESTS_CA_BUNDLE", running.process.get("/certificate"))
        running.clear()
        running.set(answers=str(CONSUMER / "prompts" / "tickets.prompt"))
        project = copy_consumer(tmp_path_factory.mktemp(request.param) / "app", None)
        project.write_profile(dev=running.dbt_output())
        yield Warehouse(running, project)
        running.clear()


def test_builds_ask_each_request_once_and_one_at_a_time(warehouse: Warehouse) -> None:
    """The seed, the contracts, the unit test and the gates included."""
    project, engine = warehouse.project, warehouse.standin.engine
    warehouse.standin.clear()
    warehouse.standin.set(answers=str(CONSUMER / "prompts" / "tickets.prompt"))
    lock = f"{warehouse.standin.schema}.tickets_responses_lock"
    warehouse.standin.execute(f"CREATE TABLE {lock} AS SELECT 'another' AS run_id, {NOW[engine]} AS since")
    parts = {"sqlenrich_max_build_requests": ROWS, "sqlenrich_chunk_rows": 15}
    refused = project.dbt("build", "--select", "+tickets_responses", **parts)
    assert refused.status["tickets_responses"] == "error"
    message = refused.message["tickets_responses"]
    assert re.search(
        r"another build \(run another\) has been asking for \d+ minutes, so this one asks nothing", message
    )
    prices = {MODELS[engine]: {"input": 1, "output": 2}}
    alone = ("run", "--select", "tickets_responses", "--target-path", "limited")
    limited = project.dbt(*alone, sqlenrich_lock_minutes=0, sqlenrich_max_build_cost=0.01, sqlenrich_prices=prices)
    assert re.search(
        rf"would ask {ROWS} requests for about 0\.0\d+, and the other nodes of this build ask 0 requests for",
        limited.message["tickets_responses"],
    )
    assert warehouse.calls() == 0

    for arguments in (
        ["build", "--select", "tickets_responses+"],
        ["run", "--full-refresh", "--select", "+tickets_responses"],
        ["show", "--select", "tickets_responses", "--limit", "100"],
    )[: 1 if engine == "databricks" else None]:  # Spark is slow, and dbt's macros are the same
        outcome = project.dbt(*arguments, **parts)
        assert outcome.success, (arguments, outcome.message)
        assert warehouse.calls() == ROWS, arguments
    counted = {table: warehouse.count(table) for table in ("tickets_responses", "tickets", "tickets_quarantine")}
    assert counted == {"tickets_responses": ROWS, "tickets": ROWS, "tickets_quarantine": 0}
    made = {name.lower() for name in warehouse.standin.tables()}
    assert not made & {"tickets_responses_lock", "tickets_responses_asking"}


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_statement_that_fails_is_halved(warehouse: Warehouse) -> None:
    """The request at fault becomes a row; the others are answered, and a second build asks nothing."""
    running, project = warehouse.standin, warehouse.project
    running.clear()
    running.set(answers=str(CONSUMER / "prompts" / "tickets.prompt"), poison="Terminals dead")
    for command, expected in ((["build"], None), (["run", "--select", "+tickets_responses"], 0)):
        before = warehouse.calls()
        outcome = project.dbt(*command)
        assert outcome.success, outcome.message
        assert expected is None or warehouse.calls() - before == expected
        counted = {table: warehouse.count(table) for table in ("tickets_responses", "tickets", "tickets_quarantine")}
        assert counted == {"tickets_responses": ROWS, "tickets": ROWS - 1, "tickets_quarantine": 1}
    ((error, detail),) = running.rows("tickets_quarantine", "_error", "_error_detail")
    assert error == "CALL_ERROR"
    assert "failed" in detail
    running.set(poison="")


OTHER_MODELS = {"snowflake": "mistral-large2", "databricks": "system.ai.gpt-oss-20b", "bigquery": "other.gemini"}


def write_models(project: DbtProject) -> None:
    """Name the models ``cheap`` and ``dear`` for each engine."""
    settings = "".join(
        f"[models.{alias}]\n" + "".join(f'{name} = "{model}{end}"\n' for name, model in OTHER_MODELS.items())
        for alias, end in (("cheap", ""), ("dear", "x"))
    )
    (project.folder / "sqlenrich.toml").write_text(settings, encoding="utf-8")
    se.write_dbt([se.load(project.prompt)], project.folder)


@pytest.mark.zetasql
@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_a_variable_chooses_the_model_and_its_dataset(warehouse: Warehouse) -> None:
    """One prompt file."""
    running, project, engine = warehouse.standin, warehouse.project, warehouse.standin.engine
    write_models(project)
    before = warehouse.calls()
    chosen = {"sqlenrich_model": {"dev": "cheap"}, "sqlenrich_model_dataset": "sqlenrich"}
    built = project.dbt("build", *MODELS_ALONE, "--select", "+tickets", **chosen)
    assert built.success, built.message
    assert warehouse.calls() - before == ROWS
    assert set(running.rows("tickets", "_model")) == {(OTHER_MODELS[engine],)}


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_model_that_is_too_dear_unknown_or_another_asks_nothing(warehouse: Warehouse) -> None:
    """The macros that refuse it are the same on each engine."""
    project, engine = warehouse.project, warehouse.standin.engine
    write_models(project)
    before = warehouse.calls()
    prices = {f"{OTHER_MODELS[engine]}x": {"input": 1, "output": 2}}
    limits = {"sqlenrich_max_build_cost": 0.01, "sqlenrich_prices": prices}
    limited = project.dbt("build", *MODELS_ALONE, "--select", "+tickets_responses", sqlenrich_model="dear", **limits)
    assert f"would ask {ROWS} requests for about 0.0" in limited.message["tickets_responses"]
    unknown = project.dbt("run", "--select", "tickets_prompts", sqlenrich_model={"tickets": "lost"})
    refusal = f"the files know no such model on {engine}; they know: default, cheap, dear"
    assert refusal in str(unknown.message)
    alone = project.dbt("run", "--select", "tickets_responses", sqlenrich_model="cheap")
    assert (
        f"was made for another model ({ROWS} of its requests have other hashes)" in alone.message["tickets_responses"]
    )
    assert warehouse.calls() == before


def test_two_builds_at_the_same_time(tmp_path: Path) -> None:
    """The first asks for a long time, the second is refused; a build that fails gives its lock back.

    A build whose lock another one takes while a statement asks submits further ones, which ask nothing.
    """
    with standin("snowflake", tmp_path) as running:
        warehouse = Warehouse(running, copy_consumer(tmp_path / "app", None))
        warehouse.project.write_profile(dev=running.dbt_output())
        running.set(answers=str(CONSUMER / "prompts" / "tickets.prompt"), poison="Triage one")  # fails each statement
        failed = warehouse.project.dbt("build", *MODELS_ALONE, "--select", "+tickets_responses")
        assert "the model failed" in failed.message["tickets_responses"]
        assert "tickets_responses_lock" not in running.tables()

        running.set(poison="", delay=600.0)
        before = warehouse.calls()
        command, environment = dbt_command(["run", "--select", "tickets_responses", *LEAN])
        pipe = subprocess.PIPE
        first = subprocess.Popen(command, cwd=warehouse.project.folder, env=environment, stdout=pipe, text=True)
        try:
            while warehouse.calls() < before + 3:  # the first statement asks a few
                assert first.poll() is None
                time.sleep(0.1)
            refused = warehouse.project.dbt("run", "--select", "tickets_responses", "--target-path", "second")
            assert "has been asking for" in refused.message["tickets_responses"]
            running.execute(f"UPDATE {running.schema}.tickets_responses_lock SET run_id = 'third'")
            running.set(delay=0.0)
            told, _ = first.communicate(timeout=300)
        finally:
            first.kill()
            first.wait()
        assert first.returncode == 1
        assert "another build took the lock (run third), so this one asks nothing more" in " ".join(told.split())
        assert (warehouse.calls(), warehouse.count("tickets_responses")) == (before + 3, 3)
        # The lock that another build took stays its own.
        assert running.rows("tickets_responses_lock", "run_id") == [("third",)]

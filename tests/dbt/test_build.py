"""dbt on DuckDB: what is asked, and when nothing is."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from tests.support.dbt_projects import DATABASE, LEAN, MODELS_ALONE, ROWS, DbtProject, copy_consumer, dbt_command
from tests.support.endpoint import ScriptedEndpoint

FAILING = {"mock_failures": {"truncation": 0.17}}
ANSWERS = ("--select", "+tickets_responses")
pytestmark = pytest.mark.xdist_group("dbt on DuckDB")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def parsed(endpoint: ScriptedEndpoint, tmp_path_factory: pytest.TempPathFactory) -> DbtProject:
    """A project that dbt has parsed: its copies are parsed faster."""
    asked = {"endpoint": endpoint.url, "model": "small"}
    folder = tmp_path_factory.mktemp("parsed") / "app"
    project = copy_consumer(folder, {"dev": asked, "prod": asked, "failing": FAILING, "mock": {"mock": True}})
    assert project.dbt("parse").success
    return project


@pytest.fixture
def project(parsed: DbtProject, tmp_path: Path) -> DbtProject:
    shutil.copytree(parsed.folder, tmp_path / "app", symlinks=True)
    return DbtProject(tmp_path / "app")


@pytest.fixture(scope="module")
def first_build(parsed: DbtProject, tmp_path_factory: pytest.TempPathFactory) -> DbtProject:
    """A project whose requests are answered in ``dev``."""
    folder = tmp_path_factory.mktemp("first_build") / "app"
    shutil.copytree(parsed.folder, folder, symlinks=True)
    assert DbtProject(folder).dbt("build", *ANSWERS).success
    return DbtProject(folder)


@pytest.fixture
def built(first_build: DbtProject, tmp_path: Path) -> DbtProject:
    shutil.copytree(first_build.folder, tmp_path / "app", symlinks=True)
    return DbtProject(tmp_path / "app")


def asked(endpoint: ScriptedEndpoint) -> int:
    return len(endpoint.asked)


def test_a_request_is_asked_once_and_only_by_a_build(project: DbtProject, endpoint: ScriptedEndpoint) -> None:
    """Each command in its order, with the calls that it makes."""
    before = asked(endpoint)
    table = [
        (["compile"], 0),
        (["build", "--empty"], 0),
        (["docs", "generate"], 0),
        (["show", "--select", "tickets_responses"], 0),
        (["build"], ROWS),
        (["build", "--full-refresh"], 0),
        (["run", "--select", "tickets_responses"], 0),
        (["show", "--select", "tickets_responses"], 0),
        (["run", "--empty"], 0),
        (["run"], 0),
    ]
    calls = []
    for arguments, _ in table:
        outcome = project.dbt(*arguments)
        assert outcome.success, (arguments, outcome.message)
        calls.append((arguments, asked(endpoint) - before))
        before = asked(endpoint)
    assert calls == table
    assert project.value("SELECT count(*) FROM dev.tickets") == ROWS
    assert project.value("SELECT count(*) FROM dev.tickets_responses") == ROWS
    assert project.value("SELECT count(DISTINCT run_id) FROM dev.tickets_responses") == 1


def test_new_rows_and_a_changed_prompt_are_asked_within_the_budget(
    built: DbtProject, endpoint: ScriptedEndpoint
) -> None:
    project, before = built, asked(endpoint)
    project.add_rows(9)
    assert project.dbt("build", *ANSWERS).success
    assert asked(endpoint) - before == 9

    project.change_prompt("Triage one", "Look at one")
    before, limit = asked(endpoint), ROWS + 8
    refused = project.dbt("build", sqlenrich_max_requests=limit)
    assert not refused.success
    assert refused.status["tickets_requests_at_most_sqlenrich_max_requests"] == "fail"
    assert f"Got {ROWS + 9} results" in refused.message["tickets_requests_at_most_sqlenrich_max_requests"]
    assert {refused.status[name] for name in ("tickets_responses", "tickets", "urgent")} == {"skipped"}
    run = project.dbt("run", "--select", "tickets_responses+", sqlenrich_max_requests=limit)
    assert (run.status["tickets_responses"], run.status["tickets"]) == ("error", "skipped")
    assert f"would ask {ROWS + 9} requests (about " in run.message["tickets_responses"]
    assert asked(endpoint) == before
    assert project.dbt("build", sqlenrich_max_requests=limit + 1).success
    assert asked(endpoint) - before == ROWS + 9


def test_a_build_writes_the_rows_that_changed(project: DbtProject) -> None:
    """After each build ``prompts`` has the rows of its source. Those that were there before stay in their place."""
    project.rows("CREATE SCHEMA mock")
    table, body = "mock.tickets_prompts", r"regexp_extract(prompt, '<ticket>\n(?:Subject: a\n)?(.*)\n</ticket>', 1)"
    places = set()
    for values, change in (
        ("('5', 'five'), ('1', 'one'), ('1', 'one'), (NULL, 'x'), ('2', ''), ('3', NULL)", None),
        ("('5', 'five'), ('1', 'one'), (NULL, 'x'), (NULL, 'x'), ('2', ' '), ('3', NULL), ('4', NULL)", None),
        ("('5', 'five'), ('1', 'changed'), ('6', 'one'), ('6', 'x')", None),
        ("('5', 'five'), ('1', 'changed'), ('6', 'one')", ("key: [id]", "key: [id]\nkeep: [subject]")),
    ):
        if change:
            project.change_prompt(*change)
        source = f"SELECT id, 'a' AS subject, coalesce(body, '') AS body FROM (VALUES {values}) t(id, body)"
        project.rows(f"CREATE OR REPLACE TABLE mock.messages AS {source}")
        built = project.dbt("run", "--target", "mock", "--select", "tickets_prompts")
        assert built.success, built.message
        rows = project.rows(f"SELECT id, {body}, request_hash IS NOT NULL FROM {table} ORDER BY ALL")
        assert rows == project.rows(f"SELECT id, body, trim(body) <> '' FROM ({source}) ORDER BY ALL")
        asked = f"FROM {table} WHERE request_hash IS NOT NULL"
        assert project.value(f"SELECT count(DISTINCT prompt) - count(DISTINCT (request_hash, prompt)) {asked}") == 0
        if change is None:
            places.add(project.value(f"SELECT rowid FROM {table} WHERE id = '5'"))
    assert len(places) == 1
    assert project.rows(f"SELECT DISTINCT subject FROM {table}") == [("a",)]


def test_a_system_of_the_row_is_its_message(
    project: DbtProject, endpoint: ScriptedEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the plugin sends, the requests' hashes, and the models that answered, are those of a run."""
    monkeypatch.setattr(endpoint, "served", lambda _: ("small-1", "fp_1"))
    project.change_prompt("key: [id]", 'key: [id]\nsystem: "{% if subject %}About {{ subject }}.{% endif %}"')
    before = asked(endpoint)
    assert project.dbt("build", *MODELS_ALONE).success
    sent = [seen.body for seen in endpoint.asked[before:]]
    roles = {tuple(one["role"] for one in json.loads(body)["messages"]) for body in sent}
    assert roles == {("system", "user"), ("user",)}
    data, output = project.folder / "seeds" / "messages.csv", tmp_path / "run.duckdb"
    se.run(se.load(project.prompt), input=data, output=output, endpoint=endpoint.url, model="small")
    assert sorted(seen.body for seen in endpoint.asked[before + len(sent) :]) == sorted(sent)
    hashes = "SELECT request_hash, model, served_model, served_fingerprint FROM {}tickets_responses ORDER BY 1"
    with duckdb.connect(str(output)) as db:
        assert project.rows(hashes.format("dev.")) == db.execute(hashes.format("")).fetchall()
    assert project.rows("SELECT DISTINCT _model FROM dev.tickets") == [("small-1",)]


def test_a_variable_chooses_the_model(project: DbtProject, endpoint: ScriptedEndpoint) -> None:
    """By target or enrichment; answers of each model have hashes of their own, and stay."""
    settings = '[models.cheap]\nendpoint = "mini"\n[models.best]\nendpoint = "large"\n'
    (project.folder / "sqlenrich.toml").write_text(settings, encoding="utf-8")
    before, calls = asked(endpoint), []
    for value in (
        {"dev": "cheap", "prod": "best"},
        {"tickets": {"dev": "best"}},
        {"prod": "best", "default": "default"},
    ):
        built = project.dbt("build", *MODELS_ALONE, "--select", "+tickets", sqlenrich_model=value)
        assert built.success, built.message
        calls.append((asked(endpoint) - before, project.rows("SELECT DISTINCT _model FROM dev.tickets")))
        before = asked(endpoint)
    assert calls == [(ROWS, [("mini",)]), (ROWS, [("large",)]), (ROWS, [("small",)])]

    misspelt = {
        'is "chaep", but no model of this name has an endpoint; there are: default, cheap, best': "chaep",
        'has no value for the target dev, it has for: dve. Write one for it, or "default"': {"dve": "best"},
        "names enrichments, and ticktes is none of this project; there are: tickets": {
            "dev": {"tickets": "best", "ticktes": "best"}
        },
    }
    for refusal, name in misspelt.items():
        unknown = project.dbt("run", "--select", "tickets_prompts", sqlenrich_model=name)
        assert f"sqlenrich_model {refusal}" in str(unknown.message)
    project.rows("DELETE FROM dev.tickets_responses")
    alone = project.dbt("run", "--select", "tickets_responses", sqlenrich_model="cheap")
    assert "made for another model than mini" in str(alone.message)
    assert asked(endpoint) == before


def test_too_many_refused_rows_leave_the_accepted_ones_as_they_were(project: DbtProject) -> None:
    first = project.dbt("build", "--target", "failing")
    assert not first.success
    assert first.status["tickets_quarantine"] == "success"
    assert first.status["tickets_quarantine_at_most_max_quarantine"] == "fail"
    assert {first.status[name] for name in ("tickets", "urgent", "tickets_has_every_row")} == {"skipped"}
    refused = project.rows("SELECT _error, count(*) FROM failing.tickets_quarantine GROUP BY 1")
    assert refused == [("TRUNCATED", 2)]
    assert project.rows("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'failing' AND table_name = 'tickets'") == []

    rest = ("--target", "failing", "--select", "tickets_quarantine+")
    project.change_prompt("max_quarantine: 0.05", "max_quarantine: 0.2")
    assert project.dbt("build", *rest).success
    project.change_prompt("max_quarantine: 0.2", "max_quarantine: 0.01")
    kept = project.rows("SELECT * FROM failing.tickets ORDER BY id")
    last = project.dbt("build", *rest)
    assert (last.success, last.status["tickets"]) == (False, "skipped")
    assert project.rows("SELECT * FROM failing.tickets ORDER BY id") == kept
    assert len(kept) == ROWS - 2


def test_a_build_that_a_signal_ends_loses_at_most_the_part_in_flight(
    project: DbtProject, endpoint: ScriptedEndpoint
) -> None:
    parts: dict[str, object] = {"sqlenrich_chunk_rows": 3}
    assert project.dbt("seed", **parts).success
    command, env = dbt_command(["--log-format", "text", "run", *ANSWERS, *LEAN, "--vars", json.dumps(parts)])
    stored, lost = 0, {}
    for number in (signal.SIGKILL, signal.SIGINT):
        before = asked(endpoint)
        with subprocess.Popen(command, cwd=project.folder, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "tickets_responses: 2 of " in line:
                    process.send_signal(number)
                    break
            process.stdout.read()
        found = project.value("SELECT count(*) FROM dev.tickets_responses")
        assert stored <= found < ROWS, number.name
        lost[number.name] = asked(endpoint) - before - (found - stored)
        stored = found
    assert max(lost.values()) <= 5, lost  # the hashes of a part of 3 are a range, so it may have a few more
    before = asked(endpoint)
    assert project.dbt("run", *ANSWERS, **parts).success
    assert asked(endpoint) - before == ROWS - stored
    assert project.value("SELECT count(DISTINCT request_hash) FROM dev.tickets_responses") == ROWS


def test_a_second_process_is_refused_by_the_database(project: DbtProject) -> None:
    """DuckDB's file is the lock of a build."""
    hold = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(project.folder / DATABASE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(Exception, match="Conflicting lock is held"):
            project.dbt("build")
        first.communicate()


def test_an_endpoint_that_refuses_ends_the_build_and_the_next_goes_on(tmp_path: Path) -> None:
    with ScriptedEndpoint(script=dict.fromkeys(range(1, 500), "401")) as refusing:
        project = copy_consumer(tmp_path / "app", {"dev": {"endpoint": refusing.url, "model": "small"}})
        outcome = project.dbt("build", *MODELS_ALONE)
    assert not outcome.success
    assert f"the model was not asked for {ROWS} requests" in outcome.message["tickets_responses"]
    assert outcome.status["tickets"] == "skipped"
    assert project.value("SELECT count(*) FROM dev.tickets_responses") == 0
    assert project.value("SELECT count(*) FROM dev.tickets_pending") == ROWS


def test_ten_thousand_rows_are_built_in_parts(project: DbtProject) -> None:
    rows = "SELECT range::TEXT AS id, 'more' AS subject, 'message number ' || range AS body FROM range(10000)"
    project.rows(f"CREATE SCHEMA mock; CREATE TABLE mock.messages AS {rows}")
    assert project.dbt("run", "--target", "mock", "--select", "+tickets").success
    assert project.value("SELECT count(*) FROM mock.tickets") == 10_000
    assert project.rows("SELECT count(*), count(DISTINCT request_hash) FROM mock.tickets_responses") == [
        (10_000, 10_000)
    ]


def test_a_table_of_another_version_is_refused_with_what_mends_it(
    built: DbtProject, endpoint: ScriptedEndpoint
) -> None:
    project = built
    project.rows("ALTER TABLE dev.tickets_responses DROP COLUMN read_by")
    before = asked(endpoint)
    outcome = project.dbt("run", *ANSWERS)
    message = outcome.message["tickets_responses"]
    assert "was made by another version" in message
    statement = message.split("To keep its answers, run: ")[1].splitlines()[0]
    assert statement == 'ALTER TABLE "app"."dev"."tickets_responses" ADD COLUMN read_by TEXT'
    project.rows(statement)
    assert project.dbt("run", *ANSWERS).success
    assert asked(endpoint) == before

"""What a change of the project or of its environment pays: nothing where no request is new."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sqlenrich as se
from sqlenrich.core.version import __version__
from tests.support.dbt_projects import PACKAGE, WRITE, DbtProject, copy_consumer
from tests.support.endpoint import ScriptedEndpoint

SEED = "id,subject,body\n" + "".join(f"{n},late,parcel {n} is late\n" for n in range(1, 6))
ROWS = 5
STATE = ("--state", "state")
DEFER = ("--defer", *STATE)
PR = ("--target", "pr", "--target-path", "target_pr")
SHARED = {"sqlenrich_shared_responses": [{"schema": "nowhere"}, {"schema": "dev"}]}
RUN = ("run",)
RUN_AGAIN = ("run", "--select", "+tickets_responses")
pytestmark = pytest.mark.xdist_group("dbt on DuckDB")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def built(endpoint: ScriptedEndpoint, tmp_path_factory: pytest.TempPathFactory) -> DbtProject:
    """A project that was built in ``dev``, with its manifest as the state; ``pr`` has the source alone."""
    asked = {"endpoint": endpoint.url, "model": "small"}
    project = copy_consumer(
        tmp_path_factory.mktemp("built") / "app", {"dev": asked, "pr": asked, "empty": {"endpoint": ""}}
    )
    (project.folder / "seeds" / "messages.csv").write_text(SEED, encoding="utf-8")
    outcome = project.dbt("build", WRITE)
    assert outcome.success, outcome.message
    assert len(endpoint.asked) == ROWS
    (project.folder / "state").mkdir()
    shutil.copy(project.folder / "target" / "manifest.json", project.folder / "state")
    assert project.dbt("seed", *PR).success
    return project


@pytest.fixture
def project(built: DbtProject, tmp_path: Path) -> DbtProject:
    shutil.copytree(built.folder, tmp_path / "app", symlinks=True)
    return DbtProject(tmp_path / "app")


Change = Callable[[DbtProject], None]


def config(**nodes: dict[str, str]) -> Change:
    """Return a change of configs in ``dbt_project.yml``, by node."""

    def change(project: DbtProject) -> None:
        written = json.dumps(
            {node: {f"+{key}": value for key, value in values.items()} for node, values in nodes.items()}
        )
        with (project.folder / "dbt_project.yml").open("a", encoding="utf-8") as file:
            file.write(f"models: {{sqlenrich_integration_tests: {{sqlenrich: {{tickets: {written}}}}}}}\n")

    return change


def macro(name: str, arguments: str, node: str) -> Change:
    """Return a change by a macro of the project that gives one node another name."""

    def change(project: DbtProject) -> None:
        text = (
            f"{{% macro {name}({arguments}, node=none) -%}}\n"
            f"{{{{ 'other_' ~ node.name if node.name == '{node}' else node.name }}}}\n{{%- endmacro %}}\n"
        )
        (project.folder / "macros" / f"{name}.sql").write_text(text, encoding="utf-8")

    return change


def renamed(project: DbtProject) -> None:
    for kind in ("models", "macros"):
        found = project.folder / kind / "sqlenrich"
        shutil.rmtree(found)
    (project.folder / "models" / "urgent.sql").unlink()
    other = project.prompt.rename(project.prompt.with_name("cases.prompt"))
    se.write_dbt([se.load(other)], project.folder)


def second_version(project: DbtProject) -> None:
    second = project.prompt.with_name("tickets_v2.prompt")
    second.write_text(project.prompt.read_text("utf-8").replace("version: 1", "version: 2"), encoding="utf-8")
    se.write_dbt([se.load(second)], project.folder)


def second_enrichment(project: DbtProject) -> None:
    second = project.prompt.with_name("mails.prompt")
    second.write_text(project.prompt.read_text("utf-8").replace("Triage one", "Sort one"), encoding="utf-8")
    se.write_dbt([se.load(second)], project.folder)


def step_over_results(project: DbtProject) -> None:
    second = project.prompt.with_name("replies.prompt")
    second.write_text(
        "---\nsource: {ref: tickets}\nkey: [id]\nkeep: [urgency]\ncolumns: {id: string, urgency: bigint}\n"
        "checks: {urgent: urgency >= 1 and length(reply) >= 0}\noutput: {reply: string}\n---\n"
        "Answer the {{ intent }} message {{ id }}\n",
        encoding="utf-8",
    )
    se.write_dbt([se.load(second)], project.folder)


def prompt(old: str, new: str) -> Change:
    return lambda project: project.change_prompt(old, new)


def upgraded(project: DbtProject) -> None:
    """Replace the version in the package and in what was written, as a release without a change of the SQL would."""
    installed = project.folder / "dbt_packages" / "sqlenrich"
    installed.unlink()
    shutil.copytree(PACKAGE, installed, ignore=shutil.ignore_patterns("integration_tests"))
    written = [*(project.folder / "macros").rglob("*.sql"), *(project.folder / "models").rglob("*.*")]
    for path in (installed / "macros" / "answers.sql", *written):
        path.write_text(path.read_text("utf-8").replace(__version__, "9.9.9"), encoding="utf-8")


def sql(text: str) -> Change:
    """Return a change of the database."""

    def change(project: DbtProject) -> None:
        project.rows(text)

    return change


@dataclass(frozen=True)
class Case:
    """Changes, commands after them, the calls that they make, and the node that fails with a part of its message."""

    changes: tuple[Change, ...] = ()
    commands: tuple[tuple[str, ...], ...] = (RUN,)
    calls: int = 0
    fails: tuple[str, str] | None = None
    accepted: tuple[str, ...] = ("dev.tickets",)
    """The tables that have a row for each row of the source, where no node fails."""
    modified: bool | None = None
    """Whether ``state:modified`` has a node; None: not looked at."""
    variables: tuple[tuple[str, object], ...] = ()


IN_PR = ("pr.tickets",)
CASES = {
    "alias of the answers and of what is pending": Case(
        (config(tickets_responses={"alias": "answers"}, tickets_pending={"alias": "open_requests"}),), (RUN, RUN_AGAIN)
    ),
    "generate_alias_name and the schema of the answers": Case(
        (
            macro("generate_alias_name", "custom_alias_name=none", "tickets_responses"),
            config(tickets_responses={"schema": "llm"}),
        ),
        (RUN, RUN_AGAIN),
    ),
    "rename": Case((renamed,), accepted=("dev.cases",)),
    "v2": Case((second_version,), accepted=("dev.tickets", "dev.tickets_v2")),
    "a step over results": Case((step_over_results,), (RUN, RUN), calls=ROWS, accepted=("dev.tickets", "dev.replies")),
    "threshold and our version": Case(
        (prompt("max_quarantine: 0.05", "max_quarantine: 0.2"), upgraded), modified=False
    ),
    "prompt": Case((prompt("Triage one", "Sort one"),), calls=ROWS, modified=True),
    "PR schema with defer": Case((), ((*RUN, *PR, *DEFER), (*RUN_AGAIN, *PR, *DEFER)), accepted=IN_PR),
    "PR schema with a rename and defer": Case((renamed,), ((*RUN, *PR, *DEFER),), accepted=("pr.cases",)),
    "PR schema that shares after a rename": Case(
        (renamed,), ((*RUN, *PR),), accepted=("pr.cases",), variables=tuple(SHARED.items())
    ),
    "clone": Case((), (("clone", *PR, *STATE, "--exclude", "messages"), (*RUN, *PR)), accepted=IN_PR),
    "key type": Case(
        (prompt("columns:\n  id: string", "columns:\n  id: bigint"),),
        (("run", "--select", "tickets_prompts", *PR),),
        fails=("tickets_prompts", "contract"),
    ),
    "pending over other answers": Case(
        (
            sql(
                "CREATE OR REPLACE VIEW dev.tickets_pending AS "
                "SELECT request_hash, 1 AS attempt, prompt FROM dev.tickets_prompts"
            ),
        ),
        (("run", "--select", "tickets_responses"),),
        fails=("tickets_responses", "the answers to 5 of its requests are stored"),
    ),
    "pending of another environment": Case(
        (sql("DELETE FROM dev.tickets_responses"),),
        (("run", *PR, *DEFER, "--select", "tickets_responses"),),
        fails=("tickets_responses", "it is that of another environment"),
    ),
    "adopted": Case(
        (sql("CREATE SCHEMA old; CREATE TABLE old.kept AS FROM dev.tickets_responses"),),
        (
            ("run-operation", "sqlenrich.adopt_answers", *PR, "--args", "{from: old.kept, to: tickets_responses}"),
            (*RUN, *PR),
        ),
        accepted=IN_PR,
    ),
    "nothing asked": Case(
        (),
        (("build", "--select", "+tickets_quarantine", *PR),),
        fails=("tickets_quarantine_at_most_max_quarantine", "Got 5 results"),
        variables=(("sqlenrich_calls", False),),
    ),
    "empty endpoint": Case(
        (),
        (("build", "--target", "empty", "--select", "messages", "tickets_prompts"),),
        fails=("tickets_prompts", "has an empty endpoint"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_pays_for_new_requests_alone(name: str, project: DbtProject, endpoint: ScriptedEndpoint) -> None:
    case = CASES[name]
    for change in case.changes:
        change(project)
    if case.modified is not None:
        listed = project.dbt("ls", "--select", "state:modified", *STATE).listed
        assert bool(listed) is case.modified, listed
    before = len(endpoint.asked)
    for command in case.commands:
        outcome = project.dbt(*command, **dict(case.variables))
        assert outcome.success is (case.fails is None), outcome.message
        if case.fails is not None:
            node, message = case.fails
            assert message in outcome.message.get(node, "")
    assert len(endpoint.asked) - before == case.calls
    if case.fails is None:
        counted = {table: project.value(f"SELECT count(*) FROM {table}") for table in case.accepted}
        assert counted == dict.fromkeys(case.accepted, ROWS)
    assert_nothing_is_asking(project)


def assert_nothing_is_asking(project: DbtProject) -> None:
    assert project.rows("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%asking'") == []


def test_answers_of_production_are_shared(project: DbtProject, endpoint: ScriptedEndpoint) -> None:
    """They are read where they are; what they lack is asked."""
    before = len(endpoint.asked)
    assert project.dbt(*RUN, *PR, **SHARED).success
    assert len(endpoint.asked) == before
    assert project.value("SELECT count(*) FROM pr.tickets") == ROWS
    assert project.value("SELECT count(*) FROM pr.tickets_responses") == 0
    project.rows("INSERT INTO pr.messages VALUES ('6', 'more', 'message 6'), ('7', 'more', 'message 7')")
    assert project.dbt(*RUN, *PR, **SHARED).success
    assert len(endpoint.asked) - before == 2
    assert project.value("SELECT count(*) FROM pr.tickets_responses") == 2


PRICES = {"sqlenrich_prices": {"input": 0, "output": 15}}
REQUESTS, COST = "sqlenrich_max_build_requests", "sqlenrich_max_build_cost"
LIMITS: tuple[tuple[dict[str, object], int, int, str | None], ...] = (
    (
        {COST: 0.0374, **PRICES},
        1,
        ROWS,
        "would ask 5 requests for about 0.0188, and the other nodes of this build ask 5 requests for about 0.0188, "
        'but sqlenrich_max_build_cost is 0.0374: nothing was asked here. To pay for them: --vars "'
        '{sqlenrich_max_build_cost: 0.0375}"',
    ),
    (
        {REQUESTS: 2 * ROWS - 1},
        1,
        ROWS,
        "would ask 5 requests, and the other nodes of this build ask 5 requests, "
        "but sqlenrich_max_build_requests is 9: ",
    ),
    ({REQUESTS: 2 * ROWS - 1}, 2, ROWS, ""),
    ({COST: 1}, 1, 0, "set the prices of a million tokens: sqlenrich_prices: {input: ..., output: ...}"),
    ({REQUESTS: 2 * ROWS}, 2, 2 * ROWS, None),
)
"""Variables, threads, the calls of two enrichments, and what the one that asks nothing says; None: both ask."""


def test_two_enrichments_within_and_over_the_limits_of_a_build(project: DbtProject, endpoint: ScriptedEndpoint) -> None:
    """With two threads both count at the same time, and either one is refused."""
    second_enrichment(project)
    answers = ("tickets_responses", "mails_responses")
    for variables, threads, calls, refusal in LIMITS:
        for table in answers:
            project.rows(f"DROP TABLE IF EXISTS pr.{table}")
        before = len(endpoint.asked)
        chosen = [f"+{table}" for table in answers]
        outcome = project.dbt("run", *PR, "--threads", str(threads), "--select", *chosen, **variables)
        assert outcome.success is (refusal is None), (variables, outcome.message)
        assert len(endpoint.asked) - before == calls, variables
        if refusal is not None:
            refused = {name for name, status in outcome.status.items() if status == "error"}
            assert refused <= set(answers)
            assert len(refused) == (1 if calls else 2)
            if threads == 1:
                assert refusal in outcome.message["tickets_responses"]
    assert_nothing_is_asking(project)


def test_a_limit_of_the_cost_needs_max_tokens(project: DbtProject, endpoint: ScriptedEndpoint) -> None:
    project.change_prompt("{temperature: 0, max_tokens: 250}", "{temperature: 0}")
    before = len(endpoint.asked)
    outcome = project.dbt("run", "--select", "+tickets_responses", sqlenrich_max_build_cost=1)
    assert "write max_tokens into the params of tickets.prompt" in outcome.message["tickets_responses"]
    assert len(endpoint.asked) == before

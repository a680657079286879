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
from tests.support.dbt_projects import PACKAGE, DbtProject, copy_consumer
from tests.support.endpoint import ScriptedEndpoint

SEED = "id,subject,body\n" + "".join(f"{n},late,parcel {n} is late\n" for n in range(1, 6))
ROWS = 5
STATE = ("--state", "state")
DEFER = ("--defer", *STATE)
SHARED = {"sqlenrich_shared_responses": [{"schema": "nowhere"}, {"schema": "dev"}]}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def built(endpoint: ScriptedEndpoint, tmp_path_factory: pytest.TempPathFactory) -> DbtProject:
    """A project that was built in ``dev``, with its manifest as the state."""
    asked = {"endpoint": endpoint.url, "model": "small"}
    project = copy_consumer(
        tmp_path_factory.mktemp("built") / "app", {"dev": asked, "pr": asked, "empty": {"endpoint": ""}}
    )
    (project.folder / "seeds" / "messages.csv").write_text(SEED, encoding="utf-8")
    outcome = project.dbt("build")
    assert outcome.success, outcome.message
    assert len(endpoint.asked) == ROWS
    (project.folder / "state").mkdir()
    shutil.copy(project.folder / "target" / "manifest.json", project.folder / "state")
    return project


def config(node: str, **values: str) -> Callable[[DbtProject], None]:
    """Return a change of a node's config in ``dbt_project.yml``."""

    def change(project: DbtProject) -> None:
        written = json.dumps({f"+{key}": value for key, value in values.items()})
        with (project.folder / "dbt_project.yml").open("a", encoding="utf-8") as file:
            file.write(f"models: {{sqlenrich_integration_tests: {{sqlenrich: {{tickets: {{{node}: {written}}}}}}}}}\n")

    return change


def macro(name: str, arguments: str, node: str) -> Callable[[DbtProject], None]:
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


def prompt(old: str, new: str) -> Callable[[DbtProject], None]:
    return lambda project: project.change_prompt(old, new)


def upgraded(project: DbtProject) -> None:
    """Replace the version in the package and in what was written, as a release without a change of the SQL would."""
    installed = project.folder / "dbt_packages" / "sqlenrich"
    installed.unlink()
    shutil.copytree(PACKAGE, installed, ignore=shutil.ignore_patterns("integration_tests"))
    written = [*(project.folder / "macros").rglob("*.sql"), *(project.folder / "models").rglob("*.*")]
    for path in (installed / "macros" / "answers.sql", *written):
        path.write_text(path.read_text("utf-8").replace(__version__, "9.9.9"), encoding="utf-8")


def sql(text: str) -> Callable[[DbtProject], None]:
    """Return a change of the database."""

    def change(project: DbtProject) -> None:
        project.rows(text)

    return change


def nothing(project: DbtProject) -> None:
    del project


@dataclass(frozen=True)
class Case:
    """A change, the commands after it, the calls that they make, and nodes that fail with a part of their message."""

    change: Callable[[DbtProject], None]
    commands: tuple[tuple[str, ...], ...] = (("build",), ("build",))
    calls: int = 0
    fails: tuple[str, str] | None = None
    modified: bool | None = None
    """Whether ``state:modified`` has a node; None: not looked at."""
    variables: tuple[tuple[str, object], ...] = ()


def limits(**most: object) -> tuple[tuple[str, object], ...]:
    """Return the variables that limit a whole build."""
    return tuple((f"sqlenrich_max_build_{name}", value) for name, value in most.items())


PR = ("--target", "pr")
CASES = {
    "alias of the answers": Case(config("tickets_responses", alias="answers")),
    "alias of what is pending": Case(config("tickets_pending", alias="open_requests")),
    "generate_alias_name": Case(macro("generate_alias_name", "custom_alias_name=none", "tickets_responses")),
    "schema of the answers": Case(config("tickets_responses", schema="llm")),
    "rename": Case(renamed),
    "v2": Case(second_version),
    "threshold": Case(prompt("max_quarantine: 0.05", "max_quarantine: 0.2"), modified=False),
    "our version": Case(upgraded, modified=False),
    "prompt": Case(prompt("Triage one", "Sort one"), calls=ROWS, modified=True),
    "PR schema with defer": Case(nothing, (("build", *PR, *DEFER), ("build", *PR, *DEFER))),
    "PR schema with a rename and defer": Case(renamed, (("build", *PR, *DEFER),)),
    "PR schema that shares": Case(nothing, (("build", *PR),), variables=tuple(SHARED.items())),
    "PR schema that shares after a rename": Case(renamed, (("build", *PR),), variables=tuple(SHARED.items())),
    "clone": Case(nothing, (("clone", *PR, *STATE, "--exclude", "messages"), ("build", *PR))),
    "PR schema alone": Case(nothing, (("build", *PR), ("build", *PR)), calls=ROWS),
    "key type": Case(
        prompt("columns:\n  id: string", "columns:\n  id: bigint"),
        (("build", *PR),),
        fails=("tickets_prompts", "contract"),
    ),
    "pending over other answers": Case(
        sql(
            "CREATE OR REPLACE VIEW dev.tickets_pending AS "
            "SELECT request_hash, 1 AS attempt, prompt FROM dev.tickets_prompts"
        ),
        (("run", "--select", "tickets_responses"),),
        fails=("tickets_responses", "the answers to 5 of its requests are stored"),
    ),
    "pending of another environment": Case(
        sql("DELETE FROM dev.tickets_responses"),
        (("run", *PR, *DEFER, "--select", "tickets_responses"),),
        fails=("tickets_responses", "it is that of another environment"),
    ),
    "adopted": Case(
        sql("CREATE SCHEMA old; CREATE TABLE old.kept AS FROM dev.tickets_responses"),
        (
            ("run-operation", "sqlenrich.adopt_answers", *PR, "--args", "{from: old.kept, to: tickets_responses}"),
            ("build", *PR),
        ),
    ),
    "nothing asked": Case(
        nothing,
        (("build", *PR),),
        fails=("tickets_quarantine_at_most_max_quarantine", "Got 5 results"),
        variables=(("sqlenrich_calls", False),),
    ),
    "two enrichments within the build's limit": Case(
        second_enrichment, (("build", *PR), ("build", *PR)), calls=2 * ROWS, variables=limits(requests=2 * ROWS)
    ),
    "two enrichments over the build's limit": Case(
        second_enrichment,
        (("build", *PR, "--threads", "1"),),
        calls=ROWS,
        fails=(
            "tickets_responses",
            "would ask 5 requests, and the other nodes of this build ask 5 requests, "
            "but sqlenrich_max_build_requests is 9: ",
        ),
        variables=limits(requests=2 * ROWS - 1),
    ),
    "two enrichments that count at the same time": Case(
        second_enrichment, (("build", *PR, "--threads", "2"),), calls=ROWS, fails=("", ""), variables=limits(requests=9)
    ),
    "two enrichments over the build's cost": Case(
        second_enrichment,
        (("build", *PR, "--threads", "1"),),
        calls=ROWS,
        fails=(
            "tickets_responses",
            "would ask 5 requests for about 0.0188, and the other nodes of this build ask 5 requests for about 0.0188, "
            'but sqlenrich_max_build_cost is 0.0374: nothing was asked here. To pay for them: --vars "'
            '{sqlenrich_max_build_cost: 0.0375}"',
        ),
        variables=(*limits(cost=0.0374), ("sqlenrich_prices", {"input": 0, "output": 15})),
    ),
    "a cost without a price": Case(
        nothing,
        (("build", *PR),),
        fails=("tickets_responses", "set the prices of a million tokens: sqlenrich_prices: {input: ..., output: ...}"),
        variables=limits(cost=1),
    ),
    "a cost without max_tokens": Case(
        prompt("{temperature: 0, max_tokens: 250}", "{temperature: 0}"),
        fails=("tickets_responses", "write max_tokens into the params of tickets.prompt"),
        variables=limits(cost=1),
    ),
    "empty endpoint": Case(
        nothing, (("build", "--target", "empty"),), fails=("tickets_prompts", "has an empty endpoint")
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_pays_for_new_requests_alone(
    name: str, built: DbtProject, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    case = CASES[name]
    shutil.copytree(built.folder, tmp_path / "app", symlinks=True)
    project = DbtProject(tmp_path / "app")
    case.change(project)
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
    assert project.rows("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%asking'") == []

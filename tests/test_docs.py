"""Pages of docs/ and the files of examples/ are run as a reader would run them.

``pytest tests/test_docs.py --update-readme`` writes the real output of each command, and the examples, into the pages.
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.wire.forms import new_body
from sqlenrich.spec.settings import find_config
from tests.support.batch_vendors import FakeVendors
from tests.support.endpoint import ScriptedEndpoint
from tests.test_readme import BLOCK, ROOT, replay, run, stable

DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
PAGES_WITH_COMMANDS = ("quickstart", "tour", "duckdb", "snowflake", "bigquery", "databricks")
FILE_OR_COMMANDS = re.compile(
    r"^<!-- (?P<name>\w+\.\w+) -->\n```\w+\n(?P<content>.*?)^```$|^```console\n(?P<commands>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
EXAMPLE = re.compile(r"^<!-- (examples/\S+) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DAYS = ("2026-01-31", "2026-02-01")


@pytest.mark.parametrize("name", PAGES_WITH_COMMANDS)
def test_a_page_shows_real_output(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The files that a page shows are written, and its commands run, in the order of the page."""
    monkeypatch.setenv("NO_COLOR", "1")
    page = DOCS / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    shown, real = [], []
    for block in FILE_OR_COMMANDS.finditer(text):
        if block["name"]:
            (tmp_path / block["name"]).write_text(block["content"], encoding="utf-8")
        else:
            shown.append(block["commands"])
            real.append(replay(block["commands"], tmp_path))
    assert shown
    if request.config.getoption("--update-readme"):
        outputs = iter("\n".join(line.rstrip() for line in output.rstrip().splitlines()) for output in real)
        page.write_text(BLOCK.sub(lambda _: f"```console\n{next(outputs)}\n```", text), encoding="utf-8")
        return
    assert [stable(block) for block in shown] == [stable(output) for output in real]


def test_the_settings_of_each_server_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", (DOCS / "endpoints.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "sqlenrich.toml").write_text("\n".join(blocks), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = find_config(None).endpoints
    assert len(found) >= len(blocks) >= 16
    config = RequestConfig("m", {"max_tokens": 5})
    assert all(new_body(endpoint, config).of(("row",)) for endpoint in found.values())


def test_recipes_show_the_examples(request: pytest.FixtureRequest) -> None:
    page = DOCS / "recipes.md"
    text = page.read_text(encoding="utf-8")
    if request.config.getoption("--update-readme"):
        made = EXAMPLE.sub(lambda m: f"<!-- {m[1]} -->\n```{m[2]}\n{(ROOT / m[1]).read_text('utf-8')}```", text)
        page.write_text(made, encoding="utf-8")
        return
    shown = {name: content for name, _, content in EXAMPLE.findall(text)}
    assert shown == {name: (ROOT / name).read_text(encoding="utf-8") for name in shown}
    assert set(shown) == {"examples/daily_job.sh", "examples/airflow_dag.py", "examples/dagster_job.py"}


# The examples ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A copy of the examples whose sqlenrich.toml names an endpoint of this machine."""
    copy = tmp_path / "examples"
    shutil.copytree(EXAMPLES, copy)
    with ScriptedEndpoint() as endpoint:
        settings = copy / "sqlenrich.toml"
        text = settings.read_text(encoding="utf-8")
        assert "http://127.0.0.1:8000/v1" in text
        settings.write_text(text.replace("http://127.0.0.1:8000/v1", endpoint.url), encoding="utf-8")
        yield copy


def stored(folder: Path) -> tuple[list[str], list[str], int]:
    """The ids of the accepted and of the refused rows, and the number of stored answers."""
    with duckdb.connect(str(folder / "tickets.duckdb"), read_only=True) as db:
        accepted, refused = (
            [row[0] for row in db.sql(f"SELECT id FROM {table} ORDER BY id").fetchall()]
            for table in ("tickets", "tickets_quarantine")
        )
        answers = db.sql("SELECT count(*) FROM tickets_responses").fetchall()[0][0]
    return accepted, refused, answers


FIRST_DAY = (["T-101", "T-102", "T-103", "T-104"], ["T-105"], 4)
BOTH_DAYS = (["T-101", "T-102", "T-103", "T-104", "T-106", "T-107"], ["T-105"], 7)  # T-104 was written anew


def test_the_daily_job(folder: Path) -> None:
    assert "2026-01-31: done" in run("./daily_job.sh 2026-01-31", folder)
    assert stored(folder) == FIRST_DAY
    assert "2026-02-01: done" in run("./daily_job.sh 2026-02-01 && ./daily_job.sh 2026-02-01", folder)
    assert stored(folder) == BOTH_DAYS
    assert len((folder / "tickets.csv").read_text(encoding="utf-8").splitlines()) == 1 + 6


def test_the_daily_job_asks_refused_rows_once_more(folder: Path) -> None:
    """A stricter limit of the summary refuses every answer: a run, one retry, and the status of the retry."""
    prompt = folder / "tickets.prompt"
    prompt.write_text(prompt.read_text(encoding="utf-8").replace("maxLength: 120", "maxLength: 0"), encoding="utf-8")
    with ScriptedEndpoint(content='{"intent": "other", "urgency": 1, "summary": "too long"}') as endpoint:
        settings = folder / "sqlenrich.toml"
        settings.write_text(re.sub(r"http://[^\"]+", endpoint.url, settings.read_text(encoding="utf-8")), "utf-8")
        out = run("./daily_job.sh 2026-01-31", folder)
    assert "2026-01-31: too many refused" in out
    assert stored(folder) == ([], ["T-101", "T-102", "T-103", "T-104", "T-105"], 8)


def test_the_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells run one after another, and the last frames are those of the text."""
    cells = json.loads((folder / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook.ipynb", "exec"), names)
    assert names["report"].exit_status == 0
    found = names["found"].set_index("id")["intent"]
    assert list(found.index[found.isna()]) == ["T-105"]
    assert names["report"].quarantine().select(["id", "_error"]).to_pylist() == [{"id": "T-105", "_error": "NO_INPUT"}]


def test_the_python_of_the_page(folder: Path) -> None:
    blocks = re.findall(r"^```python\n(import pandas.*?)^```$", (DOCS / "recipes.md").read_text(), re.M | re.S)
    assert len(blocks) == 1
    (folder / "block.py").write_text(blocks[0], encoding="utf-8")
    run(f"{sys.executable} block.py", folder)


def task(**options: Any) -> Any:
    """As ``airflow.sdk.task``: the function of a task, called while the DAG is made, only notes that it is in it."""

    def decorated(function: Any) -> Any:
        def called() -> Called:
            TASKS.append((function, options))
            return Called()

        return called

    return decorated


class Called:
    """A task that is in a DAG; ``>>`` orders two of them."""

    def __rshift__(self, after: Called) -> Called:
        return after


task.sensor = task  # type: ignore[attr-defined]


def dag(**options: Any) -> Any:
    """As ``airflow.sdk.dag``: calling the function makes the DAG."""
    return lambda function: function


TASKS: list[tuple[Any, dict[str, Any]]] = []


def module(name: str, **names: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(names)
    return made


def test_the_airflow_dag(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow", module("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", module("airflow.sdk", dag=dag, task=task))
    TASKS.clear()
    runpy.run_path(str(folder / "airflow_dag.py"))
    ((enrich, options),) = TASKS
    assert options["retries"] == 3
    first = enrich(ds=DAYS[0])
    assert json.loads(json.dumps(first))["enriched"] == 4, "a task's result is JSON"
    assert stored(folder) == FIRST_DAY
    assert enrich(ds=DAYS[1])["calls"] == 3
    assert enrich(ds=DAYS[1])["calls"] == 0
    assert stored(folder) == BOTH_DAYS
    (folder / "tickets.prompt").write_text(
        (folder / "tickets.prompt").read_text("utf-8").replace("maxLength: 120", "maxLength: 0"), "utf-8"
    )
    with pytest.raises(RuntimeError, match="too many refused"):
        enrich(ds=DAYS[1])


def test_the_airflow_dag_of_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow", module("airflow"))
    poked = module("airflow.sdk", dag=dag, task=task, PokeReturnValue=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "airflow.sdk", poked)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    TASKS.clear()
    with FakeVendors(hold=True) as vendors:
        example = folder / "airflow_batch.py"
        text = example.read_text(encoding="utf-8")
        example.write_text(text.replace("https://api.openai.com/v1", vendors.openai_url), encoding="utf-8")
        runpy.run_path(str(example))
        (send, _), (collect, options) = TASKS
        assert options["mode"] == "reschedule"
        assert send(ds=DAYS[0])["pending"] == 3, "one request was asked live"
        assert not collect(ds=DAYS[0]).is_done
        vendors.end()
        collected = collect(ds=DAYS[0])
    assert collected.is_done
    assert json.loads(json.dumps(collected.xcom_value))["enriched"] == 4
    assert stored(folder) == FIRST_DAY
    assert set(vendors.billed.values()) == {1}


class Dagster(ModuleType):
    """A module whose names are functions that give their arguments; ``asset`` leaves a function as it is.

    As Dagster does, it refuses a ``context`` whose type is a text.
    """

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: SimpleNamespace(name=name, args=args, **options)

    def asset(self, **options: Any) -> Any:
        def checked(function: Any) -> Any:
            assert not isinstance(function.__annotations__["context"], str), "the type of context must not be a text"
            self.options = options
            return function

        return checked


def test_the_dagster_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dagster = Dagster("dagster")
    monkeypatch.setitem(sys.modules, "dagster", dagster)
    made = runpy.run_path(str(folder / "dagster_job.py"))
    found = made["tickets"](SimpleNamespace(partition_key=DAYS[0]))
    assert found.metadata == {"calls": 4, "enriched": 4, "quarantined": 1}
    (check,), (result,) = dagster.options["check_specs"], found.check_results
    assert (check.args, result.passed) == ((result.check_name,), True)
    assert stored(folder) == FIRST_DAY
    made["tickets"](SimpleNamespace(partition_key=DAYS[1]))
    assert stored(folder) == BOTH_DAYS
    assert made["defs"].jobs == [made["daily"]]


def test_examples_are_checked_files() -> None:
    enrichment = se.load(EXAMPLES / "tickets.prompt")
    assert enrichment.name == "tickets"
    assert sorted(path.name for path in (EXAMPLES / "inbox").iterdir()) == [f"{day}.csv" for day in DAYS]


AGENTS = re.compile(r"`(sqlenrich (?:new|templates|check|preview|run|plan|schema|compare|evaluate|show)\b[^`]*)`")


def test_the_commands_for_agents_run(tmp_path: Path) -> None:
    """Each command of the text for AGENTS.md runs, with files in place of its words."""
    text = (DOCS / "agents.md").read_text(encoding="utf-8")
    run("sqlenrich new tickets --template support_ticket --sample", tmp_path)
    run("sed s/facts/facts,/ tickets.prompt > new.prompt", tmp_path)
    words = {
        "OLD.prompt": "tickets.prompt", "NEW.prompt": "new.prompt", "NAME.prompt": "tickets.prompt",
        "new NAME": "new mine", "show NAME": "show tickets", "DATA": "tickets.csv", "LABELS": "tickets.csv",
        "FIELD=COLUMN": "intent=expected_intent", "/tmp/try.duckdb": "out.duckdb", "DB": "out.duckdb",
    }  # fmt: skip
    commands = AGENTS.findall(text)
    assert len(commands) == 10
    for command in commands:
        for word, real in words.items():
            command = command.replace(word, real)
        if command.split()[1] in ("compare", "evaluate"):
            command += " --mock"
        if "evaluate" in command:
            command += " --field intent=expected_intent"
        run(command, tmp_path)

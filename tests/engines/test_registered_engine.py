"""An engine that another distribution registers: listed, rendered, run and tested as the built-in ones are."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import sqlenrich
from sqlenrich.engines import ENGINES
from tests.support.distributions import install, python

PROJECT = Path(__file__).parents[1] / "support" / "toy_engine"
ROOT = Path(sqlenrich.__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toy engine's distribution, as an installer writes it."""
    folder = tmp_path_factory.mktemp("site")
    install(PROJECT, folder)
    return folder


def rendered(site: Path) -> str:
    code = "import sqlenrich as se; print(se.render(se.load('support_ticket'), engine='toy'))"
    done = python(site, ["-c", code])
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_listed_after_the_built_in_engines(site: Path) -> None:
    listed = python(site, ["-m", "sqlenrich", "engines"])
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [*ENGINES, "toy"]
    assert listed.stdout.splitlines()[-1].split() == ["toy", "toy_complete"]


def test_check_names_it(site: Path) -> None:
    found = python(site, ["-m", "sqlenrich", "check", "support_ticket"]).stdout.splitlines()
    (line,) = [line for line in found if line.startswith("  toy ")]
    assert line.split() == ["toy", "ok"]
    assert "model toy-1 (the engine's default)" in found[found.index(line) + 1]


@pytest.mark.parametrize(
    ("settings", "params", "error"),
    [
        ('[models.default]\ntoy = "toy-2"\n', "{toy: {limit: 3}}", None),
        ('[models.default]\ntoys = "toy-2"\n', "{}", 'unknown key "toys" (toy?)'),
        ('[targets.t]\nengine = "toy"\n', "{}", None),
        ('[targets.t]\nengine = "toys"\n', "{}", "duckdb, toy, not 'toys'"),
        ("", "{toys: {limit: 3}}", "toys"),
    ],
)
def test_settings_and_headers_take_its_name(
    site: Path, tmp_path: Path, settings: str, params: str, error: str | None
) -> None:
    (tmp_path / "sqlenrich.toml").write_text(settings)
    header = f"---\nmodel: default\nparams: {params}\noutput:\n  label: string\n---\n{{{{ body }}}}\n"
    (tmp_path / "t.prompt").write_text(header)
    done = python(site, ["-m", "sqlenrich", "check", "t.prompt"], tmp_path)
    if error is None:
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        assert error in done.stdout + done.stderr


def test_its_script_runs(site: Path) -> None:
    answers = {
        "good": '{"intent": "refund", "urgency": 1, "needs_human": false, "summary": "s"}',
        "bad": "no JSON",
    }
    with duckdb.connect() as db:
        db.execute("CREATE SCHEMA raw")
        db.execute("CREATE TABLE raw.tickets (id VARCHAR, subject VARCHAR, body VARCHAR)")
        db.execute("INSERT INTO raw.tickets VALUES ('1', 's', 'MARK'), ('2', 's', 'b')")
        db.execute(
            f"CREATE MACRO toy_complete(model, prompt) AS "
            f"CASE WHEN CONTAINS(prompt, 'MARK') THEN '{answers['good']}' ELSE '{answers['bad']}' END"
        )
        db.execute(rendered(site))
        assert db.execute("SELECT id, intent FROM support_ticket").fetchall() == [("1", "refund")]
        assert db.execute("SELECT id, _error FROM support_ticket_quarantine").fetchall() == [("2", "BAD_JSON")]


def test_the_tests_of_engines_pass_for_it(site: Path) -> None:
    done = python(site, ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/engines/test_engines.py", "-k", "toy"])
    assert done.returncode == 0, done.stdout
    passed = int(done.stdout.rsplit(" passed", 1)[0].rsplit(maxsplit=1)[-1])
    assert passed > 100


def test_what_is_no_engine_is_refused_by_name(site: Path, tmp_path: Path) -> None:
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[sqlenrich.engines]\nbroken = json:dumps\n")
    done = python(tmp_path, ["-c", "from sqlenrich.engines import get_engine; get_engine('broken')"])
    assert 'ConfigError: the entry point "broken" of sqlenrich.engines, json:dumps, is not an Engine' in done.stderr

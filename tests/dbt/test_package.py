"""The package as a repository of its own: what dbt's hub takes, and what `dbt deps` installs from it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.dbt_package import committed, write_package
from tests.support.dbt_projects import ROOT, DbtProject, copy_consumer

OWN = "https://github.com/sqlenrich/sqlenrich/blob/v0.1.0/"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The repository, with a tag."""
    folder = tmp_path / "dbt-sqlenrich"
    write_package(folder)
    committed(folder)
    return folder


def test_a_project_builds_with_the_tag_of_the_repository(repository: Path, tmp_path: Path) -> None:
    project = copy_consumer(tmp_path / "app", None)
    (project.folder / "dbt_packages" / "sqlenrich").unlink()
    packages = {"packages": [{"git": repository.as_uri(), "revision": "0.1.0"}]}
    (project.folder / "packages.yml").write_text(json.dumps(packages))
    assert project.dbt("deps").success
    installed = project.folder / "dbt_packages" / "sqlenrich"
    assert not installed.is_symlink()
    assert (installed / "dbt_project.yml").is_file()
    assert project.dbt("build").success


def test_its_own_project_of_tests_builds_from_the_root(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLENRICH_DUCKDB", "app.duckdb")
    project = DbtProject(repository / "integration_tests")
    assert project.dbt("deps").success
    assert project.dbt("build").success
    assert subprocess.run(["git", "status", "--porcelain"], cwd=repository, capture_output=True).stdout == b""


def test_it_is_written_anew_and_its_links_lead_somewhere(repository: Path) -> None:
    (repository / "macros" / "old.sql").write_text("gone")
    write_package(repository)
    assert not (repository / "macros" / "old.sql").exists()
    assert (repository / ".git").is_dir()
    for link in re.findall(r"\]\((\S+)\)", (repository / "README.md").read_text()):
        path = link.removeprefix(OWN)
        assert (ROOT / path).is_file() if path != link else link == "https://github.com/sqlenrich/sqlenrich"


def test_each_property_of_a_macro_belongs_to_one(repository: Path) -> None:
    """dbt 2 and the hub's pages show them; a name that is no macro's is a warning at each parse."""
    text = "".join(path.read_text() for path in sorted((repository / "macros").rglob("*.sql")))
    named = re.findall(r"^  - name: (\w+)$", (repository / "macros" / "macros.yml").read_text(), re.MULTILINE)
    made = {*re.findall(r"{%-? *(?:macro|test) (\w+)", text)}
    made |= {f"materialization_{name}_default" for name in re.findall(r"{%-? *materialization (\w+)", text)}
    assert named
    assert set(named) - made == set()
    assert "materialization_sqlenrich_responses_default" in named

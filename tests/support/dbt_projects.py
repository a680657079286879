"""dbt projects for tests: copies of the package's consuming project, built in this process."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb

import sqlenrich as se

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "dbt_project"
CONSUMER = PACKAGE / "integration_tests"
MADE_BY_DBT = ("target", "logs", "dbt_packages", "package-lock.yml", ".user.yml", "*.duckdb", "*.wal")
DATABASE = "app.duckdb"
ROWS = 21
"""The rows of the seed: each is a request of its own."""
WRITE = "--write-json"
"""The option of a command whose artifacts a test reads, such as ``manifest.json``."""
LEAN = ("--no-write-json", "--log-level-file", "none")
"""What other commands leave out: a third of their time."""
MODELS_ALONE = ("--exclude-resource-type", "test", "unit_test")
"""The options of ``dbt build`` that leave out the tests."""


@dataclass(frozen=True)
class Outcome:
    """One command of dbt: whether it succeeded, and the status and message of each node by its name."""

    success: bool
    status: Mapping[str, str]
    message: Mapping[str, str]
    listed: tuple[str, ...] = ()
    """What ``dbt ls`` lists."""


@dataclass(frozen=True)
class DbtProject:
    """A dbt project in a folder. Its profile has a target per plugin config."""

    folder: Path

    def dbt(self, *arguments: str, **variables: object) -> Outcome:
        """Run a command of dbt in this process."""
        done = self._invoke(["--quiet", *arguments, "--vars", json.dumps(variables)])
        results = getattr(done.result, "results", ())
        nodes = {_name(result): result for result in results}
        return Outcome(
            done.success,
            {name: str(result.status) for name, result in nodes.items()},
            {name: str(result.message) for name, result in nodes.items()},
            tuple(done.result) if isinstance(done.result, list) else (),
        )

    def shown(self, command: str) -> str:
        """Return what a command line of dbt prints, which runs in this process."""
        with redirect_stdout(StringIO()) as printed:
            self._invoke(shlex.split(command)[1:])
        return printed.getvalue()

    def _invoke(self, arguments: Sequence[str]) -> Any:
        with warnings.catch_warnings(), chdir(self.folder):
            warnings.simplefilter("ignore")  # dbt's own
            from dbt.cli.main import dbtRunner
            from dbt_common.behavior_flags import BehaviorFlagRendered
            from dbt_common.tests import enable_test_caching

            enable_test_caching()  # dbt's own: each command with other variables parses the same macros again
            # For each flag of a connection dbt reads the source of the whole call stack, to name itself in a warning.
            with patch.object(BehaviorFlagRendered, "_default_source", str):
                done = dbtRunner().invoke([*arguments, *(() if WRITE in arguments else LEAN)])
        if (duckdb_adapter := sys.modules.get("dbt.adapters.duckdb.connections")) is not None:
            # An open database would serve the next project too, since its path is relative.
            duckdb_adapter.DuckDBConnectionManager.close_all_connections()
        if done.exception is not None:
            raise done.exception
        return done

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query in the project's database."""
        with duckdb.connect(str(self.folder / DATABASE)) as database:
            return database.execute(sql).fetchall()

    def value(self, sql: str) -> Any:
        """Return the one value of a query."""
        ((value,),) = self.rows(sql)
        return value

    def write_profile(self, **outputs: Mapping[str, object]) -> None:
        """Write the profile, with a target per keyword; the first is the default."""
        profile = {"sqlenrich_integration_tests": {"target": next(iter(outputs)), "outputs": outputs}}
        (self.folder / "profiles.yml").write_text(json.dumps(profile), encoding="utf-8")

    @property
    def prompt(self) -> Path:
        """The prompt file."""
        return self.folder / "prompts" / "tickets.prompt"

    def change_prompt(self, old: str, new: str, **options: Any) -> None:
        """Replace a part of the prompt file and write the project again."""
        text = self.prompt.read_text(encoding="utf-8")
        assert old in text
        self.prompt.write_text(text.replace(old, new), encoding="utf-8")
        se.write_dbt([se.load(self.prompt)], self.folder, **options)

    def add_rows(self, count: int) -> None:
        """Append rows to the seed, each with a text of its own."""
        seed = self.folder / "seeds" / "messages.csv"
        start = len(seed.read_text(encoding="utf-8").splitlines())
        lines = "".join(f"{start + n},more,message number {n} of {start},other,1,,false\n" for n in range(count))
        with seed.open("a", encoding="utf-8") as file:
            file.write(lines)


def copy_consumer(folder: Path, plugins: Mapping[str, Mapping[str, object]] | None) -> DbtProject:
    """Copy the consuming project. Each target has a schema of its name and the plugin with its config.

    None: the project's own profile, with a target per adapter.
    """
    shutil.copytree(CONSUMER, folder, ignore=shutil.ignore_patterns(*MADE_BY_DBT))
    (folder / "packages.yml").write_text(json.dumps({"packages": [{"local": str(PACKAGE)}]}), encoding="utf-8")
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "sqlenrich").symlink_to(PACKAGE)
    if plugins is None:
        return DbtProject(folder)
    outputs = {
        target: {
            "type": "duckdb",
            "path": DATABASE,
            "schema": target,
            "threads": 2,
            "plugins": [{"module": "sqlenrich.dbt_duckdb", "config": dict(config)}],
        }
        for target, config in plugins.items()
    }
    project = DbtProject(folder)
    project.write_profile(**outputs)
    return project


def dbt_command(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the environment of dbt as a process of its own."""
    import sys

    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return [sys.executable, "-m", "dbt.cli.main", *arguments], {**os.environ, "PYTHONPATH": path}


def _name(result: Any) -> str:
    return str(getattr(result.node, "alias", None) or result.node.name) if hasattr(result, "node") else str(result)

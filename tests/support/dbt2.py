"""Builds, compiles and installs the consuming project with dbt 2: ``python -m tests.support.dbt2 DBT FOLDER``.

``DBT`` is the command of dbt 2, ``FOLDER`` holds DuckDB's shared library ``libduckdb.so``. dbt 2 has no Python, so SQL
answers in place of the plugin.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlenrich as se
from sqlenrich.engines import ENGINES
from tests.support.dbt_package import committed, write_package
from tests.support.dbt_projects import CONSUMER, PACKAGE, ROWS, DbtProject, copy_consumer
from tests.support.dbt_sql import BUILD, differences, write_all

MANIFEST = """manifest_version = 1
name = "DuckDB"
version = "1.5.6"
[Driver]
entrypoint = "duckdb_adbc_init"
[Driver.shared]
linux_amd64 = "{library}"
"""
"""What an ADBC driver manager reads where a driver is named ``duckdb``."""


class Dbt2:
    """dbt 2 in a project."""

    def __init__(self, command: str, drivers: Path, project: DbtProject) -> None:
        self.command, self.project = command, project
        settings = {
            "ADBC_DRIVER_PATH": str(drivers),
            "SPARK_METHOD": "thrift",
            "DBT_ALLOW_EXPERIMENTAL_ADAPTERS": "true",
        }
        self.env = {**os.environ, **settings, "SQLENRICH_DUCKDB": "app.duckdb"}

    def __call__(self, *arguments: str, **variables: object) -> tuple[int, str]:
        """Return the exit status and the output of a command."""
        given = json.dumps({"sqlenrich_mock_sql": True, **variables})
        done = subprocess.run(
            [self.command, *arguments, "--vars", given],
            cwd=self.project.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout + done.stderr

    def answers(self) -> int:
        """Return the number of stored answers."""
        return int(self.project.value("SELECT count(*) FROM main.tickets_responses"))


def check_builds(dbt: Dbt2) -> None:
    """Build with the gates and the unit test, within and over the budget, twice."""
    status, output = dbt("build", sqlenrich_max_requests=ROWS - 1)
    assert status != 0, output
    assert "tickets_requests_at_most_sqlenrich_max_requests" in output, output
    assert dbt.answers() == 0
    status, output = dbt("run", sqlenrich_max_requests=ROWS - 1)
    assert status != 0, output
    assert f"would ask {ROWS} requests" in output, output
    assert dbt.answers() == 0
    for command in (["build"], ["build"], ["build", "--full-refresh"], ["show", "--select", "tickets_responses"]):
        status, output = dbt(*command)
        assert status == 0, output
        assert dbt.answers() == ROWS, (command, dbt.answers())
    assert dbt.project.value("SELECT count(*) FROM main.tickets") == ROWS
    assert dbt.project.value("SELECT count(DISTINCT run_id) FROM main.tickets_responses") == 1


def check_deps(dbt: Dbt2) -> None:
    """Install the package from a tag of its own repository, and build with it."""
    repository = dbt.project.folder.parent / "dbt-sqlenrich"
    write_package(repository)
    packages = {"packages": [{"git": repository.as_uri(), "revision": committed(repository)}]}
    (dbt.project.folder / "packages.yml").write_text(json.dumps(packages), encoding="utf-8")
    (dbt.project.folder / "dbt_packages" / "sqlenrich").unlink()
    for command in ("deps", "build"):
        status, output = dbt(command)
        assert status == 0, output
    assert (dbt.project.folder / "dbt_packages" / "sqlenrich" / "LICENSE").is_file()


def check_compiles(dbt: Dbt2) -> None:
    """Compile for each adapter without a connection: the same SQL as ``sqlenrich render``."""
    enrichments = write_all(dbt.project)
    del dbt.env["SQLENRICH_DUCKDB"]  # its name is that of the database in the compiled SQL
    package = dbt.project.folder / "dbt_packages" / "sqlenrich"
    package.unlink()
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns(CONSUMER.name))
    settings = (package / "dbt_project.yml").read_text(encoding="utf-8")
    # dbt 2 refuses every hook without a connection.
    (package / "dbt_project.yml").write_text(re.sub("^on-run-end: .*", "", settings, flags=re.MULTILINE), "utf-8")
    packages = {"packages": [{"local": "dbt_packages/sqlenrich"}]}
    (dbt.project.folder / "packages.yml").write_text(json.dumps(packages), encoding="utf-8")
    for engine in ENGINES:
        target = dbt.project.folder / f"target_{engine}"
        options = ("--no-introspect", "--static-analysis", "off", "--target", engine, "--target-path", str(target))
        status, output = dbt("compile", *options, sqlenrich_mock_sql=False, **BUILD)
        assert status == 0, output
        found = differences(target, engine, enrichments)
        assert found == [], found


def main() -> None:
    """Run the checks."""
    command, library = sys.argv[1], Path(sys.argv[2]).resolve() / "libduckdb.so"
    with TemporaryDirectory() as folder:
        drivers = Path(folder) / "drivers"
        drivers.mkdir()
        (drivers / "duckdb.toml").write_text(MANIFEST.format(library=library), encoding="utf-8")
        dbt = Dbt2(command, drivers, copy_consumer(Path(folder) / "app", None))
        check_builds(dbt)
        check_compiles(dbt)
        check_deps(Dbt2(command, drivers, copy_consumer(Path(folder) / "deps", None)))
    print(f"dbt 2 builds the project, and compiles for {', '.join(ENGINES)}; sqlenrich {se.__version__}")  # noqa: T201


if __name__ == "__main__":
    main()

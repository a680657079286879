"""Writes the tree of the dbt package's own repository: ``python -m tests.support.dbt_package FOLDER``.

dbt's hub takes a package from the root of a repository with a tag for each version; here it lies in a folder. The tree
is the folder's, with a README, the changelog and the licence, and nothing that names another path.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from sqlenrich.core.version import __version__
from tests.support.dbt_projects import CONSUMER, MADE_BY_DBT, PACKAGE, ROOT

README = """# dbt-sqlenrich

The dbt package of [sqlenrich](https://github.com/sqlenrich/sqlenrich): run a language model over every row of a table,
as models of a dbt project. A stored answer is never paid for again, also under `--full-refresh`.

```yaml
# packages.yml
packages:
  - package: sqlenrich/sqlenrich
    version: {version}
```

The models are written by `sqlenrich dbt FILE`, once for each change of a prompt file. dbt builds them without
sqlenrich, in dbt Core from 1.10.8, in dbt Cloud and in dbt 2. The way from an empty project to a tested enrichment:
[docs/dbt.md](https://github.com/sqlenrich/sqlenrich/blob/v{version}/docs/dbt.md).

`integration_tests` is a project that uses the package: `dbt deps && dbt build`, with the mock model on DuckDB
(`pip install "sqlenrich[dbt]"`).

This repository is written by `make dbt-package` from the folder `dbt_project` of sqlenrich. Changes belong there.
"""
IGNORED = "target/\nlogs/\ndbt_packages/\npackage-lock.yml\n.user.yml\n*.duckdb\n"


def write_package(folder: Path) -> None:
    """Write the tree into a folder, which is emptied but for its ``.git``."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name != ".git":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns(*MADE_BY_DBT), dirs_exist_ok=True)
    (folder / "README.md").write_text(README.format(version=__version__), encoding="utf-8")
    (folder / ".gitignore").write_text(IGNORED, encoding="utf-8")
    for name in ("CHANGELOG.md", "LICENSE"):
        shutil.copyfile(ROOT / name, folder / name)
    assert (folder / CONSUMER.name / "packages.yml").is_file()


def committed(folder: Path) -> str:
    """Commit the tree as a repository with the tag of the version; return the tag."""
    author = ("-c", "user.name=sqlenrich", "-c", "user.email=sqlenrich@example.org", "-c", "commit.gpgsign=false")
    for words in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("commit", "--quiet", "-m", __version__),
        ("tag", __version__),
    ):
        subprocess.run(["git", *author, *words], cwd=folder, check=True)
    return __version__


if __name__ == "__main__":
    write_package(Path(sys.argv[1]))
    print(f"{sys.argv[1]}: dbt-sqlenrich {__version__}; commit it to the mirror with the tag {__version__}")  # noqa: T201

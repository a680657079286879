"""Distributions of the tests, installed into a folder: what registers an engine by an entry point."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import sqlenrich

ROOT = Path(sqlenrich.__file__).parents[1]


def install(project: Path, folder: Path) -> None:
    """Write a project's modules, metadata and entry points into a folder, as an installer does."""
    known = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    info = folder / f"{known['name'].replace('-', '_')}-{known['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {known['name']}\nVersion: {known['version']}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in known["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    for module in project.glob("sqlenrich_*"):
        if module.is_dir():
            shutil.copytree(module, folder / module.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(module, folder)


def python(site: Path, arguments: Sequence[str], folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python with the distributions of a folder on its path."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=600)

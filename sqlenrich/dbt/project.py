"""Files of a dbt project: where they belong, what is written, and what differs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sqlenrich.core.errors import ConfigError

PROJECT_FILE = "dbt_project.yml"


@dataclass(frozen=True)
class Project:
    """A dbt project: its folder, and the first of its folders of macros and of models."""

    root: Path
    macros: Path
    models: Path


def find_project(start: Path) -> Project:
    """Return the nearest dbt project at or above a folder. Raises ConfigError where there is none."""
    folder = start.resolve()
    for place in (folder, *folder.parents):
        if (place / PROJECT_FILE).is_file():
            return _project(place)
    raise ConfigError(f"no {PROJECT_FILE} in {start} or above: give --project DIR, the folder of a dbt project")


def _project(root: Path) -> Project:
    try:
        settings: Any = YAML(typ="safe", pure=True).load(root / PROJECT_FILE)
    except (OSError, YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{root / PROJECT_FILE}: {str(error).splitlines()[0]}") from None
    settings = settings if isinstance(settings, dict) else {}
    macros, models = (_first(settings.get(f"{kind}-paths"), f"{kind}s") for kind in ("macro", "model"))
    return Project(root, root / macros, root / models)


def _first(written: Any, default: str) -> str:
    return str(written[0]) if isinstance(written, list) and written else default


@dataclass(frozen=True)
class Written:
    """What ``sqlenrich dbt`` wrote, or would write."""

    project: Path
    """The folder of the dbt project."""
    files: tuple[str, ...]
    """All files of the enrichments, relative to the project."""
    changed: tuple[str, ...]
    """Those that were missing or differed."""
    diff: str
    """What differed, as a unified diff."""
    notes: tuple[str, ...] = ()
    """What the user should know, a line each."""
    left: tuple[str, ...] = ()
    """Files of earlier calls whose prompt file is gone."""


def write_files(project: Project, texts: Mapping[str, str], notes: list[str], *, check: bool) -> Written:
    """Write files that are missing or differ; with ``check`` only compare them."""
    changed: list[str] = []
    diff: list[str] = []
    for place, text in texts.items():
        path = project.root / place
        old = path.read_bytes().decode(errors="replace") if path.is_file() else ""
        if old == text and path.is_file():
            continue
        changed.append(place)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
            continue
        lines = difflib.unified_diff(old.splitlines(), text.splitlines(), place, f"{place} (new)", lineterm="")
        diff += lines
    return Written(project.root, tuple(texts), tuple(changed), "\n".join(diff), tuple(notes))

"""``sqlenrich dbt``: enrichments as macros, models and properties of a dbt project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlenrich.core.errors import ConfigError, SpecError, UnsupportedError, did_you_mean
from sqlenrich.core.version import __version__
from sqlenrich.dbt.macros import enrichment_macros, other_plans, plans
from sqlenrich.dbt.models import Family, model_files
from sqlenrich.dbt.own_properties import merged_properties
from sqlenrich.dbt.project import Project, Written, find_project, write_files
from sqlenrich.dbt.properties import Member, node_properties, result_properties, unit_tests, untyped
from sqlenrich.dbt.yaml import dump
from sqlenrich.engines import ENGINES
from sqlenrich.plan.relations import check_names
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import load
from sqlenrich.spec.settings import find_config

ALL_ENGINES = "all"
FOLDER = "sqlenrich"
"""The folder below macros and models that holds what is generated."""
_VERSION = re.compile(r"(.+)_v([1-9][0-9]*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOURCE = re.compile(r"[^\s.'\"`\\{}%#]+")
_COMMAND = re.compile(
    r"run: sqlenrich dbt \S+(?: --source (?P<source>\S+))?(?: --latest (?P<latest>[0-9]+))?"
    r"(?P<engines>(?: --engine \S+)*)$",
    re.M,
)
_MADE_FROM = re.compile(r"Made by sqlenrich (?:\S+ )?from (?P<file>.+?)(?:, (?:version .*, )?fingerprint [0-9a-f]+)?;")


def write_dbt(
    enrichments: Iterable[Enrichment],
    project: str | Path = ".",
    *,
    source: str | None = None,
    latest: int | None = None,
    engines: Sequence[str] = (),
    check: bool = False,
) -> Written:
    """Write enrichments into the nearest dbt project at or above a folder.

    ``source`` is a model's name, or ``source.table``; None: what the last call said, else the header's. Where
    ``NAME_v2.prompt`` lies beside ``NAME.prompt``, both become versions of one model, and ``latest`` is the version
    that an unpinned ``ref`` gives: by default the highest. ``engines`` are those whose SQL is written; none: what the
    last call said, else all; ``all`` gives all again. With ``check`` nothing is written. Raises
    :class:`~sqlenrich.ConfigError` where there is no project and for an unknown engine,
    :class:`~sqlenrich.SpecError` for an enrichment that dbt can't build.
    """
    found = find_project(Path(project))
    for name in engines:
        if name not in (*ENGINES, ALL_ENGINES):
            raise ConfigError(f'unknown engine "{name}"{did_you_mean(name, ENGINES)}; there are: {", ".join(ENGINES)}')
    texts: dict[str, str] = {}
    notes: list[str] = []
    groups = _groups(enrichments)
    _check_names(found, groups)
    for group in groups:
        texts |= _group_files(found, group, source, latest, engines, notes)
    return replace(write_files(found, texts, notes, check=check), left=_left_files(found, texts))


def _check_names(project: Project, groups: list[Group]) -> None:
    """Refuse enrichments that would make each other's models, also those that the project has. Raises ConfigError."""
    folder = project.models / FOLDER
    names = {one.place: one.name for group in groups for one in group.versions.values()}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and path.name not in names.values():
            names[f"{_place(project, path)} (delete it if it is not used)"] = path.name
    check_names(names)


@dataclass(frozen=True)
class Group:
    """The versions of one enrichment by their numbers; None for one without versions."""

    base: str
    versions: Mapping[int | None, Enrichment]


def _groups(enrichments: Iterable[Enrichment]) -> list[Group]:
    groups: dict[str, Group] = {}
    for enrichment in enrichments:
        if not _NAME.fullmatch(enrichment.name):
            raise SpecError(
                enrichment.place, [f'"{enrichment.name}" can\'t name a dbt macro: use letters, digits and _']
            )
        group = _family_of(enrichment)
        known = groups.setdefault(group.base, group)
        if {one.path for one in known.versions.values()} != {one.path for one in group.versions.values()}:
            raise ConfigError(f'two prompt files give the models of "{group.base}": rename one')
    return list(groups.values())


def _family_of(enrichment: Enrichment) -> Group:
    """Return an enrichment with the versions that lie beside it."""
    path = enrichment.path
    if path is None:
        return Group(enrichment.name, {None: enrichment})
    matched = _VERSION.fullmatch(enrichment.name)
    base = matched[1] if matched and path.with_name(f"{matched[1]}{path.suffix}").is_file() else enrichment.name
    others = {
        int(found[2]): other
        for other in sorted(path.parent.glob(f"{base}_v*{path.suffix}"))
        if (found := _VERSION.fullmatch(other.stem)) is not None and found[1] == base
    }
    if not others:
        return Group(enrichment.name, {None: enrichment})
    if 1 in others:
        raise SpecError(str(others[1]), [f"{base}{path.suffix} beside it is version 1 already: rename one"])
    paths = {1: path.with_name(f"{base}{path.suffix}"), **others}
    versions: dict[int | None, Enrichment] = {
        number: enrichment if place == path else load(place) for number, place in sorted(paths.items())
    }
    return Group(base, versions)


def _group_files(
    project: Project,
    group: Group,
    source: str | None,
    latest: int | None,
    engines: Sequence[str],
    notes: list[str],
) -> dict[str, str]:
    numbers = [number for number in group.versions if number is not None]
    if latest is not None and latest not in numbers:
        known = ", ".join(map(str, numbers)) or f"none; write {group.base}_v2.prompt beside {group.base}.prompt"
        raise ConfigError(f"--latest {latest}: {group.base} has no such version; there are: {known}")
    folder = project.models / FOLDER / group.base
    said = _last_options(folder / f"{group.base}.yml")
    source = source or said["source"]
    latest = latest or (int(said["latest"]) if said["latest"] and int(said["latest"]) in numbers else None)
    chosen = [*engines] or re.findall(r"--engine (\S+)", said["engines"] or "")
    chosen = [name for name in ENGINES if name in chosen and ALL_ENGINES not in chosen]
    options = (f" --source {source}" if source else "") + (f" --latest {latest}" if latest else "")
    options += "".join(f" --engine {name}" for name in chosen)
    members = []
    for number, given in group.versions.items():
        enrichment = given.with_all_kept(None)
        family = Family(group.base, number)
        config = find_config(enrichment.path, project.root)
        compiled = plans(enrichment, config, chosen or ENGINES)
        members.append(Member(enrichment, family, compiled, other_plans(enrichment, config, compiled)))
    texts: dict[str, str] = {}
    for member in members:
        enrichment = member.enrichment
        notes += _notes(member)
        head = _head(project, enrichment, options)
        called = _source_call(enrichment, source)
        macros = project.macros / FOLDER / f"{enrichment.name}.sql"
        texts[_place(project, macros)] = (
            f"{{#- {head} -#}}\n{enrichment_macros(enrichment, member.plans, member.others)}"
        )
        models, brief = project.models / FOLDER / enrichment.name, _head(project, enrichment, options, brief=True)
        for file, text in model_files(enrichment.name, member.family, called).items():
            # A line that sqlfluff does not find too long.
            lines = brief.replace("; change", ";\n    change", 1)
            texts[_place(project, models / file)] = f"{{#- {lines} -#}}\n{text}"
    for member in members:
        name = member.enrichment.name
        properties = node_properties(member)
        if member is members[0]:
            properties = [*result_properties(members, latest or max(numbers, default=None)), *properties]
        found = {"version": 2, "models": properties, "unit_tests": unit_tests(member)}
        found = merged_properties({key: value for key, value in found.items() if value}, member.enrichment.path)
        head = _head(project, member.enrichment, options)
        place = _place(project, project.models / FOLDER / name / f"{name}.yml")
        texts[place] = f"# {head}\n{dump(found)}"
    return texts


def _notes(member: Member) -> list[str]:
    name = member.enrichment.name
    found = [f"{name}: not for {plan}" for plan in member.plans.values() if isinstance(plan, UnsupportedError)]
    if names := untyped(member.enrichment):
        found.append(f"{name}: no contract: write the type of {', '.join(names)} under columns in the prompt file")
    return found


def _last_options(properties: Path) -> dict[str, str | None]:
    """Return the options of the call that wrote the properties."""
    if properties.is_file():
        with properties.open(encoding="utf-8") as lines:
            if found := _COMMAND.search(lines.readline().rstrip("\n")):
                return found.groupdict()
    return {"source": None, "latest": None, "engines": None}


def _left_files(project: Project, written: Mapping[str, str]) -> tuple[str, ...]:
    """Return the generated files whose prompt file is gone. A prompt file outside the project has no known place."""
    left = []
    folders = (project.macros / FOLDER, project.models / FOLDER)
    for path in sorted(path for folder in folders for path in folder.rglob("*.*") if path.is_file()):
        with path.open(encoding="utf-8", errors="replace") as lines:
            made = _MADE_FROM.search(lines.readline())
        place = _place(project, path)
        if made is None or place in written:
            continue
        file = made["file"].replace("#\\}", "#}").replace("\\ ", " ")
        if "/" in file and not (project.root / file).is_file():
            left.append(place)
    return tuple(left)


def _head(project: Project, enrichment: Enrichment, options: str, *, brief: bool = False) -> str:
    """Return the line at the top of a file: what it was made from, and how it is made again.

    ``brief`` leaves out what changes without a change of the SQL: a model's text is part of dbt's ``state:modified``.
    """
    file = f"{enrichment.name}.prompt"
    if enrichment.path is not None and enrichment.path.resolve().is_relative_to(project.root):
        file = Path(os.path.relpath(enrichment.path.resolve(), project.root)).as_posix()
    file = file.replace(" ", "\\ ").replace("#}", "#\\}")
    again = f"change that file, then run: sqlenrich dbt {file}{options}"
    if brief:
        return f"Made by sqlenrich from {file}; {again}"
    version = f"version {enrichment.version}, " if enrichment.version and "#}" not in enrichment.version else ""
    return f"Made by sqlenrich {__version__} from {file}, {version}fingerprint {enrichment.fingerprint}; {again}"


def _source_call(enrichment: Enrichment, given: str | None) -> str:
    """Return the Jinja of the source. Raises SpecError for a source that dbt can't name."""
    if "_row" in (*enrichment.key, *enrichment.keep):
        raise SpecError(enrichment.place, ["_row numbers the rows of a file, a table has none: write key"])
    written = given or enrichment.source
    if written is None:
        what = "is a query" if enrichment.query is not None else "is missing"
        raise SpecError(enrichment.place, [f"the source {what}: make a dbt model of it and give --source MODEL"])
    parts = written.split(".")
    if len(parts) > 2 or not all(_SOURCE.fullmatch(part) for part in parts):
        raise SpecError(
            enrichment.place, [f'"{written}" is no source for dbt: give --source MODEL, or --source SOURCE.TABLE']
        )
    names = ", ".join(f"'{part}'" for part in parts)
    return f"ref({names})" if len(parts) == 1 else f"source({names})"


def _place(project: Project, path: Path) -> str:
    return Path(os.path.relpath(path, project.root)).as_posix()

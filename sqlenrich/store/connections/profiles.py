"""A profile of dbt's ``profiles.yml``: where a warehouse is, and with what credentials. dbt is not needed.

The file is found and rendered as dbt does: https://docs.getdbt.com/docs/core/connect-data-platform/profiles.yml and
https://docs.getdbt.com/reference/dbt-jinja-functions/env_var (read 2026-11-22).
"""

from __future__ import annotations

import os
from ast import literal_eval
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, Undefined
from jinja2.nativetypes import NativeEnvironment, NativeTemplate
from jinja2.sandbox import SandboxedEnvironment
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from sqlenrich.core.errors import ConfigError, did_you_mean

FILE = "profiles.yml"


class Profile(dict[str, Any]):
    """The fields of a profile. Its repr has their names alone, since some are secrets."""

    def __repr__(self) -> str:
        return f"Profile({', '.join(self)})"

    __str__ = __repr__


def read_profile(name: str, *starts: Path | None) -> Mapping[str, Any]:
    """Return the fields of ``PROFILE`` or ``PROFILE:TARGET`` from dbt's profiles.yml; ``type`` says the warehouse.

    Without ``:TARGET`` it is the profile's own ``target``. ``starts`` are folders, by default the working directory:
    the profiles.yml of the first, or that of the dbt project around it, is read before the next one's and the one in
    ``~/.dbt``. DBT_PROFILES_DIR goes before all. Raises ConfigError with one line that holds no value of the file.
    """
    file = _find([start for start in starts if start is not None] or [Path.cwd()])
    profiles = {key: value for key, value in _load(file).items() if key != "config"}
    wanted, _, target = name.partition(":")
    if not isinstance(profile := profiles.get(wanted), dict):
        raise ConfigError(f"{file}: no profile {wanted}{did_you_mean(wanted, profiles)}{_there_are(profiles)}")
    outputs = profile.get("outputs")
    if not isinstance(outputs, dict) or not outputs:
        raise ConfigError(f"{file}: {wanted} has no outputs: write them below outputs:, one for each target")
    target = target or str(_rendered(profile.get("target", "default"), f"{file}: {wanted}.target"))
    if not isinstance(fields := outputs.get(target), dict):
        raise ConfigError(
            f"{file}: {wanted} has no target {target}{did_you_mean(target, outputs)}{_there_are(outputs)}"
        )
    made = _rendered(fields, f"{file}: {wanted}.{target}")
    if not isinstance(made.get("type"), str):
        raise ConfigError(f"{file}: {wanted}.{target} has no type: write databricks, snowflake or bigquery")
    return Profile(made)


def _find(starts: Sequence[Path]) -> Path:
    if given := os.environ.get("DBT_PROFILES_DIR"):
        folders = [Path(given).expanduser()]
    else:
        near = [folder for start in starts for folder in _project(start.absolute())]
        folders = list(dict.fromkeys([*near, Path.home() / ".dbt"]))
    for folder in folders:
        if (folder / FILE).is_file():
            return folder / FILE
    looked = ", ".join(map(str, folders))
    raise ConfigError(f"no {FILE} in {looked}: write one, or set DBT_PROFILES_DIR to its folder")


def _project(start: Path) -> list[Path]:
    """Return ``start``, and the folders above it up to that of a dbt project where it lies in one."""
    folders = [start, *start.parents]
    roots = [place for place, folder in enumerate(folders) if (folder / "dbt_project.yml").is_file()]
    return folders[: roots[0] + 1 if roots else 1]


def _load(file: Path) -> dict[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # as dbt's PyYAML: yes and on are booleans
    try:
        found = yaml.load(file.read_text(encoding="utf-8"))
    except MarkedYAMLError as error:  # its message quotes the line, which may hold a secret
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{file}{place}: this is not valid YAML") from None
    except (YAMLError, UnicodeDecodeError):
        raise ConfigError(f"{file}: this is not valid YAML in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: there is no profile in it: write NAME: with target: and outputs: below")
    return {str(key): value for key, value in found.items()}


def _there_are(names: Iterable[str]) -> str:
    return f"; there are: {', '.join(map(str, names)) or 'none'}"


def _rendered(value: Any, place: str) -> Any:
    if isinstance(value, dict):
        return Profile({str(key): _rendered(item, f"{place}.{key}") for key, item in value.items()})
    if isinstance(value, list):
        return [_rendered(item, place) for item in value]
    if not isinstance(value, str) or not ("{{" in value or "{%" in value or "{#" in value):
        return value
    try:
        made: Any = _ENVIRONMENT.from_string(value).render(env_var=_env_var)
    except _NotConvertedError as error:
        raise ConfigError(f"{place}: the value can't be read as a {error}") from None
    except _MissingVariableError as error:
        raise ConfigError(f"{place}: the environment variable {error} is not set: set it, or give a default") from None
    except Exception:  # Jinja's messages quote the template, which may hold a secret
        made = Undefined()
    if isinstance(made, Undefined):
        raise ConfigError(f"{place}: this template can't be rendered: write {{{{ env_var('NAME', 'default') }}}}")
    return made


class _NotConvertedError(TemplateError):
    """The value of a filter as_number or as_bool is none; the message is the kind."""


class _MissingVariableError(TemplateError):
    """The message is the variable's name."""


def _env_var(name: str, default: object = None) -> object:
    value = os.environ.get(name, default)
    if value is None:
        raise _MissingVariableError(name)
    return value


@dataclass(frozen=True)
class _As:
    """A value and the filter that says what it becomes."""

    kind: str
    value: object

    def __str__(self) -> str:
        return str(self.value)

    def made(self) -> object:
        text = str(self.value)
        if self.kind == "text":
            return text
        if self.kind == "boolean" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            found = literal_eval(text)
        except (ValueError, SyntaxError):
            found = text
        is_boolean = isinstance(found, bool)
        fits = {"native": True, "boolean": is_boolean, "number": isinstance(found, int | float) and not is_boolean}
        if not fits[self.kind]:
            raise _NotConvertedError(self.kind)
        return found


def _concatenated(values: Iterable[Any]) -> Any | None:
    """As dbt: one expression alone keeps its type, texts stay texts unless a filter asks for more."""
    parts = iter(values)
    head = list(islice(parts, 2))
    if len(head) == 1:
        return head[0].made() if isinstance(head[0], _As) else head[0]
    return "".join(str(part) for part in [*head, *parts])


class _Environment(SandboxedEnvironment, NativeEnvironment):
    concat = staticmethod(_concatenated)


class _Template(NativeTemplate):
    environment_class = _Environment


_Environment.template_class = _Template

_ENVIRONMENT = _Environment()
_ENVIRONMENT.filters |= {
    "as_text": lambda value: _As("text", value),
    "as_native": lambda value: _As("native", value),
    "as_bool": lambda value: _As("boolean", value),
    "as_number": lambda value: _As("number", value),
}

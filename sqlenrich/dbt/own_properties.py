"""Properties of the user's own: ``NAME.dbt.yml`` beside the prompt file, merged into what is generated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sqlenrich.core.errors import SpecError, did_you_mean

SUFFIX = ".dbt.yml"
_NAMES = ("name", "v")
"""The keys by which an entry of a list is found again."""


def merged_properties(generated: Mapping[str, Any], prompt: Path | None) -> dict[str, Any]:
    """Return the properties of the models with those of the user's file, where there is one.

    Mappings are merged by key, entries of lists by ``name`` (of versions by ``v``), other entries are appended, and a
    value of the user replaces a generated one. Raises SpecError for a file that is no mapping and for an unknown model.
    """
    path = None if prompt is None else prompt.with_name(prompt.stem + SUFFIX)
    if path is None or not path.is_file():
        return dict(generated)
    try:
        own: Any = YAML(typ="safe", pure=True).load(path)
    except (OSError, YAMLError, UnicodeDecodeError) as error:
        raise SpecError(str(path), [str(error).splitlines()[0]]) from None
    if own is None:
        return dict(generated)
    if not isinstance(own, dict) or not isinstance(models := own.get("models", []), list):
        raise SpecError(str(path), ["write properties as dbt has them, with a list under models"])
    known = [model["name"] for model in generated["models"]]
    problems = [
        f'"{name}" is none of the models of this prompt file{did_you_mean(str(name), known)}; there are: '
        + ", ".join(known)
        for name in (model.get("name") if isinstance(model, dict) else model for model in models)
        if name not in known
    ]
    if problems:
        raise SpecError(str(path), problems)
    return {key: _merged(value, own.pop(key)) if key in own else value for key, value in generated.items()} | own


def _merged(generated: Any, own: Any) -> Any:
    if isinstance(generated, dict) and isinstance(own, dict):
        return {key: _merged(value, own[key]) if key in own else value for key, value in generated.items()} | {
            key: value for key, value in own.items() if key not in generated
        }
    if not isinstance(generated, list) or not isinstance(own, list):
        return own
    merged = [*generated]
    for entry in own:
        places = [place for place, other in enumerate(generated) if _same(other, entry)]
        if places:
            merged[places[0]] = _merged(generated[places[0]], entry)
        else:
            merged.append(entry)
    return merged


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return bool(one == other)
    return any(key in one and one[key] == other.get(key) for key in _NAMES)

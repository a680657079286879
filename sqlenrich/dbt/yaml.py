"""Properties as YAML: block style, each text in double quotes, so that the same values give the same bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may hold as they are and YAML may not."""
_PLAIN = re.compile(r"[A-Za-z_][\w.-]*")


def dump(value: Mapping[str, Any]) -> str:
    """Return the YAML of a mapping of texts, numbers, booleans, None, lists and mappings."""
    return "\n".join(_mapping(value, "")) + "\n"


def _mapping(value: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for key, child in value.items():
        name = key if _PLAIN.fullmatch(key) else _scalar(key)
        lines += _entry(f"{indent}{name}:", child, indent + "  ")
    return lines


def _entry(head: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, Mapping) and value:
        return [head, *_mapping(value, indent)]
    if isinstance(value, list) and value:
        return [head, *(line for item in value for line in _item(item, indent))]
    return [f"{head} {_scalar(value)}"]


def _item(value: Any, indent: str) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{indent}- {_scalar(value)}"]
    first, *others = _mapping(value, indent + "  ")
    return [f"{indent}- {first.lstrip()}", *others]


def _scalar(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)

"""JSON pointers (RFC 6901) as fragments of a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote


def resolve(root: Any, reference: str) -> tuple[Any] | None:
    """Give what a reference such as ``#/$defs/a~1b`` points to, in a tuple; None for nothing in this document."""
    if not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None
    target = root
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and name.isascii() and int(name) < len(target):
            target = target[int(name)]
        else:
            return None
    return (target,)

"""How a new prompt prints a struct or an array: its fields by their names, its elements line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, Array, Struct, Type

MOST_FIELDS = 6
"""The most fields that are printed of a column."""
_PRINTED = (STRING, BIGINT, BOOLEAN, DATE)
"""The types that each engine prints in the same way without a format."""
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def is_printed(kind: Type) -> bool:
    """Tell whether a struct or an array has something to print."""
    if isinstance(kind, Array):
        return kind.item in _PRINTED or (isinstance(kind.item, Struct) and any(_elements("", kind.item)))
    return isinstance(kind, Struct) and any(_fields("", "", kind, ()))


def printed(variable: str, kind: Type, taken: Collection[str]) -> str:
    """Return the template of a struct or an array. What is NULL is left out. ``taken`` are the names of variables."""
    if isinstance(kind, Struct):
        lines = list(_fields(variable, variable, kind, ()))[:MOST_FIELDS]
        return "".join(f"{{% if {test} %}}{label}: {{{{ {place} }}}}\n{{% endif %}}" for label, place, test in lines)
    assert isinstance(kind, Array)
    one = "one"
    while one in taken:
        one += "_"
    test, shown = _present(one, kind.item), f"{{{{ {one} }}}}"
    if isinstance(kind.item, Struct):
        fields = list(_elements(one, kind.item))[:MOST_FIELDS]
        shown = ", ".join(f"{label}: {{{{ {place} }}}}" for label, place in fields)
    each = f"{{% for {one} in {variable} if {test} %}}- {shown}\n{{% endfor %}}"
    return f"{{% if {variable} %}}{variable}:\n{each}{{% endif %}}"


def _fields(label: str, place: str, kind: Struct, guards: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Return the label, the place and the test of each value in a struct; a value in a NULL struct can't be read."""
    for name, inner in kind.fields:
        member = _member(place, name)
        if inner in _PRINTED:
            yield f"{label}.{name}", member, " and ".join((*guards, _present(member, inner)))
        elif isinstance(inner, Struct):
            yield from _fields(f"{label}.{name}", member, inner, (*guards, member))


def _elements(place: str, kind: Struct) -> Iterator[tuple[str, str]]:
    """Return the label and the place of each value in an element."""
    return ((name, _member(place, name)) for name, inner in kind.fields if inner in _PRINTED)


def _present(place: str, kind: Type) -> str:
    return place if kind == STRING or isinstance(kind, Struct) else f"{place} is not none"


def _member(place: str, name: str) -> str:
    """Return a field: in brackets where its name is none in Jinja, or that of a method."""
    plain = _ATTRIBUTE.fullmatch(name) and name not in dir(dict)
    return f"{place}.{name}" if plain else f"{place}[{json.dumps(name, ensure_ascii=False)}]"

"""The timestamps of a source's column as local times of one zone, also inside arrays and structs."""

from __future__ import annotations

from itertools import count

from sqlenrich.core.sql import Sql, case, given, literal
from sqlenrich.core.text_functions import TextFunctions
from sqlenrich.core.types import INSTANT, TIMESTAMP, Array, Struct, Type


def local_times(text: TextFunctions, value: Sql, kind: Type, zone: str, *, known: bool) -> Sql:
    """Return a value of a source's type with its instants as local times.

    ``known``: the type is the source's own. Otherwise a ``timestamp`` may be an instant or a local time.
    """
    return _LocalTimes(text, literal(zone), known).value(value, kind)


class _LocalTimes:
    def __init__(self, text: TextFunctions, zone: Sql, known: bool) -> None:
        self.text, self.zone, self.known = text, zone, known
        self.variables = count(1)

    def changes(self, kind: Type) -> bool:
        match kind:
            case Array(item):
                return self.changes(item)
            case Struct(fields):
                return any(self.changes(field) for _, field in fields)
        return kind == INSTANT or (kind == TIMESTAMP and not self.known)

    def value(self, value: Sql, kind: Type) -> Sql:
        if not self.changes(kind):
            return value
        match kind:
            case Array(item):
                variable = f"_time{next(self.variables)}"
                return self.text.map(value, variable, None, lambda x, _: self.value(x, item), self.read(item))
            case Struct(fields):
                parts = {
                    name: self.value(self.text.field(value.copy(), name, self.read(field)), field)
                    for name, field in fields
                }
                return case((given(value), self.text.struct(parts)))
        return (self.text.at_zone if self.known else self.text.local_time)(value, self.zone.copy())

    def read(self, kind: Type) -> Type:
        """Return the type as which an element or a field is read, before its instants are changed."""
        return INSTANT if kind == TIMESTAMP and not self.known else kind

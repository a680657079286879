"""Finds equal values without comparing each with each: by a hash of what Python compares as SQL does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlglot import exp

from tests.standins.snowflake.nodes import same
from tests.standins.snowflake.scope import Row, Scope
from tests.standins.snowflake.values import SnowflakeError, SqlType

HASHED = ("VARCHAR", "NUMBER", "BOOLEAN")
"""Types whose equal values have equal hashes."""


class Groups:
    """Rows by values: each row joins those whose values are the same."""

    def __init__(self, types: Sequence[SqlType]) -> None:
        self._types = types
        self._hashed = [place for place, kind in enumerate(types) if kind.name in HASHED]
        self._buckets: dict[tuple[Any, ...], list[tuple[Sequence[Any], list[Row]]]] = {}
        self.all: list[list[Row]] = []

    def add(self, values: Sequence[Any], row: Row) -> None:
        """Add a row."""
        bucket = self._buckets.setdefault(tuple(values[place] for place in self._hashed), [])
        for known, members in bucket:
            if all(same(a, b, kind) for a, b, kind in zip(known, values, self._types, strict=True)):
                members.append(row)
                return
        members = [row]
        bucket.append((values, members))
        self.all.append(members)


def key_of(condition: exp.Expr, inner: Scope, names: Iterable[str], outer: Scope) -> tuple[str, str] | None:
    """The places of two texts that a condition wants equal: one of ``names`` in ``inner``, and one in ``outer``."""
    own_names = frozenset(names)
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column):
            for own, other in ((part.this, part.expression), (part.expression, part.this)):
                try:
                    (place, kind), (elsewhere, wanted) = inner.find(own), outer.find(other)
                    seen, _ = inner.find(other)
                except SnowflakeError:
                    continue
                within = place.partition(".")[0] in own_names and elsewhere.partition(".")[0] not in own_names
                if within and seen == elsewhere and kind.name == wanted.name == "VARCHAR":
                    return place, elsewhere
    return None


def indexed(rows: Iterable[Row], place: str) -> Callable[[Any], Sequence[Row]]:
    """Return what finds the rows with a text at a place; none for NULL."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[place], []).append(row)
    found.pop(None, None)
    nothing: Sequence[Row] = ()
    return lambda value: found.get(value, nothing)

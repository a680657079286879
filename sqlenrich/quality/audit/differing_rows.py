"""The rows in which a stored table differs from what it should hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlenrich.store.duckdb.database import quote
from sqlenrich.store.duckdb.tables import StoredOutput

MOST_READ = 500
"""The rows of each side that are read; all are counted."""
PARTS = 4096
"""The parts of the rows whose digests are compared. EXCEPT ALL reads only those that differ: it needs their memory."""


class Pair(NamedTuple):
    """A row as it is there and as it should be; None for a row that only the other side has."""

    key: Sequence[Any]
    there: Mapping[str, Any] | None
    wanted: Mapping[str, Any] | None


@dataclass(frozen=True)
class DifferingRows:
    """The pairs that were read, and the number of all rows that differ."""

    columns: Sequence[str]
    rows: Sequence[Pair]
    count: int


def column_types(stored: StoredOutput, relation: str) -> dict[str, str]:
    """Return the columns of a query in parentheses, and their types."""
    return {str(row[0]): str(row[1]) for row in stored.fetch(f"DESCRIBE SELECT * FROM {relation}")}


def differing_rows(
    stored: StoredOutput, role: str, columns: Sequence[str], hashed: str, wanted: str, where: str
) -> DifferingRows:
    """Compare the rows of a table that meet ``where`` with those of a query, over the columns that both have alike.

    Rows are paired by key and request, then by key alone. ``hashed`` is the column of the request.
    """
    table = stored.tables[role]
    there, made = stored.described(table) or {}, column_types(stored, wanted)
    shared = [name for name in columns if name in there and there[name] == made.get(name)]
    key = [name for name in stored.request.contract.key if name in shared]
    listed = ", ".join(map(quote, shared))
    order = ", ".join(map(quote, [*key, *(name for name in shared if name not in key)]))
    part = f"hash({', '.join(map(quote, key))}) % {PARTS}" if key else "0"
    found, made_of = (_digests(stored, f"{one} WHERE {where}", part, listed) for one in (table, wanted))
    parts = sorted({number for number, *_ in found ^ made_of})
    if not parts:
        return DifferingRows(shared, (), 0)
    test = f"({where}) AND {part} IN ({', '.join(map(str, parts))})"
    now, then = (f"SELECT {listed} FROM {one} WHERE {test}" for one in (table, wanted))
    sides, counts = [], []
    for a, b in ((now, then), (then, now)):
        only = f"({a} EXCEPT ALL {b})"
        rows = stored.fetch(f"SELECT * FROM {only} ORDER BY {order} LIMIT {MOST_READ}")
        sides.append([dict(zip(shared, row, strict=True)) for row in rows])
        counts.append(len(rows) if len(rows) < MOST_READ else int(stored.one(f"SELECT count(*) FROM {only}")))
    extra, missing = sides
    pairs = _paired(extra, missing, (*key, *([hashed] if hashed in shared else [])), key)
    return DifferingRows(shared, [Pair([one[name] for name in key], a, b) for a, b in pairs for one in (a or b or {},)],
                         max(counts))  # fmt: skip


def _digests(stored: StoredOutput, rows: str, part: str, listed: str) -> set[tuple[int, ...]]:
    """Return the number of each part of the rows with what it has alike where its rows are equal, in any order.

    Other rows have the same two sums of 64-bit hashes by a chance of about 2^-64.
    """
    sums = f"count(*), sum(hash({listed})), sum(hash('', {listed}))"
    return {tuple(map(int, row)) for row in stored.fetch(f"SELECT {part} AS part, {sums} FROM {rows} GROUP BY part")}


def _paired(
    extra: list[dict[str, Any]], missing: list[dict[str, Any]], *keys: Sequence[str]
) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Pair two lists of rows by the first key, what is left by the next one; rows without a pair come last."""
    pairs: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = []
    for key in keys:
        rest = []
        for row in extra:
            other = next((one for one in missing if all(one[name] == row[name] for name in key)), None)
            if other is None or not key:
                rest.append(row)
                continue
            missing.remove(other)
            pairs.append((row, other))
        extra = rest
    return [*pairs, *((row, None) for row in extra), *((None, row) for row in missing)]

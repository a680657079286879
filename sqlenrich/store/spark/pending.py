"""The pending requests in ranges of their hashes: a statement reads the files of its own ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlenrich.core.sql import func, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANGE = "hash_range"
"""The column by which the table is partitioned: the first digits of the hash behind a letter, else it was a number."""
MOST_DIGITS = 3


@dataclass(frozen=True)
class PendingRange:
    """Requests whose hashes begin alike. ``name`` None: the table has no ranges. ``after``: those behind a hash."""

    name: str | None
    rows: int
    after: str = ""


@dataclass(frozen=True)
class PendingPart:
    """What one statement asks: whole ranges, or of one range the requests up to a hash."""

    ranges: Sequence[PendingRange]
    upto: str | None = None

    @property
    def rows(self) -> int:
        """The requests of the ranges."""
        return sum(one.rows for one in self.ranges)

    def of(self, pending: DataFrame) -> DataFrame:
        """Return these requests of all that are pending."""
        first, last = self.ranges[0], self.ranges[-1]
        found = pending
        if first.name is not None and last.name is not None:
            found = found.where(found[RANGE].between(first.name, last.name)).drop(RANGE)
        if first.after:
            found = found.where(found["request_hash"] > first.after)
        if self.upto is not None:
            found = found.where(found["request_hash"] <= self.upto)
        return found

    def bound(self, pending: DataFrame, rows: int) -> str | None:
        """Return the last hash of the first requests, None where there are none."""
        from pyspark.sql import functions

        hashes = self.of(pending).select("request_hash").orderBy("request_hash").limit(rows)
        last = hashes.agg(functions.max("request_hash")).collect()[0][0]
        return None if last is None else str(last)


def digits_of(rows: int, range_rows: int) -> int:
    """Return the digits of the hash that part so many requests; 0: they are too few."""
    digits = 0
    while digits < MOST_DIGITS and rows > range_rows * 16**digits:
        digits += 1
    return digits


def in_ranges(pending: exp.Query, digits: int) -> exp.Query:
    """Return the pending requests with their range, those of a range together."""
    start = func("SUBSTRING", exp.column("request_hash"), literal(1), literal(digits))
    named = exp.alias_(func("CONCAT", literal("r"), start), RANGE)
    found = exp.select("*", named).from_(pending.subquery("pending"))
    found.set("distribute", exp.Distribute(expressions=[exp.column(RANGE)]))
    return found


def ranges_of(pending: DataFrame, rows: int) -> list[PendingRange]:
    """Return the ranges of a table in their order; no request is read for it."""
    if RANGE not in pending.columns:
        return [PendingRange(None, rows)]
    counted = pending.groupBy(RANGE).count().orderBy(RANGE).collect()
    return [PendingRange(name, count) for name, count in counted]


def next_part(left: Sequence[PendingRange], rows: int) -> PendingPart:
    """Return the next ranges, as many as hold so many requests, at least one."""
    taken = 1
    while taken < len(left) and sum(one.rows for one in left[: taken + 1]) <= rows:
        taken += 1
    return PendingPart(left[:taken])


def without(left: Sequence[PendingRange], part: PendingPart, rows: int) -> list[PendingRange]:
    """Return what is left after a part of so many requests."""
    if part.upto is None:
        return list(left[len(part.ranges) :])
    return [replace(left[0], rows=max(left[0].rows - rows, 1), after=part.upto), *left[1:]]

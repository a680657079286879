"""The result of a comparison: two sides over the same rows, as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from sqlenrich.core.exit_status import EXIT_DONE, EXIT_STOPPED
from sqlenrich.core.result import Result
from sqlenrich.core.text_table import cut, flat, from_difference, padded, shown, table, width_of
from sqlenrich.quality.statistics import p_value_text, sign_test, wilson_interval

NOT_ASKED, NO_INPUT = "NOT_ASKED", "NO_INPUT"
MAX_INPUT_COLUMNS = 6
"""The most input columns that are shown of a row."""
MAX_NAME_WIDTH = 24
"""The most terminal columns that a name takes."""


@dataclass(frozen=True)
class RowResult:
    """The result of one side for one row: its values, or the code and the detail of the refusal."""

    request_hash: str | None
    values: Mapping[str, Any]
    error: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Side:
    """One side of a comparison: ``refused`` maps codes to rows.

    ``tokens_in`` and ``tokens_out`` are averages per request, all its attempts together. ``cost`` is for 1,000
    requests. ``latency_ms`` is the median of the answers. An unknown value is None.
    """

    file: str
    model: str
    accepted: int
    refused: Mapping[str, int]
    requests: int
    calls: int
    stored: int
    """The number of requests that were answered before the comparison."""
    retried: int
    """The number of requests that a retry sent with feedback, to another model or with a larger limit."""
    tokens_in: float | None
    tokens_out: float | None
    cost: float | None
    latency_ms: float | None


@dataclass(frozen=True)
class Agreement:
    """The number of equal values of a field among the ``rows`` that both sides accepted."""

    field: str
    rows: int
    equal: int


@dataclass(frozen=True)
class Accuracy:
    """The rows that both sides, one side or neither side has right against a label. A refused row is wrong."""

    field: str
    label: str
    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def rows(self) -> int:
        """The labelled rows."""
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def a(self) -> int:
        """The rows that A has right."""
        return self.both + self.only_a

    @property
    def b(self) -> int:
        """The rows that B has right."""
        return self.both + self.only_b

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the exact sign test (McNemar's) on the rows that only one side has right."""
        return sign_test(self.only_a, self.only_b)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name."""
        rows = self.rows
        shares = {
            side: {"right": right, "share": right / rows if rows else None, "interval": wilson_interval(right, rows)}
            for side, right in (("a", self.a), ("b", self.b))
        }
        return {**asdict(self), "rows": rows, **shares, "p": self.p_value if rows else None}


@dataclass(frozen=True)
class Change:
    """A row on which the sides differ: ``fields`` have other values, ``right`` tells whether A and B gave the label."""

    row: int
    key: Mapping[str, str | None]
    input: Mapping[str, str | None]
    a: RowResult
    b: RowResult
    fields: tuple[str, ...]
    labels: Mapping[str, str]
    right: Mapping[str, tuple[bool, bool]]

    @property
    def verdict(self) -> str:
        """The side that alone has a labelled field right, in words; empty for none."""
        only = {"A": (True, False), "B": (False, True)}
        sides = [side for side, pair in only.items() if pair in self.right.values()]
        return f"only {sides[0]} is right" if len(sides) == 1 else "each is right on another field" if sides else ""

    @property
    def rank(self) -> tuple[int, int]:
        """The order of changes: rows that only A has right, rows that only B has right, all others."""
        pairs = tuple(self.right.values())
        return (0 if (True, False) in pairs else 1 if (False, True) in pairs else 2, self.row)


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Two sides over the same rows. ``changes`` are all rows on which they differ, the worst for B first."""

    a: Side
    b: Side
    input: str
    rows: int
    rows_in: int
    sample: str
    """The sampling method in words."""
    same_requests: int
    """Rows for which both sides send the same request: they share one answer."""
    agreement: tuple[Agreement, ...]
    equal_rows: int
    """Rows accepted by both whose compared fields are all equal."""
    accuracy: tuple[Accuracy, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()
    stopped: bool = False
    output: str = ""
    currency: str = ""

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 done, 4 stopped before the end."""
        return EXIT_STOPPED if self.stopped else EXIT_DONE

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, as the JSON has them."""
        return {
            **asdict(self),
            "accuracy": [one.to_dict() for one in self.accuracy],
            "changes": [{**asdict(change), "verdict": change.verdict or None} for change in self.changes],
        }

    def to_text(self, width: int = 100, show: int = 10) -> str:
        """Return the comparison for a terminal of ``width`` columns, with the first ``show`` rows that differ."""
        blocks = [
            list(self._head()),
            list(self._agreement(width)),
            list(self._accuracy(width)),
            list(self._sides()),
            list(self.notes),
            *self._changes(width, show),
        ]
        return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block)

    def _head(self) -> Iterator[str]:
        sides = (self.a, self.b)
        files = max(width_of(side.file) for side in sides)
        for letter, side in zip("AB", sides, strict=True):
            yield f"{letter}  {padded(side.file, files)}  {side.model}"
        same = f"; {self.same_requests:,} of them ask the same on both sides" if self.same_requests else ""
        yield f"{self.rows:,} of {self.rows_in:,} rows of {self.input}: {self.sample}{same}"

    def _agreement(self, width: int) -> Iterator[str]:
        if not self.agreement:
            return
        if not self.agreement[0].rows:
            yield "no row is accepted on both sides: nothing to compare yet"
            return
        lines = [("field", "equal", "both accepted", "share")]
        lines += [
            (one.field, f"{one.equal:,}", f"{one.rows:,}", percent(one.equal, one.rows)) for one in self.agreement
        ]
        if len(self.agreement) > 1:
            rows = self.agreement[0].rows
            lines.append(("all of them", f"{self.equal_rows:,}", f"{rows:,}", percent(self.equal_rows, rows)))
        yield from table(lines, width)

    def _accuracy(self, width: int) -> Iterator[str]:
        if not self.accuracy:
            return
        lines: list[tuple[str, ...]] = [
            ("field = label", "rows", "A is right", "B is right", "both", "only A", "only B", "none", "p")
        ]
        for one in self.accuracy:
            counts = (f"{count:,}" for count in (one.both, one.only_a, one.only_b, one.neither))
            shares = (percent_with_interval(right, one.rows) for right in (one.a, one.b))
            lines.append((f"{one.field} = {one.label}", f"{one.rows:,}", *shares, *counts, accuracy_p_text(one)))
        if max(map(width_of, whole := list(table(lines, 10_000)))) <= width:
            yield from whole
        else:  # each name on a line of its own
            numbers = table([("", *rest) for _, *rest in lines], width)
            for (name, *_), line in zip(lines, numbers, strict=True):
                yield cut(name, width)
                yield line
        yield "A refused row is wrong. In brackets: 95 % confidence intervals (Wilson)."
        yield "p: two-sided exact sign test on the rows that only one side has right."

    def _sides(self) -> Iterator[str]:
        a, b = self.a, self.b
        lines: list[tuple[str, ...]] = [("", "A", "B"), ("accepted", f"{a.accepted:,}", f"{b.accepted:,}")]
        codes = [code for code in dict.fromkeys((*a.refused, *b.refused)) if code != NOT_ASKED]
        unasked = [side.refused.get(NOT_ASKED, 0) for side in (a, b)]
        if codes:
            refused = (sum(side.refused.values()) - left for side, left in zip((a, b), unasked, strict=True))
            lines.append(("refused", *(f"{count:,}" for count in refused)))
        lines += [(f"  {code}", *(f"{side.refused.get(code, 0):,}" for side in (a, b))) for code in codes]
        if any(unasked):
            lines.append(("not asked yet", *(f"{count:,}" for count in unasked)))
        facts: Iterable[tuple[str, float | None, float | None, str]] = (
            ("tokens in, a request", a.tokens_in, b.tokens_in, ",.1f"),
            ("tokens out, a request", a.tokens_out, b.tokens_out, ",.1f"),
            (f"cost of 1,000 requests, {self.currency}", a.cost, b.cost, ",.4f"),
            ("latency p50, ms", a.latency_ms, b.latency_ms, ",.0f"),
        )
        for name, *pair, form in facts:
            if any(value is not None for value in pair):
                lines.append((name, *("unknown" if value is None else format(value, str(form)) for value in pair)))
        lines.append(("requests sent now", f"{a.calls:,}", f"{b.calls:,}"))
        lines.append(("answered before", f"{a.stored:,}", f"{b.stored:,}"))
        yield from table(lines, 100)

    def _changes(self, width: int, show: int) -> Iterator[list[str]]:
        if not self.changes:
            if any(one.rows for one in self.agreement):
                yield ["no row differs"]
            return
        count = len(self.changes)
        differ = f"{count:,} row{' differs' if count == 1 else 's differ'}"
        hidden = f"; the first{f' {show:,}' if show > 1 else ''}" if 0 < show < count else ""
        yield [f"{differ}{hidden}{':' if show else ''}"]
        for change in self.changes[:show]:
            yield list(_change(change, width))


def _change(change: Change, width: int) -> Iterator[str]:
    place = ", ".join(f"{name} {shown(value, 40)}" for name, value in change.key.items())
    title = f"{place} (row {change.row:,})" if place else f"row {change.row:,}"
    yield f"{title}  {change.verdict}"
    given = {name: value for name, value in change.input.items() if value is not None}
    refused = {letter: side for letter, side in (("A", change.a), ("B", change.b)) if side.error is not None}
    names = (*list(given)[:MAX_INPUT_COLUMNS], *change.fields)
    pad = min(MAX_NAME_WIDTH, max((width_of(name) for name in names), default=0))
    room = width - pad - 4
    for name, value in list(given.items())[:MAX_INPUT_COLUMNS]:
        yield f"  {padded(name, pad)}  {shown(value, room)}"
    if len(given) > MAX_INPUT_COLUMNS:
        yield f"  {' ' * pad}  ... and {len(given) - MAX_INPUT_COLUMNS} more columns"
    if refused:
        for letter, side in (("A", change.a), ("B", change.b)):
            line = f"{side.error} {side.detail or ''}" if side.error is not None else printed_row(side.values)
            yield f"  {letter}  {shown(line, width - 5)}"
        for field, label in change.labels.items():
            yield f"  label of {field}: {shown(label, width - 12 - width_of(field))}"
        return
    for name in change.fields:
        a, b = (printed(side.values.get(name)) for side in (change.a, change.b))
        label = f"   label: {flat(change.labels[name])}" if name in change.labels else ""
        line = f"{flat(a)} → {flat(b)}{label}"
        if flat(a) == flat(b):
            a, b = json.dumps(a, ensure_ascii=False), json.dumps(b, ensure_ascii=False)
            line = f"{a} → {b}{label}"
        if width_of(line) <= room:
            yield f"  {padded(name, pad)}  {line}"
            continue
        a, b = from_difference(flat(a), flat(b), room - 3)
        yield f"  {padded(name, pad)}  A  {a}"
        yield f"  {' ' * pad}  B  {b}"
        if label:
            yield f"  {' ' * pad}  label: {shown(change.labels[name], room - 7)}"


# Values --------------------------------------------------------------------------------------------------------------


def printed(value: object) -> str:
    """Return a text unchanged, any other value as JSON."""
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, str | Decimal) else json.dumps(value, ensure_ascii=False, default=float)


def printed_row(values: Mapping[str, object]) -> str:
    """Return all values of a row in one line."""
    return ", ".join(f"{name} {printed(value)}" for name, value in values.items())


# Figures -------------------------------------------------------------------------------------------------------------


def percent(part: int, whole: int) -> str:
    """Return a share in per cent."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def percent_with_interval(right: int, rows: int) -> str:
    """Return a share and its 95 % confidence interval in per cent."""
    bounds = wilson_interval(right, rows)
    return "-" if bounds is None else f"{100 * right / rows:.1f} % ({100 * bounds[0]:.0f}–{100 * bounds[1]:.0f})"


def accuracy_p_text(accuracy: Accuracy) -> str:
    """Return the p-value with two or three digits; a dash where no row has one side right."""
    if accuracy.only_a == accuracy.only_b == 0:
        return "-"
    return p_value_text(accuracy.p_value)

"""What a probe found: each fact beside what the warehouse gave, as a table and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlenrich.core.engine import VendorFact
from sqlenrich.core.exit_status import EXIT_DONE, EXIT_OVER_LIMIT
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result

SHOWN = 200
"""The most characters that are told of a value or of a vendor's error."""


class FactCheck(StrEnum):
    """What a probe shows of a fact."""

    SAME = "as expected"
    NOT_PROBED = "not probed"
    """No statement shows it."""
    NOT_SEEN = "not seen"
    """The answers could not show it."""
    DIFFERENT = "DIFFERENT"


@dataclass(frozen=True)
class Finding:
    """A fact, what is expected of it and what the warehouse gave."""

    fact: str
    expected: str
    found: str
    result: FactCheck
    source: str
    read_on: str


@dataclass(frozen=True, repr=False)
class ProbeReport(Result):
    """What a probe found. ``calls`` are the requests that the model was asked."""

    engine: str
    place: str
    model: str
    calls: int
    findings: tuple[Finding, ...]

    @property
    def differences(self) -> tuple[Finding, ...]:
        """The findings that differ from what is expected."""
        return tuple(each for each in self.findings if each.result is FactCheck.DIFFERENT)

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0, or 3 for a difference."""
        return EXIT_OVER_LIMIT if self.differences else EXIT_DONE

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, and how many differ."""
        return {**asdict(self), "differences": len(self.differences)}

    def to_text(self, width: int = 120) -> str:
        """Return the findings as a table of this width."""
        head = ("fact", "expected", "found", "source, date")
        ordered = sorted(self.findings, key=lambda each: list(FactCheck).index(each.result))
        rows = [(_named(each), each.expected, each.found, _origin(each)) for each in ordered]
        lines = list(_table([head, *rows], width))
        count = {result: sum(each.result is result for each in self.findings) for result in FactCheck}
        told = ", ".join(f"{number} {result.value}" for result, number in count.items() if number)
        return "\n".join([*lines, f"{self.place}: {counted(len(self.findings), 'fact')}: {told}"])


def _named(finding: Finding) -> str:
    mark = "" if finding.result is FactCheck.SAME else f" ({finding.result.value})"
    return finding.fact.replace("_", " ") + mark


def _origin(finding: Finding) -> str:
    return ", ".join(part for part in (finding.source, finding.read_on) if part)


def _table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Return rows as lines, cells wrapped so that the table fits."""
    widest = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    spare = max(width - 2 * (len(widest) - 1), 15 * len(widest))
    widths, left = [0] * len(widest), list(range(len(widest)))
    while left:  # narrow columns as they are, the others share what is left
        share = spare // len(left)
        fitting = [n for n in left if widest[n] <= share] or left
        for n in fitting:
            widths[n] = min(widest[n], share)
            spare -= widths[n]
        left = [n for n in left if n not in fitting]
    for row in rows:
        sized = zip(row, widths, strict=True)
        cells = [textwrap.wrap(cell, size, break_on_hyphens=False) or [""] for cell, size in sized]
        for n in range(max(map(len, cells))):
            parts = (cell[n] if n < len(cell) else "" for cell in cells)
            yield "  ".join(part.ljust(size) for part, size in zip(parts, widths, strict=True)).rstrip()


def shortened(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=sorted)
    return textwrap.shorten(text, SHOWN, placeholder=" …") or repr(value)


def different(fact: str, expected: str, found: str, origin: VendorFact) -> Finding:
    return Finding(fact, expected, line_of(found), FactCheck.DIFFERENT, origin.source, origin.read_on)


def line_of(text: str) -> str:
    return textwrap.shorten(text, SHOWN, placeholder=" …")


def compared(fact: str, expected: str, found: str, origin: VendorFact) -> Finding:
    result = FactCheck.SAME if found == expected else FactCheck.DIFFERENT
    return Finding(fact, expected, found, result, origin.source, origin.read_on)

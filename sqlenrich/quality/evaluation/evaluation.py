"""The result of an evaluation: how right a prompt and a model are against labels, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlenrich.core.exit_status import EXIT_DONE, EXIT_OVER_LIMIT, EXIT_STOPPED
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.core.text_table import padded, table, width_of
from sqlenrich.quality.comparison.comparison import (
    NOT_ASKED,
    Side,
    percent,
    percent_with_interval,
)
from sqlenrich.quality.statistics import p_value_text, rows_to_tell, sign_test, wilson_interval
from sqlenrich.spec.quality import Requirement

MATRIX_VALUES = 20
"""The most values that a confusion matrix and the text show; the others are one."""
REFUSED, OTHERS, NULL = "(refused)", "(others)", "(NULL)"
"""A refused row, all other values, and NULL where a value is named."""
MEASURED = {"right": "right", "precision": "precision", "recall": "recall", "f1": "F1"}


@dataclass(frozen=True)
class ValueScore:
    """How a field does on one of its values: ``right`` rows have it as label and as answer."""

    value: str
    labelled: int
    answered: int
    right: int

    @property
    def precision(self) -> float | None:
        """The share of the answers with this value that are right; None without any."""
        return self.right / self.answered if self.answered else None

    @property
    def recall(self) -> float | None:
        """The share of the rows labelled with this value that are answered so; None without any."""
        return self.right / self.labelled if self.labelled else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; None where the value is neither label nor answer."""
        rows = self.labelled + self.answered
        return 2 * self.right / rows if rows else None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name."""
        return {
            **asdict(self),
            "precision": self.precision,
            "precision_interval": wilson_interval(self.right, self.answered),
            "recall": self.recall,
            "recall_interval": wilson_interval(self.right, self.labelled),
            "f1": self.f1,
        }


@dataclass(frozen=True)
class Items:
    """The items of an array over all rows: those of the label that the answer has, has not, and has beside them."""

    found: int
    missed: int
    invented: int


@dataclass(frozen=True)
class Change:
    """The rows of the last evaluation that are in this one too: right only then, or only now."""

    rows: int
    only_then: int
    only_now: int

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the exact sign test (McNemar's) on the rows that are right only then or now."""
        return sign_test(self.only_then, self.only_now)


@dataclass(frozen=True)
class FieldScore:
    """One field against its column of labels. A refused row is wrong."""

    field: str
    label: str
    """The column of labels."""
    rows: int
    right: int
    refused: int
    values: tuple[ValueScore, ...] = ()
    """Of an enum, a boolean or an integer of few values; of more than 20 values the most frequent first."""
    matrix: Mapping[str, Mapping[str, int]] | None = None
    """Label to answer to rows."""
    mean_absolute_error: float | None = None
    """Of a number, over the rows in which label and answer are numbers."""
    measured: int = 0
    """The rows of the mean absolute error."""
    items: Items | None = None
    change: Change | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the share that is right."""
        return wilson_interval(self.right, self.rows)

    def value(self, name: str) -> ValueScore:
        """Return the score of a value; one of no row where neither label nor answer has it."""
        return next((one for one in self.values if one.value == name), ValueScore(name, 0, 0, 0))

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name."""
        return {
            **asdict(self),
            "share": self.right / self.rows if self.rows else None,
            "interval": self.interval,
            "values": [one.to_dict() for one in self.values],
            "change": None if self.change is None else {**asdict(self.change), "p": self.change.p_value},
        }


@dataclass(frozen=True)
class RequirementResult:
    """Whether a requirement is met: by the share of the rows, and by its 95 % interval."""

    requirement: Requirement
    rows: int
    """The rows that measure it."""
    share: float | None
    """None where no row measures it: then it is not met."""
    interval: tuple[float, float] | None
    """None of an F1, which is no share of rows."""

    @property
    def met(self) -> bool:
        """Whether the share reaches the requirement."""
        return self.share is not None and self.share >= self.requirement.least

    @property
    def certain(self) -> bool | None:
        """Whether the rows suffice to tell: the interval does not hold the requirement. None without an interval."""
        if self.interval is None:
            return None
        low, high = self.interval
        return low >= self.requirement.least if self.met else high < self.requirement.least

    @property
    def rows_to_tell(self) -> int | None:
        """About the number of rows that would suffice at the same share; None where none would, or these do."""
        if self.share is None or self.certain is not False:
            return None
        return rows_to_tell(self.share, self.requirement.least)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name."""
        return {
            **asdict(self.requirement),
            "rows": self.rows,
            "share": self.share,
            "interval": self.interval,
            "met": self.met,
            "certain": self.certain,
            "rows_to_tell": self.rows_to_tell,
        }

    def to_text(self) -> str:
        """Return the result in words."""
        one = self.requirement
        what = f"{one.field}: {MEASURED[one.measure]}{'' if one.value is None else f' of {one.value}'} at least"
        if self.share is None:
            rows = "answered" if one.measure == "precision" else "labelled"
            return f"FAILED  {what} {one.least:g}: no row is {rows} so, it can't be measured"
        bounds = "" if self.interval is None else f" ({self.interval[0]:.3f} to {self.interval[1]:.3f})"
        found = f"{'met   ' if self.met else 'FAILED'}  {what} {one.least:g}: {self.share:.3f}{bounds}"
        if self.certain is not False:
            return found
        more = self.rows_to_tell
        enough = "" if more is None else f", about {more:,} would"
        return f"{found}; {counted(self.rows, 'row does', 'rows do')} not suffice to tell{enough}"


@dataclass(frozen=True)
class Then:
    """The last evaluation of the same rows."""

    evaluation: str
    model: str
    fingerprint: str


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """How right the answers to the labelled rows are. ``evaluation`` names its lines of NAME_evaluations."""

    evaluation: str
    side: Side
    truth: str
    rows: int
    """The labelled rows, less those not asked yet and those without an input."""
    fields: tuple[FieldScore, ...]
    requirements: tuple[RequirementResult, ...] = ()
    then: Then | None = None
    notes: tuple[str, ...] = ()
    stopped: bool = False
    output: str = ""
    currency: str = ""

    @property
    def failed(self) -> bool:
        """Whether a requirement is not met."""
        return not all(one.met for one in self.requirements)

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 done, 3 a requirement failed, 4 stopped before the end."""
        if self.stopped:
            return EXIT_STOPPED
        return EXIT_OVER_LIMIT if self.failed else EXIT_DONE

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, as the JSON has them."""
        return {
            **asdict(self),
            "fields": [one.to_dict() for one in self.fields],
            "requirements": [one.to_dict() for one in self.requirements],
            "failed": self.failed,
        }

    def to_text(self, width: int = 100) -> str:
        """Return the evaluation for a terminal of ``width`` columns."""
        blocks = [
            list(self._head()),
            list(self._fields(width)),
            *(list(_values(one, width)) for one in self.fields if one.values),
            *(list(_matrix(one, width)) for one in self.fields if one.matrix),
            list(self._numbers()),
            list(self._side()),
            list(self.notes),
            [one.to_text() for one in self.requirements],
        ]
        return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block)

    def _head(self) -> Iterator[str]:
        yield f"{self.side.file}  {self.side.model}"
        yield f"{counted(self.rows, 'labelled row')} of {self.truth}"
        if self.then is not None:
            yield f"then: {self.then.evaluation}, {self.then.model}, file {self.then.fingerprint[:12]}"

    def _fields(self, width: int) -> Iterator[str]:
        if not self.rows:
            yield "no labelled row is answered: nothing to score yet"
            return
        compared = any(one.change is not None for one in self.fields)
        lines: list[tuple[str, ...]] = [("field = label", "rows", "right", "refused")]
        if compared:
            lines[0] += ("rows then", "only then", "only now", "p")
        for one in self.fields:
            line: tuple[str, ...] = (
                f"{one.field} = {one.label}",
                f"{one.rows:,}",
                percent_with_interval(one.right, one.rows),
                f"{one.refused:,}",
            )
            if compared:
                line += _change(one.change)
            lines.append(line)
        if max(map(width_of, whole := list(table(lines, 10_000)))) <= width:
            yield from whole
        else:  # each name on a line of its own
            numbers = table([("", *rest) for _, *rest in lines], width)
            for (name, *_), line_text in zip(lines, numbers, strict=True):
                yield padded(name, width)
                yield line_text
        yield "A refused row is wrong. In brackets: 95 % confidence intervals (Wilson)."
        if compared:
            yield "p: two-sided exact sign test on the rows that are right only then or only now."

    def _numbers(self) -> Iterator[str]:
        for one in self.fields:
            if one.mean_absolute_error is not None:
                error = f"{one.mean_absolute_error:,.4g} over {counted(one.measured, 'row')}"
                yield f"{one.field}: mean absolute error {error}"
            if one.items is not None:
                found = one.items
                yield (
                    f"{one.field}: {found.found:,} items found, {found.missed:,} missed, {found.invented:,} invented "
                    f"({percent(found.found, found.found + found.missed)} of the labels' items, "
                    f"{percent(found.found, found.found + found.invented)} of the answers')"
                )

    def _side(self) -> Iterator[str]:
        side = self.side
        refused = {code: count for code, count in side.refused.items() if code != NOT_ASKED}
        codes = ", ".join(f"{code} {count:,}" for code, count in refused.items())
        yield (
            f"{side.accepted:,} accepted, {sum(refused.values()):,} refused{f' ({codes})' if codes else ''}; "
            f"{counted(side.calls, 'request')} sent now, {side.stored:,} answered before"
        )
        if side.cost is not None:
            yield f"{side.cost:,.4f} {self.currency} for 1,000 requests"


def _change(change: Change | None) -> tuple[str, ...]:
    if change is None:
        return ("-",) * 4
    p = p_value_text(change.p_value) if change.only_then or change.only_now else "-"
    return f"{change.rows:,}", f"{change.only_then:,}", f"{change.only_now:,}", p


def _values(score: FieldScore, width: int) -> Iterator[str]:
    lines: list[Sequence[str]] = [(score.field, "labelled", "answered", "right", "precision", "recall", "F1")]
    for one in score.values[:MATRIX_VALUES]:
        shares = ("-" if share is None else f"{share:.3f}" for share in (one.precision, one.recall, one.f1))
        lines.append((one.value, f"{one.labelled:,}", f"{one.answered:,}", f"{one.right:,}", *shares))
    yield from table(lines, width)
    if (hidden := len(score.values) - MATRIX_VALUES) > 0:
        yield f"and {hidden} more values, which --json has"


def _matrix(score: FieldScore, width: int) -> Iterator[str]:
    """Return the confusion matrix. Where the names of the columns don't fit beside each other, they are numbers."""
    assert score.matrix is not None
    seen = {*score.matrix, *(name for counts in score.matrix.values() for name in counts)}
    answers = [name for name in (*(one.value for one in score.values), OTHERS, REFUSED) if name in seen]
    for numbered in (False, True):
        heads = [str(i) if numbered else name for i, name in enumerate(answers, start=1)]
        lines: list[Sequence[str]] = [(f"{score.field}: label \\ answer", *heads)]
        for label, counts in score.matrix.items():
            cells = (f"{counts[answer]:,}" if counts.get(answer) else "·" for answer in answers)
            lines.append((f"{answers.index(label) + 1} {label}" if numbered else label, *cells))
        printed = list(table(lines, 10_000))
        if max(map(width_of, printed)) <= width:
            break
    yield from printed
    rest = [f"{number} {name}" for number, name in enumerate(answers, start=1) if name not in score.matrix]
    if numbered and rest:
        yield f"answers that are no label: {', '.join(rest)}"

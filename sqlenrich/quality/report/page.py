"""A report as one HTML page: what the template needs beside the facts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlenrich.quality.comparison.comparison import printed
from sqlenrich.quality.page import render_page
from sqlenrich.quality.report.facts import RunFigures
from sqlenrich.quality.report.quality_report import QualityReport
from sqlenrich.quality.review.review import WHOLE_ROW, share_text
from sqlenrich.quality.review.verdicts import Verdict
from sqlenrich.spec.prices import money

LINE_WIDTH, LINE_HEIGHT = 220, 44
"""The size of the mark of figures over time."""


class Series(NamedTuple):
    """A figure of each run over time. ``points`` are places in the mark, None where a run does not tell it."""

    name: str
    last: str
    points: tuple[tuple[float, float] | None, ...]
    span: str
    """The least and the greatest value, as text."""


def report_page(report: QualityReport, *, autoescape: bool = True) -> str:
    """Return the page. Without ``autoescape`` only its policy protects it, as a test of the policy needs."""
    return render_page(
        "report.html",
        styles=("base.css", "report.css"),
        script="report.js",
        autoescape=autoescape,
        report=report,
        series=_series(report),
        runs=[_run(report, line) for line in reversed(report.runs)],
        shares=[
            {
                "name": one.field or WHOLE_ROW if one.stratum is None else f"of {one.stratum}",
                "one": one,
                "texts": share_text(one.found),
            }
            for one in report.review.shares
        ],
        verdict=_verdict,
        printed=printed,
        percent=lambda share: "–" if share is None else f"{100 * share:.1f} %",
        schema=json.dumps(report.request.schema, indent=2, ensure_ascii=False),
        shared=_indented(report.request.shared),
    )


def _indented(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _run(report: QualityReport, line: RunFigures) -> tuple[str, ...]:
    """Return the cells of a run."""

    def figure(name: str) -> str:
        value = line.number(name)
        return "–" if value is None else f"{int(value):,}"

    ended = line.run.ended_at
    seconds = None if ended is None else (ended - line.run.started_at).total_seconds()
    share, right = line.refused_share, report.accuracy_of(line)
    return (
        line.run.run_id,
        str(line.run.started_at)[:16],
        line.run.status,
        *map(figure, ("rows_in", "quarantined")),
        "–" if share is None else f"{100 * share:.2f} %",
        *map(figure, ("calls", "tokens_in", "tokens_out")),
        "–" if line.spent is None else line.spent.to_text(),
        "–" if line.latency is None else f"{line.latency:,} ms",
        "–" if seconds is None else f"{seconds:,.0f} s",
        "–" if right is None else f"{100 * right:.1f} %",
        "–" if line.sigma is None else f"{line.sigma:.1f}",
        "–" if line.moved_most is None else f"{line.moved_most.field} {100 * line.moved_most.moved:.1f}",
    )


def _series(report: QualityReport) -> list[Series]:
    def cost_of_a_row(line: RunFigures) -> float | None:
        calls = line.number("calls")
        return 1000 * line.spent.cost / calls if line.spent is not None and calls else None

    def tokens(line: RunFigures) -> float | None:
        told = [line.number(name) for name in ("tokens_in", "tokens_out")]
        calls = line.number("calls")
        return sum(filter(None, told)) / calls if calls and any(one is not None for one in told) else None

    kinds: Sequence[tuple[str, Callable[[RunFigures], float | None], Callable[[float], str]]] = (
        ("refused", lambda line: line.refused_share, lambda value: f"{100 * value:.2f} %"),
        ("cost of 1,000 calls", cost_of_a_row, money),
        ("tokens a call", tokens, lambda value: f"{value:,.0f}"),
        ("latency p50", lambda line: line.latency, lambda value: f"{value:,.0f} ms"),
        ("right", report.accuracy_of, lambda value: f"{100 * value:.1f} %"),
        ("σ of all fields", lambda line: line.sigma, lambda value: f"{value:.1f} σ"),
    )
    found = []
    for name, read, shown in kinds:
        values = [read(line) for line in report.runs]
        known = [value for value in values if value is not None]
        if known:
            low, high = min(known), max(known)
            span = shown(low) if low == high else f"{shown(low)} to {shown(high)}"
            found.append(Series(name, shown(known[-1]), _points(values, low, high), span))
    return found


def _points(values: Sequence[float | None], low: float, high: float) -> tuple[tuple[float, float] | None, ...]:
    step = (LINE_WIDTH - 12) / max(1, len(values) - 1)
    reach = LINE_HEIGHT - 12
    return tuple(
        None
        if value is None
        else (
            round(6 + step * place, 1),
            round(6 + reach * (1 - (value - low) / (high - low) if high > low else 0.5), 1),
        )
        for place, value in enumerate(values)
    )


def _verdict(one: Verdict) -> dict[str, Any]:
    """Return what a reviewer said, as texts."""
    told = "" if one.expected is None else printed(json.loads(one.expected))
    return {"reviewer": one.reviewer, "verdict": one.verdict, "expected": told}

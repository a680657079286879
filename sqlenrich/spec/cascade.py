"""``cascade`` of a header: a second model that decides the rows of which the first is not certain enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from sqlenrich.core.errors import did_you_mean
from sqlenrich.core.types import BIGINT, DOUBLE, Decimal, Type

Problem = tuple[str, tuple[str, ...]]
"""A message, and the keys under which its cause stands."""

DEFAULT_DELTA, DEFAULT_SAMPLE = 0.05, 1000


@dataclass(frozen=True)
class Cascade:
    """Two models: the header's own answers all rows, ``ask`` those below a threshold of the answer's score.

    With ``distilled`` a classifier is the first one, with ``filter`` a column, and the header's model the second. None
    of this is part of a request: a change of it asks nothing again.
    """

    ask: str
    """The second model: an alias or a model's own name; empty with ``distilled`` and ``filter``."""
    score: str
    """The field whose number says how certain the first model is."""
    equal: tuple[str, ...]
    """The fields in which both answers must agree."""
    target: float | None = None
    """The share of all rows whose answer must agree with the second model's."""
    delta: float = DEFAULT_DELTA
    """The most probable that a certified threshold misses the target: the probability is over samples."""
    sample: int = DEFAULT_SAMPLE
    """The rows that both models answer."""
    threshold: float | None = None
    """The least score of a row that the first model decides; None: the sample finds it. A file with ``filter`` writes
    the greatest number of the column instead."""
    distilled: str | None = None
    """The file of a classifier's weights, relative to the prompt file. Its score is the lead of its answer."""
    endpoint: str | None = None
    """The endpoint of the second model, a name of the settings or a URL; None: that of the first."""
    filter: str | None = None
    """The column whose lowest numbers get the answer ``otherwise``; one of ``key`` or ``keep``. The score is its
    negative."""
    otherwise: tuple[tuple[str, Any], ...] = ()
    """The fields and the only answer that is given without the second model; empty: each answer of the classifier. The
    target is then the recall: the share of the rows to which the second model would give another answer that it is
    asked about."""


def least_sample(target: float, delta: float) -> int:
    """Return the fewest rows that can certify a target: those whose agreement without an exception is that rare."""
    return math.ceil(math.log(delta) / math.log(target))


def read_cascade(
    given: Mapping[str, Any], fields: Mapping[str, Type], kept: Mapping[str, Type | None]
) -> tuple[Cascade | None, list[Problem]]:
    """Return the cascade of a header, None where it has none, and its problems.

    ``fields`` are those of the output, ``kept`` the columns that a row keeps with their declared types.
    """
    problems: list[Problem] = []
    if not given:
        return None, problems

    def report(name: str, message: str) -> None:
        problems.append((message, ("cascade", name) if name in given else ("cascade",)))

    def number(name: str, default: float | None, bounds: str = "between 0 and 1") -> float | None:
        value = given.get(name, default)
        inside = isinstance(value, int | float) and not isinstance(value, bool)
        if value is None or (inside and (bounds == "" or 0 < value < 1)):
            return None if value is None else float(value)
        report(name, f"{name} must be a number{f' {bounds}' if bounds else ''}, not {value!r}")
        return default

    ask, score, distilled, column = (given.get(name) for name in ("ask", "score", "distilled", "filter"))
    first = "filter" if "filter" in given else "classifier" if "distilled" in given else ""
    if first:
        for name in ("ask", "score", "equal", "endpoint", *(("distilled",) if "filter" in given else ())):
            if name in given:
                report(name, f"leave out {name}: the {first} is the first model, and the header's the second")
        if "filter" in given:
            _check_filter(column, kept, report)
        elif not isinstance(distilled, str) or PurePath(distilled).suffix != ".parquet":
            report("distilled", f"distilled must be a file that sqlenrich distill wrote, not {distilled!r}")
        ask = score = ""
    else:
        if not isinstance(ask, str) or not ask:
            report("ask", f"ask must be an alias or a model's name, not {ask!r}")
        if not isinstance(score, str) or score not in fields:
            near = did_you_mean(str(score), fields)
            report("score", f"score must be a field of the output that is a number, not {score!r}{near}")
        elif not isinstance(fields[score], Decimal) and fields[score] not in (BIGINT, DOUBLE):
            report("score", f'score must be a number, and the field "{score}" is none')
    endpoint = given.get("endpoint")
    if endpoint is not None and (not isinstance(endpoint, str) or not endpoint):
        report("endpoint", f"endpoint must be a name of the settings or a URL, not {endpoint!r}")
    equal = given.get("equal", [name for name in fields if name != score])
    if not isinstance(equal, list) or not equal or not all(isinstance(name, str) for name in equal):
        report("equal", f"equal must be a list of fields, not {equal!r}")
        equal = []
    for name in equal:
        if name not in fields:
            report("equal", f'equal: no field "{name}"{did_you_mean(name, fields)}')
    otherwise = _otherwise(given, fields, report)
    wanted = "recall" if otherwise else "target"
    target, delta = number(wanted, None), number("delta", DEFAULT_DELTA)
    sample = given.get("sample", DEFAULT_SAMPLE)
    if not isinstance(sample, int) or isinstance(sample, bool) or sample < 1:
        report("sample", f"sample must be a number of rows, not {sample!r}")
        sample = DEFAULT_SAMPLE
    threshold = number("threshold", None, "")
    if threshold is None and target is None and "threshold" not in given and wanted not in given:
        report(wanted, f"cascade needs a {wanted}, such as 0.95, or a threshold of the score")
    if threshold is not None and target is not None:
        report("threshold", f"threshold takes the place of {wanted}, which finds one: write one of them")
    if target is not None and delta is not None and threshold is None:
        least = least_sample(target, delta)
        if sample < least:
            report("sample", f"a sample of {sample:,} rows can't certify {target:g}: it takes at least {least:,}")
    if problems:
        return None, problems
    found = Cascade(
        ask=str(ask),
        score=str(score),
        equal=tuple(equal),
        target=target,
        delta=delta or DEFAULT_DELTA,
        sample=sample,
        threshold=-threshold if threshold is not None and column is not None else threshold,
        distilled=distilled,
        filter=column,
        endpoint=endpoint,
        otherwise=otherwise,
    )
    return found, problems


def _check_filter(column: object, kept: Mapping[str, Type | None], report: Callable[[str, str], None]) -> None:
    if not isinstance(column, str) or column not in kept:
        report("filter", f"filter must be a column of key or keep, not {column!r}{did_you_mean(str(column), kept)}")
    elif not (kept[column] is None or isinstance(kept[column], Decimal) or kept[column] in (BIGINT, DOUBLE)):
        report("filter", f'filter must be a number, and the column "{column}" is none')


def _otherwise(
    given: Mapping[str, Any], fields: Mapping[str, Type], report: Callable[[str, str], None]
) -> tuple[tuple[str, Any], ...]:
    """Return the only answer that is given without the second model; empty for all of them."""
    if "otherwise" not in given:
        if "filter" in given:
            report("filter", "filter needs otherwise: {FIELD: VALUE, ...}, the answer of the rows that it decides")
        elif "recall" in given:
            report("recall", "recall needs otherwise: {FIELD: VALUE}, the value that is decided without the model")
        return ()
    written = given["otherwise"]
    known = isinstance(written, Mapping) and written and all(name in fields for name in written)
    one = known and len(written) == 1 and isinstance(next(iter(written.values())), str | bool)
    if "distilled" not in given and "filter" not in given:
        report("otherwise", "otherwise goes with distilled and with filter, which decide that value")
    elif "filter" in given and not known:
        report("otherwise", f"otherwise must be fields of the output and their values, not {written!r}")
    elif "filter" not in given and not one:
        report("otherwise", f"otherwise must be one field of the output and its value, not {written!r}")
    elif "target" in given:
        report("target", "leave out target: with otherwise, recall takes its place")
    else:
        return tuple(written.items())
    return ()

"""``evaluate``, ``review`` and ``drift`` of a header: how the quality of an enrichment's answers is measured.

None of them is part of a request: a change of them asks nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlenrich.core.errors import did_you_mean
from sqlenrich.core.types import BOOLEAN, STRING, Type

Problem = tuple[str, tuple[str, ...]]
"""A message, and the keys under which its cause stands."""

MEASURES = ("precision", "recall", "f1")
"""What can be required of one value of a field."""


@dataclass(frozen=True)
class Requirement:
    """The least share that an evaluation must reach."""

    field: str
    measure: str
    """``right``, or one of :data:`MEASURES`."""
    value: str | None
    """The value of the field whose measure it is, as text (``true``, ``false``); None where the measure is right."""
    least: float

    @property
    def text(self) -> str:
        """The requirement as in ``has_pii: recall of true``."""
        return self.field if self.value is None else f"{self.field}: {self.measure} of {self.value}"


@dataclass(frozen=True)
class EvaluateSettings:
    """Where the right values stand, which fields are scored, and what is required."""

    truth: str | None = None
    """A data file with the key and the labels, relative to the prompt file."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The column of labels of each field. Empty: each field with a column ``expected_FIELD``."""
    require: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class ReviewSettings:
    """How many accepted rows people judge, and by which field they are drawn."""

    share: float = 0.01
    by: str | None = None


@dataclass(frozen=True)
class DriftSettings:
    """When the answers of a run have moved: by how many σ and by which share of rows, both at once."""

    sigma: float = 2.0
    moved: float = 0.05
    values: tuple[str, ...] = ()
    """Free texts whose values are counted."""
    alarms: bool = False
    """Whether the header has the key: then an alarm ends a run with status 3."""


@dataclass(frozen=True)
class Quality:
    """The three settings."""

    evaluate: EvaluateSettings = EvaluateSettings()
    review: ReviewSettings = ReviewSettings()
    drift: DriftSettings = DriftSettings()


def parse_requirement(written: str, fields: Mapping[str, Type]) -> Requirement:
    """Read ``FIELD=0.92`` or ``FIELD.recall.VALUE=0.99``. Raises ValueError."""
    name, _, least = written.rpartition("=")
    parts = name.split(".", 2)
    try:
        share = float(least)
    except ValueError:
        raise ValueError(f'"{written}": write FIELD=0.92, or FIELD.recall.VALUE=0.99') from None
    given: Any = share if len(parts) == 1 else {parts[1]: {parts[2] if len(parts) == 3 else "": share}}
    problems: list[Problem] = []
    found = _requirements({parts[0]: given}, fields, problems)
    if problems:
        raise ValueError(problems[0][0])
    return found[0]


def read_quality(header: Mapping[str, Any], fields: Mapping[str, Type]) -> tuple[Quality, list[Problem]]:
    """Return the settings of a header whose output has ``fields``, and the problems inside its mappings."""
    problems: list[Problem] = []
    evaluate, review, drift = (
        given if isinstance(given := header.get(key), dict) else {} for key in ("evaluate", "review", "drift")
    )
    quality = Quality(
        EvaluateSettings(
            truth=_text(evaluate, "evaluate", "truth", problems),
            fields=_labels(evaluate.get("fields", {}), fields, problems),
            require=_requirements(evaluate.get("require", {}), fields, problems),
        ),
        ReviewSettings(
            share=_number(review, "review", "share", ReviewSettings.share, 1.0, problems),
            by=_stratum(_text(review, "review", "by", problems), fields, problems),
        ),
        DriftSettings(
            sigma=_number(drift, "drift", "sigma", DriftSettings.sigma, 10.0, problems),
            moved=_number(drift, "drift", "moved", DriftSettings.moved, 1.0, problems),
            values=_values(drift.get("values", []), fields, problems),
            alarms="drift" in header,
        ),
    )
    return quality, problems


def _text(given: Mapping[str, Any], key: str, name: str, problems: list[Problem]) -> str | None:
    value = given.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    problems.append((f"{name} must be a text, not {value!r}", (key, name)))
    return None


def _number(
    given: Mapping[str, Any], key: str, name: str, default: float, most: float, problems: list[Problem]
) -> float:
    value = given.get(name, default)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
        return float(value)
    problems.append((f"{name} must be a number above 0, at most {most:g}, not {value!r}", (key, name)))
    return default


def _known(name: str, fields: Mapping[str, Type], path: tuple[str, ...], problems: list[Problem]) -> bool:
    if name in fields:
        return True
    known = ", ".join(fields)
    problems.append((f'no output field "{name}"{did_you_mean(name, fields)}; there are: {known}', path))
    return False


def _labels(given: Any, fields: Mapping[str, Type], problems: list[Problem]) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(column, str) and column for column in given.values()):
        problems.append(("fields must be a mapping of output fields to columns of labels", ("evaluate", "fields")))
        return {}
    return {
        str(name): column
        for name, column in given.items()
        if _known(str(name), fields, ("evaluate", "fields", str(name)), problems)
    }


def _requirements(given: Any, fields: Mapping[str, Type], problems: list[Problem]) -> tuple[Requirement, ...]:
    root = ("evaluate", "require")
    if not isinstance(given, dict):
        problems.append((f"require must be a mapping of output fields to shares, not {given!r}", root))
        return ()
    found: list[Requirement] = []
    for key, written in given.items():
        name = str(key)
        if not _known(name, fields, (*root, name), problems):
            continue
        measures = written if isinstance(written, dict) else {"right": {None: written}}
        for measure, values in measures.items():
            path = (*root, name) if measure == "right" else (*root, name, str(measure))
            if measure != "right" and measure not in MEASURES:
                near = did_you_mean(str(measure), MEASURES)
                problems.append((f'unknown measure "{measure}"{near}; there are: {", ".join(MEASURES)}', path))
            elif not isinstance(values, dict):
                problems.append((f"write {measure}: {{VALUE: 0.99}}, not {values!r}", path))
            else:
                for value, least in values.items():
                    if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1:
                        problems.append((f"a share is from 0 to 1, not {least!r}", path))
                    else:
                        found.append(Requirement(name, str(measure), _value_text(value), float(least)))
    return tuple(found)


def _value_text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stratum(name: str | None, fields: Mapping[str, Type], problems: list[Problem]) -> str | None:
    path = ("review", "by")
    if name is None or not _known(name, fields, path, problems):
        return None
    if fields[name] not in (STRING, BOOLEAN):
        problems.append((f'"{name}" is neither an enum nor a boolean: rows are drawn by one of these', path))
        return None
    return name


def _values(given: Any, fields: Mapping[str, Type], problems: list[Problem]) -> tuple[str, ...]:
    path = ("drift", "values")
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        problems.append((f"values must be a list of output fields, not {given!r}", path))
        return ()
    found = []
    for name in given:
        if _known(name, fields, path, problems):
            if fields[name] != STRING:
                problems.append((f'"{name}" is no text: only the values of texts are named here', path))
            found.append(name)
    return tuple(found)

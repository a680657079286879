"""The keys ``evaluate``, ``review`` and ``drift`` of a header."""

from __future__ import annotations

import pytest

import sqlenrich as se
from sqlenrich.core.types import BOOLEAN, DOUBLE, STRING
from sqlenrich.spec.quality import DriftSettings, EvaluateSettings, Requirement, ReviewSettings, parse_requirement

HEADER = """---
key: [id]
output: {{"intent(enum)": [a, b], has_pii: boolean, score: number, note: string}}
{written}
---
{{{{ body }}}}
"""
FIELDS = {"intent": STRING, "has_pii": BOOLEAN, "score": DOUBLE}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", (EvaluateSettings(), ReviewSettings(), DriftSettings())),
        (
            "evaluate: {truth: labels.csv, fields: {intent: category},\n"
            "  require: {intent: 0.92, has_pii: {recall: {true: 0.99}}}}",
            (
                EvaluateSettings(
                    "labels.csv",
                    {"intent": "category"},
                    (Requirement("intent", "right", None, 0.92), Requirement("has_pii", "recall", "true", 0.99)),
                ),
                ReviewSettings(),
                DriftSettings(),
            ),
        ),
        (
            "review: {share: 0.02, by: intent}\ndrift: {sigma: 3, moved: 0.1, values: [note]}",
            (EvaluateSettings(), ReviewSettings(0.02, "intent"), DriftSettings(3.0, 0.1, ("note",), alarms=True)),
        ),
    ],
)
def test_the_settings_of_a_header(
    written: str, expected: tuple[EvaluateSettings, ReviewSettings, DriftSettings]
) -> None:
    quality = se.loads(HEADER.format(written=written)).quality
    assert (quality.evaluate, quality.review, quality.drift) == expected


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("evaluate: 3", "evaluate must be a mapping, not 3"),
        ("evaluate: {truht: x.csv}", 'unknown key "truht" (truth?)'),
        ("evaluate: {fields: {intnt: x}}", 'no output field "intnt" (intent?)'),
        ("evaluate: {require: {intent: 92}}", "a share is from 0 to 1, not 92"),
        ("evaluate: {require: {intent: {recal: {a: 0.9}}}}", 'unknown measure "recal" (recall?)'),
        ("evaluate: {require: {intent: {recall: 0.9}}}", "write recall: {VALUE: 0.99}, not 0.9"),
        ("review: {share: 0}", "share must be a number above 0, at most 1, not 0"),
        ("review: {by: score}", '"score" is neither an enum nor a boolean'),
        ("drift: {sigma: -1}", "sigma must be a number above 0, at most 10, not -1"),
        ("drift: {values: [score]}", '"score" is no text'),
    ],
)
def test_a_problem_names_its_line_and_key(written: str, problem: str) -> None:
    with pytest.raises(se.SpecError) as raised:
        se.loads(HEADER.format(written=written))
    assert "line 4: " in str(raised.value)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("intent=0.92", Requirement("intent", "right", None, 0.92)),
        ("has_pii.recall.true=0.99", Requirement("has_pii", "recall", "true", 0.99)),
        ("intent.f1.a.b=1", Requirement("intent", "f1", "a.b", 1.0)),
    ],
)
def test_a_requirement_of_the_command_line(written: str, expected: Requirement) -> None:
    assert parse_requirement(written, FIELDS) == expected


@pytest.mark.parametrize("written", ["intent", "intent=high", "intnt=0.9", "intent=1.1", "intent.recal.a=0.9"])
def test_a_wrong_requirement(written: str) -> None:
    with pytest.raises(ValueError, match=r"write FIELD|no output field|a share is|unknown measure"):
        parse_requirement(written, FIELDS)

"""Random schemas and answers: the reference agrees with another validator, and each engine with the reference.

SQLENRICH_EXAMPLES=2000 pytest tests/schema/test_checks_random.py -s      # this many schemas, another seed
SQLENRICH_EXAMPLES=2000 SQLENRICH_SEED=7 pytest ...                # the same schemas again

BigQuery's parser refuses a number beyond a double, so that such an answer may be BAD_JSON there.

The validator differs by design in numbers that doubles don't hold exactly, in ``coerce`` and in asserted formats: these
are not compared. It is adapted to our patterns (its own are Python's), exact multiples, and unique items that nest too
deep.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import jsonschema
import pytest

import sqlenrich as se
from sqlenrich.schema.checks.ir import MAX_UNIQUE_DEPTH
from tests.support.checkers import ENGINES, Checker, Codes, Sample, checker_of, reference_codes
from tests.support.random_schemas import EXACT, PATTERNS, Maker, shrunk

EXAMPLES = int(os.environ.get("SQLENRICH_EXAMPLES", "0"))
SEED = int(os.environ.get("SQLENRICH_SEED", "0")) or (random.randrange(1, 10**6) if EXAMPLES else 1)
SHARE = {"python": 100, "duckdb": 15, "spark": 6, "bigquery": 6, "snowflake": 6, "clickhouse": 6}
"""How many schemas are tried by default."""
MARKS = {"spark": [pytest.mark.spark], "bigquery": [pytest.mark.zetasql]}
ANSWERS = 60
"""Answers of each schema."""
BATCH = 20
MAX_DISAGREEMENTS = 12
"""A run ends after this many disagreements."""
BAD_TEXT = ("NO_RESPONSE", "BAD_JSON", "NOT_OBJECT")


# Another validator ----------------------------------------------------------------------------------------------------


def _multiple(_: Any, step: Any, value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        exact = Decimal(repr(value)) if abs(value) < 10**20 else None
        if exact is None or exact % Decimal(repr(step)):
            yield jsonschema.ValidationError("no multiple")


def _unique(validator: Any, unique: Any, value: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    if unique and isinstance(value, list) and max(map(depth, value), default=0) > MAX_UNIQUE_DEPTH:
        yield jsonschema.ValidationError("nested too deep")
    yield from jsonschema.Draft202012Validator.VALIDATORS["uniqueItems"](validator, unique, value, schema)


Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {"multipleOf": _multiple, "uniqueItems": _unique}
)


def depth(value: Any) -> int:
    """How many arrays and objects are in each other."""
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth, inner), default=0)
    return 0


def parts(value: Any) -> Iterator[Any]:
    """A value and all values in it."""
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(part)


def in_python(schema: Any, *, names: bool = False) -> Any:
    """A schema with its patterns in Python's words."""
    if isinstance(schema, list):
        return [in_python(child) for child in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for key, value in schema.items():
        if names:
            made[key] = in_python(value)
        elif key == "pattern":
            made[key] = PATTERNS[value][0]
        elif key == "patternProperties":
            # Two patterns of one meaning are one name.
            made[key] = {PATTERNS[name][0]: in_python(child) for name, child in value.items()}
        elif key in ("enum", "const"):
            made[key] = value
        else:
            made[key] = in_python(value, names=key in ("properties", "dependentSchemas", "$defs"))
    return made


def _wide(value: Any) -> bool:
    return isinstance(value, int | float) and not abs(value) <= sys.float_info.max


def exact(value: Any) -> bool:
    """Tell whether doubles hold each number in a value exactly."""
    numbers = (part for part in parts(value) if isinstance(part, int | float) and not isinstance(part, bool))
    return all(abs(number) < EXACT for number in numbers)


class OtherValidator:
    """The other validator, for one schema."""

    def __init__(self, sample: Sample) -> None:
        own = "coerce" in str(sample.schema) or (sample.assert_format and "'format'" in str(sample.schema))
        self.validator = None if own or not exact(sample.schema) else Validator(in_python(sample.schema))

    def accepts(self, text: str, code: str | None) -> bool | None:
        """Tell whether it accepts an answer that is an object; None where the two can't be compared."""
        if self.validator is None or code in BAD_TEXT:
            return None
        value = json.loads(text)
        return bool(self.validator.is_valid(value)) if exact(value) else None


# Trying ---------------------------------------------------------------------------------------------------------------


def drawn(places: Iterable[int], seed: int) -> list[Sample]:
    """Return the schemas with these numbers, each with its answers."""
    made = []
    for place in places:
        maker = Maker(f"{seed} {place}")
        schema = maker.schema()
        texts = tuple(dict.fromkeys(maker.answer(schema) for _ in range(ANSWERS)))
        made.append(Sample(schema, texts, assert_format=maker.chance(0.5)))
    return made


class Trial:
    """A run of one checker over random schemas: counts and disagreements."""

    def __init__(self, engine: str, checker: Checker) -> None:
        self.engine, self.checker = engine, checker
        self.counts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.found: list[str] = []

    def run(self, count: int, seed: int) -> None:
        """Check this many schemas."""
        for start in range(0, count, BATCH):
            some = drawn(range(start, min(start + BATCH, count)), seed)
            for one, codes in zip(some, self.checker(some), strict=True):
                self.counts["schemas"] += 1
                if isinstance(codes, se.SqlenrichError):
                    self.counts["refused"] += 1
                    self.codes[str(codes).split(" @ ")[0][-60:]] += 0
                elif (wrong := self.wrong(one, codes, count=True)) is not None:
                    self.report(one, wrong)
            if len(self.found) > MAX_DISAGREEMENTS:
                return

    def wrong(self, sample: Sample, codes: Codes, *, count: bool = False) -> tuple[str, str] | None:
        """Return the first answer with a wrong code, and what is wrong."""
        if isinstance(codes, Exception):
            return sample.texts[0] or "", f"{type(codes).__name__}: {str(codes)[:300]}"
        reference = reference_codes(sample, detail=self.checker.detail) if self.engine != "python" else codes
        assert not isinstance(reference, Exception)
        other = OtherValidator(sample) if self.engine == "python" else None
        for text, code, wanted in zip(sample.texts, codes, reference, strict=True):
            if count:
                self.counts["pairs"] += 1
                self.codes[(code or "accepted").split(" ")[0]] += 1
            if code != wanted and not self.unread(str(text), code):
                return str(text), f"{code}, the reference {wanted}"
            accepted = other.accepts(str(text), code) if other else None
            if count and accepted is not None:
                self.counts["compared"] += 1
            if accepted is not None and accepted is not (code is None):
                return str(text), f"{code}, jsonschema {'accepts' if accepted else 'refuses'}"
        return None

    def unread(self, text: str, code: str | None) -> bool:
        """Tell whether the engine's own parser refuses a number, which gives another code."""
        return (
            self.engine == "bigquery" and str(code).startswith("BAD_JSON") and any(map(_wide, parts(json.loads(text))))
        )

    def report(self, sample: Sample, wrong: tuple[str, str]) -> None:
        """Keep a disagreement as a text, after making its schema and its answer small."""
        text, how = wrong

        def difference(schema: Any, text: str) -> str | None:
            one = Sample(schema, (text,), sample.assert_format)
            try:
                (codes,) = self.checker([one])
                if isinstance(codes, se.SqlenrichError):
                    return None
                found = self.wrong(one, codes)
            except Exception:
                return None
            return found and found[1]

        if difference(sample.schema, text) is not None:
            schema, text = shrunk(sample.schema, text, lambda *both: difference(*both) is not None)
            how = difference(schema, text) or how
        else:
            schema = sample.schema  # it fails only together with its other answers
        self.found.append(
            f"{self.engine}: {how}\n  schema {json.dumps(schema, ensure_ascii=False)}\n  answer {text!r}"
            f"\n  formats {'asserted' if sample.assert_format else 'annotations'}"
        )

    def __str__(self) -> str:
        c = self.counts
        codes = ", ".join(f"{code} {count}" for code, count in self.codes.most_common() if count)
        compared = f" ({c['compared']} compared with jsonschema)" if self.engine == "python" else ""
        return (
            f"{self.engine}, seed {SEED}: {c['schemas']} schemas, {c['refused']} refused, "
            f"{c['pairs']} answers{compared}: {codes}; {len(self.found)} disagreements"
        )


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("engine", [pytest.param(name, marks=MARKS.get(name, [])) for name in ENGINES])
def test_random_answers_have_the_same_code(engine: str) -> None:
    with checker_of(engine) as checker:
        trial = Trial(engine, checker)
        trial.run(EXAMPLES or SHARE[engine], SEED)
    sys.stdout.write(f"{trial}\n")
    assert not trial.found, "\n".join([str(trial), *trial.found])
    assert trial.counts["refused"] < trial.counts["schemas"] / 10
    assert trial.codes["accepted"] > trial.counts["pairs"] / 10
    if engine == "python":
        assert trial.counts["compared"] > trial.counts["pairs"] / 2


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=MARKS.get(name, [])) for name in ENGINES if name != "python"]
)
def test_random_answers_have_the_same_detail_in_one_pass_an_array(engine: str) -> None:
    with checker_of(engine, detail=True) as checker:
        trial = Trial(engine, checker)
        trial.run(EXAMPLES or SHARE[engine], SEED + 1)
    sys.stdout.write(f"{trial}\n")
    assert not trial.found, "\n".join([str(trial), *trial.found])


def test_the_other_validator_is_adapted() -> None:
    table: list[tuple[Mapping[str, Any], Any, bool]] = [
        ({"multipleOf": 0.1}, 0.3, True),
        ({"multipleOf": 3}, 10**20, False),
        ({"uniqueItems": True}, [[[[1]]]], True),
        ({"uniqueItems": True}, [[[[[1]]]]], False),
    ]
    for schema, value, valid in table:
        assert Validator(schema).is_valid(value) is valid, (schema, value)

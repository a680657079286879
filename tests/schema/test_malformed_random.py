"""Random texts, most of them invalid JSON: each engine repairs and checks them as Python does.

SQLENRICH_EXAMPLES=100000 pytest tests/schema/test_malformed_random.py -s     # this many texts, another seed
SQLENRICH_EXAMPLES=100000 SQLENRICH_SEED=7 pytest ...                  # the same texts again
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, STRING
from sqlenrich.schema import build_checks, evaluate_checks, normalise
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.schema.checks.repairs import REPAIRS
from tests.prompt.test_conformance import ENGINES, select
from tests.schema.test_malformed import repaired_in
from tests.support.malformed_answers import ANSWERS, KEEP, SCHEMA

EXAMPLES = int(os.environ.get("SQLENRICH_EXAMPLES", "0"))
SEED = int(os.environ.get("SQLENRICH_SEED", "0")) or (random.randrange(1, 10**6) if EXAMPLES else 1)
SHARE = {"duckdb": 4_000, "bigquery": 300, "spark": 1_000, "clickhouse": 1_000}
"""How many texts are tried by default."""
BATCH = 1_000 if EXAMPLES else 500
SETS = (("trim", "fence"), REPAIRS, ("prose",), ("trailing_comma", "null_as_absent"), ("null_as_absent",))
PIECES = (
    "{", "}", "[", "]", ",", ":", '"', "\\", '\\"', "\\u0061", "\\ud83d", "\\ude00", "\\u0000", "\\n", "null",
    "true", "NaN", "1", "0", "-", "+", ".", "e", "E9", "1e400", " ", "\n", "\t", "\xa0", "\f", "\x01", "\x7f",
    "\ufeff", "\u2028", "'", "/", "//", "/*", "*/", "#", "```", "```json\n", "\n```", "a", "\u00e9", "\U0001f600",
    '"a":', '"a":1,', ',"s":null', '"k":null', '"":1,', ": null", '"\\u0061":null,', ",}", ",]", "Sure: ",
)  # fmt: skip
"""Parts that are inserted into a text, and of which its values are made."""
NAMES = ("a", "s", "l", "o", "k", "x", "", "\u00fc-1", ":", 'q"', "\\", ",", "a ", "\U0001f600")
SPACES = ("", "", "", " ", "\n", " \t\r\n")

CHECKS = build_checks(normalise(SCHEMA)[0])

Result = tuple[str | None, str | None]
"""The repaired text and its code."""


def value(draw: random.Random, depth: int) -> Any:
    """A JSON value."""
    kind = draw.randrange(9 if depth else 6)
    if kind == 0:
        return draw.choice((None, None, True, False))
    if kind == 1:
        return draw.choice((0, 1, -7, 1.5, 1e300, 10**20, 2**63, 5e-324))
    if kind < 6:
        return "".join(draw.choice(PIECES) for _ in range(draw.randrange(4))).replace("\\ud83d", "")
    if kind == 6:
        return [value(draw, depth - 1) for _ in range(draw.randrange(4))]
    return {draw.choice(NAMES): value(draw, depth - 1) for _ in range(draw.randrange(5))}


def spelt(draw: random.Random, given: Any) -> str:
    """A JSON text of a value: with blanks, escapes, and now and then a name twice."""

    def blank() -> str:
        return draw.choice(SPACES)

    if isinstance(given, str):
        written = json.dumps(given, ensure_ascii=draw.random() < 0.3)
        return "".join(f"\\u{ord(c):04X}" if c.isalpha() and ord(c) < 128 and draw.random() < 0.02 and not escaped
                       else c for c, escaped in zip(written, _escaped(written), strict=True))  # fmt: skip
    if isinstance(given, list):
        return f"[{blank()}" + ",".join(f"{blank()}{spelt(draw, item)}{blank()}" for item in given) + "]"
    if isinstance(given, dict):
        members = [*given.items()]
        if members and draw.random() < 0.05:
            members.append(draw.choice(members))
        pairs = (f"{blank()}{spelt(draw, name)}{blank()}:{blank()}{spelt(draw, item)}" for name, item in members)
        return "{" + ",".join(pairs) + f"{blank()}}}"
    return json.dumps(given)


def _escaped(written: str) -> list[bool]:
    """For each character whether it belongs to an escape."""
    found, left = [], 0
    for place, char in enumerate(written):
        if not left and char == "\\":
            left = 6 if written[place + 1] == "u" else 2
        found.append(left > 0)
        left -= left > 0
    return found


def mutated(draw: random.Random, text: str) -> str:
    """The text with some characters lost, put in, put in others' place, moved, doubled, or cut off."""
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        start = draw.randrange(len(text) + 1)
        end = min(len(text), start + draw.choice((0, 1, 1, 2, 5, 20)))
        kind = draw.randrange(6)
        if kind == 0:
            text = text[:start] + text[end:]
        elif kind in (1, 2):
            text = text[:start] + draw.choice(PIECES) + text[start if kind == 1 else end :]
        elif kind == 3:
            text = text[:end] + text[start:end] * draw.choice((1, 2)) + text[end:]
        elif kind == 4:
            text = text[:start] if draw.random() < 0.3 else text + text[start:end]
        else:
            place = draw.randrange(len(text) + 1)
            text = text[:place] + text[start:end] + text[place:]
    return text


def answer(draw: random.Random) -> str:
    """One text."""
    if draw.random() < 0.1:
        known = draw.choice([found.text for found in SHORT])
        return mutated(draw, str(known))
    members = {
        "a": draw.choice((1, 1, "1", None)),
        **{draw.choice(NAMES): value(draw, 3) for _ in range(draw.randrange(5))},
    }
    text = spelt(draw, members)
    if draw.random() < 0.2:
        text = (
            draw.choice(("```json\n", "```\n", "Here: ", " \n")) + text + draw.choice(("\n```", "```", " ok", "", "\n"))
        )
    return mutated(draw, text)


SHORT = [found for found in ANSWERS.values() if found.text and len(found.text) < 1_000]


def results(engine: str, texts: Sequence[str], repairs: Sequence[str]) -> list[Result]:
    """Return an engine's result for each text."""
    rows: list[tuple[Any, ...]] = list(enumerate(texts))
    inner = f"SELECT n, {repaired_in(engine, repairs)} AS response FROM source"
    sql = f"SELECT n, response, {se.check_sql(SCHEMA, engine)} FROM ({inner}) AS repaired"
    found = select(engine, sql, {"n": BIGINT, "response": STRING}, rows)
    return [(text, code) for _, text, code in sorted(found)]


def reference(text: str, repairs: Sequence[str]) -> Result:
    repaired = repair(text, repairs, KEEP)
    failure = evaluate_checks(CHECKS, repaired)
    return repaired, failure[0] if failure else None


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("engine", ENGINES)
def test_random_texts_are_checked_as_in_python(engine: str) -> None:
    draw, counts, wrong = random.Random(SEED), Counter[str](), list[tuple[Any, ...]]()
    left = EXAMPLES or SHARE[engine]
    while left > 0 and len(wrong) < 20:
        repairs = SETS[counts["batches"] % len(SETS)]
        texts = [answer(draw) for _ in range(min(BATCH, left))]
        for text, found in zip(texts, results(engine, texts, repairs), strict=True):
            expected = reference(text, repairs)
            counts["texts"] += 1
            counts["repaired"] += expected[0] != text
            counts[expected[1] or "accepted"] += 1
            if found != expected:
                wrong.append((text, repairs, expected, found))
        counts["batches"] += 1
        left -= len(texts)
    sys.stdout.write(f"{engine}, seed {SEED}: {dict(counts)}; {len(wrong)} disagreements\n")
    assert not wrong, "\n".join(map(repr, sorted(wrong, key=lambda case: len(case[0]))[:5]))
    assert counts["accepted"] > counts["texts"] / 20
    assert counts["BAD_JSON"] > counts["texts"] / 5

"""ECMA-262 patterns in the form that all engines share."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlenrich as se
from sqlenrich.schema.checks.patterns import FENCE, longest_text, portable

DOT = "[^\n\r\u2028\u2029]"


@pytest.mark.parametrize(("pattern", "translated"), [
    ("^a$", "^a$"),
    (r"\d+", "[0-9]+"),
    (r"\D", "[^0-9]"),
    (r"\w-\W", "[A-Za-z0-9_]-[^A-Za-z0-9_]"),
    (r"[\d.]", "[0-9.]"),
    ("(a|b)", "(?:a|b)"),
    ("(?:a)", "(?:a)"),
    ("a.b", f"a{DOT}b"),
    ("a{2,3}", "a{2,3}"),
    ("a]}", r"a\]\}"),
    ("[[&]", r"[\[\&]"),
    (r"\/\.\-", r"/\.\-"),
    (r"\t\n", "\t\n"),
    (r"\x41\u00e9\x2e", "Aé\\."),
    ("[^a-c]", "[^a-c]"),
    ("", ""),
])  # fmt: skip
def test_translated(pattern: str, translated: str) -> None:
    assert portable(pattern) == translated


def test_white_space_is_ecma_s() -> None:
    for character in " \t\n\r\f\v\u00a0\ufeff\u1680\u2003\u2028\u202f\u3000":
        assert re.search(portable(r"^\s$", end=r"\Z"), character), repr(character)
    for character in "\x1c\x85\u200b\u180e":
        assert re.search(portable(r"^\S$", end=r"\Z"), character), repr(character)


def test_the_end_is_the_very_end() -> None:
    assert portable("a$|b$", end=r"\z") == r"a\z|b\z"
    assert re.search(portable("a$", end=r"\Z"), "a\n") is None


@pytest.mark.parametrize(("pattern", "words"), [
    ("(?=a)", "a group that starts with (?"),
    ("(?<name>a)", "a group that starts with (?"),
    ("(?i)a", "a group that starts with (?"),
    (r"\bword", r"\b is not the same on all engines; write it without"),
    (r"(a)\1", r"\1 is not the same on all engines"),
    (r"\p{L}", r"\p is not the same on all engines"),
    (r"\ca", r"\c is not the same on all engines"),
    (r"[\D]", r"\D inside a set"),
    ("a+?", "a lazy or possessive repeat"),
    ("a++", "a lazy or possessive repeat"),
    ("a{1,2}?", "a lazy or possessive repeat"),
    ("a{", "a brace that is no count"),
    ("a{,3}", "a brace that is no count"),
    ("a{1001}", "a count above 1000"),
    ("a{1,2000}", "a count above 1000"),
    ("[]", "an empty set"),
    ("[^]", "an empty set"),
    ("[a", "a set is not closed"),
    ("(a", "is not a regular expression"),
    ("*a", "is not a regular expression"),
    ("[b-a]", "is not a regular expression"),
    ("a\\", "ends in a backslash"),
    (r"\u12", r"\u is not the same"),
    (r"\01", r"\0 is not the same"),
])  # fmt: skip
def test_refused(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        portable(pattern)


def test_a_pattern_is_a_text() -> None:
    with pytest.raises(ValueError, match="pattern is a text, not 3"):
        portable(3)


PIECES = [
    "a",
    "b",
    "0",
    "-",
    r"\d",
    r"\w",
    "[ab]",
    "[^a]",
    "[0-9]",
    "(?:a|b)",
    "(ab)",
    "a*",
    "b+",
    "a?",
    "b{1,2}",
    "|",
    "^",
    "$",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), st.text(alphabet="ab0-_", max_size=6))
def test_the_translation_means_the_same(pattern: str, text: str) -> None:
    """Over ASCII without line breaks, where Python and ECMA-262 agree, it matches what the pattern matches."""
    found = re.search(pattern, text, re.ASCII)
    assert bool(re.search(portable(pattern, end=r"\Z"), text)) is bool(found)


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("```json\n{}\n```", "{}\n"),
        ("```\r\n{}```", "{}"),
        ("```json {}```", None),
        ("{}", None),
        ("```json\n{}", None),
        ("a ```json\n{}\n```", None),
    ],
)
def test_fence(text: str, inner: str | None) -> None:
    match = re.search(FENCE, text)
    assert (match[1] if match else None) == inner


LONGEST: list[tuple[str, int | None]] = [
    (r"^\w+(-\w+)*$", 1000),
    (r"^((a|b)(c|d)?)*$", 333),
    (r"^(?:(?:(?:(?:a|b)|c)|d)|e)*$", 250),
    (r"(ab){2,}", 1000),
    (r"(ab){2,500}", 1000),
    (r"^(ab){3}$", None),
    (r"^(ab)?$", None),
    (r"^[a-z]*$", None),
    (r"\)*[()*]+", None),
]


@pytest.mark.parametrize(("pattern", "longest"), LONGEST)
def test_how_long_a_text_a_pattern_is_tried_on(pattern: str, longest: int | None) -> None:
    assert longest_text(pattern) == longest


def test_a_text_too_long_for_a_pattern_matches_nothing() -> None:
    schema = {"type": "object", "properties": {"v": {"type": "string", "pattern": r"^(ab)*$"}}}
    codes = [se.check_response(schema, json.dumps({"v": "ab" * count})) for count in (500, 501)]
    assert codes == [None, "BAD_PATTERN"]

"""The tests of a text: the formats that are checked, and patterns."""

from __future__ import annotations

from collections.abc import Mapping

from sqlenrich.schema.checks.ir import Length, NoDate, NoMatch, Not, Ref, Test, conjunction, disjunction, has_type
from sqlenrich.schema.checks.patterns import longest_text

NUMBER_TEXT = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"
INTEGER_TEXT = r"^-?(?:0|[1-9][0-9]*)(?:\.0+)?$"
_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_DATE = _YEAR + r"-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_OFFSET = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_COLUMN_OFFSET = r"(?:[Zz]|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))"
"""BigQuery reads no offset of more than 14 hours, and no place on earth has one."""
_EDGE = r"^(?:0001|9999)-.*[+-][0-9]{2}:[0-9]{2}$"
"""Moments that may be outside the years 1 to 9999 in UTC, which no column of BigQuery holds."""
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_URI_CHARS = r"[A-Za-z0-9._~:/?@!$&'()*+,;=\[\]%-]*"
_BAD_ESCAPE = "%(?:[^0-9A-Fa-f]|[0-9A-Fa-f][^0-9A-Fa-f]|[0-9A-Fa-f]?$)"
FORMAT_PATTERNS: Mapping[str, str] = {
    "date": f"^{_DATE}$",
    "date-time": f"^{_DATE}[Tt]{_CLOCK}{_COLUMN_OFFSET}$",
    "time": f"^{_CLOCK}{_OFFSET}$",
    "email": rf"^[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*$",
    "uuid": "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$",
    "uri": rf"^[A-Za-z][A-Za-z0-9+.-]*:{_URI_CHARS}(?:#{_URI_CHARS})?$",
}
"""RFC 3339 (a leap second is refused: no column holds one), the e-mail addresses of HTML, RFC 9562, RFC 3986."""


def format_tests(name: str, ref: Ref) -> list[Test]:
    """Return the tests, each of which is true for a text that is not of this format."""
    tests: list[Test] = [no_match(ref, FORMAT_PATTERNS[name])]
    if name in ("date", "date-time"):
        tests.append(NoDate(ref))
    if name == "date-time":
        tests.append(matches(ref, _EDGE))
    if name == "uri":
        tests.append(matches(ref, _BAD_ESCAPE))
    return tests


def matches(ref: Ref, pattern: str) -> Test:
    """Return the test that a text has a match of a pattern, which repeats no group."""
    return conjunction(has_type(ref, ("string",)), Not(NoMatch(ref, pattern)))


def no_match(ref: Ref, pattern: str) -> Test:
    """Return the test that a text has no match; a text above :func:`~.patterns.longest_text` has none.

    Java's regular expressions recurse at each repeat of a group: a long text would end the query.
    """
    longest = longest_text(pattern)
    if longest is None:
        return NoMatch(ref, pattern)
    return disjunction([Length(ref, "text", ">", longest), NoMatch(ref, pattern)])

"""What a text must be: the formats that are checked, and patterns over texts of any length."""

from __future__ import annotations

from collections.abc import Mapping

from sqlenrich.schema.checks.combine import all_of, any_of, is_
from sqlenrich.schema.checks.ir import Length, NoDate, NoMatch, Not, Ref, Test
from sqlenrich.schema.checks.patterns import longest_text

NUMBER_TEXT = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"
INTEGER_TEXT = r"^-?(?:0|[1-9][0-9]*)(?:\.0+)?$"
_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_DATE = _YEAR + r"-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_OFFSET = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_COLUMN_OFFSET = r"(?:[Zz]|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))"
"""BigQuery reads no moment further than 14 hours from UTC, as no place on earth is."""
_EDGE = r"^(?:0001|9999)-.*[+-][0-9]{2}:[0-9]{2}$"
"""Moments that may lie beyond the years 1 to 9999 in UTC: no column of BigQuery holds those."""
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
    """Give what shows that a text is not of this format."""
    tests: list[Test] = [no_match(ref, FORMAT_PATTERNS[name])]
    if name in ("date", "date-time"):
        tests.append(NoDate(ref))
    if name == "date-time":
        tests.append(matches(ref, _EDGE))
    if name == "uri":
        tests.append(matches(ref, _BAD_ESCAPE))
    return tests


def matches(ref: Ref, pattern: str) -> Test:
    """The text has a match of a pattern that repeats no group."""
    return all_of(is_(ref, ("string",)), Not(NoMatch(ref, pattern)))


def no_match(ref: Ref, pattern: str) -> Test:
    """The text has no match; a long one has none where a group repeats (:func:`~.pattern.longest_text`).

    Java's regular expressions call themselves at each repeat of a group: a long text would end the query.
    """
    longest = longest_text(pattern)
    if longest is None:
        return NoMatch(ref, pattern)
    return any_of([Length(ref, "text", ">", longest), NoMatch(ref, pattern)])

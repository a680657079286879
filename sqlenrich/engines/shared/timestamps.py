"""Timestamps in texts. The engines' own casts differ: some drop an offset, some take the session's time zone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlenrich.core.json_functions import BEYOND_MICROSECONDS
from sqlenrich.core.sql import Sql, case, func, literal
from sqlenrich.core.text_functions import INSTANT, LOCAL_TIME, Binary, Unary

_MINUTES = "([T ][0-9]{2}:[0-9]{2})$"
_ZULU = " ?(Z|UTC)$"
_HOURS = "([+-][0-9]{2})$"
_OFFSET = " ?([+-][0-9]{2}):?([0-9]{2})$"


@dataclass(frozen=True)
class TextTimes:
    """What an engine gives to read a timestamp from a text."""

    matches: Binary
    """``(text, pattern)``."""
    group: Callable[[int], str]
    """The reference to a group in the replacement of REGEXP_REPLACE."""
    local: Unary
    """A cast of ``2026-01-31 09:05:07.123456`` to a local time; NULL where it is none."""
    instant: Unary
    """A cast of ``2026-01-31 09:05:07.123456+02:00`` to an instant; NULL where it is none."""
    at_zone: Binary

    def read(self, text: Sql, zone: Sql) -> Sql:
        """Return the function ``time_of_text`` of the contract."""
        micros = self._replaced(text, BEYOND_MICROSECONDS, self.group(1))
        local = self._replaced(micros.copy(), _MINUTES, self.group(1) + ":00")
        offset = self._replaced(micros, _ZULU, "+00:00")
        offset = self._replaced(offset, _HOURS, self.group(1) + ":00")
        offset = self._replaced(offset, _OFFSET, f"{self.group(1)}:{self.group(2)}")
        return case(
            (self.matches(text.copy(), literal(LOCAL_TIME)), self.local(local)),
            (self.matches(text.copy(), literal(INSTANT)), self.at_zone(self.instant(offset), zone)),
        )

    def _replaced(self, text: Sql, pattern: str, replacement: str) -> Sql:
        return func("REGEXP_REPLACE", text, literal(pattern), literal(replacement))

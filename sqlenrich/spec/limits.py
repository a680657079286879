"""``max_input_tokens``: a longer request is never asked, or one column is cut at its end until it fits.

SQL and Python decide this with the same integers, before anything is paid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.tokens import BYTES_PER_TOKEN, estimate_tokens
from sqlenrich.core.turn import Turn, text_before
from sqlenrich.core.types import STRING
from sqlenrich.prompt.ir.nodes import Expr
from sqlenrich.prompt.layout import printed_columns
from sqlenrich.prompt.values.value import describe
from sqlenrich.schema.json_schema import hint_text

TOO_LONG, CUT = "_too_long", "_truncated"
_TRUNCATE = "truncate:"
WIDEST_CHARACTER = 4
"""The largest number of UTF-8 bytes of one character."""


@dataclass(frozen=True)
class Limit:
    """The maximum length of a request in estimated tokens, and the column that is cut in a longer one."""

    tokens: int
    beside: int
    """The tokens of what stands beside the prompt: the messages before it, and the output's schema in words. They count
    on every engine, whatever part of the schema a request has."""
    cut: str | None = None

    @property
    def bytes(self) -> int:
        """The maximum number of UTF-8 bytes of a prompt."""
        return BYTES_PER_TOKEN * (self.tokens - self.beside)

    @property
    def recorded(self) -> tuple[str, ...]:
        """The boolean columns that record a cut in each table of rows."""
        return () if self.cut is None else (CUT,)

    @property
    def detail(self) -> str:
        """The ``_error_detail`` of a row that is too long."""
        return f"longer than max_input_tokens {self.tokens}"


@dataclass(frozen=True)
class Fitted:
    """One row's prompt after the limit was applied."""

    prompt: str | None
    too_long: bool = False
    truncated: bool = False


def read_limit(
    header: Mapping[str, Any], schema: Mapping[str, Any] | None, turns: Sequence[Turn] = ()
) -> tuple[Limit | None, list[tuple[str, str]]]:
    """Return the limit of a header, and its problems, each with its key. ``schema`` is None for an embedding."""
    tokens, written = header.get("max_input_tokens"), header.get("on_overflow", "quarantine")
    if tokens is None:
        return None, [
            ("on_overflow needs max_input_tokens, e.g. 8000", "on_overflow")
        ] if "on_overflow" in header else []
    problems: list[tuple[str, str]] = []
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        problems.append((f"max_input_tokens must be an integer of at least 1, not {tokens!r}", "max_input_tokens"))
    cut = written.removeprefix(_TRUNCATE).strip() if isinstance(written, str) else ""
    if written != "quarantine" and (not cut or cut == written):
        problems.append((f"on_overflow must be quarantine or truncate:COLUMN, not {written!r}", "on_overflow"))
    if problems:
        return None, problems
    hint = 0 if schema is None else estimate_tokens(hint_text(schema))
    beside = hint + estimate_tokens(text_before(turns))
    limit = Limit(tokens, beside, None if written == "quarantine" else cut)
    if limit.bytes <= 0:
        message = (
            f"max_input_tokens {tokens} leaves nothing for a prompt: the output's schema "
            f"{'and the messages before it are' if text_before(turns) else 'alone is'} about {limit.beside}"
        )
        problems.append((message, "max_input_tokens"))
    return limit, problems


def cut_problem(name: str, prompt: Expr) -> str | None:
    """Return the reason why a column can't be cut to shorten a prompt, or None."""
    printed = dict(printed_columns(prompt))
    if name not in printed:
        return f'"{name}" can\'t be cut: the prompt does not print its text; it prints: {", ".join(printed) or "none"}'
    if printed[name] != STRING:
        return f'"{name}" can\'t be cut: it is {describe(printed[name])}, not text'
    return None


def fit(render: Callable[[Mapping[str, Any]], str | None], row: Mapping[str, Any], limit: Limit) -> Fitted:
    """Apply the limit to a row's prompt, as the SQL of every engine does. ``render`` gives None if it fails.

    The row has input: NO_INPUT is decided before.
    """
    prompt = render(row)
    if prompt is None or _size(prompt) <= limit.bytes:
        return Fitted(prompt)
    if limit.cut is not None and (text := row.get(limit.cut)):
        first = render({**row, limit.cut: text[0]})
        kept = text[: _kept(text, limit.bytes, _size(prompt), None if first is None else _size(first))]
        again = render({**row, limit.cut: kept}) if kept.strip(BLANK) else None
        if again is not None and _size(again) <= limit.bytes:
            return Fitted(again, truncated=True)
    return Fitted(prompt, too_long=True)


def _kept(text: str, limit: int, whole: int, least: int | None) -> int:
    """Return the number of characters of a text that stay.

    The prompt has ``whole`` bytes with the text, and ``least`` bytes with its first character alone. The difference
    grows with the text, or with its beginning if the template prints only a part of it.
    """
    first = _size(text[0])
    rest = _size(text) - first
    least = whole - rest if least is None else least
    room, grows = limit - least, max(rest, whole - least)
    if room < 0 or grows == 0:
        return 0
    count, most = 1 + (len(text) - 1) * room // grows, first + rest * room // grows
    if _size(text[:count]) <= most:
        return count
    # The text begins with its wider characters. Keep fewer: by the excess bytes, or as if all had the widest.
    return max(len(text) - (first + rest - most), 1 + (most - first) // WIDEST_CHARACTER)


def _size(text: str) -> int:
    return len(text.encode())

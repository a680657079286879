"""A prompt longer than its limit: never asked, or one column cut at its end until it fits. Decided before anything is
paid, by the same integers in SQL and in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from .engines.base import Engine, Sql, all_of, any_of, case, column, func, literal, wrapped
from .prompt.ir import Expr
from .prompt.layout import printed_columns
from .prompt.values import describe
from .request import hint_text
from .tokens import BYTES_PER_TOKEN, estimate_tokens
from .types import BIGINT, STRING

TOO_LONG, CUT = "_too_long", "_truncated"
RELATIONS = ("prompt_size", "prompt_start", "prompt_cut", "prompt_again", "prompt_fitted")
"""The names of the relations inside the step."""
_TRUNCATE = "truncate:"
_WIDEST = 4
"""The most bytes of one character in UTF-8."""


@dataclass(frozen=True)
class Limit:
    """How long a request may be, in tokens as they are estimated, and the column that is cut where it is longer."""

    tokens: int
    schema: int
    """The tokens of the output's schema in words, counted on every engine, whatever its vendor is told of it."""
    cut: str | None = None

    @property
    def bytes(self) -> int:
        """The most UTF-8 bytes of a prompt that fits."""
        return BYTES_PER_TOKEN * (self.tokens - self.schema)

    @property
    def recorded(self) -> tuple[str, ...]:
        """What is recorded beside each row, in all tables of rows: one boolean column where one is cut."""
        return () if self.cut is None else (CUT,)

    @property
    def detail(self) -> str:
        """What is wrong with a row that is not asked."""
        return f"longer than max_input_tokens {self.tokens}"


@dataclass(frozen=True)
class Fitted:
    """What becomes of one row's prompt."""

    prompt: str | None
    too_long: bool = False
    truncated: bool = False


def read_limit(header: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[Limit | None, list[tuple[str, str]]]:
    """Give the limit that a header sets, and its problems, each with its key."""
    tokens, written = header.get("max_input_tokens"), header.get("on_overflow", "quarantine")
    if tokens is None:
        return None, [("on_overflow needs max_input_tokens", "on_overflow")] if "on_overflow" in header else []
    problems: list[tuple[str, str]] = []
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        problems.append((f"max_input_tokens is an integer of at least 1, not {tokens!r}", "max_input_tokens"))
    cut = written.removeprefix(_TRUNCATE).strip() if isinstance(written, str) else ""
    if written != "quarantine" and (not cut or cut == written):
        problems.append((f"on_overflow is quarantine or truncate:COLUMN, not {written!r}", "on_overflow"))
    if problems:
        return None, problems
    limit = Limit(tokens, estimate_tokens(hint_text(schema)), None if written == "quarantine" else cut)
    if limit.bytes <= 0:
        message = (
            f"max_input_tokens {tokens} leaves nothing for a prompt: the output's schema alone is about {limit.schema}"
        )
        problems.append((message, "max_input_tokens"))
    return limit, problems


def cut_problem(name: str, prompt: Expr) -> str | None:
    """Give why a column can't be cut to shorten a prompt; None where it can."""
    printed = dict(printed_columns(prompt))
    if name not in printed:
        return f'"{name}" can\'t be cut: the prompt does not print its text; it prints: {", ".join(printed) or "none"}'
    if printed[name] != STRING:
        return f'"{name}" can\'t be cut: it is {describe(printed[name])}, no text'
    return None


def fit(render: Callable[[Mapping[str, Any]], str | None], row: Mapping[str, Any], limit: Limit) -> Fitted:
    """Give what becomes of a row's prompt, as the SQL of every engine does. ``render`` gives None where it fails.

    Whether the row has anything to ask about (NO_INPUT) is decided before.
    """
    prompt = render(row)
    over = len(prompt.encode()) - limit.bytes if prompt is not None else 0
    if over <= 0:
        return Fitted(prompt)
    text = row.get(limit.cut) if limit.cut is not None else None
    if text is not None and (kept := text[: _kept(text, over)]):
        again = render({**row, str(limit.cut): kept})
        if again is not None and len(again.encode()) <= limit.bytes:
            return Fitted(again, truncated=True)
    return Fitted(prompt, too_long=True)


def _kept(text: str, over: int) -> int:
    """How many characters stay where so many bytes must go: their share, or, where that is too long, what must fit."""
    size = len(text.encode())
    if size <= over:
        return 0
    share = len(text) * (size - over) // size
    if len(text[:share].encode()) <= size - over:
        return share
    return max(len(text) - over, (size - over) // _WIDEST)


@dataclass(frozen=True)
class FittedSql:
    """The relations behind the one that renders the prompts, up to that which holds what becomes of each."""

    engine: Engine
    limit: Limit
    free: Callable[[str], str]
    """Gives a name that no column of the results has."""

    def col(self, name: str) -> exp.Column:
        """Give a reference to a column of ours."""
        return column(self.engine, name if name in ("prompt", "_no_input") else self.free(name))

    def named(self, value: Sql, name: str) -> Sql:
        """Give a value under a name of ours."""
        return exp.alias_(value, column(self.engine, self.free(name)).this, copy=False)

    def bytes(self, text: Sql) -> Sql:
        """Give how many UTF-8 bytes a text has."""
        return self.engine.text["bytes"](text)

    def relations(
        self, rendered: exp.Select, columns: Mapping[str, Sql], render: Callable[[Callable[[str], Sql]], Sql]
    ) -> Iterator[tuple[str, exp.Select]]:
        """Give each relation after ``rendered``, which has ``prompt`` and ``_no_input``, with its name.

        ``columns`` are those that the template reads; ``render`` gives the prompt from the SQL of each. The last
        relation has TOO_LONG, and with a column to cut CUT; neither is ever NULL.
        """
        col, limit = self.col, self.limit
        asked = exp.Not(this=col("_no_input"))
        if limit.cut is None:
            fits_not = exp.GT(this=self.bytes(col("prompt")), expression=literal(limit.bytes))
            too_long = all_of(asked, exp.Coalesce(this=fits_not, expressions=[literal(False)]))
            yield RELATIONS[-1], self.more("rendered", **{TOO_LONG: too_long})
            return
        inner = {name: f"_in{number}" for number, name in enumerate(columns, start=1)}
        for name, value in columns.items():
            rendered.select(self.named(value, inner[name]), copy=False)
        text, over, size = col(inner[limit.cut]), col("_over"), col("_bytes")
        room = exp.paren(exp.Sub(this=size.copy(), expression=over.copy()))
        over_by = exp.Sub(this=self.bytes(col("prompt")), expression=literal(limit.bytes))
        yield (
            RELATIONS[0],
            self.more(
                "rendered",
                _over=case((asked, over_by)),
                _bytes=func("NULLIF", self.bytes(text), literal(0)),
                _chars=exp.Cast(this=self.engine.text["length"](text.copy()), to=self.engine.sql_type(BIGINT)),
            ),
        )
        share = self.engine.text["divide_whole"](exp.Mul(this=col("_chars"), expression=room.copy()), size.copy())
        is_over = exp.GT(this=over.copy(), expression=literal(0))
        has_room = exp.GT(this=size.copy(), expression=over.copy())
        yield RELATIONS[1], self.more(RELATIONS[0], _start=case((all_of(is_over, has_room), self.start(text, share))))
        start = col("_start")
        safe = self.engine.text["greatest"](
            exp.Sub(this=col("_chars"), expression=over.copy()),
            self.engine.text["divide_whole"](room.copy(), literal(_WIDEST)),
        )
        cut = case(
            (exp.LTE(this=self.bytes(start), expression=wrapped(room)), func("NULLIF", start.copy(), literal(""))),
            (
                exp.Not(this=exp.Is(this=start.copy(), expression=exp.Null())),
                func("NULLIF", self.start(text, safe), literal("")),
            ),
        )
        yield RELATIONS[2], self.more(RELATIONS[1], _cut=cut)
        is_cut = exp.Not(this=exp.Is(this=col("_cut"), expression=exp.Null()))
        again = render(lambda name: col("_cut" if name == limit.cut else inner[name]))
        yield RELATIONS[3], self.more(RELATIONS[2], _again=case((is_cut, again)))
        small = exp.LTE(this=self.bytes(col("_again")), expression=literal(limit.bytes))
        fits = exp.Coalesce(this=small, expressions=[literal(False)])
        sent = case((fits.copy(), col("_again")), default=col("prompt"))
        yield RELATIONS[4], self.more(RELATIONS[3], **{CUT: fits, TOO_LONG: self.still_over(fits), "_sent": sent})

    def prompt(self) -> Sql:
        """Give the prompt to be asked or shown, from the last relation."""
        return self.col("prompt" if self.limit.cut is None else "_sent")

    def not_asked(self) -> Sql:
        """Give whether a row is not asked, from the last relation."""
        return exp.paren(any_of(self.col("_no_input"), self.col(TOO_LONG)))

    def still_over(self, fits: Sql) -> Sql:
        """Give whether a prompt is longer than the limit, and stays so."""
        over = exp.GT(this=self.col("_over"), expression=literal(0))
        return all_of(exp.Coalesce(this=over, expressions=[literal(False)]), exp.Not(this=fits.copy()))

    def start(self, text: Sql, count: Sql) -> Sql:
        """Give the first characters of a text."""
        return self.engine.text["substr"](text.copy(), literal(1), count)

    def more(self, relation: str, **values: Sql) -> exp.Select:
        """Give a relation with further columns."""
        named = (self.named(value, name) for name, value in values.items())
        return exp.select(exp.Star(), *named, copy=False).from_(exp.to_table(relation), copy=False)

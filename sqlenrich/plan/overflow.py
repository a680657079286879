"""Prompts over the token limit: they are refused, or one column is truncated until the prompt fits.

The decision precedes all calls. SQL and Python take it by the same integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import column
from sqlenrich.core.sql import Sql, all_of, any_of, case, func, is_blank, literal
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.types import BIGINT
from sqlenrich.spec.limits import CUT, TOO_LONG, WIDEST_CHARACTER, Limit

CTE_NAMES = (
    "prompt_first", "prompt_least", "prompt_room", "prompt_start", "prompt_cut", "prompt_again", "prompt_fitted",
)  # fmt: skip
"""The names of the common table expressions inside the step."""


@dataclass(frozen=True)
class OverflowSql:
    """The common table expressions that follow ``rendered`` and apply the limit to each prompt."""

    engine: Engine
    limit: Limit
    unused_name: Callable[[str], str]
    """Gives a name that no column of the result tables has."""

    def col(self, name: str) -> exp.Column:
        """Return a reference to an internal column."""
        return column(self.engine, name if name in ("prompt", "_no_input") else self.unused_name(name))

    def named(self, value: Sql, name: str) -> Sql:
        """Return a value as an internal column."""
        return exp.alias_(value, column(self.engine, self.unused_name(name)).this, copy=False)

    def bytes(self, text: Sql) -> Sql:
        """Return the length of a text in UTF-8 bytes."""
        return self.engine.text.bytes(text)

    def expressions(
        self, rendered: exp.Select, columns: Mapping[str, Sql], render: Callable[[Callable[[str], Sql]], Sql]
    ) -> Iterator[tuple[str, exp.Select]]:
        """Return the name and the SELECT of each expression after ``rendered``, which has ``prompt`` and ``_no_input``.

        ``columns`` are those that the template reads; ``render`` gives the prompt from the SQL of each column. The
        last expression has the column TOO_LONG, and CUT where a column may be truncated. Neither is ever NULL.
        """
        col, limit = self.col, self.limit
        asked = exp.Not(this=col("_no_input"))
        if limit.cut is None:
            fits_not = exp.GT(this=self.bytes(col("prompt")), expression=literal(limit.bytes))
            too_long = all_of(asked, exp.Coalesce(this=fits_not, expressions=[literal(False)]))
            yield CTE_NAMES[-1], self.extended("rendered", **{TOO_LONG: too_long})
            return
        inner = {name: f"_in{number}" for number, name in enumerate(columns, start=1)}
        for name, value in columns.items():
            rendered.select(self.named(value, inner[name]), copy=False)

        def again(text: str) -> Sql:
            return render(lambda name: col(text if name == limit.cut else inner[name]))

        text, whole = col(inner[limit.cut]), self.bytes(col("prompt"))
        over = all_of(asked, exp.GT(this=whole.copy(), expression=literal(limit.bytes)))
        first = case((over, func("NULLIF", self.prefix(text, literal(1)), literal(""))))
        yield CTE_NAMES[0], self.extended("rendered", _first=first)
        rest = exp.Sub(this=self.bytes(text.copy()), expression=self.bytes(col("_first")))
        least = func("COALESCE", self.bytes(again("_first")), exp.Sub(this=whole, expression=exp.paren(rest)))
        counts = {
            "_least": case((is_not_null(col("_first")), least)),
            "_rest": self.bigint(rest.copy()),
            "_chars": self.bigint(self.engine.text.length(text.copy())),
        }
        yield CTE_NAMES[1], self.extended(CTE_NAMES[0], **counts)
        grown = self.engine.text.greatest(col("_rest"), exp.Sub(this=whole.copy(), expression=col("_least")))
        room = exp.Sub(this=literal(limit.bytes), expression=col("_least"))
        yield CTE_NAMES[2], self.extended(CTE_NAMES[1], _room=room, _grows=func("NULLIF", grown, literal(0)))
        others = exp.paren(exp.Sub(this=col("_chars"), expression=literal(1)))
        start = self.prefix(text, exp.Add(this=literal(1), expression=self.share(others)))
        has_room = exp.GTE(this=col("_room"), expression=literal(0))
        yield CTE_NAMES[3], self.extended(CTE_NAMES[2], _start=case((has_room, start)), _most=self.share(col("_rest")))
        gone = exp.paren(exp.Sub(this=col("_rest"), expression=col("_most")))
        widest = self.engine.text.divide_whole(col("_most"), literal(WIDEST_CHARACTER))
        fewer = self.engine.text.greatest(
            exp.Sub(this=col("_chars"), expression=gone), exp.Add(this=literal(1), expression=widest)
        )
        most = exp.Add(this=self.bytes(col("_first")), expression=col("_most"))
        cut = case(
            (exp.LTE(this=self.bytes(col("_start")), expression=most), col("_start")),
            (is_not_null(col("_start")), self.prefix(text, fewer)),
        )
        yield CTE_NAMES[4], self.extended(CTE_NAMES[3], _cut=cut)
        asks = exp.Not(this=is_blank(self.engine.text.trim(col("_cut"), literal(BLANK))))
        yield CTE_NAMES[5], self.extended(CTE_NAMES[4], _again=case((asks, again("_cut"))))
        small = exp.LTE(this=self.bytes(col("_again")), expression=literal(limit.bytes))
        fits = exp.Coalesce(this=small, expressions=[literal(False)])
        too_long = all_of(exp.Coalesce(this=over.copy(), expressions=[literal(False)]), exp.Not(this=fits.copy()))
        sent = case((fits.copy(), col("_again")), default=col("prompt"))
        yield CTE_NAMES[6], self.extended(CTE_NAMES[5], **{CUT: fits, TOO_LONG: too_long, "_sent": sent})

    def prompt(self) -> Sql:
        """Return the prompt to send or to show, from the last expression."""
        return self.col("prompt" if self.limit.cut is None else "_sent")

    def not_asked(self) -> Sql:
        """Return the test that a row is not asked, from the last expression."""
        return exp.paren(any_of(self.col("_no_input"), self.col(TOO_LONG)))

    def bigint(self, number: Sql) -> Sql:
        """Cast a number to 64 bits, so that no product overflows."""
        return exp.Cast(this=number, to=self.engine.sql_type(BIGINT))

    def share(self, number: Sql) -> Sql:
        """Scale a number by the share of the growth that fits, rounded down."""
        product = exp.Mul(this=number, expression=self.col("_room"))
        return self.engine.text.divide_whole(product, self.col("_grows"))

    def prefix(self, text: Sql, count: Sql) -> Sql:
        """Return the first ``count`` characters of a text."""
        return self.engine.text.substr(text.copy(), literal(1), count)

    def extended(self, relation: str, **values: Sql) -> exp.Select:
        """Return a SELECT of a relation with additional columns."""
        named = (self.named(value, name) for name, value in values.items())
        return exp.select(exp.Star(), *named, copy=False).from_(exp.to_table(relation), copy=False)


def is_not_null(value: Sql) -> Sql:
    """Return the test that a value is not NULL."""
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))

"""What is to be asked: by a run the requests without an answer, by a retry chosen refused rows once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.sql import Sql, all_of, any_of, case, concat, literal
from sqlenrich.plan.references import References
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.schema import CODES

NOT_TO_ASK = {
    "NO_INPUT": "these rows have nothing to ask: fill the required columns, then run again",
    "BAD_PROMPT": "the template fails for these rows, or they are too long: correct it or the data, then run again",
    "NOT_ASKED": "these rows were never asked: run again, that asks them",
}
"""The reasons of rows that a retry can't mend, and what does."""
REASONS = tuple(code for code in CODES if code not in NOT_TO_ASK)
"""The reasons that a retry asks again by default."""
NO_FEEDBACK = ("CALL_ERROR", "NO_RESPONSE", "TRUNCATED", "REFUSED")
"""No checked answer stands behind these: telling the model about it would only confuse."""
FEEDBACK = ("\n\nYour last answer was refused: ", ". Answer again, with one JSON object that fits.")
MOST_DOUBLINGS = 3


@dataclass(frozen=True)
class Pass:
    """One call of a retry: the rows it asks, and the model with the parameters that are constants of the call."""

    model: ResolvedModel
    reasons: tuple[str, ...]
    max_attempts: int
    doublings: int = 0
    """Only rows that had so many attempts (or at least MOST_DOUBLINGS), since each doubles the limit; 0: all rows."""

    @property
    def what(self) -> str:
        """What is asked, in words."""
        larger = f"what was truncated, with {2**self.doublings} times the limit"
        return larger if self.doublings else "what is to be asked again, each distinct request once"


def chosen_reasons(written: Sequence[str] | None) -> tuple[str, ...]:
    """Give the reasons to ask again, by default all that can be. Raises ConfigError for one that can't."""
    written = [written] if isinstance(written, str) else written
    for code in written or ():
        if code in NOT_TO_ASK:
            raise ConfigError(f"{code} can't be retried: {NOT_TO_ASK[code]}")
        if code not in REASONS:
            raise ConfigError(f'no reason "{code}"{did_you_mean(code, REASONS)}; there are: {", ".join(REASONS)}')
    return tuple(code for code in REASONS if not written or code in written)


def checked_attempts(count: int) -> int:
    """Give a number of attempts that makes sense. Raises ConfigError."""
    if count < 1:
        raise ConfigError(f"max_attempts is at least 1, not {count}")
    return count


def passes(
    engine: Engine, model: ResolvedModel, reasons: tuple[str, ...], attempts: int, *, reports_finish: bool
) -> list[Pass]:
    """Give the calls of a retry: one, and one for each larger limit of truncated answers.

    ``reports_finish``: the engine reports that an answer was cut. Where no limit is set there is none to raise.
    """
    name = engine.params_of(model.name).get("max_tokens")
    limit = model.params.get(name) if name is not None else None
    if "TRUNCATED" not in reasons or not reports_finish or name is None or not isinstance(limit, int):
        return [Pass(model, reasons, attempts)]
    rest = tuple(code for code in reasons if code != "TRUNCATED")
    larger = [
        Pass(replace(model, params={**model.params, name: limit * 2**n}), ("TRUNCATED",), attempts, n)
        for n in range(1, min(MOST_DOUBLINGS, attempts - 1) + 1)
    ]
    return [*([Pass(model, rest, attempts)] if rest else []), *larger]


def feedback_text(code: str, detail: str | None) -> str:
    """Give what follows the prompt where the last answer was refused: static words of the checks, nothing of it."""
    if code in NO_FEEDBACK:
        return ""
    return FEEDBACK[0] + code + (f" {detail}" if detail is not None else "") + FEEDBACK[1]


def refused(names: References, chosen: Pass, constant: str, *, feedback: bool) -> exp.Select:
    """What a retry asks: each distinct request that is refused for one of some reasons and has attempts left.

    ``constant`` stands before what is sent in its ``sent_hash``.
    """
    col, named = names.col, names.named
    error, attempts, prompt = col("_error"), col("_attempts"), col("prompt")
    sent: Sql = prompt
    if feedback and (told := [code for code in chosen.reasons if code not in NO_FEEDBACK]):
        detail = exp.Coalesce(this=concat(literal(" "), col("_error_detail")), expressions=[literal("")])
        message = concat(prompt.copy(), literal(FEEDBACK[0]), error.copy(), detail, literal(FEEDBACK[1]))
        sent = case((_one_of(error, told), message), default=prompt.copy())
    conditions: list[Sql] = [
        _one_of(error, chosen.reasons),
        exp.LT(this=attempts.copy(), expression=literal(chosen.max_attempts)),
    ]
    if chosen.doublings:
        same = exp.GTE if chosen.doublings == MOST_DOUBLINGS else exp.EQ
        conditions.append(same(this=attempts.copy(), expression=literal(chosen.doublings)))
    rows = (
        exp.select(
            col("request_hash"),
            named(exp.Add(this=attempts.copy(), expression=literal(1)), "attempt"),
            named(sent, "prompt"),
            copy=False,
        )
        .from_(names.table("checked"), copy=False)
        .where(*conditions, copy=False)
    )
    sent_hash = names.engine.sha256(concat(literal(constant), col("prompt")))
    return (
        exp.select(
            *(col(name) for name in ("request_hash", "attempt", "prompt")), named(sent_hash, "sent_hash"), copy=False
        )
        .distinct(copy=False)
        .from_(exp.to_table("refused"), copy=False)
        .with_("refused", as_=rows, copy=False)
    )


def _one_of(value: Sql, codes: Sequence[str]) -> Sql:
    return exp.In(this=value.copy(), expressions=[literal(code) for code in codes])


def unanswered(names: References, max_attempts: int, shard: tuple[int, int] | None = None) -> exp.Select:
    """What a run asks: each distinct hash that has no answer, or whose latest attempt may be tried again."""
    col, named = names.col, names.named
    retried = case((col("retryable"), literal(0)), default=col("attempt"))
    asked = (
        exp.select(
            col("request_hash"),
            named(exp.Max(this=col("attempt")), "attempt"),
            named(exp.Max(this=retried), "settled"),
            copy=False,
        )
        .from_(names.table("responses"), copy=False)
        .group_by(col("request_hash"), copy=False)
    )
    attempt = col("attempt", "asked")
    tries_left = all_of(
        exp.LT(this=col("settled", "asked"), expression=attempt.copy()),
        exp.LT(this=attempt.copy(), expression=literal(max_attempts)),
    )
    open_ = exp.paren(any_of(exp.Is(this=attempt.copy(), expression=exp.Null()), tries_left), copy=False)
    hash_ = col("request_hash", "p")
    conditions: list[Sql] = [exp.Not(this=exp.Is(this=hash_.copy(), expression=exp.Null())), open_]
    if shard is not None:
        conditions += _shard_range(hash_, *shard)
    first = exp.Add(this=exp.Coalesce(this=attempt, expressions=[literal(0)]), expression=literal(1))
    return (
        exp.select(hash_.copy(), named(first, "attempt"), col("prompt", "p"), copy=False)
        .distinct(copy=False)
        .from_(names.table("prompts", "p"), copy=False)
        .join(
            exp.to_table("asked"),
            on=exp.EQ(this=col("request_hash", "asked"), expression=hash_.copy()),
            join_type="LEFT",
            copy=False,
        )
        .where(*conditions, copy=False)
        .with_("asked", as_=asked, copy=False)
    )


def _shard_range(hash_: Sql, index: int, count: int) -> list[Sql]:
    if not 1 <= index <= count <= 65_536:
        raise ConfigError(f"shard {index} of {count}: write i of n with 1 <= i <= n <= 65536")
    low, high = (index - 1) * 2**32 // count, index * 2**32 // count
    tests: list[Sql] = []
    if index > 1:
        tests.append(exp.GTE(this=hash_.copy(), expression=literal(f"{low:08x}")))
    if index < count:
        tests.append(exp.LT(this=hash_.copy(), expression=literal(f"{high:08x}")))
    return tests

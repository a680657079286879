"""The pending requests: of a run those without an answer, of a retry those of refused rows, or of chosen ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.sql import Sql, all_of, any_of, case, concat, literal
from sqlenrich.plan.references import References
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.schema import CODES
from sqlenrich.spec.enrichment import Enrichment

NOT_RETRIABLE = {
    "NO_INPUT": "these rows have nothing to ask: fill the required columns, then run again",
    "BAD_PROMPT": "the template fails for these rows, or they are too long: correct it or the data, then run again",
    "NOT_ASKED": "these rows were never asked: run again, that asks them",
}
"""The error codes that a retry can't correct, and what does."""
RETRIABLE_REASONS = tuple(code for code in CODES if code not in NOT_RETRIABLE)
"""The error codes that a retry can ask again."""
ONLY_IF_NAMED = ("UNREADABLE",)
"""Those that it asks again only where they are named: such an answer is stored, and a mended fact reads it."""
NO_FEEDBACK = ("CALL_ERROR", "UNREADABLE", "NO_RESPONSE", "TRUNCATED", "REFUSED")
"""Error codes of rows without a complete answer. Feedback about them would not help the model."""
FEEDBACK = ("\n\nYour last answer was refused: ", ". Answer again, with one JSON object that fits.")
MAX_DOUBLINGS = 3


@dataclass(frozen=True)
class RetrySelection:
    """The rows of one call of a retry, and its model and parameters, which are constant in a call."""

    model: ResolvedModel
    reasons: tuple[str, ...]
    max_attempts: int
    doublings: int = 0
    """How often the token limit is doubled: once for each attempt of a row, at most MAX_DOUBLINGS times.

    Only rows with this number of attempts are asked; with 0 all rows, and the limit is as written.
    """

    @property
    def what(self) -> str:
        """A description of the requests."""
        larger = f"what was truncated, with {2**self.doublings} times the limit"
        return larger if self.doublings else "what is to be asked again, each distinct request once"


def chosen_reasons(written: Sequence[str] | None) -> tuple[str, ...]:
    """Return the error codes to retry, by default all that a retry can help. Raises ConfigError for any other."""
    written = [written] if isinstance(written, str) else written
    for code in written or ():
        if code in NOT_RETRIABLE:
            raise ConfigError(f"{code} can't be retried: {NOT_RETRIABLE[code]}")
        if code not in RETRIABLE_REASONS:
            raise ConfigError(
                f'no reason "{code}"{did_you_mean(code, RETRIABLE_REASONS)}; there are: {", ".join(RETRIABLE_REASONS)}'
            )
    return tuple(
        code for code in RETRIABLE_REASONS if code in (written or ()) or not (written or code in ONLY_IF_NAMED)
    )


def check_keeps_prompts(enrichment: Enrichment) -> None:
    """Refuse a retry of an enrichment that keeps no prompts. Raises ConfigError."""
    if not enrichment.keep_prompts:
        raise ConfigError(
            f"{enrichment.place}: keep_prompts: false leaves no prompt to ask again; run it once with "
            "keep_prompts: true (stored answers are not paid again), then retry"
        )


def validated_attempts(count: int) -> int:
    """Return a number of attempts. Raises ConfigError for one below 1."""
    if count < 1:
        raise ConfigError(f"max_attempts is at least 1, not {count}")
    return count


def retry_selections(
    engine: Engine, model: ResolvedModel, reasons: tuple[str, ...], attempts: int, *, reports_finish: bool
) -> list[RetrySelection]:
    """Return the calls of a retry: one, and one more for each larger limit of truncated answers.

    ``reports_finish`` tells whether the engine reports truncation. Without it, or without a limit, there is one call.
    Without reasons there is none.
    """
    if not reasons:
        return []
    name = engine.params_of(model.name).get("max_tokens")
    limit = model.params.get(name) if name is not None else None
    if "TRUNCATED" not in reasons or not reports_finish or name is None or not isinstance(limit, int):
        return [RetrySelection(model, reasons, attempts)]
    rest = tuple(code for code in reasons if code != "TRUNCATED")
    larger = [
        RetrySelection(replace(model, params={**model.params, name: limit * 2**n}), ("TRUNCATED",), attempts, n)
        for n in range(1, min(MAX_DOUBLINGS, attempts - 1) + 1)
    ]
    return [*([RetrySelection(model, rest, attempts)] if rest else []), *larger]


def feedback_text(code: str, detail: str | None) -> str:
    """Return the text appended to a refused answer's prompt: words of the checks, no part of the answer."""
    if code in NO_FEEDBACK:
        return ""
    return FEEDBACK[0] + code + (f" {detail}" if detail is not None else "") + FEEDBACK[1]


def refused(names: References, selection: RetrySelection, constant: str, *, feedback: bool) -> exp.Select:
    """Return the SELECT of a retry's requests: distinct, refused for a selected reason, with attempts left.

    ``constant`` precedes the sent text in its ``sent_hash``.
    """
    col, named = names.col, names.named
    error, attempts, prompt = col("_error"), col("_attempts"), col("prompt")
    sent: Sql = prompt
    if feedback and (with_feedback := [code for code in selection.reasons if code not in NO_FEEDBACK]):
        detail = exp.Coalesce(this=concat(literal(" "), col("_error_detail")), expressions=[literal("")])
        message = concat(prompt.copy(), literal(FEEDBACK[0]), error.copy(), detail, literal(FEEDBACK[1]))
        sent = case((_one_of(error, with_feedback), message), default=prompt.copy())
    conditions: list[Sql] = [
        _one_of(error, selection.reasons),
        exp.LT(this=attempts.copy(), expression=literal(selection.max_attempts)),
    ]
    if selection.doublings:
        same = exp.GTE if selection.doublings == MAX_DOUBLINGS else exp.EQ
        conditions.append(same(this=attempts.copy(), expression=literal(selection.doublings)))
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
    return _further_requests(names, {"refused": rows}, constant)


def once_a_model(names: References, model: str, where: Sql, constant: str, max_attempts: int) -> exp.Select:
    """Return the SELECT of the requests of the rows of ``checked`` that meet a condition, each once of a model.

    A request that the model has answered, whatever the verdict, is not asked, nor one whose calls failed
    ``max_attempts`` times. ``constant`` precedes the prompt in its ``sent_hash``.
    """
    col, named = names.col, names.named
    settled = case((col("retryable"), literal(0)), default=literal(1))
    answered = (
        exp.select(named(col("request_hash"), "answered_hash"), copy=False)
        .from_(names.table("responses"), copy=False)
        .where(exp.EQ(this=col("model"), expression=literal(model)), names.asked(), copy=False)
        .group_by(col("request_hash"), copy=False)
        .having(
            any_of(
                exp.EQ(this=exp.Max(this=settled), expression=literal(1)),
                exp.GTE(this=exp.Count(this=exp.Star()), expression=literal(max_attempts)),
            ),
            copy=False,
        )
    )
    hash_ = col("request_hash")
    # An accepted row of ``checked`` has no prompt.
    asked = (
        exp.select(
            named(col("request_hash"), "asked_hash"), named(exp.Max(this=col("prompt")), "asked_prompt"), copy=False
        )
        .from_(names.table("prompts"), copy=False)
        .group_by(col("request_hash"), copy=False)
    )
    rows = (
        exp.select(
            hash_.copy(),
            named(exp.Add(this=col("_attempts"), expression=literal(1)), "attempt"),
            named(col("asked_prompt"), "prompt"),
            copy=False,
        )
        .from_(names.table("checked"), copy=False)
        .join(
            exp.to_table("asked"),
            on=exp.EQ(this=col("asked_hash"), expression=hash_.copy()),
            copy=False,
        )
        .join(
            exp.to_table("answered"),
            on=exp.EQ(this=col("answered_hash"), expression=hash_.copy()),
            join_type="LEFT",
            copy=False,
        )
        .where(
            exp.Not(this=exp.Is(this=col("asked_prompt"), expression=exp.Null())),
            exp.Is(this=col("answered_hash"), expression=exp.Null()),
            exp.paren(where, copy=False),
            copy=False,
        )
    )
    return _further_requests(names, {"answered": answered, "asked": asked, "chosen": rows}, constant)


def _further_requests(names: References, queries: Mapping[str, exp.Select], constant: str) -> exp.Select:
    """Return the SELECT of the distinct requests of the last of some queries, with the hash of what is sent."""
    col = names.col
    sent_hash = names.engine.sha256(concat(literal(constant), col("prompt")))
    facts = (*(col(name) for name in ("request_hash", "attempt", "prompt")), names.named(sent_hash, "sent_hash"))
    found = exp.select(*facts, copy=False).distinct(copy=False).from_(exp.to_table([*queries][-1]), copy=False)
    for name, query in queries.items():
        found = found.with_(name, as_=query, copy=False)
    return found


def _one_of(value: Sql, codes: Sequence[str]) -> Sql:
    return exp.In(this=value.copy(), expressions=[literal(code) for code in codes])


def unanswered(names: References, max_attempts: int, model: str) -> exp.Select:
    """Return the SELECT of a run's requests: each distinct hash without an answer, or with a retryable last attempt.

    A failed further attempt of another model opens no request that has an answer.
    """
    col, named = names.col, names.named
    retried = case((col("retryable"), literal(0)), default=col("attempt"))
    own = case((exp.EQ(this=col("model"), expression=literal(model)), col("attempt"))) if model else col("attempt")
    # All runs share the table of answers: only this run's part of it is grouped.
    asked = (
        exp.select(
            col("request_hash"),
            named(exp.Max(this=col("attempt")), "attempt"),
            named(exp.Max(this=own), "own"),
            named(exp.Max(this=retried), "settled"),
            copy=False,
        )
        .from_(names.table("responses"), copy=False)
        .where(names.asked(), copy=False)
        .group_by(col("request_hash"), copy=False)
    )
    attempt = col("attempt", "asked")
    tries_left = all_of(
        exp.LT(this=col("settled", "asked"), expression=col("own", "asked")),
        exp.LT(this=attempt.copy(), expression=literal(max_attempts)),
    )
    open_ = exp.paren(any_of(exp.Is(this=attempt.copy(), expression=exp.Null()), tries_left), copy=False)
    hash_ = col("request_hash", "p")
    conditions: list[Sql] = [exp.Not(this=exp.Is(this=hash_.copy(), expression=exp.Null())), open_]
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

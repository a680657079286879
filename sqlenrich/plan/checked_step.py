"""The step ``checked``: every row of ``prompts`` with the best answer to its request and the verdict on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql, all_of, any_of, case, concat, literal
from sqlenrich.plan.references import References
from sqlenrich.schema.checks.repairs import kept_nulls, repaired_sql
from sqlenrich.schema.checks.shared_values import shared_values
from sqlenrich.schema.checks.sql import checks_sql, ref_sql
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.limits import TOO_LONG

CTE_NAMES = ("answered", "parsed", "fields", "judged", "ranked", "p", "r")
"""The names of the common table expressions inside the step."""


@dataclass(frozen=True)
class CheckedStep:
    """What the step is made from. ``kept`` are columns of the source, ``recorded`` flags about the prompts."""

    enrichment: Enrichment
    engine: Engine
    names: References
    kept: tuple[str, ...]
    recorded: tuple[str, ...]
    unused_name: Callable[[str], str]
    """Gives a name that no column of the result tables has."""

    def sql(self) -> Sql:
        """Give the SELECT."""
        enrichment, json, col, named = self.enrichment, self.engine.json, self.names.col, self.names.named
        facts = ("request_hash", "attempt", "asked_at", "run_id", "model", "response", "call_error", "finish_reason")
        known = exp.select("1", copy=False).from_(self.names.table("prompts", "p"), copy=False)
        known = known.where(exp.EQ(this=col("request_hash", "p"), expression=col("request_hash", "r")), copy=False)
        repaired = repaired_sql(json, col("response", "r"), enrichment.repairs, keep_null=kept_nulls(enrichment.schema))
        answered = exp.select(
            *(col(name, "r") for name in facts),
            named(repaired, "answer"),
            copy=False,
        ).from_(self.names.table("responses", "r"), copy=False)
        answered = answered.where(exp.Exists(this=known), copy=False)
        parsed = exp.select(exp.Star(), named(json.parse(col("answer")), self.unused_name("doc")), copy=False)
        parsed = parsed.from_(exp.to_table("answered"), copy=False)
        doc, read_as = col(self.unused_name("doc")), shared_values(enrichment.checks, self.unused_name("doc"))
        read = self.read({name: ref_sql(json, doc.copy(), ref) for ref, name in read_as.items()})
        failed = exp.Not(this=exp.Is(this=col("call_error"), expression=exp.Null()))
        columns = {ref: col(name) for ref, name in read_as.items()}
        verdict = checks_sql(json, col("answer"), doc, enrichment.checks, detail=True, columns=columns)
        verdict.args["ifs"].insert(0, exp.If(this=failed, true=concat(literal("CALL_ERROR "), col("call_error"))))
        judged = exp.select(*(col(name) for name in (*facts, "answer")), named(verdict, "verdict"), copy=False).from_(
            exp.to_table("fields" if read_as else "parsed"), copy=False
        )
        ranked = exp.select(
            exp.Star(), named(self.choice(), "choice"), named(self.attempts(), "attempts"), copy=False
        ).from_(exp.to_table("judged"), copy=False)
        queries = {"answered": answered, "parsed": parsed, "fields": read, "judged": judged, "ranked": ranked}
        select = self.join_answers()
        for name, query in queries.items():
            if name != "fields" or read_as:
                select = select.with_(name, as_=query, copy=False)
        return select

    def read(self, values: dict[str, Sql]) -> Sql:
        """Give the SELECT that reads the values of each answer into columns."""
        if self.engine.json.read_together is not None:
            listed = self.unused_name("doc") + "s"
            values = self.engine.json.read_together(values, listed, self.names.col(listed))
        named = (self.names.named(value, name) for name, value in values.items())
        return exp.select(exp.Star(), *named, copy=False).from_(exp.to_table("parsed"), copy=False)

    def choice(self) -> Sql:
        """Rank the answers of a hash in a total order: accepted first, then the latest attempt, then the earliest."""
        col = self.names.col
        accepted = case((exp.Is(this=col("verdict"), expression=exp.Null()), literal(0)), default=literal(1))
        order = exp.Order(
            expressions=[
                exp.Ordered(this=accepted, nulls_first=True),
                exp.Ordered(this=col("attempt"), desc=True, nulls_first=False),
                exp.Ordered(this=col("asked_at"), nulls_first=True),
                exp.Ordered(this=col("run_id"), nulls_first=True),
            ]
        )
        return exp.Window(this=exp.RowNumber(), partition_by=[col("request_hash")], order=order)

    def attempts(self) -> Sql:
        """Give the number of attempts of a hash."""
        return exp.Window(this=exp.Max(this=self.names.col("attempt")), partition_by=[self.names.col("request_hash")])

    def join_answers(self) -> exp.Select:
        """Give the SELECT of each row with its answer, and with one error code or NULL."""
        col, named, text = self.names.col, self.names.named, self.engine.text
        verdict = col("verdict", "r")
        code = self.engine.json.first_word(verdict.copy())
        rest = text.substr(verdict.copy(), exp.Add(this=text.length(code.copy()), expression=literal(2)))
        no_hash = exp.Is(this=col("request_hash", "p"), expression=exp.Null())
        no_prompt = exp.Is(this=col("prompt", "p"), expression=exp.Null())
        no_answer = exp.Is(this=col("request_hash", "r"), expression=exp.Null())
        kept_code = exp.In(this=code.copy(), expressions=[literal("CALL_ERROR"), literal("NO_RESPONSE")])
        finish = col("finish_reason", "r")
        detail, too_long = rest, []
        if self.enrichment.limit is not None:
            detail = case((col(TOO_LONG, "p"), literal(self.enrichment.limit.detail)), default=rest)
            too_long = [(col(TOO_LONG, "p"), literal("BAD_PROMPT"))]
        error = case(
            (all_of(no_hash, no_prompt), literal("BAD_PROMPT")),
            *too_long,
            (no_hash.copy(), literal("NO_INPUT")),
            (no_answer, literal("NOT_ASKED")),
            (any_of(exp.Is(this=verdict.copy(), expression=exp.Null()), kept_code), code),
            (exp.EQ(this=finish.copy(), expression=literal("length")), literal("TRUNCATED")),
            (
                exp.In(this=finish.copy(), expressions=[literal("refusal"), literal("content_filter")]),
                literal("REFUSED"),
            ),
            default=code.copy(),
        )
        repaired = exp.Coalesce(
            this=exp.NEQ(this=col("answer", "r"), expression=col("response", "r")), expressions=[literal(False)]
        )
        matches = all_of(
            exp.EQ(this=col("request_hash", "r"), expression=col("request_hash", "p")),
            exp.EQ(this=col("choice", "r"), expression=literal(1)),
        )
        return (
            exp.select(
                *(col(name, "p") for name in (*self.kept, "prompt", "request_hash")),
                col("response", "r"),
                col("answer", "r"),
                named(exp.Coalesce(this=col("attempts", "r"), expressions=[literal(0)]), "_attempts"),
                named(col("model", "r"), "_model"),
                named(error, "_error"),
                named(detail, "_error_detail"),
                named(repaired, "_repaired"),
                *(col(name, "p") for name in self.recorded),
                copy=False,
            )
            .from_(self.names.table("prompts", "p"), copy=False)
            .join(exp.alias_(exp.to_table("ranked"), "r", table=True), on=matches, join_type="LEFT", copy=False)
        )

"""The step ``checked``: every row of ``prompts`` with the best answer to its request and the verdict on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import SpecError
from sqlenrich.core.functions import SharedFunction
from sqlenrich.core.sql import Sql, all_of, case, concat, literal
from sqlenrich.core.types import STRING, Type
from sqlenrich.plan.references import References
from sqlenrich.plan.row_check_sql import failed_check_sql, value_of_results
from sqlenrich.plan.source_columns import BAD_VALUE
from sqlenrich.schema.checks.repairs import kept_nulls, repaired_sql
from sqlenrich.schema.checks.shared_functions import shared as shared_functions
from sqlenrich.schema.checks.shared_values import shared_values
from sqlenrich.schema.checks.sql import Columns, checks_sql, fault_sql, integer_sql, value_sql
from sqlenrich.spec.contract import OutputContract
from sqlenrich.spec.limits import TOO_LONG
from sqlenrich.spec.row_checks import check_kinds, kind_of_type, parse_check

JOINED = "joined"
"""The rows of ``prompts`` with the best answer to each, all texts included."""
CTE_NAMES = ("answered", "parsed", "fields", "judged", "ranked", JOINED, "p", "r")
"""The names of the common table expressions inside the step."""
CHECKED = (
    "prompt", "request_hash", "response", "answer", "_attempts", "_model", "_asked_at", "_error", "_error_detail",
    "_repaired",
)  # fmt: skip
"""The columns of the step between those of the source and the recorded ones."""
UNREADABLE = "no known place of the answer holds a text: "
"""The detail of an answer that can't be read, before its beginning."""
UNREAD_SHOWN = 500
"""The characters of such an answer that are shown."""


@dataclass(frozen=True)
class CheckedStep:
    """What the step is made from. ``kept`` are columns of the source, ``recorded`` flags about the prompts."""

    contract: OutputContract
    engine: Engine
    names: References
    kept: tuple[str, ...]
    recorded: tuple[str, ...]
    unused_name: Callable[[str], str]
    """Gives a name that no column of the result tables has."""
    tells_values: bool = False
    """Whether ``prompts`` says which value does not fit its declared type."""
    types: Mapping[str, Type | None] = field(default_factory=dict)
    """The types of the kept columns; None is an unknown one."""
    model: str | None = None
    """The model whose answers alone are checked; None: all answers are."""

    def sql(self) -> Sql:
        """Return the SELECT."""
        contract, json, col, named = self.contract, self.engine.json, self.names.col, self.names.named
        facts = (
            "request_hash", "attempt", "asked_at", "run_id", "model", "served_model", "response", "call_error",
            "finish_reason",
        )  # fmt: skip
        answered = (
            exp.select(
                *map(col, facts),
                named(self.repaired(col("response")), "answer"),
                *([named(self.unread(), "unread")] if self.reads else []),
                copy=False,
            )
            .from_(self.names.table("responses"), copy=False)
            .where(self.names.asked(), copy=False)
        )
        if self.model is not None:
            answered = answered.where(exp.EQ(this=col("model"), expression=literal(self.model)), copy=False)
        doc_of = shared_functions(json).parse
        parsed = exp.select(exp.Star(), named(doc_of(col("answer")), self.unused_name("doc")), copy=False)
        parsed = parsed.from_(exp.to_table("answered"), copy=False)
        doc, shared = col(self.unused_name("doc")), shared_values(contract.checks, self.unused_name("doc"))
        columns = Columns({ref: col(name) for ref, name in shared.values.items()})
        values = {name: value_sql(json, doc.copy(), ref) for ref, name in shared.values.items()}
        fields = [named(value, name) for name, value in self.read(values).items()]
        # What is read at once is read from the columns beside it, as DuckDB allows; elsewhere from the document.
        known = Columns() if json.read_together is None else columns
        fields += [named(integer_sql(json, doc.copy(), ref, known), name) for ref, name in shared.integers.items()]
        for path, name in shared.faults.items():
            fields.append(named(fault_sql(json, doc.copy(), contract.checks, path, known), name))
        read = exp.select(exp.Star(), *fields, copy=False).from_(exp.to_table("parsed"), copy=False)
        columns = replace(
            columns,
            integers={ref: col(name) for ref, name in shared.integers.items()},
            faults={path: col(name) for path, name in shared.faults.items()},
        )
        failed = exp.Not(this=exp.Is(this=col("call_error"), expression=exp.Null()))
        verdict = checks_sql(json, col("answer"), doc, contract.checks, detail=True, columns=columns)
        first = [exp.If(this=failed, true=concat(literal("CALL_ERROR "), col("call_error")))]
        if self.reads:
            stored = exp.Not(this=exp.Is(this=col("unread"), expression=exp.Null()))
            first.append(exp.If(this=stored, true=concat(literal(f"UNREADABLE {UNREADABLE}"), col("unread"))))
        verdict.set("ifs", [*first, *verdict.args["ifs"]])
        judged = exp.select(exp.Star(), named(verdict, "verdict"), copy=False)
        judged = judged.from_(exp.to_table("fields" if fields else "parsed"), copy=False)
        ranked = exp.select(
            exp.Star(), named(self.attempts(), "attempts"), named(self.choice(), "choice"), copy=False
        ).from_(exp.to_table("judged"), copy=False)
        queries = {
            "answered": answered,
            "parsed": parsed,
            **({"fields": read} if fields else {}),
            "judged": judged,
            "ranked": ranked,
        }
        select = self.without_unread_texts()
        for name, query in {**queries, JOINED: self.join_answers()}.items():
            select = select.with_(name, as_=query, copy=False)
        return select

    def without_unread_texts(self) -> exp.Select:
        """Return the SELECT of joined rows without the texts that no later step reads: most of what is written.

        Accepted rows have their ``answer``, refused ones their ``prompt`` and ``response``.
        """
        col, named = self.names.col, self.names.named
        accepted = exp.Is(this=col("_error"), expression=exp.Null())
        tests = {"answer": accepted, **dict.fromkeys(("prompt", "response"), exp.Not(this=accepted.copy()))}
        if not self.contract.keep_prompts:
            del tests["prompt"]
        columns = []
        for name in (*self.kept, *CHECKED, *self.recorded):
            value = col(name)
            columns.append(named(case((tests[name].copy(), value)), name) if name in tests else value)
        return exp.select(*columns, copy=False).from_(JOINED, copy=False)

    def repaired(self, response: Sql) -> Sql:
        """Return the answer's text after the repairs."""
        json, text, repairs = self.engine.json, self.engine.text, self.contract.repairs
        if not repairs:
            return response
        keep_null = kept_nulls(self.contract.schema)
        repaired = SharedFunction(
            "text",
            {"response": STRING},
            STRING,
            lambda given: repaired_sql(json, text, given, repairs, keep_null=keep_null),
            f"repaired: {', '.join(repairs)}",
        )
        return repaired(response)

    @property
    def reads(self) -> bool:
        """Whether answers of the engine's own function are stored, which are read apart from the call."""
        return self.engine.reading is not None

    def unread(self) -> Sql:
        """Return the beginning of a stored answer in which nothing was found; NULL for any other."""
        nothing = exp.Is(this=self.names.col("response"), expression=exp.Null())
        return case((nothing, self.engine.text.substr(self.names.col("raw"), literal(1), literal(UNREAD_SHOWN))))

    def read(self, values: dict[str, Sql]) -> dict[str, Sql]:
        """Return the columns of the values of each answer."""
        if self.engine.json.read_together is None:
            return values
        listed = self.unused_name("doc") + "s"
        return self.engine.json.read_together(values, listed, self.names.col(listed))

    def choice(self) -> Sql:
        """Rank the answers of a hash in a total order: accepted first, then the latest attempt, then the earliest."""
        col, ordered = self.names.col, self.names.ordered
        refused = exp.Not(this=exp.Is(this=col("verdict"), expression=exp.Null()))
        order = exp.Order(
            expressions=[
                ordered(refused),
                ordered(col("attempt"), desc=True),
                exp.Ordered(this=col("asked_at"), nulls_first=True),
                exp.Ordered(this=col("run_id"), nulls_first=True),
            ]
        )
        return exp.Window(this=exp.RowNumber(), partition_by=[col("request_hash")], order=order)

    def attempts(self) -> Sql:
        """Return the number of attempts of a hash."""
        return exp.Window(this=exp.Max(this=self.names.col("attempt")), partition_by=[self.names.col("request_hash")])

    def failed_check(self) -> Sql:
        """Return the first row check that a row with an accepted answer does not meet. Raises SpecError."""
        contract, col = self.contract, self.names.col
        readings = contract.readings
        kinds = {name: kind_of_type(kind) for name, kind in {**self.types, **readings}.items()}
        problems: list[str] = []
        for name, written in contract.row_checks.items():
            try:
                check_kinds(name, parse_check(name, written), kinds)
            except ValueError as error:
                problems.append(f"checks: {error}")
        if problems:
            raise SpecError(str(getattr(contract, "place", "the enrichment")), problems)
        answer = case((exp.Is(this=col("verdict", "r"), expression=exp.Null()), col("answer", "r")))
        value = value_of_results(self.engine, readings, answer, lambda name: col(name, "p"))
        return failed_check_sql(self.engine, contract.row_checks, kinds, value)

    def join_answers(self) -> exp.Select:
        """Return the SELECT of each row with its answer, and with one error code or NULL."""
        col, named, text = self.names.col, self.names.named, self.engine.text
        verdict = col("verdict", "r")
        code = self.engine.json.first_word(verdict.copy())
        rest = text.substr(verdict.copy(), exp.Add(this=text.length(code.copy()), expression=literal(2)))
        no_hash = exp.Is(this=col("request_hash", "p"), expression=exp.Null())
        no_prompt = exp.Is(this=col("prompt", "p"), expression=exp.Null())
        no_answer = exp.Is(this=col("request_hash", "r"), expression=exp.Null())
        finish = col("finish_reason", "r")
        detail, too_long = rest, []
        if self.contract.limit is not None:
            detail = case((col(TOO_LONG, "p"), literal(self.contract.limit.detail)), default=rest)
            too_long = [(col(TOO_LONG, "p"), literal("BAD_PROMPT"))]
        if self.tells_values:
            detail = case((no_prompt.copy(), col(BAD_VALUE, "p")), default=detail)
        accepted: Sql = exp.Is(this=verdict.copy(), expression=exp.Null())
        failed = self.failed_check() if self.contract.row_checks else None
        if failed is not None:
            detail = case((all_of(_told(col("request_hash", "r")), accepted.copy()), failed.copy()), default=detail)
        error = case(
            (all_of(no_hash, no_prompt), literal("BAD_PROMPT")),
            *too_long,
            (no_hash.copy(), literal("NO_INPUT")),
            (no_answer, literal("NOT_ASKED")),
            (accepted.copy(), exp.Null() if failed is None else case((_told(failed), literal("CHECK")))),
            (exp.EQ(this=finish.copy(), expression=literal("length")), literal("TRUNCATED")),
            (
                exp.In(this=finish.copy(), expressions=[literal("refusal"), literal("content_filter")]),
                literal("REFUSED"),
            ),
            default=code,
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
                *(col(name, "p") for name in self.kept),
                col("prompt", "p") if self.contract.keep_prompts else named(self.names.null(STRING), "prompt"),
                col("request_hash", "p"),
                col("response", "r"),
                col("answer", "r"),
                named(exp.Coalesce(this=col("attempts", "r"), expressions=[literal(0)]), "_attempts"),
                named(exp.Coalesce(this=col("served_model", "r"), expressions=[col("model", "r")]), "_model"),
                named(col("asked_at", "r"), "_asked_at"),
                named(error, "_error"),
                named(detail, "_error_detail"),
                named(repaired, "_repaired"),
                *(col(name, "p") for name in self.recorded),
                copy=False,
            )
            .from_(self.names.table("prompts", "p"), copy=False)
            .join(exp.alias_(exp.to_table("ranked"), "r", table=True), on=matches, join_type="LEFT", copy=False)
        )


def _told(value: Sql) -> Sql:
    """Return the condition that a value is not NULL."""
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))

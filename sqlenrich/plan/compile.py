"""Compiles an enrichment for an engine to a plan. Only this module knows all five steps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlglot import exp

from sqlenrich.core.engine import CARRIED, CallResult, Engine, ModelCall
from sqlenrich.core.json import canonical_json
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Type, type_json
from sqlenrich.engines import get_engine
from sqlenrich.plan.checked_step import CTE_NAMES as CHECKED_CTE_NAMES
from sqlenrich.plan.checked_step import CheckedStep
from sqlenrich.plan.model import output_of, resolve_model
from sqlenrich.plan.pending_step import (
    RetrySelection,
    chosen_reasons,
    refused,
    retry_selections,
    unanswered,
    validated_attempts,
)
from sqlenrich.plan.plan import RESPONSES, Plan, Step
from sqlenrich.plan.prompts_step import CTE_NAMES as PROMPTS_CTE_NAMES
from sqlenrich.plan.prompts_step import PromptsStep
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import Relations, relations_of
from sqlenrich.plan.request import ResolvedModel, request_constant
from sqlenrich.plan.results_step import CTE_NAMES as RESULTS_CTE_NAMES
from sqlenrich.plan.results_step import ResultsStep
from sqlenrich.plan.source_columns import SourceColumns
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.limits import TOO_LONG

CTE_NAMES = frozenset(("asked", *RESULTS_CTE_NAMES, *CHECKED_CTE_NAMES, *PROMPTS_CTE_NAMES))
"""The names of the common table expressions inside the steps, and their aliases."""


class RetryCall(NamedTuple):
    """One call of a retry: the model, and the step that sends the requests of its ``pending_sql``."""

    model: ResolvedModel
    step: Step
    what: str
    """A description of the requests."""


def compile_plan(
    enrichment: Enrichment,
    engine: str,
    relations: Mapping[str, str] | None = None,
    *,
    model: ResolvedModel | None = None,
    source_types: Mapping[str, Type] | None = None,
    shard: tuple[int, int] | None = None,
    options: Mapping[str, Any] | None = None,
    asked_by_client: bool = False,
) -> Plan:
    """Compile an enrichment for an engine.

    ``relations`` names the source and the steps where they are not the defaults; ``source_types`` are the source's
    real column types by source name; ``shard`` is ``(i, n)``: the i-th (from 1) of n parts of the pending requests, by
    hash. With ``asked_by_client`` a client asks the model, even if the engine has a function for it. Raises
    :class:`~sqlenrich.UnsupportedError` for what the engine can't do, :class:`~sqlenrich.PromptError` for what can't
    be compiled in the template, :class:`~sqlenrich.ConfigError` for two relations of one name.
    """
    target = get_engine(engine)
    tables = relations_of(enrichment, target, relations or {})
    resolved = model or resolve_model(enrichment, target)
    target = replace(target, call=None) if asked_by_client else target
    return _Compiler(enrichment, target, resolved, tables, source_types, options).plan(shard)


def compile_retry(
    enrichment: Enrichment,
    engine: str,
    relations: Mapping[str, str] | None = None,
    *,
    model: ResolvedModel | None = None,
    reasons: Sequence[str] | None = None,
    max_attempts: int | None = None,
    options: Mapping[str, Any] | None = None,
    asked_by_client: bool = False,
) -> tuple[RetryCall, ...]:
    """Compile the calls that ask refused rows again. Each distinct request is in at most one call.

    ``reasons`` are the error codes to retry, by default all that a retry can help; ``max_attempts`` replaces the
    file's; ``asked_by_client`` is as for :func:`compile_plan`. The pending relation is made from ``checked`` and has
    the additional column ``sent_hash``.
    Raises as :func:`compile_plan` does, and ConfigError for a reason that can't be retried.
    """
    target = get_engine(engine)
    resolved = model or resolve_model(enrichment, target)
    target = replace(target, call=None) if asked_by_client else target
    codes = chosen_reasons(reasons)
    attempts = validated_attempts(enrichment.max_attempts if max_attempts is None else max_attempts)
    tables = relations_of(enrichment, target, {"source": "source", **(relations or {})})

    def compiler(model: ResolvedModel) -> _Compiler:
        return _Compiler(enrichment, target, model, tables, None, options, carried=(*CARRIED, "sent_hash"))

    found = retry_selections(target, resolved, codes, attempts, reports_finish=compiler(resolved).reports_finish())
    return tuple(RetryCall(one.model, compiler(one.model).retry_step(one), one.what) for one in found)


def snapshot_digest(enrichment: Enrichment, engine: str, model: ResolvedModel) -> str:
    """Give the SHA-256 of all that determines a client's prompts and their hashes: equal digests mean equal prompts."""
    target = replace(get_engine(engine), call=None)
    compiler = _Compiler(enrichment, target, model, relations_of(enrichment, target, {"source": "source"}), None, None)
    types = {n: (c.type and type_json(c.type), c.source_name) for n, c in enrichment.columns.items()}
    facts = {
        "sql": print_sql(target, compiler.tables.bound(compiler.prompts())),
        "columns": types,
        "source": enrichment.source,
        "query": enrichment.query,
    }
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()


class _Compiler:
    def __init__(
        self,
        enrichment: Enrichment,
        engine: Engine,
        model: ResolvedModel,
        tables: Relations,
        source_types: Mapping[str, Type] | None,
        options: Mapping[str, Any] | None,
        carried: tuple[str, ...] = CARRIED,
    ) -> None:
        options = {**model.options, **(options or {})}
        self.enrichment, self.engine, self.tables = enrichment, engine, tables
        self.columns = SourceColumns(enrichment, engine, source_types)
        self.names = References(engine)
        response_format = (
            None if options.get("schema") is False else engine.response_format(output_of(enrichment, model)).form
        )
        needs_hint = enrichment.hint == "always" or (enrichment.hint == "auto" and response_format is None)
        if engine.call is None:
            needs_hint = enrichment.hint == "always"
        hint = hint_text(enrichment.schema) if needs_hint and enrichment.hint != "never" else None
        self.call = ModelCall(model.name, model.params, enrichment.schema, response_format, hint, options, carried)
        self.constant = request_constant(model, enrichment.schema, hint)
        self.kept = {name: self.columns.type(name) for name in (*enrichment.key, *enrichment.keep)}
        self.recorded = enrichment.limit.recorded if enrichment.limit is not None else ()

    def plan(self, shard: tuple[int, int] | None) -> Plan:
        recorded: dict[str, Type] = dict.fromkeys(self.recorded, BOOLEAN)
        asked: dict[str, Type] = {**self.kept, "prompt": STRING, "request_hash": STRING}
        verdict: dict[str, Type] = {"_error": STRING, "_error_detail": STRING, "_repaired": BOOLEAN}
        decided = {} if self.enrichment.limit is None else {TOO_LONG: BOOLEAN, **recorded}
        answer: dict[str, Type] = {"response": STRING, "answer": STRING, "_attempts": BIGINT, "_model": STRING}
        origin: dict[str, Type] = {"_version": STRING, "_fingerprint": STRING}
        hashed: dict[str, Type] = {"_request_hash": STRING}
        shown: dict[str, Type] = {"response": STRING, "prompt": STRING, "_attempts": BIGINT}
        shared = (self.enrichment, self.engine, self.names, tuple(self.kept), self.recorded, self.unused_name)
        results, checked = ResultsStep(*shared), CheckedStep(*shared)
        enriched = {**self.kept, **self.enrichment.output_columns, **hashed, "_model": STRING, **origin, **recorded}
        steps = (
            self.step("prompts", {**asked, **decided}, self.prompts()),
            self.call_step(unanswered(self.names, self.enrichment.max_attempts, shard), "request_hash"),
            self.step("checked", {**asked, **answer, **verdict, **recorded}, checked.sql()),
            self.step("enriched", enriched, results.enriched()),
            self.step("quarantine", {**self.kept, **verdict, **shown, **hashed, **recorded}, results.quarantine()),
        )
        must_exist = tuple(self.engine.must_exist(self.call))
        return Plan(
            self.enrichment.name, self.engine.name, steps, self.constant, self.call.model, self.tables, must_exist
        )

    def step(self, name: str, columns: Mapping[str, Type], query: Sql) -> Step:
        return Step(name, "table", dict(columns), self.with_ctes_renamed(query), self.tables)

    def unused_name(self, name: str) -> str:
        """Give the name, with underscores appended until no column of the result tables has it."""
        taken = {column.lower() for column in (*self.kept, *self.enrichment.output_columns)}
        while name in taken:
            name += "_"
        return name

    def with_ctes_renamed(self, query: Sql) -> Sql:
        """Rename common table expressions that have a column's name: BigQuery would read them instead of the column."""
        for node in query.find_all(exp.TableAlias, exp.Table, exp.Column):
            name = node.args.get("table" if isinstance(node, exp.Column) else "this")
            if isinstance(name, exp.Identifier) and name.this in CTE_NAMES and not node.args.get("db"):
                name.set("this", self.unused_name(name.this))
        return query

    def prompts(self) -> Sql:
        reads_query = "source" not in self.tables.tables
        return PromptsStep(
            self.enrichment,
            self.engine,
            self.names,
            self.columns,
            self.kept,
            self.constant,
            self.unused_name,
            reads_query,
        ).sql()

    def retry_step(self, selection: RetrySelection) -> Step:
        return self.call_step(
            refused(self.names, selection, self.constant, feedback=self.enrichment.feedback), "sent_hash"
        )

    def reports_finish(self) -> bool:
        """Whether the engine reports why a model stopped. A client always does."""
        if self.engine.call is None:
            return True
        return "finish_reason" in self.engine.call(self.names.table("pending"), self.call).columns

    def call_step(self, pending: exp.Select, sent_hash: str) -> Step:
        select, calls_in_sql = self.no_answers(), False
        if self.engine.call is not None:
            select, calls_in_sql = (
                self.answers(self.engine.call(self.names.table("pending"), self.call), sent_hash),
                True,
            )
        query = self.with_ctes_renamed(select)
        return Step("responses", "append", RESPONSES, query, self.tables, pending, calls_in_sql=calls_in_sql)

    def no_answers(self) -> exp.Select:
        """Give the columns of ``responses`` without rows. A client appends the rows."""
        columns = (self.names.named(self.names.null(kind), name) for name, kind in RESPONSES.items())
        return exp.select(*columns, copy=False).where(literal(False), copy=False)

    def answers(self, answered: CallResult, sent_hash: str) -> exp.Select:
        """Give the SELECT of the answers from the engine's own function."""
        col = self.names.col
        known = {
            "request_hash": col("request_hash"),
            "attempt": col("attempt"),
            "sent_hash": col(sent_hash),
            "model": literal(self.call.model),
            "version": literal(self.enrichment.version),
            "fingerprint": literal(self.enrichment.fingerprint),
            "asked_at": exp.CurrentTimestamp(),
            **answered.columns,
        }
        known = {name: value for name, value in known.items() if not isinstance(value, exp.Null)}
        values = [self.names.named(known.get(n) or self.names.null(kind), n) for n, kind in RESPONSES.items()]
        return exp.select(*values, copy=False).from_(answered.source, copy=False)

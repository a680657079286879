"""Compiles an enrichment for an engine to a plan. Only this module knows all five steps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sqlglot import exp

from sqlenrich.core.engine import CARRIED, CallResult, Engine, ModelCall, Reading
from sqlenrich.core.errors import SpecError
from sqlenrich.core.function_modes import Functions
from sqlenrich.core.json import canonical_json
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, all_of, literal
from sqlenrich.core.types import BOOLEAN, STRING, Type, type_json, without_zones
from sqlenrich.plan.cascade_queries import CascadeQueries
from sqlenrich.plan.checking import ASKED, Checking
from sqlenrich.plan.model import engine_of, output_of, resolve_model
from sqlenrich.plan.pending_step import (
    RetrySelection,
    check_keeps_prompts,
    chosen_reasons,
    once_a_model,
    refused,
    retry_selections,
    unanswered,
    validated_attempts,
)
from sqlenrich.plan.plan import READ, RESPONSES, Plan, Step
from sqlenrich.plan.prompts_step import PromptsStep
from sqlenrich.plan.quality import quality_steps
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import Relations, check_column, relations_of, source_notes, with_functions
from sqlenrich.plan.request import ResolvedModel, request_constant
from sqlenrich.plan.row_check_sql import condition_sql, value_of_results
from sqlenrich.plan.source_columns import BAD_VALUE, SourceColumns
from sqlenrich.plan.unused_names import UnusedNames
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.spec.enrichment import Enrichment, checked_type
from sqlenrich.spec.limits import TOO_LONG
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.row_checks import kind_of_type

CHOSEN = "accepted rows of the condition, each distinct request once of the model"
"""What a retry with ``where`` asks."""


class RetryCall(NamedTuple):
    """One call of a retry: the model, and the step that sends the requests of its ``pending_sql``."""

    model: ResolvedModel
    step: Step
    what: str
    """A description of the requests."""
    constant: str
    """The 64 hexadecimal digits before each prompt in its ``sent_hash``."""


class CascadeCalls(NamedTuple):
    """The calls of a cascade's second model, and the queries that find its threshold."""

    sampled: RetryCall
    """The call of the sample."""
    below: Callable[[float | None], RetryCall]
    """Gives the call of all rows that the first model does not decide at a threshold; None: it decides none."""
    queries: CascadeQueries


def compile_plan(
    enrichment: Enrichment | str | Path,
    engine: str,
    relations: Mapping[str, str] | None = None,
    *,
    model: ResolvedModel | None = None,
    source_types: Mapping[str, Type] | None = None,
    options: Mapping[str, Any] | None = None,
    asked_by_client: bool = False,
    functions: Functions = "inline",
    run_id: str | None = None,
) -> Plan:
    """Compile an enrichment for an engine.

    ``relations`` names the source and the steps where they are not the defaults; ``source_types`` are the source's
    real column types by source name. With ``asked_by_client`` a client asks the model, even if the engine has a
    function for it; otherwise ``run_id`` stands beside the answers, by default the time. ``functions`` tells where the
    expressions that every enrichment repeats stand: ``inline`` at each place, ``temporary`` in functions of the
    session, ``installed`` in functions that were made once. Raises
    :class:`~sqlenrich.UnsupportedError` for what the engine can't do, :class:`~sqlenrich.PromptError` for what can't
    be compiled in the template, :class:`~sqlenrich.ConfigError` for two relations of one name.
    """
    enrichment = enrichment_of(enrichment)
    target = engine_of(enrichment, engine, asked_by_client=asked_by_client)
    tables = with_functions(relations_of(enrichment, target, relations or {}), functions)
    resolved = model or resolve_model(enrichment, target)
    target = target.with_facts(resolved.facts)
    return _Compiler(enrichment, target, resolved, tables, source_types, options, run_id=run_id).plan()


def compile_script(
    enrichment: Enrichment | str | Path,
    engine: str,
    relations: Mapping[str, str] | None = None,
    *,
    model: ResolvedModel | None = None,
    options: Mapping[str, Any] | None = None,
    functions: Functions = "inline",
) -> Plan:
    """Compile an enrichment for a text that knows no types of the source: a script, a dbt model.

    Raises as :func:`compile_plan` does, and PromptError where the template reads a struct without a declared type.
    """
    enrichment = enrichment_of(enrichment)
    enrichment.prompt(guess=False)
    return compile_plan(enrichment, engine, relations, model=model, options=options, functions=functions)


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
    run_id: str | None = None,
) -> tuple[RetryCall, ...]:
    """Compile the calls that ask refused rows again. Each distinct request is in at most one call.

    ``reasons`` are the error codes to retry, by default all that a retry can help; ``max_attempts`` replaces the
    file's; ``asked_by_client`` and ``run_id`` are as for :func:`compile_plan`. The pending relation is made from
    ``checked`` and has the additional column ``sent_hash``.
    Raises as :func:`compile_plan` does, and ConfigError for a reason that can't be retried.
    """
    check_keeps_prompts(enrichment)
    target = engine_of(enrichment, engine, asked_by_client=asked_by_client)
    resolved = model or resolve_model(enrichment, target)
    target = target.with_facts(resolved.facts)
    codes = chosen_reasons(reasons)
    attempts = validated_attempts(enrichment.max_attempts if max_attempts is None else max_attempts)
    tables = relations_of(enrichment, target, {"source": "source", **(relations or {})})

    def compiler(model: ResolvedModel) -> _Compiler:
        carried = (*CARRIED, "sent_hash")
        return _Compiler(enrichment, target, model, tables, None, options, carried=carried, run_id=run_id)

    found = retry_selections(target, resolved, codes, attempts, reports_finish=compiler(resolved).reports_finish())
    compiled = ((one, compiler(one.model)) for one in found)
    return tuple(RetryCall(one.model, made.retry_step(one), one.what, made.constant) for one, made in compiled)


def compile_accepted(
    enrichment: Enrichment,
    engine: str,
    where: str,
    relations: Mapping[str, str] | None = None,
    *,
    model: ResolvedModel | None = None,
    reasons: Sequence[str] | None = None,
    max_attempts: int | None = None,
    options: Mapping[str, Any] | None = None,
    asked_by_client: bool = False,
    run_id: str | None = None,
) -> RetryCall:
    """Compile the call that asks accepted rows again which meet a condition, each distinct request once of a model.

    ``reasons`` are those of the refused rows that other calls ask; all else is as for :func:`compile_retry`. Raises as
    that does, and SpecError for a condition that is not the same on all engines.
    """
    check_keeps_prompts(enrichment)
    target = engine_of(enrichment, engine, asked_by_client=asked_by_client)
    resolved = model or resolve_model(enrichment, target)
    target = target.with_facts(resolved.facts)
    attempts = validated_attempts(enrichment.max_attempts if max_attempts is None else max_attempts)
    tables = relations_of(enrichment, target, {"source": "source", **(relations or {})})
    carried = (*CARRIED, "sent_hash")
    made = _Compiler(enrichment, target, resolved, tables, None, options, carried=carried, run_id=run_id)
    return made.once(made.accepted_where(where, chosen_reasons(reasons)), attempts, CHOSEN)


def compile_cascade(
    enrichment: Enrichment,
    engine: str,
    relations: Mapping[str, str] | None = None,
    *,
    model: ResolvedModel,
    options: Mapping[str, Any] | None = None,
    asked_by_client: bool = False,
    run_id: str | None = None,
    classifier: str = "",
) -> CascadeCalls:
    """Compile the calls of a cascade's second ``model``, each distinct request once of it.

    ``classifier`` is the name of the distilled first one. All else is as for :func:`compile_retry`. The enrichment has
    a cascade.
    """
    assert enrichment.cascade is not None
    check_keeps_prompts(enrichment)
    target = engine_of(enrichment, engine, asked_by_client=asked_by_client).with_facts(model.facts)
    tables = relations_of(enrichment, target, {"source": "source", **(relations or {})})
    carried = (*CARRIED, "sent_hash")
    made = _Compiler(enrichment, target, model, tables, None, options, carried=carried, run_id=run_id)
    queries = CascadeQueries(
        made.enrichment, enrichment.cascade, made.names, enrichment.key, made.unused.name, made.judged, classifier
    )
    most = enrichment.max_attempts
    return CascadeCalls(
        made.once(queries.in_sample, most, "the sample of the cascade"),
        lambda threshold: made.once(queries.below(threshold), most, "what the first model of the cascade leaves"),
        queries,
    )


def snapshot_digest(enrichment: Enrichment, engine: str, model: ResolvedModel) -> str:
    """Return the SHA-256 of all that determines a client's prompts and their hashes: equal digest, equal prompts."""
    target = engine_of(enrichment, engine, asked_by_client=True)
    compiler = _Compiler(enrichment, target, model, relations_of(enrichment, target, {"source": "source"}), None, None)
    types = {n: (c.type and type_json(c.type), c.source_name) for n, c in enrichment.columns.items()}
    facts = {
        "sql": print_sql(target, compiler.tables.bound(compiler.prompts())),
        "columns": types,
        "source": enrichment.source,
        "query": enrichment.query,
        "timezone": enrichment.timezone,
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
        run_id: str | None = None,
    ) -> None:
        self.run_id = run_id
        self.model = model
        options = {**model.options, **(options or {})}
        enrichment = enrichment.with_all_kept(source_types)
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
        self.call = ModelCall(
            model.name,
            model.params,
            enrichment.schema,
            response_format,
            hint,
            enrichment.turns,
            options,
            carried,
            enrichment.embedding,
        )
        self.constant = request_constant(model, enrichment.schema, hint, enrichment.turns, enrichment.embedding)
        self.kept = {name: self.columns.type(name) for name in (*enrichment.key, *enrichment.keep)}
        typed = any(column.type not in (None, STRING) for column in enrichment.columns.values())
        # A script does not know the source's types, and casts nothing.
        self.tells_values = typed and (source_types is not None or run_id is not None)
        source = tables.tables.get("source")
        relation = self.columns.query("") if source is None else source
        written = [node.name for node in relation.find_all(exp.Identifier)]
        self.unused = UnusedNames((*self.kept, *enrichment.output_columns, *written))
        known = {name: checked_type(name, enrichment.columns) for name in self.kept}
        self.check_types(known)
        self.checking = Checking(enrichment, engine, tables, self.kept, self.unused, self.tells_values, known)

    def check_types(self, known: Mapping[str, Type]) -> None:
        """Refuse a column that row checks read as another type than its source has. Raises SpecError."""
        declared = self.enrichment.columns
        for name in self.enrichment.checked_columns:
            real = self.columns.real_type(name)
            typed = name in declared and declared[name].type is not None
            if real is not None and not typed and without_zones(real) != known.get(name, STRING):
                kind = type_json(without_zones(real))
                raise SpecError(
                    self.enrichment.place,
                    [f"checks read {name} as a text, and it is a {kind}; write columns: {{{name}: {kind}}}"],
                )

    def plan(self) -> Plan:
        for name in self.kept:
            check_column(self.engine, name)
        decided: dict[str, Type] = (
            {} if self.enrichment.limit is None else {TOO_LONG: BOOLEAN, **self.checking.recorded}
        )
        if self.tells_values:
            decided[BAD_VALUE] = STRING
        prompts = self.unused.rename_ctes(self.prompts())
        steps = (
            Step("prompts", "table", {**self.kept, **ASKED, **decided}, prompts, self.tables),
            self.call_step(unanswered(self.names, self.enrichment.max_attempts, self.call.model), "request_hash"),
            *self.checking.steps(),
        )
        must_exist = (*source_notes(self.enrichment, self.tables), *self.engine.must_exist(self.call))
        return Plan(
            self.enrichment.name,
            self.engine.name,
            steps,
            self.constant,
            self.call.model,
            self.tables,
            partial(quality_steps, self.enrichment),
            must_exist,
            self.enrichment.keep_prompts,
        )

    def prompts(self) -> Sql:
        reads_query = "source" not in self.tables.tables
        return PromptsStep(
            self.enrichment,
            self.engine,
            self.names,
            self.columns,
            self.kept,
            self.constant,
            self.unused.name,
            reads_query,
            self.tells_values,
        ).sql()

    def retry_step(self, selection: RetrySelection) -> Step:
        return self.call_step(
            refused(self.names, selection, self.constant, feedback=self.enrichment.feedback), "sent_hash"
        )

    def once(self, where: Sql, max_attempts: int, what: str) -> RetryCall:
        """Return the call of the requests whose rows of ``checked`` meet a condition, each once of the model."""
        pending = once_a_model(self.names, self.call.model, where, self.constant, max_attempts)
        return RetryCall(self.model, self.call_step(pending, "sent_hash"), what, self.constant)

    def judged(self, model: str) -> Sql:
        """Return the SELECT of ``checked`` by the answers of one model alone."""
        return replace(self.checking, model=model).steps()[0].query

    def accepted_where(self, written: str, reasons: Sequence[str]) -> Sql:
        """Return the condition on ``checked`` that a row is accepted and meets a condition on the results.

        ``reasons`` are those of refused rows that are asked beside it. Raises SpecError.
        """
        names, readings = self.names, self.enrichment.readings
        own = {"_request_hash": "request_hash", "_model": "_model"}
        types = {name: checked_type(name, self.enrichment.columns) for name in self.kept}
        kinds = {name: kind_of_type(kind) for name, kind in {**types, **readings, **dict.fromkeys(own, STRING)}.items()}
        answer = names.col("answer")
        value = value_of_results(self.engine, readings, answer, lambda name: names.col(own.get(name, name)))
        try:
            condition = condition_sql(self.engine, "where", written, kinds, value)
        except ValueError as error:
            raise SpecError(self.enrichment.place, [f"retry: {error}"]) from None
        chosen = all_of(exp.Is(this=names.col("_error"), expression=exp.Null()), exp.paren(condition, copy=False))
        if not self.enrichment.row_checks or not reasons:
            return chosen
        # Rows of one request may have different verdicts; the request is in one call.
        others = (
            exp.select(names.col("request_hash"), copy=False)
            .from_(names.table("checked"), copy=False)
            .where(
                exp.In(this=names.col("_error"), expressions=[literal(code) for code in reasons]),
                exp.Not(this=exp.Is(this=names.col("request_hash"), expression=exp.Null())),
                copy=False,
            )
        )
        return all_of(chosen, exp.Not(this=exp.In(this=names.col("request_hash"), query=others.subquery(copy=False))))

    def reports_finish(self) -> bool:
        """Whether the engine reports why a model stopped. A client always does."""
        return self.engine.call is None or (self.engine.reading is not None and self.engine.reading.reports_finish)

    def call_step(self, pending: exp.Select, sent_hash: str) -> Step:
        self.unused.rename_ctes(pending)
        select, calls_in_sql = self.no_answers(), False
        if self.engine.call is not None:
            select, calls_in_sql = (
                self.answers(self.engine.call(self.names.table("pending"), self.call), sent_hash),
                True,
            )
        query, reading = self.unused.rename_ctes(select), self.engine.reading
        read = None if reading is None else self.read(reading)
        request = self.call if calls_in_sql else None
        return Step("responses", "append", RESPONSES, query, self.tables, pending, calls_in_sql, request, read)

    def read(self, reading: Reading) -> dict[str, Sql]:
        """Return the columns that are read from a stored answer, and ``read_by``. Another reading's values go."""
        found = reading.columns(self.names.col("raw"))
        read = {name: found.get(name) or self.names.null(RESPONSES[name]) for name in READ}
        return {**read, "read_by": literal(reading.name)}

    def no_answers(self) -> exp.Select:
        """Return the columns of ``responses`` without rows. A client appends the rows."""
        columns = (self.names.named(self.names.null(kind), name) for name, kind in RESPONSES.items())
        return exp.select(*columns, copy=False).where(literal(False), copy=False)

    def answers(self, answered: CallResult, sent_hash: str) -> exp.Select:
        """Return the SELECT of the answers from the engine's own function: what was asked, and each answer as it came.

        The call stands in the innermost SELECT, once, and nothing beside it can fail or be evaluated with it. Where
        stored rows can't be updated, a SELECT around it reads the answers.
        """
        col, reading = self.names.col, self.engine.reading
        known: dict[str, Sql] = {
            "request_hash": col("request_hash"),
            "attempt": col("attempt"),
            "sent_hash": col(sent_hash),
            "model": literal(self.call.model),
            "version": self.names.text(self.enrichment.version),
            "fingerprint": literal(self.enrichment.fingerprint),
            "run_id": (
                exp.Cast(this=self.engine.now(), to=self.engine.sql_type(STRING))
                if self.run_id is None
                else literal(self.run_id)
            ),
            "asked_at": self.engine.now(),
            "raw": answered.raw,
        }
        source = answered.source
        if reading is not None and not self.engine.updates:
            asked = exp.select(*map(col, self.call.carried), self.names.named(answered.raw, "raw"), copy=False)
            asked = asked.from_(source, copy=False)
            source = exp.alias_(asked.subquery(copy=False), "asked", table=True, copy=False)
            known |= {"raw": col("raw"), **reading.columns(col("raw")), "read_by": literal(reading.name)}
        values = [self.names.named(known[name], name) for name in RESPONSES if name in known]
        return exp.select(*values, copy=False).from_(source, copy=False)

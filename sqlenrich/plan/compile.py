"""An enrichment and an engine to a plan: the only place that knows the five steps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from sqlenrich.core.engine import CARRIED, Engine, ModelCall, OutputSpec
from sqlenrich.core.json import canonical_json
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Type, type_json
from sqlenrich.engines import get_engine
from sqlenrich.plan.checked_step import RELATIONS as CHECKED
from sqlenrich.plan.checked_step import CheckedStep
from sqlenrich.plan.pending_step import Pass, checked_attempts, chosen_reasons, passes, refused, unanswered
from sqlenrich.plan.plan import RESPONSES, STEPS, Plan, Step
from sqlenrich.plan.prompts_step import RELATIONS as SNAPSHOT
from sqlenrich.plan.prompts_step import PromptsStep
from sqlenrich.plan.relations import RELATIONS, Relations
from sqlenrich.plan.request import ResolvedModel, request_constant
from sqlenrich.plan.source_columns import SourceColumns
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.limits import TOO_LONG


class RetryCall(NamedTuple):
    """One call of a retry: whom it asks with which parameters, and the step that asks what ``pending_sql`` gives."""

    model: ResolvedModel
    step: Step
    what: str
    """What is asked, in words."""


def compile_plan(
    enrichment: Enrichment,
    engine: str,
    relations: Mapping[str, str] | None = None,
    *,
    model: ResolvedModel | None = None,
    source_types: Mapping[str, Type] | None = None,
    shard: tuple[int, int] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """Compile an enrichment for an engine.

    ``relations`` names the source and the steps where they are not the defaults; ``source_types`` are the source's
    real column types, where known, by source name; ``shard`` is ``(i, n)``: the i-th (from 1) of n parts of what is
    pending, by hash. Raises :class:`~sqlenrich.UnsupportedError` for what the engine can't do,
    :class:`~sqlenrich.PromptError` for what the template can't, :class:`~sqlenrich.ConfigError` for relations that
    clash.
    """
    target = get_engine(engine)
    resolved = model or resolve_model(enrichment, target)
    return _Compiler(enrichment, target, resolved, relations or {}, source_types, shard, options).plan()


def compile_retry(
    enrichment: Enrichment,
    engine: str,
    relations: Mapping[str, str] | None = None,
    *,
    model: ResolvedModel | None = None,
    reasons: Sequence[str] | None = None,
    max_attempts: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[RetryCall, ...]:
    """Compile the calls that ask chosen refused rows again, each distinct request in at most one of them.

    ``model`` is the one to ask; ``reasons`` are the codes to ask again, by default all that can be; ``max_attempts``
    stands in for the file's. The pending relation is made from ``checked`` and has one column more, ``sent_hash``.
    Raises as :func:`compile_plan` does, and ConfigError for a reason that can't be retried.
    """
    target = get_engine(engine)
    resolved = model or resolve_model(enrichment, target)
    codes = chosen_reasons(reasons)
    attempts = checked_attempts(enrichment.max_attempts if max_attempts is None else max_attempts)
    given = {"source": "source", **(relations or {})}

    def compiler(model: ResolvedModel) -> _Compiler:
        return _Compiler(enrichment, target, model, given, None, None, options, carried=(*CARRIED, "sent_hash"))

    told = compiler(resolved).tells_finish()
    return tuple(
        RetryCall(one.model, compiler(one.model).retry_step(one), one.what)
        for one in passes(target, resolved, codes, attempts, told=told)
    )


def snapshot_digest(enrichment: Enrichment, engine: str, model: ResolvedModel) -> str:
    """Give the hash of what decides a run's prompts and their hashes: two equal ones make the same of one source."""
    compiler = _Compiler(enrichment, get_engine(engine), model, {"source": "source"}, None, None, None)
    types = {n: (c.type and type_json(c.type), c.source_name) for n, c in enrichment.columns.items()}
    facts = {
        "sql": print_sql(compiler.engine, compiler.prompts()),
        "columns": types,
        "source": enrichment.source,
        "query": enrichment.query,
    }
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()


def output_of(enrichment: Enrichment, model: ResolvedModel) -> OutputSpec:
    """Give what an engine's ``response_format`` is made from."""
    return OutputSpec(enrichment.name, enrichment.schema, enrichment.repairs, model.name)


def resolve_model(
    enrichment: Enrichment, engine: Engine, name: str | None = None, overrides: Mapping[str, Any] | None = None
) -> ResolvedModel:
    """Give the model and its parameters under the engine's names. ``overrides`` come from an alias; None drops one."""
    model = name or (None if enrichment.model == "default" else enrichment.model) or engine.facts["default_model"].value
    names = engine.params_of(model or "")
    portable = {**enrichment.params}
    params = {}
    for key, value in portable.items():
        vendor = names.get(key)
        if vendor is not None:
            params[vendor] = value
    for key in dict.fromkeys((engine.name, engine.settings_key)):
        params |= enrichment.engine_params.get(key, {})
    for key, value in (overrides or {}).items():
        params[names.get(key) or key] = value
    options = {key: params.pop(key) for key in engine.call_options if key in params}
    return ResolvedModel(model or "", {key: value for key, value in params.items() if value is not None}, options)


ALIASES = ("accepted", "asked", *CHECKED, *SNAPSHOT)
"""The names of relations inside a step."""


class _Compiler:
    def __init__(
        self,
        enrichment: Enrichment,
        engine: Engine,
        model: ResolvedModel,
        relations: Mapping[str, str],
        source_types: Mapping[str, Type] | None,
        shard: tuple[int, int] | None,
        options: Mapping[str, Any] | None,
        carried: tuple[str, ...] = CARRIED,
    ) -> None:
        options = {**model.options, **(options or {})}
        self.e, self.engine, self.model, self.shard = enrichment, engine, model, shard
        self.source_types = source_types
        self.columns = SourceColumns(enrichment, engine, source_types)
        self.names = Relations(enrichment, engine, relations)
        self.table, self.col, self.named = self.names.table, self.names.col, self.names.named
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

    # Steps -----------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        asked: dict[str, Type] = {**self.kept, "prompt": STRING, "request_hash": STRING}
        recorded: dict[str, Type] = dict.fromkeys(self.recorded, BOOLEAN)
        decided = {} if self.e.limit is None else {TOO_LONG: BOOLEAN, **recorded}
        prompts = self.step("prompts", "table", {**asked, **decided}, self.prompts())
        checked_columns: dict[str, Type] = {
            **asked,
            "response": STRING,
            "answer": STRING,
            "_attempts": BIGINT,
            "_model": STRING,
            "_error": STRING,
            "_error_detail": STRING,
            "_repaired": BOOLEAN,
            **recorded,
        }
        steps = (
            prompts,
            self.responses(),
            self.step("checked", "table", checked_columns, self.checked()),
            self.step(
                "enriched",
                "table",
                {
                    **self.kept,
                    **self.e.output_columns,
                    "_request_hash": STRING,
                    "_model": STRING,
                    "_version": STRING,
                    "_fingerprint": STRING,
                    **recorded,
                },
                self.enriched(),
            ),
            self.step(
                "quarantine",
                "table",
                {
                    **self.kept,
                    "_error": STRING,
                    "_error_detail": STRING,
                    "_repaired": BOOLEAN,
                    "response": STRING,
                    "prompt": STRING,
                    "_attempts": BIGINT,
                    "_request_hash": STRING,
                    **recorded,
                },
                self.quarantine(),
            ),
        )
        must_exist = tuple(self.engine.must_exist(self.call))
        return Plan(self.e.name, self.engine.name, steps, self.constant, self.model.name, must_exist)

    def step(self, name: str, kind: Any, columns: Mapping[str, Type], select: Sql, **more: Any) -> Step:
        sql = print_sql(self.engine, self.unhidden(select))
        return Step(name, kind, dict(columns), sql, self.names.text(name), **more)

    def free(self, name: str) -> str:
        """A name that no column of the result tables has."""
        taken = {column.lower() for column in (*self.kept, *self.e.output_columns)}
        while name in taken:
            name += "_"
        return name

    def unhidden(self, select: Sql) -> Sql:
        """Rename a relation of ours that is called as a column: on BigQuery it would hide the column."""
        for node in select.find_all(exp.TableAlias, exp.Table, exp.Column):
            name = node.args.get("table" if isinstance(node, exp.Column) else "this")
            if isinstance(name, exp.Identifier) and name.this in ALIASES and not node.args.get("db"):
                name.set("this", self.free(name.this))
        return select

    def prompts(self) -> Sql:
        snapshot = PromptsStep(self.e, self.engine, self.names, self.columns, self.kept, self.constant, self.free)
        return snapshot.sql()

    def responses(self) -> Step:
        return self.call_step(unanswered(self.names, self.e.max_attempts, self.shard), self.col("request_hash"))

    def retry_step(self, chosen: Pass) -> Step:
        pending = refused(self.names, chosen, self.constant, feedback=self.e.feedback)
        return self.call_step(pending, self.col("sent_hash"))

    def tells_finish(self) -> bool:
        """Whether the engine reports why a model stopped; a client does."""
        if self.engine.call is None:
            return True
        return "finish_reason" in self.engine.call(self.table("pending"), self.call).columns

    def call_step(self, pending: Sql, sent_hash: Sql) -> Step:
        more: dict[str, Any] = {
            "pending_sql": print_sql(self.engine, pending),
            "pending_relation": self.names.text("pending"),
        }
        if self.engine.call is None:
            empty = exp.select(*(self.named(self.null(kind), name) for name, kind in RESPONSES.items()), copy=False)
            return self.step("responses", "append", RESPONSES, empty.where(literal(False), copy=False), **more)
        answered = self.engine.call(self.table("pending"), self.call)
        known = {
            "request_hash": self.col("request_hash"),
            "attempt": self.col("attempt"),
            "sent_hash": sent_hash,
            "model": literal(self.call.model),
            "version": literal(self.e.version),
            "fingerprint": literal(self.e.fingerprint),
            "asked_at": exp.CurrentTimestamp(),
            **answered.columns,
        }
        known = {name: value for name, value in known.items() if not isinstance(value, exp.Null)}
        values = [self.named(known.get(name) or self.null(kind), name) for name, kind in RESPONSES.items()]
        select = exp.select(*values, copy=False).from_(answered.source, copy=False)
        return self.step("responses", "append", RESPONSES, select, calls_in_sql=True, **more)

    def null(self, kind: Type) -> Sql:
        return exp.Cast(this=exp.Null(), to=self.engine.sql_type(kind))

    def checked(self) -> Sql:
        return CheckedStep(self.e, self.engine, self.names, tuple(self.kept), self.recorded, self.free).sql()

    def enriched(self) -> Sql:
        json, col, doc = self.engine.json, self.col, self.col(self.free("doc"))
        accepted = exp.select(exp.Star(), self.named(json.accepted(col("answer")), self.free("doc")), copy=False)
        accepted = accepted.from_(self.table("checked"), copy=False)
        accepted = accepted.where(exp.Is(this=col("_error"), expression=exp.Null()), copy=False)
        outputs = [
            self.named(self.engine.typed_column(json.get(doc.copy(), name), kind), name)
            for name, kind in self.e.readings.items()
        ]
        version: Sql = literal(self.e.version) if self.e.version is not None else self.null(STRING)
        return (
            exp.select(
                *(col(name) for name in self.kept),
                *outputs,
                self.named(col("request_hash"), "_request_hash"),
                col("_model"),
                self.named(version, "_version"),
                self.named(literal(self.e.fingerprint), "_fingerprint"),
                *(col(name) for name in self.recorded),
                copy=False,
            )
            .from_(exp.to_table("accepted"), copy=False)
            .with_("accepted", as_=accepted, copy=False)
        )

    def quarantine(self) -> Sql:
        col = self.col
        names = (*self.kept, "_error", "_error_detail", "_repaired", "response", "prompt", "_attempts")
        return (
            exp.select(
                *(col(n) for n in names),
                self.named(col("request_hash"), "_request_hash"),
                *(col(n) for n in self.recorded),
                copy=False,
            )
            .from_(self.table("checked"), copy=False)
            .where(exp.Not(this=exp.Is(this=col("_error"), expression=exp.Null())), copy=False)
        )


__all__ = ["RELATIONS", "STEPS", "RetryCall", "compile_plan", "compile_retry", "resolve_model", "snapshot_digest"]

"""An enrichment and an engine to a plan: the only place that knows the five steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from .columns import SourceColumns
from .engines import get_engine
from .engines.base import (
    Call,
    Engine,
    Sql,
    all_of,
    any_of,
    case,
    column,
    concat,
    identifier,
    literal,
    print_sql,
    relation,
)
from .enrichment import Enrichment
from .errors import ConfigError, SpecError, UnsupportedError
from .plan import RESPONSES, STEPS, Plan, Step
from .prompt.sql import prompt_sql
from .request import ResolvedModel, hint_text, request_constant
from .schema.repairs import kept_nulls, repaired_sql
from .schema.sql import verdict_sql
from .types import BIGINT, BOOLEAN, STRING, Type

RELATIONS = {
    "prompts": "{}_prompts",
    "pending": "{}_pending",
    "responses": "{}_responses",
    "checked": "{}_checked",
    "enriched": "{}",
    "quarantine": "{}_quarantine",
}
"""The relations of an enrichment and how they are named after it."""


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
    return _Compiler(
        enrichment, target, resolved, relations or {}, source_types, shard, {**resolved.options, **(options or {})}
    ).plan()


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
    options = {key: params.pop(key) for key in engine.options if key in params}
    return ResolvedModel(model or "", {key: value for key, value in params.items() if value is not None}, options)


ALIASES = ("accepted", "answered", "asked", "judged", "p", "parsed", "r", "ranked", "rendered")
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
        options: Mapping[str, Any],
    ) -> None:
        self.e, self.engine, self.model, self.shard = enrichment, engine, model, shard
        self.source_types = source_types
        self.columns = SourceColumns(enrichment, engine, source_types)
        self.relations = self.name_relations(relations)
        response_format = (
            None if options.get("schema") is False else engine.response_format(enrichment.name, enrichment.schema)
        )
        needs_hint = enrichment.hint == "always" or (enrichment.hint == "auto" and response_format is None)
        if engine.call is None:
            needs_hint = enrichment.hint == "always"
        hint = hint_text(enrichment.schema) if needs_hint and enrichment.hint != "never" else None
        self.call = Call(model.name, model.params, enrichment.schema, response_format, hint, options)
        self.constant = request_constant(model, enrichment.schema, hint)
        self.kept = {name: self.columns.type(name) for name in (*enrichment.key, *enrichment.keep)}

    # Names -----------------------------------------------------------------------------------------------------

    def name_relations(self, given: Mapping[str, str]) -> dict[str, exp.Table]:
        unknown = sorted(set(given) - {"source", *RELATIONS})
        if unknown:
            raise ConfigError(f"no step is called {', '.join(unknown)}; there are: source, {', '.join(RELATIONS)}")
        names = {step: given.get(step, form.format(self.e.name)) for step, form in RELATIONS.items()}
        source = given.get("source", self.e.source)
        if source is not None:
            names["source"] = source
        elif self.e.query is None:
            raise SpecError(self.e.place, ['no source: write "source: schema.table" in the header, or give one'])
        tables: dict[str, exp.Table] = {}
        for step, name in names.items():
            try:
                tables[step] = relation(self.engine, name)
            except ValueError as error:
                raise ConfigError(str(error)) from None
            for part in tables[step].parts:
                self.check_name(part.name)
        seen: dict[str, str] = {}
        for step, table in tables.items():
            other = seen.setdefault(table.sql(self.engine.dialect).lower(), step)
            if other != step:
                raise ConfigError(
                    f"{step} and {other} are the same table {table.sql(self.engine.dialect)}; name one differently"
                )
        return tables

    def check_name(self, name: str) -> None:
        if problem := "holds NUL" if "\0" in name else self.engine.name_problem(name):
            raise UnsupportedError(
                self.engine.name, f'the name "{name}" {problem}', "rename it, e.g. in a source query"
            )

    def table(self, step: str, alias: str | None = None) -> exp.Table:
        table = self.relations[step].copy()
        if alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        return table

    def col(self, name: str, table: str | None = None) -> exp.Column:
        return column(self.engine, name, table)

    def named(self, value: Sql, name: str) -> Sql:
        if isinstance(value, exp.Column) and value.name == name:
            return value
        return exp.Alias(this=value, alias=identifier(self.engine, name))

    # Steps -----------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        prompts = self.step("prompts", "table", {**self.kept, "prompt": STRING, "request_hash": STRING}, self.prompts())
        checked_columns: dict[str, Type] = {
            **prompts.columns,
            "response": STRING,
            "answer": STRING,
            "_attempts": BIGINT,
            "_model": STRING,
            "_error": STRING,
            "_error_detail": STRING,
            "_repaired": BOOLEAN,
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
                },
                self.quarantine(),
            ),
        )
        must_exist = tuple(self.engine.must_exist(self.call))
        return Plan(self.e.name, self.engine.name, steps, self.constant, self.model.name, must_exist)

    def step(self, name: str, kind: Any, columns: Mapping[str, Type], select: Sql, **more: Any) -> Step:
        sql = print_sql(self.engine, self.unhidden(select))
        relation_sql = self.relations[name].sql(self.engine.dialect)
        return Step(name, kind, dict(columns), sql, relation_sql, **more)

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
        types = None
        if self.source_types is not None:
            by_source = {spec.source_name: name for name, spec in self.e.columns.items()}
            types = {by_source.get(name, name): kind for name, kind in self.source_types.items()}
        compiled = self.e.prompt(types)
        for name in (*compiled.columns, *self.kept, *(self.e.require or ())):
            self.check_name(self.e.source_name(name))
            if self.source_types is not None and self.e.source_name(name) not in self.source_types:
                available = ", ".join(self.source_types)
                raise SpecError(
                    self.e.place, [f'no column "{self.e.source_name(name)}" in the source; there are: {available}']
                )
        prompt = prompt_sql(compiled.expr, self.engine.text, self.columns.value)
        broken = [test for name in compiled.columns if (test := self.columns.cast_failed(name)) is not None]
        if broken:
            prompt = case((any_of(*broken), literal(None)), default=prompt)
        rendered = exp.select(
            *(self.named(self.columns.value(name), name) for name in self.kept),
            self.named(prompt, "prompt"),
            self.named(self.columns.no_input(compiled.columns), "_no_input"),
            copy=False,
        )
        if self.e.where:
            rendered = rendered.where(self.columns.where(self.e.where), copy=False)
        rendered = rendered.from_(self.source(rendered), copy=False)
        no_input, text = self.col("_no_input"), self.col("prompt")
        blank = exp.Coalesce(this=text.copy(), expressions=[literal("")])
        hashed = self.engine.sha256(concat(literal(self.constant), text.copy()))
        return (
            exp.select(
                *(self.col(name) for name in self.kept),
                self.named(case((no_input, blank), default=text), "prompt"),
                self.named(case((exp.Not(this=no_input.copy()), hashed)), "request_hash"),
                copy=False,
            )
            .from_(exp.to_table("rendered"), copy=False)
            .with_("rendered", as_=rendered, copy=False)
        )

    def source(self, reader: exp.Select) -> Sql:
        """The source under a name that no column has: on BigQuery it would hide the column."""
        taken = {node.name.lower() for node in reader.find_all(exp.Identifier)}
        alias = "source"
        while alias in taken:
            alias += "_"
        return self.table("source", alias) if "source" in self.relations else self.columns.query(alias)

    def pending(self) -> Sql:
        """What is to be asked: each distinct hash that has no answer, or whose latest attempt may be tried again."""
        retried = case((self.col("retryable"), literal(0)), default=self.col("attempt"))
        asked = (
            exp.select(
                self.col("request_hash"),
                self.named(exp.Max(this=self.col("attempt")), "attempt"),
                self.named(exp.Max(this=retried), "settled"),
                copy=False,
            )
            .from_(self.table("responses"), copy=False)
            .group_by(self.col("request_hash"), copy=False)
        )
        attempt = self.col("attempt", "asked")
        tries_left = all_of(
            exp.LT(this=self.col("settled", "asked"), expression=attempt.copy()),
            exp.LT(this=attempt.copy(), expression=literal(self.e.max_attempts)),
        )
        open_ = exp.paren(any_of(exp.Is(this=attempt.copy(), expression=exp.Null()), tries_left), copy=False)
        hash_ = self.col("request_hash", "p")
        conditions: list[Sql] = [exp.Not(this=exp.Is(this=hash_.copy(), expression=exp.Null())), open_]
        if self.shard is not None:
            conditions += self.shard_range(hash_, *self.shard)
        first = exp.Add(this=exp.Coalesce(this=attempt, expressions=[literal(0)]), expression=literal(1))
        return (
            exp.select(hash_.copy(), self.named(first, "attempt"), self.col("prompt", "p"), copy=False)
            .distinct(copy=False)
            .from_(self.table("prompts", "p"), copy=False)
            .join(
                exp.to_table("asked"),
                on=exp.EQ(this=self.col("request_hash", "asked"), expression=hash_.copy()),
                join_type="LEFT",
                copy=False,
            )
            .where(*conditions, copy=False)
            .with_("asked", as_=asked, copy=False)
        )

    def shard_range(self, hash_: Sql, index: int, count: int) -> list[Sql]:
        if not 1 <= index <= count <= 65_536:
            raise ConfigError(f"shard {index} of {count}: write i of n with 1 <= i <= n <= 65536")
        low, high = (index - 1) * 2**32 // count, index * 2**32 // count
        tests: list[Sql] = []
        if index > 1:
            tests.append(exp.GTE(this=hash_.copy(), expression=literal(f"{low:08x}")))
        if index < count:
            tests.append(exp.LT(this=hash_.copy(), expression=literal(f"{high:08x}")))
        return tests

    def responses(self) -> Step:
        pending = self.pending()
        more: dict[str, Any] = {
            "pending_sql": print_sql(self.engine, pending),
            "pending_relation": self.relations["pending"].sql(self.engine.dialect),
        }
        if self.engine.call is None:
            empty = exp.select(*(self.named(self.null(kind), name) for name, kind in RESPONSES.items()), copy=False)
            return self.step("responses", "append", RESPONSES, empty.where(literal(False), copy=False), **more)
        answered = self.engine.call(self.table("pending"), self.call)
        known = {
            "request_hash": self.col("request_hash"),
            "attempt": self.col("attempt"),
            "sent_hash": self.col("request_hash"),
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
        e, json, col = self.e, self.engine.json, self.col
        facts = ("request_hash", "attempt", "asked_at", "run_id", "model", "response", "call_error", "finish_reason")
        known = exp.select("1", copy=False).from_(self.table("prompts", "p"), copy=False)
        known = known.where(exp.EQ(this=col("request_hash", "p"), expression=col("request_hash", "r")), copy=False)
        repaired = repaired_sql(json, col("response", "r"), e.repairs, keep_null=kept_nulls(e.schema))
        answered = exp.select(
            *(col(name, "r") for name in facts),
            self.named(repaired, "answer"),
            copy=False,
        ).from_(self.table("responses", "r"), copy=False)
        answered = answered.where(exp.Exists(this=known), copy=False)
        parsed = exp.select(exp.Star(), self.named(json["parse"](col("answer")), self.free("doc")), copy=False)
        parsed = parsed.from_(exp.to_table("answered"), copy=False)
        failed = exp.Not(this=exp.Is(this=col("call_error"), expression=exp.Null()))
        verdict = verdict_sql(json, col("answer"), col(self.free("doc")), e.verdicts, detail=True)
        verdict.args["ifs"].insert(0, exp.If(this=failed, true=concat(literal("CALL_ERROR "), col("call_error"))))
        judged = exp.select(
            *(col(name) for name in (*facts, "answer")), self.named(verdict, "verdict"), copy=False
        ).from_(exp.to_table("parsed"), copy=False)
        ranked = exp.select(
            exp.Star(), self.named(self.choice(), "choice"), self.named(self.attempts(), "attempts"), copy=False
        ).from_(exp.to_table("judged"), copy=False)
        select = self.join_answers()
        for name, query in (("answered", answered), ("parsed", parsed), ("judged", judged), ("ranked", ranked)):
            select = select.with_(name, as_=query, copy=False)
        return select

    def choice(self) -> Sql:
        """One total order over the answers of a hash: accepted first, then the latest attempt, then the earliest."""
        accepted = case((exp.Is(this=self.col("verdict"), expression=exp.Null()), literal(0)), default=literal(1))
        order = exp.Order(
            expressions=[
                exp.Ordered(this=accepted, nulls_first=True),
                exp.Ordered(this=self.col("attempt"), desc=True, nulls_first=False),
                exp.Ordered(this=self.col("asked_at"), nulls_first=True),
                exp.Ordered(this=self.col("run_id"), nulls_first=True),
            ]
        )
        return exp.Window(this=exp.RowNumber(), partition_by=[self.col("request_hash")], order=order)

    def attempts(self) -> Sql:
        return exp.Window(this=exp.Max(this=self.col("attempt")), partition_by=[self.col("request_hash")])

    def join_answers(self) -> exp.Select:
        col, text = self.col, self.engine.text
        verdict = col("verdict", "r")
        code = self.engine.json["first_word"](verdict.copy())
        rest = text["substr"](verdict.copy(), exp.Add(this=text["length"](code.copy()), expression=literal(2)))
        no_hash = exp.Is(this=col("request_hash", "p"), expression=exp.Null())
        no_prompt = exp.Is(this=col("prompt", "p"), expression=exp.Null())
        no_answer = exp.Is(this=col("request_hash", "r"), expression=exp.Null())
        kept_code = exp.In(this=code.copy(), expressions=[literal("CALL_ERROR"), literal("NO_RESPONSE")])
        finish = col("finish_reason", "r")
        error = case(
            (all_of(no_hash, no_prompt), literal("BAD_PROMPT")),
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
                self.named(exp.Coalesce(this=col("attempts", "r"), expressions=[literal(0)]), "_attempts"),
                self.named(col("model", "r"), "_model"),
                self.named(error, "_error"),
                self.named(rest, "_error_detail"),
                self.named(repaired, "_repaired"),
                copy=False,
            )
            .from_(self.table("prompts", "p"), copy=False)
            .join(exp.alias_(exp.to_table("ranked"), "r", table=True), on=matches, join_type="LEFT", copy=False)
        )

    def enriched(self) -> Sql:
        json, col, doc = self.engine.json, self.col, self.col(self.free("doc"))
        accepted = exp.select(exp.Star(), self.named(json["accepted"](col("answer")), self.free("doc")), copy=False)
        accepted = accepted.from_(self.table("checked"), copy=False)
        accepted = accepted.where(exp.Is(this=col("_error"), expression=exp.Null()), copy=False)
        outputs = [
            self.named(self.engine.column(json["get"](doc.copy(), name), kind), name)
            for name, kind in self.e.output_columns.items()
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
                copy=False,
            )
            .from_(exp.to_table("accepted"), copy=False)
            .with_("accepted", as_=accepted, copy=False)
        )

    def quarantine(self) -> Sql:
        col = self.col
        names = (*self.kept, "_error", "_error_detail", "_repaired", "response", "prompt", "_attempts")
        return (
            exp.select(*(col(n) for n in names), self.named(col("request_hash"), "_request_hash"), copy=False)
            .from_(self.table("checked"), copy=False)
            .where(exp.Not(this=exp.Is(this=col("_error"), expression=exp.Null())), copy=False)
        )


__all__ = ["RELATIONS", "STEPS", "compile_plan", "resolve_model"]

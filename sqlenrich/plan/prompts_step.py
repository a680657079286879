"""The step ``prompts``: a snapshot of the source, one row per source row, with its prompt and request hash."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import SpecError
from sqlenrich.core.sql import Sql, any_of, case, concat, literal
from sqlenrich.core.types import Type, without_zones
from sqlenrich.plan.overflow import CTE_NAMES as OVERFLOW_CTE_NAMES
from sqlenrich.plan.overflow import OverflowSql
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import check_name
from sqlenrich.plan.source_columns import BAD_VALUE, SourceColumns
from sqlenrich.prompt import Prompt
from sqlenrich.prompt.sql.printer import prompt_sql
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.limits import TOO_LONG, cut_problem

CTE_NAMES = ("rendered", *OVERFLOW_CTE_NAMES)
"""The names of the common table expressions inside the step."""


@dataclass(frozen=True)
class PromptsStep:
    """What the step is made from. ``constant`` precedes each prompt in its hash."""

    enrichment: Enrichment
    engine: Engine
    names: References
    columns: SourceColumns
    kept: Mapping[str, Type]
    constant: str
    unused_name: Callable[[str], str]
    """Gives a name that no column of the result tables has."""
    reads_query: bool
    """Whether the source is the header's query, not a relation."""
    tells_values: bool
    """Whether the step says which value does not fit its declared type."""

    def sql(self) -> Sql:
        """Return the SELECT. Raises SpecError for a column that the source lacks, PromptError for the template."""
        col, named, limit = self.names.col, self.names.named, self.enrichment.limit
        compiled = self.compiled()
        render = functools.partial(prompt_sql, compiled.expr, self.engine.text)
        rendered = self.rendered(compiled, render(self.columns.value))
        relations = {"rendered": rendered}
        no_input: Sql = col("_no_input")
        text: Sql = col("prompt")
        decided: tuple[str, ...] = ()
        not_asked = no_input.copy()
        if limit is not None:
            overflow = OverflowSql(self.engine, limit, self.unused_name)
            values = {name: self.columns.value(name) for name in compiled.columns}
            relations.update(overflow.expressions(rendered, values, render))
            text, not_asked, decided = overflow.prompt(), overflow.not_asked(), (TOO_LONG, *limit.recorded)
        blank = exp.Coalesce(this=text.copy(), expressions=[literal("")])
        hashed = self.engine.sha256(concat(literal(self.constant), text.copy()))
        select = exp.select(
            *(col(name) for name in self.kept),
            named(case((no_input, blank), default=text), "prompt"),
            named(case((exp.Not(this=not_asked), hashed)), "request_hash"),
            *(col(name) for name in decided),
            *([col(BAD_VALUE)] if self.tells_values else []),
            copy=False,
        )
        select = select.from_(exp.to_table(list(relations)[-1]), copy=False)
        for name, relation in relations.items():
            select = select.with_(name, as_=relation, copy=False)
        return select

    def compiled(self) -> Prompt:
        """Compile the template for the source's real types, where they are known."""
        types, known = None, self.columns.source_types
        if known is not None:
            by_source = {spec.source_name: name for name, spec in self.enrichment.columns.items()}
            types = {by_source.get(name, name): without_zones(kind) for name, kind in known.items()}
        compiled = self.enrichment.prompt(types)
        for name in (*compiled.columns, *self.kept, *(self.enrichment.require or ())):
            source_name = self.enrichment.source_name(name)
            check_name(self.engine, source_name)
            if known is not None and source_name not in known:
                raise SpecError(
                    self.enrichment.place, [f'no column "{source_name}" in the source; there are: {", ".join(known)}']
                )
        cut = self.enrichment.limit.cut if self.enrichment.limit is not None else None
        if cut is not None and (problem := cut_problem(cut, compiled.expr)):
            raise SpecError(self.enrichment.place, [f"on_overflow: {problem}"])
        return compiled

    def rendered(self, compiled: Prompt, prompt: Sql) -> exp.Select:
        """Return the SELECT of the source's rows with their prompts, without a limit of the length."""
        named = self.names.named
        broken = [test for name in compiled.columns if (test := self.columns.cast_failed(name)) is not None]
        if broken:
            prompt = case((any_of(*broken), literal(None)), default=prompt)
        rendered = exp.select(
            *(named(self.columns.kept(name), name) for name in self.kept),
            named(prompt, "prompt"),
            named(self.columns.no_input(compiled.inputs), "_no_input"),
            *([named(self.columns.bad_value(compiled.columns), BAD_VALUE)] if self.tells_values else []),
            copy=False,
        )
        if self.enrichment.where:
            rendered = rendered.where(self.columns.where(self.enrichment.where), copy=False)
        rendered = rendered.where(*self.columns.no_timestamps(compiled.columns), copy=False)
        return rendered.from_(self.source(rendered), copy=False)

    def source(self, reader: exp.Select) -> Sql:
        """Return the source under an alias that no column has: BigQuery would read the alias instead of the column."""
        taken = {node.name.lower() for node in reader.find_all(exp.Identifier)}
        alias = "source"
        while alias in taken:
            alias += "_"
        return self.columns.query(alias) if self.reads_query else self.names.table("source", alias)

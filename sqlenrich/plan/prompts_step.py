"""The step ``prompts``: a snapshot of the source, one row a source row, with what each would ask."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import SpecError
from sqlenrich.core.sql import Sql, any_of, case, concat, literal
from sqlenrich.core.types import Type
from sqlenrich.plan.overflow import RELATIONS as OVERFLOW
from sqlenrich.plan.overflow import FittedSql
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import check_name
from sqlenrich.plan.source_columns import SourceColumns
from sqlenrich.prompt import Prompt
from sqlenrich.prompt.sql.printer import prompt_sql
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.limits import TOO_LONG, cut_problem

RELATIONS = ("rendered", *OVERFLOW)
"""The names of the relations inside the step."""


@dataclass(frozen=True)
class PromptsStep:
    """What the step is made from. ``constant`` stands before each prompt where it is hashed."""

    e: Enrichment
    engine: Engine
    names: References
    columns: SourceColumns
    kept: Mapping[str, Type]
    constant: str
    free: Callable[[str], str]
    """Gives a name that no column of the result tables has."""
    reads_query: bool
    """Whether the source is the header's query, not a relation."""

    def sql(self) -> Sql:
        """Give the SELECT. Raises SpecError for columns that the source hasn't got, PromptError for the template."""
        col, named, limit = self.names.col, self.names.named, self.e.limit
        compiled = self.compiled()
        render = functools.partial(prompt_sql, compiled.expr, self.engine.text)
        rendered = self.rendered(compiled, render(self.columns.value))
        relations = {"rendered": rendered}
        no_input: Sql = col("_no_input")
        text: Sql = col("prompt")
        decided: tuple[str, ...] = ()
        not_asked = no_input.copy()
        if limit is not None:
            fitted = FittedSql(self.engine, limit, self.free)
            values = {name: self.columns.value(name) for name in compiled.columns}
            relations.update(fitted.relations(rendered, values, render))
            text, not_asked, decided = fitted.prompt(), fitted.not_asked(), (TOO_LONG, *limit.recorded)
        blank = exp.Coalesce(this=text.copy(), expressions=[literal("")])
        hashed = self.engine.sha256(concat(literal(self.constant), text.copy()))
        select = exp.select(
            *(col(name) for name in self.kept),
            named(case((no_input, blank), default=text), "prompt"),
            named(case((exp.Not(this=not_asked), hashed)), "request_hash"),
            *(col(name) for name in decided),
            copy=False,
        )
        select = select.from_(exp.to_table(list(relations)[-1]), copy=False)
        for name, relation in relations.items():
            select = select.with_(name, as_=relation, copy=False)
        return select

    def compiled(self) -> Prompt:
        """Give the template compiled for the source's real types, where they are known."""
        types, known = None, self.columns.source_types
        if known is not None:
            by_source = {spec.source_name: name for name, spec in self.e.columns.items()}
            types = {by_source.get(name, name): kind for name, kind in known.items()}
        compiled = self.e.prompt(types)
        for name in (*compiled.columns, *self.kept, *(self.e.require or ())):
            source_name = self.e.source_name(name)
            check_name(self.engine, source_name)
            if known is not None and source_name not in known:
                raise SpecError(
                    self.e.place, [f'no column "{source_name}" in the source; there are: {", ".join(known)}']
                )
        cut = self.e.limit.cut if self.e.limit is not None else None
        if cut is not None and (problem := cut_problem(cut, compiled.expr)):
            raise SpecError(self.e.place, [f"on_overflow: {problem}"])
        return compiled

    def rendered(self, compiled: Prompt, prompt: Sql) -> exp.Select:
        """Give the source's rows with their prompts, whatever their length."""
        named = self.names.named
        broken = [test for name in compiled.columns if (test := self.columns.cast_failed(name)) is not None]
        if broken:
            prompt = case((any_of(*broken), literal(None)), default=prompt)
        rendered = exp.select(
            *(named(self.columns.value(name), name) for name in self.kept),
            named(prompt, "prompt"),
            named(self.columns.no_input(compiled.columns), "_no_input"),
            copy=False,
        )
        if self.e.where:
            rendered = rendered.where(self.columns.where(self.e.where), copy=False)
        return rendered.from_(self.source(rendered), copy=False)

    def source(self, reader: exp.Select) -> Sql:
        """Give the source under a name that no column has: on BigQuery it would hide the column."""
        taken = {node.name.lower() for node in reader.find_all(exp.Identifier)}
        alias = "source"
        while alias in taken:
            alias += "_"
        return self.columns.query(alias) if self.reads_query else self.names.table("source", alias)

"""An enrichment: a prompt for each row of a table, and the schema of the answer."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import PromptError, SpecError
from sqlenrich.core.result import TextRepr
from sqlenrich.core.turn import Turn
from sqlenrich.core.types import BIGINT, STRING, Array, Struct, Type, type_json
from sqlenrich.core.zones import DEFAULT_ZONE
from sqlenrich.prompt import Prompt, compile_prompt, with_system
from sqlenrich.prompt.shapes import column_shapes
from sqlenrich.spec.cascade import Cascade
from sqlenrich.spec.condition import columns_of_condition, parse_condition
from sqlenrich.spec.contract import OutputContract
from sqlenrich.spec.quality import Quality
from sqlenrich.spec.row_checks import failed_check as first_failed
from sqlenrich.spec.row_checks import kind_of_type, parse_check
from sqlenrich.spec.source_refs import SourceRefs

RESERVED_COLUMNS = (
    "_error", "_error_detail", "_repaired", "response", "prompt", "_attempts", "_request_hash", "request_hash",
    "_model", "_version", "_fingerprint", "_asked_at", "answer", "_no_input", "_too_long", "_truncated",
    "_bad_value",
)  # fmt: skip
"""Names of sqlenrich's own columns in a result table."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class SourceColumn:
    """A column that the template reads: its type (None: as in the source) and its name in the source."""

    type: Type | None
    source_name: str


def checked_type(name: str, columns: Mapping[str, SourceColumn]) -> Type:
    """Return the type by which a row check reads a column: the declared one, else text; a script knows no other."""
    declared = columns[name].type if name in columns else None
    return declared or (BIGINT if name == "_row" else STRING)


@dataclass(frozen=True, repr=False, kw_only=True)
class Enrichment(OutputContract, TextRepr):
    """A prompt for each row, and the contract of its answer. :func:`~sqlenrich.load` makes it from a file."""

    name: str
    template: str
    path: Path | None = None
    template_line: int = 1
    description: str = ""
    source: str | None = None
    query: str | None = None
    refs: SourceRefs | None = None
    """The results of other enrichments that the source reads."""
    keep_all: bool = False
    """Whether ``keep`` stands for all columns of the source but the key, which :meth:`with_all_kept` names."""
    columns: Mapping[str, SourceColumn] = field(default_factory=dict)
    require: tuple[str, ...] | None = None
    where: str | None = None
    timezone: str = DEFAULT_ZONE
    """The IANA name of the time zone in which the prompt and ``where`` read instants."""
    model: str = "default"
    params: Mapping[str, Any] = field(default_factory=dict)
    engine_params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    vars: Mapping[str, Any] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    """The messages before each prompt, their constants filled in; the content of ``system`` is None."""
    system: str | None = None
    """The template of a system message that differs by row; None: it is constant or there is none."""
    hint: str = "auto"
    max_attempts: int = 3
    feedback: bool = False
    """Whether a retry appends the reason of the last refusal to the prompt."""
    escalate: str | None = None
    """The model of a retry: an alias or a model's own name. None: the same model."""
    cascade: Cascade | None = None
    """The second model, and the rows that it decides; None: there is one model."""
    max_quarantine: float | None = None
    pin_model: str | bool | None = None
    """The name or the pattern (``*``, ``?``, ``[...]``) of the models that may answer; True: always the same model."""
    quality: Quality = field(default_factory=Quality)
    """How the quality of the answers is measured."""

    def to_text(self) -> str:
        """Return what it reads and what it gives, for people."""
        try:
            reads = ", ".join(self.prompt().columns)
        except PromptError as error:
            reads = error.message
        lines = [
            f"{self.name}{f': {self.description}' if self.description else ''}",
            f"  reads  {reads}",
            f"  key    {', '.join(self.key) or '_row, the number of a row'}",
            *(["  keeps  all other columns"] if self.keep_all else []),
            *([f"  keeps  {', '.join(self.keep)}"] if self.keep else []),
            f"  gives  {', '.join(self.output_columns)}",
        ]
        return "\n".join(lines)

    def prompt(self, types: Mapping[str, Type] | None = None, *, guess: bool = True) -> Prompt:
        """Compile the template, and that of a system message that differs by row.

        ``types`` are the source's real column types by template name, if known. Without them a column is a text, or,
        with ``guess``, the struct or the array as which the template reads it: the source decides. Raises
        :class:`~sqlenrich.PromptError`, without ``guess`` also where a struct has no declared type.
        """
        if types is not None:
            return self._compiled(types, None)
        try:
            return self._compiled({}, STRING)
        except PromptError as error:
            shapes = self._shapes()
            if not shapes:
                raise
            if guess:
                return self._compiled(shapes, STRING)
            declared = ", ".join(f"{name}: {_flow(kind)}" for name, kind in shapes.items())
            first = error.problems[0]
            told = PromptError(
                f"{first.message}; declare its type: columns: {{{declared}}}",
                source=first.source,
                line=first.line,
                column=first.column,
            )
            raise PromptError.of([told, *error.problems[1:]]) from None

    def _shapes(self) -> dict[str, Type]:
        """Return the structs and arrays that the template reads without a declared type."""
        known = [name for name, column in self.columns.items() if column.type is not None]
        texts = (self.template, self.system or "")
        folder = self.path.resolve().parent if self.path is not None else None
        known += ["output", *self.vars]
        return {name: kind for text in texts for name, kind in column_shapes(text, known, folder).items()}

    def _compiled(self, types: Mapping[str, Type], default: Type | None) -> Prompt:
        declared = {name: column.type for name, column in self.columns.items() if column.type is not None}
        compiled = functools.partial(
            compile_prompt,
            columns={**types, **declared},
            vars={"output": self.schema.get("properties", {}), **self.vars},
            default=default,
            folder=self.path.resolve().parent if self.path is not None else None,
        )
        if self.system is None:
            return compiled(self.template, source=self.place, first_line=self.template_line)
        problems: list[PromptError] = []
        parts: list[Prompt] = []
        for template, source, line in (
            (self.system, f"{self.place} @ system", 1),
            (self.template, self.place, self.template_line),
        ):
            try:
                parts.append(compiled(template, source=source, first_line=line))
            except PromptError as error:
                problems += error.problems
        if problems:
            raise PromptError.of(problems)
        return with_system(*parts)

    def used_columns(self, compiled: Prompt | None = None) -> tuple[str, ...]:
        """Return the columns that the prompt, the key, ``keep``, ``require``, ``where`` and checks name, each once.

        Raises :class:`~sqlenrich.PromptError` where the template can't be compiled.
        """
        printed = (self.prompt() if compiled is None else compiled).columns
        try:
            tested = columns_of_condition(parse_condition(self.where)) if self.where else ()
        except ValueError:  # a condition that is reported elsewhere
            tested = ()
        named = (*printed, *self.key, *self.keep, *(self.require or ()), *tested, *self.checked_columns)
        return tuple(dict.fromkeys(named))

    @property
    def checked_columns(self) -> tuple[str, ...]:
        """The columns of the source that row checks read."""
        read = (columns_of_condition(parse_check(*check)) for check in self.row_checks.items())
        return tuple(dict.fromkeys(name for names in read for name in names if name not in self.readings))

    def failed_check(self, row: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
        """Return the name of the first of ``checks`` that a row with its accepted answer fails; None where it has none.

        ``row`` has the columns by their names in the template.
        """
        names = (*self.checked_columns, *self.readings)
        kinds = {name: kind_of_type(self.readings.get(name) or checked_type(name, self.columns)) for name in names}
        return first_failed(self.row_checks, kinds, row, answer)

    def with_refs(self, relation: Callable[[str], str]) -> Enrichment:
        """Return it with a source that reads each other enrichment's result as its ``relation``."""
        if self.refs is None:
            return self
        source, query = self.refs.filled(relation)
        return replace(self, source=source, query=query)

    def with_all_kept(self, source: Iterable[str] | None) -> Enrichment:
        """Return it with the columns that ``keep: "*"`` stands for: those of the ``source`` but the key.

        A column that ``columns`` reads under another name is kept under that name. ``None``: the source is unknown,
        and ``columns`` must name all of it. Raises :class:`~sqlenrich.SpecError` where it does not, and for a column
        whose name a result table has already.
        """
        if not self.keep_all:
            return self
        if source is None:
            unnamed = [name for name in self.used_columns() if name not in self.columns]
            if unnamed or not self.columns:
                raise SpecError(
                    self.place,
                    [
                        'keep: "*" needs the columns of the source, and a script, dbt or a source query does not tell '
                        "them: write keep: [COLUMN, ...], or name all columns of the source under columns"
                        f"{f' ({_listed(unnamed)} too)' if unnamed else ''}"
                    ],
                )
            source = [column.source_name for column in self.columns.values()]
        keys = set(map(self.source_name, self.key))
        renamed = {column.source_name: name for name, column in reversed(list(self.columns.items()))}
        names = [renamed.get(name, name) for name in source if name not in keys]
        taken = {name.lower() for name in (*self.key, *self.output_columns, *RESERVED_COLUMNS, "_row")}
        bad: list[str] = []
        kept: list[str] = []
        for name in names:
            (bad if name.lower() in taken else kept).append(name)
            taken.add(name.lower())
        if bad:
            what = f'keep: "*" can\'t keep {_listed(bad)}: a result table has another column of that name; write keep: '
            raise SpecError(self.place, [f"{what}[{_listed(kept)}]"])
        return replace(self, keep=tuple(kept), keep_all=False)

    @property
    def place(self) -> str:
        """The name of the file in messages."""
        return str(self.path) if self.path is not None else f"{self.name}.prompt"

    def source_name(self, column: str) -> str:
        """Return the source's name of a column of the template, the key or ``keep``."""
        spec = self.columns.get(column)
        return spec.source_name if spec is not None else column


def _listed(names: Iterable[str]) -> str:
    """Return names as the items of a YAML list on one line."""
    return ", ".join(name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False) for name in names)


def _flow(kind: Type) -> str:
    """Return a type as YAML on one line."""
    if isinstance(kind, Struct):
        return f"{{struct: {{{', '.join(f'{name}: {_flow(inner)}' for name, inner in kind.fields)}}}}}"
    return f"{{array: {_flow(kind.item)}}}" if isinstance(kind, Array) else str(type_json(kind))

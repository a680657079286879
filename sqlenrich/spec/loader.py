"""Load a prompt file: read and validate its header, and report all its problems at once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.errors import PromptError, SpecError, did_you_mean
from sqlenrich.core.json import compact_json
from sqlenrich.core.turn import ROW_SYSTEM, Turn
from sqlenrich.core.types import STRING, parse_type, stored
from sqlenrich.core.zones import DEFAULT_ZONE, time_zone
from sqlenrich.prompt import compile_prompt
from sqlenrich.schema import output_columns
from sqlenrich.schema.checks.repairs import REPAIRS
from sqlenrich.spec.cascade import Cascade, read_cascade
from sqlenrich.spec.condition import columns_of_condition, parse_condition
from sqlenrich.spec.contract import DEFAULT_REPAIRS
from sqlenrich.spec.enrichment import RESERVED_COLUMNS, Enrichment, SourceColumn, checked_type
from sqlenrich.spec.header import ELSEWHERE, FOREIGN, HEADER, KEEP_ALL, PLACED, RESERVED, GivenHeader, Header
from sqlenrich.spec.limits import Limit, cut_problem, read_limit
from sqlenrich.spec.output import read_output
from sqlenrich.spec.params import read_params
from sqlenrich.spec.quality import Quality, read_quality
from sqlenrich.spec.row_checks import check_kinds, kind_of_type, parse_check
from sqlenrich.spec.source_refs import SourceRefs, read_source
from sqlenrich.spec.turns import Problem, read_turns

GATEWAY = "gateway"
"""The enrichment whose rows are the requests of :class:`~sqlenrich.Gateway`."""


def templates() -> dict[str, Path]:
    """Return the file of each ready-made enrichment by its name."""
    here = Path(__file__).parents[1]
    for folder in (here / "templates", here.parent / "templates"):
        if folder.is_dir():
            return {p.stem: p for p in sorted(folder.glob("*/*.prompt"))}
    return {}


def load(path: str | Path) -> Enrichment:
    """Load an enrichment file, or a ready-made enrichment by its name.

    Raises :class:`~sqlenrich.SpecError` with all the problems of the file, each with its line and place.
    """
    file = Path(path)
    if not file.exists():
        known = {**templates(), GATEWAY: Path(__file__).with_name(f"{GATEWAY}.prompt")}
        name = str(path).removesuffix(".prompt") if file.name == f"{GATEWAY}.prompt" else str(path)
        if name not in known:
            hint = did_you_mean(str(path), known) if file.suffix != ".prompt" else ""
            raise SpecError(str(path), [f"no such file, and no template of that name{hint}; see: sqlenrich templates"])
        # Without a path, its settings are those of the working folder, not of the package.
        return replace(load(known[name]), path=None)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise SpecError(str(path), [f"can't be read: {reason}"]) from None
    return loads(text, name=file.stem, path=file)


def enrichment_of(given: Enrichment | str | Path) -> Enrichment:
    """Return an enrichment itself, or that of a file or a template's name, as :func:`load` does."""
    return given if isinstance(given, Enrichment) else load(given)


def loads(text: str, *, name: str = "enrichment", path: Path | None = None) -> Enrichment:
    """Load an enrichment from the text of a prompt file. Its tables have the ``name``. Raises as :func:`load` does."""
    return _Loader(text, name, path).load_file()


def enrichment(name: str, *, prompt: str, output: Any, **header: Any) -> Enrichment:
    """Return an enrichment without a file.

    ``output`` is a Pydantic model, or what stands under ``output`` of a file; the other keywords are keys of the
    header, such as ``key=["id"]`` and ``params={"temperature": 0}``. Raises as :func:`load` does, without lines.
    """
    schema = output.model_json_schema() if hasattr(output, "model_json_schema") else output
    try:
        values = json.loads(compact_json({**header, "output": schema}))
    except (TypeError, ValueError) as error:
        raise SpecError(f"{name}.prompt", [f"a value is none that a file can have: {error}"]) from None
    loader = _Loader(f"{compact_json(values)}\n---\n{prompt}", name, None)
    return loader.load(GivenHeader(values), prompt, 1)


class _Loader:
    def __init__(self, text: str, name: str, path: Path | None) -> None:
        self.text = text.replace("\r\n", "\n")
        self.name, self.path = name, path
        self.problems: list[str] = []
        self.wrong: set[str] = set()
        self.source = str(path) if path is not None else f"{name}.prompt"

    def load_file(self) -> Enrichment:
        header_text, template, template_line = self.split()
        try:
            header = Header(header_text, 2)
        except ValueError as error:
            raise SpecError(self.source, [str(error), *self.syntax(template, template_line)]) from None
        return self.load(header, template, template_line)

    def load(self, header: Header | GivenHeader, template: str, template_line: int) -> Enrichment:
        self.header = header
        self.values: dict[str, Any] = header.values
        self.foreign()
        if not self.name.replace("_", "").isalnum() or not self.name.isascii() or self.name[0].isdigit():
            self.report(f'the name "{self.name}" becomes a table: letters, digits and _, not a digit first', ())
        if self.name.lower().lstrip("_").startswith("sqlenrich"):
            self.report(f'the name "{self.name}" is like that of a table of sqlenrich itself: rename the file', ())
        self.keys()
        schema, embedding, problems = read_output(self.values, self.folder)
        self.report_all(problems)
        if self.values.get("output") is None:
            self.wrong.add("output")
        params, engine_params, problems = read_params(self.mapping("params"))
        self.report_all(problems)
        source, query, refs = self.table()
        retry = self.mapping("retry")
        if not isinstance(retry.get("feedback", False), bool):
            self.report(f"feedback must be true or false, not {retry['feedback']!r}", ("retry", "feedback"))
        escalate = retry.get("escalate")
        if escalate is not None and not (isinstance(escalate, str) and escalate):
            self.report(f"escalate must be an alias or a model's name, not {escalate!r}", ("retry", "escalate"))
        version = self.values.get("version")
        if isinstance(version, bool) or not isinstance(version, int | float | str | None):
            self.report(f"version must be a number or a text, not {version!r}", ("version",))
        keep_prompts = self.values.get("keep_prompts", True)
        if not isinstance(keep_prompts, bool):
            self.report(f"keep_prompts must be true or false, not {keep_prompts!r}", ("keep_prompts",))
        columns = self.columns()
        turns = self.turns(schema, columns)
        keep_all = self.values.get("keep") == KEEP_ALL
        key, keep = self.names("key"), () if keep_all else self.names("keep")
        made = Enrichment(
            name=self.name,
            template=template,
            schema=schema,
            fingerprint=hashlib.sha256(self.text.encode()).hexdigest()[:16],
            path=self.path,
            template_line=template_line,
            description=self.value("description", str, ""),
            version=None if version is None else str(version),
            source=source,
            refs=refs,
            query=query,
            key=key,
            keep=keep,
            keep_all=keep_all,
            columns=columns,
            require=self.names("require") if "require" in self.values else None,
            where=self.where(),
            timezone=self.timezone(),
            model=self.value("model", str, DEFAULT_ALIASES[embedding is not None]),
            params=params,
            engine_params=engine_params,
            vars=self.mapping("vars"),
            hint=self.choice("hint", ("auto", "always", "never"), "auto" if embedding is None else "never"),
            repairs=self.repairs() if embedding is None else (),
            row_checks=self.row_checks(schema, columns, (*key, *keep)) if embedding is None else {},
            max_attempts=retry.get("max_attempts", 3),
            feedback=retry.get("feedback", False),
            escalate=escalate,
            cascade=self.cascade(schema, columns, (*key, *keep), vector=embedding is not None),
            max_quarantine=self.value("max_quarantine", (int, float), None),
            pin_model=self.pin_model(),
            keep_prompts=bool(keep_prompts),
            limit=self.limit(schema if embedding is None else None, turns),
            turns=turns,
            system=self.values["system"] if ROW_SYSTEM in turns else None,
            quality=self.quality(schema),
            embedding=embedding,
        )
        self.ranges(made)
        if self.wrong & {"columns", "vars", "output"}:
            self.template(made)
        else:
            self.cross_check(made)
        if self.problems:
            raise SpecError(self.source, self.problems)
        return made

    def report(self, message: str, path: Sequence[str]) -> None:
        place = f" @ {'.'.join(path)}" if path else ""
        number = self.header.line(path) if path else None
        line = "" if number is None else f"line {number}: "
        self.wrong.update(path[:1])
        self.problems.append(f"{line}{message}{place}")

    def report_all(self, problems: Sequence[Problem]) -> None:
        for message, path in problems:
            self.report(message, path)

    @property
    def folder(self) -> Path | None:
        """The folder of the file."""
        return self.path.resolve().parent if self.path is not None else None

    def split(self) -> tuple[str, str, int]:
        lines = self.text.split("\n")
        if lines[0].rstrip() != "---":
            raise SpecError(self.source, ['line 1: the file must start with "---", the YAML header and another "---"'])
        for number, line in enumerate(lines[1:], start=1):
            if line.rstrip() == "---":
                template = "\n".join(lines[number + 1 :])
                return "\n".join(lines[1:number]), template.removesuffix("\n"), number + 2
        raise SpecError(self.source, ['the header is not closed: write "---" on a line of its own before the prompt'])

    def foreign(self) -> None:
        kind = next((k for k, marks in FOREIGN.items() if any(mark in self.values for mark in marks)), None)
        if kind:
            raise SpecError(
                self.source,
                [
                    f"this is a {kind} file: write its model settings as model and params, its input as columns, "
                    "and its output as a JSON Schema under output; sqlenrich new NAME shows the form"
                ],
            )

    def keys(self) -> None:
        for key in self.values:
            if key in RESERVED:
                self.report(f'"{key}" is not supported yet', (str(key),))
            elif key in ELSEWHERE:
                self.report(f'"{key}" is no key of the header: {ELSEWHERE[key]}', (str(key),))
            elif key in PLACED:
                under, what = PLACED[str(key)]
                self.report(f'"{key}" is no key of the header: {what} under {under}: {{{key}: ...}}', (str(key),))
            elif key not in HEADER:
                self.report(f'unknown key "{key}"{did_you_mean(str(key), HEADER)}', (str(key),))

    # Values ----------------------------------------------------------------------------------------------------

    def pin_model(self) -> str | bool | None:
        value = self.values.get("pin_model")
        if value is None or (isinstance(value, bool | str) and value != ""):
            return value or None
        self.report(f"pin_model must be true, or the name or the pattern of a model, not {value!r}", ("pin_model",))
        return None

    def value(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.values.get(key, default)
        if value is default or (isinstance(value, kind) and not isinstance(value, bool)):
            return value
        word = "a text" if kind is str else "a number"
        self.report(f"{key} must be {word}, not {value!r}", (key,))
        return default

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.values.get(key, {})
        if isinstance(value, dict):
            known = HEADER[key].get("properties", {})
            if HEADER[key].get("additionalProperties") is False:
                for name in value:
                    if name not in known:
                        self.report(f'unknown key "{name}"{did_you_mean(str(name), known)}', (key, str(name)))
            return {str(name): inner for name, inner in value.items()}
        self.report(f"{key} must be a mapping, not {value!r}", (key,))
        return {}

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.values.get(key, default)
        if value in allowed:
            return str(value)
        self.report(f'{key} must be one of {", ".join(allowed)}, not "{value}"', (key,))
        return default

    def names(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if isinstance(value, list) and all(isinstance(name, str) and name not in ("", KEEP_ALL) for name in value):
            for name in {name for name in value if value.count(name) > 1}:
                self.report(f'"{name}" is repeated', (key,))
            return tuple(dict.fromkeys(value))
        form = f"a list of column names{f', or {compact_json(KEEP_ALL)}' if key == 'keep' else ''}"
        self.report(f"{key} must be {form}, not {value!r}", (key,))
        return ()

    def timezone(self) -> str:
        zone = self.value("timezone", str, DEFAULT_ZONE)
        try:
            time_zone(zone)
        except ValueError as error:
            self.report(str(error), ("timezone",))
        return str(zone)

    def repairs(self) -> tuple[str, ...]:
        value = self.values.get("repairs", list(DEFAULT_REPAIRS))
        if not isinstance(value, list):
            self.report(f"repairs must be a list, not {value!r}", ("repairs",))
            return ()
        for index, repair in enumerate(value):
            if repair not in REPAIRS:
                self.report(
                    f'unknown repair "{repair}"{did_you_mean(str(repair), REPAIRS)}; there are: {", ".join(REPAIRS)}',
                    ("repairs", str(index)),
                )
        return tuple(repair for repair in REPAIRS if repair in value)

    def turns(self, schema: Mapping[str, Any], columns: Mapping[str, SourceColumn]) -> tuple[Turn, ...]:
        given = self.values.get("vars")
        constants = {"output": schema.get("properties", {}), **(given if isinstance(given, dict) else {})}
        types = {name: column.type for name, column in columns.items() if column.type is not None}
        turns, problems = read_turns(self.values, constants, types, self.folder)
        self.report_all(problems)
        return turns

    def limit(self, schema: Mapping[str, Any] | None, turns: tuple[Turn, ...]) -> Limit | None:
        limit, problems = read_limit(self.values, schema, turns)
        for message, key in problems:
            self.report(message, (key,))
        return limit

    def quality(self, schema: Mapping[str, Any]) -> Quality:
        for key in ("evaluate", "review", "drift"):
            self.mapping(key)
        if "output" in self.wrong:
            return Quality()
        fields = {name: stored(kind) for name, kind in output_columns(schema).items()}
        quality, problems = read_quality(self.values, fields)
        self.report_all(problems)
        return quality

    def cascade(
        self, schema: Mapping[str, Any], columns: Mapping[str, SourceColumn], kept: tuple[str, ...], *, vector: bool
    ) -> Cascade | None:
        given = self.mapping("cascade")
        if not given or "output" in self.wrong:
            return None
        if vector:
            self.report("cascade: a vector has no score; write it where a model answers", ("cascade",))
            return None
        if self.values.get("keep_prompts") is False:
            self.report("cascade: the second model needs the prompts, and keep_prompts is false", ("cascade",))
        kinds = {name: columns[name].type if name in columns else None for name in kept}
        cascade, problems = read_cascade(given, output_columns(schema), kinds)
        self.report_all(problems)
        return cascade

    def table(self) -> tuple[str | None, str | None, SourceRefs | None]:
        try:
            source, query, refs = read_source(self.values.get("source"))
        except ValueError as error:
            self.report(str(error), ("source",))
            return None, None, None
        if refs is not None and self.name in refs.names:
            self.report(f"source: {self.name} can't read its own result", ("source",))
        return source, query, refs

    def columns(self) -> dict[str, SourceColumn]:
        columns: dict[str, SourceColumn] = {}
        for name, written in self.mapping("columns").items():
            kind, source_name = written, name
            if isinstance(written, dict) and ("type" in written or "from" in written):
                for key in written:
                    if key not in ("type", "from"):
                        near = did_you_mean(str(key), ("type", "from"))
                        self.report(f'unknown key "{key}"{near}', ("columns", name, str(key)))
                kind, source_name = written.get("type"), str(written.get("from", name))
            try:
                columns[name] = SourceColumn(None if kind is None else parse_type(kind), source_name)
            except ValueError as error:
                self.report(str(error), ("columns", name))
        return columns

    def where(self) -> str | None:
        written: str | None = self.value("where", str, None)
        if written:
            try:
                parse_condition(written)
            except ValueError as error:
                self.report(str(error), ("where",))
        return written

    def row_checks(
        self, schema: Mapping[str, Any], columns: Mapping[str, SourceColumn], kept: Sequence[str]
    ) -> dict[str, str]:
        written = self.mapping("checks")
        kinds = {name: kind_of_type(checked_type(name, columns)) for name in kept}
        if "output" not in self.wrong:
            kinds |= {name: kind_of_type(kind) for name, kind in output_columns(schema).items()}
        found: dict[str, str] = {}
        for name, condition in written.items():
            try:
                test = parse_check(str(name), condition)
                if self.values.get("keep") == KEEP_ALL or "output" in self.wrong:
                    read = [one for one in columns_of_condition(test) if one not in kinds]
                    kinds |= {one: kind_of_type(checked_type(one, columns)) for one in read}
                check_kinds(str(name), test, kinds)
                found[str(name)] = condition
            except ValueError as error:
                self.report(f"checks: {error}", ("checks", str(name)))
        return found

    # Checks of the whole file ------------------------------------------------------------------------------------

    def ranges(self, enrichment: Enrichment) -> None:
        if enrichment.max_quarantine is not None and not 0 <= enrichment.max_quarantine <= 1:
            self.report("max_quarantine must be from 0 to 1", ("max_quarantine",))
        attempts = enrichment.max_attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            self.report("max_attempts must be an integer of at least 1", ("retry", "max_attempts"))

    def syntax(self, template: str, first_line: int) -> list[str]:
        """Return the problem of a template that is no Jinja."""
        try:
            compile_prompt(template, source=self.source, first_line=first_line)
        except PromptError as error:
            return [one.described(self.source) for one in error.problems if one.syntax]
        return []

    def template(self, enrichment: Enrichment) -> None:
        """Report the template's problems, but for those that wrong ``columns``, ``vars`` or ``output`` may cause."""
        try:
            enrichment.prompt()
        except PromptError as error:
            lines = enrichment.template.split("\n")
            suspects = {"output"} & self.wrong
            for key in {"vars", "columns"} & self.wrong:
                value = self.values[key]
                # Without a mapping each word may be one of its names.
                suspects |= set(map(str, value)) if isinstance(value, dict) else set(re.findall(r"\w+", self.text))
            for problem in error.problems:
                place = (problem.line or 0) - enrichment.template_line
                written = lines[place] if 0 <= place < len(lines) else enrichment.template
                if problem.syntax or not suspects & set(re.findall(r"\w+", written)):
                    self.problems.append(problem.described(enrichment.place))

    def cross_check(self, enrichment: Enrichment) -> None:
        try:
            compiled = enrichment.prompt()
        except PromptError as error:
            self.problems += [problem.described(enrichment.place) for problem in error.problems]
        else:
            used = enrichment.used_columns(compiled)
            for name, column in enrichment.columns.items():
                near = did_you_mean(name, used)
                # A typed column may be there for the option --where.
                unused = (
                    name not in used and not enrichment.keep_all and "system" not in self.wrong
                )  # which may read it
                if unused and (near or column.type in (None, STRING)):
                    self.report(f'the column "{name}"{near} is not used by the prompt', ("columns", name))
            cut = enrichment.limit.cut if enrichment.limit is not None else None
            if cut is not None and (problem := cut_problem(cut, compiled.expr)):
                self.report(problem, ("on_overflow",))
            if not compiled.columns:
                self.problems.append(
                    f"line {enrichment.template_line}: the prompt reads no column: all rows would ask the same"
                )
        lower: dict[str, str] = {}
        groups: dict[str, tuple[str, ...]] = {
            "key": enrichment.key,
            "keep": enrichment.keep,
            "output": tuple(enrichment.output_columns),
        }
        for place, columns in groups.items():
            for name in columns:
                if name.lower() in RESERVED_COLUMNS or (name == "_row" and place != "key"):
                    self.report(f'"{name}" is the name of a column of sqlenrich', (place,))
                other = lower.setdefault(name.lower(), name)
                if other is not name:
                    words = (
                        f'"{name}" is repeated' if other == name else f'"{other}" and "{name}" are equal but for case'
                    )
                    self.report(f"{words}: each column of a result table needs its own name", (place,))
        for name in enrichment.vars:
            if name in enrichment.columns or name == "output":
                self.report(
                    f'"{name}" is both a constant and {"reserved" if name == "output" else "a column"}', ("vars", name)
                )

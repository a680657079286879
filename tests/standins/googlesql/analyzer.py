"""GoogleSQL: BigQuery SQL analyzed and evaluated by Google's own code."""

from __future__ import annotations

import functools
import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.standins.googlesql import calls, evaluator
from tests.standins.googlesql.answers import Reply
from tests.standins.googlesql.catalog import Columns, Schema, fill, restored
from tests.standins.googlesql.engine import Engine, EngineError, analyzer_options, language_options, pb
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.evaluator import ScriptResult
from tests.standins.googlesql.functions import Functions, create, expanded
from tests.standins.googlesql.session import Data
from tests.standins.googlesql.syntax import (
    Edit,
    Node,
    offset_at,
    outermost,
    path_edits,
    path_of,
    place_of,
    splice,
    unspliced,
)
from tests.standins.googlesql.values import type_text

Tables = Mapping[str, Mapping[str, str]]
Models = Iterable[str] | Mapping[str, str]
_TREES = 256
"""Texts whose trees are kept: on its way through the stand-in a statement is parsed several times."""
_ANALYSES = 256
"""Analyses that are kept: a job is analyzed before it runs and again when it does, and a run repeats statements."""
_QUOTED = re.compile(
    rb"`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/|"
    rb"(?i:\b(?:TIMESTAMP|DATETIME|DATE|TIME|JSON|NUMERIC|BIGNUMERIC|INTERVAL|RB?|BR?)\s*)?'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
"""Names, comments and literals. One that begins with its quote is a plain text: its content changes no analysis."""
_NUMBER = re.compile(rb"[0-9a-f]{4,}|[0-9]")
"""What differs in the plain texts of two statements: the run's name, its time and its hashes."""

_BLOCKS = frozenset(
    {f"{name}Statement" for name in ("If", "While", "Repeat", "ForIn", "Case", "Raise")} | {"BeginEndBlock"}
)


class Analyzed(NamedTuple):
    """One statement: its kind (`Query`, `CreateTableAsSelect`, ...), the columns it gives, and for
    CREATE TABLE the table's path."""

    kind: str
    columns: Columns
    table: tuple[str, ...] | None

    @property
    def typed(self) -> list[tuple[str, str]]:
        """The columns with their types as text."""
        return [(name, type_text(type_)) for name, type_ in self.columns]


class GoogleSQL:
    """The oracle for BigQuery SQL. Get the process's one instance from `googlesql()`.

    What it can not show: the signatures of the AI functions are ours (signatures.py); the language
    is every feature of the analyzer but a few, so it accepts some text that BigQuery refuses (a
    refusal is the stronger sign); OPTIONS(...), quotas, locations, permissions, whether a table is
    partitioned and whether a name differs only in case are not checked; IF, LOOP and other blocks
    of scripts are refused as unsupported, not judged.
    """

    def __init__(self) -> None:
        self.engine = Engine()
        self._language = language_options(self.engine)
        self.options = analyzer_options(self.engine, self._language)
        self._types: dict[str, Any] = {}
        self._trees = functools.lru_cache(maxsize=_TREES)(self._parsed)
        self._found: OrderedDict[tuple[bytes, bytes, bool], Analyzed] = OrderedDict()

    def analyze(self, sql: str, tables: Tables, models: Models = (), signatures: bool = True) -> list[tuple[str, str]]:
        """The output columns (name, type) of one statement; GoogleSQLError where it is refused.

        `tables` maps a table's dotted name to its columns' types. `models` names the remote models
        (with a mapping: name to "gemini" or "other"). Without `signatures` no AI function exists.
        """
        raw, statements = self.parse(sql)
        if len(statements) != 1:
            raise GoogleSQLError(f"one statement expected, {len(statements)} found")
        return self.analyze_statement(raw, statements[0], self._schema(tables, models), signatures).typed

    def script(self, sql: str, tables: Tables, models: Models = ()) -> list[Analyzed]:
        """Analyze the statements of a script in order; tables made by CREATE are seen by later ones.

        functions too. DECLARE and SET give variables; transactions are passed over.
        """
        schema, functions = self._schema(tables, models), Functions()
        raw, statements = self.parse(sql)
        found = []
        for statement in statements:
            if statement.kind in ("VariableDeclaration", "SingleAssignment"):
                evaluator.set_variables(self, raw, statement, schema)
            elif statement.kind in _BLOCKS:
                raise GoogleSQLError(f"not supported: {statement.kind}", *place_of(raw, statement.start))
            elif statement.kind == "CreateFunctionStatement":
                create(self, raw, statement, schema, functions)
            elif statement.kind not in evaluator.TRANSACTION:
                analyzed = self.analyze_statement(*expanded(self, raw, statement, functions), schema)
                found.append(analyzed)
                if analyzed.table is not None:
                    # IF NOT EXISTS leaves a table that is already there as it is.
                    if not (statement.value("is_if_not_exists") and schema.find(analyzed.table)):
                        schema.tables[schema.find(analyzed.table) or ".".join(analyzed.table)] = analyzed.columns
                elif statement.kind == "DropStatement" and (path := statement.get("name")):
                    schema.tables.pop(schema.find(path_of(path)) or "", None)
        return found

    def evaluate(self, sql: str, tables: Data | None = None) -> list[tuple[Any, ...]]:
        """The rows of a query, or of an expression over the only table (over nothing without one).

        `tables` maps a dotted name to (columns, rows); a row is a sequence or a mapping. For an
        INSERT or CREATE TABLE ... AS the rows of its query are returned and nothing is stored.
        """
        return evaluator.evaluate(self, sql, tables or {})

    def evaluate_script(self, sql: str, data: Data, reply: Reply) -> ScriptResult:
        """Run a script on in-memory tables, each AI call answered by `reply(prompt)`.

        `reply` returns the result's fields (result, status, full_response, ...); what it leaves out
        is NULL. It is asked once per input row; a NULL prompt arrives as None. See evaluator.py for
        the statements that are emulated.
        """
        return evaluator.evaluate_script(self, sql, data, reply)

    def parse(self, sql: str) -> tuple[bytes, list[Node]]:
        """The text in UTF-8 and its statements; comments may stand anywhere."""
        return sql.encode(), list(self._trees(sql))

    def _parsed(self, sql: str) -> list[Node]:
        request = pb().service.ParseRequest(sql_statement=sql, allow_script=True)
        request.options.CopyFrom(self._language)
        try:
            parsed = self.engine.call("Parse", request, pb().service.ParseResponse)
        except EngineError as error:
            raise self._refusal(sql.encode(), 0, (), error) from None
        listing = Node(parsed.parsed_script).get("statement_list_node")
        return listing.all("statement_list") if listing else []

    def type_of(self, text: str) -> Any:
        """The engine's form of a type written in SQL."""
        if text not in self._types:
            ((_, type_),) = self.columns_of(f"x {text}")
            self._types[text] = type_
        return self._types[text]

    def columns_of(self, text: str) -> Columns:
        """Names and types of column definitions as CREATE TABLE holds them."""
        try:
            return self._resolve(f"CREATE TABLE x ({text}\n)".encode(), self.catalog()).columns
        except EngineError as error:
            raise GoogleSQLError(error.message) from None

    def catalog(self) -> Any:
        """An empty catalog of the language."""
        catalog = pb().catalog.SimpleCatalogProto(name="root")
        catalog.builtin_function_options.language_options.CopyFrom(self._language)
        return catalog

    def analyze_statement(self, raw: bytes, statement: Node, schema: Schema, signatures: bool = True) -> Analyzed:
        """Analyze one parsed statement; places in errors are those of the whole text."""
        catalog = self.catalog()
        fill(catalog, schema.named_in(raw[statement.start : statement.end]))

        def refuse(message: str, offset: int) -> GoogleSQLError:
            return GoogleSQLError(message, *place_of(raw, offset))

        edits = path_edits(statement)
        if signatures:
            edits += calls.register(statement, catalog, schema, self.type_of, self.columns_of, refuse)
        edits = outermost(edits)  # a blanked MODEL argument holds a path of its own
        text, used = splice(raw, statement.start, statement.end, edits)
        try:
            return self._resolve(text, catalog, lambda m, at: refuse(m, unspliced(at, statement.start, used)))
        except EngineError as error:
            raise self._refusal(raw, statement.start, used, error, text) from None

    def _resolve(
        self, text: bytes, catalog: Any, refuse: Callable[[str, int], GoogleSQLError] | None = None
    ) -> Analyzed:
        of_form = _QUOTED.sub(lambda one: _NUMBER.sub(b"0", one[0]) if one[0].startswith(b"'") else one[0], text)
        key = of_form, catalog.SerializeToString(deterministic=True), refuse is not None
        try:
            found = self._found.pop(key, None) or self._resolved(text, *key[1:])
            self._found[key] = found
            if len(self._found) > _ANALYSES:
                self._found.popitem(last=False)
            return found
        except _MisuseError as error:
            raise (refuse(error.message, error.start) if refuse else error) from None

    def _resolved(self, text: bytes, catalog: bytes, checks_calls: bool) -> Analyzed:
        service = pb().service
        request = service.AnalyzeRequest(options=self.options, sql_statement=text.decode())
        registration = service.RegisterCatalogRequest()
        registration.simple_catalog.ParseFromString(catalog)
        found = self.engine.call_with(registration, "Analyze", request, service.AnalyzeResponse)
        resolved = found.resolved_statement
        if checks_calls:
            calls.check(resolved, restored, lambda message, node: _MisuseError(message, _start(node)))
        while resolved.DESCRIPTOR.name.startswith("Any"):
            resolved = getattr(resolved, resolved.WhichOneof("node"))
        return Analyzed(
            resolved.DESCRIPTOR.name.removeprefix("Resolved").removesuffix("StmtProto"),
            *_given(resolved),
        )

    def _refusal(
        self, raw: bytes, start: int, edits: Sequence[Edit], error: EngineError, text: bytes | None = None
    ) -> GoogleSQLError:
        if error.line is None or error.column is None:
            return GoogleSQLError(restored(error.message))
        offset = offset_at(raw if text is None else text, error.line, error.column)
        place = place_of(raw, unspliced(offset, start, edits))
        return GoogleSQLError(restored(error.message), *place)

    def _schema(self, tables: Tables, models: Models) -> Schema:
        typed = {
            name: [(column, self.type_of(text)) for column, text in columns.items()] for name, columns in tables.items()
        }
        kinds = dict(models) if isinstance(models, Mapping) else dict.fromkeys(models, "gemini")
        return Schema(typed, kinds)


class _MisuseError(Exception):
    """A call with arguments that its function does not take, and where it starts in the analyzed text."""

    def __init__(self, message: str, start: int) -> None:
        super().__init__(message)
        self.message, self.start = message, start


def _start(node: Any) -> int:
    """Where a resolved node stands in the analyzed text."""
    while "parse_location_range" not in node.DESCRIPTOR.fields_by_name:
        if "parent" not in node.DESCRIPTOR.fields_by_name:
            return 0
        node = node.parent
    return int(node.parse_location_range.start)


def _given(resolved: Any) -> tuple[Columns, tuple[str, ...] | None]:
    """A statement's columns, and the path of the table that it creates."""
    name = resolved.DESCRIPTOR.name
    if name == "ResolvedCreateTableStmtProto":
        definition = resolved.parent
        columns = [(column.name, column.type) for column in definition.column_definition_list]
        return columns, _path(definition.parent.name_path)
    if name == "ResolvedInsertStmtProto":
        return [(column.name, column.type) for column in resolved.insert_column_list], None
    columns = []
    if "output_column_list" in resolved.DESCRIPTOR.fields_by_name:
        unnamed = (f"f{number}_" for number in itertools.count())  # BigQuery's names
        for column in resolved.output_column_list:
            title = next(unnamed) if column.name.startswith("$") else column.name
            columns.append((title, column.column.type))
    if name == "ResolvedCreateTableAsSelectStmtProto":
        listed = [(column.name, column.type) for column in resolved.parent.column_definition_list]
        return listed or columns, _path(resolved.parent.parent.name_path)
    return columns, None


def _path(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for name in names for part in name.split("."))

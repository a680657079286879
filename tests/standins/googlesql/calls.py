"""The AI functions in a statement: what the analyzer is given for them, and what it can't check.

Before analysis the MODEL argument is blanked and a call whose result depends on a literal gets its
own overload. After analysis the types of prompts and settings are checked on the resolved tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.standins.googlesql.catalog import (
    SCALAR,
    TABLE,
    Schema,
    add_scalar,
    add_table_function,
    in_output_schema,
    overload,
)
from tests.standins.googlesql.engine import pb
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.signatures import PROMPT, Scalar, TableFunction
from tests.standins.googlesql.syntax import Edit, Node, named_like, path_of
from tests.standins.googlesql.values import kind, type_text

Refuse = Callable[[str, int], GoogleSQLError]
TypeOf = Callable[[str], Any]
ColumnsOf = Callable[[str], list[tuple[str, Any]]]


def scalar_calls(statement: Node) -> Iterator[tuple[Node, Scalar]]:
    """The calls of AI scalar functions."""
    for node in statement.walk():
        if node.kind == "FunctionCall" and (name := named_like(node, SCALAR)):
            yield node, SCALAR[name]


def table_calls(statement: Node) -> Iterator[tuple[Node, TableFunction]]:
    """The calls of AI table functions."""
    for node in statement.walk():
        if node.kind == "TVF" and (name := named_like(node, TABLE)):
            yield node, TABLE[name]


def argument(call: Node, function: Scalar, name: str) -> Node | None:
    """The value written for an argument, by name or, for the first one, by position."""
    for place, node in enumerate(call.all("arguments")):
        if node.kind == "NamedArgument":
            key = node.get("name")
            if key is not None and str(key.value("id_string")).lower() == name:
                return node.get("expr")
        elif place < len(function.arguments) and function.arguments[place].name == name:
            return node
    return None


def output_fields(schema: Node, columns_of: ColumnsOf, refuse: Refuse) -> list[tuple[str, Any]]:
    """The fields that an output_schema literal declares."""
    if schema.kind != "StringLiteral":
        raise refuse("output_schema must be a string literal", schema.start)
    text = schema.value("string_value")
    try:
        fields = columns_of(text)
    except GoogleSQLError as error:
        raise refuse(f"output_schema {text!r}: {error.message}", schema.start) from None
    for name, type_ in fields:
        if not in_output_schema(type_):
            raise refuse(f"output_schema: {name} has the type {type_text(type_)}", schema.start)
    return fields


def result_type(call: Node, function: Scalar, type_of: TypeOf, columns_of: ColumnsOf, refuse: Refuse) -> Any:
    """The type that this call returns."""
    result = type_of(function.result)
    name = function.schema_argument
    schema = argument(call, function, name) if name else None
    if schema is None:
        return result
    made = pb().type.TypeProto(type_kind=result.type_kind)
    for name, type_ in output_fields(schema, columns_of, refuse):
        made.struct_type.field.add(field_name=name).field_type.CopyFrom(type_)
    made.struct_type.field.extend(result.struct_type.field[1:])
    return made


def register(
    statement: Node, catalog: Any, schema: Schema, type_of: TypeOf, columns_of: ColumnsOf, refuse: Refuse
) -> list[Edit]:
    """Add the statement's AI functions to the catalog; the edits that make its calls fit them."""
    edits: list[Edit] = []
    overloads: dict[tuple[str, bytes | str], int] = {}

    def rename(node: Node, name: str, key: bytes | str) -> tuple[int, bool]:
        last = (node.get("function") or node.get("name") or node).all("names")[-1]
        used = sum(known == name for known, _ in overloads)
        number = overloads.setdefault((name, key), used)
        if number:
            edits.append(Edit(last.start, last.end, overload(name, number).split(".")[-1].encode()))
        return number, number == used

    for call, function in scalar_calls(statement):
        result = result_type(call, function, type_of, columns_of, refuse)
        number, is_new = rename(call, function.name, result.SerializeToString())
        if is_new:
            add_scalar(catalog, function, number, result, type_of)
    for call, tvf in table_calls(statement):
        entries = call.all("argument_entries")
        model = entries[0].get("model_clause") if entries else None
        path = model.get("model_path") if model else None
        if path is None or len(entries) < 2:
            raise refuse(f"{tvf.name} takes MODEL, a relation and a STRUCT of settings", call.start)
        model_kind = schema.model(path_of(path))
        if model_kind is None:
            raise refuse(f"Model not found: {'.'.join(path_of(path))}", path.start)
        number, is_new = rename(call, tvf.name, model_kind)
        if is_new:
            add_table_function(catalog, tvf, number, model_kind)
        gap = entries[1].start - entries[0].start
        edits.append(Edit(entries[0].start, entries[1].start, b" " * gap))
    return edits


def check(resolved: Any, restored: Callable[[str], str], refuse: Callable[[str, Any], Exception]) -> None:
    """Refuse prompts and settings of the wrong type, which the registered signatures let through."""
    for node in _nodes(resolved):
        name = node.DESCRIPTOR.name
        if name == "ResolvedTVFScanProto":
            function = TABLE.get(restored(node.tvf.name).upper())
            if function is not None:
                _check_table(node, function, refuse)
        elif name == "ResolvedFunctionCallProto":
            scalar = SCALAR.get(restored(node.parent.function.name.rpartition(":")[2]).upper())
            if scalar is not None and scalar.arguments[0].type == PROMPT:
                signature = node.parent.signature.argument[0].type
                parts = [part.field_type for part in signature.struct_type.field] or [signature]
                if wrong := next((t for t in parts if type_text(t) not in ("STRING", "ARRAY<STRING>")), None):
                    raise refuse(f"{scalar.name}: a prompt of type {type_text(wrong)}", node)


def _check_table(scan: Any, function: TableFunction, refuse: Callable[[str, Any], Exception]) -> None:
    relation, settings = (
        scan.signature.argument[0].relation_argument,
        scan.signature.argument[1].scalar_argument,
    )
    given = {column.name.lower(): type_text(column.type) for column in relation.column}
    for name, type_ in function.needs.items():
        if given.get(name) != type_:
            raise refuse(f"{function.name} needs a column {name} of type {type_} in its input", scan)
    if kind(settings.type) != "STRUCT" or not settings.HasField("value"):
        raise refuse(f"{function.name}: the settings are not a STRUCT of literals", scan)
    names = [part.field_name.lower() for part in settings.type.struct_type.field]
    for part in settings.type.struct_type.field:
        wanted, has = function.settings.get(part.field_name.lower()), type_text(part.field_type)
        if wanted is None:
            raise refuse(f"{function.name} has no setting {part.field_name or '(without a name)'}", scan)
        if not _fits(has, wanted):
            raise refuse(f"{function.name}: the setting {part.field_name} is {has}, not {wanted}", scan)
    if function.alone in names and set(names) - {function.alone, "request_type"}:
        raise refuse(f"{function.name}: {function.alone} excludes the other settings", scan)


def _fits(has: str, wanted: str) -> bool:
    records = "ARRAY<STRUCT<"  # of safety settings the fields are not checked
    return has == wanted or (has, wanted) == ("INT64", "FLOAT64") or has[:13] == wanted[:13] == records


def _nodes(message: Any) -> Iterator[Any]:
    """All resolved nodes below a message."""
    stack = [message]
    while stack:
        node = stack.pop()
        yield node
        for descriptor, value in node.ListFields():
            if descriptor.message_type is not None and "Resolved" in descriptor.message_type.name:
                stack.extend([value] if hasattr(value, "DESCRIPTOR") else value)

"""What the analyzer may see: tables, script variables and the AI functions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.standins.googlesql.engine import pb
from tests.standins.googlesql.signatures import (
    OUTPUT_SCHEMA_TYPES,
    PROMPT,
    SCALARS,
    TABLE_FUNCTIONS,
    Argument,
    Scalar,
    TableFunction,
)
from tests.standins.googlesql.values import kind

Columns = list[tuple[str, Any]]

SCALAR = {function.name: function for function in SCALARS}
TABLE = {function.name: function for function in TABLE_FUNCTIONS}


@dataclass
class Schema:
    """The names that statements may use. `models` maps a dotted name to "gemini" or "other"."""

    tables: dict[str, Columns] = field(default_factory=dict)
    models: dict[str, str] | None = field(default_factory=dict)
    variables: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def find(self, path: tuple[str, ...]) -> str | None:
        """The table that a path names: whole, or as dataset.table of the only project that has it."""
        name = ".".join(path)
        if name in self.tables:
            return name
        found = [table for table in self.tables if len(path) == 2 and table.endswith("." + name)]
        return found[0] if len(found) == 1 else None

    def named_in(self, text: bytes) -> Schema:
        """The tables and variables whose names stand in a text, so that equal statements share a catalog.

        A name that must be quoted may be written in several ways, and is kept.
        """
        written = text.decode().lower()

        def occurs(name: str) -> bool:
            last = name.rpartition(".")[2].lower()
            return last in written or not last.isidentifier()

        tables = {name: columns for name, columns in self.tables.items() if occurs(name)}
        return Schema(tables, self.models, {name: of for name, of in self.variables.items() if occurs(name)})

    def model(self, path: tuple[str, ...]) -> str | None:
        """The kind of the model that a path names; with `models` None every name is a Gemini model."""
        if self.models is None:
            return "gemini"
        name = ".".join(path)
        found = {self.models[model] for model in self.models if f".{model}".endswith("." + name)}
        return found.pop() if len(found) == 1 else None


def fill(catalog: Any, schema: Schema) -> None:
    """Put the schema's tables and variables into a catalog."""
    for name, columns in schema.tables.items():
        path = name.split(".")
        table = pb().table.SimpleTableProto(name=name, full_name=name)
        for column, type_ in columns:
            table.column.add(name=column, is_writable_column=True).type.CopyFrom(type_)
        for start in range(len(path)):
            # Besides the full path only dataset.table, which a default project makes legal.
            if start == 0 or (len(path) - start == 2 and schema.find(tuple(path[start:])) == name):
                table.name_in_catalog = path[-1]
                _inside(catalog, path[start:-1]).table.add().CopyFrom(table)
                table.name_in_catalog = ".".join(path[start:])
                if len(path) - start > 1:  # the path in one pair of backticks
                    catalog.table.add().CopyFrom(table)
    for name, (type_, value) in schema.variables.items():
        constant = catalog.constant.add(name_path=[name])
        constant.type.CopyFrom(type_)
        constant.value.CopyFrom(value)


def _inside(catalog: Any, path: Iterable[str]) -> Any:
    for name in path:
        known = next((child for child in catalog.catalog if child.name.lower() == name.lower()), None)
        catalog = known if known is not None else catalog.catalog.add(name=name)
    return catalog


def overload(name: str, number: int) -> str:
    """A second name of the same length for a function whose result depends on a literal: the text
    keeps its length, so places in it keep their meaning."""
    digits = str(number)
    return name if number == 0 else name[: -len(digits)] + digits


def restored(message: str) -> str:
    """An engine's message with the functions' own names."""
    for name in (*SCALAR, *TABLE):
        message = re.sub(rf"\b{re.escape(name[:-2])}(?:{name[-2]}\d|\d\d)\b", name, message, flags=re.IGNORECASE)
    return message


def _argument(argument: Argument, type_of: Any) -> Any:
    enums = pb().function_enums
    made = pb().function.FunctionArgumentTypeProto(num_occurrences=1)
    if argument.type == PROMPT:
        made.kind = enums.ARG_TYPE_ARBITRARY
    else:
        made.kind = enums.ARG_TYPE_FIXED
        made.type.CopyFrom(type_of(argument.type))
    options, kinds = made.options, enums.FunctionEnums
    options.cardinality = kinds.OPTIONAL if argument.optional else kinds.REQUIRED
    options.argument_name = argument.name
    options.named_argument_kind = kinds.NAMED_ONLY if argument.named_only else kinds.POSITIONAL_OR_NAMED
    options.must_be_constant = argument.constant
    return made


def add_scalar(catalog: Any, function: Scalar, number: int, result: Any, type_of: Any) -> None:
    """Register one scalar function with its result type, under the overload's name."""
    path = overload(function.name, number).split(".")
    enums = pb().function_enums
    made = _inside(catalog, path[:-1]).custom_function.add(
        name_path=path, group="External_function", mode=enums.FunctionEnums.SCALAR
    )
    made.options.volatility = enums.FunctionEnums.VOLATILE
    signature = made.signature.add()
    signature.argument.extend(_argument(argument, type_of) for argument in function.arguments)
    signature.return_type.kind = enums.ARG_TYPE_FIXED
    signature.return_type.num_occurrences = 1
    signature.return_type.type.CopyFrom(result)


def add_table_function(catalog: Any, function: TableFunction, number: int, model: str) -> None:
    """Register one table function for a kind of model, its MODEL argument left out.

    The engine knows no function over a model and any relation, so the caller checks the model and
    blanks that argument.
    """
    path = overload(function.name, number).split(".")
    enums = pb().function_enums
    made = _inside(catalog, path[:-1]).custom_tvf.add(
        name_path=path, type=enums.FunctionEnums.TEMPLATED_SQL_TVF, argument_name=["input", "settings"]
    )
    for name, shape in (("input", enums.ARG_TYPE_RELATION), ("settings", enums.ARG_TYPE_ARBITRARY)):
        argument = made.signature.argument.add(kind=shape, num_occurrences=1)
        argument.options.cardinality = enums.FunctionEnums.REQUIRED
        argument.options.argument_name = name
    made.signature.return_type.kind = enums.ARG_TYPE_RELATION
    made.signature.return_type.num_occurrences = 1
    added = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in function.adds[model].items())
    made.parse_resume_location.input = f"SELECT input_rows.*, {added} FROM input AS input_rows"


def in_output_schema(type_: Any) -> bool:
    """Whether an output_schema may use the type."""
    name = kind(type_)
    if name == "ARRAY":
        return in_output_schema(type_.array_type.element_type)
    if name == "STRUCT":
        return all(in_output_schema(part.field_type) for part in type_.struct_type.field)
    return name in OUTPUT_SCHEMA_TYPES

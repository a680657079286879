"""A JSON Schema as written, turned into the plain form that the rest of the package reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlenrich.core.errors import did_you_mean
from sqlenrich.schema.checks.build import build_checks
from sqlenrich.schema.checks.patterns import portable
from sqlenrich.schema.columns import coerce_problem, column_problems, decimal_column, misplaced_keywords
from sqlenrich.schema.json_types import TYPES, decimal_places, fits_double, json_types
from sqlenrich.schema.keywords import (
    ANNOTATIONS,
    CHECKED,
    CORE,
    COUNTS,
    FORMATS,
    NEVER,
    NUMBER_LIMITS,
    Schema,
    resolve,
)
from sqlenrich.schema.merge import merged, with_null
from sqlenrich.schema.size import too_large, too_many_tests

Plain = dict[str, Any]
MAX_DECIMAL_PLACES = 18
"""Every engine has exact decimals of 38 digits: 20 before the point and 18 after it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a schema, and where: ``output.properties.label``."""

    message: str
    place: str

    def __str__(self) -> str:
        return f"{self.message} @ {self.place}"


def normalise(
    schema: Any, place: str = "output", *, columns: bool = True, assert_format: bool = True
) -> tuple[Plain, list[Problem]]:
    """Return the plain form of a schema, and all its problems.

    The plain form has the keywords of :data:`~.keywords.CHECKED` and ``description``. References are replaced by the
    schemas that they point to. ``type`` is a list, ``const`` is an enum, and a schema is never a boolean
    (``additionalProperties`` may be false). With ``columns`` a column must be able to hold each property; else any
    schema of an object is accepted. Without ``assert_format`` a format is an annotation and is left out.
    """
    problems: list[Problem] = []
    if (large := too_large(schema)) is not None:
        return {}, [Problem(large, place)]
    plain = _Normaliser(schema, problems, assert_format, columns).node(schema, place, (), columns)
    if columns:
        if "type" not in plain and "properties" in plain:
            plain = {"type": ["object"], **plain}
        if not problems and plain.get("type") != ["object"]:
            problems.append(Problem('the answer is one JSON object: write "type: object" and its properties', place))
        if not problems and not plain.get("properties"):
            problems.append(Problem("the output has no properties, so no columns", place))
    if not problems and (large := too_many_tests(build_checks(plain))) is not None:
        problems.append(Problem(large, place))
    return plain, problems


class _Normaliser:
    def __init__(self, root: Any, problems: list[Problem], assert_format: bool, typed: bool) -> None:
        self.root, self.problems, self.assert_format, self.typed = root, problems, assert_format, typed
        self.followed: set[str] = set()
        self.circular = False

    def report(self, message: str, place: str) -> None:
        self.problems.append(Problem(message, place))

    def report_all(self, messages: Iterable[str], place: str) -> None:
        self.problems += [Problem(message, place) for message in messages]

    def node(self, schema: Any, place: str, seen: tuple[str, ...], columns: bool = False) -> Plain:
        """Return the plain form of one schema.

        ``seen`` are the references that led to it; ``columns``: its value becomes a column or a part of one.
        """
        if isinstance(schema, bool):
            return {} if schema else dict(NEVER)
        if not isinstance(schema, Mapping):
            self.report(f"a schema is a mapping, not {schema!r}", place)
            return {}
        self.known(schema, place)
        if self.typed and not columns:
            self.report_all(misplaced_keywords(schema), place)
        plain: Plain = {}
        if isinstance(schema.get("description"), str):
            plain["description"] = schema["description"]
        self.types(schema, plain, place)
        self.values(schema, plain, place, columns)
        self.limits(schema, plain, place)
        self.texts(schema, plain, place)
        self.arrays(schema, plain, place, seen, columns)
        self.objects(schema, plain, place, seen, columns)
        plain = self.applicators(schema, plain, place, seen, columns)
        if columns:
            self.report_all(column_problems(plain, top="." not in place), place)
        return plain

    def known(self, schema: Schema, place: str) -> None:
        known = {*CHECKED, *ANNOTATIONS, *CORE} - ({"$id"} if schema is not self.root else set())
        for keyword in schema:
            if keyword not in known and not str(keyword).startswith("x-"):
                near = did_you_mean(str(keyword), CHECKED)
                self.report(f'the keyword "{keyword}"{near} is not supported', place)

    # Values of one kind -----------------------------------------------------------------------------------------

    def types(self, schema: Schema, plain: Plain, place: str) -> None:
        written = schema.get("type")
        if written is None:
            return
        kinds = [written] if isinstance(written, str) else list(written) if isinstance(written, list) else []
        if not kinds or not all(isinstance(kind, str) for kind in kinds):
            self.report(f"type {written!r} is neither a name nor a list of names", place)
            return
        for kind in kinds:
            if kind not in TYPES:
                self.report(f'unknown type "{kind}"{did_you_mean(kind, TYPES)}', place)
        plain["type"] = list(dict.fromkeys(kinds))

    def values(self, schema: Schema, plain: Plain, place: str, columns: bool) -> None:
        allowed = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
        if allowed is None:
            return
        if not fits_double([allowed, schema.get("const")]):
            self.report("enum and const hold no number beyond a double", place)
            return
        if not isinstance(allowed, list) or (not allowed and columns):
            self.report("enum is a list with at least one value", place)
            return
        kinds = plain.get("type", TYPES)
        if columns and not any(json_types(value) & set(kinds) for value in allowed):
            self.report(f"can't be met: no value of the enum is of type {' or '.join(kinds)}", place)
        plain["enum"] = allowed

    def limits(self, schema: Schema, plain: Plain, place: str) -> None:
        for keyword in (*NUMBER_LIMITS, "multipleOf"):
            if keyword in schema:
                if isinstance(schema[keyword], bool) or not isinstance(schema[keyword], int | float):
                    self.report(f"{keyword} is a number, not {schema[keyword]!r}", place)
                elif not fits_double(schema[keyword]):
                    self.report(f"{keyword} is no number that a double holds", place)
                elif keyword != "multipleOf" or self.step(schema[keyword], place):
                    plain[keyword] = schema[keyword]
        for keyword in COUNTS:
            if keyword in schema:
                count = schema[keyword]
                if isinstance(count, float) and count.is_integer():
                    count = int(count)
                if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                    self.report(f"{keyword} is an integer of at least 0, not {schema[keyword]!r}", place)
                    continue
                plain[keyword] = count
        for low, high in (
            *(("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")),
            *(("minContains", "maxContains"), ("minProperties", "maxProperties")),
        ):
            if low in plain and high in plain and plain[low] > plain[high] and low != "minContains":
                self.report(f"can't be met: {low} {plain[low]} is above {high} {plain[high]}", place)

    def step(self, value: int | float, place: str) -> bool:
        if value <= 0:
            self.report(f"multipleOf is above 0, not {value!r}", place)
        elif value >= 1e20 or decimal_places(value) > MAX_DECIMAL_PLACES:
            self.report(f"multipleOf {value!r} has more digits than every engine can divide by", place)
        else:
            return True
        return False

    def texts(self, schema: Schema, plain: Plain, place: str) -> None:
        if "pattern" in schema and self.pattern(schema["pattern"], place):
            plain["pattern"] = schema["pattern"]
        if (written := schema.get("format")) is not None:
            if not isinstance(written, str):
                self.report(f"format is a text, not {written!r}", place)
            elif self.assert_format and written not in FORMATS:
                near = did_you_mean(written, FORMATS)
                self.report(
                    f'the format "{written}"{near} is not checked; there are: {", ".join(FORMATS)}; or write a pattern',
                    place,
                )
            elif self.assert_format:
                plain["format"] = written

    def pattern(self, written: object, place: str) -> bool:
        try:
            portable(written)
        except ValueError as error:
            self.report(str(error), place)
            return False
        return True

    # Arrays and objects -----------------------------------------------------------------------------------------

    def arrays(self, schema: Schema, plain: Plain, place: str, seen: tuple[str, ...], columns: bool) -> None:
        if "prefixItems" in schema:
            first = self.schemas(schema["prefixItems"], f"{place}.prefixItems", seen)
            if first:
                plain["prefixItems"] = first
        if "items" in schema and schema["items"] is not True:
            column = columns and "prefixItems" not in schema and schema["items"] not in (False, {})
            plain["items"] = self.node(schema["items"], f"{place}.items", seen, column)
        if "contains" in schema:
            plain["contains"] = self.node(schema["contains"], f"{place}.contains", seen)
        else:
            for keyword in ("minContains", "maxContains"):
                plain.pop(keyword, None)
        unique = schema.get("uniqueItems", False)
        if not isinstance(unique, bool):
            self.report("uniqueItems is true or false", place)
        elif unique:
            plain["uniqueItems"] = True

    def objects(self, schema: Schema, plain: Plain, place: str, seen: tuple[str, ...], columns: bool) -> None:
        if "properties" in schema:
            children = self.mapping(schema, "properties", place)
            plain["properties"] = {
                name: self.node(child, f"{place}.properties.{name}", seen, columns) for name, child in children.items()
            }
        self.required(schema, plain, place, columns)
        for keyword in ("patternProperties", "dependentSchemas"):
            if keyword in schema:
                found = {
                    name: self.node(child, f"{place}.{keyword}.{name}", seen)
                    for name, child in self.mapping(schema, keyword, place).items()
                }
                if keyword == "patternProperties":
                    found = {name: child for name, child in found.items() if self.pattern(name, f"{place}.{keyword}")}
                plain[keyword] = found
        if "additionalProperties" in schema and schema["additionalProperties"] is not True:
            extra = schema["additionalProperties"]
            if extra is not False and not isinstance(extra, Mapping):
                self.report(f"additionalProperties is true, false or a schema, not {extra!r}", place)
            else:
                plain["additionalProperties"] = extra is not False and self.node(
                    extra, f"{place}.additionalProperties", seen
                )
        if "propertyNames" in schema and schema["propertyNames"] is not True:
            plain["propertyNames"] = self.node(schema["propertyNames"], f"{place}.propertyNames", seen)
        if "dependentRequired" in schema:
            plain["dependentRequired"] = {
                name: list(dict.fromkeys(names))
                for name, names in self.mapping(schema, "dependentRequired", place).items()
                if self.names(names, f"dependentRequired.{name}", place)
            }

    def required(self, schema: Schema, plain: Plain, place: str, columns: bool) -> None:
        required = schema.get("required", [])
        if not self.names(required, "required", place):
            return
        if columns and not {"$ref", "allOf", "patternProperties"} & set(schema):
            properties = plain.get("properties", {})
            for name in required:
                if name not in properties:
                    near = did_you_mean(name, properties)
                    self.report(f'required "{name}"{near} is not among the properties', place)
        if required:
            plain["required"] = list(dict.fromkeys(required))

    def names(self, value: object, keyword: str, place: str) -> bool:
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return True
        self.report(f"{keyword} is a list of property names", place)
        return False

    def mapping(self, schema: Schema, keyword: str, place: str) -> dict[str, Any]:
        if isinstance(schema[keyword], Mapping):
            return {str(name): child for name, child in schema[keyword].items()}
        self.report(f"{keyword} is a mapping of names", place)
        return {}

    def schemas(self, value: object, place: str, seen: tuple[str, ...], columns: bool = False) -> list[Plain]:
        if isinstance(value, list) and value:
            return [self.node(child, f"{place}.{index}", seen, columns) for index, child in enumerate(value)]
        self.report("a list of at least one schema", place)
        return []

    # Schemas over the same value ---------------------------------------------------------------------------------

    def applicators(self, schema: Schema, plain: Plain, place: str, seen: tuple[str, ...], columns: bool) -> Plain:
        also: list[Plain] = []
        if "enum" in schema and "const" in schema:
            also.append({"enum": [schema["const"]]})
        if (reference := schema.get("$ref")) is not None:
            also.append(self.reference(reference, place, seen, columns))
        if "allOf" in schema:
            also += self.schemas(schema["allOf"], f"{place}.allOf", seen, columns)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                nullable = self.optional(schema[keyword], f"{place}.{keyword}", seen, keyword) if columns else None
                choices = [] if nullable else self.schemas(schema[keyword], f"{place}.{keyword}", seen)
                nullable = nullable or with_null(choices, one=keyword == "oneOf")
                if nullable is not None:
                    also.append(nullable)
                elif choices:
                    plain[keyword] = choices
        if "not" in schema:
            plain["not"] = self.node(schema["not"], f"{place}.not", seen)
        if "if" in schema:
            for keyword in ("if", "then", "else"):
                if keyword in schema:
                    plain[keyword] = self.node(schema[keyword], f"{place}.{keyword}", seen)
        rest = []
        for other in also:
            both = merged(plain, other)
            if both is None:
                rest.append(other)
            else:
                plain = both
        if rest:
            plain["allOf"] = [*plain.get("allOf", ()), *rest]
        if columns:
            for other in rest:
                self.report_all(misplaced_keywords(other), place)
        if not isinstance(schema.get("coerce", False), bool):
            self.report(f"coerce is true or false, not {schema['coerce']!r}", place)
        elif schema.get("coerce"):
            if problem := coerce_problem(plain):
                self.report(problem, place)
            else:
                plain["coerce"] = True
        if "column" in schema:
            if "column" in plain:
                self.report(f"column is written twice: {plain['column']} and {schema['column']}", place)
            try:
                plain["column"] = decimal_column(schema["column"], plain)
            except ValueError as error:
                self.report(str(error), place)
        return plain

    def optional(self, choices: object, place: str, seen: tuple[str, ...], keyword: str) -> Plain | None:
        """Return the choices ``X or null`` as the schema of X's column; None, and no problem, for other choices."""
        if not isinstance(choices, list) or {"type": "null"} not in choices:
            return None
        known = len(self.problems)
        found = [
            self.node(choice, f"{place}.{index}", seen, choice != {"type": "null"})
            for index, choice in enumerate(choices)
        ]
        nullable = with_null(found, one=keyword == "oneOf")
        if nullable is None:
            del self.problems[known:]
        return nullable

    def reference(self, reference: object, place: str, seen: tuple[str, ...], columns: bool) -> Plain:
        if not isinstance(reference, str):
            self.report(f"$ref is a text, not {reference!r}", place)
            return {}
        if reference in seen:
            self.report(f'"{reference}" refers to itself; a column has a fixed depth', place)
            self.circular = True
            return {}
        if self.circular and reference in self.followed:  # following each order of several circles takes too long
            return {}
        self.followed.add(reference)
        found = resolve(self.root, reference)
        if found is None or not isinstance(found[0], Mapping | bool):
            self.report(f'"{reference}" points to nothing in this schema', place)
            return {}
        return self.node(found[0], place, (*seen, reference), columns)

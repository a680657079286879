"""Random schemas in the plain form, with all its keywords, and values that nearly fit them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXTS = st.sampled_from(["", "a", "ab", "abc", "b1", "2026-01-31", "é😀"])
NUMBERS = st.integers(-3, 6) | st.sampled_from([0.5, 1.5, -2.0, 3.0])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
NAMES = st.sampled_from(["a", "b", "c", "x y"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
COUNTS = st.integers(0, 3)
KINDS = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
PATTERNS = st.sampled_from(["^a", "^(a|ab)$", "b", "^[a-c]+$", "^a|b$"])
SCALAR_KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "description": st.just("what it is"),
    "minimum": NUMBERS,
    "maximum": NUMBERS,
    "exclusiveMinimum": NUMBERS,
    "exclusiveMaximum": NUMBERS,
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "minLength": COUNTS,
    "maxLength": COUNTS,
    "pattern": PATTERNS,
    "format": st.sampled_from(["date", "email", "uri"]),
    "minItems": COUNTS,
    "maxItems": COUNTS,
    "uniqueItems": st.just(True),
    "minProperties": COUNTS,
    "maxProperties": COUNTS,
}
ENUMS = {"enum": st.lists(VALUES, min_size=1, max_size=3)}


def deeper(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return schemas that hold schemas."""
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    applicators: dict[str, st.SearchStrategy[Any]] = {
        "items": inner,
        "prefixItems": several,
        "contains": inner,
        "minContains": COUNTS,
        "maxContains": COUNTS,
        "properties": named,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.booleans() | inner,
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=1),
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1), max_size=1),
        "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }
    return schemas_of({**SCALAR_KEYWORDS, **ENUMS, **applicators})


def schemas_of(keywords: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return schemas of a few of these keywords, most of them with a type."""
    few = st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True)
    body = few.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))
    kinds = st.lists(KINDS, min_size=1, max_size=2, unique=True)
    typed = st.tuples(kinds, body).map(lambda pair: {"type": pair[0], **pair[1]})
    return typed | typed | body | st.just({"not": {}})


SCHEMAS = st.recursive(schemas_of({**SCALAR_KEYWORDS, **ENUMS}), deeper, max_leaves=8)
ROOTS = st.fixed_dictionaries(
    {"type": st.just(["object"]), "properties": st.dictionaries(NAMES, SCHEMAS, min_size=1, max_size=3)},
    optional={
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.booleans() | SCHEMAS,
        "anyOf": st.lists(SCHEMAS, min_size=1, max_size=2),
        "patternProperties": st.dictionaries(PATTERNS, SCHEMAS, max_size=1),
    },
)
"""What :func:`~sqlenrich.schema.normalise` may give: an object with properties."""
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)

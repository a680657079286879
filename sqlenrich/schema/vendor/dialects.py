"""What each vendor takes of JSON Schema: one table a vendor, every fact with its source.

A table has only keywords that a source documents as accepted. A keyword that is left out costs the model some guidance;
a keyword that the vendor refuses fails every row. The checks enforce what is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlenrich.schema.keywords import NUMBER_LIMITS

SHAPE = frozenset({"type", "enum", "description", "properties", "required", "additionalProperties", "items"})
_LIMITS = set(NUMBER_LIMITS)
_CLOCKS = {"date", "time", "date-time", "duration"}
_NAMES = {"email", "hostname", "ipv4", "ipv6", "uuid"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The part of JSON Schema that one vendor takes."""

    name: str
    keywords: frozenset[str]
    formats: frozenset[str] = frozenset()
    schema_of_others: bool = False
    """Whether ``additionalProperties`` may be a schema; it may be false wherever it is a keyword."""
    enum_of: tuple[str, ...] = ("string", "integer", "number", "boolean", "null")
    """The types that an enum's values may have; null is always one of them where the type is nullable."""
    one_type: bool = False
    """Whether a list of types may have only one type and null."""
    typed: bool = False
    """Whether every schema needs a type or an ``anyOf``, every object named properties, every array ``items``."""
    closed: bool = False
    """Whether every object must be closed. One without named properties, or whose others have a schema, is refused."""
    length_alone: bool = False
    """Whether a text with a length may have no pattern and no format."""
    property_name: re.Pattern[str] | None = None
    max_properties: int | None = None
    """The limit of the properties of all objects together."""
    max_json_depth: int | None = None
    """The limit of the nesting of the schema's JSON text."""


OPENAI = Dialect(
    "openai",
    SHAPE | {"anyOf", "pattern", "format", "multipleOf", "minItems", "maxItems"} | _LIMITS,
    formats=frozenset(_CLOCKS | _NAMES),
)
"""OpenAI's Structured Outputs with ``strict: true``; :data:`STRICT` has its size limits.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas (read 2026-11-21) lists these keywords and
formats, ``anyOf`` not at the root, and refuses allOf, not, dependentRequired, dependentSchemas, if, then, else.
Text lengths are in neither list and are refused: "'minLength' is not permitted" (coder/mux#1220, 2025-12-18), as is
"'uniqueItems'" (mastra-ai/mastra#23321, 2026-09-08).
"""

XGRAMMAR = Dialect(
    "xgrammar",
    SHAPE
    | {"anyOf", "pattern", "format", "prefixItems", "minItems", "maxItems"}
    | {"minLength", "maxLength", "minProperties", "maxProperties"}
    | _LIMITS,
    formats=frozenset(_CLOCKS | _NAMES | {"uri", "uri-reference", "uri-template", "json-pointer"}),
    schema_of_others=True,
    enum_of=("string", "integer", "number", "boolean", "null", "array", "object"),
    length_alone=True,
    max_json_depth=60,
)
"""vLLM's default grammar. Any other OpenAI-compatible server is sent the same.

Tried with xgrammar 0.2.8 and vLLM 0.32: ``not``, ``if`` and a second ``allOf`` are accepted and ignored, as are
siblings of ``anyOf``; ``multipleOf``, ``allOf``, ``uniqueItems``, ``contains`` and a schema nested deeper than 64
are HTTP 400. A pattern is matched against the whole text; ``patternProperties`` besides ``additionalProperties:
false`` allows none of its names. vLLM's ``has_xgrammar_unsupported_json_features`` refuses a length beside a pattern
or a format, and names what ``format`` may be. An object that is not closed is closed by its default.
"""

DATABRICKS = Dialect("databricks", SHAPE, one_type=True, max_properties=64)
"""Databricks' Foundation Model APIs, also behind ``ai_query``.

https://docs.databricks.com/aws/en/machine-learning/model-serving/structured-outputs (read 2026-11-21): no pattern,
anyOf, oneOf, allOf, prefixItems, $ref; at most 64 keys; lengths and sizes are not enforced; a list of types only as
a type and null (of function calls, on their page). It says nothing of ranges and formats: they are left out.
"""

SNOWFLAKE = Dialect("snowflake", SHAPE, property_name=re.compile(r"[A-Za-z0-9_-]{1,64}"))
"""Snowflake's ``response_format``.

https://docs.snowflake.com/en/user-guide/snowflake-cortex/complete-structured-outputs (read 2026-11-20): multipleOf,
ranges, lengths, format, uniqueItems, contains, item and property counts, patternProperties and propertyNames are
errors; names are letters, digits, _ and -, at most 64. OpenAI's models there take only what is strict. It names no
combining keyword.
"""

GEMINI = Dialect(
    "gemini",
    SHAPE - {"additionalProperties"} | {"anyOf", "format", "minItems", "maxItems", "minimum", "maximum"},
    formats=frozenset({"date-time"}),
    enum_of=("string",),
    one_type=True,
    typed=True,
)
"""Gemini's ``response_schema``, in the generation config of both BigQuery functions.

https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/control-generated-output (read 2026-11-21), "Supported
schema fields": anyOf, enum, format, items, maximum, maxItems, minimum, minItems, nullable, properties,
propertyOrdering, required; any other is ignored. Its errors: "properties: should be non-empty for OBJECT type" and
"only 'enum' and 'date-time' are supported for STRING type" (of ``format``; google/adk-python keeps to it). The REST
reference has an enum's values as texts. ``output_schema`` of AI.GENERATE is not used: it has types alone, no enum and
no ranges.
"""


ANTHROPIC = Dialect(
    "anthropic",
    SHAPE | {"anyOf", "format"},
    formats=frozenset(_CLOCKS | _NAMES | {"uri"}),
    closed=True,
)
"""Anthropic's structured outputs, ``output_config.format`` of its messages.

The SDK's ``transform_schema`` (anthropic 2.14.0) keeps these: types, enum of texts, numbers, booleans and null, anyOf,
required, ``additionalProperties: false`` of every object, these formats. It moves ranges, lengths, patterns and counts
into the description, but minItems of 0 or 1, which is left out here.
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a schema may be in OpenAI's strict mode."""

    properties: int = 5_000
    depth: int = 10
    """Objects within objects."""
    characters: int = 120_000
    """Characters of all names and enum values."""
    enum_values: int = 1_000
    long_enum: int = 250
    """An enum with more values has at most ``long_enum_characters`` together."""
    long_enum_characters: int = 15_000


STRICT = Sizes()
"""https://platform.openai.com/docs/guides/structured-outputs#supported-schemas (read 2026-11-21). A larger
schema is sent without ``strict``."""

"""The signatures of BigQuery's AI functions, as this oracle believes them.

Written by hand from the documentation pages named in each entry, as they stood on 2026-08-22.
No live warehouse was asked: that a query fits this table proves nothing about the table. Left
out: AI.AGG, AI.CLASSIFY, AI.EMBED, AI.GENERATE_TABLE, AI.SIMILARITY, and the arguments
`examples`, `embeddings` and `optimization_mode` of AI.IF. The order in which AI.GENERATE_TEXT
returns its columns is not documented; here the input's columns come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RETRIEVED = "2026-08-22"
DOCS = "https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/bigqueryml-syntax-"

# A prompt is a STRING or a STRUCT whose fields are joined in order.
PROMPT = "STRING or STRUCT"


@dataclass(frozen=True)
class Argument:
    """One argument; `type` is a GoogleSQL type or PROMPT."""

    name: str
    type: str
    optional: bool = True
    named_only: bool = True
    constant: bool = False


@dataclass(frozen=True)
class Scalar:
    """A scalar function. With `schema_argument` the result's first field gives way to the named
    argument's own fields, which is why that argument must be a literal."""

    name: str
    arguments: tuple[Argument, ...]
    result: str
    source: str
    schema_argument: str | None = None


@dataclass(frozen=True)
class TableFunction:
    """A function over MODEL, a relation and a STRUCT of settings.

    The relation needs every column of `needs`, and all its columns pass through; `adds` holds the
    new ones per kind of model. `needs` names the text first. `alone` is the setting that excludes the others.
    """

    name: str
    needs: Mapping[str, str]
    settings: Mapping[str, str]
    alone: str
    adds: Mapping[str, Mapping[str, str]]
    source: str


_PROMPT = Argument("prompt", PROMPT, optional=False, named_only=False)
_CALL = (
    Argument("endpoint", "STRING", constant=True),
    Argument("model_params", "JSON", constant=True),
    Argument("connection_id", "STRING", constant=True),
    Argument("request_type", "STRING", constant=True),
)
_MANAGED = (
    Argument("connection_id", "STRING", constant=True),
    Argument("endpoint", "STRING", constant=True),
    Argument("max_error_ratio", "FLOAT64", constant=True),
)

SCALARS: tuple[Scalar, ...] = (
    Scalar(
        "AI.GENERATE",
        (_PROMPT, *_CALL, Argument("output_schema", "STRING", constant=True)),
        "STRUCT<result STRING, full_response JSON, status STRING>",
        DOCS + "ai-generate",
        schema_argument="output_schema",
    ),
    Scalar(
        "AI.GENERATE_BOOL",
        (_PROMPT, *_CALL),
        "STRUCT<result BOOL, full_response JSON, status STRING>",
        DOCS + "ai-generate-bool",
    ),
    Scalar(
        "AI.GENERATE_INT",
        (_PROMPT, *_CALL),
        "STRUCT<result INT64, full_response JSON, status STRING>",
        DOCS + "ai-generate-int",
    ),
    Scalar(
        "AI.GENERATE_DOUBLE",
        (_PROMPT, *_CALL),
        "STRUCT<result FLOAT64, full_response JSON, status STRING>",
        DOCS + "ai-generate-double",
    ),
    Scalar("AI.IF", (_PROMPT, *_MANAGED), "BOOL", DOCS + "ai-if"),
    Scalar("AI.SCORE", (_PROMPT, *_MANAGED), "FLOAT64", DOCS + "ai-score"),
    Scalar(
        "AI.COUNT_TOKENS",
        (
            Argument("input", PROMPT, optional=False, named_only=False),
            Argument("endpoint", "STRING", constant=True),
        ),
        "STRUCT<result INT64, full_response JSON>",
        DOCS + "ai-count-tokens",
    ),
)

# The types that an output_schema may use, besides ARRAY and STRUCT of them.
OUTPUT_SCHEMA_TYPES = frozenset({"STRING", "INT64", "FLOAT64", "BOOL"})

_VECTOR = {"embedding": "ARRAY<FLOAT64>", "statistics": "JSON", "status": "STRING"}
TABLE_FUNCTIONS: tuple[TableFunction, ...] = (
    TableFunction(
        "AI.GENERATE_TEXT",
        needs={"prompt": "STRING"},
        settings={
            "max_output_tokens": "INT64",
            "top_k": "INT64",
            "top_p": "FLOAT64",
            "temperature": "FLOAT64",
            "stop_sequences": "ARRAY<STRING>",
            "ground_with_google_search": "BOOL",
            "safety_settings": "ARRAY<STRUCT<category STRING, threshold STRING>>",
            "model_params": "STRING",
            "request_type": "STRING",
        },
        alone="model_params",
        adds={
            "gemini": {
                "result": "STRING",
                "rai_result": "STRING",
                "grounding_result": "STRING",
                "statistics": "JSON",
                "full_response": "JSON",
                "status": "STRING",
            },
            "other": {"result": "STRING", "full_response": "JSON", "status": "STRING"},
        },
        source=DOCS + "ai-generate-text",
    ),
    TableFunction(
        "AI.GENERATE_EMBEDDING",
        needs={"content": "STRING"},
        settings={"output_dimensionality": "INT64", "task_type": "STRING"},
        alone="",
        adds={"gemini": _VECTOR, "other": _VECTOR},
        source=DOCS + "ai-generate-embedding",
    ),
)

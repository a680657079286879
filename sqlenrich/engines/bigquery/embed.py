"""BigQuery's vectors: ``AI.GENERATE_EMBEDDING``, a relation in and a relation out."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.engine import CallResult, EmbeddingFunction, ModelCall, Reading, VendorFact
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.sql import Sql, func, literal
from sqlenrich.engines.bigquery.call import REFERENCE, STORED, asked_over
from sqlenrich.engines.bigquery.text import TEXT
from sqlenrich.engines.shared.model_call import request_text, select_carried
from sqlenrich.engines.shared.reading import AnswerFacts, reading

EMBEDDING_DOCS = REFERENCE + "bigqueryml-syntax-ai-generate-embedding"
READ_ON = "2026-11-23"
CONTENT = "content"
"""The column of the texts, by its name."""
STRUCT_FIELDS = VendorFact(frozenset({"task_type"}), EMBEDDING_DOCS, READ_ON)
"""The settings that a text has beside the vector's length."""


def _told(path: str) -> VendorFact:
    return VendorFact(path, EMBEDDING_DOCS, READ_ON)


ANSWERS = AnswerFacts(
    call="AI.GENERATE_EMBEDDING",
    response=(_told("embedding"),),
    call_error=(_told("status"),),
    tokens_in=(
        VendorFact(
            "statistics.token_count", "the statistics of ML.GENERATE_EMBEDDING, whose columns it renames", READ_ON
        ),
    ),
)
"""The columns that the function adds. A row that failed has a status and an empty vector."""
_STORED = replace(STORED, array=lambda raw, path: func("JSON_QUERY", raw, literal(f"$.{path}")))


def embed(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``AI.GENERATE_EMBEDDING`` over the pending relation."""
    assert request.embedding is not None
    if unknown := sorted(set(request.params) - STRUCT_FIELDS.value):
        known = ", ".join(sorted(STRUCT_FIELDS.value))
        raise UnsupportedError(
            "bigquery", f"the parameter {', '.join(unknown)} of AI.GENERATE_EMBEDDING", f"it takes {known}"
        )
    settings = {"output_dimensionality": request.embedding.dimensions, **request.params}
    asked = select_carried(pending, request, request_text(request, TEXT), CONTENT)
    return asked_over(exp.GenerateEmbedding, request, asked, {name: literal(value) for name, value in settings.items()})


def must_exist(request: ModelCall) -> list[str]:
    """Return what the script needs beforehand, with the statement that makes it."""
    return [
        "Needs a remote model, made once:",
        f"CREATE MODEL `{request.model}` REMOTE WITH CONNECTION DEFAULT",
        "OPTIONS (ENDPOINT = 'gemini-embedding-001');",
    ]


def _reading(embedding: Embedding) -> Reading:
    return reading(ANSWERS, _STORED, embedding)


EMBEDDING = EmbeddingFunction(
    call=embed,
    reading=_reading,
    facts={
        "call": VendorFact("AI.GENERATE_EMBEDDING", EMBEDDING_DOCS, READ_ON),
        "default_model": VendorFact("sqlenrich.embedding", "the remote model that you make once", READ_ON),
        "struct_fields": STRUCT_FIELDS,
        **ANSWERS.facts,
    },
    must_exist=must_exist,
)

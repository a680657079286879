"""Snowflake's vectors: ``AI_EMBED``, whose VECTOR is stored as an array."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.engine import CallResult, EmbeddingFunction, ModelCall, Reading, VendorFact
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.sql import Sql, data_type, func, literal
from sqlenrich.engines.shared.model_call import check_length, request_text
from sqlenrich.engines.shared.reading import AnswerFacts, reading
from sqlenrich.engines.snowflake.call import DOCS, STORED, grants
from sqlenrich.engines.snowflake.text import TEXT

EMBED_DOCS = DOCS + "ai_embed"
VECTOR_DOCS = "https://docs.snowflake.com/en/sql-reference/data-types-vector"
ERRORS_DOCS = "https://docs.snowflake.com/en/release-notes/bcr-bundles/2026_06/bcr-2358"
READ_ON = "2026-11-23"
BUNDLE = VendorFact("2026_06", ERRORS_DOCS, READ_ON)
"""The bundle of behaviour changes with which a row that fails gives NULL. Without it, it fails its statement."""

LENGTHS = VendorFact(
    {
        "snowflake-arctic-embed-m": 768,
        "snowflake-arctic-embed-m-v1.5": 768,
        "e5-base-v2": 768,
        "snowflake-arctic-embed-l-v2.0": 1024,
        "snowflake-arctic-embed-l-v2.0-8k": 1024,
        "nv-embed-qa-4": 1024,
        "multilingual-e5-large": 1024,
        "voyage-multilingual-2": 1024,
    },
    DOCS + "embed_text-snowflake-cortex and embed_text_1024-snowflake-cortex",
    READ_ON,
)
"""The lengths of the vectors of known models: no parameter changes them."""

ANSWERS = AnswerFacts(
    call="AI_EMBED",
    response=(VendorFact("value", "the call's own name of it: AI_EMBED gives a VECTOR or NULL", READ_ON),),
    call_error=(VendorFact("error", ERRORS_DOCS, READ_ON),),
    null_error=VendorFact("NULL without a reason: try again later", ERRORS_DOCS, "2026-11-25"),
)
"""Where a stored answer holds what."""


def embed(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``AI_EMBED`` in its form of two arguments, the only one that all accounts have."""
    if request.params:
        names = ", ".join(request.params)
        raise UnsupportedError("snowflake", f"the parameter {names} of AI_EMBED, which has none", "leave it out")
    check_length("snowflake", request, LENGTHS.value.get(request.model.lower()))
    vector = func("AI_EMBED", literal(request.model), request_text(request, TEXT))
    array = exp.Cast(this=vector, to=data_type("ARRAY", "snowflake"))
    # A VARIANT can't hold a VECTOR. NULL is kept: it tells that the row was asked and failed.
    return CallResult(pending, func("TO_JSON", func("OBJECT_CONSTRUCT_KEEP_NULL", literal("value"), array)))


def must_exist(request: ModelCall) -> list[str]:
    """Return what the script needs beforehand."""
    return [
        f"Needs: the embedding model {request.model} in your region, and:",
        *grants("AI_EMBED"),
        f"Before the behaviour change bundle {BUNDLE.value}, a text that AI_EMBED refuses fails its whole statement.",
    ]


def _reading(embedding: Embedding) -> Reading:
    return reading(ANSWERS, STORED, embedding)


EMBEDDING = EmbeddingFunction(
    call=embed,
    reading=_reading,
    facts={
        "call": VendorFact("AI_EMBED", EMBED_DOCS, READ_ON),
        "default_model": VendorFact("snowflake-arctic-embed-l-v2.0", EMBED_DOCS, READ_ON),
        "bundle": BUNDLE,
        "lengths": LENGTHS,
        "vector": VendorFact("CAST(... AS ARRAY)", VECTOR_DOCS, READ_ON),
        **ANSWERS.facts,
    },
    must_exist=must_exist,
)

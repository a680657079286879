"""The vectors of Spark and Databricks: ``ai_query`` with the type of its answer."""

from __future__ import annotations

from functools import partial

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.engine import CallResult, EmbeddingFunction, ModelCall, Reading, VendorFact
from sqlenrich.core.sql import Sql, func, literal
from sqlenrich.engines.shared.model_call import request_text
from sqlenrich.engines.shared.reading import AnswerFacts, reading
from sqlenrich.engines.spark.call import ANSWERS as TEXTS
from sqlenrich.engines.spark.call import STORED, parameter

RETURN_TYPE = VendorFact(
    "ARRAY<FLOAT>",
    "public notebooks, one of which says that it ran beside failOnError => false; the vendor's page wants returnType "
    "where an endpoint has no schema",
    "2026-11-23",
)
ANSWERS = AnswerFacts(call="ai_query", response=TEXTS.response, call_error=TEXTS.call_error)
"""The fields of the struct that ``failOnError => false`` gives: those of a text, with the vector as ``result``."""


def embed(pending: Sql, request: ModelCall, *, sends_dimensions: bool) -> CallResult:
    """Ask through ``ai_query``, whose answer is then a vector."""
    assert request.embedding is not None
    length = {"dimensions": request.embedding.dimensions} if sends_dimensions else {}
    arguments: dict[str, Sql] = {"returnType": literal(RETURN_TYPE.value)}
    if params := {**length, **request.params}:
        arguments["modelParameters"] = parameter(params)
    arguments["failOnError"] = literal(False)
    answer = func("ai_query", literal(request.model), request_text(request), **arguments)
    kept = func("map", literal("ignoreNullFields"), literal("false"))
    return CallResult(pending, func("COALESCE", func("to_json", answer, kept), literal("null")))


def _reading(embedding: Embedding) -> Reading:
    return reading(ANSWERS, STORED, embedding)


def embedding_function(
    call: VendorFact, default_model: VendorFact, *, sends_dimensions: bool = False
) -> EmbeddingFunction:
    """Give the function of an engine whose model is this one, where a file names none."""
    facts = {"call": call, "default_model": default_model, "return_type": RETURN_TYPE, **ANSWERS.facts}
    return EmbeddingFunction(call=partial(embed, sends_dimensions=sends_dimensions), reading=_reading, facts=facts)

"""The vectors of Spark and Databricks: ``ai_query`` with the type of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.engine import CallResult, EmbeddingFunction, ModelCall, Reading, VendorFact
from sqlenrich.core.sql import Sql, func, literal
from sqlenrich.engines.shared.model_call import check_length, request_text
from sqlenrich.engines.shared.reading import AnswerFacts, reading
from sqlenrich.engines.spark.call import ANSWERS as TEXTS
from sqlenrich.engines.spark.call import STORED, parameter
from sqlenrich.engines.spark.text import TEXT

RETURN_TYPE = VendorFact(
    "ARRAY<FLOAT>",
    "public notebooks, one of which says that it ran beside failOnError => false; the vendor's page wants returnType "
    "where an endpoint has no schema",
    "2026-11-23",
)
ANSWERS = AnswerFacts(call="ai_query", response=TEXTS.response, call_error=TEXTS.call_error)
"""The fields of the struct that ``failOnError => false`` gives: those of a text, with the vector as ``result``."""


def embed(pending: Sql, request: ModelCall, *, lengths: Mapping[str, int] | None) -> CallResult:
    """Ask through ``ai_query``, whose answer is then a vector. Without ``lengths`` the length is a parameter."""
    assert request.embedding is not None
    if lengths is not None:
        known = next((length for name, length in lengths.items() if request.model.endswith(name)), None)
        check_length("databricks", request, known)
    length = {"dimensions": request.embedding.dimensions} if lengths is None else {}
    arguments: dict[str, Sql] = {"returnType": literal(RETURN_TYPE.value)}
    if params := {**length, **request.params}:
        arguments["modelParameters"] = parameter(params)
    arguments["failOnError"] = literal(False)
    answer = func("ai_query", literal(request.model), request_text(request, TEXT), **arguments)
    kept = func("map", literal("ignoreNullFields"), literal("false"))
    return CallResult(pending, func("COALESCE", func("to_json", answer, kept), literal("null")))


def _reading(embedding: Embedding) -> Reading:
    return reading(ANSWERS, STORED, embedding)


def embedding_function(
    call: VendorFact, default_model: VendorFact, lengths: VendorFact | None = None
) -> EmbeddingFunction:
    """Return the function of an engine whose model is this one, where a file names none.

    ``lengths`` are those of models' vectors by the ends of their names, where no parameter changes them.
    """
    facts = {"call": call, "default_model": default_model, "return_type": RETURN_TYPE, **ANSWERS.facts}
    if lengths is not None:
        facts["lengths"] = lengths
    asked = partial(embed, lengths=None if lengths is None else lengths.value)
    return EmbeddingFunction(call=asked, reading=_reading, facts=facts)

"""``output: {NAME: {dimensions: N}}`` of a header: an enrichment whose output is a vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.errors import did_you_mean
from sqlenrich.spec.turns import Problem

KEYS = ("dimensions", "description")
MOST_DIMENSIONS = 65_536
_NO_WORDS = "a model of embeddings is told nothing but the text"
_NO_VERDICT = "a vector is neither right nor wrong"
REFUSED: Mapping[str, str] = {
    "hint": "a model of embeddings writes no JSON",
    "repairs": "a vector needs no repair",
    "system": _NO_WORDS,
    "messages": _NO_WORDS,
    "evaluate": _NO_VERDICT,
    "review": _NO_VERDICT,
    "drift": _NO_VERDICT,
}
"""The keys of a header that mean nothing for an embedding, and why."""
REFUSED_PARAMS = ("temperature", "max_tokens", "top_p", "seed", "stop")
REFUSED_RETRY: Mapping[str, str] = {
    "feedback": "its text would be embedded as well",
    "escalate": "the vectors of two models can't be compared",
}


def is_embedding(output: Any) -> bool:
    """Whether an output is meant as an embedding: one of its fields has ``dimensions``."""
    return isinstance(output, Mapping) and any(_is_vector(name, field) for name, field in output.items())


def _is_vector(name: object, field: object) -> bool:
    """Tell a vector from an object that has a field of that name."""
    holds_fields = "(" in str(name) or name in ("properties", "$defs", "definitions")
    return isinstance(field, Mapping) and "dimensions" in field and not holds_fields


def read_embedding(header: Mapping[str, Any]) -> tuple[Embedding, dict[str, Any], list[Problem]]:
    """Return the embedding of a header, the JSON Schema of its answers, and the problems."""
    output = header["output"]
    problems = [*_output_problems(output), *_refused(header)]
    name, written = next((str(name), field) for name, field in output.items() if _is_vector(name, field))
    given = written["dimensions"]
    dimensions = given if _fits(given) else 1
    embedding = Embedding(name, dimensions)
    return embedding, vector_schema(embedding, written.get("description")), problems


def vector_schema(embedding: Embedding, description: object = None) -> dict[str, Any]:
    """Return the JSON Schema of the answers: one vector of the right length."""
    vector: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
    vector |= {"minItems": embedding.dimensions, "maxItems": embedding.dimensions}
    if isinstance(description, str):
        vector["description"] = description
    return {
        "type": "object",
        "properties": {embedding.field: vector},
        "required": [embedding.field],
        "additionalProperties": False,
    }


def _fits(dimensions: object) -> bool:
    return isinstance(dimensions, int) and not isinstance(dimensions, bool) and 0 < dimensions <= MOST_DIMENSIONS


def _output_problems(output: Mapping[str, Any]) -> Iterator[Problem]:
    if len(output) > 1:
        yield (
            "an embedding is the only field of its output: write the other fields into a file of their own",
            ("output",),
        )
    for name, field in output.items():
        if not _is_vector(name, field):
            continue
        place, given = ("output", str(name)), field["dimensions"]
        if not _fits(given):
            text = f"dimensions must be a whole number from 1 to {MOST_DIMENSIONS:,}, not {given!r}"
            yield text, (*place, "dimensions")
        if not isinstance(field.get("description", ""), str):
            yield f"description must be a text, not {field['description']!r}", (*place, "description")
        for key in field:
            if key not in KEYS:
                near = did_you_mean(str(key), KEYS)
                yield f'an embedding has no "{key}"{near}: it has {" and ".join(KEYS)}', (*place, str(key))


def _refused(header: Mapping[str, Any]) -> Iterator[Problem]:
    for key, why in REFUSED.items():
        if key in header:
            yield f"leave out {key}: {why}", (key,)
    for name in REFUSED_PARAMS:
        if name in _inside(header, "params"):
            yield f"leave out {name}: a model of embeddings has no such parameter", ("params", name)
    for name, why in REFUSED_RETRY.items():
        if _inside(header, "retry").get(name):
            yield f"leave out {name}: {why}", ("retry", name)


def _inside(header: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = header.get(key)
    return inner if isinstance(inner, Mapping) else {}

"""``output`` of a header: a JSON Schema, its short form, a Pydantic model or an embedding, as one plain schema."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlenrich.core.embedding import Embedding
from sqlenrich.schema import expand, normalise
from sqlenrich.spec.embedding import is_embedding, read_embedding
from sqlenrich.spec.turns import Problem

ANY_OBJECT: Mapping[str, Any] = {"type": ["object"], "properties": {}, "required": [], "additionalProperties": True}
"""The schema of a file that has none, so that its other problems are found too."""


def read_output(
    header: Mapping[str, Any], folder: Path | None
) -> tuple[dict[str, Any], Embedding | None, list[Problem]]:
    """Return the plain schema of the answers, the embedding where the output is one, and the problems.

    ``folder`` is where the module of a Pydantic model is looked for first.
    """
    written = header.get("output")
    if written is None:
        return dict(ANY_OBJECT), None, [("output is missing: the JSON Schema of the answer", ())]
    if is_embedding(written):
        embedding, schema, problems = read_embedding(header)
        plain, unfit = normalise(schema)
        if not problems:
            problems = [(problem.message, ("output", embedding.field)) for problem in unfit]
        return plain, embedding, problems
    problems = []
    if isinstance(written, dict) and "pydantic" in written:
        written, problems = _pydantic_schema(str(written["pydantic"]), folder)
    plain, found = _json_schema(written)
    return plain, None, [*problems, *found]


def _json_schema(written: Any) -> tuple[dict[str, Any], list[Problem]]:
    expanded = expand(written)
    problems: list[Problem] = [(message, ("output", *place)) for message, place in expanded.problems]
    reported = {place for _, place in expanded.problems}
    plain, unfit = normalise(expanded.schema)
    for problem in unfit:
        place = expanded.written(tuple(problem.place.split("."))[1:])
        if place not in reported:  # else the problem at this place causes it
            problems.append((problem.message, ("output", *place)))
    return plain, problems


def _pydantic_schema(reference: str, folder: Path | None) -> tuple[Any, list[Problem]]:
    module, _, attribute = reference.partition(":")
    if folder is not None:
        sys.path.insert(0, str(folder))  # finds a module beside the prompt file from any working folder
    try:
        return getattr(import_module(module), attribute).model_json_schema(), []
    except Exception as error:
        message = f'"{reference}" gives no Pydantic model ({error}); write "package.module:Model"'
        return {"type": "object", "properties": {"_": {"type": "string"}}}, [(message, ("output",))]
    finally:
        if folder is not None:
            sys.path.remove(str(folder))

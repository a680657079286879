"""What a request is: the model, its parameters and the output's shape, resolved for one engine and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlenrich.core.json import canonical_json
from sqlenrich.schema.json_schema import HINT, shape

HASH_VERSION = 1


@dataclass(frozen=True)
class ResolvedModel:
    """A model's own name and its parameters under the vendor's names. An alias is resolved before."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """How the engine is to call it; no part of the request, so not hashed."""


def request_constant(model: ResolvedModel, schema: Mapping[str, Any], hint: str | None) -> str:
    """Give ``C``: the SHA-256, in hexadecimal, of everything but the prompt that decides an answer.

    Of a hint only its wording counts: the schema in it may hold limits, and changing one must pay nothing.
    """
    parts = {
        "v": HASH_VERSION,
        "model": model.name,
        "params": dict(model.params),
        "shape": shape(schema),
        "hint": None if hint is None else HINT,
    }
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def request_hash(constant: str, prompt: str | None) -> str | None:
    """Give the hash of one request, as the SQL of every engine gives it; None for a prompt that is None."""
    return None if prompt is None else hashlib.sha256((constant + prompt).encode()).hexdigest()

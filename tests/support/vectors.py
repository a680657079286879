"""The page /v1/embeddings of the scripted endpoint: a vector for each text."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from tests.support.faults import error

OWN_LENGTH = 6
"""The numbers of a vector of a model that is told no length."""
NO_DIMENSIONS = error("This model does not support specifying dimensions.", "invalid_request_error")
Vector = Callable[[str, int], Any]


def unit_vector(text: str, length: int) -> list[float]:
    """Return a vector of length 1 that depends on the text alone."""
    drawn = random.Random(text)
    numbers = [drawn.gauss(0, 1) for _ in range(length)]
    whole = math.sqrt(math.fsum(number * number for number in numbers))
    return [number / whole for number in numbers]


def embedded(body: Mapping[str, Any], vector: Vector, dimensions: str, count: Callable[[str], int]) -> bytes:
    """Return the body of a good answer, its vectors in a shuffled order. ``dimensions``: ``obeyed`` or ``ignored``."""
    length = body.get("dimensions", OWN_LENGTH) if dimensions == "obeyed" else OWN_LENGTH
    data = [
        {"object": "embedding", "index": number, "embedding": vector(text, length)}
        for number, text in enumerate(body["input"])
    ]
    random.Random(len(data)).shuffle(data)
    tokens = sum(count(text) for text in body["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return orjson.dumps({"object": "list", "model": body["model"], "data": data, "usage": usage})

"""The bodies of requests for vectors, and how their answers are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import orjson

from sqlenrich.core import runtime
from sqlenrich.core.embedding import Embedding
from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.endpoint.adaptations import NEXT_FORM, RequestChange, refused_field
from sqlenrich.llm.endpoint.http import MOST_BODY_BYTES
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import (
    BatchCompletion,
    count_of,
    load_object,
    name_of,
    object_in,
    read_error,
    storable,
)

PAGE = "/embeddings"
BYTES_PER_NUMBER = 25
"""The longest text of a double, and a comma."""
_DIMENSIONS = re.compile(r"dimension|matryoshka", re.IGNORECASE)


class EmbeddingBody:
    """Writes the body of each request: the constant fields, then the inputs.

    ``dimensions`` is sent until an endpoint refuses it, which is the only one of its ``changes``. ``batch``: the texts
    of one request at most, by the setting and by what an answer may hold.
    """

    page = PAGE

    def __init__(
        self, config: RequestConfig, embedding: Embedding, extra_body: Mapping[str, object], batch: int = 1
    ) -> None:
        self.batch = max(1, min(batch, MOST_BODY_BYTES // (BYTES_PER_NUMBER * embedding.dimensions)))
        self.changes: list[RequestChange] = []
        self._embedding = embedding
        self._params = config.params.keys() - extra_body.keys()
        fields = {"model": config.model, **dict(sorted(config.params.items()))}
        after = {"encoding_format": "float", **dict(sorted(extra_body.items()))}
        try:
            self._forms = [
                orjson.dumps({**fields, **length, **after})[:-1] + b',"input":'
                for length in ({"dimensions": embedding.dimensions}, {})
            ]
        except TypeError as error:
            raise ConfigError(f"the request's parameters can't be written as JSON: {error}") from None
        self.fields = frozenset({**fields, "dimensions": 0, **after}) - {"model"}

    def of(self, prompts: Sequence[str]) -> bytes:
        """Return the exact bytes of the request for some prompts."""
        try:
            inputs = orjson.dumps(list(prompts))
        except TypeError:
            inputs = orjson.dumps([storable(prompt) for prompt in prompts])
        return self._forms[len(self.changes)] + inputs + b"}"

    def change(self, name: str, known: int) -> bool:
        """Ask without ``dimensions`` from now on; False where that was done before the request was sent."""
        if not self.changes:
            self.changes.append(RequestChange(runtime.now(), name))
        return known == 0

    def change_for(self, message: str, param: str) -> str:
        """Return the change that a refusal calls for: none, unless it is about the vector's length."""
        about_length = param == "dimensions" or bool(_DIMENSIONS.search(message))
        return NEXT_FORM if about_length and not self.changes else ""

    def refused_field(self, message: str, param: str) -> str:
        """Return the parameter of the prompt file that a refusal names, "" for none."""
        return refused_field(message, param, self._params)

    def change_text(self, refusal: str) -> str:
        """Say what was refused, and what is done instead."""
        return f"refuses dimensions ({refusal}): it is asked without"

    def read(self, raw: bytes) -> BatchCompletion:
        """Return what the body of an HTTP 200 says. Raises ValueError, with a short text, for no vectors."""
        body = load_object(raw)
        data = body.get("data")
        if not (isinstance(data, list) and data and all(isinstance(one, dict) for one in data)):
            raise ValueError(f"the answer has no data: {read_error(raw)[0]}")
        places = [one.get("index", number) for number, one in enumerate(data)]
        if sorted(places, key=str) != sorted(range(len(data)), key=str):
            raise ValueError("the answer's vectors have no index, or one twice")
        texts: list[str | None] = [None] * len(data)
        for place, one in zip(places, data, strict=True):
            vector = one.get("embedding")
            texts[place] = None if vector is None else self._embedding.answer(orjson.dumps(vector).decode())
        counts = object_in(body, "usage")
        tokens = count_of(counts.get("prompt_tokens"))
        tokens = count_of(counts.get("total_tokens")) if tokens is None else tokens
        return BatchCompletion(tuple(texts), tokens, model=name_of(body.get("model")))


def divided(tokens: int, sizes: Sequence[int]) -> list[int]:
    """Divide a request's tokens among its inputs by their sizes; the parts are whole numbers with the same sum."""
    total, upto, parts = sum(sizes), 0, [0]
    for number, size in enumerate(sizes, start=1):
        upto += size
        parts.append(tokens * upto // total if total else tokens * number // len(sizes))
    return [after - before for before, after in pairwise(parts)]

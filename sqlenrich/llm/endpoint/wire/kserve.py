"""KServe's V2 protocol, which Triton, PyTriton, OpenVINO and MLServer speak: tensors in, tensors out.

https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sqlenrich.core.endpoint import KSERVE_INPUTS, KServe
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import sent_text
from sqlenrich.llm.endpoint.adaptations import RequestChange, refused_field
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import BatchCompletion, load_object, name_of, read_error, storable

PAGE = "/v2/models/{model}/infer"
METADATA_PAGE = "/v2/models/{model}"


class KServeBody:
    """Writes the body of each request: one tensor of texts, and constant ones. It never asks in another way.

    The turns and the hint are part of each text, as for a function that takes one text. ``params`` are the request's
    ``parameters``. The answers are the output's texts; with ``embedding``, the rows of its numbers.
    """

    page = PAGE

    def __init__(self, config: RequestConfig, settings: KServe, extra_body: Mapping[str, object]) -> None:
        self.changes: list[RequestChange] = []
        self.batch = settings.batch
        self._config, self._settings = config, settings
        fields: dict[str, Any] = {"outputs": [{"name": settings.output}]}
        constant = {*extra_body, KSERVE_INPUTS}
        if params := {name: value for name, value in sorted(config.params.items()) if name not in constant}:
            fields["parameters"] = params
        fields |= sorted(extra_body.items())
        try:
            self._head = orjson.dumps(fields)[:-1] + b',"inputs":['
        except TypeError as error:
            raise ConfigError(f"the request's parameters can't be written as JSON: {error}") from None
        self.fields = frozenset(fields)

    def of(self, prompts: Sequence[str]) -> bytes:
        """Return the exact bytes of the request for some prompts."""
        hint = "" if self._config.hint is None else f"\n\n{self._config.hint}"
        texts = [storable(sent_text(self._config.turns, prompt) + hint) for prompt in prompts]
        tensors = [self._tensor(self._settings.input, "BYTES", texts)]
        for name, value in self._settings.inputs.items():
            tensors.append(self._tensor(name, datatype_of(value), [value] * len(texts)))
        return self._head + b",".join(map(orjson.dumps, tensors)) + b"]}"

    def _tensor(self, name: str, datatype: str, data: Sequence[object]) -> dict[str, object]:
        shape = [len(data), *[1] * (self._settings.rank - 1)]
        return {"name": name, "shape": shape, "datatype": datatype, "data": data}

    def change(self, _name: str, _known: int) -> bool:
        """Change nothing."""
        return False

    def change_for(self, _message: str, _param: str) -> str:
        """Return no change."""
        return ""

    def refused_field(self, message: str, param: str) -> str:
        """Return the parameter of the prompt file that a refusal names, "" for none."""
        return refused_field(message, param, self._config.params.keys())

    def change_text(self, refusal: str) -> str:
        """Return the refusal."""
        return refusal

    def read(self, raw: bytes) -> BatchCompletion:
        """Return what the body of an HTTP 200 says. Raises ValueError, with a short text, for no such output."""
        body, wanted = load_object(raw), self._settings.output
        found = body.get("outputs")
        outputs = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        tensor = next((one for one in outputs if one.get("name") == wanted), None)
        if tensor is None:
            names = ", ".join(str(one.get("name")) for one in outputs)
            raise ValueError(f'the answer has no output "{wanted}": {names or read_error(raw)[0]}')
        shape, data = tensor.get("shape"), tensor.get("data")
        if not (isinstance(shape, list) and shape and type(shape[0]) is int and isinstance(data, list)):
            raise ValueError(f'the output "{wanted}" has no shape, or its data is not JSON')
        rows = _rows(data, shape[0])
        embedding = self._config.embedding
        texts: list[str | None] = []
        for row in rows:
            if embedding is not None:
                texts.append(embedding.answer(orjson.dumps(row).decode()))
                continue
            if not all(isinstance(one, str) for one in row):
                raise ValueError(f'the output "{wanted}" has no texts: its datatype is {tensor.get("datatype")}')
            texts.append(storable("".join(row)) if row else None)
        return BatchCompletion(tuple(texts), None, model=name_of(body.get("model_name")))


def _rows(data: list[Any], count: int) -> list[list[Any]]:
    """Return a tensor's data by rows: servers write it flat or nested."""
    flat = _flat(data)
    if count < 1 or len(flat) % count:
        raise ValueError(f"the answer has {len(flat)} values for {count} rows")
    width = len(flat) // count
    return [flat[width * row : width * (row + 1)] for row in range(count)]


def _flat(data: list[Any]) -> list[Any]:
    return [one for part in data for one in (_flat(part) if isinstance(part, list) else [part])]


def datatype_of(value: object) -> str:
    """Return the datatype of a constant input."""
    kinds: tuple[tuple[type, str], ...] = ((bool, "BOOL"), (int, "INT64"), (float, "FP32"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "BYTES")

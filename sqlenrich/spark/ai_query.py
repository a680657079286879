"""``ai_query`` as a function of a Spark session: the requests of its rows go through a desk, as those of a run."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from sqlenrich.core.embedding import AFTER, Embedding
from sqlenrich.core.json import canonical_json
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.messages import Request
from sqlenrich.spark.address import DeskAddress
from sqlenrich.spark.worker import worker_of

NAME = "ai_query"
ARGUMENTS = ("endpoint", "request", "modelParameters", "responseFormat", "failOnError", "returnType")
VECTOR_TYPE = re.compile(r"\s*array\s*<\s*(float|double)\s*>\s*", re.IGNORECASE)
_NAMES = {name.lower(): name for name in ARGUMENTS}
FIELD = "vector"
"""The field of an answer that holds a vector, inside of this module."""
PROBLEM_S = 30.0
"""What every request meets is met again by trying, at most this often."""
FORMS = ("json_schema", "json_object", "text")
"""The types of a response format."""
FORMAT = (
    'JSON such as {"type": "json_schema", "json_schema": {"name": "answer", "schema": {...}}}, {"type": "json_object"} '
    'or {"type": "text"}; no type of SQL'
)
RETURNS = "STRUCT<result: STRING, errorMessage: STRING>"


class _Sent(NamedTuple):
    """What a request has beside its prompt."""

    endpoint: str
    parameters: str
    response_format: str
    return_type: str


def answers(
    address: DeskAddress, models: Mapping[str, str], positional: Sequence[pa.Array], named: Mapping[str, pa.Array]
) -> pa.StructArray:
    """Return ``result`` and ``errorMessage`` for each row of a batch; a row without a request asks nothing.

    Raises TypeError and ValueError, before anything is asked, for arguments of which no request can be made.
    """
    given = arguments(positional, named)
    rows = len(given["request"])
    prompts: list[str | None] = given["request"].to_pylist()
    found: list[tuple[str | None, str | None]] = [(None, None)] * rows
    groups: dict[_Sent, list[int]] = {}
    for place, sent in enumerate(_sent(given)):
        if prompts[place] is not None:
            groups.setdefault(sent, []).append(place)
    configs = {
        sent: config_of(sent.endpoint, models, sent.parameters, sent.response_format, sent.return_type)
        for sent in groups
    }
    for sent, places in groups.items():
        _ask(address, configs[sent], {place: str(prompts[place]) for place in places}, found)
    columns = [pa.array([row[number] for row in found], pa.string()) for number in (0, 1)]
    return pa.StructArray.from_arrays(columns, names=["result", "errorMessage"])


def arguments(positional: Sequence[pa.Array], named: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the arguments by their names, which may be in any case. Raises TypeError for one that is not known."""
    found = dict(zip(ARGUMENTS, positional, strict=False))
    if len(positional) > len(ARGUMENTS):
        raise TypeError(f"{NAME} takes {len(ARGUMENTS)} arguments: {', '.join(ARGUMENTS)}")
    for written, values in named.items():
        name = _NAMES.get(written.lower())
        if name is None:
            raise TypeError(f"{NAME} has no argument {written}; there are: {', '.join(ARGUMENTS)}")
        if name in found:
            raise TypeError(f"{NAME} got {name} twice")
        found[name] = values
    for name in ARGUMENTS[:2]:
        if name not in found:
            raise TypeError(f"{NAME} needs {name}")
    return found


def _sent(given: Mapping[str, pa.Array]) -> Iterator[_Sent]:
    """Return what each row's request has beside its prompt. These are constants of a query in almost all uses."""
    columns = [given.get(name) for name in ("endpoint", "modelParameters", "responseFormat", "returnType")]
    texts = [None if column is None else _texts(column) for column in columns]
    for place in range(len(given["request"])):
        yield _Sent(*("" if column is None else column[place] for column in texts))


def _texts(column: pa.Array) -> list[str]:
    """Return each value as JSON, a text as it is; a constant is written once."""
    cache: dict[str, str] = {}
    found = []
    for value in column.to_pylist():
        key = repr(value)
        if key not in cache:
            cache[key] = value if isinstance(value, str) else "" if value is None else json.dumps(_plain(value))
        found.append(cache[key])
    return found


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: 0.0 is a decimal in Spark's SQL."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"{NAME}: a parameter is {value}, which JSON has not")
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def config_of(
    endpoint: str, models: Mapping[str, str], parameters: str, response_format: str, return_type: str = ""
) -> RequestConfig:
    """Return what is sent with every request of these arguments. Raises ValueError with what is wrong."""
    model = models.get(endpoint, endpoint)
    if not model:
        raise ValueError(f"{NAME}: the first argument is NULL: it names the model")
    params = _object(
        "modelParameters", parameters or "{}", "named_struct('temperature', 0.0, 'max_tokens', 128), or JSON"
    )
    if return_type:
        length = params.pop("dimensions", None)
        if not VECTOR_TYPE.fullmatch(return_type) or not isinstance(length, int):
            raise ValueError(
                f"{NAME}: returnType is 'ARRAY<FLOAT>' beside modelParameters => named_struct('dimensions', N), or "
                f"left out: the result is a text. It is {return_type!r}"
            )
        return RequestConfig(model, params=params, embedding=Embedding(FIELD, length))
    form: Any = None
    if response_format:
        form = _object("responseFormat", response_format, FORMAT)
        whole = form.get("type") != "json_schema" or isinstance(form.get("json_schema"), dict)
        if form.get("type") not in FORMS or not whole:
            raise ValueError(f"{NAME}: responseFormat is {FORMAT}. It is {response_format!r}")
    return RequestConfig(model, params=params, response_format=form)


def _object(name: str, text: str, wanted: str) -> dict[str, Any]:
    """Return an argument that is a JSON object. Raises ValueError with what is wanted."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{NAME}: {name} is {wanted}. It is {text!r}")
    return found


def _result(config: RequestConfig, response: str | None) -> str | None:
    """Return what the function returns of an answer: a model's text, or a vector's JSON text."""
    if config.embedding is None or response is None:
        return response
    return response.removeprefix(config.embedding.before).removesuffix(AFTER)


def _ask(
    address: DeskAddress, config: RequestConfig, prompts: Mapping[int, str], found: list[tuple[str | None, str | None]]
) -> None:
    parts = {"model": config.model, "params": dict(config.params), "form": config.response_format}
    if config.embedding is not None:
        parts["embedding"] = {"dimensions": config.embedding.dimensions}
    constant = hashlib.sha256(canonical_json(parts).encode()).hexdigest()
    places: dict[str, list[int]] = {}
    for place, prompt in prompts.items():
        places.setdefault(hashlib.sha256((constant + prompt).encode()).hexdigest(), []).append(place)
    requests = (Request(name, 1, prompts[rows[0]]) for name, rows in places.items())
    worker = worker_of(address, NAME, config)
    lately = worker.problem is not None and time.monotonic() - worker.problem_at < PROBLEM_S
    for answered in () if lately else worker.ask(requests):
        for row in answered:
            for place in places.get(row["request_hash"], ()):
                found[place] = (_result(config, row["response"]), row["call_error"])
    for rows in places.values():
        for place in rows:
            if found[place] == (None, None):
                found[place] = (None, worker.problem or "the request was not asked: the session's function is closed")

"""The pages of an OpenAI-compatible API that ask a model: what their answers hold, and how a stream tells one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from sqlenrich.gateway.events import chat_events, completion_events, response_events
from sqlenrich.llm.endpoint.event_stream import is_stream, whole_body
from sqlenrich.llm.endpoint.response import Completion, count_of, load_json, name_of, object_in, one_line, read_error
from sqlenrich.llm.endpoint.wire.responses import ENDED

TOKENS_IN, TOKENS_OUT = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")
DETAILS = ("prompt_tokens_details", "input_tokens_details")
Events = Callable[[Mapping[str, Any], bool], Iterator[bytes]]
"""Gives the events of a stored answer; with the usage where that is wanted."""


@dataclass(frozen=True)
class Page:
    """A page that asks a model. ``holds`` is the list without which a body is no answer."""

    path: str
    holds: str
    events: Events | None
    """None: the page has no streams."""
    max_tokens: tuple[str, ...] = ()
    """The fields that bound the tokens of an answer."""

    def read(self, raw: bytes) -> Completion:
        """Return the whole body of an HTTP 200 as the text, with its counts. Raises ValueError for no answer."""
        body = whole_body(raw) if is_stream(raw) else _object(raw)
        found = body.get(self.holds)
        if not (isinstance(found, list) and found):
            raise ValueError(f"the answer has no {self.holds}: {read_error(raw)[0]}")
        status = body.get("status")
        if isinstance(status, str) and status not in ENDED:
            raise ValueError(f"the response is {one_line(status)}: {read_error(raw)[0]}")
        counts = object_in(body, "usage")
        details = _first(counts, DETAILS)
        tokens_out = count_of(_first(counts, TOKENS_OUT))
        tokens_in = count_of(_first(counts, TOKENS_IN))
        return Completion(
            (orjson.dumps(body) if is_stream(raw) else raw).decode(),
            _finish_reason(found[0], status),
            tokens_in,
            count_of(details.get("cached_tokens")) if isinstance(details, dict) else None,
            0 if tokens_out is None and tokens_in is not None and self.holds == "data" else tokens_out,
            name_of(body.get("model")),
            name_of(body.get("system_fingerprint")),
        )


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = load_json(raw)
    except (ValueError, RecursionError):
        raise ValueError(f"the answer is not JSON: {one_line(raw[:200].decode('utf-8', 'replace'))}") from None
    return body if isinstance(body, dict) else {}


def _first(counts: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((counts[name] for name in names if name in counts), None)


def _finish_reason(first: Any, status: Any) -> str | None:
    reason = first.get("finish_reason") if isinstance(first, dict) else None
    return reason if isinstance(reason, str) else status if isinstance(status, str) else None


PAGES: Mapping[str, Page] = {
    page.path: page
    for page in (
        Page("/chat/completions", "choices", chat_events, ("max_completion_tokens", "max_tokens")),
        Page("/completions", "choices", completion_events, ("max_tokens",)),
        Page("/embeddings", "data", None),
        Page("/responses", "output", response_events, ("max_output_tokens",)),
    )
}
"""The pages by their paths below the URL of an endpoint."""

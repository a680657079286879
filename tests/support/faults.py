"""Every way in which an endpoint fails, by name."""

from __future__ import annotations

import json


def error(message: str, kind: str = "", param: str | None = None, code: str | None = None) -> bytes:
    """Return an error body as OpenAI and vLLM write it."""
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


TOO_LONG = "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 tokens."
TOO_LARGE = "Request too large for mock on tokens per min (TPM): Limit 6000, Requested 7012."
NO_FORMAT = "Grammar error: Unimplemented keys in response_format"
# Fault name -> status, further header lines, body.
STATUS_FAULTS: dict[str, tuple[int, str, bytes]] = {
    "429": (429, "", error("rate limit", "rate_limit_error")),
    "429_after": (429, "retry-after: 1\r\n", error("rate limit", "rate_limit_error")),
    "429_too_large": (429, "", error(TOO_LARGE, "tokens", code="rate_limit_exceeded")),
    "500": (500, "", error("boom", "InternalServerError")),
    "503": (503, "", error("overloaded", "ServiceUnavailable")),
    "401": (
        401,
        "",
        error("Incorrect API key provided: KEY", "invalid_request_error", code="invalid_api_key"),
    ),
    "403": (403, "", error("no access for KEY", "permission_error")),
    "403_firewall": (403, "", b"<html><body>Request blocked. Support ID: 1</body></html>"),
    "404_model": (404, "", error("The model `x` does not exist.", "NotFoundError", code="model_not_found")),
    "404_path": (404, "", b'{"detail":"Not Found"}'),
    "307": (307, "location: https://elsewhere.invalid/v1\r\n", b""),
    "400_context": (400, "", error(TOO_LONG, "BadRequestError", "input_tokens", "400")),
    "400_policy": (400, "", error("flagged by the content management policy", "", None, "content_filter")),
    "400_format": (400, "", error(NO_FORMAT, "BadRequestError", "response_format")),
    "400_unclear": (400, "", error("computer says no", "BadRequestError")),
    "413": (413, "", b"too big"),
    "422": (422, "", b'{"detail":[{"msg":"computer says no"}]}'),
    "quota": (
        429,
        "",
        error("You exceeded your current quota", "insufficient_quota", code="insufficient_quota"),
    ),
    "html": (200, "", b"<html><body>Sign in to the network</body></html>"),
    "no_choices": (200, "", b'{"object":"chat.completion","choices":[]}'),
    "error_200": (200, "", error("upstream is busy")),
}
# How the bytes go wrong: a reset before or within the answer, never a byte, silence within the answer, 40 bytes each
# 20 ms, an end within the answer, an answer of another content type.
WIRE_FAULTS = ("reset", "reset_mid", "hang", "stall", "slow", "cut", "wrong_type")
# What the message holds instead of an answer.
ODD_CONTENT = {"empty": "", "blank": " \n ", "null": None, "surrogate": '{"x":"\ud800 \x00"}'}
# Why the model stopped before it gave any text.
STOPPED = {"cut_short": "length", "filtered": "content_filter"}
HUGE = 3_000_000
FAULTS = (*STATUS_FAULTS, *WIRE_FAULTS, *ODD_CONTENT, *STOPPED, "huge", "refusal")


def checked(name: str) -> str:
    """Return a fault's name as it is. Raises ValueError for an unknown one."""
    if name and name not in FAULTS:
        raise ValueError(f"unknown fault {name}: known are {', '.join(FAULTS)}")
    return name

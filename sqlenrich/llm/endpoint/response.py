"""Reading what an OpenAI-compatible endpoint sends back: chat completions, error bodies, ``Retry-After``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import NamedTuple

import orjson

from sqlenrich.core import runtime
from sqlenrich.llm.endpoint.event_stream import is_stream, whole_body

ERROR_CHARS = 500
RETRY_AFTER_CAP_S = 60.0
REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "x-goog-request-id")
RETRIED = frozenset({408, 409, 425, 429})

_LONE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[\s\x00]+")

# A row's own fault: too long, or not allowed. Tested first, since such texts also name parameters.
_ROW = re.compile(
    r"context[ _-]?(length|window|size)|(prompt|input|message|request|payload)s? (is|are) too (long|large)"
    r"|too many (input )?tokens|exceeds? the (maximum )?(model|token|input)|max_model_len|string too long"
    r"|content[ _-]?(filter|policy|management)|moderation|safety system|flagged|usage policies",
    re.IGNORECASE,
)
_ROW_CODES = frozenset(
    {
        "context_length_exceeded",
        "content_filter",
        "content_policy_violation",
        "string_above_max_length",
        "invalid_prompt",
    }
)
# Every row's fault: what the run sends with each request.
FORM_WORDS = re.compile(
    r"response_?format|json_?(schema|object)|\bschema\b|grammar|guided|structured output", re.IGNORECASE
)
_RUN = re.compile(
    FORM_WORDS.pattern
    + r"|(unsupported|unrecognized|unknown|unexpected|invalid) ?(param|value|(request )?argument|field)"
    r"|extra inputs|not permitted|(not|n't) support",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ](quota|funds|credits|balance)|exceeded your current quota"
    r"|credit balance is too low|budget[_ ](has been[_ ])?exceeded",
    re.IGNORECASE,
)
# A request that a limit a minute never admits: "Request too large for gpt-4o ... Limit 30000, Requested 50000".
_TOO_LARGE = re.compile(r"request (is )?too large|tokens must be reduced|reduce (your|the) message", re.IGNORECASE)
_LIMIT_AND_REQUESTED = re.compile(r"limit:? (\d+),.{0,40}?requested:? (\d+)", re.IGNORECASE)
_RETRY_IN = re.compile(r"(?:retry|try again) (?:in|after) (\d+(?:\.\d+)?) ?(ms|s\b|sec|m\b|min)", re.IGNORECASE)
_UNITS_S = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0}


class Fault(Enum):
    """Whose fault an answer with an HTTP status other than 200 is."""

    TRANSIENT = "transient"
    ROW = "row"
    UNCLEAR = "unclear"
    RUN = "run"
    QUOTA = "quota"
    KEY = "key"
    URL = "url"


class Completion(NamedTuple):
    """What one chat completion says: the text as it came (None and blank too), and its counts."""

    text: str | None
    finish_reason: str | None
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    model: str | None = None
    """The model that the answer names."""
    fingerprint: str | None = None
    """The ``system_fingerprint`` of the answer."""


@dataclass(frozen=True, slots=True)
class BatchCompletion:
    """What one answer to several inputs says: the text of each input's answer, in order, and the tokens of all."""

    texts: tuple[str | None, ...]
    tokens_in: int | None
    tokens_cached: int | None = None
    model: str | None = None
    """The model that the answer names."""

    @property
    def tokens_out(self) -> int | None:
        """Nothing is written: 0, or None where the endpoint gives no usage."""
        return None if self.tokens_in is None else 0


def load_json(raw: bytes) -> object:
    """Return the value of a JSON body, lone surrogate escapes allowed. Raises ValueError for anything else."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw)


def storable(text: str) -> str:
    r"""Return ``text`` in a form that UTF-8 can hold: each lone surrogate becomes U+FFFD, its escape, U+FFFD.

    The visible ``\udxxx`` between them keeps a JSON text refused, as the lone surrogate it stands for would
    be: inside a string it is a lone surrogate escape again, whatever stands before or after it, and outside
    of one it is no JSON. NUL characters are kept: databases store them, and JSON that holds one is refused.
    """
    if text.isascii():
        return text
    return _LONE.sub(lambda found: f"\ufffd\\u{ord(found[0]):04x}\ufffd", text)


def load_object(raw: bytes) -> dict[str, object]:
    """Return the object of an answer's body; an empty one for other JSON. Raises ValueError, with a short text."""
    if is_stream(raw):
        return whole_body(raw)
    try:
        body = load_json(raw)
    except (ValueError, RecursionError):
        shown = raw[:200].decode("utf-8", "replace")
        raise ValueError(f"the answer is not JSON: {shown}" if raw else "the answer is empty") from None
    return body if isinstance(body, dict) else {}


def read_completion(raw: bytes) -> Completion:
    """Return what the body of an HTTP 200 says. Raises ValueError, with a short text, for no completion."""
    body = load_object(raw)
    choices = body.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        raise ValueError(f"the answer has no choices: {read_error(raw)[0]}")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ValueError("the answer's choice has no message")
    text, refused = _content(message)
    reason = choice.get("finish_reason")
    counts = object_in(body, "usage")
    return Completion(
        text,
        "refusal" if refused else storable(reason) if isinstance(reason, str) else None,
        count_of(counts.get("prompt_tokens")),
        count_of(object_in(counts, "prompt_tokens_details").get("cached_tokens")),
        count_of(counts.get("completion_tokens")),
        name_of(body.get("model")),
        name_of(body.get("system_fingerprint")),
    )


def _content(message: dict[str, object]) -> tuple[str | None, bool]:
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        raise ValueError("the answer's content is not a text")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        # A person who reads the table should see why: the refusal stands where the answer would.
        return storable(content if content and content.strip() else refusal), True
    return None if content is None else storable(content), False


def object_in(body: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return the object that a body holds under a name; an empty one for anything else."""
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def count_of(value: object) -> int | None:
    """Return a count of tokens, None for what is none."""
    return value if type(value) is int and 0 <= value < 2**63 else None


def name_of(value: object) -> str | None:
    """Return a name of one line, None for what is none."""
    return one_line(value) or None if isinstance(value, str) else None


def read_error(raw: bytes) -> tuple[str, str, str]:
    """Return the message, the code (or type) and the parameter of an error body, each "" where absent."""
    try:
        body = load_json(raw)
    except (ValueError, RecursionError):
        return one_line(raw[: 2 * ERROR_CHARS].decode("utf-8", "replace")), "", ""
    error: object = body
    if isinstance(body, dict):
        error = body.get("error") or body
    if not isinstance(error, dict):
        return one_line(str(error)), "", ""
    message = error.get("message") or error.get("detail") or ""
    code = error.get("code")
    kind = code if isinstance(code, str) and code else error.get("type")
    text = message if isinstance(message, str) else json.dumps(message)
    return (
        one_line(text or raw[: 2 * ERROR_CHARS].decode("utf-8", "replace")),
        kind if isinstance(kind, str) else "",
        str(error.get("param") or ""),
    )


def one_line(text: str) -> str:
    """Return ``text`` on one line, without what a database or a terminal can't hold, cut to 500 characters."""
    line = _LONE.sub("\ufffd", _SPACE.sub(" ", text)).strip()
    return line if len(line) <= ERROR_CHARS else line[: ERROR_CHARS - 1] + "…"


def classify_status(
    status: int, message: str, code: str, param: str, sent: Collection[str], *, waits: bool = False
) -> Fault:
    """Say whose fault an HTTP status other than 200 is; ``sent`` names the parameters of every request.

    ``waits``: it says when to come again. Gemini tells of a limit a minute in the words in which others tell of money.
    """
    about_row = code in _ROW_CODES or bool(_ROW.search(message))
    used_up = bool(_QUOTA.search(code)) or (bool(_QUOTA.search(message)) and not (status == 429 and waits))
    if status == 402 or (status in (400, 403, 429) and used_up):
        return Fault.QUOTA
    if status == 429 and _never_fits(message):
        return Fault.ROW
    if status in RETRIED or status >= 500:
        return Fault.TRANSIENT
    if status == 401 or (status == 403 and not about_row):
        return Fault.KEY
    if status in (404, 405) or status < 400:
        return Fault.URL
    if about_row or status == 413:
        return Fault.ROW
    if param.split(".")[0] in sent or _RUN.search(message):
        return Fault.RUN
    return Fault.UNCLEAR


def is_about_form(message: str, param: str, words: re.Pattern[str] = FORM_WORDS) -> bool:
    """Whether a refusal is about the form in which the output is asked for."""
    return param.split(".")[0] == "response_format" or bool(words.search(message))


def _never_fits(message: str) -> bool:
    """Whether a request alone is larger than the limit that refused it."""
    numbers = _LIMIT_AND_REQUESTED.search(message)
    if numbers:
        return int(numbers[2]) > int(numbers[1])
    return bool(_TOO_LARGE.search(message))


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the endpoint's own name of a request, None where it tells none."""
    for name in REQUEST_ID_HEADERS:
        if found := headers.get(name):
            return one_line(found) or None
    return None


def retry_wait(headers: Mapping[str, str], message: str) -> float | None:
    """Return the seconds that a refusal asks to wait, 0 to 60; None where it asks for nothing."""
    try:
        seconds = float(headers["retry-after-ms"]) / 1000
    except (KeyError, ValueError):
        return retry_after(headers.get("retry-after"), message)
    return min(max(seconds, 0.0), RETRY_AFTER_CAP_S) if seconds == seconds else None


def retry_after(header: str | None, message: str = "") -> float | None:
    """Return the seconds that a ``Retry-After`` header, or else a message, asks for, 0 to 60; None if neither does."""
    if not header:
        found = _RETRY_IN.search(message)
        return min(float(found[1]) * _UNITS_S[found[2].lower()], RETRY_AFTER_CAP_S) if found else None
    try:
        seconds = float(header)
    except ValueError:
        try:
            at = parsedate_to_datetime(header)
        except (ValueError, OverflowError):
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - runtime.now()).total_seconds()
    return min(max(seconds, 0.0), RETRY_AFTER_CAP_S) if seconds == seconds else None

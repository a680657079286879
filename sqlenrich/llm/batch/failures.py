"""What an SDK's exception, a refusal of a vendor, or the end of a batch says, as one error with one line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlenrich.llm.batch.errors import (
    BatchError,
    EnqueuedLimitError,
    GoneError,
    NoBatchesError,
    OverLimitsError,
    QuotaError,
    RefusedBatchError,
    ReplyLostError,
    UnavailableError,
    UnknownModelError,
    WrongKeyError,
)
from sqlenrich.llm.endpoint.failure import MEND_KEY
from sqlenrich.llm.endpoint.response import Fault, classify_status, one_line, read_error, retry_wait
from sqlenrich.llm.endpoint.urls import Secrets, shown_url

NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})
"""The exceptions of httpx that are raised before a byte of a request is sent."""
_THOUSANDS = {"K": 1_000, "M": 1_000_000, "": 1}

# "Enqueued token limit reached for gpt-4o-mini in organization org-... Limit: 2,000,000 enqueued tokens."
# "The number of enqueued tokens has surpassed the configured limit of 30K for the deployment 'gpt-4.1-batch'."
_ENQUEUED = re.compile(r"token_limit_exceeded|enqueued|processing queue|batch queue", re.IGNORECASE)
_ENQUEUED_LIMIT = re.compile(r"limit(?: of|:)? (\d[\d,]*)\s*([KM]?)\b", re.IGNORECASE)
_MODEL = re.compile(
    r"model_not_found|invalid_model|deployment_?not_?found|\bmodel\b.{0,120}\b(not exist|not found|not available)"
    r"|^model: ",
    re.IGNORECASE,
)
_NO_BATCHES = re.compile(
    r"operation_?not_?supported|does not work with the specified model"
    r"|(batch|deployment|endpoint)\b.{0,80}\b(not|n't) (be )?support|(not|n't) support.{0,40}\bbatch",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(
    r"too_many_tasks|file_too_large|request_too_large|too large|exceeds? the max\w* (number|size|file)"
    r"|(maximum|exceeds).{0,60}(requests|lines|bytes|[MG]B)\b",
    re.IGNORECASE,
)
_FILE_GONE = re.compile(
    r"no such file|file.{0,80}(not found|not exist|deleted|expired)|invalid_?file|file_not_found", re.I
)


@dataclass(frozen=True)
class Step:
    """A call to a vendor: what it does, whether it creates something, and what a page that is not there means."""

    does: str
    creates: bool = False
    not_found: type[BatchError] = NoBatchesError


UPLOAD = Step("take the file of a batch", creates=True)
CREATE = Step("create a batch", creates=True)
LIST = Step("list batches")
LIST_FILES = Step("list files")
STATE = Step("tell of a batch", not_found=GoneError)
CANCEL = Step("cancel a batch", not_found=GoneError)
CONTENT = Step("give a file of answers", not_found=GoneError)


def sdk_failure(error: Exception, step: Step, shown: str, secrets: Secrets) -> BatchError:
    """Return the failure that an exception of an SDK, or of the HTTP client below it, stands for."""
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    if isinstance(status, int) and response is not None:
        if status == 200:  # the body is not what the SDK reads
            return unread(step, shown, one_line(secrets.hide(str(error))))
        message, code, param = read_error(secrets.hide_bytes(response.content))
        if 300 <= status < 400:
            message = f"redirects to {shown_url(response.headers.get('location', ''))}"
        wait_s = retry_wait(response.headers, message)
        return refusal(status, secrets.hide(message) or "no message", code, param, step, shown, wait_s)
    cause = error.__cause__ if error.__cause__ is not None else error
    text = secrets.hide(one_line(str(cause) or str(error) or type(cause).__name__))
    if type(cause).__name__ in NOT_SENT or not step.creates:
        return UnavailableError(f"{shown} can't be reached: {text}")
    return ReplyLostError(f"{shown} gave no reply when asked to {step.does}: {text}")


def unread(step: Step, shown: str, text: str) -> BatchError:
    """Return the failure of a reply that is not what was asked for."""
    kind = ReplyLostError if step.creates else UnavailableError
    return kind(f"{shown} gave an unreadable reply when asked to {step.does}: {text}")


def refusal(
    status: int, message: str, code: str, param: str, step: Step, shown: str, wait_s: float | None = None
) -> BatchError:
    """Return the failure that an HTTP status other than 200 stands for."""
    text = f"HTTP {status}: {message}"
    about = f"{code} {message}"
    fault = classify_status(status, message, code, param, (), waits=wait_s is not None)
    if 400 <= status < 500 and status not in (401, 402) and _ENQUEUED.search(about):
        return enqueued(f"{shown}: {text}", message)
    if fault is Fault.QUOTA:
        return QuotaError(f"{shown}: the quota is used up ({text}): raise it, then run again")
    if fault is Fault.KEY:
        return WrongKeyError(f"{shown} refuses the key ({text}): {MEND_KEY}")
    if status == 413 or (400 <= status < 500 and status != 429 and _TOO_LARGE.search(about)):
        return OverLimitsError(f"{shown} takes no batch of this size ({text}): lower its requests or its bytes")
    if status == 429:
        return UnavailableError(f"{shown}: {text}", wait_s or 0.0)
    if fault is Fault.TRANSIENT:
        if step.creates:
            return ReplyLostError(f"{shown} failed when asked to {step.does}: {text}")
        return UnavailableError(f"{shown} failed when asked to {step.does}: {text}", wait_s or 0.0)
    return _kind(code, message, text, shown) or _other(status, text, step, shown)


def _kind(code: str, message: str, text: str, shown: str) -> BatchError | None:
    about = f"{code} {message}"
    known = _MODEL.search(code) is not None
    if not known and _NO_BATCHES.search(about):
        return _no_batches(text, shown)
    if known or _MODEL.search(message):
        return UnknownModelError(f"{shown} has no such model for batches ({text}): name one that it offers")
    if _FILE_GONE.search(about):
        return GoneError(f"{shown} has no such file ({text})")
    return None


def _other(status: int, text: str, step: Step, shown: str) -> BatchError:
    if status in (404, 405, 501) or status < 400:
        return _no_batches(text, shown) if step.not_found is NoBatchesError else step.not_found(f"{shown}: {text}")
    return RefusedBatchError(f"{shown} refused to {step.does}: {text}")


def _no_batches(text: str, shown: str) -> NoBatchesError:
    return NoBatchesError(f"{shown} has no batches ({text}): name a URL or a deployment that has them, or ask live")


def enqueued(text: str, message: str) -> EnqueuedLimitError:
    """Return the failure of a vendor's limit on what waits, with the limit that the message names."""
    found = _ENQUEUED_LIMIT.search(message)
    limit = int(found[1].replace(",", "")) * _THOUSANDS[found[2].upper()] if found else None
    return EnqueuedLimitError(text, limit)


def batch_failure(code: str, message: str, line: int | None, shown: str) -> BatchError:
    """Return why a batch that was created failed, from the first of its errors."""
    about = f"{code} {message}"
    place = "" if line is None else f", line {line}"
    text = one_line(f"{code or 'no code'}{place}: {message or 'no message'}")
    if _ENQUEUED.search(about):
        return enqueued(f"{shown}: {text}", message)
    if _TOO_LARGE.search(about):
        return OverLimitsError(f"{shown} takes no batch of this size ({text}): lower its requests or its bytes")
    return _kind(code, message, text, shown) or RefusedBatchError(f"{shown} refused a batch: {text}")

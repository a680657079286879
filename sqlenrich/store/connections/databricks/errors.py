"""What Databricks and its client say when something fails: one line, and whether the same call may succeed later."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlenrich.core.errors import ConfigError
from sqlenrich.store.connections.base import (
    LostConnectionError,
    TransientError,
    UnreachableError,
    chain,
    nobody_answers,
)
from sqlenrich.store.connections.databricks.settings import Settings

_STATUS = r"\b(?:HTTP|status|code)\b\D{0,10}"
TRANSIENT = {
    "throttled": _STATUS + r"429\b|REQUEST_LIMIT_EXCEEDED|TOO_MANY_REQUESTS|RESOURCE_EXHAUSTED",
    "not available": _STATUS + r"50[234]\b|TEMPORARILY_UNAVAILABLE",
    "lost session": r"Invalid ?SessionHandle|INVALID_HANDLE|SESSION_(?:NOT_FOUND|CLOSED|EXPIRED)",
    "lost connection": r"Connection (?:reset|aborted|broken)|RemoteDisconnected|Read timed out|EOF occurred",
    "no second attempt": r"would exceed Retry policy",
    "concurrent write": r"DELTA_CONCURRENT_\w+|Concurrent(?:Append|DeleteRead|DeleteDelete|Transaction)Exception",
    "restart": r"driver (?:has )?stopped|SparkContext was shut ?down|ExecutorLostFailure",
}
"""What may pass, by what the messages say.

Error conditions: https://docs.databricks.com/aws/en/error-messages/error-classes. Concurrent writes:
https://docs.databricks.com/aws/en/optimizations/isolation-level. "Invalid SessionHandle" comes as HTTP 400 or as a
Thrift status; the statement has not run then. 429 and 503 are what the client's own retry policy repeats
(databricks/sql/auth/retry.py of databricks-sql-connector 4.9). Read 2026-11-22.
"""
GATEWAY = (502, 504)
"""Answers of HTTP after which a statement may run: a gateway has passed the request on."""
LOST_SESSION = re.compile(TRANSIENT["lost session"])
MISSING = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|SCHEMA_NOT_FOUND|NO_SUCH_CATALOG|CATALOG_NOT_FOUND|42P01|42704")
"""What is said of a relation that is not there."""
UNKNOWN_OPERATION = re.compile(r"Invalid ?OperationHandle|unexpectedly closed|RESOURCE_DOES_NOT_EXIST|HTTP 404\b")
"""What is said of an operation that is not known, or no longer."""
_CUT_SHORT = {"SSLEOFError", "SSLZeroReturnError", "ConnectionResetError", "TimeoutError"}
"""A connection that is lost in the handshake of TLS says nothing of the certificate."""
_TRANSIENT = re.compile("|".join(TRANSIENT.values()), re.IGNORECASE)


def is_transient(message: str) -> bool:
    """Whether the same call may succeed later."""
    return bool(_TRANSIENT.search(message))


def first_line(message: str, secrets: Iterable[str] = ()) -> str:
    """Return the first line that says something, without any of ``secrets``."""
    for secret in secrets:
        message = message.replace(secret, "***")
    return next((line.strip() for line in message.splitlines() if line.strip()), "")


def not_connected(settings: Settings, error: Exception) -> Exception:
    """Return what to mend, or TransientError for a lost connection, and a warehouse that starts or is throttled."""
    found = chain(error)
    kinds = {type(one).__name__ for one in found}
    text = " ".join(_message(one, settings) for one in found)
    codes = {http_code(one) for one in found}
    if nobody_answers(found):
        return UnreachableError(f"{settings.host}: nobody answers there: correct host, or the network")
    if kinds & {"SSLError", "SSLCertVerificationError"} and not kinds & _CUT_SHORT:
        return ConfigError(f"{settings.host}: its TLS certificate is not accepted: correct host, or the trusted CAs")
    if re.search(r"(?i)not supported for thrift", text):
        return ConfigError(
            f"{settings.host}: {settings.http_path} is a Real-Time warehouse, which takes no Thrift: "
            "name a Pro or serverless SQL warehouse"
        )
    if codes & {401, 403} or re.search(r"(?i)\b40[13]\b|invalid access token|unauthori[sz]ed", text):
        return ConfigError(f"{settings.host}: refused the credentials: {settings.credential} is wrong or expired")
    if codes & {404} or re.search(r"(?i)\b404\b|endpoint not found|no such (warehouse|endpoint)", text):
        return ConfigError(f"{settings.host}: no warehouse at {settings.http_path}: correct http_path")
    if lost := [one for one in found if isinstance(one, OSError)]:
        why = "no answer in time" if isinstance(lost[-1], TimeoutError) else _message(lost[-1], settings)
        return LostConnectionError(f"{settings.host}: {why}: check host and the network")
    message = f"{settings.host}: {_message(error, settings)}"
    if is_transient(f"{text} {' '.join(kinds)}"):
        return TransientError(message)
    return ConfigError(f"{message}; see host, http_path, catalog and schema")


def http_code(error: BaseException) -> int | None:
    """Return the HTTP status that an error of the client holds."""
    context = getattr(error, "context", None)
    return context.get("http-code") if isinstance(context, dict) else None


def _message(error: BaseException, settings: Settings) -> str:
    return first_line(str(error), settings.secrets) or type(error).__name__

"""What BigQuery's errors mean: which of them may pass, and the one line that a user gets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlenrich.core.engine import VendorFact

_ERRORS = "https://docs.cloud.google.com/bigquery/docs/error-messages"
_QUOTAS = "https://docs.cloud.google.com/bigquery/docs/troubleshoot-quotas"
_CLIENT = "https://github.com/googleapis/python-bigquery/blob/main/google/cloud/bigquery/retry.py"
_ITERATE = "https://docs.cloud.google.com/bigquery/docs/iterate-generate-text-calls"
_REPORTS = "the words in users' reports; conflicts: docs.cloud.google.com/bigquery/docs/data-manipulation-language"
_READ_ON = "2026-11-22"

TRANSIENT_REASONS: Mapping[str, VendorFact] = {
    "backendError": VendorFact("the service is not available: 500, 503 or 504", _ERRORS, _READ_ON),
    "internalError": VendorFact("retried by Google's client", _CLIENT, _READ_ON),
    "badGateway": VendorFact("retried by Google's client", _CLIENT, _READ_ON),
    "jobBackendError": VendorFact("a job that may be started again", _CLIENT, _READ_ON),
    "jobInternalError": VendorFact("a job that may be started again", _CLIENT, _READ_ON),
    "jobRateLimitExceeded": VendorFact("a job that may be started again", _CLIENT, _READ_ON),
    "rateLimitExceeded": VendorFact("a short-term limit: try again after a few seconds", _QUOTAS, _READ_ON),
    "quotaExceeded": VendorFact("a longer-term limit: try again after 10 minutes or more", _QUOTAS, _READ_ON),
}
"""The ``reason`` of errors after which the same call may succeed."""
TRANSIENT_STATUSES = VendorFact(frozenset({429, 500, 502, 503, 504}), _ERRORS, _READ_ON)
"""HTTP statuses of answers without a known reason: a proxy's too."""
TRANSIENT_TEXTS: Mapping[str, VendorFact] = {
    r"could not serialize access to table": VendorFact(
        "a conflict with another change of the table", _REPORTS, _READ_ON
    ),
    r"resources?[_ ]exhausted": VendorFact("the model's shared quota is used up", _ITERATE, _READ_ON),
}
"""Patterns of messages after which the same call may succeed, whatever the reason: in any case of letters."""
STOPPED = "stopped"
"""The reason of a job that was cancelled."""


DAILY_QUOTA = VendorFact(
    r"per[ _-]?day|daily", "https://docs.cloud.google.com/bigquery/docs/control-genai-costs", "2026-11-25"
)
"""Words of a quota that is used up until the next day. Asking again before is of no use."""


def is_transient(reason: str, message: str, status: int | None = None) -> bool:
    """Tell whether the same call may succeed soon. ``status`` counts where BigQuery gives no reason."""
    if re.search(DAILY_QUOTA.value, message, re.IGNORECASE):
        return False
    if reason in TRANSIENT_REASONS:
        return True
    if not reason and status in TRANSIENT_STATUSES.value:
        return True
    return any(re.search(pattern, message, re.IGNORECASE) for pattern in TRANSIENT_TEXTS)


def is_about(error: Any, reason: str) -> bool:
    """Tell whether BigQuery itself gave this reason. A proxy's 404 or 409 says nothing of a job or a table."""
    return reason_of(error) == reason


def reason_of(error: Any) -> str:
    """Return the ``reason`` of an exception of Google's client; empty where it has none."""
    errors = getattr(error, "errors", None) or []
    first = errors[0] if errors else None
    return str(first.get("reason") or "") if isinstance(first, Mapping) else ""


def message_of(error: BaseException) -> str:
    """Return the first line of what Google's client was told, without the URL that it puts before it."""
    errors = getattr(error, "errors", None) or []
    told = errors[0].get("message") if errors and isinstance(errors[0], Mapping) else None
    text = str(told or getattr(error, "message", None) or (error.args[0] if error.args else "") or type(error).__name__)
    text = re.sub(r"^(?:GET|POST|PUT|PATCH|DELETE) \S+: ", "", text.strip())
    return first_line(text)


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")

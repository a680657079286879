"""What an error of snowflake-connector-python means: whether it may pass, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MESSAGE_CHARACTERS = 500
_CONNECTOR = "errorcode.py of snowflake-connector-python 4.8"
_NETWORK = "network.py of snowflake-connector-python 4.8"
TRANSIENT: Mapping[int, str] = {
    250001: _CONNECTOR,  # the service was not reached
    250002: _CONNECTOR,  # the connection is closed
    250003: _CONNECTOR,  # a request failed, the retries of the connector too
    250005: _CONNECTOR,  # the server could not answer
    251011: _CONNECTOR,  # a timeout while connecting
    251012: _CONNECTOR,  # a status that may be retried
    252007: _CONNECTOR,  # the session could not be renewed
    390111: "the core of snowflake-connector-python 5.2",  # the session is gone
    390112: _NETWORK,  # the session has expired
    390114: _NETWORK,  # the master token has expired
    390115: _NETWORK,  # the master token is unknown
    # Too many statements wait for the lock of a table.
    625: "https://github.com/brooklyn-data/dbt_artifacts/issues/431",
    # The warehouse is suspended: it resumes, or somebody resumes it.
    608: "https://github.com/PostHog/posthog/pull/37608",
}
"""The errors after which the same statement may succeed, each with where it was read."""
TRANSIENT_HTTP = (408, 429, 500, 502, 503, 504)
"""The statuses of HTTP that may pass."""
HTTP_ERROR = 290000
"""What 4.x adds to a status of HTTP: ER_HTTP_GENERAL_ERROR of its errorcode.py."""
CORE_ERRORS = 100
"""5.x gives a failure of its own core a number below this one (ErrorKind), whose text says more."""
_TRANSIENT_WORDS = re.compile(
    r"(?i)HTTP request failed after retries|timed out|connection (reset|refused|closed)|invalid snowflake response"
    r"|did not report a queryId|session no longer exists"
)
"""Read from 5.2: no answer of the service, or one without what was asked, as a lost session gives it."""
OF_STATEMENTS = {608, 625}
"""Those of TRANSIENT after which the session is as it was. After all others the next call connects again."""
NOT_STARTED = {608, 1003, 2003, 2043}
"""No warehouse, a text that does not compile, an object that is missing: the statement has asked nothing."""
CANCELLED = 604
"""SQL execution canceled."""
MISSING = (2003, 2043)
"""The object does not exist, or this role can't see it."""

_MENDS = (
    (r"(?i)incorrect username or password|authentication failed|390100", "check user and password"),
    (r"(?i)token|jwt|expired", "renew the token or check the key pair"),
    (r"(?i)private.?key|passphrase", "check private_key_path and private_key_passphrase"),
    (r"(?i)404|not found|forbidden|403", "check account: ORGANISATION-ACCOUNT, or its locator with the region"),
    (r"(?i)mfa|passcode", "use a key pair or a programmatic access token: a run can't answer a prompt"),
    (r"(?i)missing|empty|required|must be", "complete the profile or connection"),
    (r"", "check account, host and port, and that this machine reaches them"),
)
"""What to do about a connection that failed; the first that matches."""


def number_of(error: Exception) -> int:
    """Return the number of an error of the connector, -1 for another one or none. An OSError's errno is not one."""
    number = getattr(error, "errno", None)
    return number if isinstance(number, int) and not isinstance(error, OSError) else -1


def is_of_connector(error: Exception) -> bool:
    """Tell whether the connector raised it on purpose; any other one comes from an answer that it could not read."""
    return hasattr(error, "errno") and not isinstance(error, OSError)


def line_of(error: Exception, secrets: Sequence[str]) -> str:
    """Return the message as one line without secrets, its number at the end."""
    if not is_of_connector(error):
        return f"an answer of Snowflake could not be read: {type(error).__name__}"
    text = " ".join(str(getattr(error, "raw_msg", None) or error).split())
    for secret in secrets:
        text = text.replace(secret, "***")
    text, number = text[:MESSAGE_CHARACTERS], number_of(error)
    return f"{text} ({number:06d})" if number > 0 else text


def is_unanswered(number: int) -> bool:
    """Tell whether a request had no answer in 4.x, so that the same request may be sent again."""
    return number == 250003 or (number >= HTTP_ERROR and number % HTTP_ERROR in TRANSIENT_HTTP)


def is_transient(number: int, message: str) -> bool:
    """Tell whether the same statement may succeed later."""
    if number in TRANSIENT or is_unanswered(number):
        return True
    return number < CORE_ERRORS and _TRANSIENT_WORDS.search(message) is not None


def mend(message: str) -> str:
    """Return what to do about a connection that failed."""
    return next(advice for pattern, advice in _MENDS if re.search(pattern, message))

"""Which errors of a call a later attempt may not meet again: words and codes, the same for every vendor."""

from __future__ import annotations

from sqlenrich.core.layout import WIDTH
from sqlenrich.core.sql import Sql, literal

WORDS = (
    "rate.?limit|too.?many.?requests|request.?limit.?exceeded|quota.?exceeded|resource.?exhausted|throttl|overloaded|",
    "service.?unavailable|temporarily|temporary.?failure|retryable.?error.?occurred|try.?again.?later|timed.?out|timeout|",
    "deadline.?exceeded|bad.?gateway|internal.?server.?error|connection.?(reset|refused|aborted|closed)|",
)
"""Words of an error in lower case, with or without a character between two: ``_``, ``-``, a space. A text a line."""
CODES = ("429", "500", "502", "503", "504", "529")
"""HTTP status codes. One counts where it begins the error or follows one of ``CODE_WORDS``, and no unit follows it."""
CODE_WORDS = ("http", "status", "code", "error", "response")
_BEFORE = f"(^[^0-9a-z]*|({'|'.join(CODE_WORDS)})[^a-z]*[^0-9a-z])"
# A number of tokens is no code: "500 tokens", but "429 Too Many Requests".
_AFTER = "($|[^0-9a-z .,%]|[.,]($|[^0-9])| +($|[^0-9t]|t[^o]|to[^k]))"
RETRYABLE = (*WORDS, _BEFORE, f"({'|'.join(CODES)}){_AFTER}")
"""What decides. The patterns keep to what all engines' regular expressions share: no look-around, no groups without a
capture."""


def retryable() -> list[Sql]:
    """Return the pattern for an error in lower case, in parts of a line each."""
    lines = [""]
    for part in (*"".join(WORDS).replace("|", "|\0").split("\0"), *RETRYABLE[len(WORDS) :]):
        if len(lines[-1]) + len(part) > WIDTH:
            lines.append("")
        lines[-1] += part
    return [literal(line) for line in lines]

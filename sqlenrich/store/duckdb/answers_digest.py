"""A digest of stored answers that does not depend on their order: answers can be taken out of it again."""

from __future__ import annotations

from sqlenrich.plan.plan import RESPONSES

_SEPARATOR, _NULL = "chr(31)", "chr(30)"
_TEXTS = ", ".join(f"coalesce(CAST({name} AS VARCHAR), {_NULL})" for name in RESPONSES)
ANSWERS_DIGEST = f"bit_xor(md5_number(concat_ws({_SEPARATOR}, {_TEXTS})))"
"""The SQL of the digest as a number: the exclusive or of the MD5 of each answer's columns."""


def digest_text(number: int | None) -> str:
    """Return a digest as 32 hexadecimal digits; 0 without an answer."""
    return f"{(number or 0):032x}"


def digest_without(digest: str, gone: str) -> str:
    """Return the digest of the answers that are left."""
    return digest_text(int(digest, 16) ^ int(gone, 16))

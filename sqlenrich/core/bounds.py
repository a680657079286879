"""Equal ranges of hashes: each is a hexadecimal number, and all are alike frequent."""

from __future__ import annotations

AFTER_ALL = "g"
"""A text that follows all hashes."""
_DIGITS_OF_PART, _DIGITS_OF_SHARE = 4, 12


def bound(part: int, parts: int, digits: int) -> str:
    """Return the text below which the hashes of the first ``part`` of ``parts`` equal ranges stand."""
    return f"{16**digits * part // parts:0{digits}x}" if part < parts else AFTER_ALL


def bound_of_share(after: str, share: float) -> str:
    """Return a text up to which about a share of the hashes after one stand."""
    size = 16**_DIGITS_OF_SHARE
    begin = int(after[:_DIGITS_OF_SHARE].ljust(_DIGITS_OF_SHARE, "0"), 16)
    return bound(begin + int((size - begin) * share) + 1, size, _DIGITS_OF_SHARE)


def bound_of_part(parts: int | None) -> str:
    """Return an expression of a script that gives the bound of its part ``part``, from 1."""
    assert parts is not None
    if parts == 1:
        return f"'{AFTER_ALL}'"
    digits = _DIGITS_OF_PART
    listed = "".join(bound(part, parts, digits) for part in range(1, parts + 1))
    return f"SUBSTR('{listed}', {digits} * part - {digits - 1}, {digits})"

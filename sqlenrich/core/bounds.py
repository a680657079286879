"""Equal ranges of hashes: each is a hexadecimal number, and all are alike frequent."""

from __future__ import annotations

AFTER_ALL = "g"
"""A text that follows all hashes."""
_DIGITS, _DIGITS_OF_SHARE = 4, 12


def bounds(parts: int) -> list[str]:
    """Return the text after which no hash of each part follows."""
    return [*(f"{16**_DIGITS * part // parts:0{_DIGITS}x}" for part in range(1, parts)), AFTER_ALL]


def bound_of_share(after: str, share: float) -> str:
    """Return a text up to which about a share of the hashes after one stand."""
    size = 16**_DIGITS_OF_SHARE
    begin = int(after[:_DIGITS_OF_SHARE].ljust(_DIGITS_OF_SHARE, "0"), 16)
    end = begin + int((size - begin) * share) + 1
    return f"{end:0{_DIGITS_OF_SHARE}x}" if end < size else AFTER_ALL


def bound_of_part(parts: int | None) -> str:
    """Return an expression of a script that gives the bound of its part ``part``, from 1."""
    assert parts is not None
    if parts == 1:
        return f"'{AFTER_ALL}'"
    return f"SUBSTR('{''.join(bounds(parts))}', {_DIGITS} * part - {_DIGITS - 1}, {_DIGITS})"

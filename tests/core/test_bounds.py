"""Ranges of hashes: all of them together hold each hash once."""

from __future__ import annotations

import hashlib

import pytest

from sqlenrich.core.bounds import bound, bound_of_part, bound_of_share

HASHES = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(2000)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [(1, "'g'"), (3, "SUBSTR('5555aaaag', 4 * part - 3, 4)"), (4, "SUBSTR('40008000c000g', 4 * part - 3, 4)")],
)
def test_a_script_has_the_bounds_of_its_parts(parts: int, expected: str) -> None:
    assert bound_of_part(parts) == expected


@pytest.mark.parametrize("parts", [1, 7, 64])
def test_parts_are_about_equal(parts: int) -> None:
    ends = [bound(part, parts, 4) for part in range(1, parts + 1)]
    sizes = [sum(after < one <= upto for one in HASHES) for after, upto in zip(["", *ends], ends, strict=False)]
    assert sum(sizes) == len(HASHES)
    assert max(sizes) < 2 * len(HASHES) / parts


@pytest.mark.parametrize(
    ("after", "share", "expected"),
    [
        ("", 0.5, "800000000001"),
        ("8" + "0" * 63, 0.5, "c00000000001"),
        ("", 1.0, "g"),
        ("f" * 64, 0.1, "g"),
        ("", 2.0, "g"),
    ],
)
def test_a_share_of_the_hashes_after_one(after: str, share: float, expected: str) -> None:
    assert bound_of_share(after, share) == expected

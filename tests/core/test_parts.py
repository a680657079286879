"""Items in parts that one statement takes."""

from __future__ import annotations

import pytest

from sqlenrich.core.parts import bounded_parts


@pytest.mark.parametrize(
    ("items", "most_length", "most_items", "parts"),
    [
        ("", 5, None, []),
        ("aa bb c", 5, None, ["aa bb c"]),
        ("aa bb cc d", 5, None, ["aa bb", "cc d"]),
        ("a bbbbbbb c", 5, None, ["a", "bbbbbbb", "c"]),
        ("bbbbbbb", 5, None, ["bbbbbbb"]),
        ("a b c d e", 5, 2, ["a b", "c d", "e"]),
    ],
)
def test_parts_keep_the_order_and_the_bounds(
    items: str, most_length: int, most_items: int | None, parts: list[str]
) -> None:
    found = bounded_parts(items.split(), len, most_length, most_items)
    assert [" ".join(part) for part in found] == parts

"""What measures answers refuses an enrichment whose answers are vectors, before anything is asked or written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se


@pytest.mark.parametrize(
    ("measure", "told"),
    [
        (lambda e, out: se.compare(e, e, input=out, mock=True), "a comparison counts equal answers"),
        (lambda e, out: se.evaluate(e, truth=out, mock=True), "an evaluation counts right answers"),
        (lambda e, out: se.review(e, output=out, sheet=out / "sheet.html"), "people can't judge vectors"),
    ],
)
def test_vectors_are_refused(tmp_path: Path, measure: Callable[[se.Enrichment, Path], Any], told: str) -> None:
    vectors = se.loads("---\nkey: [id]\noutput: {embedding: {dimensions: 4}}\n---\n{{ body }}")
    with pytest.raises(se.ConfigError, match=told):
        measure(vectors, tmp_path)
    assert list(tmp_path.iterdir()) == []

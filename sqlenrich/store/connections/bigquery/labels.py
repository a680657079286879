"""Tags as labels of a BigQuery job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

from sqlenrich.core.engine import VendorFact

LONGEST = VendorFact(
    63,
    "https://cloud.google.com/dotnet/docs/reference/Google.Cloud.BigQuery.V2/2.4.0/"
    "Google.Cloud.BigQuery.V2.JobCreationOptions",
    "2026-11-22",
)
"""Characters of a key and of a value: lower-case letters, digits, ``_`` and ``-``; a key begins with a letter."""
_DIGEST = 8


def labels_of(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of tags. The same tag gives the same label, and different tags give different ones."""
    return {_key(name): _text(value) for name, value in tags.items()}


def _key(name: str) -> str:
    return _text(name) if re.match("[a-z]", name) else _marked("k" + name, name)


def _text(written: str) -> str:
    """A text that had to be changed ends with a digest, so that it stays apart from others that look like it."""
    if len(written) <= LONGEST.value and re.fullmatch("[a-z0-9_-]*", written):
        return written
    return _marked(written, written)


def _marked(shown: str, written: str) -> str:
    plain = re.sub("[^a-z0-9_-]", "_", shown.lower())
    digest = sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: LONGEST.value - _DIGEST - 1]}-{digest}"

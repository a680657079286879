"""The base of what verbs return: text for people, in notebooks too, and JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from datetime import date
from html import escape
from typing import Any


class TextRepr:
    """Prints an object as its ``to_text()``. A dataclass needs ``repr=False``."""

    def to_text(self) -> str:
        """Return the object as text for people."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"


class Result(TextRepr):
    """What a verb found, as text and as JSON. A subclass is a dataclass whose fields are the facts."""

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, as the JSON has them."""
        assert is_dataclass(self)
        return asdict(self)

    def to_json(self) -> str:
        """Return the facts as one line of JSON; times as texts, decimals as numbers."""
        return json.dumps(self.to_dict(), ensure_ascii=False, default=_json_value)


def _json_value(value: Any) -> object:
    """Return a value that JSON lacks as a number where it is one, else as a text."""
    if isinstance(value, date):
        return str(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)

"""How a result is shown: as its text, in a notebook too."""

from __future__ import annotations

from html import escape


class TextRepr:
    """Prints an object as its ``to_text()``. A dataclass needs ``repr=False``."""

    def to_text(self) -> str:
        """Give the object as text for people."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"

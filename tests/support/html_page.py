"""An HTML page as a browser would parse it: its elements, its texts, and whether its policy lets only its own run."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Self

VOID = {"meta", "input", "br", "link", "img", "hr", "base"}
LOADING = {"src", "href", "action", "formaction", "srcset", "poster", "data", "background", "ping", "xlink:href"}
"""Attributes that can make a browser ask for something."""


class Page(HTMLParser):
    """A parsed page. ``elements`` are its tags with the names of their attributes, in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str]] = []
        """Element, attribute, value."""
        self.texts: dict[str, str] = {}
        """The text inside each element that has an id."""
        self.blocks: list[tuple[str, str]] = []
        """The scripts and styles."""
        self.text = ""
        """All text outside scripts and styles."""
        self._open: list[tuple[str, str | None]] = []

    @classmethod
    def read(cls, path: Path) -> Self:
        """Parse a file."""
        page = cls()
        page.feed(path.read_bytes().decode())
        page.close()
        return page

    def text_of(self, id: str) -> str:
        """Return the text of the element with an id."""
        return self.texts[id]

    def check_policy(self) -> None:
        """Assert that the page loads nothing, and that its policy allows its own style and script and nothing else."""
        policy = next(value for tag, name, value in self.attributes if tag == "meta" and "default-src" in value)
        rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ")}
        assert rules.pop("default-src") == ["'none'"]
        assert {name: rules.pop(name) for name in ("base-uri", "form-action")} == {
            "base-uri": ["'none'"],
            "form-action": ["'none'"],
        }
        own = {f"{tag}-src": [f"'sha256-{_digest(text)}'"] for tag, text in self.blocks}
        assert rules == own
        loading = [one for one in self.attributes if one[1] in LOADING and not one[2].startswith("#")]
        assert not loading
        handlers = [one for one in self.attributes if one[1].startswith("on") or one[1] == "style"]
        assert not handlers
        assert not re.search(r"@import|url\(", "".join(text for tag, text in self.blocks if tag == "style"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] in ("script", "style"):
            self.blocks.append(({"script": "script", "style": "style"}[self._open[-1][0]], data))
            return
        self.text += data
        for _, id in self._open:
            if id is not None:
                self.texts[id] = self.texts.get(id, "") + data


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

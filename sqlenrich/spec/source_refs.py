"""References of a source to the results of other enrichments: ``{ref: NAME}``, or ``{{ ref('NAME') }}`` in a query."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_REF = re.compile(r"""\{\{\s*ref\(\s*(?P<quote>['"])(?P<name>[^'"{}]*)(?P=quote)\s*\)\s*\}\}""")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FORMS = 'source must be a table name, {query: "SELECT ..."} or {ref: NAME}'


@dataclass(frozen=True)
class SourceRefs:
    """The enrichments whose results a source reads, and the source with their names still to be filled in."""

    names: tuple[str, ...]
    query: str | None = None
    """None: the source is the one result."""

    def filled(self, relation: Callable[[str], str]) -> tuple[str | None, str | None]:
        """Return the source table and the source query, one of them None, with the relation of each name."""
        if self.query is None:
            return relation(self.names[0]), None
        return None, _REF.sub(lambda found: relation(found["name"]), self.query)


def read_source(written: object) -> tuple[str | None, str | None, SourceRefs | None]:
    """Return the table, the query and the references of a header's source. Raises ValueError with the problem.

    Without a place for the results a reference stands for the table of its name.
    """
    if written is None or (isinstance(written, str) and written):
        return written, None, None
    if not isinstance(written, dict) or len(written) != 1:
        raise ValueError(FORMS)
    ((kind, value),) = written.items()
    if kind == "ref" and isinstance(value, str):
        refs = SourceRefs((_named(value),))
        return (*refs.filled(str), refs)
    if kind != "query" or not isinstance(value, str):
        raise ValueError(FORMS)
    if "{{" in _REF.sub("", value):
        raise ValueError("source.query: between {{ and }} stands ref('NAME') alone, the result of an enrichment")
    names = tuple(dict.fromkeys(_named(found["name"]) for found in _REF.finditer(value)))
    if not names:
        return None, value, None
    refs = SourceRefs(names, value)
    return (*refs.filled(str), refs)


def _named(name: Any) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f'source: ref names an enrichment, such as tickets for tickets.prompt, not "{name}"')
    return str(name)

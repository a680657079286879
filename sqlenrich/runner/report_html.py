"""A report as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from sqlenrich.core.errors import SqlenrichError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_SHOWN = 5
CHARACTERS_SHOWN = 120
_HIDDEN = (
    "_request_hash", "_model", "_version", "_fingerprint", "_asked_at", "_repaired", "_attempts", "prompt",
)  # fmt: skip


def report_html(text: str, tables: Sequence[tuple[str, Callable[[], pa.Table]]]) -> str:
    """Return a text and the first rows of some tables as HTML. Each table has a title."""
    return "".join((f"<pre>{escape(text)}</pre>", *(_table(title, read) for title, read in tables)))


def _table(title: str, read: Callable[[], pa.Table]) -> str:
    try:
        found = read()
    except SqlenrichError as error:  # another connection may have the database open
        return f"<p>{escape(title)} ({escape(str(error))})</p>"
    names = [name for name in found.column_names if name not in _HIDDEN]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(row[name])}</td>' for name in names)}</tr>" for row in found.to_pylist())
    return f"<p>{escape(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return escape(text if len(text) <= CHARACTERS_SHOWN else f"{text[:CHARACTERS_SHOWN]}…")

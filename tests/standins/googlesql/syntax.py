"""The syntax tree of Google's own parser, and edits of the text by the places it names.

No second lexer: strings, comments and quoted names are where the parser says they are. Offsets
are bytes of the UTF-8 text, as the parser counts them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Node:
    """One node of the tree, with its place in the text."""

    def __init__(self, message: Any, parent: Node | None = None, field: str = "") -> None:
        while message.DESCRIPTOR.name.startswith("Any"):
            message = getattr(message, message.WhichOneof("node"))
        self._message = message
        self.parent = parent
        self.field = field
        self.kind: str = message.DESCRIPTOR.name.removeprefix("AST").removesuffix("Proto")
        place = message
        while "parse_location_range" not in place.DESCRIPTOR.fields_by_name:
            place = place.parent
        self.start: int = place.parse_location_range.start
        self.end: int = place.parse_location_range.end

    @functools.cached_property
    def children(self) -> list[Node]:
        """The node's parts, in the order of the text."""
        found = []
        for name, value in _fields(self._message):
            parts = [value] if hasattr(value, "DESCRIPTOR") else value
            if isinstance(value, str | bytes | int | float):
                continue
            found += [Node(part, self, name) for part in parts if hasattr(part, "DESCRIPTOR")]
        return sorted(found, key=lambda node: node.start)

    def get(self, field: str) -> Node | None:
        """The part under this field, if it is there."""
        return next((node for node in self.children if node.field == field), None)

    def all(self, field: str) -> list[Node]:
        """The parts under this field."""
        return [node for node in self.children if node.field == field]

    def value(self, field: str) -> Any:
        """A plain value of the node; None where it is not set."""
        return next((value for name, value in _fields(self._message) if name == field), None)

    def enum(self, field: str) -> str:
        """The name of an enum value; empty where it is not set."""
        message = self._message
        while field not in message.DESCRIPTOR.fields_by_name:
            message = message.parent
        number = getattr(message, field)
        return str(message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number[number].name)

    def walk(self) -> Iterator[Node]:
        """The node and all below it, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def above(self) -> Iterator[Node]:
        """The node's ancestors, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def holds(self, other: Node) -> bool:
        return self.start <= other.start and other.end <= self.end


def _fields(message: Any) -> Iterator[tuple[str, Any]]:
    for descriptor, value in message.ListFields():
        if descriptor.name == "parent":
            yield from _fields(value)
        elif descriptor.name != "parse_location_range":
            yield descriptor.name, value


class Edit(NamedTuple):
    """Replace the bytes from `start` to `end`."""

    start: int
    end: int
    text: bytes


def outermost(edits: Iterable[Edit]) -> list[Edit]:
    """The edits without those that lie inside another one."""
    kept: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if not kept or edit.end > kept[-1].end:
            kept.append(edit)
    return kept


def splice(raw: bytes, start: int, end: int, edits: Iterable[Edit]) -> tuple[bytes, list[Edit]]:
    """raw[start:end] with the edits that lie inside, and those edits in order."""
    used = sorted(edit for edit in edits if start <= edit.start and edit.end <= end)
    pieces, position = [], start
    for edit in used:
        if edit.start < position:
            raise ValueError(f"overlapping edits at byte {edit.start}")
        pieces += [raw[position : edit.start], edit.text]
        position = edit.end
    return b"".join([*pieces, raw[position:end]]), used


def unspliced(offset: int, start: int, edits: Iterable[Edit]) -> int:
    """Where an offset of the spliced text lay in the original; inside a replacement, its start."""
    position = start
    for edit in edits:
        before = edit.start - position
        if offset < before:
            break
        if offset < before + len(edit.text):
            return edit.start
        offset -= before + len(edit.text)
        position = edit.end
    return position + offset


_LINE = re.compile(r"\r\n|\r|\n")


def offset_at(raw: bytes, line: int, column: int) -> int:
    """The byte offset of a place as the engine writes it: columns in characters, tabs to 8."""
    text = raw.decode()
    starts = [0, *(match.end() for match in _LINE.finditer(text))]
    position = starts[min(line, len(starts)) - 1]
    at = 1
    while at < column and position < len(text):
        at += 8 - (at - 1) % 8 if text[position] == "\t" else 1
        position += 1
    return len(text[:position].encode())


def place_of(raw: bytes, offset: int) -> tuple[int, int]:
    """Line and column, in characters from 1, of a byte offset."""
    text = raw[:offset].decode(errors="replace")
    breaks = list(_LINE.finditer(text))
    return len(breaks) + 1, len(text) - (breaks[-1].end() if breaks else 0) + 1


def path_of(node: Node) -> tuple[str, ...]:
    """The names of a path; a quoted `a.b.c` counts as three, as BigQuery reads it."""
    names = [(str(name.value("id_string")), bool(name.value("is_quoted"))) for name in node.all("names")]
    return tuple(part for name, quoted in names for part in (name.split(".") if quoted else [name]))


# The places where BigQuery reads a quoted name with dots as a path; in an expression it does not.
_PATH_FIELDS = frozenset({"path_expr", "table_path", "model_path", "target_path", "path", "function"})


def object_paths(statement: Node) -> Iterator[Node]:
    """Every path that names a table, a model, a function or another stored object."""
    for node in statement.walk():
        if node.kind != "PathExpression" or node.parent is None:
            continue
        named = node.field == "name" and (node.parent.kind == "TVF" or node.parent.kind.endswith("Statement"))
        if named or node.field in _PATH_FIELDS:
            yield node


def quoted(path: Iterable[str]) -> bytes:
    """A path printed with every name in backticks."""
    return ".".join("`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`" for name in path).encode()


_ALIASED = frozenset({"TablePathExpression", "MergeStatement", "UpdateStatement", "DeleteStatement"})


def path_edits(statement: Node) -> list[Edit]:
    """Edits that make quoted names with dots mean what they mean in BigQuery.

    A whole path in one pair of backticks stays one name, so that an alias equal to its first part
    does not capture it, and gets the alias that BigQuery gives it: the last part. Where only some
    of a path's parts share a pair of backticks they are written apart.
    """
    edits = []
    for node in object_paths(statement):
        names, path = node.all("names"), path_of(node)
        if len(path) == len(names):
            continue
        if len(names) > 1 or node.field == "function":
            edits.append(Edit(node.start, node.end, quoted(path)))
        elif node.parent and node.parent.kind in _ALIASED and node.parent.get("alias") is None:
            edits.append(Edit(node.end, node.end, b" AS " + quoted(path[-1:])))
    return edits


def named_like(node: Node, names: Iterable[str]) -> str | None:
    """The one of `names` (dotted, upper case) that this call's function path spells."""
    function = node.get("function") or node.get("name")
    if function is None or function.kind != "PathExpression":
        return None
    written = ".".join(str(part.value("id_string")) for part in function.all("names")).upper()
    return written if written in names else None

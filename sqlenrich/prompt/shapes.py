"""The shapes of columns whose types are not known yet, by what a template reads of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from jinja2 import nodes

from sqlenrich.core.types import STRING, Array, Struct, Type
from sqlenrich.prompt.reference import environment

_OF_ARRAYS = ("join", "map", "select", "reject", "selectattr", "rejectattr")
"""The filters of arrays alone."""


@dataclass
class _Shape:
    fields: dict[str, _Shape] = field(default_factory=dict)
    item: _Shape | None = None

    def part(self) -> _Shape:
        self.item = self.item or _Shape()
        return self.item

    def type(self) -> Type:
        """Return the type: what is read as a whole is a text."""
        if self.fields:
            return Struct(tuple((name, shape.type()) for name, shape in self.fields.items()))
        return STRING if self.item is None else Array(self.item.type())


def column_shapes(template: str, known: Iterable[str], folder: Path | None = None) -> dict[str, Type]:
    """Return a struct or an array for each column that the template reads as one, without the names that are ``known``.

    A field that is printed is a text here. A template that is no Jinja has no shapes.
    """
    try:
        tree = environment(folder).parse(template)
    except jinja2.TemplateSyntaxError:
        return {}
    columns: dict[str, _Shape] = {}
    _read(tree, {name: _Shape() for name in (*known, "loop", "varargs", "kwargs")}, columns)
    return {name: kind for name, shape in columns.items() if (kind := shape.type()) != STRING}


def _read(node: nodes.Node, local: dict[str, _Shape], columns: dict[str, _Shape]) -> None:
    if isinstance(node, nodes.For):
        rows = _shape(node.iter, local, columns)
        inner = dict(local)
        for name in _names(node.target):
            inner[name] = _Shape()
        if rows is not None and isinstance(node.target, nodes.Name):
            inner[node.target.name] = rows.part()
        _read(node.iter, local, columns)
        for child in (*node.body, *([node.test] if node.test is not None else [])):
            _read(child, inner, columns)
        for child in node.else_:
            _read(child, local, columns)
        return
    if isinstance(node, nodes.Assign):
        _read(node.node, local, columns)
        value = _shape(node.node, local, columns)
        for name in _names(node.target):
            local[name] = value if value is not None and isinstance(node.target, nodes.Name) else _Shape()
        return
    if isinstance(node, nodes.Macro):
        local[node.name] = _Shape()
        local = {**local, **{argument.name: _Shape() for argument in node.args}}
    if isinstance(node, nodes.Import | nodes.FromImport):
        names = (
            [node.target] if isinstance(node, nodes.Import) else [n if isinstance(n, str) else n[1] for n in node.names]
        )
        local.update({name: _Shape() for name in names})
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):  # a method is no field
        _read(node.node.node, local, columns)
        for child in (*node.args, *node.kwargs):
            _read(child, local, columns)
        return
    if isinstance(node, nodes.Filter) and node.node is not None and node.name in _OF_ARRAYS:
        shape = _shape(node.node, local, columns)
        if shape is not None:
            item = shape.part()
            named = [pair.value for pair in node.kwargs if pair.key == "attribute"]
            named += node.args[:1] if node.name in ("selectattr", "rejectattr") else []
            for each in named:
                if isinstance(each, nodes.Const) and isinstance(each.value, str):
                    item.fields.setdefault(each.value, _Shape())
    if isinstance(node, nodes.Getattr | nodes.Getitem):
        _shape(node, local, columns)
    for child in node.iter_child_nodes():
        _read(child, local, columns)


def _shape(node: nodes.Node, local: dict[str, _Shape], columns: dict[str, _Shape]) -> _Shape | None:
    """Return the shape of a column or of a part of one; None for any other value."""
    if isinstance(node, nodes.Name):
        return local[node.name] if node.name in local else columns.setdefault(node.name, _Shape())
    if isinstance(node, nodes.Filter) and node.name in ("sort", "reverse", "unique", "list") and node.node is not None:
        return _shape(node.node, local, columns)
    if isinstance(node, nodes.Getitem):
        base = _shape(node.node, local, columns)
        if base is None or isinstance(node.arg, nodes.Slice):
            return base
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            return base.fields.setdefault(node.arg.value, _Shape())
        return None
    if isinstance(node, nodes.Getattr):
        base = _shape(node.node, local, columns)
        return None if base is None else base.fields.setdefault(node.attr, _Shape())
    return None


def _names(target: nodes.Node) -> list[str]:
    return [node.name for node in target.find_all(nodes.Name)] + (
        [target.name] if isinstance(target, nodes.Name) else []
    )

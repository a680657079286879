"""Lists, mappings and namespaces that the template changes in place: made, copied, read and changed."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes

from sqlenrich.core.types import Array
from sqlenrich.prompt.ir.failures import at_once, either, requiring
from sqlenrich.prompt.ir.nodes import Const, Expr
from sqlenrich.prompt.jinja.compiler import Compiler
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values.list_literals import list_of
from sqlenrich.prompt.values.state import Place, added, appended
from sqlenrich.prompt.values.values import (
    ONCE,
    Changing,
    Dynamic,
    Growing,
    Known,
    Ref,
    Refusal,
    Replaced,
    Stored,
    Value,
    only_once,
)


def new_object(compiler: Compiler, node: nodes.Node, scope: Scope) -> Ref | None:
    """Make an object of a list or mapping literal or a ``namespace()``. Give None for another expression."""
    pairs: list[tuple[Any, Stored]]
    match node:
        case nodes.List(items=items):
            kind, pairs = "list", [(None, list_of([kept(compiler, item, scope) for item in items], False))]
        case nodes.Dict(items=items):
            kind = "mapping"
            pairs = [(compiler.value(pair.key, scope), part(compiler, pair.value, scope)) for pair in items]
            if not all(isinstance(key, Known) for key, _ in pairs):
                return None
            pairs = [(key.value, value) for key, value in pairs]
        case nodes.Call(node=nodes.Name(name="namespace"), args=[], dyn_args=None, dyn_kwargs=None):
            if "namespace" in scope.names or "namespace" in compiler.columns:
                return None
            kind = "namespace"
            pairs = [(str(pair.key), part(compiler, pair.value, scope)) for pair in node.kwargs]
        case _:
            return None
    ref = Ref(compiler.cells.new(), kind)
    compiler.state.made |= {ref.cell}
    for key, value in pairs:
        compiler.state.entries[ref.cell, key] = value
    return ref


def part(compiler: Compiler, node: nodes.Node, scope: Scope) -> Stored:
    """Give a value to keep in a name or an object; a literal becomes an object."""
    return new_object(compiler, node, scope) or copied(compiler, node, scope)


def copied(compiler: Compiler, node: nodes.Node, scope: Scope) -> Stored:
    """Give a value to keep. The objects that it was read from can't be changed any more."""
    before, compiler.read = compiler.read, set()
    given = compiler.stored(node, scope)
    if only_once(given):
        compiler.refuse(node, f"keeping {ONCE}")
    if isinstance(given, Changing | Growing | Replaced | Ref):
        compiler.read |= before | (compiler.state.reached(given) if isinstance(given, Ref) else set())
        return given
    text = isinstance(given, Known) and isinstance(given.value, str | int | float | None)
    if not text and (not isinstance(given, Dynamic) or isinstance(given.type, Array)):
        compiler.state.frozen |= compiler.read
    compiler.read |= before
    return given


def kept(compiler: Compiler, node: nodes.Node, scope: Scope) -> Value:
    """Give a value inside a new list, as it is now."""
    given = copied(compiler, node, scope)
    if isinstance(given, Ref):
        compiler.state.frozen |= compiler.state.reached(given)
    return compiler.settled(given)


def entry(compiler: Compiler, ref: Ref, name: Any, attribute: bool = False) -> Stored:
    """Give an entry of a mapping or a namespace."""
    compiler.read_entries.add((ref.cell, name))
    method = attribute and ref.kind == "mapping" and hasattr(dict, str(name))
    if method or str(name).startswith("__"):
        raise Refusal(f'".{name}" means a method of the mapping in Jinja; write ["{name}"]')
    for key, value in compiler.state.items(ref):
        if key == name and type(key) is type(name):
            return value
    raise Refusal(f"the mapping has no {name!r} here: this fails for every row")


def changed_in_place(compiler: Compiler, ref: Ref, method: str, node: nodes.Call, scope: Scope) -> Value:
    """Change a list or a mapping by one of its methods. Give the result, which is None in Python."""
    if compiler.conditional:
        raise Refusal(f'".{method}" where a condition decides; write {{% if %}} around it')
    if ref.cell in compiler.pending:
        raise Refusal(f'".{method}" beside what reads the same value; write it in a statement of its own')
    place: Place = (ref.cell, None)
    broken: Expr | None = None
    match method, node.args, node.kwargs:
        case "append", [item], [] if ref.kind == "list":
            value = kept(compiler, item, scope)
            broken = _broken(value)
            compiler.state.write(place, appended(compiler.state.entries[place], value))
        case "update", [] | [nodes.Dict()], _ if ref.kind == "mapping":
            literal = [pair for given in node.args if isinstance(given, nodes.Dict) for pair in given.items]
            pairs = [(compiler.value(pair.key, scope), part(compiler, pair.value, scope)) for pair in literal]
            pairs += [(Known(pair.key), part(compiler, pair.value, scope)) for pair in node.kwargs]
            for key, given in pairs:
                if not isinstance(key, Known):
                    raise Refusal("a mapping whose keys differ by row; use if and elif")
                parts = added(compiler.state.entries.get((ref.cell, key.value)), given)
                for new in (given, *(part.value for part in parts)):
                    broken = either(broken, _broken(new))
                compiler.state.write((ref.cell, key.value), given)
        case _:
            raise Refusal(f'".{method}" changes a value in place; only append and update are compiled')
    return Known(None) if broken is None else requiring(broken, Const(None))


def _broken(value: Stored) -> Expr | None:
    return at_once(value) if isinstance(value, Dynamic) else None

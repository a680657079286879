"""Lists, mappings and namespaces that the template changes in place: allocation, copies, reads and changes."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes

from sqlenrich.core.types import Array
from sqlenrich.prompt.ir.failures import any_of, fail_where, immediate_failure
from sqlenrich.prompt.ir.nodes import Const, Expr
from sqlenrich.prompt.jinja.compiler import Compiler
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values.heap import Slot, appended
from sqlenrich.prompt.values.list_literals import list_value
from sqlenrich.prompt.values.loop_carried import new_updates
from sqlenrich.prompt.values.value import (
    GENERATOR,
    CompileError,
    Dynamic,
    LoopAccumulated,
    LoopAssigned,
    LoopCarried,
    ObjectRef,
    Static,
    Storable,
    Value,
    is_generator,
)


def new_object(compiler: Compiler, node: nodes.Node, scope: Scope) -> ObjectRef | None:
    """Allocate an object for a list literal, a mapping literal or a ``namespace()``. None: another expression."""
    pairs: list[tuple[Any, Storable]]
    match node:
        case nodes.List(items=items):
            kind, pairs = "list", [(None, list_value([element_value(compiler, item, scope) for item in items], False))]
        case nodes.Dict(items=items):
            kind = "mapping"
            pairs = [(compiler.value(pair.key, scope), stored_value(compiler, pair.value, scope)) for pair in items]
            if not all(isinstance(key, Static) for key, _ in pairs):
                return None
            pairs = [(key.value, value) for key, value in pairs]
        case nodes.Call(node=nodes.Name(name="namespace"), args=[], dyn_args=None, dyn_kwargs=None):
            if "namespace" in scope.symbols or "namespace" in compiler.columns:
                return None
            kind = "namespace"
            pairs = [(str(pair.key), stored_value(compiler, pair.value, scope)) for pair in node.kwargs]
        case _:
            return None
    ref = ObjectRef(compiler.ids.new(), kind)
    compiler.heap.allocated |= {ref.object_id}
    for key, value in pairs:
        compiler.heap.entries[ref.object_id, key] = value
    return ref


def stored_value(compiler: Compiler, node: nodes.Node, scope: Scope) -> Storable:
    """Return a value to store in a name or an object. A literal becomes an object if the template changes objects."""
    allocated = new_object(compiler, node, scope) if compiler.mutable else None
    return allocated or copied(compiler, node, scope)


def copied(compiler: Compiler, node: nodes.Node, scope: Scope) -> Storable:
    """Return a value to store, and freeze the objects that it was read from."""
    before, compiler.read = compiler.read, set()
    given = compiler.stored(node, scope)
    if is_generator(given):
        compiler.reject(node, f"keeping {GENERATOR}")
    if isinstance(given, LoopCarried | LoopAccumulated | LoopAssigned | ObjectRef):
        compiler.read |= before | (compiler.heap.reachable(given) if isinstance(given, ObjectRef) else set())
        return given
    text = isinstance(given, Static) and isinstance(given.value, str | int | float | None)
    if not text and (not isinstance(given, Dynamic) or isinstance(given.type, Array)):
        compiler.heap.frozen |= compiler.read
    compiler.read |= before
    return given


def element_value(compiler: Compiler, node: nodes.Node, scope: Scope) -> Value:
    """Return the current value of an element of a new list."""
    given = copied(compiler, node, scope)
    if isinstance(given, ObjectRef):
        compiler.heap.frozen |= compiler.heap.reachable(given)
    return compiler.resolve(given)


def entry(compiler: Compiler, ref: ObjectRef, name: Any, attribute: bool = False) -> Storable:
    """Return an entry of a mapping or a namespace."""
    compiler.read_entries.add((ref.object_id, name))
    method = attribute and ref.kind == "mapping" and hasattr(dict, str(name))
    if method or str(name).startswith("__"):
        raise CompileError(f'".{name}" means a method of the mapping in Jinja; write ["{name}"]')
    for key, value in compiler.heap.items(ref):
        if key == name and type(key) is type(name):
            return value
    raise CompileError(f"the mapping has no {name!r} here: this fails for every row")


def changed_in_place(compiler: Compiler, ref: ObjectRef, method: str, node: nodes.Call, scope: Scope) -> Value:
    """Compile ``append`` and ``update``. The value is None, as in Python."""
    if compiler.conditional:
        raise CompileError(f'".{method}" in a part that some rows do not evaluate; write {{% if %}} around it')
    if ref.object_id in compiler.pending:
        raise CompileError(f'".{method}" in a statement that also reads the value; write it in a separate statement')
    place: Slot = (ref.object_id, None)
    broken: Expr | None = None
    match method, node.args, node.kwargs:
        case "append", [item], [] if ref.kind == "list":
            value = element_value(compiler, item, scope)
            broken = _immediate_failure(value)
            compiler.heap.store(place, appended(compiler.heap.entries[place], value))
        case "update", [] | [nodes.Dict()], _ if ref.kind == "mapping":
            literal = [pair for given in node.args if isinstance(given, nodes.Dict) for pair in given.items]
            pairs = [(compiler.value(pair.key, scope), stored_value(compiler, pair.value, scope)) for pair in literal]
            pairs += [(Static(pair.key), stored_value(compiler, pair.value, scope)) for pair in node.kwargs]
            for key, given in pairs:
                if not isinstance(key, Static):
                    raise CompileError("a mapping with keys that differ by row; use if and elif")
                parts = new_updates(compiler.heap.entries.get((ref.object_id, key.value)), given)
                for new in (given, *(stored_value.value for stored_value in parts)):
                    broken = any_of(broken, _immediate_failure(new))
                compiler.heap.store((ref.object_id, key.value), given)
        case _:
            raise CompileError(f'".{method}" changes a value in place; only append and update are compiled')
    return Static(None) if broken is None else fail_where(broken, Const(None))


def _immediate_failure(value: Storable) -> Expr | None:
    return immediate_failure(value) if isinstance(value, Dynamic) else None

"""Jinja's expressions to typed ones: constants are folded, what a row decides stays an expression."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import jinja2
from jinja2 import nodes

from ..errors import PromptError, did_you_mean
from ..types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP, Array, Struct, Type
from . import arrays, dates, functions, numbers
from .comparisons import contained, equal, ordered
from .ir import (
    Column,
    Const,
    Expr,
    Fail,
    Field,
    Join,
    Op,
    Pick,
    at_once,
    either,
    either_of,
    failure,
    is_none,
    missing,
    none_possible,
    printable,
    printed,
    requiring,
    written,
)
from .reference import Place as Written
from .reference import environment
from .state import Cells, Place, State, added, appended, plus, tilde
from .values import (
    ONCE,
    Changing,
    Dynamic,
    Growing,
    Items,
    Known,
    Lazy,
    Loop,
    Once,
    Ref,
    Refusal,
    Replaced,
    Stored,
    Table,
    Value,
    Zip,
    choose,
    describe,
    lift,
    negate,
    only_once,
    same_type,
    truth,
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Names and what they are worth at one point of the template. ``set`` in a loop does not reach outside it."""

    names: Mapping[str, Bound]
    bare: bool = False
    """Whether columns are out of reach, as in an imported template."""

    def bind(self, name: str, value: Bound) -> Scope:
        return Scope({**self.names, name: value}, self.bare)


@dataclass(frozen=True, eq=False)
class Macro:
    """A macro and the scope it was defined in."""

    node: nodes.Macro
    scope: Scope
    source: str
    first_line: int
    set_later: frozenset[str]
    """Names that the template sets after the macro: it would read them as they are when it is called."""


@dataclass(frozen=True, eq=False)
class Module:
    """An imported template."""

    names: Mapping[str, Any]


@dataclass(frozen=True)
class Broken:
    """What a statement set that could not be compiled."""


Bound: TypeAlias = Stored | Macro | Module | Broken
"""What a name of the template can mean."""


class Reported(Exception):  # noqa: N818 (its cause is in the list of problems already)
    """A value that could not be compiled is used."""


def parts_of(value: Stored) -> Iterator[Stored]:
    """Give the values inside lists and mappings, or the value itself."""
    match value:
        case Items(values):
            for inner in values:
                yield from parts_of(inner)
        case Table(entries):
            for _, inner in entries:
                yield from parts_of(inner)
        case _:
            yield value


def join(parts: Iterable[Expr]) -> Expr:
    """Give the text of printed parts, neighbouring constants merged."""
    merged: list[Expr] = []
    for part in parts:
        flat = part.parts if isinstance(part, Join) else (part,)
        for piece in flat:
            if isinstance(piece, Const) and merged and isinstance(merged[-1], Const):
                merged[-1] = Const(f"{merged[-1].value}{piece.value}")
            elif piece != Const(""):
                merged.append(piece)
    if not merged:
        return Const("")
    return merged[0] if len(merged) == 1 else Join(tuple(merged))


ARITHMETIC: dict[type[nodes.BinExpr], tuple[str, Callable[[Any, Any], Any]]] = {
    nodes.Add: ("add", operator.add),
    nodes.Sub: ("subtract", operator.sub),
    nodes.Mul: ("multiply", operator.mul),
    nodes.Div: ("/", operator.truediv),
    nodes.FloorDiv: ("//", operator.floordiv),
    nodes.Mod: ("%", operator.mod),
    nodes.Pow: ("**", operator.pow),
}
ROW_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": numbers.add,
    "subtract": numbers.subtract,
    "multiply": numbers.multiply,
    "/": numbers.divide,
    "//": numbers.whole_division("//"),
    "%": numbers.whole_division("%"),
}
KNOWN_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}


LAZY = ("map", "select", "reject", "selectattr", "rejectattr", "unique", "reverse")
"""Filters that give a generator: it has no length, and is empty when read again."""
MAX_RANGE = 100_000
"""A row whose ``range`` is longer fails, before it fills an engine's memory."""


class Expressions:
    """Gives what an expression is worth in a scope. Raises PromptError with its line for what can't be compiled."""

    def __init__(
        self, columns: dict[str, Type], default: Type | None, source: str, first_line: int, folder: Path | None = None
    ) -> None:
        self.env = environment(folder)
        self.context = self.env.from_string("").new_context()
        self.columns, self.default = columns, default
        self.source, self.first_line = source, first_line
        self.names = arrays.Names(set(columns))
        self.mutable = False
        self.state, self.cells = State(), Cells()
        self.read: set[int] = set()
        self.read_entries: set[Place] = set()
        self.pending: set[int] = set()
        """Cells that the statement at hand has read: Python would see them change until it ends."""
        self.pending_outside: frozenset[int] = frozenset()
        self.conditional = 0
        self.problems: list[PromptError] = []
        self.render: Callable[[list[nodes.Node], Scope], Expr]
        self.nested: dict[Expr, str] = {}
        self.depth = 0

    def refuse(self, node: nodes.Node, message: str) -> NoReturn:
        raise self.problem(node.lineno, message) from None

    def problem(self, place: int | None, message: str) -> PromptError:
        line = self.first_line + (place or 1) - 1
        column = place.column if isinstance(place, Written) else None
        return PromptError(message, source=self.source, line=line, column=column)

    def print(self, node: nodes.Expr, scope: Scope) -> Expr:
        if isinstance(node, nodes.TemplateData):
            return Const(node.data)
        return self.printed(node, self.value(node, scope))

    def printed(self, node: nodes.Node, value: Value) -> Expr:
        if isinstance(value, Known):
            if callable(value.value) and not isinstance(value.value, type):
                self.refuse(node, "printing a function; call it with ()")
            try:
                return Const("" if value.value is None else str(value.value))
            except Refusal as refusal:
                self.refuse(node, str(refusal))
        try:
            expr = lift(value)
        except Refusal as refusal:
            self.refuse(node, f"printing {refusal}")
        if not printable(expr):
            self.refuse(node, functions.unprintable(expr))
        return printed(expr)

    def either(self, node: nodes.Node, test: Expr, then: Value, orelse: Value) -> Value:
        try:
            if isinstance(then, Dynamic):
                orelse = arrays.alike(orelse, then.type)
            elif isinstance(orelse, Dynamic):
                then = arrays.alike(then, orelse.type)
            elif arrays.is_list(then) and arrays.is_list(orelse):
                then, orelse = arrays.both(then, orelse)
            a, b = lift(then), lift(orelse)
        except Refusal as refusal:
            self.refuse(node, f"a choice by row between {refusal}")
        if not same_type(a, b):
            self.refuse(
                node,
                f"a value that is {describe(a.type)} for some rows and {describe(b.type)} for others; "
                "make both the same type, e.g. with |string",
            )
        return choose(test, a, b)

    def test(self, node: nodes.Node, scope: Scope) -> Expr:
        match node:
            case nodes.And() | nodes.Or():
                left = self.test(node.left, scope)
                with self.where_it_depends():
                    right = self.test(node.right, scope)
                return self.both("and" if isinstance(node, nodes.And) else "or", left, right)
            case nodes.Not():
                return negate(self.test(node.node, scope))
        return truth(self.value(node, scope))

    def both(self, name: str, left: Expr, right: Expr) -> Expr:
        decides = name == "or"
        if isinstance(left, Const):
            return left if bool(left.value) is decides else right
        if right == Const(not decides):
            return left
        return Op(name, (left, right), BOOLEAN)

    def value(self, node: nodes.Node, scope: Scope) -> Value:
        try:
            return self.settled(self.noted(node, self.expression(node, scope)))
        except Refusal as refusal:
            self.refuse(node, str(refusal))

    def stored(self, node: nodes.Node, scope: Scope) -> Stored:
        """What a name can be bound to: beside a value, a list or a mapping that is changed in place."""
        try:
            return self.noted(node, self.expression(node, scope))
        except Refusal as refusal:
            self.refuse(node, str(refusal))

    def noted(self, node: nodes.Node, value: Stored) -> Stored:
        """The value; where it is an array of arrays, its place is kept for engines that have none."""
        array = value.array if isinstance(value, Lazy) else value
        if isinstance(array, Dynamic) and isinstance(array.type, Array) and isinstance(array.type.item, Array):
            self.nested.setdefault(array, str(self.problem(node.lineno, "")).removesuffix(": "))
        return value

    def settled(self, value: Stored) -> Value:
        if isinstance(value, Ref):
            cells = self.state.reached(value)
            self.read |= cells
            self.pending |= cells
            self.read_entries |= {place for place in self.state.entries if place[0] == value.cell}
        return self.state.settled(value)

    def new_object(self, node: nodes.Node, scope: Scope) -> Ref | None:
        """A new list, mapping or namespace that the template may change; None for any other value."""
        pairs: list[tuple[Any, Stored]]
        match node:
            case nodes.List(items=items):
                kind, pairs = "list", [(None, _items([self.kept(item, scope) for item in items], False))]
            case nodes.Dict(items=items):
                kind = "mapping"
                pairs = [(self.value(pair.key, scope), self.part(pair.value, scope)) for pair in items]
                if not all(isinstance(key, Known) for key, _ in pairs):
                    return None
                pairs = [(key.value, value) for key, value in pairs]
            case nodes.Call(node=nodes.Name(name="namespace"), args=[], dyn_args=None, dyn_kwargs=None):
                if "namespace" in scope.names or "namespace" in self.columns:
                    return None
                kind, pairs = "namespace", [(str(pair.key), self.part(pair.value, scope)) for pair in node.kwargs]
            case _:
                return None
        ref = Ref(self.cells.new(), kind)
        self.state.made |= {ref.cell}
        for key, value in pairs:
            self.state.entries[ref.cell, key] = value
        return ref

    def part(self, node: nodes.Node, scope: Scope) -> Stored:
        return self.new_object(node, scope) or self.copied(node, scope)

    def copied(self, node: nodes.Node, scope: Scope) -> Stored:
        """A value to keep: what it was copied from can't be changed in place any more."""
        before, self.read = self.read, set()
        given = self.stored(node, scope)
        if only_once(given):
            self.refuse(node, f"keeping {ONCE}")
        if isinstance(given, Changing | Growing | Replaced | Ref):
            self.read |= before | (self.state.reached(given) if isinstance(given, Ref) else set())
            return given
        text = isinstance(given, Known) and isinstance(given.value, str | int | float | None)
        if not text and (not isinstance(given, Dynamic) or isinstance(given.type, Array)):
            self.state.frozen |= self.read
        self.read |= before
        return given

    def kept(self, node: nodes.Node, scope: Scope) -> Value:
        """A value inside a new list, which holds what it is worth now."""
        given = self.copied(node, scope)
        if isinstance(given, Ref):
            self.state.frozen |= self.state.reached(given)
        return self.settled(given)

    def expression(self, node: nodes.Node, scope: Scope) -> Stored:
        match node:
            case nodes.Const():
                return Known(node.value)
            case nodes.TemplateData():
                return Known(node.data)
            case nodes.Name():
                return self.name(node, scope)
            case nodes.List() | nodes.Tuple():
                return _items([self.value(item, scope) for item in node.items], isinstance(node, nodes.Tuple))
            case nodes.Dict():
                pairs = [(self.value(p.key, scope), self.value(p.value, scope)) for p in node.items]
                if any(only_once(v) for _, v in pairs):
                    raise Refusal(f"keeping {ONCE}")
                if all(isinstance(v, Known) for pair in pairs for v in pair):
                    return Known({k.value: v.value for k, v in pairs if isinstance(k, Known) and isinstance(v, Known)})
                if not all(isinstance(k, Known) for k, _ in pairs):
                    raise Refusal("a mapping whose keys differ by row; use if and elif")
                return Table(tuple((k.value, v) for k, v in pairs if isinstance(k, Known)))
            case nodes.CondExpr():
                test = self.test(node.test, scope)
                with self.where_it_depends():
                    orelse = self.value(node.expr2, scope) if node.expr2 is not None else Fail(blank=True)
                if isinstance(test, Const):
                    return self.value(node.expr1, scope) if test.value else orelse
                with self.where_it_depends():
                    return self.either(node, test, self.value(node.expr1, scope), orelse)
            case nodes.And() | nodes.Or():
                return self.operand(node, scope)
            case nodes.Not():
                test = self.test(node, scope)
                return Known(test.value) if isinstance(test, Const) else test
            case nodes.Compare():
                return self.compare(node, scope)
            case nodes.Concat():
                return self.concat(node, scope)
            case nodes.Getattr():
                base = self.stored(node.node, scope)
                if isinstance(base, Ref):
                    return self.entry(base, node.attr, attribute=True)
                return self.attribute(node, self.settled(base), node.attr)
            case nodes.Getitem():
                return self.item(node, scope)
            case nodes.Filter():
                return self.filter(node, scope)
            case nodes.Test():
                return self.jinja_test(node, scope)
            case nodes.Call():
                return self.call(node, scope)
            case nodes.Neg() | nodes.Pos():
                return self.signed(node, self.value(node.node, scope))
            case nodes.BinExpr():
                left = self.stored(node.left, scope)
                if isinstance(node, nodes.Add) and isinstance(left, Changing | Growing):
                    return plus(left, self.value(node.right, scope))
                return self.arithmetic(node, self.settled(left), self.value(node.right, scope))
        raise Refusal(f'"{type(node).__name__.lower()}" is not compiled to SQL; prepare the value in the source query')

    @contextmanager
    def where_it_depends(self) -> Iterator[None]:
        """What is computed for some rows only can't change a list or a mapping: its state would differ by row."""
        self.conditional += 1
        try:
            yield
        finally:
            self.conditional -= 1

    def entry(self, ref: Ref, name: Any, attribute: bool = False) -> Stored:
        """An entry of a mapping or a namespace."""
        self.read_entries.add((ref.cell, name))
        method = attribute and ref.kind == "mapping" and hasattr(dict, str(name))
        if method or str(name).startswith("__"):
            raise Refusal(f'".{name}" means a method of the mapping in Jinja; write ["{name}"]')
        for key, value in self.state.items(ref):
            if key == name and type(key) is type(name):
                return value
        raise Refusal(f"the mapping has no {name!r} here: this fails for every row")

    def change(self, ref: Ref, method: str, node: nodes.Call, scope: Scope) -> Value:
        """A method that changes a list or a mapping in place."""
        if self.conditional:
            raise Refusal(f'".{method}" where a condition decides; write {{% if %}} around it')
        if ref.cell in self.pending:
            raise Refusal(f'".{method}" beside what reads the same value; write it in a statement of its own')
        place: Place = (ref.cell, None)
        broken: Expr | None = None
        match method, node.args, node.kwargs:
            case "append", [item], [] if ref.kind == "list":
                value = self.kept(item, scope)
                broken = _broken(value)
                self.state.write(place, appended(self.state.entries[place], value))
            case "update", [] | [nodes.Dict()], _ if ref.kind == "mapping":
                literal = [pair for given in node.args if isinstance(given, nodes.Dict) for pair in given.items]
                pairs = [(self.value(pair.key, scope), self.part(pair.value, scope)) for pair in literal]
                pairs += [(Known(pair.key), self.part(pair.value, scope)) for pair in node.kwargs]
                for key, given in pairs:
                    if not isinstance(key, Known):
                        raise Refusal("a mapping whose keys differ by row; use if and elif")
                    parts = added(self.state.entries.get((ref.cell, key.value)), given)
                    for new in (given, *(part.value for part in parts)):
                        broken = either(broken, _broken(new))
                    self.state.write((ref.cell, key.value), given)
            case _:
                raise Refusal(f'".{method}" changes a value in place; only append and update are compiled')
        return Known(None) if broken is None else requiring(broken, Const(None))

    def name(self, node: nodes.Name, scope: Scope) -> Stored:
        if (value := scope.names.get(node.name)) is not None:
            if isinstance(value, Broken):
                raise Reported
            if isinstance(value, Macro | Module):
                raise Refusal(f'the macro "{node.name}" is a value only where it is called')
            return value
        if node.name in self.columns and not scope.bare:
            return Column(node.name, self.columns[node.name])
        if node.name in self.env.globals:
            if node.name not in functions.GLOBALS:
                raise Refusal(f'"{node.name}" is random or keeps a state; write the text out')
            return Known(self.env.globals[node.name])
        if scope.bare:
            raise Refusal(f'"{node.name}": an imported template sees no columns; pass it to the macro as an argument')
        if self.default is None:
            hint = did_you_mean(node.name, [*self.columns, *scope.names])
            raise Refusal(f'unknown column "{node.name}"{hint}; there are: {", ".join(self.columns) or "none"}')
        return Column(node.name, self.default)

    def operand(self, node: nodes.And | nodes.Or, scope: Scope) -> Value:
        """``a or b`` is worth one of its operands, not a boolean."""
        left = self.value(node.left, scope)
        test = truth(left)
        if isinstance(test, Const):
            keeps_left = bool(test.value) is isinstance(node, nodes.Or)
            return left if keeps_left else self.value(node.right, scope)
        with self.where_it_depends():
            right = self.value(node.right, scope)
        pair = (left, right) if isinstance(node, nodes.Or) else (right, left)
        return self.either(node, test, *pair)

    def compare(self, node: nodes.Compare, scope: Scope) -> Value:
        left = self.value(node.expr, scope)
        result: Expr | None = None
        for operand in node.ops:
            with nullcontext() if result is None else self.where_it_depends():
                right = self.value(operand.expr, scope)
            test = self.comparison(operand.op, left, right)
            result = test if result is None else self.both("and", result, test)
            left = right
        if result is None:
            raise Refusal("an empty comparison")
        return Known(result.value) if isinstance(result, Const) else result

    def comparison(self, name: str, left: Value, right: Value) -> Expr:
        if name in ("eq", "ne") and Known([]) in (left, right):
            array = left if right == Known([]) else right
            if isinstance(array, Dynamic) and isinstance(array.type, Array):
                empty = arrays.equals_empty(array)
                return empty if name == "eq" else negate(empty)
        if isinstance(right, Lazy):
            right = right.array
        if name in ("in", "notin") and isinstance(right, Dynamic) and isinstance(right.type, Array):
            inside = arrays.contains(self.names, right, left)
            return inside if name == "in" else negate(inside)
        if name in ("eq", "ne"):
            return equal(left, right) if name == "eq" else negate(equal(left, right))
        if name in ("in", "notin"):
            found = contained(left, right)
            return found if name == "in" else negate(found)
        if isinstance(left, Known) and isinstance(right, Known):
            try:
                return Const(KNOWN_COMPARISONS[name](left.value, right.value))
            except TypeError as error:
                raise Refusal(f"this fails for every row: {error}") from None
        return ordered(name, lift(left), lift(right))

    def concat(self, node: nodes.Concat, scope: Scope) -> Stored:
        first = self.stored(node.nodes[0], scope)
        if isinstance(first, Changing | Growing):
            return tilde(first, [lift(self.value(child, scope)) for child in node.nodes[1:]])
        values = [self.settled(first), *(self.value(child, scope) for child in node.nodes[1:])]
        if all(isinstance(value, Known) for value in values):
            return Known("".join(str(v.value) for v in values if isinstance(v, Known)))
        return join(functions.soft_text(lift(value)) for value in values)

    def attribute(self, node: nodes.Node, base: Value, name: str) -> Value:
        if isinstance(base, Loop):
            return arrays.loop_attribute(base, name)
        if name.startswith("__"):
            raise Refusal(f'".{name}"')
        if isinstance(base, Known):
            return self.known(node, lambda: self.env.getattr(base.value, name))
        if isinstance(base, Table) and not hasattr(dict, name):
            return self.looked_up(base, Known(name))
        if isinstance(base, Dynamic) and isinstance(base.type, Struct):
            if hasattr(dict, name):
                raise Refusal(f'".{name}" means a method of the struct in Jinja; write ["{name}"]')
            return self.field(base, name)
        if isinstance(base, Dynamic) and base.type in (DATE, TIMESTAMP):
            return dates.part(base, name)
        raise Refusal(f'".{name}" of {self.kind(base)}')

    def field(self, base: Expr, name: str) -> Expr:
        struct = base.type
        if not isinstance(struct, Struct) or (kind := struct.field(name)) is None:
            names = [n for n, _ in struct.fields] if isinstance(struct, Struct) else []
            raise Refusal(f'no field "{name}"{did_you_mean(name, names)}; there are: {", ".join(names)}')
        return Field(base, name, kind)

    def item(self, node: nodes.Getitem, scope: Scope) -> Stored:
        given = self.stored(node.node, scope)
        if isinstance(given, Ref) and given.kind != "list":
            name = self.value(node.arg, scope)
            if isinstance(name, Known):
                return self.entry(given, name.value)
        base = self.settled(given)
        if isinstance(node.arg, nodes.Slice):
            return self.slice(node, node.arg, base, scope)
        key = self.value(node.arg, scope)
        if isinstance(base, Known) and isinstance(base.value, Once):
            raise Refusal(f"indexing {ONCE}")
        if isinstance(base, Known) and isinstance(key, Known):
            return self.known(node, lambda: self.env.getitem(base.value, key.value))
        if isinstance(base, Table):
            return self.looked_up(base, key)
        if isinstance(base, Zip | Lazy | Loop):
            raise Refusal(f"indexing {self.kind(base)}")
        if isinstance(base, Known | Items):
            return self.pick(base, lift(key)) if not isinstance(key, Known) else self.listed(base, key)
        if isinstance(base.type, Array):
            return arrays.element(base, key)
        if isinstance(base.type, Struct) and isinstance(key, Known):
            return self.field(base, str(key.value))
        if base.type == STRING:
            at = lift(key)
            if at.type != BIGINT:
                raise Refusal(f"text indexed by {describe(at.type)}; it must be an integer")
            return functions.character(base, at)
        raise Refusal(f"indexing {self.kind(base)}; take the element in the source query")

    def looked_up(self, base: Table, key: Value) -> Value:
        if isinstance(key, Known):
            for name, value in base.entries:
                if name == key.value and type(name) is type(key.value):
                    return self.beside(value, [other for _, other in base.entries])
            raise Refusal(f"the mapping has no {key.value!r}: this fails for every row")
        subject = lift(key)
        arms = tuple((name, lift(value)) for name, value in base.entries)
        if any(type(name) is not (str if subject.type == STRING else int) for name, _ in arms):
            raise Refusal(f"a mapping indexed by {describe(subject.type)}; its keys must be of that type")
        if not all(same_type(arms[0][1], arm) for _, arm in arms):
            raise Refusal("a mapping to several types indexed by row; make its values the same type")
        return self.beside(Pick(subject, tuple(sorted(arms))), [value for _, value in base.entries])

    def beside(self, value: Value, others: Iterable[Value]) -> Value:
        """A value of a list or a mapping, of which Jinja computes all: what fails there fails here."""
        broken: Expr | None = None
        for other in others:
            if other is not value and isinstance(other, Dynamic):
                broken = either(broken, at_once(other))
        return value if broken is None else requiring(broken, lift(value))

    def listed(self, base: Known | Items, key: Known) -> Value:
        if isinstance(base, Items) and isinstance(key.value, int):
            try:
                return self.beside(base.values[key.value], base.values)
            except IndexError:
                raise Refusal(f"index {key.value} is out of range for every row") from None
        raise Refusal(f"indexing a list with {key.value!r}")

    def pick(self, base: Known | Items, key: Expr) -> Value:
        arms: dict[str | int, Expr] = {}
        if isinstance(base, Known) and isinstance(base.value, Mapping):
            arms = {k: lift(Known(v)) for k, v in base.value.items()}
            if not arms or any(type(k) is not (str if key.type == STRING else int) for k in arms):
                raise Refusal(f"a mapping indexed by {describe(key.type)}; its keys must be of that type")
        else:
            values = base.values if isinstance(base, Items) else [Known(v) for v in base.value]
            if key.type not in (BIGINT, BOOLEAN):
                raise Refusal(f"a list indexed by {describe(key.type)}; declare the column as bigint")
            if key.type == BOOLEAN:
                number = choose(truth(key), Const(1), Const(0))
                key = choose(is_none(key), Const(None), number) if none_possible(key) else number
            for index, value in enumerate(values):
                arms[index] = lift(value)
                arms[index - len(values)] = arms[index]
        if not arms:
            raise Refusal("indexing an empty list fails for every row")
        first = next(iter(arms.values()))
        if not all(same_type(first, arm) for arm in arms.values()):
            raise Refusal("a list of several types indexed by row; make its elements the same type")
        picked = Pick(key, tuple(sorted(arms.items(), key=lambda arm: (str(type(arm[0])), arm[0]))))
        return self.beside(picked, base.values) if isinstance(base, Items) else picked

    def slice(self, node: nodes.Getitem, bounds: nodes.Slice, base: Value, scope: Scope) -> Value:
        given = (bounds.start, bounds.stop, bounds.step)
        start, stop, step = (Known(None) if b is None else self.value(b, scope) for b in given)
        if isinstance(base, Known) and all(isinstance(b, Known) for b in (start, stop, step)):
            window = slice(*(b.value for b in (start, stop, step) if isinstance(b, Known)))
            return self.known(node, lambda: base.value[window])
        if step not in (Known(None), Known(1)):
            raise Refusal("a slice with a step")
        if isinstance(base, Items) and isinstance(start, Known) and isinstance(stop, Known):
            return _items(list(base.values[start.value : stop.value]), False)
        text = lift(base)
        if isinstance(text.type, Array):
            return arrays.sliced(text, start, stop)
        if text.type != STRING:
            raise Refusal(f"a slice of {describe(text.type)}; it must be text or an array")
        return functions.slice_text(text, start, stop)

    def filter(self, node: nodes.Filter, scope: Scope, block: Value | None = None) -> Value:
        if node.node is None and block is not None:
            value = block
        elif isinstance(node.node, nodes.Filter) and block is not None:
            value = self.filter(node.node, scope, block)
        else:
            value = self.value(node.node or node, scope)
        args, keywords = self.arguments(node, scope)
        if isinstance(value, Known) and all(isinstance(v, Known) for v in [*args, *keywords.values()]):
            return self.known(
                node,
                lambda: self.env.call_filter(
                    node.name,
                    value.value,
                    [a.value for a in args if isinstance(a, Known)],
                    {k: v.value for k, v in keywords.items() if isinstance(v, Known)},
                    context=self.context,
                ),
            )
        if isinstance(value, Lazy) and node.name not in ("join", "list", "first", *LAZY):
            raise Refusal(f'"{node.name}" of a map or a select; write |list before it')
        array = value.array if isinstance(value, Lazy) else value
        if isinstance(value, Items) and node.name in (*LAZY, "sort", "sum"):
            array = arrays.as_array(value)
        if isinstance(array, Dynamic) and isinstance(array.type, Array):
            given = self.array_filter(node.name, array, args, keywords)
            broken: Expr | None = None
            for arg in args:  # computed though the array may be empty
                if isinstance(arg, Dynamic):
                    broken = either(broken, at_once(arg))
            if broken is not None:
                given = requiring(broken, lift(given))
            return Lazy(lift(given)) if node.name in LAZY else given
        if node.name in ("min", "max") and isinstance(value, Items):
            return self.extreme(node.name, value)
        if node.name == "list" and isinstance(value, Items):
            return value
        if node.name == "join" and isinstance(value, Items):
            return self.join_items(value, args)
        if node.name in ("first", "last") and isinstance(value, Items):
            return self.beside(value.values[0 if node.name == "first" else -1], value.values)
        if node.name in ("length", "count") and isinstance(value, Items):
            size = len(value.values)
            counted = self.beside(Const(size), value.values)
            return Known(size) if counted == Const(size) else counted
        if node.name == "format" and isinstance(value, Known) and isinstance(value.value, str) and not keywords:
            return join(numbers.percent(value.value, args, functions.soft_text))
        if node.name == "title" and not args and not keywords:
            return arrays.title(self.names, functions.soft_text(lift(value)))
        if node.name in ("first", "last") and not args and not keywords and lift(value).type == STRING:
            return functions.character(lift(value), Const(0 if node.name == "first" else -1))
        function = functions.FILTERS.get(node.name)
        if function is None:
            known = "" if node.name in self.env.filters else did_you_mean(node.name, self.env.filters)
            instead = functions.INSTEAD.get(node.name, "prepare the value in the source query")
            raise Refusal(f'the filter "{node.name}"{known} is not compiled for row values; {instead}')
        return self.apply(f'the filter "{node.name}"', function, lift(value), args, keywords)

    def extreme(self, name: str, value: Items) -> Expr:
        numbers = tuple(map(lift, value.values))
        if any(number.type != BIGINT for number in numbers):
            raise Refusal(f"the {name} of values that are no integers")
        return arrays.extreme("least" if name == "min" else "greatest", list(numbers))

    def array_filter(self, name: str, array: Expr, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A filter on an array of the row."""
        names = self.names
        if name in LAZY and name not in ("unique", "reverse"):
            array = arrays.or_empty(array)
        constants = [arg.value for arg in args if isinstance(arg, Known)]
        attribute = keywords.get("attribute")
        given = attribute.value if isinstance(attribute, Known) else None
        match name, len(args):
            case "join", (0 | 1 | 2) if set(keywords) <= {"attribute"}:
                separator = functions.soft_text(lift(args[0])) if args else Const("")
                return arrays.joined(names, array, separator, constants[1] if len(constants) > 1 else given)
            case (("length" | "count"), 0) if not keywords:
                return arrays.size(array)
            case (("first" | "last"), 0) if not keywords:
                return arrays.element(array, Known(0 if name == "first" else -1), strict=True)
            case "list", 0 if not keywords:
                return requiring(is_none(array), array) if none_possible(array) else array
            case (("sort" | "unique" | "min" | "max") as name, _):
                return self.by_key(name, array, args, keywords)
            case "reverse", 0 if not keywords:
                return arrays.reversed_(names, array)
            case "sum", 0 if set(keywords) <= {"attribute"}:
                numbers_ = (
                    array if given is None else arrays.mapped(names, array, lambda x: arrays.member(x, str(given)))
                )
                return arrays.total(numbers_)
            case "map", 0 if isinstance(given, str) and set(keywords) == {"attribute"}:
                return arrays.mapped(names, array, lambda item: arrays.member(item, given))
            case "map", count if count and isinstance(args[0], Known) and not keywords:
                function = functions.FILTERS.get(str(args[0].value))
                if function is None:
                    raise Refusal(f'map with the filter "{args[0].value}", which is not compiled for row values')
                what = f'the filter "{args[0].value}"'
                return arrays.mapped(names, array, lambda item: self.apply(what, function, item, args[1:], {}))
            case (("select" | "reject"), _) if not keywords and len(constants[:1]) == min(len(args), 1):
                test = self.element_test(args)
                return arrays.chosen(names, array, test, None, name == "select")
            case (("selectattr" | "rejectattr"), count) if count and not keywords and isinstance(args[0], Known):
                test = self.element_test(args[1:])
                return arrays.chosen(names, array, test, str(args[0].value), name == "selectattr")
        if name in ("default", "d"):
            return functions.default(array, *(arrays.alike(arg, array.type) for arg in args), **keywords)
        if name == "string":
            raise Refusal(functions.unprintable(array))
        raise Refusal(f'the filter "{name}" on an array is not compiled; prepare it in the source query')

    def by_key(self, name: str, array: Expr, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Sort and its kin, with their arguments by position or by name."""
        order = {"sort": ("reverse", "case_sensitive", "attribute")}.get(name, ("case_sensitive", "attribute"))
        given = {**dict(zip(order, args, strict=False)), **keywords}
        if (
            len(args) > len(order)
            or not set(given) <= set(order)
            or not all(isinstance(v, Known) for v in given.values())
        ):
            raise Refusal(f'the filter "{name}" with other arguments than {", ".join(order)}, as constants')
        known = {key: value.value for key, value in given.items() if isinstance(value, Known)}
        attribute, case_sensitive = known.get("attribute"), bool(known.get("case_sensitive"))
        if not isinstance(attribute, str | None) or "." in (attribute or "") or "," in (attribute or ""):
            raise Refusal(f'the filter "{name}" by {attribute!r}; name one field')
        if name == "unique":
            return arrays.unique(self.names, array, attribute, case_sensitive)
        descending = name == "max" or bool(known.get("reverse"))
        made = arrays.ordered(self.names, array, attribute, case_sensitive, descending)
        return made if name == "sort" else arrays.element(made, Known(0), strict=True)

    def element_test(self, args: list[Value]) -> Callable[[Expr], Expr] | None:
        """The test of select and its kin: by name, with an argument or none."""
        if not args:
            return None
        if any(isinstance(arg, Lazy) for arg in args):
            raise Refusal("a map or a select as a test's argument; write |list after it")
        name = str(args[0].value) if isinstance(args[0], Known) else ""
        if (comparison := functions.TEST_COMPARISONS.get(name)) and len(args) == 2:
            return lambda item: self.comparison(comparison, item, args[1])
        if (function := functions.TESTS.get(name)) and len(args) == 1:
            return function
        raise Refusal(f'the test "{name}" is not compiled for elements of an array')

    def join_items(self, value: Items, args: list[Value]) -> Value:
        if len(args) > 1:
            raise Refusal("join by an attribute of row values")
        separator = functions.soft_text(lift(args[0])) if args else Const("")
        parts: list[Expr] = []
        for index, item in enumerate(value.values):
            text = functions.soft_text(lift(item))
            parts += [separator, text] if index else [text]
        return join(parts)

    def join_texts(self, separator: str, items: Items) -> Value:
        """Python's own join, which takes texts only."""
        parts: list[Expr] = []
        for index, item in enumerate(map(lift, items.values)):
            if item.type != STRING or item == Const(None):
                raise Refusal(f'joining {describe(item.type)}; write [...]|join("{separator}"), which takes any value')
            parts += [Const(separator)] * bool(index) + [item]
        return join(parts)

    def jinja_test(self, node: nodes.Test, scope: Scope) -> Value:
        value = self.value(node.node, scope)
        args, keywords = self.arguments(node, scope)
        if isinstance(value, Known) and all(isinstance(v, Known) for v in [*args, *keywords.values()]):
            arguments = [a.value for a in args if isinstance(a, Known)]
            return self.known(node, lambda: self.env.call_test(node.name, value.value, arguments))
        if (name := functions.TEST_COMPARISONS.get(node.name)) and len(args) == 1:
            test = self.comparison(name, value, args[0])
        elif function := functions.TESTS.get(node.name):
            subject = lift(value)
            test = requiring(at_once(subject), self.apply(f'the test "{node.name}"', function, subject, args, keywords))
        else:
            raise Refusal(f'the test "{node.name}" is not compiled for row values; compare the value instead')
        return Known(test.value) if isinstance(test, Const) else test

    def macro(self, node: nodes.Expr, scope: Scope) -> Macro | None:
        """The macro that is called, if it is one."""
        found: Any = None
        if isinstance(node, nodes.Name):
            found = scope.names.get(node.name)
        elif isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
            module = scope.names.get(node.node.name)
            found = module.names.get(node.attr) if isinstance(module, Module) else None
        return found if isinstance(found, Macro) else None

    def expanded(self, macro: Macro, node: nodes.Call, scope: Scope) -> Value:
        """The text of a macro for its arguments."""
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise Refusal("arguments given with * or **; write them out")
        names = [arg.name for arg in macro.node.args]
        given: dict[str, Stored] = {}
        for place, arg in enumerate(node.args):
            if place >= len(names):
                raise Refusal(f'the macro "{macro.node.name}" takes {len(names)} arguments')
            given[names[place]] = self.part(arg, scope) if self.mutable else self.copied(arg, scope)
        for pair in node.kwargs:
            if pair.key not in names or pair.key in given:
                raise Refusal(f'the macro "{macro.node.name}" has no argument "{pair.key}" left')
            given[pair.key] = self.part(pair.value, scope) if self.mutable else self.copied(pair.value, scope)
        if self.depth > 20:
            raise Refusal(f'the macro "{macro.node.name}" calls itself, and nothing ends it')
        place_of = self.source, self.first_line
        self.source, self.first_line, self.depth = macro.source, macro.first_line, self.depth + 1
        pending, outside = set(self.pending), self.pending_outside
        self.pending_outside = frozenset(pending)
        try:
            inner = macro.scope.bind(macro.node.name, macro)
            first_default = len(names) - len(macro.node.defaults)
            for place, name in enumerate(names):
                if name not in given and place >= first_default:
                    default = macro.node.defaults[place - first_default]
                    given[name] = self.part(default, inner) if self.mutable else self.copied(default, inner)
                inner = inner.bind(name, given.get(name, Fail()))
            for read in macro.node.find_all(nodes.Name):
                if read.name in macro.set_later and read.name not in names:
                    self.refuse(read, f'the macro reads "{read.name}", which is set after it; pass it as an argument')
                if read.name in ("caller", "varargs", "kwargs"):
                    self.refuse(read, f'"{read.name}" of a macro; name its arguments')
            text = self.render(macro.node.body, inner)
        finally:
            (self.source, self.first_line), self.depth = place_of, self.depth - 1
            self.pending, self.pending_outside = pending, outside
        fails = set(either_of(failure(text)))
        broken: Expr | None = None
        for value in given.values():  # computed though the macro may not read it
            for reason in (at_once(part) for part in parts_of(value) if isinstance(part, Dynamic)):
                if reason is not None and not fails.issuperset(either_of(reason)):
                    broken = either(broken, reason)
        text = requiring(broken, text)
        return Known(text.value) if isinstance(text, Const) else written(text)

    def call(self, node: nodes.Call, scope: Scope) -> Value:
        if (macro := self.macro(node.node, scope)) is not None:
            return self.expanded(macro, node, scope)
        if isinstance(node.node, nodes.Getattr) and node.node.attr in functions.MUTATING:
            owner = self.stored(node.node.node, scope)
            if isinstance(owner, Ref):
                return self.change(owner, node.node.attr, node, scope)
        args, keywords = self.arguments(node, scope)
        constant = all(isinstance(v, Known) for v in [*args, *keywords.values()])
        if isinstance(node.node, nodes.Getattr):
            base, method = self.value(node.node.node, scope), node.node.attr
            mutable = isinstance(base, Items) or (isinstance(base, Known) and isinstance(base.value, list | dict | set))
            if mutable and method in functions.MUTATING:
                raise Refusal(f'".{method}" changes a value in place; build it with {{% set %}}, join or if')
            if not isinstance(base, Known):
                if isinstance(base, Lazy) or not isinstance(base, Dynamic):
                    raise Refusal(f'the method "{method}" of {self.kind(base)} that holds row values')
                if isinstance(base.type, Array) and method == "index" and len(args) == 1 and not keywords:
                    return arrays.array_index(self.names, base, args[0])
                if base.type in (DATE, TIMESTAMP) and method in dates.METHODS:
                    return self.apply(f'the method "{method}"', dates.METHODS[method], base, args, keywords)
                if base.type != STRING:
                    raise Refusal(f'the method "{method}" of {describe(base.type)}; only text has methods here')
                if method == "title" and not args and not keywords:
                    return arrays.python_title(self.names, functions.whole(base))
                if method == "split" and not keywords and args in ([], [Known(None)]):
                    return arrays.split_words(self.names, base)
                if (function := functions.METHODS.get(method)) is None:
                    near = did_you_mean(method, functions.METHODS)
                    raise Refusal(f'the method "{method}"{near} is not compiled; prepare the value in the source query')
                return self.apply(f'the method "{method}"', function, base, args, keywords)
            if method == "format" and isinstance(base.value, str) and not constant:
                return join(numbers.braces(base.value, args, keywords, functions.soft_text))
            if method == "index" and isinstance(base.value, list | tuple) and len(args) == 1 and not constant:
                return self.place(list(base.value), lift(args[0]))
            if method == "join" and isinstance(base.value, str) and len(args) == 1:
                if isinstance(args[0], Items):
                    return self.join_texts(base.value, args[0])
                given = args[0].array if isinstance(args[0], Lazy) else args[0]
                if isinstance(given, Dynamic) and given.type == Array(STRING):
                    return Op("array_join", (arrays.texts(self.names, given), Const(base.value)), STRING)
        target = self.value(node.node, scope)
        if target == Known(zip) and not constant and not keywords:
            return Zip(tuple(args))
        if target == Known(range) and not constant and len(args) == 1 and not keywords:
            count = lift(args[0])
            if count.type == BIGINT:
                long = Op("gt", (count, Const(MAX_RANGE)), BOOLEAN)
                return requiring(either(missing(count), long), Op("sequence", (count,), Array(BIGINT)))
        if not isinstance(target, Known) or not constant:
            raise Refusal("a call with row values; only methods of text are compiled")
        return self.known(
            node,
            lambda: target.value(
                *(a.value for a in args if isinstance(a, Known)),
                **{k: v.value for k, v in keywords.items() if isinstance(v, Known)},
            ),
        )

    def place(self, values: list[Any], sought: Expr) -> Expr:
        """The place of a row's value in a constant list; fails where it is not there."""
        arms: dict[str | int, Expr] = {}
        for at, value in enumerate(values):
            if type(value) is not (str if sought.type == STRING else int) or sought.type not in (STRING, BIGINT):
                raise Refusal(f"the place of {describe(sought.type)} in a list of other types")
            arms.setdefault(value, Const(at))
        if not arms:
            raise Refusal("the place in an empty list: this fails for every row")
        return Op("picked", (Pick(sought, tuple(sorted(arms.items(), key=str))),), BIGINT)

    def signed(self, node: nodes.Neg | nodes.Pos, value: Value) -> Value:
        sign = operator.neg if isinstance(node, nodes.Neg) else operator.pos
        if isinstance(value, Known):
            return self.known(node, lambda: sign(value.value))
        number = lift(value)
        negated = numbers.negative(number)
        return negated if isinstance(node, nodes.Neg) else requiring(missing(number), number)

    def arithmetic(self, node: nodes.BinExpr, left: Value, right: Value) -> Value:
        name, function = ARITHMETIC[type(node)]
        if isinstance(left, Known) and isinstance(right, Known):
            return self.known(node, lambda: function(left.value, right.value))
        if name == "add" and arrays.is_list(left) and arrays.is_list(right):
            both = [*_elements(left), *_elements(right)]
            return _items(both, False)
        if name == "add" and any(isinstance(v, Dynamic) and isinstance(v.type, Array) for v in (left, right)):
            kind = next(v.type for v in (left, right) if isinstance(v, Dynamic))
            return arrays.concatenated([arrays.as_array(arrays.alike(part, kind)) for part in (left, right)])
        if name == "%" and isinstance(left, Known) and isinstance(left.value, str):
            values = right.values if isinstance(right, Items) and isinstance(node.right, nodes.Tuple) else [right]
            return join(numbers.percent(left.value, list(values), functions.soft_text))
        if (compute := ROW_ARITHMETIC.get(name)) is None:
            raise Refusal(f'"{node.operator}" on row values; compute it in the source query')
        return compute(lift(left), lift(right))

    # Helpers ---------------------------------------------------------------------------------------------------

    def arguments(
        self, node: nodes.Filter | nodes.Test | nodes.Call, scope: Scope
    ) -> tuple[list[Value], dict[str, Value]]:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise Refusal("arguments given with * or **; write them out")
        args = [self.value(arg, scope) for arg in node.args or ()]
        return args, {str(pair.key): self.value(pair.value, scope) for pair in node.kwargs or ()}

    def apply(
        self, what: str, function: Callable[..., Expr], base: Expr, args: list[Value], keywords: dict[str, Value]
    ) -> Expr:
        if keywords == {"boolean": Known(True)} and function is functions.default:
            args, keywords = [*args, *keywords.values()], {}
        if keywords:
            raise Refusal(f"{what} with named arguments; give them by position")
        try:
            return function(base, *args)
        except TypeError:
            raise Refusal(f"{what} with {len(args)} arguments") from None

    def known(self, node: nodes.Node, compute: Callable[[], Any]) -> Known:
        try:
            value = compute()
        except Exception as error:
            self.refuse(node, f"this fails for every row: {error}")
        if isinstance(value, jinja2.Undefined):
            self.refuse(node, f"this fails for every row: {value._undefined_message}")
        return Known(Once(value) if hasattr(value, "__next__") else value)

    def kind(self, value: Value) -> str:
        if isinstance(value, Dynamic):
            return describe(value.type)
        if isinstance(value, Lazy):
            return "a map or a select; write |list after it"
        return "a mapping" if isinstance(value, Table | Loop) else "a list"


def _broken(value: Stored) -> Expr | None:
    return at_once(value) if isinstance(value, Dynamic) else None


def _elements(value: Value) -> list[Value]:
    if not isinstance(value, Known | Items):
        raise Refusal("a list is needed")
    return list(value.values) if isinstance(value, Items) else [Known(item) for item in value.value]


def _items(values: list[Value], as_tuple: bool) -> Value:
    if any(map(only_once, values)):
        raise Refusal(f"keeping {ONCE}")
    if all(isinstance(value, Known) for value in values):
        known = [value.value for value in values if isinstance(value, Known)]
        return Known(tuple(known) if as_tuple else known)
    return Items(tuple(values))

"""Nodes: equal by class and parts, as their hashes are, and printed as they are written."""

from __future__ import annotations

import pytest

from sqlenrich.core.nodes import Node, node
from sqlenrich.core.types import STRING
from sqlenrich.prompt.ir.nodes import Column, Const, Op
from sqlenrich.prompt.values.value import Static
from sqlenrich.schema.checks.ir import AnyOf, Doc, Get, Item, Name, Not, Present

PAIRS = {
    "no parts": (Doc(), Doc(), True),
    "equal parts": (Get(Doc(), "a"), Get(Doc(), "a"), True),
    "another part": (Get(Doc(), "a"), Get(Doc(), "b"), False),
    "another part deep inside": (Not(Present(Get(Doc(), "a"))), Not(Present(Get(Doc(), "b"))), False),
    "another class with the same parts": (Item(1), Name(1), False),
    "another class without these parts": (Doc(), Get(Doc(), "a"), False),
    "no node": (Doc(), "Doc()", False),
    "True is not 1": (Const(True), Const(1), False),
    "nor in a list": (Static([True]), Static([1]), False),
    "a part that is not hashable": (Static([1]), Static([1]), True),
}


@pytest.mark.parametrize(("a", "b", "equal"), PAIRS.values(), ids=PAIRS)
def test_equal(a: object, b: object, equal: bool) -> None:
    assert (a == b) is (b == a) is equal
    assert (a != b) is not equal


def different() -> list[Node]:
    return [
        *(Doc(), Get(Doc(), "a"), Get(Doc(), "b"), Item(1), Name(1), AnyOf((Present(Doc()),))),
        *(Column("a", STRING), Const(1), Static(1), Op("upper", (Column("a", STRING),), STRING)),
    ]


def test_a_key_is_found_by_an_equal_one() -> None:
    numbers = {one: number for number, one in enumerate(different())}
    assert [numbers[one] for one in different()] == list(range(len(numbers))) == list(range(len(different())))


def test_printed_as_written() -> None:
    assert repr(Not(Present(Get(Doc(), "a")))) == "Not(test=Present(ref=Get(base=Doc(), name='a')))"


def test_the_hash_is_kept() -> None:
    counted = 0

    class Part:
        def __hash__(self) -> int:
            nonlocal counted
            counted += 1
            return 1

    @node
    class Holder(Node):
        part: Part

    holder = Holder(Part())
    assert hash(holder) == hash(holder)
    assert counted == 1

"""The nodes of a tree that is made by the thousand and compared often: values that never change, with a kept hash."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform


class Node:
    """Equal to a node of the same class with equal parts."""

    __slots__ = ("_hash",)
    __match_args__: ClassVar[tuple[str, ...]] = ()
    _hash: int
    _parts: ClassVar[Any]

    def __eq__(self, other: object) -> bool:
        return self is other or (other.__class__ is self.__class__ and bool(self._parts(self) == self._parts(other)))

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(self._parts(self))
            return self._hash

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({parts})"


T = TypeVar("T", bound=Node)


@dataclass_transform(frozen_default=True)
def node(kind: type[T]) -> type[T]:
    """Make a class of :class:`Node` a dataclass.

    Only the type checker holds it frozen: what dataclasses generate to hold it at run time, and to compare and print
    each class, would take most of the time in which the classes are made, at each import.
    """
    made = dataclass(slots=True, eq=False, repr=False)(kind)
    made._parts = attrgetter("__class__.__name__", *made.__match_args__)
    return made

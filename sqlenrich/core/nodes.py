"""The nodes of large trees that are compared often: immutable values with a cached hash."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform


class Node:
    """An immutable value, equal to a node of the same class with equal parts."""

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
    """Make a subclass of :class:`Node` a dataclass, which only the type checker treats as frozen.

    A dataclass would generate code to freeze, compare and print each class, at each import. That code would take most
    of the import's time.
    """
    made = dataclass(slots=True, eq=False, repr=False)(kind)
    made._parts = attrgetter("__class__.__name__", *made.__match_args__)
    return made

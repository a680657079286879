"""Arrays.

https://docs.snowflake.com/en/sql-reference/functions/array_sort and its neighbours, most of them from memory.
"""

from __future__ import annotations

from typing import Any

from tests.standins.snowflake.nodes import ANY, EXACT_VARIANT, Node, function, typed
from tests.standins.snowflake.values import (
    ARRAY,
    BOOLEAN,
    JSON_NULL,
    NUMBER,
    VARCHAR,
    VARIANT,
    SnowflakeError,
    equal,
    kind,
    variant_text,
)


@typed("ARRAY_CONSTRUCT")
def array_construct(name: str, arguments: list[Node]) -> Node:
    """An array of the arguments; NULL becomes undefined, a JSON null stays."""
    return Node(ARRAY, lambda row: [argument.value(row) for argument in arguments])


@function(ARRAY, returns=NUMBER)
def array_size(array: list[Any]) -> int:
    """The number of elements, those that are undefined too."""
    return len(array)


@function(ARRAY, NUMBER, NUMBER, returns=ARRAY)
def array_slice(array: list[Any], start: int, stop: int) -> list[Any]:
    """From one position to before another, from 0; negative positions count from the end; empty outside."""
    return array[start:stop]


@function(NUMBER, NUMBER, NUMBER, returns=ARRAY, optional=1)
def array_generate_range(start: int, stop: int, step: int = 1) -> list[int]:
    """From start to before stop; empty if they are equal or the step leads away."""
    if step == 0:
        raise SnowflakeError("ARRAY_GENERATE_RANGE: the step is 0")
    return list(range(start, stop, step))


@function(ARRAY, VARCHAR, returns=VARCHAR)
def array_to_string(array: list[Any], separator: str) -> str:
    """All elements as texts with a separator between them; a NULL is an empty text."""
    return separator.join("" if item is None or item is JSON_NULL else variant_text(item) for item in array)


@function(EXACT_VARIANT, ARRAY, returns=BOOLEAN, nulls=True)
def array_contains(value: Any, array: list[Any] | None) -> bool | None:
    """TRUE also for NULL where an element is undefined; NULL for NULL where none is."""
    if array is None:
        return None
    if any(item is None if value is None else item is not None and equal(item, value) for item in array):
        return True
    return None if value is None else False


@function(EXACT_VARIANT, ARRAY, returns=NUMBER)
def array_position(value: Any, array: list[Any]) -> int | None:
    """The place from 0 of the first element that is equal, NULL if none is."""
    return next((place for place, item in enumerate(array) if item is not None and equal(item, value)), None)


@function(ARRAY, ARRAY, returns=ARRAY)
def array_cat(a: list[Any], b: list[Any]) -> list[Any]:
    """Both arrays, one behind the other."""
    return [*a, *b]


@function(ARRAY, ANY, returns=ARRAY, nulls=True)
def array_append(array: list[Any] | None, value: Any) -> list[Any] | None:
    """The array with one more element; NULL as an element is undefined."""
    return None if array is None else [*array, value]


@function(ARRAY, ANY, returns=ARRAY, nulls=True)
def array_prepend(array: list[Any] | None, value: Any) -> list[Any] | None:
    """The array with one more element at its start."""
    return None if array is None else [value, *array]


@function(ARRAY, returns=ARRAY)
def array_compact(array: list[Any]) -> list[Any]:
    """Without missing and null values."""
    return [item for item in array if item is not None and item is not JSON_NULL]


@function(ARRAY, returns=ARRAY)
def array_flatten(array: list[Any]) -> list[Any] | None:
    """An array of arrays as one; NULL for an element that is undefined, an error for one that is no array."""
    if any(item is None for item in array):
        return None
    if not all(isinstance(item, list) for item in array):
        raise SnowflakeError("ARRAY_FLATTEN: not a nested array")
    return [part for item in array for part in item]


@function(ARRAY, returns=ARRAY)
def array_reverse(array: list[Any]) -> list[Any]:
    """The elements in reverse order."""
    return array[::-1]


@function(ARRAY, BOOLEAN, BOOLEAN, returns=ARRAY, optional=2)
def array_sort(array: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    """By value; NULLs last if ascending, else first; elements of several types are not known here."""
    values = [item for item in array if item is not None]
    if len({kind(item) for item in values}) > 1 or any(isinstance(item, list | dict) for item in values):
        raise SnowflakeError("ARRAY_SORT: only texts, or numbers, or booleans alone are known here")
    if values and values[0] is not JSON_NULL:
        values.sort(reverse=not ascending)
    missing = [None] * (len(array) - len(values))
    return missing + values if (not ascending if nulls_first is None else nulls_first) else values + missing


def _distinct(array: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in array:
        if not any((item is None and other is None) or equal(item, other) for other in kept):
            kept.append(item)
    return kept


@function(ARRAY, returns=ARRAY)
def array_distinct(array: list[Any]) -> list[Any]:
    """Each value once, in no particular order: here backwards, so that nothing may rely on one."""
    return _distinct(array)[::-1]


@function(ARRAY, ARRAY, returns=ARRAY)
def array_except(array: list[Any], other: list[Any]) -> list[Any]:
    """Multiset difference, in no particular order: here backwards."""
    left_over = list(other)
    kept = []
    for item in array:
        found = next((place for place, value in enumerate(left_over) if equal(item, value)), None)
        if found is None:
            kept.append(item)
        else:
            del left_over[found]
    return kept[::-1]


@function(ARRAY, ARRAY, returns=BOOLEAN)
def arrays_overlap(a: list[Any], b: list[Any]) -> bool:
    """Whether two arrays have an element in common."""
    return any(equal(x, y) for x in a for y in b)


@function(ARRAY, returns=VARIANT)
def array_max(array: list[Any]) -> Any:
    """The largest element that is not NULL; NULL if there is none."""
    values = array_sort([item for item in array if item is not None and item is not JSON_NULL])
    return values[-1] if values else None


@function(ARRAY, returns=VARIANT)
def array_min(array: list[Any]) -> Any:
    """The smallest element that is not NULL; NULL if there is none."""
    values = array_sort([item for item in array if item is not None and item is not JSON_NULL])
    return values[0] if values else None


@function(ARRAY, ARRAY, returns=ARRAY)
def array_intersection(array: list[Any], other: list[Any]) -> list[Any]:
    """The elements that are in both, as often as in both, in no particular order: here backwards."""
    left = list(other)
    kept = []
    for item in array:
        found = next((place for place, value in enumerate(left) if equal(item, value)), None)
        if found is not None:
            kept.append(item)
            del left[found]
    return kept[::-1]


@function(ARRAY, EXACT_VARIANT, returns=ARRAY)
def array_remove(array: list[Any], value: Any) -> list[Any]:
    """Without the elements that are equal to a VARIANT."""
    return [item for item in array if item is None or not equal(item, value)]


@function(ARRAY, NUMBER, returns=ARRAY)
def array_remove_at(array: list[Any], place: int) -> list[Any]:
    """Without the element of a place from 0, from the end if negative; all of them where there is none."""
    at = place if place >= 0 else len(array) + place
    return [item for number, item in enumerate(array) if number != at]


@function(ARRAY, NUMBER, ANY, returns=ARRAY)
def array_insert(array: list[Any], place: int, value: Any) -> list[Any]:
    """With one more element before a place from 0 to the array's size."""
    if not 0 <= place <= len(array):
        raise SnowflakeError("ARRAY_INSERT: only places inside of the array are known here")
    return [*array[:place], value, *array[place:]]

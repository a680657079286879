"""VARIANT: JSON read and written, the types it holds, fields and elements.

https://docs.snowflake.com/en/sql-reference/functions/parse_json, .../try_parse_json, .../typeof, .../as and the pages
of AS_INTEGER, AS_DECIMAL, AS_DOUBLE, AS_CHAR and IS_INTEGER were read again; GET, GET_PATH, OBJECT_CONSTRUCT and the
other IS_ functions stand from memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from tests.standins.snowflake.nodes import EXACT_VARIANT, FUNCTIONS, Function, Node, coerced, function, strict, typed
from tests.standins.snowflake.values import (
    ARRAY,
    BOOLEAN,
    FLOAT,
    JSON_NULL,
    NUMBER,
    OBJECT,
    VARCHAR,
    VARIANT,
    SnowflakeError,
    SqlType,
    json_number,
    json_text,
    read_as,
    to_scale,
    typeof,
)

# Reading JSON ---------------------------------------------------------------------------------------------------------

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_STRICT_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LOOSE_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": JSON_NULL}
_LOOSE_WORDS: dict[str, Any] = {
    "nan": float("nan"), "inf": float("inf"), "infinity": float("inf"), "undefined": None,
    "-inf": float("-inf"), "-infinity": float("-inf"), "-nan": float("nan"),
}  # fmt: skip
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_LOOSE_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}


class _NotJsonError(Exception):
    pass


class _Reader:
    """RFC 8259 and what the documentation shows beyond it: a comma may trail, and leaves an undefined element in an
    array. A loose reading takes what it leaves open: words, single quotes, bare names, comments, control characters,
    numbers of every form, half a surrogate pair."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.loose = text, 0, read_as().loose

    def fail(self) -> NoReturn:
        raise _NotJsonError

    def blank(self) -> None:
        pattern = r"(?:\s|\ufeff|//[^\n]*|/\*.*?\*/)*" if self.loose else r"[ \t\r\n]*"
        found = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        self.at = found.end() if found else self.at

    def peek(self) -> str:
        self.blank()
        return self.text[self.at : self.at + 1]

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            self.fail()
        self.at += 1

    def document(self) -> Any:
        value = self.value()
        if self.peek():
            self.fail()
        return value

    def value(self) -> Any:
        start = self.peek()
        if start == "{":
            return self.object()
        if start == "[":
            return self.array()
        if start == '"' or (start == "'" and self.loose):
            return self.string()
        return self.scalar()

    def array(self) -> list[Any]:
        self.take("[")
        made: list[Any] = []
        if self.peek() == "]":
            self.at += 1
            return made
        while True:
            if self.peek() == "]" or (self.peek() == "," and self.loose):
                made.append(None)
            else:
                made.append(self.value())
            if self.peek() == "]":
                self.at += 1
                return made
            self.take(",")

    def object(self) -> dict[str, Any]:
        self.take("{")
        made: dict[str, Any] = {}
        while self.peek() != "}":
            name = self.name()
            self.take(":")
            if name in made:
                self.fail()
            made[name] = self.value()
            if self.peek() != "}":
                self.take(",")
        self.at += 1
        return {name: value for name, value in made.items() if value is not None}

    def name(self) -> str:
        start = self.peek()
        if start == '"' or (start == "'" and self.loose):
            return self.string()
        found = re.compile(r"[A-Za-z_$][\w$]*").match(self.text, self.at)
        if not found or not self.loose:
            self.fail()
        self.at = found.end()
        return found[0]

    def string(self) -> str:
        quote = self.text[self.at]
        plain = _LOOSE_PLAIN[quote] if self.loose else _PLAIN
        self.at += 1
        parts = []
        while True:
            found = plain.match(self.text, self.at)
            if found:
                parts.append(found[0])
                self.at = found.end()
            char = self.text[self.at : self.at + 1]
            self.at += 1
            if char == quote:
                break
            if char != "\\":
                self.fail()
            parts.append(self.escape())
        text = "".join(parts)
        text = re.sub(
            "([\ud800-\udbff])([\udc00-\udfff])",
            lambda pair: chr(0x10000 + (ord(pair[1]) - 0xD800) * 0x400 + ord(pair[2]) - 0xDC00),
            text,
        )
        if re.search("[\ud800-\udfff]", text):
            if not self.loose:
                self.fail()
            text = re.sub("[\ud800-\udfff]", "\ufffd", text)
        return text

    def escape(self) -> str:
        char = self.text[self.at : self.at + 1]
        self.at += 1
        if char == "u":
            found = re.compile("[0-9a-fA-F]{4}").match(self.text, self.at)
            if not found:
                self.fail()
            self.at += 4
            return chr(int(found[0], 16))
        if char not in _ESCAPES and (not self.loose or not char):
            self.fail()
        return _ESCAPES.get(char, char)

    def scalar(self) -> Any:
        found = re.compile(r"[^\s,:\[\]{}\"']*").match(self.text, self.at)
        word = found[0] if found else ""
        self.at += len(word)
        if word in _WORDS:
            return _WORDS[word]
        if (_LOOSE_NUMBER if self.loose else _STRICT_NUMBER).fullmatch(word):
            return json_number(word)
        if self.loose and word.lower() in _WORDS | _LOOSE_WORDS:
            return (_WORDS | _LOOSE_WORDS)[word.lower()]
        self.fail()


@function(VARCHAR, returns=VARIANT)
def try_parse_json(text: str) -> Any:
    """A VARIANT, NULL for an empty or blank text or one that is no JSON; a name twice is none."""
    if not text.strip(" \t\r\n"):
        return None
    try:
        return _Reader(text).document()
    except _NotJsonError:
        return None
    except RecursionError:
        raise SnowflakeError("TRY_PARSE_JSON: nested too deep for this stand-in") from None


@function(VARCHAR, returns=VARIANT)
def parse_json(text: str) -> Any:
    """A VARIANT; an error for a text that is no JSON."""
    value = try_parse_json(text)
    if value is None and text.strip():
        raise SnowflakeError(f"Error parsing JSON: {text[:100]}")
    return value


@function(VARIANT, returns=VARCHAR)
def to_json(value: Any) -> str:
    """JSON without blanks. The order of names is "not predictable"; here, as in every example there, it is sorted."""
    return json_text(value)


# Types ----------------------------------------------------------------------------------------------------------------


@function(EXACT_VARIANT, returns=VARCHAR)
def _typeof(value: Any) -> str:
    """The type of what a VARIANT holds: OBJECT, ARRAY, VARCHAR, INTEGER, DECIMAL, DOUBLE, BOOLEAN, NULL_VALUE."""
    return typeof(value)


_HELD = {
    "ARRAY": (ARRAY, ("ARRAY",)),
    "OBJECT": (OBJECT, ("OBJECT",)),
    "BOOLEAN": (BOOLEAN, ("BOOLEAN",)),
    "VARCHAR": (VARCHAR, ("VARCHAR",)),
    "CHAR": (VARCHAR, ("VARCHAR",)),
    "INTEGER": (NUMBER, ("INTEGER",)),
    "DOUBLE": (FLOAT, ("INTEGER", "DECIMAL", "DOUBLE")),
    "REAL": (FLOAT, ("INTEGER", "DECIMAL", "DOUBLE")),
}
"""AS_ and IS_ of each: the type of the result, and what a VARIANT of it holds. A number of any kind is a DOUBLE."""


def _holds(names: tuple[str, ...], made: SqlType) -> tuple[Function, Function]:
    def held(value: Any) -> Any:
        if typeof(value) not in names:
            return None
        return float(value) if made == FLOAT else value

    known = Function(held, (EXACT_VARIANT,), 1, made, nulls=False)
    return known, Function(lambda value: typeof(value) in names, (EXACT_VARIANT,), 1, BOOLEAN, nulls=False)


for _name, (_type, _names) in _HELD.items():
    FUNCTIONS[f"AS_{_name}"], FUNCTIONS[f"IS_{_name}"] = _holds(_names, _type)
FUNCTIONS["IS_DECIMAL"] = _holds(("INTEGER", "DECIMAL"), NUMBER)[1]


@typed("AS_DECIMAL AS_NUMBER")
def as_number(name: str, arguments: list[Node]) -> Node:
    """NUMBER(precision, scale), by default (38, 0), of a fixed-point number, rounded; an error out of range."""
    value, *shape = arguments
    if value.type.name != "VARIANT" or len(shape) > 2 or any(not isinstance(part.constant, int) for part in shape):
        raise SnowflakeError(f"{name}: a VARIANT and constants are needed")
    precision, scale = ([part.constant for part in shape] + [38, 0][len(shape) :])[:2]

    def held(found: Any) -> Any:
        if typeof(found) not in ("INTEGER", "DECIMAL"):
            return None
        return to_scale(found, scale, name, precision=precision)

    return strict(SqlType("NUMBER", scale, precision), held, value)


@function(EXACT_VARIANT, returns=BOOLEAN)
def is_null_value(value: Any) -> bool:
    """TRUE for a JSON null, NULL for SQL's NULL."""
    return value is JSON_NULL


@function(EXACT_VARIANT, returns=VARIANT)
def strip_null_value(value: Any) -> Any:
    """NULL for a JSON null, else the value."""
    return None if value is JSON_NULL else value


# Fields and elements --------------------------------------------------------------------------------------------------


def follow(value: Any, steps: Sequence[str | int]) -> Any:
    """A field or element inside, NULL where there is none; the case of names counts."""
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step] if 0 <= step < len(value) else None
        else:
            return None
    return value


@typed("GET")
def get(name: str, arguments: list[Node]) -> Node:
    """An element from 0, or a field; NULL outside of the bounds, or where there is none."""
    value, key = arguments
    if value.type.name not in ("ARRAY", "OBJECT", "VARIANT") or key.type.name not in ("NUMBER", "VARCHAR", "NULL"):
        raise SnowflakeError(f"GET: no element {key.type} of {value.type}")
    if (value.type.name, key.type.name) in (("ARRAY", "VARCHAR"), ("OBJECT", "NUMBER")):
        raise SnowflakeError(f"GET: no element {key.type} of {value.type}")
    return strict(VARIANT, lambda container, at: follow(container, [at]), value, key)


_STEP = re.compile(r"""(?:^|\.)([A-Za-z_][\w$]*)|\[([0-9]+)\]|(?:^|\.)"([^"]+)"|\['([^']*)'\]""")


@typed("GET_PATH")
def get_path(name: str, arguments: list[Node]) -> Node:
    """Fields and elements by a constant path such as ``a.b[0]``; NULL where there is none."""
    value, path = arguments
    if value.type.name not in ("ARRAY", "OBJECT", "VARIANT") or not isinstance(path.constant, str):
        raise SnowflakeError("GET_PATH: a semi-structured value and a constant path are needed")
    steps: list[str | int] = []
    at = 0
    while at < len(path.constant):
        found = _STEP.match(path.constant, at)
        if found is None:
            raise SnowflakeError(f"GET_PATH: the path {path.constant!r}")
        at = found.end()
        steps.append(int(found[2]) if found[2] else next(part for part in (found[1], found[3], found[4]) if part))
    return strict(VARIANT, lambda container: follow(container, steps), value)


@function(OBJECT, returns=ARRAY)
def object_keys(value: dict[str, Any]) -> list[str]:
    """The names at the top level, in no particular order: here backwards."""
    return list(value)[::-1]


@typed("OBJECT_CONSTRUCT OBJECT_CONSTRUCT_KEEP_NULL")
def object_construct(name: str, arguments: list[Node]) -> Node:
    """An object of names and values; a NULL name or value is left out, or with KEEP_NULL becomes a JSON null."""
    if len(arguments) % 2:
        raise SnowflakeError(f"{name}: {len(arguments)} arguments")
    names = [coerced(argument, VARCHAR, name).value for argument in arguments[::2]]
    values = [argument.value for argument in arguments[1::2]]
    empty = JSON_NULL if name.endswith("NULL") else None

    def value(row: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for label, each in zip(names, values, strict=True):
            key, found = label(row), each(row)
            found = empty if found is None else found
            if key in made:
                raise SnowflakeError(f"{name}: duplicate field key {key!r}")
            if key is not None and found is not None:
                made[key] = found
        return made

    return Node(OBJECT, value)

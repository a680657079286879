"""Random JSON Schemas, answers that nearly fit them, hostile ones, and what makes a disagreement small."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from sqlenrich.schema.keywords import resolve
from tests.support.hostile import NAMES, TEXTS

SHARED = ("a", "b", "c", "d")
ODD = (
    "A", "", "0", "1", "a b", "a.b", "a/b", "a~b", "~1", "%25", "$", "$.a", "*", "[0]", "é", "e\u0301", "😀", 'x"y',
    "it's", "\\", "__proto__", "null", "type", "\u2028", "\ue000", "\U0010ffff", "a\nb",
)  # fmt: skip
PATTERNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "^a": (r"\Aa", ("a", "abc", "a\n")),
    "b$": (r"b\Z", ("b", "ab", "\nb")),
    r"\d": ("[0-9]", ("1", "x7", "a1b")),
    r"^\S+$": (
        r"\A[^ \t\n\r\f\v\xa0\ufeff\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+\Z",
        ("ab", "é😀", "\x1c"),
    ),
    "^.{2,3}$": (r"\A[^\n\r\u2028\u2029]{2,3}\Z", ("ab", "é😀", "\x85\x85")),
    "^(?:a|b1)*$": (r"\A(?:a|b1)*\Z", ("", "a", "b1a")),
    "[^a-z]": ("[^a-z]", ("A", "1", "😀")),
    "é|😀": ("é|😀", ("é", "a😀")),
    "": ("(?:)", ("", "a")),
}
"""ECMA-262, the same in Python's words, and texts that match."""
FORMATS = ("date", "date-time", "time", "email", "uuid", "uri")
OF_FORMATS = (
    "2026-01-31", "2026-02-30", "2024-02-29", "0000-01-01", "2026-01-31T12:00:00Z", "2026-01-31t12:00:00.123456789z",
    "2026-02-29T00:00:00Z", "12:00:00Z", "24:00:00Z", "23:59:60Z", "a@b.de", "a@b_c", "http://a/b?c#d", "urn:x",
    "a b:c", "2eb8aa08-aa98-11ea-b4aa-73b441d16380",
)  # fmt: skip
WORDS = ("", "a", "ab", "abc", "b1", "A", "é😀", "true", "TRUE", "1", "1.0", "-0", "1e2", " 3", "null", *OF_FORMATS)
SMALL = (-3, -2, -1, 0, 1, 2, 3, 4, 10, 100, 0.5, 1.5, -2.5, 3.0, -0.0, 0.1, 0.3, 0.7, 2.675, 1e-7, 123456.789)
WIDE = (
    2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63, 2**64, 10**19, 10**20, 10**21, 1e15, 1e16, 1e17, 1e19,
    1e20, 1e22, 1e300, -1e300, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0,
)  # fmt: skip
STEPS = (1, 2, 3, 0.5, 0.1, 0.01, 1.0, 7, 0.25, 1e-5)
FRAMES = (
    "…,", "…}", "…x", "…{}", "…\ufeff", "\ufeff…", "[…]", " …\r\n", "```json\n…\n```", "[…,]", "null",
    "", " ", "Sorry, no.",
)  # fmt: skip
ENDS = (
    ",}", ',"a":1,"a":2}', ',"a":1}', ',"z":"\\ud800"}', ',"\\u007a":{"b":[{"c":1,"\\u0063":2}]}}', ',"z":1e400}',
    ',"z":"\x01"}', ',"z":' + "[" * 60 + "]" * 60 + "}", ',"z":"\\x"}', ',"z":+1}', ',"z":.5}', ',"z":1.}',
    ',"z":Infinity}', ',"z":-}', ',"z":01}', ',"z":tru}', ',"z":"\\u0000"}', ',"\\u0000":1}', ',"":{"":{}}}',
)  # fmt: skip
"""Texts around an answer, or instead of its last brace: most of them make it invalid."""
KINDS = ("string", "integer", "number", "boolean", "array", "object")
EXACT = 2**53


class Maker:
    """Draws schemas and answers from one random generator."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)
        self.defs: dict[str, Any] = {}

    def one(self, values: Sequence[Any]) -> Any:
        """One of some values."""
        return self.random.choice(values)

    def some(self, values: Sequence[Any], most: int, least: int = 0) -> list[Any]:
        """Some of the values, without repeats."""
        return self.random.sample(list(values), min(len(values), self.random.randint(least, most)))

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.random.random() < share

    # Values -----------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        """A name: mostly one that others have, too."""
        roll = self.random.random()
        return str(self.one(SHARED if roll < 0.8 else ODD if roll < 0.97 else tuple(NAMES.values())))

    def text(self) -> str:
        """A text: short and known, hostile, or of any characters."""
        roll = self.random.random()
        if roll < 0.75:
            return str(self.one(WORDS))
        if roll < 0.85:
            return str(self.one([text for text in TEXTS.values() if len(text) < 500]))
        return "".join(self.character() for _ in range(self.random.randint(1, 5)))

    def character(self) -> str:
        """Any character but a surrogate and NUL."""
        code = self.random.randint(1, self.one((0x7F, 0x7FF, 0xFFFF, 0x10FFFF)))
        return chr(code if not 0xD800 <= code < 0xE000 else code - 0x1000)

    def number(self) -> int | float:
        """A number: mostly a small one."""
        return self.one(SMALL if self.chance(0.93) else WIDE)  # type: ignore[no-any-return]

    def value(self, depth: int = 2) -> Any:
        """Any JSON value."""
        kind = self.one(KINDS if depth else KINDS[:4])
        match kind:
            case "string":
                return self.text()
            case "integer" | "number":
                return self.number()
            case "boolean":
                return self.one((True, False, None))
            case "array":
                return [self.value(depth - 1) for _ in range(self.random.randint(0, 3))]
        return {self.name(): self.value(depth - 1) for _ in range(self.random.randint(0, 3))}

    # Schemas ----------------------------------------------------------------------------------------------------------

    def schema(self) -> dict[str, Any]:
        """A schema of an answer."""
        self.defs = {}
        made: dict[str, Any] = {"type": "object"} if self.chance(0.8) else {}
        made |= self.of_object(3)
        if self.chance(0.15):
            made |= self.over_it(3)
        if self.defs:
            made["$defs"] = self.defs
        return made

    def node(self, depth: int) -> Any:
        """A schema of any value."""
        roll = self.random.random()
        if roll < 0.03:
            return self.one((True, False, {}))
        if roll < 0.12:
            return self.reference(depth)
        if roll < 0.2 and depth:
            return self.over_it(depth)
        kinds = self.kinds()
        made: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds} if self.chance(0.85) else {}
        for kind in kinds:
            made |= self.of_kind(kind, depth)
        if self.chance(0.12):
            made["enum"] = [
                self.value() if self.chance(0.4) else self.of(kinds) for _ in range(self.random.randint(1, 4))
            ]
        if self.chance(0.04):
            made["const"] = self.of(kinds)
        if depth and self.chance(0.08):
            made |= self.over_it(depth)
        if self.chance(0.05):
            self.coerce(made)
        if self.chance(0.05):
            made["description"] = self.text()
        return made

    def kinds(self) -> list[str]:
        """The types of a value: one, perhaps null, seldom several."""
        kinds = [self.one(KINDS)]
        if self.chance(0.15):
            kinds.append(self.one(KINDS))
        if self.chance(0.2):
            kinds.append("null")
        return list(dict.fromkeys(kinds))

    def of(self, kinds: Sequence[str]) -> Any:
        """A value of one of these types."""
        return self.fit({"type": self.one(kinds)})

    def coerce(self, made: dict[str, Any]) -> None:
        """Let a number or a boolean be written as text, or an enum in any case."""
        if made.get("type") in ("integer", "number", "boolean"):
            made["coerce"] = True
        elif made.get("type") == "string":
            made |= {"coerce": True, "enum": self.some(("a", "Ab", "C1", "true"), 3, 1)}

    def reference(self, depth: int) -> dict[str, Any]:
        """A reference to a definition whose name needs escapes in a pointer; it may be used before."""
        if not self.defs or (depth and self.chance(0.6)):
            made = self.node(depth - 1) if depth else {"type": self.one(KINDS)}
            self.defs[self.one(("d", "d/e", "d~e", "d%25", "d e", "é")) + str(len(self.defs))] = made
        name = self.one(tuple(self.defs))
        pointer = name.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace(" ", "%20")
        more = {"minLength": 1, "description": "x"} if self.chance(0.1) else {}
        return {"$ref": f"#/$defs/{pointer}", **more}

    def over_it(self, depth: int) -> dict[str, Any]:
        """Schemas for the same value."""
        keyword = self.one(("allOf", "anyOf", "oneOf", "not", "if"))
        if keyword == "not":
            return {"not": self.node(depth - 1)}
        if keyword == "if":
            return {"if": self.node(depth - 1)} | {
                word: self.node(depth - 1) for word in self.some(("then", "else"), 2)
            }
        choices = [self.node(depth - 1) for _ in range(self.random.randint(1, 3))]
        if self.chance(0.3):
            choices = [choices[0], {"type": "null"}]
        return {keyword: choices}

    def counts(self, suffix: str, most: int = 4) -> dict[str, int]:
        """Perhaps a least and a greatest count."""
        low, high = sorted(self.random.randint(0, most) for _ in range(2))
        least = {f"min{suffix}": low} if self.chance(0.2) else {}
        return least | ({f"max{suffix}": high} if self.chance(0.2) else {})

    def of_kind(self, kind: str, depth: int) -> dict[str, Any]:
        """Keywords about values of one type."""
        match kind:
            case "string":
                made: dict[str, Any] = self.counts("Length")
                if self.chance(0.2):
                    made["pattern"] = self.one(tuple(PATTERNS))
                if self.chance(0.15):
                    made["format"] = self.one(FORMATS)
                return made
            case "integer" | "number":
                limits = self.some(("minimum", "exclusiveMinimum"), 1) + self.some(("maximum", "exclusiveMaximum"), 1)
                numbers = sorted(self.number() for _ in range(2))
                made = {} if self.chance(0.5) else {word: numbers["ax" in word] for word in limits}
                return made | ({"multipleOf": self.one(STEPS)} if self.chance(0.15) else {})
            case "array":
                return self.of_array(depth)
            case "object":
                return self.of_object(depth)
        return {}

    def of_array(self, depth: int) -> dict[str, Any]:
        """Keywords about arrays."""
        made: dict[str, Any] = self.counts("Items")
        inner = (lambda: self.node(depth - 1)) if depth else (lambda: {"type": self.one(KINDS)})
        if self.chance(0.6):
            made["items"] = inner()
        if self.chance(0.15):
            made["prefixItems"] = [inner() for _ in range(self.random.randint(1, 2))]
        if self.chance(0.15):
            made |= {"contains": inner(), **self.counts("Contains", 2)}
        if self.chance(0.2):
            made["uniqueItems"] = True
        return made

    def of_object(self, depth: int) -> dict[str, Any]:
        """Keywords about objects."""
        inner = (lambda: self.node(depth - 1)) if depth else (lambda: {"type": self.one(KINDS)})
        names = [self.name() for _ in range(self.random.randint(depth == 3, 3))]
        made: dict[str, Any] = {"properties": {name: inner() for name in names}} if names else {}
        if self.chance(0.5):
            made["required"] = self.some(
                [*dict.fromkeys(names), "a"] if self.chance(0.2) else list(dict.fromkeys(names)), 2
            )
            made["required"] = list(dict.fromkeys(made["required"]))
        if self.chance(0.3):
            made["additionalProperties"] = False if self.chance(0.6) else inner()
        if self.chance(0.1):
            made["patternProperties"] = {self.one(tuple(PATTERNS)): inner() for _ in range(self.random.randint(1, 2))}
        if self.chance(0.07):
            made["propertyNames"] = self.one(
                ({"maxLength": 1}, {"pattern": "^a"}, {"enum": ["a", "b", "A", ""]}, inner())
            )
        if self.chance(0.07):
            made["dependentRequired"] = {self.name(): self.some(SHARED, 2) for _ in range(self.random.randint(1, 2))}
        if self.chance(0.07):
            made["dependentSchemas"] = {self.name(): inner()}
        return made | (self.counts("Properties") if self.chance(0.3) else {})

    # Answers ----------------------------------------------------------------------------------------------------------

    def answer(self, schema: dict[str, Any]) -> str:
        """The text of an answer: one that fits as far as it is easy, mostly changed a little, seldom broken."""
        value = self.fit({"type": "object", **schema}, schema)
        for _ in range(self.one((0, 0, 1, 1, 2, 3))):
            value = self.changed(value)
        if not isinstance(value, dict) and self.chance(0.95):
            value = {"a": value}
        text = self.written(value)
        return self.broken(text) if self.chance(0.06) else text

    def fit(self, schema: Any, root: Any = None, depth: int = 5) -> Any:
        """A value that probably meets a schema."""
        parts = list(self.parts(schema, root))
        allowed = next((p["enum"] for p in parts if p.get("enum")), None)
        if any("const" in p for p in parts):
            return deepcopy(next(p["const"] for p in parts if "const" in p))
        if allowed and self.chance(0.9):
            return deepcopy(self.one(allowed))
        kinds = set(KINDS) | {"null"}
        for part in parts:
            if written := part.get("type"):
                listed = {written} if isinstance(written, str) else set(written)
                kinds &= listed | ({"integer"} if "number" in listed else set())
        about = {k for part in parts for k, words in _ABOUT.items() if words & set(part)} & kinds
        kind = self.one(sorted(about if about and self.chance(0.9) else kinds) or [*KINDS])
        if depth <= 0 and kind in ("array", "object"):
            return [] if kind == "array" else {}
        return self.fit_kind(kind, parts, root, depth)

    def parts(self, schema: Any, root: Any) -> Iterator[dict[str, Any]]:
        """The schemas over one value that are to be met together: references, one of each choice."""
        if not isinstance(schema, Mapping):
            return
        yield dict(schema)
        if "$ref" in schema and (found := resolve(root, schema["$ref"])) is not None:
            yield from self.parts(found[0], root)
        for part in schema.get("allOf", ()):
            yield from self.parts(part, root)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield from self.parts(self.one(schema[keyword]), root)
        if "if" in schema:
            for keyword in ("if", "then") if self.chance(0.5) else ("else",):
                yield from self.parts(schema.get(keyword, True), root)

    def fit_kind(self, kind: str, parts: Sequence[Mapping[str, Any]], root: Any, depth: int) -> Any:
        """A value of one type for some schemas."""

        def limit(keyword: str, default: Any) -> Any:
            found = [part[keyword] for part in parts if keyword in part]
            return (max if keyword.startswith("min") else min)(found) if found else default

        match kind:
            case "null":
                return None
            case "boolean":
                return self.chance(0.5)
            case "integer" | "number":
                low, high = limit("minimum", -4), limit("maximum", 10)
                number = self.number() if self.chance(0.2) else self.one((low, high, self.random.randint(-4, 10)))
                if (step := limit("multipleOf", None)) is not None and self.chance(0.8):
                    number = round(self.random.randint(-5, 9) * step, 5)
                return int(number) if kind == "integer" else number
            case "string":
                patterns = [part["pattern"] for part in parts if "pattern" in part]
                formats = [part["format"] for part in parts if "format" in part]
                text = self.text()
                if formats:
                    text = self.one(OF_FORMATS)
                if patterns:
                    text = self.one(PATTERNS[patterns[0]][1])
                text += "a" * max(0, limit("minLength", 0) - len(text))
                return text[: limit("maxLength", 10**6)]
            case "array":
                count = self.random.randint(limit("minItems", 0), max(limit("minItems", 0), limit("maxItems", 3)))
                first: list[Any] = next((part["prefixItems"] for part in parts if "prefixItems" in part), [])
                item = next((part["items"] for part in parts if "items" in part), True)
                made = [
                    self.fit(child, root, depth - 1) for child in [*first, *[item] * count][: max(count, len(first))]
                ]
                for part in parts:
                    if "contains" in part and made and self.chance(0.8):
                        made[self.random.randrange(len(made))] = self.fit(part["contains"], root, depth - 1)
                return made
        return self.fit_object(parts, root, depth)

    def fit_object(self, parts: Sequence[Mapping[str, Any]], root: Any, depth: int) -> dict[str, Any]:
        """An object for some schemas."""
        properties = {name: child for part in parts for name, child in part.get("properties", {}).items()}
        required = {name for part in parts for name in part.get("required", ())}
        made: dict[str, Any] = {}
        for name in [*properties, *required]:
            if (child := properties.get(name, True)) is not False and (name in required or self.chance(0.6)):
                made[name] = self.fit(child, root, depth - 1)
        for part in parts:
            for pattern, child in part.get("patternProperties", {}).items():
                if self.chance(0.6):
                    made.setdefault(self.one(PATTERNS[pattern][1]), self.fit(child, root, depth - 1))
            if isinstance(part.get("additionalProperties"), Mapping) and self.chance(0.6):
                made.setdefault(self.name(), self.fit(part["additionalProperties"], root, depth - 1))
            for name, names in part.get("dependentRequired", {}).items():
                for other in names if name in made else ():
                    made.setdefault(other, self.fit(properties.get(other, True), root, depth - 1))
        return made

    def changed(self, value: Any) -> Any:
        """A value with one part changed."""
        if isinstance(value, dict) and value and self.chance(0.8):
            name = self.one(tuple(value))
            made = dict(value)
            match self.random.randrange(6):
                case 0:
                    del made[name]
                case 1:
                    made[self.name()] = self.value()
                case 2:
                    made[self.name()] = made.pop(name)
                case _:
                    made[name] = self.changed(value[name])
            return made
        if isinstance(value, list) and value and self.chance(0.8):
            place = self.random.randrange(len(value))
            listed = list(value)
            match self.random.randrange(5):
                case 0:
                    del listed[place]
                case 1:
                    listed.append(deepcopy(listed[place]))
                case 2:
                    listed.insert(place, self.value())
                case _:
                    listed[place] = self.changed(value[place])
            return listed
        if isinstance(value, str) and self.chance(0.6):
            return self.one(
                (value + "\n", value + self.character(), value[:-1], value.upper(), value + " ", "a" + value)
            )
        if isinstance(value, int | float) and not isinstance(value, bool) and self.chance(0.6):
            half = value + 0.5 if abs(value) < EXACT else 0.5
            return self.one((value + 1, value - 1, -value, half, str(value), value == 1, value * 10))
        if isinstance(value, bool) and self.chance(0.6):
            return self.one((not value, int(value), str(value).lower(), None))
        return self.value()

    # Texts ------------------------------------------------------------------------------------------------------------

    def written(self, value: Any) -> str:
        """A JSON text of a value: spaces, escapes and numbers as one may write them."""
        space = self.one(("", "", "", " ", "\n\t"))
        if isinstance(value, dict):
            pairs = [f"{self.quoted(name)}{space}:{space}{self.written(part)}" for name, part in value.items()]
            return f"{{{space}{f'{space},{space}'.join(pairs)}}}"
        if isinstance(value, list):
            return f"[{f'{space},{space}'.join(map(self.written, value))}{space}]"
        if isinstance(value, str):
            return self.quoted(value)
        if isinstance(value, bool) or value is None:
            return json.dumps(value)
        return self.spelled(value)

    def quoted(self, text: str) -> str:
        """A text in quotes, at times with escapes that nobody needs."""
        if self.chance(0.85):
            return json.dumps(text, ensure_ascii=self.chance(0.2))
        return '"' + "".join(self.escaped(char) if self.chance(0.5) else json.dumps(char)[1:-1] for char in text) + '"'

    def escaped(self, char: str) -> str:
        """A character as escapes of UTF-16."""
        units = char.encode("utf-16-be")
        codes = [int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2)]
        return "".join(f"\\u{code:{self.one(('04x', '04X'))}}" for code in codes)

    def spelled(self, value: int | float) -> str:
        """A number, at times with a point or an exponent."""
        plain = json.dumps(value)
        if self.chance(0.8) or abs(value) >= EXACT:
            return plain
        if value == 0:
            return str(self.one(("-0", "0.0", "-0.0", "0e5")))
        if isinstance(value, int):
            return str(self.one((f"{value}.0", f"{value}e0", f"{value}0e-1", f"{value}E+00", f"{value}.000")))
        return str(self.one((f"{value:e}", f"{value!r}0" if "e" not in plain else plain, f"{value:E}", plain)))

    def broken(self, text: str) -> str:
        """A text that is mostly no answer."""
        if self.chance(0.3):
            return text[: self.random.randint(0, len(text))]
        if self.chance(0.2):
            return text.replace(*self.one(((":", ": NaN,", 1), (":", ":0", 1), ('"', "'"), ("{", "{/**/", 1))))
        if self.chance(0.3):
            return str(self.one(FRAMES)).replace("…", text)
        return f"{text[:-1]}{self.one(ENDS)}"


_ABOUT: Mapping[str, set[str]] = {
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "prefixItems", "contains", "uniqueItems", "minItems", "maxItems"},
    "object": {
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "dependentRequired",
        "dependentSchemas", "minProperties", "maxProperties",
    },
}  # fmt: skip


# Making small ---------------------------------------------------------------------------------------------------------


def smaller(value: Any) -> Iterator[Any]:
    """Every value that is this one with a part left out, lifted or made plain."""
    if isinstance(value, dict):
        for name in value:
            yield {other: kept for other, kept in value.items() if other != name}
        for name, part in value.items():
            for less in smaller(part):
                yield {**value, name: less}
        yield from (part for part in value.values() if isinstance(part, dict))
    elif isinstance(value, list):
        for place in range(len(value)):
            yield value[:place] + value[place + 1 :]
        for place, part in enumerate(value):
            for less in smaller(part):
                yield [*value[:place], less, *value[place + 1 :]]
    elif isinstance(value, str) and len(value) > 1:
        yield value[: len(value) // 2]
        yield value[1:]
        yield value[:-1]


def shrunk(schema: Any, text: str, fails: Callable[[Any, str], bool], most: int = 2_000) -> tuple[Any, str]:
    """The smallest schema and text found that fail still."""
    for _ in range(most):
        for less in smaller(schema):
            if isinstance(less, dict) and fails(less, text):
                schema = less
                break
        else:
            for shorter in _shorter(text):
                if fails(schema, shorter):
                    text = shorter
                    break
            else:
                break
    return schema, text


def _shorter(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except ValueError:
        return
    if (plain := json.dumps(value, ensure_ascii=False)) != text and len(plain) < len(text):
        yield plain
    for less in smaller(value):
        yield json.dumps(less, ensure_ascii=False)

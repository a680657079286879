"""A model that does what a short prompt asks, as far as its parameters let it: the model behind the stand-ins.

It knows one request, ``Answer with ... : WORD`` or ``"WORD"``, JSON that fits a schema, stories and long lists. A token
is four characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHARACTERS = 4
"""Of a token."""
HOTTEST = 2
"""The highest temperature that it takes."""
LONG = 40_000
"""The words of an answer that should be long."""


@dataclass(frozen=True)
class Reply:
    """The text of an answer, or why there is none; whether the limit of tokens has cut it; the tokens."""

    text: str | None
    error: str | None = None
    cut: bool = False
    tokens_in: int = 0
    tokens_out: int = 0


def reply(prompt: str, schema: Mapping[str, Any] | None, temperature: float | None, max_tokens: int) -> Reply:
    """Answer a prompt. ``schema`` is a JSON Schema, in Gemini's spelling too."""
    if temperature is not None and not 0 <= temperature <= HOTTEST:
        return Reply(None, f"400: invalid parameter: temperature must be from 0 to {HOTTEST}")
    quoted = re.search(r': (\w+)$|"(\w+)"|about an? (\w+)', prompt)
    word = next(filter(None, quoted.groups()), "") if quoted else ""
    if schema is not None:
        text = json.dumps(_value(schema, word))
    else:
        text = " ".join(f"line {n}" for n in range(LONG)) if "numbers" in prompt else word
    most = max_tokens * CHARACTERS
    counted = -(-min(len(text), most) // CHARACTERS)
    return Reply(text[:most], None, len(text) > most, -(-len(prompt) // CHARACTERS), counted)


def _value(schema: Mapping[str, Any], word: str) -> Any:
    kind = schema.get("type")
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    if "enum" in schema:
        return word if word in schema["enum"] else schema["enum"][0]
    match kind:
        case "object":
            return {name: _named(name, part, word) for name, part in schema["properties"].items()}
        case "array":
            return [_value(schema["items"], word)]
        case "integer" | "number":
            return 7
        case "boolean":
            return True
    return word


def _named(name: str, schema: Mapping[str, Any], word: str) -> Any:
    return " ".join([word] * 500) if name == "story" else _value(schema, word)

"""The messages of a conversation that stand before each prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
SEPARATOR = "\x1e"
"""RECORD SEPARATOR: it ends the system message that a row has of its own, and its prompt follows.

Hashes cover both and tables hold both as one text. The system message never has this character, a prompt may have it.
"""
_NAMED = {USER: "User: ", ASSISTANT: "Assistant: "}
_EMPTY_LINE = "\n\n"


class Turn(NamedTuple):
    """One message: who speaks, and the text."""

    role: str
    content: str | None
    """The same for all rows; None: each row has its own, before the SEPARATOR of its text."""


ROW_SYSTEM = Turn(SYSTEM, None)
"""A system message that differs by row."""


def as_messages(turns: Sequence[Turn]) -> list[dict[str, str | None]]:
    """Return turns as chat completions take them; the content of a row's own is None."""
    return [turn._asdict() for turn in turns]


def split_system(turns: Sequence[Turn], text: str) -> tuple[str, str]:
    """Return the system message that a row has of its own, and its prompt. Without one the message is ""."""
    if ROW_SYSTEM not in turns or SEPARATOR not in text:
        return "", text
    system, _, prompt = text.partition(SEPARATOR)
    return system, prompt


def shown_text(turns: Sequence[Turn], text: str) -> str:
    """Return the text of a row for a person to read: its own system message, where it has one, under its name."""
    system, prompt = split_system(turns, text)
    return f"System: {system}{_EMPTY_LINE}{prompt}" if system else prompt


def text_before(turns: Sequence[Turn]) -> str:
    """Return the constant text before a prompt where a vendor's function takes one text alone; "" without turns.

    The system's text comes first, without a name. Examples follow as ``User: ...`` and ``Assistant: ...``, and the
    prompt is then the next ``User: ``. An empty line separates them. What a row has of its own is left out.
    """
    parts = [_NAMED.get(turn.role, "") + turn.content for turn in turns if turn.content is not None]
    last = _NAMED[USER] if any(turn.role == ASSISTANT for turn in turns) else ""
    return "".join(part + _EMPTY_LINE for part in parts) + last


def text_after_system(turns: Sequence[Turn]) -> str:
    """Return the constant text between the system message that a row has of its own and its prompt."""
    return _EMPTY_LINE + text_before(turns)


def sent_text(turns: Sequence[Turn], text: str) -> str:
    """Return all of a request as one text, as a vendor's function gets it, without the hint."""
    system, prompt = split_system(turns, text)
    return (system + text_after_system(turns) if system else text_before(turns)) + prompt

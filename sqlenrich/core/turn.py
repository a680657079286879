"""The messages of a conversation that stand before each prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
_NAMED = {USER: "User: ", ASSISTANT: "Assistant: "}


class Turn(NamedTuple):
    """One message: who speaks, and the text. It is the same for all rows."""

    role: str
    content: str


def as_messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Give turns as chat completions take them."""
    return [turn._asdict() for turn in turns]


def text_before(turns: Sequence[Turn]) -> str:
    """Give the text that stands before a prompt where a vendor's function takes one text alone; "" without turns.

    The system's text comes first, without a name. Examples follow as ``User: ...`` and ``Assistant: ...``, and the
    prompt is then the next ``User: ``. An empty line separates them.
    """
    parts = [_NAMED.get(turn.role, "") + turn.content for turn in turns]
    last = _NAMED[USER] if any(turn.role == ASSISTANT for turn in turns) else ""
    return "".join(part + "\n\n" for part in parts) + last

"""``system`` and ``messages`` of a header: what the model is told first. Only ``system`` may read a row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import PromptError
from sqlenrich.core.turn import ASSISTANT, ROW_SYSTEM, SYSTEM, USER, Turn
from sqlenrich.core.types import Type
from sqlenrich.prompt import compile_prompt, render_prompt

Problem = tuple[str, tuple[str, ...]]
"""A message, and the keys under which its cause stands."""


def read_turns(
    header: Mapping[str, Any], constants: Mapping[str, Any], columns: Mapping[str, Type], folder: Path | None
) -> tuple[tuple[Turn, ...], list[Problem]]:
    """Return the messages of a header, their templates rendered with constants, and its problems.

    ``columns`` are the declared types of the source's columns. A ``system`` that reads columns is ROW_SYSTEM.
    """
    turns: list[Turn] = []
    problems: list[Problem] = []
    written: list[tuple[str, Any, tuple[str, ...]]] = []
    system, messages = header.get("system"), header.get("messages", [])
    if isinstance(system, str) and system.strip():
        written.append((SYSTEM, system, ("system",)))
    elif system is not None:
        problems.append((f"system must be a text, not {system!r}", ("system",)))
    if not isinstance(messages, list):
        problems.append((f"messages must be a list of {{role: ..., content: ...}}, not {messages!r}", ("messages",)))
        messages = []
    for number, one in enumerate(messages):
        place, role = ("messages", str(number)), (USER, ASSISTANT)[number % 2]
        if not isinstance(one, dict) or one.keys() != {"role", "content"} or not isinstance(one["content"], str):
            problems.append((f"a message must be {{role: {role}, content: TEXT}}", place))
        elif one["role"] != role:
            text = f'role must be {role}, not "{one["role"]}": the messages of user and assistant take turns'
            problems.append((text, place))
        else:
            written.append((role, one["content"], (*place, "content")))
    if len(messages) % 2:
        problems.append(("messages must end with the assistant's: the prompt is the user's next one", ("messages",)))
    for role, template, path in written:
        try:
            read = compile_prompt(template, columns=columns, vars=constants, folder=folder).columns
            if read and role == SYSTEM:
                turns.append(ROW_SYSTEM)
            elif read:
                text = f'{path[0]} is the same for all rows: write "{read[0]}" into the prompt, or into vars'
                problems.append((text, path))
            else:
                turns.append(Turn(role, render_prompt(template.removesuffix("\n"), {}, constants, folder)))
        except PromptError as error:
            problems.append((str(error), path))
    return tuple(turns), problems

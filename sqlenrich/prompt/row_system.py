"""A prompt with a system message that differs by row: both are one text, and the separator between them splits it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.turn import SEPARATOR
from sqlenrich.core.types import STRING
from sqlenrich.prompt.compile import Prompt
from sqlenrich.prompt.ir.nodes import Concat, Const, Expr, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptWithSystem(Prompt):
    """A compiled template of the system message and one of the prompt, as one text expression."""

    system: Prompt
    own: Prompt
    """The prompt alone."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of the prompt: a row's system message alone asks nothing."""
        return self.own.columns or self.columns

    @property
    def printed(self) -> Expr:
        """Both texts as their templates print them."""
        return Concat((self.system.expr, self.own.expr))


def with_system(system: Prompt, prompt: Prompt) -> PromptWithSystem:
    """Return the text of a row's request: its system message, the separator and its prompt.

    The message loses the blanks around it, and each separator in it: the first separator of the text is the one that
    splits it. A message of blanks alone is empty.
    """
    message = Op("replace", (system.expr, Const(SEPARATOR), Const("")), STRING)
    stripped = Op("trim", (message, Const(BLANK)), STRING)
    return PromptWithSystem(
        Concat((stripped, Const(SEPARATOR), prompt.expr)),
        tuple(dict.fromkeys((*prompt.columns, *system.columns))),
        {value: line for value, line in prompt.lines.items() if value not in system.lines},
        system=system,
        own=prompt,
    )

"""What ``sqlenrich forget`` deleted, and what stays."""

from __future__ import annotations

from dataclasses import dataclass

from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result

FORGOTTEN_LEVEL = "(forgotten)"
"""What stands for the levels of profiles that go: the counts stay."""


@dataclass(frozen=True, repr=False)
class Forgotten(Result):
    """What was deleted, and what stays."""

    name: str
    output: str
    rows: int
    answers: int
    shared: int
    """Requests of forgotten rows that other rows have too: their answers stay."""
    orphans: int
    """Answers that stay though no row has them any more: of an earlier input or prompt."""
    files: tuple[str, ...] = ()
    """The output files that were written again."""
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def to_text(self) -> str:
        """Return the facts for a terminal."""
        done = "to forget" if self.dry_run else "forgotten"
        lines = [f"{counted(self.rows, 'row')} and {counted(self.answers, 'answer')} of {self.name} {done}"]
        if self.shared:
            what = counted(self.shared, "request")
            lines.append(f"{what} stays with its answers: other rows have the same text" if self.shared == 1 else
                         f"{what} stay with their answers: other rows have the same text")  # fmt: skip
        if self.orphans:
            lines.append(
                f"{counted(self.orphans, 'answer')} of rows that an earlier input or prompt had cannot be told apart: "
                "--before DAY forgets them"
            )
        lines += [f"  -> {file}" for file in ((self.output,) if self.rows or self.answers else ())]
        lines += [f"  -> {file}" for file in self.files if file != self.output]
        return "\n".join([*lines, *self.notes])

"""The one exception of the GoogleSQL oracle."""

from __future__ import annotations


class GoogleSQLError(Exception):
    """SQL that the analyzer or the evaluator refuses.

    `line` and `column` count from 1 in the text that was given (columns in characters); None
    where the engine names no place.
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        place = "" if line is None else f" [at {line}:{column}]"
        super().__init__(message + place)
        self.message = message
        self.line = line
        self.column = column

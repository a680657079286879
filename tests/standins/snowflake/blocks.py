"""Snowflake Scripting as far as a script's loop needs it: variables, LOOP, IF, BREAK, assignments, statements.

https://docs.snowflake.com/en/developer-guide/snowflake-scripting/index, from memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot.dialects.snowflake import Snowflake
from sqlglot.tokenizer_core import TokenType

from tests.standins.snowflake.values import SnowflakeError

Run = Callable[[str], None]
"""Runs a statement."""
Value = Callable[[str], Any]
"""Gives the value of an expression or of a query in parentheses."""
IMMEDIATE = re.compile(r"(?:^--[^\n]*\n)?^EXECUTE IMMEDIATE \$\$\n(.*?)\n\$\$\s*;?", re.DOTALL | re.MULTILINE)


class _BreakError(Exception):
    """BREAK inside of a loop."""


class Block:
    """One block, run as it is read: each part knows where it ends."""

    def __init__(self, text: str, run: Run, value: Value) -> None:
        self.text, self.run_sql, self.value_of = text, run, value
        self.tokens = Snowflake().tokenize(text)
        self.variables: dict[str, Any] = {}

    def run(self) -> None:
        """Run the block."""
        at = self._expect(0, "DECLARE")
        while self._word(at) != "BEGIN":
            end = self._semicolon(at)
            words = [token.text.upper() for token in self.tokens[at:end]]
            self.variables[words[0]] = self.value_of(self._bound(at + 3, end)) if words[2:3] == ["DEFAULT"] else None
            at = end + 1
        end = self._statements(at + 1, live=True)
        self._expect(end, "END")

    def _statements(self, at: int, *, live: bool) -> int:
        while self._word(at) not in ("END", "ELSEIF", "ELSE"):
            at = self._statement(at, live=live)
        return at

    def _statement(self, at: int, *, live: bool) -> int:
        word = self._word(at)
        if word == "LOOP":
            return self._loop(at, live=live)
        if word == "IF":
            return self._if(at, live=live)
        end = self._semicolon(at)
        if not live:
            return end + 1
        if word == "BREAK":
            raise _BreakError
        if word in self.variables and self.tokens[at + 1].token_type == TokenType.COLON_EQ:
            self.variables[word] = self.value_of(self._bound(at + 2, end, bare=True))
        else:
            self.run_sql(self._bound(at, end))
        return end + 1

    def _loop(self, at: int, *, live: bool) -> int:
        end = self._statements(at + 1, live=False)
        try:
            while live:
                self._statements(at + 1, live=True)
        except _BreakError:
            pass
        return self._closed(end, "LOOP")

    def _if(self, at: int, *, live: bool) -> int:
        while self._word(at) in ("IF", "ELSEIF"):
            then = at + 1
            while self._word(then) != "THEN":
                then += 1
            chosen = live and self.value_of(self._bound(at + 1, then, bare=True)) is True
            at = self._statements(then + 1, live=chosen)
            live = live and not chosen
        if self._word(at) == "ELSE":
            at = self._statements(at + 1, live=live)
        return self._closed(at, "IF")

    def _closed(self, at: int, word: str) -> int:
        return self._semicolon(self._expect(self._expect(at, "END"), word)) + 1

    def _expect(self, at: int, word: str) -> int:
        if self._word(at) != word:
            raise SnowflakeError(f"scripting: {word} expected, not {self._word(at)}")
        return at + 1

    def _word(self, at: int) -> str:
        return str(self.tokens[at].text).upper() if at < len(self.tokens) else ""

    def _semicolon(self, at: int) -> int:
        while at < len(self.tokens) and self.tokens[at].token_type != TokenType.SEMICOLON:
            at += 1
        return at

    def _bound(self, start: int, end: int, *, bare: bool = False) -> str:
        """The text between two tokens with the variables' values: ``:name``, and in scripting's own places ``name``."""
        made, at = "", self.tokens[start].start
        for place in range(start, end):
            token, before = self.tokens[place], self.tokens[place - 1]
            colon = before.token_type == TokenType.COLON and before.end + 1 == token.start
            if token.token_type != TokenType.VAR or token.text.upper() not in self.variables or not (colon or bare):
                continue
            value = self.variables[token.text.upper()]
            written = "NULL" if value is None else str(value) if not isinstance(value, str) else _text(value)
            made += self.text[at : (before.start if colon else token.start)] + written
            at = token.end + 1
        return made + self.text[at : self.tokens[end - 1].end + 1]


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

"""Everything that sqlenrich raises.

::

    SqlenrichError            catch this one to catch them all
    ├── SpecError             an enrichment file is wrong; lists every problem with its place
    ├── PromptError           a template can't be compiled, or fails for a row
    ├── UnsupportedError      an engine can't do what the enrichment asks for
    ├── ConfigError           sqlenrich.toml, a target, an endpoint or a setting is wrong or missing
    └── RunError              a run could not start or go on; the answers so far are stored

A bad model answer is never an exception: it is a row in the quarantine table, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches


class SqlenrichError(Exception):
    """The base class. The message says what is wrong, where, and what to do next."""


@contextmanager
def raising_first(failure: BaseException | None) -> Iterator[None]:
    """Raise a failure after what is left to be done; what fails then has the same cause, and is not told."""
    try:
        yield
    except SqlenrichError as error:
        raise (failure or error) from None
    if failure is not None:
        raise failure


class SpecError(SqlenrichError):
    """An enrichment file is wrong: ``problems`` has one line for each problem, with its place."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        lines = [f"{source}: {problem}" for problem in self.problems]
        super().__init__("\n".join(lines))


class PromptError(SqlenrichError):
    """A template can't be compiled, or it fails for a row: the message names the line and the column.

    ``problems`` has an error for each problem that was found, this one first.
    """

    def __init__(
        self, message: str, *, source: str = "prompt", line: int | None = None, column: int | None = None
    ) -> None:
        self.message = message
        self.source = source
        self.line = line
        self.column = column
        self.syntax = False
        """Whether the template is no Jinja, whatever its columns are."""
        place = ":".join(str(part) for part in (source, line, column) if part is not None)
        self.problems: tuple[PromptError, ...] = (self,)
        super().__init__(f"{place}: {message}")

    def described(self, file: str) -> str:
        """Return the problem as a line in a list of the problems of ``file``."""
        if self.source != file:
            return str(self)
        column = "" if self.column is None else f", column {self.column}"
        return self.message if self.line is None else f"line {self.line}{column}: {self.message}"

    @classmethod
    def of(cls, problems: Sequence[PromptError]) -> PromptError:
        """Return one error for several problems, with the lines of each."""
        first = problems[0]
        first.problems = tuple(problems)
        first.args = ("\n".join(str(problem) for problem in problems),)
        return first


class UnsupportedError(SqlenrichError):
    """An engine can't do something: its name, the feature, and what to do instead."""

    def __init__(self, engine: str, feature: str, instead: str) -> None:
        self.engine = engine
        self.feature = feature
        self.instead = instead
        super().__init__(f"{engine}: {feature}; {instead}")


class ConfigError(SqlenrichError):
    """A setting is wrong or missing."""


class RunError(SqlenrichError):
    """A run could not start or go on. The answers so far are stored: a new run continues."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (known_name?)`` for the nearest known name, else an empty text."""
    originals = {k.lower(): k for k in known}
    near = get_close_matches(name.lower(), originals, n=1, cutoff=0.6)
    return f" ({originals[near[0]]}?)" if near else ""

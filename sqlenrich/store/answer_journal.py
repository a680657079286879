"""The journal beside a DuckDB database: answers that may not be in its tables yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlenrich.core.errors import RunError
from sqlenrich.core.plurals import counted
from sqlenrich.spark.journal import Journal

TABLE = "gateway_responses"
"""The table into which its answers are written."""
ADVICE = "free space there; what is answered is not paid again"
BUSY = "another gateway has these answers ({path}): end it first"


def journal_path(database: Path) -> Path:
    """Return the file of the journal beside a database."""
    return database.with_name(f"{database.name}.journal")


def journal_of(database: Path) -> Journal:
    """Return the journal beside a database; nothing is opened yet."""
    return Journal(journal_path(database), ADVICE, busy=BUSY)


@contextmanager
def without_journal(database: Path, known: Callable[[], set[tuple[str, int]]]) -> Iterator[None]:
    """Remove the journal beside a database at the end of the context, unless it fails: the tables have its answers.

    ``known`` gives the requests and attempts of the tables. Raises RunError where a gateway has the journal, or where
    the tables lack some of its answers.
    """
    path = journal_path(database)
    if not path.exists():
        yield
        return
    with journal_of(database) as journal:
        found = known()
        lacking = sum((row["request_hash"], row["attempt"]) not in found for row in journal.rows())
        if lacking:
            raise RunError(
                f"{path} has {counted(lacking, 'answer')} of a gateway that was killed, not in the tables yet: start "
                f"the gateway with --output {database} once, end it, then run this again"
            )
        yield
        journal.clear()

"""The root of the commands, and the exit statuses that they share."""

from __future__ import annotations

import click

from sqlenrich.core.errors import RunError, SqlenrichError
from sqlenrich.core.exit_status import EXIT_ERROR, EXIT_USAGE
from sqlenrich.core.version import __version__

EXIT_STALE = 3
"""The exit status of a check that found a difference."""


def status_of(error: SqlenrichError) -> int:
    """Return the exit status of an error: of what was given, or at work."""
    return EXIT_ERROR if isinstance(error, RunError) else EXIT_USAGE


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="sqlenrich")
def cli() -> None:
    """Run a language model over every row of a table, where the data already lives."""

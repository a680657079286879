"""The root of the commands, and the exit statuses that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from sqlenrich.core.errors import RunError, SqlenrichError
from sqlenrich.core.exit_status import EXIT_ERROR, EXIT_USAGE
from sqlenrich.core.version import __version__

EXIT_STALE = 3
"""The exit status of a check that found a difference."""


def status_of(error: SqlenrichError) -> int:
    """Return the exit status of an error: of what was given, or at work."""
    return EXIT_ERROR if isinstance(error, RunError) else EXIT_USAGE


SECTIONS: Mapping[str, Sequence[str]] = {
    "Write an enrichment": ("new", "templates", "check", "preview", "schema"),
    "Run it": ("plan", "run", "retry", "batches", "gateway", "tune"),
    "See what came of it": ("show", "export", "usage", "audit", "forget"),
    "Judge the answers": ("report", "evaluate", "compare", "drift", "review", "distill"),
    "Warehouses and dbt": ("render", "dbt", "probe", "engines"),
    "This installation": ("doctor", "completion"),
}
"""The commands as the help lists them."""


class Sections(click.Group):
    """A group whose help lists its commands in :data:`SECTIONS`."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with its first sentence."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        for title, names in SECTIONS.items():
            shown = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in shown])


@click.group(cls=Sections, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="sqlenrich")
def cli() -> None:
    """Run a language model over every row of a table, where the data already lives."""

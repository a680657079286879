"""The command line: runs a command, and turns its errors into one line and an exit status."""

from __future__ import annotations

import io
import os
import sys
from typing import NoReturn

import click

from sqlenrich.cli.commands import file, gateway, quality, run, warehouse  # noqa: F401  each registers its commands
from sqlenrich.cli.root import cli, status_of
from sqlenrich.core.errors import SqlenrichError
from sqlenrich.core.exit_status import EXIT_ERROR, EXIT_STOPPED, EXIT_USAGE


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a console of cp1252 has no σ: it gets a question mark
            stream.reconfigure(errors="replace")
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort as error:
        if isinstance(error.__cause__, EOFError):  # click takes each for a closed terminal
            click.echo(f"Error: a file ends too early: {error.__cause__}", err=True)
            sys.exit(EXIT_ERROR)
        click.echo("stopped", err=True)
        sys.exit(EXIT_STOPPED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except SqlenrichError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(status_of(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)
    except OSError as error:
        click.echo(f"Error: {error.filename or 'the output'}: {error.strerror or error}", err=True)
        sys.exit(EXIT_ERROR)
    sys.exit(status or 0)


__all__ = ["cli", "main"]

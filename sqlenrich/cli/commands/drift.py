"""The command ``drift``."""

from __future__ import annotations

from typing import Any

import click

import sqlenrich as se
from sqlenrich.cli import terminal
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import json_option, stored_place_options
from sqlenrich.cli.root import cli


@cli.command(epilog=EXAMPLES["drift"])
@click.argument("file")
@click.option("--accept", metavar="RUN", help="Compare later runs with this one and those after it alone.")
@stored_place_options
@json_option("comparison")
def drift(file: str, as_json: bool, **options: Any) -> int:
    """Compare the newest run's answers with earlier runs.

    Asks nothing. Shows per field how many rows of 100 changed their value, and by how many σ that is more than chance
    and the usual variation explain. The status is 3 for an alarm.
    """
    found = se.drift(se.load(file), **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=120)))
    return found.exit_status

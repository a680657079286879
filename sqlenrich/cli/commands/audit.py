"""``sqlenrich audit``: what was asked and answered, rebuilt and checked."""

from __future__ import annotations

from typing import Any

import click

import sqlenrich as se
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import json_option, parse_pairs, stored_place_options
from sqlenrich.cli.root import cli


@cli.command(epilog=EXAMPLES["audit"])
@click.argument("file")
@stored_place_options
@click.option(
    "--row",
    metavar="COLUMN=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="The trail of one row, by its key; once for each column of the key.",
)
@json_option("audit")
def audit(file: str, row: dict[str, str], as_json: bool, **options: Any) -> int:
    """Show what was asked and answered for a row, or check all rows.

    Rebuilds each request from what the run stored, reads each value again from its answer, and compares counts, tokens
    and cost with the ledger. Exit status 3 where something does not hold.
    """
    found = se.audit(se.load(file), row=row or None, **options)
    click.echo(found.to_json() if as_json else found.to_text())
    return found.exit_status

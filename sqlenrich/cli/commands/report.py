"""The command report: what is known of a table of answers."""

from __future__ import annotations

from typing import Any

import click

import sqlenrich as se
from sqlenrich.cli import terminal
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import json_option, prices_option, stored_place_options
from sqlenrich.cli.root import cli


@cli.command(epilog=EXAMPLES["report"])
@click.argument("file")
@stored_place_options
@click.option("--page", metavar="PATH", help="Write one HTML page that works offline.")
@click.option("--rows", default=500, show_default=True, type=click.IntRange(0, 5000), help="The page's sampled rows.")
@click.option("--no-rows", "with_rows", is_flag=True, flag_value=False, default=True, help="No text of any row.")
@prices_option
@json_option("report")
def report(file: str, page: str | None, as_json: bool, **options: Any) -> None:
    """Show what is known of the answers: runs, refusals, cost, accuracy, reviews.

    What is not measured says which command measures it. Asks no model.
    """
    found = se.report(se.load(file), page=page, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=160)))
    if page is not None:
        click.echo(f"  -> {page}", err=True)

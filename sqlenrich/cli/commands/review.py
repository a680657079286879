"""The command review: people judge a sample of the answers."""

from __future__ import annotations

from typing import Any

import click

import sqlenrich as se
from sqlenrich.cli import terminal
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import input_option, json_option, parse_names, stored_place_options
from sqlenrich.cli.root import cli


@cli.command(epilog=EXAMPLES["review"])
@click.argument("file")
@stored_place_options
@click.option("--sheet", metavar="PATH", help="Write what reviewers fill in: review.html (offline), or review.csv.")
@click.option(
    "--reviewers", metavar="A,B", callback=parse_names, help="A sheet each; a fifth of the rows is everybody's."
)
@click.option(
    "--rows", metavar="N", type=click.IntRange(1), help="How many answers. Default: the header's review.share."
)
@click.option("--run", metavar="ID", help="Only the rows of this run; last: of the newest one.")
@click.option("--seed", default=0, show_default=True, type=int, help="Each seed draws another sample.")
@click.option("--read", metavar="PATH", multiple=True, help="A file that a reviewer saved; may be repeated.")
@click.option("--truth", metavar="PATH", help="Append the judged rows of --input to this CSV of right values.")
@input_option
@json_option("review")
def review(file: str, input_: str | None, reviewers: tuple[str, ...] | None, as_json: bool, **options: Any) -> None:
    """Let people judge a sample of the answers.

    Writes sheets, reads them back, and prints which share of the whole table is wrong. Asks no model.
    """
    found = se.review(se.load(file), input=input_, reviewers=reviewers or (), **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=120)))

"""``sqlenrich forget``: the texts of rows are deleted."""

from __future__ import annotations

from typing import Any

import click

import sqlenrich as se
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import json_option, parse_pairs, place_options, spark_option
from sqlenrich.cli.root import cli


@cli.command(epilog=EXAMPLES["forget"])
@click.argument("file")
@click.option(
    "--output",
    metavar="PATH",
    multiple=True,
    help="What a run wrote: a .duckdb database, its files; may be repeated. A warehouse's schema.",
)
@click.option(
    "--row",
    metavar="COLUMN=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="The rows of a key; once for each column of the key.",
)
@click.option("--where", metavar="SQL", help="The rows that meet a condition in the SQL of the place.")
@click.option("--before", metavar="DAY", help="The rows and answers whose last answer came before this day (UTC).")
@click.option("--dry-run", is_flag=True, help="Only count what would be forgotten.")
@place_options
@spark_option
@json_option("result")
def forget(file: str, output: tuple[str, ...], row: dict[str, str], as_json: bool, **options: Any) -> None:
    """Delete the texts of rows: prompts, kept columns, answers.

    From all tables of the database and from the files that its runs wrote. An answer that other rows share stays. The
    input is not changed.
    """
    found = se.forget(se.load(file), output=output or None, row=row or None, **options)
    click.echo(found.to_json() if as_json else found.to_text())

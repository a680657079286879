"""Commands for warehouses, dbt and endpoints: render, dbt, probe, usage, batches, tune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import sqlenrich as se
from sqlenrich.cli import terminal
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import (
    json_option,
    model_option,
    place_options,
    prices_option,
    spark_option,
    stored_place_options,
    yes_option,
)
from sqlenrich.cli.root import EXIT_STALE, cli
from sqlenrich.core.function_modes import FUNCTIONS


@cli.command(epilog=EXAMPLES["render"])
@click.argument("file")
@click.option("--engine", metavar="E", help="databricks, snowflake, bigquery, spark, duckdb or another installed one.")
@click.option("--target", metavar="NAME", help="A target of sqlenrich.toml: its engine and its tables.")
@click.option("--step", metavar="NAME", help="Only the SELECT of one step.")
@model_option
@click.option("--retry", is_flag=True, help="The script that asks refused rows again.")
@click.option("--reason", "reasons", metavar="CODE", multiple=True, help="With --retry: only rows refused for this.")
@click.option("--where", metavar="SQL", help="With --retry: accepted rows too that meet this, each once of a model.")
@click.option("--max-attempts", metavar="N", type=click.IntRange(1), help="With --retry: how often a request is asked.")
@click.option("--preflight/--no-preflight", default=True, help="Ask 3 requests first, in the engine's scripting.")
@click.option("--chunks", metavar="N", type=click.IntRange(1), help="Ask 3 requests, then the others in N parts.")
@click.option("--max-requests", metavar="N", type=click.IntRange(1), help="Ask at most N requests.")
@click.option(
    "--functions",
    type=click.Choice(FUNCTIONS),
    help="Where repeated expressions stand: inline, in functions of the session (default), or in installed ones.",
)
@click.option("--quality", is_flag=True, help="Then profile, drift, a sample to judge and accuracy, as statements.")
@click.option("--reread", is_flag=True, help="The script that reads stored answers again and asks nothing.")
@click.option("-o", "out", metavar="PATH", type=click.Path(dir_okay=False), help="Write to a file.")
def render(file: str, engine: str | None, target: str | None, out: str | None, **options: Any) -> None:
    """Print the SQL script for a warehouse."""
    from sqlenrich.plan.relations import RELATIONS
    from sqlenrich.spec.settings import find_config

    enrichment = se.load(file)
    config = find_config(enrichment.path)
    if (engine is None) == (target is None):
        raise click.UsageError("give --engine E or --target NAME")
    if target is not None:
        place = config.target(target)
        engine, options["relations"] = place.engine, place.relations(RELATIONS, enrichment.name)
        enrichment = enrichment.with_refs(lambda name: place.relations(RELATIONS, name)["enriched"])
    script = se.render(enrichment, engine=str(engine), config=config, **options)
    if out is None:
        click.echo(script, nl=False)
    else:
        Path(out).write_text(script, encoding="utf-8")


@cli.command(epilog=EXAMPLES["dbt"])
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--project", metavar="DIR", default=".", help="The folder of a dbt project, or one below it.")
@click.option("--source", metavar="NAME", help="What the prompts read: a model, or a source as schema.table.")
@click.option("--latest", metavar="N", type=click.IntRange(1), help="The version that an unpinned ref gives.")
@click.option(
    "--engine", "engines", metavar="E", multiple=True, help="Write the SQL of this engine; may repeat. Or: all."
)
@click.option("--check", is_flag=True, help="Write nothing; print what differs.")
def dbt(files: tuple[str, ...], check: bool, **options: Any) -> int:
    """Write enrichments into a dbt project.

    Models, macros and tests that dbt builds without this command.
    """
    written = se.write_dbt([se.load(file) for file in files], check=check, **options)
    for note in written.notes:
        click.echo(note, err=True)
    if written.left:
        click.echo(f"the prompt file is gone, so delete: {', '.join(written.left)}", err=True)
    if check:
        if written.changed:
            click.echo(written.diff)
            click.echo(f"{len(written.changed)} of {len(written.files)} files differ", err=True)
        return EXIT_STALE if written.changed or written.left else 0
    count = f"{len(written.changed)} of {len(written.files)} files"
    click.echo(f"wrote {count} in {written.project}; next: dbt deps && dbt build", err=True)
    return 0


@cli.command(epilog=EXAMPLES["probe"])
@place_options
@model_option
@click.option("--calls/--no-calls", default=True, help="Ask the model a few requests, at most 20.")
@yes_option
@json_option("findings")
def probe(yes: bool, as_json: bool, **options: Any) -> int:
    """Check the facts about a vendor against a warehouse.

    Exit status 3 for a difference. Writes nothing.
    """
    from sqlenrich.cli.progress import Progress

    with Progress.of_command(yes=yes) as progress:
        found = se.probe(observer=progress, **options)
    click.echo(found.to_json() if as_json else found.to_text(terminal.width(most=160)))
    return found.exit_status


@cli.command(epilog=EXAMPLES["usage"])
@place_options
@spark_option
@click.option("--output", metavar="PATH", help="What runs wrote: a .duckdb, a file; a warehouse's schema.")
@click.option("--run", metavar="ID", help="Only this run. Default: the last 20.")
@prices_option
@json_option("usage")
def usage(as_json: bool, **options: Any) -> None:
    """Show what runs took: answers, tokens and cost.

    They are those of the stored answers. On a warehouse the vendor's own records stand beside them. Asks no model.
    """
    found = se.usage(**options)
    click.echo(found.to_json() if as_json else found.to_text())


@cli.command(epilog=EXAMPLES["batches"])
@stored_place_options
@click.option("--cancel", metavar="KEY|all", help="Ask the vendor to end this batch, or every open one.")
@click.option("--endpoint", metavar="URL", help="Where a batch to cancel is. Default: the endpoint with its URL.")
@json_option("batches")
def batches(as_json: bool, **options: Any) -> None:
    """Show the batches whose answers go to an output.

    What was answered before a batch is cancelled is paid for: run FILE --batch collects it.
    """
    found = se.batches(**options)
    click.echo(found.to_json() if as_json else found.to_text())


@cli.command()
@click.option("--endpoint", metavar="URL", required=True, help="A URL, or an endpoint of sqlenrich.toml.")
@click.option("--model", metavar="M", help="The model's own name, where the endpoint has several.")
@click.option("--write/--no-write", default=True, help="Write it to sqlenrich.toml, if it names the endpoint.")
@json_option("widths")
def tune(endpoint: str, as_json: bool, **options: Any) -> None:
    """Find how many requests in flight an endpoint works on best.

    Doubles them until the rate of answers no longer grows. Sends short requests, some seconds for each width.
    """
    from sqlenrich.cli.progress import Progress

    with Progress.of_command(yes=True) as progress:
        found = se.tune(endpoint, observer=progress, **options)
    click.echo(found.to_json() if as_json else found.to_text())

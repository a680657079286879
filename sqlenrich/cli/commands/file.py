"""Commands about prompt files and the installation: new, templates, check, engines, completion."""

from __future__ import annotations

from typing import Any

import click

import sqlenrich as se
from sqlenrich.cli.examples import EXAMPLES
from sqlenrich.cli.options import encoding_option, json_option, model_option
from sqlenrich.cli.root import cli
from sqlenrich.core.exit_status import EXIT_USAGE


@cli.command(epilog=EXAMPLES["new"])
@click.argument("name")
@click.option("--template", metavar="T", help="Start from a ready-made enrichment: see sqlenrich templates.")
@click.option("--sample", is_flag=True, help="With --template: also write its labelled rows, as NAME.csv.")
@click.option("--from", "data", metavar="INPUT", help="Take columns and key from data: all that run --input takes.")
@encoding_option
@click.option("--force", is_flag=True, help="Replace an existing file.")
def new(name: str, **options: Any) -> None:
    """Write a commented prompt file NAME.prompt."""
    from sqlenrich.cli.new import new as write

    click.echo(write(name, **options))


@cli.command()
def templates() -> None:
    """List the ready-made enrichments.

    A template's name works wherever FILE does.
    """
    from sqlenrich.spec.loader import templates as ready_made

    for name, path in ready_made().items():
        click.echo(f"{name:<20}{se.load(path).description}")


@cli.command(epilog=EXAMPLES["check"])
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@model_option
@click.option("--engine", "engines", metavar="E", multiple=True, help="Check for this engine alone; may be repeated.")
@click.option("--response-format", "engine", metavar="ENGINE", help="Print the part of the schema that its model gets.")
def check(files: tuple[str, ...], model: str | None, engines: tuple[str, ...], engine: str | None) -> int:
    """Report the problems of prompt files.

    Also reports what each engine would refuse, and where each setting comes from. Exit status 2 if no engine can use
    a file; with --engine, if one of these can't.
    """
    from sqlenrich.cli.check import check as examine
    from sqlenrich.cli.check import response_format
    from sqlenrich.plan.relations import check_names

    if engine is not None:
        for file in files:
            click.echo(response_format(file, engine, model=model))
        return 0
    found = [examine(file, model=model, engines=engines) for file in files]
    click.echo("\n".join(one.text for one in found))
    check_names({one.place: one.name for one in found if one.name is not None})
    if len(files) > 1 and all(one.name is not None for one in found):
        from sqlenrich.runner.steps import check_steps

        check_steps([se.load(file) for file in files])
    return 0 if all(one.usable for one in found) else EXIT_USAGE


@cli.command()
def engines() -> None:
    """List the engines."""
    from sqlenrich.engines import engine_names, get_engine

    for name in engine_names():
        click.echo(f"{name:<12}{get_engine(name).facts['call'].value}")


@cli.command(epilog=EXAMPLES["doctor"])
@click.option("--endpoint", metavar="URL", help="Reach this endpoint in place of those of sqlenrich.toml.")
@click.option("--target", metavar="NAME", help="Reach the warehouse of this target too, which may start it.")
@json_option("findings")
def doctor(endpoint: str | None, target: str | None, as_json: bool) -> int:
    """Show what is installed, set and reached, without secrets.

    For a bug report. Exit status 3 if something is wrong. Asks no model and writes nothing.
    """
    from sqlenrich.runner.doctor import doctor as examine

    found = examine(endpoint=endpoint, target=target)
    click.echo(found.to_json() if as_json else found.to_text())
    return found.exit_status


@cli.command(epilog=EXAMPLES["schema"])
@click.argument("of", type=click.Choice(("header", "settings")), default="header")
def schema(of: str) -> None:
    """Print the JSON Schema of headers, or of settings.

    For completion in an editor: of a prompt file's header, or of sqlenrich.toml.
    """
    import json

    from sqlenrich.spec.header import header_schema
    from sqlenrich.spec.settings_schema import settings_schema

    found = header_schema() if of == "header" else settings_schema()
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))


@cli.command(epilog=EXAMPLES["completion"])
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print a shell's script that completes commands and options."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "sqlenrich", "_SQLENRICH_COMPLETE").source())

"""The reference of the command line in Markdown, made from the commands themselves."""

from __future__ import annotations

import inspect
import re

import click

RANGE = re.compile(r"(; )?(?:[\d.]+<=?)?x(?:[<>]=?[\d.]+)?(?=\])|\[(?:[\d.]+<=?)?x(?:[<>]=?[\d.]+)?\]")


def command_reference() -> str:
    """Give a table of all commands, and a section for each."""
    from sqlenrich.cli.main import cli
    from sqlenrich.cli.root import SECTIONS

    context = click.Context(cli, info_name="sqlenrich")
    commands = [(name, cli.commands[name]) for names in SECTIONS.values() for name in names]
    lines = ["| command | |", "| --- | --- |"]
    lines += [f"| [`{name}`](#{name}) | {command.get_short_help_str(200)} |" for name, command in commands]
    sections = [section(command, click.Context(command, parent=context, info_name=name)) for name, command in commands]
    return "\n\n".join(["\n".join(lines), *sections])


def section(command: click.Command, context: click.Context) -> str:
    """Give the section of one command: usage, what it does, options, examples."""
    pieces = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {context.info_name}", f"```text\n{context.command_path} {pieces}\n```", prose(command.help or "")]
    rows = [record for option in command.get_params(context) if (record := option.get_help_record(context))]
    lines = [f"| `{cell(names)}` | {cell(words)} |" for names, words in rows if words and not names.endswith("--help")]
    if lines:
        parts.append("\n".join(["| option | |", "| --- | --- |", *lines]))
    examples = inspect.cleandoc((command.epilog or "").partition("Examples:\n")[2])
    if examples:
        parts.append("```sh\n" + examples + "\n```")
    return "\n\n".join(parts)


def prose(text: str) -> str:
    """Give a help text without what only a terminal needs, and with names such as NAME_quarantine as code."""
    plain = inspect.cleandoc(text).replace("\b\n", "").partition("\f")[0]
    return re.sub(r"(?<![\w`/.])([A-Z]+_\w+|[A-Z]{3,}\.\w+)(?![\w`])", r"`\1`", plain).strip()


def cell(text: str) -> str:
    """Give a text that may stand in a cell of a table, without the range of a number."""
    plain = re.sub(r"(INTEGER|FLOAT) RANGE", "N", RANGE.sub("", text))
    return re.sub(r"\s+", " ", plain).replace("|", "\\|").strip()

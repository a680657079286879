"""The JSON Schema Test Suite of draft 2020-12, run by the reference and by each engine's SQL.

python -m tests.support.schema_suite                                every keyword on every engine, as a table
python -m tests.support.schema_suite --engine duckdb --keyword enum
python -m tests.support.schema_suite --refused                      what is not supported, with its reason
python -m tests.support.schema_suite --markdown                     the tables of docs/schema-suite.md

An answer is an object, so each schema is the required property ``value`` of one, and references to the root of the
document become references to that property.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import click

import sqlenrich as se
from sqlenrich.schema.keywords import FORMATS
from tests.support.checkers import ENGINES, Codes, Sample, checker_of, reference_codes
from tests.support.corpus import CORPORA, NAMES

FOLDER = CORPORA / "json-schema-test-suite"
BATCH = 25
"""Schemas in one query."""
LEFT_OUT = {
    "dynamicRef": "$dynamicRef",
    "vocabulary": "$vocabulary",
    "refRemote": "remote references",
    "anchor": "$anchor",
    "unevaluatedItems": "unevaluatedItems",
    "unevaluatedProperties": "unevaluatedProperties",
}
"""Files for keywords that no answer's schema has, and the keyword of each."""
FOREIGN = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "unevaluatedItems", "unevaluatedProperties")
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords that hold schemas under names that the user chooses."""


@dataclass(frozen=True)
class Group:
    """One schema of the suite and its cases."""

    keyword: str
    description: str
    sample: Sample
    cases: tuple[str, ...]
    valid: tuple[bool, ...]

    def __str__(self) -> str:
        return f"{self.keyword}: {self.description}"


def schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Return every schema in a schema, itself included; values of enum and const are no schemas."""
    if isinstance(schema, Mapping):
        yield schema
        for keyword, value in schema.items():
            if keyword in NAMED and isinstance(value, Mapping):
                for child in value.values():
                    yield from schemas(child)
            elif keyword not in ("enum", "const"):
                yield from schemas(value)
    elif isinstance(schema, list):
        for child in schema:
            yield from schemas(child)


def left_out(schema: Any) -> str | None:
    """Return the keyword for which a schema is left out, or None."""
    for one in schemas(schema):
        for keyword in FOREIGN:
            if isinstance(one.get(keyword), str if keyword.startswith("$") else bool | Mapping):
                return keyword
        if isinstance(one.get("$ref"), str) and not one["$ref"].startswith("#"):
            return "remote references"
    return None


def moved(schema: Any, *, names: bool = False) -> Any:
    """Return a schema with its references to the root changed to the property ``value``."""
    if isinstance(schema, list):
        return [moved(child) for child in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {}
    for key, value in schema.items():
        if key == "$ref" and not names and isinstance(value, str):
            made[key] = f"#/properties/value{value[1:]}"
        elif key in ("enum", "const") and not names:
            made[key] = value
        else:
            made[key] = moved(value, names=key in NAMED and not names)
    return made


def wrapped(schema: Any) -> dict[str, Any]:
    """The schema of an answer with one value."""
    return {"type": "object", "properties": {"value": moved(schema)}, "required": ["value"]}


@cache
def suite() -> tuple[tuple[Group, ...], Counter[str]]:
    """Return the groups of the suite that are used, and the number of cases left out by keyword."""
    groups, counts = [], Counter[str]()
    for file in sorted(FOLDER.glob("*.json")):
        for entry in json.loads(file.read_text(encoding="utf-8")):
            cases = entry["tests"]
            if (foreign := LEFT_OUT.get(file.stem) or left_out(entry["schema"])) is not None:
                counts[foreign] += len(cases)
                continue
            texts = tuple(json.dumps({"value": case["data"]}, ensure_ascii=False) for case in cases)
            sample = Sample(wrapped(entry["schema"]), texts)
            names, valid = (tuple(case[key] for case in cases) for key in ("description", "valid"))
            groups.append(Group(file.stem, entry["description"], sample, names, valid))
    return tuple(groups), counts


def asserted() -> list[Group]:
    """Return the groups of format.json with formats asserted: a case that "is only an annotation" is invalid then."""
    return [
        replace(
            group,
            sample=replace(group.sample, assert_format=True),
            valid=tuple(not case.startswith("invalid ") for case in group.cases),
        )
        for group in suite()[0]
        if group.keyword == "format"
    ]


def format_of(group: Group) -> str:
    """The format that a group of format.json is of."""
    return str(group.sample.schema["properties"]["value"]["format"])


# Results --------------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """The results of some groups by one checker."""

    cases: int = 0
    supported: int = 0
    right: int = 0
    refused: list[tuple[Group, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> Tally:
        """Add another tally."""
        for name in ("cases", "supported", "right", "refused", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


def reason(error: se.SqlenrichError) -> str:
    """A refusal in one line, without its places."""
    text = (
        error.feature if isinstance(error, se.UnsupportedError) else "; ".join(getattr(error, "problems", [str(error)]))
    )
    return re.sub(r" @ [^\s;]+", "", text)


def tally(group: Group, found: Codes) -> Tally:
    """Compare the codes of one group's answers with the suite's results and with the reference's codes."""
    made = Tally(len(group.cases))
    if isinstance(found, Exception):
        if isinstance(found, se.SqlenrichError):
            made.refused.append((group, reason(found)))
        else:
            made.supported = len(group.cases)
            made.wrong.append(f"{group}: {type(found).__name__}: {str(found)[:300]}")
        return made
    reference = reference_codes(group.sample)
    codes = [None] * len(found) if isinstance(reference, Exception) else reference
    made.supported = len(found)
    for case, valid, code, other in zip(group.cases, group.valid, found, codes, strict=True):
        if (code is None) is valid and code == other:
            made.right += 1
        else:
            wanted = "accepted" if valid else "refused"
            made.wrong.append(f"{group}: {case}: {code}, the reference {other}, to be {wanted}")
    return made


def tallies(engine: str, groups: Sequence[Group]) -> list[tuple[Group, Tally]]:
    """The tally of each group by one engine."""
    made: list[tuple[Group, Tally]] = []
    with checker_of(engine) as checker:
        for start in range(0, len(groups), BATCH):
            some = groups[start : start + BATCH]
            found = checker([group.sample for group in some])
            made += [(group, tally(group, codes)) for group, codes in zip(some, found, strict=True)]
    return made


def by_keyword(made: Iterable[tuple[Group, Tally]]) -> dict[str, Tally]:
    """The tally of each keyword."""
    found: dict[str, Tally] = {}
    for group, one in made:
        found.setdefault(group.keyword, Tally()).add(one)
    return found


def total(made: Iterable[tuple[Group, Tally]]) -> Tally:
    """All groups as one."""
    whole = Tally()
    for _, one in made:
        whole.add(one)
    return whole


# Tables ---------------------------------------------------------------------------------------------------------------

Made = Mapping[str, Sequence[tuple[Group, Tally]]]


def _name(engine: str) -> str:
    return NAMES.get(engine, "Python")


def markdown(made: Made, formats: Made) -> str:
    """The tables of docs/schema-suite.md."""
    engines = tuple(made)
    heads = " | ".join(_name(engine) for engine in engines)
    lines = [f"| keyword | cases | {heads} |", "| --- |" + " ---: |" * (len(engines) + 1)]
    tables = {engine: by_keyword(made[engine]) for engine in engines}
    whole = {engine: total(made[engine]) for engine in engines}
    for keyword, first in [*tables[engines[0]].items(), ("all", whole[engines[0]])]:
        parts = [whole[engine] if keyword == "all" else tables[engine][keyword] for engine in engines]
        cells = " | ".join(f"{part.right} of {part.supported}" for part in parts)
        lines.append(f"| {keyword} | {first.cases} | {cells} |")
    shares = " | ".join(f"{100 * part.supported / part.cases:.1f} %" for part in whole.values())
    lines += [f"| supported | | {shares} |", "", "| refused | cases | engines | reason |", "| --- | ---: | --- | --- |"]
    refused: dict[tuple[str, int, str], list[str]] = {}
    for engine in engines:
        for group, why in whole[engine].refused:
            refused.setdefault((str(group), len(group.cases), why), []).append(_name(engine))
    for (group_name, count, why), who in refused.items():
        named = "all" if len(who) == len(engines) else ", ".join(who)
        lines.append(f"| {group_name} | {count} | {named} | {why.replace('|', chr(92) + '|')} |")
    lines += ["", "| left out | cases |", "| --- | ---: |"]
    lines += [f"| {what} | {count} |" for what, count in suite()[1].most_common()]
    lines += ["", f"| format, asserted | cases | {heads} |", "| --- |" + " ---: |" * (len(engines) + 1)]
    for place, (group, first) in enumerate(formats[engines[0]]):
        parts = [formats[engine][place][1] for engine in engines]
        cells = " | ".join("refused" if part.refused else f"{part.right} of {part.supported}" for part in parts)
        lines.append(f"| {format_of(group)} | {first.cases} | {cells} |")
    return "\n".join(lines)


def plain(engine: str, made: Sequence[tuple[Group, Tally]], seconds: float) -> str:
    """One engine's lines."""
    lines = []
    for keyword, part in [*by_keyword(made).items(), ("all", total(made))]:
        lines.append(f"{engine:10} {keyword:24} {part.right} right of {part.supported} supported of {part.cases}")
    return "\n".join([*lines, *(f"  {one}" for one in total(made).wrong), f"  {seconds:.1f} s"])


@click.command()
@click.option("--engine", "engines", multiple=True, type=click.Choice(tuple(ENGINES)), help="Default: all.")
@click.option("--keyword", "keywords", multiple=True, help="A file of the suite. Default: all.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables of docs/schema-suite.md.")
@click.option("--refused", is_flag=True, help="List what is not supported, with its reason.")
def main(engines: tuple[str, ...], keywords: tuple[str, ...], as_markdown: bool, refused: bool) -> None:
    """Run the suite; exits with 1 where a result is wrong."""
    if not FOLDER.is_dir():
        raise click.ClickException(f"no suite at {FOLDER}; set SQLENRICH_CORPORA to the folder that holds it")
    groups = [group for group in suite()[0] if not keywords or group.keyword in keywords]
    if not groups:
        known = ", ".join(dict.fromkeys(group.keyword for group in suite()[0]))
        raise click.ClickException(f"no such keyword; there are: {known}")
    made, formats, failed = {}, {}, False
    for engine in engines or tuple(ENGINES):
        start = time.monotonic()
        made[engine] = tallies(engine, groups)
        formats[engine] = tallies(engine, asserted() if as_markdown or not keywords or "format" in keywords else [])
        wrong = total([*made[engine], *formats[engine]]).wrong
        failed |= bool(wrong) or unchecked_formats(formats[engine])
        if not as_markdown or wrong:
            seconds = time.monotonic() - start
            click.echo(plain(engine, [*made[engine], *renamed(formats[engine])], seconds), err=as_markdown)
        for group, why in total(made[engine]).refused if refused else ():
            click.echo(f"  {group} ({len(group.cases)}): {why}")
    if as_markdown:
        click.echo(markdown(made, formats))
    if failed:
        raise SystemExit(1)


def renamed(made: Sequence[tuple[Group, Tally]]) -> list[tuple[Group, Tally]]:
    """Return the groups of asserted formats under another name."""
    return [(replace(group, keyword="format, asserted"), one) for group, one in made]


def unchecked_formats(made: Sequence[tuple[Group, Tally]]) -> bool:
    """Tell whether a format is checked that should be refused, or the reverse."""
    return any(bool(one.refused) is (format_of(group) in FORMATS) for group, one in made)


if __name__ == "__main__":
    main()

"""Which columns of a data file a new prompt file reads: by their names and types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from sqlenrich.cli.nested_columns import is_printed
from sqlenrich.core.types import BOOLEAN, STRING, Array, Struct, Type, type_json, without_zones
from sqlenrich.spec.enrichment import RESERVED_COLUMNS, Enrichment
from sqlenrich.store.inputs import input_of
from sqlenrich.store.scratch import scratch_folder

_KEYS = re.compile(r"^(id|.*[_ -]id|key|uuid)$", re.IGNORECASE)
_TEXTS = re.compile(
    r"(text|body|message|comment|review|content|description|title|subject|note|question)", re.IGNORECASE
)
_LABELS = re.compile(
    r"^((expected|true|gold|correct)[_ -].*|(.*[_ -])?(label|class|category|target|truth|gold|answer))s?$",
    re.IGNORECASE,
)
"""Names of columns that hold what a model is to find out."""
MOST_PRINTED = 3
"""The most columns that a new prompt prints."""


def columns_of(data: str | Path, encoding: str | None = None) -> dict[str, Type]:
    """Return the columns of an input and their types. Raises ConfigError for one that is missing or unreadable."""
    from sqlenrich.store.duckdb.database import Database
    from sqlenrich.store.duckdb.source import open_source

    with scratch_folder() as folder, Database(folder / "new.duckdb") as store:
        found = open_source(store, input_of(data, encoding), None, None, number_rows=False)
    return {name: without_zones(kind) for name, kind in found.items()}


def key_of(types: Mapping[str, Type]) -> str | None:
    """Return the column whose name is that of a key."""
    plain = (name for name, kind in types.items() if not isinstance(kind, Struct | Array))
    found = (name for name in plain if _KEYS.match(name) and name.lower() not in RESERVED_COLUMNS)
    return next(found, None)


def looks_like_text(column: str) -> bool:
    """Tell whether a column's name is that of a text to ask about."""
    return bool(_TEXTS.search(column)) and not _LABELS.match(column)


def printed_columns(types: Mapping[str, Type], key: str | None) -> list[str]:
    """Return the columns that a prompt prints: the texts by their names, else others, but no label beside them."""
    known = [name for name, kind in types.items() if name != key and kind in (STRING, BOOLEAN)]
    texts = [name for name in known if looks_like_text(name)]
    others = [name for name in known if not _LABELS.match(name)]
    return (texts or others or known)[:MOST_PRINTED]


def nested_columns(types: Mapping[str, Type]) -> list[str]:
    """Return the structs and arrays that a prompt can print, but no label."""
    return [name for name, kind in types.items() if is_printed(kind) and not _LABELS.match(name)]


class Fitted(NamedTuple):
    """A prompt file that reads the columns of a data file, and the columns that the data has not."""

    text: str
    missing: tuple[str, ...]


def fitted(text: str, enrichment: Enrichment, types: Mapping[str, Type]) -> Fitted:
    """Let a prompt file read the columns of some data.

    A column of the same name is taken, whatever its case; the first required column takes a text where it has none.
    """
    names = {_plain(name): name for name in reversed(list(types))}
    found = {column: names[_plain(column)] for column in enrichment.prompt().columns if _plain(column) in names}
    main = (enrichment.require or enrichment.prompt().inputs)[0]
    key = [names[_plain(name)] for name in enrichment.key if _plain(name) in names]
    key = key if len(key) == len(enrichment.key) else [name for name in (key_of(types),) if name is not None]
    if main not in found:
        free = {name: kind for name, kind in types.items() if name not in found.values()}
        if texts := printed_columns(free, key[0] if key else None):
            found[main] = texts[0]
    yaml = YAML()
    yaml.width, yaml.preserve_quotes = 4096, True
    yaml.indent(mapping=2, sequence=4, offset=2)
    _, header, prompt = text.split("---\n", 2)
    values: CommentedMap = yaml.load(header)
    written = CommentedSeq(key)
    written.fa.set_flow_style()
    values["key"] = written
    columns = values.setdefault("columns", CommentedMap())
    for column, name in found.items():
        _read_from(columns, column, name, types[name])
    out = StringIO()
    yaml.dump(values, out)
    missing = tuple(column for column in enrichment.prompt().columns if column not in found)
    return Fitted(f"---\n{out.getvalue()}---\n{prompt}", missing)


def _read_from(columns: CommentedMap, column: str, name: str, kind: Type) -> None:
    """Let a column of a prompt be read from another name of the source."""
    if name == column:
        return
    written: Any = columns.get(column) or type_json(kind)
    columns[column] = CommentedMap(
        {"type": written.get("type") if isinstance(written, dict) else written, "from": name}
    )
    columns[column].fa.set_flow_style()


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()

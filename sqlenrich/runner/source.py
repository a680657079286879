"""The source of a verb: its columns and key, and the plan over its real types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.runner.options import names_of
from sqlenrich.spec.enrichment import Enrichment, SourceColumn
from sqlenrich.store.backend import Backend
from sqlenrich.store.inputs import Input, TableInMemory, input_name


def compile_source(
    enrichment: Enrichment,
    backend: Backend,
    model: ResolvedModel,
    input: Input,
    *,
    relations: Mapping[str, str] | None = None,
    asked_by_client: bool = True,
    run_id: str | None = None,
) -> tuple[Enrichment, Plan]:
    """Open the source; give the enrichment with its key settled, and the plan over the source's real types."""
    source = backend.bind(enrichment, input)
    if not enrichment.key:
        enrichment = replace(enrichment, key=("_row",))
    unread = input.unread if isinstance(input, TableInMemory) else ()
    found = None if source.types is None else (*source.types, *(one for one in unread if one not in source.types))
    enrichment = enrichment.with_all_kept(found)
    if isinstance(input, TableInMemory):
        for name in map(enrichment.source_name, enrichment.used_columns()):
            if name in input.unread and name not in (source.types or {}):
                raise ConfigError(
                    f'the column "{name}" of {input} is read, and it can\'t be: {input.unread[name]}; '
                    "give its values one type, such as text"
                )
    check_columns(enrichment, source.types, input_name(input) or str(enrichment.source))
    tables = {**(relations or backend.relations(enrichment.name))}
    if source.relation is not None:
        tables["source"] = source.relation
    return enrichment, compile_plan(
        enrichment,
        backend.engine.name,
        tables,
        model=model,
        source_types=source.types,
        asked_by_client=asked_by_client,
        run_id=run_id,
    )


def check_columns(enrichment: Enrichment, types: Mapping[str, Any] | None, place: str) -> None:
    """Refuse a key or kept column that the source does not have. Raises ConfigError."""
    if types is None:
        return
    missing = [name for name in (*enrichment.key, *enrichment.keep) if enrichment.source_name(name) not in types]
    if missing:
        names = ", ".join(f'"{name}"{did_you_mean(name, types)}' for name in missing)
        known = ", ".join(types)
        advice = "change keep of the file"
        if not set(enrichment.key).isdisjoint(missing):
            advice = (
                "change key of the file, or give --key; files and frames need none: with key: [] the column _row "
                "counts their rows"
            )
        raise ConfigError(f"no column {names} in {place}; there are: {known}; {advice}")


def with_source_options(
    enrichment: Enrichment,
    *,
    key: str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    beside: Enrichment | None = None,
) -> Enrichment:
    """Return an enrichment with another key, other source names of columns, another filter.

    Raises ConfigError for a column that neither it nor the one ``beside`` it reads.
    """
    changed = dict(enrichment.columns)
    keys = enrichment.key if key is None else names_of(key)
    if columns:
        used = (*replace(enrichment, key=keys, where=where or enrichment.where).used_columns(),)
        used += () if beside is None else beside.used_columns()
        for name in columns:
            if name not in used:
                raise ConfigError(
                    f'{enrichment.place} reads no column "{name}"{did_you_mean(name, used)}, which --column names; '
                    f"it reads: {', '.join(used)}"
                )
    for name, source in (columns or {}).items():
        known = changed.get(name)
        changed[name] = SourceColumn(known.type if known is not None else None, source)
    return replace(
        enrichment,
        key=keys,
        columns=changed,
        where=where if where is not None else enrichment.where,
    )


def key_warning(backend: Backend, plan: Plan, key: Sequence[str]) -> str | None:
    """Return a line about keys that are repeated or NULL: legal, one output row per input row; None for none."""
    if tuple(key) == ("_row",):
        return None
    rows, repeated, nulls = backend.repeated_keys(plan, key)
    if not repeated and not nulls:
        return None
    counted = {"with the key of another": repeated, "with NULL": nulls}
    found = "; ".join(f"{what}: {count:,} of {rows:,}" for what, count in counted.items() if count)
    return f"warning: the key {', '.join(key)} is not unique (rows {found}); every row is enriched all the same"

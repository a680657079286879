"""The results of a run beside all columns of its input: ``sqlenrich export --join``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from sqlenrich.core.errors import ConfigError, SqlenrichError, did_you_mean
from sqlenrich.runner.results import check_kind, open_results, write_relation
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import load
from sqlenrich.store.duckdb.database import Database, quote, reason, text
from sqlenrich.store.duckdb.files import database_path
from sqlenrich.store.duckdb.source import SOURCE, open_source
from sqlenrich.store.inputs import input_name, input_of
from sqlenrich.store.ledger import LEDGER
from sqlenrich.store.scratch import scratch_folder
from sqlenrich.store.shared_request import read_request

_ROW = "_row"
_ORDER = "sqlenrich_order"
_READ = "sqlenrich_read"
_FOUND = "sqlenrich_found"
_RESULTS = "sqlenrich_results"
_VERDICT = ("_error", "_error_detail", "_request_hash")
"""The columns beside the output's that each joined row has."""
_OWN = ("_request_hash", "_model", "_version", "_fingerprint", "_asked_at", "_truncated")


@dataclass(frozen=True)
class _Keyed:
    """How the rows of the last run are told apart: its key's columns and their names in the source."""

    key: tuple[str, ...]
    source: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def counts_rows(self) -> bool:
        return self.key == (_ROW,)


def export_joined(
    name: str,
    output: str | Path,
    input: Any,
    *,
    to: str | Path,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    encoding: str | None = None,
) -> str | None:
    """Write all rows and columns of an input with the results of its run beside them, in the input's order.

    A refused row has NULL in the output's columns, and its ``_error``. An output's column of a name that the input has
    gets the enrichment's name behind its own. Gives a line about the rows that have no result, else None. Raises
    ConfigError where rows and results can't be told to belong together.
    """
    check_kind(to)
    database = database_path(Path(output))
    source = input_of(input, encoding)
    shown = input_name(source) or "the given table"
    with open_results(name, output, database) as db:
        keyed = _keyed(db, name, database)
        given = db.table(quote(name)).columns
    fields = [one for one in given if one not in (*keyed.key, *keyed.kept, *_OWN)]
    with scratch_folder() as folder, Database(folder / "join.duckdb") as store:
        _copy_results(store, database, name, keyed, fields)
        types = open_source(store, source, None, None, number_rows=keyed.counts_rows)
        own = [one for one in types if not (keyed.counts_rows and one == _ROW)]
        for key in keyed.source:
            if key not in types:
                raise ConfigError(
                    f'{shown} has no column "{key}"{did_you_mean(key, types)}, the key of the run; '
                    f"it has: {', '.join(own)}"
                )
        if store.paths is not None:  # the view reads tables of the input's database by their plain names
            store.db.execute(f"SET search_path = {text(store.paths[0])}")
        try:
            return store.roomy(
                lambda: _written(store, name, keyed, shown, [*own], fields, columns=columns, where=where, to=Path(to))
            )
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise ConfigError(f"{output} joined to {shown}: {reason(error)}") from None


def _keyed(db: duckdb.DuckDBPyConnection, name: str, database: Path) -> _Keyed:
    """Return the key of the last run. Raises ConfigError where the database does not tell it."""
    line = None
    with suppress(duckdb.Error):  # no ledger
        query = f"SELECT request, CAST(snapshot AS VARCHAR) FROM {LEDGER} WHERE name = ? AND request IS NOT NULL"
        line = db.execute(f"{query} ORDER BY started_at DESC LIMIT 1", [name]).fetchone()
    if line is None:
        raise ConfigError(f"{database} does not tell the key of the last run of {name}: run it again")
    try:
        request = read_request(line[0]).request
        snapshot = json.loads(line[1] or "{}")
    except ValueError:
        raise ConfigError(f"{database} was made by another version of sqlenrich: run {name} again") from None
    enrichment = _read_file(database, snapshot)
    named: Mapping[str, str] = snapshot.get("columns") or {}
    source = tuple(
        named.get(one) or (enrichment.source_name(one) if enrichment is not None else one)
        for one in request.contract.key
    )
    return _Keyed(request.contract.key, source, request.contract.keep)


def _read_file(database: Path, snapshot: Mapping[str, Any]) -> Enrichment | None:
    """Return the prompt file of the run, which may read the key under another name; None where it is gone."""
    if snapshot.get("file") is None:
        return None
    try:
        return load(database.parent / snapshot["file"])
    except SqlenrichError:
        return None


def _copy_results(store: Database, database: Path, name: str, keyed: _Keyed, fields: Sequence[str]) -> None:
    """Make a table of the results by their keys. The input may be a table of the same database."""
    keys = ", ".join(map(quote, keyed.key))
    accepted = ", ".join([keys, *map(quote, fields), "NULL::VARCHAR AS _error, NULL::VARCHAR AS _error_detail"])
    own = f"_request_hash, true AS {_READ}"
    tables = f"{_RESULTS}.main.{quote(name)}", f"{_RESULTS}.main.{quote(f'{name}_quarantine')}"
    store.db.execute(f"ATTACH {text(str(database))} AS {_RESULTS} (READ_ONLY)")
    store.roomy(
        lambda: store.db.execute(
            f"CREATE OR REPLACE TEMP TABLE {_FOUND} AS SELECT {accepted}, {own} FROM {tables[0]} "
            f"UNION ALL BY NAME SELECT {keys}, _error, _error_detail, {own} FROM {tables[1]}"
        )
    )
    store.db.execute(f"DETACH {_RESULTS}")
    repeated = f"SELECT {keys} FROM {_FOUND} GROUP BY ALL HAVING count(*) > 1"
    ((values,),) = store.db.execute(f"SELECT count(*) FROM ({repeated})").fetchall()
    if values:
        raise ConfigError(
            f"the key {', '.join(keyed.key)} of {name} is not unique ({values:,} of its values stand for several "
            "rows), so their answers can't be joined: run it with key: [] in the header, then _row counts the rows"
        )


def _written(
    store: Database,
    name: str,
    keyed: _Keyed,
    shown: str,
    own: Sequence[str],
    fields: Sequence[str],
    *,
    columns: Sequence[str] | None,
    where: str | None,
    to: Path,
) -> str | None:
    kinds = {str(row[0]): str(row[1]) for row in store.db.execute(f"DESCRIBE {_FOUND}").fetchall()}
    given = f"(SELECT row_number() OVER () AS {_ORDER}, * FROM {SOURCE}) AS i"
    same = " AND ".join(
        f"TRY_CAST(i.{quote(source)} AS {kinds[key]}) IS NOT DISTINCT FROM f.{quote(key)}"
        for key, source in zip(keyed.key, keyed.source, strict=True)
    )
    beside = {one: _free_name(one, name, own) for one in (*fields, *_VERDICT)}
    listed = [f"i.{_ORDER}", f"f.{_READ}", *(f"i.{quote(one)}" for one in own)]
    listed += [f"f.{quote(one)} AS {quote(new)}" for one, new in beside.items()]
    found = store.db.sql(f"SELECT {', '.join(listed)} FROM {given} LEFT JOIN {_FOUND} AS f ON {same}")
    if keyed.counts_rows:
        counts = f"(SELECT count(*) FROM {SOURCE}), (SELECT coalesce(max({_ROW}), 0) FROM {_FOUND})"
        ((rows, last),) = store.db.execute(f"SELECT {counts}").fetchall()
        if last > rows:
            raise ConfigError(f"{shown} has {rows:,} rows, and the run read row {last:,}: give the input of the run")
    missing = found.filter(f"{_READ} IS NULL").aggregate("count(*)").fetchall()[0][0]
    chosen = found.filter(where) if where else found
    names = list(columns or (*own, *beside.values()))
    write_relation(store.db, chosen.order(_ORDER).project(", ".join(map(quote, names))), to)
    return f"rows of {shown} that the run did not read, so without a result: {missing:,}" if missing else None


def _free_name(column: str, name: str, taken: Sequence[str]) -> str:
    """Return the name of an output's column beside the input's. Raises ConfigError where both names are taken."""
    used = {one.lower() for one in taken}
    for free in (column, f"{column}_{name}"):
        if free.lower() not in used:
            return free
    raise ConfigError(f'the input has a column "{column}" and a column "{column}_{name}": rename one')

"""Rows forgotten where no copy of the whole database can take its place: deleted in parts, each counted before it goes.

A part ends with its lines in the table of forgettings. Killed in between, the same command goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.json import canonical_json
from sqlenrich.core.names import column, relation
from sqlenrich.core.sql import Sql, any_of, equals, literal, one_of, utc_time
from sqlenrich.core.types import STRING, TIMESTAMP, uncoerced
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.profiles import PROFILES
from sqlenrich.plan.relations import symbol
from sqlenrich.quality.forget.forgotten import FORGOTTEN_LEVEL, Forgotten
from sqlenrich.store import queries
from sqlenrich.store.database import selected
from sqlenrich.store.forgotten_lines import FORGOTTEN, FORGOTTEN_COLUMNS
from sqlenrich.store.store import HASHED, ROW_ROLES, Store
from sqlenrich.store.values import shown_value

PART_ROWS = 500
"""The rows that one statement names."""


class ChosenRow(NamedTuple):
    """A row to forget. ``request`` is None for one that was never asked, ``code`` None for an accepted one."""

    key: tuple[Any, ...]
    request: str | None
    code: str | None


class StoreForgetting:
    """The forgetting of rows in one store."""

    def __init__(self, store: Store, profiled: Collection[str]) -> None:
        self.store, self.engine, self.profiled = store, store.engine, profiled
        self.key = tuple(store.request.contract.key)
        kinds = store.columns("checked")
        self.kinds = {name: kinds.get(name) or STRING for name in self.key}

    # What is chosen ---------------------------------------------------------------------------------------------------

    def of_key(self, key: Mapping[str, str]) -> list[ChosenRow]:
        """Return the rows of a key, whose values are texts."""
        return self._rows("checked", self.store.of_key(key))

    def of_condition(self, where: str) -> list[ChosenRow]:
        """Return the rows of the results that meet a condition in the engine's SQL; a table may lack its columns.

        Raises ConfigError where both do, and for a condition that can't be read.
        """
        condition = self.store.condition(where)
        mentioned = {found.name.lower() for found in condition.find_all(exp.Column)}
        found: list[ChosenRow] = []
        asked = False
        for role in ("enriched", "quarantine"):
            if mentioned <= {name.lower() for name in self.store.columns(role)}:
                found += self._rows(role, condition)
                asked = True
        if not asked:
            named = ", ".join(sorted(mentioned))
            raise ConfigError(f"where {where}: neither table of results has the columns {named}")
        return found

    def before(self, day: date) -> list[str]:
        """Return the requests whose last answer came before a day in UTC."""
        last = exp.Max(this=exp.column("asked_at"))
        at = utc_time(datetime(day.year, day.month, day.day), self.engine.sql_type(TIMESTAMP))
        query = exp.select("request_hash").from_(symbol("responses")).group_by("request_hash")
        return [str(request) for (request,) in self.store.rows(query.having(exp.LT(this=last, expression=at)))]

    def of_requests(self, requests: Sequence[str]) -> list[ChosenRow]:
        """Return the rows of some requests."""
        place = exp.column("request_hash")
        return list(map(self._chosen, self.store.among(self._query("checked"), place, requests)))

    def _rows(self, role: str, test: Sql) -> list[ChosenRow]:
        return list(map(self._chosen, self.store.rows(self._query(role).where(test))))

    def _query(self, role: str) -> exp.Select:
        names = [*self.key, HASHED[role], *(() if role == "enriched" else ("_error",))]
        return exp.select(*(column(self.engine, name) for name in names)).from_(symbol(role))

    def _chosen(self, row: tuple[Any, ...]) -> ChosenRow:
        key, (request, *code) = row[: len(self.key)], row[len(self.key) :]
        return ChosenRow(tuple(key), request, code[0] if code else None)

    # What goes and what stays -----------------------------------------------------------------------------------------

    def shared(self, rows: Sequence[ChosenRow]) -> set[str]:
        """Return the requests of some rows that other rows have too, of this enrichment or of one with its answers."""
        requests = sorted({row.request for row in rows if row.request is not None})
        mine = Counter(map(_place, rows))
        there = Counter(_place(row) for row in self.of_requests(requests))
        found = {place[1] for place, count in there.items() if count > mine[place]}
        for table in self._other_rows():
            query = exp.select("request_hash").distinct().from_(relation(self.engine, table))
            found |= {request for (request,) in self.store.among(query, exp.column("request_hash"), requests)}
        return {request for request in found if request is not None}

    def _other_rows(self) -> list[str]:
        """Return the tables of rows of other enrichments whose answers are in the same table."""
        store, answers = self.store, self.store.table("responses")
        names = {line.name for line in store.lines.values() if store.answers_of(line) == answers} - {store.name}
        tables = (store.database.named(f"{name}_checked") for name in sorted(names))
        return [table for table in tables if store.database.columns(table) is not None]

    def orphans(self) -> int:
        """Return the answers that no row has."""
        answers = queries.count_rows("responses")
        found = self.store.number(answers)
        tables = [symbol("checked"), *(relation(self.engine, table) for table in self._other_rows())]
        known = (exp.In(this=exp.column("request_hash"), query=_requests_of(table)) for table in tables)
        return found - self.store.number(answers.where(any_of(*known)))

    def answers_of(self, requests: Sequence[str]) -> int:
        """Return how many answers some requests have."""
        query = queries.count_rows("responses")
        return sum(int(count) for (count,) in self.store.among(query, exp.column("request_hash"), requests))

    # Deleting ---------------------------------------------------------------------------------------------------------

    def forget(self, rows: Sequence[ChosenRow], unshared: Sequence[str]) -> None:
        """Delete rows, and the answers and reviews of requests, part by part; then the levels of profiles that went."""
        levels = self._levels(unshared)
        for start in range(0, len(unshared), PART_ROWS):
            self._forget_answers(unshared[start : start + PART_ROWS])
        for start in range(0, len(rows), PART_ROWS):
            self._forget_rows(rows[start : start + PART_ROWS])
        self._forget_levels(levels)

    def _forget_answers(self, requests: Sequence[str]) -> None:
        store = self.store
        among = one_of(exp.column("request_hash"), *requests)
        query = exp.select("run_id", "COUNT(*)", *queries.TOKENS.values(), queries.UNCOUNTED)
        found = store.rows(query.from_(symbol("responses")).where(among.copy()).group_by("run_id"))
        name = relation(self.engine, store.last.responses).name
        self._write_lines(
            [(name, "answers", run, None, *map(_count, counts)) for run, *counts in found], sorted(requests)
        )
        for role in ("responses", "reviews", "evaluations"):
            if store.has(role):
                store.database.delete(store.table(role), among.copy())

    def _forget_rows(self, rows: Sequence[ChosenRow]) -> None:
        store = self.store
        codes = Counter(row.code for row in rows)
        lines = [
            (store.name, "rows", store.last.run_id, code, count, None, None, None, None)
            for code, count in sorted(codes.items(), key=str)
        ]
        self._write_lines(lines, sorted(canonical_json([list(map(shown_value, row.key)), row.request]) for row in rows))
        if evaluated := self._evaluated_keys(rows):
            store.database.delete(store.table("evaluations"), one_of(exp.column("row_key"), *evaluated))
        for role in ("scores", "weights"):  # each run makes them afresh
            if store.has(role):
                store.database.delete(store.table(role), exp.true())
        # The table that tells which rows there are goes last.
        for role in (*(role for role in ROW_ROLES if role != "checked"), "checked"):
            if store.has(role):
                store.database.delete(store.table(role), self._test(rows, HASHED[role]))

    def _evaluated_keys(self, rows: Sequence[ChosenRow]) -> list[str]:
        """Return what names the rows in evaluations: one of another prompt asked about a row under another hash."""
        if not self.store.has("evaluations") or self.key in ((), ("_row",)):
            return []
        keys = {tuple(map(_key_text, row.key)) for row in rows}
        query = exp.select("row_key").distinct().from_(symbol("evaluations"))
        return sorted(str(name) for (name,) in self.store.rows(query) if tuple(_named_key(str(name))) in keys)

    def _test(self, rows: Sequence[ChosenRow], request: str) -> Sql:
        """Return the test that a row is one of those chosen. A key may be repeated or NULL."""
        of_key: dict[tuple[Any, ...], list[str | None]] = {}
        for row in rows:
            of_key.setdefault(row.key, []).append(row.request)
        return any_of(*(exp.and_(*self._parts(key, requests, request)) for key, requests in of_key.items()))

    def _parts(self, key: tuple[Any, ...], requests: Sequence[str | None], name: str) -> Iterator[Sql]:
        for (part, kind), value in zip(self.kinds.items(), key, strict=True):
            place = column(self.engine, part)
            if value is None:
                yield exp.Is(this=place, expression=exp.Null())
            else:
                yield exp.EQ(this=place, expression=queries.constant(self.engine, value, uncoerced(kind)))
        place = column(self.engine, name)
        given = sorted({request for request in requests if request is not None})
        tests: list[Sql] = [one_of(place.copy(), *given)] if given else []
        if None in requests:
            tests.append(exp.Is(this=place.copy(), expression=exp.Null()))
        yield exp.paren(any_of(*tests))

    def _write_lines(self, lines: Sequence[tuple[Any, ...]], parts: Sequence[str]) -> None:
        """Write what a part deletes, but for what a killed command wrote before."""
        store, table = self.store, self.store.database.named(FORGOTTEN)
        digest = str(int(hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32], 16))
        known: set[tuple[Any, ...]] = set()
        if store.database.columns(table) is not None:
            names = ("name", "kind", "run_id", "code")
            known = set(store.rows(selected(store.database, table, names).where(equals("digest", digest))))
        now = datetime.now(UTC).replace(tzinfo=None)
        new = [(now, *line, digest) for line in lines if line[:4] not in known]
        if new:
            store.database.append(table, FORGOTTEN_COLUMNS, new)

    # Levels of profiles -----------------------------------------------------------------------------------------------

    def _levels(self, requests: Sequence[str]) -> dict[str, set[str]]:
        """Return the texts of some answers that profiles name, by field: those of fields without an enum."""
        store = self.store
        if not store.has("profiles"):
            return {}
        contract = store.contract
        schema = contract.schema["properties"]
        listed = [
            name
            for name in self.profiled
            if uncoerced(contract.readings[name]) == STRING and not {"enum", "const"} & set(schema[name])
        ]
        answers = store.answers(requests) if listed else {}
        return {name: {answer[name] for answer in answers.values() if answer[name] is not None} for name in listed}

    def _forget_levels(self, levels: Mapping[str, set[str]]) -> None:
        """Rename the levels that no row has any more: the counts stay."""
        store, table = self.store, self.store.table("profiles")
        for name, texts in levels.items():
            place = column(self.engine, name)
            stay = exp.select(place).distinct().from_(symbol("enriched"))
            gone = sorted(texts - {str(text) for (text,) in store.among(stay, place, sorted(texts))})
            for start in range(0, len(gone), PART_ROWS):
                level = column(self.engine, "level")
                test = exp.and_(
                    exp.EQ(this=column(self.engine, "field"), expression=literal(name)),
                    one_of(level, *gone[start : start + PART_ROWS]),
                )
                lines = store.rows(selected(store.database, table, list(PROFILES)).where(test.copy()))
                renamed = [(*line[:3], FORGOTTEN_LEVEL, *line[4:]) for line in lines]
                store.database.delete(table, test)
                store.database.append(table, PROFILES, renamed)


def forget_in_store(
    store: Store,
    *,
    profiled: Collection[str],
    key: Mapping[str, str] | None = None,
    where: str | None = None,
    before: date | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Forget the rows of one choice. ``profiled`` are the fields whose values profiles name.

    Raises ConfigError where there are none of a key.
    """
    for role in ("checked", "responses"):
        if not store.has(role):
            raise ConfigError(f"{store.output} has no table {store.table(role)}: run {store.name} first")
    if missing := set(RESPONSES) - set(store.columns("responses")):
        raise ConfigError(f"{store.output}: {store.table('responses')} has no column {min(missing)}: run it again")
    forgetting = StoreForgetting(store, profiled)
    requests: list[str] = []
    if key is not None:
        rows = forgetting.of_key(key)
        if not rows:
            shown = ", ".join(f"{name}={value}" for name, value in key.items())
            raise ConfigError(f"{store.output} has no row {shown} of {store.name}")
    elif where is not None:
        rows = forgetting.of_condition(where)
    else:
        assert before is not None
        requests = forgetting.before(before)
        rows = forgetting.of_requests(requests)
    asked = {row.request for row in rows if row.request is not None} | {*requests}
    shared = forgetting.shared(rows)
    unshared = sorted(asked - shared)
    result = Forgotten(
        store.name,
        store.output,
        len(rows),
        forgetting.answers_of(unshared),
        len(shared),
        forgetting.orphans(),
        notes=(f"{store.engine.name}: {store.engine.keeps_deleted}",) if store.engine.keeps_deleted else (),
        dry_run=dry_run,
    )
    if not dry_run:
        forgetting.forget(rows, unshared)
    return result


def _requests_of(table: exp.Expr) -> exp.Subquery:
    known = exp.Not(this=exp.Is(this=exp.column("request_hash"), expression=exp.Null()))
    return exp.select("request_hash").from_(table).where(known).subquery()


def _place(row: ChosenRow) -> tuple[str, str | None]:
    return canonical_json([shown_value(value) for value in row.key]), row.request


def _key_text(value: Any) -> str | None:
    """Return a part of a key as evaluations have it."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _named_key(name: str) -> Iterator[str | None]:
    """Return the key of an evaluated row, which stands as JSON; rows of one key have a number after it."""
    yield from json.loads(name[: name.rindex("}") + 1]).values()


def _count(value: Any) -> int | None:
    return None if value is None else int(value)

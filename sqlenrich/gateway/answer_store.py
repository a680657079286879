"""The answers of a gateway: a journal that serves them, and the tables of an ordinary output that hold them too.

The journal lies beside the DuckDB database and is locked while a gateway runs. An answer is durable once its line is.
The tables are those of the enrichment ``gateway``, so that report, audit, forget and export read them as any others.
They are written when a gateway starts and when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlenrich.ask.observer import Observer
from sqlenrich.ask.recorded import recorded_choice
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.parts import bounded_parts
from sqlenrich.gateway.request import GatewayRequest
from sqlenrich.llm.messages import Answer
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.request import ResolvedModel, request_hash
from sqlenrich.runner.run import store_answers
from sqlenrich.spec.loader import GATEWAY, load
from sqlenrich.spec.settings import Config
from sqlenrich.store.answer_journal import TABLE, journal_of
from sqlenrich.store.duckdb.files import database_path
from sqlenrich.store.duckdb.tables import open_tables
from sqlenrich.store.ledger import LEDGER

PUBLISHED_ROWS, PUBLISHED_CHARACTERS = 100_000, 1 << 27
"""The requests of one run that writes the tables, and their texts but for one: they are in memory."""
READ_AT_ONCE = 1000
"""The answers that are read back at a time: a result is in memory as a whole."""
_AMONG = "request_hash IN (SELECT unnest($1))"
_ANSWER = tuple(name for name in Answer._fields if name != "asked_at")


class StoredAnswer(NamedTuple):
    """An answer as it is served."""

    request_hash: str
    body: str
    model: str
    asked_at: datetime
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    request_id: str | None


class NewAnswer(NamedTuple):
    """An answer to be stored, and the request and the sample that it is for."""

    answer: Answer
    request: GatewayRequest
    sample: str


class AnswerStore:
    """Finds and keeps answers. Enter it to open the journal; one process has it open at a time.

    ``find`` and ``keep`` may be called from two threads, each from one. Raises ConfigError for an output that is no
    DuckDB database, and RunError where another gateway has it.
    """

    def __init__(self, output: str | Path, config: Config) -> None:
        self.path = Path(output)
        if database_path(self.path) != self.path:
            raise ConfigError(f"{output}: the answers of a gateway are in a .duckdb database: name one")
        self.config = config
        self.journal = journal_of(self.path)
        self._left: dict[str, int] = {}
        self.model = ResolvedModel(GATEWAY)
        self.enrichment = load(GATEWAY)
        self.constant = compile_plan(self.enrichment, "duckdb", {"source": "requests"}, model=self.model).constant

    def __enter__(self) -> AnswerStore:
        self.journal.__enter__()
        try:
            self._read_back()
            self._find_gaps()
        except BaseException:
            self.journal.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.__exit__()

    def __len__(self) -> int:
        return len(self.journal)

    def hash_of(self, request: GatewayRequest, sample: str) -> str:
        """Return the hash of a request, equal to the one that the SQL of the tables computes."""
        found = request_hash(self.constant, f"{_page(request.page.path, sample)}\n{request.canonical}")
        assert found is not None
        return found

    def attempts(self, hashed: str) -> int:
        """Return how often a request was answered."""
        count = self._left.get(hashed, 1) - 1
        while (hashed, count + 1) in self.journal:
            count += 1
        return count

    def find(self, hashed: str) -> StoredAnswer | None:
        """Return the last answer to a request; None where there is none."""
        row = self.journal.get(hashed, self.attempts(hashed))
        return None if row is None else _stored(row)

    def keep(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        """Make answers durable, each as the next attempt of its request. Raises RunError where the disk takes none."""
        attempts: dict[str, int] = {}
        rows = []
        for new in answers:
            hashed = new.answer.request_hash
            attempts[hashed] = attempts.get(hashed, self.attempts(hashed)) + 1
            row = dict(zip(Answer._fields, new.answer, strict=True))
            row |= {"attempt": attempts[hashed], "asked_at": new.answer.asked_at.isoformat()}
            row |= {"page": _page(new.request.page.path, new.sample), "body": new.request.canonical}
            rows.append(row)
        self.journal.add(*rows)
        self.journal.sync()
        return list(map(_stored, rows))

    def publish(self, observer: Observer) -> int:
        """Write the answers that are not in the tables yet into them; give their number."""
        known = self._published()
        rows = (row for row in self.journal.rows() if (row["request_hash"], row["attempt"]) not in known)
        written = 0
        for part in bounded_parts(rows, _characters, PUBLISHED_CHARACTERS, PUBLISHED_ROWS):
            self._publish(part, observer)
            written += len(part)
        return written

    def _publish(self, rows: Sequence[Mapping[str, Any]], observer: Observer) -> None:
        import pyarrow as pa

        first = {row["request_hash"]: row for row in rows}
        texts = pa.string()
        source = pa.table(
            {
                "request": pa.array(first, texts),
                "page": pa.array([row["page"] for row in first.values()], texts),
                "body": pa.array([row["body"] for row in first.values()], texts),
            }
        )
        answers = (
            Answer(**{name: row[name] for name in _ANSWER}, asked_at=datetime.fromisoformat(row["asked_at"]))
            for row in rows
        )
        store_answers(
            self.enrichment,
            source,
            self.path,
            recorded_choice(self.model),
            answers,
            config=self.config,
            observer=observer,
        )

    def _published(self) -> set[tuple[str, int]]:
        """Return the requests and attempts that the tables have."""
        if not self.path.is_file():
            return set()
        with open_tables(self.enrichment, self.path) as tables:
            found = tables.columns(TABLE)
            rows = [] if found is None else tables.fetch(f"SELECT request_hash, attempt FROM {TABLE}")
        return {(str(hashed), int(attempt)) for hashed, attempt in rows}

    def _read_back(self) -> None:
        """Append to the journal what only the tables have: it was removed, or the database comes from elsewhere."""
        if not self.path.is_file():
            return
        with open_tables(self.enrichment, self.path) as tables:
            columns = tables.columns(TABLE)
            if columns is None:
                return
            lacking = [name for name in Answer._fields if name not in columns and name != "calls"]
            if lacking or tables.columns(LEDGER) is None:
                what = f"{TABLE} has no column {lacking[0]}" if lacking else f"it has no {LEDGER}"
                raise ConfigError(
                    f"{self.path} was made by another version of sqlenrich ({what}): give another --output"
                )
            keys = tables.fetch(f"SELECT request_hash, attempt FROM {TABLE} WHERE call_error IS NULL")
            missing = [str(hashed) for hashed, attempt in keys if (hashed, attempt) not in self.journal]
            listed = [name for name in Answer._fields if name != "calls"]
            prompts = f"SELECT request_hash, min(prompt) AS prompt FROM {GATEWAY}_prompts WHERE {_AMONG} GROUP BY 1"
            query = f"SELECT {', '.join(f'r.{name}' for name in listed)}, p.prompt FROM {TABLE} r "
            query += f"LEFT JOIN ({prompts}) p USING (request_hash) WHERE r.{_AMONG} AND r.call_error IS NULL"
            for start in range(0, len(missing), READ_AT_ONCE):
                found = tables.db.execute(query, [missing[start : start + READ_AT_ONCE]]).fetchall()
                self.journal.add(*self._rows_of(listed, found))
        self.journal.sync()

    def _find_gaps(self) -> None:
        """Note the requests whose first attempts are forgotten, and the number of the one that is left."""
        known = set(self.journal.keys())
        self._left = {hashed: no for hashed, no in sorted(known) if no > 1 and (hashed, no - 1) not in known}

    def _rows_of(self, names: Sequence[str], page: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        for *values, prompt in page:
            row = dict(zip(names, values, strict=True))
            if (row["request_hash"], row["attempt"]) in self.journal:
                continue
            name, _, body = (prompt or "").partition("\n")
            yield {**row, "calls": 1, "asked_at": row["asked_at"].isoformat() + "+00:00", "page": name, "body": body}


def _characters(row: Mapping[str, Any]) -> int:
    return len(row["body"]) + len(row["response"] or "")


def _page(path: str, sample: str) -> str:
    return f"{path} sample {sample}" if sample else path


def _stored(row: Mapping[str, Any]) -> StoredAnswer:
    counts = (row["tokens_in"], row["tokens_cached"], row["tokens_out"])
    at = datetime.fromisoformat(row["asked_at"])
    return StoredAnswer(row["request_hash"], row["response"], row["model"], at, *counts, row["request_id"])

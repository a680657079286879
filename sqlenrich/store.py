"""The database of a DuckDB run: the source read in place, the steps made, each answer kept as soon as it is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from .engines.base import identifier
from .engines.duckdb import ENGINE
from .errors import ConfigError, RunError
from .llm.messages import Answer, Request
from .plan import Plan, Step
from .types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Array, Decimal, Struct, Type

SOURCE = "sqlenrich_source"
LEDGER = "_sqlenrich_runs"
CHUNK_ROWS = 4096
MEMORY_LIMIT = "320MiB"
_DELIMITED = (
    "read_csv({path}, all_varchar = true, header = {header}, delim = '{delim}', "
    "quote = '\"', escape = '\"', max_line_size = 33554432)"
)
_READERS = {
    ".csv": _DELIMITED.replace("{delim}", ","),
    ".tsv": _DELIMITED.replace("{delim}", "	"),
    ".jsonl": "read_ndjson({path}, sample_size = -1)",
    ".ndjson": "read_ndjson({path}, sample_size = -1)",
    ".parquet": "read_parquet({path})",
}
_DATABASES = (".duckdb", ".db")
_SCALARS: Mapping[str, Type] = {
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), BIGINT
    ),
    "HUGEINT": BIGINT,
    "VARCHAR": STRING,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "DOUBLE": DOUBLE,
    "FLOAT": DOUBLE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
}
_ANSWERS = pa.schema(
    [
        ("request_hash", pa.string()),
        ("attempt", pa.int64()),
        ("sent_hash", pa.string()),
        ("response", pa.string()),
        ("call_error", pa.string()),
        ("retryable", pa.bool_()),
        ("finish_reason", pa.string()),
        ("model", pa.string()),
        ("version", pa.string()),
        ("fingerprint", pa.string()),
        ("tokens_in", pa.int64()),
        ("tokens_cached", pa.int64()),
        ("tokens_out", pa.int64()),
        ("latency_ms", pa.int64()),
        ("run_id", pa.string()),
        ("asked_at", pa.timestamp("us")),
    ]
)


@dataclass(frozen=True)
class Counts:
    """What a run finds before it asks: rows, distinct requests, and those that must be asked."""

    rows: int
    distinct: int
    unanswered: int
    pending: int
    """Those of the unanswered requests that this run is to ask: fewer than all under a limit."""


def quote(name: str) -> str:
    """Give a name as DuckDB reads it exactly."""
    return identifier(ENGINE, name).sql("duckdb")


def text(value: str) -> str:
    """Give a text literal."""
    return "'" + value.replace("'", "''") + "'"


class Store:
    """One open output database. Use as a context manager; only the thread that opened it may use it."""

    def __init__(self, path: Path) -> None:
        """Open or make the database. Raises RunError where another process has it open, naming the process."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.db = duckdb.connect(str(path), config={"memory_limit": MEMORY_LIMIT})
        except duckdb.Error as error:
            raise _cannot_open(path, error) from None
        self.db.execute("SET preserve_insertion_order = true")
        self.db.execute(f"SET temp_directory = {text(str(path) + '.tmp')}")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    def one(self, sql: str) -> Any:
        """Run a query and give the first value of its first row."""
        row = self.db.execute(sql).fetchone()
        return row[0] if row is not None else None

    # The source ------------------------------------------------------------------------------------------------

    def open_source(
        self, source: str | None, table: str | None, query: str | None, *, number_rows: bool
    ) -> dict[str, Type]:
        """Make the view :data:`SOURCE` over the input; give its columns and their types.

        ``source`` is a CSV, TSV, JSON lines or Parquet file, a DuckDB database (with ``table`` or ``query``), or None:
        the output database itself. With ``number_rows`` the column ``_row`` counts from 1.
        Raises ConfigError for what is missing or unreadable.
        """
        relation = self.relation(source, table, query)
        numbered = "row_number() OVER () AS _row, * " if number_rows else "* "
        try:
            described = self.db.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        except duckdb.Error as error:
            raise ConfigError(f"{source or self.path} can't be read: {_reason(error)}") from None
        columns = {str(row[0]): str(row[1]) for row in described}
        self.check_names(str(source or self.path), list(columns))
        types = {name: portable_type(kind) for name, kind in columns.items()}
        casts = [f"CAST({quote(n)} AS VARCHAR) AS {quote(n)}" for n, kind in types.items() if kind is None]
        replace = f"REPLACE ({', '.join(casts)}) " if casts else ""
        self.db.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS SELECT {numbered}{replace}FROM {relation}")
        found: dict[str, Type] = {name: kind or STRING for name, kind in types.items()}
        return {"_row": BIGINT, **found} if number_rows else found

    def relation(self, source: str | None, table: str | None, query: str | None) -> str:
        if source is None:
            return self.stored(table, query)
        path = Path(source)
        if not path.is_file():
            raise ConfigError(f"{source}: no such file")
        suffix = path.suffix.lower()
        if suffix in _DATABASES:
            if path.resolve() != self.path.resolve():
                try:
                    self.db.execute(f"ATTACH {text(str(path))} AS sqlenrich_input (READ_ONLY)")
                except duckdb.Error as error:
                    raise _cannot_open(path, error) from None
                self.db.execute(f"SET search_path = {text(f'{self.catalog()}.main,sqlenrich_input.main')}")
            return self.stored(table, query)
        if suffix not in _READERS:
            raise ConfigError(f"{source}: unknown kind of file; there are: {', '.join((*_READERS, *_DATABASES))}")
        if path.stat().st_size == 0:
            raise ConfigError(f"{source} is empty: it has not even a header")
        reader = _READERS[suffix].replace("{path}", text(str(path)))
        if "{header}" in reader:
            self.check_header(source, reader.replace("{header}", "false"))
        return reader.replace("{header}", "true")

    def stored(self, table: str | None, query: str | None) -> str:
        if query is not None:
            return f"({query})"
        if table is None:
            raise ConfigError("which table? Write source: in the header, or give a file as --input")
        return ".".join(quote(part) for part in re.findall(r'"(?:[^"]|"")*"|[^.]+', table))

    def catalog(self) -> str:
        return str(self.one("SELECT current_database()"))

    def check_header(self, source: str, reader: str) -> None:
        """DuckDB renames repeated names of a header silently: look at the names as they stand in the file."""
        try:
            row = self.db.execute(f"SELECT * FROM {reader} LIMIT 1").fetchone()
        except duckdb.Error as error:
            raise ConfigError(f"{source} can't be read: {_reason(error)}") from None
        self.check_names(source, [str(name) for name in row or () if name is not None])

    def check_names(self, source: str, names: Sequence[str]) -> None:
        seen: dict[str, str] = {}
        for name in names:
            if name.lower() in seen:
                raise ConfigError(
                    f'{source}: the columns "{seen[name.lower()]}" and "{name}" are the same but for case; rename one'
                )
            seen[name.lower()] = name

    # The steps -------------------------------------------------------------------------------------------------

    def prepare(self, plan: Plan, *, limit: int | None) -> Counts:
        """Make the prompts, the responses where they are missing, and what is pending."""
        for step in plan.steps:
            self.check_ours(step)
        call = plan.step("responses")
        self.make(plan.step("prompts"))
        columns = ", ".join(f"{quote(n)} {ENGINE.sql_type(kind).sql('duckdb')}" for n, kind in call.columns.items())
        self.db.execute(f"CREATE TABLE IF NOT EXISTS {call.relation} ({columns})")
        pending = self.refresh(plan, limit)
        prompts = plan.step("prompts").relation
        unanswered = pending if limit is None else self.one(f"SELECT count(*) FROM ({call.pending_sql})")
        return Counts(
            rows=self.one(f"SELECT count(*) FROM {prompts}"),
            distinct=self.one(f"SELECT count(DISTINCT request_hash) FROM {prompts}"),
            unanswered=unanswered,
            pending=pending,
        )

    def refresh(self, plan: Plan, limit: int | None = None) -> int:
        """Make the pending relation afresh and give its count."""
        relation = plan.step("responses").pending_relation
        self.db.execute(f"CREATE OR REPLACE TABLE {relation} AS {self.limited(plan, limit)}")
        return int(self.one(f"SELECT count(*) FROM {relation}"))

    def limited(self, plan: Plan, limit: int | None) -> str:
        pending = str(plan.step("responses").pending_sql)
        if limit is None:
            return pending
        prompts = plan.step("prompts").relation
        return (
            f"SELECT pending.* FROM ({pending}) AS pending JOIN (SELECT request_hash, min(rowid) AS first_row "
            f"FROM {prompts} GROUP BY request_hash) AS rows USING (request_hash) ORDER BY first_row LIMIT {limit}"
        )

    def check_ours(self, step: Step) -> None:
        """Refuse to replace or fill a table that sqlenrich did not make."""
        try:
            found = [row[0] for row in self.db.execute(f"DESCRIBE {step.relation}").fetchall()]
        except duckdb.CatalogException:
            return
        marks = [name for name in step.columns if "request_hash" in name]
        if not set(marks) <= set(found):
            raise ConfigError(
                f"{self.path}: the table {step.relation} is not sqlenrich's; "
                "rename the prompt file or give another --output"
            )
        if step.kind == "append" and set(step.columns) - set(found):
            raise ConfigError(
                f"{self.path}: {step.relation} was made by another version of sqlenrich; give another --output"
            )

    def make(self, step: Step) -> None:
        """Make a table step afresh."""
        try:
            self.db.execute(f"CREATE OR REPLACE TABLE {step.relation} AS {step.sql}")
        except duckdb.Error as error:
            raise RunError(f"the step {step.name} failed: {_reason(error)}") from None

    def requests(self, plan: Plan, rows: int) -> Iterator[Request]:
        """Give what is pending, a chunk at a time: never the table in memory."""
        relation = plan.step("responses").pending_relation
        for start in range(0, rows, CHUNK_ROWS):
            chunk = self.db.execute(
                f"SELECT request_hash, attempt, prompt FROM {relation} "
                f"WHERE rowid >= {start} AND rowid < {start + CHUNK_ROWS}"
            ).fetchall()
            for request_hash, attempt, prompt in chunk:
                yield Request(request_hash, attempt, prompt)

    def append(
        self, plan: Plan, answers: Sequence[Answer], *, run_id: str, version: str | None, fingerprint: str
    ) -> None:
        """Store answers and commit: from here on they are never asked again."""
        columns: dict[str, list[Any]] = {name: [getattr(a, name, None) for a in answers] for name in _ANSWERS.names}
        count = len(answers)
        columns |= {"version": [version] * count, "fingerprint": [fingerprint] * count, "run_id": [run_id] * count}
        columns["asked_at"] = [answer.asked_at.replace(tzinfo=None) for answer in answers]
        batch = pa.table(columns, schema=_ANSWERS)
        self.db.register("sqlenrich_batch", batch)
        self.db.execute(f"INSERT INTO {plan.step('responses').relation} BY NAME SELECT * FROM sqlenrich_batch")
        self.db.unregister("sqlenrich_batch")

    def finish(self, plan: Plan) -> tuple[int, int, dict[str, int], int]:
        """Make checked, enriched and quarantine together; give their counts and how much is still pending.

        Raises RunError if a row is unaccounted for.
        """
        checked, enriched, quarantine = (plan.step(name) for name in ("checked", "enriched", "quarantine"))
        self.db.execute("BEGIN")
        for step in (checked, enriched, quarantine):
            self.make(step)
        self.db.execute("COMMIT")
        call = plan.step("responses")
        rows, good, bad = (
            self.one(f"SELECT count(*) FROM {relation}")
            for relation in (plan.step("prompts").relation, enriched.relation, quarantine.relation)
        )
        if rows != good + bad:
            raise RunError(f"{rows} rows in, but {good} enriched and {bad} quarantined: please report this")
        codes = self.db.execute(
            f"SELECT _error, count(*) FROM {quarantine.relation} GROUP BY _error ORDER BY count(*) DESC, _error"
        ).fetchall()
        pending = self.one(f"SELECT count(*) FROM ({call.pending_sql})")
        self.db.execute(f"DROP TABLE {call.pending_relation}")
        return good, bad, {str(code): int(count) for code, count in codes}, pending

    def tokens(self, plan: Plan, run_id: str) -> tuple[int | None, int | None]:
        """Give the input and output tokens of a run, None where no answer told them."""
        row = self.db.execute(
            "SELECT sum(tokens_in)::BIGINT, sum(tokens_out)::BIGINT "
            f"FROM {plan.step('responses').relation} WHERE run_id = ?",
            [run_id],
        ).fetchone()
        return (row[0], row[1]) if row is not None else (None, None)

    def record(self, run_id: str, name: str, started: datetime, status: str, facts: Mapping[str, Any]) -> None:
        """Write a line of the runs' ledger."""
        self.db.execute(
            f"CREATE TABLE IF NOT EXISTS {LEDGER} "
            "(run_id VARCHAR, name VARCHAR, started_at TIMESTAMP, ended_at TIMESTAMP, status VARCHAR, report VARCHAR)"
        )
        now = datetime.now(started.tzinfo)
        values = [run_id, name, started.replace(tzinfo=None), now.replace(tzinfo=None), status, json.dumps(dict(facts))]
        self.db.execute(f"INSERT INTO {LEDGER} VALUES (?, ?, ?, ?, ?, ?)", values)

    def export(self, plan: Plan, output: Path) -> None:
        """Write NAME to a CSV or Parquet file, and NAME_quarantine beside it."""
        form = "FORMAT parquet" if output.suffix.lower() == ".parquet" else "FORMAT csv, HEADER"
        for name, path in (("enriched", output), ("quarantine", quarantine_file(output))):
            self.db.execute(f"COPY {plan.step(name).relation} TO {text(str(path))} ({form})")


def quarantine_file(output: Path) -> Path:
    """Give the file beside an output file that holds the refused rows."""
    return output.with_name(f"{output.stem}_quarantine{output.suffix}")


def portable_type(written: str) -> Type | None:
    """Give the portable type of a DuckDB type, None for one that is read as text."""
    written = written.strip()
    if written in _SCALARS:
        return _SCALARS[written]
    if match := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", written):
        return Decimal(int(match[1]), int(match[2]))
    if written.endswith("[]"):
        item = portable_type(written[:-2])
        return None if item is None else Array(item)
    if written.startswith("STRUCT(") and written.endswith(")"):
        fields: list[tuple[str, Type]] = []
        for part in _split(written[7:-1]):
            match = re.fullmatch(r'("(?:[^"]|"")*"|\S+) (.+)', part.strip(), re.DOTALL)
            kind = portable_type(match[2]) if match else None
            if match is None or kind is None:
                return None
            name = match[1]
            fields.append((name[1:-1].replace('""', '"') if name.startswith('"') else name, kind))
        return Struct(tuple(fields))
    return None


def _split(fields: str) -> Iterator[str]:
    depth, start, quoted = 0, 0, False
    for position, char in enumerate(fields):
        quoted ^= char == '"'
        depth += 0 if quoted else (char == "(") - (char == ")")
        if char == "," and depth == 0 and not quoted:
            yield fields[start:position]
            start = position + 1
    yield fields[start:]


def _reason(error: Exception) -> str:
    """The first line of a database's message, without its class."""
    return re.sub(r"^\w[\w ]* Error: ", "", str(error).strip().splitlines()[0])


def _cannot_open(path: Path, error: Exception) -> RunError:
    if match := re.search(r"PID (\d+)", str(error)):
        return RunError(f"{path} is in use by the process {match[1]}; wait for it, or end it, then run again")
    return RunError(f"{path} can't be opened: {_reason(error)}")

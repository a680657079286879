"""The database of a DuckDB run: the source read in place, the steps made, each answer kept as soon as it is there."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from .engines.base import identifier
from .engines.duckdb import ENGINE
from .errors import ConfigError, RunError
from .llm.messages import Answer, Request
from .plan import Plan, Step
from .types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Array, Decimal, Struct, Type

T = TypeVar("T")
SOURCE = "sqlenrich_source"
LEDGER = "_sqlenrich_runs"
CHUNK_ROWS = 4096
MEMORY_MIB = 320
MEMORY_MOST_MIB = 16_384
THREADS = 4
"""Each thread takes a share of the memory; more of them would make a run no faster, since the model is slower."""
MAX_LINE = 2**24
INPUT = "sqlenrich_input"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_DATABASES = (".duckdb", ".db")
_FILES = (*_DELIMITERS, *_JSON_LINES, ".parquet", *_DATABASES)
# JSON has texts only: what DuckDB takes for one of these stays the text it is. A field may be called DATE, too.
_GUESSED = re.compile(r'("(?:[^"]|"")*")|(?:^|(?<=[^,] ))(?:TIMESTAMP WITH TIME ZONE|TIMESTAMP|DATE|TIME|UUID|JSON)\b')
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


def name_parts(table: str) -> list[str]:
    """Give the parts of a table's name: ``raw.messages``, with dots inside quotes kept."""
    parts = re.findall(r'"(?:[^"]|"")*"|[^.]+', table)
    return [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts]


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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{path} can't be made: {error.strerror}: {error.filename}") from None
        threads = min(THREADS, os.cpu_count() or 1)
        try:
            self.db = duckdb.connect(str(path), config={"memory_limit": f"{MEMORY_MIB}MiB", "threads": threads})
        except duckdb.Error as error:
            raise _cannot_open(path, error) from None
        self.memory_mib = MEMORY_MIB
        self.paths: tuple[str, str] | None = None
        self.db.execute("SET preserve_insertion_order = true")
        self.db.execute("SET enable_progress_bar = false")  # it goes to stdout, which is for data
        self.db.execute(f"SET temp_directory = {text(str(path) + '.tmp')}")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.db.close()
        if isinstance(error, duckdb.OutOfMemoryException):
            raise RunError(f"{self.path}: not enough memory; cut long texts in a source query, or run it in parts")
        if isinstance(error, duckdb.Error):
            raise RunError(_problem(error, f"{self.path}: ")) from None

    def one(self, sql: str) -> Any:
        """Run a query and give the first value of its first row."""
        row = self.db.execute(sql).fetchone()
        return row[0] if row is not None else None

    def roomy(self, work: Callable[[], T]) -> T:
        """Do what can be done again from its start, with twice the memory where there was too little.

        Most runs stay within the first limit, however many rows they have; very long rows, and millions of them, don't.
        """
        while True:
            try:
                return work()
            except duckdb.OutOfMemoryException:
                with suppress(duckdb.TransactionException):
                    self.db.execute("ROLLBACK")
                if self.memory_mib >= MEMORY_MOST_MIB:
                    raise
                self.memory_mib *= 2
                self.db.execute(f"SET memory_limit = '{self.memory_mib}MiB'")

    # The source ------------------------------------------------------------------------------------------------

    def open_source(
        self, source: str | None, table: str | None, query: str | None, *, number_rows: bool
    ) -> dict[str, Type]:
        """Make the view :data:`SOURCE` over the input; give its columns and their types.

        ``source`` is a CSV, TSV, JSON lines or Parquet file, a DuckDB database (with ``table`` or ``query``), or None:
        the output database itself. With ``number_rows`` the column ``_row`` counts from 1.
        Raises ConfigError for what is missing or unreadable.
        """
        relation = self.roomy(lambda: self.relation(source, table, query))
        numbered = "row_number() OVER () AS _row, * " if number_rows else "* "
        try:
            described = self.reading(f"DESCRIBE {query if query is not None else f'SELECT * FROM {relation}'}")
        except duckdb.Error as error:
            raise ConfigError(_problem(error, f"{source or self.path} can't be read: ")) from None
        columns = {str(row[0]): str(row[1]) for row in described}
        self.check_names(str(source or self.path), list(columns))
        types = {name: portable_type(kind) for name, kind in columns.items()}
        casts = [f"CAST({quote(n)} AS VARCHAR) AS {quote(n)}" for n, kind in types.items() if kind is None]
        replace = f"REPLACE ({', '.join(casts)}) " if casts else ""
        self.reading(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS SELECT {numbered}{replace}FROM {relation}")
        found: dict[str, Type] = {name: kind or STRING for name, kind in types.items()}
        return {"_row": BIGINT, **found} if number_rows else found

    def relation(self, source: str | None, table: str | None, query: str | None) -> str:
        if source is None:
            return self.stored(table, query)
        path = Path(source)
        if not path.is_file():
            raise ConfigError(f"{source}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
        suffix = path.suffix.lower()
        if suffix not in _FILES:
            raise ConfigError(f"{source}: unknown kind of file; there are: {', '.join(_FILES)}")
        if path.stat().st_size == 0:
            raise ConfigError(f"{source} is empty: it has not even a header")
        if suffix in _DATABASES:
            if path.resolve() != self.path.resolve() and self.paths is None:
                self.attach(path)
            return self.stored(table, query)
        if suffix in _DELIMITERS:
            return self.delimited(path, _DELIMITERS[suffix])
        if suffix in _JSON_LINES:
            return self.json_lines(path)
        return self.parquet(path)

    def attach(self, path: Path) -> None:
        """Attach the input's database; names of the source mean its tables first."""
        try:
            self.db.execute(f"ATTACH {text(str(path))} AS {INPUT} (READ_ONLY)")
        except duckdb.Error as error:
            raise _cannot_open(path, error) from None
        own = f"{quote(self.catalog())}.main"
        self.paths = (f"{INPUT}.main,{own}", f"{own},{INPUT}.main")
        self.db.execute(f"SET search_path = {text(self.paths[1])}")

    def reading(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement that reads the source: its names mean the tables of the input's database first."""
        if self.paths is None:
            return self.roomy(lambda: self.db.execute(sql).fetchall())
        self.db.execute(f"SET search_path = {text(self.paths[0])}")
        try:
            return self.roomy(lambda: self.db.execute(sql).fetchall())
        finally:
            self.db.execute(f"SET search_path = {text(self.paths[1])}")

    def stored(self, table: str | None, query: str | None) -> str:
        if query is not None:
            return f"(\n{query}\n)"
        if table is None:
            raise ConfigError("which table? Write source: in the header, or give a file as --input")
        return ".".join(quote(part) for part in name_parts(table))

    def catalog(self) -> str:
        return str(self.one("SELECT current_database()"))

    def delimited(self, path: Path, delimiter: str) -> str:
        """Read every field as text. The header is read here and nothing is guessed: DuckDB's sniffer takes lines
        that start with # for comments, leaves out a header that does not look like one, and renames columns."""
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                lines: list[str] = []
                reader = csv.reader(_kept(file, lines), delimiter=delimiter, strict=True)
                header = next(reader, [])
        except UnicodeDecodeError:
            raise ConfigError(f"{path} can't be read: it is no UTF-8 text; save it as UTF-8") from None
        except (csv.Error, OSError) as error:
            raise ConfigError(f"{path} can't be read: {error} (in the header)") from None
        if not header:
            raise ConfigError(f"{path}: line 1 is blank; the header must stand there")
        names = [name or f"column{index}" for index, name in enumerate(header)]
        self.check_names(str(path), names)
        columns = ", ".join(f"{text(name)}: 'VARCHAR'" for name in names)
        end = re.search(r"\r?\n?$", lines[-1])
        written = end[0].replace("\r", "\\r").replace("\n", "\\n") if end else ""
        new_line = f"new_line = {text(written)}, " if written else ""
        return (
            f"read_csv({text(str(path))}, auto_detect = false, header = true, columns = {{{columns}}}, "
            f"{new_line}delim = {text(delimiter)}, quote = '\"', escape = '\"', "
            f"max_line_size = {MAX_LINE}, buffer_size = {2 * MAX_LINE})"
        )

    def json_lines(self, path: Path) -> str:
        """Read JSON lines with the types of JSON: a text that looks like a date stays the text it is."""
        given = f"{text(str(path))}, maximum_object_size = {MAX_LINE}"
        try:
            described = self.db.execute(f"DESCRIBE SELECT * FROM read_ndjson({given}, sample_size = -1)").fetchall()
            if [row[:2] for row in described] == [("json", "JSON")]:
                raise ConfigError(f"{path} can't be read: a line is no JSON object")
            keys = self.db.execute(
                f"SELECT DISTINCT unnest(json_keys(json)) FROM read_ndjson_objects({given}) ORDER BY ALL"
            ).fetchall()
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise ConfigError(_problem(error, f"{path} can't be read: ")) from None
        self.check_names(str(path), [str(key) for (key,) in keys])
        types = {str(row[0]): _GUESSED.sub(lambda m: m[1] or "VARCHAR", str(row[1])) for row in described}
        columns = ", ".join(f"{text(name)}: {text(kind)}" for name, kind in types.items())
        return f"read_ndjson({given}, columns = {{{columns}}})"

    def parquet(self, path: Path) -> str:
        """DuckDB renames columns that are equal but for case: look at the names as they stand in the file."""
        try:
            names = list(pq.read_schema(path).names)
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(f"{path} can't be read: {str(error).splitlines()[0]}") from None
        self.check_names(str(path), names)
        return f"read_parquet({text(str(path))})"

    def check_names(self, source: str, names: Sequence[str]) -> None:
        seen: dict[str, str] = {}
        for name in names:
            other = seen.get(name.lower())
            if other == name:
                raise ConfigError(f'{source}: the column "{name}" stands twice; rename one')
            if other is not None:
                raise ConfigError(f'{source}: the columns "{other}" and "{name}" are the same but for case; rename one')
            seen[name.lower()] = name

    # The steps -------------------------------------------------------------------------------------------------

    def prepare(self, plan: Plan, *, limit: int | None) -> Counts:
        """Make the prompts, the responses where they are missing, and what is pending."""
        return self.roomy(lambda: self._prepare(plan, limit))

    def _prepare(self, plan: Plan, limit: int | None) -> Counts:
        call = plan.step("responses")
        for step in plan.steps:
            self.check_ours(step.relation, step.columns, whole=step.kind == "append")
        self.check_ours(str(call.pending_relation), ("request_hash",))
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

    def key_warning(self, plan: Plan, key: Sequence[str]) -> str | None:
        """Give a line about keys that are repeated or NULL: legal, one output row per input row; None for none."""
        if key == ("_row",):
            return None
        names, prompts = ", ".join(quote(name) for name in key), plan.step("prompts").relation
        missing = " OR ".join(f"{quote(name)} IS NULL" for name in key)
        rows, distinct, nulls = self.db.execute(
            f"SELECT count(*), count(DISTINCT hash({names})), count(*) FILTER ({missing}) FROM {prompts}"
        ).fetchall()[0]
        if rows == distinct and not nulls:
            return None
        return (
            f"warning: the key {', '.join(key)} does not name each row: {rows - distinct:,} of {rows:,} rows repeat "
            f"another's, {nulls:,} are NULL; each row has its result all the same"
        )

    def refresh(self, plan: Plan, limit: int | None = None) -> int:
        """Make the pending relation afresh and give its count."""
        relation = plan.step("responses").pending_relation
        make = f"CREATE OR REPLACE TABLE {relation} AS {self.limited(plan, limit)}"
        self.roomy(lambda: self.db.execute(make))
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

    def check_ours(self, relation: str, columns: Iterable[str], *, whole: bool = False) -> None:
        """Refuse to replace or fill a table that sqlenrich did not make."""
        try:
            found = {row[0] for row in self.db.execute(f"DESCRIBE {relation}").fetchall()}
        except duckdb.CatalogException:
            return
        if not {name for name in columns if "request_hash" in name} <= found:
            raise ConfigError(
                f"{self.path}: the table {relation} is not sqlenrich's; rename the prompt file or give another --output"
            )
        if whole and set(columns) - found:
            raise ConfigError(
                f"{self.path}: {relation} was made by another version of sqlenrich; give another --output"
            )

    def make(self, step: Step) -> None:
        """Make a table step afresh."""
        try:
            if step.name == "prompts":
                place = f"{quote(self.catalog())}.main.{step.relation}"
                self.reading(f"CREATE OR REPLACE TABLE {place} AS {step.sql}")
            else:
                self.db.execute(f"CREATE OR REPLACE TABLE {step.relation} AS {step.sql}")
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise RunError(_problem(error, f"the step {step.name} failed: ")) from None

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
        return self.roomy(lambda: self._finish(plan))

    def _finish(self, plan: Plan) -> tuple[int, int, dict[str, int], int]:
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


def _kept(lines: Iterable[str], seen: list[str]) -> Iterator[str]:
    for line in lines:
        seen.append(line)
        yield line


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


def _problem(error: Exception, place: str) -> str:
    """Give one line for a database's message; what is wrong in a delimited file is told by file and line."""
    message = str(error).strip()
    file = re.search(r"^  file = (.*)$", message, re.MULTILINE)
    if file is None:
        candidates = re.search(r"^Candidate bindings: (.*)$", message, re.MULTILINE)
        return f"{place}{_reason(error)}{f' There are: {candidates[1]}' if candidates else ''}"
    line = re.search(r"CSV Error on Line: (\d+)", message)
    where = f"{file[1]}, line {line[1]}" if line else file[1]
    if fields := re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message):
        return f"{where}: {fields[2]} fields where the header has {fields[1]}"
    for sign, meaning in _CSV_PROBLEMS.items():
        if sign in message:
            return f"{where}: {meaning}"
    return f"{where}: {_reason(error)}"


_CSV_PROBLEMS = {
    "unterminated quote": "a quote is not closed",
    "Invalid unicode": "no UTF-8 text; save the file as UTF-8",
    "invalid state": "it is no plain CSV: a quote stands inside an unquoted field, or the lines end in different "
    "ways (\\n and \\r\\n); write the file again",
}


def _reason(error: Exception) -> str:
    """The first line of a database's message, without its class."""
    return re.sub(r"^\w[\w ]* Error: ", "", str(error).strip().splitlines()[0].strip())


def _cannot_open(path: Path, error: Exception) -> RunError:
    if match := re.search(r"PID (\d+)", str(error)):
        return RunError(f"{path} is in use by the process {match[1]}; wait for it, or end it, then run again")
    return RunError(f"{path} can't be opened: {_reason(error)}")

"""The three stand-ins as a user meets them: a process, a dbt profile that reaches it, a source table, results."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlenrich.core.names import relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import STRING
from sqlenrich.engines import get_engine
from sqlenrich.renderer.statements import create_if_missing
from sqlenrich.runner.place import open_connection
from sqlenrich.store.connections.base import JobState, JobStatus, WarehouseConnection
from sqlenrich.store.queries import insert_rows
from tests.support.process import Process

SECRET = "a-secret-that-nobody-sees"  # the password or token that the stand-ins don't check
MODULES = {
    "snowflake": "tests.standins.snowflake",
    "bigquery": "tests.standins.googlesql",
    "databricks": "tests.standins.databricks",
}
SCHEMAS = {"snowflake": "OUT.ENRICHED", "bigquery": "standin.enriched", "databricks": "mem.enriched"}
SOURCES = {"snowflake": "RAW.PUBLIC.MESSAGES", "bigquery": "standin.raw.messages", "databricks": "mem.raw.messages"}
ENDS_S = 60.0
ASKING = "step=responses"
"""In the comment before a statement of Databricks."""
NO_FAULTS = {"fail": {}, "delay": 0.0, "poison": "", "answers": "", "answers_fail": {}, "model": "", "denied": {}}


@dataclass
class Standin:
    """A stand-in that runs, and the profile ``standin`` of a ``profiles.yml`` in a folder."""

    engine: str
    process: Process
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> str:
        """Where the results go."""
        return SCHEMAS[self.engine]

    @property
    def source(self) -> str:
        """The source table."""
        return SOURCES[self.engine]

    def write_profile(self, **changes: Any) -> None:
        """Write the profile, with other fields."""
        output = {"type": self.engine, **self.fields(), **changes}
        profile = {"standin": {"target": "dev", "outputs": {"dev": output}}}
        (self.folder / "profiles.yml").write_text(json.dumps(profile))

    def fields(self, port: int | None = None) -> dict[str, Any]:
        """The fields of a profile; with a ``port`` of one that something else listens to."""
        port = port or self.process.port
        if self.engine == "snowflake":
            where: dict[str, Any] = {"host": "127.0.0.1", "port": port, "protocol": "http"}
            return {"account": "x", "user": "u", "password": SECRET, **where, "database": "OUT", "schema": "ENRICHED"}
        if self.engine == "bigquery":
            where = {"api_endpoint": f"http://127.0.0.1:{port}", "project": "standin", "dataset": "enriched"}
            return {"method": "oauth-secrets", "token": SECRET, **where}
        from tests.standins.databricks.__main__ import HTTP_PATH, TOKEN

        trusted = {"_tls_trusted_ca_file": self.process.get("/certificate")}
        where = {"host": f"127.0.0.1:{port}", "http_path": HTTP_PATH, "catalog": "mem", "schema": "default"}
        return {"token": TOKEN, **where, "connection_parameters": trusted}

    def dbt_output(self) -> dict[str, Any]:
        """The target of a profile with which dbt builds into the results' schema."""
        fields = {"type": self.engine, "threads": 2, **self.fields()}
        if self.engine == "databricks":
            address = {"_connection_uri": self.process.url + fields["http_path"]}
            fields |= {
                "schema": self.schema.rpartition(".")[2],
                "connection_parameters": fields["connection_parameters"] | address,
            }
        return fields

    def set(self, **settings: Any) -> None:
        """Change what the stand-in does from here on: faults, delay, answers."""
        self.settings |= settings
        self.process.get("/settings", NO_FAULTS | self.settings)

    def once(self, *kinds: str) -> None:
        """Let one statement that asks each meet these faults of tests/standins/control.py."""
        self.process.get("/once", {"kinds": list(kinds)})

    def asked_twice(self) -> int:
        """How many requests the model was asked more than once."""
        return sum(count > 1 for count in Counter(self.prompts()).values())

    def prompts(self) -> list[str]:
        """Every prompt that the model was asked, in order."""
        return [str(call["prompt"]) for call in self.process.get("/calls")]

    def asking(self) -> int:
        """How many statements that ask the model were submitted."""
        if self.engine == "bigquery":
            jobs = self.process.get("/bigquery/v2/projects/standin/jobs")["jobs"]
            return sum(job["configuration"].get("labels", {}).get("step") == "responses" for job in jobs)
        name, text = ("tag", '"step":"responses"') if self.engine == "snowflake" else ("query_text", ASKING)
        return sum(text in str(one[name]) for one in self.process.get("/statements"))

    def seconds(self) -> float:
        """What all statements and queries took that have ended, in the stand-in."""
        if self.engine == "bigquery":
            jobs = self.process.get("/bigquery/v2/projects/standin/jobs")["jobs"]
            times = [job["statistics"] for job in jobs if "endTime" in job["statistics"]]
            return sum(int(each["endTime"]) - int(each["startTime"]) for each in times) / 1000
        statements = self.process.get("/statements")
        if self.engine == "snowflake":
            return float(sum(each["seconds"] for each in statements))
        ended = [each for each in statements if each["execution_end_time_ms"] is not None]
        return float(sum(each["execution_end_time_ms"] - each["query_start_time_ms"] for each in ended)) / 1000

    @contextmanager
    def connected(self) -> Iterator[WarehouseConnection]:
        """A connection of the profile."""
        connection, _ = open_connection(self.engine, {"profile": "standin"}, self.folder / "tickets.prompt")
        with connection:
            yield connection

    def execute(self, *statements: str) -> None:
        """Run statements one after another."""
        with self.connected() as connection:
            for sql in statements:
                run(connection, sql)

    def rows(self, table: str, *columns: str, where: str = "") -> list[tuple[Any, ...]]:
        """Rows of a table of the results' schema, sorted; columns by name."""
        engine = get_engine(self.engine)
        query = exp.select(*(columns or ("*",))).from_(relation(engine, f"{self.schema}.{table}"))
        with self.connected() as connection:
            found = connection.rows(print_sql(engine, query.where(where) if where else query))
        return sorted(found, key=str)

    def tables(self) -> list[str]:
        """The names of the tables in the results' schema, in lower case."""
        if self.engine == "snowflake":
            found = [name.rpartition(".") for name in self.process.get("/tables")]
            return [name.lower() for schema, _, name in found if schema == self.schema]
        if self.engine == "bigquery":
            project, dataset = self.schema.split(".")
            listed = self.process.get(f"/bigquery/v2/projects/{project}/datasets/{dataset}/tables")
            return sorted(str(one["tableReference"]["tableId"]) for one in listed["tables"])
        with self.connected() as connection:
            return sorted(str(row[1]) for row in connection.rows(f"SHOW TABLES IN {self.schema}"))

    def load(self, rows: Sequence[Mapping[str, str | None]], table: str = "") -> None:
        """Make the source table of texts afresh."""
        self.execute(*loading(self.engine, table or self.source, rows))

    def clear(self) -> None:
        """Forget results, answers, calls and faults."""
        self.settings = {}
        self.process.get("/clear", {})
        if self.engine == "databricks":
            schemas = [name.split(".")[1] for name in (self.schema, self.source)]
            self.execute(
                *(f"DROP SCHEMA IF EXISTS mem.{name} CASCADE" for name in schemas),
                *(f"CREATE SCHEMA mem.{name}" for name in schemas),
            )


def loading(engine_name: str, table: str, rows: Sequence[Mapping[str, str | None]]) -> list[str]:
    """The statements that make a table of texts afresh."""
    engine = get_engine(engine_name)
    named, names = relation(engine, table), dict.fromkeys(rows[0], STRING)
    drop = exp.Drop(tables=[named.copy()], kind="TABLE", exists=True)
    statements = [print_sql(engine, drop), print_sql(engine, create_if_missing(engine, named.copy(), names))]
    for start in range(0, len(rows), 200):
        part = [[row[name] for name in names] for row in rows[start : start + 200]]
        statements.append(print_sql(engine, insert_rows(engine, named.copy(), names, part), pretty=False))
    return statements


def ended(connection: WarehouseConnection, id: str) -> JobStatus:
    """The status of a statement once it has ended."""
    until = time.monotonic() + ENDS_S
    while (status := connection.status(id)).state is JobState.RUNNING:
        assert time.monotonic() < until, "the statement does not end"
        time.sleep(0.02)
    return status


def run(connection: WarehouseConnection, sql: str) -> None:
    """Run a statement and wait for its end."""
    status = ended(connection, connection.submit(sql, {}, f"setup-{time.time_ns()}"))
    assert status.state is JobState.DONE, (sql, status)


@contextmanager
def standin(engine: str, folder: Path) -> Iterator[Standin]:
    """A stand-in with its profile in a folder."""
    with Process(MODULES[engine]) as process:
        made = Standin(engine, process, folder)
        made.write_profile()
        yield made

"""ClickHouse itself, embedded: one session for each process, which is all that chdb allows."""

from __future__ import annotations

import atexit
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sqlenrich.engines import is_engine

REGISTERED = ["clickhouse"] if is_engine("clickhouse") else []
"""The engine's name where its distribution is installed: see ``tests/engines/test_clickhouse.py``."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""What ``aiGenerate`` would send as a space."""
NO_TEXT = "aiGenerate gave no text: the call failed, or the model answered nothing"
"""The error of a call that failed."""
COLLECTION = "CREATE NAMED COLLECTION sqlenrich AS provider = 'openai', endpoint = '{}', model = 'm', api_key = 'k'"
ARROW = "output_format_arrow_string_as_string = 1, output_format_arrow_fixed_string_as_fixed_byte_array = 1"


@cache
def session() -> Any:
    """The session of this process, over a folder of its own."""
    from chdb.session import Session

    opened = Session()
    opened.query("SET ai_function_max_retries = 0, max_query_size = 16777216")
    opened.query("CREATE DATABASE work")  # in the first one a table that is missing is sought as a file
    opened.query("USE work")
    opened.query(COLLECTION.format("http://127.0.0.1:9/"))  # a query that calls is analysed with it
    atexit.register(opened.close)
    return opened


def execute(sql: str) -> None:
    """Run one statement."""
    session().query(sql)


def rows(sql: str) -> list[tuple[Any, ...]]:
    """Run one query and return its rows as Python's values."""
    import pyarrow as pa

    execute(f"SET {ARROW}")
    found = session().query(sql, "ArrowStream").bytes()
    if not found:
        return []
    table = pa.ipc.open_stream(found).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def columns_of(sql: str) -> dict[str, str]:
    """The names and types of a query's columns, in ClickHouse's words."""
    return {name: shown(kind) for name, kind, *_ in rows(f"DESCRIBE ({sql})")}


def shown(kind: str) -> str:
    """A type without what may differ: whether NULL is allowed, and a boolean or a count for a number."""
    plain = re.sub(r"Nullable\(((?:[^()]|\([^()]*\))*)\)", r"\1", re.sub(r"\s+", "", kind))
    return re.sub(r"\b(?:UInt8|Bool)\b", "Bool", plain).replace('"', "").replace("`", "")


def fill(table: str, columns: Mapping[str, str], values: Sequence[Sequence[object]]) -> None:
    """Make a table afresh; its columns have types in ClickHouse's words."""
    listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
    execute(f"CREATE OR REPLACE TABLE {table} ({listed}) ENGINE = Memory")
    if values:
        lines = (json.dumps([_plain(value) for value in row]) for row in values)
        execute(f"INSERT INTO {table} FORMAT JSONCompactEachRow\n" + "\n".join(lines))


def quoted(name: str) -> str:
    """A name as ClickHouse quotes it, written here apart from the package."""
    return '"' + name.replace("\\", "\\\\").replace('"', '""') + '"'


def _plain(value: object) -> object:
    if isinstance(value, date | datetime | Decimal):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def run_script(script: str) -> None:
    """Run each statement of a script. No literal of the engine's scripts has a line break."""
    for statement in script.split(";\n"):
        if any(line and not line.startswith("--") for line in statement.splitlines()):
            execute(statement)


@contextmanager
def database() -> Iterator[None]:
    """Work in an empty database."""
    execute("DROP DATABASE IF EXISTS work")
    execute("CREATE DATABASE work")
    execute("USE work")
    try:
        yield
    finally:
        execute("USE default")
        execute("DROP DATABASE work")
        execute("CREATE DATABASE work")
        execute("USE work")


@contextmanager
def answering(ask: Callable[[str], str | None]) -> Iterator[list[dict[str, Any]]]:
    """Answer the calls of ``aiGenerate``: a text, or None for a failure. The bodies that were sent are listed."""
    sent: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent.append(body)
            text = ask(body["messages"][-1]["content"])
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply: dict[str, Any] = (
                {"error": {"message": "no"}} if text is None else {"choices": [choice], "usage": usage}
            )
            data = json.dumps(reply).encode()
            self.send_response(400 if text is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    try:
        execute("DROP NAMED COLLECTION IF EXISTS sqlenrich")
        execute(COLLECTION.format(url))
        yield sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

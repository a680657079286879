"""Tables of SQLite and PostgreSQL as inputs."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import sqlenrich as se

PROMPT = """---
{source}
key: [id]
keep: [price]
output: {{'label(enum)': [a, b]}}
---
Label the message: {{{{ body }}}}
"""
TABLE = "CREATE TABLE messages (id bigint, body text, price {price})"
ROWS = [(1, "a card", 1.5), (2, "Straße 😀 'quoted'", None), (3, None, 2.25)]


def enriched(source: str, input: str | Path | None) -> se.Report:
    return se.run(se.loads(PROMPT.format(source=source), name="tickets"), input=input, model=se.Mock())


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    path = tmp_path / "own data.db"
    with sqlite3.connect(path) as db:
        db.execute(TABLE.format(price="real"))
        db.executemany("INSERT INTO messages VALUES (?, ?, ?)", ROWS)
    db.close()
    return path


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A server of its own on a Unix socket; gives the URL of a database with a table."""
    with warnings.catch_warnings(action="ignore"):  # it wants a folder of the user's session, which CI has not
        from pgserver.postgres_server import get_server
    # PostgreSQL runs as another user than root, and pytest's folders are for one user alone.
    with TemporaryDirectory() as folder:
        server = get_server(folder)
        try:
            values = "(1, 'a card', 1.5), (2, 'Straße 😀 ''quoted''', NULL), (3, NULL, 2.25)"
            server.psql(
                f"{TABLE.format(price='double precision')}; INSERT INTO messages VALUES {values};"
                'CREATE SCHEMA raw; CREATE TABLE raw."Own Table" AS SELECT * FROM messages'
            )
            yield server.get_uri()
        finally:
            server.cleanup()


def rows_of(report: se.Report) -> list[tuple[int, float | None]]:
    return sorted((row["id"], row["price"]) for row in report.table().to_pylist())


ANSWERED = [(1, 1.5), (2, None)]


@pytest.mark.parametrize(
    ("source", "input"),
    [
        ("source: messages", "{file}"),
        ("source: main.messages", "sqlite:///{file}"),
        ("source: {query: 'SELECT * FROM messages'}", "sqlite:///{file}"),
        ("source: another", "sqlite:///{file}#messages"),
    ],
)
def test_a_table_of_sqlite(sqlite_file: Path, source: str, input: str) -> None:
    report = enriched(source, input.format(file=sqlite_file))
    assert (report.rows_in, report.quarantine) == (3, {"NO_INPUT": 1})
    assert rows_of(report) == ANSWERED


@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        ("source: messages", ""),
        ("source: raw.Own Table", ""),
        ("source: {query: 'SELECT * FROM messages ORDER BY id'}", ""),
        ("", "#raw.Own%20Table"),
    ],
)
def test_a_table_of_postgresql(postgres: str, source: str, fragment: str) -> None:
    report = enriched(source, postgres + fragment)
    assert (report.rows_in, report.quarantine) == (3, {"NO_INPUT": 1})
    assert rows_of(report) == ANSWERED


def test_types_of_sqlite_that_change_after_many_rows(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "late.sqlite") as db:
        db.execute("CREATE TABLE messages (id integer, body text, price real)")
        db.executemany(
            "INSERT INTO messages VALUES (?, ?, 1)", [(n, None if n < 5000 else "late") for n in range(5003)]
        )
    db.close()
    report = enriched("source: messages", tmp_path / "late.sqlite")
    assert (report.enriched, report.quarantine) == (3, {"NO_INPUT": 5000})


@pytest.mark.parametrize(
    ("input", "source", "problem"),
    [
        ("sqlite:///gone.db#messages", "", "sqlite:///gone.db: no such file"),
        ("sqlite:///{file}", "", "which table? Write source: in the header, or sqlite:///{file}#TABLE"),
        (
            "sqlite:///{file}",
            "source: mesages",
            "sqlite:///{file} can't be read: Failed to prepare query: no such table",
        ),
        ("postgresql://ann:s3cret@127.0.0.1:1/db?password=s3cret", "source: x", "postgresql://127.0.0.1:1/db can't be"),
    ],
)
def test_what_cannot_be_read_is_one_line(sqlite_file: Path, input: str, source: str, problem: str) -> None:
    with pytest.raises(se.SqlenrichError) as raised:
        enriched(source, input.format(file=sqlite_file))
    said = str(raised.value)
    assert problem.format(file=sqlite_file) in said
    assert "\n" not in said
    assert "s3cret" not in said


def test_what_postgresql_refuses(postgres: str) -> None:
    with pytest.raises(se.RunError, match='can\'t be read: relation "mesages" does not exist'):
        enriched("source: mesages", postgres)

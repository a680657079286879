"""ClickHouse, an engine of another distribution over another database: the suites of the built-in engines hold for it.

chdb is ClickHouse itself. It allows one session for each process, so that the suites run in a process of their own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sqlenrich.engines import ENGINES
from tests.support.distributions import install, python

pytest.importorskip("chdb", reason="chdb has no wheel for this platform")

PROJECT = Path(__file__).parents[1] / "support" / "clickhouse_engine"
SUITES = {
    ("tests/engines/test_engines.py",): 290,
    ("tests/prompt/test_conformance.py",): 220,
    (
        "tests/prompt/test_conformance_arrays.py",
        "tests/prompt/test_conformance_names.py",
        "tests/prompt/test_conformance_numbers.py",
        "tests/prompt/test_conformance_state.py",
        "tests/schema/test_unicode.py",
    ): 130,
    (
        "tests/schema/test_malformed.py",
        "tests/schema/test_malformed_random.py",
        "tests/schema/test_schema_keywords.py",
        "tests/schema/test_checks_random.py",
    ): 20,
}
"""Suites, and how many of their tests are of the engine at least."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distribution, as an installer writes it."""
    folder = tmp_path_factory.mktemp("site")
    install(PROJECT, folder)
    return folder


def test_it_is_listed(site: Path) -> None:
    listed = python(site, ["-m", "sqlenrich", "engines"])
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [*ENGINES, "clickhouse"]
    assert listed.stdout.splitlines()[-1].split() == ["clickhouse", "aiGenerate"]


def test_the_suites_of_engines_pass_for_it(site: Path) -> None:
    files = [file for group in SUITES for file in group]
    done = python(site, ["-m", "pytest", "-v", "-n", "0", "-p", "no:cacheprovider", *files, "-k", "clickhouse"])
    assert done.returncode == 0, done.stdout[-6000:]
    passed = Counter(line.partition("::")[0] for line in done.stdout.splitlines() if " PASSED" in line)
    found = {group: sum(passed[file] for file in group) for group in SUITES}
    assert [group for group, least in SUITES.items() if found[group] < least] == [], found


RUN = """
import chdb.dbapi, sqlenrich as se
from sqlenrich.store.dbapi import DbApiBackend
database = chdb.dbapi.connect("database")
cursor = database.cursor()
cursor.execute("CREATE DATABASE w")
cursor.execute("CREATE TABLE w.messages (id Int64, body Nullable(String)) ENGINE = MergeTree ORDER BY id")
cursor.execute("INSERT INTO w.messages SELECT number, 'text ' || toString(number % 40) FROM numbers(80)")
enrichment = se.enrichment("intent", prompt="Say {{ body }}", output={"intent(enum)": ["a", "b"]}, key=["id"])
for _ in range(2):
    backend = DbApiBackend(database, engine="clickhouse", schema="w")
    model = se.Mock({"bad_json": 0.2, "missing_field": 0.1})
    found = se.run(enrichment, input="w.messages", output=backend, model=model)
    print(found.rows_in, found.enriched + found.quarantined, found.calls, sorted(found.quarantine))
cursor.execute("SELECT count() FROM w.intent WHERE intent IN ('a', 'b')")
print(cursor.fetchall()[0][0] == found.enriched)
"""


def test_our_client_asks_behind_its_tables_and_pays_once(site: Path, tmp_path: Path) -> None:
    done = python(site, ["-c", RUN], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == ["80 80 40 ['BAD_JSON', 'MISSING_FIELD']", "80 80 0 ['BAD_JSON', 'MISSING_FIELD']", "True"]

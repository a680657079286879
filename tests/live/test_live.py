"""Runs on a real warehouse, where a variable of the environment names one. At most 80 requests each.

    SQLENRICH_LIVE_SNOWFLAKE="analytics:dev ANALYTICS.SQLENRICH_LIVE" pytest tests/live

``_BIGQUERY`` and ``_DATABRICKS`` likewise: a profile of dbt's ``profiles.yml``, and a schema that exists. The tables of
the test are made there and dropped at its end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.runner.place import open_connection
from tests.support.warehouses import MODULES, loading, run

pytestmark = pytest.mark.live
NAME = "sqlenrich_live"
ROWS = [
    {"id": f"{n:02}", "body": f"Message {n}. Answer with this word: {('marigold', 'rose')[n % 2]}"} for n in range(50)
]
PROMPT = """---
source: {source}
key: [id]
params: {{temperature: 0, max_tokens: 64}}
output: {{'word(enum)': [marigold, rose]}}
---
{{{{ body }}}}
"""
PROBED = 20
"""What a probe asks at most."""


@dataclass(frozen=True)
class Live:
    """A warehouse of the environment, and the prompt file in a folder."""

    engine: str
    profile: str
    schema: str
    folder: Path

    @property
    def source(self) -> str:
        """The source table."""
        return f"{self.schema}.{NAME}_source"

    def execute(self, *statements: str) -> None:
        """Run statements one after another."""
        connection, _ = open_connection(self.engine, {"profile": self.profile}, self.folder / "x.prompt")
        with connection:
            for sql in statements:
                run(connection, sql)

    def drop(self) -> None:
        """Drop the tables of the test."""
        names = [NAME, *(f"{NAME}_{role}" for role in ("prompts", "responses", "checked", "quarantine", "source"))]
        self.execute(*(f"DROP TABLE IF EXISTS {self.schema}.{name}" for name in names))


@pytest.fixture(params=list(MODULES))
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    variable = f"SQLENRICH_LIVE_{request.param.upper()}"
    named = os.environ.get(variable, "").split()
    if len(named) != 2:
        pytest.skip(f'{variable} names no warehouse: write "PROFILE:TARGET SCHEMA"')
    profile, schema = named
    found = Live(request.param, profile, schema, tmp_path)
    found.drop()
    found.execute(*loading(found.engine, found.source, ROWS))
    (tmp_path / f"{NAME}.prompt").write_text(PROMPT.format(source=found.source))
    yield found
    found.drop()


def test_a_warehouse_from_the_preflight_to_the_bill(live: Live) -> None:
    enrichment = se.load(live.folder / f"{NAME}.prompt")
    place: dict[str, Any] = {"engine": live.engine, "profile": live.profile, "output": live.schema}
    planned = se.estimate(enrichment, **place)
    assert (planned.rows, planned.calls) == (len(ROWS), len(ROWS))
    first = se.run(enrichment, **place, max_rows=3)
    assert (first.calls, first.quarantine.get("UNREADABLE"), first.stopped_at) == (3, None, "max_rows")
    rest = se.run(enrichment, **place)
    assert (rest.cached, rest.enriched + rest.quarantined, rest.pending) == (3, len(ROWS), 0)
    assert rest.enriched >= 0.9 * len(ROWS), dict(rest.quarantine)
    again = se.run(enrichment, **place)
    assert (again.calls, again.enriched) == (0, rest.enriched)
    used = se.usage(**place)
    assert [run.answers for run in used.runs[-3:]] == [3, len(ROWS) - 3, 0]
    assert used.not_stored is None


def test_the_facts_of_a_warehouse(live: Live) -> None:
    found = se.probe(engine=live.engine, profile=live.profile)
    assert found.calls <= PROBED
    assert found.differences == (), found.to_text()

"""Each stand-in of a warehouse in turn, as the tests of runs meet it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.warehouse_runs import PROMPT, ROWS
from tests.support.warehouses import MODULES, Standin


@pytest.fixture(params=list(MODULES))
def warehouse(
    request: pytest.FixtureRequest, standins: Callable[[str], Standin], monkeypatch: pytest.MonkeyPatch
) -> Standin:
    """Each stand-in in turn, without tables and faults, and the profile ``standin`` that reaches it.

    What one engine does as another is tested on Snowflake's alone: a run takes the others ten times as long.
    """
    found = standins(request.param)
    monkeypatch.setenv("DBT_PROFILES_DIR", str(found.folder))
    found.write_profile()
    found.clear()
    return found


@pytest.fixture
def place(warehouse: Standin) -> Standin:
    """The stand-in with the source table, and a prompt file ``tickets.prompt`` beside the profile."""
    (warehouse.folder / "tickets.prompt").write_text(PROMPT)
    warehouse.load(ROWS)
    warehouse.set(answers=str(warehouse.folder / "tickets.prompt"))
    return warehouse

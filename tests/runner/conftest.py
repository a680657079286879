"""The stand-ins of the warehouses, each started once a process of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.warehouse_runs import PROMPT, ROWS
from tests.support.warehouses import MODULES, Standin, standin


@pytest.fixture(scope="session")
def standins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Standin]]:
    """The stand-in of an engine, which starts at its first use."""
    with ExitStack() as stack:
        started: dict[str, Standin] = {}

        def of(engine: str) -> Standin:
            if engine not in started:
                started[engine] = stack.enter_context(standin(engine, tmp_path_factory.mktemp(engine)))
            return started[engine]

        yield of


@pytest.fixture(params=list(MODULES))
def warehouse(
    request: pytest.FixtureRequest, standins: Callable[[str], Standin], monkeypatch: pytest.MonkeyPatch
) -> Standin:
    """Each stand-in in turn, without tables and faults, and the profile ``standin`` that reaches it."""
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

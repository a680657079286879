"""Until when a vendor serves a model."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from sqlenrich.core.errors import RunError
from sqlenrich.engines import get_engine
from sqlenrich.runner.model_end import model_end

LISTED: list[tuple[Any, ...]] = [
    ("LLAMA3.3-70B", "GA", "all", None, None),
    ("OLD", "LEGACY", "all", dt.datetime(2026, 1, 1), dt.date(2026, 2, 1)),
    ("LATER", "LEGACY", "all", "2026-01-01", "2999-01-01"),
]


@pytest.mark.parametrize(
    ("engine", "model", "expected", "ended"),
    [
        ("snowflake", "llama3.3-70b", "llama3.3-70b is GA (told by the warehouse)", False),
        ("snowflake", "old", "old is LEGACY and may end on 2026-02-01 (told by the warehouse)", True),
        ("snowflake", "later", "later is LEGACY and may end on 2999-01-01 (told by the warehouse)", False),
        ("snowflake", "unknown", None, False),
        ("bigquery", "gemini-2.5-flash", "gemini-2.5-flash may end on 2027-03-31 (as of 2026-11-25)", None),
        ("bigquery", "dataset.model", None, False),
        ("databricks", "system.ai.gpt-5-5", None, False),
    ],
)
def test_what_is_known(engine: str, model: str, expected: str | None, ended: bool | None) -> None:
    found = model_end(get_engine(engine), model, lambda _: LISTED)
    assert (found.to_text() if found else None) == expected
    if found is not None and ended is not None:
        assert found.has_ended == ended


def test_a_role_that_may_not_list_models_is_no_failure() -> None:
    def refused(sql: str) -> list[tuple[Any, ...]]:
        raise RunError(f"not authorized: {sql}")

    assert model_end(get_engine("snowflake"), "llama3.3-70b", refused) is None

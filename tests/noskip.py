"""Makes a skipped test a failure: loaded where SQLENRICH_NO_SKIPS is set, so that CI proves what it says.

Tests marked ``live`` may skip: they need an account of a warehouse.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Turn the report of a skip into one of a failure that says why it was skipped."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("live") is None:
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure here: {report.longrepr}"

"""Makes a skipped test a failure: loaded where SQLENRICH_NO_SKIPS is set, so that CI proves what it says."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """Turn the report of a skip into one of a failure that says why it was skipped."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure here: {report.longrepr}"

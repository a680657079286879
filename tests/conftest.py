"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden`` and ``--update-readme``: write what is compared instead of comparing."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what is rendered now")
    parser.addoption(
        "--update-readme", action="store_true", help="write the real output of its commands into README.md"
    )

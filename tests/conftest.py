"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden`` and ``--update-readme``: write what is compared instead of comparing."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what is rendered now")
    parser.addoption(
        "--update-readme", action="store_true", help="write the real output of its commands into README.md"
    )


ON_DEMAND = ("vllm", "browser")
"""Markers of tests that run only if they are asked for: ``-m vllm``."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of what few machines have, unless they are asked for."""
    left_out = [name for name in ON_DEMAND if name not in config.getoption("-m")]
    asked = [item for item in items if not any(map(item.get_closest_marker, left_out))]
    config.hook.pytest_deselected(items=[item for item in items if item not in asked])
    items[:] = asked

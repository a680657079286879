"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden`` and ``--update-readme``: write what is compared instead of comparing."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what is rendered now")
    parser.addoption(
        "--update-readme", action="store_true", help="write the real output of its commands into README.md"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of vLLM out unless they are asked for: ``-m vllm``."""
    if "vllm" in config.getoption("-m"):
        return
    asked = [item for item in items if item.get_closest_marker("vllm") is None]
    config.hook.pytest_deselected(items=[item for item in items if item not in asked])
    items[:] = asked

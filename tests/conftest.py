"""Options of the test run, and the stand-ins of the warehouses, each started once a process of the tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.standins.spark import QUICK_JAVA
from tests.support.garbage_collection import freeze_loaded
from tests.support.warehouses import MODULES, Standin, standin


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden`` and ``--update-readme``: write what is compared instead of comparing."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what is rendered now")
    parser.addoption(
        "--update-readme", action="store_true", help="write the real output of its commands into README.md"
    )


gc.disable()  # while modules are imported and tests collected: nothing of it is garbage

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job in the background, whose programs inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of every garbage collection to come."""
    freeze_loaded()


ON_DEMAND = ("vllm", "browser")
"""Markers of tests that run only if they are asked for: ``-m vllm``."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the names of the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of what few machines have, unless they are asked for; name the groups of the others."""
    left_out = [name for name in ON_DEMAND if name not in config.getoption("-m")]
    asked = [item for item in items if not any(map(item.get_closest_marker, left_out))]
    config.hook.pytest_deselected(items=[item for item in items if item not in asked])
    items[:] = asked
    for item in items:
        if (name := group(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session", autouse=True)
def quick_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let each Spark that a test starts as a program of its own use Java's quick compiler too."""
    folder = tmp_path_factory.mktemp("spark-conf")
    options = {f"spark.{name}.extraJavaOptions": QUICK_JAVA for name in ("driver", "executor")}
    lines = {**options, "spark.ui.enabled": "false"}
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        yield


def group(item: pytest.Item) -> str | None:
    """Return the name of the tests that one worker runs, since what they share takes long to start: a stand-in, Spark.

    dbt's builds on a stand-in are a group of their own: the longest group bounds the time of all tests.
    """
    engine = next((engine for engine in MODULES if engine in item.nodeid), None)
    if engine is not None and "standins" in getattr(item, "fixturenames", ()):
        return f"{engine} of dbt" if item.path.parent.name == "dbt" else engine
    return "spark" if item.get_closest_marker("spark") is not None else None


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

"""What ``import sqlenrich`` and its rooms load. What a room may import is a contract in pyproject.toml."""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sqlenrich
from sqlenrich.engines import ENGINES

HEAVY = (
    "pyspark",
    "duckdb",
    "pyarrow",
    "httptools",
    "snowflake",
    "google.cloud.bigquery",
    "databricks",
    "uvloop",
    "pydantic",
    "openai",
    "anthropic",
)
COMPILER = ("sqlglot", "jinja2", "ruamel", "click")


def loaded(imports: str, modules: tuple[str, ...]) -> str:
    """Return those of some modules that a statement loads in a new interpreter."""
    code = f"import sys; {imports}; print(*[name for name in {modules} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(("imports", "modules"), [
    pytest.param("import sqlenrich", (*HEAVY, *COMPILER), id="the package"),
    pytest.param("from sqlenrich import *", HEAVY, id="every public name"),
    pytest.param("import sqlenrich.llm.messages", (*HEAVY, *COMPILER), id="the client's messages"),
    pytest.param("import sqlenrich.llm.client", COMPILER, id="the client"),
    pytest.param("import sqlenrich.llm.batch.vendors", ("pydantic", "openai", "anthropic", *COMPILER), id="batches"),
    pytest.param("import sqlenrich.spark.vllm.keeper", (*HEAVY, *COMPILER, "orjson"), id="the keeper"),
    *(pytest.param(f"from sqlenrich.engines import get_engine; get_engine({name!r})", HEAVY, id=name)
      for name in ENGINES),
])  # fmt: skip
def test_an_import_loads_no_driver(imports: str, modules: tuple[str, ...]) -> None:
    assert loaded(imports, modules) == ""


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["completion", "bash"], ["nope"]])
def test_what_reads_no_file_loads_no_compiler(arguments: list[str]) -> None:
    code = (
        f"import sys, os; sys.argv = ['sqlenrich', *{arguments}]; from sqlenrich.__main__ import main; names = "
        f"{('sqlglot', 'jinja2', 'ruamel', 'duckdb', 'pyarrow', 'httptools')}; "
        "os._exit = lambda status: print(*[name for name in names if name in sys.modules], file=sys.stderr); main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == ""


def test_every_public_name_is_there() -> None:
    assert all(hasattr(sqlenrich, name) for name in sqlenrich.__all__)
    assert sqlenrich.__all__ == sorted(sqlenrich.__all__)
    assert set(sqlenrich.__all__) <= set(dir(sqlenrich))


@pytest.mark.parametrize("room", ["runner.report", "renderer.script", "plan.plan", "quality.comparison.compare"])
def test_a_public_function_stays_one_whatever_is_imported(room: str) -> None:
    calls = "print(all(map(callable, (se.run, se.render, se.compare, se.retry))))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sqlenrich as se, sqlenrich.{room}; {calls}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "True"


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'sqlenrich' has no attribute 'nothing'"):
        sqlenrich.nothing  # noqa: B018


def test_a_compiled_module_of_sqlglot_is_passed_over(tmp_path: Path) -> None:
    """sqlglotc puts compiled modules beside the source, and no class of Python can inherit from theirs."""
    package = tmp_path / "sqlglot"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "generator.py").write_text("FROM = 'source'\n")
    compiled = importlib.machinery.EXTENSION_SUFFIXES[0]
    (package / f"generator{compiled}").write_bytes(b"no library")
    code = "import {}sqlglot.generator as g; print(g.FROM)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    given: dict[str, Any] = {"capture_output": True, "text": True, "cwd": tmp_path, "env": environment}
    alone = subprocess.run([sys.executable, "-c", code.format("")], check=False, **given)
    after = subprocess.run([sys.executable, "-c", code.format("sqlenrich, ")], check=False, **given)
    assert (alone.returncode, after.stdout) == (1, "source\n")

"""What a room of the house may import, and what `import sqlenrich` loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlenrich

PACKAGE = Path(sqlenrich.__file__).parent
MODULES = {".".join(file.relative_to(PACKAGE).with_suffix("").parts): file for file in sorted(PACKAGE.rglob("*.py"))}
ENGINES = {"engines.bigquery", "engines.databricks", "engines.duckdb", "engines.snowflake", "engines.spark"}
ENGINE_PARTS = {
    "engines.spark_sql",
    *(f"engines.{name}_{part}" for name in ("bigquery", "duckdb", "snowflake") for part in ("json", "text")),
    "engines.spark_json",
}
PURE = {"errors", "types"}
# A module or a folder, and what of the package it may import: modules or folders. What is not named here may import
# everything but `cli`.
RULES: dict[str, set[str]] = {
    "errors": set(),
    "types": {"errors"},
    "nodes": set(),
    "header": set(),
    "request": set(),
    "prompt": PURE | {"nodes", "prompt", "engines.base"},
    "schema": PURE | {"nodes", "schema", "request", "engines.base"},
    "engines.__init__": {"errors", "engines.base"},
    "engines.base": {"types"},
    "engines": PURE
    | {
        "request",
        "schema.columns",
        "schema.grammar",
        "schema.pattern",
        "schema.vendor",
        "engines.base",
        "engines.casing",
        "engines.strict",
        "engines.spark_json",
        "engines.spark_sql",
        "engines.bigquery_json",
        "engines.bigquery_text",
        "engines.duckdb_json",
        "engines.duckdb_text",
        "engines.snowflake_json",
        "engines.snowflake_text",
    },
    "llm": {"errors", "llm", "tokens"},
    "tokens": set(),
    "overflow": PURE | {"engines.base", "prompt", "request", "tokens"},
    "enrichment": {"overflow", "prompt", "schema", "types"},
    "loader": PURE | {"engines", "enrichment", "header", "overflow", "schema"},
    "plan": {"types"},
    "report": {"prices"},
    "config": {"engines", "errors", "prices"},
    "prices": {"errors"},
    "columns": PURE | {"enrichment", "engines.base"},
    "relations": PURE | {"enrichment", "engines.base"},
    "pending": PURE | {"engines.base", "relations", "request", "schema"},
    "prompts": PURE | {"columns", "engines.base", "enrichment", "overflow", "prompt", "relations"},
    "checked": {"engines.base", "enrichment", "overflow", "relations", "schema"},
    "chance": set(),
    "terminal": set(),
    "comparison": {"chance", "terminal"},
    "outputs": {"errors"},
    "scratch": set(),
    "signals": {"report", "scratch"},
    "options": set(),
    "sample": PURE | {"columns", "database", "engines", "enrichment", "source"},
    "differences": PURE | {"comparison", "enrichment", "sample"},
    "compiler": {
        "checked",
        "columns",
        "enrichment",
        "engines",
        "overflow",
        "prompts",
        "pending",
        "plan",
        "relations",
        "request",
        "types",
    },
}


def imported(name: str, file: Path) -> Iterator[str]:
    """The package's modules that a module imports, at its top or inside a function."""
    here = ["sqlenrich", *name.split(".")[:-1]]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*here[: len(here) + 1 - node.level], *filter(None, [node.module])])
                if node.level
                else node.module
            )
            targets = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for parts in (target.split(".") for target in targets if target.split(".")[0] == "sqlenrich"):
            known = [".".join(parts[1:end]) for end in range(len(parts), 1, -1)]
            yield next((module for module in known if module in MODULES or f"{module}.__init__" in MODULES), "__init__")


def covers(room: str, module: str) -> bool:
    """Tell whether a module is this one or lies in this folder."""
    return module == room or module.startswith(f"{room}.")


@pytest.mark.parametrize("name", MODULES)
def test_rooms(name: str) -> None:
    rooms = [room for room in RULES if covers(room, name)]
    allowed = RULES[max(rooms, key=len)] if rooms else set(MODULES) | {"engines", "prompt", "schema", "llm", "__init__"}
    for module in imported(name, MODULES[name]):
        assert any(covers(room, module) for room in allowed), f"{name} imports {module}"
        assert module != "cli", f"{name} imports the command line"
        assert not (name in ENGINES and module in ENGINES), f"{name} imports the engine {module}"


def test_the_walk_sees_every_kind_of_import(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "import sqlenrich.cli\ndef f():\n  from ..errors import A\n  from . import spark_sql\nfrom .base import B\n"
    )
    assert sorted(imported("engines.x", file)) == ["cli", "engines.base", "engines.spark_sql", "errors"]


HEAVY = ("pyspark", "duckdb", "pyarrow", "httptools", "snowflake", "google.cloud", "databricks", "uvloop", "pydantic")


def test_importing_the_package_loads_no_driver() -> None:
    code = f"import sys, sqlenrich; print([n for n in {HEAVY} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_an_engine_loads_no_driver(engine: str) -> None:
    code = f"import sys, sqlenrich.{engine}; print([n for n in {HEAVY} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    assert all(hasattr(sqlenrich, name) for name in sqlenrich.__all__)
    assert sqlenrich.__all__ == sorted(sqlenrich.__all__)

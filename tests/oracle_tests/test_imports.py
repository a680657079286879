"""The stand-ins can be imported where the optional tools are not installed."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
for name in ("zetasql", "wasmtime", "google.protobuf", "pyspark", "sqlfluff", "sqlglot", "pyarrow"):
    sys.modules[name] = None
import tests.standins.googlesql, tests.standins.googlesql.signatures
import tests.standins.grammar, tests.standins.spark
"""


def test_import_without_the_optional_packages() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)

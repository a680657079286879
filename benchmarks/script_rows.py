"""What Spark's script takes, reads and writes for many rows, each of which is a request of its own.

    python benchmarks/script_rows.py [--rows 2000000] [--new 0.03] [--chunks 8]

The model is a function in SQL that answers at once. The script of ``support_ticket`` runs three times: on empty tables,
with nothing new, and with a share of new rows. Prints a table in Markdown, and the bytes of the tables. The bytes read
and written are those of Java's process: tables and shuffles, compressed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import local  # noqa: F401  # it makes the tests' stand-ins importable

import sqlenrich as se

ANSWER = '{"intent":"bug","urgency":3,"needs_human":true,"summary":"A card reader does not answer"}'
MODEL = f"""CREATE TEMPORARY FUNCTION ai_query(
  endpoint STRING, request STRING, responseFormat STRING,
  modelParameters STRUCT<temperature: INT, max_tokens: INT>, failOnError BOOLEAN
) RETURNS STRUCT<result: STRING, errorMessage: STRING>
RETURN named_struct('result', IF(length(request) > 0, '{ANSWER}', NULL), 'errorMessage', CAST(NULL AS STRING))"""
SOURCE = """CREATE TABLE raw.tickets AS
SELECT CAST(id AS STRING) AS id, 'A question' AS subject,
  CONCAT('The card reader ', id, ' has not answered since noon; our shop in street ', id % 977, ' is closed') AS body
FROM RANGE({rows})"""


def session(folder: Path) -> Any:
    """Return a session of two cores with its tables in a folder."""
    from pyspark.sql import SparkSession

    from tests.standins.spark import standins_jar

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "8g",
        "spark.driver.extraClassPath": str(standins_jar()),
        "spark.sql.warehouse.dir": str(folder / "tables"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "FATAL",
    }
    builder: Any = SparkSession.builder.master("local[2]").appName("script_rows")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def bytes_of(spark: Any) -> tuple[int, int]:
    """Return the bytes that Java's process has read and written."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counts["rchar"]), int(counts["wchar"])


def timed(spark: Any, what: str, statements: Sequence[str]) -> None:
    """Run a script and print its line."""
    began, before = time.monotonic(), bytes_of(spark)
    for statement in statements:
        spark.sql(statement).collect()
    read, written = (after - known for after, known in zip(bytes_of(spark), before, strict=True))
    seconds = time.monotonic() - began
    print(f"| {what} | {seconds:,.0f} s | {read / 1e9:.2f} GB | {written / 1e9:.2f} GB |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--new", type=float, default=0.03)
    parser.add_argument("--chunks", type=int, default=8)
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder)
        try:
            spark.sql(MODEL)
            spark.sql("CREATE DATABASE raw")
            script = se.render(se.load("support_ticket"), "spark", chunks=given.chunks)
            statements = list(spark.sparkContext._jvm.sqlenrich.standins.Statements.split(script))
            print(f"| {len(statements)} statements each | time | read | written |\n| --- | --- | --- | --- |")
            cases = {"the first script": 1.0, "nothing new": 1.0, f"{given.new:.0%} new": 1.0 + given.new}
            made = 0
            for what, share in cases.items():
                if made != (rows := int(given.rows * share)):
                    spark.sql("DROP TABLE IF EXISTS raw.tickets")
                    spark.sql(SOURCE.format(rows=rows))
                    made = rows
                timed(spark, what, statements)
                assert spark.table("support_ticket").count() == rows
            for table in sorted((folder / "tables").iterdir()):
                size = sum(path.stat().st_size for path in table.rglob("*") if path.is_file())
                print(f"{table.name}: {size / 1e6:,.0f} MB")
        finally:
            spark.stop()


if __name__ == "__main__":
    main()

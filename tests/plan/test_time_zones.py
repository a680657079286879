"""An instant is printed in UTC or in the header's zone, whatever the zone of the machine and of the session."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, INSTANT, STRING, TIMESTAMP, Array, Struct, Type
from sqlenrich.plan.request import request_hash
from sqlenrich.spec.loader import loads
from tests.prompt.test_conformance import each_script
from tests.support.in_memory import in_memory

PROMPT = """---
source: source
key: [id]
columns:
  at: timestamp
  local: timestamp
  text: TEXT_TYPE
  times: {array: timestamp}
  visit: {struct: {at: timestamp, note: string}}
where: "at < '2027-01-01'"
timezone: ZONE
hint: never
output: {mood(enum): [good, bad]}
---
{{ at }}|{{ local }}|{{ text }}|{{ times | join(",") }}|{{ visit.at }}|{{ at.strftime("%d.%m. %H:%M") }}
"""
FOLD = "2026-10-25T01:30:00.500000+00:00"
"""The second of two instants that a clock in Berlin shows as half past two."""
ROWS: list[tuple[Any, ...]] = [
    (1, "2026-01-02T03:04:05+02:00", "2026-03-29 02:30:00", "2026-01-02T03:04:05.1234567+0200"),
    (2, FOLD, "2026-10-25 02:30:00", "2026-10-25 02:30:00"),
    (3, "2027-01-01T01:00:00+02:00", "2026-01-01 00:00:00", "2026-07-01 00:00 "),
    (4, "2027-01-01T05:00:00+00:00", "2026-01-01 00:00:00", "2026-07-01"),
]
EXPECTED = {
    "UTC": {
        "1": "2026-01-02 01:04:05|2026-03-29 02:30:00|TEXT|2026-01-02 01:04:05|2026-01-02 01:04:05|02.01. 01:04",
        "2": "2026-10-25 01:30:00.500000|2026-10-25 02:30:00|TEXT|2026-10-25 01:30:00.500000|"
        "2026-10-25 01:30:00.500000|25.10. 01:30",
        "3": "2026-12-31 23:00:00|2026-01-01 00:00:00|TEXT|2026-12-31 23:00:00|2026-12-31 23:00:00|31.12. 23:00",
    },
    "America/New_York": {
        "1": "2026-01-01 20:04:05|2026-03-29 02:30:00|TEXT|2026-01-01 20:04:05|2026-01-01 20:04:05|01.01. 20:04",
        "2": "2026-10-24 21:30:00.500000|2026-10-25 02:30:00|TEXT|2026-10-24 21:30:00.500000|"
        "2026-10-24 21:30:00.500000|24.10. 21:30",
        "3": "2026-12-31 18:00:00|2026-01-01 00:00:00|TEXT|2026-12-31 18:00:00|2026-12-31 18:00:00|31.12. 18:00",
    },
}
TEXTS = {
    "UTC": ["2026-01-02 01:04:05.123456", "2026-10-25 02:30:00", "2026-07-01 00:00:00"],
    "America/New_York": ["2026-01-01 20:04:05.123456", "2026-10-25 02:30:00", "2026-07-01 00:00:00"],
}
TYPES: dict[str, Type] = {
    "id": BIGINT,
    "at": INSTANT,
    "local": TIMESTAMP,
    "text": STRING,
    "times": Array(INSTANT),
    "visit": Struct((("at", INSTANT), ("note", STRING))),
}
SESSIONS = {"Europe/Berlin": -1, "Asia/Tokyo": -9, "UTC": 0}
"""The zones of sessions, with the hours that Snowflake's stand-in takes."""


def prompts(engine: str, sql: str, session: str) -> dict[str, tuple[str, str]]:
    """The prompt and the hash of each key, as the engine computes them in a session of a zone."""
    return {str(key): (prompt, hashed) for key, prompt, hashed in RUN[engine](sql, session)}


def in_duckdb(sql: str, session: str) -> list[Any]:
    with in_memory() as db:
        db.execute(f"SET TimeZone = '{session}'")
        made = ", ".join(
            f"({key}, TIMESTAMPTZ '{at}', TIMESTAMP '{local}', '{text}', [TIMESTAMPTZ '{at}'], "
            f"{{'at': TIMESTAMPTZ '{at}', 'note': ''}})"
            for key, at, local, text in ROWS
        )
        db.execute(f'CREATE TABLE source AS FROM (VALUES {made}) AS t(id, "at", local, text, times, visit)')
        return db.execute(sql).fetchall()


def in_spark(sql: str, session: str) -> list[Any]:
    from tests.standins.spark import rows, settings, spark_session

    made = ", ".join(
        f"({key}, TIMESTAMP'{at}', TIMESTAMP_NTZ'{local}', '{text}', ARRAY(TIMESTAMP'{at}'), "
        f"NAMED_STRUCT('at', TIMESTAMP'{at}', 'note', ''))"
        for key, at, local, text in ROWS
    )
    with settings({"spark.sql.session.timeZone": session}):
        query = f"SELECT * FROM VALUES {made} AS t(id, at, local, text, times, visit)"
        spark_session().sql(query).createOrReplaceTempView("source")
        return rows(sql)


def in_bigquery(sql: str, session: str) -> list[Any]:
    """The evaluator has one session, in Los Angeles."""
    from tests.standins.googlesql import googlesql

    kinds = {"id": "INT64", "at": "TIMESTAMP", "local": "DATETIME", "text": "STRING", "times": "ARRAY<TIMESTAMP>"}
    held = [
        (key, moment, dt.datetime.fromisoformat(local), text, [moment], {"at": moment, "note": ""})
        for key, at, local, text in ROWS
        for moment in (dt.datetime.fromisoformat(at),)
    ]
    columns = {**kinds, "visit": "STRUCT<`at` TIMESTAMP, note STRING>"}
    return googlesql().evaluate(sql, {"source": (columns, held)})


def in_snowflake(sql: str, session: str) -> list[Any]:
    from tests.standins import snowflake

    kinds = {"ID": "BIGINT", "AT": "TIMESTAMP_TZ", "LOCAL": "TIMESTAMP_NTZ", "TEXT": "VARCHAR", "TIMES": "ARRAY"}
    held = [
        (key, moment, dt.datetime.fromisoformat(local), text, [moment], {"at": moment, "note": ""})
        for key, at, local, text in ROWS
        for moment in (dt.datetime.fromisoformat(at),)
    ]
    found: list[Any] = []
    for kind in ("TIMESTAMP_TZ", "TIMESTAMP_LTZ"):
        columns = {**kinds, "AT": kind, "VISIT": "OBJECT"}
        read_as = replace(snowflake.PLAIN, behind_utc_h=SESSIONS[session])
        again = snowflake.rows(sql, {"source": (columns, held)}, read_as=read_as)
        assert found in ([], again)
        found = again
    return found


RUN = {
    "duckdb": in_duckdb,
    "spark": in_spark,
    "databricks": in_spark,
    "bigquery": in_bigquery,
    "snowflake": in_snowflake,
}


@each_script
@pytest.mark.parametrize("zone", EXPECTED)
def test_a_prompt_and_its_hash_are_one_for_sessions_of_all_zones(engine: str, zone: str) -> None:
    """In a script, which does not know the source's types, and in a run, which does and reads times of texts."""
    types: Mapping[str, Type] | None
    parts: tuple[int, ...]
    for types, declared in ((None, "string"), (TYPES, "timestamp")):
        text, parts = PROMPT.replace("ZONE", zone).replace("TEXT_TYPE", declared), (0, 1, 2, 3, 4, 5)
        if engine == "snowflake" and types is not None:  # an ARRAY there has no type of its elements
            text, parts = text.replace('{{ times | join(",") }}|{{ visit.at }}|', ""), (0, 1, 2, 5)
        e = loads(text, name="visits")
        plan = se.compile_plan(e, engine=engine, source_types=types)
        sql = f"SELECT id, prompt, request_hash FROM (\n{plan.steps[0].sql}\n) AS p"
        texts = TEXTS[zone] if types is not None else [row[3] for row in ROWS]
        expected = {
            key: "|".join(text.replace("TEXT", texts[int(key) - 1]).split("|")[part] for part in parts)
            for key, text in EXPECTED[zone].items()
        }
        for session in SESSIONS:
            found = prompts(engine, sql, session)
            assert {key: prompt for key, (prompt, _) in found.items()} == expected, session
            hashes = {key: request_hash(plan.constant, text) for key, text in expected.items()}
            assert {key: hashed for key, (_, hashed) in found.items()} == hashes


UNTYPED = """---
source: source
key: [id]
require: [text]
hint: never
output: {mood(enum): [good, bad]}
---
{{ text }}
"""


@each_script
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{{ text }}", "{{ [text, at] | join(',') }}"),
        ("{{ text }}", "{{ at }}"),
        ("{{ text }}", "{{ text }}{% if at is none %}-{% endif %}"),
        ("{{ text }}", "{{ local | default(text) }}"),
        ("key: [id]", "key: [id]\ncolumns: {at: string}\nwhere: at > '2026-01-01'"),
        ("key: [id]", "key: [id]\ncolumns: {visited: {type: date, from: at}}\nwhere: visited > '2026-01-01'"),
    ],
)
def test_a_script_refuses_a_timestamp_that_the_header_does_not_type(engine: str, old: str, new: str) -> None:
    """The engine would print and compare it in the zone and the format of the session; a run knows its type."""
    e = loads(UNTYPED.replace(old, new), name="visits")
    sql = f"SELECT id, prompt, request_hash FROM (\n{se.compile_plan(e, engine=engine).steps[0].sql}\n) AS p"
    refused = "is a timestamp; write columns: {NAME: timestamp}"
    own_words = "Could not cast literal|No matching signature|No function matches|mixed types"
    with pytest.raises(Exception, match=f"{refused}|{own_words}"):
        prompts(engine, sql, "Asia/Tokyo")


MACHINE = """
import datetime as dt, re, sys
import pyarrow as pa
import sqlenrich as se

folder = sys.argv[1]
without_times = lambda text: re.sub(r"20\\d\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d\\.\\d+", "", text)  # _asked_at
file = "---\\nkey: [id]\\nkeep: [at]\\ncolumns: {at: timestamp}\\noutput: {ok: boolean}\\n---\\n{{ at }}"
zone = dt.timezone(dt.timedelta(hours=2))
moments = [dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=zone), dt.datetime(2026, 10, 25, 1, 30, tzinfo=dt.UTC)]
frame = pa.table({"id": [1, 2], "at": pa.array(moments, pa.timestamp("us", "Asia/Tokyo"))})
with open(f"{folder}/texts.csv", "w") as file_of_texts:
    file_of_texts.write("id,at\\n1,2026-01-02T03:04:05+02:00\\n2,2026-10-25 01:30:00\\n3,02.01.2026 3:04\\n")
for name, input in (("frame", frame), ("texts", f"{folder}/texts.csv")):
    output = f"{folder}/of_{name}.csv"
    report = se.run(se.loads(file, name="visits"), input=input, output=output, mock=True)
    hashes = sorted((row["id"], row["at"], row["_request_hash"]) for row in report.table().to_pylist())
    print(hashes, report.quarantine().to_pylist(), without_times(open(output).read()))
rendered = (se.render_prompt("{{ at }}", {"at": moments[0]}, timezone=zone) for zone in ("UTC", "Asia/Tokyo"))
print(*rendered)
"""


def test_a_run_gives_the_same_bytes_on_machines_in_three_zones(tmp_path: Path) -> None:
    machines = {}
    for zone in SESSIONS:
        (folder := tmp_path / zone.replace("/", "_")).mkdir()
        machines[zone] = subprocess.Popen(
            [sys.executable, "-c", MACHINE, str(folder)],
            env={**os.environ, "TZ": zone},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    found = {zone: machine.communicate() for zone, machine in machines.items()}
    assert [machine.returncode for machine in machines.values()] == [0, 0, 0], found
    (printed,) = {out for out, _ in found.values()}
    assert "1,2026-01-02 01:04:05+00," in printed
    assert "1,2026-01-02 01:04:05," in printed
    assert 'at is "02.01.2026 3:04", which is no timestamp' in printed
    assert printed.endswith("2026-01-02 01:04:05 2026-01-02 10:04:05\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("at > 'yesterday'", "at > 'yesterday' compares a timestamp with a text that is none"),
        ("at BETWEEN '2026-01-01' AND 'now'", "compares a timestamp with a text that is none"),
    ],
)
def test_a_condition_on_a_timestamp_needs_a_time(text: str, problem: str) -> None:
    e = loads(PROMPT.replace("ZONE", "UTC").replace("TEXT_TYPE", "string").replace("at < '2027-01-01'", text))
    with pytest.raises(se.SpecError, match=problem):
        se.compile_plan(e, engine="duckdb")

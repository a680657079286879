"""A run without answers for a while logs what it waits for."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from sqlenrich.cli.progress import QUIET_LOG_S
from tests.cli.test_signals import ended, started, stream
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import write_csv, write_prompt

QUICK = """
import sqlenrich.cli.progress
sqlenrich.cli.progress.QUIET_LOG_S = 0.3
{more}
from sqlenrich.__main__ import main
main()
"""
SLOW_READING = """
import sqlenrich.store.duckdb.source, time
read = sqlenrich.store.duckdb.source.open_source
sqlenrich.store.duckdb.source.open_source = lambda *given, **named: time.sleep(60)
"""


@pytest.mark.parametrize(
    ("setting", "faults", "more", "expected"),
    [
        ("", dict.fromkeys(range(9), "hang"), "", r"0/3 answered, none for 0:\d\d: waiting for 1 answer"),
        ("rpm = 1", {}, "", r"1/3 answered, none for 0:\d\d: rpm holds requests back"),
        ("tpm = 1", {}, "", r"1/3 answered, none for 0:\d\d: tpm holds requests back"),
        (
            "",
            dict.fromkeys(range(2, 999), "503"),
            "",
            r"1/3 answered, none for 0:\d\d: the endpoint is in trouble \(HTTP 503: overloaded\)",
        ),
        ("", {}, SLOW_READING, r"reading the rows, 0:\d\d"),
    ],
)
def test_a_log_says_what_is_waited_for(
    tmp_path: Path, setting: str, faults: dict[int, str], more: str, expected: str
) -> None:
    data = write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(3)])
    with ScriptedEndpoint(script=faults) as endpoint:
        (tmp_path / "sqlenrich.toml").write_text(f'[endpoints.x]\nurl = "{endpoint.url}"\n{setting}\n', "utf-8")
        options = ("--input", data, "--output", tmp_path / "out.duckdb", "--model", "mock")
        process = started("run", write_prompt(tmp_path), *options, code=QUICK.format(more=more))
        began, seen = time.monotonic(), ""
        for line in stream(process.stderr):
            seen += line
            if re.fullmatch(expected, line.rstrip("\n")) or time.monotonic() - began > 20:
                break
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert ended(process, signal.SIGINT)[0] in (1, 4)
    lines = seen.splitlines()
    assert re.fullmatch(expected, lines[-1]), seen
    assert more or any(
        line.startswith("plan: 3 rows, 3 distinct requests, 0 already answered, 3 calls to mock at ") for line in lines
    )
    assert "\r" not in seen  # no line that changes in a log


def test_how_often() -> None:
    assert QUIET_LOG_S == 30.0

"""The width of an endpoint: found by doubling, and written where the endpoint is named."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import sqlenrich as se
from sqlenrich.runner.tune import TunePolicy
from sqlenrich.spec.settings import read_config
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import call

QUICK = TunePolicy(seconds=0.6, first=2)


def test_the_width_is_doubled_until_the_rate_bends_and_written(tmp_path: Path) -> None:
    path = tmp_path / "sqlenrich.toml"
    with ScriptedEndpoint(latency_s=0.1, slots=8, keep=False) as server:
        path.write_text(
            f'[endpoints.local]  # ours\nurl = "{server.url}"\ntimeout = 9\n\n[targets.t]\nengine = "duckdb"\n'
        )
        found = se.tune("local", model="mock", config=read_config(path), policy=QUICK)
    assert [one.width for one in found.widths] == [2, 4, 8, 16]
    assert found.concurrency == 8
    written = tomllib.loads(path.read_text())["endpoints"]["local"]
    assert written == {"concurrency": 8, "url": found.url, "timeout": 9}
    assert "# ours" in path.read_text()
    assert "concurrency = 8: written to" in found.to_text()


def test_an_endpoint_that_no_file_names_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ScriptedEndpoint(rates={"500": 1.0}, keep=False) as server:
        result = call("tune", "--endpoint", server.url, "--model", "mock")
    assert (result.status, "HTTP 500" in result.error) == (1, True)

"""A fleet of real vLLM servers on the CPU, with a tiny model of random weights: ``pytest -m vllm``.

The program is ``.cache/vllm/bin/vllm``, or what SQLENRICH_VLLM names; CONTRIBUTING.md says how it is installed.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import sqlenrich as se
import sqlenrich.spark
from sqlenrich.spark import FleetPolicy, VLLMFleet
from tests.spark.test_fleet import ROOT, page_block
from tests.support.corpus import CORPORA
from tests.support.vllm_processes import alive, family, kill, until

pytestmark = [pytest.mark.vllm, pytest.mark.spark, pytest.mark.timeout(900)]

VLLM = Path(os.environ.get("SQLENRICH_VLLM", ROOT / ".cache/vllm/bin/vllm"))
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "TORCH_COMPILE_DISABLE": "1",
}
SMALL: dict[str, Any] = {
    "dtype": "float32",  # a processor that claims AMX without having it kills a worker at bfloat16
    "enforce_eager": True,
    "max_num_seqs": 64,
    "block_size": 32,
    "kv_cache_memory_bytes": "64M",
    "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
    "served_model_name": "tiny",
}
MESSAGES = CORPORA / "banking77" / "test.csv"
READY_S = 400.0
ROWS = 50


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    python = VLLM.with_name("python")
    subprocess.run([python, ROOT / "tests/support/tiny_model.py", folder], check=True, capture_output=True)
    return str(folder)


def fleet(cache: Path, spark: Any, model: str, **arguments: Any) -> VLLMFleet:
    environment = {**ENVIRONMENT, "VLLM_CACHE_ROOT": str(cache), "XDG_CACHE_HOME": str(cache)}
    return VLLMFleet(
        spark, model, command=(str(VLLM), "serve"), environment=environment,
        policy=FleetPolicy(watch_s=0.5, check_s=0.5), **{**SMALL, **arguments},
    )  # fmt: skip


def test_the_page_runs_and_a_killed_engine_comes_back(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.standins.spark import spark_session

    spark = spark_session()
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{number},message {number}\n" for number in range(ROWS))
    Path("tickets.csv").write_text(f"id,body\n{rows}")
    Path("tickets.prompt").write_text(
        "---\nkey: [id]\nparams: {temperature: 0, max_tokens: 64}\noutput: {intent(enum): [order, refund]}\n---\n"
        "Classify the message of the customer. Answer with the intent. The message: {{ body }}\n"
    )
    monkeypatch.setattr(sqlenrich.spark, "VLLMFleet", lambda spark, _, **given: fleet(tmp_path, spark, model, **given))
    told: dict[str, Any] = {}
    block = page_block() + "    look(fleet)\n"
    told["look"] = partial(look, told)
    exec(block, told)
    report = told["report"]
    assert (report.rows_in, report.enriched, report.calls) == (ROWS, ROWS, ROWS)
    assert not alive(told["processes"])
    assert spark.range(3).count() == 3


def look(told: dict[str, Any], fleet: VLLMFleet) -> None:
    """Kill the engine of the fleet's one server, and wait until it generates again."""
    loaded = until(lambda: (one := fleet.servers()[0]).prefix_hits and one)
    assert loaded, fleet.servers()
    first = family(loaded.pid)
    (engine,) = [pid for pid in first if "EngineCore" in Path(f"/proc/{pid}/cmdline").read_text()][:1]
    kill(engine)
    again = until(lambda: (one := fleet.servers()[0]).state == "ready" and one.starts == 2 and one, READY_S)
    assert again, fleet.servers()
    assert not alive(first)
    told["processes"] = family(again.pid)


LABELS = """---
key: [id]
params: {temperature: 0, max_tokens: 60}
output:
  type: object
  properties:
    topic: {type: string, enum: [card, transfer, top_up, cash, account, other]}
    urgency: {type: integer, minimum: 1, maximum: 5}
    asks: {type: boolean}
    note: {type: string, maxLength: 12}
  required: [topic, urgency, asks, note]
---
Classify the message of a customer of a bank.

{{ text }}
"""
TIMES = {"asked_at", "latency_ms", "run_id", "request_id", "_asked_at", "_run_id"}


def test_the_same_messages_on_duckdb_and_spark(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables are equal but for times."""
    from tests.standins.spark import spark_session

    if not MESSAGES.exists():
        pytest.skip("the corpus of customer messages is not there")
    monkeypatch.chdir(tmp_path)
    with MESSAGES.open(newline="", encoding="utf-8") as file:
        messages = [{"id": n, "text": row["text"]} for n, row in enumerate(csv.DictReader(file))]
    source = tmp_path / "messages.jsonl"  # Spark's working folder is that in which Java was started
    source.write_text("\n".join(map(json.dumps, messages)))
    Path("labels.prompt").write_text(LABELS)
    e, spark = se.load("labels.prompt"), spark_session()
    with fleet(
        tmp_path, spark, model, enable_prefix_caching=False
    ) as servers:  # tokens_cached tells of earlier requests
        on: dict[str, Any] = {"input": str(source), "model": servers.endpoint}
        reports = [
            se.run(e, output="labels.duckdb", **on),
            se.run(e, spark=spark, output=str(tmp_path / "tables"), **on),
        ]
    assert {report.rows_in for report in reports} == {len(messages)}
    assert min(report.enriched for report in reports) > len(messages) / 2
    with duckdb.connect("labels.duckdb", read_only=True) as database:
        for table in ("labels_prompts", "labels_responses", "labels_checked", "labels", "labels_quarantine"):
            ours = database.table(table).to_arrow_table().to_pylist()
            theirs = pq.read_table(tmp_path / "tables" / table).to_pylist()
            assert comparable(ours) == comparable(theirs), table


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str({name: value for name, value in sorted(row.items()) if name not in TIMES}) for row in rows)


def test_vllms_own_batches_give_what_a_server_gives(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``vllm run-batch`` takes our file as it is."""
    from tests.standins.spark import spark_session

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "batches"
    folder.mkdir()
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"id": n, "text": f"text {n}"}) for n in range(ROWS)))
    Path("labels.prompt").write_text(LABELS)
    with fleet(tmp_path, spark_session(), model, enable_prefix_caching=False) as servers:
        se.run("labels.prompt", input="rows.jsonl", output="served.duckdb", model=servers.endpoint)
    batched: dict[str, Any] = {
        "input": "rows.jsonl", "output": "batched.duckdb", "batch": True, "wait": False,
        "model": se.Endpoint(f"file://{folder}", model="tiny"),
    }  # fmt: skip
    assert se.run("labels.prompt", **batched).pending == ROWS
    (requests,) = folder.glob("*.jsonl")
    answers = requests.with_suffix(".output.jsonl")
    options = [part for name, value in SMALL.items() for part in option(name, value)]
    subprocess.run(
        [VLLM, "run-batch", "-i", requests, "-o", answers, "--model", model, *options],
        check=True, capture_output=True, env={**os.environ, **ENVIRONMENT, "VLLM_CACHE_ROOT": str(tmp_path)},
    )  # fmt: skip
    report = se.run("labels.prompt", **batched)
    assert (report.pending, report.rows_in) == (0, ROWS)
    assert report.enriched > 0
    served, collected = (answered(Path(f"{name}.duckdb")) for name in ("served", "batched"))
    assert served == collected


def option(name: str, value: object) -> list[str]:
    """An argument of vLLM's command line."""
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    return [flag, json.dumps(value) if isinstance(value, dict) else str(value)]


def answered(output: Path) -> list[tuple[Any, ...]]:
    """The answers of an output by their requests."""
    with duckdb.connect(str(output), read_only=True) as database:
        return database.sql("SELECT request_hash, response FROM labels_responses ORDER BY 1").fetchall()


@pytest.mark.parametrize(("arguments", "message"), [
    ({"no_such_thing": 1}, "vllm: error: unrecognized arguments: --no-such-thing 1"),
])  # fmt: skip
def test_what_vllm_refuses_is_one_line(model: str, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    from tests.standins.spark import spark_session

    with pytest.raises(se.RunError) as refused, fleet(tmp_path, spark_session(), model, **arguments):
        pass
    assert str(refused.value).endswith(message)
    assert "\n" not in str(refused.value)

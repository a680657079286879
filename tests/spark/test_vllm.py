"""A fleet of real vLLM servers on the CPU, with a tiny model of random weights: ``pytest -m vllm``.

The program is ``.cache/vllm/bin/vllm``, or what SQLENRICH_VLLM names; CONTRIBUTING.md says how it is installed.
"""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
import sqlenrich.spark
from sqlenrich.spark import FleetPolicy, VLLMFleet
from tests.spark.test_fleet import ROOT, page_block
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
    "dtype": "bfloat16",
    "enforce_eager": True,
    "max_num_seqs": 64,
    "block_size": 32,
    "kv_cache_memory_bytes": "64M",
    "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
    "served_model_name": "tiny",
}
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
    loaded = until(lambda: (one := fleet.servers()[0]).prefix_hits is not None and one)
    assert loaded.prefix_hits > 0
    first = family(loaded.pid)
    (engine,) = [pid for pid in first if "EngineCore" in Path(f"/proc/{pid}/cmdline").read_text()][:1]
    kill(engine)
    again = until(lambda: (one := fleet.servers()[0]).state == "ready" and one.starts == 2 and one, READY_S)
    assert again, fleet.servers()
    assert not alive(first)
    told["processes"] = family(again.pid)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"no_such_thing": 1}, "vllm: error: unrecognized arguments: --no-such-thing 1"),
])  # fmt: skip
def test_what_vllm_refuses_is_one_line(model: str, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    from tests.standins.spark import spark_session

    with pytest.raises(se.RunError) as refused, fleet(tmp_path, spark_session(), model, **arguments):
        pass
    assert str(refused.value).endswith(message)
    assert "\n" not in str(refused.value)

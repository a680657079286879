"""Rows through Ray Data, Daft and Vane: the results of a run, from one folder of answers."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sqlenrich as se
from tests.support.endpoint import ScriptedEndpoint
from tests.support.hostile import NAMES
from tests.support.local_models import Counting
from tests.support.pipeline_driver import TICKETS, WORDS

ROOT = Path(__file__).parents[2]
BODIES = [*NAMES.values(), None, *(f"text {n % 90}" for n in range(120))]
LABELS = ["card", "transfer", "other"]


def answer(prompt: str) -> str:
    """An answer that depends on the prompt alone; a sixth can't be used."""
    number = zlib.crc32(prompt.encode("utf-8", "surrogatepass"))
    found = {"intent": LABELS[number % 3], "urgency": number % 9}
    return json.dumps(found)[: -3 if number % 6 == 0 else None]


def through(tool: str, folder: Path, *given: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Send rows through a tool, in one process; return them with their results, in the order of their ids."""
    files = []
    for number, one in enumerate(given):
        files.append(folder / f"settings-{number}.json")
        files[-1].write_text(json.dumps({"bodies": BODIES, "output": str(folder / f"found-{number}.parquet"), **one}))
    driver = [sys.executable, "-m", "tests.support.pipeline_driver", tool, *map(str, files)]
    # Ray's processes wait for one another at each step: a session of their own has its own share of the processors.
    done = subprocess.run(
        driver, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600, start_new_session=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = [pq.read_table(folder / f"found-{number}.parquet").to_pylist() for number in range(len(given))]
    return [sorted(rows, key=lambda row: int(row["id"])) for rows in found]


def expected(enrichment: se.Enrichment, model: Any, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return what a run gives for the rows, as far as an Enricher gives it too."""
    report = se.run(enrichment, input=[{"id": n, "body": body} for n, body in enumerate(BODIES)], model=model)
    accepted = {row["id"]: row for row in report.table().to_pylist()}
    refused = {row["id"]: row for row in report.quarantine().to_pylist()}
    assert min(len(accepted), len(refused)) > 0
    told = ("_error", "_error_detail", "_model", "_request_hash")
    found = []
    for number in range(len(BODIES)):
        row = accepted.get(number) or refused[number]
        model_name = row["_model"] if number in accepted else None
        found.append({name: row.get(name) for name in (*names, *told)} | {"_model": model_name})
    return found


@pytest.mark.parametrize(("tool", "times"), [("daft", 2), ("vane", 1)])  # Vane starts a Ray of its own each time
def test_each_tool_gives_the_results_of_a_run_and_asks_nothing_again(tool: str, times: int, tmp_path: Path) -> None:
    names = ("intent", "urgency")
    with ScriptedEndpoint(content=answer) as endpoint:
        wanted = expected(TICKETS, se.Endpoint(endpoint.url, model="mock"), names)
        own = len(endpoint.asked)
        given = {"url": endpoint.url, "answers": str(tmp_path / "answers")}
        for found in through(tool, tmp_path, *[given] * times):
            assert [row["body"] for row in found] == BODIES
            assert [{name: row[name] for name in wanted[0]} for row in found] == wanted
        assert len(endpoint.asked) == 2 * own


def test_an_actor_of_ray_that_is_killed_repeats_what_was_in_flight(tmp_path: Path) -> None:
    """And a model of the user's own is loaded once in each actor."""
    for name in ("seen", "own"):
        (tmp_path / name).mkdir()
    with ScriptedEndpoint(content=answer, latency_s=0.1) as endpoint:
        wanted = expected(TICKETS, se.Endpoint(endpoint.url, model="mock"), ("intent", "urgency"))
        own = len(endpoint.asked)
        given = {"url": endpoint.url, "answers": str(tmp_path / "answers"), "flag": str(tmp_path / "killed")}
        found, local = through("ray", tmp_path, given, {"local": str(tmp_path / "seen")})
        assert (tmp_path / "killed").exists()
        assert [row["body"] for row in found] == BODIES
        assert [{name: row[name] for name in wanted[0]} for row in found] == wanted
        asked = Counter(seen.prompt for seen in endpoint.asked[own:])
    distinct = {f"Classify: {body}" for body in BODIES if body is not None}
    assert set(asked) == distinct
    assert sum(asked.values()) - len(distinct) <= 8 + 128 + BATCHES_AT_ONCE
    counting = functools.partial(Counting, str(tmp_path / "own"))
    words = expected(WORDS, se.LocalModel(counting, name="words", version="1", batch=8), ("word",))
    assert [{name: row[name] for name in words[0]} for row in local] == words
    loaded = [path.name.split("-")[1] for path in (tmp_path / "seen").glob("load-*")]
    assert len(loaded) == len(set(loaded)) in (1, 2), "one in each actor that Ray gave a table to"


BATCHES_AT_ONCE = 30
"""The prompts that stand in two tables, which two actors may ask at once."""

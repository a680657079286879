"""Other clients that ask a model for every row, each in a process of its own. Imports nothing of sqlenrich.

    python benchmarks/peers.py {bare,daft,ray,spark} DATA.csv ROWS IN_FLIGHT URL OUTPUT

Prints a line of JSON: the seconds of the work itself, or why this interpreter can't do it.
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

QUESTION = "Classify the intent of this customer message.\n\nMessage: "
SCHEMA = {
    "type": "object",
    "properties": {
        "intent": {"type": "string", "enum": ["card_arrival", "lost_or_stolen_card", "exchange_rate", "other"]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["intent", "confidence"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "intent", "strict": True, "schema": SCHEMA}}
PARAMS = {"temperature": 0, "max_tokens": 64, "response_format": FORMAT}
PARTS = 2


def read(path: str, rows: int) -> list[str]:
    """Return the messages."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        return [row["body"] for row, _ in zip(csv.DictReader(file), range(rows), strict=False)]


async def ask_all(prompts: list[str], in_flight: int, url: str) -> list[str]:
    """Return the texts of the answers, with a fixed number of requests in flight and no other work."""
    import aiohttp

    answers = [""] * len(prompts)
    queue = iter(enumerate(prompts))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work() -> None:
            for index, prompt in queue:
                body = {"model": "mock", "messages": [{"role": "user", "content": prompt}], **PARAMS}
                async with session.post(
                    f"{url}/chat/completions",
                    data=json.dumps(body).encode(),
                    headers={"content-type": "application/json"},
                ) as reply:
                    answers[index] = (await reply.json())["choices"][0]["message"]["content"]

        await asyncio.gather(*(work() for _ in range(in_flight)))
    return answers


def run_loop(prompts: list[str], in_flight: int, url: str) -> list[str]:
    """Ask in a new event loop, with uvloop if it is installed."""
    with suppress(ImportError):
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(ask_all(prompts, in_flight, url))
    return asyncio.run(ask_all(prompts, in_flight, url))


def bare(data: str, rows: int, in_flight: int, url: str, _: str) -> float:
    """A loop over prompts in memory: the minimum cost of a client."""
    import aiohttp  # noqa: F401

    prompts = [QUESTION + body for body in read(data, rows)]
    started = time.perf_counter()
    answers = run_loop(prompts, in_flight, url)
    seconds = time.perf_counter() - started
    assert all(answers)
    return seconds


def daft(data: str, rows: int, _: int, url: str, output: str) -> float:
    """Daft's ``prompt`` with its own number of requests in flight, from CSV to Parquet."""
    import daft
    from daft.functions import prompt

    started = time.perf_counter()
    frame = daft.read_csv(data).limit(rows)
    asked = prompt(
        daft.lit(QUESTION) + frame["body"],
        provider="openai",
        model="mock",
        base_url=url,
        api_key="none",
        use_chat_completions=True,
        **PARAMS,
    )
    frame.with_column("answer", asked).write_parquet(output)
    seconds = time.perf_counter() - started
    assert daft.read_parquet(f"{output}/*.parquet").where(daft.col("answer").length() > 2).count_rows() == rows
    return seconds


def ray(data: str, rows: int, _: int, url: str, output: str) -> float:
    """Ray's HTTP processor with its own settings, from CSV to Parquet."""
    import ray.data
    from ray.data.llm import HttpRequestProcessorConfig, build_processor

    ray.init(include_dashboard=False, log_to_driver=False)
    started = time.perf_counter()
    processor = build_processor(
        HttpRequestProcessorConfig(url=f"{url}/chat/completions"),
        preprocess=lambda row: {
            "payload": {"model": "mock", "messages": [{"role": "user", "content": QUESTION + row["body"]}], **PARAMS}
        },
        postprocess=lambda row: {"answer": row["http_response"]["choices"][0]["message"]["content"]},
    )
    processor(ray.data.read_csv(data).limit(rows)).write_parquet(output)
    seconds = time.perf_counter() - started
    assert ray.data.read_parquet(output).count() == rows
    return seconds


def spark(data: str, rows: int, in_flight: int, url: str, output: str) -> float:
    """An asynchronous ``mapInPandas`` from CSV to Parquet. The partitions share the requests in flight."""
    import aiohttp  # noqa: F401
    import pandas as pd
    from pyspark.sql import SparkSession

    def ask(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            prompts = [QUESTION + body for body in frame["body"]]
            yield pd.DataFrame({"id": frame["id"], "answer": run_loop(prompts, in_flight // PARTS, url)})

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{PARTS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    started = time.perf_counter()
    frame = session.read.csv(data, header=True).limit(rows).repartition(PARTS)
    frame.mapInPandas(ask, "id string, answer string").write.parquet(output, mode="overwrite")
    seconds = time.perf_counter() - started
    assert session.read.parquet(output).where("length(answer) > 2").count() == rows
    session.stop()
    return seconds


KINDS: dict[str, Callable[[str, int, int, str, str], float]] = {"bare": bare, "daft": daft, "ray": ray, "spark": spark}


def main() -> None:
    """Run one client."""
    kind, data, rows, in_flight, url, output = sys.argv[1:]
    try:
        seconds = KINDS[kind](data, int(rows), int(in_flight), url, output)
    except ImportError as error:
        print(json.dumps({"skipped": f"{sys.executable} can't import it: {error}"}))
    else:
        print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()

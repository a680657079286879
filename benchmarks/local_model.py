"""Ask one transformers model on DuckDB, in Spark's tasks and in Ray's actors: are the answers equal?

    PYTHON benchmarks/local_model.py [--rows 400] [--batch 16] [--device cpu] [--clean] [--only duckdb spark ray]

PYTHON needs torch, transformers, pyspark and ray beside sqlenrich. The model has random weights and is made on the
spot, so that nothing is fetched. Three prompts are poison: the class raises for one, and two end its process once. A
line of JSON for each engine tells the rows, the loads of the class, and the rows whose answers differ from a loop of
the class alone; ``share`` is the rows a second without the start, relative to that loop.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import sqlenrich as se

WORDS = se.enrichment("words", prompt="{{ body }}", key=["id"], output={"text": "string"}, hint="never")
RAISES, KILLS = "poison: raise", "poison: kill"
LAYERS = {"cpu": (2, 64), "cuda": (12, 1024)}
NEW_TOKENS = 24


class Generate:
    """A decoder with random weights, greedy, over bytes."""

    def __init__(self, folder: str, device: str) -> None:
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        self.folder, self.torch = Path(folder), torch
        (self.folder / f"load-{os.getpid()}").touch()
        torch.manual_seed(1)
        torch.set_num_threads(1)
        layers, width = LAYERS[device]
        config = GPT2Config(
            vocab_size=257, n_positions=512, n_embd=width, n_layer=layers, n_head=4, bos_token_id=256, eos_token_id=256
        )
        self.model = GPT2LMHeadModel(config).eval().to(device)
        self.device = device

    def __call__(self, prompts: list[str]) -> list[str]:
        if RAISES in prompts:
            raise ValueError("this prompt can't be answered")
        if any(KILLS in prompt for prompt in prompts) and not (self.folder / "killed").exists():
            (self.folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.time()
        coded = [list(prompt.encode()) for prompt in prompts]
        longest = max(map(len, coded))
        ids = self.torch.tensor([[256] * (longest - len(one)) + one for one in coded], device=self.device)
        seen = self.torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one in coded], device=self.device)
        with self.torch.no_grad():
            found = self.model.generate(
                ids, attention_mask=seen, do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=256
            )
            answers = [json.dumps({"text": str(one)}) for one in found[:, longest:].tolist()]
        with (self.folder / f"calls-{os.getpid()}").open("a") as file:
            file.write(f"{began} {time.time()}\n")
        return answers


def bodies(rows: int, *, clean: bool) -> list[str]:
    """Return distinct prompts, of which three are poison."""
    poison = [] if clean else [RAISES, f"{KILLS} 1", f"{KILLS} 2"]
    return [*(f"Row {number}: the card has not arrived" for number in range(rows - len(poison))), *poison]


def asked_s(folder: Path) -> float:
    """Return the seconds from the first call of the class to the end of the last one."""
    times = [
        tuple(map(float, line.split())) for file in folder.glob("calls-*") for line in file.read_text().splitlines()
    ]
    return max(end for _, end in times) - min(began for began, _ in times)


def on_duckdb(table: pa.Table, model: se.LocalModel, _: Path) -> dict[int, str]:
    """A run."""
    report = se.run(WORDS, input=table, model=model)
    return {row["id"]: row["text"] for row in report.table().to_pylist()}


def on_spark(table: pa.Table, model: se.LocalModel, folder: Path) -> dict[int, str]:
    """A run whose tasks share a process for each executor."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: Any = SparkSession.builder
    conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.host": "127.0.0.1"}
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.master("local[2]").getOrCreate()
    se.run(WORDS, input=table, output=folder / "out", spark=session, model=model)
    found = session.read.parquet(str(folder / "out" / "words")).collect()
    session.stop()
    return {row["id"]: row["text"] for row in found}


def on_ray(table: pa.Table, model: se.LocalModel, _: Path) -> dict[int, str]:
    """Two actors of Ray Data."""
    import ray.data

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    enriched = ray.data.from_arrow(table).map_batches(
        se.Enricher,
        fn_constructor_args=[WORDS],
        fn_constructor_kwargs={"model": model},
        batch_format="pyarrow",
        batch_size=64,
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    found = {row["id"]: row["text"] for row in enriched.take_all() if row["_error"] is None}
    ray.shutdown()
    return found


ENGINES = {"duckdb": on_duckdb, "spark": on_spark, "ray": on_ray}


def main() -> None:
    """Ask on each engine, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--clean", action="store_true", help="no poison, so that the share measures no restart")
    parser.add_argument("--device", choices=LAYERS, default="cpu")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    given = parser.parse_args()
    texts = bodies(given.rows, clean=given.clean)
    table = pa.table({"id": list(range(len(texts))), "body": texts})
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "killed").touch()
        bare = Generate(scratch, given.device)
        bare(texts[: given.batch])
        started = time.perf_counter()
        answers: dict[int, str] = {}
        asked = [number for number, text in enumerate(texts) if text != RAISES]
        for at in range(0, len(asked), given.batch):
            some = asked[at : at + given.batch]
            answers |= zip(some, bare([texts[number] for number in some]), strict=True)
        loop_s = time.perf_counter() - started
        wanted = {number: json.loads(answer)["text"] for number, answer in answers.items()}
        print(json.dumps({"engine": "loop", "rows": len(wanted), "seconds": round(loop_s, 2)}), flush=True)
        per = {"duckdb": "gpu" if given.device == "cuda" else "process", "spark": "executor", "ray": "process"}
        for name in given.only:
            own = folder / name
            own.mkdir()
            factory = functools.partial(Generate, str(own), given.device)
            model = se.LocalModel(factory, name="gpt2-random", version="1", batch=given.batch, per=per[name])
            started = time.perf_counter()
            found = ENGINES[name](table, model, own)
            seconds = time.perf_counter() - started
            told = {
                "engine": name,
                "rows": len(found),
                "seconds": round(seconds, 2),
                "share": round(loop_s / asked_s(own), 3),
                "loads": len(list(own.glob("load-*"))),
                "differ": sum(found.get(number) != text for number, text in wanted.items()),
            }
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

"""A run and ``ai_query`` in Spark beside a bare loop of requests, and what the driver's desk costs.

    python benchmarks/spark.py [--rows 20000] [--only slow fast quota checked few]

One warm session, two task slots, the endpoint of tests/support/endpoint.py as a process of its own.

* slow: 0.2 s an answer, 256 at a time: the rates as shares of 1,280 answers a second.
* fast: 0.01 s an answer: the rates relative to the bare loop's, one of aiohttp in a process of its own. The client
  alone, in this process, is the upper bound. The processor time of the desk a row.
* quota: 600 requests a minute at four worker processes, with the rows evenly and nearly all at one: the share of the
  limit that is used after the first burst, and the share of requests that are refused.
* checked: rows a second that are judged, by eight runs that ask nothing.
* few: the seconds of whole runs, of such that ask and such that find all answered, with the settings for few rows and
  with those of the session: medians of three, by turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.messages import Request
from sqlenrich.plan.plan import Step
from sqlenrich.spark import register
from sqlenrich.spark.address import DeskAddress
from sqlenrich.spark.assignment import Assignment
from sqlenrich.spark.desk import Desk
from sqlenrich.spark.journal import Journal
from sqlenrich.spark.session import open_session
from sqlenrich.spark.worker import Worker
from sqlenrich.store.spark.backend import SparkBackend, SparkPlace, SparkPolicy
from sqlenrich.store.spark.few_rows import FewPolicy
from tests.support.process import Process
from tests.support.runs import write_prompt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDPOINT = "tests.support.endpoint"
ROOT = Path(__file__).resolve().parents[1]
PEERS = Path(__file__).with_name("peers.py")
PHASES = ("slow", "fast", "quota", "checked", "few")
WIDTH = 256
JUDGED = 8
FEW_RUNS = 3
WORKER = """
import json, sys
sys.path.insert(0, sys.argv[3])
from benchmarks.spark import work
work(*json.loads(sys.argv[1]), json.loads(sys.argv[2]))
"""


class Clock(NullObserver):
    """Measures from the announcement of a run to the last answer."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0

    def plan(self, _line: PlanLine) -> bool:
        """Begin."""
        self.began = time.monotonic()
        return True

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:  # noqa: ARG002
        """Note the last answer until now."""
        self.ended = time.monotonic()


class Timed(SparkBackend):
    """A backend that measures its steps."""

    def __init__(self, place: SparkPlace) -> None:
        super().__init__(place)
        self.seconds: dict[str, float] = {}

    def run_step(self, step: Step) -> None:
        """Make the table of a step, and measure it."""
        began = time.monotonic()
        super().run_step(step)
        self.seconds[step.name] = time.monotonic() - began


def stats(url: str) -> dict[str, Any]:
    """Return what an endpoint has seen."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as page:
        return dict(json.load(page))


def show(**facts: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(facts), flush=True)


def bare(url: str, folder: Path, rows: int) -> float:
    """Return the answers a second of a loop of aiohttp."""
    command = [sys.executable, str(PEERS), "bare", str(folder / "in.csv"), str(rows), str(WIDTH), url, ""]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return rows / float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def client_alone(url: str, prompts: list[str]) -> float:
    """Return the answers a second of a loop over the client alone."""
    model = EndpointModel(se.Endpoint(url, concurrency=WIDTH), RequestConfig("mock"))
    with Client(model, concurrency=WIDTH) as client:
        began = time.monotonic()
        count = sum(map(len, client.stream(Request(str(n), 1, prompt) for n, prompt in enumerate(prompts))))
        return count / (time.monotonic() - began)


def run(spark: SparkSession, folder: Path, url: str, number: int) -> tuple[float, float]:
    """Return the answers a second of a run's asking, and the microseconds of the driver's desk a row."""
    enrichment, clock = se.load(folder / "intent.prompt"), Clock()
    desk_before = _desk_seconds()
    model = se.Endpoint(url, model="mock", concurrency=WIDTH)
    report = se.run(
        enrichment, spark=spark, input=folder / "in.parquet", output=str(folder / f"out{number}"), model=model,
        observer=clock,
    )  # fmt: skip
    return report.calls / (clock.ended - clock.began), (_desk_seconds() - desk_before) / report.calls * 1e6


def _desk_seconds() -> float:
    """Return the processor time of this process: of a run on executors it is the desk's, and the little of the rest."""
    return time.process_time()


def judged(spark: SparkSession, folder: Path) -> None:
    """Measure the judging of answers that two tasks have stored: of each run but the first, which asks."""
    rates = []
    with Process(ENDPOINT, "--latency", 0.01) as server:
        model = se.Endpoint(server.url, model="mock", concurrency=WIDTH)
        for _ in range(1 + JUDGED):
            backend = Timed(SparkPlace(str(folder / "checked"), session=spark))
            enrichment = se.load(folder / "intent.prompt")
            report = se.run(enrichment, input=folder / "in.parquet", output=backend, model=model)
            rates.append(round(report.rows_in / backend.seconds["checked"]))
    show(phase="checked", rows=report.rows_in, rows_a_second=rates[1:])


def few(spark: SparkSession, folder: Path) -> None:
    """Measure whole runs with the settings for few rows and with those of the session."""
    seconds: dict[str, list[float]] = {}
    with Process(ENDPOINT, "--latency", 0.01) as server:
        model = se.Endpoint(server.url, model="mock", concurrency=WIDTH)
        for number, (name, policy) in product(range(FEW_RUNS), (("own", FewPolicy(size=0)), ("few", FewPolicy()))):
            for what in ("asks", "answered"):
                place = SparkPlace(str(folder / f"{name}{number}"), session=spark)
                backend, began = SparkBackend(place, SparkPolicy(few=policy)), time.monotonic()
                se.run(se.load(folder / "intent.prompt"), input=folder / "in.parquet", output=backend, model=model)
                seconds.setdefault(f"{what}_{name}", []).append(time.monotonic() - began)
    show(phase="few", **{key: round(median(found), 1) for key, found in seconds.items()})


def query(spark: SparkSession, folder: Path, url: str) -> float:
    """Return the answers a second of ``ai_query`` and its write."""
    spark.read.parquet(str(folder / "in.parquet")).repartition(2).createOrReplaceTempView("asked")
    with register(spark, endpoint=se.Endpoint(url, concurrency=WIDTH)):
        began = time.monotonic()
        frame = spark.sql("SELECT id, a.result FROM (SELECT id, ai_query('mock', body) AS a FROM asked)")
        frame.write.format("noop").mode("overwrite").save()
        return int(spark.table("asked").count()) / (time.monotonic() - began)


def work(host: str, port: int, token: str, rows: tuple[int, int]) -> None:
    """Ask a range of rows as one worker process."""
    worker = Worker(DeskAddress(host, port, token), "run")
    for _ in worker.ask(Request(f"{n:064x}", 1, f"prompt {n}") for n in range(*rows)):
        pass


def quota(demand: list[int], name: str) -> None:
    """Measure 600 requests a minute at worker processes that have so many rows each."""
    with Process(ENDPOINT, "--latency", 0.2, "--rpm", 600) as server, TemporaryDirectory() as folder:
        url = server.url
        settings = se.Endpoint(url, rpm=600, concurrency=64)
        with Journal(Path(folder) / "journal") as journal, Desk(journal, settings) as desk:
            desk.assignments["run"] = Assignment(settings, RequestConfig("mock"), {"run_id": "r"})
            address = json.dumps([desk.address.host, desk.address.port, desk.address.token])
            first, processes = 0, []
            for rows in demand:
                part = json.dumps([first, first + rows])
                command = [sys.executable, "-c", WORKER, address, part, str(ROOT)]
                processes.append(subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}))
                first += rows
            for process in processes:
                process.wait()
        seen = stats(url)
    burst = 12  # what a bucket holds at its beginning
    lasted = seen["last_accepted"] - seen["first_accepted"]
    used = (seen["accepted"] - burst) / (lasted * 10)
    show(phase="quota", rows=name, used=round(used, 3), refused=seen["share_429"], seconds=round(lasted, 1))


def main() -> None:
    """Measure, and print a line of JSON each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=2.0, help="of the quota")
    parser.add_argument("--only", nargs="*", choices=PHASES, default=PHASES)
    given = parser.parse_args()
    if "quota" in given.only:
        rows = int(600 * given.minutes)
        quota([rows // 4] * 4, "even")
        quota([rows - 15, 5, 5, 5], "skewed")
    if given.only == ["quota"]:
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        write_prompt(folder)
        prompts = [f"text {n}" for n in range(given.rows)]
        table = pa.table({"id": range(given.rows), "body": prompts})
        pq.write_table(table, folder / "in.parquet")
        pa.csv.write_csv(table, folder / "in.csv")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        quiet = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        }
        spark = open_session("local[2]", quiet)
        with Process(ENDPOINT, "--latency", 0.01) as server:  # warms the session and its workers
            run(spark, folder, server.url, 0)
            query(spark, folder, server.url)
        for phase, latency in (("slow", 0.2), ("fast", 0.01)):
            if phase not in given.only:
                continue
            slots = ("--slots", WIDTH) if phase == "slow" else ()
            with Process(ENDPOINT, "--latency", latency, *slots) as server:
                url = server.url
                loop, alone = bare(url, folder, given.rows), client_alone(url, prompts)
                asked, desk_us = run(spark, folder, url, 1 + (phase == "fast"))
                called = query(spark, folder, url)
            most = WIDTH / latency if phase == "slow" else loop
            facts = {"loop": loop, "client": alone, "run": asked, "ai_query": called}
            shares = {f"{key}_share": round(value / most, 3) for key, value in facts.items()}
            show(phase=phase, **{key: round(value) for key, value in facts.items()}, **shares, desk_us=round(desk_us))
        if "checked" in given.only:
            judged(spark, folder)
        if "few" in given.only:
            few(spark, folder)
        spark.stop()


if __name__ == "__main__":
    main()

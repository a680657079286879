"""Faults in Spark while executors ask: each ends with the undisturbed tables; what was asked twice is bounded.

    python benchmarks/spark_faults.py [--rows 20000] [--only tasks speculation workers ...]

A standalone cluster of two workers under two host names, 127.0.0.1 and 127.0.0.2: Spark never speculates on one host.

* tasks: each task fails twice after some answers.
* speculation: one task is slow, and a copy of it starts.
* workers, executor, driver: SIGKILL of all Python workers, of an executor and its workers, of the driver.
* cancel: all jobs are cancelled while it asks.
* duplicates: each row five times.

After driver and cancel the same run is started again. Asked twice may be at most (processes lost) x (width + 128).
Prints a line of JSON each. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, PlanLine
from sqlenrich.llm.local.model import LocalConfig
from sqlenrich.spark import tasks
from sqlenrich.spark.address import DeskAddress
from sqlenrich.spark.session import open_session
from tests.support.process import Process
from tests.support.runs import write_prompt

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
HOSTS = ("127.0.0.1", "127.0.0.2")
FAULTS = ("tasks", "speculation", "workers", "executor", "driver", "cancel", "duplicates")
WIDTH = 64
UNSTORED = 128
RESUMED = ("driver", "cancel")
TABLES = ("intent", "intent_quarantine")


def failing(
    batches: Iterable[pa.RecordBatch], address: DeskAddress, assignment: str, local: LocalConfig | None = None
) -> Iterator[pa.RecordBatch]:
    """Ask as a task does, and fail twice after some answers."""
    from pyspark import TaskContext

    context = TaskContext.get()
    left = 2 if context is not None and context.attemptNumber() < 2 else None
    for batch in tasks_ask(batches, address, assignment, local):
        yield batch
        if left is not None and (left := left - 1) <= 0:
            raise RuntimeError("injected")


def slow(
    batches: Iterable[pa.RecordBatch], address: DeskAddress, assignment: str, local: LocalConfig | None = None
) -> Iterator[pa.RecordBatch]:
    """Ask as a task does; the first one is slow in its first attempt."""
    from pyspark import TaskContext

    context = TaskContext.get()
    late = context is not None and context.partitionId() == 0 and context.attemptNumber() == 0
    for batch in tasks_ask(batches, address, assignment, local):
        if late:
            time.sleep(0.5)
        yield batch


tasks_ask = tasks.ask
INJECTED = {"tasks": failing, "speculation": slow}


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start a master and a worker on each host; give the master's URL. Their files are below a folder."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    path = os.pathsep.join((str(ROOT), str(HERE)))
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    package = "org.apache.spark.deploy"
    log = (folder / "cluster.log").open("w")

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([str(spark_class), *arguments], env=env, stdout=log, stderr=log)

    port = "17077"
    processes = [start(f"{package}.master.Master", "--host", HOSTS[0], "--port", port, "--webui-port", "0")]
    url = f"spark://{HOSTS[0]}:{port}"
    time.sleep(10)
    for host in HOSTS:
        where = (
            "--host",
            host,
            "--webui-port",
            "0",
            "--cores",
            "1",
            "--memory",
            "1g",
            "--work-dir",
            str(folder / host),
        )
        processes.append(start(f"{package}.worker.Worker", *where, url))
    try:
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        log.close()


class Killer(NullObserver):
    """Does the harm once a tenth of the answers is there."""

    def __init__(self, fault: str, session: Any) -> None:
        self.fault, self.session, self.done, self.told = fault, session, False, 0

    def plan(self, _line: PlanLine) -> bool:
        """Begin."""
        return True

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:  # noqa: ARG002
        """Kill at the right time."""
        self.told += answered
        if self.done or self.told * 10 < total:
            return
        self.done = True
        if self.fault == "driver":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "cancel":
            threading.Thread(target=self.session.sparkContext.cancelAllJobs).start()
        if self.fault in ("workers", "executor"):
            for pid in victims(self.fault):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def victims(fault: str) -> list[int]:
    """Return the Python workers of this cluster's executors, or of one executor and the executor itself."""
    parents = {pid: parent_of(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
    executors = sorted(pid for pid in parents if "CoarseGrainedExecutorBackend" in command_of(pid))
    chosen = executors if fault == "workers" else executors[-1:]
    found = [pid for pid in parents if any(is_below(pid, one, parents) for one in chosen)]
    return [pid for pid in found if "pyspark" in command_of(pid)] + ([] if fault == "workers" else chosen)


def is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    """Tell whether a process descends from another one."""
    while (pid := parents.get(pid, 0)) > 1:
        if pid == ancestor:
            return True
    return False


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 where it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def command_of(pid: int) -> str:
    """Return the command line of a process, empty where it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def drive(folder: str, master: str, url: str, fault: str, output: str) -> None:
    """Run as a driver of its own, with a fault."""
    os.chdir(folder)
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "700m",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.task.maxFailures": "8",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE))),
    }
    if fault == "speculation":
        conf |= {f"spark.speculation{name}": value for name, value in (
            ("", "true"), (".multiplier", "1.01"), (".quantile", "0.1"), (".interval", "100ms"),
            (".minTaskRuntime", "100ms"), (".efficiency.enabled", "false"))}  # fmt: skip
    session = open_session(master, conf)
    if fault in INJECTED:
        import spark_faults

        tasks.ask = spark_faults.INJECTED[fault]
    source = f"{folder}/{'five' if fault == 'duplicates' else 'in'}.parquet"
    enrichment, model = se.load(f"{folder}/intent.prompt"), se.Endpoint(url, model="mock", concurrency=WIDTH)
    try:
        se.run(enrichment, spark=session, input=source, output=output, model=model, observer=Killer(fault, session))
    finally:
        session.stop()


def digest(output: str) -> str:
    """Return a digest of the rows of the result tables."""
    whole = hashlib.sha256()
    for name in TABLES:
        rows = sorted(map(repr, pq.read_table(f"{output}/{name}").to_pylist()))
        whole.update("\n".join(rows).encode())
    return whole.hexdigest()


def main() -> None:
    """Run undisturbed, then with each fault, and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", nargs="*", choices=FAULTS, default=FAULTS)
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        drive(*json.loads(given.drive))
        return
    problems = []
    with TemporaryDirectory() as name, Process("tests.support.endpoint", "--latency", 0.05) as server:
        folder = Path(name)
        write_prompt(folder)
        rows = {"id": list(range(given.rows)), "body": [f"text {n}" for n in range(given.rows)]}
        pq.write_table(pa.table(rows), folder / "in.parquet")
        pq.write_table(pa.concat_tables([pa.table(rows)] * 5), folder / "five.parquet")
        with cluster(folder) as master:
            expected = ""
            for fault in ("calm", *given.only):
                urllib.request.urlopen(urllib.request.Request(f"{server.url[:-3]}/reset", method="POST")).close()
                output, began, runs = str(folder / fault), time.monotonic(), 0
                for attempt in range(2 if fault in RESUMED else 1):
                    work = json.dumps([name, master, server.url, "calm" if attempt else fault, output])
                    path = os.pathsep.join((str(ROOT), str(HERE)))
                    env = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
                    runs += 1
                    subprocess.run([sys.executable, __file__, "--drive", work], env=env, check=False)
                with urllib.request.urlopen(f"{server.url[:-3]}/stats") as page:
                    seen = json.load(page)
                lost = {"calm": 0, "speculation": 0, "duplicates": 0, "executor": 1}.get(fault, 2)
                lost = 16 if fault == "tasks" else lost
                twice = seen["requests"] - given.rows
                same = digest(output)
                if fault == "calm":
                    expected = same
                equal = fault == "duplicates" or same == expected
                facts = {"fault": fault, "runs": runs, "asked_twice": twice, "most": lost * (WIDTH + UNSTORED)}
                print(json.dumps({**facts, "equal": equal, "s": round(time.monotonic() - began, 1)}), flush=True)
                if not equal or not 0 <= twice <= facts["most"]:
                    problems.append(fault)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

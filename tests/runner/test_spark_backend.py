"""A run in Spark: the same tables and the same report as on the DuckDB backend."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import sqlenrich as se
from sqlenrich.core.lease import LeaseLostError, LeasePolicy
from sqlenrich.plan.plan import Plan
from sqlenrich.spark.desk import DeskPolicy
from sqlenrich.spark.journal import Journal, Row
from sqlenrich.spark.session import settings
from sqlenrich.spec.weights import Weights
from sqlenrich.store.base import RunStart, Snapshot
from sqlenrich.store.spark.backend import SparkBackend, SparkPlace, SparkPolicy
from sqlenrich.store.spark.few_rows import FewPolicy
from sqlenrich.store.spark.pending import RANGE, PendingPart
from tests.standins.spark import spark_session
from tests.support.endpoint import ScriptedEndpoint
from tests.support.full_disk import fill_disk
from tests.support.hostile import TEXTS
from tests.support.runs import rows as duckdb_rows
from tests.support.runs import write_csv, write_prompt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FAILURES = {"bad_json": 0.2, "missing_field": 0.1, "error": 0.1}
TABLES = ("intent_prompts", "intent_checked", "intent", "intent_quarantine", "intent_responses")
KEEPS_ALL = 'key: [id]\nkeep: "*"\n'
TIMES = ("run_id", "asked_at", "_asked_at", "latency_ms")


SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Compiling Java takes most of the time of a query over few rows."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_session()
    session.sql("CREATE DATABASE IF NOT EXISTS enriched")
    with settings(session, SETTINGS):
        yield session


@pytest.fixture
def messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hostile texts, repeated and NULL ones among them, as a Parquet file."""
    monkeypatch.chdir(tmp_path)  # the journal's folder is below
    texts = [*TEXTS.values(), None, "", *(f"text {n % 20}" for n in range(40))]
    table = pa.table({"id": pa.array(range(len(texts)), pa.int64()), "body": pa.array(texts, pa.string())})
    pq.write_table(table, tmp_path / "messages.parquet")
    return tmp_path / "messages.parquet"


def plain(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


def facts(report: se.Report) -> dict[str, Any]:
    return {name: value for name, value in report.to_dict().items() if name not in ("run_id", "seconds", "latency_ms")}


def test_the_tables_are_those_of_the_duckdb_backend(spark: SparkSession, messages: Path, tmp_path: Path) -> None:
    enrichment, mock = se.load(write_prompt(tmp_path, KEEPS_ALL)), se.Mock(FAILURES)
    report = se.run(enrichment, spark=spark, input=messages, output=f"{tmp_path}/out", model=mock)
    expected = se.run(enrichment, input=messages, output=tmp_path / "own.duckdb", model=mock)
    assert facts(report) == facts(expected)
    assert min(report.enriched, report.quarantined) > 0
    for name in TABLES:
        found = spark.read.parquet(f"{tmp_path}/out/{name}").drop(*TIMES)
        columns = ", ".join(f'"{column}"' for column in found.columns)
        own = duckdb_rows(tmp_path / "own.duckdb", f'SELECT {columns} FROM "{name}"')
        assert plain(found.collect()) == plain(own), name
    assert not any((tmp_path / ".sqlenrich").iterdir())


@pytest.mark.parametrize(
    ("policy", "planned_anew"),
    [
        pytest.param(FewPolicy(), "false", id="few rows"),
        pytest.param(FewPolicy(rows=9), "true", id="more rows"),
        pytest.param(FewPolicy(size=99), "true", id="larger tables"),
    ],
)
def test_the_settings_of_the_session_change_for_few_rows_alone(
    spark: SparkSession, messages: Path, tmp_path: Path, policy: FewPolicy, planned_anew: str
) -> None:
    found = []

    class Watched(SparkBackend):
        def spread(self, *given: Any) -> Any:
            found.append(spark.conf.get("spark.sql.adaptive.enabled"))
            return super().spread(*given)

    with settings(spark, {"spark.sql.adaptive.enabled": "true"}):
        backend = Watched(SparkPlace(f"{tmp_path}/out", session=spark), SparkPolicy(few=policy))
        se.run(se.load(write_prompt(tmp_path, KEEPS_ALL)), input=messages, output=backend, model=se.Mock())
        assert (set(found), spark.conf.get("spark.sql.adaptive.enabled")) == ({planned_anew}, "true")


def test_the_settings_of_a_session_that_runs_share_stay_its_own(
    spark: SparkSession, messages: Path, tmp_path: Path
) -> None:
    found = []

    class Watched(SparkBackend):
        def spread(self, *given: Any) -> Any:
            found.append(spark.conf.get("spark.sql.adaptive.enabled"))
            with SparkBackend(SparkPlace(f"{tmp_path}/other", session=spark)):
                found.append(spark.conf.get("spark.sql.adaptive.enabled"))
            return super().spread(*given)

    with settings(spark, {"spark.sql.adaptive.enabled": "true"}):
        backend = Watched(SparkPlace(f"{tmp_path}/out", session=spark))
        se.run(se.load(write_prompt(tmp_path, KEEPS_ALL)), input=messages, output=backend, model=se.Mock())
        assert (found, spark.conf.get("spark.sql.adaptive.enabled")) == (["false", "true"], "true")


def test_a_run_ends_at_a_cap_goes_on_and_is_retried_in_a_schema(
    spark: SparkSession, messages: Path, tmp_path: Path
) -> None:
    enrichment, mock = se.load(write_prompt(tmp_path, KEEPS_ALL)), se.Mock({"bad_json": 0.5})
    spark.read.parquet(str(messages)).createOrReplaceTempView("messages")
    query = "SELECT id, body FROM messages WHERE id >= 40"
    first = se.run(enrichment, spark=spark, input=query, output="enriched", model=mock, max_rows=10)
    assert (first.calls, first.exit_status, first.stopped_at, first.output) == (10, 4, "max_rows", "enriched")
    second = se.run(enrichment, spark=spark, input=query, output="enriched", model=mock)
    assert (second.calls, second.pending) == (second.distinct_requests - 10, 0)
    planned = se.estimate(enrichment, spark=spark, input=query, output="enriched", model=mock)
    assert (planned.rows, planned.distinct_requests, planned.calls) == (second.rows_in, second.distinct_requests, 0)
    retried = se.retry(enrichment, spark=spark, output="enriched", model=se.Mock())
    assert (retried.rows_in, retried.quarantine.get("BAD_JSON")) == (second.rows_in, None)
    runs = spark.table("enriched._sqlenrich_runs").where("ended_at IS NOT NULL").orderBy("started_at")
    assert [row.status for row in runs.collect()] == ["stopped", "done", "done"]
    used = se.usage(spark=spark, output="enriched")
    assert [(run.run_id, run.status, run.answers) for run in used.runs] == [
        (first.run_id, "stopped", 10),
        (second.run_id, "done", second.calls - second.retries),
        (retried.run_id, "done", retried.calls),
    ]
    clash = se.loads(write_prompt(tmp_path).read_text(), name=enrichment.name.upper())
    with pytest.raises(se.ConfigError, match=f"enriched has runs of {enrichment.name}, which writes the table"):
        se.run(clash, spark=spark, input=query, output="enriched", model=mock)
    spark.sql("CREATE TABLE enriched.other AS SELECT 1 AS x")
    with pytest.raises(se.ConfigError, match=r"the table `enriched`.`other` is not sqlenrich's"):
        se.run(enrichment, spark=spark, input=query, output="enriched", tables="other", mock=True)


@pytest.mark.parametrize("place", ["folder", "enriched"])
def test_a_run_with_nothing_new_makes_no_table_again(
    spark: SparkSession, messages: Path, tmp_path: Path, place: str
) -> None:
    output = f"{tmp_path}/out" if place == "folder" else place
    enrichment = se.loads(write_prompt(tmp_path).read_text(), name=f"unchanged_in_{place}")
    names = [enrichment.name, f"{enrichment.name}_quarantine"]

    def run(first_id: int) -> tuple[set[str], dict[str, Any]]:
        rows = pq.read_table(messages).slice(first_id)
        report = se.run(enrichment, spark=spark, input=rows, output=output, model=se.Mock({"bad_json": 0.2}))
        made = [f"parquet.`{output}/{name}`" if place == "folder" else f"{output}.{name}" for name in names]
        frames = list(map(spark.table, made))
        assert (report.enriched, report.quarantined) == tuple(frame.count() for frame in frames)
        return {file for frame in frames for file in frame.inputFiles()}, facts(report)

    made, first = run(0)
    kept, again = run(0)
    assert kept == made
    assert (again["calls"], again["enriched"], again["quarantine"]) == (0, first["enriched"], first["quarantine"])
    fewer, _ = run(30)  # of the rows that are left, each request is answered
    assert not fewer & made
    assert run(30)[0] == fewer


def test_a_classifier_decides_in_spark_and_executors_ask_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    texts = [f"text {n % 50}" for n in range(60)]
    table = pa.table({"id": pa.array(range(60), pa.int64()), "body": pa.array(texts)})
    leads = [(f" {number} ", *((90, 0) if number % 2 else (0, 90))) for number in range(40)]
    Weights("label", ("a", "b"), (0, 0), (0, 0), leads).write(tmp_path / "label.weights.parquet")
    cascade = "cascade: {distilled: label.weights.parquet, threshold: 50}\nmodel: strong\n"
    file = write_prompt(tmp_path, f"key: [id]\n{cascade}", output="output: {label(enum): [a, b]}\n")
    with ScriptedEndpoint(content='{"label":"a"}') as endpoint:
        given: Any = {"spark": spark, "input": table, "output": f"{tmp_path}/out", "endpoint": endpoint.url}
        report = se.run(se.load(file), **given)
    assert (report.enriched, report.calls, report.pending) == (60, 10, 0)
    found = spark.read.parquet(f"{tmp_path}/out/intent").groupBy("_model").count().collect()
    assert {row["_model"]: row["count"] for row in found} == {"distilled:label": 50, "strong": 10}


def test_executors_end_where_all_first_answers_are_refused(spark: SparkSession, messages: Path, tmp_path: Path) -> None:
    with ScriptedEndpoint(content="Sure!") as server:
        endpoint = se.Endpoint(server.url, model="mock", concurrency=8)
        given: dict[str, Any] = {"input": messages, "output": f"{tmp_path}/out", "model": endpoint}
        report = se.run(se.load(write_prompt(tmp_path)), spark=spark, **given, stop_after_refused=12)
    assert (report.calls, report.stopped_at, report.exit_status) == (12, "stop_after_refused", 4)
    assert report.to_text().count("  BAD_JSON: the text is not one JSON document: Sure!") == 2


def test_rows_at_fault_that_alone_are_left_end_no_run(spark: SparkSession, tmp_path: Path) -> None:
    """An answer of an earlier run shows that the endpoint works."""
    good, bad = [1, "good"], [[number, f"poison {number}"] for number in range(2, 8)]
    with ScriptedEndpoint(by_prompt={"poison": "400_unclear"}) as server:
        model = se.Endpoint(server.url, model="mock")
        given: dict[str, Any] = {"spark": spark, "output": f"{tmp_path}/out", "model": model}
        enrichment = se.load(write_prompt(tmp_path, "key: [id]\nretry: {max_attempts: 1}\n"))
        se.run(enrichment, input=write_csv(tmp_path / "in.csv", [good, *bad]), **given)
        report = se.retry(enrichment, max_attempts=3, **given)
    attempts = spark.read.parquet(f"{tmp_path}/out/intent_responses").groupBy("attempt").count().collect()
    assert {one.attempt: one["count"] for one in attempts} == {1: 7, 2: 6, 3: 6}
    assert (report.enriched, report.quarantine, report.pending) == (1, {"CALL_ERROR": 6}, 0)


def test_executors_ask_an_endpoint(
    spark: SparkSession, messages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-very-secret")
    enrichment, folder = se.load(write_prompt(tmp_path)), f"{tmp_path}/out"
    faults = {"text 7": "filtered"}
    with ScriptedEndpoint(key="sk-very-secret", by_prompt=faults, served=lambda _: ("mock-1", "fp_1")) as server:
        endpoint = se.Endpoint(server.url, "THE_KEY", model="mock", concurrency=8)
        report = se.run(enrichment, spark=spark, input=messages, output=folder, model=endpoint, max_calls=40)
        assert (report.calls, report.stopped_at, report.exit_status) == (40, "max_calls", 4)
        report = se.run(enrichment, spark=spark, input=messages, output=folder, model=endpoint)
        expected = se.run(enrichment, input=messages, output=tmp_path / "own.duckdb", model=endpoint)
        assert len(server.asked) == 2 * expected.calls
        assert (report.enriched, report.quarantine) == (expected.enriched, expected.quarantine)
        for name in ("intent", "intent_quarantine", "intent_responses"):
            found = spark.read.parquet(f"{folder}/{name}").drop(*TIMES)
            columns = ", ".join(f'"{column}"' for column in found.columns)
            own = duckdb_rows(tmp_path / "own.duckdb", f'SELECT {columns} FROM "{name}"')
            assert plain(found.collect()) == plain(own), name
        assert [{**one, "answers": 83} for one in report.served] == expected.served
        pinned = se.load(write_prompt(tmp_path, "key: [id]\npin_model: mock-2\n"))
        asked = len(server.asked)
        with pytest.raises(se.RunError, match="mock is answered by mock-1, and pin_model is mock-2"):
            se.run(pinned, spark=spark, input=messages, output=f"{tmp_path}/pinned", model=endpoint)
        assert len(server.asked) == asked + 1
    assert spark.read.parquet(f"{folder}/intent").select("_model").distinct().collect() == [("mock-1",)]
    named = spark.read.parquet(f"{folder}/intent_responses").select("model", "served_model", "served_fingerprint")
    assert ("mock", "mock-1", "fp_1") in {tuple(row) for row in named.collect()}


def test_what_a_cancelled_job_has_in_flight_is_kept(spark: SparkSession, messages: Path, tmp_path: Path) -> None:
    enrichment, folder = se.load(write_prompt(tmp_path)), f"{tmp_path}/out"
    with ScriptedEndpoint(latency_s=0.2) as server:
        endpoint = se.Endpoint(server.url, model="mock", concurrency=8)

        def cancel() -> None:
            while len(server.asked) < 20:
                time.sleep(0.01)
            spark.sparkContext.cancelAllJobs()

        cancelling = threading.Thread(target=cancel)
        cancelling.start()
        with pytest.raises(se.RunError, match="cancelled"):
            se.run(enrichment, spark=spark, input=messages, output=folder, model=endpoint)
        cancelling.join()
        before = len(server.asked)
        report = se.run(enrichment, spark=spark, input=messages, output=folder, model=endpoint)
        assert 20 <= before < len(server.asked) == len({seen.prompt for seen in server.asked})
    assert (report.pending, report.calls) == (0, len(server.asked) - before)


def asking(port: int) -> list[int]:
    """The Python processes of the session's tasks that have a connection to a port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{line[9]}]" for line in lines if line[2].endswith(f":{port:04X}")}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            named = b"pyspark" in (folder / "cmdline").read_bytes()
            if named and any(os.readlink(one) in sockets for one in (folder / "fd").iterdir()):
                found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="it looks for processes in /proc")
def test_processes_that_are_stopped_end_no_run(spark: SparkSession, messages: Path, tmp_path: Path) -> None:
    """Spark waits for them for ever. Their requests are asked by others; those that they told are asked once."""
    enrichment, folder = se.load(write_prompt(tmp_path)), f"{tmp_path}/out"
    backend = SparkBackend(SparkPlace(folder, session=spark, desk_policy=DeskPolicy(silent_s=1.0)))
    with ScriptedEndpoint(latency_s=0.3) as server:
        endpoint = se.Endpoint(server.url, model="mock", concurrency=8)
        stopped: list[int] = []

        def stop() -> None:
            while len(server.asked) < 20:
                time.sleep(0.01)
            stopped.extend(asking(urlsplit(server.url).port or 0))
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)

        stopping = threading.Thread(target=stop)
        stopping.start()
        report = se.run(enrichment, input=messages, output=backend, model=endpoint)
        stopping.join()
        assert stopped
        assert report.pending == 0
        assert len({seen.prompt for seen in server.asked}) <= len(server.asked) <= report.calls
    rows = spark.read.parquet(f"{folder}/intent_responses").count()
    assert rows == report.distinct_requests


def test_a_full_disk_under_the_journal_ends_the_run(
    spark: SparkSession, messages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrichment, folder = se.load(write_prompt(tmp_path)), f"{tmp_path}/out"
    with ScriptedEndpoint(latency_s=0.05) as server:
        endpoint = se.Endpoint(server.url, model="mock", concurrency=4)
        with monkeypatch.context() as patch:
            fill_disk(patch, 5_000, "pwrite")
            with pytest.raises(se.RunError, match=f"^the folder {tmp_path}/.sqlenrich takes no more answers"):
                se.run(enrichment, spark=spark, input=messages, output=folder, model=endpoint)
        before = len(server.asked)
        kept = spark.read.parquet(f"{folder}/intent_responses").count()
        report = se.run(enrichment, spark=spark, input=messages, output=folder, model=endpoint)
        assert 0 < kept == before < len(server.asked) == report.distinct_requests


@pytest.mark.parametrize("place", ["folder", "enriched"])
def test_a_statement_reads_the_files_of_its_range(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """64 requests in 16 ranges of 1 to 9; statements of at most 8 requests: each file is read once, but for one."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": range(64), "body": [f"text {n}" for n in range(64)]}), tmp_path / "many.parquet")
    place = f"{tmp_path}/out" if place == "folder" else place
    backend = SparkBackend(SparkPlace(place, session=spark), SparkPolicy(range_rows=4))
    read, sizes = list[int](), dict[str, int]()
    of = PendingPart.of

    def measured(part: PendingPart, pending: Any) -> Any:
        found: Any = of(part, pending)
        found.collect()
        plan = found._jdf.queryExecution().executedPlan()
        read.append(plan.collectLeaves().apply(0).metrics().apply("numFiles").value())
        assert f"PartitionFilters: [isnotnull({RANGE}#" in plan.toString()
        for one in part.ranges:
            sizes.setdefault(str(one.name), one.rows)
        return found

    monkeypatch.setattr(PendingPart, "of", measured)
    enrichment = se.load(write_prompt(tmp_path))
    with ScriptedEndpoint() as server:
        endpoint = se.Endpoint(server.url, model="mock", concurrency=8)
        report = se.run(
            enrichment, input=tmp_path / "many.parquet", output=backend, model=endpoint, tables="many", chunk_rows=8
        )
        assert len(server.asked) == report.calls == 64
    assert (len(sizes) > 8, sum(sizes.values())) == (True, 64)
    # Less the preflight's. Of a range with more requests than a statement asks, the file is read for its bound too.
    assert len(sizes) <= sum(read[1:]) <= len(sizes) + 2 * sum(size > 8 for size in sizes.values())


def test_a_folder_that_another_program_wrote_is_read_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    out = f"{tmp_path}/out"
    backend = SparkBackend(SparkPlace(out, session=spark))
    made, other = (exp.table_(f"{out}/{name}", db="parquet", quoted=True) for name in ("made", "other"))
    columns = []
    for query in ("SELECT 1 AS x", "SELECT 2 AS x, 'b' AS y"):
        spark.sql(query).write.mode("overwrite").parquet(f"{out}/made")
        with backend:
            for _ in range(2):
                backend.tables.make(other, exp.select("*").from_(made.copy()))
                backend.tables.publish([other])
        columns.append(spark.read.parquet(f"{out}/other").columns)
    assert columns == [["x"], ["x", "y"]]
    assert spark.sql("SHOW VIEWS LIKE 'sqlenrich*'").collect() == []


class Telling(SparkBackend):
    """Its workers tell one more answer while the first ones are stored."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(SparkPlace("enriched"))
        self.journal = journal
        self.stored: list[tuple[list[str], bool]] = []

    def _insert(self, plan: Any, rows: Sequence[Row], *, doubtful: bool) -> None:  # noqa: ARG002
        if not self.stored:
            self.journal.add({"request_hash": "03", "attempt": 1})
        self.stored.append(([row["request_hash"] for row in rows], doubtful))


def test_an_answer_that_is_told_while_others_are_stored_is_stored_too(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.add({"request_hash": "01", "attempt": 1}, {"request_hash": "02", "attempt": 1})
        backend = Telling(journal)
        backend.store(cast(Plan, None))
        assert backend.stored == [(["01", "02"], False), (["01", "02", "03"], True)]
        assert len(journal) == 0


def test_a_frozen_run_stores_nothing_once_another_one_has_taken_its_answers(tmp_path: Path) -> None:
    policy = LeasePolicy(lasts_s=0.5, poll_s=0.05)
    with Journal(tmp_path / "journal", policy=policy) as journal:
        journal.add({"request_hash": "01", "attempt": 1})
        assert journal._lease is not None
        journal._lease._ended.set()  # nothing renews it, as in a process that is stopped
        with Journal(tmp_path / "journal", policy=policy) as other:
            assert len(other) == 1
            backend = Telling(journal)
            with pytest.raises(LeaseLostError, match="another run has taken over"):
                backend.store(cast(Plan, None))
            assert backend.stored == []


def test_executors_send_the_system_of_each_row(spark: SparkSession, messages: Path, tmp_path: Path) -> None:
    """The same bodies as the DuckDB backend sends, and the same hashes."""
    header = 'key: [id]\nsystem: "{% if id % 3 %}{{ body }} for {{ id % 5 }}{% endif %}"\ncolumns: {id: bigint}\n'
    enrichment, folder = se.load(write_prompt(tmp_path, header)), f"{tmp_path}/out"
    with ScriptedEndpoint() as server:
        endpoint = se.Endpoint(server.url, model="mock", concurrency=8)
        report = se.run(enrichment, spark=spark, input=messages, output=folder, model=endpoint)
        sent = sorted(seen.body for seen in server.asked)
        se.run(enrichment, input=messages, output=tmp_path / "own.duckdb", model=endpoint)
        assert sorted(seen.body for seen in server.asked[len(sent) :]) == sent
        assert se.run(enrichment, spark=spark, input=messages, output=folder, model=endpoint).calls == 0
    assert {len(json.loads(body)["messages"]) for body in sent} == {1, 2}
    hashes = spark.read.parquet(f"{folder}/intent_prompts").select("request_hash", "prompt")
    own = duckdb_rows(tmp_path / "own.duckdb", "SELECT request_hash, prompt FROM intent_prompts")
    assert plain(hashes.collect()) == plain(own)
    assert report.calls == len(sent) > 50


def test_executors_ask_for_vectors(spark: SparkSession, messages: Path, tmp_path: Path) -> None:
    header = "---\nkey: [id]\ncolumns: {id: bigint}\noutput: {v: {dimensions: 4}}\n---\n"
    enrichment = se.loads(header + "{{ body }}", name="vectors")
    with ScriptedEndpoint() as server:
        endpoint = se.Endpoint(server.url, model="mock", concurrency=4, embed_batch=16)
        report = se.run(enrichment, spark=spark, input=messages, output=f"{tmp_path}/out", model=endpoint)
        asked = [json.loads(seen.body)["input"] for seen in server.asked]
    texts = [text for together in asked for text in together]
    assert len(texts) == len(set(texts)) == report.distinct_requests
    assert 1 < max(map(len, asked)) <= 16
    assert report.calls == len(asked) < len(texts)
    found = spark.read.parquet(f"{tmp_path}/out/vectors").collect()
    assert len(found) == report.enriched == report.rows_in - report.quarantine["NO_INPUT"]
    assert {len(row.v) for row in found} == {4}


def test_csv_and_json_lines_are_read_as_by_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    """Doubled quotes, line breaks and blanks in fields; numbers stay texts; rows are numbered from 1."""
    rows = [(text, f"00{n}") for n, text in enumerate(TEXTS.values()) if "\r" not in text and "\x00" not in text]
    prompt = se.load(write_prompt(tmp_path, "columns: {body: string, code: string}\n", "{{ code }} {{ body }}"))
    write_csv(tmp_path / "in.csv", rows, header=("body", "code"))
    for place in (f"{tmp_path}/out", tmp_path / "own.duckdb"):
        session = spark if isinstance(place, str) else None
        se.run(prompt, spark=session, input=tmp_path / "in.csv", output=place, mock=True)
    found = spark.read.parquet(f"{tmp_path}/out/intent_prompts").select("_row", "prompt").collect()
    assert plain(found) == plain(duckdb_rows(tmp_path / "own.duckdb", "SELECT _row, prompt FROM intent_prompts"))


@pytest.mark.parametrize("stored", [True, False])
def test_columns_that_spark_cannot_read_end_no_run(spark: SparkSession, tmp_path: Path, stored: bool) -> None:
    """Where nothing names them. A name may hold a dot."""
    unreadable = {"many": pa.array([1, 2], pa.uint64()), "half": pa.array([1.5, 2.5], pa.float16())}
    given: Any = pa.table({"id": [1, 2], "a.b": ["one", "two"], **unreadable})
    if stored:
        pq.write_table(given, tmp_path / "in.parquet")
        given = tmp_path / "in.parquet"
    header = 'key: [id]\ncolumns: {body: {from: "a.b"}}\n'
    prompt = se.load(write_prompt(tmp_path, header, "{{ body }}"))
    report = se.run(prompt, spark=spark, input=given, output=f"{tmp_path}/out", mock=True)
    assert (report.rows_in, report.pending) == (2, 0)
    found = spark.read.parquet(f"{tmp_path}/out/intent_prompts").select("prompt").collect()
    assert plain(found) == [("one",), ("two",)]


def test_a_killed_run_has_a_last_line_once_another_begins(spark: SparkSession, tmp_path: Path) -> None:
    backend = SparkBackend(SparkPlace(f"{tmp_path}/out", session=spark))
    snapshot = Snapshot("d", "m", None, False, ["id"], None, None, None)
    starts = [
        RunStart(run, "intent", datetime(2026, 11, day, tzinfo=UTC), snapshot, "{}")
        for day, run in enumerate(("killed", "next"), 1)
    ]
    with backend:
        for start in starts:
            backend.ledger.begin(start, known=True)
        backend.ledger.record(starts[1], "done", {})
        runs = spark.read.parquet(f"{tmp_path}/out/_sqlenrich_runs").where("ended_at IS NOT NULL")
        assert plain(runs.select("run_id", "status").collect()) == [("killed", "failed"), ("next", "done")]
        assert backend.ledger.last_snapshot("intent").digest == "d"


@pytest.mark.parametrize("bare", [False, True])
def test_a_command_at_a_local_master(tmp_path: Path, bare: bool) -> None:
    """It needs no activated environment: its tasks run with its own Python. Its lines are all that the user sees.

    ``bare``: a Python without packages is set for the tasks. That is told before a table is made.
    """
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    (tmp_path / "in.csv").write_text("id,body\n1,one\n2,two\n")
    write_prompt(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "PYTHONPATH")}
    environment |= {"PATH": f"{tmp_path}:{environment['PATH']}", "COLUMNS": "200"}
    environment |= {"PYSPARK_PYTHON": str(python)} if bare else {}
    with ScriptedEndpoint() as server:
        done = subprocess.run(
            [sys.executable, "-m", "sqlenrich", "run", "intent.prompt", "--input", "in.csv", "--spark", "local[1]",
             "--output", f"{tmp_path}/out", "--endpoint", server.url, "--model", "mock", "--yes"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    told = done.stdout + done.stderr
    assert not re.search(r"WARN|ERROR|Traceback|\tat |log4j|pandas", told)
    assert (tmp_path / ".sqlenrich" / "spark.log").exists()
    if bare:
        lines = [line for line in done.stderr.splitlines() if not line.startswith("reading the rows")]
        assert (done.returncode, (tmp_path / "out").exists()) == (1, False)
        assert re.search("is not installed on the executors: install", lines[0])
    else:
        assert (done.returncode, len(server.asked)) == (0, 2), told


class Connect:
    """What a session of Spark Connect looks like."""


Connect.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(("header", "given", "message"), [
    ("key: [id]\n", {"spark": Connect()}, "a Spark Connect session has its driver elsewhere"),
    ("key: [id]\n", {"spark": 3}, "spark must be a SparkSession or the URL of a master, not int"),
    ("key: [id]\n", {"engine": "snowflake"}, "--spark goes with --engine spark, not with snowflake"),
    ("key: [id]\n", {"output": None}, r"spark: where to\? Give --output SCHEMA, or a folder"),
    ("key: [id]\n", {"profile": "p"}, "--profile goes with a warehouse"),
    ("key: [id]\n", {"output": "nowhere"}, "there is no schema nowhere; make it: CREATE SCHEMA nowhere"),
    ("key: [id]\n", {"input": "raw.nothing"}, "^there is no table raw.nothing in Spark, or it can't be read"),
    ("key: [id]\n", {"input": "SELECT nothing"}, r"the query of --input can't be read: Spark: .*UNRESOLVED_COLUMN"),
    ("key: [id]\n", {"input": pa.table({"id": [1], "body": pa.array([1], pa.uint64())})},
     "Spark can't read the column \"body\", whose type is uint64; write it with another type"),
    ("key: [id]\n", {"input": "none.parquet"}, "none.parquet: no such file"),
    ("key: [nr]\n", {}, 'no column "nr" in .*; there are: id, body'),
    ("", {"input": "SELECT 1 AS id"}, "a table has no row numbers: write key"),
])  # fmt: skip
def test_what_is_refused(
    spark: SparkSession, messages: Path, tmp_path: Path, header: str, given: dict[str, Any], message: str
) -> None:
    options = {"spark": spark, "input": messages, "output": "enriched", "mock": True, **given}
    with pytest.raises(se.ConfigError, match=message) as refused:
        se.run(se.load(write_prompt(tmp_path, header)), **options)
    assert "\n" not in str(refused.value)

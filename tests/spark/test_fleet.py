"""A fleet on Spark: servers beside executors, found, asked and ended; and what is refused before anything is asked."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sqlenrich as se
import sqlenrich.spark
from sqlenrich.spark import VLLMFleet
from sqlenrich.spark.vllm.placement import own_server_first
from tests.support.vllm_processes import FAKE, FAST, alive, family, info, kill, until

ROOT = Path(__file__).parents[2]
START_S = 240.0


def session(master: str = "local-cluster[2,2,600]", **conf: str) -> Any:
    """Return as much of a session as the fleet reads before it starts anything."""
    conf = {"spark.driver.host": "127.0.0.1", **conf}
    java = SimpleNamespace(statusTracker=lambda: SimpleNamespace(getExecutorInfos=lambda: range(3)))
    context = SimpleNamespace(
        master=master, getConf=lambda: conf, defaultParallelism=4, _jsc=SimpleNamespace(sc=lambda: java)
    )
    return SimpleNamespace(sparkContext=context, sql=None, createDataFrame=None)


GPUS = {"spark.executor.resource.gpu.amount": "2"}


@pytest.mark.parametrize(("conf", "arguments", "message"), [
    (GPUS, {"tensor_parallel_size": 4},
     "tensor_parallel_size 4: a server needs 4 GPUs, and an executor has 2 (spark.executor.resource.gpu.amount)"),
    (GPUS, {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
     "tensor_parallel_size 2 x pipeline_parallel_size 2: a server needs 4 GPUs, and an executor has 2 "
     "(spark.executor.resource.gpu.amount)"),
    ({}, {"api_key": "secret"}, "api_key can't be set: the fleet makes a key"),
    ({}, {"port": 8000}, "port can't be set: each server gets a free port of its host"),
    ({"spark.dynamicAllocation.enabled": "true"}, {},
     "spark.dynamicAllocation.enabled ends idle executors, and their servers with them: set it to false, or use "
     "VLLMFleet.attach(urls)"),
])  # fmt: skip
def test_what_can_not_be_started_is_refused(
    conf: Mapping[str, str], arguments: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(se.ConfigError) as refused:
        VLLMFleet(session(**conf), "tiny", **arguments)
    assert str(refused.value) == message


@pytest.mark.spark
class TestLocal:
    """In local mode the driver is the one executor."""

    @pytest.fixture
    def faults(self, tmp_path: Path) -> Path:
        folder = tmp_path / "faults"
        folder.mkdir()
        return folder

    def fleet(self, faults: Path, _spark: object = None, model: str = "tiny", **given: Any) -> VLLMFleet:
        from tests.standins.spark import spark_session

        usual = {"command": (sys.executable, FAKE), "environment": {"FAKE_VLLM": str(faults)}, "policy": FAST}
        arguments: dict[str, Any] = {**usual, **given}
        return VLLMFleet(spark_session(), model, **arguments)

    def in_a_task(self, urls: Sequence[str]) -> tuple[str, int]:
        """Return the first URL of an endpoint in a task, and the room of one of the executor's two tasks."""
        from tests.standins.spark import spark_session

        def ask(_: Any) -> Iterator[tuple[str, int]]:
            endpoint = own_server_first(se.Endpoint("http://127.0.0.1:1/v1", others=tuple(urls)))
            yield endpoint.url, endpoint.nearest_room

        found: list[tuple[str, int]] = spark_session().sparkContext.parallelize([0], 1).mapPartitions(ask).collect()
        return found[0]

    def test_the_page_runs(self, faults: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from tests.standins.spark import spark_session

        spark_session()  # the page takes the session that there is
        monkeypatch.chdir(tmp_path)
        Path("tickets.csv").write_text("id,body\n1,a\n2,b\n")
        Path("tickets.prompt").write_text("---\nkey: [id]\noutput: {intent(enum): [a, b]}\n---\nWhich? {{ body }}\n")
        monkeypatch.setattr(sqlenrich.spark, "VLLMFleet", partial(self.fleet, faults), raising=False)
        told: dict[str, Any] = {}
        exec(page_block(), told)
        report, server = told["report"], told["server"]
        assert (report.rows_in, report.enriched, report.calls) == (2, 2, 2)
        assert str(server).startswith("http://127.0.0.1:")
        assert not alive({server.pid})

    def test_servers_are_asked_and_attached(self, faults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with self.fleet(faults) as fleet:
            (server,) = fleet.servers()
            processes = family(server.pid)
            assert info(server.url)["shutdown_timeout"] == 5
            assert self.in_a_task(fleet.endpoint.urls) == (server.url, 128)
            monkeypatch.setenv("FLEET_KEY", fleet.endpoint.resolve_key() or "")
            with VLLMFleet.attach([server.url], api_key_env="FLEET_KEY") as attached:
                assert [(one.url, one.state, one.waiting) for one in attached.servers()] == [(server.url, "ready", 2)]
                assert attached.endpoint.urls == (server.url,)
            with pytest.raises(se.RunError, match=r"no server answers; .*: /v1/models: 401 Unauthorized"):
                VLLMFleet.attach(server.url).__enter__()
        assert not alive(processes)
        with pytest.raises(se.RunError, match="the fleet has no server that is ready"):
            fleet.endpoint  # noqa: B018

    @pytest.mark.parametrize(("given", "message"), [
        ({"command": None}, "vLLM is not installed for {python}: install it there, or give the program that starts it "
                            'as command=("/path/to/vllm", "serve")'),
        ({"command": ("/no/vllm", "serve")},
         "/no/vllm is no program: install vLLM there, or give its path in command="),
        ({"no_such_thing": 1}, "fake_vllm: error: unrecognized arguments: --no-such-thing 1"),
    ])  # fmt: skip
    def test_a_fleet_that_can_not_start_is_one_line(self, faults: Path, given: Mapping[str, Any], message: str) -> None:
        with pytest.raises(se.RunError) as refused, self.fleet(faults, **given):
            pass
        assert str(refused.value).endswith(": " + message.format(python=sys.executable))
        assert str(refused.value).startswith("no server on ")
        assert "\n" not in str(refused.value)


def page_block() -> str:
    """Return the first Python block of the page."""
    return (ROOT / "docs/vllm.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]


class Driver:
    """A driver in a process of its own, with two executors on this host."""

    def __init__(self, scratch: Path) -> None:
        import pyspark

        home = scratch / "spark"  # Spark writes the executors' folders into its home
        home.mkdir()
        for file in Path(pyspark.__file__).parent.iterdir():
            (home / file.name).symlink_to(file)
        (scratch / "faults").mkdir()
        environment = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/support/fleet_driver.py"), str(scratch / "faults"), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | environment,
        )

    def ask(self) -> dict[str, Any]:
        """Return what the driver knows of its servers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def ready(self, without: str = "") -> list[dict[str, Any]]:
        """Wait for two servers that are ready, none of them beside an executor that is lost."""

        def two() -> list[dict[str, Any]] | None:
            servers = [one for one in self.ask()["servers"] if one["state"] == "ready" and one["executor"] != without]
            return servers if len(servers) == 2 else None

        found = until(two, START_S)
        assert found
        return list(found)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    one = Driver(tmp_path)
    yield one
    one.process.kill()
    one.process.communicate()


@pytest.mark.spark
def test_each_executor_has_a_server_that_ends_with_it(driver: Driver) -> None:
    first, second = servers = driver.ready()
    assert first["url"] != second["url"]
    assert first["executor"] != second["executor"]
    for server in servers:
        told = info(server["url"])
        assert server["gpus"] == ["0", "1"]
        assert (told["gpus"], told["tensor_parallel_size"]) == ("0,1", 2)
        assert (told["max_model_len"], told["compilation_config"], told["pythonpath"]) == (2048, {"level": 0}, None)
    told = driver.ask()
    assert told["urls"] == [first["url"], second["url"]]
    assert "model='tiny'" in told["endpoint"]
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in family(first["pid"])]
    assert not any(told["key"] in text for text in (told["endpoint"], *commands))

    lost = family(first["pid"])
    kill(int(first["executor"].rpartition(":")[2]))  # Spark starts another executor in its place
    assert until(lambda: not alive(lost))
    again = driver.ready(without=first["executor"])
    assert second["executor"] in {server["executor"] for server in again}

    processes = {pid for server in again for pid in family(server["pid"])}
    driver.process.kill()
    assert until(lambda: not alive(processes))


FLEET: dict[str, Any] = {"command": (sys.executable, FAKE), "policy": FAST}
TOO_FEW = [
    ({"replicas": 4}, "4 servers of 1 GPU each, and this machine has 3 GPUs"),
    ({"replicas": 2, "gpus": 2}, "2 servers of 2 GPUs each, and this machine has 3 GPUs"),
    ({"replicas": 0}, "replicas is a whole number of at least 1, not 0"),
    ({"gpus": 1.5}, "gpus is a whole number of at least 0, not 1.5"),
    ({"api_key_env": "NO_SUCH_KEY"}, "the variable NO_SUCH_KEY, which api_key_env names, is not set"),
    ({"gpus": 1, "tensor_parallel_size": 2}, "tensor_parallel_size 2: a server needs 2 GPUs, and gpus is 1"),
]


@pytest.mark.parametrize(("options", "told"), TOO_FEW)
def test_servers_that_have_no_gpus_are_refused(
    options: Mapping[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(se.ConfigError) as refused:
        VLLMFleet.ray("tiny", **FLEET, **options)
    assert str(refused.value).startswith(told)


def test_without_ray_the_servers_run_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.setenv("FLEET_KEY", "secret")
    options: dict[str, Any] = {"environment": {"FAKE_VLLM": str(tmp_path)}, "api_key_env": "FLEET_KEY"}
    fleet = VLLMFleet.ray("tiny", replicas=2, gpus=2, **options, **FLEET)
    with fleet:
        servers = fleet.servers()
        assert sorted(server.gpus for server in servers) == [("4", "5"), ("6", "7")]
        assert [info(url)["tensor_parallel_size"] for url in fleet.endpoint.urls] == [2, 2]
        processes = set().union(*(family(server.pid) for server in servers))
        words = se.enrichment("words", prompt="{{ body }}", key=["id"], output={"word?": "string"})
        report = se.run(words, input=[{"id": 1, "body": "a"}], model=pickle.loads(pickle.dumps(fleet.endpoint)))
        assert report.calls == 1
        before = {server.pid for server in servers}
        kill(servers[0].pid or 0)
        assert until(lambda: {server.pid for server in fleet.servers() if server.state == "ready"} - before)
    assert not alive(processes)


def test_actors_of_ray_hold_the_servers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.ray_fleet_driver", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=START_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["gpus"] == [["0", "1"], ["2", "3"]]
    assert told["tensor_parallel_size"] == [2, 2]
    assert told["again"] == told["gpus"], "a server of an actor that was killed comes back"
    assert told["left"] == []
    assert told["free"] == 4.0
    assert told["refused"].startswith("3 servers of 2 GPUs each, and Ray has 4 GPUs")
    assert told["broken"].startswith("no server on ")
    assert "vLLM is not installed" in told["broken"]

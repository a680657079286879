"""The process of a local model: its own, one that several share, one on each GPU."""

from __future__ import annotations

import functools
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sqlenrich as se
from sqlenrich.core.errors import RunError
from sqlenrich.llm.local.gpus import VISIBLE, gpu_places, own_places, visible_gpus
from sqlenrich.llm.local.link import ProcessPlace
from sqlenrich.llm.local.process import DiedError, ModelProcess, ProcessPolicy
from tests.support.local_models import Counting, Slow

Make = Callable[..., ModelProcess]


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Make]:
    """Make clients of one process, in a folder whose name is too long for a socket."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    made: list[ModelProcess] = []

    def make(fault: str = "", *, kind: type[Counting] = Counting, timeout_s: float = 60.0) -> ModelProcess:
        factory = pickle.dumps(functools.partial(kind, str(tmp_path), fault))
        place = ProcessPlace(shared=folder / "model")
        made.append(
            ModelProcess("words", factory, vectors=False, timeout_s=timeout_s, policy=ProcessPolicy(), place=place)
        )
        return made[-1]

    yield make
    for process in made:
        process.end()


def loads(folder: Path) -> list[int]:
    """Return the processes that loaded the class, in their order."""
    found = [path.name.split("-") for path in folder.glob("load-*")]
    return [int(pid) for _, pid, _ in sorted(found, key=lambda parts: int(parts[2]))]


def is_gone(pid: int) -> bool:
    """Wait half a minute for the end of a process; return whether it came."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def word(answer: str | None) -> str:
    """Return the word of an answer."""
    return str(json.loads(answer or "{}").get("word"))


def test_clients_that_share_a_process_load_the_class_once(tmp_path: Path, shared: Make) -> None:
    clients = [shared() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for client in clients:
            pool.submit(client.load)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(client.ask, [f"w{n}-{m}" for m in range(5)]) for n, client in enumerate(clients)]
    assert [list(map(word, one.result())) for one in asked] == [[f"w{n}-{m}" for m in range(5)] for n in range(4)]
    assert len(loads(tmp_path)) == 1
    assert VISIBLE not in os.environ


def test_a_batch_that_ends_a_shared_process_costs_no_other_batch(tmp_path: Path, shared: Make) -> None:
    patient, fatal = shared("die", kind=Slow), shared("die", kind=Slow)
    patient.load()
    fatal.load()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fatal.ask, ["slow", "words"])
        time.sleep(0.3)
        others = pool.submit(patient.ask, ["one", "two"])
        assert list(map(word, first.result())) == ["slow", "words"]
        with pytest.raises(DiedError, match="its process ended"):
            fatal.ask(["poison"])
        assert list(map(word, others.result())) == ["one", "two"]
    assert list(map(word, fatal.ask(["again"]))) == ["again"]
    assert len(loads(tmp_path)) == 2


def test_a_batch_that_hangs_ends_a_shared_process(tmp_path: Path, shared: Make) -> None:
    hanging = shared("hang", timeout_s=0.5)
    hanging.load()
    with pytest.raises(DiedError, match=r"no answer for 0\.5 s"):
        hanging.ask(["poison"])
    first = loads(tmp_path)[0]
    assert is_gone(first)
    assert list(map(word, hanging.ask(["fine"]))) == ["fine"]


def test_a_client_that_leaves_ends_nobody_else(tmp_path: Path, shared: Make) -> None:
    leaving, staying = shared(kind=Slow), shared(kind=Slow)
    leaving.load()
    staying.load()
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(leaving.ask, ["one"])
        time.sleep(0.3)
        leaving.kill()
        with pytest.raises(DiedError):
            left.result()
    assert list(map(word, staying.ask(["two"]))) == ["two"]
    assert len(loads(tmp_path)) == 1


def test_a_shared_process_whose_class_can_not_be_loaded_says_so_to_each(shared: Make) -> None:
    clients = [shared("load") for _ in range(12)]
    with ThreadPoolExecutor(4) as pool:
        told = [one.exception() for one in [pool.submit(client.load) for client in clients]]
    assert [type(error) for error in told] == [RunError] * 12
    assert {str(error) for error in told} == {
        "LocalModel words can't be loaded: OSError: no such model: weights.bin",
    }


LINGER = """
import sys
from pathlib import Path
from sqlenrich.llm.local.worker import serve_shared
serve_shared(Path(sys.argv[1]), linger_s=1.0)
"""


def test_a_shared_process_ends_where_nobody_is_connected(tmp_path: Path) -> None:
    path = tmp_path / "model"
    process = subprocess.Popen([sys.executable, "-c", LINGER, str(path)])
    while not path.exists():
        time.sleep(0.02)
    client = ModelProcess(
        "words", pickle.dumps(functools.partial(Counting, str(tmp_path))), vectors=False, timeout_s=9.0,
        policy=ProcessPolicy(), place=ProcessPlace(shared=path),
    )  # fmt: skip
    client.load()
    time.sleep(1.3)
    assert list(map(word, client.ask(["connected"]))) == ["connected"]
    assert loads(tmp_path) == [process.pid]
    client.end()
    assert process.wait(20) == 0
    assert not path.exists()


def test_a_run_that_is_killed_leaves_no_process_that_hangs(tmp_path: Path) -> None:
    """A hanging batch whose run is gone ends itself soon after its time."""
    script = tmp_path / "hang.py"
    script.write_text(
        "import functools, sys\n"
        "import sqlenrich as se\n"
        "from tests.support.local_models import Counting\n"
        "e = se.enrichment('w', prompt='{{ b }}', key=['id'], output={'word': 'string'})\n"
        f"m = se.LocalModel(functools.partial(Counting, {str(tmp_path)!r}, 'hang'), name='w', version='1', timeout=1)\n"
        "se.run(e, input=[{'id': 1, 'b': 'poison'}], model=m)\n"
    )
    run = subprocess.Popen([sys.executable, script], env={**os.environ, "PYTHONPATH": os.getcwd()})
    while not list(tmp_path.glob("call-*")):
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert is_gone(loads(tmp_path)[0])


class Where:
    """Answers with the GPUs that its process sees."""

    def __call__(self, prompts: list[str]) -> list[str]:
        time.sleep(0.05)
        return [json.dumps({"word": f"{os.environ[VISIBLE]} {os.getpid()}"}) for _ in prompts]


GPUS = [
    # CUDA_VISIBLE_DEVICES, what nvidia-smi prints, the GPUs
    ("0, 3", "", ("0", "3")),
    ("GPU-8f", "0\n1\n", ("GPU-8f",)),
    ("", "0\n", ()),
    ("-1", "0\n", ()),
    (None, "0\n1\n", ("0", "1")),
    (None, None, ()),
]


@pytest.mark.parametrize(("variable", "listed", "gpus"), GPUS)
def test_the_gpus_that_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, listed: str | None, gpus: tuple[str, ...]
) -> None:
    if listed is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\nprintf '{listed}'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if listed is not None else str(tmp_path))
    if variable is None:
        monkeypatch.delenv(VISIBLE, raising=False)
    else:
        monkeypatch.setenv(VISIBLE, variable)
    assert visible_gpus() == gpus
    assert own_places("gpu") == gpu_places(gpus)


def test_each_gpu_has_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "4,7")
    words = se.enrichment("words", prompt="{{ body }}", key=["id"], output={"word": "string"})
    rows = [{"id": n, "body": f"w{n}"} for n in range(200)]
    report = se.run(words, input=rows, model=se.LocalModel(Where, name="where", version="1", batch=4, per="gpu"))
    seen = {tuple(row["word"].split()) for row in report.table().to_pylist()}
    assert sorted(gpu for gpu, _ in seen) == ["4", "7"]
    assert len({pid for _, pid in seen}) == 2

"""A signal at any moment ends a command with one line and the exit status 4, never with a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import COMMAND, TIMEOUT_S, call, rows, write_csv, write_prompt

ENDS_S = 5.0
STOPPED = "stopped"
STORED = "stopped: what is answered is stored, run the same command again to continue"
# The child stops at a given function: in Python, or in a query that does not return to the main thread.
PAUSED = """
import importlib, sys, time
def pause(*_, **__):
    print("here", flush=True)
    if {in_sql}:
        import duckdb
        duckdb.sql("SELECT count(*) FROM range(1000000000000) AS t(i) WHERE hash(i) = 1").fetchall()
    time.sleep(60)
from sqlenrich.__main__ import main
module, *path, last = {place!r}.split(":")
owner = importlib.import_module(module)
for name in path:
    owner = getattr(owner, name)
setattr(owner, last, pause)
main()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(20)])


def started(*arguments: object, code: str = COMMAND[-1], path: Path | None = None) -> subprocess.Popen[str]:
    """Start Python in a process. ``path`` is the first folder of modules."""
    folders = [str(path)] if path is not None else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, str(Path(__file__).parents[2])])}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, list[str], float]:
    """Send a signal. Give the exit status, the lines of stderr, and the seconds until the end."""
    process.send_signal(number)
    sent = time.monotonic()
    try:
        _, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert "Traceback" not in err
    return process.returncode, err.splitlines(), time.monotonic() - sent


def stream(pipe: IO[str] | None) -> Iterator[str]:
    assert pipe is not None
    return iter(pipe)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["sqlglot", "click", "duckdb"])
def test_while_modules_are_loaded(tmp_path: Path, data: Path, module: str, number: signal.Signals) -> None:
    (tmp_path / f"{module}.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n", "utf-8")
    process = started("run", write_prompt(tmp_path), "--input", data, "--output", "o.csv", "--mock", path=tmp_path)
    assert next(stream(process.stdout)) == "here\n"
    status, lines, seconds = ended(process, number)
    assert (status, lines) == (4, [STOPPED])
    assert seconds < ENDS_S


RUN = ("run", "{prompt}", "--input", "{data}", "--output", "{output}", "--mock")
PLAN = "plan: 20 rows, 20 distinct requests, 0 already answered, 20 calls to mock"


@pytest.mark.parametrize("in_sql", [True, False])
@pytest.mark.parametrize(
    ("command", "place", "lines"),
    [
        (RUN, "sqlenrich.store.duckdb.source:open_source", [STOPPED]),
        (RUN, "sqlenrich.store.duckdb.backend:DuckDBBackend:_prepare", [STOPPED]),
        (RUN, "sqlenrich.store.duckdb.backend:DuckDBBackend:_finish", [PLAN, STORED]),
        (RUN, "sqlenrich.store.duckdb.backend:DuckDBBackend:publish", [PLAN, STORED]),
        (("plan", *RUN[1:]), "sqlenrich.store.duckdb.backend:DuckDBBackend:run_step", [STOPPED]),
        (("preview", *RUN[1:4], "--mock"), "sqlenrich.store.duckdb.source:open_source", [STOPPED]),
        (
            ("compare", "{prompt}", "{prompt}", *RUN[2:]),
            "sqlenrich.store.duckdb.source:open_source",
            [STOPPED],
        ),
        (
            ("compare", "{prompt}", "{prompt}", *RUN[2:]),
            "sqlenrich.store.duckdb.backend:DuckDBBackend:_finish",
            ["A: {prompt}", PLAN, STORED],
        ),
        (
            ("retry", "{prompt}", "--output", "{ran}", "--mock"),
            "sqlenrich.store.duckdb.backend:DuckDBBackend:_judge",
            [STOPPED],
        ),
        (
            ("retry", "{prompt}", "--output", "{ran}", "--mock"),
            "sqlenrich.store.duckdb.backend:DuckDBBackend:_finish",
            None,
        ),
        (("render", "{prompt}", "--engine", "duckdb"), "sqlenrich.renderer.script:render", [STOPPED]),
    ],
)
def test_in_each_phase(
    tmp_path: Path, data: Path, command: tuple[str, ...], place: str, lines: list[str] | None, in_sql: bool
) -> None:
    prompt, ran, folder = write_prompt(tmp_path), tmp_path / "ran.duckdb", tmp_path / "tmp"
    if command[0] == "retry":
        call("run", prompt, "--input", data, "--output", ran, "--mock", "--mock-failures", "bad_json=0.5")
    folder.mkdir()
    written = {"prompt": prompt, "data": data, "ran": ran, "output": tmp_path / "out.csv"}
    arguments = [part.format(**written) for part in command]
    code = f"import tempfile; tempfile.tempdir = {str(folder)!r}\n" + PAUSED.format(place=place, in_sql=in_sql)
    process = started(*arguments, code=code)
    assert next(stream(process.stdout)) == "here\n"
    time.sleep(0.1)  # the child is inside the function
    status, found, seconds = ended(process, signal.SIGINT)
    assert status == 4
    assert seconds < ENDS_S
    assert lines is None or found == [line.format(**written) for line in lines]
    assert found[-1] in (STOPPED, STORED)
    assert not list(folder.iterdir())  # no temporary file is left
    if command[0] == "run":
        again = call(*arguments, "--json")
        assert (again.status, again.report["enriched"]) == (0, 20)
        assert again.report["cached"] == (20 if found[-1] == STORED else 0)


@pytest.mark.parametrize("command", ["run", "preview", "compare"])
def test_while_a_model_is_asked(tmp_path: Path, data: Path, command: str) -> None:
    """No answer comes: a command that stores answers waits for the requests in flight until a second signal."""
    prompt = write_prompt(tmp_path)
    with ScriptedEndpoint(script=dict.fromkeys(range(9_000), "hang")) as endpoint:
        files = [prompt, prompt] if command == "compare" else [prompt]
        options = ["--endpoint", endpoint.url, "--model", "mock"]
        output = [] if command == "preview" else ["--output", tmp_path / "out.duckdb"]
        process = started(command, *files, "--input", data, *output, *options)
        until = time.monotonic() + 30
        while not endpoint.asked and time.monotonic() < until:
            time.sleep(0.01)
        if output:
            process.send_signal(signal.SIGTERM)
            lines = stream(process.stderr)
            while (line := next(lines)) != "stopping: waiting for what is in flight (again: without it)\n":
                assert line.startswith(("plan: ", "A: "))
        status, left, seconds = ended(process, signal.SIGINT)
    assert status == 4
    assert seconds < ENDS_S
    assert any("stopped" in line for line in left) or command == "compare", left


WRITES_ON = """
import os, time
from sqlenrich.cli import signals
signals.remove_all = lambda: time.sleep(0.3)  # as if there were much to remove
signals.watch()
print("here", flush=True)
while True:
    os.write(2, b"a line of the main thread\\n")
    time.sleep(0.001)
"""


def test_nothing_follows_the_last_line() -> None:
    process = started(code=WRITES_ON)
    assert next(stream(process.stdout)) == "here\n"
    status, lines, _ = ended(process, signal.SIGTERM)
    assert status == 4
    assert lines[-1] == STOPPED


def caught(process: subprocess.Popen[str]) -> bool:
    """Whether the process handles SIGTERM yet."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    except OSError:
        return True
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt")]
    return not masks or bool(masks[0] >> (signal.SIGTERM - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("command", ["run", "plan", "preview", "compare", "retry"])
def test_at_many_moments(tmp_path: Path, command: str) -> None:
    """From the first moment to the last, the command is either done or stopped."""
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(3_000)])
    output = tmp_path / "out.duckdb"
    arguments = {
        "run": ("run", prompt, "--input", data, "--output", output, "--mock"),
        "plan": ("plan", prompt, "--input", data, "--mock"),
        "preview": ("preview", prompt, "--input", data, "--mock"),
        "compare": ("compare", prompt, prompt, "--input", data, "--output", output, "--mock"),
        "retry": ("retry", prompt, "--output", output, "--mock"),
    }[command]
    if command == "retry":
        call(*("run", prompt, "--input", data, "--output", output, "--mock", "--mock-failures", "bad_json=0.5"))
    began = time.monotonic()
    whole = started(*arguments)
    whole.communicate(timeout=TIMEOUT_S)
    takes_s = time.monotonic() - began
    moments = int(os.environ.get("SQLENRICH_SIGNALS", "3"))
    statuses = []
    for moment in range(moments):
        process = started(*arguments)
        while not caught(process):
            time.sleep(0.0005)
        time.sleep(takes_s * moment / moments)
        status, lines, seconds = ended(process, signal.SIGINT if moment % 2 else signal.SIGTERM)
        assert status in (0, 4), lines
        assert seconds < ENDS_S
        assert (status == 0) or "stopped" in lines[-1], lines
        statuses.append(status)
    assert statuses[0] == 4
    if command == "run":
        assert call(*arguments).status == 0
        assert rows(output, "SELECT count(*) FROM intent") == [(3_000,)]

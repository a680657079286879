"""What starts the keeper of a server, where none runs: a task on an executor of Spark, an actor of Ray, this process.

It also puts the server of the executor first, before a task asks. pyspark is imported where a task runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.version import __version__
from sqlenrich.spark.vllm.host import host_folder, published_server
from sqlenrich.spark.vllm.keeper import Ticket, lock_file
from sqlenrich.spark.vllm.processes import parent_of, start_of

GPU = "gpu"
"""The name of the resource in Spark's settings."""


class PlacementError(Exception):
    """No server can be started beside this executor; the text says why."""


@dataclass(frozen=True)
class Placement:
    """What a place is told: where the driver is, the fleet's token and name, the driver's version of sqlenrich.

    ``program`` starts vLLM, empty for this Python. ``wait_s``: how long a task of Spark waits for the others.
    """

    driver: tuple[str, int]
    token: str
    fleet: str
    version: str
    program: str
    wait_s: float

    def __call__(self, _: Iterable[object]) -> Iterator[str]:
        """See to this executor's keeper, and wait for the other executors' tasks. Give a problem, if there is one."""
        try:
            self._wait(self.start_keeper(executor_jvm(), task_gpus()))
        except (PlacementError, OSError) as error:
            yield f"on {socket.gethostname()}: {error}"

    def start_keeper(self, owner: int, gpus: tuple[str, ...], number: int = 0) -> str:
        """Start a keeper that ends with a process, where that has none of this number. Return the place's name.

        Raises PlacementError and OSError.
        """
        self._check()
        start = start_of(owner)
        place = f"{socket.gethostname()}:{owner}" + (f".{number}" if number else "")
        folder = host_folder() / f"{self.fleet}-{number}-{owner}-{start}"
        lock = os.open(lock_file(folder), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return place  # its keeper holds the lock
        else:
            folder.mkdir(mode=0o700, exist_ok=True)
            ticket = Ticket(self.driver, self.token, place, owner, start or 0, gpus, str(folder))
            start_keeper(ticket, lock)
        finally:
            os.close(lock)
        return place

    def _check(self) -> None:
        if self.version != __version__:
            raise PlacementError(
                f"sqlenrich is {__version__}, the driver has {self.version}: install one version on both"
            )
        if self.program and shutil.which(self.program) is None:
            raise PlacementError(f"{self.program} is no program: install vLLM there, or give its path in command=")
        if not self.program and find_spec("vllm") is None:
            raise PlacementError(
                f"vLLM is not installed for {sys.executable}: install it there, or give the program that starts it as "
                'command=("/path/to/vllm", "serve")'
            )

    def _wait(self, executor: str) -> None:
        host, port = self.driver
        try:
            with socket.create_connection(self.driver, timeout=self.wait_s) as connection:
                connection.settimeout(2 * self.wait_s)
                hello = {"kind": "task", "token": self.token, "executor": executor}
                connection.sendall(json.dumps(hello).encode() + b"\n")
                connection.recv(64)
        except OSError as error:
            raise PlacementError(
                f"can't reach the driver at {host}:{port} ({error}): set spark.driver.host, or open control_port"
            ) from None


def executor_jvm() -> int:
    """Return the process id of the JVM above this Python worker. Raises PlacementError."""
    pid: int | None = os.getpid()
    while pid:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            program = file.read().partition(b"\0")[0]
        if os.path.basename(program) == b"java":
            return pid
        pid = parent_of(pid)
    raise PlacementError("no Java process is above this Python worker")


def own_server_first(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint for a task: its executor's own server gets requests while it has room, then the others.

    The endpoint is unchanged where the executor has no server of it.
    """
    try:
        jvm = executor_jvm()
    except PlacementError:
        return endpoint
    own = published_server(jvm, start_of(jvm) or 0)
    if own is None or own.url not in endpoint.urls:
        return endpoint
    others = tuple(url for url in endpoint.urls if url != own.url)
    return replace(endpoint, url=own.url, others=others, nearest_room=own.room)


def task_gpus() -> tuple[str, ...]:
    """Return the GPUs that Spark gave this task; none where it knows of none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    resources = context.resources() if context is not None else {}
    return tuple(resources[GPU].addresses) if GPU in resources else ()


def start_keeper(ticket: Ticket, lock: int) -> None:
    """Start a keeper that outlives this task. It inherits the lock, which is free again when it ends."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    keeper = subprocess.Popen(
        [sys.executable, "-m", "sqlenrich.spark.vllm.keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=(lock,),
        env=environment,
    )
    assert keeper.stdin is not None
    keeper.stdin.write(json.dumps(asdict(ticket)).encode() + b"\n")
    keeper.stdin.close()
    keeper.returncode = 0  # nobody waits for it: it outlives this worker

"""A keeper with its server, an executor that is any process, and the driver's end in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlenrich.spark.vllm.control import Control
from sqlenrich.spark.vllm.keeper import ServerSettings, Ticket
from sqlenrich.spark.vllm.placement import start_keeper
from sqlenrich.spark.vllm.policy import FleetPolicy
from sqlenrich.spark.vllm.processes import descendants, parent_of, start_of
from sqlenrich.spark.vllm.status import ServerStatus
from tests.support.vllm_processes import FAKE, FAST, until

KEY = "key-of-the-fleet"


class KeptServer:
    """Runs the keeper of one server while it is entered; by default of one that looks like vLLM."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        command: Sequence[str] = (sys.executable, FAKE, "tiny"),
        environment: Mapping[str, str] | None = None,
        policy: FleetPolicy = FAST,
    ) -> None:
        self.faults = folder / "faults"
        self.faults.mkdir()
        given = {"FAKE_VLLM": str(self.faults), **(environment or {})}
        self.settings = ServerSettings((*command, *arguments), given, KEY, 64, None, policy)
        self.executor = subprocess.Popen(["sleep", "10000"])
        self.control = Control("127.0.0.1", 0, self.settings)
        self.folder = folder / "keeper"

    def __enter__(self) -> KeptServer:
        self.control.__enter__()
        self.folder.mkdir()
        jvm = self.executor.pid
        lock = os.open(self.folder.with_name("keeper.lock"), os.O_CREAT | os.O_RDWR)
        driver = ("127.0.0.1", self.control.port)
        start_keeper(Ticket(driver, self.control.token, "host:1", jvm, start_of(jvm) or 0, (), str(self.folder)), lock)
        os.close(lock)
        return self

    def __exit__(self, *_: object) -> None:
        self.control.__exit__()
        self.executor.kill()
        self.executor.wait()

    @property
    def server(self) -> ServerStatus | None:
        """The state of the server."""
        return next(iter(self.control.servers()), None)

    def at(self, state: str, starts: int = 1, seconds: float = 30.0) -> ServerStatus:
        """Wait for a state of a start."""
        found = until(lambda: (one := self.server) and one.state == state and one.starts >= starts and one, seconds)
        assert found, self.server
        assert isinstance(found, ServerStatus)
        return found

    def processes(self, server: ServerStatus) -> dict[str, int]:
        """Return the processes that a fault may hit. The engine is what vLLM names so, else the first child."""
        assert server.pid is not None
        keeper = parent_of(server.pid)
        assert keeper is not None
        first, *started = descendants(server.pid)
        names = {pid: Path(f"/proc/{pid}/comm").read_text() for pid in started}
        engine = next((pid for pid in started if "Engine" in names[pid]), started[0])
        return {
            "executor": self.executor.pid, "keeper": keeper, "guard": server.pid, "server": first, "engine": engine,
        }  # fmt: skip

    def fail(self, fault: str) -> None:
        """Let the server fail from now on."""
        (self.faults / fault).touch()

    def heal(self) -> None:
        """Let it work again."""
        for fault in self.faults.iterdir():
            fault.unlink()

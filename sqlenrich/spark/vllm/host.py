"""What the keepers of one user share on a host: a folder, ports, the executors' servers. Standard library only."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlenrich.spark.vllm.processes import start_of

_TRIES = 100
_OF_AN_EXECUTOR = re.compile(r"-(?P<pid>\d+)-(?P<start>\d+)(\.lock|\.json)?$")


class Port:
    """A free port of a host, locked against other keepers of this user until it is closed or the process ends.

    vLLM binds its port before it loads the model, with SO_REUSEPORT: two servers could share one without an error.
    """

    def __init__(self, host: str) -> None:
        folder = host_folder()
        for _ in range(_TRIES):
            self.number = _free_port(host)
            self._file = os.open(folder / f"port-{self.number}.lock", os.O_CREAT | os.O_RDWR, 0o600)
            with suppress(BlockingIOError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            os.close(self._file)
        raise OSError(f"{host} has no free port: {_TRIES} were tried")

    def close(self) -> None:
        """Give the port back."""
        with suppress(OSError):
            os.unlink(host_folder() / f"port-{self.number}.lock")
        os.close(self._file)


def host_folder() -> Path:
    """Return the folder of this user's keepers; nobody else can read it. Raises OSError where it is another's."""
    folder = Path(tempfile.gettempdir()) / f"sqlenrich-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise OSError(f"{folder} belongs to another user, or others can read it: remove it, or set TMPDIR")
    return folder


def sweep() -> None:
    """Remove what keepers that were killed left here of executors that have ended."""
    for path in host_folder().iterdir():
        named = _OF_AN_EXECUTOR.search(path.name)
        if named is None or start_of(int(named["pid"])) == int(named["start"]):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class OwnServer:
    """The server of an executor, and the requests that it works on at a time for each task of the executor."""

    url: str
    room: int


def publish_server(jvm: int, start: int, server: OwnServer | None) -> None:
    """Tell the tasks of an executor its server; None: it has none that is ready."""
    file = _server_file(jvm, start)
    if server is None:
        file.unlink(missing_ok=True)
        return
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(server)), encoding="utf-8")
    new.replace(file)


def published_server(jvm: int, start: int) -> OwnServer | None:
    """Return an executor's server, None where it has none that is ready."""
    try:
        return OwnServer(**json.loads(_server_file(jvm, start).read_text(encoding="utf-8")))
    except OSError:
        return None


def _server_file(jvm: int, start: int) -> Path:
    return host_folder() / f"server-{jvm}-{start}.json"


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.bind((host, 0))
        return int(trial.getsockname()[1])

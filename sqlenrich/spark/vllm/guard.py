"""Runs one server, and ends all that it started when the server or the keeper ends. Standard library only.

Standard input has one line of JSON, ``{"command", "environment", "stop_s"}``, and stays open. When its other end is
closed, or the keeper there is killed, the server gets SIGTERM, and after ``stop_s`` seconds what is left of it SIGKILL.
The engine of vLLM outlives a server that is killed (seen on vLLM 0.32), so the guard kills every descendant.
The exit status is the server's, 128 + N for signal N, 127 where the command can't be started.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence

from sqlenrich.spark.vllm.processes import adopt_orphans, end_with_parent, kill_descendants

KILL_S = 5.0
"""What was killed is gone within this time."""
NOT_STARTED = 127
"""The exit status where the command can't be started."""


def main() -> None:
    """Run the server of standard input until it ends, or until standard input does."""
    if not (line := sys.stdin.readline()):
        return
    adopt_orphans()
    try:
        status = _run(**json.loads(line))
    finally:
        kill_descendants(KILL_S)
    sys.exit(status)


def _run(command: Sequence[str], environment: Mapping[str, str], stop_s: float) -> int:
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=environment, preexec_fn=end_with_parent(os.getpid())
        )
    except OSError as error:
        sys.stderr.write(f"error: can't start {command[0]}: {error.strerror}\n")
        return NOT_STARTED
    ended = os.pidfd_open(server.pid)
    ready, _, _ = select.select([ended, sys.stdin], [], [])
    if ended not in ready:
        server.terminate()
        select.select([ended], [], [], stop_s)
        server.kill()
    return exit_status(server.wait())


def exit_status(code: int) -> int:
    """Return what a shell calls the end of a process: 128 + N for signal N, which Python gives as -N."""
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()

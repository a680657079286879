"""What Linux offers to end processes together. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""Options of prctl(2): https://man7.org/linux/man-pages/man2/prctl.2.html, read 2026-11-23."""
_POLL_S = 0.02


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose parent ends, so that it can find and end them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int) -> Callable[[], None]:
    """Return what a child calls before it executes its program: it gets SIGTERM when its parent ends.

    SIGKILL in its place would leave what the child started. ``parent`` is the process that starts the child.
    """

    def prepare() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)

    return prepare


def start_of(pid: int) -> int | None:
    """Return the clock tick at which a process started: with its id it names the process. None for one that is gone."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def parent_of(pid: int) -> int | None:
    """Return the id of a process's parent, None for one that is gone."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def descendants(pid: int) -> list[int]:
    """Return the living descendants of a process, whatever their process group or session."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))) is not None and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def kill_descendants(timeout_s: float) -> None:
    """Kill every descendant of this process, again until none is left or the time is up. Needs ``adopt_orphans``."""
    until = time.monotonic() + timeout_s
    empty = 0
    while empty < 2 and time.monotonic() < until:  # a look can miss one whose parent ends meanwhile
        alive = descendants(os.getpid())
        empty = 0 if alive else empty + 1
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reap()
        time.sleep(_POLL_S)


def reap() -> None:
    """Collect the children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the program's name: state, parent, group, ..."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))

"""A lease in a file of a folder that several machines share, whose locks may not reach from one to another."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlenrich.core import runtime
from sqlenrich.core.lease import LeaseLostError, LeasePolicy, new_id

SHARED = LeasePolicy(lasts_s=30.0)
RENEWALS = 5
"""How often a lease is renewed while it would last."""
CHECKED_S = 1.0
"""How old the last look at the file may be."""
_MOUNTS = Path("/proc/self/mounts")
_LOCAL = frozenset(
    "ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs jfs reiserfs tmpfs ramfs overlay aufs squashfs vfat exfat ntfs3".split()
)
"""File systems of one machine, as Linux names them: a lock of the kernel reaches all that use them."""


def pause(seconds: float) -> None:
    """Wait for a time."""
    runtime.wait(threading.Event(), seconds)


def is_shared(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Tell whether other machines may use a folder. Without Linux' list of mounts a folder counts as this machine's."""
    try:
        lines = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return os.name == "nt"
    path = folder.resolve()
    around = {Path(at.replace("\\040", " ")): kind for _, at, kind, *_ in lines}  # the last one covers those before it
    kind = next((around[one] for one in (path, *path.parents) if one in around), "")
    return kind not in _LOCAL


@dataclass(frozen=True)
class FileHolder:
    """A lease that has not ended."""

    lease: str
    renewed: int
    host: str
    pid: int
    """Host and process are for people alone."""


@dataclass
class FileLease:
    """The right of one run to a journal.

    Whoever waits for its end watches whether the file changes, by a clock of its own. The file is replaced as a whole.
    """

    path: Path
    policy: LeasePolicy = SHARED
    id: str = field(default_factory=new_id)
    _renewed: int = 0
    _checked_at: float = 0.0
    _seen: tuple[FileHolder, float] | None = None
    """What was read last, and since when it is so."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def claim(self, *, take: bool) -> None:
        """Take the lease if nobody holds it, or from whoever holds it (``take``). :meth:`holders` tells who has it."""
        found = self._read()
        if self._living(found) and not take:
            return
        made = self._write()
        if found is None:
            try:
                os.link(made, self.path)  # of two at once, one
            except FileExistsError:
                made.unlink()
                return
            except OSError:  # a file system without links
                pass
            else:
                made.unlink()
                return
        if self._read() != found and not take:  # another run was faster
            made.unlink()
            return
        os.replace(made, self.path)
        pause(self.policy.poll_s)  # another run that saw the same end may do the same now

    def holders(self) -> Sequence[FileHolder]:
        """Return the lease that has not ended."""
        return self._living(self._read())

    def _living(self, found: FileHolder | None) -> Sequence[FileHolder]:
        now = runtime.monotonic()
        if found is None:
            return []
        if self._seen is None or self._seen[0] != found:
            self._seen = found, now
        return [found] if found.lease == self.id or now - self._seen[1] < self.policy.lasts_s else []

    def check(self) -> None:
        """Look whether the lease is held still, if the last look is old. Raises LeaseLostError.

        A folder that can't be reached for a while is no loss, since nobody takes a lease before its end. Raises OSError
        after that.
        """
        age_s = runtime.monotonic() - self._checked_at
        if age_s > CHECKED_S:
            try:
                self.renew()
            except OSError:
                if age_s > self.policy.lasts_s / 2:
                    raise

    def renew(self) -> None:
        """Put off the end. Raises LeaseLostError where another run has taken the lease."""
        with self._lock:
            while True:
                began = runtime.monotonic()
                found = self._read()
                if found is None or found.lease != self.id:
                    raise LeaseLostError(f"another run has taken over {self.path.with_suffix('')}: this run ends here")
                self._renewed += 1
                made = self._write()
                if runtime.monotonic() - began < self.policy.lasts_s / RENEWALS:
                    break  # else it was held up, and what it has read may be old
            os.replace(made, self.path)
            self._checked_at = runtime.monotonic()

    def keep(self) -> None:
        """Renew the lease from a thread until :meth:`close`."""

        def renewing() -> None:
            with suppress(LeaseLostError):  # the next check tells
                while not runtime.wait(self._ended, self.policy.lasts_s / RENEWALS):
                    with suppress(OSError):  # the folder may come back
                        self.renew()

        runtime.start_thread("sqlenrich-lease", renewing)

    def close(self) -> None:
        """End the lease."""
        self._ended.set()
        with self._lock, suppress(OSError):
            found = self._read()
            if found is not None and found.lease == self.id:
                self.path.unlink()
            self._made.unlink(missing_ok=True)

    def _read(self) -> FileHolder | None:
        try:
            found = json.loads(self.path.read_text())
            return FileHolder(str(found["lease"]), int(found["renewed"]), str(found["host"]), int(found["pid"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return FileHolder("", 0, "unknown", 0)

    @property
    def _made(self) -> Path:
        """What takes the place of the lease's file."""
        return self.path.with_name(f"{self.path.name}.{self.id}")

    def _write(self) -> Path:
        made = self._made
        line = {"lease": self.id, "renewed": self._renewed, "host": socket.gethostname(), "pid": os.getpid()}
        made.write_text(json.dumps(line))
        return made

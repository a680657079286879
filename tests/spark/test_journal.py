"""The journal: what it holds after whatever ended its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sqlenrich.core.errors import RunError
from sqlenrich.core.lease import LeasePolicy
from sqlenrich.spark.file_lease import is_shared
from sqlenrich.spark.journal import Journal


def row(number: int, text: str = "x") -> dict[str, object]:
    return {"request_hash": f"{number:064x}", "attempt": 1, "response": text}


@pytest.mark.parametrize(("left", "kept"), [
    (b"", 2),
    (b'{"request_hash":"0', 2),
    (b'{"request_hash":"02","attempt":1}\n', 3),
    (b"[]\n", 2),
    (b'\x00\x00\n{"request_hash":"02","attempt":1}\n', 2),
])  # fmt: skip
def test_a_torn_end_is_ignored(tmp_path: Path, left: bytes, kept: int) -> None:
    path = tmp_path / "a" / "journal"
    with Journal(path) as journal:
        for number in range(2):
            journal.add(row(number, "é\n" * 50_000))
        journal.sync()
    with path.open("ab") as file:
        file.write(left)
    with Journal(path) as journal:
        assert len(journal) == kept
        journal.add(row(9))
        assert [one["request_hash"] for one in journal.rows()][:2] == [f"{n:064x}" for n in range(2)]
        assert journal.get(f"{9:064x}", 1) == row(9)
        assert (journal.get(f"{9:064x}", 2), (f"{0:064x}", 1) in journal) == (None, True)
        journal.clear()
        assert (len(journal), os.path.getsize(path)) == (0, 0)
    assert not path.exists()


def test_what_is_told_while_it_is_stored_is_kept(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.add(row(0))
        end = journal.end
        journal.add(row(1))
        assert list(journal.rows(end)) == [row(0)]
        assert not journal.clear(end)
        assert list(journal.rows()) == [row(0), row(1)]
        assert journal.clear(journal.end)
        assert list(journal.rows()) == []


def test_one_run_has_it_at_a_time(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.add(row(1))
        with pytest.raises(RunError, match="another run writes the same answers"):
            Journal(tmp_path / "j").__enter__()
    assert (tmp_path / "j").exists()


POLICY = LeasePolicy(lasts_s=4.0, poll_s=0.1)
OTHER = """
import sys
from pathlib import Path
from sqlenrich.core.errors import RunError
from sqlenrich.core.lease import LeasePolicy
from sqlenrich.spark.journal import Journal
with Journal(Path(sys.argv[1]), policy=LeasePolicy(4.0, 0.1)) as journal:
    journal.add({"request_hash": "0" * 64, "attempt": 1, "response": "x"})
    journal.sync()
    print("added", flush=True)
    sys.stdin.readline()
    try:
        journal.add({"request_hash": "1" * 64, "attempt": 1, "response": "x"})
    except RunError as error:
        sys.exit(str(error))
"""
"""A run in another process, as on another machine: it adds an answer, and a second one once it gets a line."""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_on_a_shared_folder_one_run_has_it_at_a_time_and_a_dead_one_is_followed(
    tmp_path: Path, end: signal.Signals
) -> None:
    """A frozen run that wakes writes nothing more, and ends in one line."""
    path = tmp_path / "j"
    command = [sys.executable, "-c", OTHER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "added\n"
        with pytest.raises(
            RunError, match=rf"another run writes the same answers \(\S*j; host \S+, process {other.pid}"
        ):
            Journal(path, policy=POLICY).__enter__()
        other.send_signal(end)
        with Journal(path, policy=POLICY) as journal:
            assert list(journal.rows()) == [row(0)]
            journal.add(row(2))
            other.send_signal(signal.SIGCONT)
            _, told = other.communicate("\n", timeout=60)
            assert (other.returncode, told) == (
                (1, f"another run has taken over {path}: this run ends here\n") if end == signal.SIGSTOP else (-9, "")
            )
            assert list(journal.rows()) == [row(0), row(2)]
            journal.clear()
    with Journal(path, policy=POLICY) as journal:  # at once: the lease has ended
        assert len(journal) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "shared"),
    [("/data/x", False), ("/mnt/nfs/a b/c", True), ("/mnt/nfs", True), ("/dbfs/x", True), ("/mnt", False)],
)
def test_whose_locks_reach_all_that_use_a_folder(tmp_path: Path, folder: str, shared: bool) -> None:
    mounts = tmp_path / "mounts"
    lines = (
        "/dev/vda / ext4 rw 0 0",
        "server:/a /mnt/nfs nfs4 rw 0 0",
        "fuse /dbfs fuse rw 0 0",
        "x /mnt/nfs/a\\040b nfs rw 0 0",
    )
    mounts.write_text("\n".join(lines))
    assert is_shared(Path(folder), mounts) == shared

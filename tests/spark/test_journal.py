"""The journal: what it holds after whatever ended its process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlenrich.core.errors import RunError
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

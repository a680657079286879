"""A folder as a vendor: who answers the requests there is ``vllm run-batch``, or a person with a vendor's portal.

``KEY.jsonl`` holds the requests, ``KEY.output.jsonl`` the answers, ``KEY.errors.jsonl`` further failures, where the
vendor writes them to a file of their own. A batch is there once ``KEY.jsonl`` is: it is written beside and renamed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.fsync import fsync
from sqlenrich.llm.batch.answer_lines import CHUNK_BYTES, read_line, split_lines
from sqlenrich.llm.batch.errors import GoneError
from sqlenrich.llm.batch.request_file import request_line, saying_where, write_file
from sqlenrich.llm.batch.vendor import (
    BatchCounts,
    BatchInfo,
    BatchLimits,
    BatchLine,
    BatchRequest,
    BatchResults,
    BatchState,
    checked_key,
)
from sqlenrich.llm.endpoint.wire.forms import Body

LIMITS = BatchLimits(50_000, 200_000_000, "those of OpenAI, so that its portal takes the files", "2026-11-25")


@dataclass(frozen=True)
class FolderPolicy:
    """When a file of answers is complete that has fewer lines than there are requests."""

    unchanged_s: float = 3_600.0
    """Nothing was written to it for this time. ``vllm run-batch`` writes a line for each request as it is answered."""


class FolderVendor:
    """A :class:`.vendor.BatchVendor` over a folder."""

    name = "folder"

    def __init__(
        self,
        folder: Path,
        body: Body,
        limits: BatchLimits | None = None,
        policy: FolderPolicy | None = None,
    ) -> None:
        self.folder, self.shown = folder, f"file://{folder}"
        self.limits, self.policy = limits or LIMITS, policy or FolderPolicy()
        self._body = body

    def __enter__(self) -> FolderVendor:
        if not self.folder.is_dir():
            raise ConfigError(f"{self.shown}: no such folder; make it, or name another one")
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def request(self, custom_id: str, prompt: str) -> BatchRequest:
        """Return the request for a prompt."""
        return BatchRequest(custom_id, self._body.of((prompt,)))

    def line(self, request: BatchRequest) -> bytes:
        """Return the line of a request."""
        return request_line(request, f"/v1{self._body.page}")

    def upload(self, key: str, lines: Iterable[bytes]) -> str:
        """Write the requests to a file that is not a batch yet, and return its name."""
        path = self._path(key, "jsonl.part")
        write_file(path, lines, self.limits, self.shown)
        return path.name

    def find_upload(self, key: str, since: datetime) -> str | None:
        """Return None: the file may be half written."""
        del key, since
        return None

    def create(self, key: str, file_id: str) -> BatchInfo:
        """Give the file its name."""
        del file_id
        part, path = self._path(key, "jsonl.part"), self._path(key, "jsonl")
        with saying_where(str(self.folder)):
            try:
                part.rename(path)
            except FileNotFoundError:
                if not path.exists():
                    raise GoneError(f"{part}: the file of the batch {key} is not there any more") from None
            fsync(self.folder)
        return self.state(key)

    def find(self, key: str, since: datetime, requests: int, custom_ids: Collection[str]) -> list[BatchInfo]:
        """Return the batch of a key, where there is one."""
        del since, requests, custom_ids
        try:
            return [self.state(key)]
        except GoneError:
            return []

    def state(self, vendor_id: str) -> BatchInfo:
        """Count the lines of the answers."""
        asked, cancelled = self._path(vendor_id, "jsonl"), self._path(vendor_id, "cancelled.jsonl")
        path = cancelled if cancelled.exists() else asked
        output, errors = self._path(vendor_id, "output.jsonl"), self._path(vendor_id, "errors.jsonl")
        with saying_where(str(self.folder)):
            try:
                created = path.stat().st_mtime
                requests, _ = _count(path)
            except FileNotFoundError:
                raise GoneError(f"{asked}: no such batch") from None
            answers = [_Counted.of(one) for one in (output, errors) if one.exists()]
        lines = sum(one.lines for one in answers)
        state: BatchState = "cancelled" if path == cancelled else "in_progress"
        if state == "in_progress" and answers and all(one.whole for one in answers):
            quiet_s = time.time() - max(one.written_at for one in answers)
            if lines >= requests or quiet_s >= self.policy.unchanged_s:
                state = "ended"
        rest = max(requests - lines, 0)
        ended = max((one.written_at for one in answers), default=created) if state != "in_progress" else None
        return BatchInfo(
            vendor_id=vendor_id,
            key=vendor_id,
            state=state,
            created_at=datetime.fromtimestamp(created, UTC),
            requests=requests,
            counts=BatchCounts(lines, cancelled=rest) if state == "cancelled" else BatchCounts(lines, open=rest),
            input_file=path.name,
            output_files=(output.name,) if output.exists() else (),
            error_files=(errors.name,) if errors.exists() else (),
            ended_at=None if ended is None else datetime.fromtimestamp(ended, UTC),
        )

    def results(self, info: BatchInfo) -> BatchResults:
        """Return the lines of the answers, then those of further failures."""
        files = [self.folder / name for name in (*info.output_files, *info.error_files)]
        gone = [path.name for path in files if not path.exists()]
        if gone and len(gone) == len(files):
            raise GoneError(f"{files[0]}: the answers are no longer there")
        return BatchResults(self._lines([path for path in files if path.exists()]), gone)

    def cancel(self, vendor_id: str) -> BatchInfo:
        """Rename the requests, so that nobody answers them any more."""
        with saying_where(str(self.folder)):
            try:
                self._path(vendor_id, "jsonl").rename(self._path(vendor_id, "cancelled.jsonl"))
            except FileNotFoundError:
                return self.state(vendor_id)
        return self.state(vendor_id)

    def _path(self, key: str, ending: str) -> Path:
        return self.folder / f"{checked_key(key)}.{ending}"

    def _lines(self, files: Iterable[Path]) -> Iterator[BatchLine]:
        for path in files:
            for raw in split_lines(_chunks(path)):
                yield read_line(raw, self._body.read, str(path))


@dataclass(frozen=True)
class _Counted:
    """A file of answers: its lines, whether the last one is whole, and when it was written last."""

    lines: int
    whole: bool
    written_at: float

    @classmethod
    def of(cls, path: Path) -> _Counted:
        return cls(*_count(path), path.stat().st_mtime)


def _chunks(path: Path) -> Iterator[bytes]:
    with saying_where(str(path)), path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _count(path: Path) -> tuple[int, bool]:
    """Return the number of lines of a file, and whether the last one has its end."""
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines, last == b"\n"

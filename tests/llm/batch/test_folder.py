"""A folder as a vendor of batches: what ``vllm run-batch`` and a vendor's portal read and write there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import orjson
import pytest

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.batch.errors import BatchError, GoneError, OverLimitsError
from sqlenrich.llm.batch.folder_vendor import FolderPolicy, FolderVendor
from sqlenrich.llm.batch.vendor import BatchCounts, BatchLimits, BatchVendor
from sqlenrich.llm.batch.vendors import batch_body, batch_vendor
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.route import find_route
from tests.llm.batch.vendors import BEGAN, FORM, IDS, KEY, collect, lines_of, submit
from tests.support.endpoint import ScriptedEndpoint

CONFIG = RequestConfig("mock", {"max_tokens": 64}, FORM)


@pytest.fixture
def opened(tmp_path: Path) -> BatchVendor:
    with batch_vendor(Endpoint(f"file://{tmp_path}"), CONFIG) as vendor:
        return vendor


def answered(path: Path, *, failing: int | None = None) -> list[bytes]:
    """Return the lines that ``vllm run-batch`` writes for the requests of a file."""
    scripted, lines = ScriptedEndpoint(), []
    for number, raw in enumerate(path.read_bytes().splitlines()):
        request = orjson.loads(raw)
        assert (set(request), request["url"]) == ({"custom_id", "method", "url", "body"}, "/v1/chat/completions")
        response = {"status_code": 200, "request_id": f"vllm-batch-{number}", "body": None}
        line = {"id": f"vllm-{number}", "custom_id": request["custom_id"], "response": response, "error": None}
        if number == failing:
            response["status_code"] = 400
            line["error"] = {"error": {"message": "too long", "type": "BadRequestError", "param": None, "code": 400}}
        else:
            response["body"] = orjson.loads(scripted.completion(request["body"], ""))
        lines.append(orjson.dumps(line) + b"\n")
    scripted.loop.close()
    return lines


def test_a_batch_is_a_file_whose_answers_are_another(opened: BatchVendor, tmp_path: Path) -> None:
    file_id = opened.upload(KEY, lines_of(opened))
    assert not (tmp_path / f"{KEY}.jsonl").exists(), "nobody may answer a file that is half written"
    assert opened.find(KEY, BEGAN, len(IDS), IDS) == []
    info = opened.create(KEY, file_id)
    assert (info.vendor_id, info.state, info.requests, info.counts) == (KEY, "in_progress", 6, BatchCounts(open=6))
    assert [one.vendor_id for one in opened.find(KEY, BEGAN, len(IDS), IDS)] == [KEY]
    lines = answered(tmp_path / f"{KEY}.jsonl", failing=2)
    output = tmp_path / f"{KEY}.output.jsonl"
    for upto, state in ((0, "in_progress"), (3, "in_progress"), (6, "ended")):
        output.write_bytes(b"".join(lines[:upto]))
        assert opened.state(KEY).state == state
    output.write_bytes(b"".join(lines)[:-5])
    assert opened.state(KEY).open, "the last line is half written"
    output.write_bytes(b"".join(lines))
    found = collect(opened, opened.state(KEY))
    assert [found[one].outcome for one in IDS] == ["answered"] * 2 + ["failed"] + ["answered"] * 3
    failed = found[IDS[2]]
    assert (failed.status, failed.message, failed.request_id) == (400, "too long", "vllm-batch-2")


def test_a_failure_of_vllm_may_be_a_text(opened: BatchVendor, tmp_path: Path) -> None:
    submit(opened)
    lines = answered(tmp_path / f"{KEY}.jsonl")
    failed = {"id": "vllm-1", "custom_id": IDS[1], "response": {"status_code": 400, "request_id": "r", "body": None}}
    lines[1] = orjson.dumps(failed | {"error": "Request must not be sent in stream mode"}) + b"\n"
    (tmp_path / f"{KEY}.output.jsonl").write_bytes(b"".join(lines))
    found = collect(opened, opened.state(KEY))[IDS[1]]
    assert (found.outcome, found.status, found.message) == ("failed", 400, "Request must not be sent in stream mode")


def test_creating_again_changes_nothing(opened: BatchVendor) -> None:
    file_id = opened.upload(KEY, lines_of(opened))
    assert opened.create(KEY, file_id).created_at == opened.create(KEY, file_id).created_at
    with pytest.raises(GoneError, match="not there any more"):
        opened.create("another", file_id)


def test_failures_may_have_a_file_of_their_own(opened: BatchVendor, tmp_path: Path) -> None:
    submit(opened)
    lines = answered(tmp_path / f"{KEY}.jsonl", failing=2)
    (tmp_path / f"{KEY}.output.jsonl").write_bytes(b"".join(lines[:2] + lines[3:]))
    assert opened.state(KEY).open
    (tmp_path / f"{KEY}.errors.jsonl").write_bytes(lines[2])
    info = opened.state(KEY)
    assert set(collect(opened, info)) == set(IDS)
    (tmp_path / f"{KEY}.errors.jsonl").unlink()
    results = opened.results(info)
    assert len(list(results)) == 5
    assert results.gone == [f"{KEY}.errors.jsonl"]
    (tmp_path / f"{KEY}.output.jsonl").unlink()
    with pytest.raises(GoneError):
        opened.results(info)


def test_a_file_with_lost_lines_is_complete_once_nobody_writes_it(tmp_path: Path) -> None:
    folder = FolderVendor(tmp_path, batch_body(Endpoint("http://x"), CONFIG), policy=FolderPolicy(unchanged_s=60.0))
    with folder as opened:
        submit(opened)
        output = tmp_path / f"{KEY}.output.jsonl"
        output.write_bytes(b"".join(answered(tmp_path / f"{KEY}.jsonl")[:4]))
        assert opened.state(KEY).open
        os.utime(output, (time.time() - 61, time.time() - 61))
        info = opened.state(KEY)
        assert (info.state, info.counts.open) == ("ended", 2)
        assert set(collect(opened, info)) == set(IDS[:4])


def test_a_cancelled_batch_is_no_longer_there_to_be_answered(opened: BatchVendor, tmp_path: Path) -> None:
    submit(opened)
    (tmp_path / f"{KEY}.output.jsonl").write_bytes(b"".join(answered(tmp_path / f"{KEY}.jsonl")[:2]))
    for _ in range(2):
        info = opened.cancel(KEY)
        assert (info.state, info.counts) == ("cancelled", BatchCounts(2, cancelled=4))
    assert not (tmp_path / f"{KEY}.jsonl").exists()
    assert set(collect(opened, info)) == set(IDS[:2])
    for asked in (opened.cancel, opened.state):
        with pytest.raises(GoneError, match="no such batch"):
            asked("another")


def test_nothing_is_left_of_a_file_over_the_limits(tmp_path: Path) -> None:
    limits = BatchLimits(5, 1_000_000)
    with batch_vendor(Endpoint(f"file://{tmp_path}"), CONFIG, limits=limits) as opened:
        with pytest.raises(OverLimitsError, match="at most 5 requests"):
            opened.upload(KEY, lines_of(opened))
        assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fails_is_named(opened: BatchVendor, tmp_path: Path) -> None:
    (tmp_path / f"{KEY}.jsonl.part").mkdir()
    with pytest.raises(BatchError, match=rf"{KEY}.jsonl.part: Is a directory"):
        opened.upload(KEY, lines_of(opened))


def test_a_folder_has_to_be_there(tmp_path: Path) -> None:
    vendor = batch_vendor(Endpoint(f"file://{tmp_path}/with%20space"), CONFIG)
    with pytest.raises(ConfigError, match="with space: no such folder"):
        vendor.__enter__()


@pytest.mark.parametrize("url", ["file://host/folder", "file:relative", "file://"])
def test_what_is_no_url_of_a_folder(url: str) -> None:
    with pytest.raises(ConfigError, match="has no path of a folder: file:///data/batches"):
        Endpoint(url)


def test_a_folder_answers_no_live_request() -> None:
    with pytest.raises(ConfigError, match="file:///data: a folder takes batches alone"):
        find_route("file:///data")

"""The way of a batch through OpenAI's and Anthropic's SDK, and what becomes of its requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from sqlenrich.llm.batch.answers import answer_of, lost_answer
from sqlenrich.llm.batch.errors import GoneError
from sqlenrich.llm.batch.vendor import BatchCounts
from sqlenrich.llm.messages import Request
from tests.llm.batch.vendors import BEGAN, BOTH, IDS, KEY, KEY_VALUE, collect, only, submit, vendor
from tests.support.batch_vendors import FakeVendors

both = pytest.mark.parametrize("name", BOTH)


@both
def test_all_requests_are_answered_once_each(name: str) -> None:
    with FakeVendors(key=KEY_VALUE, polls=2, shuffle=True) as fake, vendor(fake, name) as opened:
        info = submit(opened)
        assert (info.key, info.open, info.failure) == (KEY, True, None)
        assert datetime.now(UTC) - info.created_at < timedelta(seconds=60)
        lines = collect(opened, info)
        ended = opened.state(info.vendor_id)
    assert (ended.state, ended.requests, ended.counts) == ("ended", 6, BatchCounts(answered=6))
    assert list(lines) != list(IDS), "the stand-in shuffles"
    assert fake.billed == dict.fromkeys(IDS, 1) == dict.fromkeys(lines, 1)
    for line in lines.values():
        assert (line.outcome, line.completion and line.completion.model) == ("answered", "mock")
        answer = answer_of(line, Request(line.custom_id, 1, ""), model="m", sent=(), asked_at=info.created_at)
        assert set(orjson.loads(answer.response or "")) == {"intent", "urgency"}
        assert (answer.finish_reason, answer.call_error, answer.served_model) == ("stop", None, "mock")
        assert (answer.tokens_in or 0) > 0
        assert (answer.tokens_out or 0) > 0


@both
@pytest.mark.parametrize(
    ("failure", "retryable"),
    [
        pytest.param((400, "invalid_value", "bad text"), False, id="the row's own"),
        pytest.param((429, "rate_limit_exceeded", "slow down"), True, id="busy"),
        pytest.param((500, "server_error", "oops"), True, id="the vendor's"),
    ],
)
def test_failures_stand_beside_the_answers(name: str, failure: tuple[int, str, str], retryable: bool) -> None:
    with FakeVendors(fail=only(2), failure=failure) as fake, vendor(fake, name) as opened:
        info = submit(opened)
        lines = collect(opened, info)
        counts = opened.state(info.vendor_id).counts
    assert counts == BatchCounts(answered=5, failed=1)
    assert len(lines) == 6
    answer = answer_of(lines[IDS[2]], Request(IDS[2], 2, ""), model="m", sent=(), asked_at=BEGAN)
    assert (answer.call_error, answer.retryable, answer.response) == (
        f"HTTP {failure[0]}: {failure[2]} (request req_3)", retryable, None,
    )  # fmt: skip
    assert fake.billed[IDS[2]] == 0


@both
def test_a_batch_of_failures_alone_has_no_file_of_answers(name: str) -> None:
    with FakeVendors(fail=lambda _: True) as fake, vendor(fake, name) as opened:
        info = submit(opened)
        lines = collect(opened, info)
        ended = opened.state(info.vendor_id)
    assert ended.state == "ended"
    assert (ended.output_files == ()) == (name == "openai")
    assert {line.outcome for line in lines.values()} == {"failed"}
    assert set(lines) == set(IDS)


@both
def test_lost_and_foreign_lines_are_left_to_the_caller(name: str) -> None:
    with FakeVendors(vanish=only(1, 4), foreign=["stranger"]) as fake, vendor(fake, name) as opened:
        lines = collect(opened, submit(opened))
    assert set(lines) == {*IDS, "stranger"} - {IDS[1], IDS[4]}
    answer = lost_answer(Request(IDS[1], 1, ""), model="m", asked_at=BEGAN)
    assert (answer.call_error, answer.retryable) == ("the batch ended without an answer to this request", True)


@both
@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_requests_that_were_never_asked_are_no_attempts(name: str, end: str) -> None:
    asked = only(0, 1)
    left: dict[str, Any] = {"expire" if end == "expired" else "cancel": lambda custom_id: not asked(custom_id)}
    with FakeVendors(hold=True, **left) as fake, vendor(fake, name) as opened:
        info = submit(opened)
        fake.end(as_="")
        for batch in fake.all_batches():
            batch.status = end
        lines = collect(opened, info)
        ended = opened.state(info.vendor_id)
    assert ended.state == end
    assert ended.counts.answered == 2
    assert getattr(ended.counts, end) == 4
    assert [lines[one].outcome for one in IDS] == ["answered"] * 2 + [end] * 4
    assert sum(fake.billed.values()) == 2
    with pytest.raises(ValueError, match="never asked"):
        answer_of(lines[IDS[3]], Request(IDS[3], 1, ""), model="m", sent=(), asked_at=BEGAN)


@both
def test_a_cancelled_batch_stays_open_until_the_vendor_ends_it(name: str) -> None:
    with FakeVendors(hold=True) as fake, vendor(fake, name) as opened:
        info = submit(opened)
        assert opened.cancel(info.vendor_id).open
        ended = opened.state(info.vendor_id)
        lines = list(opened.results(ended))
    assert (ended.state, ended.counts.cancelled) == ("cancelled", 6)
    assert {line.outcome for line in lines} == {"cancelled"}
    assert not fake.billed


@both
def test_the_model_that_answers_may_differ_within_a_batch(name: str) -> None:
    with FakeVendors(served=lambda number: f"mock-{number % 2}") as fake, vendor(fake, name) as opened:
        lines = collect(opened, submit(opened))
    assert {line.completion.model for line in lines.values() if line.completion} == {"mock-0", "mock-1"}


@pytest.mark.parametrize(
    ("deleted", "left"),
    [pytest.param("output", {"failed"}, id="answers"), pytest.param("error", {"answered"}, id="failures")],
)
def test_a_file_that_is_gone_is_named(deleted: str, left: set[str]) -> None:
    with FakeVendors(fail=only(0)) as fake, vendor(fake, "openai") as opened:
        info = opened.state(submit(opened).vendor_id)
        (gone,) = info.output_files if deleted == "output" else info.error_files
        del fake.files[gone]
        results = opened.results(info)
        assert {line.outcome for line in results} == left
        assert results.gone == [gone]


@both
def test_files_that_are_all_gone_are_an_error(name: str) -> None:
    with FakeVendors() as fake, vendor(fake, name) as opened:
        info = opened.state(submit(opened).vendor_id)
        fake.delete_files()
        with pytest.raises(GoneError):
            list(opened.results(info))
        with pytest.raises(GoneError):
            list(opened.results(opened.state(info.vendor_id)))


@both
@pytest.mark.parametrize(
    ("written", "text"),
    [
        pytest.param('"a\u2028b\x85c\u2029d"', "a\u2028b\x85c\u2029d", id="separators that end lines for others"),
        pytest.param('"\\ud800x"', "\ufffd\\ud800\ufffdx", id="a lone surrogate"),
        pytest.param('"\\r\\n\\t"', "\r\n\t", id="line breaks"),
        pytest.param('"' + "x" * 600_000 + '"', "x" * 600_000, id="longer than a piece of the file"),
        pytest.param('"é😀"', "é😀", id="wide"),
    ],
)
def test_an_answer_of_any_text_is_one_line(name: str, written: str, text: str) -> None:
    templates = {
        "openai": '{"custom_id":"ID","response":{"status_code":200,"body":{"model":"mock","choices":[{"finish_reason":'
        '"stop","message":{"role":"assistant","content":TEXT}}]}},"error":null}\n',
        "anthropic": '{"custom_id":"ID","result":{"type":"succeeded","message":{"model":"mock","stop_reason":'
        '"end_turn","content":[{"type":"text","text":TEXT}]}}}\n',
    }
    line = templates[name].replace("TEXT", written)
    content = "".join(line.replace("ID", one) for one in IDS).encode()
    with FakeVendors() as fake, vendor(fake, name) as opened:
        info = opened.state(submit(opened).vendor_id)
        for file in fake.files.values():
            file.content = content
        for batch in fake.message_batches.values():
            batch.results = content.removesuffix(b"\n").split(b"\n")
        lines = collect(opened, info)
    assert [getattr(lines[one].completion, "text", None) for one in IDS] == [text] * 6

"""What vendors refuse: one typed error of one line, without secrets, that says what to do."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from sqlenrich.core.errors import ConfigError, SqlenrichError
from sqlenrich.llm.batch.answers import fault_of, run_failure
from sqlenrich.llm.batch.errors import (
    BatchError,
    DamagedFileError,
    EnqueuedLimitError,
    GoneError,
    NoBatchesError,
    OverLimitsError,
    QuotaError,
    RefusedBatchError,
    UnavailableError,
    UnknownModelError,
    WrongKeyError,
)
from sqlenrich.llm.batch.failures import CREATE, batch_failure, refusal
from sqlenrich.llm.batch.vendor import BatchLimits, BatchLine, checked_key
from sqlenrich.llm.batch.vendors import batch_vendor
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import Fault
from tests.llm.batch.vendors import BOTH, IDS, KEY, KEY_VALUE, collect, lines_of, submit, vendor
from tests.support.batch_vendors import FakeVendors, waiting_tokens

both = pytest.mark.parametrize("name", BOTH)


def caught(error: type[BatchError], run: Any) -> str:
    """The message with which something ends: one line, without the key."""
    with pytest.raises(error) as found:
        run()
    text = str(found.value)
    assert type(found.value) is error
    assert isinstance(found.value, SqlenrichError)
    assert "\n" not in text
    assert KEY_VALUE not in text
    assert found.value.__cause__ is None, "an SDK's exception holds the request"
    return text


@both
def test_a_wrong_key_is_told_without_it(name: str) -> None:
    with FakeVendors(key="another") as fake, vendor(fake, name) as opened:
        text = caught(WrongKeyError, lambda: submit(opened))
    assert text.endswith(
        "refuses the key (HTTP 401: Incorrect API key provided: ***): "
        "set the variable that api_key_env names, or OPENAI_API_KEY"
    )
    assert fake.calls["create"] == (0 if name == "openai" else 1)


@both
def test_a_url_without_batches(name: str) -> None:
    with FakeVendors(pages=False) as fake, vendor(fake, name) as opened:
        text = caught(NoBatchesError, lambda: submit(opened))
    assert "has no batches (HTTP 404: Not Found): name a URL or a deployment that has them" in text


def test_an_unknown_model_fails_a_batch_of_openai() -> None:
    with FakeVendors(models=["gpt"]) as fake, vendor(fake, "openai") as opened:
        info = submit(opened)
    assert info.state == "failed"
    assert isinstance(info.failure, UnknownModelError)
    assert "model_not_found: The provided model 'mock' is not supported by the Batch API." in str(info.failure)
    assert not fake.billed


def test_an_unknown_model_is_refused_by_anthropic() -> None:
    with FakeVendors(models=["claude"]) as fake, vendor(fake, "anthropic") as opened:
        assert "(HTTP 404: model: mock)" in caught(UnknownModelError, lambda: submit(opened))


@both
def test_a_file_over_the_limits_is_not_sent(name: str) -> None:
    with FakeVendors() as fake:
        for limits in (BatchLimits(5, 10_000_000), BatchLimits(50, 1_000)):
            with vendor(fake, name, limits=limits) as opened:
                text = caught(OverLimitsError, lambda opened=opened: opened.upload(KEY, lines_of(opened)))
            assert f"holds at most {limits.requests:,} requests and {limits.bytes:,} bytes; nothing was sent" in text
        with vendor(fake, name) as opened:
            assert "without requests" in caught(BatchError, lambda: opened.upload(KEY, []))
        assert not fake.calls


@both
@pytest.mark.parametrize("over", [{"max_bytes": 1_000}, {"max_requests": 3}], ids=["bytes", "requests"])
def test_a_vendor_with_lower_limits_says_so(name: str, over: dict[str, int]) -> None:
    with FakeVendors(**over) as fake, vendor(fake, name) as opened:  # type: ignore[arg-type]
        if name == "openai" and "max_requests" in over:
            failure = submit(opened).failure
            assert isinstance(failure, OverLimitsError)
        else:
            assert "lower its requests or its bytes" in caught(OverLimitsError, lambda: submit(opened))


def test_a_batch_is_refused_for_enqueued_tokens_until_another_ends() -> None:
    with FakeVendors(hold=True) as fake, vendor(fake, "openai") as opened:
        first = submit(opened)
        fake.enqueued = limit = waiting_tokens(fake) * 3 // 2
        second = submit(opened, "run-1-b")
        assert (first.failure, second.state) == (None, "failed")
        assert isinstance(second.failure, EnqueuedLimitError)
        assert second.failure.limit == limit
        assert "Enqueued token limit reached" in str(second.failure)
        fake.end()
        assert submit(opened, "run-1-c").failure is None


def test_a_full_queue_of_anthropic_is_an_enqueued_limit() -> None:
    with FakeVendors(hold=True) as fake, vendor(fake, "anthropic") as opened:
        submit(opened)
        fake.enqueued = waiting_tokens(fake) * 3 // 2
        assert "processing queue" in caught(EnqueuedLimitError, lambda: submit(opened, "run-1-b"))
        fake.end()
        assert submit(opened, "run-1-b").open


@both
def test_ids_that_the_vendor_does_not_know(name: str) -> None:
    with FakeVendors() as fake, vendor(fake, name) as opened:
        for asked in (opened.state, opened.cancel):
            assert "No batch found" in caught(GoneError, lambda asked=asked: asked("batch_9"))
        assert caught(GoneError, lambda: opened.create(KEY, "file_9"))


@both
def test_a_vendor_that_is_not_there(name: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        fake = FakeVendors()
        fake._server.server_close()
        fake._scripted.loop.close()
        with vendor(fake, name) as opened:
            assert "can't be reached: [Errno 111] Connection refused" in caught(
                UnavailableError, lambda: submit(opened)
            )


@both
def test_a_limit_of_requests_a_minute_says_how_long_to_wait(name: str) -> None:
    with FakeVendors() as fake, vendor(fake, name) as opened:
        fake.statuses["create"] = [(429, {"error": {"message": "Rate limit reached. Please try again in 7s."}})]
        with pytest.raises(UnavailableError) as found:
            submit(opened)
        assert found.value.wait_s == 7.0
        assert submit(opened).open


@both
def test_a_page_for_people_is_no_batch(name: str) -> None:
    with FakeVendors() as fake, vendor(fake, name) as opened:
        fake.statuses["create"] = [(200, {"welcome": "to the gateway"})]
        with pytest.raises(BatchError, match="gave an unreadable reply when asked to create a batch"):
            submit(opened)


@both
@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"id": "x"}', b'{"custom_id": 7}'])
def test_a_damaged_file_of_answers(name: str, line: bytes) -> None:
    with FakeVendors() as fake, vendor(fake, name) as opened:
        info = opened.state(submit(opened).vendor_id)
        for file in fake.files.values():
            file.content += line + b"\n"
        for batch in fake.message_batches.values():
            batch.results.append(line)
        text = caught(DamagedFileError, lambda: list(opened.results(info)))
    assert "is no JSON object with a custom_id" in text


def line(status: int | None, message: str = "", code: str = "") -> BatchLine:
    return BatchLine("x", "failed", None, status, message, code)


@pytest.mark.parametrize(
    ("failed", "fault", "error"),
    [
        pytest.param(line(400, "bad text"), Fault.UNCLEAR, None, id="unclear"),
        pytest.param(line(400, "too long", "context_length_exceeded"), Fault.ROW, None, id="the row's"),
        pytest.param(line(429, "slow down"), Fault.TRANSIENT, None, id="busy"),
        pytest.param(line(None, "timed out", "request_timeout"), Fault.TRANSIENT, None, id="a timeout"),
        pytest.param(line(200, "the answer has no choices"), Fault.TRANSIENT, None, id="no completion"),
        pytest.param(line(401, "wrong key"), Fault.KEY, WrongKeyError, id="key"),
        pytest.param(line(404, "no `m`", "model_not_found"), Fault.URL, UnknownModelError, id="model"),
        pytest.param(line(429, "no money", "insufficient_quota"), Fault.QUOTA, QuotaError, id="quota"),
        pytest.param(line(400, "Unsupported parameter: 'seed'"), Fault.RUN, RefusedBatchError, id="a parameter"),
    ],
)  # fmt: skip
def test_a_failed_line_says_whose_fault_it_is(failed: BatchLine, fault: Fault, error: type[BatchError] | None) -> None:
    assert fault_of(failed, ()) is fault
    found = run_failure(failed, (), "https://vendor/v1")
    assert type(found) is (error or type(None))


@pytest.mark.parametrize(
    ("status", "code", "message", "error"),
    [
        (400, "OperationNotSupported", "The chatCompletion operation does not work with the specified model, gpt-4o.",
         NoBatchesError),
        (404, "DeploymentNotFound", "The API deployment for this resource does not exist.", UnknownModelError),
        (400, "", "This deployment does not support the batch API", NoBatchesError),
        (405, "", "Method Not Allowed", NoBatchesError),
        (302, "", "redirects to https://login", NoBatchesError),
        (402, "", "Payment required", QuotaError),
        (429, "insufficient_quota", "You exceeded your current quota", QuotaError),
        (403, "", "You have no access to batches", WrongKeyError),
        (413, "", "Request Entity Too Large", OverLimitsError),
        (400, "token_limit_exceeded", "The number of enqueued tokens has surpassed the configured limit of 30K for "
         "the deployment 'gpt-4.1-batch'.", EnqueuedLimitError),
        (400, "", "Invalid metadata", RefusedBatchError),
    ],
)  # fmt: skip
def test_a_refusal_of_a_batch_is_typed(status: int, code: str, message: str, error: type[BatchError]) -> None:
    found = refusal(status, message, code, "", CREATE, "https://vendor/v1")
    assert type(found) is error
    assert f"HTTP {status}: {message}" in str(found)
    if isinstance(found, EnqueuedLimitError):
        assert found.limit == 30_000


@pytest.mark.parametrize(
    ("code", "message", "error"),
    [
        ("model_not_found", "The deployment was not found.", UnknownModelError),
        ("too_many_tasks", "The number of requests exceeds 100,000.", OverLimitsError),
        ("invalid_json_line", "This line is not parseable as valid JSON.", RefusedBatchError),
        ("token_limit_exceeded", "Enqueued token limit reached. Limit: 2,000,000 enqueued tokens.", EnqueuedLimitError),
        ("", "", RefusedBatchError),
    ],
)
def test_a_failed_batch_is_typed(code: str, message: str, error: type[BatchError]) -> None:
    found = batch_failure(code, message, 3, "https://vendor/v1")
    assert type(found) is error
    assert "\n" not in str(found)


def test_a_key_names_a_file() -> None:
    for wrong in ("", "a/b", "../x", "a b", "x" * 101):
        with pytest.raises(ValueError, match="a batch's key has"):
            checked_key(wrong)


def test_an_unknown_vendor() -> None:
    from sqlenrich.core.endpoint import Endpoint

    with pytest.raises(ConfigError, match=r'no vendor of batches "opena" \(openai\?\): openai, anthropic, folder'):
        batch_vendor(Endpoint("http://x/v1"), RequestConfig("m"), name="opena")


def test_ids_longer_than_a_vendor_takes_them() -> None:
    with (
        FakeVendors() as fake,
        vendor(fake, "anthropic") as opened,
        pytest.raises(ValueError, match="1 to 64 letters"),
    ):
        opened.request("x" * 65, "row")
    with FakeVendors() as fake, vendor(fake, "openai") as opened:
        assert set(collect(opened, submit(opened))) == set(IDS)

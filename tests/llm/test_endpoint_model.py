"""One request against an endpoint: what is sent, what each kind of response becomes, what ends a run."""

from __future__ import annotations

import dataclasses
import json
import socket
import ssl
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from typing import Any

import pytest

from sqlenrich.core.api_key import LiteralKey
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.policy import EndpointPolicy
from sqlenrich.llm.endpoint.response import (
    Fault,
    classify_status,
    one_line,
    read_completion,
    retry_after,
    retry_wait,
    storable,
)
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.spec.prices import Price
from tests.support.endpoint import HUGE, STATUS_FAULTS, ScriptedEndpoint, error
from tests.support.models import endpoint_model

KEY = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


POLICY = EndpointPolicy(backoff_s=0.01)


def model(url: str, /, **fields: Any) -> EndpointModel:
    given: dict[str, Any] = {
        "concurrency": 1,
        "timeout": 0.3,
        "max_tries": 3,
        "max_refusals": 3,
        "response_format": FORMAT,
    }
    return endpoint_model(url, policy=POLICY, **given | fields)


def ask(url: str, prompt: str = "hello", **fields: Any) -> Answer:
    with Client(model(url, **fields), concurrency=1) as client:
        (batch,) = client.stream(iter([Request("h", 1, prompt)]))
    (answer,) = batch
    return answer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_body_is_exact() -> None:
    settings = {
        "params": {"top_p": 0.5, "max_tokens": 9, "stop": ["\n"]},
        "extra_body": {"z": 1, "chat_template_kwargs": {"b": 1, "a": 2}},
        "hint": 'Answer with "JSON".',
    }
    prompt = 'A "quoted" \\ line\nwith \t, é, 😀 and \x00'
    with ScriptedEndpoint(content="{}") as server:
        ask(server.url, prompt, **settings)
        (seen,) = server.asked
    body = json.loads(seen.body)
    content = prompt + '\n\nAnswer with "JSON".'
    assert body == {
        "model": "mock",
        "messages": [{"role": "user", "content": content}],
        **settings["params"],  # type: ignore[dict-item]
        **settings["extra_body"],  # type: ignore[dict-item]
        "response_format": FORMAT,
    }
    names = [
        "model",
        "max_tokens",
        "stop",
        "top_p",
        "response_format",
        "chat_template_kwargs",
        "z",
        "messages",
    ]
    assert list(body) == names
    swapped = {**settings, "params": dict(reversed(settings["params"].items()))}  # type: ignore[attr-defined]
    assert model(server.url, **swapped).body(prompt) == seen.body


def test_answer_of_a_good_reply() -> None:
    with ScriptedEndpoint(content='{"x": "é"}', latency_s=0.05) as server:
        before = datetime.now(UTC)
        answer = ask(server.url, "p" * 40, api_key=LiteralKey(KEY))
        assert server.asked[0].authorization == f"Bearer {KEY}"
    assert answer._asdict() | {"latency_ms": 0, "asked_at": 0} == {
        "request_hash": "h",
        "attempt": 1,
        "sent_hash": "h",
        "response": '{"x": "é"}',
        "call_error": None,
        "retryable": False,
        "finish_reason": "stop",
        "model": "mock",
        "tokens_in": 11,
        "tokens_cached": 0,
        "tokens_out": 3,
        "latency_ms": 0,
        "asked_at": 0,
        "calls": 1,
        "request_id": None,
        "served_model": "mock",
        "served_fingerprint": None,
    }
    assert answer.latency_ms is not None
    assert 45 <= answer.latency_ms < 1000
    assert before <= answer.asked_at <= datetime.now(UTC)
    assert answer.asked_at.utcoffset() == timedelta(0)


# fault -> what the call_error begins with; all of them are sent again until max_tries.
PASSING = {
    "429": "HTTP 429: rate limit",
    "500": "HTTP 500: boom",
    "503": "HTTP 503: overloaded",
    "reset": "connection closed before the answer",
    "hang": "timeout: no byte for 0.3 s",
    "cut": "the answer broke off",
    "html": "the answer is not JSON: <html>",
    "no_choices": "the answer has no choices",
    "error_200": "the answer has no choices: upstream is busy",
}


@pytest.mark.parametrize("fault", PASSING)
def test_trouble_that_stays_is_a_retryable_error(fault: str) -> None:
    with ScriptedEndpoint(rates={fault: 1}) as server:
        answer = ask(server.url)
        assert len(server.asked) == answer.calls == 3
    assert answer.call_error is not None
    assert answer.call_error.startswith(PASSING[fault])
    assert (answer.response, answer.finish_reason) == (None, None)
    assert answer.retryable == (fault != "hang")  # each timeout may have to be paid: the third one is the last


@pytest.mark.parametrize("fault", PASSING)
def test_what_was_begun_may_have_to_be_paid_for(fault: str) -> None:
    """No refusal is billed; an answer that broke off or can't be read may be."""
    caps = Budget(max_cost=1, price=Price(Decimal(1), Decimal(1), Decimal(1)).exact)
    with (
        ScriptedEndpoint(rates={fault: 1}) as server,
        Client(model(server.url, max_tries=1, max_refusals=1, budget=caps), concurrency=1, budget=caps) as client,
    ):
        assert len(list(client.stream(iter([Request("h", 1, "hello")])))) == 1
    assert (caps.spent > 0) == (fault not in {"429", "500", "503"})


@pytest.mark.parametrize("fault", PASSING)
def test_trouble_that_passes_is_no_error(fault: str) -> None:
    with ScriptedEndpoint(script={1: fault, 2: fault}) as server:
        answer = ask(server.url)
        assert len({seen.body for seen in server.asked}) == 1
    assert (answer.call_error, answer.calls, answer.retryable) == (None, 3, False)
    assert answer.response is not None


@pytest.mark.parametrize(
    ("fault", "begin"),
    [
        ("400_context", "HTTP 400: This model's maximum context length"),
        ("400_policy", "HTTP 400: flagged"),
        ("400_unclear", "HTTP 400: computer says no"),
        ("413", "HTTP 413: too big"),
        ("422", 'HTTP 422: [{"msg": "computer says no"}]'),
    ],
)
def test_what_is_wrong_with_a_row_is_never_sent_again(fault: str, begin: str) -> None:
    with ScriptedEndpoint(rates={fault: 1}) as server:
        answer = ask(server.url)
        assert len(server.asked) == 1
    assert (answer.call_error or "").startswith(begin)
    assert (answer.response, answer.retryable, answer.calls) == (None, False, 1)


@pytest.mark.parametrize(
    ("fault", "response", "reason"),
    [
        ("empty", "", "stop"),
        ("blank", " \n ", "stop"),
        ("null", None, "stop"),
        ("refusal", "I can't do that.", "refusal"),
        ("surrogate", '{"x":"\ufffd\\ud800\ufffd \x00"}', "stop"),
        ("huge", '{"x":"' + "y" * HUGE + '"}', "stop"),
    ],
)
def test_odd_content_is_kept_as_it_is(fault: str, response: str | None, reason: str) -> None:
    with ScriptedEndpoint(rates={fault: 1}) as server:
        answer = ask(server.url)
    assert (answer.response, answer.finish_reason, answer.call_error) == (response, reason, None)
    assert answer.calls == 1
    (answer.response or "").encode()


def test_content_type_and_slow_bytes_do_not_matter() -> None:
    with ScriptedEndpoint(script={1: "wrong_type", 2: "slow"}, content='{"x": "1"}') as server:
        assert ask(server.url).response == ask(server.url, timeout=0.2).response == '{"x": "1"}'
        assert len(server.asked) == 2


def test_a_long_prompt_gives_no_warning() -> None:
    with ScriptedEndpoint(content="{}") as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = ask(server.url, "x" * 3_000_000, timeout=5.0)
    assert answer.tokens_in == 750_001


def test_retry_after_is_obeyed() -> None:
    with ScriptedEndpoint(script={1: "429_after"}) as server:
        answer = ask(server.url)
        first, second = server.asked
    assert answer.calls == 2
    assert 1.0 <= second.at - first.at < 2.0


# fault or setting -> what the one line must hold
ENDING: list[tuple[str, dict[str, Any], list[str]]] = [
    ("401", {"api_key": LiteralKey(KEY)}, ["refuses the key", "HTTP 401", "api_key_env", "OPENAI_API_KEY", "***"]),
    ("401", {}, ["wants a key", "HTTP 401", "api_key_env"]),
    ("404_model", {"model": "smal"}, ['no model "smal"', "(small?)", "mock, small"]),
    ("307", {}, ["HTTP 307", "correct the url"]),
    ("quota", {}, ["quota is used up", "run again"]),
    ("400_format", {}, ["refuses what every request sends", "HTTP 400", "Grammar error"]),
]


@pytest.mark.parametrize(("fault", "fields", "parts"), ENDING)
@pytest.mark.parametrize("way", ["stream", "preflight"])
def test_what_fails_every_row_ends_the_run(fault: str, fields: dict[str, Any], parts: list[str], way: str) -> None:
    requests = [Request(str(n), 1, f"prompt {n}") for n in range(4)]
    with ScriptedEndpoint(rates={fault: 1}) as server:
        with Client(model(server.url, **fields), concurrency=1) as client:
            with pytest.raises(RunError) as caught:
                list(client.stream(iter(requests))) if way == "stream" else client.preflight(requests)
            assert len(server.asked) == 1
        assert server.url in str(caught.value)
    line = str(caught.value)
    assert all(part in line for part in parts), line
    assert "\n" not in line
    assert KEY not in line


def test_a_refused_format_after_good_answers_is_the_rows_fault() -> None:
    requests = iter([Request(str(n), 1, f"prompt {n}") for n in range(3)])
    with (
        ScriptedEndpoint(script={2: "400_format"}) as server,
        Client(model(server.url), concurrency=1) as client,
    ):
        answers = [answer for batch in client.stream(requests) for answer in batch]
    assert [answer.call_error is None for answer in answers] == [True, False, True]
    assert not answers[1].retryable


def preflight(server: ScriptedEndpoint, count: int = 5, **fields: Any) -> list[Answer]:
    with Client(model(server.url, **fields), concurrency=4) as client:
        answers = client.preflight([Request(str(n), 1, f"prompt {n}") for n in range(count)])
        assert client.stats.calls == len(server.asked)
        return answers


@pytest.mark.parametrize(
    ("script", "errors", "calls"),
    [
        ({}, [False], 1),
        ({1: "400_context"}, [True, False], 2),
        ({1: "400_unclear", 2: "400_context"}, [True, True, False], 3),
        ({1: "400_unclear", 2: "400_unclear", 3: "400_context"}, [True, True, True, False], 4),
        (dict.fromkeys(range(1, 5), "400_unclear"), [True, True, True, True, False], 5),
        ({1: "403", 2: "403"}, [True, True, False], 3),
        ({1: "500"}, [False], 2),
        ({1: "500", 2: "500"}, [True, False], 3),
        ({1: "429", 2: "429"}, [False], 3),
        ({1: "null"}, [False], 1),
    ],
)
def test_preflight_gives_all_answers(script: dict[int, str], errors: list[bool], calls: int) -> None:
    with ScriptedEndpoint(script=script) as server:
        answers = preflight(server)
        assert [answer.call_error is not None for answer in answers] == errors
        assert [answer.request_hash for answer in answers] == [str(n) for n in range(len(errors))]
        assert len(server.asked) == calls


@pytest.mark.parametrize(
    ("fault", "count", "text"),
    [
        ("400_unclear", 5, "refuses the requests: HTTP 400: computer says no"),
        ("500", 5, "fails: HTTP 500: boom"),
        ("reset", 5, "connection closed before the answer; start the server"),
        ("hang", 5, "timeout: no byte for 0.3 s; start the server"),
        ("html", 3, "fails: the answer is not JSON"),
        ("403", 3, "wants a key .HTTP 403.*api_key_env"),
        ("404_path", 3, "HTTP 404: Not Found; correct the url .it usually ends in /v1"),
    ],
)
def test_preflight_says_that_no_request_fares_better(fault: str, count: int, text: str) -> None:
    with ScriptedEndpoint(rates={fault: 1}) as server, pytest.raises(RunError, match=text):
        preflight(server, count, max_tries=50)


def test_a_server_that_says_nothing_at_all_ends_a_preflight() -> None:
    """It takes connections, and neither a request nor the list of models is answered."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Client(model(f"http://127.0.0.1:{silent.getsockname()[1]}/v1"), concurrency=64) as client,
    ):
        late = threading.Timer(20, client.stop)
        late.start()
        with pytest.raises(RunError, match=r"timeout: no byte for 0\.3 s; start the server"):
            client.preflight([Request(str(number), 1, "p") for number in range(5)])
        late.cancel()


@pytest.mark.parametrize("fault", ["400_unclear", "html", "403", "500", "reset", "hang"])
@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_requests_prove_nothing_where_the_endpoint_lists_its_models(fault: str, count: int) -> None:
    with ScriptedEndpoint(rates={fault: 1}) as server:
        answers = preflight(server, count)
    assert [answer.call_error is not None for answer in answers] == [True] * count


def test_a_dead_port_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real waits
    started = time.monotonic()
    url = f"http://127.0.0.1:{free_port()}/v1"
    with Client(model(url), concurrency=64) as client:
        with pytest.raises(RunError, match="connection refused: nothing listens there; start the server") as caught:
            client.preflight([Request("h", 1, "p")])
        assert client.stats.calls == 2
    assert url in str(caught.value)
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://nowhere.invalid/v1", "host name can't be resolved"),
        ("https://127.0.0.1:PORT/v1", "TLS failed"),
    ],
)
def test_an_unknown_host_and_tls_on_a_plain_port(url: str, text: str) -> None:
    with ScriptedEndpoint() as server:
        asked = model(url.replace("PORT", str(server.port)))
        with Client(asked, concurrency=1) as client, pytest.raises(RunError, match=text):
            client.preflight([Request("h", 1, "p")])


def test_something_that_is_not_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def babble() -> None:
            for _ in range(2):
                peer, _ = listener.accept()
                with peer:
                    peer.recv(65536)
                    peer.sendall(b"220 mail.example.com ESMTP\r\n\r\n")

        thread = threading.Thread(target=babble)
        thread.start()
        answer = ask(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", max_tries=2)
        thread.join()
    assert (answer.call_error, answer.retryable) == ("the answer is not HTTP", True)


def test_the_key_is_nowhere(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model("http://127.0.0.1:1/v1", api_key=LiteralKey(KEY))
    assert KEY not in repr(made) + repr(made.endpoint) + repr(dataclasses.replace(made.endpoint, model="other"))
    # The message is cut in the middle of where the key was.
    body = error("x" * 462 + f" header Bearer {KEY} refused")
    monkeypatch.setitem(STATUS_FAULTS, "400_unclear", (400, "", body))
    with ScriptedEndpoint(rates={"400_unclear": 1}) as server:
        answer = ask(server.url, api_key=LiteralKey(KEY))
    assert (answer.call_error or "").startswith("HTTP 400: xxx")
    assert KEY[:5] not in repr(answer)
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_tries": 0}, "max_tries must be at least 1"),
        ({"params": {"messages": []}}, '"messages" can\'t be set'),
        ({"params": {"temperature": object()}}, "can't be written as JSON"),
    ],
)
def test_wrong_settings(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        model("http://h/v1", **fields)


def test_a_query_stays_in_the_url_and_out_of_messages() -> None:
    with ScriptedEndpoint(rates={"307": 1}) as server:
        with pytest.raises(RunError) as caught:
            ask(f"{server.url}/?api-version=1&sig={KEY}")
        assert server.log[0].path == f"/v1/chat/completions?api-version=1&sig={KEY}"
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("text", ["\ud800", '{"x":"\udfff"}', '{"x":"\\ud83d\ude00"}', '{"x":"\\\ud83d"}', "{\ud800}"])
def test_a_lone_surrogate_stays_refused(text: str) -> None:
    kept = storable(text)
    kept.encode()
    assert "\ufffd" in kept
    try:
        value = json.loads(kept)
    except ValueError:
        return
    with pytest.raises(UnicodeEncodeError):
        json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize("text", ["", "plain", "é😀\x00\ufffd", "\\ud800"])
def test_other_text_is_stored_as_it_is(text: str) -> None:
    assert storable(text) == text


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({}, (None, None, None)),
        (None, (None, None, None)),
        ({"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": None}, (1, None, 2)),
        ({"prompt_tokens": "1", "completion_tokens": True}, (None, None, None)),
        ({"prompt_tokens": -1, "completion_tokens": 2**70}, (None, None, None)),
        ({"prompt_tokens_details": {"cached_tokens": 5}}, (None, 5, None)),
    ],
)
def test_token_counts(usage: object, counts: tuple[int | None, ...]) -> None:
    raw = json.dumps({"choices": [{"message": {"content": "a"}}], "usage": usage}).encode()
    done = read_completion(raw)
    assert (done.tokens_in, done.tokens_cached, done.tokens_out) == counts
    assert done.finish_reason is None


@pytest.mark.parametrize(
    ("message", "text", "reason"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", "length"),
        ({"content": "a", "refusal": None}, "a", "length"),
        ({"content": "", "refusal": "no"}, "no", "refusal"),
        ({"content": "{}", "refusal": "no"}, "{}", "refusal"),
        ({}, None, "length"),
    ],
)
def test_message_forms(message: object, text: str | None, reason: str) -> None:
    done = read_completion(json.dumps({"choices": [{"message": message, "finish_reason": "length"}]}).encode())
    assert (done.text, done.finish_reason) == (text, reason)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe\xfa",
        b"[]",
        b"null",
        b'{"choices":[]}',
        b'{"choices":[1]}',
        b'{"choices":{}}',
        b"[" * 100000,
        b'{"choices":[{}]}',
        b'{"choices":[{"message":{"content":5}}]}',
        b'{"choices":[{"message":"a"}]}',
    ],
)
def test_bodies_that_are_no_completion(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"^the answer"):
        read_completion(raw)


JUDGED = [
    (500, "x", "", "", Fault.TRANSIENT),
    (529, "x", "", "", Fault.TRANSIENT),
    (408, "x", "", "", Fault.TRANSIENT),
    (429, "Rate limit reached", "rate_limit_exceeded", "", Fault.TRANSIENT),
    (429, "You exceeded your current quota", "insufficient_quota", "", Fault.QUOTA),
    (402, "pay", "", "", Fault.QUOTA),
    (400, "Your credit balance is too low to access the API.", "invalid_request_error", "", Fault.QUOTA),
    (400, "Budget has been exceeded! Current cost: 2, max budget: 1", "budget_exceeded", "", Fault.QUOTA),
    (401, "x", "", "", Fault.KEY),
    (403, "Input was flagged by moderation", "", "", Fault.ROW),
    (404, "x", "", "", Fault.URL),
    (405, "x", "", "", Fault.URL),
    (301, "", "", "", Fault.URL),
    (400, "maximum context length is 8 tokens", "", "max_tokens", Fault.ROW),
    (400, "too long", "context_length_exceeded", "messages", Fault.ROW),
    (400, "max_tokens is too large: 9", "", "max_tokens", Fault.RUN),
    (400, "Unsupported parameter: 'max_tokens'", "", "", Fault.RUN),
    (400, "The provided JSON schema contains features not supported by xgrammar.", "", "", Fault.RUN),
    (400, "Unsupported value", "", "temperature", Fault.RUN),
    (400, "bad luck", "", "", Fault.UNCLEAR),
    (422, "bad luck", "", "", Fault.UNCLEAR),
]


@pytest.mark.parametrize(("status", "message", "code", "param", "fault"), JUDGED)
def test_judge(status: int, message: str, code: str, param: str, fault: Fault) -> None:
    assert classify_status(status, message, code, param, {"max_tokens", "temperature"}) is fault


@pytest.mark.parametrize(
    ("message", "code", "waits", "fault"),
    [
        ("You exceeded your current quota.", "RESOURCE_EXHAUSTED", True, Fault.TRANSIENT),
        ("You exceeded your current quota.", "RESOURCE_EXHAUSTED", False, Fault.QUOTA),
        ("You exceeded your current quota.", "insufficient_quota", True, Fault.QUOTA),
    ],
)
def test_a_quota_that_comes_back_is_a_limit(message: str, code: str, waits: bool, fault: Fault) -> None:
    assert classify_status(429, message, code, "", (), waits=waits) is fault


def dated(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ("2", 2, 2),
        ("0.5", 0.5, 0.5),
        ("9999", 60, 60),
        ("-3", 0, 0),
        ("inf", 60, 60),
        (3000, 60, 60),
        (20, 10, 20),
        (-20, 0, 0),
    ],
)
def test_retry_after(header: str | int, low: float, high: float) -> None:
    seconds = retry_after(header if isinstance(header, str) else dated(header))
    assert seconds is not None
    assert low <= seconds <= high


@pytest.mark.parametrize(
    ("header", "message", "seconds"),
    [
        (None, "Please retry in 23.5s.", 23.5),
        (None, "Please try again in 120ms. Visit the page", 0.12),
        (None, "Please retry after 2 seconds", 2.0),
        (None, "Try again in 5 minutes", 60.0),
        ("3", "Please retry in 23.5s.", 3.0),
        (None, "try again in a moment", None),
    ],
)
def test_retry_after_in_words(header: str | None, message: str, seconds: float | None) -> None:
    assert retry_after(header, message) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_milliseconds(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_wait(headers, "") == seconds


@pytest.mark.parametrize("header", [None, "", "soon", "nan", "Mon, 01 Jan 2020 00:00:00 +99999999999999"])
def test_retry_after_unusable(header: str | None) -> None:
    assert retry_after(header) is None


def test_one_line_is_short_and_clean() -> None:
    line = one_line("a\n b\x00\ud800" + "c" * 1000)
    assert line.startswith("a b \ufffdccc")
    assert len(line) == 500


def test_threads_end() -> None:
    with ScriptedEndpoint() as server:
        ask(server.url)
    assert not [one for one in threading.enumerate() if one.name in ("sqlenrich-client", "endpoint")]


def test_tls_that_breaks_off_after_good_answers_passes() -> None:
    """A server that restarts breaks handshakes off; a certificate that is refused stays so."""
    asked = model("https://h/v1")
    broken = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
    assert "TLS failed" in asked._failures.no_response(0, broken).disables
    asked._canary.answered(0, b"{}", 0.1)
    failure = asked._failures.no_response(0, broken)
    assert (failure.unreachable, failure.disables) == (True, "")
    assert (
        "TLS failed"
        in asked._failures.no_response(0, ssl.SSLCertVerificationError(1, "certificate has expired")).disables
    )


@pytest.mark.parametrize("fault", ["400_unclear", "html"])
def test_a_url_that_a_server_repeats_shows_no_key(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status = STATUS_FAULTS[fault][0]
    page = f"nothing at /v1/chat/completions?api-version=1&sig={KEY} ".encode()
    page += b"x" * (195 - len(page)) + KEY.encode()
    monkeypatch.setitem(STATUS_FAULTS, fault, (status, "", page))
    with ScriptedEndpoint(rates={fault: 1}) as server:
        answer = ask(f"{server.url}?api-version=1&sig={KEY}", max_tries=1)
    assert "nothing at /v1/chat/completions?***" in (answer.call_error or "")
    assert KEY[:5] not in repr(answer)


@pytest.mark.parametrize("style", ["openai", "anthropic", "ietf"])
def test_limits_that_headers_tell_are_kept(style: str) -> None:
    with ScriptedEndpoint(rpm=40, window_s=2.0, tells=style, latency_s=0.01) as server:
        asked = model(server.url, concurrency=None, max_refusals=20)
        with Client(asked, concurrency=1) as client:
            requests = (Request(f"h{number}", 1, "hello") for number in range(60))
            answers = [answer for batch in client.stream(requests) for answer in batch]
        assert [answer.call_error for answer in answers] == [None] * 60
        assert server.tally.refused <= 6


def test_a_limit_that_is_found_is_noted() -> None:
    asked = model("http://user.example/v1?key=very-secret", concurrency=None)
    asked._notices.quota_found(0, "rpm", 600)
    asked._notices.quota_found(0, "input_tpm", 80_000)
    begin = "http://user.example/v1 allows about"
    assert asked.traits.warnings == [
        f"{begin} 600 requests a minute; rpm = 600 in its settings begins there",
        f"{begin} 80,000 input tokens a minute; input_tpm = 80000 in its settings begins there",
    ]

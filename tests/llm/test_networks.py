"""Endpoints behind what companies have: proxies, certificates of their own, sockets, keys that expire."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import trustme
import uvloop

import sqlenrich as se
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.policy import EndpointPolicy
from sqlenrich.llm.endpoint.route import find_route
from sqlenrich.llm.endpoint.server_info import list_models
from sqlenrich.llm.messages import Answer, Request
from tests.support.endpoint import ScriptedEndpoint
from tests.support.models import endpoint_model
from tests.support.networks import EVERY_ADDRESS, ProxyProcess, forwarder, serving

PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CA_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
ROWS = 12
DONE = b'{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no certificate but those of a test."""
    for name in (*PROXY_NAMES, *(one.upper() for one in PROXY_NAMES), *CA_NAMES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with ProxyProcess(tmp_path_factory.mktemp("proxy"), "ann:s3cret/word") as running:
        yield running


def ask(url: str, **settings: Any) -> list[Answer]:
    """Ask rows with four requests at a time, after the list of models."""
    endpoint = {name: value for name, value in settings.items() if name not in ("concurrency", "max_tries")}
    assert list_models(se.Endpoint(url, **endpoint), url) == ["mock", "small"]
    model = endpoint_model(url, **{"concurrency": 4, "max_tries": 1} | settings)
    with Client(model, concurrency=4) as client:
        batches = list(client.stream(Request(f"h{number}", 1, f"row {number}") for number in range(ROWS)))
    return [answer for batch in batches for answer in batch]


def asked(url: str, **settings: Any) -> list[Answer]:
    return stream(endpoint_model(url, **{"concurrency": 1, "timeout": 1.0, "max_tries": 1} | settings))


def refused(url: str, **settings: Any) -> str:
    """The message with which a run ends before its first row."""

    async def probe() -> None:
        model = endpoint_model(url, timeout=2.0, **settings)
        await model.open()
        try:
            await model.probe([Request("h", 1, "row")], [])
        finally:
            await model.close()

    with pytest.raises(se.SqlenrichError) as caught:
        asyncio.run(probe())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def all_answered(answers: list[Answer]) -> bool:
    return [answer.call_error for answer in answers] == [None] * ROWS


@pytest.mark.parametrize(
    ("tls", "variable", "no_proxy", "proxied"),
    [
        pytest.param(False, "http_proxy", "", True, id="http"),
        pytest.param(False, "HTTP_PROXY", "", True, id="capitals"),
        pytest.param(False, "ALL_PROXY", "", True, id="one for all"),
        pytest.param(True, "HTTPS_PROXY", "", True, id="a tunnel"),
        pytest.param(True, "HTTP_PROXY", "", False, id="the other scheme's"),
        pytest.param(False, "HTTP_PROXY", f"example.com,{EVERY_ADDRESS}", False, id="excepted"),
        pytest.param(True, "HTTPS_PROXY", "0.0.0.0/8", False, id="an excepted network"),
    ],
)
def test_a_proxy_is_asked_where_the_environment_names_one(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    authority: trustme.CA,
    proxy: ProxyProcess,
    tls: bool,
    variable: str,
    no_proxy: str,
    proxied: bool,
) -> None:
    monkeypatch.setenv(variable, f"http://ann:s3cret%2Fword@127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(EVERY_ADDRESS).configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    before = len(proxy.requests())
    with ScriptedEndpoint() as endpoint, contextlib.ExitStack() as stack:
        port = stack.enter_context(forwarder(endpoint.url, tls=context)) if tls else urlsplit(endpoint.url).port
        assert all_answered(ask(f"{'https' if tls else 'http'}://{EVERY_ADDRESS}:{port}/v1"))
        assert len(endpoint.asked) == ROWS
    # One connection for the list of models, at least one for the rows. The proxy logs a connection when it ends.
    least, until = 2 * proxied, time.monotonic() + 10
    while len(logged := proxy.requests()[before:]) < least and time.monotonic() < until:
        time.sleep(0.05)
    assert len(logged) >= least
    assert bool(logged) == proxied
    assert tls or not proxied or any("/v1/chat/completions" in line for line in logged)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("http://127.0.0.1:{port}", "the proxy 127.0.0.1:{port} (HTTP_PROXY) wants a password (HTTP 407)"),
        ("http://ann:wr0ng-one@127.0.0.1:{port}", "refuses the password (HTTP 407): write it as http://user"),
        ("http://127.0.0.1:1", "the proxy 127.0.0.1:1 (HTTP_PROXY) can't be reached"),
        ("socks5://127.0.0.1:{port}", "HTTP_PROXY is not the URL of an HTTP proxy"),
        ("http://127.0.0.1:many", "HTTP_PROXY is not the URL of an HTTP proxy"),
    ],
)
def test_a_proxy_that_can_not_be_used_is_one_line(
    monkeypatch: pytest.MonkeyPatch, proxy: ProxyProcess, written: str, expected: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", written.format(port=proxy.port))
    with ScriptedEndpoint() as endpoint:
        url = f"http://{EVERY_ADDRESS}:{urlsplit(endpoint.url).port}/v1"
        with pytest.raises(se.SqlenrichError) as caught:
            list_models(se.Endpoint(url), url)
        for message in (str(caught.value), refused(url)):
            assert expected.format(port=proxy.port) in message
            assert "wr0ng" not in message
        assert endpoint.asked == []


def test_loopback_needs_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with ScriptedEndpoint() as endpoint:
        assert all_answered(ask(endpoint.url))
    assert find_route("http://localhost:8000/v1").proxy is None
    assert find_route("http://[::1]:8000/v1").proxy is None
    assert find_route("http://vllm.internal:8000/v1").proxy is not None


@pytest.mark.parametrize("variable", CA_NAMES[:1] + CA_NAMES[2:])
def test_an_own_authority(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: trustme.CA, variable: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with ScriptedEndpoint() as endpoint, forwarder(endpoint.url, tls=context) as port:
        url = f"https://localhost:{port}/v1"
        assert "name the certificate's authority in SSL_CERT_FILE" in refused(url)
        monkeypatch.setenv(variable, str(tmp_path / "ca.pem"))
        assert all_answered(ask(url))
        monkeypatch.setenv(variable, str(tmp_path / "gone.pem"))
        assert f"{variable}={tmp_path / 'gone.pem'}: No such file or directory" in refused(url)


def test_a_client_shows_its_certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: trustme.CA) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    mine = authority.issue_cert("ann@example.com")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    certificate.write_bytes(b"".join(blob.bytes() for blob in mine.cert_chain_pems))
    mine.private_key_pem.write_to_path(str(key))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with ScriptedEndpoint() as endpoint, forwarder(endpoint.url, tls=context) as port:
        url = f"https://localhost:{port}/v1"
        assert all_answered(ask(url, client_cert=str(certificate), client_key=str(key)))
        assert "client_cert" in refused(url)
        gone = str(tmp_path / "gone.pem")
        assert f"client_cert: {gone}: No such file or directory" in refused(url, client_cert=gone)


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "vllm.sock"
    with ScriptedEndpoint() as endpoint, forwarder(endpoint.url, path=path):
        assert all_answered(ask(f"http+unix://{quote(str(path), safe='')}/v1"))


def test_a_dead_first_address_costs_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name has two addresses, and nobody accepts at the first one: its queue of connections is full."""
    with ScriptedEndpoint() as endpoint, contextlib.ExitStack() as stack:
        port = urlsplit(endpoint.url).port
        stack.enter_context(socket.create_server(("127.0.0.2", port), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.2", port))

        resolve = uvloop.Loop.getaddrinfo

        async def addresses(loop: Any, host: Any, *rest: Any, **named: Any) -> Any:
            if host != "two.example":
                return await resolve(loop, host, *rest, **named)
            both = ("127.0.0.2", "127.0.0.1")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in both]

        monkeypatch.setattr(uvloop.Loop, "getaddrinfo", addresses)
        answers = asked(f"http://two.example:{port}/v1", timeout=5.0)
    assert all_answered(answers)


def stream(model: EndpointModel) -> list[Answer]:
    with Client(model, concurrency=1) as client:
        return [a for batch in client.stream(Request(f"h{n}", 1, f"row {n}") for n in range(ROWS)) for a in batch]


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        (5, ["t1"] * 6 + ["t2"] * 6 + ["t3"] * 2),
        (1, [f"t{n}" for n in range(1, ROWS) for _ in range(2)] + [f"t{ROWS}"]),
    ],
)
def test_a_key_that_expires_is_asked_for_again(tmp_path: Path, uses: int, expected: list[str]) -> None:
    token = tmp_path / "token"
    token.write_text("t1")
    keys: list[str] = []

    def reply(headers: Message, _: bytes) -> tuple[int, dict[str, str], bytes]:
        key = headers["authorization"].removeprefix("Bearer ")
        keys.append(key)
        if key == token.read_text() and keys.count(key) > uses:
            token.write_text(f"t{int(key[1:]) + 1}")
        if key != token.read_text():
            return 401, {}, b'{"error": {"message": "token expired"}}'
        return 200, {}, DONE

    with serving(reply) as url:
        answers = stream(endpoint_model(url, api_key_command=f"cat {token}", concurrency=1, max_tries=1))
        with pytest.raises(se.RunError, match="refuses the key") as caught:
            stream(endpoint_model(url, api_key_command="echo never-accepted", concurrency=1))
    assert all_answered(answers)
    assert keys == [*expected, "never-accepted"]
    assert "never-accepted" not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exit 3", "api_key_command ended with status 3: run it by hand to see why"),
        ("true", "api_key_command printed nothing"),
        ("printf 'two\\nlines'", "the endpoint's key holds a line break"),
    ],
)
def test_a_command_that_gives_no_key(command: str, expected: str) -> None:
    with pytest.raises(se.ConfigError, match=expected):
        se.Endpoint("http://127.0.0.1:1/v1", api_key_command=command).resolve_key()


def test_headers_are_sent_with_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_KEY", "hunter2hunter2")
    own = {"api-key": "env:AZURE_KEY", "OpenAI-Organization": "org-1"}
    seen: list[tuple[str, str]] = []

    def reply(headers: Message, _: bytes) -> tuple[int, dict[str, str], bytes]:
        seen.append((headers["api-key"], headers["openai-organization"]))
        return 200, {}, DONE

    with serving(reply) as url:
        assert all_answered(stream(endpoint_model(url, headers=own, concurrency=1)))
    assert seen == [("hunter2hunter2", "org-1")] * ROWS
    monkeypatch.delenv("AZURE_KEY")
    assert "the variable AZURE_KEY, which the header api-key names, is not set" in refused(url, headers=own)


@pytest.mark.parametrize(
    ("status", "headers", "sent", "expected"),
    [
        (200, {"x-request-id": "req_1"}, 1, (None, "req_1", False)),
        (200, {"request-id": "req_2", "cf-ray": "x"}, 1, (None, "req_2", False)),
        (400, {"x-request-id": "req_3"}, 1, ("HTTP 400: no (request req_3)", "req_3", False)),
        (400, {"x-should-retry": "true", "retry-after-ms": "1"}, 3, ("HTTP 400: no", None, True)),
        (500, {"x-should-retry": "false"}, 1, ("HTTP 500: no", None, True)),
        (500, {"x-request-id": "a\tb"}, 3, ("HTTP 500: no (request a b)", "a b", True)),
    ],
)
def test_headers_of_an_answer(
    status: int, headers: dict[str, str], sent: int, expected: tuple[str | None, str | None, bool]
) -> None:
    """The row names the request, and an endpoint that wants no retry, or wants one, is obeyed."""
    asked_for: list[Message] = []

    def reply(given: Message, _: bytes) -> tuple[int, dict[str, str], bytes]:
        asked_for.append(given)
        return status, headers, DONE if status == 200 else b'{"error": {"message": "no"}}'

    async def one() -> Answer:
        model = endpoint_model(url, policy=EndpointPolicy(backoff_s=0.01), max_tries=3)
        await model.open()
        try:
            return await model.ask(Request("h", 1, "row"))
        finally:
            await model.close()

    with serving(reply) as url:
        answer = asyncio.run(one())
    assert (answer.call_error, answer.request_id, answer.retryable) == expected
    assert len(asked_for) == sent


def test_a_redirect_names_its_target() -> None:
    target = {"location": "https://login.example.com/start?session=s3cret"}
    with serving(lambda *_: (308, target, b"")) as url:
        message = refused(url)
    assert "HTTP 308: redirects to https://login.example.com/start" in message
    assert "s3cret" not in message

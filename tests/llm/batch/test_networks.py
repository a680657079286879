"""Vendors behind what companies have: proxies, certificates, sockets, keys that expire; and no secret is shown."""

from __future__ import annotations

import contextlib
import logging
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import trustme

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.batch.errors import UnavailableError, WrongKeyError
from sqlenrich.llm.batch.vendors import batch_vendor, vendor_name
from sqlenrich.llm.endpoint.request_config import RequestConfig
from tests.llm.batch.vendors import BOTH, IDS, KEY_VALUE, collect, submit, url_of, vendor
from tests.support.batch_vendors import FakeVendors
from tests.support.networks import EVERY_ADDRESS, ProxyProcess, forwarder

both = pytest.mark.parametrize("name", BOTH)
CONFIG = RequestConfig("mock", {"max_tokens": 64})
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no certificate and no account but those of a test."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "sk-of-the-environment")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@contextlib.contextmanager
def over(url: str, name: str, **settings: object) -> Iterator[None]:
    """Send a batch to a URL and collect it."""
    with batch_vendor(Endpoint(url, **settings), CONFIG, name=name) as opened:  # type: ignore[arg-type]
        assert set(collect(opened, submit(opened))) == set(IDS)
        yield


@both
def test_a_vendor_gets_the_headers_of_a_live_endpoint(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TEAM_TOKEN", "team-secret")
    headers = {"x-team": "env:TEAM_TOKEN", "OpenAI-Project": "p1"}
    with FakeVendors() as fake, vendor(fake, name, headers=headers) as opened:
        collect(opened, submit(opened))
    for sent in fake.headers:
        assert (sent["x-team"], sent["openai-project"], sent["user-agent"]) == ("team-secret", "p1", "sqlenrich")
        assert sent.get("x-api-key", sent["authorization"].removeprefix("Bearer ")) == KEY_VALUE
        assert "openai-organization" not in sent
        assert "of-the-environment" not in str(sent)


@both
def test_no_key_is_sent_where_there_is_none(name: str) -> None:
    with FakeVendors() as fake, over(url_of(fake, name), name):
        pass
    assert not any({"authorization", "x-api-key"} & sent.keys() for sent in fake.headers)


def test_the_query_of_a_url_is_sent_with_every_call() -> None:
    with FakeVendors() as fake, over(f"{fake.openai_url}?api-version=2026-01-01", "openai"):
        (batch,) = fake.batches.values()
        assert batch.page == "/chat/completions"
        assert fake.calls == {"upload": 1, "create": 1, "state": 1, "content": 1}


@both
def test_a_key_that_expires_is_renewed(name: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first-key")
    with FakeVendors(key="first-key", hold=True) as fake:
        endpoint = Endpoint(url_of(fake, name), api_key_command=f"cat {file}")
        with batch_vendor(endpoint, CONFIG, name=name) as opened:
            info = submit(opened)
            fake.key = "second-key"
            with pytest.raises(WrongKeyError) as found:
                opened.state(info.vendor_id)
            assert "first-key" not in str(found.value)
            file.write_text("second-key")
            assert opened.state(info.vendor_id).open
            fake.key = "third-key"
            file.write_text("third-key")
            assert submit(opened).open
    assert len(fake.all_batches()) == 2


@both
@pytest.mark.parametrize(
    ("tls", "host", "proxied"),
    [
        pytest.param(False, EVERY_ADDRESS, True, id="http"),
        pytest.param(True, EVERY_ADDRESS, True, id="a tunnel"),
        pytest.param(False, "127.0.0.1", False, id="a loopback address"),
    ],
)
def test_a_proxy_is_asked_where_the_environment_names_one(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    authority: trustme.CA,
    name: str,
    tls: bool,
    host: str,
    proxied: bool,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(EVERY_ADDRESS).configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(ProxyProcess(tmp_path, "ann:s3cret/word"))
        fake = stack.enter_context(FakeVendors(hold=True))
        monkeypatch.setenv("ALL_PROXY", f"http://ann:s3cret%2Fword@127.0.0.1:{proxy.port}")
        port = stack.enter_context(forwarder(url_of(fake, name), tls=context)) if tls else fake.port
        url = f"{'https' if tls else 'http'}://{host}:{port}{urlsplit(url_of(fake, name)).path}"
        with batch_vendor(Endpoint(url), CONFIG, name=name) as opened:
            info = submit(opened)
            assert opened.state(info.vendor_id).open
        until = time.monotonic() + 10  # the proxy writes its log once a connection is closed
        while proxied and not proxy.requests() and time.monotonic() < until:
            time.sleep(0.05)
        assert bool(proxy.requests()) == proxied


@both
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_the_certificates_of_the_environment_are_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: trustme.CA, name: str, known: bool
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    (authority if known else trustme.CA()).cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with FakeVendors(hold=True) as fake, forwarder(url_of(fake, name), tls=context) as port:
        url = f"https://127.0.0.1:{port}{urlsplit(url_of(fake, name)).path}"
        with batch_vendor(Endpoint(url, api_key=KEY_VALUE), CONFIG, name=name) as opened:
            if known:
                assert submit(opened).open
            else:
                with pytest.raises(UnavailableError, match="certificate verify failed"):
                    submit(opened)


@both
def test_a_unix_socket(tmp_path: Path, name: str) -> None:
    with FakeVendors(hold=True) as fake, forwarder(url_of(fake, name), path=tmp_path / "v.sock"):
        url = f"http+unix://{quote(str(tmp_path / 'v.sock'), safe='')}{urlsplit(url_of(fake, name)).path}"
        with batch_vendor(Endpoint(url, api_key=KEY_VALUE), CONFIG, name=name) as opened:
            info = submit(opened)
            assert opened.state(info.vendor_id).open
    assert {sent["authorization"] for sent in fake.headers} == {f"Bearer {KEY_VALUE}"}


def test_answers_at_another_origin_get_no_key() -> None:
    with FakeVendors() as fake, FakeVendors() as other, vendor(fake, "anthropic") as opened:
        info = opened.state(submit(opened).vendor_id)
        other.message_batches = fake.message_batches
        page = f"http://127.0.0.1:{other.port}/anthropic/v1/messages/batches/{info.vendor_id}/results"
        fake.results_at = page
        assert {line.custom_id for line in opened.results(info)} == set(IDS)
    assert other.calls == {"content": 1}
    assert not any({"authorization", "x-api-key"} & sent.keys() for sent in other.headers)


@both
def test_no_log_and_no_object_shows_the_key(caplog: pytest.LogCaptureFixture, name: str) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeVendors(key="another") as fake, vendor(fake, name) as opened, pytest.raises(WrongKeyError) as found:
        submit(opened)
    shown = [caplog.text, repr(opened), str(found.value), repr(found.value)]
    assert not any(KEY_VALUE in text for text in shown)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://res.openai.azure.com/openai/v1", "openai"),
        ("https://api.anthropic.com/v1", "anthropic"),
        ("file:///data/batches", "folder"),
        ("http://127.0.0.1:8000/v1", "openai"),
    ],
)
def test_a_url_names_its_vendor(url: str, name: str) -> None:
    endpoint = Endpoint(url)
    assert (vendor_name(endpoint), batch_vendor(endpoint, CONFIG).name) == (name, name)


@pytest.mark.parametrize(
    ("url", "requests", "size"),
    [
        ("https://api.openai.com/v1", 50_000, 200_000_000),
        ("https://res.openai.azure.com/openai/v1", 50_000, 200_000_000),
        ("https://api.anthropic.com", 100_000, 256_000_000),
        ("file:///data", 50_000, 200_000_000),
    ],
)
def test_limits_are_dated_and_settings_lower_them(url: str, requests: int, size: int) -> None:
    limits = batch_vendor(Endpoint(url), CONFIG).limits
    assert (limits.requests, limits.bytes) == (requests, size)
    assert limits.source
    assert limits.read_on == "2026-11-25"
    lowered = limits.lowered(requests=10, bytes=10**12)
    assert (lowered.requests, lowered.bytes) == (10, size)


@both
def test_a_missing_sdk_says_how_it_is_installed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"the SDK {name} is missing: pip install 'sqlenrich\[batch\]'"):
        batch_vendor(Endpoint("http://127.0.0.1:1/v1"), CONFIG, name=name).__enter__()

"""The settings of an endpoint: what is refused, the key, and the share of one process."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from sqlenrich.core.api_key import LiteralKey
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.limits import Limits

KEY = "sk-very-secret"
NO_HOST = "the endpoint's url has no http:// or no host: write it as http://host:port/v1"
UNREADABLE = "the endpoint's url can't be read: write it as http://host:port/v1"
PASSWORD = "the endpoint's url holds a password: use api_key_env instead"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"url": "localhost:8000"}, NO_HOST, id="no http"),
        pytest.param({"url": "ftp://host/v1"}, NO_HOST, id="another scheme"),
        pytest.param({"url": "http://:80/v1"}, NO_HOST, id="no host"),
        pytest.param({"url": ""}, NO_HOST, id="no url"),
        pytest.param({"url": "http://h:0/v1"}, NO_HOST, id="port 0"),
        pytest.param({"url": "http://h:99999/v1"}, UNREADABLE, id="a large port"),
        pytest.param({"url": "http://[::1/v1"}, UNREADABLE, id="a bracket"),
        pytest.param({"url": "http://a..b/v1"}, UNREADABLE, id="an empty label"),
        pytest.param({"url": f"http://user:{KEY}@host/v1"}, PASSWORD, id="a password"),
        pytest.param({"url": f"http://{KEY}@host/v1"}, PASSWORD, id="a user"),
        pytest.param({"url": 3}, "the endpoint's url must be one or more texts in quotes", id="no text"),
        pytest.param(
            {"others": ("http://h/v1/",)},
            "the endpoint's url 2 of 2 is a repetition: name each server once",
            id="one server twice",
        ),
        pytest.param({"concurrency": 0}, "the endpoint's concurrency must be above 0, not 0", id="concurrency"),
        pytest.param({"rpm": True}, "the endpoint's rpm must be a whole number, not True", id="a flag"),
        pytest.param({"timeout": 0}, "the endpoint's timeout must be above 0, not 0", id="timeout"),
        pytest.param(
            {"timeout": float("nan")}, "the endpoint's timeout must be above 0, not nan", id="timeout of no number"
        ),
        pytest.param({"timeout": None}, "the endpoint's timeout must be a number, not None", id="no timeout"),
        pytest.param({"api_key_env": KEY.encode()}, "the endpoint's api_key_env must be a text in quotes", id="bytes"),
        pytest.param(
            {"extra_body": {"stream": True}},
            "the endpoint's extra_body: \"stream\" can't be set, because sqlenrich sets it",
            id="an own field",
        ),
        pytest.param({"api_key": 5}, "the endpoint's api_key must be a text or a reference to a key", id="no key"),
        pytest.param({"api_key_command": " "}, "the endpoint's api_key_command must not be empty", id="no command"),
        pytest.param(
            {"headers": {"X-Api-Key": KEY}},
            'the endpoint\'s headers: "X-Api-Key" may hold a secret: name a variable of the environment, as "env:NAME"',
            id="a key in a header",
        ),
        pytest.param(
            {"headers": {"Host": "h", "a b": "c", "x": "d\r\ne"}},
            "the endpoint's headers: \"Host\" can't be set, because sqlenrich sets it\n"
            'the endpoint\'s headers: "a b" is no name of a header\n'
            'the endpoint\'s headers: "x" must be a text of one line in ASCII',
            id="headers",
        ),
        pytest.param(
            {"client_key": "k.pem"},
            "the endpoint's client_key needs client_cert, the certificate that it belongs to",
            id="half a certificate",
        ),
        pytest.param(
            {"url": "http+unix://run/v1"},
            "the endpoint's url has no path of a socket: http+unix://%2Frun%2Fvllm.sock/v1",
            id="no socket",
        ),
        pytest.param(
            {"api_key": LiteralKey(KEY), "api_key_env": "THE_KEY"},
            "the endpoint's key is given twice: keep one of api_key and api_key_env",
            id="two keys",
        ),
        pytest.param(
            {"url": "h", "tpm": -1}, f"the endpoint's tpm must be above 0, not -1\n{NO_HOST}", id="all at once"
        ),
    ],
)
def test_wrong_settings(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Endpoint(**{"url": "http://h/v1"} | fields)
    assert str(caught.value) == text


def test_urls_without_their_last_slash() -> None:
    endpoint = Endpoint("http://one/v1/", others=("http://two/v1/",))
    assert (endpoint.url, endpoint.urls) == ("http://one/v1", ("http://one/v1", "http://two/v1"))


@pytest.mark.parametrize(("value", "key"), [(None, None), ("", None), (KEY, KEY)])
def test_the_key_of_a_variable(monkeypatch: pytest.MonkeyPatch, value: str | None, key: str | None) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("THE_KEY", value)
    endpoint = Endpoint("http://h/v1", "THE_KEY")
    assert endpoint.resolve_key() == key
    raw = pickle.dumps(endpoint)
    assert KEY not in repr(endpoint)
    assert KEY.encode() not in raw
    assert pickle.loads(raw) == endpoint


def test_a_key_that_is_given_stays_here() -> None:
    endpoint = Endpoint("http://h/v1", api_key=LiteralKey(KEY))
    assert endpoint.resolve_key() == KEY
    assert KEY not in repr(endpoint) + repr(endpoint.api_key)
    with pytest.raises(TypeError, match="use api_key_env"):
        pickle.dumps(endpoint)


def test_a_key_that_no_header_can_hold() -> None:
    with pytest.raises(ConfigError, match="line break"):
        Endpoint("http://h/v1", api_key=LiteralKey("a\nb")).resolve_key()


@pytest.mark.parametrize(
    ("limits", "n", "share"),
    [
        (Limits(), 8, Limits()),
        (Limits(64, rpm=600, tpm=100_001), 8, Limits(8, rpm=75, tpm=12_500)),
        (Limits(input_tpm=9, output_tpm=8), 4, Limits(input_tpm=2, output_tpm=2)),
        (Limits(rpm=3), 4, "rpm = 3 is too small for 4 processes"),
        (Limits(rpm=3), 0, "1 or more processes"),
    ],
)
def test_shares_of_limits(limits: Limits, n: int, share: Limits | str) -> None:
    if isinstance(share, Limits):
        assert limits.share(n) == share
    else:
        with pytest.raises(ConfigError, match=share):
            limits.share(n)


def test_a_share_of_an_endpoint() -> None:
    endpoint = Endpoint("http://h/v1", "THE_KEY", concurrency=64, rpm=600, timeout=5)
    assert endpoint.share(8) == replace(endpoint, concurrency=8, rpm=75)

"""What `sqlenrich doctor` tells: what is there, what is wrong with it and what to do, and no secret."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import call

SECRET = "sk-secret-of-the-doctor"
CLEAN = (
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and an environment of its own."""
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def server(date: str) -> Iterator[str]:
    """A server that lists one model, at its own time."""

    class Models(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"data": [{"id": "m"}]}'
            self.send_response_only(200)
            self.send_header("Date", date)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Models) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}/v1"
        served.shutdown()


def test_it_tells_where_all_comes_from_and_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{SECRET}@proxy.example:3128")
    with ScriptedEndpoint(models=("small", "large")) as endpoint:
        (folder / "sqlenrich.toml").write_text(
            f'[endpoints.local]\nurl = "{endpoint.url}?token={SECRET}"\napi_key_env = "MY_KEY"\n'
            '[targets.prod]\nengine = "snowflake"\n[models.cheap]\nendpoint = "small"\n'
        )
        text, found = call("doctor"), call("doctor", "--json")
    assert (text.status, found.status) == (0, 0), text.err
    assert SECRET not in text.out + text.err + found.out + found.err
    told = json.loads(found.out)
    assert told["versions"]["duckdb"]
    assert told["extras"]["spark"].startswith("pyspark ")
    assert told["settings"] == {
        "sqlenrich.toml": str(folder / "sqlenrich.toml"),
        "models": "cheap",
        "endpoints": "local",
        "targets": "prod",
        "prices": "none",
    }
    assert told["environment"]["HTTPS_PROXY"] == "http://proxy.example:3128"
    (line,) = told["endpoints"].values()
    assert line == "a key of MY_KEY, which is set; models: small, large"
    assert told["problems"] == []
    assert text.out.endswith("nothing wrong was found\n")


@pytest.mark.parametrize(
    ("settings", "environment", "problem"),
    [
        ('[endpoints.a]\nurl = "http://127.0.0.1:9/v1"\nurll = 3\n', {}, 'sqlenrich.toml: line 3: unknown key "urll"'),
        ('[endpoints.a]\nurl = "http://127.0.0.1:9/v1"\n', {}, "can't be reached: "),
        ('[endpoints.a]\nurl = "file:///nowhere/batches"\n', {}, "it is no folder that can be written"),
        ("", {"SSL_CERT_FILE": "/nowhere.pem"}, "it is not there: unset it, or name a file of certificates"),
        ("", {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "can't be reached: "),
        ('[endpoints.a]\nurl = "{late}"\n', {}, "the clock here is "),
    ],
)
def test_what_is_wrong_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: str, environment: dict[str, str], problem: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with server("Mon, 01 Jan 2024 00:00:00 GMT") as late:
        (folder / "sqlenrich.toml").write_text(settings.replace("{late}", late))
        found = call("doctor")
    assert found.status == 3
    assert [line for line in found.out.splitlines() if line.startswith("! ") and problem in line], found.out
    assert found.out.endswith("\n1 problem\n")


@pytest.mark.parametrize("target", ["prod", "elsewhere"])
def test_a_target_is_reached_where_it_is_named(folder: Path, target: str) -> None:
    (folder / "sqlenrich.toml").write_text('[targets.prod]\nengine = "snowflake"\nprofile = "none"\n')
    (folder / "profiles.yml").write_text("other: {}\n")
    assert "targets\n" not in call("doctor").out
    found = call("doctor", "--target", target)
    if target == "prod":
        assert (found.status, "no profile none" in found.out) == (3, True)
    else:
        assert (found.status, 'no target "elsewhere"' in found.err) == (2, True)

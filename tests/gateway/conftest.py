"""A gateway of the test's own before a scripted endpoint, and a caller of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver
from tests.support.endpoint import ScriptedEndpoint


@dataclass(frozen=True)
class Answered:
    """A response as its caller gets it."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def cache(self) -> str | None:
        """Where the answer came from."""
        return self.headers.get("x-sqlenrich-cache")

    @property
    def code(self) -> str:
        """The code of an error."""
        return str(self.json["error"]["code"])


@dataclass
class Notes(NullObserver):
    """Keeps the warnings."""

    lines: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        self.lines.append(line)


def ask(url: str, body: Any, page: str = "/chat/completions", method: str = "POST", **headers: str) -> Answered:
    """Send one request to a gateway, over a connection of its own."""
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=30)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, place.path + page, raw if method == "POST" else None, named)
        response = connection.getresponse()
        return Answered(
            response.status, response.read(), {name.lower(): value for name, value in response.getheaders()}
        )
    finally:
        connection.close()


def chat(text: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a chat request."""
    return {"model": "mock", "messages": [{"role": "user", "content": text}], **fields}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The database of the test's gateway."""
    return tmp_path / "answers.duckdb"


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    """An endpoint without faults."""
    with ScriptedEndpoint() as served:
        yield served


@pytest.fixture
def serve(output: Path, endpoint: ScriptedEndpoint) -> Iterator[Callable[..., se.Gateway]]:
    """Start a gateway of the output before the endpoint; it ends with the test."""
    with ExitStack() as stack:

        def start(**options: Any) -> se.Gateway:
            options = {"output": output, "endpoint": se.Endpoint(endpoint.url), "port": 0, **options}
            return stack.enter_context(se.Gateway(**options))

        yield start

"""What the tests of batches share: a vendor over its stand-in, and the way of a batch through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.batch.vendor import BatchInfo, BatchLine, BatchVendor
from sqlenrich.llm.batch.vendors import batch_vendor
from sqlenrich.llm.endpoint.request_config import RequestConfig
from tests.support.batch_vendors import FakeVendors

BOTH = ("openai", "anthropic")
SCHEMA = {
    "type": "object",
    "properties": {"intent": {"type": "string", "enum": ["card", "loan", "other"]}, "urgency": {"type": "integer"}},
    "required": ["intent", "urgency"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA, "strict": True}}
KEY = "run-1-a"
KEY_VALUE = "sk-0123456789"
IDS = tuple(f"{number:064x}" for number in range(6))
"""Ids as long as a vendor takes them."""
BEGAN = datetime(2020, 1, 1, tzinfo=UTC)


def url_of(fake: FakeVendors, name: str) -> str:
    return fake.openai_url if name == "openai" else fake.anthropic_url


@contextmanager
def vendor(fake: FakeVendors, name: str, config: RequestConfig | None = None, **settings: Any) -> Iterator[BatchVendor]:
    """A vendor that asks its stand-in."""
    more = {key: settings.pop(key) for key in ("limits", "changes") if key in settings}
    endpoint = Endpoint(url_of(fake, name), **{"api_key": KEY_VALUE} | settings)
    config = config or RequestConfig("mock", {"max_tokens": 64}, FORM)
    with batch_vendor(endpoint, config, name=name, **more) as opened:
        yield opened


def lines_of(opened: BatchVendor, ids: tuple[str, ...] = IDS) -> list[bytes]:
    return [opened.line(opened.request(one, f"row {one}")) for one in ids]


def submit(opened: BatchVendor, key: str = KEY, ids: tuple[str, ...] = IDS) -> BatchInfo:
    """Upload a batch and create it."""
    return opened.create(key, opened.upload(key, lines_of(opened, ids)))


def collect(opened: BatchVendor, info: BatchInfo) -> dict[str, BatchLine]:
    """Return the lines of a batch by their ids, once it has ended."""
    for _ in range(3):
        if not info.open:
            break
        info = opened.state(info.vendor_id)
    assert not info.open
    return {line.custom_id: line for line in opened.results(info)}


def only(*numbers: int) -> Callable[[str], bool]:
    """Return the test of some of the ids."""
    return lambda custom_id: custom_id in {IDS[number] for number in numbers}

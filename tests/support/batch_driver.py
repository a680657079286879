"""Run ``intent.prompt`` by batches in a process that kills itself at one moment: ``python -m ... SETTINGS``."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import sqlenrich as se
from sqlenrich.ask.batch import BatchAsker, BatchPolicy
from sqlenrich.ask.batch_creation import CreationPolicy
from sqlenrich.core.runtime import Runtime, running_in
from sqlenrich.llm.batch.anthropic_vendor import AnthropicVendor
from sqlenrich.llm.batch.openai_vendor import OpenAIVendor
from sqlenrich.store.batches import BatchLedger

QUICK = BatchPolicy(
    poll_s=0.02, later_poll_s=0.02, committed=7, creation=CreationPolicy((0.0, 0.05, 0.1), 0.02, 0.05, 2.0)
)
"""Waits of a test: the stand-in of the vendors ends a batch at once."""


def after(owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Kill this process once a method has done its work."""
    method = getattr(owner, name)

    def killed(*given: Any, **named: Any) -> Any:
        found = method(*given, **named)
        if when(*given, **named):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, killed)


def at_vendors(name: str) -> None:
    """Kill this process once a vendor has done something."""
    for vendor in (OpenAIVendor, AnthropicVendor):
        after(vendor, name)


MOMENTS: dict[str, Callable[[], None]] = {
    "requests noted": lambda: after(BatchLedger, "note"),
    "uploaded": lambda: at_vendors("upload"),
    "upload noted": lambda: after(BatchLedger, "write", lambda _, batch: batch.state == "uploaded"),
    "created": lambda: at_vendors("create"),
    "creation noted": lambda: after(BatchLedger, "write", lambda _, batch: batch.state == "created"),
    "half collected": lambda: after(BatchAsker, "_store"),
    "collected": lambda: after(BatchLedger, "write", lambda _, batch: batch.state == "collected"),
}
"""After what the process ends."""


class Ahead(Runtime):
    """A machine whose clock is ahead of the vendor's."""

    def __init__(self, hours: float) -> None:
        self.ahead = timedelta(hours=hours)

    def now(self) -> datetime:
        """Return a time that has not come yet."""
        return super().now() + self.ahead


def main() -> None:
    """Run once."""
    given = json.loads(sys.argv[1])
    MOMENTS[given["moment"]]()
    url, api = given["url"], given["api"]
    model = se.Endpoint(url, api=api, model="mock", probe=False, batch_requests=given["requests"])
    with running_in(Ahead(given["hours_ahead"])):
        se.run(given["prompt"], input=given["input"], output=given["output"], model=model, batch=QUICK)


if __name__ == "__main__":
    main()

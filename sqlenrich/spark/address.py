"""Where workers find the desk: what travels with a task, and no key of an endpoint with it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeskAddress:
    """The host and port of the desk as executors reach it, and the token that opens it."""

    host: str
    port: int
    token: str = field(repr=False)

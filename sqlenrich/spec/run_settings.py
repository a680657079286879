"""What a run is given beside the enrichment: the model that it asks, and its caps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlenrich.core.errors import ConfigError


@dataclass(frozen=True)
class Mock:
    """The mock model: free invented answers that fit the schema.

    ``failures`` maps a kind (bad_json, missing_field, error, refusal, truncation) to its share from 0 to 1.
    """

    failures: Mapping[str, float] = field(default_factory=dict)


STOP_AFTER_REFUSED = 50
"""A run ends where none of so many first answers is accepted, unless it is told otherwise."""
_CAPS: Mapping[str, type | tuple[type, ...]] = {
    "max_rows": int,
    "max_calls": int,
    "max_cost": (int, float),
    "stop_after_refused": int,
}


@dataclass(frozen=True)
class Caps:
    """Where a run ends early; the same call goes on later. None sets no cap.

    ``max_rows`` is how many distinct requests are asked at most, ``max_calls`` how many requests are sent, retries
    included, ``max_cost`` what they may cost in the currency of the prices. ``stop_after_refused`` ends a run where
    none of so many first answers is accepted; 0 sets no such cap.
    """

    max_rows: int | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    stop_after_refused: int | None = STOP_AFTER_REFUSED

    def __post_init__(self) -> None:
        for name, kinds in _CAPS.items():
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise ConfigError(f"{name} is {'an integer' if kinds is int else 'a number'}, not {value!r}")
            if not value >= 0:  # nan is no cap either
                raise ConfigError(f"{name} is 0 or more, not {value}")

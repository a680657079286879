"""Time zones by their IANA names, and the local times of instants."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from sqlenrich.core.errors import did_you_mean

DEFAULT_ZONE = "UTC"


@functools.cache
def time_zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name. Raises ValueError for one that not every engine knows, such as ``EST``."""
    if name == DEFAULT_ZONE:
        return UTC
    known = [DEFAULT_ZONE, *sorted(zone for zone in available_timezones() if "/" in zone)]
    if name not in known:
        by_case = {zone.lower(): zone for zone in known}
        near = f" ({by_case[name.lower()]}?)" if name.lower() in by_case else did_you_mean(name, known)
        raise ValueError(f'unknown time zone "{name}"{near}; write an IANA name such as Europe/Berlin, or UTC')
    return ZoneInfo(name)


def local_times(value: Any, zone: tzinfo) -> Any:
    """Return a value in which each datetime with a time zone is the local time of ``zone``, also in lists and dicts."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(zone).replace(tzinfo=None)
    if isinstance(value, list | tuple):
        return [local_times(item, zone) for item in value]
    if isinstance(value, Mapping):
        return {name: local_times(item, zone) for name, item in value.items()}
    return value

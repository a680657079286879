"""The key of a row that a caller names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.store.store import Store


def checked_key(stored: Store, row: Mapping[str, Any]) -> dict[str, str]:
    """Return the key of a row as texts. Raises ConfigError for a column that is no part of the key."""
    key = stored.request.contract.key
    if not row:
        raise ConfigError(f"which row? Give a value of its key: {', '.join(f'--row {name}=...' for name in key)}")
    for name in row:
        if name not in key:
            raise ConfigError(f'"{name}"{did_you_mean(name, key)} is no column of the key, which is {", ".join(key)}')
    return {name: str(value) for name, value in row.items()}

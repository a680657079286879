"""API keys: references that are resolved where a request is sent, so that a configuration never holds a key."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from sqlenrich.core.errors import ConfigError


class ApiKey(Protocol):
    """A reference to a key. Further kinds, such as a secret store's, need only this method."""

    def resolve(self) -> str | None:
        """Give the key, None where there is none."""
        ...


@dataclass(frozen=True)
class EnvironmentKey:
    """The key in an environment variable. It is read in the process that sends requests."""

    variable: str

    def resolve(self) -> str | None:
        """Give the key, None where the variable is not set."""
        return os.environ.get(self.variable)


@dataclass(frozen=True)
class LiteralKey:
    """A key as it is. It stays in its process: pickling it raises TypeError."""

    value: str = field(repr=False)

    def resolve(self) -> str | None:
        """Give the key."""
        return self.value

    def __reduce__(self) -> NoReturn:
        raise TypeError("a literal API key is not pickled: use EnvironmentKey, which names an environment variable")


def resolve_key(key: ApiKey | None) -> str | None:
    """Give the key of a reference; None where there is none. Raises ConfigError for a key that no header can hold."""
    value = None if key is None else key.resolve()
    if value is not None and not value.isprintable():
        raise ConfigError("the endpoint's key holds a line break or a control character")
    return value or None

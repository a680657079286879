"""API keys: references that are resolved where a request is sent, so that a configuration never holds a key."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from typing import NoReturn, Protocol, runtime_checkable

from sqlenrich.core.errors import ConfigError

COMMAND_S = 120.0
"""The longest time of a command that prints a key: it may open a browser to log in."""


@runtime_checkable
class ApiKey(Protocol):
    """A reference to a key. Further kinds, such as a secret store's, need only this method."""

    def resolve(self) -> str | None:
        """Return the key, None where there is none. It is called again where the endpoint refuses an accepted key."""
        ...


@dataclass(frozen=True)
class LiteralKey:
    """A key as it is. It stays in its process: pickling it raises TypeError."""

    value: str = field(repr=False)

    def resolve(self) -> str | None:
        """Return the key."""
        return self.value

    def __reduce__(self) -> NoReturn:
        raise TypeError("a literal API key is not pickled: use api_key_env, which names a variable")


@dataclass(frozen=True)
class EnvironmentKey:
    """A key in a variable of the environment."""

    variable: str

    def resolve(self) -> str | None:
        """Return the variable's value."""
        return os.environ.get(self.variable)


@dataclass(frozen=True)
class CommandKey:
    """A key that a shell command prints, such as ``gcloud auth print-access-token``. What it says otherwise is seen."""

    command: str

    def resolve(self) -> str | None:
        """Return what the command prints, without spaces around it. Raises ConfigError."""
        try:
            done = subprocess.run(self.command, shell=True, stdout=subprocess.PIPE, check=False, timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"api_key_command gave no key within {COMMAND_S:.0f} s") from None
        key = done.stdout.decode("utf-8", "replace").strip()
        if done.returncode or not key:
            problem = f"ended with status {done.returncode}" if done.returncode else "printed nothing"
            raise ConfigError(f"api_key_command {problem}: run it by hand to see why")
        return key

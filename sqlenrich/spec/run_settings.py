"""What a run is given beside the enrichment: the model that it asks, and its caps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError


@dataclass(frozen=True)
class Mock:
    """The mock model: free invented answers that fit the schema.

    ``failures`` maps a kind (bad_json, missing_field, error, refusal, truncation) to its share from 0 to 1.
    """

    failures: Mapping[str, float] = field(default_factory=dict)


PER = ("process", "executor", "gpu")
"""What a process of a local model is loaded for."""


@dataclass(frozen=True)
class LocalModel:
    """A class of yours that answers prompts, loaded once in a process of its own.

    ``factory`` is the class, or any callable that returns what answers: it is called without arguments in the process,
    and loads the model. What it returns is called with a list of at most ``batch`` prompts, and returns as many texts
    (None: no answer), or vectors where the output is an embedding. ``name`` and ``version`` say which model it is: both
    are part of the hash of each request, so that another version is asked anew. A batch that takes ``timeout`` seconds
    ends the process, which is started again. ``per`` says what has a process of its own (``PER``): each process that
    asks, such as a run, an actor of Ray or a Python worker of Spark; each executor of Spark; or each GPU that the run,
    the actor or the executor sees. Raises ConfigError.
    """

    factory: Callable[[], Callable[[list[str]], object]]
    name: str
    version: str
    batch: int = 32
    timeout: float = 600.0
    per: str = "process"

    def __post_init__(self) -> None:
        if not callable(self.factory):
            raise ConfigError("factory is a class, or a function that returns what answers prompts")
        for key in ("name", "version"):
            value = getattr(self, key)
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"LocalModel needs a {key}: a text that says which model it is; it is hashed")
        if self.name == "mock":
            raise ConfigError('the name "mock" is that of the mock model: give the LocalModel another one')
        if isinstance(self.batch, bool) or not isinstance(self.batch, int) or self.batch < 1:
            raise ConfigError(f"batch is a whole number of at least 1, not {self.batch!r}")
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float) or not self.timeout > 0:
            raise ConfigError(f"timeout is a number of seconds above 0, not {self.timeout!r}")
        if self.per not in PER:
            raise ConfigError(f"per is one of {', '.join(PER)}, not {self.per!r}")


AnyModel: TypeAlias = Endpoint | Mock | LocalModel | str
"""What a caller names as the model of a run."""

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

"""Where the servers of a fleet run: beside Spark's executors, in Ray's actors, or on this machine."""

from __future__ import annotations

from typing import Protocol

from sqlenrich.spark.vllm.placement import Placement


class Hosts(Protocol):
    """What starts the keepers of a fleet's servers, and knows how many there are to be."""

    address: str
    """The address at which keepers reach the driver."""
    listens_at: str
    """The address at which the driver listens for them."""
    gpus: int
    """The GPUs of a server; 0 where none is counted."""
    gpus_named: str
    """What set the number of GPUs, for messages."""
    tasks: int
    """The tasks that ask a server of their own first."""

    def wanted(self) -> int:
        """Return how many servers there are to be now."""
        ...

    def place(self, placement: Placement, wanted: int) -> None:
        """Start the keepers that are missing. Raises RunError."""
        ...

    def cancel(self) -> None:
        """Wait no longer for a place; from any thread."""
        ...

    def close(self) -> None:
        """Give the places back: the fleet has ended."""
        ...

    @property
    def nobody(self) -> str:
        """Why there may be no keeper at all."""
        ...

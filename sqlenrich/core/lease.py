"""Leases: one run at a time asks for a table of answers.

A run is known by the random id of its lease, and lives while it renews it. Process numbers, host names and the clock of
another machine decide nothing. Where leases are kept: :mod:`sqlenrich.store.statement_ledger` (a line beside the
results), :mod:`sqlenrich.spark.file_lease` (a file beside the journal).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sqlenrich.core.errors import RunError

ID_BYTES = 16


class LeaseLostError(RunError):
    """Another run has taken over what this one works on."""


@dataclass(frozen=True)
class LeasePolicy:
    """How long a run holds its tables without a sign of life, and how another one waits for that, in seconds."""

    lasts_s: float = 90.0
    """A run that has not renewed its lease for so long is dead for those that come after it."""
    poll_s: float = 1.0
    """How often a run that waits looks whether the lease was renewed."""


class Holder(Protocol):
    """A lease that has not ended."""

    @property
    def lease(self) -> str:
        """Its id."""

    @property
    def renewed(self) -> int:
        """A number that each renewal changes."""


H_co = TypeVar("H_co", bound=Holder, covariant=True)
H = TypeVar("H", bound=Holder)


class Lease(Protocol[H_co]):
    """The right of one run to ask."""

    id: str

    def claim(self, *, take: bool) -> None:
        """Take the lease if nobody holds it, or from whoever holds it (``take``). :meth:`holders` tells who has it."""

    def holders(self) -> Sequence[H_co]:
        """Return the leases that have not ended; two where two runs took it at the same time."""

    def close(self) -> None:
        """End the lease."""


def new_id() -> str:
    """Return a random id."""
    return secrets.token_hex(ID_BYTES)


def wait_for(
    lease: Lease[H],
    poll_s: float,
    *,
    take: bool,
    pause: Callable[[float], object],
    waits: Callable[[H], object],
    busy: Callable[[H], Exception],
) -> None:
    """Take a lease, once that of a dead run has ended; ``waits`` is told of it.

    Raises ``busy`` where the run that has the lease renews it, or took it at the same time as this one.
    """
    first: H | None = None
    while True:
        holders = lease.holders()
        if take or not holders:
            lease.claim(take=take)
            holders = lease.holders()
        others = [holder for holder in holders if holder.lease != lease.id]
        mine = len(others) < len(holders)
        if mine and not others:
            return
        if mine:  # none of the two asks
            lease.close()
        for holder in others:
            if mine or (first is not None and (first.lease, first.renewed) != (holder.lease, holder.renewed)):
                raise busy(holder)
            if first is None:
                first = holder
                waits(holder)
        pause(poll_s)

"""Counts of what a client did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ClientStats:
    """Counts over all streams, single requests and the preflight of one client.

    ``calls`` counts sends and ``retries`` those of them that were sent before. ``answered`` and ``failed`` count
    answers without and with ``call_error``. ``exposed_peak`` is the largest number of requests that were sent
    and not yet stored.
    """

    calls: int = 0
    retries: int = 0
    answered: int = 0
    failed: int = 0
    in_flight: int = 0
    exposed_peak: int = 0

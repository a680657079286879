"""Connections whose other end may be lost without a word. Standard library only."""

from __future__ import annotations

import socket

PROBES = 3


def end_when_lost(connection: socket.socket, silent_s: float) -> None:
    """Let the system end a connection whose other host has not answered for this time. What a system lacks is left."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    probe_s = max(1, round(silent_s / (PROBES + 1)))
    times = {
        "TCP_KEEPIDLE": probe_s,
        "TCP_KEEPINTVL": probe_s,
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": round(1000 * silent_s),
    }
    for name, value in times.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

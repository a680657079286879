"""The exit statuses of the command line, which results of verbs have too."""

from __future__ import annotations

EXIT_DONE = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_OVER_LIMIT = 3
"""A limit of quality, a requirement or an alarm."""
EXIT_STOPPED = 4
"""It ended early: the same command goes on."""

"""The stand-in for BigQuery as a process: see :mod:`tests.standins.googlesql.server`."""

from __future__ import annotations

from tests.standins.googlesql.server import main

if __name__ == "__main__":
    main()

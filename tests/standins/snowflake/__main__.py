"""The stand-in for Snowflake as a process: see :mod:`tests.standins.snowflake.server`."""

from __future__ import annotations

from tests.standins.snowflake.server import main

if __name__ == "__main__":
    main()

"""A run on a stand-in as a process of its own, with short times: ``python -m tests.support.warehouse_driver JSON``.

JSON has ``engine``, ``folder``, ``source``, ``schema``, ``lasts_s`` (the lease), ``clock_s`` (how far the clock of this
process is ahead), ``options`` of the run. It prints the report, or the error in one line with the exit status 1.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import sqlenrich as se
from tests.support.warehouse_runs import quick_backend


def shift_clock(seconds: float) -> None:
    """Let the clock be ahead for the modules of sqlenrich: clients in C crash with a datetime that is not theirs."""
    real_time, real = time.time, datetime.datetime

    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real.now(tz) + datetime.timedelta(seconds=seconds)

    time.time = lambda: real_time() + seconds
    for name, module in list(sys.modules.items()):
        if name.startswith("sqlenrich.") and getattr(module, "datetime", None) is real:
            vars(module)["datetime"] = Shifted


def main(given: dict[str, Any]) -> int:
    """Run to the end."""
    if given["clock_s"]:
        shift_clock(given["clock_s"])
    os.environ["DBT_PROFILES_DIR"] = given["folder"]
    prompt = Path(given["folder"]) / "tickets.prompt"
    backend = quick_backend(given["engine"], prompt, given["schema"], lasts_s=given["lasts_s"])
    try:
        report = se.run(se.load(prompt), input=given["source"], output=backend, **given["options"])
    except se.SqlenrichError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    print(report.to_json())  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))

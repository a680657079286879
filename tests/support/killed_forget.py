"""A program that forgets a row in processes of its own and kills each at another moment.

``python killed_forget.py PROMPT OUTPUT ID FOLDER COUNT`` copies the folder of the output COUNT times into FOLDER and
prints how many moments there are. A moment is a call or a return of a Python function or of a C function.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import sqlenrich as se
import sqlenrich.quality.forget.forget


def forget(prompt: Path, output: Path, key: str, kill_at: int, counted: int | None = None) -> None:
    """Forget a row; end the process by SIGKILL at a moment, or write the number of moments to a pipe."""
    enrichment, moments = se.load(prompt), 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal moments
        moments += 1
        if moments == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)
    sqlenrich.quality.forget.forget.forget(enrichment, output=output, row={"id": key})
    sys.setprofile(None)
    if counted is not None:
        os.write(counted, str(moments).encode())


def in_child(*arguments: Any) -> int:
    """Forget in a child process and give how it ended."""
    child = os.fork()
    if not child:
        status = 1
        try:
            forget(*arguments)
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def main() -> None:
    """Measure, then kill."""
    prompt, output, key, folder, count = (*sys.argv[1:5], int(sys.argv[5]))
    reading, writing = os.pipe()
    for place in range(count + 1):
        shutil.copytree(Path(output).parent, Path(folder) / str(place))
    last = Path(folder) / str(count) / Path(output).name
    assert in_child(prompt, last, key, 0, writing) == 0
    moments = int(os.read(reading, 20))
    for place in range(count):
        at = 1 + place * (moments - 1) // (count - 1)
        status = in_child(prompt, Path(folder) / str(place) / Path(output).name, key, at)
        assert os.WTERMSIG(status) == signal.SIGKILL, (at, status)
    sys.stdout.write(f"{moments}\n")


if __name__ == "__main__":
    main()

"""Classes that answer prompts, as a user writes them. Each counts its loads and calls in a folder."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


class Counting:
    """Answers with the letters of the last word of a prompt's first line."""

    def __init__(self, folder: str, fault: str = "", at: str = "poison") -> None:
        self.folder, self.fault, self.at = Path(folder), fault, at
        (self.folder / f"load-{os.getpid()}-{time.monotonic_ns()}").touch()
        print("loaded; this must not reach the run")  # noqa: T201
        if fault == "load":
            raise OSError("no such model: weights.bin")

    def __call__(self, prompts: list[str]) -> Any:
        (self.folder / f"call-{time.monotonic_ns()}").write_text(json.dumps(prompts))
        if any(self.at in prompt for prompt in prompts):
            if self.fault == "raise":
                raise ValueError(f"can't answer {self.at}")
            if self.fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "exit":
                sys.exit(3)
            if self.fault == "die once" and not (self.folder / "died").exists():
                (self.folder / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "hang":
                time.sleep(60)
            if self.fault == "silent":
                return [None] * len(prompts)
        answers: Any = [self.answer(prompt) for prompt in prompts]
        return {"fewer": answers[1:], "text": "one text", "bytes": [b"x"] * len(prompts)}.get(self.fault, answers)

    def answer(self, prompt: str) -> Any:
        return json.dumps({"word": prompt.splitlines()[0].rsplit(" ", 1)[-1]})


class Slow(Counting):
    """Takes a second for a batch."""

    def __call__(self, prompts: list[str]) -> Any:
        found = super().__call__(prompts)
        time.sleep(1)
        return found


class Vectors(Counting):
    """Answers with a vector of three numbers."""

    def answer(self, prompt: str) -> Any:
        return (len(prompt), 1, 0.5)


class Echo(Counting):
    """Answers with the prompt that it got."""

    def answer(self, prompt: str) -> Any:
        return json.dumps({"word": prompt})

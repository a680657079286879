"""The process of a local model: ``python -m sqlenrich.llm.local.worker`` loads the class once and answers batches.

The first message is what it loads, pickled; each further one is a JSON list of prompts. It answers with JSON:
``{"loaded": true}``, ``{"answers": [...]}``, ``{"raised": "..."}`` for a batch, ``{"broken": "..."}`` for a class that
can answer nothing. It ends with its input. What the class prints goes to stderr.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import orjson

from sqlenrich.core.plurals import counted
from sqlenrich.llm.endpoint.response import one_line, storable
from sqlenrich.llm.local.frames import read_frame, write_frame


class BrokenError(Exception):
    """What a class returned is no answer to its prompts."""


def answers_of(returned: object, prompts: Sequence[str], *, vectors: bool) -> list[str | None]:
    """Return what a class returned as texts. Raises BrokenError for another number or type."""
    if hasattr(returned, "tolist"):  # an array of NumPy or PyTorch
        returned = returned.tolist()
    if isinstance(returned, str) or not hasattr(returned, "__iter__"):
        raise BrokenError(f"it returned {type(returned).__name__}, not a list of {counted(len(prompts), 'answer')}")
    found = list(returned)
    if len(found) != len(prompts):
        raise BrokenError(f"it returned {counted(len(found), 'answer')} to {counted(len(prompts), 'prompt')}")
    return [_vector(one) if vectors else _text(one) for one in found]


def _text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise BrokenError(f"it returned an answer of type {type(value).__name__}, not str")
    return storable(value)


def _vector(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return orjson.dumps([float(number) for number in value]).decode()
    except (TypeError, ValueError):
        raise BrokenError(f"it returned a vector of type {type(value).__name__}, not numbers") from None


def serve(read: BinaryIO, write: BinaryIO) -> None:
    """Load the class of the first message and answer batches until the input ends."""
    first = read_frame(read)
    if first is None:
        return

    def tell(**facts: object) -> None:
        write_frame(write, orjson.dumps(facts))

    try:
        path, vectors, factory = pickle.loads(first)
        sys.path[:] = path
        model: Callable[[list[str]], object] = pickle.loads(factory)()
    except BaseException as error:  # a library may exit
        tell(broken=_described(error))
        return
    tell(loaded=True)
    while (raw := read_frame(read)) is not None:
        prompts = orjson.loads(raw)
        try:
            tell(answers=answers_of(model(list(prompts)), prompts, vectors=vectors))
        except BrokenError as error:
            tell(broken=str(error))
        except Exception as error:
            tell(raised=_described(error))


def _described(error: BaseException) -> str:
    text = str(error)
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def main() -> None:
    """Serve on what were the standard input and output; both are taken from the class."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends this process
    read, write = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    serve(read, write)


if __name__ == "__main__":
    main()

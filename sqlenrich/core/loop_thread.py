"""An event loop in a thread of its own, to which other threads give work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A thread that runs a loop from ``start`` to ``end``. It does not keep a process alive."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop or asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)

    @property
    def ended(self) -> bool:
        """Whether the loop takes no work any more."""
        return self.loop.is_closed()

    @property
    def is_current(self) -> bool:
        """Whether the caller is in the loop's thread, which must not wait for the loop."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        """Run the loop."""
        self._thread.start()

    def submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Run a coroutine in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the loop and give its result; it is cancelled if the caller is interrupted."""
        future = self.submit(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def post(self, action: Callable[..., object], *arguments: object) -> None:
        """Call a function in the loop, and do not wait. Nothing happens once the loop has ended."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(action, *arguments)

    def queue(self) -> SimpleQueue[Any]:
        """Return a queue by which the loop gives something to a caller, who waits for it."""
        return SimpleQueue()

    def end(self) -> None:
        """Cancel what still runs in the loop, end the thread and close the loop."""
        self.run(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop, or of asyncio where that is not installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()

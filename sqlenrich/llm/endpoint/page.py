"""Requests to an endpoint apart from a run's: from any thread, also from one whose event loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.endpoint.credentials import resolved_headers
from sqlenrich.llm.endpoint.http import HttpError, HttpPool, HttpResponse
from sqlenrich.llm.endpoint.route import find_route

AT_ONCE = 4


def send_all(
    endpoint: Endpoint, url: str, method: str, target: str, bodies: Sequence[bytes], *, timeout_s: float
) -> list[HttpResponse | HttpError | OSError]:
    """Return the response to each body, or why there is none. Raises ConfigError."""

    async def send() -> list[HttpResponse | HttpError | OSError]:
        pool = HttpPool(find_route(url, endpoint.client_cert, endpoint.client_key), headers, timeout_s=timeout_s)
        free = asyncio.Semaphore(AT_ONCE)

        async def one(body: bytes) -> HttpResponse | HttpError | OSError:
            async with free:
                try:
                    return await pool.send(method, target, body)
                except (HttpError, OSError) as error:
                    return error

        try:
            return await asyncio.gather(*map(one, bodies))
        finally:
            await pool.close()

    headers = resolved_headers(endpoint)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(send())).result()


def send_once(
    endpoint: Endpoint, url: str, method: str, target: str, body: bytes = b"", *, timeout_s: float
) -> HttpResponse:
    """Return the response of one of the endpoint's URLs. Raises HttpError, OSError or ConfigError."""
    (found,) = send_all(endpoint, url, method, target, [body], timeout_s=timeout_s)
    if isinstance(found, Exception):
        raise found
    return found

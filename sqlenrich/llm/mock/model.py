"""A model that invents valid answers, for trials, tests and benchmarks."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from sqlenrich.core import runtime
from sqlenrich.core.embedding import Embedding
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.mock.draw import Draw
from sqlenrich.llm.mock.sampler import MakeValidator, sampler
from sqlenrich.llm.model import Traits

FAILURES = ("bad_json", "missing_field", "error", "refusal", "truncation")
NAME = "mock"
_REFUSAL = "I'm sorry, but I can't help with that."
_CHARS_PER_TOKEN = 4


class MockModel:
    """A Model whose answers fit a schema and depend on the prompt, the attempt and ``seed`` alone.

    ``schema`` is the output's JSON Schema in its plain form. ``failures`` gives the share (0 to 1) of requests that
    fail in each of the FAILURES; each attempt at a prompt draws again. Where the schema requires no property,
    ``missing_field`` breaks the JSON text instead. ``latency_s`` is the time that an answer takes. ``validator`` gives
    the test of a schema's values. Keywords such as ``not`` and ``if`` need it: without it an answer may violate them.
    With ``embedding`` the answers are vectors of length 1.
    Raises ValueError for wrong failures, and for a schema without a possible value.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        failures: Mapping[str, float] | None = None,
        latency_s: float = 0.0,
        seed: int = 0,
        validator: MakeValidator | None = None,
        embedding: Embedding | None = None,
        name: str = NAME,
    ) -> None:
        shares = dict(failures or {})
        for kind, share in shares.items():
            if kind not in FAILURES:
                raise ValueError(f'unknown failure "{kind}": known are {", ".join(FAILURES)}')
            if not 0 <= share <= 1:
                raise ValueError(f"the share of {kind} must be from 0 to 1, not {share}")
        if math.fsum(shares.values()) > 1:
            raise ValueError("the shares of failures add up to more than 1")
        self.name = name
        self.latency_s = latency_s
        self.traits = Traits(answers=None if latency_s > 0 else self.answers)
        self._failure_limits = _failure_limits(shares)
        self._seed = f"{seed}\x00".encode()
        self._make = sampler(schema, validator) if embedding is None else partial(_unit_vector, embedding)
        self._writes = embedding is None
        self._required: list[str] = list(schema.get("required", ()))

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def ask(self, request: Request) -> Answer:
        """Return the answer, after ``latency_s``."""
        if self.latency_s > 0:
            await asyncio.sleep(self.latency_s)
        return self._answer(request, runtime.now())

    def answers(self, requests: list[Request]) -> list[Answer]:
        """Return all answers at once, without an event loop."""
        now = runtime.now()
        return [self._answer(request, now) for request in requests]

    def text(self, prompt: str, attempt: int = 1) -> str:
        """Return the text of a valid answer; ``failures`` don't apply."""
        return _json(self._make(self._draws(prompt, attempt)[1]))

    def _draws(self, prompt: str, attempt: int) -> tuple[Draw, Draw]:
        """Return the generators of failures and of values: two, so that failures don't change valid answers."""
        seed = self._seed + f"{attempt}\x00{prompt}".encode("utf-8", "surrogatepass")
        return Draw(b"fail" + seed, prompt), Draw(b"make" + seed, prompt)

    def _answer(self, request: Request, now: datetime) -> Answer:
        prompt = request.prompt
        chance, draw = self._draws(prompt, request.attempt)
        kind = self._failure(chance) if self._failure_limits else None
        response: str | None = None
        error: str | None = None
        reason: str | None = "stop"
        if kind == "error":
            error, reason = "mock: HTTP 500: a made-up failure", None
        elif kind == "refusal":
            response, reason = _REFUSAL, "refusal"
        else:
            value = self._make(draw)
            if kind == "missing_field" and isinstance(value, dict) and self._required:
                del value[chance.pick(self._required)]
                kind = None
            response = _json(value)
            if kind == "truncation":
                response, reason = _cut(response, chance), "length"
            elif kind is not None:
                response = _broken(response, chance)
        return Answer(
            request.request_hash,
            request.attempt,
            request.sent_hash or request.request_hash,
            response,
            error,
            error is not None,
            reason,
            self.name,
            None if error else len(prompt) // _CHARS_PER_TOKEN + 1,
            None if error else 0,
            None if response is None else len(response) // _CHARS_PER_TOKEN + 1 if self._writes else 0,
            round(self.latency_s * 1000),
            now,
            1,
        )

    def _failure(self, chance: Draw) -> str | None:
        point = chance.share()
        for kind, limit in self._failure_limits:
            if point < limit:
                return kind
        return None


def _unit_vector(embedding: Embedding, draw: Draw) -> dict[str, list[float]]:
    """Return a vector whose direction is random: equal texts have equal vectors, and others no likeness."""
    numbers = [2 * draw.share() - 1 for _ in range(embedding.dimensions)]
    length = math.sqrt(math.fsum(number * number for number in numbers)) or 1.0
    return {embedding.field: [round(number / length, 8) for number in numbers]}


def _failure_limits(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return each failure with the upper end of its part of the range 0 to 1, in the order of FAILURES."""
    limits = []
    total = 0.0
    for kind in FAILURES:
        if shares.get(kind, 0) > 0:
            total += shares[kind]
            limits.append((kind, total))
    return limits


def _json(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # integers of more than 64 bits, lone surrogates
        return json.dumps(value, separators=(",", ":"))


def _cut(text: str, chance: Draw) -> str:
    """Cut a JSON text so that the rest is invalid. A bracket is added before a number, whose prefix could be valid."""
    if text[0] not in '{["':
        return "[" + text
    return text[: 1 + chance.below(len(text) - 1)]


def _broken(text: str, chance: Draw) -> str:
    how = chance.below(4)
    if how == 0:
        return f"Sure! Here is the JSON you asked for:\n\n{text}\n\nLet me know if you need anything else."
    if how == 1:
        return f"```json\n{_cut(text, chance)}"
    if how == 2:
        return "The text does not say enough to answer in the form that was asked for."
    return _cut(text, chance) + "\n```"

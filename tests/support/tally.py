"""What an endpoint saw: its requests, counted and written to a log."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

REFUSED = 429


def load(raw: bytes) -> Any:
    """Return the value of a JSON text, lone surrogates allowed. Raises ValueError."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw)


def prompt_of(body: Any) -> str:
    """Return the last message's text, or all texts of a request for vectors.

    Raises LookupError or TypeError where there is none.
    """
    if "input" in body:
        if not is_response(body):
            return "\n".join(body["input"])
        last = body["input"] if isinstance(body["input"], str) else body["input"][-1]["content"]
        return last if isinstance(last, str) else "".join(part["text"] for part in last)
    if "prompt" in body:
        return str(body["prompt"])
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def is_response(body: Any) -> bool:
    """Whether a body is one of /responses: its input is one text or messages, that of a request for vectors texts."""
    found = body.get("input")
    return isinstance(found, str) or (isinstance(found, list) and found != [] and isinstance(found[0], dict))


def utf8(text: str) -> bytes:
    """Return the bytes of a text, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


@dataclass(eq=False, slots=True)
class Seen:
    """One request; ``status`` is what was sent for it (0 = nothing), ``at`` its monotonic time.

    ``complete``: a whole completion was sent. ``digest``: the prompt's SHA-256. ``tokens``: the prompt's and the
    answer's, as the limits count them. ``head``: header lines of its answer.
    """

    path: str
    body: bytes
    at: float
    authorization: str = ""
    status: int = 0
    fault: str = ""
    complete: bool = False
    digest: bytes = b""
    tokens: int = 0
    head: str = ""

    @property
    def prompt(self) -> str:
        """The user message."""
        return prompt_of(load(self.body))


class Tally:
    """Counts requests for completions; writes a line of JSON for each where it has a ``file``."""

    def __init__(self, file: Path | None = None) -> None:
        self._file: IO[str] | None = file.open("w", encoding="utf-8") if file is not None else None
        self._wall = time.time() - time.monotonic()
        self.under_way: set[Seen] = set()
        self.clear()

    def clear(self) -> None:
        """Begin to count anew. What is under way belongs to no count; the log goes on."""
        self.since = time.monotonic()
        self.requests = self.accepted = self.refused = self.complete = self.tokens = self.repeated = self.peak = 0
        self.status: Counter[int] = Counter()
        self.faults: Counter[str] = Counter()
        self.prompts: Counter[bytes] = Counter()
        self.first = self.last = 0.0
        self.timeline: dict[int, list[int]] = {}

    def begin(self, seen: Seen) -> None:
        """Count a request that came."""
        self.requests += 1
        self.under_way.add(seen)
        self.peak = max(self.peak, len(self.under_way))
        self.prompts[seen.digest] += 1
        self.repeated += self.prompts[seen.digest] == 2

    def admitted(self, seen: Seen, *, fits: bool) -> None:
        """Count a request that the limits took in, or refused."""
        second = self.timeline.setdefault(int(seen.at + self._wall), [0, 0, 0])
        if not fits:
            self.refused += 1
            second[1] += 1
            return
        self.accepted += 1
        self.first, self.last = self.first or seen.at, seen.at
        self.tokens += seen.tokens
        second[0] += 1
        second[2] += seen.tokens

    def end(self, seen: Seen) -> None:
        """Count a request that nothing more is sent for. A second end of the same request changes nothing."""
        if seen not in self.under_way:
            return
        self.under_way.remove(seen)
        if seen.at >= self.since:
            self.status[seen.status] += 1
            self.complete += seen.complete
            if seen.fault:
                self.faults[seen.fault] += 1
        if self._file is not None:
            self._file.write(
                f'{{"at":{seen.at + self._wall:.6f},"seconds":{time.monotonic() - seen.at:.6f},'
                f'"prompt":"{seen.digest.hex()}","status":{seen.status},"fault":"{seen.fault}",'
                f'"complete":{"true" if seen.complete else "false"},"tokens":{seen.tokens}}}\n'
            )

    def stats(self) -> dict[str, Any]:
        """Return the counts; the log file holds all of them from here on."""
        self.flush()
        return {
            "requests": self.requests,
            "in_flight": len(self.under_way),
            "in_flight_peak": self.peak,
            "accepted": self.accepted,
            "refused": self.refused,
            "status": {str(status): count for status, count in sorted(self.status.items())},
            "faults": dict(self.faults),
            "complete": self.complete,
            "share_429": round(self.status[REFUSED] / max(sum(self.status.values()), 1), 6),
            "tokens_accepted": self.tokens,
            "distinct_prompts": len(self.prompts),
            "prompts_sent_more_than_once": self.repeated,
            "first_accepted": self.first and self.first + self._wall,
            "last_accepted": self.last and self.last + self._wall,
        }

    def seconds(self) -> list[dict[str, int]]:
        """Return each second with requests: its Unix time, requests accepted and refused, tokens accepted."""
        names = ("accepted", "refused", "tokens")
        return [{"at": at, **dict(zip(names, counts, strict=True))} for at, counts in sorted(self.timeline.items())]

    def flush(self) -> None:
        """Write what the log still holds back."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Log what is under way as unanswered, and close the log."""
        for seen in sorted(self.under_way, key=lambda one: one.at):
            self.end(seen)
        if self._file is not None:
            self._file.close()
            self._file = None

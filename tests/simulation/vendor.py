"""A simulated vendor of batches: its side lives as long as the seed, and its replies may be lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.batch.answer_lines import read_line
from sqlenrich.llm.batch.errors import (
    DamagedFileError,
    EnqueuedLimitError,
    GoneError,
    OverLimitsError,
    ReplyLostError,
    UnavailableError,
)
from sqlenrich.llm.batch.request_file import request_line
from sqlenrich.llm.batch.vendor import (
    CLOCK_SKEW,
    BatchCounts,
    BatchInfo,
    BatchLimits,
    BatchRequest,
    BatchResults,
    oldest_first,
)
from sqlenrich.llm.batch.vendors import batch_body
from sqlenrich.llm.endpoint.adaptations import RequestChange
from sqlenrich.llm.endpoint.wire.forms import Body
from tests.simulation.network import completion
from tests.simulation.world import World

FATES = ("answered", "answered", "answered", "failed", "expired", "lost", "twice", "foreign")
"""What may become of single requests: ``failed`` has status 500, ``lost`` has no line, ``twice`` two of them."""

BUSY_VENDOR = "the vendor is busy"
SPOILED = {"damaged": DamagedFileError, "broken-off": UnavailableError}
"""What ends the reading of answers after half of them."""
CALLS = {"too-many": "create", "refused": "create", "unheard": "create", **dict.fromkeys((*SPOILED, "gone"), "results")}
"""The call that such a fault waits for; all others happen to any call."""


@dataclass(frozen=True)
class VendorNature:
    """How the vendor is, without single faults."""

    keeps_keys: bool
    """Whether it tells the key of a batch."""
    list_late_s: float
    """The time after which its list shows a file or a batch."""
    longest_s: float
    """The time that a batch takes at most."""
    odd: float
    """The share of the requests that are not just answered."""
    others: float = 0.0
    """The share of the created batches beside which somebody else creates one of as many requests."""


@dataclass
class SentFile:
    """A file of requests: the prompts by their ids."""

    key: str
    prompts: dict[str, str]
    at: float


@dataclass
class SentBatch:
    """A batch at the vendor, and what becomes of each of its requests."""

    key: str
    file_id: str
    at: float
    ends_at: float
    prompts: dict[str, str]
    fates: dict[str, str]
    cancelled_at: float | None = None
    """When the run cancelled it, before anything of it was asked."""
    halted: bool = False
    """Whether somebody else cancelled it, while it was asked."""
    refused: bool = False
    """Whether the vendor takes it, and then finds that too many tokens wait already."""
    gone: bool = False
    """Whether its answers are no longer there."""
    is_others: bool = False

    def state_at(self, seconds: float) -> str:
        """Return its state at a time."""
        if self.cancelled_at is not None or self.halted:
            return "cancelled"
        if seconds < self.ends_at:
            return "in_progress"
        if self.refused:
            return "failed"
        return "expired" if "expired" in self.fates.values() else "ended"


@dataclass
class VendorSide:
    """What the vendor has, over all lives. ``at_call`` tells what happens to a call of a number and a name."""

    world: World
    seed: int
    nature: VendorNature
    at_call: Callable[[str], str]
    files: dict[str, SentFile] = field(default_factory=dict)
    batches: dict[str, SentBatch] = field(default_factory=dict)

    @property
    def own(self) -> list[SentBatch]:
        """The batches that the runs created."""
        return [one for one in self.batches.values() if not one.is_others]

    def requests(self) -> int:
        """Return the requests of the runs' batches."""
        return sum(len(one.prompts) for one in self.own)

    def paid(self) -> list[str]:
        """Return the prompts of all answers that batches have or will have."""
        return [
            one.prompts[id]
            for one in self.own
            if one.cancelled_at is None and not one.gone
            for id, fate in one.fates.items()
            if fate in ("answered", "twice", "foreign")
        ]

    def failed(self, prompt: str) -> int:
        """Return how often a prompt got no answer in a batch."""
        return sum(
            one.prompts[id] == prompt
            for one in self.own
            for id, fate in one.fates.items()
            if fate in ("failed", "lost")
        )

    def create(self, key: str, file_id: str, *, refused: bool = False) -> str:
        """Begin a batch and draw what becomes of it."""
        file = self.files[file_id]
        id = f"batch_{len(self.batches) + 1}"
        draw = random.Random(f"{id} {self.seed}")
        now, odd = self.world.seconds, self.nature.odd
        fates = {one: draw.choice(FATES) if draw.random() < odd else "answered" for one in file.prompts}
        ends_at = now + draw.uniform(1.0, self.nature.longest_s)
        if refused:
            fates, ends_at = dict.fromkeys(fates, "unasked"), now + draw.uniform(1.0, 60.0)
        self.batches[id] = SentBatch(key, file_id, now, ends_at, file.prompts, fates, refused=refused)
        self.world.note(f"{id} of {key}: {len(fates)} requests, ends after {ends_at - now:,.0f} s")
        return id

    def let_others_create(self, requests: int) -> None:
        """Let somebody else create a batch of as many requests, or not."""
        id = f"batch_{len(self.batches) + 1}"
        draw = random.Random(f"others {id} {self.seed}")
        if draw.random() < self.nature.others:
            prompts = {f"{id}-{number}": f"of others {number}" for number in range(requests)}
            ends_at = self.world.seconds + draw.uniform(1.0, self.nature.longest_s)
            fates = dict.fromkeys(prompts, "answered")
            self.batches[id] = SentBatch("others", "", self.world.seconds, ends_at, prompts, fates, is_others=True)
            self.world.note(f"{id} of others: {requests} requests")

    def halt(self) -> bool:
        """Cancel an open batch by somebody else: half of it is asked already. Tell whether there was one."""
        for id, one in self.batches.items():
            if not one.is_others and one.state_at(self.world.seconds) == "in_progress":
                draw = random.Random(f"halted {id} {self.seed}")
                one.fates = {name: fate if draw.random() < 0.5 else "unasked" for name, fate in one.fates.items()}
                one.halted, one.ends_at = True, self.world.seconds
                self.world.note(f"somebody cancels {id}")
                return True
        return False


class SimVendor:
    """The client of :class:`VendorSide`; see :class:`sqlenrich.llm.batch.vendor.BatchVendor`."""

    name = "sim"

    def __init__(self, side: VendorSide, body: Body, shown: str) -> None:
        self.side, self.shown, self._body = side, shown, body
        self.limits = BatchLimits(1000, 1_000_000)
        self._kind = ""
        """What happens to the last call."""

    def __enter__(self) -> SimVendor:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def request(self, custom_id: str, prompt: str) -> BatchRequest:
        return BatchRequest(custom_id, self._body.of((prompt,)))

    def line(self, request: BatchRequest) -> bytes:
        return request_line(request, "/v1/chat/completions")

    def upload(self, key: str, lines: Iterable[bytes]) -> str:
        asked = [json.loads(line) for line in lines]
        prompts = {one["custom_id"]: one["body"]["messages"][-1]["content"] for one in asked}
        if len(asked) > self.limits.requests:
            raise OverLimitsError(f"{len(asked)} requests, at most {self.limits.requests}")

        def done() -> str:
            id = f"file_{len(self.side.files) + 1}"
            self.side.files[id] = SentFile(key, prompts, self.side.world.seconds)
            return id

        return str(self._called("upload", done))

    def find_upload(self, key: str, since: datetime) -> str | None:
        del since
        self._called("list", lambda: None)
        found = [id for id, one in self.side.files.items() if one.key == key and self._listed(one.at)]
        return found[0] if found else None

    def create(self, key: str, file_id: str) -> BatchInfo:
        self.side.let_others_create(len(self.side.files[file_id].prompts))
        return self._info(
            self._called("create", lambda: self.side.create(key, file_id, refused=self._kind == "refused"))
        )

    def find(self, key: str, since: datetime, requests: int, custom_ids: Collection[str]) -> list[BatchInfo]:
        self._called("list", lambda: None)
        found = []
        for id, one in self.side.batches.items():
            if not self._listed(one.at) or self._moment(one.at) < since - CLOCK_SKEW:
                continue
            if self.side.nature.keeps_keys:
                if one.key == key:
                    found.append(self._info(id))
            elif len(one.prompts) == requests:
                ended = one.state_at(self.side.world.seconds) != "in_progress"
                if not ended:
                    found.append(self._info(id))
                elif set(one.prompts) <= set(custom_ids):
                    found.append(replace(self._info(id), key=key))
        return oldest_first(found)

    def state(self, vendor_id: str) -> BatchInfo:
        self._called("state", lambda: None)
        if vendor_id not in self.side.batches:
            raise GoneError(f"no batch {vendor_id}")
        return self._info(vendor_id)

    def results(self, info: BatchInfo) -> BatchResults:
        self._called("results", lambda: None)
        one = self.side.batches[info.vendor_id]
        one.gone |= self._kind == "gone"
        if one.gone:
            raise GoneError(f"the answers of {info.vendor_id} are not there any more")
        lines: list[bytes] = []
        if one.state_at(self.side.world.seconds) == "in_progress":
            return BatchResults(iter(()))
        for id, prompt in one.prompts.items():
            fate = one.fates[id] if one.cancelled_at is None else "expired"
            lines += _lines(id, prompt, fate)
        return BatchResults(self._read(lines, self._kind))

    def cancel(self, vendor_id: str) -> BatchInfo:
        def done() -> None:
            one = self.side.batches[vendor_id]
            if one.state_at(self.side.world.seconds) == "in_progress":
                one.cancelled_at = self.side.world.seconds

        self._called("cancel", done)
        return self._info(vendor_id)

    def _read(self, lines: Sequence[bytes], kind: str) -> Any:
        for number, line in enumerate(lines):
            if kind in SPOILED and number >= len(lines) // 2:
                raise SPOILED[kind]("the answers broke off")
            yield read_line(line, self._body.read, self.shown)

    def _called(self, name: str, do: Callable[[], Any]) -> Any:
        """Do what a call asks for, or fail; a lost reply may come before and after the vendor did it."""
        side = self.side
        side.world.elapse(0.2)
        kind = self._kind = side.at_call(name)
        makes = name in ("upload", "create")
        if kind == "unavailable":
            raise UnavailableError(BUSY_VENDOR, 1.0)
        if kind == "too-many" and name == "create":
            raise EnqueuedLimitError("too many tokens wait already")
        if kind == "lost-before":
            raise ReplyLostError("no reply") if makes else UnavailableError("no reply")
        found = do()
        if kind in ("lost-after", "unheard"):
            raise ReplyLostError("no reply") if makes else UnavailableError("no reply")
        side.world.moment("called")
        return found

    def _listed(self, at: float) -> bool:
        return self.side.world.seconds >= at + self.side.nature.list_late_s

    def _moment(self, seconds: float) -> datetime:
        return self.side.world.moment_of(seconds)

    def _info(self, id: str) -> BatchInfo:
        one, now = self.side.batches[id], self.side.world.seconds
        state: Any = one.state_at(now)
        ended = state != "in_progress"
        return BatchInfo(
            vendor_id=id,
            key=one.key if self.side.nature.keeps_keys else None,
            state=state,
            created_at=self._moment(one.at),
            requests=len(one.prompts),
            failure=EnqueuedLimitError("too many tokens wait already") if state == "failed" else None,
            counts=BatchCounts(len(one.prompts)) if ended else BatchCounts(open=len(one.prompts)),
            input_file=one.file_id,
            output_files=("out",) if ended and state != "failed" else (),
            ended_at=self._moment(min(one.ends_at, now)) if ended else None,
        )


def _lines(id: str, prompt: str, fate: str) -> list[bytes]:
    """Return the lines of a request in the file of the answers."""
    body = json.loads(completion(prompt))
    good = {"custom_id": id, "response": {"status_code": 200, "request_id": "r", "body": body}, "error": None}
    if fate in ("lost", "unasked"):
        return []
    if fate == "failed":
        error = {"error": {"message": "upstream failed", "code": "server_error"}}
        return [_dumped({"custom_id": id, "response": {"status_code": 500, "body": error}})]
    if fate == "expired":
        return [_dumped({"custom_id": id, "response": None, "error": {"code": "batch_expired", "message": "late"}})]
    foreign = [_dumped({**good, "custom_id": f"{id[:-1]}?"})] if fate == "foreign" else []
    return [_dumped(good)] * (2 if fate == "twice" else 1) + foreign


def _dumped(value: object) -> bytes:
    return json.dumps(value).encode()


def vendor_maker(side: VendorSide) -> Callable[[Endpoint, Any, Sequence[RequestChange]], SimVendor]:
    """Return what a run makes its vendor with."""

    def make(endpoint: Endpoint, config: Any, changes: Sequence[RequestChange]) -> SimVendor:
        return SimVendor(side, batch_body(endpoint, config, changes), endpoint.url)

    return make

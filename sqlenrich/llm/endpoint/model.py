"""The model behind an OpenAI-compatible endpoint: vLLM, a gateway, a vendor's API."""

from __future__ import annotations

import asyncio
import errno
import random
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import urlsplit

import orjson

from sqlenrich.core.errors import RunError, did_you_mean
from sqlenrich.llm.endpoint.config import EndpointConfig, body_parts
from sqlenrich.llm.endpoint.http import Reply, Wire, WireConnectError, WireError, WireTimeoutError
from sqlenrich.llm.endpoint.response import (
    Completion,
    Fault,
    judge,
    load_json,
    one_line,
    read_completion,
    read_error,
    retry_after,
    storable,
)
from sqlenrich.llm.endpoint.truncation import CutWatch
from sqlenrich.llm.endpoint.urls import ALIKE, CLOSED_ALIKE, Failure, Refusals, Site, secrets_of, unreached_text
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.model import OUTAGE_S, Pulse
from sqlenrich.llm.throttle.budget import Caps
from sqlenrich.llm.throttle.concurrency import Finding
from sqlenrich.llm.throttle.limiter import Door, Gate, Ticket
from sqlenrich.llm.throttle.rate_headers import read_limits

__all__ = ["EndpointConfig", "EndpointModel"]

BACKOFF_S = 0.5
BACKOFF_CAP_S = 30.0
ANSWERING_CAP_S = 5.0
"""So long a wait at most while others are answered: there the trouble is not the endpoint's for good."""
PROBES = 3
PROBE_TRIES = 2
REVIVE_S = (0.0, 0.25, 0.5, 1.0, 2.0, 5.0)
TELL_EVERY_S = 60.0
BUSY = frozenset({429, 503})
BUSY_S = 65.0
"""A run that begins where a limit is met waits so long: until a minute that others used up is over."""
PROBE_S = 10.0


class EndpointModel:
    """A Model that posts one user message per request to ``url``/chat/completions.

    429, 5xx, connection troubles, timeouts and bodies that are no completion are sent again, at most
    ``max_tries`` times in all (a limit that was met counts apart), after ``Retry-After`` (up to 60 s; another url may
    take it before) and a random
    wait that grows (up to 5 s, and to 30 s where nothing is answered). Where there are several urls, each request goes
    to the one with most room; one that can't be reached gets none until it answers a probe, and one that refuses all
    (a wrong key, no such model) none any more. ``gate`` decides when a request is sent.
    An answer's ``asked_at`` and ``latency_ms`` are those of its last try.
    """

    def __init__(self, config: EndpointConfig, *, caps: Caps | None = None, gate: Gate | None = None) -> None:
        self.name = config.model
        self.config = config
        self.timeout_s = config.timeout_s
        self.pulse = Pulse()
        self.sites = tuple(Site.of(url) for url in config.urls)
        self.gate = gate or Gate(len(self.sites), config.limits, max_out=config.max_out, caps=caps)
        self.warnings: list[str] = []
        self._before, self._after, self._sent = body_parts(config)
        self._wires: tuple[Wire, ...] = ()
        self._answered: set[int] = set()
        self._refusals = tuple(Refusals() for _ in self.sites)
        self._reviving: set[asyncio.Task[None]] = set()
        self._cut = CutWatch()
        self._told_at: dict[str, float] = {}
        self._secrets = secrets_of(config)

    def __repr__(self) -> str:
        return f"EndpointModel({', '.join(site.shown for site in self.sites)!r}, model={self.name!r})"

    def body(self, prompt: str) -> bytes:
        """Give the exact bytes of the request for a prompt."""
        try:
            content = orjson.dumps(prompt)
        except TypeError:
            content = orjson.dumps(storable(prompt))
        return self._before + content[:-1] + self._after

    async def open(self) -> None:
        """Make the pool of connections; nothing is sent yet."""
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "sqlenrich"}
        if self.config.api_key:
            headers["authorization"] = f"Bearer {self.config.api_key}"
        self._wires = tuple(Wire(urlsplit(site.url), headers, timeout_s=self.config.timeout_s) for site in self.sites)
        self.gate.max_out = self.config.max_out  # of several models at one gate, each has its own
        self.gate.on_down = self._down
        self.gate.on_limit = self._limited
        self.gate.on_learnt = self._learnt
        self.gate.reopen()

    async def close(self) -> None:
        """Close all connections."""
        for task in self._reviving:
            task.cancel()
        wires, self._wires = self._wires, ()
        for wire in wires:
            await wire.close()

    async def ask(self, request: Request) -> Answer:
        """Give the answer to one request. Raises RunError where every request would fail, or Stopped."""
        return (await self._ask(request, self.config.max_tries, probing=False))[0]

    async def probe(self, requests: Sequence[Request], answers: list[Answer], *, suspect: bool) -> None:
        """Ask up to three requests, one after another, until one is answered with HTTP 200.

        Raises RunError after two tries where nobody listens, and where all of them are refused or fail alike, but
        for ``suspect`` ones: those failed before.
        """
        faults = []
        for request in requests[:PROBES]:
            tries = max(min(PROBE_TRIES, self.config.max_tries), len(self.sites))
            answer, fault, shown = await self._ask(request, tries, probing=True)
            answers.append(answer)
            if fault is None:
                return
            faults.append(fault)
        if suspect:
            return
        if faults and set(faults) == {Fault.UNCLEAR}:
            raise RunError(f"{shown} refuses the requests: {answers[-1].call_error}")
        if faults and set(faults) == {Fault.AGAIN}:
            raise RunError(f"{shown} fails: {answers[-1].call_error}; look at the server, then run again")

    async def _ask(self, request: Request, tries: int, *, probing: bool) -> tuple[Answer, Fault | None, str]:
        """Give the answer, the fault where it has one, and the endpoint of the last try."""
        body = self.body(request.prompt)
        gate = self.gate
        size = len(body)
        calls = failures = refusals = 0
        while True:
            ticket = gate.try_enter(size) or await gate.enter(size, again=calls > 0)
            site = self.sites[ticket.door.number]
            asked_at = datetime.now(UTC)
            started = time.monotonic()
            self.pulse.sent(again=calls > 0)
            calls += 1
            try:
                result = await self._send(body, ticket)
            except BaseException:
                gate.leave(ticket, begun=True)
                raise
            latency_ms = round((time.monotonic() - started) * 1000)
            if isinstance(result, Completion):
                gate.answered(ticket, result.tokens_in, result.tokens_out, result.tokens_cached)
                self.pulse.alive()
                if result.tokens_in is not None:
                    self._compare(request.prompt, result.tokens_in, site)
                break
            if result.closes:
                last = self._close(ticket.door, result.closes, probing=probing)
                gate.leave(ticket)
                if last:
                    raise RunError(result.closes)
                continue
            if result.fault is not Fault.AGAIN:
                gate.answered(ticket, 0, 0)
                self.pulse.alive()
                break
            self.pulse.failed(started, result.text)
            elsewhere = False
            if result.busy:
                refusals += 1
                gate.refused(ticket, result.wait_s)
                if probing:
                    exhausted = refusals >= self.config.max_tries and self.pulse.down_s() >= BUSY_S
                else:
                    exhausted = refusals >= self.config.max_refusals
            else:
                failures += 1
                gate.failed(ticket, unreachable=result.unreachable, timeout=result.timeout, begun=result.begun)
                exhausted = failures >= tries
                elsewhere = self._elsewhere(ticket.door, result)
                if not (exhausted or probing or elsewhere or self.pulse.may_retry()):
                    # The longer nothing succeeds, the more rarely a row is given up.
                    await self.pulse.pause(random.uniform(0.0, max(BACKOFF_S, self.pulse.down_s() / 4)))
                    exhausted = True
            if exhausted:
                if probing and result.unreachable:
                    raise RunError(f"{site.shown}: {result.text}; start the server there or correct the url")
                break
            wait_s = 0.0 if self._another(ticket.door) else result.wait_s
            await self.pulse.pause(wait_s + (0.0 if elsewhere else self._backoff(calls - 1)))
        done = result if isinstance(result, Completion) else Completion(None, None, None, None, None)
        failure = result if isinstance(result, Failure) else None
        answer = Answer(
            request_hash=request.request_hash,
            attempt=request.attempt,
            sent_hash=request.sent_hash or request.request_hash,
            response=done.text,
            call_error=failure.text if failure else None,
            retryable=failure is not None and failure.fault is Fault.AGAIN,
            finish_reason=done.finish_reason,
            model=self.name,
            tokens_in=done.tokens_in,
            tokens_cached=done.tokens_cached,
            tokens_out=done.tokens_out,
            latency_ms=latency_ms,
            asked_at=asked_at,
            calls=calls,
        )
        return answer, failure.fault if failure else None, site.shown

    def _backoff(self, doublings: int) -> float:
        """Give a wait between nothing and a ceiling that doubles: full jitter keeps requests from meeting again."""
        most = BACKOFF_CAP_S if self.pulse.down_s() > OUTAGE_S else ANSWERING_CAP_S
        return random.uniform(0.0, min(most, BACKOFF_S * 2.0 ** min(doublings, 16)))

    def _elsewhere(self, door: Door, failure: Failure) -> bool:
        """Say whether a request that failed at a door goes to another one now."""
        return failure.unreachable and not door.up and any(other.up for other in self.gate.doors)

    def _another(self, door: Door) -> bool:
        """Say whether another door than the one that asks to wait takes requests."""
        now = time.monotonic()
        return any(other.up and other.held_s(now) <= 0 for other in self.gate.doors if other is not door)

    def _compare(self, prompt: str, tokens_in: int, site: Site) -> None:
        """Warn once of an endpoint that reads less than it is sent."""
        if (ours := self._cut.found(prompt, tokens_in)) is not None:
            self.warnings.append(
                f"warning: {site.shown} counts {tokens_in:,} tokens for a prompt of about {ours:,}; it seems "
                "to cut long prompts without a word (Ollama: num_ctx); raise its context, or set max_input_tokens"
            )

    def _close(self, door: Door, why: str, *, probing: bool) -> bool:
        """Leave an endpoint to itself until the run ends; tell whether it is the last one, which is not left.

        Another that is down may come back in a run; at its start nobody waits for that.
        """
        others = [other for other in self.gate.doors if other is not door and not other.closed]
        last = not any(other.up or not probing for other in others)
        if not (last or door.closed):
            self.gate.close_door(door)
            self.warnings.append(f"warning: {why}; this run goes on without it")
        return last

    def _limited(self, door: Door, setting: str, a_minute: int) -> None:
        what = "requests" if setting == "rpm" else f"{setting.removesuffix('tpm').replace('_', ' ')}tokens"
        todo = "" if len(self.sites) > 1 else f"; {setting} = {a_minute} in its settings begins there"
        self.warnings.append(f"{self.sites[door.number].shown} allows about {a_minute:,} {what} a minute{todo}")

    def _learnt(self, door: Door, finding: Finding) -> None:
        fixed = self.gate.fixed is not None
        line = finding.to_text(self.config.limits.rpm, alone=len(self.sites) == 1, fixed=fixed)
        self.warnings.append(f"{self.sites[door.number].shown} {line}")

    def _down(self, door: Door) -> None:
        site = self.sites[door.number]
        told = len(self.sites) > 1 and time.monotonic() - self._told_at.get(site.shown, float("-inf")) > TELL_EVERY_S
        if told:
            self._told_at[site.shown] = time.monotonic()
            self.warnings.append(f"{site.shown} can't be reached ({self.pulse.trouble}): its requests go elsewhere")
        task = asyncio.get_running_loop().create_task(self._revive(door, told=told))
        self._reviving.add(task)
        task.add_done_callback(self._reviving.discard)

    async def _revive(self, door: Door, *, told: bool) -> None:
        """Ask an endpoint that is down whether it answers again, ever less often."""
        site = self.sites[door.number]
        tries = max(door.rests - 1, 0)
        while self._wires and not door.closed:
            began = time.monotonic()
            await asyncio.sleep(REVIVE_S[min(tries, len(REVIVE_S) - 1)] * random.uniform(0.5, 1.0))
            tries += 1
            try:
                reply = await self._wires[door.number].send("GET", site.models, timeout_s=PROBE_S)
            except (WireError, OSError) as error:
                with suppress(RunError):
                    failure = self._unreached(door.number, error)
                    # What was in flight may be answered after its endpoint closed to others.
                    if not any(other.up for other in self.gate.doors):
                        self.pulse.failed(began, failure.text)
                continue
            # Whatever it says, somebody listens: only a request finds out whether requests are taken.
            self.gate.open_door(door)
            if told and reply.status < 500:
                self.warnings.append(f"{site.shown} answers again")
            return

    async def _send(self, body: bytes, ticket: Ticket) -> Completion | Failure:
        if not self._wires:
            raise RuntimeError("the model is not open")
        number = ticket.door.number
        site = self.sites[number]
        try:
            reply = await self._wires[number].send("POST", site.chat, body)
        except (WireError, OSError) as error:
            return self._unreached(number, error)
        self.gate.told(ticket, read_limits(reply.headers), all_of_it=reply.status == 200)
        if reply.status != 200:
            return await self._judged(site, number, reply)
        try:
            completion = read_completion(reply.body)
        except ValueError:
            return Failure(self._why_not(reply.body), begun=True)
        self._answered.add(number)
        self._refusals[number].over()
        return completion

    def _why_not(self, raw: bytes) -> str:
        # Read again without secrets, for the text shows a part of it, and may cut one in two.
        try:
            read_completion(self._hide_bytes(raw))
        except ValueError as error:
            return self._hide(one_line(str(error)))
        return "the answer is not JSON"

    async def _judged(self, site: Site, number: int, reply: Reply) -> Failure:
        """Give what an HTTP status other than 200 says of the row, or of all rows."""
        message, code, param = read_error(self._hide_bytes(reply.body))
        wait_s = retry_after(reply.headers.get("retry-after"), message)
        fault = judge(reply.status, message, code, param, self._sent, waits=wait_s is not None)
        text = self._hide(one_line(f"HTTP {reply.status}: {message or reply.reason or 'no message'}"))
        latency_s = self.gate.doors[number].latency_s or 0.0
        in_a_row = self._refusals[number].met(fault, text, latency_s, time.monotonic())
        passing = fault is Fault.PLACE or (fault is Fault.KEY and reply.status == 403)
        if passing and number in self._answered and in_a_row < CLOSED_ALIKE:
            fault = Fault.AGAIN  # a firewall refuses some texts, and a page is away for a moment
        if fault is Fault.AGAIN:
            return Failure(text, wait_s=wait_s or 0.0, busy=reply.status in BUSY)
        if fault is Fault.KEY:
            what = "refuses the key" if self.config.api_key else "wants a key"
            todo = "set the variable that api_key_env names, or OPENAI_API_KEY"
            return Failure(text, fault, closes=f"{site.shown} {what} ({text}): {todo}")
        if fault is Fault.QUOTA:
            return Failure(text, fault, closes=f"{site.shown}: the quota is used up ({text}): raise it, then run again")
        if fault is Fault.PLACE:
            return Failure(text, fault, closes=await self._misplaced(number, reply.status, text))
        if fault is Fault.RUN and number not in self._answered:
            return Failure(text, fault, closes=f"{site.shown} refuses what every request sends: {text}")
        if in_a_row >= ALIKE:
            return Failure(text, fault, closes=f"{site.shown} refused {in_a_row} requests in a row alike: {text}")
        return Failure(text, fault)

    def _unreached(self, number: int, error: Exception) -> Failure:
        """Give the failure of a try without an HTTP answer. Raises RunError for what is this machine's fault."""
        if isinstance(error, ssl.SSLCertVerificationError) or (
            isinstance(error, ssl.SSLError) and number not in self._answered
        ):
            todo = "correct the url (http or https) or the certificate"
            text = self._hide(one_line(str(error)))
            return Failure(text, closes=f"{self.sites[number].shown}: TLS failed ({text}): {todo}")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            todo = "lower concurrency, or raise `ulimit -n`"
            raise RunError(f"too many open files for that many connections: {todo}") from None
        text = self._hide(one_line(unreached_text(error)))
        begun = isinstance(error, WireError) and not isinstance(error, WireConnectError)
        return Failure(text, unreachable=True, timeout=isinstance(error, WireTimeoutError), begun=begun)

    async def _misplaced(self, number: int, status: int, text: str) -> str:
        """Give the line that says what is wrong with the url or the model's name."""
        site = self.sites[number]
        if status != 404:
            return f"{site.shown} doesn't take requests ({text}): correct the url"
        names = await self._offered(number)
        if names and self.name not in names:
            shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            near = did_you_mean(self.name, names)
            return f'{site.shown} has no model "{self.name}"{near}; set one that it offers: {shown}'
        todo = "correct the url (it usually ends in /v1) or the model's name"
        return f"{site.shown}/chat/completions: {text}; {todo}"

    async def _offered(self, number: int) -> list[str]:
        try:
            reply = await self._wires[number].send("GET", self.sites[number].models, timeout_s=PROBE_S)
            body = load_json(reply.body)
        except (WireError, OSError, ValueError, RecursionError):
            return []
        data = body.get("data") if isinstance(body, dict) else None
        found = [one.get("id") for one in data if isinstance(one, dict)] if isinstance(data, list) else []
        return [one_line(name)[:100] for name in found if isinstance(name, str)]

    def _hide(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _hide_bytes(self, raw: bytes) -> bytes:
        for secret in self._secrets:
            raw = raw.replace(secret.encode(), b"***")
        return raw

"""What a failed try says of the request, of the endpoint, and of the run."""

from __future__ import annotations

import errno
import re
import ssl
from dataclasses import dataclass, replace

import orjson

from sqlenrich.core import runtime
from sqlenrich.core.errors import RunError, did_you_mean
from sqlenrich.llm.endpoint.canary import Canary
from sqlenrich.llm.endpoint.connect import ProxyError
from sqlenrich.llm.endpoint.connections import Connections
from sqlenrich.llm.endpoint.failure import MEND_KEY, Failure, RefusalCounter, unreached_text
from sqlenrich.llm.endpoint.http import (
    HttpConnectError,
    HttpError,
    HttpResponse,
    HttpTimeoutError,
    HttpTooLongError,
)
from sqlenrich.llm.endpoint.response import (
    Fault,
    classify_status,
    load_json,
    one_line,
    read_error,
    retry_wait,
)
from sqlenrich.llm.endpoint.urls import Secrets, shown_url
from sqlenrich.llm.endpoint.wire.forms import Body

BUSY = frozenset({429, 503, 529})
"""The statuses of a limit that was met. 529 is Anthropic's for an overload."""
SHOWN_MODELS = 20
_WANTS_CERTIFICATE = re.compile("alert.(certificate|bad.certificate|unknown.ca)", re.IGNORECASE)
SHOWN_NAME_CHARS = 100


@dataclass(frozen=True)
class RefusalPolicy:
    """When refusals of requests become a refusal of the run."""

    alike: int = 100
    """An endpoint is disabled after this many refusals in a row with the same text, ..."""
    disabled_alike: int = 5
    """... or after this many for its key or its URL, ..."""
    alike_s: float = 3.0
    """... where they last this long and the time of two answers, and the canary fails as well."""
    page_timeout_s: float = 10.0
    """The timeout of ``/models``."""


class FailureReader:
    """Reads the failures of all URLs of an endpoint. One request that fails says nothing of the others.

    A wrong key (401), a used-up quota, a missing model and a parameter that the endpoint names disable a URL at once.
    403, other pages, and texts that only resemble such a refusal disable it where they repeat and the canary fails.
    """

    def __init__(
        self,
        connections: Connections,
        model: str,
        body: Body,
        canary: Canary,
        policy: RefusalPolicy,
    ) -> None:
        self.policy = policy
        self._connections = connections
        self._urls = connections.urls
        self._model = model
        self._body, self._sent = body, body.fields
        self._canary = canary
        self._counters = tuple(RefusalCounter(policy.alike_s) for _ in connections.urls)

    @property
    def _secrets(self) -> Secrets:
        return self._connections.secrets

    def answered(self, number: int, sent_at: float) -> None:
        """Record an answer of a URL to a request that was sent then."""
        self._counters[number].answered(sent_at)

    def no_completion(self, raw: bytes) -> Failure:
        """Return the failure of a body that is no completion. It is read without secrets: the text shows part of it."""
        text = "the answer is not JSON"
        try:
            self._body.read(self._secrets.hide_bytes(raw))
        except ValueError as error:
            text = self._secrets.hide(one_line(str(error)))
        return Failure(text, begun=True)

    def no_response(self, number: int, error: Exception) -> Failure:
        """Return the failure of a try without an HTTP response. Raises RunError where this machine is the cause."""
        if isinstance(error, ssl.SSLCertVerificationError) or (
            isinstance(error, ssl.SSLError) and not self._canary.knows(number)
        ):
            todo = "correct the url (http or https), or name the certificate's authority in SSL_CERT_FILE"
            if _WANTS_CERTIFICATE.search(str(error)):
                todo = "name a certificate that the server accepts with client_cert and client_key"
            text = self._secrets.hide(one_line(str(error)))
            return Failure(text, disables=f"{self._urls[number].shown}: TLS failed ({text}): {todo}")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            todo = "lower concurrency, or raise `ulimit -n`"
            raise RunError(f"too many open files for that many connections: {todo}") from None
        text = self._secrets.hide(one_line(unreached_text(error)))
        if isinstance(error, ProxyError) and error.final:
            return Failure(text, disables=f"{self._urls[number].shown}: {text}")
        if isinstance(error, HttpTooLongError):
            return Failure(text, Fault.ROW, begun=True)
        begun = isinstance(error, HttpError) and not isinstance(error, HttpConnectError)
        return Failure(text, unreachable=True, timeout=isinstance(error, HttpTimeoutError), begun=begun)

    async def refusal(self, number: int, response: HttpResponse, request: str, latency_s: float) -> Failure:
        """Return the failure that an HTTP status other than 200 to a request, named by its hash, stands for."""
        url = self._urls[number]
        message, code, param = read_error(self._secrets.hide_bytes(response.body))
        if 300 <= response.status < 400 and (to := response.headers.get("location")):
            message = f"redirects to {shown_url(to)}"
        wait_s = retry_wait(response.headers, message)
        fault = classify_status(response.status, message, code, param, self._sent, waits=wait_s is not None)
        change = self._body.change_for(message, param)
        if change and fault is Fault.UNCLEAR:
            fault = Fault.RUN
        told = response.headers.get("x-should-retry")
        if told == "true" and fault is Fault.UNCLEAR:
            fault = Fault.TRANSIENT
        text = self._secrets.hide(one_line(f"HTTP {response.status}: {message or response.reason or 'no message'}"))
        in_a_row = self._counters[number].add(fault, text, request, latency_s, runtime.monotonic())
        if fault is Fault.TRANSIENT:
            return Failure(text, wait_s=wait_s or 0.0, busy=response.status in BUSY, final=told == "false")
        if fault is Fault.ROW:
            return Failure(text, fault)
        if fault is Fault.QUOTA:
            return Failure(
                text, fault, disables=f"{url.shown}: the quota is used up ({text}): raise it, then run again"
            )
        if fault is Fault.KEY:
            what = "refuses the key" if self._connections.has_key else "wants a key"
            why = f"{url.shown} {what} ({text}): {MEND_KEY}"
            if response.status == 401:
                return Failure(text, fault, disables=why)
            return await self._suspected(number, text, Fault.TRANSIENT, why, in_a_row, self.policy.disabled_alike)
        if fault is Fault.URL:
            why, proven = await self._wrong_url(number, response.status, text)
            if proven and not self._canary.knows(number):
                return Failure(text, fault, disables=why)
            return await self._suspected(number, text, Fault.TRANSIENT, why, in_a_row, self.policy.disabled_alike)
        if fault is Fault.RUN and not self._canary.knows(number):
            field = self._body.refused_field(message, param)
            why = f"{url.shown} refuses what every request sends: {text}{self._without(field)}"
            if param.split(".")[0] in self._sent:
                return Failure(text, fault, disables=why, change=change)
            found = await self._suspected(number, text, fault, why, in_a_row, self.policy.alike)
            return replace(found, change=change)
        why = f"{url.shown} refused {in_a_row} requests in a row alike: {text}"
        found = await self._suspected(number, text, fault, why, in_a_row, self.policy.alike)
        return found if found.disables else Failure(text, fault)

    def _without(self, field: str) -> str:
        """Say how a parameter that an endpoint refuses is left out."""
        if not field:
            return ""
        return (
            f"; to leave it out, write [models.default] endpoint = {{model = {orjson.dumps(self._model).decode()}, "
            f'{field} = ""}} in sqlenrich.toml and no --model, or remove {field} from params of the prompt file'
        )

    async def _suspected(self, number: int, text: str, fault: Fault, why: str, in_a_row: int, most: int) -> Failure:
        """Return a failure of one request; of the endpoint where it repeats and the canary fails as well."""
        # Where nothing was answered yet, the list of models says nothing of completions.
        if in_a_row >= most and not (self._canary.knows(number) and await self._canary.answers(number)):
            return Failure(text, fault, disables=why)
        return Failure(text, fault, suspected=why)

    async def _wrong_url(self, number: int, status: int, text: str) -> tuple[str, bool]:
        """Say what is wrong with the URL or the model's name, and whether that is proven."""
        url = self._urls[number]
        if status != 404:
            return f"{url.shown} doesn't take requests ({text}): correct the url", status < 400
        names = await self._model_names(number)
        if names and self._model not in names:
            shown = ", ".join(names[:SHOWN_MODELS]) + (", …" if len(names) > SHOWN_MODELS else "")
            near = did_you_mean(self._model, names)
            return f'{url.shown} has no model "{self._model}"{near}; set one that it offers: {shown}', True
        todo = "correct the url (it usually ends in /v1) or the model's name"
        return f"{url.shown}{self._connections.page}: {text}; {todo}", not names

    async def _model_names(self, number: int) -> list[str]:
        try:
            response = await self._connections.models(number, self.policy.page_timeout_s)
            body = load_json(response.body)
        except (HttpError, OSError, ValueError, RecursionError):
            return []
        data = body.get("data") if isinstance(body, dict) else None
        found = [one.get("id") for one in data if isinstance(one, dict)] if isinstance(data, list) else []
        return [one_line(name)[:SHOWN_NAME_CHARS] for name in found if isinstance(name, str)]

"""An endpoint: where it is, its key and its limits. The one validation of these settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from sqlenrich.core.api_key import ApiKey, CommandKey, EnvironmentKey, LiteralKey
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.limits import Limits

_OWN_FIELDS = ("messages", "input", "model", "stream", "n")
_EXAMPLE = "write it as http://host:port/v1"
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding")
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_FROM_ENV = "env:"
FOLDER_SCHEME = "file"
"""The scheme of a URL that names a folder for batches: nobody answers there at once."""


KSERVE_INPUTS = "kserve_inputs"
"""The parameter under which the constant inputs of a KServe model are part of a request's hash."""


@dataclass(frozen=True)
class KServe:
    """Which tensors of a model take the texts and give the answers."""

    input: str = "text_input"
    """The input of datatype BYTES that takes a row's text."""
    output: str = "text_output"
    """The output whose texts, or numbers, are the answers."""
    batch: int = 1
    """The rows of one request at most; no more than the model's ``max_batch_size``."""
    rank: int = 2
    """2: inputs have the shape [rows, 1], as of a model that the server batches; 1: [rows]."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Further inputs, each the same text, number or boolean for all rows."""


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of a model. It shows no key, and no key is pickled.

    ``url`` ends where ``/chat/completions`` begins, usually in ``/v1``; ``others`` are further URLs of the same model.
    ``api`` names the API that the URL has (``APIS``; None: by the URL), also that of its batches. ``kserve`` holds the
    settings of :class:`KServe`.
    ``file:///FOLDER`` is a folder for the files of batches; no run can ask it.
    The key is read where requests are sent: from the variable ``api_key_env``, from what the shell command
    ``api_key_command`` prints, or from ``api_key``, a key or a reference. ``headers`` are sent with each request; a
    value ``env:NAME`` is read from a variable. ``client_cert`` and ``client_key`` are PEM files that TLS shows.
    ``structured_output`` says how the form of an answer is asked for (``STRUCTURED_OUTPUT``), ``dialect`` which part of
    JSON Schema the server takes (``DIALECTS``; None: by the URL).
    ``concurrency`` of None is found by the run. ``rpm``, ``tpm``, ``input_tpm`` and ``output_tpm`` are limits per
    minute; None means that no limit is known. A try ends after ``timeout`` seconds without a byte. ``extra_body`` adds
    fields to each request's body. ``model`` is a model's name or an alias; None is the file's. ``url`` gets requests
    before the others while it has fewer than ``nearest_room`` in flight: for a server on the same machine. A request
    for vectors has at most ``embed_batch`` texts. Raises ConfigError.

    ``probe`` of false sends no live request before a batch. A batch has at most ``batch_requests`` and ``batch_bytes``,
    and never more than the vendor takes.
    """

    url: str
    api_key_env: str | None = None
    others: tuple[str, ...] = ()
    concurrency: int | None = None
    rpm: int | None = None
    tpm: int | None = None
    input_tpm: int | None = None
    output_tpm: int | None = None
    timeout: float = 120.0
    prefix_order: bool = True
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    origin: str = ""
    api_key: ApiKey | str | None = field(default=None, repr=False)
    api_key_command: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    client_cert: str | None = None
    client_key: str | None = None
    structured_output: str = "auto"
    dialect: str | None = None
    nearest_room: int = 0
    embed_batch: int = 64
    api: str | None = None
    kserve: Mapping[str, Any] = field(default_factory=dict)
    probe: bool = True
    batch_requests: int | None = None
    batch_bytes: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.api_key, str):
            object.__setattr__(self, "api_key", LiteralKey(self.api_key))
        given = {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not one.default}
        problems = [text for _, text in endpoint_problems({**given, "url": self.urls})]
        if not isinstance(self.api_key, ApiKey | None):
            problems.append("api_key must be a text or a reference to a key")
        if problems:
            raise ConfigError("\n".join(f"the endpoint's {problem}" for problem in problems))
        object.__setattr__(self, "url", self.url.rstrip("/"))
        object.__setattr__(self, "others", tuple(other.rstrip("/") for other in self.others))

    @property
    def urls(self) -> tuple[str, ...]:
        """All URLs."""
        return (self.url, *self.others)

    @property
    def kserve_settings(self) -> KServe:
        """The tensors of a model behind KServe's protocol."""
        return KServe(**self.kserve)

    @property
    def always_sent(self) -> dict[str, Any]:
        """What each request has beside its parameters, which decides answers too."""
        inputs = self.kserve.get("inputs")
        return {**self.extra_body, **({KSERVE_INPUTS: dict(inputs)} if inputs else {})}

    @property
    def limits(self) -> Limits:
        """The limits that are set."""
        return Limits(**{limit.name: getattr(self, limit.name) for limit in fields(Limits)})

    def share(self, n: int) -> Endpoint:
        """Return the endpoint for one of ``n`` processes, so that all of them together keep its limits.

        Raises ConfigError where a limit can't be shared by so many.
        """
        return replace(self, **asdict(self.limits.share(n)))

    def resolve_key(self) -> str | None:
        """Return the key, None where there is none. Raises ConfigError for a key that no header can hold."""
        reference: ApiKey | None = None
        if isinstance(self.api_key, ApiKey):
            reference = self.api_key
        elif self.api_key_command is not None:
            reference = CommandKey(self.api_key_command)
        elif self.api_key_env is not None:
            reference = EnvironmentKey(self.api_key_env)
        key = None if reference is None else reference.resolve()
        if key is not None and not (key.isprintable() and key.isascii()):
            raise ConfigError("the endpoint's key holds a line break, a control character or a letter outside of ASCII")
        return key or None

    def resolve_headers(self) -> dict[str, str]:
        """Return the headers with their values, the names in lower case. Raises ConfigError for a missing variable."""
        headers = {}
        for name, written in self.headers.items():
            value: str | None = written
            if written.startswith(_FROM_ENV):
                variable = written.removeprefix(_FROM_ENV)
                value = os.environ.get(variable)
                if not value:
                    raise ConfigError(f"the variable {variable}, which the header {name} names, is not set")
                if not (value.isprintable() and value.isascii()):
                    raise ConfigError(f"the variable {variable} holds what no header can hold")
            headers[name.lower()] = str(value)
        return headers


def endpoint_problems(written: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the key and the text of each problem with settings of ``ENDPOINT_KEYS``; ``url`` may be a list of URLs.

    No text holds a value that may be secret: URLs are named by their number.
    """
    for key, kind in ENDPOINT_KEYS.items():
        if key not in written:
            continue
        value = written[key]
        if not isinstance(value, kind.types) or (isinstance(value, bool) and bool not in kind.types):
            yield key, f"{key} must be {kind.words}" + (f", not {value!r}" if kind.shown else "")
        else:
            yield from ((key, problem) for problem in kind.problems(key, value))
    keys = [key for key in ("api_key", "api_key_command", "api_key_env") if written.get(key) is not None]
    if len(keys) > 1:
        yield keys[0], f"key is given twice: keep one of {' and '.join(keys)}"
    if written.get("client_key") is not None and written.get("client_cert") is None:
        yield "client_key", "client_key needs client_cert, the certificate that it belongs to"


def own_field_problems(key: str, body: Mapping[str, object]) -> Iterator[str]:
    """Return a text for each field of a request's body that only sqlenrich sets."""
    yield from (f'{key}: "{name}" can\'t be set, because sqlenrich sets it' for name in _OWN_FIELDS if name in body)


def _url_problems(_: str, written: str | list[Any] | tuple[Any, ...]) -> Iterator[str]:
    urls = [written] if isinstance(written, str) else written
    if not (urls and all(isinstance(url, str) for url in urls)):
        yield "url must be one or more texts in quotes"
        return
    for number, url in enumerate(urls, 1):
        named = f"url {number} of {len(urls)}" if len(urls) > 1 else "url"
        if (problem := _url_problem(url)) is not None:
            yield f"{named} {problem}"
        elif url.rstrip("/") in (other.rstrip("/") for other in urls[: number - 1]):
            yield f"{named} is a repetition: name each server once"


def _header_problems(key: str, written: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in written.items():
        if not isinstance(name, str) or _HEADER.fullmatch(name) is None:
            yield f'{key}: "{name}" is no name of a header'
        elif name.lower() in _OWN_HEADERS:
            yield f'{key}: "{name}" can\'t be set, because sqlenrich sets it'
        elif not isinstance(value, str) or not (value.isprintable() and value.isascii()):
            yield f'{key}: "{name}" must be a text of one line in ASCII'
        elif _SECRET_HEADER.search(name) and not value.startswith(_FROM_ENV):
            yield f'{key}: "{name}" may hold a secret: name a variable of the environment, as "env:NAME"'


def _kserve_problems(key: str, written: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in written.items():
        kind = _KSERVE_KEYS.get(name)
        if kind is None:
            yield f'{key}: unknown key "{name}"{did_you_mean(str(name), _KSERVE_KEYS)}'
        elif not isinstance(value, kind.types) or isinstance(value, bool):
            yield f"{key}.{name} must be {kind.words}, not {value!r}"
        else:
            yield from kind.problems(f"{key}.{name}", value)


def _constant_problems(key: str, written: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in written.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            yield f"{key}.{name} must be a text, a number or a boolean"


def _rank_problems(key: str, written: int) -> Iterator[str]:
    if written not in (1, 2):
        yield f"{key} must be 1 or 2, not {written}"


def _text_problems(key: str, written: str) -> Iterator[str]:
    if not written.strip():
        yield f"{key} must not be empty"


def _url_problem(written: str) -> str | None:
    try:
        url = urlsplit(written)
        if url.scheme == FOLDER_SCHEME:
            return (
                None if url.path.startswith("/") and not url.netloc else "has no path of a folder: file:///data/batches"
            )
        if url.scheme == "http+unix":
            socket = unquote(url.netloc)
            return None if socket.startswith("/") else "has no path of a socket: http+unix://%2Frun%2Fvllm.sock/v1"
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        (url.hostname or "").encode("idna")
    except ValueError:
        return f"can't be read: {_EXAMPLE}"
    if url.username is not None or url.password is not None:
        return "holds a password: use api_key_env instead"
    return None if usable else f"has no http:// or no host: {_EXAMPLE}"


def _none(*_: object) -> Iterable[str]:
    return ()


class Kind(NamedTuple):
    """What a setting may hold: its types, in words for a person, and further problems that a value may have."""

    types: tuple[type, ...]
    words: str
    further: Callable[[str, Any], Iterable[str]] = _none
    shown: bool = False
    """Whether a value of another type is shown: a text could be a secret."""
    choices: tuple[str, ...] = ()
    above_0: bool = False

    def problems(self, key: str, written: Any) -> Iterator[str]:
        """Return the problems of a value of the right type."""
        if self.choices and written not in self.choices:
            known = ", ".join(self.choices)
            yield f'{key} must be one of {known}, not "{written}"{did_you_mean(written, self.choices)}'
        if self.above_0 and not written > 0:  # nor NaN
            yield f"{key} must be above 0, not {written}"
        yield from self.further(key, written)


STRUCTURED_OUTPUT = ("auto", "json_schema", "json_object", "none")
"""``auto`` begins with the schema and falls back where the endpoint refuses it."""
DIALECTS = ("openai", "vllm", "databricks", "gemini", "anthropic")
APIS = ("openai", "responses", "anthropic", "kserve")
"""The APIs of models: OpenAI's chat completions, which most copy, its responses, Anthropic's messages, KServe's V2."""

_COUNT = Kind((int,), "a whole number", shown=True, above_0=True)

_KSERVE_KEYS: Mapping[str, Kind] = {
    "input": Kind((str,), "a text in quotes", _text_problems),
    "output": Kind((str,), "a text in quotes", _text_problems),
    "batch": Kind((int,), "a whole number", above_0=True),
    "rank": Kind((int,), "a whole number", _rank_problems),
    "inputs": Kind((Mapping,), "a table", _constant_problems),
}
ENDPOINT_KEYS: Mapping[str, Kind] = {
    "api_key_env": Kind((str,), "a text in quotes"),
    "api_key_command": Kind((str,), "a text in quotes", _text_problems),
    "headers": Kind((Mapping,), "a table of texts", _header_problems),
    "client_cert": Kind((str,), "the path of a file", _text_problems),
    "client_key": Kind((str,), "the path of a file", _text_problems),
    "structured_output": Kind((str,), "a text in quotes", choices=STRUCTURED_OUTPUT),
    "dialect": Kind((str,), "a text in quotes", choices=DIALECTS),
    "concurrency": _COUNT,
    "rpm": _COUNT,
    "tpm": _COUNT,
    "input_tpm": _COUNT,
    "output_tpm": _COUNT,
    "timeout": Kind((int, float), "a number", shown=True, above_0=True),
    "embed_batch": _COUNT,
    "api": Kind((str,), "a text in quotes", choices=APIS),
    "kserve": Kind((Mapping,), "a table", _kserve_problems),
    "probe": Kind((bool,), "true or false", shown=True),
    "batch_requests": _COUNT,
    "batch_bytes": _COUNT,
    "prefix_order": Kind((bool,), "true or false", shown=True),
    "extra_body": Kind((Mapping,), "a table", own_field_problems),
    "url": Kind((str, list, tuple), "a text in quotes, or a list of them", _url_problems),
}
"""The settings of an endpoint that a user writes, and what each may hold."""

"""What all requests of a run share, as the ledger keeps it: any body can be rebuilt from it, and no key is in it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.json import canonical_json
from sqlenrich.core.turn import Turn
from sqlenrich.engines import get_engine
from sqlenrich.llm.endpoint.adaptations import NEXT_FORM
from sqlenrich.plan.request import ResolvedModel, request_constant
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.spec.contract import OutputContract
from sqlenrich.spec.limits import Limit

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.endpoint.adaptations import RequestChange

ENDPOINT, MOCK_MODEL, ENGINE, RECORDED, CLASSIFIER = "endpoint", "mock", "engine", "recorded", "classifier"
"""Who answers: an endpoint, the mock model, the engine's own function; answers that were there already; weights."""
NO_BODY: Mapping[str, str] = {
    MOCK_MODEL: "asked the mock model: no body was sent",
    RECORDED: "stored answers that were there already: their callers wrote the bodies",
    CLASSIFIER: "decided by weights: no body was sent",
}
"""Why no body of a run can be rebuilt."""
WITHHELD = "withheld: it may be a secret"
"""What stands in the place of a value that may be a secret."""
_SECRET = re.compile(
    r"api.?key|secret|passw|credential|authoriz|private.?key|cookie|(access|auth|bearer|session|refresh|id).?token"
    r"|^(token|key|bearer)$",
    re.IGNORECASE,
)
"""The names of fields whose values are not kept. ``max_tokens`` and ``prompt_cache_key`` are none of them."""


@dataclass(frozen=True)
class SharedForm:
    """One way to ask for the form of an answer: what ``response_format`` holds, and what follows the prompt."""

    name: str
    response_format: Mapping[str, Any] | None
    hint: str | None


@dataclass(frozen=True)
class SharedCall:
    """The requests of one constant: those of a larger token limit have another one."""

    constant: str
    """The 64 hexadecimal digits before the prompt in each hash."""
    params: Mapping[str, Any]
    changes: tuple[tuple[str, str], ...] = ()
    """When the endpoint refused something, in UTC, and what is sent from then on: see :class:`.RequestChange`."""

    def form_at(self, asked_at: datetime) -> int:
        """Return the place of the form in which a request was sent at a time, in UTC without a time zone."""
        return self._until(asked_at).count(NEXT_FORM)

    def adaptations_at(self, asked_at: datetime) -> tuple[str, ...]:
        """Return the adaptations of a request that was sent at a time, in UTC without a time zone."""
        return tuple(name for name in self._until(asked_at) if name != NEXT_FORM)

    def _until(self, asked_at: datetime) -> list[str]:
        return [name for at, name in self.changes if datetime.fromisoformat(at) <= asked_at]


@dataclass(frozen=True)
class SharedRequest:
    """What all requests of a run share, and what their answers were judged by."""

    asked: str
    """One of ``endpoint``, ``mock``, ``engine``, ``recorded``."""
    engine: str
    """The engine whose SQL made the prompts."""
    model: str
    calls: tuple[SharedCall, ...]
    forms: tuple[SharedForm, ...]
    extra_body: Mapping[str, Any]
    turns: tuple[Turn, ...]
    hint_hashed: bool
    """Whether the constant covers a hint."""
    contract: OutputContract
    """What the answers were checked against."""
    feedback: bool
    price: Mapping[str, str] | None
    """The price of a million tokens by ``input``, ``cached`` and ``output``, and the part that a request of a ``batch``
    costs; None without one."""
    retry: bool = False
    """Whether refused rows were asked again. A run asks each request under its own hash, also one of an earlier run."""
    withheld: tuple[str, ...] = ()
    """The fields whose values are not kept."""
    api: str = "openai"
    """The wire form of the endpoint: one of ``WIRE_FORMS``."""

    def constant_of(self, call: SharedCall) -> str | None:
        """Return the constant of a call as its parts give it; None where a part of it is withheld."""
        if self.withheld:
            return None
        hint = hint_text(self.contract.schema) if self.hint_hashed else None
        hashed = get_engine(self.engine).hashed_model(self.model) if self.asked == "engine" else ""
        model = ResolvedModel(self.model, call.params, hashed_name=hashed)
        return request_constant(model, self.contract.schema, hint, self.turns, self.contract.embedding)

    def with_changes(self, params: Mapping[str, Any], changes: Sequence[RequestChange]) -> SharedRequest:
        """Return it with the changes of the requests of some parameters."""
        told = tuple((change.at.replace(tzinfo=None).isoformat(), change.name) for change in changes)
        kept = dict(without_secrets("", params, [], frozenset()))
        calls = tuple(replace(call, changes=told) if call.params == kept else call for call in self.calls)
        return replace(self, calls=calls)

    def to_json(self) -> str:
        """Return it as the ledger holds it, with a digest of the rest."""
        facts = asdict(self)
        facts["turns"] = [list(turn) for turn in self.turns]
        facts = json.loads(json.dumps(facts))
        return json.dumps({**facts, "digest": _digest(facts)})


@dataclass(frozen=True)
class ReadRequest:
    """A text of the ledger: what it holds, and whether it is as the run wrote it."""

    request: SharedRequest
    intact: bool = field(default=True)


def read_request(text: str) -> ReadRequest:
    """Read what the ledger holds. Raises ValueError for anything else."""
    try:
        facts = json.loads(text)
        digest = facts.pop("digest")
        intact = digest == _digest(facts)
        contract = facts["contract"]
        limit, embedding = contract["limit"], contract["embedding"]
        found = SharedRequest(
            **{
                **facts,
                "contract": OutputContract(
                    **{
                        **contract,
                        **{name: tuple(contract[name]) for name in ("repairs", "key", "keep")},
                        "limit": None if limit is None else Limit(**limit),
                        "embedding": None if embedding is None else Embedding(**embedding),
                    }
                ),
                "withheld": tuple(facts["withheld"]),
                "calls": tuple(
                    SharedCall(c["constant"], c["params"], tuple((at, name) for at, name in c["changes"]))
                    for c in facts["calls"]
                ),
                "forms": tuple(SharedForm(**form) for form in facts["forms"]),
                "turns": tuple(Turn(*turn) for turn in facts["turns"]),
            }
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it can't be read: {error}") from None
    return ReadRequest(found, intact)


def without_secrets(path: str, value: Any, withheld: list[str], secrets: frozenset[str]) -> Any:
    """Return a value without what may be a secret; ``withheld`` gets the place of each."""
    if isinstance(value, Mapping):
        return {
            name: _withheld(f"{path}{name}", withheld)
            if _SECRET.search(str(name)) and isinstance(inner, str)
            else without_secrets(f"{path}{name}.", inner, withheld, secrets)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(path, inner, withheld, secrets) for inner in value]
    if isinstance(value, str) and any(secret in value for secret in secrets if len(secret) >= _SHORTEST_SECRET):
        return _withheld(path.rstrip("."), withheld)
    return value


_SHORTEST_SECRET = 8
"""The characters of a key at least; the value of a header such as ``1`` is found in any text."""


def _withheld(place: str, withheld: list[str]) -> str:
    withheld.append(place)
    return WITHHELD


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(facts).encode("utf-8", "surrogatepass")).hexdigest()

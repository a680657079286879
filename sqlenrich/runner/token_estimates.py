"""The tokens of a run's requests and answers: counted by the endpoint, taken from stored answers, or estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import linear_regression
from typing import Any, Protocol

from sqlglot import exp

from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.output_forms import output_forms
from sqlenrich.core.sql import equals
from sqlenrich.core.tokens import BYTES_PER_TOKEN, tokens_beside
from sqlenrich.core.turn import ROW_SYSTEM, sent_text, text_before
from sqlenrich.llm.endpoint.request_config import OutputForm
from sqlenrich.plan.model import engine_of
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.relations import symbol
from sqlenrich.prompt.layout import layout
from sqlenrich.schema.size import min_answer_bytes
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store import queries

LIMIT_PARAMS = ("max_tokens", "max_completion_tokens")
STORED_SAMPLE = 1000
"""The most stored answers whose tokens are compared with their prompts."""
MIN_STORED_ANSWERS = 10
"""The fewest stored answers from which the others are estimated."""


@dataclass(frozen=True)
class TokensIn:
    """The input tokens of the pending requests, each and in total, and their source.

    ``method`` is ``counted`` (by the endpoint) or ``stored`` (from answers), each on ``sampled`` prompts, or
    ``estimated``; then ``why`` says why the endpoint did not count. ``shared`` is the number of tokens that all
    prompts but one repeat as their constant beginning.
    """

    p50: int
    p95: int
    max: int
    total: int
    method: str
    sampled: int
    shared: int = 0
    why: str | None = None
    counter: str | None = None
    """What counts where ``method`` is ``counted``. A warehouse's function counts without the response format."""

    def scaled(self, share: float) -> TokensIn:
        """Return the tokens of a share of the requests."""
        return replace(self, total=round(self.total * share), shared=round(self.shared * share))

    def to_text(self) -> str:
        """Return the tokens of a request and their source."""
        beside = "" if self.counter in (None, "the endpoint") else ", the schema estimated"
        how = {
            "counted": f"counted by {self.counter} on {self.sampled:,} prompts{beside}",
            "stored": f"from {self.sampled:,} stored answers",
            "estimated": f"estimated: {BYTES_PER_TOKEN} bytes a token, the schema with each",
        }
        return f"{self.p50:,} p50, {self.p95:,} p95, {self.max:,} max a request; {how[self.method]}"


@dataclass(frozen=True)
class TokensOut:
    """The output tokens of the pending requests, each and in total; an upper bound is None without ``max_tokens``.

    ``method`` is ``stored`` (5th to 95th percentile of ``sampled`` answers), ``schema`` (from the shortest valid
    answer to ``max_tokens``) or ``vector`` (none).
    """

    low: int
    high: int | None
    total_low: int
    total_high: int | None
    method: str
    sampled: int

    def scaled(self, share: float) -> TokensOut:
        """Return the tokens of a share of the requests."""
        high = None if self.total_high is None else round(self.total_high * share)
        return replace(self, total_low=round(self.total_low * share), total_high=high)

    def to_text(self) -> str:
        """Return the tokens of an answer and their source."""
        if self.method == "vector":
            return "a vector has none"
        if self.method == "stored":
            return f"{self.low:,} p5, {self.high:,} p95 a request; from {self.sampled:,} stored answers"
        most = "no max_tokens is set" if self.high is None else f"max_tokens {self.high:,}"
        return f"the shortest answer that fits has about {self.low:,}; {most}"


class Requests(Protocol):
    """The requests of a run that is planned, and the stored answers, read where they are."""

    found: bool
    """Whether there is a table of answers."""

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over ``prompts``, ``pending`` and ``responses``. A prompt there is the number of its bytes."""

    def sample(self, count: int) -> list[str]:
        """Return the prompts of the lowest pending hashes, which is a random sample."""

    def counted(self, count: int) -> tuple[list[tuple[int, int]], str | None]:
        """Return bytes and tokens of a sample of prompts by a function of the database, or why it does not count."""


class PendingRequests:
    """The pending requests: estimates of their tokens and of their answers' from what is stored and from a counter."""

    def __init__(self, requests: Requests, plan: Plan, enrichment: Enrichment, choice: ModelChoice) -> None:
        self.requests, self.plan, self.enrichment, self.choice = requests, plan, enrichment, choice
        self.engine = engine_of(enrichment, plan.engine, asked_by_client=not choice.asks_in_sql)
        function = self.engine.facts.get("count_tokens") if choice.asks_in_sql else None
        self.counter = "the endpoint" if function is None else str(function.value)
        self.sizes = self.counts(exp.select("prompt AS v").from_(symbol("pending")))
        self.calls = sum(self.sizes.values())

    def answers(self, *columns: str) -> exp.Select:
        """Return a query over the stored answers of this enrichment and model."""
        own = exp.select("request_hash").from_(symbol("prompts")).subquery()
        mine = exp.or_(
            equals("fingerprint", self.enrichment.fingerprint),
            exp.In(this=exp.column("request_hash"), query=own),
        )
        of_model = equals("model", self.choice.resolved.name)
        return exp.select(*columns).from_(symbol("responses")).where("call_error IS NULL", of_model, mine)

    def latency_ms(self) -> int | None:
        """Return the median of the stored answers' latencies, None without any."""
        found = self.counts(self.answers("latency_ms AS v").where("latency_ms > 0"))
        return percentile(found, 50) if found else None

    def counts(self, values: exp.Select) -> dict[int, int]:
        """Return the values of a query's column ``v`` and how often each is there, in their order."""
        return dict(sorted((int(value), int(times)) for value, times in self.requests.rows(queries.counted(values))))

    def tokens_in(self, sample: int) -> TokensIn:
        """Return the tokens of the prompts, counted on ``sample`` of them where the endpoint has a token counter."""
        lengths = [percentile(self.sizes, share) for share in (50, 95, 100)]
        known, why = self.counted(sample)
        method, before = "counted", self.prefix_bytes()
        if not known:
            known, method = self.stored(), "stored"
        if not known:
            more = self.tokens_beside()
            total = sum(-(-size // BYTES_PER_TOKEN) * times for size, times in self.sizes.items()) + more * self.calls
            p50, p95, most = (-(-length // BYTES_PER_TOKEN) + more for length in lengths)
            shared = before // BYTES_PER_TOKEN * (self.calls - 1)
            return TokensIn(p50, p95, most, total, "estimated", 0, shared, why)
        slope, first = fit_tokens(known)
        total = round(first * self.calls + slope * sum(size * times for size, times in self.sizes.items()))
        p50, p95, most = (math.ceil(first + slope * length - 1e-6) for length in lengths)
        shared = math.floor(slope * before + 1e-6) * (self.calls - 1)
        return TokensIn(
            p50, p95, most, total, method, len(known), shared, counter=self.counter if method == "counted" else None
        )

    def prefix_bytes(self) -> int:
        """The bytes of the constant beginning of all prompts, which an endpoint with a prefix cache reads once."""
        # Constant messages follow a system message that differs by row.
        turns = () if ROW_SYSTEM in self.enrichment.turns else self.enrichment.turns
        before = layout(self.enrichment.prompt().printed, lambda text: len(text.encode())).before
        return len(text_before(turns).encode()) + before

    def tokens_beside(self) -> int:
        """The estimated tokens beside each prompt: the messages before it, the schema or the hint."""
        asked = self.plan.responses.request or self.form
        return tokens_beside(self.enrichment.turns, asked.hint, asked.response_format)

    @property
    def form(self) -> OutputForm:
        """How the endpoint is asked for the form of an answer."""
        return output_forms(self.enrichment, self.choice.resolved, self.choice.endpoint)[0]

    def counted(self, sample: int) -> tuple[list[tuple[int, int]], str | None]:
        """Return bytes and tokens of some prompts, counted by the endpoint or the warehouse, or why none is counted.

        The lowest hashes are a random sample. The warehouse counts no response format: its tokens are an estimate.
        """
        if (asked := self.plan.responses.request) is not None:
            if sample < 1:
                return [], "no prompt may be counted (--sample 0)"
            found, reason = self.requests.counted(sample)
            beside = tokens_beside((), None, asked.response_format)
            return [(size, tokens + beside) for size, tokens in found], reason
        from sqlenrich.llm.endpoint.token_counter import token_counter
        from sqlenrich.llm.endpoint.urls import shown_url

        settings = self.choice.endpoint
        if settings is None:  # the mock model
            return [], None
        if sample < 1:
            return [], "no prompt may be sent (--sample 0)"
        why: list[str] = []
        for url in settings.urls:
            count = token_counter(settings, url, self.choice.resolved.name)
            if not isinstance(count, str):
                break
            why.append(count)
        else:
            return [], why[0]
        texts = self.requests.sample(sample)
        hint = "\n\n" + self.form.hint if self.form.hint else ""
        counts = count([sent_text(self.enrichment.turns, prompt) + hint for prompt in texts])
        known = [(len(p.encode()), tokens) for p, tokens in zip(texts, counts, strict=True) if tokens is not None]
        return (
            known,
            None if known else f"{shown_url(url)} counted a word, but none of {len(texts):,} prompts",
        )

    def stored(self) -> list[tuple[int, int]]:
        """Return the bytes and the input tokens of answered prompts."""
        if not self.requests.found:
            return []
        query = (
            exp.select("ANY_VALUE(p.prompt)", "ANY_VALUE(r.tokens_in)")
            .from_(self.answers("*").subquery("r"))
            .join(symbol("prompts", "p"), on="r.request_hash = p.request_hash")
            .where("r.tokens_in > 0", "r.sent_hash = r.request_hash")
            .group_by("r.request_hash")
            .order_by("r.request_hash")
            .limit(STORED_SAMPLE)
        )
        found = self.requests.rows(query)
        return [(int(size), int(tokens)) for size, tokens in found] if len(found) >= MIN_STORED_ANSWERS else []

    def tokens_out(self) -> TokensOut:
        """Return the tokens of the answers, from stored answers, or else from the schema and the limit."""
        if self.enrichment.embedding is not None:
            return TokensOut(0, 0, 0, 0, "vector", 0)
        known = self.counts(self.answers("tokens_out AS v").where("tokens_out > 0")) if self.requests.found else {}
        answers = sum(known.values())
        if answers >= MIN_STORED_ANSWERS:
            low, high = percentile(known, 5), percentile(known, 95)
            return TokensOut(low, high, low * self.calls, high * self.calls, "stored", answers)
        most = self.most_tokens()
        least = -(-min_answer_bytes(self.enrichment.schema) // BYTES_PER_TOKEN)
        least = least if most is None else min(least, most)
        return TokensOut(least, most, least * self.calls, None if most is None else most * self.calls, "schema", 0)

    def most_tokens(self) -> int | None:
        """Return the token limit of an answer that each request sends; None without one."""
        in_sql = self.engine.params_of(self.choice.resolved.name).get("max_tokens") if self.choice.asks_in_sql else None
        limits = (self.choice.resolved.params.get(name) for name in ((in_sql,) if in_sql else LIMIT_PARAMS))
        return next((limit for limit in limits if type(limit) is int and limit > 0), None)


def percentile(counts: Mapping[int, int], share: int) -> int:
    """Return the least value that a share in a hundred does not exceed; 0 without values. ``counts`` are in order."""
    total, upto = sum(counts.values()), 0
    for value, times in counts.items():
        upto += times
        if 100 * upto >= share * total:
            return value
    return 0


def fit_tokens(known: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Fit tokens to bytes linearly; give the tokens per byte and the tokens of an empty prompt (its chat template).

    The fit keeps the sum of ``known``. Without a valid slope and intercept, tokens are proportional to bytes.
    """
    sizes, tokens = [size for size, _ in known], [count for _, count in known]
    if len(set(sizes)) > 1:
        slope, first = linear_regression(sizes, tokens)
        if slope > 0 and first >= 0:
            return slope, first
    return (sum(tokens) / sum(sizes), 0.0) if sum(sizes) else (0.0, sum(tokens) / len(tokens))

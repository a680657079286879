"""The tokens of a run's requests and answers: counted by the endpoint, taken from stored answers, or estimated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlenrich.core.json import compact_json
from sqlenrich.core.sql import Sql, func, literal
from sqlenrich.core.tokens import BYTES_PER_TOKEN, estimate_tokens
from sqlenrich.plan.model import output_of
from sqlenrich.plan.relations import symbol
from sqlenrich.prompt.layout import layout
from sqlenrich.runner.backends import queries
from sqlenrich.runner.model_choice import ModelChoice
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.schema.size import min_answer_bytes
from sqlenrich.schema.vendor.response_format import dialect_of, json_schema_format
from sqlenrich.spec.enrichment import Enrichment

if TYPE_CHECKING:  # "import sqlenrich" does not load duckdb
    from sqlenrich.plan.plan import Plan
    from sqlenrich.runner.backends.duckdb.backend import DuckDBBackend

LIMIT_PARAMS = ("max_tokens", "max_completion_tokens")
STORED_SAMPLE = 1000
"""The most stored answers whose tokens are compared with their prompts."""
KEPT_BELOW = "01"
"""Prompts with a lower hash, one in 256, are kept as texts: a sample that need not be rendered again."""
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

    def to_text(self) -> str:
        """Give the tokens of a request and their source."""
        how = {
            "counted": f"counted by the endpoint on {self.sampled:,} prompts",
            "stored": f"from {self.sampled:,} stored answers",
            "estimated": f"estimated: {BYTES_PER_TOKEN} bytes a token, the schema with each",
        }
        return f"{self.p50:,} p50, {self.p95:,} p95, {self.max:,} max a request; {how[self.method]}"


@dataclass(frozen=True)
class TokensOut:
    """The output tokens of the pending requests, each and in total; an upper bound is None without ``max_tokens``.

    ``method`` is ``stored`` (5th to 95th percentile of ``sampled`` answers) or ``schema`` (from the shortest valid
    answer to ``max_tokens``).
    """

    low: int
    high: int | None
    total_low: int
    total_high: int | None
    method: str
    sampled: int

    def to_text(self) -> str:
        """Give the tokens of an answer and their source."""
        if self.method == "stored":
            return f"{self.low:,} p5, {self.high:,} p95 a request; from {self.sampled:,} stored answers"
        most = "no max_tokens is set" if self.high is None else f"max_tokens {self.high:,}"
        return f"the shortest answer that fits has about {self.low:,}; {most}"


ANSWERS = "sqlenrich_answers"
"""The view of the stored answers of this enrichment and model."""


class PendingRequests:
    """The pending requests: estimates of their tokens and of their answers' from the database and the endpoint."""

    def __init__(
        self, backend: DuckDBBackend, plan: Plan, enrichment: Enrichment, choice: ModelChoice, calls: int
    ) -> None:
        self.backend, self.plan, self.enrichment, self.choice, self.calls = backend, plan, enrichment, choice, calls
        own = exp.select("request_hash").from_(symbol("prompts")).subquery()
        mine = exp.or_(
            exp.EQ(this=exp.column("fingerprint"), expression=literal(enrichment.fingerprint)),
            exp.In(this=exp.column("request_hash"), query=own),
        )
        of_model = exp.EQ(this=exp.column("model"), expression=literal(choice.resolved.name))
        answers = exp.select("*").from_(symbol("responses")).where("call_error IS NULL", of_model, mine)
        view = exp.Create(this=exp.to_table(ANSWERS), kind="VIEW", expression=answers)
        backend.database.execute(plan.relations.sql(view))

    def latency_ms(self) -> int | None:
        """Give the median of the stored answers' latencies, None without any."""
        found = self.percentiles(exp.select("latency_ms AS v").from_(ANSWERS).where("latency_ms > 0"), (50,))
        return None if found is None else found[0]

    def percentiles(self, values: exp.Select, shares: Sequence[int]) -> list[int] | None:
        """Give percentiles of a query's column ``v``; None without values."""
        found = self.backend.rows(self.plan, queries.percentiles(values, shares))[0]
        return None if found[0] is None else [int(value) for value in found]

    def tokens_in(self, sample: int) -> TokensIn:
        """Give the tokens of the prompts, counted on ``sample`` of them where the endpoint has a token counter."""
        prompts = exp.select("prompt AS v").from_(symbol("pending"))
        lengths = self.percentiles(prompts, (50, 95, 100)) or [0, 0, 0]
        known, why = self.counted(sample)
        method, before = "counted", self.prefix_bytes()
        if not known:
            known, method = self.stored(), "stored"
        if not known:
            per_token = exp.Div(this=exp.column("prompt"), expression=literal(BYTES_PER_TOKEN))
            whole = exp.Cast(this=func("ceil", per_token), to=exp.DataType.build("BIGINT"))
            more = self.schema_tokens()
            total = self.sum_of_pending(whole) + more * self.calls
            p50, p95, most = (-(-length // BYTES_PER_TOKEN) + more for length in lengths)
            shared = before // BYTES_PER_TOKEN * (self.calls - 1)
            return TokensIn(p50, p95, most, total, "estimated", 0, shared, why)
        slope, first = fit_tokens(known)
        total = round(first * self.calls + slope * self.sum_of_pending(exp.column("prompt")))
        p50, p95, most = (math.ceil(first + slope * length - 1e-6) for length in lengths)
        shared = math.floor(slope * before + 1e-6) * (self.calls - 1)
        return TokensIn(p50, p95, most, total, method, len(known), shared)

    def sum_of_pending(self, value: Sql) -> int:
        """Give the sum of a value over the pending requests."""
        return self.backend.number(self.plan, exp.select(exp.Sum(this=value)).from_(symbol("pending")))

    def prefix_bytes(self) -> int:
        """The bytes of the constant beginning of all prompts, which an endpoint with a prefix cache reads once."""
        return layout(self.enrichment.prompt().expr, lambda text: len(text.encode())).before

    def schema_tokens(self) -> int:
        """The estimated tokens that each request has beside the prompt: the schema, or the hint in its place."""
        if self.enrichment.hint == "always":
            return estimate_tokens("\n\n" + hint_text(self.enrichment.schema))
        dialect = dialect_of(self.choice.endpoint.url if self.choice.endpoint is not None else "")
        response_format = json_schema_format(output_of(self.enrichment, self.choice.resolved), dialect)
        return 0 if response_format.form is None else estimate_tokens(compact_json(response_format.form))

    def counted(self, sample: int) -> tuple[list[tuple[int, int]], str | None]:
        """Give bytes and tokens of some prompts, counted by the endpoint, or why it does not count.

        The lowest hashes are a random sample.
        """
        from sqlenrich.llm.endpoint.token_counter import token_counter
        from sqlenrich.llm.endpoint.urls import EndpointUrl

        settings = self.choice.endpoint
        if settings is None:  # the mock model
            return [], None
        if sample < 1:
            return [], "no prompt may be sent (--sample 0)"
        why: list[str] = []
        for url in (settings.url, *settings.others):
            count = token_counter(url, settings.api_key, self.choice.resolved.name)
            if not isinstance(count, str):
                break
            why.append(count)
        else:
            return [], why[0]
        texts = self.sampled_prompts(sample)
        hint = "\n\n" + hint_text(self.enrichment.schema) if self.enrichment.hint == "always" else ""
        counts = count([prompt + hint for prompt in texts])
        known = [(len(p.encode()), tokens) for p, tokens in zip(texts, counts, strict=True) if tokens is not None]
        return (
            known,
            None if known else f"{EndpointUrl.of(url).shown} counted a word, but none of {len(texts):,} prompts",
        )

    def sampled_prompts(self, sample: int) -> list[str]:
        """Give the prompts of the lowest pending hashes: the kept texts, or else rendered again from the source."""
        lowest = exp.select("request_hash").from_(symbol("pending")).order_by("request_hash").limit(sample)
        hashes = [str(row[0]) for row in self.backend.rows(self.plan, lowest)]
        prompts = self.plan.step("prompts")
        text, rows = ("kept", symbol("prompts")) if hashes[-1] < KEPT_BELOW else ("prompt", queries.rows_of(prompts))
        wanted = exp.In(this=exp.column("request_hash"), expressions=[literal(one) for one in hashes])
        query = exp.select(f"ANY_VALUE({text})").from_(rows).where(wanted).group_by("request_hash")
        return [str(prompt) for (prompt,) in self.backend.read(self.plan, query)]

    def stored(self) -> list[tuple[int, int]]:
        """Give the bytes and the input tokens of answered prompts."""
        query = (
            exp.select("ANY_VALUE(p.prompt)", "ANY_VALUE(r.tokens_in)")
            .from_(exp.to_table(ANSWERS).as_("r"))
            .join(symbol("prompts", "p"), on="r.request_hash = p.request_hash")
            .where("r.tokens_in > 0", "r.sent_hash = r.request_hash")
            .group_by("r.request_hash")
            .order_by("r.request_hash")
            .limit(STORED_SAMPLE)
        )
        found = self.backend.rows(self.plan, query)
        return [(int(size), int(tokens)) for size, tokens in found] if len(found) >= MIN_STORED_ANSWERS else []

    def tokens_out(self) -> TokensOut:
        """Give the tokens of the answers, from stored answers, or else from the schema and the limit."""
        known = exp.select("tokens_out AS v").from_(ANSWERS).where("tokens_out > 0")
        answers = self.backend.number(self.plan, exp.select("COUNT(*)").from_(known.subquery("known")))
        if answers >= MIN_STORED_ANSWERS and (ends := self.percentiles(known, (5, 95))) is not None:
            low, high = ends
            return TokensOut(low, high, low * self.calls, high * self.calls, "stored", answers)
        most = most_tokens(self.choice)
        least = -(-min_answer_bytes(self.enrichment.schema) // BYTES_PER_TOKEN)
        least = least if most is None else min(least, most)
        return TokensOut(least, most, least * self.calls, None if most is None else most * self.calls, "schema", 0)


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


def most_tokens(choice: ModelChoice) -> int | None:
    """Give the token limit of an answer that each request sends; None without one."""
    limits = (choice.resolved.params.get(name) for name in LIMIT_PARAMS)
    return next((limit for limit in limits if type(limit) is int and limit > 0), None)

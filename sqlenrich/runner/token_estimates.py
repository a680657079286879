"""How many tokens a run's requests have and its answers will have: counted, told by stored answers, or estimated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import TYPE_CHECKING

from sqlenrich.core.json import compact_json
from sqlenrich.core.tokens import BYTES_PER_TOKEN, estimate_tokens
from sqlenrich.plan.compile import output_of
from sqlenrich.prompt.layout import layout
from sqlenrich.runner.model_choice import Ask
from sqlenrich.runner.usage import percentiles
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.schema.shortest import shortest
from sqlenrich.schema.vendor.response_format import dialect_of, json_schema_format
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Endpoint

if TYPE_CHECKING:  # "import sqlenrich" does not load duckdb
    from sqlenrich.plan.plan import Plan
    from sqlenrich.runner.backends.duckdb.store import Store

LIMIT_PARAMS = ("max_tokens", "max_completion_tokens")
STORED_SAMPLE = 1000
KEPT_BELOW = "01"
"""The prompts of lower hashes, one in 256, are kept as texts: a sample, so that none is made again."""
FEWEST = 10
"""Fewer stored answers tell nothing about the rest."""


@dataclass(frozen=True)
class TokensIn:
    """The tokens of the prompts to be sent, a request and in all, and how they are known.

    ``method`` is ``counted`` by the endpoint or ``stored`` with answers, on ``sampled`` prompts, or ``estimated``, and
    then ``why`` says why an endpoint did not count them. ``shared`` are the tokens of the constant beginning that all
    prompts but one repeat.
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
        """Give the tokens of a request, and how they are known."""
        how = {
            "counted": f"counted by the endpoint on {self.sampled:,} prompts",
            "stored": f"as {self.sampled:,} stored answers tell",
            "estimated": f"estimated: {BYTES_PER_TOKEN} bytes a token, the schema with each",
        }
        return f"{self.p50:,} p50, {self.p95:,} p95, {self.max:,} max a request; {how[self.method]}"


@dataclass(frozen=True)
class TokensOut:
    """The tokens of the answers to come, a request and in all; None as an upper end that nothing sets.

    ``method`` is ``stored``: most of ``sampled`` answers were within; or ``schema``: from the shortest answer that
    fits to ``max_tokens``.
    """

    low: int
    high: int | None
    total_low: int
    total_high: int | None
    method: str
    sampled: int

    def to_text(self) -> str:
        """Give the tokens of an answer, and how they are known."""
        if self.method == "stored":
            return f"{self.low:,} p5, {self.high:,} p95 a request; as {self.sampled:,} stored answers tell"
        most = "no max_tokens is set" if self.high is None else f"max_tokens {self.high:,}"
        return f"the shortest answer that fits has about {self.low:,}; {most}"


class Pending:
    """The requests to be sent: what the database and the endpoint tell about their tokens, and about the answers'."""

    answers = "sqlenrich_answers"
    """The view of the stored answers of this enrichment and model."""

    def __init__(
        self, store: Store, plan: Plan, enrichment: Enrichment, ask: Ask, settings: Endpoint | None, calls: int
    ) -> None:
        from sqlenrich.runner.backends.duckdb.database import text

        self.store, self.enrichment, self.ask, self.settings, self.calls = store, enrichment, ask, settings, calls
        self.prompts = plan.step("prompts")
        call = plan.step("responses")
        self.pending = call.pending_relation
        own = f"SELECT request_hash FROM {self.prompts.relation}"
        store.db.execute(
            f"CREATE VIEW {self.answers} AS SELECT * FROM {call.relation} WHERE call_error IS NULL AND model = "
            f"{text(ask.resolved.name)} AND (fingerprint = {text(enrichment.fingerprint)} OR request_hash IN ({own}))"
        )

    def latency_ms(self) -> int | None:
        """Give the median of the stored answers' latencies, None where they tell none."""
        found = percentiles(self.store, f"SELECT latency_ms AS v FROM {self.answers} WHERE latency_ms > 0", (50,))
        return None if found is None else found[0]

    def tokens_in(self, sample: int) -> TokensIn:
        """Give the tokens of the prompts, counted on ``sample`` of them where the endpoint does that."""
        lengths = percentiles(self.store, f"SELECT prompt AS v FROM {self.pending}", (50, 95, 100)) or [0, 0, 0]
        known, why = self.counted(sample)
        method, before = "counted", self.beginning()
        if not known:
            known, method = self.stored(), "stored"
        if not known:
            quarters = f"CAST(ceil(prompt / {BYTES_PER_TOKEN}) AS BIGINT)"
            more = self.around()
            total = int(self.store.one(f"SELECT sum({quarters}) FROM {self.pending}")) + more * self.calls
            p50, p95, most = (-(-length // BYTES_PER_TOKEN) + more for length in lengths)
            shared = before // BYTES_PER_TOKEN * (self.calls - 1)
            return TokensIn(p50, p95, most, total, "estimated", 0, shared, why)
        slope, first = line(known)
        total = round(first * self.calls + slope * int(self.store.one(f"SELECT sum(prompt) FROM {self.pending}")))
        p50, p95, most = (math.ceil(first + slope * length - 1e-6) for length in lengths)
        shared = math.floor(slope * before + 1e-6) * (self.calls - 1)
        return TokensIn(p50, p95, most, total, method, len(known), shared)

    def beginning(self) -> int:
        """How many bytes all prompts begin with, and every endpoint that caches prefixes reads once."""
        return layout(self.enrichment.prompt().expr, lambda text: len(text.encode())).before

    def around(self) -> int:
        """About how many tokens go with each prompt: the schema, or the hint that stands in for it."""
        if self.enrichment.hint == "always":
            return estimate_tokens("\n\n" + hint_text(self.enrichment.schema))
        dialect = dialect_of(self.settings.url if self.settings is not None else "")
        told = json_schema_format(output_of(self.enrichment, self.ask.resolved), dialect)
        return 0 if told.form is None else estimate_tokens(compact_json(told.form))

    def counted(self, sample: int) -> tuple[list[tuple[int, int]], str | None]:
        """Bytes and tokens of some prompts, as the endpoint counts them, or why it does not.

        The order of hashes is a fair draw.
        """
        from sqlenrich.llm.endpoint.token_counter import token_counter
        from sqlenrich.llm.endpoint.urls import EndpointUrl
        from sqlenrich.runner.backends.duckdb.database import text

        if self.settings is None:  # the mock model
            return [], None
        if sample < 1:
            return [], "no prompt may be sent (--sample 0)"
        why: list[str] = []
        for url in (self.settings.url, *self.settings.others):
            count = token_counter(url, self.settings.api_key, self.ask.resolved.name)
            if not isinstance(count, str):
                break
            why.append(count)
        else:
            return [], why[0]
        drawn = self.store.db.execute(f"SELECT request_hash FROM {self.pending} ORDER BY request_hash LIMIT {sample}")
        hashes = [str(row[0]) for row in drawn.fetchall()]
        made = f"SELECT request_hash, kept AS prompt FROM {self.prompts.relation}"
        rendered = made if hashes[-1] < KEPT_BELOW else self.prompts.sql
        found = self.store.reading(
            f"SELECT any_value(prompt) FROM ({rendered}) WHERE request_hash IN ({', '.join(map(text, hashes))}) "
            "GROUP BY request_hash"
        )
        texts = [str(prompt) for (prompt,) in found]
        hint = "\n\n" + hint_text(self.enrichment.schema) if self.enrichment.hint == "always" else ""
        counts = count([prompt + hint for prompt in texts])
        known = [(len(p.encode()), tokens) for p, tokens in zip(texts, counts, strict=True) if tokens is not None]
        return (
            known,
            None if known else f"{EndpointUrl.of(url).shown} counted a word, but none of {len(texts):,} prompts",
        )

    def stored(self) -> list[tuple[int, int]]:
        """Bytes and tokens of prompts that were answered before."""
        found = self.store.db.execute(
            f"SELECT any_value(p.prompt), any_value(r.tokens_in) FROM {self.answers} AS r JOIN {self.prompts.relation} "
            "AS p USING (request_hash) WHERE r.tokens_in > 0 AND r.sent_hash = r.request_hash "
            f"GROUP BY request_hash ORDER BY request_hash LIMIT {STORED_SAMPLE}"
        ).fetchall()
        return [(int(size), int(tokens)) for size, tokens in found] if len(found) >= FEWEST else []

    def tokens_out(self) -> TokensOut:
        """Give the tokens of the answers, as stored ones tell, or the schema and the limit."""
        told = f"SELECT tokens_out AS v FROM {self.answers} WHERE tokens_out > 0"
        answers = int(self.store.one(f"SELECT count(*) FROM ({told})"))
        if answers >= FEWEST and (ends := percentiles(self.store, told, (5, 95))) is not None:
            low, high = ends
            return TokensOut(low, high, low * self.calls, high * self.calls, "stored", answers)
        most = most_tokens(self.ask)
        least = -(-shortest(self.enrichment.schema) // BYTES_PER_TOKEN)
        least = least if most is None else min(least, most)
        return TokensOut(least, most, least * self.calls, None if most is None else most * self.calls, "schema", 0)


def line(known: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Give tokens a byte and the tokens of an empty prompt (a chat template has some) from bytes and tokens.

    The sum over ``known`` is kept. Where the lengths tell nothing, tokens go by bytes alone.
    """
    sizes, tokens = [size for size, _ in known], [count for _, count in known]
    if len(set(sizes)) > 1:
        slope, first = linear_regression(sizes, tokens)
        if slope > 0 and first >= 0:
            return slope, first
    return (sum(tokens) / sum(sizes), 0.0) if sum(sizes) else (0.0, sum(tokens) / len(tokens))


def most_tokens(ask: Ask) -> int | None:
    """Give the limit of an answer's tokens that each request sends, None where it sends none."""
    limits = (ask.resolved.params.get(name) for name in LIMIT_PARAMS)
    return next((limit for limit in limits if type(limit) is int and limit > 0), None)

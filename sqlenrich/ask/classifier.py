"""The asker of a distilled classifier: one statement decides all pending requests, and nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.progress import Progress
from sqlenrich.plan.plan import RESPONSES, Plan, Step
from sqlenrich.plan.references import References
from sqlenrich.plan.scores_query import decided_answers, scores_query
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.weights import Weights
from sqlenrich.store.backend import Backend
from sqlenrich.store.queries import answers_of, rows_of_gram


@dataclass
class ClassifierAsker:
    """Stores an answer of the weights for each pending request whose text they were not fitted on."""

    backend: Backend
    plan: Plan
    progress: Progress
    weights: Weights
    enrichment: Enrichment
    run_id: str
    calls: int = 0
    retries: int = 0
    retryable: int = 0
    left: int = 0
    ended: bool = False

    def check(self, choice: ModelChoice) -> None:
        """The file of the weights was read."""

    @contextmanager
    def open(self, choice: ModelChoice) -> Iterator[None]:  # noqa: ARG002
        """Return a context; nobody is asked."""
        yield

    def begin(self, call: Step, pending: int) -> None:  # noqa: ARG002
        """Begin a round."""
        self.left = pending

    def ask_first(self, *, answered: bool) -> None:
        """Nothing goes ahead of the others."""

    def ask(self, most: int | None) -> None:  # noqa: ARG002
        """Store all answers."""
        make_scores(self.backend, self.plan, self.weights)
        query = decided_answers(References(self.backend.engine), self.enrichment, self.weights, self.run_id)
        step = Step("responses", "append", RESPONSES, query, self.plan.relations)
        self.backend.append_query(self.plan, step)
        self.progress.stored += self.backend.number(self.plan, answers_of(self.run_id))
        self.left = 0

    def limit_shares(self) -> dict[str, float]:
        """Return no share: no limit delays them."""
        return {}

    def stop(self) -> None:
        """Ask nothing new and end."""
        self.ended = True

    def stopping(self) -> str:
        """Return what ends it after a stop."""
        return ""

    def waiting(self) -> str:
        """Return what it waits for."""
        return ""


def make_scores(backend: Backend, plan: Plan, weights: Weights) -> None:
    """Make ``NAME_scores`` afresh, and ``NAME_weights`` where the file is another one."""
    database, table = backend.as_database(), plan.relations.text("weights")
    digest: list[object] = [weights.digest, *[0] * len(weights.values)]
    columns = database.columns(table)
    is_there = columns is not None and set(weights.columns) == set(columns)
    if not (is_there and backend.number(plan, rows_of_gram(weights.digest))):
        backend.drop(plan.relations.table("weights"))
        database.append(table, weights.columns, [*weights.rows, digest])
    backend.make(plan, "scores", scores_query(References(backend.engine), weights))

"""The asker of a distilled classifier or a filter: one statement decides all pending requests, and nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass

from sqlenrich.ask.offline import OfflineAsker
from sqlenrich.ask.progress import Progress
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.types import STRING
from sqlenrich.plan.plan import RESPONSES, Plan, Step
from sqlenrich.plan.references import References
from sqlenrich.plan.scores_query import decided_answers, scores_query
from sqlenrich.spec.classifier import Classifier, ColumnFilter
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.weights import Weights
from sqlenrich.store.backend import Backend
from sqlenrich.store.queries import answers_of, rows_of_gram


@dataclass
class ClassifierAsker(OfflineAsker):
    """Stores an answer for each pending request that has a score: :func:`make_scores` came before."""

    backend: Backend
    plan: Plan
    progress: Progress
    classifier: Classifier
    enrichment: Enrichment
    run_id: str

    def begin(self, call: Step, pending: int) -> None:  # noqa: ARG002
        """Begin a round."""
        self.left = pending

    def ask(self, most: int | None) -> None:  # noqa: ARG002
        """Store all answers."""
        query = decided_answers(References(self.backend.engine), self.enrichment, self.classifier, self.run_id)
        step = Step("responses", "append", RESPONSES, query, self.plan.relations)
        self.backend.append_query(self.plan, step)
        self.progress.stored += self.backend.number(self.plan, answers_of(self.run_id))
        self.left = 0


def make_scores(backend: Backend, plan: Plan, classifier: Classifier) -> None:
    """Make ``NAME_scores`` afresh. Raises ConfigError where the column of a filter is no number."""
    if isinstance(classifier, ColumnFilter):
        if plan.step("prompts").columns[classifier.column] == STRING:
            name = classifier.column
            raise ConfigError(f"{plan.name}: filter: the column {name} is text; write columns: {{{name}: double}}")
    else:
        _store_weights(backend, plan, classifier)
    backend.make(plan, "scores", scores_query(References(backend.engine), classifier))


def _store_weights(backend: Backend, plan: Plan, weights: Weights) -> None:
    """Make ``NAME_weights`` where the file is another one."""
    database, table = backend.as_database(), plan.relations.text("weights")
    digest: list[object] = [weights.digest, *[0] * len(weights.values)]
    columns = database.columns(table)
    is_there = columns is not None and set(weights.columns) == set(columns)
    if not (is_there and backend.number(plan, rows_of_gram(weights.digest))):
        backend.drop(plan.relations.table("weights"))
        database.append(table, weights.columns, [*weights.rows, digest])

"""A further asker is one class: this one gives recorded answers, and leaves open the requests that it has none for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.ask.asker import PREFLIGHT_REQUESTS, Asker
from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.offline import OfflineAsker
from sqlenrich.ask.progress import Progress
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.runner.session import Session
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import Origin


class RecordedAsker(OfflineAsker):
    """Answers from a table of texts by prompt. A prompt that is not there stays pending."""

    def __init__(
        self, backend: Backend, plan: Plan, origin: Origin, progress: Progress, recorded: Mapping[str, str]
    ) -> None:
        self.backend, self.plan, self.origin, self.progress = backend, plan, origin, progress
        self.recorded = recorded
        self._requests: Iterator[Request] = iter(())

    @contextmanager
    def open(self, choice: ModelChoice) -> Iterator[None]:
        self.model = choice.resolved.name
        yield

    def begin(self, call: Step, pending: int) -> None:
        self.left, self._requests = pending, self.backend.requests(call, pending)

    def ask_first(self, *, answered: bool) -> None:  # noqa: ARG002
        self.ask(PREFLIGHT_REQUESTS)

    def ask(self, most: int | None) -> None:
        if self.ended:
            return
        batch = list(islice(self._requests, most or 128))
        found = [(request, self.recorded[request.prompt]) for request in batch if request.prompt in self.recorded]
        answers = [
            Answer(hashed, attempt, hashed, text, None, False, "stop", self.model, 1, 0, 1, 1, datetime.now(UTC), 1)
            for (hashed, attempt, *_), text in found
        ]
        if answers:
            self.backend.append(self.plan, answers, self.origin)
            self.progress.answered(answers)
        self.calls += len(answers)
        self.left -= len(batch)


def test_a_run_stores_recorded_answers_and_goes_on_with_the_open_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": n, "body": f"text {n % 200}"} for n in range(300)]
    recorded = {f"text {n}": json.dumps({"x": n}) if n % 10 else "no JSON" for n in range(150)}

    def asker(session: Session, plan: Plan, progress: Progress) -> Asker:
        return RecordedAsker(session.backend, plan, session.origin, progress, recorded)

    monkeypatch.setattr(Session, "_asker", asker)
    enrichment = se.enrichment("e", prompt="{{ body }}", key=["id"], output={"x": "integer"})
    output = tmp_path / "o.duckdb"
    first = se.run(enrichment, input=rows, output=output, mock=True)
    assert (first.calls, first.enriched, first.quarantine) == (150, 225, {"BAD_JSON": 25, "NOT_ASKED": 50})
    assert (first.pending, first.exit_status) == (50, 4)
    recorded |= {f"text {n}": json.dumps({"x": n}) for n in range(150, 200)}
    second = se.run(enrichment, input=rows, output=output, mock=True)
    assert (second.calls, second.cached, second.quarantine, second.pending) == (50, 150, {"BAD_JSON": 25}, 0)
    with duckdb.connect(str(output), read_only=True) as db:
        assert db.execute("SELECT count(*) FROM e WHERE x <> id % 200").fetchone() == (0,)
    assert se.audit(enrichment, output=output).holds

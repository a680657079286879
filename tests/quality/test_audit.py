"""``sqlenrich audit``: each request is rebuilt byte for byte, and what was changed since is found and named."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sqlenrich.quality.rebuilt_requests import make_sent, make_views, rebuilt_requests
from sqlenrich.quality.stored_output import stored_output
from tests.support.audited_runs import AuditedRuns, audited_runs
from tests.support.runs import call


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedRuns]:
    yield audited_runs(tmp_path_factory.mktemp("audited"), 300)


def test_each_body_is_that_which_the_endpoint_got(audited: AuditedRuns) -> None:
    with stored_output("intent", audited.output) as stored:
        make_views(stored)
        make_sent(stored)
        found = list(rebuilt_requests(stored))
        assert len(found) == stored.one("SELECT count(*) FROM intent_responses")
    assert {one.why for one in found} == {""}
    bodies = {one.body for one in found}
    assert bodies == set(audited.bodies)
    models = {(json.loads(body)["model"], json.loads(body)["max_tokens"]) for body in audited.bodies}
    assert {("mock", 64), ("mock", 48), ("mock", 32), ("small", 256)} <= models
    assert sum(b"Your last answer was refused" in body for body in audited.bodies) > 30


def test_an_audit_of_all_rows_holds(audited: AuditedRuns) -> None:
    result = call("audit", audited.prompt, "--output", audited.output, "--json")
    facts = json.loads(result.out)
    assert (result.status, facts["problems"], facts["not_rebuilt"]) == (0, [], [])
    assert (facts["rows"], facts["runs"], facts["holds"]) == (300, 9, True)

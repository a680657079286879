"""The warehouse's own function is scored by labelled rows before a run asks it about the others."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from typing import Any

import pytest

import sqlenrich as se
from tests.support.runs import call
from tests.support.warehouse_runs import REQUESTS, ROWS
from tests.support.warehouses import SECRET, Standin

LABELLED = list({row["body"]: str(row["id"]) for row in ROWS if row["body"]}.values())[:10]


def copies(place: Standin) -> list[str]:
    """The tables that only an evaluation needs."""
    return [name for name in place.tables() if "sample" in name or name.startswith("_sqlenrich_evaluate")]


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_run_scores_the_warehouse_first_and_asks_no_row_twice(place: Standin) -> None:
    prompt, labels = place.folder / "tickets.prompt", place.folder / "labels.csv"
    prompt.write_text(prompt.read_text().replace("---", "---\nevaluate: {truth: labels.csv, require: {intent: 1}}", 1))
    arguments = ("run", prompt, "--engine", place.engine, "--profile", "standin", "--input", place.source)

    def run(right: Mapping[str, str]) -> tuple[int, str]:
        with labels.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("id", "expected_intent"), *((id, right.get(id, "a")) for id in LABELLED)])
        result = call(*arguments, "--output", place.schema, "--evaluate", "--yes")
        assert SECRET not in result.err + result.out
        return result.status, result.err

    options: dict[str, Any] = {"engine": place.engine, "profile": "standin", "output": place.schema}
    rows = [{"id": LABELLED[0], "expected_intent": "a"}]
    with pytest.raises(se.SqlenrichError):
        se.evaluate(prompt, truth=rows, endpoint="http://127.0.0.1:9/v1", model="m", **options)
    assert copies(place) == []
    status, told = run({})
    assert (status, len(place.prompts())) == (3, len(LABELLED))
    assert "the run is not begun" in told
    assert copies(place) == []
    found = place.rows("tickets_evaluations", "row_key", "answer")
    status, told = run({json.loads(key)["id"]: json.loads(answer) for key, answer in found})
    assert status == 0, told
    assert (len(place.prompts()), place.asked_twice()) == (REQUESTS, 0)
    assert len(place.rows("tickets")) == len(ROWS)

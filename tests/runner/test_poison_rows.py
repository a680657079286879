"""No single row stops a run: rows of every kind that an endpoint can't answer, among 300 good ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import write_csv, write_prompt

GOOD_ROWS = 300
TIMEOUT_S = 1.0
# Fault of the row -> the code of its refusal, the beginning of the detail, and how often it may be sent at most.
POISON: Mapping[str, tuple[str, str, int]] = {
    "hang": ("CALL_ERROR", "timeout: no byte for 1 s", 3),
    "stall": ("CALL_ERROR", "timeout: no byte for 1 s", 3),
    "reset": ("CALL_ERROR", "connection closed before the answer", 15),
    "reset_mid": ("CALL_ERROR", "the answer broke off", 15),
    "cut": ("CALL_ERROR", "the answer broke off", 15),
    "429": ("CALL_ERROR", "HTTP 429: rate limit", 60),
    "429_too_large": ("CALL_ERROR", "HTTP 429: Request too large", 1),
    "500": ("CALL_ERROR", "HTTP 500: boom", 15),
    "503": ("CALL_ERROR", "HTTP 503: overloaded", 60),
    "403": ("CALL_ERROR", "HTTP 403: no access", 15),
    "403_firewall": ("CALL_ERROR", "HTTP 403: <html><body>Request blocked", 15),
    "404_path": ("CALL_ERROR", "HTTP 404: Not Found", 15),
    "400_context": ("CALL_ERROR", "HTTP 400: This model's maximum context length", 1),
    "400_policy": ("CALL_ERROR", "HTTP 400: flagged by the content management policy", 1),
    "400_format": ("CALL_ERROR", "HTTP 400: Grammar error", 1),
    "400_unclear": ("CALL_ERROR", "HTTP 400: computer says no", 1),
    "413": ("CALL_ERROR", "HTTP 413: too big", 1),
    "422": ("CALL_ERROR", "HTTP 422", 1),
    "html": ("CALL_ERROR", "the answer is not JSON: <html>", 15),
    "no_choices": ("CALL_ERROR", "the answer has no choices", 15),
    "error_200": ("CALL_ERROR", "the answer has no choices: upstream is busy", 15),
    "huge": ("CALL_ERROR", "the answer is longer than 8 MiB", 1),
    "empty": ("NO_RESPONSE", "", 1),
    "null": ("NO_RESPONSE", "", 1),
    "cut_short": ("TRUNCATED", "", 1),
    "filtered": ("REFUSED", "", 1),
    "refusal": ("REFUSED", "", 1),
    "surrogate": ("BAD_JSON", "", 1),
}


def enriched_with(folder: Path, poison: list[str], header: str = "key: [id]\n") -> tuple[se.Report, ScriptedEndpoint]:
    """Run 300 good rows and one of each of these kinds, which stand between them."""
    rows = [[number, f"good {number}"] for number in range(GOOD_ROWS)]
    for place, fault in enumerate(poison):
        rows.insert(place * 10 + 5, [1_000 + place, f"poison {fault}."])
    faults = {f"poison {fault}.": fault for fault in poison}
    with ScriptedEndpoint(by_prompt=faults, huge=9_000_000) as server:
        report = se.run(
            se.load(write_prompt(folder, header)),
            input=write_csv(folder / "in.csv", rows),
            output=folder / "out.duckdb",
            model=se.Endpoint(server.url, model="mock", timeout=TIMEOUT_S),
        )
    return report, server


def refused_rows(folder: Path) -> dict[str, tuple[str, str]]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as db:
        found = db.execute("SELECT prompt, _error, COALESCE(_error_detail, '') FROM intent_quarantine").fetchall()
    return {prompt.partition("poison ")[2].rstrip("."): (code, detail) for prompt, code, detail in found}


def test_all_kinds_of_poison_rows_in_one_run(tmp_path: Path) -> None:
    report, server = enriched_with(tmp_path, list(POISON))
    assert (report.enriched, report.quarantined, report.pending) == (GOOD_ROWS, len(POISON), 0)
    found = refused_rows(tmp_path)
    for fault, (code, detail, most) in POISON.items():
        assert found[fault][0] == code, (fault, found[fault])
        assert found[fault][1].startswith(detail), (fault, found[fault])
        sent = sum(f"poison {fault}." in seen.prompt for seen in server.asked)
        assert 1 <= sent <= most, (fault, sent)
    good = [seen.prompt for seen in server.asked if "good" in seen.prompt]
    assert len(good) <= GOOD_ROWS + 5, "a good row is asked again as a canary only"


@pytest.mark.parametrize("fault", ["hang", "403_firewall", "400_unclear"])
def test_a_table_of_one_poison_row_is_judged(tmp_path: Path, fault: str) -> None:
    data = write_csv(tmp_path / "in.csv", [[1, "poison"]])
    enrichment = se.load(write_prompt(tmp_path))
    with ScriptedEndpoint(rates={fault: 1}) as server:
        report = se.run(
            enrichment,
            input=data,
            output=tmp_path / "out.duckdb",
            model=se.Endpoint(server.url, model="mock", timeout=TIMEOUT_S),
        )
    assert report.quarantine == {"CALL_ERROR": 1}


@pytest.mark.parametrize("fault", ["hang", "500", "400_unclear"])
def test_rows_at_fault_that_alone_are_left_end_no_run(tmp_path: Path, fault: str) -> None:
    """An answer of an earlier run shows that the endpoint works."""
    enrichment, data = se.load(write_prompt(tmp_path)), tmp_path / "in.csv"
    good, bad = [1, "good"], [[number, f"poison {number}"] for number in range(2, 8)]
    with ScriptedEndpoint(by_prompt={"poison": fault}) as server:
        model = se.Endpoint(server.url, model="mock", timeout=TIMEOUT_S)
        for rows in ([good], [good, *bad]):
            report = se.run(enrichment, input=write_csv(data, rows), output=tmp_path / "out.duckdb", model=model)
    assert (report.enriched, report.quarantine, report.pending) == (1, {"CALL_ERROR": 6}, 0)

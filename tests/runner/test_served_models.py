"""The model that answered: stored, shown as ``_model``, reported where it changes, and held to the header's pin."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import GOOD, ask, call, rows, run, write_csv, write_prompt

Serve = Callable[[int], tuple[str | None, str | None]]
MODEL_PRICES = 'as_of = 2026-11-20\n[models."mock"]\ninput = 1\noutput = 2\n'
ROWS = 21


def by_number(number: int) -> tuple[str | None, str | None]:
    return ("model-v1", "fp_1") if number <= 20 else ("model-v2", "fp_2")


def always(name: str | None, fingerprint: str | None = None) -> Serve:
    return lambda _: (name, fingerprint)


def output_of(
    folder: Path, serve: Serve | None, header: str = "", *, rows: int = ROWS, tells_cached: bool = True
) -> tuple[Path, Path, Path, ScriptedEndpoint]:
    """Return the prompt file, the input, the output and the endpoint of a run."""
    prompt = write_prompt(folder, f"key: [id]\n{header}")
    data = write_csv(folder / "in.csv", [(i, f"text {i}") for i in range(rows)])
    server = ScriptedEndpoint(content=GOOD, served=serve, tells_cached=tells_cached)
    return prompt, data, folder / "out.duckdb", server


@pytest.mark.parametrize(
    ("serve", "models", "lines"),
    [
        (
            by_number,
            [("model-v1", 20), ("model-v2", 1)],
            ["warning: mock was answered by several models: model-v1 20, model-v2 1"],
        ),
        (always("mock", "fp_1"), [("mock", 21)], []),
        (always(None), [("mock", 21)], []),
        (always(""), [("mock", 21)], []),
        (
            lambda number: ("mock", f"fp_{number % 2}"),
            [("mock", 21)],
            ["mock answered with 2 system fingerprints: fp_1 11, fp_0 10"],
        ),
    ],
    ids=["changes", "constant", "not named", "empty", "fingerprints"],
)
def test_the_model_that_answered_is_stored(
    tmp_path: Path, serve: Serve, models: list[tuple[str, int]], lines: list[str]
) -> None:
    prompt, data, output, server = output_of(tmp_path, serve)
    with server:
        result = ask(prompt, data, output, server.url, "--concurrency", "1")
    assert result.status == 0, result.err
    assert rows(output, "SELECT _model, count(*) FROM intent GROUP BY ALL ORDER BY ALL") == models
    named = {served[0] or "mock" for served in map(serve, range(1, ROWS + 1))}
    assert {name for name, _ in models} == named
    stored = rows(output, "SELECT DISTINCT model, served_model, served_fingerprint FROM intent_responses")
    assert {asked for asked, *_ in stored} == {"mock"}
    assert {(a, b) for _, a, b in stored} == {(a or None, b) for a, b in map(serve, range(1, ROWS + 1))}
    assert result.report["served_changes"] == lines
    counts: dict[str, int] = {}
    for one in result.report["served"]:
        counts[one["model"] or one["asked"]] = counts.get(one["model"] or one["asked"], 0) + one["answers"]
    assert sorted(counts.items()) == models
    profiled = "SELECT level, rows FROM intent_profiles WHERE field = '_model' ORDER BY ALL"
    assert rows(output, profiled) == models
    assert call("audit", prompt, "--output", output).status == 0


@pytest.mark.parametrize(
    ("header", "serve", "status", "told"),
    [
        ("true", by_number, 3, "pin_model allows one model, but several answered: model-v1 20, model-v2 1"),
        ("model-v1", by_number, 3, "pin_model is model-v1, but other models answered: model-v2 1"),
        ('"model-v*"', by_number, 0, None),
        ("true", always("model-v1"), 0, None),
        ("true", always(None), 0, None),
        ("mock", always(None), 0, None),
        ("false", by_number, 0, None),
        ("model-v2", always("model-v1"), 1, "mock is answered by model-v1, and pin_model is model-v2: "),
        ('"gpt-4o-2024-*"', always("gpt-4o-mini"), 1, "mock is answered by gpt-4o-mini, and pin_model is gpt-4o-2024"),
        ("model-v2", always(None), 1, "mock is answered by mock, and pin_model is model-v2: "),
    ],
)
def test_a_pinned_model(tmp_path: Path, header: str, serve: Serve, status: int, told: str | None) -> None:
    prompt, data, output, server = output_of(tmp_path, serve, f"pin_model: {header}\n")
    with server:
        first = ask(prompt, data, output, server.url, "--concurrency", "1")
        asked = len(server.asked)
        assert first.status == status, first.err
        if status == 1:
            assert told is not None
            assert told in first.err
            assert asked == 1
            assert rows(output, "SELECT count(*) FROM intent_responses") == [(1,)]  # what was paid is stored
            return
        assert first.report["pin_problem"] == told
        # The rows stay what they are: a run that asks nothing says so again.
        again = ask(prompt, data, output, server.url)
        assert (again.status, again.report["calls"], again.report["pin_problem"]) == (status, 0, told)
    audit = json.loads(call("audit", prompt, "--output", output, "--json").out)
    assert [(one["check"], one["text"]) for one in audit["problems"]] == ([] if told is None else [("model", told)])


def test_the_mock_model_stands_for_a_pinned_one(tmp_path: Path) -> None:
    prompt, data, output, _ = output_of(tmp_path, None, "pin_model: gpt-4o\n", rows=3)
    assert run(prompt, data, output).status == 0
    assert call("audit", prompt, "--output", output).status == 0


def test_an_alias_that_moved_since_the_last_run(tmp_path: Path) -> None:
    prompt, data, output, server = output_of(tmp_path, always("model-v1"), "pin_model: true\n")
    with server:
        assert ask(prompt, data, output, server.url).status == 0
        server.served = always("model-v2")
        more = write_csv(tmp_path / "more.csv", [(i, f"text {i}") for i in range(ROWS + 9)])
        asked = len(server.asked)
        result = ask(prompt, more, output, server.url)
        assert result.status == 1
        assert (
            "mock is answered by model-v2, the stored answers are of model-v1: write pin_model: model-v2" in result.err
        )
        assert len(server.asked) == asked + 1


@pytest.mark.parametrize("changed", ["UPDATE {} SET served_model = 'x'", "UPDATE {} SET served_fingerprint = 'x'"])
def test_an_audit_finds_another_model(tmp_path: Path, changed: str) -> None:
    prompt, data, output, server = output_of(tmp_path, always("model-v1"), rows=3)
    with server:
        assert ask(prompt, data, output, server.url).status == 0
    with duckdb.connect(str(output)) as db:
        db.execute(changed.format("intent_responses"))
    audit = json.loads(call("audit", prompt, "--output", output, "--json").out)
    assert "model" in {one["check"] for one in audit["problems"]}


def test_answers_of_another_version_are_told_in_words(tmp_path: Path) -> None:
    prompt, data, output, server = output_of(tmp_path, None, rows=3)
    with server:
        assert ask(prompt, data, output, server.url).status == 0
        with duckdb.connect(str(output)) as db:
            db.execute("ALTER TABLE intent_responses DROP served_model")
        result = ask(prompt, data, output, server.url)
    assert result.status == 2
    assert "intent_responses has no column served_model: another version of sqlenrich made it" in result.err.replace(
        '"', ""
    )


# Tokens and cost ------------------------------------------------------------------------------------------------------


def test_an_audit_holds_where_no_answer_tells_cached_tokens(tmp_path: Path) -> None:
    prompt, data, output, server = output_of(tmp_path, None, rows=3, tells_cached=False)
    with server:
        assert ask(prompt, data, output, server.url).report["tokens_cached"] is None
    result = call("audit", prompt, "--output", output)
    assert result.status == 0, result.out


def test_a_run_without_prices_gets_its_cost_from_the_stored_tokens(tmp_path: Path) -> None:
    prompt, data, output, server = output_of(tmp_path, None, rows=3)
    prices = tmp_path / "prices.toml"
    prices.write_text(MODEL_PRICES, encoding="utf-8")
    with server:
        first = ask(prompt, data, output, server.url).report
        # It asks nothing: its cost of 0 is no cost of the first run.
        assert ask(prompt, data, output, server.url, "--prices", prices).report["cost"] == 0
        alone = tmp_path / "alone.duckdb"
        told = ask(prompt, data, alone, server.url, "--prices", prices).report["cost"]
    assert first["cost"] is None
    assert told > 0

    def tile(**options: object) -> tuple[str, str, str]:
        found = se.report(se.load(prompt), output=output, **options)  # type: ignore[arg-type]
        (one,) = [one for one in found.tiles if "cost" in one.question]
        return one.status, one.figure, one.detail

    tokens = first["tokens_in"] + first["tokens_out"]
    assert tile() == ("unmeasured", "–", f"{tokens} tokens, and no prices")
    status, figure, detail = tile(prices=prices)
    assert status == "told"
    assert float(figure.removesuffix(" USD")) == pytest.approx(told, rel=0.01)
    assert detail == f"{tokens} tokens in 2 runs; 1 run (*) by prices of 2026-11-20"
    with_prices = json.loads(call("report", prompt, "--output", output, "--prices", prices, "--json").out)
    assert [run["spent"]["cost"] for run in with_prices["runs"]] == [told, 0.0]
    assert [run["spent"]["prices_as_of"] for run in with_prices["runs"]] == ["2026-11-20", None]
    page = tmp_path / "page.html"
    text = call("report", prompt, "--output", output, "--prices", prices, "--page", page).out
    assert f"{figure}*" in text
    assert f"{figure}*" in page.read_text(encoding="utf-8")
    # Of answers that are gone nothing tells the cost.
    copy = tmp_path / "copy.duckdb"
    shutil.copy(output, copy)
    with duckdb.connect(str(copy)) as db:
        db.execute("DELETE FROM intent_responses WHERE attempt = 1 AND request_hash = (SELECT min(request_hash) FROM "
                   "intent_responses)")  # fmt: skip
    found = json.loads(call("report", prompt, "--output", copy, "--prices", prices, "--json").out)
    assert [run["spent"] and run["spent"]["cost"] for run in found["runs"]] == [None, 0.0]

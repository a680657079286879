"""The file of prices, costs computed by hand, and the costs in a run's report."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.errors import ConfigError
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import Plan
from sqlenrich.runner.usage import account
from sqlenrich.spec.known_prices import known_prices
from sqlenrich.spec.loader import loads
from sqlenrich.spec.prices import Price, Prices, money, read_prices
from sqlenrich.spec.settings import Config, read_config
from sqlenrich.store.dbapi import DbApiBackend
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import ask, call, rows, run, write_csv, write_prompt

FULL = """
as_of = 2026-11-01
currency = "EUR"
[models."gpt-4.1-mini"]
input = 0.40
cached = 0.10
output = 1.60
[models.local]
input = 0
output = 0
"""
PRICE = Price(Decimal("0.40"), Decimal("0.10"), Decimal("1.60"))


def write_prices(folder: Path, text: str, name: str = "prices.toml") -> Path:
    """Write a file of prices."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file(tmp_path: Path) -> None:
    file = write_prices(tmp_path, FULL)
    free = Price(Decimal(0), Decimal(0), Decimal(0))
    assert read_prices(file) == Prices(date(2026, 11, 1), "EUR", {"gpt-4.1-mini": PRICE, "local": free}, file)


def test_what_may_be_left_out(tmp_path: Path) -> None:
    prices = read_prices(write_prices(tmp_path, "as_of = 2026-11-01\n[models.m]\ninput = 3\noutput = 15.5"))
    assert prices.currency == "USD"
    assert prices.models == {"m": Price(Decimal(3), Decimal(3), Decimal("15.5"))}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            "",
            [
                "as_of must be the day of the prices, without quotes, e.g. as_of = 2026-11-01 @ as_of",
                'no model has a price: write [models."NAME"] with input and output @ models',
            ],
            id="empty",
        ),
        pytest.param(
            'as_of = "2026-11-01"\ncurrency = 3\nmodel = 1\n'
            '[models.a]\ninput = -0.1\noutput = "1"\ncache = 1\n[models.b]\ninput = nan\noutput = inf\n'
            "[models.c]\ncached = true\n[models]\nd = 1",
            [
                'unknown key "model" (models?) @ model',
                "as_of must be the day of the prices, without quotes, e.g. as_of = 2026-11-01 @ as_of",
                'currency must be a short text, e.g. currency = "USD" @ currency',
                'unknown key "cache" (cached?) @ models.a.cache',
                "input must be 0 or more, not -0.1 @ models.a.input",
                "output must be a number, the price of a million tokens, not '1' @ models.a.output",
                "input must be 0 or more, not NaN @ models.b.input",
                "output must be 0 or more, not Infinity @ models.b.output",
                "input is missing: the price of a million tokens @ models.c",
                "cached must be a number, the price of a million tokens, not True @ models.c.cached",
                "output is missing: the price of a million tokens @ models.c",
                "a model's price must be a table with input and output @ models.d",
            ],
            id="all at once",
        ),
        pytest.param(
            "as_of = 2026-11-01T00:00:00\n[models.gpt-4.1-mini]\ninput = 1\noutput = 1",
            [
                "as_of must be the day of the prices, without quotes, e.g. as_of = 2026-11-01 @ as_of",
                'a name with a dot needs quotes: [models."gpt-4.1-mini"] @ models.gpt-4',
            ],
            id="a dot outside quotes",
        ),
    ],
)
def test_problems(tmp_path: Path, text: str, problems: list[str]) -> None:
    file = write_prices(tmp_path, text)
    with pytest.raises(se.ConfigError) as caught:
        read_prices(file)
    told = [re.sub("^(.*?: )line [0-9]+: ", r"\1", line) for line in str(caught.value).splitlines()]
    assert sorted(told) == sorted(f"{file}: {problem}" for problem in problems)


@pytest.mark.parametrize(
    ("text", "problem"), [(None, "No such file or directory"), ("as_of = \n", "Invalid value (at line 1, column 9)")]
)
def test_no_toml(tmp_path: Path, text: str | None, problem: str) -> None:
    file = tmp_path / "prices.toml" if text is None else write_prices(tmp_path, text)
    with pytest.raises(se.ConfigError) as caught:
        read_prices(file)
    assert str(caught.value) == f"{file}: {problem}"


@pytest.mark.parametrize(
    ("tokens_in", "tokens_cached", "tokens_out", "cost"),
    [
        (1_000_000, 0, 0, 0.40),
        (1_000_000, 1_000_000, 0, 0.10),
        (0, 0, 1_000_000, 1.60),
        (12_345, 8000, 1234, 0.0045124),  # (4,345 x 0.40 + 8,000 x 0.10 + 1,234 x 1.60) / 1,000,000
        (12_345, None, 1234, 0.0069124),
        (10, 20, 0, 0.000001),
        (1, 0, 0, 0.0000004),
        (0, None, 0, 0.0),
        (None, 0, 1, None),
        (1, 0, None, None),
    ],
)
def test_cost(tokens_in: int | None, tokens_cached: int | None, tokens_out: int | None, cost: float | None) -> None:
    assert PRICE.cost(tokens_in, tokens_cached, tokens_out) == cost


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1234.567, "1,234.57"), (1.0, "1.00"), (0.5, "0.500"), (0.0123456, "0.0123"), (4e-7, "0.000000400")],
)
def test_money(amount: float, text: str) -> None:
    assert money(amount) == text


def test_prices_of_the_settings(tmp_path: Path) -> None:
    file = write_prices(tmp_path, FULL)
    settings = tmp_path / "sqlenrich.toml"
    settings.write_text('prices = "prices.toml"', encoding="utf-8")
    assert read_config(settings).prices == read_prices(file)
    settings.write_text("prices = 3", encoding="utf-8")
    with pytest.raises(
        se.ConfigError, match=r'prices must be the path of a file, or "genai-prices": prices = "prices\.toml" @ prices'
    ):
        read_config(settings)
    settings.write_text('prices = "price.toml"', encoding="utf-8")
    with pytest.raises(se.ConfigError, match=r"price\.toml: No such file"):
        read_config(settings)
    assert Config().prices is None


# A run's answers: model, call_error, tokens in, cached, out, latency.
OK = ("m", None, 1_000_000, 500_000, 100_000, 10)
FAILED = ("m", "HTTP 500", None, None, None, 120_000)
MODELS = {"m": PRICE, "big": Price(Decimal(4), Decimal(4), Decimal(16)), "free": Price(*[Decimal(0)] * 3)}
MODELS |= {"half": replace(PRICE, batch=Decimal("0.5"))}


@pytest.mark.parametrize(
    ("answers", "cost", "unknown"),
    [
        pytest.param([OK], 0.41, "", id="one"),  # 0.5 x 0.40 + 0.5 x 0.10 + 0.1 x 1.60
        pytest.param([], 0.0, "", id="none"),
        pytest.param([OK, FAILED], 0.41, "", id="a failed call takes nothing"),
        pytest.param([OK, ("big", None, 1_000_000, None, 0, 1)], 4.41, "", id="two models"),
        pytest.param([("free", None, 9, 9, 9, 1)], 0.0, "", id="free"),
        pytest.param([("m", None, 10, 20, 0, 1)], 0.000001, "", id="more cached than sent"),
        pytest.param([OK, ("m", None, None, None, 5, 1)], None, "1 answers of m without token counts", id="no counts"),
        pytest.param([OK, ("m", None, 5, 0, None, 1)], None, "1 answers of m without token counts", id="no out"),
        pytest.param([OK, ("other", None, 1, 0, 1, 1)], None, "no price of other", id="no price"),
        pytest.param([("half", None, 1_000_000, 500_000, 100_000, None)], 0.205, "", id="of a batch"),
        pytest.param([("half", None, 1_000_000, 500_000, 100_000, 1)] * 2, 0.82, "", id="batches have a price"),
        pytest.param([("m", None, 1_000_000, 500_000, 100_000, None)], 0.41, "", id="batches have none"),
    ],
)
def test_the_cost_of_a_run(answers: list[tuple[Any, ...]], cost: float | None, unknown: str) -> None:
    facts = account(*stored(answers), "run", Prices(date(2026, 11, 1), "EUR", MODELS))
    assert (facts["cost"], facts["cost_unknown"]) == (cost, unknown)
    assert (facts["currency"], facts["prices_as_of"]) == ("EUR", "2026-11-01")


def test_counts_and_latencies_of_a_run() -> None:
    facts = account(*stored([OK, FAILED, ("n", None, 5, None, None, 30)]), "run", None)
    assert (facts["tokens_in"], facts["tokens_cached"], facts["tokens_out"]) == (1_000_005, 500_000, 100_000)
    assert (facts["cost"], facts["currency"], facts["prices_as_of"]) == (None, None, None)
    assert facts["latency_ms"] == {"p50": 10, "p95": 30, "p99": 30}
    nothing = account(*stored([FAILED]), "run", None)
    assert [nothing[name] for name in ("tokens_in", "tokens_cached", "tokens_out", "latency_ms")] == [None] * 4


def stored(answers: list[tuple[Any, ...]]) -> tuple[DbApiBackend, Plan]:
    """Responses of the run "run", and one of another run, which never counts."""
    db = duckdb.connect()
    db.execute(
        "CREATE TABLE e_responses (model VARCHAR, call_error VARCHAR, tokens_in BIGINT, tokens_cached BIGINT, "
        "tokens_out BIGINT, latency_ms BIGINT, run_id VARCHAR, raw VARCHAR)"
    )
    for answer in [("unknown", None, 1, 1, 1, 1, "other"), *((*answer, "run") for answer in answers)]:
        db.execute("INSERT INTO e_responses VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", answer)
    header = "---\nsource: t\nkey: [id]\noutput: {properties: {a: {type: string}}}\n---\n{{ body }}"
    return DbApiBackend(db, engine="duckdb"), compile_plan(loads(header, name="e"), "duckdb")


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        (range(1, 101), [1, 50, 95, 99, 100]),
        (range(1, 4), [1, 2, 3, 3, 3]),
        ([7, None, 7, 9], [7, 7, 9, 9, 9]),
        ([None], None),
    ],
)
def test_percentiles(latencies: Iterable[int | None], expected: list[int] | None) -> None:
    backend, plan = stored([("m", None, 1, 1, 1, latency) for latency in latencies])
    assert backend.latencies(plan, "run", (1, 50, 95, 99, 100)) == expected


def test_reports_of_run_and_retry(tmp_path: Path) -> None:
    """The endpoint counts one token plus one per four bytes. The common beginning with the last prompt is cached."""
    prices = write_prices(tmp_path, "as_of = 2026-11-01\n[models.mock]\ninput = 1\ncached = 0.5\noutput = 2")
    data, out, prompt = (
        write_csv(tmp_path / "in.csv", [(1, "aa"), (2, "bb")]),
        tmp_path / "o.duckdb",
        write_prompt(tmp_path, template="x" * 70 + " {{ body }}"),
    )
    with ScriptedEndpoint(content=lambda text: '{"label":"a","urgency":3}' if "aa" in text else "no") as endpoint:
        first = ask(prompt, data, out, endpoint.url, "--prices", prices)
        assert first.report["tokens_in"] == 2 * (73 // 4 + 1) == 38
        assert (first.report["tokens_cached"], first.report["tokens_out"]) == (16, 24 // 4 + 1 + 1)
        assert first.report["cost"] == 0.000046  # 22 x 1 + 16 x 0.5 + 8 x 2, of a million
        assert "38 tokens in (16 cached), 8 out; 0.0000460 USD (prices of 2026-11-01)" in first.err
        assert set(first.report["latency_ms"]) == {"p50", "p95", "p99"}
        options = ("--endpoint", endpoint.url, "--max-attempts", 2, "--json")
        again = call("retry", prompt, "--output", out, *options, "--prices", prices)
        assert (again.report["calls"], again.report["cost"]) == (1, 0.000013)  # 3 x 1 + 16 x 0.5 + 1 x 2
        (tmp_path / "sqlenrich.toml").write_text('prices = "prices.toml"', encoding="utf-8")
        assert ask(prompt, data, out, endpoint.url).report["cost"] == 0.0
    assert rows(out, "SELECT count(*) FROM intent_responses") == [(3,)]


def test_a_bad_file_ends_a_run_before_it_starts(tmp_path: Path) -> None:
    prices = write_prices(tmp_path, "as_of = 2026-11-01")
    data = write_csv(tmp_path / "in.csv", [(1, "a")])
    result = run(write_prompt(tmp_path), data, tmp_path / "out.duckdb", "--prices", prices)
    assert result.status == 2
    assert result.error == f'{prices}: no model has a price: write [models."NAME"] with input and output @ models'
    assert not (tmp_path / "out.duckdb").exists()


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gpt-4.1-mini", True), ("claude-sonnet-4-5", True), ("gemini-2.5-flash", True),
        ("gpt-oss-120b", False), ("gemma-3-27b-it", False), ("Qwen/Qwen2.5-7B-Instruct", False),
        ("meta-llama/Llama-3.1-8B", False), ("mock", False), ("m", False), ("", False),
    ],
)  # fmt: skip
def test_prices_of_the_package_are_those_of_models_that_only_their_vendor_runs(name: str, known: bool) -> None:
    prices = known_prices()
    assert (name in prices.models) is known
    if known:
        price = prices.models[name]
        assert 0 < price.cached < price.input < price.output
        assert price.batch == Decimal("0.5")
    assert prices.told.startswith("genai-prices 0.")


def test_a_run_tells_its_cost_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "sqlenrich.toml").write_text('prices = "genai-prices"\n')
    (tmp_path / "own.toml").write_text('as_of = 2026-11-01\n[models."gpt-4.1-mini"]\ninput = 5\noutput = 5\n')
    prompt = write_prompt(tmp_path)
    data = write_csv(tmp_path / "in.csv", [(1, "a"), (2, "b")])
    costs: list[float] = []
    for number, own in enumerate((None, tmp_path / "own.toml")):
        with ScriptedEndpoint(models=("gpt-4.1-mini",)) as endpoint:
            report = se.run(prompt, input=data, output=tmp_path / f"{number}.duckdb", endpoint=endpoint.url, prices=own)
        costs.append(report.cost or 0.0)
        told = "2026-11-01" if own else known_prices().told
        assert f"USD (prices of {told})" in report.to_text()
    assert 0 < costs[0] < costs[1]  # one's own file wins


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    (tmp_path / "sqlenrich.toml").write_text('prices = "genai-prices"\n')
    with pytest.raises(ConfigError, match=r'pip install "sqlenrich\[prices\]", or name a file of prices'):
        read_config(tmp_path / "sqlenrich.toml")

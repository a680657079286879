"""Caps, limits and the order of requests in whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqlenrich.spec.prices import read_prices
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import GOOD, Result, ask, assert_accounted, call, rows, run, write_csv, write_prompt

PRICES = """as_of = 2026-11-01
[models.mock]
input = 1000
output = 4000
"""


def make(folder: Path, count: int = 400, header: str = "key: [id]\n") -> tuple[Path, Path, Path]:
    data = write_csv(folder / "in.csv", ((n, f"text {n}") for n in range(count)))
    return write_prompt(folder, header), data, folder / "out.duckdb"


@pytest.mark.parametrize("cap", [0, 1, 3, 150, 399])
@pytest.mark.parametrize("whom", ["mock", "endpoint"])
def test_max_calls_stops_a_run_that_goes_on_later(tmp_path: Path, cap: int, whom: str) -> None:
    prompt, data, output = make(tmp_path)
    with ScriptedEndpoint(content=GOOD) as server:

        def start(*options: object) -> Result:
            if whom == "mock":
                return run(prompt, data, output, *options)
            return ask(prompt, data, output, server.url, *options)

        first = start("--max-calls", cap)
        assert first.status == 4, first.err
        report = first.report
        assert (report["calls"], report["pending"], report["stopped_at"]) == (cap, 400 - cap, "max_calls")
        assert report["quarantine"] == {"NOT_ASKED": 400 - cap}
        assert_accounted(report, output)
        assert f"stopped at --max-calls {'with' if cap else 'before'} " in first.err
        last = start("--max-calls", 400)
        assert (last.status, last.report["calls"], last.report["stopped_at"]) == (0, 400 - cap, None)
        assert whom == "mock" or len(server.asked) == 400


def test_retries_count_for_max_calls(tmp_path: Path) -> None:
    prompt, data, output = make(tmp_path)
    with ScriptedEndpoint(content=GOOD, rates={"500": 0.3}, seed=5) as server:
        first = ask(prompt, data, output, server.url, "--max-calls", 200)
        assert first.status == 4
        assert first.report["calls"] == len(server.asked) == 200
        assert first.report["enriched"] == sum(seen.status == 200 for seen in server.asked)


def test_max_cost_is_not_exceeded_and_most_of_it_is_used(tmp_path: Path) -> None:
    prompt, data, output = make(tmp_path, header="key: [id]\nparams: {max_tokens: 16}\n")
    (tmp_path / "prices.toml").write_text(PRICES, encoding="utf-8")
    options = ("--prices", tmp_path / "prices.toml")
    with ScriptedEndpoint(content=GOOD, latency_s=0.005) as server:
        whole = ask(prompt, data, tmp_path / "whole.duckdb", server.url, *options)
        assert whole.status == 0, whole.err
        each = whole.report["cost"] / 400
        cap = 100 * each
        found = ask(prompt, data, output, server.url, *options, "--max-cost", cap)
        assert found.status == 4, found.err
        assert 0.8 * cap < found.report["cost"] <= cap
        assert found.report["stopped_at"] == "max_cost"
        assert_accounted(found.report, output)
        rest = ask(prompt, data, output, server.url, *options)
        assert (rest.status, rest.report["cached"]) == (0, found.report["enriched"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param((), "max_cost needs prices: give --prices FILE", id="no prices"),
        pytest.param(("--prices",), 'max_cost needs the price of "mock"', id="another model's"),
    ],
)
def test_max_cost_without_a_price(tmp_path: Path, options: tuple[str, ...], error: str) -> None:
    prompt, data, output = make(tmp_path, 3)
    path = tmp_path / "prices.toml"
    path.write_text(PRICES.replace("models.mock", "models.other"), encoding="utf-8")
    with ScriptedEndpoint(content=GOOD) as server:
        found = ask(prompt, data, output, server.url, "--max-cost", 1, *options, *([path] if options else []))
    assert found.status == 2
    assert error in found.err
    assert not server.asked


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("input = 1", "prices.toml: line 2: output is missing: the price of a million tokens @ models.mock"),
        ("output = 1", "prices.toml: line 2: input is missing: the price of a million tokens @ models.mock"),
        (
            "cached = 1\noutput = 1",
            "prices.toml: line 2: input is missing: the price of a million tokens @ models.mock",
        ),
    ],
)
def test_max_cost_with_a_part_of_a_price(tmp_path: Path, written: str, error: str) -> None:
    prompt, data, output = make(tmp_path, 3)
    path = tmp_path / "prices.toml"
    path.write_text(f"as_of = 2026-11-01\n[models.mock]\n{written}\n", encoding="utf-8")
    with ScriptedEndpoint(content=GOOD) as server:
        found = ask(prompt, data, output, server.url, "--max-cost", 1, "--prices", path)
    assert (found.status, found.error.endswith(error), server.asked) == (2, True, [])


def test_answers_that_do_not_tell_their_tokens_count_with_the_most_they_may_cost(tmp_path: Path) -> None:
    prompt, data, output = make(tmp_path, 100, header="key: [id]\nparams: {max_tokens: 16}\n")
    (tmp_path / "prices.toml").write_text(PRICES.replace("1000", "0"), encoding="utf-8")

    class Silent(ScriptedEndpoint):
        def completion(self, body: dict[str, Any], fault: str) -> bytes:
            made = json.loads(super().completion(body, fault))
            del made["usage"]
            return json.dumps(made).encode()

    options = ("--prices", tmp_path / "prices.toml", "--max-cost", 1, "--concurrency", 64)
    with Silent(content=GOOD) as server:
        report = ask(prompt, data, output, server.url, *options).report
    assert (report["calls"], report["stopped_at"]) == (15, "max_cost")  # 16 tokens at 4000 a million each: 0.064
    assert (report["cost"], report["cost_unknown"]) == (None, "15 answers of mock without token counts")


def test_max_cost_of_the_mock_is_free(tmp_path: Path) -> None:
    prompt, data, output = make(tmp_path, 20)
    assert run(prompt, data, output, "--max-cost", 0).status == 0


@pytest.mark.parametrize(
    ("template", "options", "ordered"),
    [
        pytest.param("Shop {{ shop }}: {{ body }}", (), True, id="two columns"),
        pytest.param("Shop {{ shop }}: {{ body }}", ("--no-prefix-order",), False, id="off"),
        pytest.param("Text: {{ body }}", (), False, id="nothing to share"),
    ],
)
def test_requests_with_an_equal_beginning_go_together(
    tmp_path: Path, template: str, options: tuple[str, ...], ordered: bool
) -> None:
    prompt = write_prompt(tmp_path, template=template)
    lines = ((n, f"{n * 7919 % 1000:03}", f"shop {n * 31 % 10}") for n in range(300))
    data = write_csv(tmp_path / "in.csv", lines, ("id", "body", "shop"))
    with ScriptedEndpoint(content=GOOD) as server:
        found = ask(prompt, data, tmp_path / "out.duckdb", server.url, "--concurrency", 1, *options)
        assert found.status == 0, found.err
        sent = [seen.prompt for seen in server.asked]
    assert len(sent) == 300
    assert (sent == sorted(sent)) == ordered


def test_a_setting_turns_the_order_off(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, template="Shop {{ shop }}: {{ body }}")
    lines = ((n, f"{n * 7919 % 1000:03}", f"shop {n * 31 % 10}") for n in range(100))
    data = write_csv(tmp_path / "in.csv", lines, ("id", "body", "shop"))
    with ScriptedEndpoint(content=GOOD) as server:
        settings = f'[endpoints.local]\nurl = "{server.url}"\nconcurrency = 1\nprefix_order = false\n'
        (tmp_path / "sqlenrich.toml").write_text(settings, encoding="utf-8")
        found = call("run", prompt, "--input", data, "--output", tmp_path / "o.duckdb", "--model", "mock", "--json")
        assert found.status == 0, found.err
        sent = [seen.prompt for seen in server.asked]
    assert sent != sorted(sent)


def test_limits_a_minute_are_kept_and_told(tmp_path: Path) -> None:
    prompt, data, output = make(tmp_path, 40)
    with ScriptedEndpoint(content=GOOD) as server:
        settings = f'[endpoints.local]\nurl = "{server.url}"\nrpm = 600\n'
        (tmp_path / "sqlenrich.toml").write_text(settings, encoding="utf-8")
        found = call("run", prompt, "--input", data, "--output", output, "--model", "mock", "--json")
        assert found.status == 0, found.err
        seconds = server.asked[-1].at - server.asked[0].at
    assert found.report["limits"]["rpm"] > 0.5
    assert seconds > 1.5  # 12 at once, then 9.8 a second
    assert "limits reached: rpm" in found.err


def test_a_cap_is_seen_before_a_limit_is_waited_for(tmp_path: Path) -> None:
    prompt, data, output = make(tmp_path, 40)
    with ScriptedEndpoint(content=GOOD) as server:
        settings = f'[endpoints.local]\nurl = "{server.url}"\nrpm = 6\n'
        (tmp_path / "sqlenrich.toml").write_text(settings, encoding="utf-8")
        options = ("--model", "mock", "--max-calls", 1, "--json")
        found = call("run", prompt, "--input", data, "--output", output, *options)
    assert (found.status, found.report["calls"], found.report["stopped_at"]) == (4, 1, "max_calls")
    assert found.report["seconds"] < 8


def test_two_urls_of_the_settings(tmp_path: Path) -> None:
    prompt, data, output = make(tmp_path, 300)
    with ScriptedEndpoint(content=GOOD, latency_s=0.01) as one, ScriptedEndpoint(content=GOOD, latency_s=0.01) as two:
        settings = f'[endpoints.local]\nurl = ["{one.url}", "{two.url}"]\n'
        (tmp_path / "sqlenrich.toml").write_text(settings, encoding="utf-8")
        found = call("run", prompt, "--input", data, "--output", output, "--model", "mock", "--json")
        assert found.status == 0, found.err
        assert f"{one.url} and {two.url}" in found.err
        assert min(len(one.asked), len(two.asked)) > 10


def test_a_cut_is_warned_of_once(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path)
    data = write_csv(tmp_path / "in.csv", ((n, f"{n} " + "long text " * 1_500) for n in range(12)))
    with ScriptedEndpoint(content=GOOD, cut=512) as server:
        found = ask(prompt, data, tmp_path / "out.duckdb", server.url)
    assert found.status == 0, found.err
    assert found.err.count("cut long prompts without a word") == 1
    assert rows(tmp_path / "out.duckdb", "SELECT count(*) FROM intent") == [(12,)]


class Dear(ScriptedEndpoint):
    """Takes any tokens up to a byte of the request each and ``max_tokens``, and remembers what it took."""

    def completion(self, body: dict[str, Any], fault: str) -> bytes:
        made = json.loads(super().completion(body, fault))
        came, went = self._random.randint(1, len(json.dumps(body))), self._random.randint(1, body["max_tokens"])
        cached = self._random.choice((0, came // 2))
        made["usage"] = {
            "prompt_tokens": came,
            "completion_tokens": went,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        self.took.append((came, cached, went))
        return json.dumps(made).encode()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.took: list[tuple[int, int, int]] = []


@pytest.mark.parametrize("cached", ["", "cached = 100\n", "cached = 1250\n"])
@pytest.mark.parametrize("seed", [1, 2])
def test_max_cost_holds_with_256_in_flight_whatever_answers_take(tmp_path: Path, cached: str, seed: int) -> None:
    prompt, data, output = make(tmp_path, 1500, header="key: [id]\nparams: {max_tokens: 300}\n")
    (tmp_path / "prices.toml").write_text(PRICES + cached, encoding="utf-8")
    price = read_prices(tmp_path / "prices.toml").models["mock"]
    options = ("--prices", tmp_path / "prices.toml", "--max-cost", 600, "--concurrency", 256)
    server = Dear(content=GOOD, latency_s=0.02, seed=seed)
    with server:
        found = ask(prompt, data, output, server.url, *options)
        took = float(sum(price.exact(*tokens) for tokens in server.took))
    assert (found.status, found.report["stopped_at"]) == (4, "max_cost"), found.err
    assert found.report["cost"] == took
    assert 0.99 * 600 < took <= 600
    assert server.busy_peak > 100


def test_a_retry_counts_its_larger_limits(tmp_path: Path) -> None:
    """What was truncated is asked with twice the limit, and may cost so much."""
    prompt, data, output = make(tmp_path, 60, header="key: [id]\nparams: {max_tokens: 16}\n")
    (tmp_path / "prices.toml").write_text(PRICES.replace("1000", "0"), encoding="utf-8")
    options = ("--prices", tmp_path / "prices.toml", "--stop-after-refused", "0")

    class Cut(ScriptedEndpoint):
        def completion(self, body: dict[str, Any], fault: str) -> bytes:
            made = json.loads(super().completion(body, fault))
            made["choices"][0]["finish_reason"] = "length"
            made["usage"] = {"prompt_tokens": 1, "completion_tokens": body["max_tokens"]}
            return json.dumps(made).encode()

    with Cut(content='{"label":"a","urg', latency_s=0.01) as server:
        first = ask(prompt, data, output, server.url, *options)
        assert first.report["quarantine"] == {"TRUNCATED": 60}
        given = ("--endpoint", server.url, "--concurrency", 32, "--json", "--max-cost", 1)
        found = call("retry", prompt, "--output", output, *given, *options)
    assert (found.status, found.report["stopped_at"]) == (4, "max_cost"), found.err
    assert found.report["calls"] == 7  # 32 tokens at 4000 a million each: 0.128
    assert found.report["cost"] == 0.896

"""A cascade: a second model decides what a sample does not certify of the first, and nothing is asked of it twice."""

from __future__ import annotations

import json
import random
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.runner.threshold import Certificate, binomial_cdf, certified_threshold, most_disagreements
from sqlenrich.spec.cascade import least_sample
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import Result, assert_accounted, call, rows, start, write_csv, write_prompt

OUTPUT = "output: {label(enum): [a, b, c], confidence: number}\n"
CASCADE = "cascade: {ask: strong, score: confidence, target: 0.9, sample: 300}\n"
HEADER = "key: [id]\nparams: {temperature: 0, max_tokens: 64}\nmodel: weak\n"
TOML = '[models.weak]\nendpoint = "weak-1"\n[models.strong]\nendpoint = "strong-1"\n'
PRICES = (
    'currency = "USD"\nas_of = 2026-11-01\n'
    '[models."weak-1"]\ninput = 1\noutput = 1\n[models."strong-1"]\ninput = 10\noutput = 10\n'
)


class Pair(ScriptedEndpoint):
    """Two models: the strong one is right, the other one as often as its confidence says."""

    odd = ""
    """The end of prompts to which the weak model writes no JSON."""
    confidence: float | None = None
    """What the weak model says of each answer, half of which are wrong; None: how often such an answer is right."""

    def completion(self, body: dict[str, Any], fault: str) -> bytes:
        made = json.loads(super().completion(body, fault))
        prompt = body["messages"][-1]["content"]
        made["choices"][0]["message"]["content"] = self.answer(body["model"], prompt)
        return json.dumps(made).encode()

    def answer(self, model: str, prompt: str) -> str:
        seed = random.Random(zlib.crc32(prompt.encode()))
        label, confidence = seed.choice("abc"), round(seed.random(), 2)
        right = seed.random() < confidence
        confidence = confidence if self.confidence is None else self.confidence
        if model.startswith("strong"):
            return json.dumps({"label": label, "confidence": 1.0})
        wrong = {"a": "b", "b": "c", "c": "a"}[label]
        return (
            "?"
            if self.odd and prompt.endswith(self.odd)
            else json.dumps({"label": label if right else wrong, "confidence": confidence})
        )

    def asked_of(self, model: str) -> list[str]:
        """The prompts that a model was asked."""
        bodies = (json.loads(seen.body) for seen in self.asked)
        return [body["messages"][-1]["content"] for body in bodies if body["model"] == model]


@pytest.fixture
def endpoint() -> Iterator[Pair]:
    with Pair() as started:
        yield started


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sqlenrich.toml").write_text(TOML)
    (tmp_path / "prices.toml").write_text(PRICES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def texts(folder: Path, count: int, repeated: int = 0) -> Path:
    """Write rows, of which the first ones are repeated."""
    lines = [(n, f"text {n}") for n in range(count)] + [(count + n, f"text {n}") for n in range(repeated)]
    return write_csv(folder / "in.csv", lines)


def run(
    folder: Path, endpoint: ScriptedEndpoint, cascade: str = CASCADE, *more: object, data: str = "in.csv"
) -> Result:
    prompt = write_prompt(folder, HEADER + cascade, output=OUTPUT)
    return call("run", prompt, "--input", folder / "in.csv", "--output", folder / "out.duckdb",
                "--endpoint", endpoint.url, "--json", *more)  # fmt: skip


def test_the_second_model_may_have_an_endpoint_of_its_own(settings: Path, endpoint: Pair) -> None:
    texts(settings, 200)
    with Pair() as other:
        (settings / "sqlenrich.toml").write_text(f'{TOML}[endpoints.second]\nurl = "{other.url}"\n')
        found = run(settings, endpoint, CASCADE.replace("{ask: strong", "{ask: strong, endpoint: second"))
        assert found.status == 0, found.err
        assert (len(endpoint.asked_of("weak-1")), len(endpoint.asked_of("strong-1"))) == (200, 0)
        assert len(other.asked_of("strong-1")) == len(other.asked) == 200


def wrong_rows(folder: Path, endpoint: Pair) -> int:
    """Return how many rows are decided otherwise than the strong model would."""
    found = rows(folder / "out.duckdb", "SELECT body, label FROM intent")
    return sum(json.loads(endpoint.answer("strong", f"Classify: {body}"))["label"] != label for body, label in found)


# The run --------------------------------------------------------------------------------------------------------------


def test_the_second_model_answers_a_sample_and_what_it_does_not_certify(settings: Path, endpoint: Pair) -> None:
    texts(settings, 2000, repeated=200)
    endpoint.odd = "77"
    header = CASCADE + "keep: [body]\nmax_quarantine: 0\n"
    found = run(settings, endpoint, header, "--prices", settings / "prices.toml")
    report, weak, strong = found.report, endpoint.asked_of("weak-1"), endpoint.asked_of("strong-1")
    assert found.status == 0, found.err
    assert_accounted(report, settings / "out.duckdb")
    assert (report["rows_in"], report["enriched"], report["distinct_requests"]) == (2200, 2200, 2000)
    assert len(weak) == len(set(weak)) == 2000
    assert len(strong) == len(set(strong))
    assert report["calls"] == 2000 + len(strong)
    told = report["cascade"]
    assert (told["first"], told["second"], told["sample"]) == ("weak-1", "strong-1", 300)
    assert told["calls"] == {"first": 2000, "second": len(strong)}
    assert told["requests"] == len(strong) < 1900
    assert told["certified"]
    assert told["agreement"] >= 0.9
    assert wrong_rows(settings, endpoint) <= 220
    # Rows at or above the threshold that are not of the sample are the first model's; it decides no other.
    by_weak = rows(settings / "out.duckdb", "SELECT min(confidence), count(*) FROM intent WHERE _model = 'weak-1'")
    assert by_weak[0][0] >= told["threshold"]
    assert by_weak[0][1] > 100
    # Each model has its price.
    assert told["cost"]["second"] > told["cost"]["first"]
    assert report["cost"] == pytest.approx(sum(told["cost"].values()))
    assert told["cost_of_all"] == pytest.approx(told["cost"]["second"] / len(strong) * 2000)
    assert call("audit", settings / "intent.prompt", "--output", settings / "out.duckdb", "--json").status == 0
    page = json.loads(call("report", settings / "intent.prompt", "--output", settings / "out.duckdb", "--json").out)
    (tile,) = (one for one in page["tiles"] if one["question"] == "Do the models of the cascade agree?")
    assert (tile["status"], tile["figure"]) == ("good", f"{100 * told['agreement']:.1f} %")
    assert f"{len(strong):,} requests" in tile["detail"]
    # Again, nothing is asked, and the same is certified.
    before = len(endpoint.asked)
    again = run(settings, endpoint, header)
    assert (again.status, len(endpoint.asked)) == (0, before)
    assert {**again.report["cascade"], **dict.fromkeys(("run", "calls", "cost", "cost_of_all"))} == {
        **told, **dict.fromkeys(("run", "calls", "cost", "cost_of_all"))
    }  # fmt: skip


def test_new_rows_join_the_sample_in_proportion(settings: Path, endpoint: Pair) -> None:
    texts(settings, 1000)
    first = run(settings, endpoint).report
    texts(settings, 2000)
    assert run(settings, endpoint).status == 0
    weak, strong = endpoint.asked_of("weak-1"), endpoint.asked_of("strong-1")
    assert (len(weak), len(set(strong))) == (2000, len(strong))
    assert len(strong) > first["cascade"]["requests"]


@pytest.mark.parametrize(
    ("cascade", "strong", "says"),
    [
        (CASCADE, 1000, "no confidence certifies an agreement of 0.9 (the models agree in"),
        ("cascade: {ask: strong, score: confidence, threshold: 0.8}\n", None, ""),
        ("cascade: {ask: strong, score: confidence, threshold: 2}\n", 1000, ""),
        ("cascade: {ask: strong, score: confidence, threshold: -1}\n", 0, ""),
        (CASCADE.replace("300", "5000"), 1000, "is certified"),
    ],
    ids=["nothing certified", "threshold", "above all", "below all", "all are sampled"],
)
def test_what_is_not_certified_is_asked(
    settings: Path, endpoint: Pair, cascade: str, strong: int | None, says: str
) -> None:
    texts(settings, 1000)
    endpoint.confidence = 0.5 if says.startswith("no") else None
    found = run(settings, endpoint, cascade)
    assert found.status == 0, found.err
    assert says in found.err
    below = sum(json.loads(endpoint.answer("weak", f"Classify: text {n}"))["confidence"] < 0.8 for n in range(1000))
    assert len(endpoint.asked_of("strong-1")) == (below if strong is None else strong)


def test_a_cap_ends_it_and_the_same_command_goes_on(settings: Path, endpoint: Pair) -> None:
    texts(settings, 1000)
    asked = []
    for most in (1100, 200, 10_000):
        found = run(settings, endpoint, CASCADE, "--max-calls", most)
        assert found.status == (0 if most == 10_000 else 4), found.err
        assert_accounted(found.report, settings / "out.duckdb")
        asked.append(len(endpoint.asked))
    assert asked[:2] == [1100, 1300]
    strong = endpoint.asked_of("strong-1")
    assert len(strong) == len(set(strong)) == asked[2] - 1000
    alone = settings / "alone"
    alone.mkdir()
    (alone / "in.csv").write_bytes((settings / "in.csv").read_bytes())
    with Pair() as other:
        run(alone, other)
        assert sorted(other.asked_of("strong-1")) == sorted(strong)


@pytest.mark.parametrize("after", [1050, 1350], ids=["of the sample", "of the rest"])
def test_a_killed_run_goes_on_in_its_stage(settings: Path, after: int) -> None:
    texts(settings, 1000)
    with Pair(latency_s=0.02) as endpoint:
        prompt = write_prompt(settings, HEADER + CASCADE, output=OUTPUT)
        process = start("run", prompt, "--input", settings / "in.csv", "--output", settings / "out.duckdb",
                        "--endpoint", endpoint.url, "--concurrency", 16)  # fmt: skip
        until = time.monotonic() + 60
        while len(endpoint.asked) < after and time.monotonic() < until:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        found = run(settings, endpoint)
        assert found.status == 0, found.err
        assert_accounted(found.report, settings / "out.duckdb")
        weak, strong = endpoint.asked_of("weak-1"), endpoint.asked_of("strong-1")
        assert (len(weak), len(set(strong))) == (1000, found.report["cascade"]["requests"])
        # What was answered and not committed is asked again.
        assert len(strong) - len(set(strong)) <= 16 + 256


def test_failed_calls_of_the_second_model_leave_the_first_ones_answer(settings: Path) -> None:
    texts(settings, 400)

    class Broken(Pair):
        def answer(self, model: str, prompt: str) -> str:
            return "?" if model == "strong-1" else super().answer(model, prompt)

    with Broken() as endpoint:
        endpoint.confidence = 0.5
        assert run(settings, endpoint).status == 4  # the first 50 answers are all refused
        found = run(settings, endpoint, CASCADE, "--stop-after-refused", "0")
        assert found.status == 0, found.err
        assert found.report["cascade"]["threshold"] is None
        assert found.report["cascade"]["equal"] == 0
        assert found.report["enriched"] == 400
        assert len(endpoint.asked_of("strong-1")) == 400


def test_a_mock_run_has_both_models(settings: Path, endpoint: Pair) -> None:
    texts(settings, 500)
    prompt = write_prompt(settings, HEADER + CASCADE, output=OUTPUT)
    found = call("run", prompt, "--input", settings / "in.csv", "--output", "m.duckdb", "--mock", "--json")
    assert found.status == 0, found.err
    assert (found.report["cascade"]["second"], found.report["enriched"]) == ("mock-strong", 500)
    assert rows(settings / "m.duckdb", "SELECT count(*) FROM intent_responses WHERE model = 'mock-strong'")[0][0] >= 300
    assert endpoint.asked == []


def test_python_gives_both_models_in_one_report(settings: Path, endpoint: Pair) -> None:
    texts(settings, 600)
    prompt = write_prompt(settings, HEADER + CASCADE, output=OUTPUT)
    report = se.run(prompt, input=settings / "in.csv", endpoint=endpoint.url)
    assert report.cascade is not None
    assert report.calls == len(endpoint.asked)
    assert "at least 0.9 certified" in report.to_text() or "no threshold is certified" in report.to_text()
    assert report.table().num_rows == 600


def test_a_plan_tells_the_most_that_the_second_model_is_asked(settings: Path, endpoint: Pair) -> None:
    texts(settings, 50, repeated=10)
    prompt = write_prompt(settings, HEADER + CASCADE, output=OUTPUT)
    more = ("--endpoint", endpoint.url, "--prices", settings / "prices.toml")
    told = json.loads(call("plan", prompt, "--input", settings / "in.csv", *more, "--json").out)
    assert (told["calls"], told["cascade"]["model"], told["cascade"]["calls"]) == (50, "strong-1", 50)
    assert told["cascade"]["cost"] == pytest.approx(10 * told["cost"]["high"])
    text = call("plan", prompt, "--input", settings / "in.csv", *more).out
    assert "cascade     at most 50" in text
    assert endpoint.asked == []


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("cascade: {score: confidence, target: 0.9}\n", "ask must be an alias or a model's name, not None"),
        ("cascade: {ask: s, score: label, target: 0.9}\n", 'score must be a number, and the field "label" is none'),
        ("cascade: {ask: s, score: confidense, target: 0.9}\n", "score must be a field of the output that is a number"),
        ("cascade: {ask: s, score: confidence, target: 0.9, equal: [lable]}\n", 'equal: no field "lable"'),
        ("cascade: {ask: s, score: confidence, target: 1.5}\n", "target must be a number between 0 and 1, not 1.5"),
        ("cascade: {ask: s, score: confidence}\n", "cascade needs a target, such as 0.95, or a threshold"),
        ("cascade: {ask: s, score: confidence, target: 0.9, threshold: 0.5}\n", "write one of them"),
        ("cascade: {ask: s, score: confidence, target: 0.98, sample: 148}\n", "it takes at least 149"),
        ("cascade: {ask: s, score: confidence, target: 0.9, samples: 148}\n", 'unknown key "samples"'),
        ("cascade: {ask: s, score: confidence, target: 0.9}\nkeep_prompts: false\n", "needs the prompts"),
    ],
)  # fmt: skip
def test_a_header_that_can_not_hold_is_refused(settings: Path, header: str, problem: str) -> None:
    prompt = write_prompt(settings, HEADER + header, output=OUTPUT)
    found = call("check", prompt)
    assert found.status == 2
    assert problem in found.err + found.out


def test_the_same_model_twice_is_refused_before_anything_is_asked(settings: Path, endpoint: Pair) -> None:
    texts(settings, 10)
    found = run(settings, endpoint, CASCADE.replace("strong", "weak"))
    assert (found.status, endpoint.asked) == (2, [])
    assert "the cascade asks weak-1 twice" in found.err


# The certificate ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "n", "p", "chance"),
    [(0, 10, 0.5, 1 / 1024), (5, 10, 0.5, 638 / 1024), (10, 10, 0.5, 1.0), (0, 59, 0.05, 0.95**59), (-1, 5, 0.5, 0.0)],
)
def test_the_binomial_distribution(k: int, n: int, p: float, chance: float) -> None:
    assert binomial_cdf(k, n, p) == pytest.approx(chance, abs=1e-12)


@pytest.mark.parametrize(
    ("target", "delta", "least"), [(0.95, 0.05, 59), (0.98, 0.05, 149), (0.9, 0.05, 29), (0.9, 0.01, 44)]
)
def test_the_least_sample(target: float, delta: float, least: int) -> None:
    assert least_sample(target, delta) == least
    assert most_disagreements(least, target, delta) == 0
    assert most_disagreements(least - 1, target, delta) == -1


def test_the_search_ends_at_the_first_threshold_that_fails() -> None:
    sample: list[tuple[float | None, bool]]
    sample = [(score / 100, score % 20 != 0 or score > 60) for score in range(100)]
    sample += [(None, False), (None, True)]
    found = certified_threshold([0.9, 0.5, 0.1], sample, 0.9, 0.05)
    # Of 102 rows at most 4 may disagree: at 0.5 one does (0.6), at 0.1 three (0.6, 0.4, 0.2).
    assert most_disagreements(102, 0.9, 0.05) == 4
    assert found == Certificate(0.1, 102, 90, 3, 3, 97)
    assert certified_threshold([0.9, 0.5, 0.1], sample, 0.95, 0.05) == Certificate(0.5, 102, 50, 1, 3, 97)
    assert certified_threshold([0.9], [(1.0, False)] * 200, 0.9, 0.05) == Certificate(None, 200, 0, 0, 1, 0)
    assert certified_threshold([], [], 0.9, 0.05) == Certificate(None, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("target", [0.9, 0.95, 0.98])
@pytest.mark.parametrize("signal", [True, False], ids=["score", "noise"])
def test_a_target_is_missed_in_at_most_delta_of_the_trials(target: float, signal: bool) -> None:
    draw = random.Random(7)
    population = []
    for _ in range(5_000):
        score = round(draw.random(), 3)
        population.append((score, draw.random() < (score**0.1 if signal else target - 0.005)))
    ranked = sorted(score for score, _ in population)
    scores = [ranked[len(ranked) * tile // 100] for tile in range(100)]
    missed = 0
    for trial in range(200):
        sample = random.Random(trial).sample(population, 400)
        found = certified_threshold(scores, sample, target, 0.05).threshold
        wrong = 0 if found is None else sum(score >= found and not same for score, same in population)
        missed += wrong > (1 - target) * len(population)
    assert missed <= 200 * 0.05 + 3 * (200 * 0.05 * 0.95) ** 0.5

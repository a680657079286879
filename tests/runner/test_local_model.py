"""Runs that ask a class of the user in a process of its own."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.ask.observer import NullObserver, Stopper
from sqlenrich.llm.local.process import pickled
from tests.support.local_models import Counting, Echo, Slow, Vectors

ROWS = [{"id": n, "body": f"the word {word}"} for n, word in enumerate(["one", "two", "poison", "four", "two"] * 4)]
PROMPT = se.enrichment("words", prompt="{{ body }}", key=["id"], output={"word": "string"})


def model(folder: Path, fault: str = "", kind: type[Counting] = Counting, **options: Any) -> se.LocalModel:
    """Return a model of a class, which counts in a folder."""
    folder.mkdir(exist_ok=True)
    options = {"name": "words", "version": "1", "batch": 8, **options}
    return se.LocalModel(functools.partial(kind, str(folder), fault), **options)


def counted(folder: Path) -> tuple[int, list[list[str]]]:
    """Return how often the class was loaded, and the prompts of its calls."""
    calls = [json.loads(path.read_text()) for path in sorted(folder.glob("call-*"))]
    return len(list(folder.glob("load-*"))), calls


def words(report: se.Report) -> dict[int, str]:
    """Return the accepted words by their ids."""
    return {row["id"]: row["word"] for row in report.table().to_pylist()}


def test_distinct_prompts_are_asked_once_in_batches_of_one_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, output = tmp_path / "seen", tmp_path / "o.duckdb"
    rows = [{"id": n, "body": f"the word w{n % 20}"} for n in range(60)]
    report = se.run(PROMPT, input=rows, output=output, model=model(folder))
    loads, calls = counted(folder)
    assert (report.rows_in, report.distinct_requests, report.calls, report.enriched) == (60, 20, 20, 60)
    assert words(report) == {n: f"w{n % 20}" for n in range(60)}
    assert loads == 1
    assert max(map(len, calls)) == 8
    assert sorted(text.splitlines()[0] for call in calls for text in call) == sorted(
        f"the word w{n}" for n in range(20)
    )
    assert "must not reach" not in capfd.readouterr().out
    again = se.run(PROMPT, input=rows, output=output, model=model(folder))
    assert (again.calls, again.cached, counted(folder)[0]) == (0, 20, 1)
    newer = se.run(PROMPT, input=rows, output=output, model=model(folder, version="2"))
    assert (newer.calls, newer.enriched, counted(folder)[0]) == (20, 60, 2)
    assert se.audit(PROMPT, output=output).holds


FAULTS: list[tuple[str, str, int | None]] = [
    # what the class does with "poison", the error of its row, the loads
    ("raise", "ValueError: can't answer poison", 1),
    ("die", "its process was ended by SIGKILL", None),
    ("exit", "its process ended with status 3", None),
    ("hang", "no answer for 0.5 s", None),
]


@pytest.mark.parametrize(("fault", "error", "loads"), FAULTS, ids=[case[0] for case in FAULTS])
def test_a_row_at_fault_stands_alone_in_the_end(tmp_path: Path, fault: str, error: str, loads: int | None) -> None:
    folder, output = tmp_path / "seen", tmp_path / "o.duckdb"
    report = se.run(
        PROMPT, input=ROWS, output=output, model=model(folder, fault, timeout=0.5 if fault == "hang" else 60)
    )
    assert (report.enriched, report.quarantine) == (16, {"CALL_ERROR": 4})
    assert set(words(report).values()) == {"one", "two", "four"}
    refused = se.retry(PROMPT, output=output, model=model(tmp_path / "again", fault, timeout=0.5), max_attempts=9)
    assert refused.quarantine == {"CALL_ERROR": 4}
    import duckdb

    with duckdb.connect(str(output), read_only=True) as db:
        assert db.sql("SELECT DISTINCT call_error FROM words_responses WHERE call_error IS NOT NULL").fetchall() == [
            (error,)
        ]
    if loads is not None:
        assert counted(folder)[0] == loads
    mended = se.retry(PROMPT, output=output, model=model(tmp_path / "mended"), max_attempts=99)
    assert (mended.enriched, mended.quarantined) == (20, 0)


def test_a_process_that_is_killed_once_is_started_again(tmp_path: Path) -> None:
    folder = tmp_path / "seen"
    report = se.run(PROMPT, input=ROWS, model=model(folder, "die once"))
    assert (report.enriched, report.quarantined, counted(folder)[0]) == (20, 0, 2)


BROKEN = [
    ("load", "LocalModel words can't be loaded: OSError: no such model: weights.bin"),
    ("fewer", "LocalModel words: it returned 0 answers to 1 prompt"),
    ("text", "LocalModel words: it returned str, not a list of 1 answer"),
    ("bytes", "LocalModel words: it returned an answer of type bytes, not str"),
]


@pytest.mark.parametrize(("fault", "told"), BROKEN, ids=[case[0] for case in BROKEN])
def test_a_class_that_can_not_be_used_ends_the_run_in_one_line(tmp_path: Path, fault: str, told: str) -> None:
    with pytest.raises(se.RunError) as caught:
        se.run(PROMPT, input=ROWS, model=model(tmp_path / "seen", fault))
    assert str(caught.value) == told


def test_a_process_that_ends_for_every_row_ends_the_run(tmp_path: Path) -> None:
    every = se.LocalModel(functools.partial(Counting, str(tmp_path), "die", "the"), name="words", version="1", batch=64)
    with pytest.raises(se.RunError, match="its process was ended by SIGKILL, for each of 3 rows asked alone"):
        se.run(PROMPT, input=ROWS, model=every)
    assert counted(tmp_path)[0] <= 7


def test_no_answer_vectors_and_what_the_class_is_given(tmp_path: Path) -> None:
    silent = se.run(PROMPT, input=ROWS, model=model(tmp_path / "silent", "silent", batch=1))
    assert silent.quarantine == {"NO_RESPONSE": 4}
    embedding = se.enrichment("words", prompt="{{ body }}", key=["id"], output={"embedding": {"dimensions": 3}})
    found = se.run(embedding, input=ROWS[:2], model=model(tmp_path / "vectors", kind=Vectors))
    assert [row["embedding"] for row in found.table().to_pylist()] == [[12.0, 1.0, 0.5]] * 2
    told = se.enrichment("words", prompt="{{ body }}", key=["id"], system="Be brief.", output={"word": "string"})
    echo = se.run(told, input=ROWS[:1], model=model(tmp_path / "echo", kind=Echo))
    text = echo.table().to_pylist()[0]["word"]
    assert text.startswith("Be brief.\n\nthe word one\n\nAnswer with one JSON object that fits this JSON Schema")
    plain = se.enrichment("words", prompt="{{ body }}", key=["id"], hint="never", output={"word": "string"})
    assert words(se.run(plain, input=ROWS[:1], model=model(tmp_path / "plain", kind=Echo))) == {0: "the word one"}


def test_the_other_verbs_take_it(tmp_path: Path) -> None:
    folder, output = tmp_path / "seen", tmp_path / "o.duckdb"
    capped = se.run(PROMPT, input=ROWS, output=output, model=model(folder), max_calls=2)
    assert (capped.calls, capped.stopped_at, capped.exit_status) == (2, "max_calls", 4)
    plan = se.estimate(PROMPT, input=ROWS, output=output, model=model(folder))
    assert (plan.calls, plan.model) == (2, "words")
    labels = [{**row, "expected_word": str(row["body"]).split()[-1]} for row in ROWS]
    scores = se.evaluate(PROMPT, truth=labels, model=model(folder))
    assert "word" in scores.to_text()
    from sqlenrich.runner.preview import preview

    assert "Answer with one JSON object" in preview(PROMPT, input=ROWS, rows=1, prompt_only=True, model=model(folder))
    assert "one" in preview(PROMPT, input=ROWS, rows=1, model=model(folder))


REFUSED: list[tuple[dict[str, Any], object, str]] = [
    ({"name": ""}, Counting, "LocalModel needs a name"),
    ({"version": None}, Counting, "LocalModel needs a version"),
    ({"name": "mock"}, Counting, 'the name "mock" is that of the mock model'),
    ({"batch": 0}, Counting, "batch is a whole number of at least 1, not 0"),
    ({"timeout": float("nan")}, Counting, "timeout is a number of seconds above 0, not nan"),
    ({}, "a text", "factory is a class"),
]


@pytest.mark.parametrize(("options", "factory", "told"), REFUSED, ids=[case[2][:20] for case in REFUSED])
def test_a_local_model_says_which_it_is(options: dict[str, Any], factory: Any, told: str) -> None:
    with pytest.raises(se.ConfigError) as caught:
        se.LocalModel(factory, **{"name": "words", "version": "1", **options})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    local = model(tmp_path)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"mock": True}, "or a shorthand, not both"),
        ({"concurrency": 4}, "give LocalModel(batch=...)"),
        ({"max_cost": 1.0}, "a LocalModel has no price"),
        ({"batch": True}, "without a LocalModel"),
    ]
    for options, told in refused:
        with pytest.raises(se.ConfigError) as caught:
            se.run(PROMPT, input=ROWS, model=local, **options)
        assert told in str(caught.value), options


def test_what_can_not_be_pickled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()
    with pytest.raises(se.ConfigError, match=r"LocalModel words: the class can't be pickled \(TypeError: "):
        pickled(lambda: lock, "words")
    monkeypatch.setattr("sqlenrich.llm.local.process._PICKLERS", ())
    with pytest.raises(se.ConfigError, match="pip install cloudpickle"):
        pickled(lambda: lock, "words")


SCRIPT = """
import json
import sqlenrich as se

class Upper:
    def __call__(self, prompts):
        return [json.dumps({"word": prompt.splitlines()[0].upper()}) for prompt in prompts]

e = se.enrichment("words", prompt="{{ body }}", key=["id"], output={"word": "string"})
report = se.run(e, input=[{"id": 1, "body": "a"}], model=se.LocalModel(Upper, name="upper", version="1"))
print(report.table().to_pylist()[0]["word"])
"""


def test_a_class_of_a_script_is_taken_by_its_value(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert found.stdout == "A\n", found.stderr


def test_a_stopped_run_stores_the_batch_under_way_and_a_second_stop_ends_the_process(tmp_path: Path) -> None:
    for stops, stored in ((1, True), (2, False)):
        folder, stopper = tmp_path / str(stops), Stopper()

        def stop(folder: Path = folder, stopper: Stopper = stopper, stops: int = stops) -> None:
            while not list(folder.glob("call-*")):
                time.sleep(0.02)
            for _ in range(stops):
                stopper.stop()
                time.sleep(0.1)

        local = model(folder, kind=Slow, batch=2)
        threading.Thread(target=stop, daemon=True).start()
        report = se.run(PROMPT, input=ROWS, model=local, stopper=stopper, observer=NullObserver())
        assert (report.enriched > 0) is stored
        assert report.exit_status == 4
        assert report.quarantine["NOT_ASKED"] == 20 - report.enriched
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in processes


@pytest.fixture
def spark() -> Iterator[Any]:
    """Spark's interpreter."""
    from tests.standins.spark import INTERPRETED, settings, spark_session

    with settings(INTERPRETED):
        yield spark_session()


@pytest.mark.spark
@pytest.mark.parametrize("per", ["process", "executor"])
def test_tasks_of_spark_ask_it_and_find_the_row_at_fault(tmp_path: Path, per: str, spark: Any) -> None:
    rows = [{"id": n, "body": f"the word {'poison' if n % 90 == 7 else f'w{n % 60}'}"} for n in range(180)]
    local = model(tmp_path / "seen", "die", per=per)
    report = se.run(PROMPT, input=rows, output=tmp_path / "out", spark=spark, model=local)
    assert (report.enriched, report.quarantine) == (178, {"CALL_ERROR": 2})
    expected = se.run(PROMPT, input=rows, model=model(tmp_path / "alone", "die"))
    found = spark.read.parquet(str(tmp_path / "out" / "words")).collect()
    assert {row["id"]: row["word"] for row in found} == words(expected)


@pytest.mark.spark
def test_tasks_of_spark_keep_caps_and_ask_nothing_again(tmp_path: Path, spark: Any) -> None:
    local, output = model(tmp_path / "seen", per="executor"), tmp_path / "out"
    capped = se.run(PROMPT, input=ROWS, output=output, spark=spark, model=local, max_calls=2)
    assert (capped.calls, capped.stopped_at) == (2, "max_calls")
    rest = se.run(PROMPT, input=ROWS, output=output, spark=spark, model=local)
    assert (rest.calls, rest.enriched) == (2, 20)
    assert se.audit(PROMPT, output=output, spark=spark).holds


@pytest.mark.spark
def test_a_class_that_can_not_be_loaded_in_tasks_is_told_in_one_line(tmp_path: Path, spark: Any) -> None:
    for fault, per, told in (
        ("load", "process", "LocalModel words can't be loaded: OSError: no such model: weights.bin"),
        ("", "gpu", 'LocalModel words: per="gpu", and no GPU is seen on '),
    ):
        local = model(tmp_path / "m", fault, per=per)
        with pytest.raises(se.SqlenrichError) as caught:
            se.run(PROMPT, input=ROWS, output=tmp_path / "out", spark=spark, model=local)
        assert str(caught.value).startswith(told)
        assert "\n" not in str(caught.value)

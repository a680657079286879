"""The processor time of OpenTelemetry's metrics for each answer of a run, and that of a run without them.

    python benchmarks/telemetry.py [--answers 200000]

No collector is there: the metrics are recorded, and nothing is sent.
"""

from __future__ import annotations

import argparse
import os
import time
from datetime import UTC, datetime

os.environ |= {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_TRACES_EXPORTER": "none"}
os.environ["OTEL_METRIC_EXPORT_INTERVAL"] = str(24 * 3_600_000)

from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.observer import NullObserver, Observer
from sqlenrich.llm.messages import Answer
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.runner.telemetry import metered

BATCH = 64


def seconds(observer: Observer, answers: list[Answer]) -> float:
    """Return the processor time in which an observer is told all answers."""
    began = time.process_time()
    for place in range(0, len(answers), BATCH):
        observer.answered(answers[place : place + BATCH], len(answers))
    return time.process_time() - began


def main() -> None:
    """Measure both, five times by turns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--answers", type=int, default=200_000)
    count = parser.parse_args().answers
    asked = datetime.now(UTC)
    answers = [
        Answer("h", 1, "h", "{}", None, False, "stop", "m", 100 + n % 50, None, 10 + n % 9, 200 + n % 90, asked, 1)
        for n in range(count)
    ]
    resolved = ResolvedModel("m")
    on = metered(NullObserver(), ModelChoice(None, resolved, 1, "", resolved), embeds=False)
    times = [[seconds(observer, answers) for observer in (on, NullObserver())] for _ in range(5)]
    recorded, bare = (1e6 * min(each) / count for each in zip(*times, strict=True))
    print(f"{count:,} answers: {recorded:.1f} µs an answer with metrics, {bare:.2f} µs without")


if __name__ == "__main__":
    main()

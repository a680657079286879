"""What OpenTelemetry gets of runs: spans and metrics, no text of a row, and nothing where it is off."""

from __future__ import annotations

import gzip
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sqlenrich.runner.telemetry import SWITCHES, is_on
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import COMMAND, write_csv, write_prompt

TEXT, SECRET = "a text of one row alone", "sk-secret-of-telemetry"


class Collected:
    """What a collector got."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {}

    def spans(self) -> dict[str, Any]:
        """The spans by their names."""
        found = [ExportTraceServiceRequest.FromString(body) for body in self.bodies.get("/v1/traces", ())]
        scopes = [scope for one in found for each in one.resource_spans for scope in each.scope_spans]
        return {span.name: span for scope in scopes for span in scope.spans}

    def metrics(self) -> dict[str, list[Any]]:
        """The points of each metric, the last ones that were sent."""
        found = [ExportMetricsServiceRequest.FromString(body) for body in self.bodies.get("/v1/metrics", ())]
        scopes = [scope for one in found for each in one.resource_metrics for scope in each.scope_metrics]
        return {metric.name: list(metric.histogram.data_points) for scope in scopes for metric in scope.metrics}


@contextmanager
def collector() -> Iterator[tuple[str, Collected]]:
    """A collector of OTLP on loopback."""
    collected = Collected()

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collected.bodies.setdefault(self.path, []).append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}", collected
        served.shutdown()


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as Python values."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def sqlenrich(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in its own process: OpenTelemetry is set up once in each."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


def refuses_b(prompt: str) -> str:
    return "no JSON" if prompt.endswith("b") else '{"label": "a", "urgency": 1}'


def test_a_run_is_a_span_and_its_answers_are_metrics(tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path)
    data = write_csv(tmp_path / "in.csv", [(1, TEXT), (2, "b"), (3, "c"), (4, "c"), (5, "")])
    with (
        collector() as (url, got),
        ScriptedEndpoint(models=("m",), content=refuses_b, script={2: "500"}) as endpoint,
    ):
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OPENAI_API_KEY": SECRET}
        options = ("--input", data, "--output", tmp_path / "out.duckdb", "--endpoint", endpoint.url, "--yes")
        done = sqlenrich("run", prompt, *options, **variables)
        retried = sqlenrich("retry", prompt, *options[2:], **variables)
        asked = len(endpoint.asked)
    assert done.returncode in (0, 3), done.stderr
    assert retried.returncode in (0, 3), retried.stderr
    assert "ended span" not in done.stderr
    spans, metrics = got.spans(), got.metrics()
    assert set(spans) == {"run intent", "retry intent"}
    told = values(spans["run intent"].attributes)
    assert told["sqlenrich.engine"] == "duckdb"
    assert {values(span.attributes)["sqlenrich.model"] for span in spans.values()} == {"m"}
    assert told["sqlenrich.rows_in"] == told["sqlenrich.enriched"] + told["sqlenrich.quarantined"]
    assert told["sqlenrich.exit_status"] == done.returncode
    assert spans["run intent"].status.code == (2 if done.returncode else 0)
    assert set(metrics) == {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"}
    points = metrics["gen_ai.client.token.usage"]
    common = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    kinds = [values(point.attributes) for point in points]
    assert sorted(one.pop("gen_ai.token.type") for one in kinds) == ["input", "output"]
    assert kinds == [common, common]
    assert asked > 0
    assert all(point.count > 0 for point in (*points, *metrics["gen_ai.client.operation.duration"]))
    sent = b"".join(body for bodies in got.bodies.values() for body in bodies)
    for hidden in (TEXT, SECRET, "Classify"):
        assert hidden.encode() not in sent


def test_steps_are_spans_of_one_trace_and_an_error_quotes_nothing(tmp_path: Path) -> None:
    first = write_prompt(tmp_path)
    second = tmp_path / "second.prompt"
    second.write_text("---\nsource: {ref: intent}\nkey: [id]\noutput: {x: boolean}\n---\nIs it? {{ label }}\n")
    data = write_csv(tmp_path / "in.csv", [(1, TEXT)])
    with collector() as (url, got):
        output = ("--output", tmp_path / "out.duckdb")
        done = sqlenrich(
            "run", first, second, "--input", data, *output, "--mock", OTEL_EXPORTER_OTLP_ENDPOINT=url
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        failed = sqlenrich(
            "run", first, "--input", data, *output, "--endpoint", "http://127.0.0.1:9/v1", "--model", "m",
            OTEL_EXPORTER_OTLP_ENDPOINT=url,
        )  # fmt: skip
    assert failed.returncode == 1
    spans = got.spans()
    assert {span.trace_id for name, span in spans.items() if name in ("steps intent second", "run second")} == {
        spans["steps intent second"].trace_id
    }
    assert (spans["run intent"].status.code, spans["run intent"].status.message) == (2, "RunError")


def test_a_collector_that_is_down_changes_nothing_else(tmp_path: Path) -> None:
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, TEXT)])
    done = sqlenrich(
        "run", prompt, "--input", data, "--output", tmp_path / "out.duckdb", "--mock",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
    )  # fmt: skip
    told = "the OpenTelemetry collector did not take the spans and metrics; nothing else depends on it\n"
    assert (done.returncode, done.stderr.count(told), done.stderr.count("OpenTelemetry")) == (0, 1, 1)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, False),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({"OTEL_SERVICE_NAME": "nightly"}, False),
    ],
)
def test_the_environment_switches_it_on(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], on: bool) -> None:
    for name in (*SWITCHES, "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_on() is on


def test_it_is_named_where_it_is_missing_and_not_loaded_where_it_is_off(tmp_path: Path) -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; from sqlenrich.__main__ import main; main()"
    prompt, data = write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, "a")])
    options = ("--input", data, "--output", tmp_path / "o.duckdb", "--mock")
    command = [sys.executable, "-c", code, "run", *map(str, (prompt, *options))]
    off = subprocess.run(command, capture_output=True, text=True, check=False)
    on = subprocess.run(
        command, env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert off.returncode == 0, off.stderr
    assert (on.returncode, 'pip install "sqlenrich[otel]"' in on.stderr) == (2, True)

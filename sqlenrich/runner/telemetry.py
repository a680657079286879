"""Spans and metrics of runs by OpenTelemetry (extra ``otel``), switched on by its own environment variables.

A span for each run, within one for the steps of a run of several; the metrics of the GenAI conventions
(https://github.com/open-telemetry/semantic-conventions-genai, read 2026-11-28) for each answer that this process
receives. Neither holds a prompt, an answer or a value of a row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.observer import Observer, PlanLine
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.version import __version__
from sqlenrich.llm.endpoint.wire.apis import form_name

if TYPE_CHECKING:
    from sqlenrich.llm.messages import Answer
    from sqlenrich.runner.report import Report

SWITCHES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
)
"""Variables of which one switches telemetry on; ``OTEL_SDK_DISABLED=true`` switches it off."""
SCOPE = "sqlenrich"
PROVIDERS = {"anthropic": "anthropic", "bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai"}
"""The conventions' names of providers, by the wire form; any other server speaks OpenAI's API."""
FLUSH_MS = 5_000
"""How long the end of a run waits for the collector at most: a command ends without waiting for anything else."""
COUNTS = ("rows_in", "enriched", "quarantined", "pending", "distinct_requests", "calls", "retries", "cached")
"""The counts of a report that a span has."""


def is_on() -> bool:
    """Tell whether the environment asks for telemetry."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and any(os.environ.get(name, "none").strip().lower() not in ("", "none") for name in SWITCHES)


@contextmanager
def span(verb: str, name: str, **attributes: str | int) -> Iterator[RunSpan | None]:
    """Record a run, or the steps of one, while the context lasts; None where telemetry is off. Raises ConfigError."""
    if not is_on():
        yield None
        return
    own = _providers()
    from opentelemetry import trace

    outermost = not trace.get_current_span().get_span_context().is_valid
    given = {f"sqlenrich.{key}": value for key, value in attributes.items()}
    given["sqlenrich.enrichment"] = name
    # The message of an exception may quote a row; the span ends here, before it is sent.
    own_way: Any = dict.fromkeys(("record_exception", "set_status_on_exception", "end_on_exit"), False)
    tracer = trace.get_tracer(SCOPE, __version__)
    with tracer.start_as_current_span(f"{verb} {name}", attributes=given, **own_way) as current:
        try:
            yield RunSpan(current)
        except BaseException as error:
            current.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            current.end()
            if outermost:
                for provider in own:
                    provider.force_flush(FLUSH_MS)


class RunSpan:
    """The span of a run."""

    def __init__(self, current: Any) -> None:
        self._current = current

    def end(self, report: Report) -> None:
        """Add what a run gave: its counts, the reasons of refusals, its cost and its end."""
        from opentelemetry.trace import Status, StatusCode

        facts = report.to_dict()
        given = {name: facts.get(name) for name in (*COUNTS, "run_id", "cost", "currency", "stopped_at")}
        given["exit_status"] = report.exit_status
        given |= {f"reason.{code}": count for code, count in report.quarantine.items()}
        self._current.set_attributes({f"sqlenrich.{name}": value for name, value in given.items() if value is not None})
        if report.exit_status:
            self._current.set_status(Status(StatusCode.ERROR, f"exit status {report.exit_status}"))


def metered(observer: Observer, choice: ModelChoice, *, embeds: bool) -> Observer:
    """Return an observer that also records the metrics of each answer; the same one where telemetry is off."""
    return MeteredObserver(observer, choice, embeds=embeds) if is_on() else observer


class MeteredObserver:
    """Passes on what it is told, and records the time and the tokens of each answer."""

    def __init__(self, observer: Observer, choice: ModelChoice, *, embeds: bool) -> None:
        _providers()
        from opentelemetry import metrics

        meter = metrics.get_meter(SCOPE, __version__)
        self._observer = observer
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Number of input and output tokens used."
        )
        self._seconds = meter.create_histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration.")
        endpoint = choice.endpoint
        provider = "mock" if endpoint is None else PROVIDERS.get(form_name(endpoint), "openai")
        self._common = {
            "gen_ai.operation.name": "embeddings" if embeds else "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": choice.resolved.name,
        }
        self._read = {**self._common, "gen_ai.token.type": "input"}
        self._written = {**self._common, "gen_ai.token.type": "output"}
        self._failed = {**self._common, "error.type": "_OTHER"}

    def plan(self, line: PlanLine, /) -> bool:
        """Pass on the announcement."""
        return self._observer.plan(line)

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Record answers, and pass them on."""
        for answer in answers:
            if answer.latency_ms is not None:
                kind = self._common if answer.call_error is None else self._failed
                self._seconds.record(answer.latency_ms / 1000, kind)
            if answer.tokens_in is not None:
                self._tokens.record(answer.tokens_in, self._read)
            if answer.tokens_out is not None:
                self._tokens.record(answer.tokens_out, self._written)
        self._observer.answered(answers, total)

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:
        """Pass on what a warehouse has stored."""
        self._observer.progressed(answered, total, failed, tokens_in, tokens_out)

    def refused(self, reasons: Mapping[str, int], *, estimated: bool) -> None:
        """Pass on the refusals."""
        self._observer.refused(reasons, estimated=estimated)

    def note(self, line: str) -> None:
        """Pass on a line."""
        self._observer.note(line)


@cache
def _providers() -> Sequence[Any]:
    """Set up what exports, once a process, unless the program has set it up itself; return what was set up.

    Raises ConfigError where the packages are missing.
    """
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigError(
            "the environment switches OpenTelemetry on (OTEL_...), and it is not installed: "
            'pip install "sqlenrich[otel]", or set OTEL_SDK_DISABLED=true'
        ) from None
    own: list[Any] = []
    resource = Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": SCOPE})
    if type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider" and _exports("OTEL_TRACES_EXPORTER"):
        spans = TracerProvider(resource=resource)
        spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(spans)
        own.append(spans)
    if type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider" and _exports("OTEL_METRICS_EXPORTER"):
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        meters = MeterProvider(metric_readers=[reader], resource=resource)
        metrics.set_meter_provider(meters)
        own.append(meters)
    return own


def _exports(variable: str) -> bool:
    """Tell whether a signal is exported: by OTLP, unless its variable says none."""
    return os.environ.get(variable, "otlp").strip().lower() == "otlp"

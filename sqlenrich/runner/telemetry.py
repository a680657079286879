"""Spans and metrics of runs by OpenTelemetry (extra ``otel``), switched on by its own environment variables.

A span for each run, within one for the steps of a run of several; the metrics of the GenAI conventions
(https://github.com/open-telemetry/semantic-conventions-genai, read 2026-11-28) for each answer that this process
receives. Neither holds a prompt, an answer or a value of a row.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
EXPORT_S = 2.5
"""How long the end of a run waits for the collector of each signal, unless OpenTelemetry's own variables say it."""
TIMEOUTS = ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT")
EXPORTERS = "opentelemetry.exporter.otlp.proto.http"
"""The logger of the exporters, which tell each try of a collector that is down."""
COUNTS = ("rows_in", "enriched", "quarantined", "pending", "distinct_requests", "calls", "retries", "cached")
"""The counts of a report that a span has."""


def is_on() -> bool:
    """Tell whether the environment asks for telemetry."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and any(os.environ.get(name, "none").strip().lower() not in ("", "none") for name in SWITCHES)


@contextmanager
def span(verb: str, name: str, note: Callable[[str], None], **attributes: str | int | None) -> Iterator[RunSpan | None]:
    """Record a run, or the steps of one, while the context lasts; None where telemetry is off.

    A collector that is down is told by ``note``. Raises ConfigError where a package is missing.
    """
    if not is_on():
        yield None
        return
    own = _providers()
    from opentelemetry import trace

    outermost = not trace.get_current_span().get_span_context().is_valid
    given = {f"sqlenrich.{key}": value for key, value in attributes.items() if value is not None}
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
                _flush(own, note)


def _flush(own: Sequence[tuple[Any, Any]], note: Callable[[str], None]) -> None:
    """Send what was recorded. Where that fails, nothing of it is tried at the end of the process again."""
    for provider, exporter in own:
        exporter.failed = None
        provider.force_flush()
    if down := [exporter.signal for _, exporter in own if exporter.failed is not None]:
        note(f"the OpenTelemetry collector did not take the {' and '.join(down)}; nothing else depends on it")


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
        if asked := {str(one["asked"]) for one in report.served}:
            given["model"] = ", ".join(sorted(asked))
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
def _providers() -> Sequence[tuple[Any, Any]]:
    """Set up what exports, once a process, unless the program has set it up itself; return it with its exporters.

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
    own: list[tuple[Any, Any]] = []
    timeout = None if any(os.environ.get(name) for name in TIMEOUTS) else EXPORT_S
    resource = Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": SCOPE})
    if type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider" and _exports("OTEL_TRACES_EXPORTER"):
        spans = TracerProvider(resource=resource)
        sender: Any = _once(OTLPSpanExporter, "spans")(timeout=timeout)
        spans.add_span_processor(BatchSpanProcessor(sender))
        trace.set_tracer_provider(spans)
        own.append((spans, sender))
    if type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider" and _exports("OTEL_METRICS_EXPORTER"):
        sender = _once(OTLPMetricExporter, "metrics")(timeout=timeout)
        meters = MeterProvider(metric_readers=[PeriodicExportingMetricReader(sender)], resource=resource)
        metrics.set_meter_provider(meters)
        own.append((meters, sender))
    if own:
        logging.getLogger(EXPORTERS).setLevel(logging.CRITICAL)
    return own


def _once(exporter: Any, signal: str) -> Any:
    """Return a kind of exporter that does not try again once a collector took nothing."""

    class Once(exporter):  # type: ignore[misc]
        failed: Any = None

        def export(self, *given: Any, **named: Any) -> Any:
            if self.failed is None:
                result = super().export(*given, **named)
                if result.name == "SUCCESS":
                    return result
                self.failed = result
            return self.failed

    Once.signal = signal
    return Once


def _exports(variable: str) -> bool:
    """Tell whether a signal is exported: by OTLP, unless its variable says none."""
    return os.environ.get(variable, "otlp").strip().lower() == "otlp"

"""Run a language model over every row of a table, where the data already lives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlenrich.core.plain_sqlglot import prefer_source
from sqlenrich.core.version import __version__

if TYPE_CHECKING:
    from sqlenrich.core.endpoint import Endpoint
    from sqlenrich.core.errors import (
        ConfigError,
        PromptError,
        RunError,
        SpecError,
        SqlenrichError,
        UnsupportedError,
    )
    from sqlenrich.dbt.write import write_dbt
    from sqlenrich.gateway.gateway import Gateway
    from sqlenrich.plan.compile import compile_plan
    from sqlenrich.plan.plan import Plan, Step
    from sqlenrich.prompt import render_prompt
    from sqlenrich.quality.audit.audit import Audit, audit
    from sqlenrich.quality.comparison.compare import compare
    from sqlenrich.quality.comparison.comparison import Comparison
    from sqlenrich.quality.distill import Distilled, distill
    from sqlenrich.quality.drift import drift
    from sqlenrich.quality.evaluation.evaluate import evaluate
    from sqlenrich.quality.evaluation.evaluation import Evaluation
    from sqlenrich.quality.forget.forget import forget
    from sqlenrich.quality.forget.forgotten import Forgotten
    from sqlenrich.quality.report.quality_report import QualityReport
    from sqlenrich.quality.report.report import report
    from sqlenrich.quality.review.review import Review, review
    from sqlenrich.renderer.expressions import check_sql, prompt_sql, repair_sql
    from sqlenrich.renderer.script import render
    from sqlenrich.runner.batches import Batches, batches
    from sqlenrich.runner.drift import Drift
    from sqlenrich.runner.enricher import Enricher
    from sqlenrich.runner.estimate import Estimate, estimate
    from sqlenrich.runner.probe import probe
    from sqlenrich.runner.probe_report import ProbeReport
    from sqlenrich.runner.report import Report
    from sqlenrich.runner.retry import retry
    from sqlenrich.runner.run import run
    from sqlenrich.runner.steps import Steps
    from sqlenrich.runner.tune import Tuned, tune
    from sqlenrich.runner.warehouse_usage import Usage, usage
    from sqlenrich.schema import check_response
    from sqlenrich.spec.enrichment import Enrichment
    from sqlenrich.spec.loader import enrichment, load, loads
    from sqlenrich.spec.run_settings import Caps, LocalModel, Mock

_MODULES = {
    "core.endpoint": ("Endpoint",),
    "core.errors": ("ConfigError", "PromptError", "RunError", "SpecError", "SqlenrichError", "UnsupportedError"),
    "dbt.write": ("write_dbt",),
    "gateway.gateway": ("Gateway",),
    "plan.compile": ("compile_plan",),
    "plan.plan": ("Plan", "Step"),
    "prompt": ("render_prompt",),
    "quality.audit.audit": ("Audit", "audit"),
    "quality.comparison.compare": ("compare",),
    "quality.comparison.comparison": ("Comparison",),
    "quality.report.quality_report": ("QualityReport",),
    "quality.report.report": ("report",),
    "quality.review.review": ("Review", "review"),
    "quality.distill": ("Distilled", "distill"),
    "quality.drift": ("drift",),
    "quality.evaluation.evaluate": ("evaluate",),
    "quality.evaluation.evaluation": ("Evaluation",),
    "quality.forget.forget": ("forget",),
    "quality.forget.forgotten": ("Forgotten",),
    "renderer.expressions": ("check_sql", "prompt_sql", "repair_sql"),
    "renderer.script": ("render",),
    "runner.batches": ("Batches", "batches"),
    "runner.drift": ("Drift",),
    "runner.enricher": ("Enricher",),
    "runner.estimate": ("Estimate", "estimate"),
    "runner.probe": ("probe",),
    "runner.probe_report": ("ProbeReport",),
    "runner.report": ("Report",),
    "runner.retry": ("retry",),
    "runner.run": ("run",),
    "runner.steps": ("Steps",),
    "runner.tune": ("Tuned", "tune"),
    "runner.warehouse_usage": ("Usage", "usage"),
    "schema": ("check_response",),
    "spec.enrichment": ("Enrichment",),
    "spec.loader": ("enrichment", "load", "loads"),
    "spec.run_settings": ("Caps", "LocalModel", "Mock"),
}
"""The module of each public name. A name is imported when it is first used (PEP 562)."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

prefer_source()

__all__ = [
    "Audit",
    "Batches",
    "Caps",
    "Comparison",
    "ConfigError",
    "Distilled",
    "Drift",
    "Endpoint",
    "Enricher",
    "Enrichment",
    "Estimate",
    "Evaluation",
    "Forgotten",
    "Gateway",
    "LocalModel",
    "Mock",
    "Plan",
    "ProbeReport",
    "PromptError",
    "QualityReport",
    "Report",
    "Review",
    "RunError",
    "SpecError",
    "SqlenrichError",
    "Step",
    "Steps",
    "Tuned",
    "UnsupportedError",
    "Usage",
    "__version__",
    "audit",
    "batches",
    "check_response",
    "check_sql",
    "compare",
    "compile_plan",
    "distill",
    "drift",
    "enrichment",
    "estimate",
    "evaluate",
    "forget",
    "load",
    "loads",
    "probe",
    "prompt_sql",
    "render",
    "render_prompt",
    "repair_sql",
    "report",
    "retry",
    "review",
    "run",
    "tune",
    "usage",
    "write_dbt",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

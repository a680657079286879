"""Run a language model over every row of a table, where the data already lives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlenrich.core.version import __version__

if TYPE_CHECKING:
    from sqlenrich.core.errors import (
        ConfigError,
        PromptError,
        RunError,
        SpecError,
        SqlenrichError,
        UnsupportedError,
    )
    from sqlenrich.plan.compile import compile_plan
    from sqlenrich.plan.plan import Plan, Step
    from sqlenrich.prompt import render_prompt
    from sqlenrich.quality.compare import compare
    from sqlenrich.quality.comparison import Comparison
    from sqlenrich.renderer.expressions import check_sql, prompt_sql, repair_sql
    from sqlenrich.renderer.script import render
    from sqlenrich.runner.estimate import Estimate, estimate
    from sqlenrich.runner.report import Report
    from sqlenrich.runner.retry import retry
    from sqlenrich.runner.run import run
    from sqlenrich.schema import check_response
    from sqlenrich.spec.enrichment import Enrichment
    from sqlenrich.spec.loader import load
    from sqlenrich.spec.run_settings import Caps, Mock
    from sqlenrich.spec.settings import Endpoint

_MODULES = {
    "core.errors": ("ConfigError", "PromptError", "RunError", "SpecError", "SqlenrichError", "UnsupportedError"),
    "plan.compile": ("compile_plan",),
    "plan.plan": ("Plan", "Step"),
    "prompt": ("render_prompt",),
    "quality.compare": ("compare",),
    "quality.comparison": ("Comparison",),
    "renderer.expressions": ("check_sql", "prompt_sql", "repair_sql"),
    "renderer.script": ("render",),
    "runner.estimate": ("Estimate", "estimate"),
    "runner.report": ("Report",),
    "runner.retry": ("retry",),
    "runner.run": ("run",),
    "schema": ("check_response",),
    "spec.enrichment": ("Enrichment",),
    "spec.loader": ("load",),
    "spec.run_settings": ("Caps", "Mock"),
    "spec.settings": ("Endpoint",),
}
"""The module of each public name. A name is imported when it is first used (PEP 562)."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Caps",
    "Comparison",
    "ConfigError",
    "Endpoint",
    "Enrichment",
    "Estimate",
    "Mock",
    "Plan",
    "PromptError",
    "Report",
    "RunError",
    "SpecError",
    "SqlenrichError",
    "Step",
    "UnsupportedError",
    "__version__",
    "check_response",
    "check_sql",
    "compare",
    "compile_plan",
    "estimate",
    "load",
    "prompt_sql",
    "render",
    "render_prompt",
    "repair_sql",
    "retry",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Run a language model over every row of a table, where the data already lives."""

from __future__ import annotations

__version__ = "0.1.0"

from .compare import compare
from .comparison import Comparison
from .compiler import compile_plan
from .enrichment import Enrichment
from .errors import ConfigError, PromptError, RunError, SpecError, SqlenrichError, UnsupportedError
from .forecast import Forecast, plan
from .loader import load
from .plan import Plan, Step
from .prompt import render_prompt
from .render import render
from .report import Report
from .retry import retry
from .run import run
from .schema import check_response
from .sql import check_sql, prompt_sql, repair_sql

__all__ = [
    "Comparison",
    "ConfigError",
    "Enrichment",
    "Forecast",
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
    "load",
    "plan",
    "prompt_sql",
    "render",
    "render_prompt",
    "repair_sql",
    "retry",
    "run",
]

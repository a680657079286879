"""The output's JSON Schema: its typed columns, the checks of an answer, and the part that each vendor takes."""

from sqlenrich.schema.check_response import check_response, value_test
from sqlenrich.schema.checks.build import build_checks
from sqlenrich.schema.checks.evaluate import evaluate_checks
from sqlenrich.schema.checks.ir import CODES, Checks
from sqlenrich.schema.columns import output_columns
from sqlenrich.schema.normalise import Problem, normalise
from sqlenrich.schema.short_form import expand

__all__ = [
    "CODES",
    "Checks",
    "Problem",
    "build_checks",
    "check_response",
    "evaluate_checks",
    "expand",
    "normalise",
    "output_columns",
    "value_test",
]

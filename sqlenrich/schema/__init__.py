"""The answer's JSON Schema: its typed columns, the form each vendor takes, and one small IR of tests."""

from sqlenrich.schema.check_response import check_response
from sqlenrich.schema.checks.build import build_tests
from sqlenrich.schema.checks.evaluate import judge
from sqlenrich.schema.checks.ir import CODES, Verdicts
from sqlenrich.schema.columns import output_columns
from sqlenrich.schema.keywords import Problem
from sqlenrich.schema.normalise import normalise
from sqlenrich.schema.short_form import expand

__all__ = [
    "CODES",
    "Problem",
    "Verdicts",
    "build_tests",
    "check_response",
    "expand",
    "judge",
    "normalise",
    "output_columns",
]

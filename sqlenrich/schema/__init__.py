"""The answer's JSON Schema: its typed columns, the form each vendor takes, and one small IR of tests."""

from .build import build_tests
from .check import check_response, judge
from .columns import output_columns
from .keywords import Problem
from .normalise import normalise
from .short import expand
from .tests import CODES, Verdicts

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

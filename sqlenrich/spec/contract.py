"""What an answer is checked against, and what each row of a result holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.types import Type, stored
from sqlenrich.schema import Checks, build_checks, output_columns
from sqlenrich.spec.limits import Limit

DEFAULT_REPAIRS = ("trim", "reasoning", "fence")


@dataclass(frozen=True, repr=False, kw_only=True)
class OutputContract:
    """By what a stored answer is checked, and what a row of the results holds beside it. Checking needs no prompt."""

    schema: Mapping[str, Any]
    """The output's JSON Schema in its plain form (:mod:`sqlenrich.schema.normalise`)."""
    fingerprint: str
    """The digest of the file, beside each accepted row."""
    version: str | None = None
    key: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    repairs: tuple[str, ...] = DEFAULT_REPAIRS
    keep_prompts: bool = True
    """Whether a finished run leaves the prompts in its tables. Their hashes stay in any case."""
    row_checks: Mapping[str, str] = field(default_factory=dict)
    """Conditions between an accepted answer and its row, by name."""
    limit: Limit | None = None
    """The maximum length of a request, and what happens to a longer one."""
    embedding: Embedding | None = None
    """The vector that is the only field of the output; None: a model writes the answers."""

    @property
    def contract(self) -> OutputContract:
        """These facts alone, without what a class that extends this one adds."""
        return OutputContract(**{each.name: getattr(self, each.name) for each in fields(OutputContract)})

    @cached_property
    def checks(self) -> Checks:
        """The checks of an answer."""
        return build_checks(self.schema)

    @cached_property
    def output_columns(self) -> dict[str, Type]:
        """One typed column per output property."""
        return {name: stored(kind) for name, kind in self.readings.items()}

    @cached_property
    def readings(self) -> dict[str, Type]:
        """The type as which each output column is read from an answer."""
        return output_columns(self.schema)

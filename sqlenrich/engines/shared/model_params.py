"""Models that refuse parameters, for ``Engine.params_by_model`` of every engine that serves them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlenrich.core.engine import VendorFact

ModelException = tuple[str, Mapping[str, str | None]]
"""A regular expression for names of models, and their entries of ``Engine.params``."""

CLAUDE = VendorFact(
    (
        r"(?i)claude-(?:fable|(?:opus|sonnet|haiku)-(?:4[-.](?:[7-9]|\d\d)|[5-9]|\d\d)(?!\d))",
        {"temperature": None, "top_p": None},
    ),
    "https://platform.claude.com/docs/en/about-claude/models/migration-guide",
    "2026-11-22",
)
"""Claude models from 4.7 on answer 400 to any sampling parameter."""

REASONING = VendorFact(
    (r"(?i)(^|[/.-])(gpt-([5-9]|\d\d)|o[134])([-.]|$)", {"temperature": None, "top_p": None, "stop": None}),
    "https://platform.openai.com/docs/guides/reasoning",
    "2026-11-22",
)
"""OpenAI's reasoning models refuse sampling parameters and ``stop``."""

NO_SAMPLING: tuple[ModelException, ...] = (CLAUDE.value, REASONING.value)
"""For a vendor's function, which takes the limit of an answer under one name for every model."""

_pattern, _names = REASONING.value
OPENAI_COMPATIBLE: tuple[ModelException, ...] = (
    CLAUDE.value,
    (_pattern, {**_names, "max_tokens": "max_completion_tokens"}),
)
"""For a server of OpenAI's interface: its reasoning models take ``max_completion_tokens`` alone."""

"""Where the expressions that every enrichment repeats stand. The command line reads it, and loads no compiler."""

from __future__ import annotations

from typing import Literal, TypeAlias

Functions: TypeAlias = Literal["inline", "temporary", "installed"]
"""Whether the expression stands at each call, in a function of the session, or in one that was made once."""
FUNCTIONS: tuple[Functions, ...] = ("inline", "temporary", "installed")

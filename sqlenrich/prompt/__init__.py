"""Jinja prompts: parsed once, compiled to a typed text expression, printed as SQL by each engine."""

from sqlenrich.prompt.compile import Prompt, compile_prompt
from sqlenrich.prompt.reference import render_prompt

__all__ = ["Prompt", "compile_prompt", "render_prompt"]

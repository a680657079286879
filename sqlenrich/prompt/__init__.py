"""Jinja prompts: parsed once, compiled to a typed text expression, printed as SQL by each engine."""

from sqlenrich.prompt.compile import Prompt, compile_prompt
from sqlenrich.prompt.reference import render_prompt
from sqlenrich.prompt.row_system import PromptWithSystem, with_system

__all__ = ["Prompt", "PromptWithSystem", "compile_prompt", "render_prompt", "with_system"]

"""HTML pages in one file: Jinja with autoescape, and a policy that runs nothing but the page's own script."""

from __future__ import annotations

import base64
import hashlib
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError, RunError

FOLDER = Path(__file__).parent
GENERATOR = "sqlenrich"
"""What the page's meta element ``generator`` says: a file without it is not overwritten."""
MOST_CHARACTERS = 2000
_POLICY = "default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; form-action 'none'"


def render_page(template: str, *, styles: Sequence[str], script: str, autoescape: bool = True, **data: Any) -> str:
    """Return a page. ``styles`` and ``script`` are files beside the template; the policy allows these alone."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    style_text = "".join((FOLDER / name).read_text(encoding="utf-8") for name in styles)
    script_text = (FOLDER / script).read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cut"] = cut_text
    return environment.get_template(template).render(
        policy=_POLICY.format(style=_hash(style_text), script=_hash(script_text)),
        generator=GENERATOR,
        style=style_text,
        script=script_text,
        **data,
    )


def cut_text(text: object) -> str:
    """Return a text cut at 2,000 characters, with a mark that says how many are missing."""
    whole = str(text)
    left = len(whole) - MOST_CHARACTERS
    return whole if left <= 0 else f"{whole[:MOST_CHARACTERS]} [… {left:,} more characters]"


def write_file(path: Path, text: str) -> None:
    """Write a page as a whole or not at all. Raises RunError where the folder can't be written."""
    made = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(text, encoding="utf-8", newline="")
        os.replace(made, path)
    except OSError as error:
        raise RunError(f"{path} can't be written: {error.strerror}") from None
    finally:
        made.unlink(missing_ok=True)


def check_page(path: Path) -> None:
    """Refuse to overwrite a file that is no page of this package. Raises ConfigError."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file, as in {path / 'page.html'}")
    if path.is_file() and path.stat().st_size:
        with path.open(encoding="utf-8", errors="replace") as file:
            if f'name="generator" content="{GENERATOR}"' not in file.read(4096):
                raise ConfigError(f"{path} was not written by sqlenrich: remove it, or name another file")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

"""The README's commands and code run as they stand there, with the output shown there.

``pytest tests/test_readme.py --update-readme`` writes the real output of each command into the README.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"\d+\.\d s$", re.MULTILINE)


def run(command: str, folder: Path) -> str:
    """Run a shell command as a user would, with its talk and its data in one stream."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONWARNINGS": "ignore", "COLUMNS": "100", "PAGER": "cat"}
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 3), f"{command}: exit {done.returncode}\n{done.stdout}"
    return done.stdout


def replay(block: str, folder: Path) -> str:
    """Return a console block with the real output of its commands."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{run(command[2:], folder)}" for command in commands)


def stable(text: str) -> str:
    """Take away what differs from run to run: seconds, and blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in VARIABLE.sub("N s", text).rstrip().splitlines())


def test_console_blocks_show_real_output(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = README.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) >= 4
    real = [replay(block, tmp_path) for block in blocks]
    if request.config.getoption("--update-readme"):
        outputs = iter("\n".join(line.rstrip() for line in output.rstrip().splitlines()) for output in real)
        text = BLOCK.sub(lambda _: f"```console\n{next(outputs)}\n```", text)
        README.write_text(text, encoding="utf-8")
        return
    for block, output in zip(blocks, real, strict=True):
        assert stable(block) == stable(output)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/pipelines.md"])
def test_python_blocks_run(tmp_path: Path, page: str) -> None:
    """All blocks of a page run in one folder, in their order."""
    blocks = PYTHON.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    run("sqlenrich new tickets --template support_ticket --sample", tmp_path)
    for block in blocks:
        (tmp_path / "block.py").write_text(block, encoding="utf-8")
        run(f"{sys.executable} block.py", tmp_path)


PAGES = sorted({README, *ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), *ROOT.glob("templates/*.md")})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

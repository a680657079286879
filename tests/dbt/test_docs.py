"""The blocks of docs/dbt.md run as they stand there, in their order."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.dbt_projects import PACKAGE, ROOT, DbtProject
from tests.test_readme import BLOCK, run, stable

PAGE = ROOT / "docs" / "dbt.md"
FILE = re.compile(r"^```yaml\n# (\S+\.yml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def replay(block: str, folder: Path) -> str:
    """Return a console block with the real output of its commands; those of dbt run in this process."""
    commands = re.findall("^[$] (.*)$", block, re.MULTILINE)
    return "".join(f"$ {command}\n{output(command, folder)}" for command in commands)


def output(command: str, folder: Path) -> str:
    if not command.startswith("dbt "):
        return run(command, folder)
    first, _, rest = command.partition(" | ")
    printed = DbtProject(folder).shown(first)
    if not rest:
        return printed
    (folder / "printed.txt").write_text(printed, encoding="utf-8")
    return run(f"{rest} < printed.txt", folder)


@pytest.mark.xdist_group("dbt on DuckDB")
def test_the_page_shows_real_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("NO_COLOR", "1")
    text = PAGE.read_text(encoding="utf-8")
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content, encoding="utf-8")
    # The package of this checkout, in place of the released one.
    (tmp_path / "packages.yml").write_text(json.dumps({"packages": [{"local": str(PACKAGE)}]}), encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) >= 7
    real = [replay(block, tmp_path).replace(str(tmp_path), "support") for block in blocks]
    if request.config.getoption("--update-readme"):
        outputs = iter("\n".join(line.rstrip() for line in output.rstrip().splitlines()) for output in real)
        PAGE.write_text(BLOCK.sub(lambda _: f"```console\n{next(outputs)}\n```", text), encoding="utf-8")
        return
    for block, output in zip(blocks, real, strict=True):
        assert stable(block) == stable(output)

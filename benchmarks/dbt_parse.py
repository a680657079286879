"""Measure what many enrichments cost a dbt project: ``sqlenrich dbt``, and parsing by dbt 1 and dbt 2.

    python benchmarks/dbt_parse.py [--enrichments 200] [--dbt2 .cache/dbt2/bin/dbt]

The enrichments are the ready-made ones, each under many names. All figures are seconds of processor time.

- write: ``sqlenrich dbt`` of all files, less a command that writes nothing, per enrichment.
- parse: ``dbt parse`` of the project without what it remembers, less the same of a project with none, per enrichment.
- partial: ``dbt parse`` after one file has changed, less the same of a project with none, in all.
- dbt 2: its ``parse``, less the same of a project with none, in all.

Prints a line of JSON each, and a table.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from local import COMMAND, markdown, show

from sqlenrich.spec.loader import templates
from tests.support.dbt_projects import copy_consumer, dbt_command

COLUMNS = ("what", "enrichments", "CPU s", "each")


def processor_s(command: list[str], folder: Path, env: dict[str, str] | None = None) -> float:
    """Run a command in a folder; give its seconds of processor time. Raises RuntimeError where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def without_enrichments(folder: Path) -> Path:
    """Copy the consuming project without its enrichment, and what stands on it."""
    copy_consumer(folder, {"dev": {}})
    for place in ("models/sqlenrich", "macros/sqlenrich"):
        shutil.rmtree(folder / place)
    for path in (folder / "models").rglob("*.*"):
        path.unlink()
    return folder


def prompt_files(folder: Path, count: int) -> list[str]:
    """Write ready-made enrichments under names of their own; give their paths."""
    made, written = sorted(templates().items()), []
    for number in range(count):
        name, source = made[number % len(made)]
        path = folder / f"{name}_{number}.prompt"
        shutil.copy(source, path)
        written.append(str(path))
    return written


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--enrichments", type=int, default=200)
    parser.add_argument("--dbt2", help="the command of dbt 2; without it dbt 2 is not measured")
    given = parser.parse_args()
    parse, env = dbt_command(["--quiet", "parse"])
    found = []

    def note(what: str, seconds: float, *, each: bool) -> None:
        row = {"what": what, "enrichments": given.enrichments, "CPU s": round(seconds, 2)}
        found.append({**row, "each": round(seconds / given.enrichments, 3) if each else ""})
        show(found[-1])

    with TemporaryDirectory() as name:
        empty, full = (without_enrichments(Path(name) / each) for each in ("empty", "full"))
        (Path(name) / "prompts").mkdir()
        files = prompt_files(Path(name) / "prompts", given.enrichments)
        write = [*COMMAND, "dbt", "--project", ".", "--source", "messages"]
        start = processor_s([*COMMAND, "--version"], empty, env)
        note("write", processor_s([*write, *files], full, env) - start, each=True)
        cold = [processor_s([*parse, "--no-partial-parse"], each, env) for each in (empty, full)]
        note("parse", cold[1] - cold[0], each=True)
        warm = []
        for folder in (empty, full):
            processor_s(parse, folder, env)
            (folder / "models" / "new.sql").write_text("SELECT 1 AS one\n")
            warm.append(processor_s(parse, folder, env))
        note("partial", warm[1] - warm[0], each=False)
        if given.dbt2:
            command = [str(Path(given.dbt2).resolve()), "parse"]
            note("dbt 2", processor_s(command, full, env) - processor_s(command, empty, env), each=False)
    print(markdown(found, COLUMNS))


if __name__ == "__main__":
    main()

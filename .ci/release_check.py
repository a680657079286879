"""Builds the packages of a release and checks them; what a maintainer, and the workflow of a release, run.

    python3 .ci/release_check.py [--tag v0.1.0]      (make release-check)

Two builds have equal bytes. The metadata, the contents and the README as an index shows it are checked, each link of
the README leads to a file of the repository, the licences of all dependencies are known ones, and the wheel and the
source run the demo in fresh environments, with the newest dependencies and with the lowest that pyproject.toml allows,
on each Python that is found. With ``--tag`` the version and the changelog belong to the tag.

``build/release/dist`` holds the packages afterwards, ``build/release`` the SBOM, the licences and the README as HTML.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "release"
TOOLS = (
    "build",
    "check-wheel-contents",
    "cyclonedx-bom",
    "nh3",
    "pip-licenses",
    "readme-renderer[md]",
    "twine",
    "uv",
    "zizmor",
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LICENCES = re.compile(r"Apache|MIT|BSD|PSF|Python Software Foundation|MPL|Mozilla|ISC|Zope|CNRI|0BSD|Unlicense")
"""The licences of a dependency that a user may have without a further thought."""
VERSIONS = {"dbt_project/dbt_project.yml": 'version: "{}"', "CITATION.cff": "version: {}"}
"""The files that name the version too, and their line."""
LINK = re.compile(r"\]\(([^)\s]+)\)")
OWN = (
    "https://github.com/sqlenrich/sqlenrich/blob/v{version}/",
    "https://raw.githubusercontent.com/sqlenrich/sqlenrich/v{version}/",
)
"""Where links to files of the repository lead, and pictures."""


def main() -> None:
    """Build and check; end at the first thing that is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tag", default="")
    given = parser.parse_args()
    began = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    bin = tools()
    say("two builds")
    wheel, source = build(bin)
    say("metadata and contents")
    run(bin / "twine", "check", "--strict", wheel, source)
    run(bin / "check-wheel-contents", wheel)
    version = readme(bin, wheel)
    check_versions(version)
    if given.tag:
        check_tag(given.tag, version)
    say("workflows")
    run(bin / "zizmor", "--offline", "--quiet", ".github")
    if (actionlint := shutil.which("actionlint")) is not None:
        run(actionlint)
    else:
        print("actionlint is not on the path: the workflows saw zizmor alone")
    say("what is installed with it")
    bill_of_materials(bin, wheel)
    found = pythons()
    print(f"Python {', '.join(found)}; not here: {', '.join(one for one in PYTHONS if one not in found) or 'none'}")
    for python, executable in found.items():
        for package in (wheel, source):
            for resolution in ("highest", "lowest-direct"):
                say(f"the demo: Python {python}, {package.suffix.removeprefix('.')}, {resolution} dependencies")
                demo(bin, executable, package, resolution)
    print(f"all held in {(time.monotonic() - began) / 60:.1f} min: {', '.join(one.name for one in (wheel, source))}")


def tools() -> Path:
    """Return the programs of an environment that has the tools."""
    folder = ROOT / ".cache" / "release"
    if not (folder / "bin" / "zizmor").exists():
        run(sys.executable, "-m", "venv", folder)
        run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *TOOLS)
    return folder / "bin"


def build(bin: Path) -> tuple[Path, Path]:
    """Build twice from what git knows, at two times and in two folders. Return the wheel and the source."""
    moment = output("git", "log", "-1", "--format=%ct").strip()
    digests = []
    for number in range(2):
        with tempfile.TemporaryDirectory() as name:
            copy = Path(name) / f"copy-{number}"
            run("git", "clone", "--quiet", "--no-hardlinks", ROOT, copy)
            dist = OUT / ("dist" if number else "dist-before")
            environment = {**os.environ, "SOURCE_DATE_EPOCH": moment}
            run(bin / "python", "-m", "build", "--outdir", dist, copy, env=environment, quiet=True)
            digests.append({one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in sorted(dist.iterdir())})
    if digests[0] != digests[1]:
        raise SystemExit(f"two builds differ: {digests}")
    shutil.rmtree(OUT / "dist-before")
    for name, digest in digests[1].items():
        print(f"{digest}  {name}")
    (wheel,), (source,) = (OUT / "dist").glob("*.whl"), (OUT / "dist").glob("*.tar.gz")
    return wheel, source


def readme(bin: Path, wheel: Path) -> str:
    """Render the README as an index does, and follow its links. Return the version."""
    with ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
    version, text = metadata["Version"], metadata.get_payload()
    text = text if isinstance(text, str) else ""
    (OUT / "readme.md").write_text(text, encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from readme_renderer.markdown import render\n"
        "page = render(Path(sys.argv[1]).read_text(encoding='utf-8')); assert page\n"
        "head = '<!doctype html><meta charset=utf-8><title>README</title><body style=\"max-width:50em;margin:auto\">'\n"
        "Path(sys.argv[2]).write_text(head + page, encoding='utf-8')"
    )
    run(bin / "python", "-c", code, OUT / "readme.md", OUT / "readme.html")
    known = set(output("git", "ls-files").splitlines())
    folders = {str(parent) for path in known for parent in Path(path).parents}
    links, wrong = LINK.findall(text), []
    for link in links:
        own = next((one for one in (place.format(version=version) for place in OWN) if link.startswith(one)), None)
        path = link.removeprefix(own or "").partition("#")[0].rstrip("/")
        if own is None and not link.startswith("https://"):
            wrong.append(f"{link}: not absolute")
        elif own is not None and path not in known and path not in folders:
            wrong.append(f"{link}: not in the repository")
    if wrong or not links:
        raise SystemExit("\n".join(wrong) or "the README of the package has no links")
    print(f"the README of {version} has {len(links)} links, and each leads somewhere: {OUT / 'readme.html'}")
    return str(version)


def check_versions(version: str) -> None:
    """Refuse files that name another version."""
    for name, line in VERSIONS.items():
        if line.format(version) not in (ROOT / name).read_text(encoding="utf-8").splitlines():
            raise SystemExit(f"{name} has no line {line.format(version)}")


def check_tag(tag: str, version: str) -> None:
    """Refuse a tag of another version, and a changelog without a dated section of it."""
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, and the version in sqlenrich/core/version.py is {version}")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if re.search(rf"^## \[?{re.escape(version)}\]? - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE) is None:
        raise SystemExit(f"CHANGELOG.md has no section of a day: ## {version} - 2026-12-31")


def bill_of_materials(bin: Path, wheel: Path) -> None:
    """Write the SBOM and the licences of the wheel with what it needs. Refuse a licence that is not a known one."""
    with tempfile.TemporaryDirectory() as name:
        python = Path(name) / "bin" / "python"
        run(bin / "uv", "venv", "--quiet", "--python", sys.executable, name)
        run(bin / "uv", "pip", "install", "--quiet", "--python", python, wheel)
        run(
            bin / "cyclonedx-py",
            "environment",
            "--output-reproducible",
            "--of",
            "JSON",
            "-o",
            OUT / "sbom.json",
            python,
        )
        told = output(bin / "pip-licenses", "--python", python, "--format", "json", "--with-urls")
    licences = json.loads(told)
    (OUT / "licences.json").write_text(json.dumps(licences, indent=2) + "\n", encoding="utf-8")
    unknown = [one for one in licences if LICENCES.search(one["License"]) is None]
    if unknown:
        raise SystemExit(f"licences to look at: {unknown}")
    print(f"{len(licences)} packages: {OUT / 'sbom.json'}, {OUT / 'licences.json'}")


def pythons() -> dict[str, str]:
    """Return the Pythons that are here: the one that runs this, and those on the path that run."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for version in PYTHONS:
        path = shutil.which(f"python{version}")  # a shim of pyenv may lead nowhere
        if path is not None and not subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
            found.setdefault(version, path)
    return dict(sorted(found.items()))


def demo(bin: Path, python: str, package: Path, resolution: str) -> None:
    """Install a package into a fresh environment and run the demo there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = folder / "env" / "bin"

        def at(program: str, *words: object) -> None:
            run(own / program, *words, cwd=folder, quiet=True)

        run(bin / "uv", "venv", "--quiet", "--python", python, folder / "env")
        install = (bin / "uv", "pip", "install", "--quiet", "--resolution", resolution)
        run(*install, "--python", own / "python", package)
        at("sqlenrich", "new", "tickets", "--template", "support_ticket", "--sample")
        at("sqlenrich", "check", "tickets.prompt")
        at("sqlenrich", "run", "tickets.prompt", "--input", "tickets.csv", "--output", "out.duckdb", "--mock")
        at("sqlenrich", "audit", "tickets.prompt", "--output", "out.duckdb")
        for engine in ("databricks", "snowflake", "bigquery", "spark", "duckdb"):
            at("sqlenrich", "render", "tickets.prompt", "--engine", engine, "-o", f"{engine}.sql")


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def run(*command: object, cwd: Path = ROOT, env: dict[str, str] | None = None, quiet: bool = False) -> None:
    """Run a program; end with what it wrote where it fails."""
    words: Sequence[str] = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=quiet, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")


def output(*command: object) -> str:
    """Return what a program writes."""
    return subprocess.run(
        [str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main()

"""The site of the documentation: its navigation, what is generated for it, and the settings that its pages show."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sqlenrich.cli.main import cli
from sqlenrich.core.errors import ConfigError
from sqlenrich.spec.settings import read_config
from tests.test_readme import ROOT

DOCS = ROOT / "docs"
GENERATED = {"changelog.md", "contributing.md", "templates.md"}
TOML = re.compile(r"^```toml\n((?:(?!^```).)*^\[(?:models|endpoints|targets)\.(?:(?!^```).)*)^```$", re.M | re.S)


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that mkdocs loads."""
    monkeypatch.setattr(sys, "path", [str(DOCS / "site"), *sys.path])
    import hooks  # type: ignore[import-not-found]

    return hooks


def settings() -> Any:
    return YAML(typ="safe").load(ROOT / "mkdocs.yml")


def test_every_page_is_in_the_navigation_once(hooks: Any) -> None:
    """A new page of docs/ belongs into ``nav`` of mkdocs.yml."""
    pages = list(hooks.titles(settings()["nav"]))
    assert sorted(pages) == sorted({page.name for page in DOCS.glob("*.md")} | GENERATED)


def test_the_site_asks_no_other_server() -> None:
    """What the theme would load from elsewhere is turned off here, and checked in each page as it is built."""
    theme = settings()["theme"]
    assert (theme["font"], "repo_url" in settings(), "offline" in settings()["plugins"]) == (False, False, True)


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script defer src="https://cdn.example/a.js"></script>', ["https://cdn.example/a.js"]),
        ('<link href="https://fonts.example/a.css" rel="stylesheet">', ["https://fonts.example/a.css"]),
        ('<a href="https://example.com">a</a> <script src="assets/a.js"></script>', []),
        ('<link rel="canonical" href="https://docs.example/a.html"><link rel="icon" href="a.png">', []),
    ],
)
def test_what_a_page_loads_from_another_server(hooks: Any, html: str, found: list[str]) -> None:
    assert hooks.ELSEWHERE.findall(html) == found


@pytest.mark.parametrize(
    ("text", "folder", "expected"),
    [
        ("[a](running.md#progress)", "docs", "[a](running.md#progress)"),
        ("[a](#below)", "docs", "[a](#below)"),
        ("[a](https://example.com/b.md)", "docs", "[a](https://example.com/b.md)"),
        ("[a](../CONTRIBUTING.md)", "docs", "[a](contributing.md)"),
        ("[a](../templates/README.md#start-from-one)", "docs", "[a](templates.md#start-from-one)"),
        ("[a](docs/architecture.md)", "", "[a](architecture.md)"),
        ("[a](classify/classify.prompt)", "templates", "[a](REPO/templates/classify/classify.prompt)"),
        ("[a](../examples/notebook.ipynb)", "docs", "[a](REPO/examples/notebook.ipynb)"),
    ],
)
def test_links_of_the_site(hooks: Any, text: str, folder: str, expected: str) -> None:
    assert hooks.site_links(text, folder) == expected.replace("REPO/", hooks.REPOSITORY)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("a :class:<code>~sqlenrich.Mock</code> b", "a <code>Mock</code> b"),
        ("<td><code>a\\|b</code></td><p><code>c\\|d</code></p>", "<td><code>a|b</code></td><p><code>c\\|d</code></p>"),
    ],
)
def test_what_is_mended_in_a_page(hooks: Any, html: str, expected: str) -> None:
    assert hooks.on_page_content(html) == expected


def test_the_reference_of_the_command_line(hooks: Any) -> None:
    """Every command has its section, with every option that has a help text, and its examples."""
    text = hooks.command_reference()
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    assert set(sections) == set(cli.commands)
    for name, command in cli.commands.items():
        for option in command.params:
            if getattr(option, "help", None) and not getattr(option, "hidden", False):
                assert f"`{option.opts[0]}" in sections[name] or option.opts[-1] in sections[name], (name, option.opts)
    assert "| `--log [text\\|json]` | Progress on stderr as text" in sections["run"]
    assert "| `-n N` | How many rows. [default: 20] |" in sections["show"]
    assert "```sh\nsqlenrich run tickets.prompt --input tickets.csv" in sections["run"]
    assert "RANGE" not in text


SETTINGS = [
    pytest.param(block, id=f"{page.stem}-{place}")
    for page in sorted(DOCS.glob("*.md"))
    for place, block in enumerate(TOML.findall(page.read_text(encoding="utf-8")))
    if "as_of" not in block
]


@pytest.mark.parametrize("block", SETTINGS)
def test_the_settings_of_a_page_can_be_read(block: str, tmp_path: Path) -> None:
    file = tmp_path / "sqlenrich.toml"
    file.write_text(block, encoding="utf-8")
    (tmp_path / "prices.toml").write_text("as_of = 2026-11-01\n[models.m]\ninput = 0\noutput = 0\n", encoding="utf-8")
    config = read_config(file)
    assert config.models or config.endpoints or config.targets


def test_settings_with_a_mistake_are_refused(tmp_path: Path) -> None:
    """The test above can fail."""
    (tmp_path / "sqlenrich.toml").write_text('[targets.prod]\nengine = "snowflake"\nprofil = "a"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="profil"):
        read_config(tmp_path / "sqlenrich.toml")


def test_programs_find_each_page_in_one_list(hooks: Any) -> None:
    found = settings()
    text = hooks.llms_txt(found["site_name"], found["site_description"], found["nav"])
    assert text.startswith("# sqlenrich\n\n> Run a language model over every row of a table")
    assert [page for page in hooks.titles(found["nav"]) if f"({page.removesuffix('.md')}.html)" not in text] == []
    assert "- [Running](running.html): A run reads a table, asks the model once for each distinct prompt" in text

"""What mkdocs does beside its own work: pages that are made from other files, and links that leave the folder.

The pages read well on a code host too: there links go to the files themselves.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from command_reference import command_reference  # noqa: E402  beside this file

REPOSITORY = "https://github.com/sqlenrich/sqlenrich/blob/main/"
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "templates/README.md": "templates.md"}
"""Files of the repository that are pages of the site, and the page's name."""
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):<code>~?([\w.]+)</code>")
"""A reference as docstrings write it, in the HTML that Markdown makes of it."""
CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
COMMANDS = re.compile(r"<!-- commands: begin -->.*<!-- commands: end -->", re.DOTALL)
PAGE_AS_TEXT = re.compile(r"\[(?:docs/)?([\w-]+\.md)\](?=\()")
"""A link whose text is a page's file: the site shows the page's title."""
WORKER = "https://unpkg.com/iframe-worker/shim"
"""What the theme loads from another server, so that its search works from a folder. The site has its own."""
ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source|link(?![^>]*rel=.(?:canonical|prev|next)))\s[^>]*(?:src|href)=.(https?:[^\"'>]*)"
)
"""What a page loads from another server."""


def site_links(text: str, folder: str) -> str:
    """Give a page's text, a file of ``folder`` (from the root), with the links that the site needs."""

    def replaced(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        if path in OUTSIDE:
            return OUTSIDE[path]
        return path.removeprefix("docs/") if path.startswith("docs/") else REPOSITORY + path

    return LINK.sub(replaced, text)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are files outside the folder."""
    from mkdocs.structure.files import File

    for path, page in OUTSIDE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=site_links(text, posixpath.dirname(path))))
    return files


def titles(nav: Any) -> dict[str, str]:
    """Give the title of each page of a navigation."""
    if isinstance(nav, list):
        return {page: title for part in nav for page, title in titles(part).items()}
    ((title, below),) = nav.items()
    return {below: title} if isinstance(below, str) else titles(below)


def llms_txt(name: str, description: str, nav: Any) -> str:
    """Return the list of all pages that programs read, with the first words of each: https://llmstxt.org."""
    lines = [f"# {name}", "", f"> {description}"]
    for section in nav:
        ((title, below),) = section.items()
        lines += ["", f"## {title}", ""]
        for page, shown in titles(below).items():
            text = first_words(page)
            lines.append(f"- [{shown}]({page.removesuffix('.md')}.html)" + (f": {text}" if text else ""))
    return "\n".join(lines) + "\n"


def first_words(page: str) -> str:
    """Return the first sentence of a page, as plain text."""
    path = ROOT / "docs" / page
    outside = next((path for path, name in OUTSIDE.items() if name == page), None)
    text = (path if outside is None else ROOT / outside).read_text(encoding="utf-8")
    blocks = [block for block in text.split("\n\n") if block[:1].isalnum() or re.match(r"`(?!``)|\[", block)]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(blocks[0].split())) if blocks else ""
    return re.split(r"(?<=[.:]) ", plain, maxsplit=1)[0].removesuffix(":")


def on_post_build(config: Any) -> None:
    """Write ``llms.txt`` beside the pages."""
    text = llms_txt(config["site_name"], config["site_description"], config["nav"])
    (Path(config["site_dir"]) / "llms.txt").write_text(text, encoding="utf-8")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Point links at the site, name pages by their titles, and fill in the commands."""
    if page.file.generated_by is None:
        markdown = site_links(markdown, posixpath.join("docs", posixpath.dirname(page.file.src_uri)))
    known = titles(config["nav"])
    markdown = PAGE_AS_TEXT.sub(lambda match: f"[{known.get(match[1], match[1])}]", markdown)
    return COMMANDS.sub(lambda _: command_reference(), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Print the references of docstrings as names, and a bar in a table's code, which Markdown's tables escape."""
    named = ROLE.sub(lambda match: f"<code>{match[1].rpartition('.')[2]}</code>", html)
    return CELL.sub(lambda match: match[0].replace("\\|", "|"), named)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """The same for the page that a server shows where there is none."""
    return output_content.replace(WORKER, "/site/worker_in_frame.js") if template_name == "404.html" else output_content


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load nothing from another server. Raises PluginError where a page would."""
    from mkdocs.exceptions import PluginError
    from mkdocs.utils import get_relative_url

    made = output.replace(WORKER, get_relative_url("site/worker_in_frame.js", page.url))
    if found := ELSEWHERE.findall(made):
        raise PluginError(f"{page.file.src_uri} would load {', '.join(found)}: the site must stand alone")
    return made

"""The sheet and the report in a headless Chromium. Run by ``make page``, where one is installed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.quality.page import render_page
from sqlenrich.quality.report.page import report_page
from tests.quality.test_report import full_page, hostile
from tests.quality.test_review import STRINGS
from tests.support.browser import CHROMIUM, Browser
from tests.support.runs import call, rows, run, write_csv, write_prompt

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; SQLENRICH_CHROMIUM names one"),
]
LOOKS = [(width, scheme, media) for width in (1240, 390) for scheme, media in (
    ("light", "screen"), ("dark", "screen"), ("light", "print"), ("dark", "print"),
)]  # fmt: skip
LEAST_CONTRAST = 4.5
CONTRASTS = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const over = (top, under) => {
    const alpha = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => top[i] * alpha + under[i] * (1 - alpha));
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = {};
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const chain = [];
    for (let one = element; one; one = one.parentElement) chain.push(getComputedStyle(one).backgroundColor);
    const back = chain.reverse().reduce((under, colour) => over(parse(colour), under), [255, 255, 255]);
    const text = over(parse(getComputedStyle(element).color), back);
    const [dark, bright] = [light(back), light(text)].sort((a, b) => a - b);
    const ratio = (bright + 0.05) / (dark + 0.05);
    const name = element.tagName + "." + element.className;
    if (!(found[name] < ratio)) found[name] = ratio;
  }
  return found;
})()"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    with Browser(downloads) as one:
        yield one


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The report and the sheet of hostile texts."""
    folder = tmp_path_factory.mktemp("pages") / "hostile"
    texts = list(dict.fromkeys(hostile(text) for text in STRINGS))
    return {"report": full_page(folder, texts), "sheet": folder / "r.html"}


@pytest.mark.parametrize("name", ["report", "sheet"])
def test_a_page_asks_for_nothing_and_tells_nothing(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    assert browser.requests == [pages[name].resolve().as_uri()]
    assert (browser.console, browser.violations) == ([], [])
    assert browser.value("document.querySelectorAll('script').length") == 1
    assert browser.value("document.querySelectorAll('img, a:not([href^=\"#\"]), base, iframe, object').length") == 0


@pytest.mark.parametrize("name", ["report", "sheet"])
def test_how_a_page_looks(browser: Browser, pages: dict[str, Path], name: str, tmp_path: Path) -> None:
    browser.open(pages[name])
    for width, scheme, media in LOOKS:
        browser.look(width, scheme=scheme, media=media)
        low = {tag: ratio for tag, ratio in browser.value(CONTRASTS).items() if ratio < LEAST_CONTRAST}
        assert not low, (width, scheme, media)
        if media == "screen":
            assert browser.value("document.documentElement.scrollWidth") == width


ATTACKS = (
    "<script>document.title = 'ran'</script>",
    "<img src=https://evil.example/x.png onerror=\"document.title = 'ran'\">",
    "<svg onload=\"document.title = 'ran'\"></svg>",
    "<iframe srcdoc=\"<script>parent.document.title = 'ran'</script>\"></iframe>",
    "<style>body { background: url(https://evil.example/y.png) }</style>",
    "<link rel=stylesheet href=https://evil.example/z.css><base href=https://evil.example/>",
    "<a id=go href=\"javascript:document.title='ran'\">x</a><form action=https://evil.example/><button id=send></form>",
)


@pytest.mark.parametrize("name", ["report", "sheet"])
def test_the_policy_alone_runs_no_script(browser: Browser, tmp_path: Path, name: str) -> None:
    """With escaping off the texts are markup, and still nothing of them runs or is fetched."""
    markup, page = "".join(ATTACKS), tmp_path / "page.html"
    if name == "sheet":
        data = '{"rows": [], "fields": [], "before": "", "after": ""}'
        styles, own = ("base.css", "sheet.css"), {"name": markup, "reviewer": "x", "rows": 1, "data": data}
        text = render_page("sheet.html", styles=styles, script="sheet.js", autoescape=False, **own)
    else:
        prompt = write_prompt(tmp_path, "key: [id]\nkeep: [body]\n")
        se.run(se.load(prompt), input=[{"id": "1", "body": markup}], output=tmp_path / "out.duckdb", mock=True)
        text = report_page(se.report(se.load(prompt), output=tmp_path / "out.duckdb"), autoescape=False)
    page.write_text(text, encoding="utf-8")
    browser.open(page)
    assert browser.value("['script', 'img', 'iframe', 'link'].every((tag) => document.querySelector('body ' + tag))")
    browser.value("document.getElementById('go').click()")
    browser.value("document.getElementById('send').click()")
    time.sleep(0.5)
    assert browser.value("document.title") != "ran"
    assert [url for url in browser.requests if "evil" in url and not blocked(browser, url)] == []
    assert browser.violations


def blocked(browser: Browser, url: str) -> bool:
    """Tell whether the browser refused a request that it was about to make, by the policy."""
    return any(url.partition("?")[0] in line and "Content Security Policy" in line for line in browser.console)


def test_the_search(browser: Browser, tmp_path: Path) -> None:
    prompt = write_prompt(tmp_path, "key: [id]\nkeep: [body]\n")
    run(prompt, write_csv(tmp_path / "in.csv", [(i, f"word{i} Text") for i in range(30)]), tmp_path / "out.duckdb")
    se.report(se.load(prompt), output=tmp_path / "out.duckdb", page=tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.value("document.getElementById('search').focus()")
    browser.write("TEXT word17")
    assert browser.value("document.getElementById('found').textContent") == "1 of 30 rows"
    shown = "[...document.querySelectorAll('#rows tbody tr')].filter((row) => !row.hidden).length"
    assert browser.value(shown) == 1


OUTPUT = """output:
  type: object
  properties:
    label: {type: string, enum: [a, b, c]}
    urgency: {type: integer, minimum: 1, maximum: 20}
    note: {type: string}
  required: [label, urgency, note]
"""


def test_200_rows_judged_by_keys_alone(browser: Browser, tmp_path: Path) -> None:
    """The page is loaded again in the middle; what is saved is read, and is what the keys said."""
    prompt = write_prompt(tmp_path, "key: [id]\n", output=OUTPUT)
    output, sheet = tmp_path / "out.duckdb", tmp_path / "review.html"
    run(prompt, write_csv(tmp_path / "in.csv", [(i, f"text {i}") for i in range(200)]), output)
    call("review", prompt, "--output", output, "--sheet", sheet, "--rows", 200)
    browser.open(sheet)
    held = json.loads(browser.value("document.getElementById('data').textContent"))
    assert len(held["rows"]) == 200
    expected: dict[tuple[str, str], tuple[str, Any]] = {}
    for place, row in enumerate(held["rows"]):
        if place == 100:
            browser.reload()
        label, urgency, _ = row["values"]
        said: dict[str, tuple[str, Any]] = dict.fromkeys(("label", "urgency", "note"), ("right", None))
        if place % 10 == 1:  # another label by its number
            other = "abc".index(label) % 3 + 1
            browser.key(str(other % 3 + 1))
            said["label"] = ("wrong", "abc"[other % 3])
        elif place % 10 == 2:  # wrong, and what is right is not told
            browser.key("n")
            said["label"] = ("wrong", None)
        elif place % 10 == 3:  # unsure moves on to the next field, whose values have two digits
            browser.key("u")
            value = urgency % 20 + 1
            for digit in f"{value:02d}":
                browser.key(digit)
            said |= {"label": ("unsure", None), "urgency": ("wrong", value)}
        elif place % 10 == 4:  # a text is written
            browser.key("ArrowDown")
            browser.key("ArrowDown")
            browser.key("e")
            browser.write(f"new {place}")
            browser.key("Enter")
            said["note"] = ("wrong", f"new {place}")
        elif place % 10 == 5:  # a mistake is cleared
            browser.key("n")
            browser.key("Backspace")
        elif place % 10 == 6:  # back and forth
            browser.key("ArrowRight")
            browser.key("ArrowLeft")
        browser.key("y")
        expected |= {(row["request"], field): verdict for field, verdict in said.items()}
    assert browser.value("document.getElementById('count').textContent") == "row 200 of 200, 200 judged"
    browser.key("s")
    saved = browser.downloads / "intent.review-reviewer.json"
    until = time.monotonic() + 30
    while not saved.is_file() or not saved.stat().st_size:
        assert time.monotonic() < until, "nothing was saved"
        time.sleep(0.1)
    assert browser.console == []
    result = call("review", prompt, "--output", output, "--read", saved, "--json")
    assert result.status == 0, result.err
    assert result.report["taken"] == {"read": 600, "new": 600, "changed": 0}
    stored = rows(output, "SELECT request_hash, field, verdict, expected FROM intent_reviews")
    assert {
        (request, field): (verdict, None if right is None else json.loads(right))
        for request, field, verdict, right in stored
    } == expected
    wrong = {one["field"]: one["found"]["wrong"] for one in result.report["estimate"]["shares"]}
    assert wrong == {None: 80, "label": 40, "urgency": 20, "note": 20}

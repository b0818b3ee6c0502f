"""The pages in a real browser: they render, the menu can be searched, and nothing of a tool runs."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from atc.serve.pages.tool_menu.page import html_of as menu_of

from atc.catalogue.index.index import ToolIndex
from atc.probing.report import Line, Report
from atc.schemas.protocol import Protocol
from atc.serve.pages.probing.page import write_page
from tests.support.browser import Page
from tests.support.graphs import a_tool

pytestmark = pytest.mark.slow

ATTACKS = (
    "</script><script>window.__pwned=1</script>",
    "<img src=x onerror=window.__pwned=1><svg onload=window.__pwned=1>",
    "\"><iframe srcdoc='<script>parent.__pwned=1</script>'></iframe>",
    "<style>*{display:none}</style><link rel=stylesheet href=https://example.org/x.css>",
    "javascript:window.__pwned=1",
    "<!--<script>",
    "{{7*7}}${window.__pwned=1}\u202e\u2028",
)


def unharmed(page: Page) -> None:
    """Nothing ran, nothing was refused by our own policy, nothing was fetched but the page."""
    assert page.run("String(window.__pwned)") == "undefined"
    assert page.messages == []
    assert len(page.requests) == 1


def shades(png: bytes) -> tuple[int, float]:
    """How many colours a picture has, and how light it is, from 0 to 1."""
    image = pytest.importorskip("matplotlib.image")
    pixels = image.imread(BytesIO(png))[:, :, :3]
    return len({tuple(pixel) for pixel in (pixels[::2, ::2].reshape(-1, 3) * 255).astype(int).tolist()}), float(
        pixels.mean()
    )


def test_a_script_that_came_in_would_be_stopped_by_the_policy(page: Page, tmp_path: Path) -> None:
    """The second wall, as if the first had a hole."""
    index = ToolIndex.build([("sky", a_tool("sky"))])
    html = menu_of(index, index.menu(width=6))[0].replace(
        "<main>", "<main><script>window.__pwned=1</script><img src=https://example.org/x>"
    )
    (tmp_path / "holed.html").write_text(html)
    page.messages.clear()
    page.open(tmp_path / "holed.html")
    assert page.run("String(window.__pwned)") == "undefined"
    assert len([message for message in page.messages if "Content Security Policy" in message]) == 2


def test_the_pages_are_light_by_day_and_dark_by_night(page: Page, tmp_path: Path) -> None:
    line = Line(tool="get_lake", state="documented", helpers=("find_lakes",))
    other = Line(tool="find_lakes", state="partial", reason="<b>closed</b>")
    report = Report(
        lines=(line, other),
        protocols=(),
        calls=1,
        response_bytes=2,
        model_calls=0,
        prompt_tokens=0,
        completion_tokens=0,
    )
    write_page(report, tmp_path / "report.html")
    page.messages.clear()
    for dark in (False, True):
        page.open(tmp_path / "report.html", dark=dark)
        page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        colours, light = shades(page.screenshot())
        assert colours > 20
        assert (light < 0.3) if dark else (light > 0.8)
    assert "<b>closed</b>" in page.text("table")
    assert page.messages == []


def a_menu(page: Page, folder: Path, tools: list[tuple[str, Protocol]]) -> None:
    index = ToolIndex.build(tools)
    file = folder / "menu.html"
    file.write_text(menu_of(index, index.menu(width=6))[0], encoding="utf-8")
    page.messages.clear()
    page.requests.clear()
    page.open(file)
    page.wait("document.querySelector('#menu li') !== null")


def test_the_menu_opens_and_is_searched(page: Page, tmp_path: Path) -> None:
    tools = [
        (f"{kind}/{n}", a_tool(f"{kind}{n}", description=f"{kind} of {n}")) for kind in ("sky", "sea") for n in range(9)
    ]
    a_menu(page, tmp_path, tools)
    assert page.run("document.querySelectorAll('#menu .tool').length") == 0
    page.run("document.querySelector('#menu button').click()")
    assert page.run("document.querySelector('#menu button').getAttribute('aria-expanded')") == "true"
    assert page.run("document.querySelectorAll('#menu > li:first-child > ul > li').length") > 1
    page.run("document.querySelector('#menu button').click()")
    assert page.run("document.querySelector('#menu > li > ul').hidden") is True
    page.press("/")
    page.type("sea/7")
    page.wait("document.getElementById('status').textContent === '1 found'")
    page.press("Enter")
    assert page.run("document.querySelector('#menu .chosen code').textContent") == "sea/7"
    page.press("/")
    page.press("Escape")
    assert page.run("document.querySelectorAll('#found li').length") == 0
    unharmed(page)


def test_nothing_that_a_tool_of_a_menu_says_runs(page: Page, tmp_path: Path) -> None:
    a_menu(page, tmp_path, [(f"{n}{attack}", a_tool("t", description=attack)) for n, attack in enumerate(ATTACKS * 2)])
    page.run("for (let n = 0; n < 5; n++) document.querySelectorAll('[aria-expanded=false]').forEach(b => b.click())")
    assert page.run("document.querySelectorAll('#menu .tool').length") == 2 * len(ATTACKS)
    page.press("/")
    page.type("pwned")
    page.wait("document.getElementById('status').textContent.endsWith('found')")
    page.run("document.querySelectorAll('#found button').forEach(button => button.click())")
    assert page.run("document.querySelectorAll('img, iframe, svg').length") == 0
    unharmed(page)

"""The pages in a real browser: they render, and nothing of a tool runs."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from atc.probing.report import Line, Report
from atc.serve.pages.probing.page import write_page
from tests.support.browser import Page

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


def report_of(*lines: Line) -> Report:
    return Report(
        lines=lines,
        protocols=(),
        calls=1,
        response_bytes=2,
        model_calls=0,
        prompt_tokens=0,
        completion_tokens=0,
    )


def test_a_script_that_came_in_would_be_stopped_by_the_policy(page: Page, tmp_path: Path) -> None:
    """The second wall, as if the first had a hole."""
    holed = tmp_path / "holed.html"
    write_page(report_of(Line(tool="sky", state="documented")), holed)
    html = holed.read_text().replace("<h1>", "<script>window.__pwned=1</script><img src=https://example.org/x><h1>")
    assert "__pwned" in html
    holed.write_text(html)
    page.messages.clear()
    page.open(holed)
    assert page.run("String(window.__pwned)") == "undefined"
    assert len([message for message in page.messages if "Content Security Policy" in message]) == 2


def test_the_pages_are_light_by_day_and_dark_by_night(page: Page, tmp_path: Path) -> None:
    line = Line(tool="get_lake", state="documented", helpers=("find_lakes",))
    other = Line(tool="find_lakes", state="partial", reason="<b>closed</b>")
    report = report_of(line, other)
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


def test_nothing_that_a_tool_of_a_report_says_runs(page: Page, tmp_path: Path) -> None:
    lines = [Line(tool=f"{n}{attack}", state="partial", reason=attack) for n, attack in enumerate(ATTACKS * 2)]
    write_page(report_of(*lines), tmp_path / "report.html")
    page.messages.clear()
    page.requests.clear()
    page.open(tmp_path / "report.html")
    assert page.run("document.querySelectorAll('img, iframe').length") == 0
    unharmed(page)

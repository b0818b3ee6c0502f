"""The pages in a real browser: they render, the picture can be searched and filtered, and nothing of a tool runs."""

from __future__ import annotations

import itertools
import json
from io import BytesIO
from pathlib import Path

import pytest

from atc.catalogue.graph.edges import Counts, Evidence, Feed, Learnt, Substitute
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.index.index import ToolIndex
from atc.probing.report import Line, Report
from atc.schemas.protocol import Protocol
from atc.serve.pages.probing.page import write_page
from atc.serve.pages.tool_graph.drawing import drawing_of
from atc.serve.pages.tool_graph.page import html_of, svg_of
from atc.serve.pages.tool_menu.page import html_of as menu_of
from tests.support.browser import Page
from tests.support.graphs import GivenGraph, a_feed, a_tool

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


def a_graph() -> GivenGraph:
    """Three kinds of evidence, two services, a substitute."""
    tools = [
        a_tool("find_cities", "name", description="Find cities by name.", service="maps", id={"type": "integer"}),
        a_tool("get_weather", "city_id", description="The weather of a city.", service="sky", wind={"type": "number"}),
        a_tool("get_forecast", "city_id", description="Tomorrow's weather.", service="sky"),
        a_tool("book_hotel", "city_id", "price", service="hotels"),
        a_tool("tell_a_joke", service="fun"),
    ]
    feeds = [
        a_feed("find_cities", "get_weather", "city_id", "seen", 0.9, 7),
        a_feed("find_cities", "get_forecast", "city_id", "names", 0.5),
        a_feed("find_cities", "book_hotel", "city_id", "predicted", 0.3),
    ]
    twin = Substitute("get_weather", "get_forecast", 0.7, {"city_id": "city_id"}, ("types", "use"))
    return GivenGraph(tools, feeds, [twin], Learnt(calls={"get_weather": Counts(5, 1, 1.8e9)}))


def shown(page: Page, folder: Path, graph: GivenGraph, dark: bool = False) -> None:
    file = folder / "graph.html"
    file.write_text(html_of(drawing_of(graph)), encoding="utf-8")
    page.messages.clear()
    page.requests.clear()
    page.open(file, dark=dark)
    page.wait("document.getElementById('status').textContent !== ''")


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


def test_the_graph_is_searched_and_a_tool_is_chosen_by_keys_alone(page: Page, tmp_path: Path) -> None:
    shown(page, tmp_path, a_graph())
    assert page.text("#status") == "5 tools, 3 edges, 1 substitute"
    page.press("/")
    page.type("weather")
    assert page.text("#status") == "2 tools found"
    assert page.text("#found").split() == ["get_weather", "get_forecast"]
    page.press("Enter")
    details = page.text("#details")
    for text in (
        "get_weather",
        "The weather of a city.",
        "5 calls in answered runs, 1 failed, the last on 2027-01-15",
        "city_id ← find_cities.id seen in runs, 0.90, seen 7 times",
        "get_forecast its types fit, it took its place in runs, 0.70",
        "wind",
    ):
        assert text in details
    page.run("document.querySelector('#details .link').click()")  # on to what feeds it
    assert page.text("#details h2") == "find_cities"
    assert page.run("document.activeElement.textContent") == "find_cities"
    page.press("Escape")
    assert (page.text("#details"), page.text("#status")) == ("", "5 tools, 3 edges, 1 substitute")
    unharmed(page)


def test_the_graph_is_filtered_by_evidence_and_by_service(page: Page, tmp_path: Path) -> None:
    shown(page, tmp_path, a_graph())

    def tick(room: str, text: str) -> None:
        label = f"[...document.querySelectorAll('#{room} label')].find(l => l.textContent.includes({json.dumps(text)}))"
        page.run(f"{label}.click()")

    tick("evidence", "names fit")
    assert page.text("#status") == "5 tools, 2 edges, 1 substitute"
    tick("evidence", "can take its place")
    assert page.text("#status") == "5 tools, 2 edges"
    tick("services", "sky")
    assert page.text("#status") == "3 tools, 1 edge"
    page.press("/")
    page.type("weather")
    assert page.text("#status") == "0 tools found"
    page.press("Escape")
    page.run("document.getElementById('none').click()")
    assert page.text("#status") == "0 tools, 0 edges"
    page.run("document.getElementById('every').click()")
    assert page.text("#status") == "5 tools, 2 edges"
    unharmed(page)


def test_the_mouse_chooses_zooms_and_moves(page: Page, tmp_path: Path) -> None:
    shown(page, tmp_path, a_graph())
    before = page.screenshot()
    boxes = page.run("JSON.parse(document.getElementById('data').textContent).tools.map(t => t.at)")
    size = page.run("JSON.parse(document.getElementById('data').textContent).size")
    room = page.run("[document.getElementById('picture').clientWidth, document.getElementById('picture').clientHeight]")
    scale = min(1.2, room[0] / size[0], room[1] / size[1])
    x, y = ((room[i] - size[i] * scale) / 2 + (boxes[3][i] + 10) * scale for i in (0, 1))
    page.click(x, y)
    assert page.text("#details h2") == "book_hotel"
    page.click(3, 3)
    assert page.text("#details") == ""
    page.send("Input.dispatchMouseEvent", type="mouseWheel", x=200, y=200, deltaX=0, deltaY=-400)
    page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.screenshot() != before
    page.run("document.getElementById('picture').focus()")
    page.press("0")
    page.run("document.activeElement.blur()")
    page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert shades(page.screenshot())[0] > 20
    unharmed(page)


def test_nothing_that_a_tool_says_runs(page: Page, tmp_path: Path) -> None:
    tools, feeds, instead = [], [], []
    for number, attack in enumerate(ATTACKS):
        # a document of somebody's gives a key to a tool that no identifier is
        properties = {attack: {"type": "string", "description": attack}}
        protocol = a_tool("a", "b", description=attack, service=attack, **properties)
        tools.append(
            protocol.model_copy(update={"name": f"t{number}{attack}", "parameters": {"properties": properties}})
        )
    names = [tool.name for tool in tools]
    kinds: tuple[Evidence, ...] = ("seen", "stated", "names", "predicted", "corrected", "names")
    for (one, other), kind, attack in zip(itertools.pairwise(names), kinds, ATTACKS, strict=False):
        feeds.append(Feed(Supplier(one, (attack,)), other, attack, kind, 0.5))
        instead.append(Substitute(one, other, 0.5, {attack: attack}, ("types",)))
    graph = GivenGraph(tools, feeds, instead)
    shown(page, tmp_path, graph)
    assert page.text("#status") == "7 tools, 6 edges, 6 substitutes"
    page.press("/")
    for number in range(len(tools)):
        page.type(f"t{number}")
        page.press("Enter")
        assert page.text("#details h2").startswith(f"t{number}")
        page.press("Escape")
    assert page.run("document.querySelectorAll('img, iframe, link, svg').length") == 0
    unharmed(page)
    (tmp_path / "graph.svg").write_text(svg_of(drawing_of(graph)), encoding="utf-8")
    page.requests.clear()
    page.open(tmp_path / "graph.svg")
    assert page.run("document.querySelectorAll('script, foreignObject, image, a').length") == 0
    unharmed(page)


def test_a_script_that_came_in_would_be_stopped_by_the_policy(page: Page, tmp_path: Path) -> None:
    """The second wall, as if the first had a hole."""
    html = html_of(drawing_of(a_graph())).replace(
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
    for dark in (False, True):
        for number, file in enumerate(("graph.html", "report.html")):
            shown(page, tmp_path, a_graph(), dark) if not number else page.open(tmp_path / file, dark=dark)
            page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            colours, light = shades(page.screenshot())
            assert colours > 20
            assert (light < 0.3) if dark else (light > 0.8)
    assert "<b>closed</b>" in page.text("table")
    assert page.messages == []


def test_a_picture_of_the_most_tools_and_edges_can_be_looked_at(page: Page, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(2000)]
    feeds: dict[str, list[Feed]] = {}
    for number in range(10_000):
        one, other = names[number % 2000], names[(number * 7919 + number // 2000 + 1) % 2000]
        feeds.setdefault(other, []).append(a_feed(one, other))
    tools: list[Protocol] = [a_tool(name, "id", service=f"s{number % 50}") for number, name in enumerate(names)]

    class Large(GivenGraph):
        def feeds(self, consumer: str) -> list[Feed]:
            return feeds.get(consumer, [])

    shown(page, tmp_path, Large(tools))
    assert page.text("#status").startswith("2,000 tools, ")
    page.press("/")
    page.type("t1999")
    assert page.text("#status") == "1 tool found"
    page.press("Enter")
    assert "What feeds it" in page.text("#details")
    unharmed(page)


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

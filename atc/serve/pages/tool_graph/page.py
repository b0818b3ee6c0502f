"""The picture as one page, with zoom, search, filters and details of a tool; and as one SVG for papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.catalogue.graph.edges import Evidence, Feed, Learnt, Substitute
from atc.catalogue.graph.suppliers import fields_of
from atc.schemas.protocol import Protocol, parameters_of
from atc.schemas.validate import types_of
from atc.serve.pages.kit import page_of, render
from atc.serve.pages.tool_graph.drawing import HEIGHT, ORDER, WIDTH, Drawing, Edge, Layout, layout_of
from atc.wording.sketches import WORDS, WORDS_OF_SUBSTITUTES, path_text

_MOST_TEXT, _MOST_FIELDS, _MOST_ARGUMENTS, _MOST_FEEDS = 600, 80, 80, 20
"""Of one tool or edge in the page: characters of a description, and how many lines."""


def html_of(drawing: Drawing) -> str:
    """The page."""
    here = Path(__file__).parent
    return page_of(
        here / "page.html.jinja",
        title="Tool graph",
        styles=[here / "page.css"],
        script=here / "page.js",
        data=data_of(drawing),
        left_out=drawing.left_out,
    )


def data_of(drawing: Drawing) -> dict[str, Any]:
    """What the page's script draws; tools and services stand in edges by their number."""
    layout = layout_of(drawing)
    number = {tool: place for place, tool in enumerate(drawing.tools)}
    services = sorted({_service(drawing.graph.protocols[tool]) for tool in drawing.tools})
    service = {name: place for place, name in enumerate(services)}
    learnt = drawing.graph.learnt
    return {
        "box": [WIDTH, HEIGHT],
        "size": [layout.width, layout.height],
        "services": services,
        "evidence": [[kind, WORDS[kind]] for kind in ORDER],
        "tools": [
            {
                "at": list(layout.places[tool]),
                "service": service[_service(drawing.graph.protocols[tool])],
                **_tool(tool, drawing.graph.protocols[tool], learnt),
            }
            for tool in drawing.tools
        ],
        "edges": [_edge(edge, number) for edge in drawing.edges],
        "substitutes": [_substitute(each, number) for each in drawing.substitutes],
        "around": [number[tool] for tool in drawing.around if tool in number],
    }


def _service(protocol: Protocol) -> str:
    return protocol.source.service or "no service"


def _tool(key: str, protocol: Protocol, learnt: Learnt) -> dict[str, Any]:
    parameters = parameters_of(protocol)
    fields = list(dict.fromkeys(path_text(path) for path in fields_of(protocol.returns or learnt.shapes.get(key))))
    description, calls = protocol.description, learnt.calls.get(key)
    return {
        "name": key,
        "effect": protocol.effect.value,
        "text": description if len(description) <= _MOST_TEXT else f"{description[:_MOST_TEXT]}…",
        "arguments": [
            [each.original, " or ".join(sorted(types_of(each.schema))), each.required]
            for each in parameters[:_MOST_ARGUMENTS]
        ],
        "fields": fields[:_MOST_FIELDS],
        "more": [max(0, len(parameters) - _MOST_ARGUMENTS), max(0, len(fields) - _MOST_FIELDS)],
        "calls": [calls.ok, calls.failed, calls.last] if calls else None,
    }


def _edge(edge: Edge, number: Mapping[str, int]) -> list[Any]:
    feeds = [_feed(feed) for feed in edge.feeds[:_MOST_FEEDS]]
    return [number[edge.supplier], number[edge.consumer], ORDER.index(edge.evidence), len(edge.feeds), feeds]


def _feed(feed: Feed) -> list[Any]:
    kind = ORDER.index(feed.evidence)
    return [path_text(feed.supplier.path), feed.parameter, kind, round(feed.weight, 3), round(feed.seen, 1)]


def _substitute(each: Substitute, number: Mapping[str, int]) -> list[Any]:
    why = [WORDS_OF_SUBSTITUTES[kind] for kind in each.why]
    pairs = [list(pair) for pair in list(each.arguments.items())[:_MOST_FEEDS]]
    return [number[each.tool], number[each.by], round(each.weight, 3), why, pairs]


_COLOURS: dict[Evidence, str] = {
    "corrected": "#b04a8f",
    "seen": "#00815c",
    "stated": "#0072b2",
    "names": "#7c8590",
    "predicted": "#d08700",
}
_SUBSTITUTE, _OTHER = "#c8500a", len(ORDER)
_LETTERS = 25
"""Characters of a name that surely fit in a box; the whole name is its title."""
_LINE, _LEGEND = 20, 190


@dataclass(frozen=True)
class Line:
    """One edge: its path, and how it looks. ``head``: the number of its arrow's head."""

    path: str
    colour: str
    width: float
    opacity: float
    head: int
    dashed: bool = False


@dataclass(frozen=True)
class Box:
    """One tool, at its left upper corner."""

    name: str
    label: str
    x: float
    y: float


@dataclass(frozen=True)
class Item:
    """One line of the legend or a note."""

    text: str
    x: float
    y: float
    colour: str = ""
    dashed: bool = False


def svg_of(drawing: Drawing) -> str:
    """The drawing as an SVG document: nothing moves, no script, no style sheet, and fonts that every reader has."""
    layout = layout_of(drawing)
    kinds = [kind for kind in ORDER if any(edge.evidence == kind for edge in drawing.edges)]
    items = [(WORDS[kind], _COLOURS[kind], False) for kind in kinds]
    items += [("can take its place", _SUBSTITUTE, True)] if drawing.substitutes else []
    across = max(1, int((layout.width - 20) // _LEGEND))
    legend = [
        Item(text, 20 + number % across * _LEGEND, layout.height + 14 + number // across * _LINE, colour, dashed)
        for number, (text, colour, dashed) in enumerate(items)
    ]
    bottom = max((item.y for item in legend), default=layout.height) + _LINE
    notes = [Item(text, 20, bottom + 6 + number * _LINE) for number, text in enumerate(drawing.left_out)]
    return render(
        Path(__file__).parent / "picture.svg.jinja",
        width=max(layout.width, 2 * _LEGEND),
        height=bottom + 6 + len(notes) * _LINE,
        heads=[*(_COLOURS[kind] for kind in ORDER), _SUBSTITUTE],
        lines=list(_lines(drawing, layout)),
        boxes=[Box(tool, _cut(tool), *layout.places[tool]) for tool in drawing.tools],
        box_width=WIDTH,
        box_height=HEIGHT,
        legend=legend,
        notes=notes,
    )


def _lines(drawing: Drawing, layout: Layout) -> Iterator[Line]:
    """The least sure first: the surest lie on top."""
    for edge in reversed(drawing.edges):
        onward = layout.places[edge.supplier][0] < layout.places[edge.consumer][0]
        opacity = (0.7 if edge.evidence == "names" else 0.9) * (1 if onward else 0.45)
        path = _curve(layout, edge.supplier, edge.consumer)
        yield Line(path, _COLOURS[edge.evidence], 1.2, round(opacity, 2), ORDER.index(edge.evidence))
    for each in drawing.substitutes:
        yield Line(_curve(layout, each.tool, each.by), _SUBSTITUTE, 1.4, 0.9, _OTHER, dashed=True)


def _curve(layout: Layout, start: str, end: str) -> str:
    x1, y1 = layout.places[start][0] + WIDTH, layout.places[start][1] + HEIGHT / 2
    x2, y2 = layout.places[end][0], layout.places[end][1] + HEIGHT / 2
    bend = max(30.0, (x2 - x1) / 2) if x2 > x1 else 70.0
    return f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"


def _cut(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"

"""The picture as one SVG for papers: nothing moves, no script, no style sheet, and fonts that every reader has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atc.graph.edges import Evidence
from atc.pages.kit import render
from atc.pages.tool_graph.drawing import ORDER, Drawing
from atc.pages.tool_graph.layout import HEIGHT, WIDTH, Layout, layout_of
from atc.wording.sketches import WORDS

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
    """The drawing as an SVG document."""
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

"""What probing came to as one page that needs nothing else: a line for each tool, and which tools needed another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from atc.probing.report import Line, Report
from atc.serve.pages.kit import page_of

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 170, 26, 70, 12


@dataclass(frozen=True)
class Box:
    """One tool in the drawing; pixels."""

    line: Line
    x: int
    y: int


@dataclass(frozen=True)
class Arrow:
    """From a tool to one that needs what it returns."""

    x1: int
    y1: int
    x2: int
    y2: int


def write_page(report: Report, file: Path) -> None:
    """Write the page.

    Raises:
        OSError: it cannot be written.
    """
    boxes, arrows = drawing(report)
    here = Path(__file__).parent
    page = page_of(
        here / "page.html.jinja",
        title="Probing",
        styles=[here / "page.css"],
        report=report,
        boxes=boxes,
        arrows=arrows,
        box_width=_WIDTH,
        box_height=_HEIGHT,
        width=max((box.x for box in boxes), default=0) + _WIDTH + 10,
        height=max((box.y for box in boxes), default=0) + _HEIGHT + 10,
    )
    file.write_text(page, encoding="utf-8")


def drawing(report: Report) -> tuple[list[Box], list[Arrow]]:
    """Columns by how many tools must be called before; only tools that need another or are needed."""
    helpers_of = {line.tool: list(line.helpers) for line in report.lines}
    needed = {name for helpers in helpers_of.values() for name in helpers}
    shown = [line for line in report.lines if line.helpers or line.tool in needed]
    depths: dict[str, int] = {}
    for line in shown:
        _depth(line.tool, helpers_of, depths, ())
    rows: dict[int, int] = {}
    boxes = {}
    for line in shown:
        column = depths[line.tool]
        row = rows.get(column, 0)
        rows[column] = row + 1
        boxes[line.tool] = Box(line, 5 + column * (_WIDTH + _GAP_X), 5 + row * (_HEIGHT + _GAP_Y))
    arrows = [
        Arrow(boxes[name].x + _WIDTH, boxes[name].y + _HEIGHT // 2, box.x, box.y + _HEIGHT // 2)
        for box in boxes.values()
        for name in box.line.helpers
        if name in boxes
    ]
    return list(boxes.values()), arrows


def _depth(name: str, helpers_of: dict[str, list[str]], known: dict[str, int], above: tuple[str, ...]) -> int:
    if name in above:
        return 0  # two that need each other
    if name not in known:
        below = [_depth(helper, helpers_of, known, (*above, name)) for helper in helpers_of.get(name, ())]
        known[name] = 1 + max(below) if below else 0
    return known[name]

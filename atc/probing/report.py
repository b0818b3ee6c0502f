"""What probing came to: a line for each tool, and what it cost; as data, and as one page that needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from atc.catalogue.graph.suppliers import fields_of
from atc.models.budget import Budget as ModelBudget
from atc.probing.call_policy import Meter
from atc.probing.document import protocol_of
from atc.probing.record import Record, State
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Line(_Frozen):
    """One tool.

    Attributes:
        reason: why it is not documented, with the last evidence.
        round: in which it was documented; 0 if it was not.
        calls: that reached the tool; ``tries``: programs that were written for it.
        arguments, fields: how many are known.
        helpers: the tools that its arguments came from.
    """

    tool: str
    state: State
    reason: str = ""
    round: int = 0
    tries: int = 0
    calls: int = 0
    arguments: int = 0
    fields: int = 0
    helpers: tuple[str, ...] = ()


class Report(_Frozen):
    """All tools, and what they cost.

    Attributes:
        lines: in the order of the toolset.
        protocols: the documents of those that are documented.
        calls: that reached a tool. ``model_calls``, ``prompt_tokens``, ``completion_tokens``: of the model.
    """

    lines: tuple[Line, ...]
    protocols: tuple[Protocol, ...]
    calls: int
    response_bytes: int
    model_calls: int
    prompt_tokens: int
    completion_tokens: int

    def count(self, *states: State) -> int:
        """Tools in these states."""
        return sum(line.state in states for line in self.lines)

    @property
    def complete(self) -> bool:
        """Whether every tool that may be called is documented."""
        return not self.count("waiting", "partial", "undocumented")

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON, without the protocols."""
        return self.model_dump(mode="json", exclude={"protocols"})


def report_of(tools: Toolset, records: dict[str, Record], meter: Meter, spent: ModelBudget) -> Report:
    """The report of a probing as it stands."""
    lines, protocols = [], []
    for name, tool in tools.items():
        record = records[name]
        known = protocol_of(tool.protocol, record)
        if record.state == "documented":
            protocols.append(known)
        lines.append(
            Line(
                tool=name,
                state=record.state,
                reason=record.reason,
                round=record.round,
                tries=record.tries,
                calls=meter.calls.get(name, 0),
                arguments=len(known.parameters.get("properties", {})),
                fields=len(set(fields_of(known.returns))),
                helpers=record.helpers,
            )
        )
    return Report(
        lines=tuple(lines),
        protocols=tuple(protocols),
        calls=meter.total,
        response_bytes=meter.bytes,
        model_calls=spent.calls_used,
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
    )


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
    from atc.serve.pages.kit import page_of  # its template engine is loaded for a page alone

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

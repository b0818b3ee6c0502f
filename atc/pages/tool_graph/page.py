"""The picture as one page: zoom, pan, search, filters by service and evidence, details of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atc.graph.edges import Feed, Learnt, Substitute
from atc.graph.suppliers import fields_of
from atc.pages.kit import page_of
from atc.pages.tool_graph.drawing import ORDER, Drawing, Edge
from atc.pages.tool_graph.layout import HEIGHT, WIDTH, layout_of
from atc.schemas.validate import types_of
from atc.tools.protocol import Protocol, parameters_of
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

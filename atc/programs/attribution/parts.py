"""Responses that say themselves that they hold a part of a list, and programs that take such a part for the whole.

A response is believed as it says it: by a total that is larger than its list, or by naming a next page. A program takes
the part for the whole where it counts, ranks or walks the list. One that takes a position of it, or the item that is
equal to what it looks for, found what it wanted, whatever stands in the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from atc.calls.canonical import canonical
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.values import ITEM, Origin, Step
from atc.programs.attribution.responses import places
from atc.programs.program import Program
from atc.programs.syntax import span_of
from atc.result import Call, Effect
from atc.tools.paged import NoList, read_page
from atc.tools.paging import SIZE, Paging, flat, is_positional, paging_of
from atc.tools.protocol import Protocol

_UNTOLD = Paging("link", items=None)
"""How a tool is paged of which its documents say nothing."""


class Part(NamedTuple):
    """A call whose response says that it is not all.

    Attributes:
        path: the way to the list in it.
        shown: the items of the list.
        total: how many there are in all; ``None`` where it only says that there are more.
    """

    call: Call
    path: tuple[str, ...]
    shown: int
    total: int | None


def stated_parts(calls: Sequence[Call], protocols: Mapping[str, Protocol]) -> list[Part]:
    """The calls of a program that read a part of a list, and no other page of it; one of those on a line.

    Args:
        calls: of the program.
        protocols: the tools by name.
    """
    pages: dict[tuple[str, str], set[str]] = {}
    found: dict[tuple[tuple[str, str], int], Part] = {}
    for call in calls:
        if not call.succeeded or call.effect is not Effect.READ or call.page or call.tool not in protocols:
            continue
        asked = {name: value for name, value in call.arguments.items() if not is_positional(name)}
        key = call.tool, canonical(asked)
        pages.setdefault(key, set()).add(canonical(call.arguments))
        if (part := _part(call, protocols[call.tool])) is not None:
            found.setdefault((key, call.line), part)
    return [part for (key, _), part in found.items() if len(pages[key]) == 1]


def _part(call: Call, protocol: Protocol) -> Part | None:
    if call.error is not None or not isinstance(call.value, dict):
        return None
    paging = paging_of(protocol)
    try:
        page = read_page(paging or _UNTOLD, call.tool, call.value)
    except NoList:
        return None
    shown = len(page.items)
    counts = paging is not None or _takes_size(protocol)  # else a total may be the price of all that was ordered
    total = page.total if counts and page.total is not None and page.total >= shown else None
    if not shown or page.more is False or total == shown:
        return None
    behind = page.pages is not None and page.current is not None and page.pages > page.current > 0
    if total is None and not (page.more or page.next is not None or (counts and behind)):
        return None
    return Part(call, page.path, shown, total)


def _takes_size(protocol: Protocol) -> bool:
    return any(flat(name) in SIZE for name in protocol.parameters.get("properties", {}))


class Uses:
    """What a program does with the lists in its responses.

    Args:
        program: one that parses.
        flow: its analysis.
    """

    def __init__(self, program: Program, flow: Flow) -> None:
        self._flow = flow
        self._parents = {id(child): node for node in program.nodes for child in ast.iter_child_nodes(node)}
        self._nodes = [node for node in program.nodes if isinstance(node, ast.expr)]

    def takes_for_whole(self, part: Part) -> bool:
        """Whether the program uses the list of a response as a whole, as far as its uses are known."""
        if not self._flow.complete:
            return True
        return any(not self._picks(node, part) for node in self._nodes if self._is_list(node, part))

    def _is_list(self, node: ast.expr, part: Part) -> bool:
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            return False
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return False  # what it is sliced from is looked at
        origins = self._flow.at(span_of(node)).origins
        return any(origin.path == part.path and self._is_of(origin, part.call) for origin in origins)

    def _is_of(self, origin: Origin, call: Call) -> bool:
        """Whether a value comes from a call, by the lines of both."""
        ends = [span[1] for span in self._flow.calls if span[0] == origin.line]
        return origin.tool == call.tool and origin.line <= call.line <= max(ends, default=origin.line)

    def _picks(self, node: ast.expr, part: Part) -> bool:
        """Whether what is done with the list needs nothing of the rest: it is named, tested, or one item is taken."""
        parent = self._parents.get(id(node))
        match parent:
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.IfExp() | ast.BoolOp() | ast.If():
                return True
            case ast.UnaryOp(op=ast.Not()):
                return True
            case ast.Subscript(slice=ast.Constant()):
                return True
            case ast.Subscript(slice=ast.Slice(upper=ast.Constant(value=int(end)))):
                return 0 <= end <= part.shown
            case ast.comprehension(ifs=tests):
                return self._is_found(parent, tests, part)
            case ast.For(body=[ast.If(test=test, body=[*_, ast.Break()])]):
                return self._has_item(test, part)
        return False

    def _is_found(self, comprehension: ast.comprehension, tests: Sequence[ast.expr], part: Part) -> bool:
        """Whether a comprehension takes the first item that is equal to something: ``next(…)``, ``[…][0]``."""
        made = self._parents.get(id(comprehension))
        match self._parents.get(id(made)):
            case ast.Call(func=ast.Name(id="next"), args=[_]) | ast.Subscript(slice=ast.Constant()):
                return any(self._equal(test, part) for test in tests)
            case ast.Call(func=ast.Name(id="next"), args=[_, _]):
                return len(tests) == 1 and self._has_item(tests[0], part)
        return False

    def _has_item(self, test: ast.expr, part: Part) -> bool:
        """Whether a test is that a field is equal to a literal, and some item of the response is so."""
        if not isinstance(test, ast.Compare):
            return False
        wanted = [(path, other.value) for path, other in self._equal(test, part) if isinstance(other, ast.Constant)]
        return any(value == literal for path, literal in wanted for _, value in places(part.call.value, path))

    def _equal(self, test: ast.expr, part: Part) -> list[tuple[tuple[Step, ...], ast.expr]]:
        """What items are held equal to by a test: the way to the field, and the other side."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return [each for operand in test.values for each in self._equal(operand, part)]
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq) or len(test.ops) > 1:
            return []
        sides, item = (test.left, test.comparators[0]), (*part.path, ITEM)
        return [
            (origin.path, other)
            for field, other in (sides, sides[::-1])
            for origin in self._flow.at(span_of(field)).origins
            if origin.path[: len(item)] == item and self._is_of(origin, part.call)
        ]

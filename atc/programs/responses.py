"""Inspect responses: what stands at a place of one, and whether it is anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from atc._host.syntax import child_nodes
from atc._records.records import Answered, Drift, FaultCase, Invocation, Observed, trimmed
from atc.calls.entry import CallEntry
from atc.calls.json_values import canonical, holds_nothing, is_empty
from atc.facts import Finding
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.values import ITEM, MEMBER, Origin, Step
from atc.programs.program import Program
from atc.programs.syntax import span_of
from atc.result import Call, Effect
from atc.schemas.identifiers import THINGS, is_identifier, words_of
from atc.schemas.protocol import Protocol
from atc.tools.paging import SIZE, Paging, flat, is_positional, paging_of

MISSING = object()
MAX_BRANCHES = 200
Place = tuple[tuple[str | int, ...], Any]
"""A path into a response, with what stands there."""

_IDENTITIES = THINGS | {"name", "title"}
"""Last words of the fields that tell one thing from another."""
_TOTALS = frozenset({"total", "count", "found", "matches"})


def places(value: Any, path: Sequence[str | int], *, exact: bool = False) -> Iterator[Place]:
    """Yield the concrete places that a path means in a recorded response, with what stands there.

    In an abstract path 0 and 1 stand for any item or member; in an ``exact`` one integers are list positions. A path
    that cannot be followed ends with the step that is not there, and :data:`MISSING`.
    """
    found: list[Place] = [((), value)]
    for step in path:
        found = [place for at, here in found[:MAX_BRANCHES] for place in _step(at, here, step, exact)]
    yield from found[:MAX_BRANCHES]


def _step(at: tuple[str | int, ...], here: Any, step: str | int, exact: bool) -> Iterator[Place]:
    if here is MISSING:
        yield at, MISSING
    elif not exact and not isinstance(step, str) and isinstance(here, list):
        yield from (((*at, i), item) for i, item in enumerate(here))
        if not here:
            yield (*at, 0), MISSING
    elif not exact and step == MEMBER and isinstance(here, dict):
        yield from (((*at, key), item) for key, item in here.items())
    elif not exact and step == ITEM and isinstance(here, dict):
        yield from (((*at, f"key {key!r}"), key) for key in here)  # a loop over an object sees its keys
    else:
        try:
            yield (*at, step), here[step]
        except (KeyError, IndexError, TypeError):
            yield (*at, step), MISSING


def observed(value: Any) -> Observed:
    """Say in brief what a value of a response is, or that nothing is there (:data:`MISSING`)."""
    return Observed(type="missing") if value is MISSING else Observed.of(value)


def invocation(call: Call | CallEntry) -> Invocation:
    """Return a call by its tool and arguments, these cut."""
    return Invocation(tool=call.tool, arguments={name: trimmed(value) for name, value in call.arguments.items()})


def answered(call: Call) -> Answered:
    """Return a call and what it was answered, cut."""
    return Answered(invocation=invocation(call), value=trimmed(call.value), nothing=is_empty_response(call))


def is_nothing(value: Any) -> bool:
    """Say whether a value is null or empty; 0 and False are neither."""
    return value is MISSING or is_empty(value)


def is_empty_response(call: Call) -> bool:
    """Say whether the response is empty: null, ``{}``, or an object whose lists are all empty.

    A write is never empty: it has done something. An object with an identity that the call did not give is a thing
    whose lists happen to be empty. An empty page behind others only shows where they end.
    """
    return call.effect is not Effect.WRITE and call.page <= 1 and _holds_nothing(call)


def names_error(program: Program, call: Call) -> bool:
    """Say whether a program names the field in which a response states an error (RETO §3.4): it looks at it, then."""
    if call.body_error is None or program.tree is None:
        return False
    return any(node.value == call.body_error.key for node in program.nodes if isinstance(node, ast.Constant))


def is_page_after_last(call: Call) -> bool:
    """Say whether a call read an empty page behind the last one."""
    return call.page > 1 and call.succeeded and _holds_nothing(call)


def pages_of(call: Call, calls: Sequence[Call]) -> Sequence[Call]:
    """Return the calls of the ``all_pages`` that made a call, in order; a call by itself is returned alone."""
    if not call.page:
        return [call]
    pages: list[Call] = []
    for each in calls:
        if (each.tool, each.line) == (call.tool, call.line) and each.page and each.succeeded:
            if each.page == 1:
                if pages and each.index > call.index:
                    break
                pages = []
            pages.append(each)
    return pages if any(each.index == call.index for each in pages) else [call]


def _holds_nothing(call: Call) -> bool:
    if call.error is not None:
        return False  # there is a response, which cannot be had
    response = call.value
    identified = isinstance(response, dict) and _identified(response, call.arguments)
    return is_empty(response) or (holds_nothing(response) and not identified)


def _identified(response: dict[str, Any], given: dict[str, Any]) -> bool:
    known = {str(value) for value in given.values()}
    return any(
        is_identifier(name, _IDENTITIES) and value and isinstance(value, str | int) and str(value) not in known
        for name, value in response.items()
    )


def is_first_part(call: Call) -> bool:
    """Say whether a call answered with the first part of a longer list: what is not in it may be in the rest.

    Such a response has one list at its top and beside it a number with a telling name that is larger.
    """
    response = call.value
    lists = [item for item in response.values() if isinstance(item, list)] if isinstance(response, dict) else []
    if len(lists) != 1 or not lists[0] or call.page:
        return False
    totals = [total for name, total in response.items() if not _TOTALS.isdisjoint(words_of(name))]
    return any(isinstance(n, int) and not isinstance(n, bool) and n > len(lists[0]) for n in totals)


def drift(call: Call, path: Sequence[str | int]) -> Drift | None:
    """Return where a response is not what its schema says, at a place or around it."""
    wanted = [step for step in path if isinstance(step, str)]
    for found in call.drift:
        steps = [step for step in found.path if isinstance(step, str)]
        if steps == wanted[: len(steps)] or wanted == steps[: len(wanted)]:
            return found
    return None


def has_other_value(finding: Finding, call: Call) -> bool:
    """Say whether a response has a value that is none of the choices which a finding names for its place."""
    if finding.place is None or call.tool != finding.place.tool or not call.succeeded:
        return False
    path = [ITEM if step is None else step for step in finding.place.path]
    values = (value for _, value in places(call.value, path))
    return any(value is not MISSING and value is not None and str(value) not in finding.known for value in values)


# ----------------------------------------------------------------------------------------------------------------------
# Whether a call failed for its arguments, or as a tool: what repairs, recombination and the memory decide by.


_REFUSED_WORDS = {"invalid_arguments", "not_found", "invalid", "bad_request", "unknown_id", "conflict"}
_REFUSED_CODES = {400, 404, 409, 410, 422}


def failure_case(call: Call) -> FaultCase:
    """Return the case of a fault by a call that has no response: it was refused before it was sent, or its tool failed,
    whatever the tool said: of a 404, too, its record has ``failed``."""
    match call.error_status:
        case "invalid_arguments":
            return FaultCase.INVALID_ARGUMENTS
        case "too_many_calls":
            return FaultCase.NOT_CALLED
    return FaultCase.REFUSED if call.status == "refused" else FaultCase.FAILED


def blames_arguments(call: Call) -> bool:
    """Say whether a call was refused or failed for its arguments, so that others may help."""
    status = call.error_status
    return call.status == "refused" or status in _REFUSED_CODES or status in _REFUSED_WORDS


# ----------------------------------------------------------------------------------------------------------------------
# Responses that say themselves that they hold a part of a list, and programs that take such a part for the whole.
#
# A response is believed as it says it: by a total that is larger than its list, or by naming a next page. It is a part,
# too, where a repair lowered the number of items that the program asked for, and so many came. A program takes the part
# for the whole where it counts, ranks or walks the list. One that takes a position of it, or the item that is equal to
# what it looks for, found what it wanted, whatever stands in the rest.


_UNTOLD = Paging("link", items=None)
"""The paging of a tool whose documents say nothing of it."""


class Part(NamedTuple):
    """Names a call whose response says that it is not all.

    Attributes:
        path: the way to the list in it.
        shown: the items of the list.
        total: how many there are in all; ``None`` where it only says that there are more.
        asked: the program asked for just so many, and could have asked for more.
    """

    call: Call
    path: tuple[str, ...]
    shown: int
    total: int | None
    asked: bool = False


def stated_parts(calls: Sequence[Call], protocols: Mapping[str, Protocol]) -> list[Part]:
    """Return the calls of a program that read a part of a list, and no other page of it; one of those on a line.

    Args:
        calls: of the program.
        protocols: the tools by name.
    """
    reads = [
        call
        for call in calls
        if call.succeeded and call.effect is Effect.READ and not call.page and call.tool in protocols
    ]
    parts = {call.index: part for call in reads if (part := _part(call, protocols[call.tool])) is not None}
    listing = {part.call.tool for part in parts.values()}
    pages: dict[tuple[str, str], set[str]] = {}
    found: dict[tuple[tuple[str, str], int], Part] = {}
    for call in reads:
        if call.tool not in listing:
            continue
        asked = {name: value for name, value in call.arguments.items() if not is_positional(name)}
        key = call.tool, canonical(asked)
        pages.setdefault(key, set()).add(canonical(call.arguments))
        if call.index in parts:
            found.setdefault((key, call.line), parts[call.index])
    return [part for (key, _), part in found.items() if len(pages[key]) == 1]


def _part(call: Call, protocol: Protocol) -> Part | None:
    if call.error is not None or not isinstance(call.value, dict | list):
        return None
    from atc.tools.paged import NoList, read_page

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
    asked = _size(call.arguments if call.original is None else call.original)
    sent = _size(call.arguments)
    lowered = asked is not None and sent is not None and sent < asked and sent <= shown
    if total is None and not (page.more or page.next is not None or (counts and behind) or lowered):
        return None
    few = asked is not None and asked <= shown and asked not in _most(protocol)
    return Part(call, page.path, shown, total, few)


def _size(arguments: Mapping[str, Any]) -> int | None:
    sizes = (value for name, value in arguments.items() if flat(name) in SIZE)
    return next((value for value in sizes if type(value) is int), None)


def _most(protocol: Protocol) -> list[Any]:
    known = protocol.parameters.get("properties", {})
    return [schema.get("maximum") for name, schema in known.items() if flat(name) in SIZE and isinstance(schema, dict)]


def _takes_size(protocol: Protocol) -> bool:
    return any(flat(name) in SIZE for name in protocol.parameters.get("properties", {}))


class Uses:
    """Follows what a program does with the lists in its responses.

    Args:
        program: one that parses.
        flow: its analysis.
    """

    def __init__(self, program: Program, flow: Flow) -> None:
        self._flow = flow
        self._parents = {id(child): node for node in program.nodes for child in child_nodes(node)}
        self._nodes = [node for node in program.nodes if isinstance(node, ast.expr)]

    def takes_for_whole(self, part: Part) -> bool:
        """Say whether the program uses the list of a response as a whole, as far as its uses are known."""
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
        ends = [span[1] for span in self._flow.calls if span[0] == origin.line]
        return origin.tool == call.tool and origin.line <= call.line <= max(ends, default=origin.line)

    def _picks(self, node: ast.expr, part: Part) -> bool:
        """Say whether a use of the list needs nothing of the rest: it is named, tested, or one item is taken."""
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
        made = self._parents.get(id(comprehension))
        match self._parents.get(id(made)):
            case ast.Call(func=ast.Name(id="next"), args=[_]) | ast.Subscript(slice=ast.Constant()):
                return any(self._equal(test, part) for test in tests)
            case ast.Call(func=ast.Name(id="next"), args=[_, _]):
                return len(tests) == 1 and self._has_item(tests[0], part)
        return False

    def _has_item(self, test: ast.expr, part: Part) -> bool:
        if not isinstance(test, ast.Compare):
            return False
        wanted = [(path, other.value) for path, other in self._equal(test, part) if isinstance(other, ast.Constant)]
        return any(value == literal for path, literal in wanted for _, value in places(part.call.value, path))

    def _equal(self, test: ast.expr, part: Part) -> list[tuple[tuple[Step, ...], ast.expr]]:
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

"""What ``all_pages(tool, …)`` does with values, for the abstract interpreter, and what can be wrong with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from atc.facts import Finding
from atc.programs.analysis.interpreter import Interpreter
from atc.programs.analysis.values import ITEM, MEMBER, NOTHING, UNKNOWN, Arguments, Cell, Origin, Value, join
from atc.programs.syntax import span_of


def all_pages(flow: Interpreter, node: ast.Call, arguments: Arguments) -> Value:
    """``all_pages(tool, a=1)``: calls of the tool, and a list of what stands on its pages."""
    tools = [function for function in arguments.at(0).functions if function.tool]
    named = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    if isinstance(named, str) and named in flow.tools:
        tools = [flow.tool_functions[named]]
    if not tools:
        flow.without_tool.append(node)
        return flow.cell(node, Cell(items=UNKNOWN))
    called = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
    rest = Arguments(arguments.positional[1:], arguments.named, arguments.rest, arguments.spread)
    whole = join(*(flow.call(called, tool, rest, direct=True, paged=True) for tool in tools))
    return flow.cell(node, Cell(items=join(*(_on_page(flow, origin) for origin in whole.origins))))


def _on_page(flow: Interpreter, response: Origin) -> Value:
    """An item of a page, by the response that it is a part of."""
    paging = flow.paging(response.tool)
    if paging is None or paging.items is None:
        return Value(frozenset([response._replace(path=(MEMBER,))]), open=True)
    return Value(frozenset([response._replace(path=(*paging.items, ITEM))]))


def not_paged(flow: Interpreter) -> Iterator[Finding]:
    """Calls of ``all_pages`` with something that is no tool (``all_pages(list_things())``), or is not paged."""
    for call in flow.calls.values():
        if call.paged and flow.paging(call.tool) is None:
            yield Finding(kind="not_paged", line=call.node.lineno, tool=call.tool)
    for node in flow.without_tool:
        given = flow.at(span_of(node.args[0])) if node.args else NOTHING
        if not given.open:  # else nobody knows what it is before it runs
            tool = next((origin.tool for origin in sorted(given.origins, key=str)), None)
            yield Finding(kind="not_paged", case="no_tool", line=node.lineno, tool=tool)

"""The tools that programs can call: one of which that is not so must not stop the others."""

from __future__ import annotations

from atc.calls.sending import check_schemas
from atc.errors import AtcError, UsageError
from atc.faces.mcp_server.texts import one_line
from atc.tools.names import RESERVED_NAMES
from atc.tools.tool import Toolset


def usable_tools(tools: Toolset, few: int) -> tuple[Toolset, list[str]]:
    """Those of some tools that programs can call, and for each that is left out a line of why.

    Args:
        tools: all of them.
        few: so many at most have their schemas checked at once; of more, each is checked when a program names it.
    """
    usable, notices = [], []
    for tool in tools.values():
        try:
            if tool.name in RESERVED_NAMES:
                raise UsageError(f"{tool.name!r} means something else in a program")
            if len(tools) <= few:
                check_schemas(Toolset([tool]))
        except AtcError as error:
            notices.append(one_line(f"the tool {tool.name} is left out: {error}", 300))
        else:
            usable.append(tool)
    return (tools if len(usable) == len(tools) else Toolset(usable)), notices

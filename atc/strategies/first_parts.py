"""Remarks on lists that were read in part: a response says that there are more, and the program took it for the whole.

A program that wanted just these items is right, so the run stays answered.
"""

from __future__ import annotations

import asyncio

from atc.facts import Fault, Observed, Place
from atc.programs.attribution.parts import Part, Uses, stated_parts
from atc.programs.attribution.responses import invocation
from atc.programs.program import Program
from atc.strategies.context import RunContext

MAX_PARTS = 3
"""Parts of lists that a result names, the first ones."""


async def first_parts(context: RunContext) -> tuple[Fault, ...]:
    """The remarks on the program that answered; it is followed in a thread, where a response says that it is a part."""
    protocols = {protocol.name: protocol for protocol in context.tools.protocols}
    stated = stated_parts([call for call in context.last_calls if call.line], protocols)
    if not stated or not context.revisions:
        return ()
    program = Program(context.revisions[-1].program)

    def taken() -> list[Part]:
        if program.tree is None:
            return []
        uses = Uses(program, program.flow(protocols))
        return [part for part in stated if uses.takes_for_whole(part)]

    return tuple(_remark(part, program) for part in (await asyncio.to_thread(taken))[:MAX_PARTS])


def _remark(part: Part, program: Program) -> Fault:
    call = part.call
    return Fault(
        kind="response",
        case="first_part",
        tool=call.tool,
        call=call.index,
        line=call.line,
        source_line=program.line(call.line)[:300],
        invocation=invocation(call),
        place=Place(tool=call.tool, path=part.path),
        observed=Observed(type="list", length=part.shown),
        value=part.total,
    )

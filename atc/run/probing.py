"""Probing in a run (the setting ``probe``): what tools answer is known before the first program is written.

The calls are no program's: they stand in the trace and the result by themselves, the journal does not have them, and a
run that goes on does not make them again. What stays is a shape, which the catalogue keeps for every later run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atc._records.events import ToolProbed
from atc._records.records import ProbedRead
from atc.probing.reads import IN_RUN, probe_reads

if TYPE_CHECKING:
    from atc.run.run import Run


async def probe_offered(run: Run) -> None:
    """Call the tools that are offered, as :func:`atc.probing.reads.probe_reads` does, and show what was learnt.

    Raises:
        UsageError: the run learns nothing.
    """

    def heard(read: ProbedRead) -> None:
        run.probed.append(read)
        data: ToolProbed = {
            "tool": read.tool,
            "arguments": read.arguments,
            "status": read.status,
            "learnt": read.learnt,
            "seconds": read.seconds,
        }
        run.emit("tool_probed", data)

    broker = run.broker
    await probe_reads(
        run.catalogue,
        run.settings,
        broker.approval,
        broker.redactor,
        among=[name for name, tool in run.tools.items() if tool.kept is None],
        task=run.task,
        limits=IN_RUN,
        opened=True,
        heard=heard,
    )
    if any(read.learnt for read in run.probed):
        run.see(await run.catalogue.current_graph())

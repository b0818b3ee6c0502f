"""Re-probing: the programs that documented a tool run again, and their answers are held against the document."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from atc.calls.redact import MASK, MASKED
from atc.probing.drift import Change, compare
from atc.probing.record import Record
from atc.probing.runner import Runner
from atc.schemas.infer.shape import Shape

_MASKS = (MASK, MASKED)
BREAKING = frozenset({"gone", "type_changed", "now_dictionary", "now_required"})
"""Kinds of changes by which programs fail that were written before."""
AGAIN = 3
"""Instances of a tool that are run again."""


class Drift(BaseModel):
    """One documented tool, looked at again.

    Attributes:
        changes: of its response, field by field.
        problem: why it could not be looked at; empty if it was.
        answered: calls that it answered now.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    tool: str
    changes: tuple[Change, ...] = ()
    problem: str = ""
    answered: int = 0

    @property
    def moved(self) -> bool:
        """Whether more changed than chance explains: a field that is seldom there may be there now."""
        return bool(self.problem) or any(change.kind != "newly_seen" for change in self.changes)

    @property
    def breaks(self) -> bool:
        """Whether programs that were written by the document are likely to fail."""
        return bool(self.problem) or any(change.kind in BREAKING for change in self.changes)


async def look_again(runner: Runner, record: Record) -> Drift:
    """Run a tool's own examples again and compare.

    An example that fetches its identifiers from other tools fetches them anew, so that a service may forget old ones.
    """
    if record.name not in runner.tools:
        return Drift(tool=record.name, problem="it is not there any more, or may not be called")
    now, problem = Shape(), ""
    whole = [instance for instance in record.instances if not any(mask in instance.program for mask in _MASKS)]
    for instance in whole[:AGAIN]:
        trial = await runner.run(instance.program, [record.name, *record.helpers])
        for call in trial.calls:
            if call.tool == record.name and call.succeeded:
                now.add(call.value)
            elif call.tool == record.name:
                problem = call.error or problem
        problem = problem or trial.problem
    if not whole:
        return Drift(tool=record.name, problem="its examples hold masked secrets, and cannot be run again")
    if not now.count:
        return Drift(tool=record.name, problem=f"none of its examples works any more: {problem[:300]}")
    changes = tuple(compare(record.shape.schema(), now.schema()))
    return Drift(tool=record.name, changes=changes, answered=now.count)

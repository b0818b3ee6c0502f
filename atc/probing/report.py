"""What probing came to: a line for each tool, and what it cost."""

from __future__ import annotations

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
        replaced: documents of the folder that say something else now.
        calls: that reached a tool. ``model_calls``: that a model answered. ``prompt_tokens``, ``completion_tokens``: of
            these.
    """

    lines: tuple[Line, ...]
    protocols: tuple[Protocol, ...]
    calls: int
    response_bytes: int
    model_calls: int
    prompt_tokens: int
    completion_tokens: int
    replaced: int = 0

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


def report_of(
    tools: Toolset, records: dict[str, Record], meter: Meter, spent: ModelBudget, *, replaced: int = 0
) -> Report:
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
                calls=meter.sent[name],
                arguments=len(known.parameters.get("properties", {})),
                fields=len(set(fields_of(known.returns))),
                helpers=record.helpers,
            )
        )
    return Report(
        lines=tuple(lines),
        protocols=tuple(protocols),
        calls=meter.sent.total(),
        response_bytes=meter.bytes,
        model_calls=spent.calls_answered,
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
        replaced=replaced,
    )

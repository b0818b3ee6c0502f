"""ATC that is not shown how a tool was used: the question and the program of a probed example (ATC §4.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from atc.agent import Agent
from atc.tools.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.systems.atc import Atc
from benchmarks.systems.base import Job


class Undemonstrated(Atc):
    """ATC whose tools have lost their demonstrations; what they answer stays documented."""

    def made(self, job: Job, tools: Toolset, **more: Any) -> Agent:
        shown = Toolset(replace(tool, protocol=undemonstrated(tool.protocol)) for tool in tools.values())
        return super().made(job, shown, **more)


def undemonstrated(protocol: Protocol) -> Protocol:
    """A protocol whose examples have neither a question nor a program; one that has nothing else goes."""
    bare = (example.model_copy(update={"description": "", "program": ""}) for example in protocol.examples)
    kept = tuple(example for example in bare if example.response is not None)
    return protocol.model_copy(update={"examples": kept})

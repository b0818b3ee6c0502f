"""An environment whose tools are documented otherwise: by probing, or by their names alone (ATC §6).

The tasks, what answers the calls, and the judge are those of the environment itself; only what a system reads of the
tools differs. ``toolflow-probed`` is ToolFlow with the documents that probing wrote, ``toolflow-bare`` with names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.environments.base import Environment, Episode, Gold, Task

Kind = Literal["probed", "bare"]
KINDS: tuple[Kind, ...] = ("probed", "bare")


class Documented(Environment):
    """The tasks of an environment over tools with other documents.

    Args:
        environment: whose tasks they are.
        kind: what the documents are; it ends the name.
        documents: the documents for a task by the tools' names. A tool that has none keeps its own. Effects and sources
            stay the true ones: what may be called without asking does not depend on what a document says.
    """

    def __init__(
        self, environment: Environment, kind: Kind, documents: Callable[[Task], Mapping[str, Protocol]]
    ) -> None:
        self.name = f"{environment.name}-{kind}"
        self._environment, self._documents = environment, documents

    def tasks(self) -> list[Task]:
        return self._environment.tasks()

    def open(self, task: Task) -> Episode:
        episode, documents = self._environment.open(task), self._documents(task)
        made = []
        for tool in episode.tools.values():
            true = tool.protocol
            kept = {"name": true.name, "effect": true.effect, "source": true.source}
            made.append(replace(tool, protocol=documents.get(tool.name, true).model_copy(update=kept)))
        episode.tools = Toolset(made)
        return episode

    def gold(self, task: Task) -> Gold | None:
        return self._environment.gold(task)


def tasks_from(name: str) -> str:
    """The environment whose tasks an environment has: ``toolflow-probed`` has those of ``toolflow``."""
    own, _, kind = name.rpartition("-")
    return own if own and kind in KINDS else name


def names_alone(protocol: Protocol) -> Protocol:
    """A tool of which only the names are known: its own, and those of its arguments.

    An argument that stands in the path of an operation is said to be required, as its address cannot be made without.
    """
    properties = protocol.parameters.get("properties", {})
    required = [name for name in properties if f"{{{name}}}" in protocol.source.operation]
    parameters = {"type": "object", "properties": {name: {} for name in properties}, "required": required}
    return Protocol(name=protocol.name, parameters=parameters, effect=protocol.effect, source=protocol.source)

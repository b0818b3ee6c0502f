"""The tool that finds by name what another one lists."""

from __future__ import annotations

from collections.abc import Mapping

from atc.graph.identifiers import NAMES, words_of
from atc.graph.tool_facts import ToolFacts
from atc.programs.analysis.schema_paths import shape_at
from atc.result import Effect
from atc.schemas.validate import types_of
from atc.tools.parameters import Parameter, parameters_of
from atc.tools.protocol import Protocol


def search_tool_beside(tool: str, protocols: Mapping[str, Protocol]) -> str:
    """The one reading tool that finds by name what another lists, as it is called; empty where there is not one."""
    listed = _lists(protocols[tool]) if tool in protocols else frozenset[str]()
    calls = [
        f"{protocol.name}({parameter.name}=...)"
        for protocol in protocols.values()
        if protocol.name != tool and listed & _lists(protocol) and (parameter := _by_name(protocol)) is not None
    ]
    return calls[0] if len(calls) == 1 else ""


def _lists(protocol: Protocol) -> frozenset[str]:
    """Words for the things of which a response has a list."""
    facts = ToolFacts(protocol)
    keys = shape_at(protocol.returns, ()).keys if protocol.returns else ()
    lists = [key for key in keys if shape_at(protocol.returns, (key,)).kind == "list"]
    return frozenset[str]().union(*(facts.owner_at((key, "[]")) for key in lists))


def _by_name(protocol: Protocol) -> Parameter | None:
    """The name that a reading tool needs, if it needs nothing else."""
    required = [parameter for parameter in parameters_of(protocol) if parameter.required]
    if protocol.effect is not Effect.READ or len(required) != 1 or types_of(required[0].schema) != {"string"}:
        return None
    return required[0] if NAMES & set(words_of(required[0].name)[-1:]) else None

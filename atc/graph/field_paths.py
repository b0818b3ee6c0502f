"""Which fields of responses may be remembered: documented ones, and observed ones whose keys are surely names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from atc.graph.edges import Path
from atc.graph.suppliers import has_place
from atc.schemas.infer.outline import Outline, outline_of, vocabulary
from atc.tools.observed import is_documented
from atc.tools.protocol import JsonSchema, Protocol, parameters_of

MAX_TEXT = 2_000
"""Characters of a description whose words may be parts of fields' names."""


class Fields:
    """The fields that the tools of one run have.

    Args:
        tools: the protocols by name.
        responses: of each tool, the values that its calls returned.
    """

    def __init__(self, tools: Mapping[str, Protocol], responses: Mapping[str, Sequence[Any]]) -> None:
        self._tools, self._responses = tools, responses
        self._outlines: dict[str, Outline] = {}
        self._schemas: dict[str, JsonSchema] = {}

    def are_names(self, tool: str, path: Path) -> bool:
        """Whether each step of a path is a field's name, and no key that is data."""
        if has_place(self._tools[tool].returns, path):
            return True
        if tool not in self._schemas:
            self._schemas[tool] = self._outline(tool).schema_seen()
        return has_place(self._schemas[tool], path)

    def outlines(self, tools: Iterable[str]) -> dict[str, Outline]:
        """The observed responses of those tools that document none."""
        undocumented = [tool for tool in tools if not is_documented(self._tools[tool].returns)]
        return {tool: outline for tool in undocumented if (outline := self._outline(tool)).schema_seen()}

    def _outline(self, tool: str) -> Outline:
        if tool not in self._outlines:
            self._outlines[tool] = outline_of(self._responses.get(tool, ()), self._documented)
        return self._outlines[tool]

    @cached_property
    def _documented(self) -> frozenset[str]:
        return frozenset[str]().union(*(words_of_documents(self._tools[tool]) for tool in self._responses))


def words_of_documents(protocol: Protocol) -> frozenset[str]:
    """The words in which a document speaks of a tool and its parameters, as names of fields may be made of them."""
    return vocabulary(list(_texts(protocol)))


def _texts(protocol: Protocol) -> Iterator[str]:
    yield from (protocol.name, protocol.source.operation[:MAX_TEXT], protocol.description[:MAX_TEXT])
    for parameter in parameters_of(protocol):
        yield parameter.original[:MAX_TEXT]
        yield str(parameter.schema.get("description") or "")[:MAX_TEXT]

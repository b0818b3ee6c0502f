"""Choose the tools that are offered to the model. The seam: anything with :meth:`Chooser.choose` can take its place."""

from __future__ import annotations

import re
from typing import Protocol as Interface

import bm25s

from atc.tools.links import fields_of
from atc.tools.protocol import Protocol
from atc.tools.tool import Toolset


class Chooser(Interface):
    """Picks the tools for a task."""

    async def choose(self, task: str, tools: Toolset, limit: int) -> Toolset:
        """At most ``limit`` of ``tools``, the likeliest first."""
        ...


class LexicalChooser:
    """BM25 over names, descriptions, parameters and response fields; all tools when they fit the limit anyway."""

    def __init__(self) -> None:
        self._indexed: tuple[Toolset, bm25s.BM25] | None = None

    async def choose(self, task: str, tools: Toolset, limit: int) -> Toolset:
        if len(tools) <= limit:
            return tools
        if self._indexed is None or self._indexed[0] is not tools:
            index = bm25s.BM25()
            index.index([_words(_text(protocol)) for protocol in tools.protocols], show_progress=False)
            self._indexed = (tools, index)
        names = list(tools)
        query = _words(task) or ["?"]
        found, _ = self._indexed[1].retrieve([query], k=limit, show_progress=False)
        return tools.only(*(names[int(position)] for position in found[0]))


def _text(protocol: Protocol) -> str:
    parameters = " ".join(
        f"{name} {s.get('description', '') if isinstance(s, dict) else ''}"
        for name, s in protocol.parameters["properties"].items()
    )
    fields = " ".join(dict.fromkeys(path[-1] for path in fields_of(protocol.returns)))
    return f"{protocol.name} {protocol.name} {protocol.description} {parameters} {fields}"


def _words(text: str) -> list[str]:
    """Lower-case words, ``camelCase`` and ``snake_case`` taken apart, a plural ``s`` dropped."""
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).lower()
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in re.findall(r"[^\W_]+", split)
    ]

"""The chain as the paper has it (ATC §3), to compare with."""

from __future__ import annotations

from atc.strategies.chain import Chain
from atc.strategies.ways import Ways


class Paper(Chain):
    """The tools as JSON documents and the instruction alone; no check; the model names the tool at fault, and edits."""

    name = "atc-paper"

    def __init__(self) -> None:
        super().__init__(Ways(tools="json", example=False, revision="edit", attribution="model", check=False))

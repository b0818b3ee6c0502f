"""Addresses in answers: ``…/colorMaps/viridis`` is what ``/colorMaps/{colorMapId}`` takes, whatever it is called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

MAX_LINKS = 2_000
MAX_ADDRESS = 2_000
"""Characters of an address that is read."""
_ADDRESS = re.compile(r"(?:https?://[^\s/{}]{1,300})?/[^\s{}]*")
"""An address, and no template of one."""
_PLACEHOLDER = re.compile(r"\{([^{}]{1,200})\}")


class Links:
    """The addresses that were seen, by their steps."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], str] = {}

    def add(self, tool: str, value: Any) -> None:
        """Keep a value of a tool's response, if it is an address."""
        if len(self._seen) >= MAX_LINKS or not isinstance(value, str) or len(value) > MAX_ADDRESS:
            return
        if _ADDRESS.fullmatch(value):
            try:
                path = urlsplit(value).path
            except ValueError:
                return  # no address after all: `http://[`
            self._seen.setdefault(tuple(unquote(step) for step in path.split("/") if step), tool)

    def values(self, path: str, parameter: str) -> Iterator[tuple[str, str]]:
        """What stands in these addresses for an argument of a path, each with the tool that answered with it.

        Args:
            path: of the operation, :attr:`atc.schemas.protocol.Source.path`; one of placeholders alone fits anything,
                and has none.
            parameter: its placeholder.
        """
        steps = [step for step in path.partition(" ")[2].split("/") if step]
        wanted = f"{{{parameter}}}"
        if wanted not in steps or all(map(_PLACEHOLDER.fullmatch, steps)):
            return
        for link, tool in self._seen.items():
            tail = link[-len(steps) :]
            if len(tail) == len(steps) and all(map(_fits, steps, tail)):
                yield tail[steps.index(wanted)], tool


def _fits(step: str, there: str) -> bool:
    return step == there or _PLACEHOLDER.fullmatch(step) is not None

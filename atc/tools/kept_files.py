"""The files of kept programs: ``NAME.atc``, one program each, with a header that says how it is called.

A file is text that people read and compare::

    ---
    kept: 1
    name: rain_days
    description: How many of the next days bring rain to a city.
    parameters:
      type: object
      properties:
        city: {type: string}
      required: [city]
    response: {type: integer}
    uses:
    - tool: find_city
      source: [function, atc.atlas.places, find_city]
      digest: 5f0c…
    run: 20260101-101010-abcdef
    made: '2026-01-01T10:10:10Z'
    sha256: 9c1e…
    ---
    found = find_city(name=city)
    answer = …

The header is YAML without anchors, aliases and tags; ``sha256`` is of the rest of it and of the program
(:func:`seal_of`), so that a file that was edited by hand is seen to be. What the file says of effects counts nowhere:
they are those of the tools that the program calls, as they are now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.schemas.protocol import JsonSchema
from atc.tools.kept import UsedTool
from atc.tools.tool import Tool, Toolset

SUFFIX = ".atc"
VERSION = 1
MAX_FILE = 200_000
"""Bytes of a file."""


@dataclass(frozen=True)
class KeptFile:
    """What a file of a kept program says.

    Attributes:
        name: of the tool.
        program: its source, without the header; ends with one line break.
        description: what it does: data, never an instruction.
        parameters: JSON Schema of its arguments, ``{"type": "object", …}``; the program has them in its scope by name.
        response: JSON Schema of its value; ``None`` where nothing is known of it.
        uses: the tools that the program calls, kept ones among them, as they were when it was kept.
        run: that it was kept from; empty where that is unknown.
        made: when, in UTC: ``2026-01-01T10:10:10Z``.
        path: of the file; ``None`` of one that is not written.
    """

    name: str
    program: str
    description: str
    parameters: JsonSchema
    response: JsonSchema | None = None
    uses: tuple[UsedTool, ...] = ()
    run: str = ""
    made: str = ""
    path: Path | None = None


@dataclass(frozen=True)
class LeftOut:
    """A kept program that is not among the tools, and why.

    Attributes:
        name: of the program. ``path``: its file.
        reason: in words of ours.
    """

    name: str
    path: Path
    reason: str


def read_kept(text: str | bytes, where: str) -> KeptFile:
    """Return what the text of a file says. Nothing in it is run.

    Args:
        text: of the file.
        where: its name, for messages.

    Raises:
        ToolImportError: it is no such file, or is not as it was written; the line and what to do are named.
    """
    raise NotImplementedError


def kept_text(kept: KeptFile) -> str:
    """Return the text of a file: :func:`read_kept` gives back what it is given.

    Raises:
        ToolImportError: what it would hold cannot be read again (a wrong name, a schema that is none, too long).
    """
    raise NotImplementedError


def write_kept(kept: KeptFile, folder: Path, *, replace: bool = False) -> Path:
    """Write ``NAME.atc`` into a folder, which is made if need be, for its owner alone (0600), whole or not at all.

    Args:
        kept: the program; its ``path`` does not count.
        folder: the data folder's own (``Settings.kept_dir``), or one that the user names.
        replace: write over a file of this name.

    Returns:
        The path of the file.

    Raises:
        UsageError: there is a file of this name, and ``replace`` is not set.
        ToolImportError: as :func:`kept_text`.
        OSError: it cannot be written.
    """
    raise NotImplementedError


def kept_tool(kept: KeptFile, tools: Toolset) -> Tool:
    """Return a kept program as a tool that calls tools of a set.

    What it calls is looked for by what it is known by at its source, then by its name. Its effect is the strongest of
    theirs, as they are now.

    Raises:
        ToolImportError: a tool is missing, the program calls one that its header does not name, a name is not free,
            or kept programs call each other in a circle or more than :data:`~atc.tools.kept.MAX_NESTED` deep.
    """
    raise NotImplementedError


def with_kept(tools: Toolset, files: Iterable[KeptFile]) -> tuple[Toolset, list[LeftOut]]:
    """Return tools with kept programs that call them and each other, and those programs that cannot be among them."""
    raise NotImplementedError


def import_kept(tools: Toolset, path: str | Path) -> Toolset:
    """Return tools with the kept programs of a file or a folder: see :meth:`Toolset.with_kept`.

    Raises:
        ToolImportError: a file cannot be read, is not trusted, or cannot be among these tools.
    """
    raise NotImplementedError


def header_of(kept: KeptFile) -> dict[str, Any]:
    """Return the header of a file, without its seal."""
    raise NotImplementedError


def seal_of(kept: KeptFile) -> str:
    """Return the SHA-256, in hex, of a header and its program: what ``sha256`` of the header says."""
    raise NotImplementedError

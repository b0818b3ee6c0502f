"""Files of kept programs, made by hand, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atc import Toolset, tool
from atc.schemas.protocol import SourceKey
from atc.tools.kept import KIND, UsedTool, used_tool
from atc.tools.kept_files import KeptFile, write_kept

TEXT = {"type": "string"}
RUN = "20260101-101010-abcdef"
MADE = "2026-01-01T10:10:10Z"
DIGEST = "0" * 64


@tool(effect="read")
def temperature(city: str) -> float:
    """Tell how warm it is in a city."""
    return {"Bergen": 7.0, "Rome": 21.0}.get(city, 0.0)


@tool(effect="write")
def send(to: str, text: str) -> str:
    """Send a text to somebody."""
    return f"{to}: {text}"


def tools() -> Toolset:
    """A read and a write."""
    return Toolset.from_functions(temperature, send)


def kept_file(
    name: str,
    program: str,
    uses: Sequence[str] = (),
    *,
    of: Mapping[str, Any] | None = None,
    kept: Sequence[str] = (),
    **fields: Any,
) -> KeptFile:
    """A file's content.

    Args:
        name: of the kept program. ``program``: its source.
        uses: names of tools that it calls, of ``of``; by default those of :func:`tools`.
        kept: names of kept programs that it calls.
        fields: of :class:`KeptFile`.
    """
    known = tools() if of is None else of
    used = [used_tool(each, known[each].protocol) for each in uses]
    used += [UsedTool(each, SourceKey(KIND, KIND, each), DIGEST) for each in kept]
    properties = fields.pop("parameters", {"city": TEXT})
    parameters = {"type": "object", "properties": properties, "required": [*properties]}
    given = {"description": f"Does what {name} does.", "run": RUN, "made": MADE} | fields
    return KeptFile(name, program, parameters=parameters, uses=tuple(used), **given)


WARM = kept_file("is_warm", "answer = temperature(city) > 15\n", ["temperature"], response={"type": "boolean"})


def put(folder: Path, *files: KeptFile) -> list[Path]:
    """Write files into a folder."""
    return [write_kept(file, folder, over=True) for file in files]

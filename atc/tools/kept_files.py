"""The files of kept programs: ``NAME.atc``, one program each, with a header that says how it is called.

A file is text that people read and compare::

    +++
    kept = 2
    name = "rain_days"
    description = "How many of the next days bring rain to a city."
    parameters = '''
    {
     "type": "object",
     "properties": {"city": {"type": "string"}},
     "required": ["city"]
    }'''
    response = '''{"type": "integer"}'''
    run = "20260101-101010-abcdef"
    made = "2026-01-01T10:10:10Z"
    sha256 = "9c1e…"

    [[uses]]
    tool = "find_city"
    source = ["function", "atc.atlas.places", "find_city"]
    digest = "5f0c…"
    +++
    found = find_city(name=city)
    answer = …

The header is TOML; schemas are JSON within, because TOML has no null. ``sha256`` is of the rest of it and of the
program (:func:`seal_of`), so that an edit by hand is noticed. It keeps nobody out: who may write the file can write it,
too; whose file it is, and whether it was trusted, is asked before (:mod:`atc.tools.kept_folders`). What a file might
say of effects counts nowhere: they are those of the tools that the program calls, as they are now.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from atc._host.files import make_private, write_whole
from atc._host.invisible import legible, visible
from atc.errors import ToolImportError, UsageError
from atc.schemas.names import ALL_PAGES, MAX_NAME, RESERVED_NAMES, parameter_name, tool_name
from atc.schemas.protocol import MAX_DESCRIPTION, MAX_KEPT, JsonSchema, SourceKey
from atc.schemas.validate import ensure_valid_schema
from atc.tools.kept import UsedTool
from atc.tools.parse import json_copy

SUFFIX = ".atc"
VERSION = 2
MAX_FILE = 200_000
"""Bytes of a file."""
MAX_USES = 200
"""Tools that a program calls."""
MAX_DOTS = 1_000
"""Dots in a line of a header: TOML takes each for a level of a key, and reading a key is quadratic in its levels."""
FENCE = "+++"
SHORT = 80
"""Characters of a schema that stands in one line."""
TAKEN = frozenset({*RESERVED_NAMES, ALL_PAGES, "say", "look", "ask_user"})
"""Names with a meaning of their own in a program: neither a kept program nor a parameter of it may have one."""
_CONTROL = re.compile(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]")
_STEERING = re.compile("[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\U000e0000-\U000e007f]")
"""What turns the direction of writing, breaks a line unseen, or spells text that nobody sees."""


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


class _Used(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    tool: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=2 * MAX_NAME)
    source: list[str] | None = None
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")

    @property
    def record(self) -> UsedTool:
        return UsedTool(self.tool, None if self.source is None else SourceKey(*self.source), self.digest)


class _Header(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    kept: int
    name: str
    description: str = Field(max_length=MAX_DESCRIPTION)
    parameters: JsonSchema
    response: JsonSchema | None = None
    uses: list[_Used] = Field(default=[], max_length=MAX_USES)
    run: str = Field(pattern=r"^[0-9a-z-]{0,64}$")
    made: str = Field(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


# ----------------------------------------------------------------------------------------------------------------------
# Reading: every step is bounded, and none runs anything.


def read_kept(text: str | bytes, where: str, path: Path | None = None, *, edited: bool = False) -> KeptFile:
    """Return what the text of a file says. Nothing in it is run.

    Args:
        text: of the file.
        where: its name, for messages.
        path: of the file, which must be called after the program.
        edited: take a file that was edited since it was written: the user has read and trusted it.

    Raises:
        ToolImportError: it is no such file, or not as it was written; the place and what to do are named.
    """
    header, program = _parted(_text_of(text, where), where)
    content = _header_in(header, where)
    if (version := content.get("kept")) != VERSION:
        raise ToolImportError(
            f"{where}: `kept = {VERSION}` is the form that this version reads, not {version!r:.40}: keep the run again"
        )
    try:
        made = _Header.model_validate(content)
    except ValidationError as error:
        raise ToolImportError(f"{where}: {_problem(error)}") from None
    _check(made, where, path)
    kept = KeptFile(
        name=made.name,
        program=program,
        description=made.description,
        parameters={"type": "object", "properties": {}, **made.parameters},
        response=made.response,
        uses=tuple(each.record for each in made.uses),
        run=made.run,
        made=made.made,
        path=path,
    )
    if not edited and seal_of(kept) != made.sha256:
        raise ToolImportError(
            f"{where}: the file was edited since it was written, its sha256 is of another text: read it, and accept "
            f"it as it is with `atc trust {where}`, or keep the run again"
        )
    return kept


def _text_of(text: str | bytes, where: str) -> str:
    if len(text) > MAX_FILE:
        raise ToolImportError(f"{where} has more than {MAX_FILE:,} bytes: a kept program is shorter")
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise ToolImportError(f"{where} is not UTF-8 text (byte {error.start})") from None
    for pattern, what in ((_CONTROL, "a control character"), (_STEERING, "a character that hides or turns text")):
        if found := pattern.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise ToolImportError(f"{where}, line {line} has {what}, {visible(found[0])}: remove it")
    return text


def _parted(text: str, where: str) -> tuple[str, str]:
    """The header, after a line break for its fence, so that its lines keep their numbers; and the program."""
    lines = text.split("\n")
    if lines[0] != FENCE:
        raise ToolImportError(f"{where}, line 1 is not `{FENCE}`: this is no file of a kept program")
    try:
        end = lines.index(FENCE, 1)
    except ValueError:
        raise ToolImportError(f"{where}: no line `{FENCE}` ends the header") from None
    program = "\n".join(lines[end + 1 :])
    if not program.strip():
        raise ToolImportError(f"{where}, line {end + 1}: there is no program after the header")
    return "\n" + "\n".join(lines[1:end]) + "\n", program


def _header_in(text: str, where: str) -> dict[str, Any]:
    if any(line.count(".") > MAX_DOTS for line in text.split("\n")):
        raise ToolImportError(f"{where}: a line of the header has more than {MAX_DOTS:,} dots: shorten it")
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ToolImportError(f"{where}: the header is no TOML: {visible(str(error))[:300]}") from None
    for field in ("parameters", "response"):
        if isinstance(schema := content.get(field), str):
            content[field] = _schema_in(schema, f"{where}, {field}")
    return content


def _schema_in(text: str, where: str) -> Any:
    """Return the JSON value in a field. A key that stands twice is refused: a reader could miss the one that counts."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if twice := [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]:
            raise ToolImportError(f"{where}: '{visible(twice[0])[:80]}' stands here twice: write each key once")
        return dict(pairs)

    try:
        return json_copy(json.loads(text, object_pairs_hook=once), where)
    except (ValueError, RecursionError) as error:
        raise ToolImportError(f"{where}: this is no JSON: {visible(str(error))[:300]}") from None


def _problem(error: ValidationError) -> str:
    first = error.errors()[0]
    place = visible(".".join(map(str, first["loc"])))[:80]
    match first["type"]:
        case "extra_forbidden":
            return f"a header has no field '{place}': it has {', '.join(_Header.model_fields)}"
        case "missing":
            return f"the field {place!r} is missing"
        case _:
            return f"{place}: {first['msg']}"


def _check(made: _Header, where: str, path: Path | None) -> None:
    def fail(field: str, problem: str) -> NoReturn:
        raise ToolImportError(f"{where}, {field}: {problem}")

    if problem := name_problem(made.name):
        fail("name", problem)
    if path is not None and path.name != made.name + SUFFIX:
        fail("name", f"it is called {made.name!r}, and the file '{visible(path.name)}': give both one name")
    for used in made.uses:
        parts = used.source
        if parts is not None and (len(parts) != 3 or any(len(part) > MAX_KEPT for part in parts)):
            fail("uses", f"the source of {used.tool!r} is no [kind, server, operation]")
    names = [used.tool for used in made.uses]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        fail("uses", f"{twice[0]!r} stands here twice")
    if made.parameters.get("type", "object") != "object":
        fail("parameters", 'parameters are the schema of an object: write "type": "object"')
    ensure_valid_schema(made.parameters, f"{where}, parameters")
    properties = made.parameters.get("properties", {})
    for parameter in properties:
        if parameter_name(parameter) != parameter or parameter in TAKEN or parameter in {*names, made.name}:
            meant = "means something else in the program, or is no name of Python's: give it another name"
            fail("parameters", f"the parameter '{visible(parameter)[:80]}' {meant}")
    required = made.parameters.get("required", [])
    if unknown := [name for name in required if name not in properties]:
        fail("parameters", f"the required parameter '{visible(unknown[0])[:80]}' has no schema")
    if made.response is not None:
        ensure_valid_schema(made.response, f"{where}, response")
    if made.name in names:
        fail("uses", f"{made.name!r} calls itself: a kept program does not")


def name_problem(name: str) -> str:
    """Return what keeps a kept program from having a name, and what to do; empty where it may have it."""
    meant = tool_name(name[:200])
    if meant != name:
        return f"'{visible(name)[:80]}' is no free name for a tool: take lower_snake_case, {meant!r} say"
    return f"{name!r} means something else in a program: take another name" if name in TAKEN else ""


# ----------------------------------------------------------------------------------------------------------------------
# Writing.


def header_of(kept: KeptFile) -> dict[str, Any]:
    """Return the header of a file, without its seal."""
    uses = [
        {"tool": each.name, "source": None if each.source is None else [*each.source], "digest": each.digest}
        for each in kept.uses
    ]
    return {
        "kept": VERSION,
        "name": kept.name,
        "description": kept.description,
        "parameters": kept.parameters,
        "response": kept.response,
        "uses": uses,
        "run": kept.run,
        "made": kept.made,
    }


def seal_of(kept: KeptFile) -> str:
    """Return the SHA-256, in hex, of a header and its program: what ``sha256`` of the header says."""
    header = json.dumps(header_of(kept), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(f"{header}\n{kept.program}".encode("utf-8", "surrogatepass")).hexdigest()


def kept_text(kept: KeptFile) -> str:
    """Return the text of a file: :func:`read_kept` gives back what it is given.

    Raises:
        ToolImportError: what it would hold cannot be read again (a wrong name, a schema that is none, too long).
    """
    kept = replace(
        kept,
        program=kept.program.strip("\n") + "\n",
        description=legible(kept.description),
        parameters={"type": "object", "properties": {}, **kept.parameters},
    )
    try:
        header = _toml(header_of(kept) | {"sha256": seal_of(kept)})
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolImportError(f"{kept.name}{SUFFIX} cannot be written: {error}") from None
    text = f"{FENCE}\n{header}{FENCE}\n{kept.program}"
    read_kept(text, f"{kept.name}{SUFFIX}")  # also that the seal is of what is read
    return text


def _toml(header: dict[str, Any]) -> str:
    """Return a header as TOML, in which a text, a number and a list of texts are written as JSON writes them."""
    uses = header.pop("uses")
    lines = [f"{field} = {_toml_value(value)}\n" for field, value in header.items() if value is not None]
    for used in uses:
        lines.append("\n[[uses]]\n")
        lines.extend(f"{field} = {_toml_value(value)}\n" for field, value in used.items() if value is not None)
    return "".join(lines)


def _toml_value(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text = flat if len(flat) <= SHORT else "\n" + json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
    text = _STEERING.sub(lambda found: json.dumps(found[0])[1:-1], text.replace("'", "\\u0027"))
    return f"'''{text}'''"


def write_kept(kept: KeptFile, folder: Path, *, over: bool = False) -> Path:
    """Write ``NAME.atc`` into a folder, which is made if need be, for its owner alone (0600), whole or not at all.

    Args:
        kept: the program; its ``path`` does not count.
        folder: the data folder's own (``Settings.kept_dir``), or one that the user names.
        over: write over a file of this name.

    Returns:
        The path of the file.

    Raises:
        UsageError: there is a file of this name, and ``over`` is not set.
        ToolImportError: as :func:`kept_text`.
        OSError: it cannot be written.
    """
    text = kept_text(kept)
    path = folder / f"{kept.name}{SUFFIX}"  # the name is an identifier: it leads to no other folder
    make_private(folder)
    if os.path.lexists(path) and not over:
        raise UsageError(f"{path} is there already: take another name, or say that it is to be replaced")
    write_whole(path, text)
    return path

"""The type checker's part of the check: ``ty`` over the lenient stubs and the program, as text; nothing is imported.

``ty`` was chosen over mypy and pyrefly for what it finds in such programs and its speed (docs/benchmarks.md). This is
the one module that reads its messages; ``tests/programs/ty_messages.toml`` holds what it says. What could be a matter
of opinion is left out, so that no correct program is refused.
"""

from __future__ import annotations

import ast
import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.errors import EnvironmentProblem
from atc.programs.check.type_server import TypeServer
from atc.result import Finding, FindingKind
from atc.tools.protocol import Protocol
from atc.tools.stubs import render_checker_stubs

TIMEOUT_S = 20.0
PRELUDE = "from _tools import *\n"
WARM_UP = "import collections, datetime, itertools, json, math, re\nanswer = sorted([1])\n"

_KEY = re.compile(r'Unknown key "(?P<key>.*?)" for TypedDict `(?P<type>\w+)`')
_NAME = re.compile(r"Name `(?P<name>\w+)` used when not defined")
_TYPE = re.compile(
    r"Argument to function `(?P<tool>\w+)` is incorrect: Expected `(?P<wanted>.*)`, found `(?P<found>.*)`"
)
_ATTRIBUTE = re.compile(r"(?:Object of type|Attribute) `(?P<type>.*?)` .*?attribute `(?P<name>\w+)`")
_NO_ATTRIBUTE = re.compile(r"Object of type `.*` has no attribute `(?P<name>\w+)`")
_LOOKED_UP = re.compile(r"of type `(?P<key>Literal\[.*?\]|\w+)` on object of type `(?P<type>.*)`")
_EXPLAINED = re.compile(r"\s*\(.*|, Overload.*|Overload\[.*")
_SURE = {"not-iterable", "call-non-callable", "not-subscriptable", "non-subscriptable", "unsupported-operator"}
_UNSURE = re.compile(r"\bNone\b|\bUnknown\b| \| |\bTodo\b|\bobject\b|~")
_CONTAINER = re.compile(r"(list|dict|tuple|set|frozenset)\b")


@dataclass(frozen=True)
class Diagnostic:
    """What the type checker said, at a place of the program (line from 1, column from 0)."""

    rule: str
    message: str
    line: int
    column: int


class TypeChecker:
    """Checks programs against one set of tools. Its folder holds the stubs; :meth:`close` removes it.

    Raises:
        EnvironmentProblem: ``ty`` is not installed where this Python is.
    """

    def __init__(self, protocols: Sequence[Protocol]) -> None:
        self._tools = {protocol.name for protocol in protocols}
        self._ty = find_ty()
        self._folder = Path(tempfile.mkdtemp(prefix="atc-check-")).resolve()
        (self._folder / "_tools.pyi").write_text(render_checker_stubs(protocols), encoding="utf-8")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"  # the jail runs this very Python
        (self._folder / "ty.toml").write_text(f'[environment]\npython-version = "{version}"\n')
        self._server = self._started()

    async def check(self, source: str) -> list[Finding]:
        """What is surely wrong with the types of a program, in the order of its lines."""
        found = [self._finding(diagnostic, source) for diagnostic in await self._diagnose(source)]
        return [finding for finding in found if finding is not None]

    def close(self) -> None:
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self) -> TypeServer:
        return TypeServer(self._ty, self._folder, PRELUDE + WARM_UP)

    async def _diagnose(self, source: str) -> list[Diagnostic]:
        text = PRELUDE + source.encode("utf-8", "replace").decode()
        try:
            items = await asyncio.wait_for(self._server.diagnose(text), TIMEOUT_S)
        except (TimeoutError, OSError, ValueError):
            self._server.close()
            self._server = self._started()
            return []  # the jail and the broker still stand; a program is not refused for the checker's failure
        return [diagnostic for item in items if (diagnostic := _read(item)) is not None]

    def _finding(self, said: Diagnostic, source: str) -> Finding | None:
        message, line = said.message, said.line
        if said.rule == "unresolved-reference" and (m := _NAME.search(message)):
            return Finding(kind="undefined_name", name=m["name"], line=line)
        if m := _TYPE.search(message):
            return self._wrong_type(m, line)
        if m := _KEY.search(message):
            return Finding(kind="unknown_field", case="typed", name=m["key"], line=line)
        if said.rule == "invalid-syntax":
            return Finding(kind="syntax", case="typed", reason=message, line=line)
        if said.rule == "unresolved-attribute" and (m := _ATTRIBUTE.search(message)) and not _UNSURE.search(m["type"]):
            return _type_error(said, source)
        if "__getitem__" in message and not _UNSURE.search(message.rsplit("on object of type", 1)[-1]):
            return _type_error(said, source)
        return _type_error(said, source) if said.rule in _SURE and not _UNSURE.search(message) else None

    def _wrong_type(self, m: re.Match[str], line: int) -> Finding | None:
        wanted, found = m["wanted"], m["found"]
        if m["tool"] not in self._tools or _UNSURE.search(found) or not _is_sure(wanted, found):
            return None
        kind: FindingKind = "not_in_enum" if "Literal[" in wanted else "wrong_type"
        return Finding(kind=kind, case="typed", expected=(wanted,), found=found, line=line, tool=m["tool"])


def _is_sure(wanted: str, found: str) -> bool:
    """Whether no value of type ``found`` gets through the broker, whose schema gate takes numbers as text and the
    like."""
    if _CONTAINER.match(wanted) or "Any" in wanted:
        return False
    if _CONTAINER.match(found):
        return True
    if not found.startswith("Literal["):
        return False  # a text may hold a number; a date becomes text
    values, allowed = _literals(found), _literals(wanted)
    if "Literal[" in wanted:
        return bool(values and allowed) and not {str(value) for value in values} & {str(value) for value in allowed}
    return bool(values) and not any(_passes(value, set(wanted.split(" | "))) for value in values)


def _literals(text: str) -> list[object]:
    """What a ``Literal[…]`` allows; nothing if it is not plain."""
    m = re.search(r"Literal\[(.*)\]", text)
    try:
        return list(ast.literal_eval(f"({m[1]},)")) if m else []
    except (ValueError, SyntaxError):
        return []


def _passes(value: object, kinds: set[str]) -> bool:
    if isinstance(value, str):
        return "str" in kinds or bool(re.fullmatch(r"\s*(-?[\d.eE+-]+|true|false)\s*", value, re.IGNORECASE))
    return True  # a number for a text, and the like: mended, or refused with a clear word


def _type_error(said: Diagnostic, source: str) -> Finding:
    lines = source.split("\n")
    text = lines[said.line - 1].strip()[:160] if 0 < said.line <= len(lines) else ""
    reason = _EXPLAINED.sub("", said.message.split(" - did")[0])  # without the proposal of another name
    found = Finding(kind="type_error", line=said.line, source_line=text, reason=reason)
    if m := _NO_ATTRIBUTE.search(said.message):
        return found.model_copy(update={"case": "attribute", "name": m["name"]})
    if "__getitem__" in said.message and (m := _LOOKED_UP.search(said.message)):
        type_ = m["type"].partition("[")[0]
        key = m["key"].removeprefix("Literal[").removesuffix("]")
        return found.model_copy(
            update={"case": {"list": "list", "str": "text"}.get(type_, "container"), "name": key, "found": type_}
        )
    return found


def _read(item: dict[str, Any]) -> Diagnostic | None:
    begin = item["range"]["start"]
    if begin["line"] < PRELUDE.count("\n"):
        return None
    line = begin["line"] + 1 - PRELUDE.count("\n")
    return Diagnostic(str(item.get("code", "")), str(item["message"]), line, begin["character"])


def find_ty() -> str:
    beside = Path(sys.executable).parent / "ty"
    found = str(beside) if beside.exists() else shutil.which("ty")
    if found is None:
        raise EnvironmentProblem("the type checker `ty` is missing: install it where ATC is (`pip install ty`)")
    return found

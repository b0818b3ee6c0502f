"""The type checker's part of the check: ``ty`` over the lenient stubs and the program, as text; nothing is imported.

``ty`` was chosen over mypy and pyrefly for what it finds in such programs and its speed (docs/benchmarks.md). This is
the one module that reads its messages; ``tests/programs/ty_messages.json`` holds what it says. What could be a matter
of opinion is left out, and so is what it says of tools' arguments and of keys: our own analysis finds those, and knows
what the gate repairs and the run has seen. It knows responses by their documents alone, so what it says of types is a
warning; its errors are names that are nowhere, and syntax that Python's parser lets pass.
"""

from __future__ import annotations

import ast
import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.answers.types import AnswerType
from atc.errors import EnvironmentProblem
from atc.facts import Finding
from atc.programs.check.answers import answer_findings, probed
from atc.programs.check.diagnostics import Diagnostic
from atc.programs.check.type_server import TypeServer
from atc.programs.program import NotParsed, Program, parse
from atc.tools.protocol import Protocol
from atc.tools.stubs import record_names, render_checker_stubs

TIMEOUT_S = 20.0
PRELUDE = "from _tools import *"
WARM_UP = "import collections, datetime, itertools, json, math, re\nanswer = sorted([1])\n"

_NAME = re.compile(r"Name `(?P<name>\w+)` used when not defined")
_NO_ATTRIBUTE = re.compile(r"Object of type `(?P<type>.*)` has no attribute `(?P<name>\w+)`")
_LOOKED_UP = re.compile(
    r"`__getitem__` of type .* cannot be called with key of type `(?P<key>[^`]*)` on object of type `(?P<type>[^`]*)`"
)
_NO_ATTRIBUTE_RULES = {"missing-attribute", "unresolved-attribute"}  # the second of each pair is an older version's
_SURE = {"not-iterable", "not-callable", "call-non-callable", "unsupported-operator"}
# not "not-subscriptable": of a union it names one type alone, so it looks sure where the checker is not
_QUOTED = re.compile(r"`([^`]*)`")
_UNSURE = re.compile(r"\bNone\b|\bUnknown\b| \| |\bTodo\b|\bobject\b|~")
_BUILT_IN = re.compile(r"(Literal\[|(list|dict|tuple|set|frozenset|str|bytes|int|float|bool)\b)")
_ERRORS = frozenset({"undefined_name", "syntax"})


class TypeChecker:
    """Checks programs against one set of tools. Its folder holds the stubs; :meth:`close` removes it.

    Raises:
        EnvironmentProblem: ``ty`` is not installed where this Python is.
    """

    def __init__(self, protocols: Sequence[Protocol]) -> None:
        self._ty = find_ty()
        self._folder = Path(tempfile.mkdtemp(prefix="atc-check-")).resolve()
        self._stubs = render_checker_stubs(protocols)
        (self._folder / "_tools.pyi").write_text(self._stubs, encoding="utf-8")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"  # the jail runs this very Python
        (self._folder / "ty.toml").write_text(f'[environment]\npython-version = "{version}"\n')
        self._server = self._started()

    async def check(
        self, program: Program, inputs: Collection[str] = (), wanted: AnswerType | None = None
    ) -> list[Finding]:
        """What seems wrong with the types of a program, in the order of its lines.

        Args:
            program: what is checked.
            inputs: names of values in its scope; nothing is known of their types.
            wanted: the type that its answer is held to.
        """
        asked = probed(program) if wanted is not None else None
        diagnostics = await self.diagnose(program.source if asked is None else asked, inputs)
        own = [each for each in diagnostics if each.line <= len(program.lines)]
        found = [finding for each in own if (finding := finding_of(each, program)) is not None]
        if any(finding.kind == "undefined_name" for finding in found):
            read = _evaluated(program)
            found = [f for f in found if f.kind != "undefined_name" or (f.line, f.name) in read]
        found = [each if each.kind in _ERRORS else each.model_copy(update={"severity": "warning"}) for each in found]
        if wanted is not None and asked is not None:
            found += answer_findings(program, diagnostics, wanted, self._records)
        return found

    @cached_property
    def _records(self) -> frozenset[str]:
        return record_names(self._stubs)

    def close(self) -> None:
        """End the server and remove the folder."""
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self) -> TypeServer:
        return TypeServer(self._ty, self._folder, f"{PRELUDE}\n{WARM_UP}")

    async def diagnose(self, source: str, inputs: Collection[str] = ()) -> list[Diagnostic]:
        """What the type checker says of a program, in its own words; nothing where it fails."""
        text, before = _with_prelude(source.encode("utf-8", "replace").decode(), inputs)
        try:
            items = await asyncio.wait_for(self._server.diagnose(text), TIMEOUT_S)
        except (TimeoutError, OSError, ValueError):
            self._server.close()
            self._server = self._started()
            return []  # the jail and the broker still stand; a program is not refused for the checker's failure
        return [diagnostic for item in items if (diagnostic := _read(item, before)) is not None]


def finding_of(diagnostic: Diagnostic, program: Program) -> Finding | None:
    """What a diagnostic means; ``None`` where it is no sure error.

    Args:
        diagnostic: what the type checker reports.
        program: the program.
    """
    message, line = diagnostic.message.partition("\n")[0], diagnostic.line
    if diagnostic.rule == "unresolved-reference" and (m := _NAME.search(message)):
        return Finding(kind="undefined_name", name=m["name"], line=line)
    if diagnostic.rule == "invalid-syntax":
        return Finding(kind="syntax", case="typed", reason=message, line=line)
    found = Finding(kind="type_error", line=line, source_line=program.line(line)[:160], reason=message)
    if diagnostic.rule in _NO_ATTRIBUTE_RULES:
        m = _NO_ATTRIBUTE.search(message)
        # an object of a class, or a function, can be given an attribute where the checker does not see it
        if m is None or not _BUILT_IN.match(m["type"]) or _UNSURE.search(m["type"]):
            return None
        return found.model_copy(update={"case": "attribute", "name": m["name"]})
    if m := _LOOKED_UP.search(message):
        return None if _UNSURE.search(m["type"]) else found.model_copy(update=_looked_up(m["key"], m["type"]))
    return (
        found
        if diagnostic.rule in _SURE and not any(map(_UNSURE.search, _QUOTED.findall(diagnostic.message)))
        else None
    )


def _with_prelude(source: str, inputs: Collection[str]) -> tuple[str, int]:
    """A program behind what names the tools, and inputs of any type; and how many lines it is moved down by.

    Nothing may stand before ``from __future__ import …``: there the prelude follows on the same line.
    """
    anything = (f"{name}: _typing.Any = _typing.cast(_typing.Any, None)" for name in sorted(inputs))
    prelude = "; ".join([PRELUDE, "import typing as _typing", *anything]) if inputs else PRELUDE
    end = _end_of_futures(source)
    if end is None:
        return f"{prelude}\n{source}", 1
    lines, (row, column) = source.split("\n"), end
    text = lines[row - 1].encode()
    lines[row - 1] = f"{text[:column].decode()}; {prelude}{text[column:].decode()}"
    return "\n".join(lines), 0


def _end_of_futures(source: str) -> tuple[int, int] | None:
    """Where the last ``from __future__ import …`` of a program ends; ``None`` where it has none."""
    if "__future__" not in source:
        return None
    try:
        body = parse(source).body
    except NotParsed:
        return None
    ends = [
        (node.end_lineno or node.lineno, node.end_col_offset or 0)
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level
    ]
    return ends[-1] if ends else None


def _evaluated(program: Program) -> set[tuple[int, str]]:
    """The names that a run looks up, with their lines: not those in a text, nor in annotations that nothing evaluates.

    Those are all behind ``from __future__ import annotations`` and from Python 3.14 on, and of variables in functions.
    """
    deferred = sys.version_info >= (3, 14) or any(
        isinstance(node, ast.ImportFrom) and any(alias.name == "annotations" for alias in node.names)
        for node in program.module.body
    )
    found: set[tuple[int, str]] = set()
    todo: list[tuple[ast.AST, bool]] = [(program.module, False)]
    while todo:
        node, local = todo.pop()
        if isinstance(node, ast.Name):
            found.add((node.lineno, node.id))
        local = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            local and not isinstance(node, ast.ClassDef)
        )
        for field, value in ast.iter_fields(node):
            unread = field in ("annotation", "returns") and (deferred or (local and isinstance(node, ast.AnnAssign)))
            if not unread:
                parts = value if isinstance(value, list) else [value]
                todo += [(part, local) for part in parts if isinstance(part, ast.AST)]
    return found


def _looked_up(key: str, container: str) -> dict[str, str]:
    """A key that a container does not take, as fields of a finding."""
    kind = "str" if container.startswith(('Literal["', "Literal['")) else container.partition("[")[0]
    name = key.removeprefix("Literal[").removesuffix("]") if key.startswith("Literal[") else key.rstrip("*")
    case = {"list": "list", "str": "text"}.get(kind, "container")
    return {"case": case, "name": name, "found": kind, "reason": ""}


def _read(item: dict[str, Any], before: int) -> Diagnostic | None:
    """A diagnostic of the program's own lines, which stand behind so many others."""
    begin = item["range"]["start"]
    if begin["line"] < before:
        return None
    return Diagnostic(str(item.get("code", "")), str(item["message"]), begin["line"] + 1 - before, begin["character"])


def find_ty() -> str:
    """Return the path of the type checker ``ty``.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    beside = Path(sys.executable).parent / "ty"
    found = str(beside) if beside.exists() else shutil.which("ty")
    if found is None:
        raise EnvironmentProblem("the type checker `ty` is missing: install it where ATC is (`pip install ty`)")
    return found

"""Files of kept programs → tools that call the tools of a set.

What a program calls is looked for among the tools as they are now: by what it is known by at its source, then by its
name. From these come the effect of the kept program and whether strangers write what it returns. A kept program never
takes a name that means something else already; it is refused, and not renamed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from atc._host.invisible import visible
from atc.errors import ToolImportError
from atc.schemas.protocol import Protocol, Source
from atc.tools.kept import KIND, MAX_NESTED, KeptProgram, LeftOut, UsedTool
from atc.tools.kept_files import KeptFile, name_problem
from atc.tools.kept_folders import ReadPlaces, read_places
from atc.tools.tool import Tool, Toolset

_MOST_WORDS = 5
"""Sources that a message names."""
_MOST_OPEN = 50
"""Kept programs that are being made at once, each because another one calls it."""


def protocol_of(kept: KeptFile) -> Protocol:
    """Return what is known of a kept program, without its effect: that is its tools' (:meth:`Tool.with_inner`)."""
    return Protocol(
        name=kept.name,
        description=kept.description,
        parameters=kept.parameters,
        returns=kept.response,
        source=Source(kind=KIND, location=str(kept.path or ""), operation=kept.name, server=KIND),
    )


def kept_tool(kept: KeptFile, tools: Toolset) -> Tool:
    """Return a kept program as a tool that calls tools of a set.

    Raises:
        ToolImportError: its name is not free, a tool that it calls is not among these, or kept programs are nested
            more than :data:`~atc.tools.kept.MAX_NESTED` deep.
    """
    return _Binder(tools, {}).bound(kept)


def with_kept(tools: Toolset, files: Iterable[KeptFile]) -> tuple[Toolset, list[LeftOut]]:
    """Return tools with kept programs that call them and each other, and those programs that cannot be among them.

    Args:
        tools: the others. Kept programs among them stay.
        files: in any order; of two of one name the first counts.
    """
    named: dict[str, KeptFile] = {}
    left = []
    for file in files:
        first = named.setdefault(file.name, file)
        if first is not file and first.path != file.path:
            left.append(_left(file, f"{_where(file)}: {_where(first)} has the same name: rename one"))
    binder = _Binder(tools, named)
    made = [tool for name in named if (tool := binder.tool(name)) is not None]
    left += [_left(named[name], reason) for name, reason in binder.reasons.items()]
    return (Toolset([*tools.values(), *made]) if made else tools), left


class _Binder:
    def __init__(self, tools: Toolset, files: Mapping[str, KeptFile]) -> None:
        self._tools, self._files = tools, files
        self._taken = {name: tool for tool in tools.values() for name in _names_of(tool)}
        self._made: dict[str, Tool] = {}
        self._open: list[str] = []
        self.reasons: dict[str, str] = {}

    def tool(self, name: str) -> Tool | None:
        """The tool of a file; ``None`` where it cannot be made, which :attr:`reasons` tells."""
        if name not in self._made and name not in self.reasons:
            self._open.append(name)
            try:
                self._made[name] = self.bound(self._files[name])
            except ToolImportError as error:
                self.reasons[name] = str(error)
            self._open.pop()
        return self._made.get(name)

    def bound(self, kept: KeptFile) -> Tool:
        """The tool of a file.

        Raises:
            ToolImportError: as :func:`kept_tool`; or it calls a program of another file that cannot be a tool.
        """
        where = _where(kept)
        if problem := name_problem(kept.name) or self._why_taken(kept.name):
            raise ToolImportError(f"{where}: {problem}")
        found = {used.name: self._found(used, where) for used in kept.uses}
        if missing := [used for used in kept.uses if found[used.name] is None]:
            raise ToolImportError(f"{where}: {_missing(missing)}")
        inner = {name: tool for name, tool in found.items() if tool is not None}
        made = Tool(protocol_of(kept), kept=KeptProgram(kept.program, kept.uses, kept.run)).with_inner(inner)
        if depth_of(made) > MAX_NESTED:
            raise ToolImportError(
                f"{where}: kept programs call each other more than {MAX_NESTED} deep: keep a run that calls the tools "
                "themselves"
            )
        return made

    def _found(self, used: UsedTool, where: str) -> Tool | None:
        """A kept program does not stand in for a tool, nor a tool for one. Raises ToolImportError."""
        if is_kept(used) and used.name in self._files:
            if used.name in self._open:
                circle = " → ".join([*self._open[self._open.index(used.name) :], used.name])
                raise ToolImportError(f"{where}: kept programs call each other in a circle: {circle}")
            if len(self._open) > _MOST_OPEN or (tool := self.tool(used.name)) is None:
                raise ToolImportError(f"{where} calls {used.name!r}, which is left out")
            return tool
        by_key = self._tools.by_source_key.get(used.source) if used.source is not None else None
        tool = self._tools.get(by_key if by_key is not None else used.name)
        return tool if tool is not None and (tool.kept is not None) == is_kept(used) else None

    def _why_taken(self, name: str) -> str:
        if (tool := self._taken.get(name)) is None:
            return ""
        label = tool.protocol.source.label
        of = f" of '{visible(label)[:80]}'" if label else ""
        return f"the tool {tool.name!r}{of} has this name: keep the run again with another one"


def shown(read: ReadPlaces) -> Toolset:
    """Return kept programs to be looked at, without the tools that they call: their effect is unknown.

    Raises:
        ToolImportError: there is none.
    """
    named = {file.name: file for file in reversed(read.files)}
    if not named:
        raise ToolImportError(_none(read.left_out))
    made = Toolset(
        Tool(protocol_of(file), kept=KeptProgram(file.program, file.uses, file.run))
        for file in reversed(named.values())
    )
    made.left_out = read.left_out
    return made


def _none(left: Sequence[LeftOut]) -> str:
    return left[0].reason if left else "no program is kept yet: `atc runs keep RUN --as NAME` keeps one"


def joined(tools: Toolset, read: ReadPlaces) -> Toolset:
    """Return tools with the kept programs that were read; :attr:`Toolset.left_out` has those that are not among them.

    Raises:
        ToolImportError: one whose file was named itself is not among them, or there is no tool at all.
    """
    made, missed = with_kept(tools, read.files)
    left = [*tools.left_out, *read.left_out, *missed]
    named = {str(path) for path in read.named}
    if asked_for := [each for each in left if each.path in named]:
        raise ToolImportError(asked_for[0].reason)
    if not made:
        raise ToolImportError(_none(left))
    made = made if made is not tools else Toolset(tools.values())
    made.left_out, made.found = tuple(left), tools.found
    return made


def import_kept(tools: Toolset, path: str | Path) -> Toolset:
    """Return tools with the kept programs of a file or a folder: see :meth:`Toolset.with_kept`.

    Raises:
        ToolImportError: a file cannot be read, is not trusted, or cannot be among these tools.
    """
    made = joined(tools, read_places([path]))
    if new := made.left_out[len(tools.left_out) :]:
        raise ToolImportError(new[0].reason)
    return made


def depth_of(tool: Tool) -> int:
    """Return how many kept programs call each other within a tool; 0 for a tool that is none."""
    depth, level = 0, {id(tool): tool} if tool.kept is not None else {}
    while level:
        depth += 1
        inner = [each for outer in level.values() for each in outer.inner.values()]
        level = {id(each): each for each in inner if each.kept is not None}
    return depth


def is_unbound(tool: Tool) -> bool:
    """Return whether a kept program stands without the tools that it calls: its effect is not known then."""
    return tool.kept is not None and bool(tool.kept.uses) and not tool.inner


def is_kept(used: UsedTool) -> bool:
    """Return whether a kept program calls another one by this name."""
    return used.source is not None and used.source.kind == KIND


def _names_of(tool: Tool) -> tuple[str, ...]:
    protocol = tool.protocol
    return protocol.name, protocol.plain_name, protocol.full_name


def _missing(used: list[UsedTool]) -> str:
    each = used[0]
    of = ""
    if each.source is not None:
        of = f" ({visible(each.source.kind)[:40]}: {visible(each.source.server)[:120]})"
    others = f" and {len(used) - 1} more" if len(used) > 1 else ""
    return f"it calls {each.name!r}{of}{others}, which is not among the tools: {where_they_are(used)}"


def where_they_are(uses: Iterable[UsedTool]) -> str:
    """Say what to write for tools to be there: ``say where they are: --tools pop.py``. Nothing is imported."""
    words = dict.fromkeys(_word_of(used) for used in uses if not is_kept(used))
    given = " ".join(f"--tools {word}" for word in [*words][:_MOST_WORDS] if word) or "--tools SOURCE"
    return f"say where they are: {given}"


def _word_of(used: UsedTool) -> str:
    kind, server = (used.source.kind, used.source.server) if used.source is not None else ("", "")
    if kind != "function":
        return shlex.quote(server) if server and visible(server) == server and Path(server[:4_000]).is_file() else ""
    module = visible(server.partition(":")[0])[:120]
    if module.split(".")[:2] == ["atc", "atlas"]:
        return "atlas"
    for name in (module, re.sub(r"_[0-9a-f]{8}$", "", module)):  # a file of a name that was taken is loaded under such
        path = Path(*name.split(".")).with_suffix(".py") if all(map(str.isidentifier, name.split("."))) else None
        if path is not None and path.is_file():
            return shlex.quote(str(path))
    which = f"the module {module}" if module != "__main__" else "the script"
    return f"FILE.py (the file of {which} that defines {visible(used.name)[:80]})"


def _where(file: KeptFile) -> str:
    return str(file.path) if file.path is not None else f"the kept program {file.name!r}"


def _left(file: KeptFile, reason: str) -> LeftOut:
    return LeftOut(file.name, str(file.path or ""), reason)

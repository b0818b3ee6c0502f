"""Tools by the names that other runtimes give them, as the plain functions that they are here.

``tools.f(…)`` and ``functions.f(…)`` as the function calling of endpoints has them; ``mcp__server__f(…)`` as the
clients of MCP do; ``call_tool("f", {…})`` as the protocol itself does. A name is read so where nothing else has it: no
variable, no input, no tool. Where it may mean several tools, none is taken.
"""

from __future__ import annotations

import ast
import keyword
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from atc._host.syntax import child_nodes
from atc.facts import Finding
from atc.programs.edits import Edit, Position, Rewrite, end_of, start_of
from atc.programs.program import Program
from atc.programs.syntax import binds
from atc.schemas.names import MAX_NAME, tool_name
from atc.schemas.protocol import Protocol, parameters_of

# ----------------------------------------------------------------------------------------------------------------------
# A program's nodes and the text between them, as the dialects need both to keep every line where it is.


class Text:
    """Holds what a dialect looks at in a program that parses.

    Args:
        program: the program.
        known: names that stand in its scope before it runs, but for the tools': its inputs.

    Attributes:
        nodes: all nodes of its tree.
        binders: how often the program gives each name a meaning, its inputs counted too.
    """

    def __init__(self, program: Program, known: Collection[str]) -> None:
        self.nodes = program.nodes
        self.binders = Counter([*known, *(name for node in self.nodes for name in binds(node))])
        self.starred = any(isinstance(node, ast.alias) and node.name == "*" for node in self.nodes)
        self._lines = [line.encode() for line in program.lines]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Return what each node stands in."""
        return {child: node for node in self.nodes for child in child_nodes(node)}

    @cached_property
    def uses(self) -> dict[str, list[ast.Name]]:
        """Return where each name stands."""
        found: dict[str, list[ast.Name]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(node)
        return found

    def line_from(self, node: ast.expr | ast.stmt) -> str:
        """Return the rest of the line on which a node begins."""
        return self._lines[node.lineno - 1][node.col_offset :].decode()

    def between(self, start: Position, end: Position) -> str:
        """Return the text between two places."""
        (first, left), (last, right) = start, end
        if first == last:
            return self._lines[first - 1][left:right].decode()
        whole = [self._lines[first - 1][left:], *self._lines[first : last - 1], self._lines[last - 1][:right]]
        return b"\n".join(whole).decode()

    def put(self, start: Position, end: Position, text: str, after: str = "") -> Edit:
        """Put a text in the place of what stands between two places; ``after`` stands behind its line ends, which
        stay."""
        return Edit(start, end, text + "\n" * (end[0] - start[0]) + after)

    def behind(self, at: Position, end: Position, sign: str) -> Position | None:
        """Return the place behind a sign that comes next, after blanks alone; ``None`` if something else does."""
        found = self.between(at, end)
        before, met, _ = found.partition(sign)
        if not met or before.strip():
            return None
        line = at[0] + before.count("\n")
        column = len(before.rpartition("\n")[2].encode()) + len(sign)
        return line, column if line > at[0] else at[1] + column


# ----------------------------------------------------------------------------------------------------------------------
# Tools by the names that other runtimes give them, as the plain functions that they are here.


HOLDERS = frozenset({"tools", "functions"})
CALLER = "call_tool"
PREFIX = "mcp__"
MAX_CANDIDATES = 5
MAX_WRITTEN = 4 * MAX_NAME
"""Characters of a name that is looked at."""
_SURROUNDED = ast.Dict | ast.Name | ast.Call


@dataclass(frozen=True)
class Reference:
    """A place where a program names a tool in one of these ways.

    Attributes:
        node: the name, the attribute, or the call of ``call_tool``.
        shown: what the program has there, in brief.
        tool: the tool that it surely means; empty where there is none.
        candidates: tools that may be meant, where none is.
        arguments: what ``call_tool`` is given for the tool.
    """

    node: ast.expr
    shown: str
    tool: str
    candidates: tuple[str, ...] = ()
    arguments: ast.expr | None = None


class ToolNames:
    """Finds which tool a name means.

    Args:
        protocols: the tools by name.
    """

    def __init__(self, protocols: Mapping[str, Protocol]) -> None:
        self._protocols = protocols
        self._servers = {name: _server(p) for name, p in protocols.items() if p.source.kind == "mcp"}
        self._named: dict[str, list[str]] = {}
        for name, protocol in protocols.items():
            for spelling in {name, tool_name(protocol.source.operation)} if protocol.source.operation else {name}:
                self._named.setdefault(spelling, []).append(name)

    def meant(self, written: str) -> tuple[str, tuple[str, ...]]:
        """Return the tool that is meant; or an empty text, and those that may be."""
        if written in self._protocols:
            return written, ()
        if len(written) > MAX_WRITTEN:
            return "", ()
        if not written.startswith(PREFIX):
            return self._one_of(self._named.get(tool_name(written), []))
        parts, candidates = written.split("__"), list[str]()
        for at in range(2, len(parts)):
            found = self._named.get(tool_name("__".join(parts[at:])), [])
            tool, several = self._one_of(self._of_server("__".join(parts[1:at]), found))
            if tool or several:
                return tool, several
            candidates += found
        return "", tuple(candidates[:MAX_CANDIDATES])

    def _of_server(self, server: str, tools: list[str]) -> list[str]:
        """Where no server is known by that name, the only one can be meant: clients have names of their own for it."""
        place, known = tool_name(server), {*self._servers.values()}
        if place not in known:
            return tools if len(known) < 2 else []
        return [tool for tool in tools if self._servers.get(tool) == place]

    @staticmethod
    def _one_of(tools: list[str]) -> tuple[str, tuple[str, ...]]:
        return (tools[0], ()) if len(tools) == 1 else ("", tuple(tools[:MAX_CANDIDATES]))


def is_form(name: str) -> bool:
    """Return whether a name is one by which other runtimes give tools."""
    return name in HOLDERS or name == CALLER or name.startswith(PREFIX)


def _server(protocol: Protocol) -> str:
    """Return the server of a tool: its own name, where it has one, stands first in its location."""
    return tool_name(protocol.source.location.partition(" (")[0])


def _references(text: Text, protocols: Mapping[str, Protocol]) -> Iterator[Reference]:
    if text.starred:
        return  # any name may be bound
    free = {name for name in (*HOLDERS, CALLER) if name not in text.binders and name not in protocols}
    names = ToolNames(protocols)
    for node in text.nodes:
        given: ast.expr | None = None
        match node:
            case ast.Attribute(value=ast.Name(id=holder), attr=written, ctx=ast.Load()) if holder in HOLDERS & free:
                shown = f"{holder}.{written}"
            case ast.Name(id=written, ctx=ast.Load()) if written.startswith(PREFIX):
                if written in text.binders or written in protocols:
                    continue
                shown = written
            case ast.Call(func=ast.Name(id=called)) if called == CALLER and CALLER in free:
                if (named := _named_in(node)) is None:
                    continue
                written, given = named
                shown = f"{CALLER}({written!r})"
            case _:
                continue
        tool, candidates = names.meant(written)
        if tool not in text.binders:
            assert isinstance(node, ast.expr)
            yield Reference(node, shown, tool, candidates, given)


def _named_in(node: ast.Call) -> tuple[str, ast.expr | None] | None:
    given = dict(zip(("name", "arguments"), node.args, strict=False))
    given |= {k.arg: k.value for k in node.keywords if k.arg in ("name", "arguments")}
    if len(given) != len(node.args) + len(node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    name = given.get("name")
    return (name.value, given.get("arguments")) if isinstance(name, ast.Constant) and type(name.value) is str else None


def rewrites(program: Program, protocols: Mapping[str, Protocol], inputs: Collection[str]) -> Iterator[Rewrite]:
    """Call the tools by their own names."""
    text = Text(program, inputs)
    for found in _references(text, protocols):
        if found.tool:
            node = found.node
            if isinstance(node, ast.Call):
                edits = _as_call(text, node, found, protocols[found.tool])
            else:
                edits = (text.put(start_of(node), end_of(node), found.tool),)
            yield Rewrite("dialect", f"line {node.lineno}: read {found.shown} as {found.tool}", edits)


def unclear(program: Program, protocols: Mapping[str, Protocol], inputs: Collection[str]) -> list[Finding]:
    """Return the names that may mean several tools, or one of another server than they say: each an error."""
    return [
        Finding(kind="unknown_tool", name=each.shown, line=each.node.lineno, instead=each.candidates)
        for each in _references(Text(program, inputs), protocols)
        if each.candidates
    ]


def _as_call(text: Text, node: ast.Call, found: Reference, protocol: Protocol) -> tuple[Edit, ...]:
    """Write ``call_tool("f", {"a": 1})`` as ``f(a=1)``; as ``f(**given)`` where the arguments are not written out."""
    start, end, given = start_of(node), end_of(node), found.arguments
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        return (text.put(start, end, f"{found.tool}(", ")"),)
    if isinstance(given, ast.Dict) and (keys := _keywords(text, given, protocol)) is not None:
        inner = given.lineno, given.col_offset + 1
        last = end_of(given)[0], end_of(given)[1] - 1
        return text.put(start, inner, f"{found.tool}("), *keys, text.put(last, end, "", ")")
    before, after = ("**", ")") if isinstance(given, _SURROUNDED) else ("**(", "))")
    return text.put(start, start_of(given), f"{found.tool}({before}"), text.put(end_of(given), end, "", after)


def _keywords(text: Text, given: ast.Dict, protocol: Protocol) -> list[Edit] | None:
    names = {parameter.original: parameter.name for parameter in parameters_of(protocol)}
    edits: list[Edit] = []
    seen: set[str] = set()
    for key, value in zip(given.keys, given.values, strict=True):
        if not isinstance(key, ast.Constant) or type(key.value) is not str:
            return None
        name = names.get(key.value, key.value)
        colon: Position | None = text.behind(end_of(key), start_of(value), ":")
        if colon is None or name in seen or not name.isidentifier() or keyword.iskeyword(name):
            return None
        seen.add(name)
        blank = text.between(colon, start_of(value))[:1] == " "
        edits.append(text.put(start_of(key), (colon[0], colon[1] + blank), f"{name}="))
    return edits

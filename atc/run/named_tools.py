"""The tools that a program names, whether a prompt showed them or not: whatever a run has can be called."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from atc.programs.edits import Edit, Rewrite, apply, end_of, start_of
from atc.programs.program import Program
from atc.programs.syntax import binds
from atc.schemas.protocol import Source
from atc.schemas.repair.spelling import spelling_key
from atc.tools.tool import Toolset

RULE = "dialect"
_BUILTINS = frozenset(dir(builtins))


class NamedTools:
    """Finds which tools a program means by the names that it binds nowhere.

    Args:
        tools: all that the run has.
    """

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools

    @cached_property
    def _spellings(self) -> dict[str, list[str]]:
        """Tools by the letters of their names, of these behind their service's, and of these without it."""
        found: dict[str, list[str]] = {}
        for name, tool in self._tools.items():
            own, source = spelling_key(name), tool.protocol.source
            keys = {own}
            for service in _names_of(source):
                keys |= {service + own, own.removeprefix(service)}
            for key in keys - {""}:
                found.setdefault(key, []).append(name)
        return found

    def of(self, program: Program, inputs: Collection[str] = (), *, spelt: bool = False) -> list[str]:
        """Return the tools whose own names the program reads and does not bind, in the order of the text.

        Args:
            program: that names them.
            inputs: names in its scope.
            spelt: also those of the same letters as a name that is called and that nothing has.
        """
        found: dict[str, None] = {}
        for node, called in self._free(program, inputs):
            if node.id in self._tools:
                found[node.id] = None
            elif spelt and called is node:
                found |= dict.fromkeys(self._alike(node.id))
        return [*found]

    def _alike(self, written: str) -> list[str]:
        key = spelling_key(written)
        return [name for name in self._spellings.get(key, ()) if spelling_key(name) == key]

    def rewritten(self, program: Program, inputs: Collection[str] = ()) -> tuple[Program, tuple[Rewrite, ...]]:
        """Return a program that calls tools by their own names, and what was changed.

        ``asana_get_projects`` and ``asana.get_projects`` mean ``get_projects`` of the service ``asana``. Where a name
        may mean several, none is taken; where it is one of the same letters, it is left to the rules of the repair.
        """
        made: list[Rewrite] = []
        for node, called in self._free(program, inputs):
            if node.id in self._tools or called is None or (called is node and self._alike(node.id)):
                continue
            written = f"{node.id}.{called.attr}" if isinstance(called, ast.Attribute) else node.id
            meant = self._spellings.get(spelling_key(written), [])
            if isinstance(called, ast.Attribute) and not meant and spelling_key(node.id) in self._services:
                meant = [
                    name for name in self._spellings.get(spelling_key(called.attr), []) if self._is_of(name, node.id)
                ]
            if len(meant) == 1:
                target = called if isinstance(called, ast.Attribute) else node
                edit = Edit(start_of(target), end_of(target), meant[0])
                made.append(Rewrite(RULE, f"line {node.lineno}: read {written} as {meant[0]}", (edit,)))
        return apply(program, made) if made else (program, ())

    @cached_property
    def _services(self) -> frozenset[str]:
        return frozenset(key for tool in self._tools.values() for key in _names_of(tool.protocol.source))

    def _is_of(self, name: str, service: str) -> bool:
        return spelling_key(service) in _names_of(self._tools[name].protocol.source)

    def _free(self, program: Program, inputs: Collection[str]) -> Iterator[tuple[ast.Name, ast.expr | None]]:
        if program.tree is None:
            return
        nodes = program.nodes
        bound = {*inputs, *(name for node in nodes for name in binds(node))}
        called: dict[int, ast.expr] = {}
        for node in nodes:
            match node:
                case ast.Call(func=ast.Name() as name):
                    called[id(name)] = name
                case ast.Call(func=ast.Attribute(value=ast.Name() as name) as attribute):
                    called[id(name)] = attribute
        for node in nodes:
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id in bound:
                continue
            if node.id in self._tools or node.id not in _BUILTINS:
                yield node, called.get(id(node))


def _names_of(source: Source) -> frozenset[str]:
    first = source.label.split()[:1]
    return frozenset(map(spelling_key, (source.label, source.prefix, source.place, *first))) - {""}


def names_in(reply: str, tools: Collection[str], program: Program | None) -> Sequence[str]:
    """Return the tools that a reply asks the documents of, where it does nothing else: by ``tool_docs``, or by a list
    of names alone. Empty for every other reply.

    Args:
        reply: the model's text.
        tools: all names.
        program: that was found in the reply.
    """
    if program is not None and program.tree is not None and (asked := _asked_in(program.tree)):
        return asked
    parsed = program is not None and program.tree is not None
    calls = program is not None and parsed and any(isinstance(node, ast.Call) for node in program.nodes)
    return [] if calls else _listed_in(reply, tools)


def _asked_in(tree: ast.Module) -> list[str]:
    found: list[str] = []
    for statement in tree.body:
        match statement:
            case ast.Expr(value=value) | ast.Assign(value=value):
                pass
            case _:
                return []
        match value:
            case ast.Call(func=ast.Name(id="print"), args=[ast.Call() as inner], keywords=[]):
                value = inner
        match value:
            case ast.Call(func=ast.Name(id="tool_docs"), args=args, keywords=keywords):
                given = [*args, *(keyword.value for keyword in keywords)]
                if any(keyword.arg != "names" for keyword in keywords):
                    return []  # such as a budget: it is right as it is
            case _:
                return []
        for each in given:
            parts = each.elts if isinstance(each, ast.List | ast.Tuple | ast.Set) else [each]
            for part in parts:
                if isinstance(part, ast.Name):
                    found.append(part.id)
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found += [part.value]
                else:
                    return []
    return found


_BETWEEN = str.maketrans(dict.fromkeys(",;[]{}()\"'`*-•:#?…\t\n\r", " "))
_WORDS = frozenset({"tool_docs", "tools", "names", "json", "python", "text"})
MAX_REPLY = 20_000
"""Characters of a reply that is looked at."""


def _listed_in(reply: str, tools: Collection[str]) -> list[str]:
    """Return the names of a list in any form; empty where anything else is said, or something is called or set."""
    if len(reply) > MAX_REPLY or "=" in reply:
        return []
    lines = [_without_arguments(line) for line in reply.splitlines()]
    words = [word for line in lines for word in line.translate(_BETWEEN).split()]
    names = [word for word in words if word not in _WORDS and not word.rstrip(".").isdigit()]
    return [*dict.fromkeys(names)] if names and all(name in tools for name in names) else []


def _without_arguments(line: str) -> str:
    """Return a line of the list without the arguments: ``name(argument, optional?)`` is a name and no call."""
    before, opened, inner = line.partition("(")
    arguments = inner.rpartition(")")[0]
    copied = bool(opened) and ("?" in arguments or "…" in arguments)
    return before if copied else line

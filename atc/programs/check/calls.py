"""Finds what is wrong in the calls of tools that a program makes, by the tools' schemas.

An argument is held to its schema as the broker will hold it: after the repairs that the broker makes. An error is what
no call of this form could get through. An argument that is a part of a response is left to the run: only it shows what
that is, and a call that is refused for it says which part it was.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from atc._host.syntax import child_nodes, walk
from atc._records.records import FindingKind, Severity
from atc._records.rules import DEFAULT, Rules
from atc.facts import Finding
from atc.programs.analysis.builtins import not_paged
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import ToolCall
from atc.programs.syntax import binds, names_in, reads_one_of
from atc.result import Effect
from atc.schemas.identifiers import VERBS, words_of
from atc.schemas.protocol import JsonSchema, Parameter, Protocol, original_arguments, parameters_of
from atc.schemas.reading import allows_more
from atc.schemas.repair import SPELLING, repair_arguments
from atc.schemas.repair.places import Place
from atc.schemas.repair.spelling import respelt, spelling_key
from atc.schemas.validate import problems
from atc.tools.paging import ALL_PAGES, paging_of

# ----------------------------------------------------------------------------------------------------------------------
# The names of a program: which it binds, and which one a name that is nowhere bound can only mean.


GIVEN = frozenset({*dir(builtins), "ToolError", "parallel", ALL_PAGES})
"""Names that every program finds in its scope."""
_BINDERS = frozenset({"globals", "vars", "exec"})
"""Built-ins by which a program may bind names that stand nowhere in it."""
MOST_HINTS, MOST_CANDIDATES = 20, 1_000
"""Unknown names that are compared with known ones, and known ones: a hostile program has thousands of both."""


class Names:
    """The names of one program.

    Args:
        tree: the program.
        tools: the names of the tools.
        inputs: the names of the values that stand in its scope before it runs.
    """

    def __init__(self, tree: ast.AST, tools: Collection[str], inputs: Collection[str] = ()) -> None:
        nodes = walk(tree)
        self._tree = tree
        self._tools = frozenset(tools)
        self._bound = {*inputs, *(name for node in nodes for name in binds(node))}
        self._functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self._starred = any(isinstance(node, ast.alias) and node.name == "*" for node in nodes)
        known = self._bound | self._tools | GIVEN
        self._unknown = [
            node
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known
        ]
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self._called = {id(node): id(node) in called for node in self._unknown}
        self._hints: dict[str, str | None] = {}

    def misspelt(self) -> Iterator[tuple[ast.Name, str]]:
        """Yield names that nothing binds, each with the one bound name or tool of the same letters.

        What is called is a tool or a function of the program's own. Nothing is sure where a module gave all its names.
        """
        if not self._unknown or self._starred:
            return
        callable_, any_ = _by_spelling(self._functions | self._tools), _by_spelling(self._bound | self._tools)
        for node in self._unknown:
            alike = (callable_ if self._called[id(node)] else any_).get(spelling_key(node.id), [])
            if len(alike) == 1 and spelling_key(node.id):
                yield node, alike[0]

    def nowhere(self) -> Iterator[ast.Name]:
        """Yield names that a run looks up and that nothing binds; none where a program may bind names in ways unseen.

        Left out are ``answer``, which the program lacks as a whole then, and names that Python itself gives a scope.
        """
        if not self._unknown or self._starred or reads_one_of(self._tree, _BINDERS):
            return
        read = _looked_up(self._tree)
        for node in self._unknown:
            if node in read and node.id != "answer" and not (node.id.startswith("__") and node.id.endswith("__")):
                yield node

    def nearest(self, name: str) -> str | None:
        """Return what a name that nothing binds may have been meant to be: a tool if it is called, else a variable."""
        if name not in self._hints and len(self._hints) < MOST_HINTS:
            called = any(node.id == name and self._called[id(node)] for node in self._unknown)
            candidates = sorted(self._tools if called else self._bound - {name})[:MOST_CANDIDATES]
            self._hints[name] = next(iter(difflib.get_close_matches(name, candidates, 1, 0.6)), None)
        return self._hints.get(name)


def _by_spelling(names: Iterable[str]) -> Mapping[str, list[str]]:
    found = defaultdict(list)
    for name in names:
        found[spelling_key(name)].append(name)
    return found


def _looked_up(tree: ast.AST) -> set[ast.Name]:
    """Annotations are all left behind ``from __future__ import annotations`` and from Python 3.14 on, and those of
    variables in functions always."""
    imports = (node for node in child_nodes(tree) if isinstance(node, ast.ImportFrom))
    futures = {alias.name for node in imports if node.module == "__future__" for alias in node.names}
    deferred = sys.version_info >= (3, 14) or "annotations" in futures
    found: set[ast.Name] = set()
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, local = todo.pop()
        if isinstance(node, ast.Name):
            found.add(node)
        local = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            local and not isinstance(node, ast.ClassDef)
        )
        left = {"annotation", "returns"} if deferred or (local and isinstance(node, ast.AnnAssign)) else set()
        if isinstance(node, ast.Try) and any("NameError" in names_in(handler) for handler in node.handlers):
            left.add("body")
        for field, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            todo += [(part, local) for part in parts if isinstance(part, ast.AST) and field not in left]
    return found


# ----------------------------------------------------------------------------------------------------------------------
# What is wrong in the calls of tools that a program makes, by the tools' schemas.


NOT_LITERAL = object()
_JSON_TYPES: Mapping[type, set[str]] = {
    bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, str: {"string"}, bytes: {"string"},
    list: {"array"}, tuple: {"array"}, dict: {"object"}, type(None): {"null"},
}  # fmt: skip


def call_findings(flow: Flow, protocols: Mapping[str, Protocol], rules: Rules = DEFAULT) -> list[Finding]:
    """Return the findings of all calls, in the order in which they stand.

    Args:
        flow: the program.
        protocols: the tools by name.
        rules: the ids of the rules that are on (:mod:`atc._records.rules`).
    """
    found = []
    for call in flow.calls.values():
        if call.direct:
            protocol = protocols[call.tool]
            alike = protocols if "similar-tool" in rules else {}
            found += [*_names(call, protocol, alike, rules), *_literals(call, protocol, rules)]
    return [*found, *not_paged(flow)]


def literal_arguments(
    call: ToolCall, protocol: Protocol, behind: Callable[[ast.expr], ast.expr] = lambda node: node
) -> dict[str, Any]:
    """Return arguments by name; one that is no literal is :data:`NOT_LITERAL`. What ``*`` or ``**`` hides is left out.

    ``behind`` gives what stands behind an expression that names a literal.
    """
    given: dict[str, Any] = {}
    for name, node in written(call, parameters_of(protocol)):
        try:
            given[name] = ast.literal_eval(behind(node))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            given[name] = NOT_LITERAL
    return given


def written(call: ToolCall, parameters: list[Parameter]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arguments that are written out, by name."""
    for parameter, node in zip(parameters, call.node.args, strict=False):
        if isinstance(node, ast.Starred):
            break
        yield parameter.name, node
    yield from ((keyword.arg, keyword.value) for keyword in call.node.keywords if keyword.arg is not None)


def _names(call: ToolCall, protocol: Protocol, protocols: Mapping[str, Protocol], rules: Rules) -> Iterator[Finding]:
    parameters, node = parameters_of(protocol), call.node
    names = [parameter.name for parameter in parameters]
    known = {*names, *(parameter.original for parameter in parameters)}
    hidden = any(isinstance(part, ast.Starred) for part in node.args) or any(k.arg is None for k in node.keywords)
    meant = _meant(call, protocol, rules)
    for keyword in node.keywords:
        if keyword.arg is not None and keyword.arg not in {*known, *meant} and not _takes_more(protocol):
            kin = _kin(protocol, keyword.arg, protocols)
            severity = "error" if _excludes(protocol) else "warning"
            facts = {"name": keyword.arg, "known": tuple(names), "instead": tuple(kin), "severity": severity}
            yield _finding("unknown_argument", call, **facts)
    if len(node.args) > len(names) and not hidden:
        yield _finding("unknown_argument", call, case="too_many", known=tuple(names))
    given = {name for name, _ in written(call, parameters)} | {*meant.values()}
    paging = paging_of(protocol) if call.paged else None
    turned = {paging.parameter} if paging is not None and paging.first is not None else set()  # it is set for each page
    lacks = [p for p in parameters if p.required and not {p.name, p.original} & given and p.original not in turned]
    if lacks and not hidden:
        yield _finding("missing_argument", call, arguments=tuple(p.name for p in lacks))


def _meant(call: ToolCall, protocol: Protocol, rules: Rules) -> dict[str, str]:
    if SPELLING not in rules:
        return {}
    parameters = parameters_of(protocol)
    names = {name: p.original for p in parameters for name in (p.name, p.original)}
    given = [name for name, _ in written(call, parameters)]
    strict = protocol.effect is not Effect.READ
    return respelt(
        [name for name in given if name not in names],
        [p.original for p in parameters],
        {names[name] for name in given if name in names},
        protocol.required,
        strict=strict,
        endings=not strict,
    )


def _kin(protocol: Protocol, argument: str, protocols: Mapping[str, Protocol]) -> list[str]:
    """Return tools like this one that have such an argument: of several alike, the wrong one was taken."""
    words = set(words_of(protocol.name)) - VERBS
    alike = {
        other.name: len(words.intersection(words_of(other.name)))
        for other in protocols.values()
        if argument in (parameter.name for parameter in parameters_of(other))
    }
    return sorted((name for name, count in alike.items() if count), key=lambda name: -alike[name])[:2]


def _takes_more(protocol: Protocol) -> bool:
    return allows_more(protocol.parameters)


def _excludes(protocol: Protocol) -> bool:
    """Return whether an argument that a tool does not list is refused, by its schema or, for a write, by the gate."""
    return protocol.parameters.get("additionalProperties") is False or protocol.effect is not Effect.READ


def _literals(call: ToolCall, protocol: Protocol, rules: Rules) -> Iterator[Finding]:
    given = {name: value for name, value in literal_arguments(call, protocol).items() if value is not NOT_LITERAL}
    if not _is_json(given):
        return  # dates, sets: what becomes of them is not decided here
    asked = original_arguments(protocol, given)
    arguments = repair_arguments(protocol.parameters, asked, protocol.effect, rules=rules).arguments
    names = {parameter.original: parameter.name for parameter in parameters_of(protocol)}
    for original, value in arguments.items():
        schema = _schema(protocol, original)
        if not (found := problems(schema, value)):
            continue
        kind: FindingKind = "not_in_enum" if found[0].keyword in ("enum", "const") else "wrong_type"
        certain = protocol.effect is not Effect.READ or _is_of_another_type(protocol, schema, value)
        severity: Severity = "error" if certain or any(each.keyword == "type" for each in found) else "warning"
        facts = {"arguments": (names.get(original, original),), "value": value, "reason": found[0].message}
        yield _finding(kind, call, case="literal", severity=severity, **facts)


def _is_of_another_type(protocol: Protocol, schema: JsonSchema, value: Any) -> bool:
    options = [place.types for place in Place(protocol.parameters, "", schema).alternatives]
    return bool(options) and all(options) and _JSON_TYPES[type(value)].isdisjoint(set[str]().union(*options))


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    if isinstance(value, int):
        return value.bit_length() <= 14_000  # Python reads and writes no decimal of more than 4,300 digits
    return value is None or isinstance(value, str | float | bytes)


def _schema(protocol: Protocol, original: str) -> dict[str, Any]:
    schema = protocol.parameters.get("properties", {}).get(original, {})
    definitions = protocol.parameters.get("$defs", {})
    return {**schema, "$defs": definitions} if isinstance(schema, dict) else {}


def _finding(kind: FindingKind, call: ToolCall, **facts: Any) -> Finding:
    return Finding(kind=kind, line=call.node.lineno, tool=call.tool, **facts)

"""Provenance: identifiers and addresses in a program that neither the task nor a response gave. All are warnings.

A small model writes a likely value where it would have to ask for the true one; a service that believes it books the
wrong thing, or writes to a stranger. The value is named in no message: a small model copies what it reads there.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping

from atc._host.syntax import walk
from atc._records.records import FindingKind
from atc._records.rules import DEFAULT, Rules
from atc.catalogue.graph.suppliers import fields_of, places_of
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.facts import Finding
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import ToolCall
from atc.programs.check.calls import NOT_LITERAL, literal_arguments, written
from atc.programs.words import has_word
from atc.result import Effect
from atc.schemas.identifiers import HANDED_OUT, THINGS, is_identifier, words_of
from atc.schemas.protocol import MAX_DESCRIPTION, JsonSchema, Protocol, parameters_of
from atc.schemas.repair.places import Place

_RULES = {"invented_id": "invented-id", "name_for_id": "name-for-id"}
"""The rule of each kind of finding about an argument."""
_LISTED = re.compile(r"[,;\s]+")
MOST_ITEMS = 100
"""Items of a list that are sought."""
SHORTEST_ID = 4
"""Characters of the last part of a path that is found again; shorter ones stand in any text by chance."""
_KEYWORD = re.compile(r"""(?i)(?:(?:e\.?g\.?|example|instance|such as|like)[ :,]*["'`]\w+)|["'`](\w+)["'`]""")
"""A word that a description quotes, and not as an example."""
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
Path = tuple[str, ...]


def provenance_findings(
    tree: ast.Module,
    flow: Flow,
    protocols: Mapping[str, Protocol],
    graph: ToolGraph,
    known: str,
    rules: Rules = DEFAULT,
) -> list[Finding]:
    """Return identifiers and e-mail addresses that nobody gave (``invented_id``), and names of the task where an id is
    wanted. A model may know some of them, and a service may know things by name.

    Args:
        tree: the program. ``flow``: the values in it.
        protocols: the tools by name. ``graph``: says which response supplies a parameter.
        known: the task and all that tools have answered, in lower case.
        rules: the ids of the rules that are on (:mod:`atc._records.rules`).
    """
    nodes = walk(tree)
    named = _Named(nodes)
    found = [
        finding
        for call in flow.calls.values()
        if call.direct
        for finding in _of_call(call, protocols, graph, known, named)
    ]
    found = [finding for finding in found if _RULES[finding.kind] in rules]
    addresses = list(_addresses(nodes, protocols, known)) if "invented-address" in rules else []
    return found + addresses


class _Named:
    """The expressions that a program gives a name, once: ``lines = [{"product_id": 6}]``.

    Args:
        nodes: of the program.
    """

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        times: Counter[str] = Counter()
        self._values: dict[str, ast.expr] = {}
        for node in nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    times[name] += 1
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._values[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._values[name] = value
        self._values = {name: value for name, value in self._values.items() if times[name] == 1}

    def behind(self, node: ast.expr) -> ast.expr:
        """Return what stands behind a name that is given a value once; any other expression itself."""
        return self._values.get(node.id, node) if isinstance(node, ast.Name) else node


def _of_call(
    call: ToolCall, protocols: Mapping[str, Protocol], graph: ToolGraph, known: str, named: _Named
) -> Iterator[Finding]:
    line, sources, protocol = call.node.lineno, graph.hints.get(call.tool, {}), protocols[call.tool]
    arguments = literal_arguments(call, protocol, named.behind)
    # a null makes nothing up: it says that there is none
    given = {n: value for n, value in arguments.items() if n in sources and value not in (None, NOT_LITERAL)}
    schemas = {parameter.name: parameter.schema for parameter in parameters_of(protocol)} if given else {}
    given = {n: value for n, value in given.items() if not _is_documented(value, protocol, schemas.get(n, {}))}
    for name, value in given.items():
        kind: FindingKind
        if not _is_given(value, known):
            kind, odd = "invented_id", is_identifier(name, THINGS | HANDED_OUT)
        else:
            kind, odd = "name_for_id", is_identifier(name, THINGS) and _is_proper_name(value)
        if odd:
            yield Finding(
                kind=kind, severity="warning", line=line, tool=call.tool, arguments=(name,), sources=(sources[name],)
            )
    yield from _inside(call, protocol, graph, sources, known, named)


def _inside(
    call: ToolCall,
    protocol: Protocol,
    graph: ToolGraph,
    sources: Container[str],
    known: str,
    named: _Named,
) -> Iterator[Finding]:
    """One for each field of an argument, in those fields alone that a response supplies."""
    for name, given in written(call, parameters_of(protocol)):
        node = named.behind(given)
        if name not in sources or isinstance(node, ast.Constant):
            continue
        hints = graph.hints_inside.get((call.tool, name), {})
        hints = {at: hint for at, hint in hints.items() if at and is_identifier(_last(at), THINGS | HANDED_OUT)}
        schemas: dict[Path, list[JsonSchema]] = {}
        original = next(each.original for each in parameters_of(protocol) if each.name == name)
        for place in places_of(protocol.parameters) if hints else ():
            schemas.setdefault(place.path, []).append(place.schema)
        for at, value in _literals(node) if hints else ():
            documents = schemas.get((original, *at), ())
            if at not in hints or _is_given(value, known):
                continue
            if not any(_is_documented(value, protocol, document) for document in documents):
                yield Finding(
                    kind="invented_id",
                    severity="warning",
                    line=call.node.lineno,
                    tool=call.tool,
                    arguments=(name,),
                    sources=(hints.pop(at),),
                    name=".".join((name, *(step for step in at if step != "[]"))),
                )


def _literals(node: ast.expr) -> Iterator[tuple[Path, object]]:
    todo: list[tuple[Path, ast.expr]] = [((), node)]
    while todo:
        path, part = todo.pop()
        match part:
            case ast.List() | ast.Tuple() | ast.Set():
                todo += [((*path, "[]"), item) for item in reversed(part.elts[:MOST_ITEMS])]
            case ast.ListComp():
                todo.append(((*path, "[]"), part.elt))
            case ast.Dict():
                named = zip(part.keys, part.values, strict=True)
                todo += [((*path, str(key.value)), item) for key, item in named if isinstance(key, ast.Constant)][::-1]
            case ast.Call(func=ast.Name(id="dict"), args=[]):
                todo += [((*path, each.arg), each.value) for each in reversed(part.keywords) if each.arg is not None]
            case ast.Constant() | ast.UnaryOp():
                with contextlib.suppress(ValueError, TypeError):
                    if (value := ast.literal_eval(part)) is not None:
                        yield path, value


def _last(path: Path) -> str:
    return next((step for step in reversed(path) if step != "[]"), "")


def _is_documented(value: object, protocol: Protocol, schema: JsonSchema) -> bool:
    """A word may have a meaning of its own (``primary``, ``me``). An example's id is somebody else's thing."""
    whole = Place(protocol.parameters, "", schema)
    places = [whole, *whole.alternatives]
    if any(value in [*place.values, place.schema.get("default")] for place in places):
        return True
    texts = [str(place.schema.get("description", ""))[:MAX_DESCRIPTION] for place in places]
    return isinstance(value, str) and value.isalpha() and any(value in _KEYWORD.findall(text) for text in texts)


def _is_proper_name(value: object) -> bool:
    return isinstance(value, str) and value[:1].isupper() and not value.isupper() and value.replace(" ", "").isalpha()


def _is_given(value: object, known: str) -> bool:
    """Return whether a value stands in what is known as a word of its own, each item of a list by itself: without a
    sign, for the task may say west; of a path or a URI also its last part, which is the id (``gid://shop/Order/5912``).
    """
    if isinstance(value, list | tuple):
        return all(_is_given(item, known) for item in value[:MOST_ITEMS])
    spelled = str(value).casefold().lstrip("-")
    if has_word(known, spelled):
        return True
    parts = [part for part in _LISTED.split(spelled, MOST_ITEMS)[:MOST_ITEMS] if part]
    if len(parts) > 1:
        return all(_is_given(part, known) for part in parts)
    _, separator, last = re.sub(r"[:#]", "/", spelled).rpartition("/")
    return bool(separator) and len(last) >= SHORTEST_ID and has_word(known, last)


def _addresses(nodes: Iterable[ast.AST], protocols: Mapping[str, Protocol], known: str) -> Iterator[Finding]:
    for node, address in addresses_in(nodes):
        if address.casefold() in known:
            continue
        tellers = [name for name, protocol in protocols.items() if _tells_addresses(protocol)]
        tellers.sort(key=lambda name: "address" not in words_of(name))
        yield Finding(
            kind="invented_id", case="address", severity="warning", line=node.lineno, instead=tuple(tellers[:2])
        )


def addresses_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """Yield the texts of a program that are an e-mail address each, with the address."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _ADDRESS.fullmatch(node.value.strip()):
            yield node, node.value.strip()


def _tells_addresses(protocol: Protocol) -> bool:
    names = [protocol.name, *(path[-1] for path in fields_of(protocol.returns))]
    return protocol.effect is Effect.READ and any({"email", "mail"} & set(words_of(name)) for name in names)

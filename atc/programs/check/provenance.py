"""What a program has out of thin air: identifiers and addresses that neither the task nor a response gave.

A small model writes a likely value where it would have to ask for the true one; a service that believes it books the
wrong thing, or writes to a stranger. The value is named in no message: a small model copies what it reads there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from atc.graph.name_affinity import words_of
from atc.graph.suppliers import COORDINATES, fields_of
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import ToolCall
from atc.programs.check.calls import NOT_LITERAL, literal_arguments
from atc.programs.check.coverage import FROM_MEMORY, NAME_FOR_ID
from atc.programs.rules import DEFAULT, Rules
from atc.result import Effect, Finding
from atc.tools.protocol import Protocol

HANDED_OUT = ("id", "slug", "token")
"""Endings of the names of what nobody can know who was not told."""
_RULES = {"invented_id": "invented-id", FROM_MEMORY: "coordinate-from-memory", NAME_FOR_ID: "name-for-id"}
"""The rule of each kind of finding about an argument."""
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def invented(
    tree: ast.Module,
    flow: Flow,
    protocols: Mapping[str, Protocol],
    hints: Mapping[str, Mapping[str, str]],
    known: str,
    rules: Rules = DEFAULT,
) -> list[Finding]:
    """Identifiers and e-mail addresses that are made up (``invented_id``), and two doubts: a coordinate from memory,
    and a name of the task where an id is wanted, which a service may know things by.

    Args:
        tree: the program. ``flow``: the values in it.
        protocols: the tools by name. ``hints``: of a tool's parameter, which response supplies it.
        known: the task and all that tools have answered, in lower case.
        rules: the ids of the rules that are on (:mod:`atc.programs.rules`).
    """
    found = [
        finding for call in flow.calls.values() if call.direct for finding in _of_call(call, protocols, hints, known)
    ]
    found = [finding for finding in found if _RULES[finding.kind] in rules]
    return found + (list(_addresses(tree, protocols, known)) if "invented-address" in rules else [])


def _of_call(
    call: ToolCall, protocols: Mapping[str, Protocol], hints: Mapping[str, Mapping[str, str]], known: str
) -> Iterator[Finding]:
    line, sources = call.node.lineno, hints.get(call.tool, {})
    arguments = literal_arguments(call, protocols[call.tool])
    # a null makes nothing up: it says that there is none
    given = {n: value for n, value in arguments.items() if n in sources and value not in (None, NOT_LITERAL)}
    unheard = [name for name, value in given.items() if _spelled(value) not in known]
    for name in unheard:
        if name.lower().endswith(HANDED_OUT):
            text = f"line {line}: the {name} given to {call.tool} is made up: take it {sources[name]}"
            yield Finding(kind="invented_id", message=text, line=line, tool=call.tool)
    if places := [name for name in unheard if COORDINATES.intersection(words_of(name))]:
        ways = "; ".join(f"take {name} {sources[name]}" for name in places)
        text = f"what {call.tool} is given as {' and '.join(places)} is from memory: {ways}"
        yield Finding(kind=FROM_MEMORY, message=text, line=line, tool=call.tool)
    for name, value in given.items():
        if name not in unheard and name.lower().endswith("id") and _is_proper_name(value):
            text = f"{name} of {call.tool} is an id, and a name is given: take it {sources[name]}"
            yield Finding(kind=NAME_FOR_ID, message=text, line=line, tool=call.tool)


def _is_proper_name(value: object) -> bool:
    """Whether a text is written as the names of people and places are: ``New York``."""
    return isinstance(value, str) and value[:1].isupper() and not value.isupper() and value.replace(" ", "").isalpha()


def _spelled(value: object) -> str:
    """As it would stand in a task: without a sign, for the task may say west."""
    return str(value).casefold().lstrip("-")


def _addresses(tree: ast.Module, protocols: Mapping[str, Protocol], known: str) -> Iterator[Finding]:
    """E-mail addresses, wherever they stand in the program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _ADDRESS.fullmatch(node.value.strip()):
            if node.value.strip().casefold() in known:
                continue
            tellers = [name for name, protocol in protocols.items() if _tells_addresses(protocol)]
            tellers.sort(key=lambda name: "address" not in words_of(name))
            way = f"{' or '.join(tellers[:2])} may tell it" if tellers else "the task gives none"
            text = f"line {node.lineno}: an e-mail address in the program is made up: {way}"
            yield Finding(kind="invented_id", message=text, line=node.lineno)


def _tells_addresses(protocol: Protocol) -> bool:
    names = [protocol.name, *(path[-1] for path in fields_of(protocol.returns))]
    return protocol.effect is Effect.READ and any({"email", "mail"} & set(words_of(name)) for name in names)

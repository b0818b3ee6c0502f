"""What is wrong with the demonstrations of a document, read off the document alone.

Four mistakes teach a reader wrongly:

* a **question that names a tool**: no user asks "What does get_city(city_id=1) return?";
* a **tautology**: a helper is asked for what it is given, and that is read off its answer:
  ``x = get_city(city_id=1)``, ``airports_near(city_id=x['city_id'])``;
* a program that goes **backwards**: what a user knows, a name, is read off an answer and then looked up:
  ``x = get_country(code='AS')``, ``find_countries(name=x['name'])``;
* a program that **writes an identifier out** that only tools know: ``get_city(city_id=2988507)``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atc.probing.candidates import is_word
from atc.probing.demonstrations import unknowable
from atc.probing.descriptions import named_tools
from atc.schemas.protocol import Example, Protocol, parameters_of


@dataclass(frozen=True)
class Audit:
    """The demonstrations of some documents.

    Attributes:
        documented: tools. ``demonstrated``: programs. ``chained``: of these, those that call more than one tool.
        naming, tautologies, backwards, unknowable: the tools whose demonstration makes the mistake.
    """

    documented: int
    demonstrated: int
    chained: int
    naming: tuple[str, ...]
    tautologies: tuple[str, ...]
    backwards: tuple[str, ...]
    unknowable: tuple[str, ...]

    def figures(self) -> dict[str, int]:
        """The counts."""
        return {name: value if isinstance(value, int) else len(value) for name, value in vars(self).items()}


def audit(protocols: Sequence[Protocol]) -> Audit:
    """Look through every demonstration of these documents."""
    names = [protocol.name for protocol in protocols]
    shown = [(each, example) for each in protocols for example in each.examples if example.program]
    calls = {id(example): _calls(example.program, names) for _, example in shown}
    known = {each.name: each for each in protocols}
    return Audit(
        documented=len(protocols),
        demonstrated=len(shown),
        chained=sum(len(calls[id(example)]) > 1 for _, example in shown),
        naming=tuple(each.name for each, example in shown if named_tools(example.description, names)),
        tautologies=tuple(each.name for each, one in shown if is_tautology(one, calls[id(one)], known)),
        backwards=tuple(each.name for each, one in shown if is_backwards(calls[id(one)])),
        unknowable=tuple(each.name for each, one in shown if writes_an_identifier(calls[id(one)])),
    )


@dataclass(frozen=True)
class Call:
    """A call of a program: what its result is called, and its arguments as they are written."""

    target: str
    tool: str
    arguments: Mapping[str, ast.expr]

    def helpers(self, name: str, before: Sequence[Call]) -> list[Call]:
        """The calls that an argument is read from."""
        used = {node.id for node in ast.walk(self.arguments[name]) if isinstance(node, ast.Name)}
        return [call for call in before if call.target in used]


def _calls(program: str, names: Sequence[str]) -> list[Call]:
    made = []
    for node in ast.parse(program).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Name) and function.id in names:
                given = {each.arg: each.value for each in node.value.keywords if each.arg}
                made.append(Call(node.targets[0].id, function.id, given))
    return made


def is_tautology(example: Example, calls: Sequence[Call], known: Mapping[str, Protocol]) -> bool:
    """Whether a value that a helper was given is read off its answer.

    Of the last call the values are known; of those before it, the name of the field is compared with the argument's.
    """
    for at, call in enumerate(calls):
        originals = {parameter.name: parameter.original for parameter in parameters_of(known[call.tool])}
        for name, written in call.arguments.items():
            value = example.arguments.get(originals.get(name, name)) if at == len(calls) - 1 else None
            for helper in call.helpers(name, calls[:at]):
                given = {key: each.value for key, each in helper.arguments.items() if isinstance(each, ast.Constant)}
                if (value is not None and value in given.values()) or _last_key(written) in given:
                    return True
    return False


def is_backwards(calls: Sequence[Call]) -> bool:
    """Whether a word that a user knows is read off an answer."""
    return any(
        is_word(name) and call.helpers(name, calls[:at]) for at, call in enumerate(calls) for name in call.arguments
    )


def writes_an_identifier(calls: Sequence[Call]) -> bool:
    """Whether a program begins with what only tools know."""
    given = [(name, each) for call in calls for name, each in call.arguments.items() if isinstance(each, ast.Constant)]
    return any(unknowable(name, each.value) for name, each in given)


def _last_key(written: ast.expr) -> Any:
    return (
        written.slice.value if isinstance(written, ast.Subscript) and isinstance(written.slice, ast.Constant) else None
    )

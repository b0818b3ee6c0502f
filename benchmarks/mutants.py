"""Programs with one mistake each, made from correct ones by changes of their syntax trees."""

from __future__ import annotations

import ast
import copy
import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atc.schemas.validate import types_of
from atc.tools.protocol import Protocol

Protocols = Mapping[str, Protocol]


@dataclass(frozen=True)
class Mutant:
    """A program with one mistake: its kind, the program it was made from, and what was changed."""

    kind: str
    base: str
    source: str
    change: str


def mutants(base: str, source: str, protocols: Protocols) -> Iterator[Mutant]:
    """All mutants of a correct program over tools."""
    for kind, mutate in _KINDS.items():
        for tree, change in mutate(ast.parse(source), protocols):
            yield Mutant(kind, base, ast.unparse(ast.fix_missing_locations(tree)) + "\n", change)


def field_mutants(kind: str, base: str, source: str, protocols: Protocols) -> Iterator[Mutant]:
    """Only those that ask a response for a field under a wrong name."""
    for tree, change in _renamed_field(ast.parse(source), protocols):
        yield Mutant(kind, base, ast.unparse(ast.fix_missing_locations(tree)) + "\n", change)


_Changed = Iterator[tuple[ast.Module, str]]


def _sites(tree: ast.Module, wanted: Callable[[ast.AST], bool]) -> Iterator[tuple[ast.Module, Any]]:
    """For every node that is wanted a copy of the tree, with that node in the copy."""
    for index, node in enumerate(ast.walk(tree)):
        if wanted(node):
            changed = copy.deepcopy(tree)
            yield changed, next(itertools.islice(ast.walk(changed), index, None))


def _tool_calls(tree: ast.Module, protocols: Protocols) -> Iterator[tuple[ast.Module, ast.Call]]:
    return _sites(tree, lambda n: isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in protocols)


def _keywords(
    tree: ast.Module, protocols: Protocols
) -> Iterator[tuple[ast.Module, ast.Call, ast.keyword, dict[str, Any]]]:
    """For every keyword argument of a tool a copy of the tree, with the call, the argument and its schema."""
    count = max((len(n.keywords) for n in ast.walk(tree) if isinstance(n, ast.Call)), default=0)
    for index in range(count):
        for changed, call in _tool_calls(tree, protocols):
            assert isinstance(call.func, ast.Name)
            if index < len(call.keywords):
                keyword = call.keywords[index]
                schema = protocols[call.func.id].parameters["properties"].get(keyword.arg, {})
                yield changed, call, keyword, schema


# Arguments ----------------------------------------------------------------------------------------------------------


def _renamed_argument(tree: ast.Module, protocols: Protocols) -> _Changed:
    """Names that the broker does not read as the parameter's: other words, not another spelling."""
    for number, (changed, call, keyword, _) in enumerate(_keywords(tree, protocols)):
        name = keyword.arg or ""
        keyword.arg = (f"{name}_given", f"{name}_value", f"{name}_text", f"x{name[:2]}")[number % 4]
        if keyword.arg != name and keyword.arg not in protocols[_tool(call)].parameters["properties"]:
            yield changed, f"{name} → {keyword.arg}"


def _dropped_argument(tree: ast.Module, protocols: Protocols) -> _Changed:
    for changed, call, keyword, _ in _keywords(tree, protocols):
        if keyword.arg in protocols[_tool(call)].required:
            call.keywords.remove(keyword)
            yield changed, f"{_tool(call)}: {keyword.arg} dropped"


def _extra_argument(tree: ast.Module, protocols: Protocols) -> _Changed:
    extra = ("verbose", "language", "output_format", "timeout")
    for number, (changed, call) in enumerate(_tool_calls(tree, protocols)):
        name = extra[number % len(extra)]
        call.keywords.append(ast.keyword(name, ast.Constant("en" if number % 2 else True)))
        yield changed, f"{_tool(call)}: {name} added"


def _wrong_type(tree: ast.Module, protocols: Protocols) -> _Changed:
    """Types that the broker does not mend: containers of two for scalars, words for numbers, truth values for texts."""
    for number, (changed, call, keyword, schema) in enumerate(_keywords(tree, protocols)):
        types = {name for part in schema.get("anyOf", [schema]) for name in types_of(part)} - {"null"}
        value = keyword.value
        wrong: list[ast.expr] = [
            ast.List([value, value], ast.Load()),
            ast.Dict([ast.Constant("this"), ast.Constant("that")], [value, value]),
            ast.Constant(True) if "string" in types else ast.Constant("a lot"),
            value.value if isinstance(value, ast.Subscript) else ast.Tuple([value, value], ast.Load()),
        ]
        keyword.value = wrong[number % len(wrong)]
        yield changed, f"{_tool(call)}: {keyword.arg}={ast.unparse(keyword.value)}"


def _outside_enum(tree: ast.Module, protocols: Protocols) -> _Changed:
    """A call with a word that its enumeration does not have, put before the program."""
    for name, protocol in protocols.items():
        for argument, schema in protocol.parameters["properties"].items():
            if any("enum" in part for part in schema.get("anyOf", [schema])) and len(protocol.required) <= 1:
                changed = copy.deepcopy(tree)
                wrong = ("Europe", "distance", "open", "north")[len(ast.dump(tree)) % 4]
                call = ast.Call(ast.Name(name, ast.Load()), [], [ast.keyword(argument, ast.Constant(wrong))])
                changed.body.insert(0, ast.Assign([ast.Name("listed", ast.Store())], call))
                yield changed, f"{name}({argument}={wrong!r})"


def _outside_pattern(tree: ast.Module, protocols: Protocols) -> _Changed:
    for changed, call, keyword, schema in _keywords(tree, protocols):
        if isinstance(keyword.value, ast.Constant) and any("pattern" in p for p in schema.get("anyOf", [schema])):
            keyword.value = ast.Constant("the first one")
            yield changed, f"{_tool(call)}: {keyword.arg}='the first one'"


# Fields and names ----------------------------------------------------------------------------------------------------


def _renamed_field(tree: ast.Module, protocols: Protocols) -> _Changed:
    def reads(node: ast.AST) -> bool:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            return False
        return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)

    for number, (changed, node) in enumerate(_sites(tree, reads)):
        key = node.slice.value
        others = (_camel(key), f"{key}s", f"{key}_value", key.split("_")[-1], f"the_{key}")
        wrong = next(name for name in others[number % 5 :] + others if name != key)
        if wrong not in _all_fields(protocols):  # a field of another object may well be there
            node.slice = ast.Constant(wrong)
            yield changed, f"[{key!r}] → [{wrong!r}]"


def _undefined_variable(tree: ast.Module, protocols: Protocols) -> _Changed:
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - {"answer"}
    for changed, node in _sites(
        tree, lambda n: isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in stored
    ):
        wrong = f"{node.id}_1" if len(node.id) < 5 else node.id[:-1]
        if wrong not in stored:
            change, node.id = f"{node.id} → {wrong}", wrong
            yield changed, change


def _misspelt_tool(tree: ast.Module, protocols: Protocols) -> _Changed:
    for number, (changed, call) in enumerate(_tool_calls(tree, protocols)):
        assert isinstance(call.func, ast.Name)
        name = call.func.id
        call.func.id = (name.replace("_", ""), f"{name}s", name[:-1], f"api_{name}", _camel(name))[number % 5]
        if call.func.id not in protocols:
            yield changed, f"{name} → {call.func.id}"


def _missing_answer(tree: ast.Module, protocols: Protocols) -> _Changed:
    for name in ("outcome", "final"):
        changed = copy.deepcopy(tree)
        for node in ast.walk(changed):
            if isinstance(node, ast.Name) and node.id == "answer":
                node.id = name
        yield changed, f"answer → {name}"


def _forbidden_import(tree: ast.Module, protocols: Protocols) -> _Changed:
    modules = ("requests", "pandas", "numpy", "httpx", "yaml", "bs4", "pytz", "dateutil")  # no jail has them
    number = len(ast.dump(tree)) % len(modules)
    for module in (modules[number], modules[number - 3]):
        changed = copy.deepcopy(tree)
        changed.body.insert(0, ast.Import([ast.alias(module)]))
        yield changed, f"import {module}"


_KINDS: dict[str, Callable[[ast.Module, Protocols], _Changed]] = {
    "argument renamed": _renamed_argument,
    "required argument dropped": _dropped_argument,
    "argument added": _extra_argument,
    "argument of a wrong type": _wrong_type,
    "literal outside an enum": _outside_enum,
    "literal outside a pattern": _outside_pattern,
    "field renamed": _renamed_field,
    "variable undefined": _undefined_variable,
    "tool misspelt": _misspelt_tool,
    "answer missing": _missing_answer,
    "import forbidden": _forbidden_import,
}


def sampled(found: list[Mutant], each: int, seed: int) -> list[Mutant]:
    """At most ``each`` mutants of every kind, no two alike."""
    unique = list({mutant.source: mutant for mutant in found}.values())
    chosen: list[Mutant] = []
    for kind in dict.fromkeys(mutant.kind for mutant in unique):
        own = [mutant for mutant in unique if mutant.kind == kind]
        chosen += random.Random(f"{seed} {kind}").sample(own, min(each, len(own)))
    return chosen


def _tool(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Name)
    return call.func.id


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _all_fields(protocols: Protocols) -> set[str]:
    from atc.graph.suppliers import fields_of

    return {step for protocol in protocols.values() for path in fields_of(protocol.returns) for step in path}

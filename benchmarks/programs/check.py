"""What the check finds before a program runs, and that it refuses no program that would have run.

``python -m benchmarks.programs.check [--json] [--seed N] [--each N]``: programs with one mistake each, made from the 40
reference programs over Atlas, are checked; so are the originals (``tests/right_programs`` has 200 more). A missed
mutant that gives the right answer too is no mistake and does not count. No model has a part in it.
"""

from __future__ import annotations

import ast
import asyncio
import copy
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from atc.atlas import Atlas, atlas_toolset
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.sandboxes.process.driver import ProcessSandbox
from atc.schemas.protocol import Protocol
from atc.schemas.validate import types_of
from benchmarks.common import AsJson, median, percentile, print_json, run_program, share, show
from benchmarks.environments.atlas_tasks import AtlasTask, check, load_tasks, reference_answer

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


_Changed = Iterator[tuple[ast.Module, str]]


def _sites(tree: ast.Module, wanted: Callable[[ast.AST], bool]) -> Iterator[tuple[ast.Module, Any]]:
    for index, node in enumerate(ast.walk(tree)):
        if wanted(node):
            changed = copy.deepcopy(tree)
            yield changed, next(itertools.islice(ast.walk(changed), index, None))


def _tool_calls(tree: ast.Module, protocols: Protocols) -> Iterator[tuple[ast.Module, ast.Call]]:
    return _sites(tree, lambda n: isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in protocols)


def _keywords(
    tree: ast.Module, protocols: Protocols
) -> Iterator[tuple[ast.Module, ast.Call, ast.keyword, dict[str, Any]]]:
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
    from atc.catalogue.graph.suppliers import fields_of

    return {step for protocol in protocols.values() for path in fields_of(protocol.returns) for step in path}


TARGET_CAUGHT, TARGET_MS = 0.95, 100.0


@dataclass
class Figures:
    """What was measured."""

    caught: Counter[str] = field(default_factory=Counter)
    missed: list[Mutant] = field(default_factory=list)
    equivalent: list[Mutant] = field(default_factory=list)
    false_alarms: list[tuple[str, str]] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The mutants that count."""
        return self.caught.total() + len(self.missed)


class Bench:
    """One run of the benchmark.

    Args:
        seed: of what is drawn.
        each: mutants of a kind, at most.
    """

    def __init__(self, seed: int, each: int) -> None:
        self.seed, self.each = seed, each
        self.tasks = {task.id: task for task in load_tasks()}
        self.references = {name: reference_answer(task) for name, task in self.tasks.items()}
        self.protocols = {protocol.name: protocol for protocol in atlas_toolset().protocols}
        self.figures = Figures()

    async def run(self) -> Figures:
        """Measure everything."""
        checker = Checker(list(self.protocols.values()))
        async with ProcessSandbox() as sandbox:
            for task in self.tasks.values():
                for finding in self._check(task.reference, checker):
                    self.figures.false_alarms.append((task.id, finding.message))
            for mutant in self._mutants():
                await self._catch(mutant, checker, sandbox)
        return self.figures

    def _mutants(self) -> list[Mutant]:
        found = [m for task in self.tasks.values() for m in mutants(task.id, task.reference, self.protocols)]
        return sampled(found, self.each, self.seed)

    async def _right(self, task: AtlasTask, source: str, sandbox: ProcessSandbox) -> bool:
        atlas = Atlas()
        ran = await run_program(source, atlas_toolset(atlas), sandbox)
        if ran.outcome.kind != "finished" or not ran.outcome.answered:
            return False
        reference = self.references[task.id]
        given = trips_named(ran.outcome.value, atlas.trips.state())
        return check(given, trips_named(reference.value, reference.trips), unordered=task.unordered)

    def _check(self, source: str, checker: Checker) -> list[Any]:
        began = time.perf_counter()
        findings = checker.check(Program(source))
        self.figures.milliseconds.append(1000 * (time.perf_counter() - began))
        return findings

    async def _catch(self, mutant: Mutant, checker: Checker, sandbox: ProcessSandbox) -> None:
        if self._check(mutant.source, checker):
            self.figures.caught[mutant.kind] += 1
        elif await self._right(self.tasks[mutant.base], mutant.source, sandbox):
            self.figures.equivalent.append(mutant)
        else:
            self.figures.missed.append(mutant)


def trips_named(value: Any, trips: Sequence[Mapping[str, Any]]) -> Any:
    """A value with each identifier of a trip replaced by the trip's name and currency.

    Identifiers are counters, so calls in parallel may give a right program other ones than the reference got.
    """
    if isinstance(value, list | tuple):
        return [trips_named(item, trips) for item in value]
    if isinstance(value, dict):
        return {key: trips_named(item, trips) for key, item in value.items()}
    named = (f"{trip['name']} ({trip['currency_code']})" for trip in trips if trip["trip_id"] == value)
    return next(named, value)


def summary(figures: Figures) -> dict[str, Any]:
    """The figures as plain data."""
    missed = Counter(mutant.kind for mutant in figures.missed)
    kinds = list(dict.fromkeys([*figures.caught, *missed]))
    return {
        "mutants": figures.total,
        "caught": figures.caught.total(),
        "kinds": {kind: {"caught": figures.caught[kind], "of": figures.caught[kind] + missed[kind]} for kind in kinds},
        "missed": [{"kind": m.kind, "task": m.base, "change": m.change} for m in figures.missed],
        "equivalent": [{"kind": m.kind, "task": m.base, "change": m.change} for m in figures.equivalent],
        "false_alarms": figures.false_alarms,
        "median_ms": round(median(figures.milliseconds), 1),
        "p95_ms": round(percentile(figures.milliseconds, 95), 1),
    }


def _print(found: dict[str, Any]) -> None:
    rows = [(kind, of["of"], of["caught"], share(of["caught"], of["of"])) for kind, of in found["kinds"].items()]
    rows.append(("all", found["mutants"], found["caught"], share(found["caught"], found["mutants"])))
    show("Mistakes found before the run", ("kind", "mutants", "caught", "share"), rows)
    for mutant in found["missed"]:
        print(f"missed: {mutant['kind']}: {mutant['task']}: {mutant['change']}")
    print(f"{len(found['equivalent'])} mutants gave the right answer and do not count")
    print(f"{len(found['false_alarms'])} false alarms on the reference programs")
    for task, message in found["false_alarms"]:
        print(f"false alarm: {task}: {message}")
    print(f"one check: median {found['median_ms']} ms, 95 % within {found['p95_ms']} ms")


def main(
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    each: Annotated[int, typer.Option(help="Mutants of a kind, at most.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Measure the check; exit with 1 where a target is missed."""
    found = summary(asyncio.run(Bench(seed, each).run()))
    print_json(found) if as_json else _print(found)
    met = found["caught"] >= TARGET_CAUGHT * found["mutants"] and not found["false_alarms"]
    raise typer.Exit(0 if met and found["median_ms"] <= TARGET_MS else 1)


if __name__ == "__main__":
    typer.run(main)

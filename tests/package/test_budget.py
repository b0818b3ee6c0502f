"""The house keeps to a budget that only falls: ``budget.toml`` beside this test has the most of each thing.

CONTRIBUTING says why, and what to do when a row is exceeded. A row that is far above what is there fails, too, for what
was won would be spent again in silence.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("budget.toml")
BUDGET: dict[str, dict[str, int]] = tomllib.loads(TABLE.read_text())
SLACK = 0.02
LONG_FILE = 500
BOUND = re.compile(r"_?(MAX_[A-Z0-9_]+|MOST_[A-Z0-9_]+|[A-Z0-9_]+_S)")
PRODUCT = ("atc", "sandbox")
TWO_FUNCTIONS = """
import sys
from atc import Agent, FakeModel, tool

@tool(effect="read")
def first(number: int) -> int:
    '''Return the first number after a number.'''
    return number + 1

@tool(effect="read")
def double(number: int) -> int:
    '''Return the double of a number.'''
    return number * 2

with Agent([first, double], model=FakeModel(["answer = double(number=first(number=1))"]), sentence=False) as agent:
    assert agent.run("What is the double of the first number after 1?").value == 4
print(sum(name.partition(".")[0] == "atc" for name in sys.modules))
"""


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(
            path for path in (ROOT / folder).rglob("*.py") if not path.is_relative_to(ROOT / "research/.venv")
        )


def lines_of(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def lines_by_room() -> dict[str, int]:
    """Return the physical lines of each room of ``atc/``, of its top files, and of each other folder with a row."""
    found: dict[str, int] = {}
    for path in modules("atc", "sandbox", "benchmarks", "research", "tests"):
        folder, *inner = path.relative_to(ROOT).parts
        room = folder if folder != "atc" else f"atc/{inner[0]}" if len(inner) > 1 else "atc/*.py"
        found[room] = found.get(room, 0) + lines_of(path)
    return found


def bounds_in(path: Path) -> int:
    """Return how many names of limits a module has at its top: ``MAX_*``, ``MOST_*``, ``*_S``."""
    targets = targets_in(ast.parse(path.read_bytes()).body)
    return sum(isinstance(target, ast.Name) and BOUND.fullmatch(target.id) is not None for target in targets)


def fields_of(module: str, name: str) -> int:
    """Return how many annotated fields a class has, and attributes that its ``__init__`` sets."""
    tree = ast.parse((ROOT / module).read_bytes())
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    annotated = [node.target for node in found.body if isinstance(node, ast.AnnAssign)]
    names = {target.id for target in annotated if isinstance(target, ast.Name)}
    for function in found.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            names.update(target.attr for target in targets_in(ast.walk(function)) if is_own_attribute(target))
    return len(names)


def targets_in(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield what assignments among some nodes assign to, annotated ones too."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from node.targets
        elif isinstance(node, ast.AnnAssign):
            yield node.target


def is_own_attribute(target: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def modules_of_a_run() -> int:
    done = subprocess.run([sys.executable, "-c", TWO_FUNCTIONS], capture_output=True, text=True, check=True, cwd=ROOT)
    return int(done.stdout)


def found_in_house() -> dict[str, int]:
    product = list(modules(*PRODUCT))
    return {
        "modules loaded by a run of two functions": modules_of_a_run(),
        "files above 500 lines": sum(lines_of(path) > LONG_FILE for path in product),
        "bounding constants": sum(bounds_in(path) for path in product),
        "fields of Call": fields_of("atc/result.py", "Call"),
        "fields of Fault": fields_of("atc/facts.py", "Fault"),
        "fields of Attempt": fields_of("atc/calls/attempt.py", "Attempt"),
        "fields of Journal": fields_of("atc/calls/journal.py", "Journal"),
        "fields of Broker": fields_of("atc/calls/broker.py", "Broker"),
        "fields of Run": fields_of("atc/run/run.py", "Run"),
    }


def misses(budget: dict[str, int], found: dict[str, int]) -> list[str]:
    """Return a sentence for each row that is exceeded, has fallen by more than 2 %, is missing or counts nothing."""
    told = [f"{name}: nothing of it is left, so remove its row" for name in budget if name not in found]
    for name, number in sorted(found.items()):
        if name not in budget:
            told.append(f"{name}: it has no row: {number} now, taken from other rows")
        elif number > budget[name]:
            told.append(
                f"{name}: {number}, and the budget is {budget[name]}: take {number - budget[name]} away elsewhere"
            )
        elif budget[name] > number * (1 + SLACK):
            told.append(f"{name}: {number}, so its row of {budget[name]} falls to {number}")
    return told


@pytest.mark.parametrize(("table", "found"), [("lines", lines_by_room), ("house", found_in_house)])
def test_the_house_keeps_to_its_budget(table: str, found: Callable[[], dict[str, int]]) -> None:
    told = misses(BUDGET[table], found())
    assert not told, f"{TABLE.relative_to(ROOT)}, [{table}] (CONTRIBUTING.md says the rule):\n" + "\n".join(told)


def test_a_row_fails_in_both_directions() -> None:
    assert misses({"run": 100}, {"run": 100}) == [] == misses({"run": 100}, {"run": 99})
    assert misses({"run": 100}, {"run": 101}) == ["run: 101, and the budget is 100: take 1 away elsewhere"]
    assert misses({"run": 100}, {"run": 90}) == ["run: 90, so its row of 100 falls to 90"]
    assert misses({"gone": 1}, {"new": 2}) == [
        "gone: nothing of it is left, so remove its row", "new: it has no row: 2 now, taken from other rows",
    ]  # fmt: skip


def print_table() -> None:
    """Print ``budget.toml`` as it would be for what is there."""
    for table, found in (("lines", lines_by_room()), ("house", found_in_house())):
        print(f"[{table}]")
        print("\n".join(f'"{name}" = {number}' for name, number in sorted(found.items())), end="\n\n")


if __name__ == "__main__":
    print_table()

"""A room looks downwards only, no module needs itself to be imported, and the jail's two sides do not meet.

Imports within functions count: a reader who follows one meets the circle all the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
           for p in sorted((ROOT / "atc").rglob("*.py"))}  # fmt: skip

ROOMS = (
    "_records", "errors", "parts", "_host", "schemas", "catalogue.graph", "wording", "facts", "result", "settings",
    "tools", "models", "calls", "traces", "sandboxes", "atlas", "programs", "catalogue", "probing", "run", "agent",
    "batch", "serve", "testing", "cli", "plugins", "__main__",
)  # fmt: skip
"""From the ground up. Each looks at those before it. The tool graph is a room below the rest of the catalogue: what
writes stubs, sentences and programs looks at it."""
LOOK_UP = {
    ("agent", "batch"),  # `Agent.map`
}
"""The arrows that run up, each for one reason. None is added here: a part that two rooms need moves down."""


def room(name: str) -> str:
    """Return the room of a module."""
    parts = name.split(".")
    within = ".".join(parts[1:3])
    return within if within in ROOMS else parts[1]


@cache
def imports(path: Path) -> frozenset[str]:
    """Return what a module imports, also within functions, but not for the type checker alone."""
    return frozenset(_imports(ast.parse(path.read_text())))


def _imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.Import):
            yield from (name.name for name in child.names)
        if isinstance(child, ast.ImportFrom) and child.module is not None:
            within = (f"{child.module}.{name.name}" for name in child.names)
            yield from (name if name in MODULES else child.module for name in within)
        yield from _imports(child)


def test_there_are_no_circles_of_imports() -> None:
    needs = {name: {found for found in imports(path) if found in MODULES}
             for name, path in MODULES.items()}  # fmt: skip
    assert len(needs) > 300
    assert sum(map(len, needs.values())) > len(needs)
    TopologicalSorter(needs).prepare()  # a CycleError names the circle


def test_a_room_looks_downwards_only() -> None:
    rank = {each: number for number, each in enumerate(ROOMS)}
    found = [
        (name, used)
        for name, path in MODULES.items()
        for used in imports(path)
        if used.startswith("atc.") and name != "atc"
    ]
    assert len(found) > 2000
    up = {(name, used) for name, used in found if rank[room(used)] > rank[room(name)]}
    rooms = {(room(name), room(used)): (name, used) for name, used in up}
    assert not [each for pair, each in rooms.items() if pair not in LOOK_UP]
    assert not LOOK_UP - rooms.keys(), "these arrows are gone: take them off the list"


def test_the_two_sides_of_the_jail_import_nothing_of_each_other() -> None:
    inside = {path: imports(path) for path in (ROOT / "sandbox").glob("*.py")}
    assert inside
    assert not [path for path, names in inside.items() if any(name.split(".")[0] == "atc" for name in names)]
    outside = (name for path in MODULES.values() for name in imports(path))
    assert not [name for name in outside if name.split(".")[0] == "sandbox"]


def test_nothing_of_atc_needs_the_research_beside_it() -> None:
    assert (ROOT / "research" / "atc_research" / "__init__.py").is_file()
    tree = [*(ROOT / "atc").rglob("*.py"), *(ROOT / "sandbox").rglob("*.py")]
    assert not [path for path in tree if "atc_research" in path.read_text()]

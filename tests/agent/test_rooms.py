"""No module needs itself to be imported, and a room looks downwards only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
           for p in sorted((ROOT / "atc").rglob("*.py"))}  # fmt: skip


@cache
def imports(path: Path) -> frozenset[str]:
    """What is imported when a module is: neither in a function, nor for the type checker alone."""
    return frozenset(_imports(ast.parse(path.read_text())))


def _imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
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


def test_the_graph_is_below_the_programs_that_are_checked_by_it() -> None:
    above = ("atc.programs", "atc.run", "atc.catalogue.index", "atc.calls", "atc.traces", "atc.models", "atc.cli")
    graph = {name: path for name, path in MODULES.items() if f"{name}.".startswith("atc.catalogue.graph.")}
    assert len(graph) > 15
    found = {(name, used) for name, path in graph.items() for used in imports(path)}
    assert not [(name, used) for name, used in found if f"{used}.".startswith(tuple(f"{room}." for room in above))]


def test_the_records_import_nothing_that_stands_above_them() -> None:
    """Nor within a function: a record that words itself would need its words, and they need it."""
    nodes = [
        node
        for node in ast.walk(ast.parse(MODULES["atc._records.records"].read_text()))
        if isinstance(node, ast.ImportFrom)
    ]
    assert {node.module for node in nodes if f"{node.module}.".startswith("atc.")} == {"atc._records.packing"}


def test_schemas_are_below_the_graph_and_the_graph_is_below_the_tools() -> None:
    above = {"atc.schemas": ("atc.catalogue.graph.", "atc.tools."), "atc.catalogue.graph": ("atc.tools.",)}
    for room, others in above.items():
        files = sorted((ROOT / room.replace(".", "/")).rglob("*.py"))
        assert len(files) > 15
        nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))  # also within functions
        names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module is not None}
        assert not [name for name in names if f"{name}.".startswith(others)]

"""How the package plugs in: by entry points, under the names that ATC knows, over what ATC exports for packages."""

from __future__ import annotations

import ast
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import typer

import atc
from atc.cli import learn
from atc.parts import LEARN, STRATEGIES
from atc.run.base import RESEARCH, open_strategy

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "atc_research").rglob("*.py"))
PAGES = ("strategies", "learning", "commands")
"""The modules of ``atc.plugins`` that say what a package may build on."""


def test_each_entry_point_is_a_strategy_of_its_name() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][STRATEGIES.group]
    assert set(points) == RESEARCH
    for name, opens in points.items():
        strategy = open_strategy(name)
        assert (strategy.name, f"{type(strategy).__module__}:{type(strategy).__name__}") == (name, opens)


def test_each_command_of_learn_is_found_under_its_name() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][LEARN.group]
    assert set(points) == learn.RESEARCH
    for name, opens in points.items():
        found = learn.learner(name)
        assert isinstance(found, typer.Typer) or f"{found.__module__}:{found.__name__}" == opens


def imported(sources: list[Path]) -> dict[str, set[str]]:
    """The modules of ATC that sources import, each with the names that they take from it."""
    found: dict[str, set[str]] = {}
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                found.setdefault(node.module or "", set()).update(each.name for each in node.names)
            elif isinstance(node, ast.Import):
                found |= {each.name: set() for each in node.names}
    return {name: names for name, names in found.items() if name.partition(".")[0] == "atc"}


def test_nothing_is_imported_but_what_atc_and_its_pages_for_plugins_export() -> None:
    modules = imported(SOURCES)
    assert set(modules) == {"atc", *(f"atc.plugins.{page}" for page in PAGES)}
    assert modules["atc"] <= {*atc.__all__}


@pytest.mark.parametrize("page", PAGES)
def test_each_name_of_a_page_is_used(page: str) -> None:
    """A name that nothing builds on is no promise that is worth keeping."""
    offered = {name for name in vars(import_module(f"atc.plugins.{page}")) if name[0] != "_"} - {"annotations"}
    assert offered == imported(SOURCES)[f"atc.plugins.{page}"]

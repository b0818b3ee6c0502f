"""How the package plugs in: by entry points, under the names that ATC knows, and over few modules of ATC."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from atc.plugins import STRATEGIES
from atc.strategies.base import RESEARCH, open_strategy

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "atc_research").rglob("*.py"))
BEHIND_THE_PUBLIC_NAMES = """
calls.entry calls.json_values errors facts graph.edges graph.search graph.tool_graph programs.extract programs.program
programs.syntax prompting sandboxes.inputs strategies.ask_user strategies.chain_policy strategies.endings
strategies.left_undone strategies.previews strategies.revise strategies.ways strategies.writer
tools.parameters tools.stubs traces.events traces.stores.base
""".split()
"""The modules of ATC that this package reaches into. The list may only get shorter: what is good for any strategy is a
public name of ``atc``."""


def test_each_entry_point_is_a_strategy_of_its_name() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][STRATEGIES.group]
    assert set(points) == RESEARCH
    for name, opens in points.items():
        strategy = open_strategy(name)
        assert (strategy.name, f"{type(strategy).__module__}:{type(strategy).__name__}") == (name, opens)


def imported() -> set[str]:
    """The modules of ATC that the sources import, by the statements that do."""
    nodes = [node for path in SOURCES for node in ast.walk(ast.parse(path.read_text()))]
    found = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    found |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return {name for name in found if name.partition(".")[0] == "atc"}


def test_the_modules_of_atc_that_are_used_get_fewer() -> None:
    assert imported() == {"atc", *(f"atc.{name}" for name in BEHIND_THE_PUBLIC_NAMES)}

"""How the package plugs in: by entry points, under the names that ATC knows, and over few modules of ATC."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
import typer

from atc.cli import learn
from atc.plugins import LEARN, STRATEGIES
from atc.strategies.base import RESEARCH, open_strategy

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "atc_research").rglob("*.py"))
TRAININGS = [
    path for path in SOURCES if path.parent.name in ("toolqp", "toolweaver") or path.name.startswith(("learn_", "link"))
]
BEHIND_THE_PUBLIC_NAMES = """
calls.entry calls.json_values errors facts graph.edges graph.search graph.tool_graph programs.extract programs.program
programs.syntax prompting sandboxes.inputs strategies.ask_user strategies.chain_policy strategies.endings
strategies.left_undone strategies.previews strategies.revise strategies.ways strategies.writer
tools.parameters tools.stubs traces.events traces.stores.base
""".split()
"""The modules of ATC that the strategies reach into. The list may only get shorter: what is good for any strategy is a
public name of ``atc``."""
BEHIND_THE_TRAININGS = """
blocking catalogue cli cli.console cli.learn errors graph.edges graph.identifiers
graph.store graph.suppliers graph.tool_graph learn.examples files models models.base
programs.lessons.reading prompting retrieval retrieval.clustering retrieval.co_usage
retrieval.code_space retrieval.codes retrieval.dialogue retrieval.document_fields
retrieval.encoder retrieval.index retrieval.metrics retrieval.minilm retrieval.planner retrieval.snapshot
retrieval.stopwords retrieval.tokenizer retrieval.turns retrieval.vectors retrieval.words schemas.validate settings
tools.parameters tools.protocol traces.reading traces.stores traces.stores.base
""".split()
"""The modules of ATC that the trainings reach into: they look at what a run searches with from within, the index above
all. The list may only get shorter, too."""


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


def imported(sources: list[Path]) -> set[str]:
    """The modules of ATC that sources import, by the statements that do."""
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text()))]
    found = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    found |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return {name for name in found if name.partition(".")[0] == "atc"}


@pytest.mark.parametrize(
    ("sources", "listed"),
    [
        ([path for path in SOURCES if path not in TRAININGS], ["", *BEHIND_THE_PUBLIC_NAMES]),
        (TRAININGS, BEHIND_THE_TRAININGS),
    ],
    ids=["strategies", "trainings"],
)
def test_the_modules_of_atc_that_are_used_get_fewer(sources: list[Path], listed: list[str]) -> None:
    assert imported(sources) == {f"atc.{name}".rstrip(".") for name in listed}

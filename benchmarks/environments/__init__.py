"""Environments for :mod:`benchmarks.tasks`: a task, fresh tools, and a judge of what a system made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from atc.errors import UsageError
from benchmarks.environments.agentdojo import AgentDojo
from benchmarks.environments.api_bank import ApiBank
from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.environments.base import Environment, Episode, Gold, GoldCall, MadeCall, Task
from benchmarks.environments.bfcl import Bfcl
from benchmarks.environments.complexfuncbench import ComplexFuncBench
from benchmarks.environments.comptoolbench import CompToolBench
from benchmarks.environments.documented import KINDS
from benchmarks.environments.m3tooleval import M3ToolEval
from benchmarks.environments.restbench import RestBench
from benchmarks.environments.telecom import Telecom
from benchmarks.environments.toolflow import ToolFlow
from benchmarks.environments.workbench import WorkBench
from benchmarks.probing.documents import PROBED, redocumented

__all__ = [
    "ENVIRONMENTS",
    "NAMED",
    "VARIANTS",
    "Environment",
    "Episode",
    "Gold",
    "GoldCall",
    "MadeCall",
    "Task",
    "open_environment",
]

ENVIRONMENTS: dict[str, Callable[[Path | None], Environment]] = {
    "api_bank": ApiBank,
    "atlas": lambda data: AtlasEnvironment(),
    "complexfuncbench": ComplexFuncBench,
    "bfcl": Bfcl,
    "comptoolbench": CompToolBench,
    "m3tooleval": M3ToolEval,
    "restbench": RestBench,
    "toolflow": ToolFlow,
    "workbench": WorkBench,
}


def _long_tasks(data: Path | None) -> Environment:
    """The long tasks are composed over the other environments' services, so they are imported when they are named."""
    from benchmarks.environments.long.environment import LongTasks

    return LongTasks(data)


NAMED: dict[str, Callable[[Path | None], Environment]] = {
    "agentdojo": AgentDojo,
    "long": _long_tasks,
    "telecom": Telecom,
}
"""They run where they are named: what runs by default, and the tasks of a quick run, stay what they were."""

VARIANTS: dict[str, Callable[[Path | None], Environment]] = {
    f"{name}-{kind}": lambda data, name=name, kind=kind: redocumented(ENVIRONMENTS[name](data), kind)  # type: ignore[misc]
    for name in PROBED
    for kind in KINDS
}
"""The same tasks over tools with other documents: they run where they are named."""


def open_environment(name: str, data: Path | None = None) -> Environment:
    """The environment of that name.

    Args:
        name: one of :data:`ENVIRONMENTS`, :data:`NAMED` or :data:`VARIANTS`.
        data: the directory with ``executable/<name>``, for those that need it.

    Raises:
        UsageError: there is none of that name.
    """
    known = ENVIRONMENTS | NAMED | VARIANTS
    if name not in known:
        raise UsageError(f"there is no environment {name!r}: take some of {', '.join(known)}")
    return known[name](data)

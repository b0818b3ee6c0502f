"""The systems of the ruler, by name."""

from __future__ import annotations

from typing import Any

from atc._records.rules import IDS, RULES
from atc.errors import UsageError
from atc.run.chain import Chain
from atc.run.paper import Paper
from atc.run.writer import WritingOptions
from atc_research.naviagent.navigate import Navigate
from atc_research.reto.layered_calls import LayeredCalls
from benchmarks.systems.atc import Atc, ChainOfCountedFindings, ChainWithPlainErrors
from benchmarks.systems.base import Answer, Job, System
from benchmarks.systems.function_calling import FunctionCalling
from benchmarks.systems.peer import Peer

__all__ = [
    "ALPHA",
    "MAX_ALPHA",
    "PAPER_ALPHA",
    "SYSTEMS",
    "WITHOUT_RULE",
    "Answer",
    "Job",
    "System",
    "named_system",
]

WITHOUT_RULE = "atc-rules:"
"""What the name of ATC without one rule begins with; the id of the rule follows (``atc-rules:name-spelling``)."""
ALPHA, PAPER_ALPHA = "atc-alpha:", "atc-paper-alpha:"
"""The same for ATC, and for its paper's way, with α revisions (``atc-alpha:0``)."""
MAX_ALPHA = 5

_REPAIRS_OFF = ",".join(f"-{rule.id}" for rule in RULES if rule.step in {"call"}) or "default"
_BARE = WritingOptions(tools="json", check=False)
_PAPER: dict[str, Any] = {"strategy": "atc-paper", "rules": "none"}
SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        Atc("atc", "ATC with its defaults"),
        Atc("atc-check", "ATC without the check before a run", {"strategy": Chain(WritingOptions(check=False))}),
        Atc(
            "atc-stubs",
            "ATC with JSON documents in place of Python stubs",
            {"strategy": Chain(WritingOptions(tools="json"))},
        ),
        Atc(
            "atc-classes",
            "ATC whose documents have a response's type as classes, with an example",
            {"strategy": Chain(WritingOptions(tools="stubs"))},
        ),
        Atc(
            "atc-attribution",
            "ATC whose revisions are shown the plain error",
            {"strategy": ChainWithPlainErrors()},
        ),
        Atc("atc-replay", "ATC that makes every call anew in a revision", replay=False),
        Atc("atc-all", "ATC without any of these", {"strategy": ChainWithPlainErrors(_BARE)}, replay=False),
        Atc(
            "atc-notes",
            "ATC whose revisions are shown short notes",
            {"strategy": Chain(WritingOptions(revision="notes"))},
        ),
        Atc("atc-repair", "ATC that repairs no arguments", {"rules": _REPAIRS_OFF}),
        Atc("atc-rules", "ATC without any of its rules", {"rules": "none"}),
        Atc("atc-zero-shot", "ATC without the worked example", {"strategy": Chain(WritingOptions(example=False))}),
        Atc(
            "atc-findings",
            "ATC whose α bounds what the check sends back too",
            {"strategy": ChainOfCountedFindings()},
        ),
        Atc("atc-paper", "ATC as its paper has it", _PAPER),
        Atc("atc-paper-one-shot", "the same with a worked example", _PAPER | {"strategy": Paper(example=True)}),
        Atc("react", "one JSON call a step, with thoughts", {"strategy": "react"}),
        Atc("plan", "one JSON plan, then its calls, then the answer", {"strategy": "plan"}),
        Atc("codeact", "code step by step, variables kept", {"strategy": "codeact"}),
        Atc("navigate", "NaviAgent's agent: a JSON decision a turn, over the tool graph", {"strategy": "navigate"}),
        Atc("navigate-base", "the same without the graph", {"strategy": Navigate("none")}),
        Atc("navigate-static-a", "with the graph of the documents", {"strategy": Navigate("static", "alpha_beta")}),
        Atc("layered", "one small program a layer", {"strategy": "layered"}),
        Atc("layered-calls", "RETO's own form: tool calls layer by layer", {"strategy": "layered-calls"}),
        Atc("layered-calls-flat", "the same with all tools in one layer", {"strategy": LayeredCalls(sketch=False)}),
        Atc("dfsdt", "DFSDT of ToolLLM: one JSON call a step, and ways back", {"strategy": "dfsdt"}),
        FunctionCalling(),
        Peer("smolagents-code", "smolagents' CodeAgent", "run_smolagents", "'smolagents[openai]'", "code"),
        Peer("smolagents-tools", "smolagents' ToolCallingAgent", "run_smolagents", "'smolagents[openai]'", "tools"),
        Peer(
            "pydantic-ai-code",
            "pydantic-ai with its code mode on monty",
            "run_pydantic_ai",
            "'pydantic-ai-slim[openai]' pydantic-ai-harness pydantic-monty",
            "code",
        ),
        Peer("pydantic-ai-tools", "pydantic-ai's agent", "run_pydantic_ai", "'pydantic-ai-slim[openai]'", "tools"),
        Peer("langgraph-codeact", "langgraph-codeact", "run_langgraph_codeact", "langgraph-codeact langchain-openai"),
    )
}
"""Names with a minus are ATC with one part taken away; `react`, `plan`, `codeact`, `layered`, `layered-calls`, `dfsdt`
and `navigate` (with its parts: Base, Static+A, Dynamic+A and Dynamic+H of its paper) are those of ``research/``."""


def named_system(name: str) -> System | None:
    """The system that a name makes: ATC without rules, or with α;
    ``None`` where it makes none.

    Raises:
        UsageError: there is no such rule, or no such number of revisions.
    """
    for begins, about, settings in ((ALPHA, "ATC", {}), (PAPER_ALPHA, "ATC as its paper has it,", _PAPER)):
        if name.startswith(begins):
            alpha = _alpha(name, begins)
            return Atc(name, f"{about} with {alpha} revisions at most", settings | {"max_revisions": alpha})
    if name.startswith(WITHOUT_RULE):
        rules = _known(name.removeprefix(WITHOUT_RULE).split("+"))
        return Atc(name, f"ATC without {' and '.join(rules)}", {"rules": ",".join(f"-{rule}" for rule in rules)})
    return None


def _alpha(name: str, begins: str) -> int:
    count = name.removeprefix(begins)
    if not count.isdecimal() or int(count) > MAX_ALPHA:
        raise UsageError(f"--system: {name!r} is not {begins}N with N from 0 to {MAX_ALPHA}")
    return int(count)


def _known(rules: list[str]) -> list[str]:
    if unknown := [rule for rule in rules if rule not in IDS]:
        raise UsageError(f"--system: there is no rule {', '.join(unknown)}; `python -m atc._records.rules` lists them")
    return rules

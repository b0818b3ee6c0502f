"""The systems of the ruler, by name."""

from __future__ import annotations

from atc.errors import UsageError
from atc.programs.rules import IDS
from atc.strategies.chain import Chain
from atc.strategies.ways import Ways
from benchmarks.systems.atc import Atc
from benchmarks.systems.base import Answer, Job, System
from benchmarks.systems.peer import Peer

__all__ = ["SYSTEMS", "WITHOUT_RULE", "Answer", "Job", "System", "without_rule"]

WITHOUT_RULE = "atc-rules:"
"""What the name of ATC without one rule begins with; the id of the rule follows (``atc-rules:id-by-name``)."""

_BARE = Ways(tools="json", attribution="none", check=False)
SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        Atc("atc", "ATC with its defaults"),
        Atc("atc-check", "ATC without the check before a run", {"strategy": Chain(Ways(check=False))}),
        Atc("atc-stubs", "ATC with JSON documents in place of typed stubs", {"strategy": Chain(Ways(tools="json"))}),
        Atc(
            "atc-plain",
            "ATC whose documents have a response's type on one line",
            {"strategy": Chain(Ways(tools="plain"))},
        ),
        Atc(
            "atc-attribution",
            "ATC whose revisions are shown the plain error",
            {"strategy": Chain(Ways(attribution="none"))},
        ),
        Atc("atc-replay", "ATC that makes every call anew in a revision", replay=False),
        Atc("atc-all", "ATC without any of these", {"strategy": Chain(_BARE)}, replay=False),
        Atc("atc+choose", "ATC that chooses among four programs in each revision", {"revision_candidates": 4}),
        Atc("atc-paper", "ATC as its paper has it", {"strategy": "atc-paper"}),
        Atc("react", "one JSON call a step, with thoughts", {"strategy": "react"}),
        Atc("plan", "one JSON plan, then its calls, then the answer", {"strategy": "plan"}),
        Atc("codeact", "code step by step, variables kept", {"strategy": "codeact"}),
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
"""Names with a minus are ATC with one part taken away; `react`, `plan` and `codeact` are strategies of ATC."""


def without_rule(name: str) -> System:
    """ATC without the rule that a system's name ends with; several with a plus between.

    Raises:
        UsageError: there is no such rule.
    """
    rules = name.removeprefix(WITHOUT_RULE).split("+")
    if unknown := [rule for rule in rules if rule not in IDS]:
        raise UsageError(f"--system: there is no rule {', '.join(unknown)}; docs/failures.md lists them")
    return Atc(name, f"ATC without {' and '.join(rules)}", {"rules": ",".join(f"-{rule}" for rule in rules)})

"""The systems of the ruler, by name."""

from __future__ import annotations

from benchmarks.systems.atc import Atc
from benchmarks.systems.base import Answer, Job, System
from benchmarks.systems.peer import Peer

__all__ = ["SYSTEMS", "Answer", "Job", "System"]

_BARE = {"check": False, "attribution": "none", "tool_format": "json"}
SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        Atc("atc", "ATC with its defaults"),
        Atc("atc-check", "ATC without the check before a run", {"check": False}),
        Atc("atc-stubs", "ATC with JSON documents in place of typed stubs", {"tool_format": "json"}),
        Atc("atc-attribution", "ATC whose revisions are shown the plain error", {"attribution": "none"}),
        Atc("atc-replay", "ATC that makes every call anew in a revision", replay=False),
        Atc("atc-all", "ATC without any of these", _BARE, replay=False),
        Atc("atc+choose", "ATC that chooses among four programs in each revision", {"revision_candidates": 4}),
        Atc("react", "one JSON call a step, with thoughts", {"strategy": "react"}),
        Atc("plan", "one JSON plan, then its calls, then the answer", {"strategy": "plan"}),
        Atc("codeact", "code step by step, variables kept", {"strategy": "codeact"}),
        Peer("smolagents-code", "smolagents' CodeAgent", "run_smolagents", "'smolagents[openai]'", "code"),
        Peer("smolagents-tools", "smolagents' ToolCallingAgent", "run_smolagents", "'smolagents[openai]'", "tools"),
        Peer(
            "pydantic-ai-code", "pydantic-ai with its code mode on monty", "run_pydantic_ai",
            "'pydantic-ai-slim[openai]' pydantic-ai-harness pydantic-monty", "code",
        ),
        Peer("pydantic-ai-tools", "pydantic-ai's agent", "run_pydantic_ai", "'pydantic-ai-slim[openai]'", "tools"),
        Peer(
            "langgraph-codeact", "langgraph-codeact", "run_langgraph_codeact", "langgraph-codeact langchain-openai"
        ),
    )
}  # fmt: skip
"""Names with a minus are ATC with one part taken away; `react`, `plan` and `codeact` are strategies of ATC."""

"""The agents from PyPI in the ruler solve a scripted task from end to end: each in its own form, with its own ways."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from typing import Any

import pytest

from benchmarks.systems import SYSTEMS
from benchmarks.systems.peer import Peer
from benchmarks.tasks.gateway import Caps
from tests.support.fake_openai_server import Step
from tests.support.gateway import Calls, World, replies, solved

NEEDS = {
    "smolagents": ("smolagents", "openai"),
    "pydantic-ai": ("pydantic_ai", "pydantic_ai_harness", "pydantic_monty"),
    "langgraph": ("langgraph_codeact", "langchain_openai"),
}
VARIABLES = {
    "smolagents": "ATC_PEER_PYTHON_RUN_SMOLAGENTS",
    "pydantic-ai": "ATC_PEER_PYTHON_RUN_PYDANTIC_AI",
    "langgraph": "ATC_PEER_PYTHON_RUN_LANGGRAPH_CODEACT",
}
GIVEN = {variable: os.environ[variable] for variable in VARIABLES.values() if variable in os.environ}


def there(package: str) -> bool:
    return VARIABLES[package] in GIVEN or all(importlib.util.find_spec(module) for module in NEEDS[package])


def in_package(name: str) -> Any:
    package = next(package for package in VARIABLES if name.startswith(package))
    reason = f"{package} is not installed here, and {VARIABLES[package]} names no Python that has it: run `make peers`"
    return pytest.param(name, marks=[pytest.mark.slow, pytest.mark.skipif(not there(package), reason=reason)])


PEERS = ("smolagents-code", "smolagents-tools", "pydantic-ai-code", "pydantic-ai-tools", "langgraph-codeact")
every_peer = pytest.mark.parametrize("name", [in_package(name) for name in PEERS])


def says(name: str, code: str, calls: Calls) -> Step:
    """The same step in the form of a peer: code that it runs, or calls of tools."""
    if name == "smolagents-code":
        return replies(f"Thought: I go on.\n<code>\n{code}\n</code>")
    if name == "langgraph-codeact":
        return replies(f"I go on.\n```python\n{code}\n```")
    if name == "pydantic-ai-code":
        awaited_code = code.replace("weather(", "await weather(").replace("route(", "await route(")
        return replies(None, [("run_code", {"code": awaited_code})])
    return replies(None, calls)


def ends(name: str) -> Step:
    if name == "smolagents-code":
        return says(name, "final_answer(rome['degrees'])", ())
    return replies(None, [("final_answer", {"answer": "21"})]) if name == "smolagents-tools" else replies("21")


def steps(name: str) -> list[Step]:
    """A call that fails, two that do not, and the answer."""
    nowhere, rome, route = ("weather", {"city": "Nowhere"}), ("weather", {"city": "Rome"}), {"from_": "a", "to": "b"}
    code = "rome = weather(city='Rome')\nway = route(from_='a', to='b')\nprint(rome, way)"
    return [
        says(name, "print(weather(city='Nowhere'))", [nowhere]),
        says(name, code, [rome, ("route", route)]),
        ends(name),
    ]


@pytest.fixture
def peer(name: str, monkeypatch: pytest.MonkeyPatch) -> Peer:
    for variable, python in GIVEN.items():
        monkeypatch.setenv(variable, python)
    found = SYSTEMS[name]
    assert isinstance(found, Peer)
    return found


@every_peer
def test_a_peer_solves_a_task_over_an_error_and_its_calls_are_counted(name: str, peer: Peer) -> None:
    def see(world: World) -> None:
        assert world.calls[0] == ("weather", {"city": "Nowhere"})
        assert ("weather", {"city": "Rome"}) in world.calls
        assert ("route", {"from": "a", "to": "b"}) in world.calls
        assert len(world.calls) == 3
        assert world.spent.model_calls == len(world.requests) == 3
        assert (world.spent.over, world.spent.failure) == ("", "")
        shown = [str(request["messages"]) + str(request.get("tools")) for request in world.requests]
        assert "How warm is Rome?" in shown[0]
        assert "weather it." in shown[0]
        assert "Which city." in shown[0]
        assert "there is no city Nowhere" in shown[1], "a tool's error is shown to the model"
        assert "degrees" in shown[0], "what a tool returns is told beforehand"

    answer = solved(peer, *steps(name), see=see)
    assert (answer.ended, answer.value, answer.error) == ("answered", 21, "")
    assert (answer.programs, answer.failed) == (3, 1)
    assert "Rome" in answer.program or "final_answer" in answer.program


@every_peer
def test_a_peer_that_uses_up_its_steps_stops_there(name: str, peer: Peer) -> None:
    def see(world: World) -> None:
        assert world.spent.model_calls == 2
        assert world.spent.over == "", "it stops by itself"

    loop = says(name, "print(weather(city='Rome'))", [("weather", {"city": "Rome"})])
    answer = solved(peer, loop, caps=Caps(model_calls=2), see=see)
    assert answer.programs == 2
    if name == "smolagents-code":  # its last reply is taken for an answer, as smolagents itself does
        assert (answer.ended, "weather(city='Rome')" in answer.value) == ("answered", True)
    else:
        assert (answer.ended, answer.value) == ("unsolved", None)


@every_peer
def test_a_peer_over_its_tokens_ends_with_the_budget(name: str, peer: Peer) -> None:
    answer = solved(peer, *steps(name), caps=Caps(tokens=30))
    assert (answer.ended, answer.value) == ("budget", None)
    assert "its 30 tokens are used up" in answer.error


@every_peer
def test_a_peers_version_names_its_packages(name: str, peer: Peer) -> None:
    version = asyncio.run(peer.version())
    assert version.split()[0].rstrip(",") in ("smolagents", "pydantic-ai-slim", "langgraph-codeact")
    assert ("pydantic-monty" in version) == (name == "pydantic-ai-code")

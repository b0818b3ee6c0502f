"""langgraph-codeact: its ``create_codeact`` with its default prompt and the ``eval`` of its own example."""

from __future__ import annotations

import builtins
import contextlib
import io
from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError
from langgraph_codeact import create_codeact

from benchmarks.peers.job import Job, Said, read_value

_FAILED = "Error during execution: "


def packages(mode: str) -> tuple[str, ...]:
    return ("langgraph-codeact", "langgraph", "langchain-openai")


def solve(job: Job, said: Said) -> None:
    model = ChatOpenAI(model=job.model, base_url=job.base_url, api_key="none")
    graph = create_codeact(model, [tool.function() for tool in job.tools], run)
    agent = graph.compile()  # its example also keeps a history for later questions: there are none
    question = {"messages": [{"role": "user", "content": job.task}]}
    limit = {"recursion_limit": 2 * job.steps}  # a reply and a run of code are two of its steps
    state: dict[str, Any] = {}
    try:
        for state in agent.stream(question, stream_mode="values", config=limit):
            said.program = state.get("script") or said.program
    except GraphRecursionError as error:
        said.gave_up, said.error = True, f"GraphRecursionError: {error}"
    finally:
        messages = state.get("messages", [])
        said.steps = sum(message.type == "ai" for message in messages)
        said.crashes = sum(message.type == "human" and str(message.content).startswith(_FAILED) for message in messages)
    if not said.gave_up:
        said.value = read_value(str(messages[-1].content))


def run(code: str, _locals: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The ``eval`` of the README of langgraph-codeact 0.1.3, word for word: it brings none of its own."""
    # Store original keys before execution
    original_keys = set(_locals.keys())

    try:
        with contextlib.redirect_stdout(io.StringIO()) as f:
            exec(code, builtins.__dict__, _locals)  # noqa: S102 - it has a process of its own, and the budget's time
        result = f.getvalue()
        if not result:
            result = "<code ran, no output printed to stdout>"
    except Exception as e:
        result = f"{_FAILED}{e!r}"

    # Determine new variables created during execution
    new_keys = set(_locals.keys()) - original_keys
    new_vars = {key: _locals[key] for key in new_keys}
    return result, new_vars

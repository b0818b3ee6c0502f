"""An agent as a tool of LangChain and LangGraph (``langchain-core`` ≥ 0.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atc.agent import Agent
from atc.errors import EnvironmentProblem
from atc.result import Result
from atc.serve.frameworks.delegate import NAME, Delegate, NotRun, text_of

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


def to_langchain(agent: Agent, *, name: str = NAME, description: str | None = None) -> BaseTool:
    """Make a LangChain tool of an agent: its one argument is a whole task, in words.

    The message that it answers with holds the answer as text, and the :class:`atc.Result` as its artifact. A task
    without an answer gives a message of status ``error`` that says why, and which calls with effects are done. Who
    approves calls with effects is the agent's business; LangChain's middleware can ask about the task as a whole.

    Args:
        agent: stays yours to close.
        name: of the tool.
        description: what it is good for, for the calling model; by default what it does and the names of its tools.

    Raises:
        EnvironmentProblem: ``langchain-core`` is not installed.
        UsageError: the name cannot be a tool's.
    """
    try:
        from langchain_core.tools import StructuredTool, ToolException
    except ImportError:
        raise EnvironmentProblem(
            "the package langchain-core is not installed", fix="pip install langchain-core"
        ) from None
    delegate = Delegate(agent, name, description)

    def answered(result: Result[Any]) -> tuple[str, Result[Any]]:
        if result.status != "answered":
            raise ToolException(delegate.failure(result))
        return text_of(result), result

    def solve(task: str) -> tuple[str, Result[Any]]:
        try:
            return answered(delegate.solve_blocking(task))
        except NotRun as error:
            raise ToolException(str(error)) from error

    async def solve_async(task: str) -> tuple[str, Result[Any]]:
        try:
            return answered(await delegate.solve(task))
        except NotRun as error:
            raise ToolException(str(error)) from error

    schema = {
        "type": "object",
        "properties": {"task": {"type": "string", "description": delegate.about_task}},
        "required": ["task"],
    }
    return StructuredTool(
        name=delegate.name,
        description=delegate.description,
        args_schema=schema,
        func=solve,
        coroutine=solve_async,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )

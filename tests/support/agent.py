"""An agent with a scripted model and small tools."""

from __future__ import annotations

import time
from typing import Any

from atc import Agent, Result
from atc._records.outcome import Outcome
from atc.calls.contract import CallHandler
from atc.models.fake import FakeModel, Scripted
from atc.run.base import Strategy
from atc.run.chain import Chain
from atc.run.writer import WritingOptions
from atc.sandboxes.contract import Job, Sandbox

GOOD = "```python\nanswer = double(n=21)\n```"
BAD = "```python\nanswer = [1][double(n=21)]\n```"


def code(source: str) -> str:
    """A reply that holds a program."""
    return f"```python\n{source}\n```"


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def slow(n: int) -> int:
    """A number, much later."""
    time.sleep(30)
    return n


def agent(*replies: Scripted, tools: Any = (double,), **settings: Any) -> Agent:
    return Agent(tools, model=FakeModel(replies), **{"sentence": False, "approve": "always", **settings})


def rejecting(most: int | None) -> Strategy:
    """The chain, whose check may refuse so many programs beside the revisions."""
    return Chain(WritingOptions(max_rejections=most))


def ended(result_or_agent: Agent | Result) -> dict[str, Any]:
    """The last event of a run's trace."""
    store = Agent([double]).store if isinstance(result_or_agent, Result) else result_or_agent.store
    last = list(store.find("last").events())[-1]
    assert last["kind"] == "run_ended"
    return dict(last["data"])


class Broken(Sandbox):
    """A sandbox that cannot be had any more when a program is to run."""

    name = "broken"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def prepare(self) -> None:
        return

    async def run(self, job: Job, call: CallHandler) -> Outcome:
        raise self.error

    async def aclose(self) -> None:
        return

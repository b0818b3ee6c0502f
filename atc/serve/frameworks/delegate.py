"""What the tools for all frameworks share: an agent behind one call, and what the calling model is told."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass, field
from typing import Any

from atc._host.blocking import wait_for
from atc._host.redaction import Redactor
from atc._records.packing import pack
from atc.agent import Agent
from atc.calls.approval import ApprovalRequest, Asker, Refusal
from atc.calls.json_values import canonical
from atc.calls.permissions import agent_permissions
from atc.errors import AtcError, UsageError
from atc.result import Call, Effect, Result
from atc.run.previews import preview
from atc.wording.outcomes import caveats, run_failed
from atc.wording.prompting import prompt

NAME = "solve_task"
MOST_TOLD = 20_000
"""Characters of a value that a calling model is given; the whole one is beside it for the calling code."""
_NAMES = 40
_SHOWN = 300
"""Characters of one call that a message shows, and of a question."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Delegate:
    """An agent that another agent gives whole tasks to.

    Args:
        agent: whose tools, model, approval and settings count.
        name: of the tool: letters, digits and underscores.
        about: what it is good for, as the calling model reads it; by default what every agent does, and its tools.

    Raises:
        UsageError: the name cannot be a tool's in every framework.
    """

    agent: Agent
    name: str = NAME
    about: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"{self.name!r} cannot be a tool's name: letters, digits and underscores, 64 at most")

    @property
    def description(self) -> str:
        """What the calling model reads about the tool."""
        if self.about is not None:
            return self.about
        names = list(self.agent.tools)
        return prompt("delegate", part="description", tools=names[:_NAMES], more=max(0, len(names) - _NAMES))

    @property
    def about_task(self) -> str:
        """What the calling model reads about the one argument."""
        return prompt("delegate", part="task")

    async def solve(self, task: str) -> Result[Any]:
        """Run a task.

        Raises:
            NotRun: the task cannot be one, or the model or the sandbox is not there.
        """
        try:
            return await self.agent.arun(task)
        except AtcError as error:
            raise NotRun(str(error)) from error

    def solve_blocking(self, task: str) -> Result[Any]:
        """:meth:`solve` for blocking code."""
        return wait_for(self.solve(task))

    def asking(self, asker: Asker) -> Agent:
        """The same agent, with a function in the place of its choice over calls with effects; its rules stay."""
        made = copy.copy(self.agent)
        made._approval = agent_permissions.approval_of(self.agent.permissions, asker, self.agent.settings)
        return made

    def failure(self, result: Result[Any]) -> str:
        """Why a run has no answer, what it did, and what helps: for the calling model."""
        shown = Redactor(self.agent.settings.secrets)
        effects = [call for call in result.calls if call.effect is not Effect.READ]
        reason = result.fault.message if result.fault is not None else f"the run ended as {result.status}"
        if result.status == "waiting":
            reason = run_failed(result)
        return prompt(
            "delegate",
            part="failure",
            status=result.status,
            reason=shown.text(reason[: 4 * _SHOWN]).rstrip("."),
            question=shown.text((result.question or "")[:_SHOWN]),
            done=[shown.text(_shown(call)) for call in effects if call.succeeded][:_NAMES],
            in_doubt=[shown.text(_shown(call)) for call in result.in_doubt][:_NAMES],
        )


class NotRun(Exception):
    """A run that could not be made, or could not go on: what is wrong with the task, or what is missing."""


def value_of(result: Result[Any]) -> Any:
    """The value of an answered run as JSON values; bytes as ``{"$bytes": base64}``."""
    return pack(result.json_value)


def told_value(result: Result[Any]) -> Any:
    """The value for a calling model: whole where it is small, else how large it is, and its beginning as text."""
    value = value_of(result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST_TOLD:
        return value
    begins = preview(result.json_value, MOST_TOLD)
    return f"(cut: the whole value has {len(text):,} characters; ask for less, or for a summary of it)\n{begins}"


def text_of(result: Result[Any]) -> str:
    """An answered run as text: its sentence where it has one that says more, the value, and its caveats."""
    value = told_value(result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    said = result.answer.strip()
    return "\n\n".join(filter(None, (said if said != text else "", text, *caveats(result))))


@dataclass
class Waiting:
    """The calls of one run that wait for a person, as another framework asks for it.

    Args:
        allowed: canonical forms of calls that a person has approved.

    Attributes:
        requests: what was asked about and not approved.
    """

    allowed: frozenset[str] = frozenset()
    requests: list[ApprovalRequest] = field(default_factory=list)

    def ask(self, request: ApprovalRequest) -> bool | Refusal:
        """Allow a call that was approved just so; note any other."""
        if key_of(request) in self.allowed:
            return True
        self.requests.append(request)
        return Refusal("it waits for a person's approval")


def key_of(request: ApprovalRequest) -> str:
    """A call and all that its question says: what was approved is this and nothing else."""
    about: list[Any] = [request.tool, request.arguments, *map(list, (request.warnings, request.instead_of))]
    about += [request.place, request.repeats, request.in_doubt, request.same_as is not None, request.is_repeat]
    return canonical(about)


def _shown(call: Call) -> str:
    arguments = ", ".join(f"{name}={preview(value, _SHOWN // 4)}" for name, value in call.arguments.items())
    return f"{call.tool}({arguments})"[:_SHOWN]

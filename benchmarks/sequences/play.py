"""One system goes through one sequence: one agent for all its tasks, and one catalogue folder that it learns in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from atc._records.events import Event
from atc.agent import Agent
from atc.calls.sending import CallPolicy
from atc.errors import EnvironmentProblem, ModelError, UsageError
from atc.models.base import Model
from atc.programs.program import Program
from atc.result import Result
from atc.sandboxes.contract import Sandbox
from atc.tools.tool import Toolset
from benchmarks.programs.argument_repair_mistakes import Draw
from benchmarks.sequences.rows import MOST_SHOWN, Row, append
from benchmarks.sequences.script import MISTAKEN, Script, ScriptedModel, mistaken
from benchmarks.sequences.systems import System
from benchmarks.sequences.world import Step, World
from benchmarks.tasks.fired_rules import fired_rules

CALL_S = 2.0
"""Seconds of one call: a slow tool costs so many."""
MODEL_CALLS, TOKENS = 12, 60_000
"""What one task may take of a model."""


@dataclass
class _Now:
    """The tools of the task that is tried now."""

    tools: Toolset | None = None


@dataclass(frozen=True)
class _Forwarded:
    """A transport that calls the tool of that name of the task that is tried now."""

    name: str
    now: _Now

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        assert self.now.tools is not None  # a task is open while its programs run
        transport = self.now.tools[self.name].transport
        assert transport is not None  # a catalogue of episodes has no others
        return await transport(arguments)

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return None


@dataclass(frozen=True)
class Play:
    """One sequence of one system.

    Attributes:
        world: of its seed.
        steps: the tasks to try.
        model: that writes the programs; ``None`` for the script.
        folder: the catalogue, in which it learns.
        version, terms: as rows have them.
        tried: numbers of the steps that were tried before.
    """

    world: World
    steps: Sequence[Step]
    system: System
    seed: int
    model: Model | None
    sandbox: Sandbox
    folder: Path
    version: str
    terms: str
    tried: frozenset[int] = frozenset()
    now: _Now = field(default_factory=_Now)

    async def play(self, file: Path, say: Callable[[Row], None]) -> None:
        """Try what was not tried yet, in the order of the sequence, and write a row for each.

        Raises:
            UsageError: nothing can be learnt of the tools, or the file cannot be written.
            EnvironmentProblem: no model, or no sandbox.
        """
        todo = [step for step in self.steps if step.number not in self.tried]
        if not todo:
            return
        events: list[Event] = []
        scripted = ScriptedModel() if self.model is None else None
        agent = self._agent(self.world.open(todo[0]).tools, self.model or scripted, events)
        async with agent:
            for step in todo:
                script = await self._script(step)
                if scripted is not None:
                    scripted.script = script
                row = await self._tried(agent, step, script, events)
                agent.catalogue.settle()
                append(file, row)
                say(row)

    def _agent(self, tools: Toolset, model: Model | None, events: list[Event]) -> Agent:
        made = Toolset(replace(tool, transport=_Forwarded(tool.name, self.now)) for tool in tools.values())
        places = [tool.protocol.source.location for tool in made.values()]
        if unstable := [place for place in places if not place or " at 0x" in place]:
            raise UsageError(f"{len(unstable)} tools have no lasting source, so nothing is learnt of them: give one")
        budget = {} if isinstance(model, ScriptedModel) else {"budget_tokens": TOKENS}
        settings: dict[str, Any] = {"learn": True, "budget_model_calls": MODEL_CALLS} | budget
        return Agent(
            made,
            model=model,
            sandbox=self.sandbox,
            catalogue=self.folder,
            policy=CallPolicy(call_timeout_s=CALL_S, retry_wait_s=0.001),
            approve=lambda request: True,
            warnings="allow",  # nothing here is real
            seed=self.seed,
            sentence=False,
            keep_runs=False,
            on_event=events.append,
            **settings | dict(self.system.settings),
        )

    async def _script(self, step: Step) -> Script:
        program = await self.world.program(step)
        name = f"{self.seed}/{step.environment}/{step.task.id}"
        begins_wrong = self.model is None and Draw(name).number("begins wrong", MISTAKEN) == 0
        mistake = mistaken(program, self.world.protocols, name) if begins_wrong else None
        return Script(
            program, step.tools, self.world.twins, self.world.protocols, step.broken, mistake, self.system.asks
        )

    async def _tried(self, agent: Agent, step: Step, script: Script, events: list[Event]) -> Row:
        events.clear()
        opened = self.world.open(step)
        self.now.tools = opened.tools
        begun = time.perf_counter()
        result: Result | None = None
        solved, error = False, ""
        try:
            async with opened.tools.opened():
                result = await agent.arun(step.task.text)
                solved = result.status == "answered" and opened.check(result.json_value)
        except EnvironmentProblem:
            raise
        except ModelError as problem:
            raise EnvironmentProblem(f"{problem}; the same command goes on") from None
        except Exception as problem:  # the task is lost, the others go on
            error = f"{type(problem).__name__}: {problem}"
        finally:
            self.now.tools = None
        mistake = script.mistake if script.mistake is not None and script.mistake.source in script.written else None
        row = Row(
            system=self.system.name, seed=self.seed, model="scripted" if self.model is None else self.model.name,
            version=self.version, terms=self.terms, step=step.number, third=step.third, env=step.environment,
            task=step.task.id, status="exception" if result is None else result.status, solved=solved,
            needed=len(set(step.tools)), mistake=mistake.kind if mistake else "", tool_calls=len(opened.calls),
            unwanted_writes=opened.unwanted_writes, seconds=round(time.perf_counter() - begun, 3),
            rules=dict(sorted(fired_rules(events, agent.settings.active_rules).items())), error=error[:MOST_SHOWN],
        )  # fmt: skip
        row = replace(row, **self._told(step, script.program, events))
        return row if result is None else replace(row, **_ended(result))

    def _told(self, step: Step, program: str, events: Iterable[Event]) -> dict[str, Any]:
        chosen = next((event.data for event in events if event.kind == "tools_chosen"), None)
        called = {str(event.data.get("tool")) for event in events if event.kind == "call_ended"}
        banned = {str(event.data.get("tool")) for event in events if event.kind == "tool_banned"}
        offered = set(chosen["tools"]) if chosen is not None else set()
        twins = {tool: twin.name for tool, twin in self.world.twins.items()}
        broken = sorted(set(step.tools) & step.broken.keys())
        names = {
            "needed": sorted(set(step.tools)),
            "missed": sorted(tool for tool in set(step.tools) if not {tool, twins.get(tool)} & offered),
            "broken": broken,
            "beside": [tool for tool in broken if twins.get(tool) in offered],
            "met": sorted(set(broken) & called),
            "banned": sorted(set(broken) & banned),
        }
        told: dict[tuple[str, str], set[str]] = {}
        for feed in (chosen or {}).get("feeds", ()):
            if feed["consumer"] in step.tools:
                told.setdefault((feed["consumer"], feed["parameter"]), set()).add(feed["supplier"])
        sources = {
            end: taken | {twins.get(tool, tool) for tool in taken} for end, taken in self._sources(step, program)
        }
        wrong = [end for end, some in told.items() if sources.get(end) and not some & sources[end]]
        right = [end for end, some in told.items() if some & sources.get(end, set())]
        names["feeds_wrong"] = [f"{tool}.{name} ← {', '.join(sorted(told[tool, name]))}" for tool, name in wrong]
        counts = {name: len(some) for name, some in names.items()}
        return counts | {
            "offered": len(offered), "feeds": len(told), "feeds_right": len(right), "names": names,
        }  # fmt: skip

    def _sources(self, step: Step, program: str) -> Iterable[tuple[tuple[str, str], set[str]]]:
        found: dict[tuple[str, str], set[str]] = {}
        protocols = {name: self.world.protocols[name] for name in step.tools}
        for call in Program(program).flow(protocols).calls.values():
            for name, value in call.arguments.items():
                if isinstance(name, str):
                    found.setdefault((call.tool, name), set()).update(origin.tool for origin in value.origins)
        return found.items()


def _ended(result: Result) -> dict[str, Any]:
    routed = result.revisions[-1].substituted if result.revisions and result.status == "answered" else ()
    return {
        "routed": len(routed),
        "programs": len(result.revisions),
        "model_calls": result.usage.model_calls,
        "prompt_tokens": result.usage.prompt_tokens,
        "completion_tokens": result.usage.completion_tokens,
        "answer": repr(result.json_value)[:MOST_SHOWN],
        "program": result.program[:4_000],
        "error": (result.fault.message if result.fault else "")[:MOST_SHOWN],
    }

"""DFSDT, the depth-first search-based decision tree of ToolLLM (Qin et al. 2023, arXiv 2307.16789, §3).

A node is a thought, an action and what was observed. The model goes deeper from the last node as in ReAct, until it
answers or gives up. Where a call fails, the model gives up, or the way gets too long, it goes back to the node before
and gives another next step, told of those that were tried there. Nodes are visited as they are made (pre-order); there
is no vote.

It is here to compare with (benchmarks/README.md; a baseline of ATC §5, NaviAgent §4.1 and RETO §4.1). What a given-up
way did stays done: the model is told of its writes, and the broker makes none again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from atc import Effect, Ending, Fault, Message, Run, Strategy
from atc.plugins.strategies import STATUS, ending_of, fenced
from atc_research.prompting import prompt
from atc_research.steps import (
    NO_ACTION,
    Action,
    actions_of,
    checked_answer,
    done_before,
    fault_of_call,
    out_of_steps,
    passed_by,
    read_value,
    record_step,
    routed_round,
    shown,
    tool_lines,
)

MAX_NODES = 20
"""Replies of the model in one run: nodes of the tree, and steps back."""
MAX_DEPTH = 8
"""Calls on one way."""
WIDTH = 3
"""Next steps that are tried from one node, before it counts as a dead end. The first one has no such bound."""
MAX_TOLD = 200
"""Characters of a step that led nowhere, and of what came of it."""
_FINAL = re.compile(r"Final Answer:\s*+(.*)", re.S)
_GIVE_UP = re.compile(r"^[^\w\n]*+(?:Action:[^\w\n]*+)?+give[ _]up\b", re.I | re.M)
_NO_ACTION = f"{NO_ACTION}, no Final Answer, and no Give Up"


class DFSDT(Strategy):
    """One call of a tool for each reply of the model, and ways back; at most :data:`MAX_NODES` replies.

    As in ``react`` every call that succeeds is a stage by itself: a read is made anew each time, and a write that was
    done is refused, also where it was done on a way that was given up.
    """

    name = "dfsdt"

    async def solve(self, run: Run) -> Ending:
        tree = _Tree(run)
        for _ in range(MAX_NODES):
            reply = (await run.ask("step", tree.messages(), stop=("\nObservation:",))).text
            ending = await tree.grow(reply)
            if ending is not None:
                return ending
        return tree.given_up()


@dataclass
class _Node:
    """A state of the search.

    Attributes:
        reply: that led here. ``observation``: what came of it. Both are empty at the root.
        call: a line about its call. ``writes``: the call has effects.
        key: of the action that led here.
        tried: a line for each next step from here that led nowhere; ``spent`` counts them, repeated ones too.
        keys: of the actions of all next steps.
    """

    reply: str = ""
    observation: str = ""
    call: str = ""
    writes: bool = False
    key: str = ""
    tried: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    spent: int = 0


class _Tree:
    """The search of one run.

    Attributes:
        way: the nodes from the root to where the search stands.
        done: by the key of its action, a line about each write on a way that was given up.
        instead: what the model is told of tools that broke.
        broken: the last failure of a read that nothing took the place of.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._system = Message("system", prompt("dfsdt", tools=tool_lines(run.tools.values())))
        self._task = f"{run.preamble.calls}Task: {run.task_with_type('The final answer, as JSON,')}"
        self.way = [_Node()]
        self.done: dict[str, str] = {}
        self.instead: list[str] = []
        self.broken: Fault | None = None
        self._restarts = 0

    def messages(self) -> list[Message]:
        """The prompt of the next step: the way to the last node, and what was tried from there."""
        note = prompt(
            "dfsdt_note", tried=self.way[-1].tried, done=list(self.done.values()), instead=self.instead
        ).strip()
        texts = [self._task, *(f"Observation: {node.observation}" for node in self.way[1:])]
        texts[-1] += f"\n\n{note}" if note else ""
        messages = [self._system, self._run.task_message(texts[0])]
        for node, text in zip(self.way[1:], texts[1:], strict=True):
            messages += [Message("assistant", node.reply), Message("user", text)]
        return messages

    async def grow(self, reply: str) -> Ending | None:
        """Take a step; the ending, where it is the last one."""
        run = self._run
        action, final, given_up = next(iter(actions_of(reply)), None), _FINAL.search(reply), _GIVE_UP.search(reply)
        begins = action.begin if action is not None else len(reply)
        if final is not None and final.start() < begins:
            value, fault = checked_answer(run, read_value(final[1]), final[1])
            record_step(run, reply, fault)
            if fault is None:
                return Ending("answered", value)
            self._led_nowhere(_told(f"Final Answer: {final[1]}", fault.message))
        elif given_up is not None and given_up.start() <= begins and not self._is_tool(action, given_up):
            record_step(run, reply, Fault(kind="answer", reason="the model gave this way up"))
            return self._give_up(reply[: given_up.start()])
        elif action is None:
            record_step(run, reply, Fault(kind="program", reason=_NO_ACTION))
            self._led_nowhere(_told(reply, _NO_ACTION))
        elif len(self.way) > MAX_DEPTH:
            record_step(run, reply[: action.end], Fault(kind="limit", reason=f"{MAX_DEPTH} calls on one way"))
            self._leave()
        else:
            fault, ending = await self._act(reply[: action.end], action)
            record_step(run, reply[: action.end], fault)
            return ending
        return None

    def _is_tool(self, action: Action | None, given_up: re.Match[str]) -> bool:
        """Whether what looks like giving up is the call of a tool of that name."""
        return action is not None and action.begin < given_up.end() and action.tool in self._run.tools

    def given_up(self) -> Ending:
        """The ending without an answer; by the tool that was broken, where one was."""
        if self.broken is not None and self.broken.cause is not None:
            return Ending(STATUS[self.broken.cause], fault=self.broken)
        return out_of_steps(self._run, MAX_NODES)

    # -- one call ------------------------------------------------------------------------------------------------------

    async def _act(self, reply: str, action: Action) -> tuple[Fault | None, Ending | None]:
        node = self.way[-1]
        line = f"{action.tool}({json.dumps(action.arguments, ensure_ascii=False)})"
        if action.fault is not None:
            self._led_nowhere(_told(reply, action.fault.reason))
            return action.fault, None
        if action.key in node.keys:
            fault = Fault(kind="arguments", reason=f"{action.tool} was tried from here with the same arguments")
            self._led_nowhere("")
            return fault, None
        node.keys.add(action.key)
        call = await self._run.call(action.tool, action.arguments)
        if call.succeeded:
            self._deeper(reply, _observed(call.observation), line, action.key, writes=call.effect is not Effect.READ)
            return None, None
        before = done_before(self._run, call)
        if before is not None and all(each.key != action.key for each in self.way):
            observation = f"done before, and not done again; it returned {_observed(before.observation)}"
            self._deeper(reply, observation, line, action.key, writes=True)
            return None, None
        fault, instead = await routed_round(self._run, fault_of_call(call))
        self.instead += [instead] if instead else []
        self._led_nowhere(_told(line, f"error: {call.error}"))
        if passed_by(call, fault) and not fault.substitutes:
            self.broken = fault
            return fault, None
        return fault, ending_of(fault)

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _deeper(self, reply: str, observation: str, line: str, key: str, *, writes: bool) -> None:
        self.way.append(_Node(reply, observation, line, writes, key))

    def _led_nowhere(self, line: str) -> None:
        """Note a next step that led nowhere; a node from which as many as may be tried did is left."""
        node = self.way[-1]
        node.tried += [line] if line else []
        node.spent += 1
        if len(self.way) > 1 and node.spent >= WIDTH:
            self._leave()

    def _leave(self) -> None:
        node = self.way.pop()
        if node.writes:
            self.done[node.key] = _told(node.call, node.observation)
        self._led_nowhere(_told(node.call, f"{_short(node.observation)}, and nothing after it helped"))

    def _give_up(self, why: str) -> Ending | None:
        if len(self.way) > 1:
            self._leave()
            return None
        self._restarts += 1
        self._led_nowhere(_told("Give Up", why))
        return self.given_up() if self._restarts >= WIDTH else None


def _observed(value: Any) -> str:
    """What a call returned, on one line, so that no text in it looks like a line of the prompt."""
    several = isinstance(value, str) and len(value.splitlines()) > 1
    return shown(json.dumps(value, ensure_ascii=False) if several else value)


def _told(step: str, outcome: str) -> str:
    return fenced(f"{_short(step)} → {_short(outcome)}")


def _short(text: str) -> str:
    words = " ".join(text[: 10 * MAX_TOLD].split())
    return words if len(words) <= MAX_TOLD else f"{words[:MAX_TOLD]} …"

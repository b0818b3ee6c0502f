"""RETO's own form (§3.3, App. A.6): tool calls, layer by layer, then an answer that rests on what they brought.

In each layer of the sketch the model sees the documents of that layer's tools alone, and what earlier layers brought,
in short. It decides which to call and how often, or skips the layer. After the last layer it has to finish, from a
summary of all calls, and says there what is missing. Arguments are repaired out of its sight.

It is here to be compared with (``benchmarks/README.md``): a program does the same with fewer replies.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from atc import Call, Effect, Ending, Fault, Message, Run, Strategy
from atc.plugins.strategies import STATUS, ending_of, fenced, is_ask_user
from atc_research.prompting import prompt
from atc_research.reto.layers import MAX_LAYERS, at_most
from atc_research.reto.model_repair import ModelRepairs
from atc_research.steps import (
    MAX_OBSERVATION,
    MAX_STEPS,
    NO_ACTION,
    Action,
    actions_of,
    checked_answer,
    cut,
    done_before,
    fault_of_call,
    passed_by,
    read_value,
    record_step,
    routed_round,
    tool_lines,
)

MAX_FAULTS = 3
"""Replies in one layer with which something was wrong, before the next layer begins."""
MAX_CALLS = 8
"""Calls of one reply that are made."""
MAX_FINISHES = 2
MAX_RESULTS, MIN_RESULT = 6_000, 200
"""Characters of all that earlier layers brought, and of one call whatever the number of calls."""
MAX_ERROR, MAX_MISSING = 300, 500
_SKIP = re.compile(r"^[^\w\n]*+(?:Action:[^\w\n]*+)?+(?:skip|none|finish|done)\b", re.I | re.M)
_SKIPS = frozenset({"skip", "none", "finish", "done"})
_INPUT = re.compile(r"(?:Action Input|Final Answer|Answer):", re.I)
_NO_CALL = f"{NO_ACTION}: write one, or only Skip"
_NOT_CALLED = "was not called: a call before it failed"
_AGAIN = "Write the calls that are still needed in this step, or only: Skip"
_NO_FINISH = 'finish with Action: Finish and an Action Input, {"answer": …} or {"missing": …}'
_NOTHING_SAID = "the calls did not bring what the task asks for"


class LayeredCalls(Strategy):
    """Tool calls layer by layer; at most :data:`~atc_research.steps.MAX_STEPS` replies that act, and the last one.

    The calls of one reply are made at once, but for those with effects: these are made in their order, and none after
    one that failed. What succeeded of a reply is a stage: a write that was done is not done again. The last layer goes
    on until each of its tools was called, or the model needs none of the others: nothing comes after it.

    Args:
        sketch: ``False`` puts all tools into one layer (the ablation of RETO §4.2.4).
    """

    name = "layered-calls"

    def __init__(self, sketch: bool = True) -> None:
        self.sketch = sketch

    async def solve(self, run: Run) -> Ending:
        ModelRepairs.join(run)
        state = _State(run)
        layers = _layers(run) if self.sketch else [list(run.tools)]
        for number, names in enumerate(layers, 1):
            ending = await state.layer(number, len(layers), names)
            if ending is not None:
                return ending
        return await state.finish()


def _layers(run: Run) -> list[list[str]]:
    """The names of the offered tools by layer. ``ask_user`` stands in each."""
    asking = [name for name, tool in run.tools.items() if is_ask_user(tool)]
    offered = [name for name in run.tools if name not in asking]
    layers = run.sketch.layers
    if not set(offered) <= {name for layer in layers for name in layer}:
        layers = run.graph.layers(offered)
    made = [found for layer in layers if (found := [name for name in layer if name in offered])]
    return [[*names, *asking] for names in at_most(made, MAX_LAYERS)]


class _State:
    """One run: what its layers brought.

    Attributes:
        results: a line for each call that succeeded or was left failed, in order.
        replies: of the model that acted.
        broken: the failure of a read that nothing took the place of.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._system = Message("system", prompt("layered_calls"))
        self.results: list[str] = []
        self.replies = 0
        self.broken: Fault | None = None

    async def layer(self, number: int, of: int, names: Sequence[str]) -> Ending | None:
        """Act in one layer until its calls are made; an ending, where no layer after it could help."""
        run, layer = self._run, _Layer(self._run, names)
        text = prompt(
            "layered_calls_layer",
            preamble=run.preamble.calls,
            task=run.task,
            results=_shared_out(self.results),
            number=number,
            of=of,
            tools=tool_lines(run.tools[name] for name in names),
        )
        messages = [self._system, run.task_message(text)]
        faults = 0
        while faults < MAX_FAULTS and self.replies < MAX_STEPS:
            self.replies += 1
            reply = (await run.ask("step", messages, stop=("\nObservation:",))).text
            actions = actions_of(reply, MAX_CALLS)
            kept = reply[: actions[-1].end] if actions else reply
            fault = await layer.act(reply, actions)
            record_step(run, kept, fault)
            if layer.ending is not None:
                return layer.ending
            faults += fault is not None
            if fault is None and (layer.skipped or number < of or layer.complete):
                break
            observed = "\n".join([*layer.observed, _AGAIN])
            messages += [Message("assistant", kept), Message("user", observed)]
        self.results += layer.lines()
        self.broken = layer.broken or self.broken
        return None

    async def finish(self) -> Ending:
        """The answer, from the summary of the calls alone; unsolved where that does not hold it."""
        run, typed = self._run, self._run.answer_type is not None
        text = prompt(
            "layered_calls_finish",
            preamble=run.preamble.calls,
            task=run.task_with_type("The answer"),
            results=_shared_out(self.results),
            typed=typed,
        )
        messages = [run.task_message(text)]
        ending = Ending("unsolved")
        for _ in range(MAX_FINISHES):
            reply = (await run.ask("conclude", messages)).text
            said = _finished(reply)
            if said is not None and "answer" not in said:
                return self._missing(reply, str(said["missing"] or _NOTHING_SAID))
            value, fault = None, Fault(kind="program", reason=_NO_FINISH) if said is None else None
            if said is not None:
                value = said["answer"]
                value, fault = checked_answer(run, value, value if isinstance(value, str) else _json(value))
            record_step(run, reply, fault)
            if fault is None:
                return Ending("answered", value)
            ending = Ending("unsolved", fault=fault)
            messages += [Message("assistant", reply), Message("user", fenced(fault.message))]
        return ending

    def _missing(self, reply: str, what: str) -> Ending:
        fault = Fault(kind="answer", reason=what[:MAX_MISSING])
        record_step(self._run, reply, fault)
        if self.broken is not None and self.broken.cause is not None:
            return Ending(STATUS[self.broken.cause], fault=self.broken)
        return Ending("unsolved", fault=fault)


class _Layer:
    """What happens in one layer.

    Attributes:
        called: tools that were called with success.
        observed: what the model is shown of its last reply.
        skipped: the model wrote that it needs no other call.
        broken: as of :class:`_State`. ``ending``: of the run, where a failure ends it.
    """

    def __init__(self, run: Run, names: Iterable[str]) -> None:
        self._run = run
        self._allowed = set(names)
        self._made: dict[str, str] = {}  # by the key of an action that succeeded, the line about it
        self._failed: dict[str, tuple[str, str]] = {}  # the same of those that failed: the tool, and the line
        self.called: set[str] = set()
        self.observed: list[str] = []
        self.skipped = False
        self.broken: Fault | None = None
        self.ending: Ending | None = None

    @property
    def complete(self) -> bool:
        """Whether each of its tools was called with success; the user need not be asked."""
        tools = self._run.tools
        return all(name in self.called for name in self._allowed if not is_ask_user(tools.get(name)))

    def lines(self) -> list[str]:
        """What the layer brought: a line for each call that succeeded, and for each that failed last."""
        return [*self._made.values(), *(line for _, line in self._failed.values())]

    async def act(self, reply: str, actions: Sequence[Action]) -> Fault | None:
        """Make the calls of a reply, each once; the first thing that was wrong.

        A call of another layer's tool is left out; it is wrong where it stands alone.
        """
        self.observed = []
        calls = [each for each in actions if each.tool in self._allowed or each.tool.lower() not in _SKIPS]
        self.skipped = len(calls) < len(actions) or (not actions and _SKIP.search(reply) is not None)
        if not calls and not self.skipped:
            self.observed.append(_NO_CALL)
            return Fault(kind="program", reason=_NO_CALL)
        own = [each for each in calls if each.tool in self._allowed]
        wrong = [each.fault for each in own if each.fault is not None]
        if not own:
            wrong += [Fault(kind="arguments", reason=f"{each.tool} is no tool of this step") for each in calls]
        self.observed += [fenced(fault.reason) for fault in wrong]
        new = {each.key: each for each in own if each.fault is None and each.key not in self._made}
        self.skipped = self.skipped or (not new and not wrong)  # it only repeats what was done
        again = {each.tool for each in new.values()}
        self._failed = {key: said for key, said in self._failed.items() if said[0] not in again}
        for action, call in await self._called(list(new.values())):
            fault = await self._noted(action, call)
            wrong += [fault] if fault is not None else []
            if self.ending is not None:
                return fault
        return next(iter(wrong), None)

    async def _called(self, actions: Sequence[Action]) -> list[tuple[Action, Call | None]]:
        """After a failed call with effects nothing of the same reply is called; that is ``None``."""
        run = self._run
        if not actions:
            return []
        made: list[tuple[Action, Call | None]] = []
        with run.attempt():
            stopped = False
            for reads, group in groupby(actions, self._only_reads):
                for part in [list(group)] if reads else [[each] for each in group]:
                    calls: Sequence[Call | None] = [None] * len(part) if stopped else await self._at_once(part)
                    made += zip(part, calls, strict=True)
                    stopped = stopped or not (reads or all(map(self._is_done, calls)))
        if any(call is not None and call.succeeded for _, call in made):
            run.begin_stage(inputs=run.inputs)
        return made

    def _only_reads(self, action: Action) -> bool:
        return self._run.tools[action.tool].protocol.effect is Effect.READ

    def _is_done(self, call: Call | None) -> bool:
        return call is not None and (call.succeeded or done_before(self._run, call) is not None)

    async def _at_once(self, actions: Sequence[Action]) -> list[Call]:
        """Make calls at the same time. Where one cannot be made at all, that is raised when all have ended."""
        calls = (self._run.call(each.tool, each.arguments) for each in actions)
        ended = await asyncio.gather(*calls, return_exceptions=True)
        for each in ended:
            if isinstance(each, BaseException):
                raise each
        return [each for each in ended if isinstance(each, Call)]

    async def _noted(self, action: Action, call: Call | None) -> Fault | None:
        begin = f"{action.tool}({json.dumps(action.arguments, ensure_ascii=False)})"
        if call is None:
            line = _line(begin, _NOT_CALLED)
            self._failed[action.key] = action.tool, line
            self.observed.append(line)
            return Fault(kind="program", reason=f"{action.tool} {_NOT_CALLED}")
        before = done_before(self._run, call)
        if call.succeeded or before is not None:
            value = (before or call).observation
            self._made[action.key] = line = _line(begin, f"returned {_json(value)}")
            self.called.add(action.tool)
            self.observed.append(line)
            return None
        fault, instead = await routed_round(self._run, fault_of_call(call))
        self._allowed.update(each.tool for each in fault.substitutes)
        error = " ".join((call.error or "").split())[:MAX_ERROR]
        line = _line(begin, f"failed: {error}")
        self._failed[action.key] = action.tool, line
        self.observed += filter(None, (line, instead))
        if passed_by(call, fault) and not fault.substitutes:
            self.broken = fault
        else:
            self.ending = ending_of(fault)
        return fault


def _json(value: Any) -> str:
    """A value on one line, so that no text in it looks like a line of the prompt."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _line(begin: str, what: str) -> str:
    return fenced(f"{cut(begin, MAX_ERROR)} {cut(what, MAX_OBSERVATION)}")


def _shared_out(lines: Sequence[str]) -> list[str]:
    room = max(MIN_RESULT, MAX_RESULTS // max(1, len(lines)))
    return [cut(line, room) for line in lines]


def _finished(reply: str) -> Mapping[str, Any] | None:
    """With ``answer`` the answer, or with ``missing`` what is missing. An answer in another form is read too."""
    action = next(iter(actions_of(reply)), None)
    given: Any = action.arguments if action is not None and action.fault is None else None
    if given is None:
        found = list(_INPUT.finditer(reply))
        text = (reply[found[-1].end() :] if found else reply).strip()
        given = read_value(text)
        if not text or (isinstance(given, str) and text.startswith("{")):
            return None  # it was cut, or is no JSON
    if not isinstance(given, dict) or not {"answer", "missing"} & given.keys():
        return {"answer": given}
    if "answer" in given and (given["answer"] is not None or not given.get("missing")):
        return {"answer": given["answer"]}
    return {"missing": given["missing"]}

"""NaviAgent's agent (§3.1, App. E.3): in each turn the model decides, as JSON, to answer, to ask, to retrieve tools or
to call one, and sees the part of the tool graph that leads to the tools it retrieved.

It is here to compare with (benchmarks/README.md): programs do the same by ``ask_user``, ``find_tools`` and calls. It
acts on the same context as every strategy, so with the same gates, journal and budget; the words are our own.

The ablation of its Table 2 is in the arguments: Base ``graph="none"``, Static+A ``graph="static"`` with
``search="alpha_beta"``, Dynamic+A ``"learnt"`` with it, Dynamic+H ``"learnt"`` with ``"heuristic"``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal, get_args

from atc import Call, Ending, Fault, Message, Run, Strategy, Toolset, UsageError
from atc.plugins.strategies import ASK_USER, STATUS, ToolGraph, fenced, is_ask_user
from atc_research.naviagent.subgraph import SearchName, leading_to, tree_in_words
from atc_research.prompting import prompt
from atc_research.steps import (
    MAX_STEPS,
    ROUTED_ROUND,
    checked_answer,
    fault_of_call,
    out_of_steps,
    read_value,
    record_step,
    shown,
    tool_lines,
)

GraphName = Literal["none", "static", "learnt"]
WINDOW = 3
"""Turns that the model is shown again (§3.1)."""
RECALLED = 3
"""Tools that one retrieval brings, before the graph adds what leads to them."""
MAX_CANDIDATES = 20
"""Tools that stand in a prompt: the latest."""
MAX_DECISIONS = 6
ANSWER, CLARIFY, RETRIEVE, CALL = "direct_answer", "clarify_intent", "retrieve_api", "call_api"
_FORM = "Give only the value that the task asks for."


class Navigate(Strategy):
    """Decisions of the model, turn by turn; at most :data:`~atc_research.steps.MAX_STEPS` replies that act.

    Args:
        graph: what is shown of the tool graph: nothing, what documents tell, or what runs taught too.
        search: how the part is found that leads to a tool.

    Raises:
        UsageError: there is no such graph or search.
    """

    name = "navigate"

    def __init__(self, graph: GraphName = "learnt", search: SearchName = "exact") -> None:
        for given, what, known in ((graph, "graph", get_args(GraphName)), (search, "search", get_args(SearchName))):
            if given not in known:
                raise UsageError(f"navigate: {what} is one of {', '.join(known)}, not {given!r}")
        self.graph, self.search = graph, search

    async def solve(self, run: Run) -> Ending:
        state = _State(run, self.graph, self.search)
        for _ in range(MAX_STEPS):
            reply = await run.ask("step", state.messages(), schema=state.schema)
            if reply.problem:
                unread = Fault(kind="program", reason=f"no decisions: {reply.problem}"[:500])
                record_step(run, reply.text, unread)
                state.see(reply.text, [unread.message])
                continue
            decisions = sorted(reply.value, key=lambda decision: decision["dependency_rank"])
            fault = await state.act(decisions)
            record_step(run, reply.text, fault)
            if fault is not None and fault.cause is not None and fault.cause not in ROUTED_ROUND:
                return Ending(STATUS[fault.cause], fault=fault)
            if all(decision["action"] == ANSWER for decision in decisions):
                return await state.synthesis()
        return state.given_up()


class _State:
    """One run: what it has found, done and answered.

    Attributes:
        schema: of a reply.
    """

    def __init__(self, run: Run, graph: GraphName, search: SearchName) -> None:
        self._run, self._graph_name, self._search = run, graph, search
        self._clarifies = is_ask_user(run.tools.get(ASK_USER))
        self._actions = [ANSWER, *([CLARIFY] if self._clarifies else []), RETRIEVE, CALL]
        self.schema = _schema(self._actions)
        self._candidates: dict[str, None] = {}
        self._targets: dict[str, None] = {}
        self._tree = ""
        self._called: dict[str, None] = {}
        self._failed: dict[str, None] = {}
        self._turns: deque[str] = deque(maxlen=WINDOW)
        self._results: list[str] = []
        self._broken: Fault | None = None
        self._system = prompt("navigate", actions=self._actions, clarify=self._clarifies)

    def messages(self) -> list[Message]:
        """The prompt of the next turn."""
        run = self._run
        tools = run.all_tools.only(*list(self._candidates)[-MAX_CANDIDATES:])
        text = prompt(
            "navigate_turn",
            tools=tool_lines(tools.values()),
            tree=fenced(self._tree),
            called=list(self._called),
            failed=list(self._failed),
            turns=list(self._turns),
            preamble=run.preamble.calls,
            task=run.task,
        )
        return [Message("system", self._system), run.task_message(text)]

    def see(self, reply: str, observations: list[str]) -> None:
        """Keep a turn in the window."""
        lines = "\n".join(f"  observed: {each}" for each in observations)
        self._turns.append(f"- decided: {shown(reply)}\n{lines}")

    async def act(self, decisions: list[dict[str, Any]]) -> Fault | None:
        """Do what was decided, in its order, up to the first failure, which is returned."""
        observations: list[str] = []
        fault: Fault | None = None
        for decision in decisions:
            observation, fault = await self._done(decision)
            observations.append(observation)
            if fault is not None:
                break
        self.see(json.dumps(decisions, ensure_ascii=False), observations)
        return fault

    async def synthesis(self) -> Ending:
        """The last turn: all that was found, put together as the answer (App. E.3.2)."""
        run, typed = self._run, self._run.answer_type is not None
        text = prompt(
            "navigate_answer",
            preamble=run.preamble.calls,
            task=run.task_with_type("The answer, as JSON,"),
            results=self._results,
            failed=list(self._failed),
            form=_FORM,
            typed=typed,
        )
        reply = (await run.ask("conclude", [run.task_message(text)])).text
        value, fault = checked_answer(run, read_value(reply), reply)
        record_step(run, reply, fault)
        return Ending("answered", value) if fault is None else Ending("unsolved", fault=fault)

    def given_up(self) -> Ending:
        """The ending without an answer; by the tool that was broken, where one was."""
        if self._broken is not None and self._broken.cause is not None:
            return Ending(STATUS[self._broken.cause], fault=self._broken)
        return out_of_steps(self._run)

    # -- the four actions ----------------------------------------------------------------------------------------------

    async def _done(self, decision: Mapping[str, Any]) -> tuple[str, Fault | None]:
        match decision["action"]:
            case "direct_answer":
                self._results.append(f"{shown(decision.get('intent', ''))}: {shown(decision.get('answer', ''))}")
                return "noted", None
            case "clarify_intent":
                return await self._called_tool(ASK_USER, {"question": str(decision.get("answer", ""))})
            case "retrieve_api":
                return await self._retrieved(str(decision.get("recall_description", ""))), None
        target = str(decision.get("target_api", ""))
        if target not in self._candidates:
            problem = f"{target!r} is no candidate tool: retrieve_api finds others"
            return shown(problem), Fault(kind="arguments", reason=problem)
        return await self._called_tool(target, decision.get("params") or {})

    async def _called_tool(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, Fault | None]:
        call = await self._run.call(tool, arguments)
        if call.succeeded:
            self._called[tool] = None
            if tool in self._failed:
                del self._failed[tool]
                self._draw()
            observation = shown(call.observation)
            line = f"{tool}({json.dumps(call.arguments, ensure_ascii=False, default=str)}) returned {observation}"
            self._results.append(fenced(line))
            return observation, None
        return self._not_called(call)

    def _not_called(self, call: Call) -> tuple[str, Fault]:
        fault = fault_of_call(call)
        if fault.cause in ROUTED_ROUND:
            self._broken = fault
        if fault.kind == "tool" and call.tool != ASK_USER:
            self._failed[call.tool] = None
            self._draw()  # what leads to the targets without it
        return f"error: {shown(call.error)}", fault

    async def _retrieved(self, description: str) -> str:
        if not description.strip():
            return "retrieve_api needs a recall_description"
        run = self._run
        found = [name for name in (await run.retrieve(description, RECALLED)).tools if name not in self._failed]
        for name in found:
            self._targets[name] = None
        kept = [name for name in [*found, *self._draw()] if name in run.all_tools]
        new = [name for name in dict.fromkeys(kept) if name not in self._candidates]
        self._candidates |= dict.fromkeys(new)
        missing = [name for name in new if name not in run.tools]
        await run.offer(run.tools + run.all_tools.only(*missing))
        return f"candidate tools now: {', '.join(new)}" if new else "no other tool fits"

    def _draw(self) -> list[str]:
        graph = self._graph()
        targets = [name for name in list(self._targets)[-MAX_CANDIDATES:] if name not in self._failed]
        if graph is None or not targets:
            self._tree = ""
            return []
        kept = leading_to(graph, targets, self._search, list(self._called))
        self._tree = tree_in_words(graph, targets, kept)
        return kept

    def _graph(self) -> ToolGraph | None:
        if self._graph_name == "none":
            return None
        tools = Toolset(tool for name, tool in self._run.all_tools.items() if name not in self._failed)
        if self._graph_name == "learnt":
            return self._run.whole_graph.of(tools.protocols)
        return ToolGraph(tools.protocols)


def _schema(actions: list[str]) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_DECISIONS,
        "items": {
            "type": "object",
            "properties": {
                "dependency_rank": {"type": "integer", "minimum": 1},
                "intent": text,
                "analysis": text,
                "action": {"enum": actions},
                "target_api": text,
                "params": {"type": "object"},
                "recall_description": text,
                "answer": text,
            },
            "required": ["dependency_rank", "intent", "analysis", "action"],
        },
    }

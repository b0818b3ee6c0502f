"""ReAct (Yao et al. 2023): thought, one JSON call, observation, and again. A small baseline of our own."""

from __future__ import annotations

import json
import re

from atc.errors import ModelError, ModelUnavailable, ToolError
from atc.models.base import Message
from benchmarks.systems.base import Answer, Job, System
from benchmarks.systems.common import MAX_STEPS, as_json, ask, called, digest, prompt, read_value, shown

_ACTION = re.compile(r"Action:\s*`?([\w.-]+)`?\s*(?:\n|\s)\s*Action Input:\s*(.*)", re.S)
_FINAL = re.compile(r"Final Answer:\s*(.*)", re.S)


class ReAct(System):
    name, about = "react", "one JSON call a step, with thoughts (our own baseline)"

    async def version(self) -> str:
        return digest("react")

    async def solve(self, job: Job) -> Answer:
        episode, model = job.session.episode, job.opened_model()
        tools = [as_json(tool.protocol) for tool in episode.tools.values()]
        messages = [Message("system", prompt("react", tools=tools)), Message("user", f"Task: {job.text}")]
        said, crashes = "", 0
        for step in range(1, MAX_STEPS + 1):
            try:
                said = await ask(model, messages, ("\nObservation:",))
            except (ModelError, ModelUnavailable) as error:
                return Answer("unsolved", error=str(error), program=said, programs=step - 1, crashes=crashes)
            action, final = _ACTION.search(said), _FINAL.search(said)
            if final and not (action and action.start() < final.start()):
                return Answer("answered", read_value(final[1]), program=said, programs=step, crashes=crashes)
            observation, failed, end = await self._observe(job, action)
            crashes += failed
            messages += [Message("assistant", said[:end]), Message("user", f"Observation: {observation}")]
        return Answer(
            "unsolved", error=f"no answer in {MAX_STEPS} steps", program=said, programs=MAX_STEPS, crashes=crashes
        )

    async def _observe(self, job: Job, action: re.Match[str] | None) -> tuple[str, bool, int | None]:
        """What is seen of an action, whether it failed, and where its text ends: what a model goes on to say before
        it has seen anything is not kept."""
        if action is None:
            return "there was no Action with an Action Input, and no Final Answer: write one of them", True, None
        text = action[2].removeprefix("```json").lstrip()
        begin = action.start(2) + len(action[2]) - len(text)
        try:
            arguments, length = json.JSONDecoder().raw_decode(text)
        except ValueError as error:
            return f"the Action Input is no JSON object: {error}", True, None
        try:
            return shown(await called(job.session.episode, action[1], arguments)), False, begin + length
        except ToolError as error:
            return f"error: {error.message}", True, begin + length

"""Plain function calling: the loop that any application writes against an endpoint that takes ``tools``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from benchmarks.peers.job import read_value
from benchmarks.systems.base import Answer, Job, System
from benchmarks.systems.peer import PEERS_FORM, document

SYSTEM = (
    "You solve the user's task with the functions that you are given. "
    "Call as many at once as do not depend on each other, and answer when you know what is asked for."
)
Json = dict[str, Any]


class FunctionCalling(System):
    """No framework: the tools as JSON schemas, the endpoint's own ``tool_calls``, and nothing else.

    All calls of a reply are made, in their order, and each is answered by what its tool returned or by its error; a
    reply without a call is the answer. Nothing is cut, kept or made anew.
    """

    name = "function-calling"
    about = "plain function calling: the endpoint's own tool calls, several at once"

    async def version(self) -> str:
        return _digest()

    async def solve(self, job: Job) -> Answer:
        made = _Made()
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
            talk = _Talk(client, job)
            for _ in range(job.caps.model_calls):
                try:
                    message = await talk.reply()
                except _Refused as error:
                    return made.answer("budget" if job.session.spent.over else "crash", error=str(error))
                made.steps += 1
                calls = message.get("tool_calls") or []
                if not calls:
                    text = str(message.get("content") or "").strip()
                    if not text:
                        return made.answer("unsolved", error="a reply with neither a call nor a word")
                    return made.answer("answered", read_value(text))
                made.program = "\n".join(json.dumps(call.get("function"), ensure_ascii=False) for call in calls)
                made.failed += not all([await talk.made(call) for call in calls])
        return made.answer("unsolved", error=f"no answer in {job.caps.model_calls} replies")


@dataclass
class _Made:
    """What a try has made so far."""

    steps: int = 0
    failed: int = 0
    program: str = ""

    def answer(self, ended: Any, value: Any = None, error: str = "") -> Answer:
        return Answer(ended, value, error, self.program, self.steps, self.failed)


class _Refused(Exception):
    """The endpoint gave no reply."""


@dataclass
class _Talk:
    """What was said so far, at the try's address."""

    client: httpx.AsyncClient
    job: Job
    messages: list[Json] = field(init=False)
    tools: list[Json] = field(init=False)

    def __post_init__(self) -> None:
        self.tools = [_function(document(tool.protocol)) for tool in self.job.session.episode.tools.values()]
        task = f"{self.job.text}\n\n{PEERS_FORM}"
        self.messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]

    async def reply(self) -> Json:
        """The next message of the model, noted.

        Raises:
            _Refused: the endpoint gave none.
        """
        body = {"model": self.job.model, "messages": self.messages, "tools": self.tools}
        answer = await self.client.post(f"{self.job.address}/v1/chat/completions", json=body)
        replied = answer.json()
        if answer.status_code != 200:
            raise _Refused(str(replied.get("error", replied))[:500])
        choices = replied.get("choices") or [{}]
        message: Json = choices[0].get("message") or {}
        self.messages.append({name: part for name, part in message.items() if part is not None})
        return message

    async def made(self, call: Json) -> bool:
        """Make a call and note what came of it; whether it gave an answer."""
        function = call.get("function") or {}
        result = await self._result(str(function.get("name")), function.get("arguments"))
        content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        self.messages.append({"role": "tool", "tool_call_id": call.get("id"), "content": content})
        return not isinstance(result, _Error)

    async def _result(self, name: str, written: Any) -> Any:
        if name not in self.job.session.episode.tools:
            return _Error(error=f"there is no function {name!r}")
        try:
            arguments = written if isinstance(written, dict) else json.loads(written or "{}")
        except ValueError as error:
            return _Error(error=f"the arguments are not JSON: {error}")
        if not isinstance(arguments, dict):
            return _Error(error="the arguments are no JSON object")
        answer = (await self.client.post(f"{self.job.address}/tools/{name}", json=arguments)).json()
        return answer["value"] if "value" in answer else _Error(error=answer["error"]["message"])


class _Error(dict[str, str]):
    """What is said of a call without an answer."""


def _function(tool: Mapping[str, Any]) -> Json:
    """A tool as an endpoint takes it. Of what it returns there is no place but the description."""
    described = tool["description"]
    if tool["returns"]:
        described = f"{described}\n\nReturn schema:\n{json.dumps(tool['returns'], ensure_ascii=False)}".strip()
    function = {"name": tool["name"], "description": described, "parameters": tool["parameters"]}
    return {"type": "function", "function": function}


@cache
def _digest() -> str:
    """Of what decides what it does."""
    return hashlib.sha256(PEERS_FORM.encode() + Path(__file__).read_bytes()).hexdigest()[:12]

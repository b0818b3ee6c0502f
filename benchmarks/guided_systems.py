"""ATC whose programs are guided by types while they are written; and ATC that answers only where two samples agree."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from atc.models.base import Model
from atc.models.openai_compatible import OpenAICompatible
from atc.run.find_tools import DOCS
from atc.run.find_tools import NAME as FINDER
from atc.run.look import NAME as LOOK
from atc.schemas.protocol import Protocol
from benchmarks.gateway import MAX_TOKENS, Gateway, Session, Spent
from benchmarks.guided import GuidedReply, Unguided, chat_completion, llama_server
from benchmarks.guided_types import Types
from benchmarks.systems.atc import Atc
from benchmarks.systems.base import Answer, Job

SAMPLED = 0.5
"""The temperature of two samples that must agree."""
_ANOTHER = 100
"""How far the second sample's seed is from the first one's."""
FRESH = {"fresh": True}
"""The way of the default's replies."""
_MODULES = ("guided.py", "guided_lines.py", "guided_types.py", "guided_systems.py")
_FORMATS = ("response_format", "grammar", "json_schema", "tools")


@cache
def guide_digest() -> str:
    """Return what changes when a guided reply may."""
    digest = hashlib.sha256()
    for name in _MODULES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()[:12]


class GuidedGateway(Gateway):
    """A gateway that writes replies as the request's own member ``way`` says; nothing of it reaches the endpoint.

    ``way`` has ``guide`` (the version of the guide) and ``task`` where types lead, ``temperature`` where another one is
    wanted than the try's, and ``fresh`` where a try must not find its prompt read by the arm before it: their times are
    compared. It is part of the name of a kept reply. A guided reply begins with the default's to the same request, if
    that is kept, and is booked what this took.
    """

    def _noted(self, reply: dict[str, Any]) -> dict[str, int]:
        return dict(reply.get("noted") or {})

    async def _forward(self, body: dict[str, Any], session: Session) -> tuple[int, Any]:
        way = body.get("way") or {}
        plain = {name: value for name, value in body.items() if name != "way"}
        if "temperature" in way:
            plain["temperature"] = way["temperature"]
        guided = "guide" in way and not any(plain.get(name) for name in _FORMATS)
        before = _unguided(self._read(plain | {"way": FRESH})) if guided else None
        if "fresh" in way and before is None and not session.spent.model_calls:
            await self._forget()
        if not guided:
            return await super()._forward(plain, session)
        types = types_of_try(session.episode.tools.protocols, way["task"], plain["messages"])
        options = {name: plain[name] for name in ("temperature", "seed", "stop") if plain.get(name) is not None}
        async with llama_server(self.upstream) as server:
            try:
                prompt = await server.prompt(plain["messages"])
                reply = GuidedReply(server, types, prompt, options, plain.get("max_tokens", MAX_TOKENS), before)
                await reply.write()
            except httpx.HTTPStatusError as error:
                return error.response.status_code, {"error": {"message": error.response.text[:500]}}
            except httpx.HTTPError as error:
                return 502, {"error": {"message": f"the model's endpoint failed: {type(error).__name__}: {error}"}}
        session.spent.kept_s += reply.begun_s
        return 200, chat_completion(reply, self.upstream.model)

    async def _forget(self) -> None:
        """Have the server read something else: it keeps one prompt."""
        with suppress(httpx.HTTPError):  # the try's own request says so
            async with llama_server(self.upstream) as server:
                async for _ in server.stream("-", n_predict=1):
                    pass


def _unguided(kept: Mapping[str, Any] | None) -> Unguided | None:
    """Return a kept reply of llama.cpp's server, which says how long it read and wrote."""
    reply = kept["reply"] if kept is not None else {}
    if not (timings := reply.get("timings")):
        return None
    said, usage = reply["choices"][0], reply["usage"]
    tokens = usage["prompt_tokens"], usage["completion_tokens"]
    seconds = timings["prompt_ms"] / 1000, timings["predicted_ms"] / 1000
    return Unguided(said["message"]["content"], said["finish_reason"], *tokens, *seconds)


_OWN = [
    Protocol(name=name, description="", parameters={"type": "object", "additionalProperties": True})
    for name in (LOOK, FINDER, DOCS)
]
"""What ATC itself may offer programs; a prompt says so."""


def types_of_try(protocols: Sequence[Protocol], task: str, messages: Sequence[Mapping[str, Any]]) -> Types:
    """Return the types of a try's tools, and of what ATC itself offers in its prompt.

    What an earlier program looked at stands in the next one's scope. Which names these are only ATC knows: here it is
    each word that the prompt has behind the task.
    """
    prompt = str(messages[-1]["content"])
    there = {protocol.name for protocol in protocols}
    own = [each for each in _OWN if each.name in prompt and each.name not in there]
    return Types([*protocols, *own], task, {*re.findall(r"[^\W\d]\w*", prompt.rpartition(task)[2])})


@dataclass(frozen=True)
class _Job(Job):
    """A try whose replies are written in some way."""

    way: Mapping[str, Any] = field(default_factory=dict)

    def opened_model(self) -> Model:
        model = super().opened_model()
        assert isinstance(model, OpenAICompatible)
        model.extra_body["way"] = dict(self.way)
        return model


class OneWay(Atc):
    """ATC whose replies are written in one way.

    Args:
        guided: types lead. ``temperature``: of the sampling, where it is not the try's.
    """

    def __init__(self, name: str, about: str, *, guided: bool = False, temperature: float | None = None) -> None:
        super().__init__(name, about)
        self._guided, self._temperature = guided, temperature

    async def version(self) -> str:
        return f"{await super().version()}-{guide_digest()}"

    async def solve(self, job: Job) -> Answer:
        way: dict[str, Any] = {"guide": guide_digest(), "task": job.text} if self._guided else {}
        way |= FRESH if self._temperature is None else {"temperature": self._temperature}
        given = {each.name: getattr(job, each.name) for each in fields(Job)}
        answer = await super().solve(_Job(**given, way=way))
        return replace(answer, rules={**(answer.rules or {}), **job.session.spent.noted})


class Agree(OneWay):
    """ATC that answers only where a second sample, which runs on tools of its own, has an equal value.

    Args:
        gateway: before the model and the tools of the second sample.
    """

    def __init__(self, name: str, about: str, gateway: Gateway) -> None:
        super().__init__(name, about, temperature=SAMPLED)
        self._gateway = gateway

    async def solve(self, job: Job) -> Answer:
        first = await super().solve(job)
        if first.ended != "answered" or job.of is None:
            return first
        environment, task = job.of
        seed = job.session.seed + _ANOTHER
        session = Session(environment.open(task), job.caps, job.session.temperature, seed)
        async with self._gateway.session(session) as address:
            twin = replace(job, session=session, address=address, events=[])
            second = await super().solve(twin)
        _add(job.session.spent, session.spent)
        if second.ended == "answered" and same_value(first.value, second.value):
            return first
        return replace(first, ended="unsolved", value=None, error="two samples do not agree")


def _add(spent: Spent, more: Spent) -> None:
    """Add what the second sample took; both together may be more than a cap."""
    for each in fields(Spent):
        if each.name not in ("over", "failure", "noted"):
            setattr(spent, each.name, getattr(spent, each.name) + getattr(more, each.name))
    spent.failure = spent.failure or more.failure
    spent.noted.update(more.noted)


def same_value(one: Any, other: Any) -> bool:
    """Return whether two answers are equal as values, with no look at the task or at a judge.

    Numbers are equal within a billionth, and a number is no truth value. Texts are equal but for case and space around
    them. Lists have an order, objects have none.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().casefold() == other.strip().casefold()
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)


ARMS = ("default", "guided", "one", "agree")


def arms(names: list[str], gateway: Gateway) -> list[Atc]:
    """Return the systems of these arms, before a gateway of this module."""
    made: dict[str, Atc] = {
        "default": OneWay("default", "ATC with its defaults"),
        "guided": OneWay("guided", "ATC whose programs are guided by types while they are written", guided=True),
        "one": OneWay("one", f"ATC with one sample at temperature {SAMPLED}", temperature=SAMPLED),
        "agree": Agree("agree", f"ATC that answers where two samples at temperature {SAMPLED} agree", gateway),
    }
    return [made[name] for name in names]

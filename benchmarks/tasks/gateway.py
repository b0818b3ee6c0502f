"""What stands between a system under test and the world: the model and the tools, counted, capped and kept.

Every try gets an address of its own. Behind it is an OpenAI-compatible endpoint that forwards to the real one, and the
tools of the task. So a system cannot count its own calls, ask more often than others may, or sample otherwise than
they do; and a system in another process, with packages of its own, is measured as ours is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import secrets
import socket
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import openai
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from atc._records.prices import Price
from atc.errors import ToolError, UsageError
from atc.models.embedded import EmbeddedModel
from atc.models.embedded_process import EmbeddedServer
from atc.models.endpoint_errors import refused_parameters
from atc.models.messages import estimate_tokens
from atc.models.resolve import choose_model
from atc.schemas.protocol import original_arguments
from benchmarks.environments.base import Episode
from benchmarks.tasks.purse import Purse
from benchmarks.tasks.transcript import Transcript

CONTEXT_TOKENS = 16_384
"""Of the embedded model: other systems' prompts grow with each step."""
CACHE_MIB = 4_096
"""What the embedded model keeps of prompts: systems and environments take turns."""


@dataclass(frozen=True)
class Upstream:
    """An OpenAI-compatible endpoint.

    Attributes:
        url: up to and without ``/chat/completions``.
        model: its name there; ``name``: as it is reported.
        context_tokens: what prompt and reply may take together.
        direct: never go through a proxy.
    """

    url: str
    model: str
    name: str
    context_tokens: int
    api_key: str = field(default="", repr=False)
    direct: bool = False


@contextmanager
def upstream(
    spec: str | None, threads: int | None = None, base_url: str | None = None, cache_mib: int = CACHE_MIB
) -> Iterator[Upstream]:
    """The endpoint of a model, started where it is the embedded one.

    Args:
        spec: as ``atc run --model`` takes it.
        base_url: of an endpoint; else what the environment says.
        cache_mib: what the embedded model keeps of prompts beside the last one.

    Raises:
        UsageError: the spec means nothing, or contradicts the endpoint.
        ModelUnavailable: there is no such model on this machine, or no endpoint is set up.
    """
    choice = choose_model(spec, base_url=base_url)
    if choice.kind == "installed":
        raise UsageError(f"the model {spec!r} is of another package: a benchmark takes those behind an endpoint")
    if choice.kind == "endpoint":
        url = (choice.base_url or "https://api.openai.com/v1").rstrip("/")
        yield Upstream(url, choice.model, choice.model, 32_768, choice.api_key or "")
        return
    model = EmbeddedModel(choice.model, threads=threads or os.cpu_count(), context_tokens=CONTEXT_TOKENS)
    model.check()
    server = EmbeddedServer(replace(model.settings, cache_mib=cache_mib))
    try:
        yield Upstream(server.url, model.settings.alias, model.name, CONTEXT_TOKENS, server.api_key, direct=True)
    finally:
        server.stop()


_log = logging.getLogger(__name__)
PATIENCE_S = 1_800.0
"""Seconds for one reply of the model: two cores read a long prompt for minutes."""
MAX_TOKENS = 1_024
"""Of one reply, where a system says nothing of it: an endpoint's own default may be none."""
_OURS = ("stream_options", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "n")
"""What a system may not choose, beside those that are set: the sampling, and how many replies one call brings."""
_LIMITS = ("max_completion_tokens", "max_tokens")
_ENDED = "this try has ended"
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_LOST = 504
"""The endpoint may have made a reply that nobody has."""
_BUSY = frozenset({429, 500, 502, 503, 504, 529})
"""Answers that may pass."""


@dataclass(frozen=True)
class Caps:
    """What one try may use. The reply that goes over a cap is given; nothing after it is.

    Attributes:
        seconds: of the whole try; what kept replies took when they were made is counted.
    """

    model_calls: int = 12
    tokens: int = 60_000
    seconds: float = 300.0

    def __str__(self) -> str:
        return f"{self.model_calls} calls, {self.tokens} tokens, {self.seconds:g} s"


@dataclass
class Spent:
    """What one try has used.

    Attributes:
        kept_calls: replies that were made in an earlier try; ``kept_s``: how long they took then.
        shared_tokens: of ``prompt_tokens`` those of a prompt that is sampled again, which a cache of prompts, or an
            endpoint asked for ``n`` replies, reads once.
        model_s: with what kept replies took. ``tool_s``: in tools.
        over: the cap that was reached, in words; empty while none is.
        noted: what a benchmark's own way to write replies noted of them, by kind.
    """

    model_calls: int = 0
    kept_calls: int = 0
    prompt_tokens: int = 0
    shared_tokens: int = 0
    completion_tokens: int = 0
    model_s: float = 0.0
    kept_s: float = 0.0
    tool_s: float = 0.0
    over: str = ""
    failure: str = ""
    """How the endpoint failed, if it did: then the try says nothing of the system."""
    noted: Counter[str] = field(default_factory=Counter)


@dataclass
class Session:
    """One try: its episode, what it may use and what it has used."""

    episode: Episode
    caps: Caps
    temperature: float
    seed: int
    spent: Spent = field(default_factory=Spent)
    began: float = field(default_factory=time.perf_counter)
    asking: set[asyncio.Future[tuple[int, Any]]] = field(default_factory=set, repr=False)
    """Requests that the endpoint works on; they are given up with the try, lest the next one waits for them."""
    transcript: Transcript | None = None
    prompts: set[str] = field(default_factory=set, repr=False)
    """Digests of the prompts so far."""

    @property
    def begun(self) -> int:
        """Model calls, with those that are not answered yet."""
        return self.spent.model_calls + len(self.asking)

    def closed(self) -> str:
        """The cap that is reached; empty while none is."""
        spent, caps = self.spent, self.caps
        if self.begun >= caps.model_calls:
            return f"its {caps.model_calls} model calls are used up"
        if spent.prompt_tokens + spent.completion_tokens >= caps.tokens:
            return f"its {caps.tokens} tokens are used up"
        if time.perf_counter() - self.began + spent.kept_s >= caps.seconds:
            return f"its {caps.seconds:g} seconds are used up"
        return ""


class Gateway:
    """Serves the tries of a benchmark on this machine's loopback. Use :meth:`opened`.

    Args:
        upstream: the real endpoint.
        kept: folder of replies that were made before; ``None`` keeps none.
        purse: what all requests may cost together; kept replies cost nothing.
        waits: seconds before a request is made anew that the endpoint was too busy for.
    """

    def __init__(
        self, upstream: Upstream, kept: Path | None, purse: Purse | None = None, waits: Sequence[float] = ()
    ) -> None:
        self.upstream, self._kept, self._purse, self._waits = upstream, kept, purse, tuple(waits)
        self._sessions: dict[str, Session] = {}
        self._refused: set[str] = set()  # what this endpoint once turned down
        self._client = httpx.AsyncClient(
            timeout=PATIENCE_S,
            trust_env=not upstream.direct,
            limits=httpx.Limits(max_keepalive_connections=0),  # one that the endpoint is closing would lose a request
        )
        self._address = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Gateway]:
        """Serve for the length of the block."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        routes = [
            Route("/{key}/v1/chat/completions", self._complete, methods=["POST"]),
            Route("/{key}/v1/models", self._models),
            Route("/{key}/tools/{name}", self._call, methods=["POST"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="error", lifespan="off", timeout_graceful_shutdown=5
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([listener]))  # `serve` would take our signals
        try:
            yield self
        finally:
            server.should_exit = True
            await serving
            listener.close()
            await self._client.aclose()

    @asynccontextmanager
    async def session(self, session: Session) -> AsyncIterator[str]:
        """Open a try; yields its address. When the block ends, the address is dead."""
        key = secrets.token_urlsafe(16)
        self._sessions[key] = session
        try:
            async with session.episode.tools.opened():
                yield f"{self._address}/{key}"
        finally:
            del self._sessions[key]
            for asked in session.asking:
                asked.cancel()

    # -- the model ---------------------------------------------------------------------------------------------------

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": self.upstream.model, "object": "model"}]})

    async def _complete(self, request: Request) -> Response:
        body = await request.json()  # from here to the question nothing waits: several may be asked at once
        session = self._sessions.get(request.path_params["key"])
        if session is None:
            return _refused(_ENDED, 404)
        if over := session.closed():
            session.spent.over = over
            return _refused(f"the benchmark's budget is spent: {over}", 400)
        streamed = bool(body.pop("stream", False))
        for name in _OURS:
            body.pop(name, None)
        body |= {"model": self.upstream.model, "temperature": session.temperature}
        body["seed"] = _seed(session)
        for name in _LIMITS:
            if type(body.get(name)) is not int or body[name] < 1:  # null, 0 or -1: to some endpoints, no limit
                body.pop(name, None)
        if "max_completion_tokens" not in body:
            body.setdefault("max_tokens", MAX_TOKENS)
        began = time.perf_counter()
        kept = self._read(body)
        if kept is None:
            aside = self._put_aside(body)
            if aside is None:
                session.spent.failure = f"the money is used up: {self._purse.closed}" if self._purse else ""
                return _refused(session.spent.failure, 400)
            asked = None
            try:
                asked = await self._asked(session, body)
            finally:
                self._pay(aside, body, asked)
            if asked is None:
                return _refused(_ENDED, 404)
            status, reply = asked
            if status != 200:
                if status not in (400, 413, 422):  # those turn a request down for what it is: too long, say
                    session.spent.failure = f"the endpoint answered {status}: {json.dumps(reply)[:300]}"
                return JSONResponse(reply, status_code=status)
            kept = {"reply": reply, "seconds": time.perf_counter() - began}
            self._write(body, kept)
        else:
            session.spent.kept_calls += 1
            session.spent.kept_s += kept["seconds"]
        _count(session, body, kept)
        session.spent.noted.update(self._noted(kept["reply"]))
        if session.transcript is not None:
            session.transcript.exchange(body.get("messages", ()), kept["reply"])
        return _streamed(kept["reply"]) if streamed else JSONResponse(kept["reply"])

    def _put_aside(self, body: dict[str, Any]) -> Decimal | None:
        """What a request may cost; ``None`` where that cannot be paid."""
        if self._purse is None:
            return Decimal(0)
        most = max(body.get(name, 0) for name in _LIMITS)
        return self._purse.reserve(prompt_estimate(body), most)

    def _pay(self, aside: Decimal, body: dict[str, Any], asked: tuple[int, Any] | None) -> None:
        """Book what a request did cost. One that was given up, or whose reply was lost, may have cost all it could."""
        if self._purse is None:
            return
        if asked is None or asked[0] == _LOST:
            self._purse.pay(aside, aside)
            return
        status, reply = asked
        self._purse.pay(aside, _cost(self._purse.price, body, reply) if status == 200 else Decimal(0))

    def _noted(self, reply: dict[str, Any]) -> dict[str, int]:
        return {}

    async def _asked(self, session: Session, body: dict[str, Any]) -> tuple[int, Any] | None:
        asked = asyncio.ensure_future(self._forward(body, session))
        session.asking.add(asked)
        await asyncio.wait([asked])
        session.asking.discard(asked)
        return None if asked.cancelled() else asked.result()

    async def _forward(self, body: dict[str, Any], session: Session) -> tuple[int, Any]:
        """Ask, and once more at once for each thing that the endpoint turns down and all systems can do without."""
        headers = {"Authorization": f"Bearer {self.upstream.api_key}"} if self.upstream.api_key else {}
        waits = iter(self._waits)
        while True:
            taken = _taken(body, self._refused)
            try:
                answer = await self._client.post(f"{self.upstream.url}/chat/completions", json=taken, headers=headers)
            except httpx.HTTPError as error:
                return 502 if isinstance(error, _NOT_SENT) else _LOST, _failed(error)
            try:
                said = answer.json()
            except ValueError as error:
                return _LOST if answer.status_code == 200 else 502, _failed(error)
            if answer.status_code == 200 and not isinstance(said, dict):
                return _LOST, _failed(ValueError("its reply is no object"))
            if answer.status_code in _BUSY and (wait := next(waits, None)) is not None:
                await asyncio.sleep(wait)
                continue
            refused = set() if answer.status_code == 200 else _turned_down(answer, said) & taken.keys()
            if not refused:
                return answer.status_code, said
            self._refused |= refused

    # -- replies that are kept ---------------------------------------------------------------------------------------

    def _path(self, body: dict[str, Any]) -> Path | None:
        text = json.dumps({"at": self.upstream.name, **body}, sort_keys=True, ensure_ascii=False)
        return self._kept and self._kept / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def _read(self, body: dict[str, Any]) -> dict[str, Any] | None:
        path = self._path(body)
        try:
            kept = json.loads(path.read_text()) if path is not None else None
            return kept if kept is None or {"reply", "seconds"} <= kept.keys() else None
        except (OSError, ValueError):
            return None

    def _write(self, body: dict[str, Any], kept: dict[str, Any]) -> None:
        path = self._path(body)
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new-", delete=False) as out:
                json.dump(kept, out)
            os.replace(out.name, path)
        except OSError as error:  # a full disk, say: the reply itself is good
            _log.warning("could not keep a reply in %s: %s", path.parent, error.strerror)

    # -- the tools ---------------------------------------------------------------------------------------------------

    async def _call(self, request: Request) -> Response:
        session = self._sessions.get(request.path_params["key"])
        name = request.path_params["name"]
        if session is None:
            return _refused(_ENDED, 404)
        if name not in session.episode.tools:
            return JSONResponse({"error": {"message": f"there is no tool {name!r}", "status": "not_found"}})
        tool = session.episode.tools[name]
        assert tool.transport is not None  # an episode has no others
        arguments = original_arguments(tool.protocol, await request.json())
        began = time.perf_counter()
        try:
            return JSONResponse({"value": await tool.transport(arguments)})
        except ToolError as error:
            return JSONResponse({"error": {"message": error.message, "status": error.status}})
        finally:
            session.spent.tool_s += time.perf_counter() - began


def _seed(session: Session) -> int:
    """Another one for each request, so that asking again is not answered with the same words."""
    return 1_000 * session.seed + session.begun


def _failed(error: Exception) -> dict[str, Any]:
    return {"error": {"message": f"the model's endpoint failed: {type(error).__name__}: {error}"}}


def _taken(body: dict[str, Any], refused: set[str]) -> dict[str, Any]:
    taken = {name: value for name, value in body.items() if name not in refused}
    if "max_tokens" in refused and "max_tokens" in body:
        taken["max_completion_tokens"] = body["max_tokens"]
    return taken


def _turned_down(answer: httpx.Response, said: Any) -> set[str]:
    body = said.get("error", said) if isinstance(said, dict) else said
    response: Any = answer  # openai's own client may bring another one of the same form
    return refused_parameters(openai.APIStatusError(json.dumps(said)[:2_000], response=response, body=body))


def _count(session: Session, body: dict[str, Any], kept: dict[str, Any]) -> None:
    spent = session.spent
    read, written = used_tokens(body, kept["reply"])
    prompt = hashlib.sha256(json.dumps(body.get("messages"), sort_keys=True).encode()).hexdigest()
    spent.model_calls += 1
    spent.prompt_tokens += read
    if prompt in session.prompts:
        spent.shared_tokens += read
    session.prompts.add(prompt)
    spent.completion_tokens += written
    spent.model_s += kept["seconds"]


def used_tokens(body: dict[str, Any], reply: dict[str, Any]) -> tuple[int, int]:
    """What a request and its reply took: the endpoint's own counts, or an estimate (characters / 4) where it has none.

    In an estimate the schemas of tools and of the answer count as the messages do: the model reads them too.
    """
    usage = reply.get("usage") or {}
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return prompt_estimate(body) if read is None else read, _estimate(
        reply.get("choices")
    ) if written is None else written


def _cost(price: Price, body: dict[str, Any], reply: dict[str, Any]) -> Decimal:
    details = (reply.get("usage") or {}).get("prompt_tokens_details") or {}
    return price.cost(*used_tokens(body, reply), details.get("cached_tokens") or 0)


def prompt_estimate(body: dict[str, Any]) -> int:
    """About how many tokens a model reads of a request."""
    return sum(_estimate(body.get(part)) for part in ("messages", "tools", "response_format"))


def _estimate(part: Any) -> int:
    return estimate_tokens(json.dumps(part, ensure_ascii=False)) if part else 0


def _streamed(reply: dict[str, Any]) -> Response:
    choices = []
    for choice in reply.get("choices", ()):
        message = dict(choice.get("message") or {})
        for index, call in enumerate(message.get("tool_calls") or ()):
            call["index"] = index
        choices.append(
            {"index": choice.get("index", 0), "delta": message, "finish_reason": choice.get("finish_reason")}
        )
    common = {name: reply.get(name) for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    pieces = [{**common, "choices": choices}, {**common, "choices": [], "usage": reply.get("usage")}]
    text = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    return Response(text, media_type="text/event-stream")


def _refused(message: str, status: int) -> Response:
    return JSONResponse({"error": {"message": message, "type": "budget", "code": "budget"}}, status_code=status)

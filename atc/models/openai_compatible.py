"""A language model behind an endpoint that speaks OpenAI's chat completions.

The endpoint is believed in nothing: it may hang, stop half-way, never stop, or answer with something else altogether.
The key is sent to it and shows up nowhere else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import openai
import tenacity

from atc.errors import AtcError, ModelUnavailable, SettingsError
from atc.models.base import Message, Model, OnText, Reply, estimate_tokens
from atc.models.endpoint_errors import Endpoint, Failure, broken, explain, retried, unknown_parameters
from atc.models.received import Answer

THINKING_TOKENS = 8_192
_LINGER = 5.0  # seconds for an endpoint to close a stream after it said that the reply is finished


class OpenAICompatible(Model):
    """A model behind an OpenAI-compatible endpoint.

    Token counts are the endpoint's own; where it does not send any they are estimates (characters / 4). A model that
    was seen to think before it replies gets ``thinking_tokens`` for that beside those of the reply, unless the endpoint
    allows no more; a reply that thoughts had left no room for is asked for once more.

    Args:
        model: the model's name at the endpoint.
        base_url: the endpoint's address up to and without ``/chat/completions``; OpenAI's own when not given.
        api_key: the key; an endpoint of your own may need none.
        timeout_s: seconds that one attempt may take in all.
        max_attempts: how often a request is made before an overloaded or broken endpoint is an error.
        headers: more HTTP headers.
        stall_s: seconds that may pass between two pieces of a reply (the first may take all of ``timeout_s``).
        backoff_s: seconds before the second attempt, about; they double with each further one.
        context_tokens: what prompt and reply may take together.
        thinking_tokens: that a model may think before each reply, if it does.
        name: how the model is named in results; ``model`` when not given.
        direct: never go through a proxy.

    Raises:
        SettingsError: ``base_url`` is no HTTP address, or the key cannot be one.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 300.0,
        max_attempts: int = 4,
        headers: Mapping[str, str] | None = None,
        *,
        stall_s: float = 60.0,
        backoff_s: float = 0.5,
        context_tokens: int = 32_768,
        thinking_tokens: int = THINKING_TOKENS,
        name: str | None = None,
        direct: bool = False,
    ) -> None:
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise SettingsError(
                "the API key holds characters that no key has (a space, a line end?): mend OPENAI_API_KEY"
            )
        self.model = model
        self.name = name or model
        self.context_tokens = context_tokens
        self.thinking_tokens = thinking_tokens
        self.timeout_s = timeout_s
        self.stall_s = stall_s
        self.max_attempts = max_attempts
        self.backoff_s = backoff_s
        self._base_url = base_url
        self._api_key = api_key
        self._headers = dict(headers or {})
        self._direct = direct
        self._thinks = False  # it was seen to
        self._unknown: set[str] = set()  # parameters that this endpoint once turned down
        self._endpoint = Endpoint(_shown_url(base_url), model, api_key)

    def __repr__(self) -> str:
        return f"OpenAICompatible({self.model!r}, base_url={self._endpoint.url!r})"

    @property
    def url(self) -> str:
        """The endpoint's address, without credentials that may stand in it."""
        return self._endpoint.url

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
        stop: Sequence[str] = (),
        on_text: OnText | None = None,
    ) -> Reply:
        replies = await self.complete_many(
            messages, 1, max_tokens=max_tokens, temperature=temperature, seed=seed, stop=stop, on_text=on_text
        )
        return replies[0]

    async def complete_many(
        self,
        messages: Sequence[Message],
        count: int,
        *,
        max_tokens: int,
        temperature: float,
        seed: int | None = None,
        stop: Sequence[str] = (),
        on_text: OnText | None = None,
    ) -> list[Reply]:
        """Return ``count`` replies out of one request (its ``n``); not every endpoint knows that.

        Raises:
            ModelUnavailable: as :meth:`complete`.
            ModelError: as :meth:`complete`.
        """
        if self._base_url is None and not self._api_key:
            raise ModelUnavailable(
                "no key for OpenAI's endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL to an endpoint of your own"
            )
        started = time.monotonic()
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if count > 1:
            request["n"] = count
        if seed is not None:
            request["seed"] = seed
        if stop:
            request["stop"] = list(stop)
        answers = [await self._with_retries(request, on_text)]
        before, self._thinks = self._thinks, self._thinks or any(part.thoughts for part in answers[0].parts)
        if not before and self._room(request) and any(part.cut_while_thinking for part in answers[0].parts):
            answers.append(await self._with_retries(request, on_text))
        seconds = (time.monotonic() - started) / count
        return [self._reply(index, answers, messages, seconds) for index in range(count)]

    def _room(self, request: Mapping[str, Any]) -> int:
        """Tokens to think, beside those of the reply, as far as the context has them."""
        if not self._thinks:
            return 0
        prompt = sum(4 + estimate_tokens(message["content"]) for message in request["messages"])
        left: int = self.context_tokens - prompt - request["max_tokens"]
        return max(0, min(self.thinking_tokens, left))

    def _reply(self, index: int, answers: Sequence[Answer], messages: Sequence[Message], seconds: float) -> Reply:
        """The reply, where it was cut while thinking that of the second try; at the cost of both."""
        part, *again = (got.parts[index] for got in answers)
        if again and part.cut_while_thinking and again[0].text:
            part = again[0]
        read = [estimate_tokens(messages) if got.prompt_tokens is None else got.prompt_tokens for got in answers]
        return Reply(
            text=part.text,
            finish_reason=part.finish or "other",
            prompt_tokens=sum(read),
            completion_tokens=sum(got.parts[index].completion_tokens for got in answers),
            seconds=seconds,
            model=self.name,
        )

    async def _with_retries(self, request: dict[str, Any], on_text: OnText | None) -> Answer:
        attempts = tenacity.AsyncRetrying(**retried(self.max_attempts, self.backoff_s), sleep=anyio.sleep)
        problem: AtcError
        try:
            return await attempts(self._attempt, request, on_text)
        except Failure as failure:
            problem = failure.problem
        raise problem  # outside the handler, so that no chained exception carries the request and with it the key

    async def _attempt(self, request: dict[str, Any], on_text: OnText | None) -> Answer:
        """Ask once, and once more at once for each parameter that turns out to be unknown to the endpoint.

        Raises:
            Failure: it did not work.
        """
        while True:
            try:
                with anyio.fail_after(self.timeout_s):
                    limit = 2_000 + 20 * (request["max_tokens"] + self._room(request))
                    return await self._ask(self._known(request), on_text, limit=limit)
            except TimeoutError:
                failure = broken(f"the model's endpoint {self.url} did not finish its reply in {self.timeout_s:g} s")
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if self._room(request) and "tokens" in str(error):
                    self.thinking_tokens = 0  # it allows no more
                    continue
                unknown = (unknown_parameters(error) & request.keys()) - self._unknown
                if unknown:
                    self._unknown |= unknown
                    continue
                failure = explain(error, self._endpoint)
            except openai.OpenAIError as error:
                failure = explain(error, self._endpoint)
            raise failure

    def _known(self, request: dict[str, Any]) -> dict[str, Any]:
        whole = {**request, "max_tokens": request["max_tokens"] + self._room(request)}
        known = {name: value for name, value in whole.items() if name not in self._unknown}
        if "max_tokens" in self._unknown:
            known["max_completion_tokens"] = whole["max_tokens"]
        return known

    async def _ask(self, request: dict[str, Any], on_text: OnText | None, *, limit: int) -> Answer:
        got = Answer(request.get("n", 1), limit, on_text)
        # A client for each request: connections belong to an event loop, and every run may bring a loop of its own.
        async with self._client() as client, await client.chat.completions.create(**request) as stream:
            if "json" in stream.response.headers.get("content-type", ""):
                self._take_whole(await stream.response.aread(), got)
            else:
                await self._take_stream(stream, got)
        if not got.choices:
            raise broken(
                f"the model's endpoint {self.url} answered, but with no chat completion: check OPENAI_BASE_URL"
            )
        return got

    def _client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key or "none",
            max_retries=0,
            timeout=openai.Timeout(self.timeout_s, connect=min(10.0, self.timeout_s)),
            default_headers=self._headers,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if self._direct else None,
        )

    async def _take_stream(self, stream: openai.AsyncStream[Any], got: Answer) -> None:
        patience = self.timeout_s
        while not got.full:
            try:
                with anyio.fail_after(patience):
                    chunk = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if got.finished:
                    return
                raise broken(
                    f"the model's endpoint {self.url} sent nothing for {patience:g} s in the middle of a reply"
                ) from None
            except (ValueError, TypeError, AttributeError):
                raise broken(f"the model's endpoint {self.url} sent something that is no chat completion") from None
            got.take(chunk)
            patience = min(_LINGER, self.stall_s) if got.finished else self.stall_s

    def _take_whole(self, body: bytes, got: Answer) -> None:
        """Take an answer that came in one piece although a stream was asked for."""
        try:
            got.take(json.loads(body, object_hook=lambda members: SimpleNamespace(**members)))
        except (ValueError, RecursionError):
            raise broken(f"the model's endpoint {self.url} sent something that is no JSON") from None


def _shown_url(base_url: str | None) -> str:
    try:
        url = httpx.URL("https://api.openai.com/v1" if base_url is None else base_url)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise SettingsError(
            "the model's base_url is no address: give one like http://localhost:8000/v1 (OPENAI_BASE_URL)"
        )
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))

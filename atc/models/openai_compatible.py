"""A language model behind an endpoint that speaks OpenAI's chat completions.

The endpoint is believed in nothing: it may hang, stop half-way, never stop, or answer with something else altogether.
The key is sent to it and shows up nowhere else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
import httpx
import tenacity

from atc.errors import AtcError, ContextExceeded, ModelError, ModelUnavailable, SettingsError
from atc.models.base import Model
from atc.models.catalogue import DEFAULT_MODEL
from atc.models.endpoint_client import EndpointClient, ReplyAccumulator
from atc.models.endpoint_errors import (
    Endpoint,
    Failure,
    broken,
    explain,
    refused_parameters,
    refuses_images,
    retried,
    without_images,
)
from atc.models.endpoint_facts import EndpointFacts, EndpointFormats
from atc.models.messages import (
    Message,
    ModelRequest,
    Reply,
    Role,
    bounded_tokens,
    estimate_tokens,
)
from atc.models.reply_format import ALL_KINDS

_log = logging.getLogger(__name__)

THINKING_TOKENS = 8_192
CONTEXT_TOKENS = 32_768
"""Assumed where an endpoint does not state its context; one that takes fewer reports it in an error."""
STALL_S = 300.0
MOST_STOPS = 4
"""Texts that end a reply which a request names: OpenAI's endpoint refuses more. The others end it here."""
_OWN = {"model", "messages", "max_tokens", "stream", "stream_options", "response_format", "grammar", "n"}


class OpenAICompatible(Model):
    """A model behind an OpenAI-compatible endpoint.

    Token counts are the endpoint's own; where it does not send any they are estimates (characters / 4). A model that
    was seen to think before it replies gets ``thinking_tokens`` for that beside those of the reply, unless the endpoint
    allows no more; a reply that thoughts had left no room for is asked for once more. What an endpoint turns down and a
    request can do without (streaming, the role ``system``, ``seed`` …) is left out from then on. A reply's format is
    sent as ``response_format``; an endpoint that does not take it, or not keep to it, gets it in the prompt then.

    Args:
        model: the model's name at the endpoint.
        base_url: the endpoint's address up to and without ``/chat/completions``; OpenAI's own when not given.
        api_key: the key; an endpoint of your own may need none.
        timeout_s: seconds that one attempt may take in all, while pieces of a reply arrive.
        max_attempts: how often a request is made before an overloaded or broken endpoint is an error.
        stall_s: seconds that may pass before the first piece of a reply, and between two.
        backoff_s: seconds before the second attempt, about; they double with each further one.
        context_tokens: what prompt and reply may take together; when not given, the endpoint is asked for it once.
        prompt_tokens: that a prompt should have at most; as many as the context has when not given.
        thinking_tokens: that a model may think before each reply, if it does.
        name: how the model is named in results; ``model`` when not given.
        direct: never go through a proxy.
        takes_grammars: it takes GBNF under ``grammar``, as llama.cpp's server does.
        extra_body: more members of each request, such as ``{"reasoning_effort": "low"}``.
        key_name: the variable that holds the key, for messages. ``model_name`` and ``url_name``: likewise.
        facts_headers: in the place of ``Authorization`` in questions about the model.

    Raises:
        SettingsError: ``base_url`` is no HTTP address, the key cannot be one, or ``extra_body`` has a member that every
            request has.
    """

    enforces = ALL_KINDS
    takes_images = None

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 1800.0,
        max_attempts: int = 4,
        *,
        stall_s: float = STALL_S,
        backoff_s: float = 0.5,
        context_tokens: int | None = None,
        prompt_tokens: int | None = None,
        thinking_tokens: int = THINKING_TOKENS,
        name: str | None = None,
        direct: bool = False,
        takes_grammars: bool = False,
        extra_body: Mapping[str, Any] | None = None,
        key_name: str = "OPENAI_API_KEY",
        model_name: str = "ATC_MODEL",
        url_name: str = "OPENAI_BASE_URL",
        facts_headers: Mapping[str, str] | None = None,
    ) -> None:
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise SettingsError(
                f"the API key holds characters that no key has (a space, a line end?): correct {key_name}"
            )
        if taken := _OWN & set(extra_body or {}):
            raise SettingsError(f"extra_body has {sorted(taken)[0]!r}, which every request has already: leave it out")
        self.extra_body = dict(extra_body or {})
        self.model = model
        self.name = name or model
        self.wants_example = self.name == DEFAULT_MODEL  # as ``atc model serve`` calls it
        self.context_tokens = context_tokens or CONTEXT_TOKENS
        self.prompt_tokens = prompt_tokens
        self.thinking_tokens = thinking_tokens
        self.timeout_s = timeout_s
        self.stall_s = stall_s
        self.max_attempts = max_attempts
        self.backoff_s = backoff_s
        self._base_url = base_url
        self._api_key = api_key
        self._thinks = False  # whether the model was seen to reason
        self._unknown: set[str] = set()  # what this endpoint once turned down
        self._formats = EndpointFormats(grammars=takes_grammars)
        self._endpoint = Endpoint(_shown_url(base_url, url_name), model, api_key, key_name, model_name, url_name)
        self.endpoint = self._endpoint.url
        self._client = EndpointClient(self._endpoint, base_url, timeout_s=timeout_s, stall_s=stall_s, direct=direct)
        self._facts: EndpointFacts | None = None  # OpenAI's own endpoint states none
        if base_url is not None:
            key = facts_headers or ({"Authorization": f"Bearer {api_key}"} if api_key else {})
            self._facts = EndpointFacts(base_url, model, key, direct=direct)
        self._ask_for_context = self._facts is not None and context_tokens is None

    def __repr__(self) -> str:
        return f"OpenAICompatible({self.model!r}, base_url={self._endpoint.url!r})"

    @property
    def url(self) -> str:
        """The endpoint's address, without credentials that may stand in it."""
        return self._endpoint.url

    async def context_size(self) -> int:
        if self._ask_for_context and self._facts is not None:
            self._ask_for_context = False
            self.context_tokens = await self._facts.context_tokens() or self.context_tokens
        return self.context_tokens

    async def count_tokens(self, text: str) -> int:
        counted = None if self._facts is None else await self._facts.count(text)
        return bounded_tokens(text) if counted is None else counted

    async def generate(self, request: ModelRequest) -> Reply:
        if self._base_url is None and not self._api_key:
            raise ModelUnavailable(
                "no key for OpenAI's endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL to an endpoint of your own"
            )
        started = time.monotonic()
        answers = [await self._with_retries(request)]
        before, self._thinks = self._thinks, self._thinks or bool(answers[0].thoughts)
        if not before and self._room(request) and answers[0].cut_while_thinking:
            answers.append(await self._with_retries(request))
        reply = self._reply(answers, request, time.monotonic() - started)
        self._formats.look(request, reply)
        if news := self._formats.news():
            reply = replace(reply, notice=f"{self.model!r} at {self.url} {news}")
            _log.info("%s", reply.notice)
        return reply

    def _room(self, request: ModelRequest) -> int:
        """Tokens to think, beside those of the reply, as far as the context has them."""
        if not self._thinks:
            return 0
        left = self.context_tokens - estimate_tokens(request.messages) - request.sampling.max_tokens
        return max(0, min(self.thinking_tokens, left))

    def _reply(self, answers: Sequence[ReplyAccumulator], request: ModelRequest, seconds: float) -> Reply:
        """The reply, where it was cut while thinking that of the second try; at the cost of both."""
        got, *again = answers
        if again and got.cut_while_thinking and again[0].text:
            got = again[0]
        self._not_withheld(got)
        prompt = estimate_tokens(request.messages)
        return Reply(
            text=got.text,
            finish_reason=got.finish or "other",
            prompt_tokens=sum(prompt if each.prompt_tokens is None else each.prompt_tokens for each in answers),
            completion_tokens=sum(each.completion_tokens for each in answers),
            cached_tokens=sum(each.cached_tokens for each in answers),
            seconds=seconds,
            model=self.name,
            problem=got.problem,
        )

    def _not_withheld(self, part: ReplyAccumulator) -> None:
        """Raises ModelError where the endpoint kept the reply back: asking again would bring the same."""
        who = f"{self.model!r} at {self.url}"
        if part.filtered:
            raise ModelError(
                f"the content filter of {who} ended the reply: change the task's words, or use another model "
                f"(ATC_MODEL). It had written: {self._endpoint.quote(part.text) or 'nothing'}"
            )
        if part.refusal and not part.text.strip():
            raise ModelError(
                f"{who} refused: change the task's words, or use another model (ATC_MODEL). "
                f"It answered: {self._endpoint.quote(part.refusal)}"
            )

    async def _with_retries(self, request: ModelRequest) -> ReplyAccumulator:
        attempts = tenacity.AsyncRetrying(**retried(self.max_attempts, self.backoff_s), sleep=anyio.sleep)
        problem: AtcError
        try:
            return await attempts(self._attempt, request)
        except Failure as failure:
            problem = failure.problem
        if isinstance(problem, ContextExceeded) and problem.limit:
            self.context_tokens, self._ask_for_context = min(self.context_tokens, problem.limit), False
        raise problem  # outside the handler, so that no chained exception carries the request and with it the key

    async def _attempt(self, request: ModelRequest) -> ReplyAccumulator:
        """Ask once, and once more at once for each thing that turns out too much for the endpoint. Raises Failure."""
        import openai

        way = self._formats.way
        while True:
            body = self._body(request)
            try:
                limit = 2_000 + 20 * (request.sampling.max_tokens + self._room(request))
                return await self._client.send(body, request.on_text, limit=limit, stop=request.sampling.stop)
            except TimeoutError:
                failure = broken(f"the model's endpoint {self.url} did not finish its reply in {self.timeout_s:g} s")
            except openai.APIStatusError as error:
                if any(message.images for message in request.messages) and refuses_images(error):
                    raise without_images(error, self._endpoint) from None
                if error.status_code in (400, 422) and self._room(request) and "tokens" in str(error):
                    self.thinking_tokens = 0  # it allows no more
                    continue
                if self._formats.refused(request, body, error):
                    continue
                given = {*body, "system"} if any(message.role == "system" for message in request.messages) else {*body}
                if unknown := (refused_parameters(error) & given) - self._unknown:
                    self._unknown |= unknown
                    continue
                self._formats.undo(way, error)
                failure = explain(error, self._endpoint)
            except openai.OpenAIError as error:
                failure = explain(error, self._endpoint)
            raise failure

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        request, constraint = self._formats.of(request)
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": message.role, "content": _content(message)}
                for message in (_without_system(request.messages) if "system" in self._unknown else request.messages)
            ],
            "max_tokens": sampling.max_tokens + self._room(request),
            "temperature": sampling.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            **constraint,
            **self.extra_body,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if sampling.stop and not self._thinks:  # some endpoints end thoughts at them, too
            body["stop"] = list(sampling.stop[:MOST_STOPS])
        known = {name: value for name, value in body.items() if name not in self._unknown}
        if "max_tokens" in self._unknown:
            known["max_completion_tokens"] = body["max_tokens"]
        if "stream" in self._unknown:
            known.pop("stream_options", None)
        return known


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.content
    images = [{"type": "image_url", "image_url": {"url": image.data_url}} for image in message.images]
    return [{"type": "text", "text": message.content}, *images]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Such models want user and assistant in turns, too: what one of them says in several messages becomes one."""
    merged: list[Message] = []
    for message in messages:
        role: Role = "user" if message.role == "system" else message.role
        if merged and merged[-1].role == role:
            last = merged.pop()
            text = f"{last.content}\n\n{message.content}"
            merged.append(Message(role, text, images=last.images + message.images))
        else:
            merged.append(Message(role, message.content, images=message.images))
    return merged


def _shown_url(base_url: str | None, name: str) -> str:
    try:
        url = httpx.URL("https://api.openai.com/v1" if base_url is None else base_url)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise SettingsError(f"the model's base_url is no address: give one like http://localhost:8000/v1 ({name})")
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))

"""One request to an endpoint that speaks OpenAI's chat completions, and the reply as it arrives.

The endpoint is believed in nothing: it may hang, stop half-way, never stop, or answer with something else altogether.
"""

from __future__ import annotations

import functools
import json
import re
import ssl
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import httpx

from atc._host.trace_context import carried
from atc.models.endpoint_errors import Endpoint, Failure, broken, exceeded, too_long
from atc.models.messages import FinishReason, OnText, estimate_tokens, reply_span, split_reasoning

if TYPE_CHECKING:
    import openai  # it takes most of a second: imported when it is used, for the embedded model loads meanwhile


_MOST_BYTES = 64 << 20  # of an answer in one piece
_LINGER = 5.0  # seconds for an endpoint to close a stream after it sent the end of the reply


class EndpointClient:
    """Sends requests to one endpoint.

    Args:
        endpoint: how errors name it.
        base_url: its address up to and without ``/chat/completions``; OpenAI's own when not given.
        timeout_s: seconds that one attempt may take in all.
        stall_s: seconds that may pass before the first piece of a reply, and between two.
        direct: never go through a proxy.
    """

    def __init__(
        self, endpoint: Endpoint, base_url: str | None, *, timeout_s: float, stall_s: float, direct: bool
    ) -> None:
        self._endpoint, self._base_url = endpoint, base_url
        self._url = endpoint.url
        self._timeout_s, self._stall_s, self._direct = timeout_s, stall_s, direct

    async def send(
        self, body: dict[str, Any], on_text: OnText | None, *, limit: int, stop: Sequence[str] = ()
    ) -> ReplyAccumulator:
        """Send a request once and take its reply.

        Args:
            body: the request, as JSON values.
            on_text: called with each piece of the reply.
            limit: characters after which a reply counts as endless.
            stop: texts that end a reply, whether or not the endpoint ends it there.

        Raises:
            TimeoutError: it took longer than ``timeout_s``.
            Failure: the endpoint sent nothing for ``stall_s`` seconds, or no chat completion.
            openai.OpenAIError: the endpoint answered with an error, or cannot be reached.
        """
        with anyio.fail_after(self._timeout_s):
            return await self._send(body, ReplyAccumulator(limit, on_text, stop))

    async def _send(self, body: dict[str, Any], got: ReplyAccumulator) -> ReplyAccumulator:
        import openai
        from openai.types.chat import ChatCompletionChunk

        # A client for each request: connections belong to an event loop, and every run may bring a loop of its own.
        # Not by `chat.completions.create`, which always sends `stream`: some endpoints do not know it.
        async with self._client() as client:
            try:
                with anyio.fail_after(self._stall_s):
                    stream = await client.post(
                        "/chat/completions",
                        body=body,
                        cast_to=ChatCompletionChunk,
                        stream=True,
                        stream_cls=openai.AsyncStream[ChatCompletionChunk],
                    )
            except TimeoutError:
                raise self._stalled() from None
            async with stream:
                if re.search("json|html", stream.response.headers.get("content-type", "")):
                    await self._take_whole(stream, got)
                else:
                    await self._take_stream(stream, got)
        if not got.choices:
            raise broken(
                f"the model's endpoint {self._url} answered, but with no chat completion: check "
                f"{self._endpoint.url_name}"
            )
        return got

    def _stalled(self, where: str = "") -> Failure:
        # An endpoint that has sent nothing at all is not waited for a second time.
        return broken(
            f"the model's endpoint {self._url} sent nothing for {self._stall_s:g} s{where}: look whether it is up, "
            f"or give it longer (ATC_MODEL_STALL_S)",
            may_pass=bool(where),
        )

    def _client(self) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._endpoint.secret or "none",
            max_retries=0,
            timeout=openai.Timeout(self._timeout_s, connect=min(10.0, self._timeout_s)),
            default_headers=carried(),
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=not self._direct,
                verify=trusted(trust_env=not self._direct),
                event_hooks={"response": [stay_on_server]},
            ),
        )

    async def _take_stream(self, stream: openai.AsyncStream[Any], got: ReplyAccumulator) -> None:
        patience = self._stall_s
        while not got.ended:
            try:
                with anyio.fail_after(patience):
                    chunk = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if got.finish is not None:
                    return
                raise self._stalled(" in the middle of a reply" if got.choices else "") from None
            except (ValueError, TypeError, AttributeError):
                raise broken(f"the model's endpoint {self._url} sent something that is no chat completion") from None
            got.add(chunk)
            patience = min(_LINGER, self._stall_s) if got.finish is not None else self._stall_s

    async def _take_whole(self, stream: openai.AsyncStream[Any], got: ReplyAccumulator) -> None:
        body = bytearray()
        try:
            with anyio.fail_after(self._stall_s):
                async for block in stream.response.aiter_bytes():
                    body += block
                    if len(body) > _MOST_BYTES:
                        raise broken(f"the model's endpoint {self._url} sent more than {_MOST_BYTES:,} bytes")
            answer = json.loads(body, object_hook=lambda members: SimpleNamespace(**members))
        except TimeoutError:
            raise self._stalled() from None
        except (ValueError, TypeError, RecursionError):
            words = body[:2_000].decode("utf-8", "replace")
            raise broken(
                f"the model's endpoint {self._url} sent something that is no JSON: {self._endpoint.quote(words)}"
            ) from None
        got.add(answer)
        if got.choices:
            return
        words = body[:2_000].decode("utf-8", "replace")
        if getattr(answer, "error", None):  # with status 200, at some gateways
            error = json.loads(body)["error"]
            if long := exceeded(error if isinstance(error, str) else "", error):
                raise too_long(long, self._endpoint, words)
            raise broken(f"the model's endpoint {self._url} reported: {self._endpoint.quote(words)}")
        raise broken(
            f"the model's endpoint {self._url} answered, but with no chat completion: check "
            f"{self._endpoint.url_name}. It answered: {self._endpoint.quote(words)}"
        )


@functools.cache
def trusted(*, trust_env: bool) -> ssl.SSLContext:
    """Return the certificates that a connection to an endpoint trusts.

    They are read once: that takes longer than an endpoint on this machine needs for a short reply.
    """
    import httpx2  # what openai is made with, and imported with it

    return httpx2.create_ssl_context(trust_env=trust_env)


async def stay_on_server(response: httpx.Response) -> None:
    """A response hook for httpx: a redirect to another scheme, host or port becomes an answer like any other.

    Prompts hold the task and what tools have answered. They go where the user meant, and nowhere that an endpoint
    names.
    """
    if not response.has_redirect_location:
        return
    here = response.request.url
    try:
        there = here.join(response.headers["location"])
    except (httpx.InvalidURL, UnicodeError):
        there = None
    if there is None or _server(there) != _server(here):
        del response.headers["location"]


def _server(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


# -- repetition: small models may write one piece of text over and over until a limit cuts their reply -------------

TIMES = 6
"""Occurrences in a row of a piece before the reply is cut."""
SHORTEST, LONGEST = 40, 400
"""Characters of such a piece. Data with equal rows may repeat what is shorter."""


RUN, UNIT = 120, 4
"""Characters of a run in which a piece of so few characters is all there is, such as a number that does not end. A
digest or an address of one digit is shorter."""


def repeats_itself(text: str) -> bool:
    """Whether a reply, so far, ends in :data:`TIMES` occurrences of one piece that has words in it.

    A run of digits counts, too. Every repetition of a shorter piece is one of a longer piece too, so what is 20
    characters long counts after twelve.
    """
    for size in range(SHORTEST, min(LONGEST, len(text) // TIMES) + 1):
        piece = text[-size:]
        if piece == text[-2 * size : -size] and text.endswith(piece * TIMES):
            if any(character.isalpha() for character in piece):
                return True
            break  # a longer run of digits is one of short pieces, too
    run = text[-RUN:]
    short = any(run[size:] == run[:-size] for size in range(1, UNIT + 1))
    return len(run) == RUN and short and run.isalnum()


# -- the reply as it arrives ------------------------------------------------------------------------------------------

_LOOK = 200  # characters between two checks for repetition
_RECENT = LONGEST * TIMES  # characters that are looked at
_MOST_THOUGHT = 400_000  # characters; not every endpoint counts thoughts as tokens of the reply
_MOST_STOPS_SEEN = 50  # in thoughts, after which this reply is no longer ended at one
_SHOWN = 300  # characters of what came in the place of a text
_FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral's, at the end of the context
}
_FILTERED = ("content_filter", "safety", "refusal")


class ReplyAccumulator:
    """Accumulates an answer: its reply, and the reasoning beside it.

    The reply is cut at ``limit`` characters, at a text of ``stop``, or when it repeats itself. The texts of ``stop``
    end it here, too: endpoints take a few of them, or none. In thoughts they end nothing.

    Models that reason send their thoughts beside the reply (``reasoning_content``, at newer endpoints ``reasoning``),
    count them without saying them (``completion_tokens_details.reasoning_tokens``), or put them before the reply in
    ``<think>…</think>``. However it is done, thoughts are no part of a reply, and they use up its tokens.
    """

    def __init__(self, limit: int, on_text: OnText | None, stop: Sequence[str] = ()) -> None:
        self.limit, self.on_text = limit, on_text
        self._stop = re.compile("|".join(map(re.escape, stop))) if any(stop) else None
        self._overlap = max(map(len, stop), default=1) - 1  # characters of an earlier piece that may begin one
        self.pieces: list[str] = []
        self.choices = 0
        self.prompt_tokens: int | None = None
        self.cached_tokens = 0  # of the prompt, read before
        self.ended = False  # by us
        self.finish: FinishReason | None = None
        self.refusal = ""  # the beginning of it
        self.filtered = False  # by the endpoint
        self._length = 0  # characters
        self._thought_characters = 0  # that came beside the reply
        self._recent = ""  # the last ones of either
        self._looked = 0  # so many of both were checked for repetition
        self._stops_seen = 0  # texts that end a reply, thoughts included
        self._tokens: int | None = None
        self._thought_tokens: int | None = None
        self._called = ""  # tools, as a model calls them that was made for that; the beginning of it

    @property
    def text(self) -> str:
        """The reply without its reasoning."""
        return split_reasoning("".join(self.pieces))[1]

    @property
    def thoughts(self) -> int:
        """Tokens that were thought: counted by the endpoint, else an estimate."""
        within = len(split_reasoning("".join(self.pieces))[0])
        return max(self._thought_tokens or 0, -(-(self._thought_characters + within) // 4))

    @property
    def completion_tokens(self) -> int:
        """Tokens of reply and reasoning: counted by the endpoint, else an estimate."""
        return estimate_tokens(self.text) + self.thoughts if self._tokens is None else self._tokens

    @property
    def cut_while_thinking(self) -> bool:
        """Whether the endpoint cut it at its limit, of which thoughts had a part."""
        return self.finish == "length" and not self.ended and self.thoughts > 0

    @property
    def problem(self) -> str:
        """Why there is no text, as far as it is known."""
        if self.text.strip() or self.finish == "length":
            return ""
        if self._called:
            called = self._called.strip()
            return f"the reply holds no text, only calls of tools ({called}): only a program can call them"
        if self.thoughts:
            return f"the reply holds no text: {self.thoughts:,} tokens of thoughts and nothing after them"
        return "the reply is empty"

    def add(self, answer: Any) -> None:
        """Add a chunk of a stream, or a whole answer; nothing about its shape is certain."""
        choices = getattr(answer, "choices", None)
        for choice in choices if isinstance(choices, list) else []:
            if getattr(choice, "index", 0):
                continue  # nobody asked for it
            self.choices += 1
            message = getattr(choice, "delta", None) or getattr(choice, "message", None)
            self._add_reasoning(getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None))
            for piece in _pieces(getattr(message, "content", None), "text"):
                self._add_text(piece)
            for piece in _pieces(getattr(message, "content", None), "thinking"):
                self._add_reasoning(piece)
            for piece in _called(message):
                self._add_called(piece)
            for piece in (*_pieces(getattr(message, "content", None), "refusal"), getattr(message, "refusal", None)):
                self.refusal = (self.refusal + (piece if isinstance(piece, str) else ""))[:_SHOWN]
            reason = getattr(choice, "finish_reason", None)
            self.filtered |= str(reason).lower() in _FILTERED
            if reason is not None and not self.ended:
                self.finish = _FINISHES.get(str(reason).lower(), "other")
        usage = getattr(answer, "usage", None) or _member(getattr(answer, "x_groq", None), "usage")
        details = getattr(usage, "completion_tokens_details", None)
        self.prompt_tokens = _count(usage, "prompt_tokens", self.prompt_tokens)
        self._tokens = _count(usage, "completion_tokens", self._tokens)
        read_before = getattr(usage, "prompt_tokens_details", None)
        cached = _count(usage, "prompt_cache_hit_tokens", self.cached_tokens)  # DeepSeek's name for them
        self.cached_tokens = _count(read_before, "cached_tokens", cached) or 0
        self._thought_tokens = _count(details, "reasoning_tokens", self._thought_tokens)
        self._add_thoughts_apart(usage)

    def _add_thoughts_apart(self, usage: Any) -> None:
        """Count thoughts that an endpoint counts in the sum of all tokens and not as tokens of the reply.

        Where it counts neither and reports tokens that it had read before, the rest of the sum may be those.
        """
        whole, read, written = (_count(usage, f"{name}_tokens", None) for name in ("total", "prompt", "completion"))
        if whole is None or read is None or written is None:
            return
        rest = whole - read - written
        if rest > 0 and (rest == self._thought_tokens or not self.cached_tokens):
            self._tokens = written + rest

    def _add_text(self, text: Any) -> None:
        piece = text[: self.limit - self._length] if isinstance(text, str) else ""
        if not piece or self.ended:
            return
        self.pieces.append(piece)
        self._length += len(piece)
        before = self._recent[-self._overlap :] if self._overlap else ""
        self._end_if(piece, self._length >= self.limit)
        if self._stop is not None and self._stop.search(before + piece):
            self._end_at_stop(self._stop)
        if self.on_text is not None:
            self.on_text(piece)

    def _add_reasoning(self, text: Any) -> None:
        """Only their length is kept: they are shown to nobody."""
        if isinstance(text, str) and text and not self.ended:
            self._thought_characters += len(text)
            self._end_if(text, self._thought_characters >= _MOST_THOUGHT)

    def _add_called(self, text: str) -> None:
        """Only the beginning of calls is kept, for display; they count as text, so that they end."""
        if text and not self.ended:
            self._called = (self._called + text)[:_SHOWN]
            self._length += len(text)
            self._end_if(text, self._length >= self.limit)

    def _end_at_stop(self, stop: re.Pattern[str]) -> None:
        """End the reply before the first text that was to end it, if that is not among the thoughts."""
        self._stops_seen += 1
        if self._stops_seen > _MOST_STOPS_SEEN:  # each look reads the whole reply
            return
        whole = "".join(self.pieces)
        if found := stop.search(whole, *reply_span(whole)):
            self.pieces = [whole[: found.start()]]
            self.finish, self.ended = "stop", True

    def _end_if(self, piece: str, too_long: bool) -> None:
        """End the reply at its limit, or when it repeats itself: checked now and then, as letters may come."""
        self._recent = (self._recent + piece)[-_RECENT:]
        length = self._length + self._thought_characters
        if length - self._looked >= _LOOK:
            self._looked = length
            too_long = too_long or repeats_itself(self._recent)
        if too_long:
            self.finish, self.ended = "length", True


def _count(usage: Any, name: str, before: int | None) -> int | None:
    value = _member(usage, name)
    return value if isinstance(value, int) and value >= 0 else before


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _pieces(content: Any, kind: str) -> Iterator[Any]:
    """The text of one kind in a reply's content, which is a text or, at some endpoints, a list of typed parts."""
    if not isinstance(content, list):
        yield content if kind == "text" else None
        return
    for part in content:
        inner = _member(part, kind)
        for piece in inner if isinstance(inner, list) else [inner]:  # Mistral's thoughts are a list of texts
            yield piece if isinstance(piece, str) else _member(piece, "text")


def _called(message: Any) -> Iterator[str]:
    calls = getattr(message, "tool_calls", None)
    for call in calls if isinstance(calls, list) else [message]:
        function = _member(call, "function") or _member(call, "function_call")
        name, arguments = _member(function, "name"), _member(function, "arguments")
        yield f" {name} " if isinstance(name, str) and name else ""
        yield arguments if isinstance(arguments, str) else ""

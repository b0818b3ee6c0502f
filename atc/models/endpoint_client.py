"""One request to an endpoint that speaks OpenAI's chat completions, and the reply as it arrives.

The endpoint is believed in nothing: it may hang, stop half-way, never stop, or answer with something else altogether.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio

from atc.models.context_errors import exceeded
from atc.models.endpoint_errors import Endpoint, Failure, broken, too_long
from atc.models.messages import OnText
from atc.models.redirects import stay_on_server
from atc.models.streaming import StreamAccumulator
from atc.trace_context import carried

if TYPE_CHECKING:
    import openai  # it takes most of a second: imported when it is used, for the embedded model loads meanwhile

_MOST_BYTES = 64 << 20  # of an answer in one piece
_LINGER = 5.0  # seconds for an endpoint to close a stream after it sent the end of the reply


class EndpointClient:
    """Sends requests to one endpoint.

    Args:
        endpoint: how errors name it.
        base_url: its address up to and without ``/chat/completions``; OpenAI's own when not given.
        headers: more HTTP headers.
        timeout_s: seconds that one attempt may take in all.
        stall_s: seconds that may pass before the first piece of a reply, and between two.
        direct: never go through a proxy.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        base_url: str | None,
        headers: Mapping[str, str],
        *,
        timeout_s: float,
        stall_s: float,
        direct: bool,
    ) -> None:
        self._endpoint, self._base_url, self._headers = endpoint, base_url, headers
        self._url = endpoint.url
        self._timeout_s, self._stall_s, self._direct = timeout_s, stall_s, direct

    async def send(
        self, body: dict[str, Any], on_text: OnText | None, *, limit: int, stop: Sequence[str] = ()
    ) -> StreamAccumulator:
        """Send a request once and take its replies.

        Args:
            body: the request, as JSON values.
            on_text: called with each piece of the first reply.
            limit: characters after which a reply counts as endless.
            stop: texts that end a reply, whether or not the endpoint ends it there.

        Raises:
            TimeoutError: it took longer than ``timeout_s``.
            Failure: the endpoint sent nothing for ``stall_s`` seconds, or no chat completion.
            openai.OpenAIError: the endpoint answered with an error, or cannot be reached.
        """
        with anyio.fail_after(self._timeout_s):
            return await self._send(body, StreamAccumulator(body.get("n", 1), limit, on_text, stop))

    async def _send(self, body: dict[str, Any], got: StreamAccumulator) -> StreamAccumulator:
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
                f"the model's endpoint {self._url} answered, but with no chat completion: check OPENAI_BASE_URL"
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
            default_headers={**carried(), **self._headers},
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=not self._direct, event_hooks={"response": [stay_on_server]}
            ),
        )

    async def _take_stream(self, stream: openai.AsyncStream[Any], got: StreamAccumulator) -> None:
        patience = self._stall_s
        while not got.full:
            try:
                with anyio.fail_after(patience):
                    chunk = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if got.finished:
                    return
                raise self._stalled(" in the middle of a reply" if got.choices else "") from None
            except (ValueError, TypeError, AttributeError):
                raise broken(f"the model's endpoint {self._url} sent something that is no chat completion") from None
            got.add(chunk)
            patience = min(_LINGER, self._stall_s) if got.finished else self._stall_s

    async def _take_whole(self, stream: openai.AsyncStream[Any], got: StreamAccumulator) -> None:
        """Take an answer that came in one piece, whether or not a stream was asked for."""
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
            f"the model's endpoint {self._url} answered, but with no chat completion: check OPENAI_BASE_URL. "
            f"It answered: {self._endpoint.quote(words)}"
        )

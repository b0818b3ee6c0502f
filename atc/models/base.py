"""What a language model is to ATC: messages in, one reply out.

Callers use :meth:`Model.complete`. Whoever writes a model implements :meth:`Model.generate`. The records that go in and
out are those of :mod:`atc.models.messages`; they can be imported from here, too.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from atc.errors import ModelUnavailable, UsageError
from atc.models.messages import (
    FinishReason,
    Message,
    ModelRequest,
    OnText,
    Reply,
    Role,
    Sampling,
    bounded_tokens,
    estimate_tokens,
    split_reasoning,
)
from atc.models.reply_format import ALL_KINDS, FormatKind, ReplyFormat
from atc.schemas.protocol import JsonSchema

__all__ = [
    "FinishReason",
    "Message",
    "Model",
    "ModelOptions",
    "ModelRequest",
    "OnText",
    "Reply",
    "Role",
    "Sampling",
    "WrappedModel",
    "bounded_tokens",
    "estimate_tokens",
    "fitting_reply",
]


async def fitting_reply(
    generate: Callable[[ModelRequest], Awaitable[Reply]], request: ModelRequest, enforced: frozenset[FormatKind]
) -> Reply:
    """A reply that fits the request's format, asked for once more where the first does not.

    Args:
        generate: makes one reply.
        request: what is asked.
        enforced: kinds of formats that ``generate`` enforces; others are stated in the prompt.

    Returns:
        the reply with its :attr:`Reply.value`, else with the :attr:`Reply.problem`; at the cost of both requests.
    """
    wanted = request.format
    if wanted is None:
        return await generate(request)
    if wanted.kind not in enforced:
        request = request.with_format_in_prompt()
    reply = await generate(request)
    if reply.problem:
        return reply
    read, cut = wanted.read(reply.text), reply.finish_reason == "length"
    if cut and read.problem:
        return replace(reply, problem=f"the reply was cut at its limit of tokens: {read.problem}")
    if not read.problem:
        return replace(reply, value=read.value)
    again = await generate(request.again(reply, read.problem))
    read = wanted.read(again.text)
    return replace(
        again,
        prompt_tokens=reply.prompt_tokens + again.prompt_tokens,
        completion_tokens=reply.completion_tokens + again.completion_tokens,
        cached_tokens=reply.cached_tokens + again.cached_tokens,
        seconds=reply.seconds + again.seconds,
        value=read.value,
        notice=reply.notice or again.notice,
        problem=again.problem or (f"the reply does not fit: {read.problem}" if read.problem else ""),
    )


@dataclass(frozen=True)
class ModelOptions:
    """What a user has said of a model, for the function that opens it; ``None`` where nothing was said.

    Attributes:
        api_key: its key, where one was given as an argument or a setting.
        context_tokens: what prompt and reply may take together.
        prompt_tokens: that a prompt should have at most.
        thinking_tokens: that it may think before each reply.
        extra_body: more members of each request to an endpoint.
        keep_prompts: what such a model keeps on disk of what it has read: ``tools``, ``instructions`` or ``nothing``.
    """

    api_key: str | None = field(default=None, repr=False)
    context_tokens: int | None = None
    prompt_tokens: int | None = None
    thinking_tokens: int | None = None
    extra_body: Mapping[str, Any] | None = None
    keep_prompts: Literal["tools", "instructions", "nothing"] = "tools"


class Model(abc.ABC):
    """A language model. A subclass sets ``name`` and ``context_tokens`` and implements :meth:`generate`.

    Attributes:
        name: how the model is named in results and cache keys.
        context_tokens: how many tokens prompt and reply may take together, as far as is known without asking.
        prompt_tokens: how many tokens a prompt should have at most, where more would be slow or dear; ``None``: as many
            as the context has beside the reply.
        endpoint: the address that prompts are sent to; empty for a model on this machine.
        enforces: kinds of :class:`ReplyFormat` that :meth:`generate` enforces by itself. The prompt states the
            others, and a reply that does not fit is asked for once more.
        takes_images: whether :meth:`generate` shows the model the images of messages; ``None`` where only trying tells.
        wants_example: whether it is small: it writes better programs after a worked example, and repeats a program that
            it is shown.
    """

    name: str
    context_tokens: int
    prompt_tokens: int | None = None
    endpoint: str = ""
    takes_images: bool | None = False
    wants_example: bool = False
    enforces: ClassVar[frozenset[FormatKind]] = frozenset()

    def prepare(self) -> None:
        """Begin what takes time before the first reply, and return at once. The first call raises what fails."""
        return

    async def context_size(self) -> int:
        """Tokens that prompt and reply may take together: as the endpoint states it, else :attr:`context_tokens`."""
        return self.context_tokens

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text by the model's own tokenizer where there is one, else :func:`bounded_tokens`."""
        return bounded_tokens(text)

    @abc.abstractmethod
    async def generate(self, request: ModelRequest) -> Reply:
        """Make one reply. The author of a model implements this; callers use :meth:`complete`.

        ``request.format`` may be ignored where its kind is not in :attr:`enforces`.

        Raises:
            As :meth:`complete`.
        """

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
        stop: Sequence[str] = (),
        on_text: OnText | None = None,
        schema: JsonSchema | None = None,
        choices: Sequence[str] | None = None,
    ) -> Reply:
        """Return the model's reply; at most one of ``schema`` and ``choices`` may be given.

        A reply that does not fit its format is asked for once more, with what is wrong with it. The reply's ``value``
        is what it says; where the second does not fit either, its ``problem`` is why.

        Args:
            messages: the prompt.
            max_tokens: the most tokens of the reply.
            temperature: 0 takes the likeliest token every time.
            seed: makes sampling repeatable where the endpoint supports it.
            stop: texts that end the reply; they are not part of it.
            on_text: called with each piece of the reply as it arrives, for display. A reply that has to be asked for
                again, after a lost connection or because it does not fit, starts from its beginning.
            schema: a JSON Schema (2020-12) that the reply must fit, as JSON.
            choices: texts of which the reply must be one.

        Raises:
            UsageError: a format is not usable or too large, or both are given; or there are images, and the model
                takes none.
            ModelUnavailable: the model cannot be used as it is set up; the message says what to do.
            ContextExceeded: prompt and reply are longer than it takes.
            ModelError: it failed in the middle of work, after retries.
        """
        self.check_images(messages)
        sampling = Sampling(max_tokens, temperature, seed, tuple(stop))
        wanted = ReplyFormat.of(schema, choices)
        request = ModelRequest(tuple(messages), sampling, wanted, on_text)
        return await fitting_reply(self._without_thoughts, request, self.enforces)

    async def _without_thoughts(self, request: ModelRequest) -> Reply:
        reply = await self.generate(request)
        text = split_reasoning(reply.text)[1]
        return reply if text == reply.text else replace(reply, text=text)

    def check_images(self, messages: Sequence[Message]) -> None:
        """Check that messages have no images that this model would not see.

        Raises:
            UsageError: they have.
        """
        if self.takes_images is False and any(message.images for message in messages):
            raise UsageError(
                f"the model {self.name!r} takes no images: use one behind an endpoint that does (ATC_MODEL, "
                "OPENAI_BASE_URL), or leave the images out"
            )

    async def aclose(self) -> None:
        """Release what the model holds. It may be called twice; a later :meth:`complete` opens it again."""
        return


class WrappedModel(Model):
    """A model that wraps another one, and passes on what it does not change.

    Args:
        inner: the model to ask.
    """

    enforces = ALL_KINDS  # the inner model sees to it that its reply fits

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.name = inner.name
        self.context_tokens = inner.context_tokens
        self.prompt_tokens = inner.prompt_tokens
        self.endpoint = inner.endpoint
        self.takes_images = inner.takes_images
        self.wants_example = inner.wants_example

    def prepare(self) -> None:
        self.inner.prepare()

    async def context_size(self) -> int:
        return await self.inner.context_size()

    async def count_tokens(self, text: str) -> int:
        return await self.inner.count_tokens(text)

    async def generate(self, request: ModelRequest) -> Reply:
        return await self.inner.complete(request.messages, **request.options)

    async def aclose(self) -> None:
        await self.inner.aclose()


class NoModel(Model):
    """Stands where a run has a model, and answers nothing."""

    name = "none"
    context_tokens = 1_000_000
    takes_images = True

    async def generate(self, request: ModelRequest) -> Reply:
        """Raise ModelUnavailable."""
        raise ModelUnavailable("this run has no language model: its programs are written elsewhere")

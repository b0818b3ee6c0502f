"""What a language model is to ATC: messages in, one reply out."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["stop", "length", "other"]
OnText = Callable[[str], None]


@dataclass(frozen=True)
class Message:
    """One message of a prompt. ``fixed``: it is text of this project, the same in every run."""

    role: Role
    content: str
    fixed: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Reply:
    """What a model answered.

    Attributes:
        text: the whole reply.
        finish_reason: ``"stop"``: the model ended it; ``"length"``: it was cut at a limit; ``"other"``: anything else,
            an endpoint that does not say why included.
        prompt_tokens: tokens of the prompt; an estimate (characters / 4) where the endpoint does not count them.
        completion_tokens: tokens of the reply, likewise.
        seconds: from the call to the end of the reply, retries included; several replies to one request each have
            their share.
        cached: it came from the disk and cost nothing.
        model: the model's name.
        problem: where ``text`` is empty, why, as far as it is known; in words, and with what came in its place.
    """

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cached: bool = False
    model: str = ""
    problem: str = ""


def estimate_tokens(text_or_messages: str | Sequence[Message]) -> int:
    """Tokens of a text or of a prompt, roughly: four characters each, and four tokens of framing a message."""
    if isinstance(text_or_messages, str):
        return -(-len(text_or_messages) // 4)
    return sum(4 + estimate_tokens(message.content) for message in text_or_messages)


def bounded_tokens(text: str) -> int:
    """A safe upper bound of the tokens of ordinary text where no tokenizer is at hand: three characters each."""
    return -(-len(text) // 3)


class Model(abc.ABC):
    """A language model.

    Attributes:
        name: how the model is named in results and cache keys.
        context_tokens: how many tokens prompt and reply may take together, as far as is known without asking.
        prompt_tokens: how many tokens a prompt should have at most, where more would be slow or dear; ``None``: as many
            as the context has beside the reply.
        endpoint: the address that prompts are sent to; empty for a model on this machine.
    """

    name: str
    context_tokens: int
    prompt_tokens: int | None = None
    endpoint: str = ""

    async def context_size(self) -> int:
        """How many tokens prompt and reply may take together: what the endpoint tells, else :attr:`context_tokens`."""
        return self.context_tokens

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text by the model's own tokenizer where there is one, else :func:`bounded_tokens`."""
        return bounded_tokens(text)

    @abc.abstractmethod
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
        """Return the model's reply.

        Args:
            messages: the prompt.
            max_tokens: the most tokens of the reply.
            temperature: 0 takes the likeliest token every time.
            seed: makes sampling repeatable where the endpoint knows how.
            stop: texts that end the reply; they are not part of it.
            on_text: called with each piece of the reply as it arrives, for display. A reply that has to be asked for
                again after a lost connection starts from its beginning.

        Raises:
            ModelUnavailable: the model cannot be used as it is set up; the message says what to mend.
            ContextExceeded: prompt and reply are longer than it takes.
            ModelError: it failed in the middle of work, after retries.
        """

    async def sample(
        self,
        messages: Sequence[Message],
        count: int,
        *,
        max_tokens: int = 1024,
        temperature: float = 0.7,
        seed: int | None = None,
        stop: Sequence[str] = (),
    ) -> list[Reply]:
        """Return ``count`` replies to one prompt, sampled independently; with a ``seed``, reply i uses ``seed + i``.

        Raises:
            ModelUnavailable: as :meth:`complete`.
            ModelError: as :meth:`complete`; one failed reply fails them all.
        """
        replies: dict[int, Reply] = {}
        failures: list[Exception] = []

        async def one(index: int) -> None:
            own_seed = None if seed is None else seed + index
            try:
                replies[index] = await self.complete(
                    messages, max_tokens=max_tokens, temperature=temperature, seed=own_seed, stop=stop
                )
            except Exception as error:
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for index in range(count):
                group.start_soon(one, index)
        if failures:
            raise failures[0]  # by itself: an exception group would hide what to mend
        return [replies[index] for index in range(count)]

    async def aclose(self) -> None:
        """Release what the model holds. It may be called twice; a later :meth:`complete` opens it again."""
        return


class WrappedModel(Model):
    """A model around another: what it does not change is that model's own.

    Args:
        inner: the model to ask.
    """

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.name = inner.name
        self.context_tokens = inner.context_tokens
        self.prompt_tokens = inner.prompt_tokens
        self.endpoint = inner.endpoint

    async def context_size(self) -> int:
        return await self.inner.context_size()

    async def count_tokens(self, text: str) -> int:
        return await self.inner.count_tokens(text)

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
        return await self.inner.complete(
            messages, max_tokens=max_tokens, temperature=temperature, seed=seed, stop=stop, on_text=on_text
        )

    async def sample(
        self,
        messages: Sequence[Message],
        count: int,
        *,
        max_tokens: int = 1024,
        temperature: float = 0.7,
        seed: int | None = None,
        stop: Sequence[str] = (),
    ) -> list[Reply]:
        return await self.inner.sample(
            messages, count, max_tokens=max_tokens, temperature=temperature, seed=seed, stop=stop
        )

    async def aclose(self) -> None:
        await self.inner.aclose()

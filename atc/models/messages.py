"""What is asked of a language model and what it answers: messages, requests, replies, and estimates of tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from atc.models.images import IMAGE_TOKENS, Image
from atc.models.reply_format import ReplyFormat
from atc.wording.prompting import fenced, prompt

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["stop", "length", "other"]
OnText = Callable[[str], None]


@dataclass(frozen=True)
class Message:
    """One message of a prompt.

    Attributes:
        fixed: it is text of this project, the same in every run.
        images: shown after the text, for a model that takes them (:attr:`Model.takes_images`).
        stable: so many characters of its beginning are the same for every task with these tools. A message that is not
            in the prompt for its tools has 0.
    """

    role: Role
    content: str
    fixed: bool = field(default=False, compare=False)
    images: tuple[Image, ...] = ()
    stable: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Reply:
    """One reply of a model.

    Attributes:
        text: the whole reply.
        finish_reason: ``"stop"``: the model ended it; ``"length"``: it was cut at a limit; ``"other"``: anything else,
            an endpoint that does not say why included.
        prompt_tokens: tokens of the prompt; an estimate (characters / 4) where the endpoint does not count them.
        completion_tokens: tokens of the reply, likewise.
        seconds: from the call to the end of the reply, retries included.
        cached: it came from the disk and cost nothing.
        model: the model's name.
        cached_tokens: those of ``prompt_tokens`` that the endpoint had read before, as far as it counts them: they may
            cost less.
        problem: where ``text`` is empty, why, as far as it is known; in words, and with what came in its place. Where
            it was to fit a schema or choices and does not, what is wrong with it.
        notice: what was found out about the endpoint by this reply and holds from now on; in words, for the user.
        value: the parsed reply, where it had to fit a schema or choices and does: the JSON value, or the choice.
            ``None`` otherwise, and where the JSON value is null: then there is no ``problem``.
    """

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cached: bool = False
    model: str = ""
    problem: str = ""
    value: Any = None
    cached_tokens: int = 0
    notice: str = ""


Ask = Callable[[Sequence[Message], int], Awaitable[Reply]]
"""Asks a model: the messages, and how many tokens it may reply with."""


def estimate_tokens(text_or_messages: str | Sequence[Message]) -> int:
    """Tokens of a text or of a prompt, roughly: four characters each, and four tokens of framing a message.

    An image counts as :data:`~atc.models.images.IMAGE_TOKENS`.
    """
    if isinstance(text_or_messages, str):
        return -(-len(text_or_messages) // 4)
    return sum(
        4 + estimate_tokens(message.content) + IMAGE_TOKENS * len(message.images) for message in text_or_messages
    )


def bounded_tokens(text: str) -> int:
    """A safe upper bound of the tokens of ordinary text where no tokenizer is at hand: three characters each."""
    return -(-len(text) // 3)


@dataclass(frozen=True)
class Sampling:
    """How a reply is sampled.

    Attributes:
        max_tokens: the most tokens of the reply.
        temperature: 0 takes the likeliest token every time.
        seed: makes sampling repeatable where the endpoint supports it.
        stop: texts that end the reply, as many as are wanted; they are not part of it.
    """

    max_tokens: int = 1024
    temperature: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelRequest:
    """One request for a reply.

    Attributes:
        messages: the prompt.
        sampling: how the reply is sampled.
        format: what the reply must be; anything for ``None``.
        on_text: called with each piece of the reply as it arrives.
        in_prompt: the prompt already states the format.
    """

    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    format: ReplyFormat | None = None
    on_text: OnText | None = field(default=None, compare=False, repr=False)
    in_prompt: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The arguments beside the messages with which :meth:`Model.complete` makes this request."""
        sampling = self.sampling
        made: dict[str, Any] = {
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "stop": sampling.stop,
            "on_text": self.on_text,
        }
        return made if self.format is None else made | self.format.options

    def with_tokens(self, max_tokens: int) -> ModelRequest:
        """The same request for a reply of at most so many tokens."""
        return replace(self, sampling=replace(self.sampling, max_tokens=max_tokens))

    def with_format_in_prompt(self) -> ModelRequest:
        """The same request with a prompt that ends with the format."""
        if self.format is None or self.in_prompt:
            return self
        return replace(self, messages=_with_user(self.messages, self.format.instruction()), in_prompt=True)

    def again(self, reply: Reply, problem: str) -> ModelRequest:
        """The request that follows a reply that does not fit: it shows the reply and its problem."""
        assert self.format is not None
        shown = Message("assistant", reply.text[:_SHOWN] or "(nothing)")
        correction = Message("user", prompt("reply_again", problem=fenced(problem), wanted=self.format.instruction()))
        return replace(self, messages=(*self.messages, shown, correction), in_prompt=True)


_SHOWN = 2_000  # characters of a reply that does not fit


def _with_user(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    if messages and messages[-1].role == "user":
        last = messages[-1]
        return (*messages[:-1], Message("user", f"{last.content}\n\n{text}", images=last.images))
    return (*messages, Message("user", text))

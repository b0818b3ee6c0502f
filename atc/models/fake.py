"""A model with scripted replies: for tests, yours and ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atc.errors import ModelError
from atc.models.base import Model
from atc.models.messages import Message, ModelRequest, Reply, estimate_tokens
from atc.models.reply_format import ALL_KINDS

Scripted = str | Reply | Exception | Callable[[Sequence[Message]], str]


class FakeModel(Model):
    """Gives scripted replies one after the other. If a reply must fit a format and does not, the next one is used.

    Args:
        replies: each a text, a whole :class:`Reply`, an exception to raise, or a function of the messages.

    Attributes:
        prompts: the messages of each call, in order.
    """

    enforces = ALL_KINDS  # a script is taken at its word, and prompts stay as they are
    takes_images = True

    def __init__(self, replies: Sequence[Scripted], *, name: str = "fake", context_tokens: int = 32_768) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self.prompts: list[list[Message]] = []
        self._replies = list(replies)

    async def generate(self, request: ModelRequest) -> Reply:
        messages, stop = request.messages, request.sampling.stop
        self.prompts.append(list(messages))
        if len(self.prompts) > len(self._replies):
            raise ModelError(
                f"the fake model has {len(self._replies)} replies and was asked {len(self.prompts)} times: add one"
            )
        scripted = self._replies[len(self.prompts) - 1]
        if isinstance(scripted, Exception):
            raise scripted
        if not isinstance(scripted, Reply):
            text = scripted if isinstance(scripted, str) else scripted(messages)
            text = text[: min((at for end in stop if (at := text.find(end)) >= 0), default=len(text))]
            scripted = Reply(text, "stop", estimate_tokens(messages), estimate_tokens(text), 0.0, model=self.name)
        if request.on_text is not None:
            request.on_text(scripted.text)
        return scripted

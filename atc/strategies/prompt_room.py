"""How many tokens the prompts of a run may have, and what is left in them for the tools."""

from __future__ import annotations

from collections.abc import Sequence

from atc.errors import ContextExceeded, ModelError
from atc.models.base import Message, Model
from atc.models.images import IMAGE_TOKENS
from atc.settings import Settings

FRAMING = 16
"""Tokens of a message beside its text: marks of its role, as chat templates write them, with some to spare."""
FEEDBACK = 600
"""Tokens kept for notes on failed programs where documents are shortened, so that they need not be shortened again."""
REVISION = 3
"""The part of a prompt that a revision's programs and errors may take: one in so many tokens."""
LEAST = 1_000
"""Tokens for tools that a long task may not take away, where the context has them."""


class PromptRoom:
    """The size of a run's prompts.

    Args:
        model: whose context and tokenizer count.
        settings: ``prompt_tokens`` and ``context_tokens`` come before what the model says; ``max_tokens`` are kept free
            for the reply.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        self._model, self._settings = model, settings
        self._most: int | None = None
        self._counted: dict[str, int] = {}
        self.shrunk = False

    async def count(self, text: str) -> int:
        """Tokens of a text, as the model counts them; it is asked once about each."""
        if text not in self._counted:
            self._counted[text] = await self._model.count_tokens(text) if text.strip() else 0
        return self._counted[text]

    async def taken(self, messages: Sequence[Message]) -> int:
        """Tokens of what stands in a prompt beside the tools."""
        text = await self.count("\n".join(message.content for message in messages))
        return text + FRAMING * len(messages) + IMAGE_TOKENS * sum(len(message.images) for message in messages)

    async def for_tools(self, taken: int) -> int:
        """Tokens that are left for the tools beside so many.

        Raises:
            ModelError: none are left.
        """
        settings, most = self._settings, await self._bound()
        wanted = settings.prompt_tokens or max(self._model.prompt_tokens or most, taken + LEAST)
        left = min(most, wanted) - taken
        if left <= 0:
            raise ModelError(
                f"the instructions, the task and the notes take {taken:,} tokens of the {min(most, wanted):,} that a "
                f"prompt may have: raise prompt_tokens or context_tokens, lower max_tokens ({settings.max_tokens:,} "
                "for the reply), or shorten the task"
            )
        return left

    async def for_revision(self) -> int:
        """Tokens that the part about failed programs should have at most."""
        most = await self._bound()
        return min(most, self._settings.prompt_tokens or self._model.prompt_tokens or most) // REVISION

    async def _bound(self) -> int:
        """Tokens that a prompt may have, the reply kept free."""
        context = self._settings.context_tokens or await self._model.context_size()
        most = context - self._settings.max_tokens
        return most if self._most is None else min(most, self._most)

    def shrink(self, error: ContextExceeded, used: int) -> None:
        """Make prompts smaller, as an endpoint demanded that refused one of ``used`` tokens.

        Raises:
            ModelError: it is the second time.
        """
        if self.shrunk:
            raise ModelError(
                f"{error}; a shorter prompt was refused too: set context_tokens to what the model takes, prompt and "
                "reply together, or prompt_tokens to less"
            ) from error
        self.shrunk = True
        self._most = used // 2
        if error.limit is not None:
            free = error.limit - self._settings.max_tokens
            # what was requested may include the reply: the smaller of both readings
            fitting = int(used * free / error.requested * 0.98) if error.requested else free
            if 0 < fitting < used:
                self._most = fitting

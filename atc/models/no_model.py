"""No model: for runs of programs that somebody else wrote. Nothing is asked; whatever asks all the same is refused."""

from __future__ import annotations

from atc.errors import ModelUnavailable
from atc.models.base import Model
from atc.models.messages import ModelRequest, Reply


class NoModel(Model):
    """Stands where a run has a model, and answers nothing."""

    name = "none"
    context_tokens = 1_000_000
    takes_images = True

    async def generate(self, request: ModelRequest) -> Reply:
        """Raise ModelUnavailable."""
        raise ModelUnavailable("this run has no language model: its programs are written elsewhere")

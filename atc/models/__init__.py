"""Language models: one client for every OpenAI-compatible endpoint, a small model on this machine, a fake for tests."""

from __future__ import annotations

from atc.models.base import Model, WrappedModel
from atc.models.budget import Budget, BudgetedModel
from atc.models.cache import CachedModel
from atc.models.embedded import EmbeddedModel
from atc.models.fake import FakeModel
from atc.models.images import Image
from atc.models.messages import FinishReason, Message, ModelRequest, OnText, Reply, Role, Sampling, estimate_tokens
from atc.models.openai_compatible import OpenAICompatible
from atc.models.reply_format import ReplyFormat
from atc.models.resolve import Choice, choose_model, open_model, resolve_model

__all__ = [
    "Budget",
    "BudgetedModel",
    "CachedModel",
    "Choice",
    "EmbeddedModel",
    "FakeModel",
    "FinishReason",
    "Image",
    "Message",
    "Model",
    "ModelRequest",
    "OnText",
    "OpenAICompatible",
    "Reply",
    "ReplyFormat",
    "Role",
    "Sampling",
    "WrappedModel",
    "choose_model",
    "estimate_tokens",
    "resolve_model",
    "open_model",
]

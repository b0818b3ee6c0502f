"""The endpoint that all systems of a benchmark ask: the embedded model's own server, or one that is set up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from atc.models.embedded import EmbeddedModel
from atc.models.embedded_process import EmbeddedServer
from atc.models.resolve import choose_model

CONTEXT_TOKENS = 16_384
"""Of the embedded model: other systems' prompts grow with each step."""
CACHE_MIB = 4_096
"""What the embedded model keeps of prompts: systems and environments take turns."""


@dataclass(frozen=True)
class Upstream:
    """An OpenAI-compatible endpoint.

    Attributes:
        url: up to and without ``/chat/completions``.
        model: its name there; ``name``: as it is reported.
        context_tokens: what prompt and reply may take together.
        direct: never go through a proxy.
    """

    url: str
    model: str
    name: str
    context_tokens: int
    api_key: str = field(default="", repr=False)
    direct: bool = False


@contextmanager
def upstream(spec: str | None, threads: int | None = None, base_url: str | None = None) -> Iterator[Upstream]:
    """The endpoint of a model, started where it is the embedded one.

    Args:
        spec: as ``atc run --model`` takes it.
        base_url: of an endpoint; else what the environment says.

    Raises:
        UsageError: the spec means nothing, or contradicts the endpoint.
        ModelUnavailable: there is no such model on this machine, or no endpoint is set up.
    """
    choice = choose_model(spec, base_url=base_url)
    if choice.kind == "endpoint":
        url = (choice.base_url or "https://api.openai.com/v1").rstrip("/")
        yield Upstream(url, choice.model, choice.model, 32_768, choice.api_key or "")
        return
    model = EmbeddedModel(choice.model, threads=threads or os.cpu_count(), context_tokens=CONTEXT_TOKENS)
    model.check()
    server = EmbeddedServer(replace(model.settings, cache_mib=CACHE_MIB))
    try:
        yield Upstream(server.url, model.settings.alias, model.name, CONTEXT_TOKENS, server.api_key, direct=True)
    finally:
        server.stop()

"""Facts that an endpoint states beside its replies: how long its context is, and how many tokens a text has.

There is no standard for either. Most servers tell the context in their list of models, each under a name of its own;
llama.cpp, LM Studio and Ollama have routes of their own. Each is asked once at most, within seconds in all, at the
endpoint's own address alone; what fails or is odd is unknown.
"""

from __future__ import annotations

import functools
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import httpx

_WAIT_S = 5.0  # for all questions about the context together, and for one count
_MOST_BYTES = 16 << 20  # of an answer; OpenRouter's list has some hundred models
_MOST_TEXT = 400_000  # characters that are sent to be counted
_LEAST, _MOST = 256, 100_000_000  # tokens of a context; anything else is no such number
_OLLAMA_TOKENS = 4_096  # its context below 24 GiB of graphics memory, for a model that is not loaded
# Under these names an entry of a list of models tells its context: vLLM and SGLang; llama.cpp; OpenRouter, Together,
# Fireworks and Ollama's /api/ps; Groq; Mistral and LM Studio; LM Studio, for a loaded model; Anthropic; GitHub Copilot.
_NAMES = tuple(
    """
    max_model_len n_ctx context_length context_window max_context_length loaded_context_length max_input_tokens
    max_context_window_tokens
    """.split()
)
_PARTS = ("meta", "metadata", "limits", "capabilities", "top_provider")  # of an entry, in which they may stand


class EndpointFacts:
    """Asks an endpoint about itself.

    Args:
        base_url: its address up to and without ``/chat/completions``.
        model: the model's name at it.
        headers: to be sent, the key among them; never to another address, for redirects are not followed.
        direct: never go through a proxy.
    """

    def __init__(self, base_url: str, model: str, headers: Mapping[str, str], *, direct: bool = False) -> None:
        self._base, self._model, self._direct = base_url.rstrip("/"), model, direct
        self._root = self._base.removesuffix("/v1")
        self._headers = dict(headers)
        self._counts = True  # as far as is known

    async def context_tokens(self) -> int | None:
        """Tokens of prompt and reply together, the least of what it states; ``None``: it states none."""
        with anyio.move_on_after(_WAIT_S):
            async with self._client() as client:
                entry = await self._entry(client, f"{self._base}/models")
                owner = entry.get("owned_by")
                if sizes := list(_sizes(entry)):
                    return min(sizes)
                if owner == "llamacpp":  # older ones state it here alone
                    props = _members(await self._asked(client, "GET", f"{self._root}/props"))
                    return min(_sizes(_members(props.get("default_generation_settings"))), default=None)
                if owner == "organization_owner":  # LM Studio
                    return min(_sizes(await self._entry(client, f"{self._root}/api/v0/models")), default=None)
                if await self._asked(client, "GET", f"{self._root}/api/version") is not None:
                    return await self._ollama(client)
        return None

    async def is_llama_cpp(self) -> bool:
        """Whether it states that it is llama.cpp's server, which takes grammars."""
        with anyio.move_on_after(_WAIT_S):
            async with self._client() as client:
                return (await self._entry(client, f"{self._base}/models")).get("owned_by") == "llamacpp"
        return False

    async def count(self, text: str) -> int | None:
        """Tokens of a text; ``None`` where the endpoint has no tokenizer for others: it is asked no more then."""
        if not self._counts or not text or len(text) > _MOST_TEXT:
            return None if text else 0
        # llama.cpp reads `content`, vLLM and SGLang `model` and `prompt`; each ignores the other's.
        request = {"model": self._model, "prompt": text, "add_special_tokens": False, "content": text}
        answer: Any = None
        with anyio.move_on_after(_WAIT_S):
            async with self._client() as client:
                answer = await self._asked(client, "POST", f"{self._root}/tokenize", request)
        tokens = _members(answer).get("tokens")
        count = len(tokens) if isinstance(tokens, list) else 0
        self._counts = 0 < count <= 2 * len(text.encode("utf-8", "replace")) + 8
        return count if self._counts else None

    async def _ollama(self, client: httpx.AsyncClient) -> int | None:
        """Ollama cuts a longer prompt without a word, so what it has loaded counts and not what the model could."""
        running = _members(await self._asked(client, "GET", f"{self._root}/api/ps")).get("models")
        names = (self._model, f"{self._model}:latest")
        loaded = [each for each in _entries(running) if each.get("name") in names or each.get("model") in names]
        if sizes := [size for each in loaded for size in _sizes(each)]:
            return min(sizes)
        shown = _members(await self._asked(client, "POST", f"{self._root}/api/show", {"model": self._model}))
        if not shown:
            return None
        set_to = re.search(r"^num_ctx\s{1,80}(\d{1,9})\s*$", str(shown.get("parameters", ""))[:10_000], re.MULTILINE)
        return int(set_to[1]) if set_to else _OLLAMA_TOKENS

    async def _entry(self, client: httpx.AsyncClient, url: str) -> Mapping[str, Any]:
        """The model's entry in a list of models; Together's stands without a frame."""
        answer = await self._asked(client, "GET", url)
        listed = answer if isinstance(answer, list) else _members(answer).get("data")
        names = (self._model, f"models/{self._model}")  # Gemini lists them so
        return next((each for each in _entries(listed) if each.get("id") in names), {})

    async def _asked(self, client: httpx.AsyncClient, method: str, url: str, body: object = None) -> Any:
        """The JSON of an answer; ``None`` for everything else."""
        read = bytearray()
        try:
            async with client.stream(method, url, json=body) as answer:
                if answer.status_code != 200:
                    return None
                async for block in answer.aiter_bytes():
                    read += block
                    if len(read) > _MOST_BYTES:
                        return None
            return json.loads(read)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            return None

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=self._headers,
            timeout=_WAIT_S,
            trust_env=not self._direct,
            verify=_trusted(),
            follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=0),  # some close without a word
        )


def _members(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entries(value: object) -> list[Mapping[str, Any]]:
    return [_members(each) for each in value] if isinstance(value, list) else []


def _sizes(entry: Mapping[str, Any], depth: int = 2) -> Iterator[int]:
    for name in _NAMES:
        size = entry.get(name)
        if isinstance(size, int) and _LEAST <= size <= _MOST:
            yield size
    for part in _PARTS if depth else ():
        yield from _sizes(_members(entry.get(part)), depth - 1)


@functools.cache
def _trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context()

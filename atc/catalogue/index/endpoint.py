"""Vectors from an OpenAI-compatible embeddings endpoint: any encoder as the base of retrieval (ToolQP §4.2)."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import openai
import tenacity

from atc.catalogue.index.vectors import Floats, normalised, readable
from atc.errors import AtcError, EncoderUnavailable, SettingsError
from atc.models.endpoint_errors import Endpoint, Failure, broken, explain, retried

_CHARACTERS = 8_000


class EndpointEncoder:
    """An encoder behind an OpenAI-compatible endpoint.

    Args:
        model: the model's name at the endpoint.
        base_url: the endpoint's address up to and without ``/embeddings``; OpenAI's own when not given.
        api_key: the key; an endpoint of your own may need none.
        dimensions: components of a vector; asked of the endpoint with one short text when not given.
        batch: texts in a request.
        timeout_s: seconds that one attempt may take.
        max_attempts: how often a request is made before an overloaded or broken endpoint is an error.
        backoff_s: seconds before the second attempt, about; they double with each further one.

    Raises:
        SettingsError: ``base_url`` is no HTTP address.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        dimensions: int | None = None,
        batch: int = 64,
        timeout_s: float = 60.0,
        max_attempts: int = 4,
        backoff_s: float = 0.5,
    ) -> None:
        self.model = model
        self.batch = batch
        self.max_attempts = max_attempts
        self.backoff_s = backoff_s
        self._endpoint = Endpoint(_shown(base_url), model, api_key)
        self._dimensions = dimensions
        self._keyless = base_url is None and not api_key
        self._client = openai.OpenAI(
            base_url=base_url,
            api_key=api_key or "none",
            max_retries=0,
            timeout=openai.Timeout(timeout_s, connect=min(10.0, timeout_s)),
        )

    def __repr__(self) -> str:
        return f"EndpointEncoder({self.model!r}, base_url={self._endpoint.url!r})"

    @property
    def name(self) -> str:
        """Return the model and its address, without credentials."""
        return f"{self.model} at {self._endpoint.url}"

    @property
    def digest(self) -> str:
        """SHA-256 of the model's name and its dimensions, hexadecimal."""
        # Of the model's name alone: the same model may be moved to another address.
        return hashlib.sha256(f"endpoint\0{self.model}\0{self.dimensions}".encode()).hexdigest()

    @property
    def dimensions(self) -> int:
        """Return the number of components of a vector; the endpoint is asked for them once.

        Raises:
            EncoderUnavailable: the endpoint cannot be used.
            ModelError: it failed in the middle of work.
        """
        if self._dimensions is None:
            self._dimensions = self._ask(["dimensions"]).shape[1]
        return self._dimensions

    def check(self) -> None:
        """Check that there is a key where one is needed.

        Raises:
            EncoderUnavailable: there is none.
        """
        if self._keyless:
            raise EncoderUnavailable(
                "no key for OpenAI's endpoint: set OPENAI_API_KEY, or give the base_url of an endpoint of your own"
            )

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts in batches.

        Returns:
            An array of shape ``(len(texts), dimensions)`` with rows of length one.

        Raises:
            EncoderUnavailable: the endpoint cannot be used.
            ModelError: it failed in the middle of work.
        """
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for at in range(0, len(texts), self.batch):
            vectors = self._ask([readable(text[:_CHARACTERS]) for text in texts[at : at + self.batch]])
            if vectors.shape[1] != self.dimensions:
                raise broken(
                    f"{self.name} sent vectors of {vectors.shape[1]} components, not {self.dimensions}"
                ).problem
            found[at : at + self.batch] = vectors
        return normalised(found)

    def _ask(self, texts: list[str]) -> Floats:
        """Return one request, repeated while that can help."""
        self.check()
        attempts = tenacity.Retrying(**retried(self.max_attempts, self.backoff_s), sleep=time.sleep)
        problem: AtcError
        try:
            return attempts(self._attempt, texts)
        except Failure as failure:
            problem = failure.problem
        raise problem  # outside the handler, so that no chained exception carries the request and with it the key

    def _attempt(self, texts: list[str]) -> Floats:
        try:
            answer = self._client.embeddings.create(model=self.model, input=texts, encoding_format="float")
        except openai.OpenAIError as error:
            raise explain(error, self._endpoint) from None
        except ValueError:
            raise broken(f"{self.name} sent something that is no JSON") from None
        vectors = _vectors(answer, len(texts))
        if vectors is None:
            raise broken(f"{self.name} did not send a vector of numbers for each of {len(texts)} texts")
        return vectors


def _vectors(answer: Any, wanted: int) -> Floats | None:
    """Return the vectors of an answer in the order of the texts; ``None`` where it is anything else."""
    try:
        rows: dict[int, Any] = {item.index: item.embedding for item in answer.data}
        found = np.array([_numbers(rows[position]) for position in range(wanted)], np.float32)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return found if found.ndim == 2 and found.shape[1] and np.isfinite(found).all() else None


def _numbers(embedding: Any) -> Floats:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), "<f4")
    return np.array(embedding, np.float32)


def _shown(base_url: str | None) -> str:
    try:
        url = httpx.URL("https://api.openai.com/v1" if base_url is None else base_url)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise SettingsError("the encoder's base_url is no address: give one like http://localhost:8000/v1")
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))

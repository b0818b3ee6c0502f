"""Replies kept on disk, so that the same question in the same words is answered without a model."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from atc.models.base import Message, Model, OnText, Reply

_log = logging.getLogger(__name__)
_REPLY = TypeAdapter(Reply)


class CachedModel(Model):
    """A model whose replies are kept in a folder and given again.

    A reply is found again by the model's name, the messages and every sampling parameter. So sampling without a seed
    gives one reply for ever: give each sample a seed of its own. Prompts and replies lie there readable to this user.

    Args:
        inner: the model to ask.
        directory: the folder; made when it is missing.
    """

    def __init__(self, inner: Model, directory: str | Path) -> None:
        self.inner = inner
        self.directory = Path(directory)
        self.name = inner.name
        self.context_tokens = inner.context_tokens

    def __repr__(self) -> str:
        return f"CachedModel({self.inner!r}, {str(self.directory)!r})"

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
        asked = self._asked(messages, max_tokens, temperature, seed, stop)
        path = self._path(asked)
        reply = _read(path)
        if reply is not None:
            if on_text is not None:
                on_text(reply.text)
            return replace(reply, cached=True)
        reply = await self.inner.complete(
            messages, max_tokens=max_tokens, temperature=temperature, seed=seed, stop=stop, on_text=on_text
        )
        if not _in_vain(reply):
            _write(path, reply)
        return reply

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
        """As :meth:`Model.sample`; the replies to one request are kept together."""
        asked = self._asked(messages, max_tokens, temperature, seed, stop)
        paths = [self._path({**asked, "reply": index, "of": count}) for index in range(count)]
        kept = [reply for path in paths if (reply := _read(path)) is not None]
        if len(kept) == count:
            return [replace(reply, cached=True) for reply in kept]
        replies = await self.inner.sample(
            messages, count, max_tokens=max_tokens, temperature=temperature, seed=seed, stop=stop
        )
        if not any(map(_in_vain, replies)):
            for path, reply in zip(paths, replies, strict=True):
                _write(path, reply)
        return replies

    def _asked(
        self, messages: Sequence[Message], max_tokens: int, temperature: float, seed: int | None, stop: Sequence[str]
    ) -> dict[str, Any]:
        return {
            "model": self.inner.name,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_tokens": max_tokens,
            "temperature": float(temperature),
            "seed": seed,
            "stop": list(stop),
        }

    def _path(self, asked: dict[str, Any]) -> Path:
        return self.directory / f"{hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()}.json"

    async def aclose(self) -> None:
        await self.inner.aclose()


def _in_vain(reply: Reply) -> bool:
    """Whether a limit was used up before a word was said: with more room for thoughts it may be otherwise."""
    return reply.finish_reason == "length" and not reply.text.strip()


def _read(path: Path) -> Reply | None:
    """The reply kept there; ``None`` if there is none or it cannot be read: it is asked for again then."""
    try:
        return _REPLY.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        _log.warning("ignored the damaged cache entry %s: %s", path, type(error).__name__)
        return None


def _write(path: Path, reply: Reply) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as out:
            try:
                out.write(_REPLY.dump_json(reply))
                out.close()
                os.replace(out.name, path)
            except BaseException:
                os.unlink(out.name)
                raise
    except OSError as error:
        _log.warning("could not keep a reply in %s: %s", path.parent, error.strerror)  # the reply itself is good

"""Replies kept on disk, so that the same question in the same words is answered without a model."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from atc._host.files import make_private, write_whole
from atc.models.base import Model, WrappedModel
from atc.models.messages import ModelRequest, Reply

_log = logging.getLogger(__name__)
T = TypeVar("T")
_REPLY = TypeAdapter(Reply)
_COUNT = TypeAdapter(int)


class CachedModel(WrappedModel):
    """A model whose replies are kept in a folder and given again.

    A reply is found again by the model's name, the messages, every sampling parameter and the format. So sampling
    without a seed gives one reply for ever: give each sample a seed of its own. Prompts and replies lie there readable
    to this user.
    Counts of tokens are kept too: prompts are made by them, and the same ones shall be asked again.

    Args:
        inner: the model to ask.
        directory: the folder; made when it is missing.
    """

    def __init__(self, inner: Model, directory: str | Path) -> None:
        super().__init__(inner)
        self.directory = Path(directory)

    def __repr__(self) -> str:
        return f"CachedModel({self.inner!r}, {str(self.directory)!r})"

    def prepare(self) -> None:
        return  # the reply may be on the disk

    async def generate(self, request: ModelRequest) -> Reply:
        path = self._path(self._asked(request))
        reply = _read(path, _REPLY)
        if reply is not None:
            if request.on_text is not None:
                request.on_text(reply.text)
            return replace(reply, cached=True)
        reply = await super().generate(request)
        if not _in_vain(reply):
            _write(path, _REPLY, replace(reply, notice=""))
        return reply

    async def count_tokens(self, text: str) -> int:
        path = self._path({"model": self.inner.name, "tokens_of": text})
        count = _read(path, _COUNT)
        if count is None:
            count = await self.inner.count_tokens(text)
            _write(path, _COUNT, count)
        return count

    def _asked(self, request: ModelRequest) -> dict[str, Any]:
        sampling = request.sampling
        asked: dict[str, Any] = {
            "model": self.inner.name,
            "messages": [
                {"role": each.role, "content": each.content}
                | ({"images": [image.sha256 for image in each.images]} if each.images else {})
                for each in request.messages
            ],
            "max_tokens": sampling.max_tokens,
            "temperature": float(sampling.temperature),
            "seed": sampling.seed,
            "stop": list(sampling.stop),
        }
        if extra := getattr(self.inner, "extra_body", None):
            asked["extra_body"] = extra
        return asked if request.format is None else asked | {"format": request.format.options}

    def _path(self, asked: dict[str, Any]) -> Path:
        return self.directory / f"{hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()}.json"


def _in_vain(reply: Reply) -> bool:
    """Whether it holds no text: with more room for thoughts, or another time, it may be otherwise."""
    return bool(reply.problem) or (reply.finish_reason == "length" and not reply.text.strip())


def _read(path: Path, kind: TypeAdapter[T]) -> T | None:
    """The stored value; ``None`` if there is none or it cannot be read, so that the model is asked again."""
    try:
        return kind.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        _log.warning("ignored the damaged cache entry %s: %s", path, type(error).__name__)
        return None


def _write(path: Path, kind: TypeAdapter[T], value: T) -> None:
    try:
        make_private(path.parent)
        write_whole(path, kind.dump_json(value).decode())
    except OSError as error:
        _log.warning("could not keep it in %s: %s", path.parent, error.strerror)  # what was asked for is good

"""Images that a user shows with a task: read on the host, bounded, and known by their first bytes.

An image comes from whoever starts the run, never from a task, a tool or a program. A URL is not fetched: what stands at
an address may be another picture a moment later, and this host would ask a server in the name of whoever named it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.errors import UsageError

MAX_IMAGES = 8
"""Images of one run."""
MAX_BYTES, MAX_TOTAL = 10 << 20, 20 << 20
"""Bytes of one image, and of all of a run: endpoints take some 20 MB."""
IMAGE_TOKENS = 1_600
"""Tokens that an image counts as before an endpoint has counted: what a large one takes at most at common models."""
_DATA_URL = re.compile(r"data:(?:image/[\w.+-]{1,40})?;base64,", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{1,20}://", re.IGNORECASE)
_READ = 1 << 20


@dataclass(frozen=True)
class Image:
    """One image: PNG, JPEG, WebP or GIF. Made by :meth:`of`.

    Attributes:
        name: the file's, or ``image 1`` where it came as bytes.
        media_type: as its first bytes say.
        data: the file.
        path: where it was read; ``None`` where it came as bytes.
    """

    name: str
    media_type: str
    data: bytes = field(repr=False)
    path: str | None = None

    @classmethod
    def of(cls, source: ImageSource, number: int = 1) -> Image:
        """The image of a path, of bytes, or of a ``data:`` URL with base64.

        Raises:
            UsageError: it cannot be read, is too large, or is no image that models take; or the source is a URL.
        """
        if isinstance(source, Image):
            return source
        path: str | None = None
        name = f"image {number}"
        if isinstance(source, bytes | bytearray | memoryview):
            data = bytes(source)
        elif isinstance(source, str) and source[:5].lower() == "data:":
            data = _of_data_url(source, name)
        elif isinstance(source, str) and _ADDRESS.match(source):
            raise UsageError(f"{name} is the address {source[:100]!r}, and none is fetched: save it, and give the file")
        elif isinstance(source, str | os.PathLike):
            path, name = _absolute(source, name), Path(source).name
            data = _read(path)
        else:
            raise UsageError(f"{name} must be a path, bytes or a data: URL, not {type(source).__name__}")
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path or name} has more than {MAX_BYTES >> 20} MiB: make the image smaller")
        return cls(name, _media_type(data, f"the image {path}" if path else name), data, path)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file, in hex."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def data_url(self) -> str:
        """The image as a ``data:`` URL, as endpoints take it."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"

    def facts(self) -> dict[str, Any]:
        """Its record in a trace, without its bytes."""
        known = {"name": self.name, "type": self.media_type, "bytes": len(self.data), "sha256": self.sha256}
        return known | ({"path": self.path} if self.path is not None else {})


ImageSource = str | os.PathLike[str] | bytes | Image
"""A path, the bytes of a file, a ``data:`` URL, or an image that was read before."""
Images = Iterable[ImageSource]
"""Images that are shown with a task."""


def read_images(sources: Images) -> tuple[Image, ...]:
    """The images of a run, in order.

    Raises:
        UsageError: as :meth:`Image.of`; or they are too many, or too large together.
    """
    if isinstance(sources, str | bytes | os.PathLike | Image) or not isinstance(sources, Iterable):
        raise UsageError("images takes a list of paths or bytes: put a single image in a list, too")
    read: list[Image] = []
    for number, source in enumerate(sources, 1):
        if number > MAX_IMAGES:
            raise UsageError(f"a task takes {MAX_IMAGES} images at most: leave some out")
        read.append(Image.of(source, number))
        if sum(len(image.data) for image in read) > MAX_TOTAL:
            raise UsageError(f"the images have more than {MAX_TOTAL >> 20} MiB together: make them smaller")
    return tuple(read)


def read_again(run_id: str, shown: Sequence[Mapping[str, Any]], given: Sequence[Image]) -> tuple[Image, ...]:
    """The images that a run was begun with: from those that are given again, else from their files.

    Args:
        shown: what its trace holds of them (:meth:`Image.facts`).

    Raises:
        UsageError: one changed since, is gone, or came as bytes and is not given; or another one is given.
    """
    again = {image.sha256: image for image in given}
    images = []
    for facts in shown:
        digest, name, path = facts.get("sha256"), str(facts.get("name"))[:200], facts.get("path")
        image = again.get(str(digest))
        if image is None:
            how = "give the same file again (images=, --image)"
            if not isinstance(path, str):
                raise UsageError(f"run {run_id} was shown {name}, which came as bytes and is not kept: {how}")
            try:
                image = Image.of(Path(path))
            except UsageError as error:
                raise UsageError(f"run {run_id} was shown {name}, which cannot be read again: {error}; {how}") from None
            if image.sha256 != digest:
                raise UsageError(f"run {run_id} was shown {path}, which has changed since: {how}, or begin a new run")
        images.append(image)
    if others := again.keys() - {image.sha256 for image in images}:
        raise UsageError(f"run {run_id} was not shown {again[min(others)].name}: give only its own images again")
    return tuple(images)


def _of_data_url(url: str, name: str) -> bytes:
    begin = _DATA_URL.match(url[:100])
    if begin is None:
        raise UsageError(f"{name} is no data: URL of an image: write data:image/png;base64,…")
    if len(url) > MAX_BYTES * 3 // 2:
        raise UsageError(f"{name} has more than {MAX_BYTES >> 20} MiB: make the image smaller")
    try:
        return base64.b64decode(url[begin.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(f"{name} is a data: URL whose base64 is damaged: {error}") from None


def _absolute(source: str | os.PathLike[str], name: str) -> str:
    path = os.fspath(source)
    if not isinstance(path, str) or not path or "\0" in path:
        raise UsageError(f"{name} names no file")
    return os.path.abspath(os.path.expanduser(path))


def _read(path: str) -> bytes:
    """The bytes of a file, one more than are taken at most. A pipe or a device is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"the image {path} is no file: give a PNG, JPEG, WebP or GIF")
            data = bytearray()
            while len(data) <= MAX_BYTES and (block := os.read(descriptor, _READ)):
                data += block
            return bytes(data)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UsageError(f"the image {path} cannot be read: {error.strerror or error}") from None
    except UnicodeError:
        raise UsageError(f"the image {path!r} cannot be read: no file has such a name") from None


def _media_type(data: bytes, where: str) -> str:
    """Told by the first bytes: a file's name says nothing."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    if not data:
        raise UsageError(f"{where} is empty: give a PNG, JPEG, WebP or GIF")
    raise UsageError(f"{where} is no PNG, JPEG, WebP or GIF by its first bytes: convert it to one of these")

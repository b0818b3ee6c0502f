"""Values that are too large for a client's context, and bytes: kept here, and passed by reference.

A reference is an address that nobody can guess, and works for the client alone that it was made for. A client reads it
as a resource, whole or in part, or gives it to a program: so a value goes from one program to the next, and no model
reads it. All is in memory, within bounds. Room is counted by principal, for a name is only claimed: whoever keeps too
much loses its own oldest values, and where all is full, so does whoever keeps most.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import mcp_types as types
from pydantic import BaseModel, ConfigDict

from atc._records.packing import pack, unpack
from atc.errors import UsageError
from atc.run.previews import preview
from atc.sandboxes.inputs import MAX_BYTES
from atc.serve.mcp.client import ClientId
from atc.wording import outcomes

SCHEME, HOST = "atc", "values"
TEMPLATE = f"{SCHEME}://{HOST}/{{id}}{{?path,from,to}}"
"""Of an address: ``path`` is a JSON Pointer; ``from`` and ``to`` count items of a list or characters of a text."""
REFERENCE = "$resource"
"""The one key of an input that stands for a kept value."""
LARGE = 8_000
"""Characters of JSON that a report may hold, if the server is not told otherwise."""
MAX_PREVIEW, MAX_BLOBS = 1_600, 16
"""Characters of a preview, and byte values of an answer that are kept one by one."""
MAX_OF_PRINCIPAL, MAX_TOGETHER = 32 << 20, 128 << 20
"""Bytes that are kept for the clients of one principal, and for all."""
MOST_OF_PRINCIPAL, MOST_TOGETHER = 2_000, 20_000
"""Values that are kept for the clients of one principal, and for all: each takes room beside its bytes."""
MAX_URI = 2_000
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
)


class Link(BaseModel):
    """A reference to a kept value.

    Attributes:
        name: for people: the run that made it.
        size: bytes of the JSON text, or of the bytes themselves.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    uri: str
    name: str
    mime_type: str
    size: int


@dataclass(frozen=True)
class Kept:
    """A value that is kept: bytes that are bytes, a text, or the JSON text of anything else."""

    owner: ClientId
    link: Link
    data: bytes

    @property
    def value(self) -> Any:
        """The value."""
        if self.link.mime_type == "application/json":
            return unpack(json.loads(self.data))
        return self.data.decode() if self.link.mime_type.startswith("text/") else self.data


class Shelf:
    """What is kept for all clients of a server.

    Args:
        large: characters of JSON above which a value is kept and not told.
        of_principal: bytes that are kept for the clients of one principal. ``together``: for all.
    """

    def __init__(self, large: int = LARGE, of_principal: int = MAX_OF_PRINCIPAL, together: int = MAX_TOGETHER) -> None:
        self.large, self._of_principal, self._together = large, of_principal, together
        self._kept: dict[str, Kept] = {}
        self._of: dict[str, OrderedDict[str, Kept]] = {}
        self._used: dict[str, int] = {}
        self._used_together = 0
        self._lock = threading.Lock()  # inputs are read in a thread

    def put(self, owner: ClientId, data: bytes, mime_type: str, name: str) -> Link:
        """Keep a value; older ones go where there is no room."""
        uri = f"{SCHEME}://{HOST}/{secrets.token_urlsafe(24)}"
        link = Link(uri=uri, name=name, mime_type=mime_type, size=len(data))
        size, who = len(data), owner.principal
        with self._lock:
            while (own := self._of.get(who)) and (
                len(own) >= MOST_OF_PRINCIPAL or self._used[who] + size > self._of_principal
            ):
                self._drop_oldest(who)
            while self._kept and self._used_together + size > self._together:
                self._drop_oldest(max(self._used, key=lambda each: (self._used[each], each == who)))
            while len(self._kept) >= MOST_TOGETHER:
                self._drop_oldest(max(self._of, key=lambda each: (len(self._of[each]), each == who)))
            self._kept[uri] = self._of.setdefault(who, OrderedDict())[uri] = Kept(owner, link, data)
            self._used[who] = self._used.get(who, 0) + size
            self._used_together += size
        return link

    def get(self, owner: ClientId, uri: str) -> Kept:
        """What was kept for a client under an address.

        Raises:
            UsageError: nothing is, or no more.
        """
        with self._lock:
            found = self._kept.get(uri)
            if found is None or found.owner != owner:  # to whom it is not, it is not there
                raise UsageError(f"nothing is kept for you at {uri[:100]!r}: run the program again that made it")
            self._of[owner.principal].move_to_end(uri)
            return found

    def of(self, owner: ClientId) -> list[Link]:
        """What is kept for a client, the latest first."""
        return [each.link for each in reversed(self._of.get(owner.principal, {}).values()) if each.owner == owner]

    def _drop_oldest(self, principal: str) -> None:
        uri, kept = self._of[principal].popitem(last=False)
        del self._kept[uri]
        self._used_together -= len(kept.data)
        self._used[principal] -= len(kept.data)
        if not self._of[principal]:
            del self._of[principal], self._used[principal]


@dataclass(frozen=True)
class Values:
    """The values of one client, on the shelf of all."""

    shelf: Shelf
    owner: ClientId

    def shown(self, value: Any, run_id: str) -> dict[str, Any]:
        """An answer as a report has it: ``value`` where it is small, its bytes as references; else ``preview``, and
        ``cut``, which says so. And ``links`` to all that is kept.
        """
        blobs: list[bytes] = []
        bare = _without_bytes(value, blobs.append)
        if len(blobs) > MAX_BLOBS or len(_json(bare)) > self.shelf.large:
            begins, link = preview(value, MAX_PREVIEW), self._keep(value, f"the answer of {run_id}")
            return {"cut": outcomes.cut_answer(len(begins), link.size, link.uri), "preview": begins, "links": [link]}
        links: list[Link] = []

        def kept(data: bytes) -> dict[str, Any]:
            links.append(self._keep(data, f"bytes of {run_id}"))
            return {REFERENCE: links[-1].uri, "mime_type": links[-1].mime_type, "bytes": len(data)}

        return {"value": pack(_without_bytes(value, kept)) if blobs else bare, "links": links}

    def read(self, uri: str) -> tuple[Kept, Any]:
        """A kept value, whole or the part that an address names.

        Raises:
            UsageError: nothing is kept there, or it has no such part.
        """
        if len(uri) > MAX_URI:
            raise UsageError(f"an address has at most {MAX_URI:,} characters")
        try:
            parts = urlsplit(uri)
            asked = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), max_num_fields=3)
        except ValueError:
            raise UsageError(f"{uri[:100]!r} is no address: they have the form {TEMPLATE}") from None
        if unknown := asked.keys() - {"path", "from", "to"}:
            raise UsageError(f"an address takes path, from and to, not {min(unknown)[:40]!r}")
        kept = self.shelf.get(self.owner, f"{parts.scheme}://{parts.netloc}{parts.path}")
        value = kept.value
        if path := asked.get("path", [""])[-1]:
            value = _at(value, path)
        if "from" in asked or "to" in asked:
            value = _part(value, _count(asked, "from"), _count(asked, "to"))
        return kept, value

    def inputs(self, given: dict[str, Any]) -> dict[str, Any]:
        """The inputs of a program, what is kept in place of its reference. Linear in them: for a thread, if large.

        Raises:
            UsageError: nothing is kept at a reference, what is kept at all of them together is too large, or an input
                holds tagged bytes that are none.
        """
        made, left = {}, MAX_BYTES
        for name, value in given.items():
            if not _is_reference(value):
                made[name] = _unpacked(name, value)
                continue
            kept, made[name] = self.read(_uri(name, value))
            if (left := left - kept.link.size) < 0:
                raise UsageError(f"the values that the inputs refer to have more than {MAX_BYTES:,} bytes: give fewer")
        return made

    @staticmethod
    def kept_in(given: Mapping[str, Any]) -> list[str]:
        """The names of the inputs that stand for a kept value."""
        return [name for name, value in given.items() if _is_reference(value)]

    def _keep(self, value: Any, name: str) -> Link:
        if isinstance(value, bytes):
            return self.shelf.put(self.owner, value, _mime_type(value), name)
        if isinstance(value, str):
            return self.shelf.put(self.owner, value.encode("utf-8", "replace"), "text/plain", name)
        return self.shelf.put(self.owner, _json(pack(value)).encode("utf-8", "replace"), "application/json", name)


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and REFERENCE in value


def _uri(name: str, value: dict[str, Any]) -> str:
    uri = value[REFERENCE]
    if not isinstance(uri, str) or value.keys() - {REFERENCE, "mime_type", "bytes"}:
        raise UsageError(f'the input {name[:60]!r} must be a value, or {{"{REFERENCE}": "{TEMPLATE}"}}')
    return uri


def _unpacked(name: str, value: Any) -> Any:
    try:
        return unpack(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the input {name[:60]!r} cannot be given to a program: {error}") from None


def _without_bytes(value: Any, replaced: Callable[[bytes], Any]) -> Any:
    if isinstance(value, bytes | bytearray):
        return replaced(bytes(value))
    if isinstance(value, dict):
        return {key: _without_bytes(item, replaced) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_bytes(item, replaced) for item in value]
    return value


def _at(value: Any, pointer: str) -> Any:
    """What stands at a JSON Pointer (RFC 6901)."""
    if not pointer.startswith("/"):
        raise UsageError(f"`path` is a JSON Pointer such as /items/0/name, not {pointer[:100]!r}")
    for step in pointer[1:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            raise UsageError(f"the value has nothing at {pointer[:100]!r}: {name[:60]!r} is not there")
    return value


def _part(value: Any, start: int | None, stop: int | None) -> Any:
    if not isinstance(value, list | str | bytes):
        raise UsageError(f"`from` and `to` count items or characters, and this is a {type(value).__name__}")
    return value[start:stop]


def _count(asked: dict[str, list[str]], name: str) -> int | None:
    if name not in asked:
        return None
    text = asked[name][-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise UsageError(f"`{name}` is a number from 0, not {text[:40]!r}")
    return int(text)


def _mime_type(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if data[8:12] == b"WEBP" else "audio/wav"
    return next((mime for magic, mime in _MAGIC if data.startswith(magic)), "application/octet-stream")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- kept values as resources of the protocol --------------------------------------------------------------------------

MAX_LISTED = 50
"""Resources that a list names."""
MAX_SHOWN, MAX_SHOWN_BYTES = 4, 1 << 20
"""Images and sounds of an answer that a client gets at once, and the bytes of one."""


def listed_resources(values: Values) -> types.ListResourcesResult:
    """The latest values that are kept for a client."""
    latest = values.shelf.of(values.owner)[:MAX_LISTED]
    made = [types.Resource(uri=each.uri, name=each.name, mime_type=each.mime_type, size=each.size) for each in latest]
    return types.ListResourcesResult(resources=made)


def resource_templates() -> types.ListResourceTemplatesResult:
    """How a part of a value is addressed."""
    about = "A value that a program answered. path: a JSON Pointer; from, to: items of a list, characters of a text."
    made = types.ResourceTemplate(uri_template=TEMPLATE, name="value", description=about)
    return types.ListResourceTemplatesResult(resource_templates=[made])


def resource(values: Values, uri: str) -> types.ReadResourceResult:
    """A kept value, or a part of it.

    Raises:
        UsageError: nothing is kept there, or it has no such part.
    """
    kept, value = values.read(uri)
    contents: types.TextResourceContents | types.BlobResourceContents
    if isinstance(value, bytes):
        mime = kept.link.mime_type if kept.data == value else "application/octet-stream"
        contents = types.BlobResourceContents(uri=uri, mime_type=mime, blob=base64.b64encode(value).decode())
    elif isinstance(value, str):
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=value)
    else:
        text = json.dumps(pack(value), ensure_ascii=False)
        contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    return types.ReadResourceResult(contents=[contents])


def content_blocks(links: Sequence[Link], values: Values) -> list[types.ContentBlock]:
    """What stands beside the text of a report: a link to each kept value, and the images and sounds themselves."""
    made: list[types.ContentBlock] = [
        types.ResourceLink(uri=each.uri, name=each.name, mime_type=each.mime_type, size=each.size) for each in links
    ]
    media = [each for each in links if each.mime_type.partition("/")[0] in ("image", "audio")]
    for link in [each for each in media if each.size <= MAX_SHOWN_BYTES][:MAX_SHOWN]:
        kind: Any = types.ImageContent if link.mime_type.startswith("image/") else types.AudioContent
        data = base64.b64encode(values.read(link.uri)[0].data).decode()
        made.append(kind(data=data, mime_type=link.mime_type))
    return made

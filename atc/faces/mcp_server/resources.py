"""Kept values as resources of the protocol: the latest are listed, and each is read whole or in part."""

from __future__ import annotations

import base64
import json
from typing import Any

import mcp_types as types

from atc.faces.mcp_server.reports import ProgramReport
from atc.faces.mcp_server.values import TEMPLATE, Link, Values
from atc.packing import pack

MAX_LISTED = 50
"""Resources that a list names."""
MAX_SHOWN, MAX_SHOWN_BYTES = 4, 1 << 20
"""Images and sounds of an answer that a client gets at once, and the bytes of one."""


def listed(values: Values) -> types.ListResourcesResult:
    """The latest values that are kept for a client."""
    return types.ListResourcesResult(resources=[_resource(link) for link in values.shelf.of(values.owner)[:MAX_LISTED]])


def templates() -> types.ListResourceTemplatesResult:
    """How a part of a value is addressed."""
    about = "A value that a program answered. path: a JSON Pointer; from, to: items of a list, characters of a text."
    made = types.ResourceTemplate(uri_template=TEMPLATE, name="value", description=about)
    return types.ListResourceTemplatesResult(resource_templates=[made])


def read(values: Values, uri: str) -> types.ReadResourceResult:
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


def blocks(report: ProgramReport, values: Values) -> list[types.ContentBlock]:
    """What stands beside the text of a report: a link to each kept value, and the images and sounds themselves."""
    made: list[types.ContentBlock] = [
        types.ResourceLink(uri=each.uri, name=each.name, mime_type=each.mime_type, size=each.size)
        for each in report.links
    ]
    media = [each for each in report.links if each.mime_type.partition("/")[0] in ("image", "audio")]
    for link in [each for each in media if each.size <= MAX_SHOWN_BYTES][:MAX_SHOWN]:
        made.append(_media(link, values.read(link.uri)[0].data))
    return made


def _media(link: Link, data: bytes) -> types.ImageContent | types.AudioContent:
    made: Any = types.ImageContent if link.mime_type.startswith("image/") else types.AudioContent
    content: types.ImageContent | types.AudioContent = made(
        data=base64.b64encode(data).decode(), mime_type=link.mime_type
    )
    return content


def _resource(link: Link) -> types.Resource:
    return types.Resource(uri=link.uri, name=link.name, mime_type=link.mime_type, size=link.size)

"""The answer of a tool → a plain JSON value, or the ToolError that it is."""

from __future__ import annotations

import json
from typing import Any

from mcp_types import CallToolResult, InputRequiredResult

from atc.errors import Outcome, ToolError, ToolImportError
from atc.tools.mcp.failures import server_text
from atc.tools.mcp.spec import ServerSpec
from atc.tools.parse import json_copy

_WANTS = {
    "elicitation/create": "a word of its user",
    "roots/list": "the folders of its user",
    "sampling/createMessage": "a reply of a language model",
}
"""What servers ask back: they get none of it."""


def value_of(label: str, result: CallToolResult | InputRequiredResult, spec: ServerSpec, reads: bool) -> Any:
    """The value of a call.

    ``structuredContent`` where there is some. Else each block of the content: a text that is a JSON object or list
    becomes that, any other stays text (``"007"`` and ``"12e3"`` are no numbers); what is no text is described, without
    its bytes. One block is the value, several are a list, none is ``None``.

    Raises:
        ToolError: the tool says that it failed, or asks back, or its answer is no usable JSON.
    """
    did: Outcome = "refused" if reads else "unknown"
    if isinstance(result, InputRequiredResult):
        wants = " and ".join(sorted({_WANTS[each.method] for each in (result.input_requests or {}).values()}))
        raise ToolError(
            f"{label} asks for {wants or 'something'} before it goes on, which no program can give it",
            status="input_required",
            outcome=did,
        )
    if result.is_error:
        texts = [block.text for block in result.content if block.type == "text"]
        message = server_text("\n".join(texts), spec) or "without a word"
        # a tool's own error may come from before, amid or after what it did
        raise ToolError(f"{label} failed: {message}", status="error", outcome=did, service_message=message)
    value = result.structured_content
    if value is None:
        values = [_block(block) for block in result.content]
        value = values[0] if len(values) == 1 else values or None
    try:
        return json_copy(spec.secrets.value(value), "the answer")  # secrets first: what is wrong is told with its keys
    except (ToolImportError, RecursionError) as error:  # nested without end, NaN
        raise ToolError(f"{label}: {error}", status="bad_response", outcome=did, cause="bad_response") from None


def _block(block: Any) -> Any:
    if block.type == "text":
        return _text(block.text)
    if block.type == "resource":
        inner = block.resource
        made = {"type": "resource", "uri": inner.uri, "mime_type": inner.mime_type}
        return {**made, "text": inner.text} if hasattr(inner, "text") else {**made, "bytes": _size(inner.blob)}
    if block.type == "resource_link":
        made = {"type": "resource_link", "uri": block.uri, "name": block.name, "mime_type": block.mime_type}
        return {**made, "description": block.description, "bytes": block.size}
    return {"type": block.type, "mime_type": block.mime_type, "bytes": _size(block.data)}


def _text(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json_copy(json.loads(text), "the text")
    except (ValueError, RecursionError):  # ToolImportError is one: what no value can be is a text still
        return text


def _size(base64: str) -> int:
    """The bytes that a base64 text stands for."""
    return max(0, len(base64) * 3 // 4 - base64[-2:].count("="))

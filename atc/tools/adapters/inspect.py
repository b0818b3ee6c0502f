"""Tools of Inspect (``inspect_ai``), as a task of an evaluation has them.

Their importer is given what makes a call: it belongs to a sample, with its approval, limits and log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import yaml

from atc.errors import ToolImportError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema
from atc.tools.adapters.offered import (
    Candidate,
    Described,
    ObjectTransport,
    hinted_schema,
    hints_of,
    module_of,
    toolset_of,
)
from atc.tools.functions import EffectName
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from inspect_ai.tool import ToolDef

KIND = "inspect"
MakeCall = Callable[["ToolDef", dict[str, Any]], Awaitable[Any]]
"""Makes one call and returns what the tool returned. It raises ToolError if the call was refused, or failed."""
_MOST_PARSED = 100_000
"""Characters of a text that is read as YAML, in a thread: its parser takes seconds for so many."""


def import_inspect(
    tools: Iterable[ToolDef],
    call: MakeCall,
    *,
    only: Collection[str] | None = None,
    effects: Mapping[str, EffectName | Effect] | None = None,
    untrusted: Collection[str] = (),
    parse_text: bool = False,
) -> Toolset:
    """Make a tool of each tool of Inspect.

    A tool's effect is unknown, and counts as a write, unless ``effects`` says otherwise. The patterns are for all tasks
    of an evaluation, so one that fits no tool here is no error.

    Args:
        tools: the definitions.
        call: makes the calls.
        only: keep the tools that one of these shell patterns names.
        effects: for such patterns, ``"read"`` if a call changes nothing, ``"write"`` if it does.
        untrusted: such patterns of the tools that return what strangers write.
        parse_text: a text that is an object or a list in JSON or YAML reaches the program as that.

    Raises:
        ToolImportError: some of the tools cannot be used, with the reason for each; or there are none.
    """
    kept = [tool for tool in tools if only is None or _fits(tool.name, only)]
    said = {name: effect for name, effect in (effects or {}).items() if any(_fits(tool.name, [name]) for tool in kept)}

    def described(tool: ToolDef) -> Described:
        if type(tool.tool).__name__ == "AgentTool":
            raise ToolImportError("it hands the conversation over to another agent, which no program can do")

        async def made(arguments: dict[str, Any], _: bool) -> Any:
            value = plain_value(await call(tool, arguments))
            if parse_text and isinstance(value, str):
                return await asyncio.to_thread(data_of, value)
            return value

        return Described(
            description=tool.description or "",
            parameters=tool.parameters.model_dump(exclude_none=True),
            returns=_returns(tool, parse_text=parse_text),
            effect=Effect.UNKNOWN,
            untrusted=True if _fits(tool.name, untrusted) else None,
            location=module_of(tool.tool),
            transport=ObjectTransport(call=made),
        )

    candidates = [Candidate(tool.name, lambda tool=tool: described(tool)) for tool in kept]  # type: ignore[misc]
    return toolset_of(KIND, candidates, effects=said)


def _fits(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _returns(tool: ToolDef, *, parse_text: bool) -> JsonSchema | None:
    schema = hinted_schema(hints_of(tool.tool).get("return"), tool.name)
    if schema is None or "Content" in json.dumps(schema) or (parse_text and schema.get("type") == "string"):
        return None
    return schema


def plain_value(value: Any) -> Any:
    """Return what a tool returned, with text in the place of content for a model; an image is named alone."""
    parts = value if isinstance(value, list) and value else [value]
    if not all(type(part).__name__.startswith("Content") and hasattr(part, "type") for part in parts):
        return value
    return "\n".join(part.text if part.type == "text" else f"({part.type})" for part in parts)


def data_of(text: str) -> Any:
    """Return the object or list that a text is in JSON or YAML; else the text."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    if len(text) > _MOST_PARSED:
        return text
    try:
        value = yaml.load(text, _Plain)
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError):  # the last: a tag that does not fit its text
        return text
    listed = isinstance(value, list) or (isinstance(value, dict) and all(isinstance(key, str) for key in value))
    return value if listed and (text.lstrip().startswith("- ") or not _is_sentence(text, value)) else text


def _is_sentence(text: str, value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and "\n" not in text.strip()


class _Plain(yaml.SafeLoader):
    """Reads YAML without aliases: a few lines of them stand for as many values as their author likes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node, as a loader does.

        Raises:
            yaml.YAMLError: it is an alias.
        """
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)

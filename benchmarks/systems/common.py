"""What the small systems share: prompts, the model's replies, and calls of tools as anybody makes them."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from atc.errors import ToolError
from atc.models.base import Message, Model
from atc.tools.parameters import original_arguments
from atc.tools.protocol import Protocol
from benchmarks.environments.base import Episode
from benchmarks.peers.job import read_value

__all__ = ["MAX_STEPS", "as_json", "ask", "called", "digest", "prompt", "read_value", "shown"]

HERE = Path(__file__).parent
MAX_STEPS = 10
MAX_OBSERVATION = 2_000
"""Characters of what a step brought that the model is shown."""
MAX_TOKENS = 1024


@cache
def _prompts() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(HERE / "prompts")
    return jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)


def prompt(name: str, **values: Any) -> str:
    """Fill in a template of the systems' own."""
    return _prompts().get_template(f"{name}.jinja").render(**values)


@cache
def digest(module: str) -> str:
    """Of the sources and prompts of the small systems that ``module`` is one of."""
    made = hashlib.sha256()
    shared = HERE.parent / "peers" / "job.py"  # how an answer in words is read
    for path in [HERE / f"{module}.py", HERE / "common.py", shared, *sorted((HERE / "prompts").iterdir())]:
        made.update(path.read_bytes())
    return made.hexdigest()[:12]


def as_json(protocol: Protocol) -> str:
    """A tool on one line, as systems of the JSON kind show it."""
    document = {"name": protocol.name, "description": protocol.description, "parameters": protocol.parameters}
    if protocol.returns:
        document["returns"] = protocol.returns
    return json.dumps(document, ensure_ascii=False)


async def ask(model: Model, messages: list[Message], stop: tuple[str, ...] = ()) -> str:
    """The model's reply.

    Raises:
        ModelError, ModelUnavailable: it has none; the try's budget may be used up.
    """
    return (await model.complete(messages, max_tokens=MAX_TOKENS, stop=stop)).text


async def called(episode: Episode, name: str, arguments: Any) -> Any:
    """Call a tool.

    Raises:
        ToolError: it refused or failed, or there is no such tool.
    """
    if name not in episode.tools:
        raise ToolError(f"there is no tool {name!r}; there are {', '.join(episode.tools)}", status="not_found")
    if not isinstance(arguments, dict):
        raise ToolError(f"{name} takes its arguments as a JSON object", status="invalid_arguments")
    transport = episode.tools[name].transport
    assert transport is not None  # an episode has no others
    return await transport(original_arguments(episode.tools[name].protocol, arguments))


def shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_OBSERVATION else f"{text[:MAX_OBSERVATION]} … ({len(text)} characters)"

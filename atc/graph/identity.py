"""What a tool is known by beyond one toolset: its service, its name there, and a digest of its schemas."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from atc.tools.observed import is_observed
from atc.tools.protocol import Protocol

MAX_NAME = 200
"""Characters of a name that is kept as it is."""
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members have names of their own choice."""
_WORDS = frozenset(
    "description title examples example default $comment deprecated $id $schema externalDocs xml".split()
)
"""Keywords that say nothing about which values fit."""


class Identity(NamedTuple):
    """A tool, wherever it is used.

    Attributes:
        service: a digest of where the tool comes from, which may be a path or an address of the user's.
        name: at its source, so that a new name in a toolset changes nothing.
        digest: of the schemas of its parameters and its response, without their words.
    """

    service: str
    name: str
    digest: str


def place_of(protocol: Protocol) -> tuple[str, str]:
    """The service and the name of a tool: what stays when its schemas change."""
    return _service(protocol.source.kind, protocol.source.location), name_of(protocol)


def name_of(protocol: Protocol) -> str:
    """The name of a tool at its source; of a very long one a digest."""
    name = protocol.source.operation or protocol.name
    return name if len(name) <= MAX_NAME else _digest(name)


def identity_of(protocol: Protocol) -> Identity:
    """The identity of a tool. A response that was only observed is not part of it."""
    returns = None if is_observed(protocol.returns) else protocol.returns
    try:
        schemas = json.dumps([_bare(protocol.parameters), _bare(returns)], sort_keys=True, default=str)
    except RecursionError:
        schemas = "too deep"
    return Identity(*place_of(protocol), _digest(schemas))


@lru_cache(maxsize=4096)
def _service(kind: str, location: str) -> str:
    return _digest(f"{kind} {location}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _bare(schema: Any, *, named: bool = False) -> Any:
    """A schema without words and marks. ``named``: its members have names of their own choice."""
    if isinstance(schema, Mapping):
        return {
            key: _bare(value, named=not named and key in _MAPS)
            for key, value in schema.items()
            if named or not (key in _WORDS or key.startswith("x-"))
        }
    return [_bare(item) for item in schema] if isinstance(schema, list) else schema

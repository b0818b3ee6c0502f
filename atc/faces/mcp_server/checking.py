"""What a client of the server would see, and about how many tokens of its context that takes."""

from __future__ import annotations

import json
from dataclasses import dataclass

import mcp_types as types

from atc.faces.mcp_server.client import Client, ClientId
from atc.faces.mcp_server.definitions import sources_of
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.server import Face
from atc.models.messages import bounded_tokens


@dataclass(frozen=True)
class Offered:
    """One of the server's own tools. ``tokens``: of its whole definition; an upper bound, three characters each."""

    name: str
    description: str
    tokens: int


@dataclass(frozen=True)
class Behind:
    """A source of tools, by the name that people know, and how many tools it has."""

    name: str
    tools: int


@dataclass(frozen=True)
class Footprint:
    """What stands in a client's context before it does anything.

    Attributes:
        behind: tools that programs can call.
        sources: of these tools, the largest first.
        offered: the server's own tools.
        instructions: how to work with them.
        plain_tokens: of all definitions, if every tool behind were offered by itself.
        notices: what else there is to know.
    """

    behind: int
    sources: tuple[Behind, ...]
    offered: tuple[Offered, ...]
    instructions: str
    plain_tokens: int
    notices: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Of the definitions and the instructions; an upper bound."""
        return sum(each.tokens for each in self.offered) + bounded_tokens(self.instructions)


async def footprint(gateway: Gateway) -> Footprint:
    """What a client sees of a gateway."""
    face = Face(gateway)
    shown = await face.offered(Client(ClientId("local")))
    offered = tuple(Offered(each.name, each.description or "", tokens_of(each)) for each in shown)
    plain = 0
    for tool in gateway.tools.values():
        protocol = tool.protocol
        described = {"name": protocol.name, "description": protocol.description, "inputSchema": protocol.parameters}
        plain += bounded_tokens(json.dumps(described, ensure_ascii=False, default=str))
    sources = tuple(Behind(*each) for each in sources_of(gateway.tools.values()))
    return Footprint(
        len(gateway.tools), sources, offered, face.server.instructions or "", plain, tuple(gateway.notices)
    )


def tokens_of(tool: types.Tool) -> int:
    """Of a tool's definition as JSON, with its schemas; an upper bound, three characters each."""
    return bounded_tokens(json.dumps(tool.model_dump(by_alias=True, exclude_none=True), ensure_ascii=False))

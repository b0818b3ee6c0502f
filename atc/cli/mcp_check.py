"""``atc mcp --check``: what a client of the server would see."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import anyio

from atc.cli.console import clean, err, out, print_json
from atc.cli.options import notes_on

if TYPE_CHECKING:
    from atc.faces.mcp_server.gateway import Gateway
    from atc.faces.mcp_server.server import Footprint


def check(gateway: Gateway, *, as_json: bool) -> None:
    """Print what a client sees of a gateway, and close it."""
    found = anyio.run(_footprint, gateway)
    found = replace(found, notices=(*found.notices, *notes_on(gateway.tools)))
    if as_json:
        print_json(asdict(found) | {"tokens": found.tokens})
        return
    lines = [f"{found.behind:,} tools behind {len(found.offered)} that a client sees:"]
    if found.sources:
        lines.insert(0, f"tools of {', '.join(f'{each.name} ({each.tools:,})' for each in found.sources)}")
    for each in found.offered:
        lines += ["", f"{each.name}, at most {each.tokens:,} tokens with its schemas", each.description]
    lines += ["", f"instructions: {found.instructions}", ""]
    lines.append(
        f"At most {found.tokens:,} tokens in a client's context; the {found.behind:,} tools by themselves: "
        f"{found.plain_tokens:,}, counted in the same way"
    )
    out.print(clean("\n".join(lines)), markup=False)
    told(found.notices)


def told(notices: list[str] | tuple[str, ...]) -> None:
    """Print lines for whoever runs the server: on stderr, for a server's standard output is its client's."""
    for notice in notices:
        err.print(f"atc mcp: {clean(notice)}", markup=False)


async def _footprint(gateway: Gateway) -> Footprint:
    from atc.faces.mcp_server.server import footprint

    try:
        await gateway.prepare()
        if gateway.live is not None:
            await gateway.live.settled(WAIT_S)
            gateway.change_tools(gateway.live.tools)  # nothing is kept of servers that were never listed
            told([*gateway.live.down.values()])
        return await footprint(gateway)
    finally:
        await gateway.aclose()


WAIT_S = 30.0
"""Seconds that servers get to list their tools."""

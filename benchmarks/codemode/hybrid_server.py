"""The shop of :mod:`benchmarks.codemode.hybrid_tasks` as an MCP server over pipes.

``python -m benchmarks.codemode.hybrid_server LOG [--many]``: each call is a line in the file LOG: its tool and, of a
write, its arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.codemode.hybrid_tasks import TOOLS, Json, Shop, ToolSpec, many_tools


def serve(log: Path, tools: tuple[ToolSpec, ...]) -> None:
    """Answer requests line by line until the client closes its end."""
    shop, by_name = Shop(), {each.name: each for each in tools}
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        method, params = asked.get("method"), asked.get("params") or {}
        if method == "initialize":
            reply: Json = {"result": _HELLO}
        elif method == "tools/list":
            reply = {"result": {"tools": [each.definition() for each in tools]}}
        elif method == "tools/call" and params.get("name") in by_name:
            tool, arguments = by_name[params["name"]], params.get("arguments") or {}
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"tool": tool.name, "write": None if tool.reads else arguments}) + "\n")
            reply = {"result": _answered(tool, shop, arguments)}
        else:
            reply = {"error": {"code": -32601, "message": "no such method or tool"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}), flush=True)


_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "shop", "version": "1"},
}


def _answered(tool: ToolSpec, shop: Shop, arguments: Json) -> Json:
    try:
        value: Any = tool.answer(shop, arguments)
    except (KeyError, TypeError) as error:
        text = f"there is no {error}: give {', '.join(tool.parameters)}"
        return {"content": [{"type": "text", "text": text}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(value, ensure_ascii=False)}], "structuredContent": value}


if __name__ == "__main__":
    serve(Path(sys.argv[1]), many_tools() if "--many" in sys.argv[2:] else TOOLS)

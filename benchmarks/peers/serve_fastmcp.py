"""FastMCP's code mode in front of other MCP servers, over pipes: ``python serve_fastmcp.py CONFIG.json``.

Run by a Python that has ``fastmcp[code-mode]``, named in ``ATC_PEER_PYTHON_SERVE_FASTMCP``. Its defaults are kept.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Serve, or with ``--version`` say what is installed."""
    import fastmcp
    from fastmcp import FastMCP
    from fastmcp.experimental.transforms.code_mode import CodeMode
    from fastmcp.server import create_proxy

    if sys.argv[1] == "--version":
        print(fastmcp.__version__)
        return
    server = FastMCP("code mode", transforms=[CodeMode()])
    with open(sys.argv[1], encoding="utf-8") as file:
        config = json.load(file)
    for name, entry in config.items():
        server.mount(create_proxy({"mcpServers": {name: entry}}))
    server.run(show_banner=False)


if __name__ == "__main__":
    main()

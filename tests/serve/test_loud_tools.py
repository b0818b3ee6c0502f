"""Tools that print, from the moment that they are loaded: standard output is the client's alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOUD = '''
"""Tools that print."""
import os

print("loaded", flush=True)
print("loaded, and kept until the end")


def get_x() -> int:
    """Get x."""
    print("called", flush=True)
    os.system("echo by a command")
    return 1
'''


@pytest.mark.slow
def test_what_tools_print_is_no_message(tmp_path: Path) -> None:
    module, rules = tmp_path / "loud.py", tmp_path / "rules.toml"
    module.write_text(LOUD)
    rules.write_text('[[rules]]\nallow = "*"\n')
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    call = {"name": "run_program", "arguments": {"source": "answer = get_x()"}}
    served = [sys.executable, "-m", "atc", "mcp", "--tools", str(module), "--set", f"permissions={rules}"]
    with subprocess.Popen(served, stdin=-1, stdout=-1, stderr=-1, env=os.environ | {"PYTHONUNBUFFERED": ""}) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        for number, (method, params) in enumerate([("initialize", hello), ("tools/call", call)]):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(request).encode() + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            while answer.get("id") != number:  # a notification
                answer = json.loads(server.stdout.readline())
        server.stdin.close()
        rest, said = server.stdout.read(), server.stderr.read().decode()
    assert answer["result"]["structuredContent"]["value"] == 1
    assert rest == b""
    assert all(word in said for word in ("loaded", "until the end", "called", "by a command"))

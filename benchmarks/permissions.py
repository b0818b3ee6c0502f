"""What permissions cost: of a call that passes the guard and stands in the audit, and of a large catalogue.

``python -m benchmarks.permissions --tools 5000 --rules 50``. Times are of the processor, the least of three.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from atc.calls.approval import ApprovalRequest
from atc.cli.console import guarded, print_json
from atc.permissions import Permissions, Who
from atc.permissions.audit import AuditLog
from atc.permissions.guard import Guard
from atc.result import Effect
from atc.tools.protocol import Protocol, Source
from atc.tools.tool import Tool, Toolset

CALLS, ROUNDS = 300, 3
_VERBS = ("get", "delete", "list", "update", "find", "send", "search", "create", "read", "close")


def catalogue(count: int) -> Toolset:
    """So many tools of a server that says of all that they read."""
    names = [f"{_VERBS[number % len(_VERBS)]}_thing_{number}" for number in range(count)]
    source = Source(kind="mcp", location="hub")
    return Toolset(Tool(Protocol(name=name, effect=Effect.READ, source=source)) for name in names)


def rules(count: int) -> str:
    """A file of so many rules, of which the last alone speaks of a tool as a whole."""
    words = ("allow", "ask", "deny")
    made = [
        f'[[rules]]\n{words[number % 3]} = ["a{number}_*", "*_{number}"]\narguments = {{repo = "me/*"}}'
        for number in range(count - 1)
    ]
    return "\n".join([*made, '[[rules]]\ndeny = "delete_*"'])


def least(function: Callable[[], object]) -> float:
    """Milliseconds of the processor, the least of some tries."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return 1000 * min(times)


async def yes(request: ApprovalRequest) -> bool:
    """Approve."""
    return True


@guarded
def main(
    tools: Annotated[int, typer.Option(min=10, help="Tools of the catalogue.")] = 5_000,
    rules_: Annotated[int, typer.Option("--rules", min=1, max=500, help="Rules of the file.")] = 50,
) -> None:
    """Print the times as JSON, milliseconds."""
    many = catalogue(tools)
    protocol = many["update_thing_3"].protocol
    arguments = {"repo": "me/x", "text": "y" * 1000}
    request = ApprovalRequest(protocol.name, arguments, Effect.WRITE, "", protocol=protocol)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "permissions.toml"
        path.write_text(rules(rules_))
        path.chmod(0o600)
        permissions = Permissions.load(path)
        guard = Guard(permissions, Who(), yes, AuditLog(Path(folder) / "audit.jsonl"))

        async def calls() -> None:
            for _ in range(CALLS):
                await guard.asker(request)

        def decisions() -> None:
            for _ in range(CALLS):
                permissions.decide(Who(), protocol, arguments)

        print_json(
            {
                "load": least(lambda: Permissions.load(path)),
                "tools_graded": least(lambda: permissions.served(many)),
                "tools_of_a_client": least(lambda: permissions.offered(Who(), many)),
                "decision": least(decisions) / CALLS,
                "guard_of_a_write_with_its_audit_line": least(lambda: asyncio.run(calls())) / CALLS,
            }
        )


if __name__ == "__main__":
    typer.run(main)

"""Two MCP servers, and one task that needs both.

python examples/mcp_servers.py
"""

import sys

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

from atc import Agent, Toolset

READS = ToolAnnotations(read_only_hint=True)  # without it, each call waits for your approval


class Person(BaseModel):
    name: str
    office_id: str


class Office(BaseModel):
    city: str
    desks: int


staff = MCPServer("staff", log_level="WARNING")
offices = MCPServer("offices", log_level="WARNING")


@staff.tool(annotations=READS)
def find_person(name: str) -> Person:
    """Find a person by the whole name."""
    return Person(name=name, office_id={"Mia Lund": "B7", "Jon Vik": "B2"}[name])


@offices.tool(annotations=READS)
def get_office(office_id: str) -> Office:
    """Get an office: its city, and the number of its desks."""
    return {"B2": Office(city="Bergen", desks=12), "B7": Office(city="Turku", desks=31)}[office_id]


def main() -> None:
    servers = {
        "staff": {"command": sys.executable, "args": [__file__, "staff"]},
        "offices": {"command": sys.executable, "args": [__file__, "offices"]},
    }
    with Agent(Toolset.from_mcp({"mcpServers": servers})) as agent:
        result = agent.run("How many desks are in the office of Mia Lund? Answer with the number.")
    print(result.program)
    for call in result.calls:
        print(call.index, call.tool, call.arguments, call.status)
    print(result.answer)
    print(result.status, result.value)


if __name__ == "__main__":
    if len(sys.argv) > 1:  # as a server, over its pipes
        {"staff": staff, "offices": offices}[sys.argv[1]].run()
    else:
        main()

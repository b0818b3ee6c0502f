"""Configuration files of MCP clients, read and edited: an entry is there, and nothing else goes."""

from __future__ import annotations

from atc.cli.clients.clients import Client, clients
from atc.cli.clients.documents import ConfigProblem, Document
from atc.cli.clients.shown import shown_diff
from benchmarks.fuzzing.target import Broken, Target

_FORMS = {each.form: each for each in clients().values()}
_ENTRY = {"command": "atc", "args": ["mcp", "--tools", "a b"], "env": {"A": 'x"y\\z'}}


def run(data: bytes) -> None:
    """Read an input as each kind of configuration."""
    text = data.decode("utf-8", "replace")
    for client in _FORMS.values():
        _edited(client, text)


def _edited(client: Client, text: str) -> None:
    try:
        before = Document.read(client, text)
        made = before
        for name in list(before.servers)[:3]:
            made = made.take(name)
        made = made.put("atc", _ENTRY)
        shown_diff(client, before.servers, made.servers, "a file")
        if made.servers.get("atc") != _ENTRY:
            raise Broken(f"clients: an entry in {client.form} is not there")
        made = made.take("atc")
    except ConfigProblem:
        return
    if made.servers.keys() != set(list(before.servers)[3:]):
        raise Broken(f"clients: a file in {client.form} has other servers than it had")


TARGET = Target(
    "clients",
    run,
    most_bytes=8_192,
    most_s=2.0,
    head_lines=None,
    words=(
        '"mcpServers": {', '"servers": {', '"mcp": {', '"context_servers": {', "extensions:\n", "mcp_servers:\n",
        "mcpServers:\n", "[mcp_servers.a]\n", "[[mcp_servers]]\n", '"command": "x"', '"args": [', '"env": {',
        '"url": ', "// ", "/* ", " */", "# ", "},\n", ",", "}", "]", "\t", "\r\n", "&a ", "*a", "!!str ", "? ", ": ",
        "- ", "|\n", ">-\n", "---\n", "<<: ", '"""', "'''", "= {", "\\u0041", "\\U0001f600", "\ufeff", "1979-05-27",
        "inf", "nan", "null", "~", "atc",
    ),
)  # fmt: skip

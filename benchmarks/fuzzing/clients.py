"""Configuration files of MCP clients, read and edited: what an edit did, its undoing takes back to the letter."""

from __future__ import annotations

from atc.cli.clients.clients import Client, clients
from atc.cli.clients.document import ConfigProblem, same
from atc.cli.clients.editor import Editor, shown_diff
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
        editor = Editor(client, text)
        first, before = editor.document, editor.document.data
        missing = editor.missing_keys()
    except ConfigProblem:
        return
    for name in list(editor.servers())[:3]:
        try:
            editor.take(name)
        except ConfigProblem:
            continue
    try:
        editor.put("atc", _ENTRY)
    except ConfigProblem:
        return
    shown_diff(first, editor.document, "a file")
    if "atc" not in editor.servers():
        raise Broken(f"clients: an entry in {client.form} is not there")
    try:
        for step in reversed(editor.steps):
            editor.undo(step)
        editor.prune(missing)
    except ConfigProblem:
        return
    if before is not None and not same(editor.document.data, before):
        raise Broken(f"clients: undone, a file in {client.form} says something else")


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

"""Reading and editing the text of JSON, TOML and YAML: nothing but the entry changes, and in JSON the layout."""

from __future__ import annotations

import json
import re
from difflib import ndiff
from pathlib import Path
from typing import Any

import pytest

from atc.cli.clients.clients import client_named
from atc.cli.clients.documents import ConfigProblem, Document
from atc.cli.clients.plan import plan_install, plan_uninstall
from tests.serve.test_mcp_clients import Desk, Wanted

ENTRY = {"command": "/x/atc", "args": ["mcp", "--tools", "a b"], "env": {"A": 'q"\\é'}}

TEXTS: list[tuple[str, str]] = [
    ("cursor", '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}, "z": [1, {"m": 2.50}], "é": "\\u00e9"}'),
    ("cursor", '{"mcpServers":{"a":{"command":"x"}}}'),
    ("cursor", '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}'),
    ("cursor", '{\n    "n":  0.1000000000000000000012,\n'
               '    "mcpServers": {\n        "a": {"command": "x", "args": ["-y", "p"]},\n'
               '        "b": { "command": "y" }\n    },\n    "list": [ 1, 2 ]\n}\n\n'),
    ("cursor", '{\n  "mcpServers": { "a": { "command": "x" },\n         "b": { "command": "y" } }\n}\n'),
    ("cursor", '{\n  "mcpServers": {}\n}\n'),
    ("cursor", "{}"),
    ("cursor", '{\n  "mcpServers": null\n}'),
    ("codex", '# top\nx = 1 # one\n\n# of a\n[mcp_servers.a] # behind a\ncommand = "x"\n# in a\nargs = [ # in args\n'
              '  "y",\n]\n[mcp_servers.a.env]\nK = """\n[mcp_servers.b]\n"""\n\n# of z\n[z]\ny = 2'),
    ("codex", "[mcp_servers]\n# of b\nb.command = 'y' # behind b\n\n[z]\n\"a.b\"   =   1979-05-27\n"),
    ("codex", "mcp_servers.a.command = 'x'\nmcp_servers.b.command = 'y'\n[z]\n"),
    ("codex", '[[z]]\n[mcp_servers."a"]\ncommand = "x"\n[y]\n[ mcp_servers . b ]\ncommand = "y"\n'),
    ("codex", 'model = "x"\n# only this\n'),
    ("goose", "# top\nextensions:  # m\n  # of a\n  a:  # behind a\n    cmd: x\n    args: [y, 'z']  # behind args\n"
              "  # of b\n  b:\n    cmd: \"y\"\n    description: |\n      one\n\n      two\n\n# of z\nz: 1\n"),
    ("goose", "extensions:\n  a:\n    cmd: x\n    args:\n      - y\n      - z\n\nlist:\n  - 1\n"),
    ("goose", "extensions:\n    a:\n        cmd: x\n        args:\n        - y\nno: on\n"),
    ("goose", "extensions: {a: {cmd: x}, b: {cmd: y}}\n"),
    ("goose", "---\nz: &z {a: 1}\ny: *z\n# end\nextensions: # none\n"),
    ("goose", "GOOSE_MODEL: x # which"),
]  # fmt: skip


def comments(text: str) -> list[str]:
    """The words in comments; no value has a ``#``."""
    return re.findall(r"#[^\r\n]*", text)


def numbers(text: str) -> list[str]:
    """The numbers of JSON as they are spelled."""
    found: list[str] = []
    json.loads(text, parse_int=found.append, parse_float=found.append)
    return found


def lost(before: str, after: str) -> int:
    """How many lines are not what they were."""
    return sum(line.startswith("- ") for line in ndiff(before.splitlines(), after.splitlines()))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("client", "text"), TEXTS)
def test_an_entry_is_put_and_taken_and_every_other_byte_stays(client: str, text: str, newline: str) -> None:
    text = text.replace("\n", newline)
    before = Document.read(client_named(client), text)
    made = before.put("new", ENTRY)
    assert made.servers == {**before.servers, "new": ENTRY}
    assert comments(made.text) == comments(text)
    assert "\n" not in made.text.replace(newline, "") or "\n" not in text
    back = made.take("new").text
    if made.relaid:
        assert numbers(made.text) == numbers(back) == numbers(text)
        assert json.loads(back) == json.loads(text)
        return
    one_line = "\n" not in text or "extensions: {" in text
    assert lost(text, made.text) <= (client == "cursor" or one_line)  # the comma before it
    assert back == text or not before.servers or (client == "codex" and back.rstrip() == text.rstrip())


def test_json_keeps_its_own_layout_where_the_standard_library_makes_the_same() -> None:
    documents = [Document.read(client_named(client), text) for client, text in TEXTS if client == "cursor"]
    assert Document.read(client_named("cursor"), "null").put("new", ENTRY).servers == {"new": ENTRY}
    relaid = [each.text for each in documents if each.put("new", ENTRY).relaid]
    assert len(relaid) == 3
    assert all("[ 1" in text or "{ " in text or "\\u00e9" in text for text in relaid)


@pytest.mark.parametrize(("client", "text"), TEXTS)
def test_each_entry_is_taken_and_the_comments_of_others_stay(client: str, text: str) -> None:
    before = Document.read(client_named(client), text)
    for name in before.servers:
        after = before.take(name)
        assert after.servers == {key: value for key, value in before.servers.items() if key != name}
        assert after.relaid or lost(after.text, text) <= (client == "cursor" or "{a" in text)
        assert {"# top", "# of b", "# of z", "# behind z"} & {*comments(text)} <= {*comments(after.text)}


@pytest.mark.parametrize("move", [False, True])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("client", "text"), [*TEXTS, *((each, "") for each in ("cursor", "codex", "goose"))])
def test_installing_and_undoing_gives_back_every_byte(
    client: str, text: str, newline: str, move: bool, tmp_path: Path
) -> None:
    text = "\ufeff" * move + text.replace("\n", newline)
    desk = Desk(tmp_path, client, text)
    desk.install("atlas", move=move)
    assert desk.text.startswith("\ufeff") == move
    assert "\n" not in desk.text.replace(newline, "") or "\n" not in text
    assert not desk.install("atlas", move=move).changes
    assert desk.install("atlas", options=["--read-only"], move=True).changes
    assert "--read-only" in desk.text
    desk.uninstall()
    assert desk.text == text
    assert desk.behind() == {}


@pytest.mark.parametrize(("client", "text"), TEXTS)
def test_undoing_after_another_program_wrote_the_file_gives_back_what_it_said(
    client: str, text: str, tmp_path: Path
) -> None:
    desk = Desk(tmp_path, client, text)
    before = Document.read(desk.client, text).servers
    desk.install("atlas", move=True)
    written = json.dumps(json.loads(desk.text), indent=1) if client == "cursor" else desk.text + "\n# new\n"
    desk.path.write_text(written)
    desk.uninstall()
    after = Document.read(desk.client, desk.text)
    assert after.servers == before
    assert client == "cursor" or "# new" in desk.text


@pytest.mark.parametrize("client", ["cursor", "codex", "goose"])
def test_a_missing_file_is_made_and_taken_away(client: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path, client, "")
    desk.path.unlink()
    desk.install("atlas")
    assert list(Document.read(desk.client, desk.text).servers) == ["atc"]
    desk.uninstall()
    assert not desk.path.exists()


UNKEPT = [
    ("vscode", '{\n  // of a\n  "servers": {}\n}', "line 2, column 3: a comment stands here"),
    ("zed", '{\n  "context_servers": {},\n}\n', "a comma stands before the end"),
    ("codex", '[[z]]\n[mcp_servers."a"]\ncommand = "x"\n[[z]]\n', "put its tables in order"),
    ("goose", "a:   1\nextensions: {}\n", "layout or comments that cannot be kept"),
    ("goose", "b:\n  - 1\na:\n - 2\n", "layout or comments that cannot be kept"),
    ("goose", "y: 1\n# end\nextensions of: # ne\n\n      two\n\n# of\n", "its YAML is not edited"),
]


@pytest.mark.parametrize(("client", "text", "why"), UNKEPT)
def test_what_cannot_be_kept_is_not_written_and_the_entry_is_given_to_paste(
    client: str, text: str, why: str, tmp_path: Path
) -> None:
    desk = Desk(tmp_path, client, text)
    with pytest.raises(ConfigProblem, match=why) as raised:
        plan_install(desk.client, desk.place, desk.machine, Wanted(("/opt/bin/atc",), tools=["atlas"]))
    pasted = Document.read(desk.client, raised.value.paste)
    assert list(pasted.servers) == ["atc"]
    assert desk.text == text
    if client in ("vscode", "zed"):
        with pytest.raises(ConfigProblem, match=why):
            plan_uninstall(desk.client, desk.place, desk.machine)


def test_equal_values_of_other_types_are_not_taken_for_the_same() -> None:
    from atc.cli.clients.documents import _same

    pairs: list[tuple[Any, Any]] = [(1, True), (1, 1.0), ({"a": [1]}, {"a": [1, 2]})]
    assert not any(_same(*pair) for pair in pairs)
    assert _same(float("nan"), float("nan"))

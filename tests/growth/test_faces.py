"""What clients, their configurations, traces and terminals are given: time that grows with the text."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from atc._host.secret_detection import masked_exception, masked_text
from atc._host.trust import parse_toml
from atc._records.events import VERSION
from atc.cli.clients.clients import clients
from atc.cli.clients.documents import ConfigProblem, Document
from atc.cli.console import clean, short
from atc.models.messages import split_reasoning
from atc.probing.error_messages import read_error_message
from atc.run.named_tools import names_in
from atc.run.previews import preview
from atc.sandboxes.inputs import check_names, packed
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.stdio import TooLong
from atc.serve.mcp.values import Shelf, Values
from atc.tools.parse import json_copy
from atc.traces.stores.files import FileRun
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow

_ME = ClientId("me")


def test_values_are_kept_for_a_client() -> None:
    def put(n: int) -> None:
        shelf = Shelf()
        for _ in range(n):
            shelf.put(_ME, b"x", "text/plain", "a value")

    assert_linear(lambda n: n, put, n=500, most=20_000)


def test_answers_are_shown_to_a_client() -> None:
    values = Values(Shelf(), _ME)
    for value in ([b""], {"a": {}}):
        assert_linear(
            lambda n, value=value: [value] * n, lambda answer: values.shown(answer, "a run"), n=2_000, most=8_000
        )
    assert_linear(lambda n: {f"k{number}": {} for number in range(n)}, lambda value: preview(value, 1_600))


def test_the_id_of_a_message_that_cannot_be_read_is_looked_for() -> None:
    for text in (b'"id"', b'"id": ', b"1 ", b'"id":"a'):
        assert_linear(lambda n, text=text: TooLong(text * n, text * n, n), TooLong.request_id, n=2_000)


_CONFIGURATIONS = {
    "json": ['{"a":', "[", '{"mcpServers": {"a": {}}, '],
    "toml": ["[a]\n[a.b]\n", 'a = "', "a = [", "'''", 'a."b".', "a = 1 # x\n", "[[mcp_servers]]\n", "a = { b = "],
    "yaml": ["- ", "? ", "a: &b *b\n", "- - a\n", "'", "!!str "],
}


@pytest.mark.parametrize("form", _CONFIGURATIONS)
def test_the_configuration_of_a_client_is_read(form: str) -> None:
    client = next(each for each in clients().values() if each.form == form)

    def edit(text: str) -> None:
        with suppress(ConfigProblem):
            Document.read(client, text).put("atc", {"command": "x"})

    for text in _CONFIGURATIONS[form]:
        assert_linear(lambda n, text=text: text * (n // len(text)), edit, n=2_000, most=30_000)


def test_servers_in_a_configuration_are_listed_and_one_is_added() -> None:
    client = clients()["claude-code"] if "claude-code" in clients() else next(iter(clients().values()))

    def made(n: int) -> str:
        servers: Any = {f"s{number}": {"command": "x", "env": {"A": "${x"}} for number in range(n)}
        return json.dumps({client.key: servers}, indent=1)

    assert_linear(made, lambda text: Document.read(client, text).put("atc", {"command": "y"}), n=50, most=1_000)


def test_text_is_shown_on_a_terminal_and_masked() -> None:
    for text in ("\x1b[2J", " \u202e"):
        assert_linear(lambda n, text=text: text * n, clean)
        assert_linear(lambda n, text=text: text * n, lambda value: short(value, 80))
    for text in (
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----a",
        "eyJaaaaaaaa-",
        "token=",
        "://a",
        "?key=a&",
    ):
        for mask in (masked_text, masked_exception):
            assert_linear(lambda n, text=text: text * (n // len(text)), mask, n=2_000, most=50_000)


def test_the_settings_of_a_folder_are_read() -> None:
    pieces = (
        *_CONFIGURATIONS["toml"],
        ".",
        "a.b.c.d.e.f.g.h = 1\n",
        "[a.b.c.d.e.f.g]\n",
        '"""',
        '"""\\',
        "''",
        "[",
        "{",
        "#\n",
        "\\",
    )
    for text in pieces:
        assert_linear(lambda n, text=text: text * (n // len(text)), parse_toml, n=2_000, most=100_000)
    head = "[" + "a." * 15 + "a]\n"  # each key stands behind it
    assert_linear(lambda n: head + "".join(f"k{i}=1\n" for i in range(n)), parse_toml, n=500, most=20_000)


def test_inputs_of_a_program_are_read() -> None:
    def read(given: dict[str, Any]) -> None:
        made = Values(Shelf(), _ME).inputs(given)
        check_names(made, ())
        packed(made, frame_bytes=1 << 30, channel_bytes=1 << 30)

    assert_linear(lambda n: {f"v{i}": [{}] for i in range(n)}, read, n=500, most=10_000)
    for item in ({"a": {"$bytes": "aGk="}}, [[]], {"k": 1.5, "": "\\"}):
        assert_linear(lambda n, item=item: {"v": [item] * n}, read, n=500, most=30_000)


def test_replies_of_thinkers_are_read_and_those_of_names_alone() -> None:
    pieces = (
        "<think></think>",
        "<think>",
        '["',
        "< ",
        "\n",
        "query ",
        "<query>",
        "<plan>\n1. a\n",
        "1. a 2. b ",
        "a:",
        "[[",
    )
    for text in pieces:
        for read in (split_reasoning, lambda reply: names_in(reply, ("a",), None)):
            assert_linear(lambda n, text=text: text * (n // len(text)), read, n=1_000, most=40_000)


def test_the_error_of_a_service_is_read() -> None:
    for text in ("is required, ", "{", "field a must be one of 'a' or ", "a.b: ", "<", "'a', ", "missing a and "):
        assert_linear(lambda n, text=text: text * (n // len(text)), read_error_message, n=1_000, most=40_000)


def test_long_keys_stand_above_many_values() -> None:
    assert_linear(lambda n: {"k" * n: {f"a{number}": 1 for number in range(n)}}, lambda value: json_copy(value, "it"))


def test_a_trace_is_read(tmp_path: Path) -> None:
    def made(n: int) -> FileRun:
        event = {"v": VERSION, "kind": "call_started", "data": {"index": 1}, "at": 1.0}
        run = FileRun("run", tmp_path)
        turns = [json.dumps({**event, "kind": "run_started", "data": {"turn": number}}) for number in range(n)]
        run.trace.write_text("\n".join([*turns, "{" * n, json.dumps(event)]))
        return run

    assert_linear(made, lambda run: (list(run.latest()), list(run.begun_writes()), run.programs()), n=500, most=20_000)

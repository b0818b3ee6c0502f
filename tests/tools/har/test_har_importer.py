"""The tools of a recording: they are called as those of an OpenAPI document, and the command line opens them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from atc.cli import app
from atc.errors import ToolImportError, UsageError
from atc.result import Effect
from atc.schemas.protocol import Provenance
from atc.tools.paging import paging_of
from atc.tools.sources import open_tools
from atc.tools.tool import Toolset
from tests.support.cli import atc
from tests.support.openapi import Answer, running_server
from tests.support.recordings import call, page, write

ENTRIES = [
    page(),
    call("/api/orders?page=1&tag=a&tag=b", {"results": [{"id": 1}], "total": 2}),
    call("/api/orders?page=2&tag=c", {"results": [{"id": 2}], "total": 2}),
    call("/api/orders/7", {"id": 7}),
    call("/api/cart/items", {"id": 5}, method="POST", status=201, sent={"sku": "a", "qty": 2}),
    call("https://t.example.net/collect", {}),
]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write(tmp_path / "shop.har", *ENTRIES)


def test_tools_have_names_effects_evidence_and_their_source(recording: Path) -> None:
    tools = Toolset.from_har(recording)
    assert {name: tool.protocol.effect for name, tool in tools.items()} == {
        "get_orders": Effect.READ,
        "get_orders_by_order_id": Effect.READ,
        "post_cart_items": Effect.WRITE,
    }
    source = tools["get_orders"].protocol.source
    assert (source.kind, source.title, source.server) == ("har", "shop.example.com", "https://shop.example.com")
    assert {tool.protocol.provenance for tool in tools.values()} == {Provenance.INFERRED}
    returns = tools["get_orders"].protocol.returns
    assert returns is not None
    assert returns["x-atc-evidence"] == {"seen": 2, "of": 2}


def test_a_recorded_list_is_paged_as_any(recording: Path) -> None:
    paging = paging_of(Toolset.from_har(recording)["get_orders"].protocol)
    assert paging is not None
    assert (paging.by, paging.parameter, paging.items) == ("page", "page", ("results",))


def test_calls_go_out_as_they_were_recorded(recording: Path) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        headers = {"content-type": "application/json"}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(b'{"ok": true}'))

    def client(**settings: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(answer), **settings)

    tools = Toolset.from_har(recording, client_factory=client)

    async def run() -> None:
        for name, arguments in (
            ("get_orders", {"page": 3, "tag": ["x", "y"]}),
            ("get_orders_by_order_id", {"order_id": "a/b"}),
            ("post_cart_items", {"sku": "z", "qty": 1}),
        ):
            transport = tools[name].transport
            assert transport is not None
            assert await transport(arguments) == {"ok": True}

    asyncio.run(run())
    assert [f"{each.method} {each.url}" for each in sent] == [
        "GET https://shop.example.com/api/orders?page=3&tag=x&tag=y",
        "GET https://shop.example.com/api/orders/a%2Fb",
        "POST https://shop.example.com/api/cart/items",
    ]
    assert json.loads(sent[2].content) == {"sku": "z", "qty": 1}


def test_equal_tools_of_two_hosts_are_called_after_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.har", call("https://a.example.com/api/x", {}), call("https://b.example.com/api/x", {}))
    assert set(Toolset.from_har(path)) == {"a_example_com_get_x", "b_example_com_get_x"}
    with pytest.raises(UsageError, match="base_url"):
        Toolset.from_har(path, base_url="http://localhost:1")


def test_options_are_those_of_a_document(recording: Path) -> None:
    assert set(Toolset.from_har(recording, only=["get_orders_*"])) == {"get_orders_by_order_id"}
    assert Toolset.from_har(recording, effects={"post_*": "read"})["post_cart_items"].protocol.effect is Effect.READ
    with pytest.raises(UsageError, match="no credential of the recording"):
        Toolset.from_har(recording, auth={"bearer": "x"})
    with pytest.raises(ToolImportError, match="none_\\*"):
        Toolset.from_har(recording, only=["none_*"])


def test_a_word_names_a_recording_and_its_hosts(recording: Path, tmp_path: Path) -> None:
    assert len(open_tools([f"har:{recording}"])) == len(open_tools([str(recording)])) == 3
    assert set(open_tools([f"har:{recording}@t.example.net"])) == {"get_collect"}
    assert len(open_tools([f"har:{recording}@t.example.net,shop.example.com"])) == 4
    odd = write(tmp_path / "me@home.har", *ENTRIES)
    assert len(open_tools([f"har:{odd}"])) == 3
    with pytest.raises(ToolImportError, match=r"there is no file .*shop\.haar: did you mean .*shop\.har"):
        open_tools([f"har:{tmp_path}/shop.haar"])


def test_the_command_lists_the_tools_and_says_in_one_line_what_is_left_out(recording: Path) -> None:
    result = CliRunner().invoke(app, ["tools", "list", "--json", "--tools", f"har:{recording}"])
    assert [each["name"] for each in json.loads(result.stdout)] == [
        "get_orders",
        "get_orders_by_order_id",
        "post_cart_items",
    ]


# -- what a recording lacks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [("tools", "list", "--tools"), ("probe", "--set", "max_tries=0", "--tools")], ids="ab"
)
def test_a_recording_without_contents_is_said_once_with_what_probing_does_then(
    tmp_path: Path, command: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with running_server() as server:
        server.answer = Answer(b'[{"order_id": "B7"}]')
        orders = f"{server.url}/api/orders"
        path = write(tmp_path / "a.har", page(f"{server.url}/"), call(orders), call(f"{orders}/open", ""))
        assert atc(*command, f"har:{path}").exit_code == 0
    assert caplog.text.count("the recording holds no contents of answers") == 1
    assert "`atc probe` calls the reads of the service instead: save it as HAR with content" in caplog.text


@pytest.mark.parametrize("entry", [call("/api/orders", {"id": 1}), call("/api/orders", method="DELETE", status=204)])
def test_a_recording_with_contents_or_answers_that_have_none_is_whole(
    tmp_path: Path, entry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Toolset.from_har(write(tmp_path / "a.har", entry, call("/api/carts", {"id": 2})))
    assert "no contents" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "session", "said"),
    [
        ({}, "memory", "no cookie or credential: export it with sensitive data"),
        ({}, "keep", "no cookie or credential: export it with sensitive data"),
        ({}, "ask", ""),
        ({"x-csrf-token": "t0k3n-a1b2c3d4e5f6"}, "none", "no cookie or credential but the header x-csrf-token: export"),
        ({"x-csrf-token": "t0k3n-a1b2c3d4e5f6", "cookie": "sid=0a1b2c3d4e5f60718293"}, "memory", ""),
        ({"x-api-key": "k3y-a1b2c3d4e5f60718"}, "memory", ""),
    ],
    ids="abcdef",
)
def test_a_recording_that_was_exported_without_its_login_is_said(
    tmp_path: Path, headers: dict[str, str], session: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.har", page(), call("/api/orders", [{"id": 1}], headers=headers))
    Toolset.from_har(path, session=session)
    assert (said in caplog.text) if said else ("no cookie" not in caplog.text)
    assert "t0k3n" not in caplog.text


def test_a_recording_of_pages_alone_names_their_hosts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.har", page(), page("/orders"), page("https://news.example.net/"))
    with pytest.raises(ToolImportError) as caught:
        Toolset.from_har(path)
    assert "it was on shop.example.com (2), news.example.net (1): pages without JSON calls cannot become tools" in str(
        caught.value
    )

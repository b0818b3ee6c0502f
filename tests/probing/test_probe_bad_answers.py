"""Probing what answers with no JSON, too much, too deep or never: each tool gets a clear state."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from atc.errors import ToolError
from atc.probing.report import Report
from atc.result import Effect
from atc.tools.tool import Toolset
from tests.support.probe import Oracle, Says, Service, line, probed, running, states
from tests.support.probe_services import GOOD, add_goods
from tests.support.tools import make_tool

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_folder")]  # a server for each


# -- answers that are none: one service full of them, probed once -----------------------------------------------------


def gigabytes(head: bytes) -> Iterator[bytes]:
    """5 GB, made as it is read."""
    yield head
    for _ in range(80_000):
        yield b"1," * 32_768


def forever(pause_s: float) -> Iterator[bytes]:
    yield b"["
    while True:
        time.sleep(pause_s)
        yield b"1,"


HTML = "<html><body><h1>Sign in</h1><p>Field <b>user</b> is required</p></body></html>"
TEN_MB = json.dumps([{"n": 1, "text": "x" * 1_000}] * 10_000)
BAD: dict[str, tuple[Any, str]] = {
    "html": (Says(HTML, kind="text/html"), "text/html instead of JSON"),
    "html_500": (Says(HTML, 500, "text/html"), "status 500"),
    "html_as_json": (Says(HTML), "JSON that cannot be used"),
    "binary": (Says(bytes(range(256)), kind="application/octet-stream"), "application/octet-stream instead of JSON"),
    "binary_as_json": (Says(bytes(range(128, 256))), "instead of JSON (binary)"),
    "gigabytes": (lambda _: Says(pieces=gigabytes(b"[")), "more than 300,000 bytes"),
    "gigabytes_of_error": (lambda _: Says(status=500, pieces=gigabytes(b"x")), "status 500"),
    "ten_mb": (Says(TEN_MB), "more than 300,000 bytes"),
    "bomb": (
        Says(gzip.compress(b"[" + b" " * 50_000_000 + b"]"), headers={"Content-Encoding": "gzip"}),
        "more than 300,000 bytes",
    ),
    "not_gzip": (Says("[1]", headers={"Content-Encoding": "gzip"}), "compression is broken"),
    "zstd": (Says("[1]", headers={"Content-Encoding": "zstd"}), "compressed as 'zstd'"),
    "endless": (lambda _: Says(pieces=forever(0.1)), "did not answer within"),
    "hangs": (lambda _: time.sleep(8.0), "did not answer within"),
    "deep": (Says("[" * 100_000 + "]" * 100_000), "nested too deeply"),
    "fairly_deep": (Says("[" * 500 + "1" + "]" * 500), "nested deeper than 200 levels"),
    "cut": (Says('{"a": [1, 2'), "JSON that cannot be used"),
    "surrogate": (Says('{"a": "\\ud800"}'), "JSON that cannot be used"),
    "round_trip": (Says(status=302, headers={"Location": "/round_trip"}), "redirects more than 5 times"),
    "nowhere": (Says(status=302, headers={"Location": "http://shop:port/"}), "GET /nowhere redirects to no valid URL"),
    "teapot": (Says(status=418, kind=""), "status 418"),
    "odd_status": (Says('{"error": "no"}', 599), "status 599"),
    "error_in_riddles": (Says('{"error": {"error": {"error": [[[["deep"]]]]}}}', 400), "status 400"),
}
EMPTY: dict[str, Any] = {
    "nothing": Says(status=204),
    "no_body": Says(),
    "null": Says("null"),
    "empty_list": Says("[]"),
    "hollow": Says('{"items": [], "next": null, "note": ""}'),
}


@pytest.fixture(scope="module")
def bad_service() -> Iterator[tuple[Service, Service, Report]]:
    with running() as service, running() as other:
        add_goods(service)
        for name, (answer, _) in BAD.items():
            service.route(name, f"/{name}", answer if callable(answer) else lambda _, answer=answer: answer)
        for name, answer in EMPTY.items():
            service.route(name, f"/{name}", lambda _, answer=answer: answer)
        other.route("thief", "/thief", [1])
        service.route("elsewhere", "/elsewhere", lambda _: Says(status=302, headers={"Location": f"{other.url}/thief"}))
        yield service, other, probed(service.tools(timeout_s=2.0, max_bytes=300_000), call_timeout_s=15.0)


@pytest.mark.parametrize(("tool", "words"), [(name, words) for name, (_, words) in BAD.items()])
def test_an_answer_that_is_none_is_told_as_the_reason(
    bad_service: tuple[Service, Service, Report], tool: str, words: str
) -> None:
    _, _, report = bad_service
    found = line(report, tool)
    assert found.state == "undocumented"
    assert words in found.reason
    assert found.fields == 0


@pytest.mark.parametrize("tool", EMPTY)
def test_an_answer_with_nothing_in_it_documents_a_tool_in_part(
    bad_service: tuple[Service, Service, Report], tool: str
) -> None:
    _, _, report = bad_service
    assert (line(report, tool).state, line(report, tool).reason) == ("partial", "every answer was empty")


def test_a_redirect_to_another_server_is_not_followed(bad_service: tuple[Service, Service, Report]) -> None:
    _, other, report = bad_service
    assert other.hits == []
    assert line(report, "elsewhere").state == "undocumented"
    assert f"redirects to {other.url}, another server" in line(report, "elsewhere").reason


def test_of_5_gigabytes_no_more_is_read_than_the_limit(bad_service: tuple[Service, Service, Report]) -> None:
    service, _, _ = bad_service
    assert service.sent < 30_000_000  # the limit, and what lies in sockets' buffers


def test_the_tools_beside_the_bad_ones_are_documented(bad_service: tuple[Service, Service, Report]) -> None:
    service, _, report = bad_service
    assert {name: line(report, name).state for name in GOOD} == GOOD
    assert report.count("documented") == 2
    assert line(report, "get_good").helpers == ("list_goods",)
    transient = {"/hangs", "/endless"}  # tried again, as what passes may be; nothing else is ever asked twice
    redirected = {"/round_trip"}
    assert set(service.twice()) <= transient | redirected


# -- functions that misbehave in ways that no HTTP service can --------------------------------------------------------


def circular() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


def boom(_: Any) -> Any:
    raise RuntimeError("boom")


def status(code: Any) -> Any:
    def refuse(_: Any) -> Any:
        raise ToolError("no", status=code)

    return refuse


ODD: dict[str, Any] = {
    "circular": lambda _: circular(),
    "a_set": lambda _: {1, 2},
    "nan": lambda _: {"a": float("nan")},
    "odd_keys": lambda _: {(1, 2): 3},
    "object": lambda _: object(),
    "boom": boom,
    "power": status("²"),
    "long_status": status("x" * 100_000),
    "nested": lambda _: json.loads("[" * 900 + "]" * 900),
    "bytes": lambda _: b"\xff\x00",
    "surrogate": lambda _: {"a": "\ud800"},
}


def test_functions_that_return_no_json_have_a_state_and_the_rest_goes_on() -> None:
    calls: dict[str, int] = dict.fromkeys(ODD, 0)

    def counting(name: str) -> Any:
        def call(arguments: dict[str, Any]) -> Any:
            calls[name] += 1
            return ODD[name](arguments)

        return call

    tools = Toolset(
        [
            *(make_tool(name, counting(name), word={"type": "string"}, required=("word",)) for name in ODD),
            make_tool("fine", lambda _: {"n": 1}),
        ]
    )
    model = Oracle({name: {"word": ["q", "q", "r"]} for name in ODD})
    report = probed(tools, model, folder="documents", rounds=2)
    assert line(report, "fine").state == "documented"
    assert {
        name: each for name, each in states(report).items() if each not in ("undocumented", "documented", "partial")
    } == {}
    assert line(report, "boom").state == "undocumented"
    assert "boom" in line(report, "boom").reason
    assert all(len(each.reason) < 2_000 for each in report.lines)


def test_a_failed_call_is_made_once_however_it_failed() -> None:
    seen: list[dict[str, Any]] = []

    def fails(arguments: dict[str, Any]) -> Any:
        seen.append(arguments)
        raise RuntimeError("boom")

    again = [{"word": ["q", "q"]}, {"word": ["q", "r"]}]
    probed(Toolset([make_tool("look", fails, word={"type": "string"}, required=("word",))]), Oracle({"look": again}))
    asked = [arguments for arguments in seen if arguments == {"word": "q"}]
    assert len(asked) == 1


def test_an_effect_that_is_in_doubt_is_not_repeated() -> None:
    seen: list[dict[str, Any]] = []

    def book(arguments: dict[str, Any]) -> Any:
        seen.append(arguments)
        raise ToolError("the connection broke", outcome="unknown", transient=True)

    again = [{"room": ["q", "q"]}, {"room": ["q", "r"]}]
    tool = make_tool("book", book, Effect.WRITE, room={"type": "string"}, required=("room",))
    probed(Toolset([tool]), Oracle({"book": again}), allow_effects=("book",), approve=lambda _: True)
    assert len([arguments for arguments in seen if arguments == {"room": "q"}]) == 1

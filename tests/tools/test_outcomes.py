"""What a write has come to: transports × answers. Refused: its own answer says that nothing was done. Else in doubt."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc import Toolset, tool
from atc.errors import TRANSIENT_STATUSES, ToolError
from atc.result import Effect
from tests.support.http import Handler, served
from tests.support.mcp import called, entry, one, raw_server
from tests.support.openapi import document, operation

DONE, REFUSED, DOUBT = "done", "refused", "in doubt"
SAYS = "it says itself that it did not do it"
STATUSES: dict[int, tuple[str, str]] = {
    **dict.fromkeys((400, 401, 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 416, 417), (REFUSED, SAYS)),
    **dict.fromkeys((422, 426, 428, 431), (REFUSED, SAYS)),
    501: (REFUSED, "the server does not know the method at all"),
    307: (REFUSED, "the same request is to be sent elsewhere (here: to another server, which is not done)"),
    308: (REFUSED, "as 307"),
    407: (REFUSED, "a proxy wants a login before it passes the request on"),
    409: (REFUSED, "the state of the resource stands against it: nothing was changed, however long one waits"),
    421: (REFUSED, "this server does not answer for the address; any method may be sent again elsewhere (RFC 9110)"),
    423: (REFUSED, "the resource is locked"),
    425: (REFUSED, "it was not risked, as it might be a replay (RFC 8470): it is to be sent again"),
    429: (REFUSED, "a rate limit stands before the work; Retry-After says when to come, and nothing of what was done"),
    451: (REFUSED, "access is denied, as by a 403"),
    402: (DOUBT, "reserved: a service that charges a card answers it after it tried, and may have noted the order"),
    408: (DOUBT, "also of a gateway whose service has the request and takes too long"),
    424: (DOUBT, "one action of several failed: the others may be done"),
    503: (DOUBT, "also of a proxy (Varnish, with Retry-After too) whose service broke off amid the request"),
    **dict.fromkeys((500, 502, 504, 505, 507, 511), (DOUBT, "the server failed, wherever it was")),
    **dict.fromkeys((301, 302, 303, 300, 304), (DOUBT, "a redirect that does not say to send the request there")),
    **dict.fromkeys((418, 420, 440, 460, 499, 599), (DOUBT, "no standard says what it means")),
}
OPEN = {"type": "object", "additionalProperties": True}
PAGE = b"<html><title>Bad gateway</title></html>"


class Service(Handler):
    """Does what its path, or the argument of an MCP call, says; a session of its own for each ``initialize``."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet: a second one would wait for the first to be acknowledged
    sessions, acted, lost = 0, 0, 0
    asked: Any = None

    def do_GET(self) -> None:
        if self.path.startswith(("/page/", "/do/")):
            return self.answer(self.path.split("/", 2)[2], None)
        rest = self.headers.get("Last-Event-ID")
        if rest is None or rest.isdigit():
            return self.say(int(rest or 405), b"")
        return self.answer(rest, Service.asked)

    def do_DELETE(self) -> None:
        self.say(200, b"")

    def do_POST(self) -> None:
        body = self.read_body()
        if self.path != "/mcp":
            Service.acted += 1
            return self.answer(self.path.removeprefix("/do/"), None)
        message = json.loads(body)
        if message.get("method") == "initialize":
            Service.sessions += 1
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            result |= {"serverInfo": {"name": "s", "version": "1"}}
            return self.say_json(200, self.own(message["id"], result=result), Mcp_Session_Id=f"s{Service.sessions}")
        if "method" not in message:
            return self.say(400, b"")  # a reply of the client's
        if "id" not in message:
            return self.say(202, b"")
        if message["method"] == "tools/list":
            names = {"act": {}, "typed": {"outputSchema": OPEN}, "look": {"annotations": {"readOnlyHint": True}}}
            tools = [entry(name, **more) | {"inputSchema": OPEN} for name, more in names.items()]
            return self.say_json(200, self.own(message["id"], result={"tools": tools}))
        if message["method"] != "tools/call":
            return self.say_json(200, self.own(message["id"], error={"code": -32601, "message": "no"}))
        Service.acted, Service.asked = Service.acted + 1, message["id"]
        return self.answer(message["params"]["arguments"]["do"], message["id"])

    def own(self, number: Any, **what: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, **what}

    def answer(self, do: str, number: Any) -> None:
        """Answer as a word says: a status, with what stands in it; or one of the ways below."""
        way, _, more = do.partition("-")
        result = {"content": [{"type": "text", "text": "1"}]}
        right = b'{"a": 1}' if number is None else json.dumps(self.own(number, result=result)).encode()
        if way.isdigit():
            headers = {"Retry_After": "120"} if "wait" in more else {}
            if int(way) in (301, 302, 303, 307, 308):
                headers["Location"] = f"http://localhost:1/{way}" if more in ("", "wait") else more.replace("~", "/")
            code = more.removeprefix("own")
            error = {"code": int(code), "message": "no"} if code.lstrip("-").isdigit() else {}
            body = json.dumps(self.own(number if more.startswith("own") else None, error=error)).encode()
            return self.say(int(way), body if error else PAGE, "application/json" if error else "text/html", **headers)
        if way == "ok":
            return self.say(200, right)
        if way == "both":
            return self.say(200, right + PAGE)
        if way == "code":
            return self.say_json(200, self.own(number, error={"code": int(more), "message": "no"}))
        if way == "failed":
            return self.say_json(200, self.own(number, result=result | {"isError": True}))
        if way in ("null", "other"):
            what = {"result": result} if more == "result" else {"error": {"code": -32602, "message": more}}
            fresh = more == "Session" and self.headers.get("Mcp-Session-Id") != f"s{Service.lost}"
            return self.say_json(200, self.own(number if fresh else None if way == "null" else 9_999, **what))
        if way == "lost":
            gone = self.headers.get("Mcp-Session-Id") == f"s{Service.lost}"
            time.sleep(0.05 * (Service.acted - 1) if gone else 0)  # one after the other is told
            return self.say(int(more), b'{"error": "no session"}') if gone else self.say(200, right)
        if way == "stream":
            return self.stream(more, right, number)
        self.close_connection = True
        if way == "cut":
            self.send_response(int(more))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "999")
            self.end_headers()
            self.wfile.write(b'{"a": ')
        if way == "slow":
            time.sleep(1)
        return None

    def stream(self, more: str, right: bytes, number: Any) -> None:
        """Answer by events: the right one, a page behind it; or others, or none, and the rest is to be asked for."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        say = {
            "right": b"data: " + right + b"\n\n" + PAGE,
            "null": b'data: {"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "no"}}\n\n',
            "other": b'data: {"jsonrpc": "2.0", "id": 9999, "result": {"content": []}}\n\n',
            "ping": b'data: {"jsonrpc": "2.0", "id": "q", "method": "ping"}\n\n',
        }
        rest = f"id: {more.removeprefix('rest-')}\nretry: 5\ndata: \n\n".encode()
        self.wfile.write(say.get(more, rest))
        self.wfile.flush()
        time.sleep(0.2 if more == "ping" else 0)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(Service) as address:
        yield address


def over_mcp(url: str, *does: str, name: str = "act") -> list[Any]:
    return called(Toolset.from_mcp(f"{url}/mcp", timeout_s=5), *((name, {"do": do}) for do in does))


def over_http(url: str, *does: str, **options: Any) -> list[Any]:
    method = options.pop("method", "post")
    paths = {f"/do/{do}": {method: {**operation(), "operationId": f"op{n}"}} for n, do in enumerate(does)}
    tools = Toolset.from_openapi(document(paths), base_url=url, **options)
    return called(tools, *((f"op{n}", {}) for n in range(len(does))))


def came(got: list[Any]) -> list[str]:
    return [
        {"refused": REFUSED, "unknown": DOUBT}[each.outcome] if isinstance(each, ToolError) else DONE for each in got
    ]


@pytest.mark.parametrize("over", [over_http, over_mcp])
@pytest.mark.parametrize("wait", ["", "-wait"])
def test_a_status_on_the_request_itself(url: str, over: Any, wait: str) -> None:
    got = over(url, *(f"{status}{wait}" for status in STATUSES))
    assert dict(zip(STATUSES, came(got), strict=True)) == {status: came for status, (came, _) in STATUSES.items()}
    errors = {each.status: each for each in got if isinstance(each.status, int) and each.status >= 400}
    assert {each.retry_after for each in errors.values()} == {120.0 if wait else None}
    assert {status for status, each in errors.items() if each.transient} == TRANSIENT_STATUSES


HTTP = {
    "ok": DONE,
    "both": DOUBT,  # a proxy's page behind a right answer
    "200": DOUBT,  # a page alone
    "cut-200": DOUBT,
    "cut-403": REFUSED,  # its status came whole
    "hang up": DOUBT,
    "slow": DOUBT,
    "303-~page~ok": DONE,  # 303: it is done, or in doubt, whatever the second page says
    "303-~page~404": DOUBT,
    "303-~page~401": DOUBT,
    "303-~page~429-wait": DOUBT,
    "303-~page~501": DOUBT,
    "303-~page~both": DOUBT,
    "303-~page~cut-200": DOUBT,
    "303-~page~hang up": DOUBT,
    "303-~page~308": DOUBT,
    "303-http:~~[": DOUBT,
    "302-~page~ok": DOUBT,
    "307-~do~ok": DONE,  # 307, 308: the request itself, elsewhere
    "308-~do~404": REFUSED,
    "308-~do~hang up": DOUBT,
    "307-~do~303-~page~404": DOUBT,
    "307-http:~~[": REFUSED,
}


def test_answers_over_http(url: str) -> None:
    assert dict(zip(HTTP, came(over_http(url, *HTTP, timeout_s=0.5)), strict=True)) == HTTP


def test_a_get_that_may_act_is_led_on_as_a_post_is(url: str) -> None:
    ways = {
        "404": REFUSED,
        "303-~page~404": DOUBT,
        "302-~page~404": DOUBT,
        "302-~page~ok": DONE,
        "307-~page~404": REFUSED,
    }
    got = over_http(url, *ways, method="get", effects=dict.fromkeys(("op*",), "write"))
    assert dict(zip(ways, came(got), strict=True)) == ways


MCP = {
    "ok": DONE,
    "both": DOUBT,
    "200": DOUBT,
    "202": DOUBT,
    "cut-200": DOUBT,
    "cut-403": REFUSED,
    "hang up": DOUBT,
    "failed": DOUBT,  # isError: a tool's own error says nothing of what it did before
    "code--32602": REFUSED,
    "code--32601": REFUSED,
    "code--32042": REFUSED,
    "code--32603": DOUBT,
    "code--32600": DOUBT,
    "code--32000": DOUBT,
    "400-own-32602": REFUSED,
    "400--32000": REFUSED,  # without its id: the status is the request's own all the same
    "400-own-32603": DOUBT,
    "null-no": DOUBT,
    "null-result": DOUBT,
    "other-no": DOUBT,
    "other-result": DOUBT,
    "stream-right": DONE,
    "stream-null": DOUBT,
    "stream-other": DOUBT,
    "stream-ping": DOUBT,  # the client's reply is answered 400
    "stream-rest-404": DOUBT,
    "stream-rest-401": DOUBT,
    "stream-rest-429": DOUBT,
    "stream-rest-stream-right": DONE,
    "stream-rest-stream-null": DOUBT,
    "stream-rest-hang up": DOUBT,
    "307-~mcp": REFUSED,  # sent on, again and again: each time it was not done
}


def test_answers_over_mcp(url: str) -> None:
    assert dict(zip(MCP, came(over_mcp(url, *MCP)), strict=True)) == MCP


def test_arguments_that_are_wrong_and_a_result_that_does_not_fit_have_one_code(url: str) -> None:
    does = ("code--32602", "400-own-32602", "code--32601", "ok")
    assert came(over_mcp(url, *does, name="typed")) == [DOUBT, DOUBT, REFUSED, DONE]


@pytest.mark.parametrize(
    ("do", "name", "what"),
    [
        ("lost-404", "act", DONE),
        ("lost-404", "look", DONE),
        ("null-Session", "act", DOUBT),  # nothing says of which message that is
        ("null-Session", "look", REFUSED),  # in a new session it is another error, and the read's own
    ],
)
def test_a_session_that_is_gone(url: str, do: str, name: str, what: str) -> None:
    Service.lost, Service.acted, before = Service.sessions + 2, 0, Service.sessions
    (got,) = over_mcp(url, do, name=name)  # one session to list the tools, one to call
    assert came([got]) == [what]
    again = what != DOUBT
    assert (Service.acted, Service.sessions - before) == (1 + again, 2 + again)


def test_a_session_that_is_gone_is_left_once_all_its_calls_were_told(url: str) -> None:
    async def at_once(tools: Toolset) -> list[Any]:
        async with tools.opened():
            return await asyncio.gather(*(one(tools, "act", {"do": "lost-404"}) for _ in range(3)))

    Service.lost, Service.acted = Service.sessions + 2, 0
    assert came(asyncio.run(at_once(Toolset.from_mcp(f"{url}/mcp", timeout_s=5)))) == [DONE] * 3
    assert Service.sessions == Service.lost + 1


def test_what_nobody_listens_to_was_not_sent(url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert came(over_http(away, "ok")) == [REFUSED]
    assert came(over_http(url, f"303-{away}/")) == [DOUBT]


@pytest.mark.parametrize("number", [None, 9_999])
def test_an_answer_of_a_program_under_another_id(number: int | None, tmp_path: Path) -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32602, "message": "no"}})
    command = raw_server(tmp_path, [entry("act")], calls={"act": {"print": answer, "exit": 1}})
    assert came(called(Toolset.from_mcp(command), ("act", {}))) == [DOUBT]


def test_answers_of_functions() -> None:
    def act(how: str) -> Any:
        """Act."""
        match how:
            case "value":
                return 1
            case "no value":
                return object()
            case "refused":
                raise ToolError("no")
            case "unknown":
                raise ToolError("lost", outcome="unknown")
        raise ValueError(how)

    tools = Toolset.from_functions(tool(effect="write")(act))
    ways = {"value": DONE, "no value": DOUBT, "refused": REFUSED, "unknown": DOUBT, "raises": DOUBT, 3: REFUSED}
    assert dict(zip(ways, came(called(tools, *(("act", {"how": way}) for way in ways))), strict=True)) == ways
    assert tools["act"].protocol.effect is Effect.WRITE

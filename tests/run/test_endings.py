"""What no other program can help ends a run at once; what one can help gets its revisions."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from atc import Result, RunFailed, ToolError, Toolset, tool
from atc.calls.broker import CallPolicy
from atc.schemas.protocol import Source
from atc.tools.bugs import is_bug
from atc.tools.functions import tool_from_function
from atc.tools.tool import Tool
from tests.support.agent import agent
from tests.support.agent import code as program
from tests.support.broker import READ, UNKNOWN, WRITE, House, counted
from tests.support.cli import atc, endpoints, settle
from tests.support.fake_openai_server import says
from tests.support.openapi import Answer, Server, document, import_openapi, one_tool, operation, running_server
from tests.support.tools import make_tool

QUICK = CallPolicy(retry_wait_s=0.001)


def run(text: str, *tools: Any, made: Toolset | None = None, **settings: Any) -> Result:
    """A run whose model writes this program again and again."""
    given: dict[str, Any] = {"policy": QUICK, "sentence": True, "max_revisions": 1, **settings}
    return agent(*[program(text)] * 20, tools=made if made is not None else list(tools), **given).run("do it")


def ended_at_once(result: Result, status: str, cause: str, *words: str) -> None:
    assert result.fault is not None
    assert (result.status, result.fault.cause) == (status, cause), result.fault
    assert (len(result.revisions), result.usage.model_calls) == (1, 1)
    assert result.revisions[0].fault == result.fault
    for word in words:
        assert word in f"{result.fault.message} {result.fault.hint}"
    with pytest.raises(RunFailed, match=f"ended as {status}: "):
        result.unwrap()


def was_revised(result: Result) -> None:
    assert (result.status, len(result.revisions)) == ("unsolved", 2)
    assert {fault.cause for fault in result.faults} == {None}


# -- a no ------------------------------------------------------------------------------------------------------------


@tool(effect="write")
def send(to: str) -> str:
    """Send it."""
    return "sent"


@tool(effect="read")
def double(n: int) -> int:
    """Twice."""
    return 2 * n


@pytest.mark.parametrize(
    "text",
    [
        "answer = send(to='x')",
        "try:\n    answer = send(to='x')\nexcept ToolError as error:\n    raise RuntimeError(f'not sent: {error}')",
        "try:\n    answer = send(to='x')\nexcept ToolError as error:\n    raise RuntimeError('not sent')",
        "try:\n    answer = send(to='x')\nexcept ToolError as error:\n    answer = str(error)",
        "try:\n    sent = send(to='x')\nexcept ToolError:\n    sent = None\nanswer = sent[0]",
    ],
)
def test_a_no_ends_the_run(text: str) -> None:
    result = run(text, send, approve=lambda _: False)
    ended_at_once(result, "denied", "denied", "did not approve", "was no")
    assert result.fault is not None
    assert "Approve it" not in result.fault.hint  # who has just said no is not told to say yes


def test_who_was_not_asked_is_told_how_to_approve() -> None:
    result = run("answer = send(to='x')", send, approve="never")
    ended_at_once(result, "denied", "denied", "Approve it")
    assert (result.calls[0].refused_by, result.done) == ("nobody", ())
    assert result.fault is not None
    assert result.fault.hint.endswith("@atc.tool(effect='read').")


def test_only_a_function_of_ones_own_can_be_declared_as_a_read() -> None:
    elsewhere = make_tool("send", counted({"ok": True})[1], WRITE)  # of a document
    result = run("answer = send(n=1)", elsewhere, approve="never")
    ended_at_once(result, "denied", "denied", "Approve it")
    assert result.fault is not None
    assert "@atc.tool" not in result.fault.hint


def test_where_an_argument_came_from_explains_no_refusal() -> None:
    result = run("n = double(n=2)\nanswer = send(to=str(n))", send, double, approve=lambda _: False)
    ended_at_once(result, "denied", "denied", "did not approve")
    assert result.fault is not None
    assert (result.fault.origins, result.fault.evidence) == ((), "")


def test_who_has_no_terminal_and_no_input_was_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        result = run("answer = send(to='x')", send, approve="ask")
    ended_at_once(result, "denied", "denied", "nobody could be asked", "Approve it")
    assert result.calls[0].refused_by == "nobody"


def test_a_run_that_did_half_says_what_is_done_and_what_is_not() -> None:
    text = "for to in ('ann', 'ben', 'cem'):\n    sent = send(to=to)\nanswer = sent"
    result = run(text, send, approve=lambda request: request.arguments["to"] == "ann")
    assert result.status == "denied"
    assert result.calls[-1].refused_by == "user"
    assert [made.arguments for made in result.done] == [{"to": "ann"}]
    assert [made.arguments for made in result.not_done] == [{"to": "ben"}]
    with pytest.raises(RunFailed, match=r"done: send\(to='ann'\); not done: send\(to='ben'\)"):
        result.unwrap()
    assert result.fault is not None
    assert result.fault.hint.endswith("The program ended there: what it would have done after that was not tried.")
    read_back = Result.model_validate_json(result.model_dump_json())
    assert (read_back.done, read_back.not_done) == (result.done, result.not_done)


def test_a_program_that_went_on_after_a_no_did_not_end_there() -> None:
    text = "for to in ('ann', 'ben', 'cem'):\n    try:\n        send(to=to)\n    except ToolError:\n        answer = to"
    result = run(text, send, approve=lambda request: request.arguments["to"] == "ann")
    assert [made.arguments["to"] for made in result.not_done] == ["ben", "cem"]
    assert result.fault is not None
    assert "ended there" not in result.fault.hint


def test_a_no_to_one_write_is_none_to_another() -> None:
    answers = iter([False, True])

    def asked(_: Any) -> bool:
        return next(answers)

    text = "try:\n    send(to='x')\nexcept ToolError:\n    pass\nanswer = send(to='y')"
    result = run(text, send, approve=asked)
    assert [made.arguments for made in result.not_done] == [{"to": "x"}]
    assert [made.arguments for made in result.done] == [{"to": "y"}]


def test_the_model_is_not_asked_whose_fault_a_no_is() -> None:
    result = run("answer = send(to='x')", send, approve=lambda _: False, strategy="atc-paper")
    ended_at_once(result, "denied", "denied", "did not approve")
    assert [fault.by for fault in result.faults] == ["structure"]


def test_who_cannot_be_asked_has_not_approved() -> None:
    def broken(_: Any) -> bool:
        raise EOFError

    ended_at_once(run("answer = send(to='x')", send, approve=broken), "denied", "denied", "could not be asked")


def test_a_no_that_the_program_caught_stays_one_and_its_value_is_kept() -> None:
    text = "try:\n    send(to='x')\nexcept ToolError:\n    pass\nanswer = double(n=21)"
    result = run(text, send, double, approve=lambda _: False)
    assert (result.status, result.value, [call.cause for call in result.calls]) == ("denied", 42, ["denied", None])
    assert (result.partial, result.usage.model_calls) == (True, 1)


def test_an_error_after_a_no_that_was_caught_is_the_programs_own() -> None:
    text = "try:\n    send(to='x')\nexcept ToolError:\n    pass\nanswer = {}[double(n=21)]"
    was_revised(run(text, send, double, approve=lambda _: False))


def test_an_error_raised_for_another_one_is_the_programs_own() -> None:
    text = """try:
    send(to='x')
except ToolError:
    pass
try:
    answer = {}[double(n=21)]
except KeyError:
    raise RuntimeError('nothing is there')"""
    was_revised(run(text, send, double, approve=lambda _: False))


def test_of_two_failed_calls_the_one_whose_error_was_handled_ended_the_program() -> None:
    @tool(effect="read")
    def find(name: str) -> str:
        """Find it."""
        raise ToolError("no such name", status="not_found")

    text = """try:
    found = find(name='y')
except ToolError:
    found = None
try:
    answer = send(to=str(found))
except ToolError:
    raise RuntimeError('nothing is there')"""
    result = run(text, send, find, approve=lambda _: False, max_revisions=0)
    assert result.fault is not None
    assert (result.status, result.fault.cause, result.fault.tool) == ("denied", "denied", "send")
    text = """try:
    answer = send(to='x')
except ToolError:
    answer = None
try:
    found = find(name='y')
except ToolError as error:
    raise RuntimeError('nothing is there') from error"""
    result = run(text, send, find, approve=lambda _: False, max_revisions=0)
    assert result.fault is not None
    assert (result.fault.cause, result.fault.tool, result.fault.call) == (None, "find", 2)


# -- a function's own bug --------------------------------------------------------------------------------------------

CITIES = {"Lyon": {"people": 1}}


def _calls(function: Callable[..., Any], given: Any) -> BaseException:
    async def go() -> None:
        made = function(given)
        if inspect.isawaitable(made):
            await made

    with pytest.raises(BaseException) as caught:
        asyncio.run(go())
    return caught.value


def divides(a: str) -> float:
    return 1 / 0


async def divides_later(a: str) -> float:
    return 1 / 0


def has_no_rows(a: str) -> float:
    rows: list[float] = []
    return sum(rows) / len(rows)


def has_a_wrong_name(a: str) -> str:
    return undefined(a)  # type: ignore[name-defined, no-any-return] # noqa: F821


def has_a_wrong_attribute(a: str) -> str:
    return a.nothing  # type: ignore[attr-defined, no-any-return]


def adds_a_number_to_a_text(a: str) -> str:
    return a + 1  # type: ignore[operator]


def lacks_a_module(a: str) -> None:
    import no_such_module  # type: ignore[import-not-found] # noqa: F401


def lacks_a_variable(a: str) -> str:
    return os.environ["ATC_TESTS_NOTHING"]


def lacks_a_file(a: str) -> Any:
    return open("/nonexistent/cities.csv")


def calls_a_library_wrongly(a: str) -> str:
    return json.dumps({1, 2})


BUGS = (
    divides,
    divides_later,
    has_no_rows,
    has_a_wrong_name,
    has_a_wrong_attribute,
    adds_a_number_to_a_text,
    lacks_a_module,
    lacks_a_variable,
    lacks_a_file,
    calls_a_library_wrongly,
)


def refuses(a: str) -> None:
    raise TypeError("a name, please")


def asserts(a: str) -> None:
    assert a == "Lyon"


def looks_up(a: str) -> Any:
    return CITIES[a]


def looks_up_inside(a: str) -> Any:
    def found() -> Any:
        return CITIES[a]

    return found()


def finds_none(a: str) -> Any:
    return CITIES.get(a)["people"]  # type: ignore[index]


def finds_none_with_an_attribute(a: str) -> Any:
    return CITIES.get(a).people  # type: ignore[union-attr]


def reads_a_number(a: str) -> int:
    return int(a)


def divides_by_what_is_kept(a: str) -> float:
    rows = [city for city in CITIES if city == a]
    return 1 / len(rows)


def evaluates(a: str) -> Any:
    return eval(a)  # noqa: S307 - a calculator of a tool


def takes_an_attribute(a: str) -> Any:
    return getattr(os, a)


def takes_anything(a: Any) -> Any:
    return a + 1


def takes_any_object(a: dict[str, Any]) -> Any:
    return a["n"] + 1


def opens(a: str) -> Any:
    return open(a)


def reraises(a: str) -> Any:
    try:
        return CITIES[a]
    except KeyError:
        raise


def is_unbound(a: str) -> Any:
    if a == "Lyon":
        found = 1
    return found


def is_unreachable(a: str) -> None:
    socket.create_connection(("127.0.0.1", 1), timeout=1)


REFUSALS = (
    refuses,
    asserts,
    looks_up,
    looks_up_inside,
    finds_none,
    finds_none_with_an_attribute,
    reads_a_number,
    divides_by_what_is_kept,
    evaluates,
    takes_an_attribute,
    takes_anything,
    takes_any_object,
    opens,
    reraises,
    is_unbound,
    is_unreachable,
)


@pytest.mark.parametrize("function", BUGS, ids=lambda f: f.__name__)
def test_a_bug_is_what_no_other_arguments_avoid(function: Callable[..., Any]) -> None:
    assert is_bug(_calls(function, "x"), function)


@pytest.mark.parametrize("function", REFUSALS, ids=lambda f: f.__name__)
def test_what_other_arguments_may_avoid_is_no_bug(function: Callable[..., Any]) -> None:
    given = {"n": "1"} if function is takes_any_object else "x + 1" if function is evaluates else "x"
    assert not is_bug(_calls(function, given), function)


def test_a_method_and_a_decorated_function_are_looked_into() -> None:
    from functools import wraps

    def decorated(a: str) -> Any:
        return CITIES["Paris"]

    @wraps(decorated)
    def around(*args: Any) -> Any:
        return decorated(*args)

    class Shop:
        def price(self, a: str) -> Any:
            return CITIES["Paris"]

    assert is_bug(_calls(around, "x"), around)
    assert is_bug(_calls(Shop().price, "x"), Shop().price)


def test_a_bug_of_a_function_ends_the_run() -> None:
    for function in (divides, divides_later):
        result = run(f"answer = {function.__name__}(a='x')", tool(effect="read")(function))
        ended_at_once(result, "tool_broken", "broken", "repair the tool")


def test_a_refusal_of_a_function_is_revised() -> None:
    was_revised(run("answer = looks_up(a='x')", tool(effect="read")(looks_up)))
    assert len(run("answer = double(n=[])", double).revisions) == 2
    for function in (refuses, reads_a_number):
        house = House(tool_from_function(function, effect="read"))
        house.call(function.__name__, a="x")
        assert (house.last.status, house.last.cause) == ("failed", None)


def share(n: int) -> Any:
    """A share."""
    return {"of": object()}


def thing(n: int) -> Any:
    """A thing."""
    return {"it": object()}


def test_a_result_that_is_no_json_ends_the_run() -> None:
    result = run("answer = share(n=1)", tool(effect="read")(share))
    ended_at_once(result, "tool_broken", "bad_response", "no JSON", "repair the tool")
    for made in (tool_from_function(thing, effect="read"), make_tool("thing", lambda _: {1, 2})):
        house = House(made)
        house.call("thing", n=1)
        assert (house.last.status, house.last.cause) == ("failed", "bad_response")


def test_a_result_that_is_too_large_may_be_asked_for_in_parts() -> None:
    for value in ([0] * 450_000, {"text": ["x" * 1000] * 3000}):
        house = House(make_tool("raw", lambda _, v=value: v))
        house.call("raw", n=1)
        assert (house.last.error_status, house.last.cause) == ("too_large", None)


# -- a service -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.reset()
    return running


KEYED = {
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "security": [{"key": []}],
}


def service(url: str, method: str = "get", **options: Any) -> Toolset:
    return one_tool("/a", method, operation(), url, **options)


@pytest.mark.parametrize(
    ("answer", "options", "status", "cause", "words"),
    [
        (Answer(status=401), {}, "missing", "credential", "status 401"),
        (Answer(status=401), {"root": KEYED, "auth": {"key": "wrong-key"}}, "missing", "credential", "status 401"),
        (Answer(status=403), {"root": KEYED}, "missing", "credential", "no credential is set for 'key'"),
        (Answer(status=403), {"root": KEYED, "auth": {"key": "wrong-key"}}, "missing", "credential", "ATC_AUTH_KEY"),
        (Answer(status=403), {"headers": {"X-Key": "wrong-key"}}, "missing", "credential", "check headers="),
        (Answer(status=503), {}, "missing", "unreachable", "See that the service runs"),
        (Answer(b"<html>", kind="text/html"), {}, "tool_broken", "bad_response", "instead of JSON"),
        (Answer(b"{]"), {}, "tool_broken", "bad_response", "JSON that cannot be used"),
    ],
)
def test_what_only_a_user_can_mend_at_a_service_ends_the_run(
    server: Server, answer: Answer, options: dict[str, Any], status: str, cause: str, words: str
) -> None:
    server.answer = answer
    ended_at_once(run("answer = op()", made=service(server.url, **options)), status, cause, words)
    assert len(server.seen) == (3 if answer.status == 503 else 1)


def test_a_missing_credential_is_said_before_the_model_is_asked(server: Server) -> None:
    server.answer = Answer(status=403)
    heard: list[Any] = []
    result = run("answer = op()", made=service(server.url, root=KEYED), on_event=heard.append)
    kinds = [event.kind for event in heard]
    chosen = heard[kinds.index("tools_chosen")]
    assert kinds.index("tools_chosen") < kinds.index("model_started")
    way = "pass auth={'key': …} to the import (`atc run --openapi auth.key=…`), or set ATC_AUTH_KEY"
    notice = f"no credential is set for 'key', which op needs: {way}"
    assert chosen.data["notices"] == [notice]
    assert result.sketch is not None
    assert result.sketch.notices == (notice,)


@pytest.mark.parametrize(
    "options", [{}, {"root": KEYED, "auth": {"key": "a-key"}}, {"root": KEYED | {"security": [{"key": []}, {}]}}]
)
def test_where_no_credential_is_missing_nothing_is_said(server: Server, options: dict[str, Any]) -> None:
    server.answer = Answer(b"{}")
    result = run("answer = op()", made=service(server.url, **options))
    assert result.sketch is not None
    assert result.sketch.notices == ()


@pytest.mark.parametrize("options", [{}, {"auth": {"key": "wrong-key"}}])
def test_a_tool_with_the_same_credential_or_none_is_no_substitute(server: Server, options: dict[str, Any]) -> None:
    city = {"type": "object", "properties": {"city_id": {"type": "string"}, "people": {"type": "integer"}}}
    wanted = {"name": "city_id", "in": "query", "required": True, "schema": {"type": "string"}}
    paths = {
        f"/{name}": {"get": operation(wanted, returns=city, operationId=name, summary="Details of a city.")}
        for name in ("city_details", "city_facts")
    }
    server.answer = Answer(status=403)
    made = import_openapi(document(paths, **KEYED), base_url=server.url, **options)
    result = run("answer = city_details(city_id='x')", made=made)
    ended_at_once(result, "missing", "credential", "ATC_AUTH_KEY")


@pytest.mark.parametrize("status", [401, 403])
def test_a_credential_that_was_refused_is_named(server: Server, status: int) -> None:
    server.answer = Answer(status=status)
    result = run("answer = op()", made=service(server.url, root=KEYED, auth={"key": "wrong-key"}))
    assert result.fault is not None
    assert "the credential for 'key' was sent: check auth={'key': …} or ATC_AUTH_KEY" in result.fault.message
    assert "wrong-key" not in result.model_dump_json()


@pytest.mark.parametrize("status", [404, 429, 500])
def test_what_other_arguments_may_mend_at_a_service_is_revised(server: Server, status: int) -> None:
    server.answer = Answer(status=status)
    was_revised(run("answer = op()", made=service(server.url)))


def shop(server: Server) -> Toolset:
    """A service with a key: its orders, one of which is another's, and a page that needs no key."""
    server.answers["/orders/7"] = server.answers["/stock"] = Answer(status=403)
    server.answers["/orders/8"] = Answer(status=404)
    number = {"name": "n", "in": "path", "required": True, "schema": {"type": "integer"}}
    paths = {
        "/orders": {"get": operation(operationId="orders")},
        "/orders/{n}": {"get": operation(number, operationId="order")},
        "/stock": {"get": operation(operationId="stock")},
        "/news": {"get": operation(operationId="news", security=[])},
    }
    return import_openapi(document(paths, **KEYED), base_url=server.url, auth={"key": "some-key"})


@pytest.mark.parametrize(
    "text",
    [
        "orders()\nanswer = order(n=7)",
        "orders()\nanswer = stock()",
        "try:\n    order(n=8)\nexcept ToolError:\n    pass\nanswer = order(n=7)",
    ],
)
def test_a_403_of_a_service_that_took_the_credential_is_about_the_request(server: Server, text: str) -> None:
    was_revised(run(text, made=shop(server)))


@pytest.mark.parametrize("before", ["", "news()\n"])
def test_a_403_about_one_resource_has_a_second_program_and_no_third(server: Server, before: str) -> None:
    result = run(f"{before}answer = order(n=7)", made=shop(server), max_revisions=3)
    assert [fault.cause for fault in result.faults] == [None, "credential"]
    assert (result.status, result.usage.model_calls) == ("missing", 2)
    assert result.fault is not None
    assert "ATC_AUTH_KEY" in result.fault.message


def test_calls_of_one_program_that_are_all_refused_may_each_be_about_their_resource(server: Server) -> None:
    server.answers["/orders/6"] = Answer(status=403)
    text = "for n in (6, 7):\n    try:\n        answer = order(n=n)\n    except ToolError:\n        answer = 0"
    result = run(text, made=shop(server))
    assert [call.cause for call in result.calls] == [None, None, "credential", "credential"]  # of two programs


def test_a_page_without_a_key_does_not_show_that_the_key_is_taken(server: Server) -> None:
    ended_at_once(run("news()\nanswer = stock()", made=shop(server)), "missing", "credential", "ATC_AUTH_KEY")


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_service_that_is_not_there_ends_the_run(method: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody listens on it
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        result = run("answer = op()", made=service(url, method))
    ended_at_once(result, "missing", "unreachable", f"cannot reach {url} (", "See that the service runs")
    assert result.in_doubt == ()


def test_an_effect_that_got_no_answer_is_in_doubt(server: Server) -> None:
    server.answer = Answer(status=503)
    result = run("answer = op()", made=service(server.url, "post"))
    ended_at_once(result, "in_doubt", "in_doubt", "check it by hand")
    assert (len(result.in_doubt), len(server.seen)) == (1, 1)


def test_a_credential_that_the_page_after_a_write_wants_leaves_the_write_in_doubt(server: Server) -> None:
    server.answers = {"/a": Answer(status=303, headers={"Location": "/b"}), "/b": Answer(status=401)}
    result = run("answer = op()", made=service(server.url, "post"))
    ended_at_once(result, "in_doubt", "in_doubt", "check it by hand")


@pytest.mark.parametrize(("asked", "said"), [("120", " (it asks to wait 120 s)"), ("0.5", " (it asks to wait 1 s)")])
def test_how_long_a_service_asks_to_wait_reaches_the_program_and_the_next_one(
    server: Server, asked: str, said: str
) -> None:
    server.answer = Answer(b'{"message": "busy"}', 429, headers={"Retry-After": asked})
    caught = "try:\n    op()\nexcept ToolError as error:\n    answer = error.message"
    made = service(server.url, "post")
    result = agent(tools=made, policy=QUICK, sentence=False).run_program(caught)
    assert result.value == result.calls[0].error == f"POST /a answered with status 429: busy{said}"
    assert result.remarks[0].message.endswith(said)


def _from(kind: Any, made: Tool) -> Tool:
    source = Source(kind=kind, location="https://shop.example")
    return Tool(made.protocol.model_copy(update={"source": source}), made.transport)


@pytest.mark.parametrize("cause", ["broken", "bad_response", "credential", "unreachable"])
@pytest.mark.parametrize("text", ["answer = pay()", "try:\n    pay()\nexcept ToolError:\n    answer = 'not paid'"])
def test_a_write_in_doubt_at_a_service_is_more_than_a_broken_tool(cause: Any, text: str) -> None:
    _, function = counted(ToolError("it ended during the call", outcome="unknown", cause=cause))
    result = run(text, made=Toolset([_from("mcp", make_tool("pay", function, WRITE))]))
    ended_at_once(result, "in_doubt", "in_doubt", "check it by hand")


async def _hangs(_: Any) -> Any:
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("kind", "effect", "cause"),
    [
        ("openapi", READ, "unreachable"),
        ("mcp", READ, "unreachable"),
        ("function", READ, None),
        ("openapi", WRITE, "in_doubt"),
        ("function", WRITE, "in_doubt"),
        ("function", UNKNOWN, "in_doubt"),
    ],
)
def test_no_answer_in_time_is_a_service_that_is_down_or_an_effect_in_doubt(kind: str, effect: Any, cause: str) -> None:
    house = House(_from(kind, make_tool("a", _hangs, effect)), call_timeout_s=0.05)
    assert house.call("a", n=1).status == "timeout"
    assert house.last.cause == cause


def test_a_service_that_answered_before_is_not_down() -> None:
    lost = ToolError("it broke", status="broken", outcome="unknown", transient=True, cause="unreachable")
    gone = ToolError("nobody there", status="unreachable", transient=True, cause="unreachable")
    for first in ({"value": 1}, ToolError("no such thing", status=404)):
        house = House(
            *(
                _from("openapi", make_tool(name, counted(value)[1]))
                for name, value in {"well": first, "lost": lost, "gone": gone}.items()
            )
        )
        house.call("lost", n=1)
        assert house.last.cause == "unreachable"
        house.call("well", n=1)
        house.call("lost", n=1)
        assert house.last.cause is None
        house.call("gone", n=1)
        assert house.last.cause == "unreachable"


def test_a_call_that_is_in_doubt_after_a_resume_ends_the_run() -> None:
    booked: list[int] = []
    begun = asyncio.Event()

    async def book(arguments: dict[str, Any]) -> Any:
        booked.append(arguments["n"])
        begun.set()
        await asyncio.sleep(30)

    made = agent(program("answer = book(n=1)"), tools=Toolset([make_tool("book", book, WRITE)]))

    async def go() -> None:
        work = asyncio.create_task(made.arun("book it"))
        await begun.wait()
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(go())
    result = made.resume("last")
    assert result.fault is not None
    assert (result.status, result.fault.cause, len(result.revisions)) == ("in_doubt", "in_doubt", 1)
    assert result.usage.model_calls == 0
    assert "is not made again" in result.fault.message
    assert booked == [1]


# -- on the command line ---------------------------------------------------------------------------------------------

BROKEN = '''
from atc import ToolError, tool

@tool(effect="write")
def send(to: str) -> str:
    """Send it."""
    raise ToolError("it broke off", status="broken", outcome="unknown", cause="unreachable")

@tool(effect="read")
def price(item: str) -> float:
    """The price."""
    return 1 / 0

@tool(effect="read")
def stock(item: str) -> int:
    """How many."""
    raise ToolError("the shop wants a key", status=401, cause="credential")
'''


@pytest.mark.parametrize(
    ("call", "approve", "status", "code", "title"),
    [
        ("send(to='x')", "never", "denied", 4, "not approved"),
        ("send(to='x')", "always", "in_doubt", 6, "in doubt"),
        ("price(item='x')", "never", "tool_broken", 5, "a tool is broken"),
        ("stock(item='x')", "never", "missing", 3, "something is missing"),
    ],
)
def test_each_ending_has_an_exit_code(
    call: str, approve: str, status: str, code: int, title: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(tmp_path, monkeypatch)
    (tmp_path / "broken.py").write_text(BROKEN)
    with endpoints(monkeypatch) as start:
        server = start(says(program(f"answer = {call}")))
        ran = atc("run", "do it", "-t", "broken.py", "--approve", approve, "--json")
    result = json.loads(ran.stdout)
    assert (ran.exit_code, result["status"], len(server.requests)) == (code, status, 1)
    shown = atc("runs", "show", "last").stdout
    assert f"── {title} ──\n{result['fault']['message']}\n{result['fault']['hint']}" in shown


CAUGHT = "try:\n    {0}\nexcept ToolError:\n    pass\nanswer = [2, 3]"


@pytest.mark.parametrize(
    ("call", "approve", "status", "code", "left"),
    [
        ("send(to='x')", "never", "denied", 4, "which was not done"),
        ("send(to='x')", "always", "in_doubt", 6, "which may have been done"),
        ("post(to='x')", "always", "answered", 0, "which was not done"),
        ("put(to='x')", "always", "answered", 0, "which was not done"),
        ("stock(item='x')", "never", "answered", 0, None),
    ],
)
def test_what_a_program_went_on_from_is_said_last(
    call: str, approve: str, status: str, code: int, left: str | None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(tmp_path, monkeypatch)
    refuses = '@tool(effect="write")\ndef post(to: str) -> str:\n    """Post it."""\n    raise ToolError("nobody")\n'
    refuses += (
        '@tool(effect="write")\ndef put(to: str) -> dict:\n    """Put it."""\n    return {"error": "it is full"}\n'
    )
    answers = '@tool(effect="read")\ndef one() -> int:\n    """One."""\n    return 1\n'
    (tmp_path / "broken.py").write_text(BROKEN + refuses + answers)
    text = program(CAUGHT.format(call).replace("answer =", "one()\nanswer ="))
    with endpoints(monkeypatch) as start:
        start(says(text), says(text))
        ran = atc("run", "do it", "-t", "broken.py", "--approve", approve, "--json")
        told = atc("run", "do it", "-t", "broken.py", "--approve", approve)
    result = json.loads(ran.stdout)
    found = ran.exit_code, result["status"], result["partial"], result["value"], told.exit_code
    assert found == (code, status, left is not None, [2, 3], code)
    for shown in (told.stdout, atc("runs", "show", "last").stdout):
        last = shown.strip().splitlines()[-1]
        assert "value: [2, 3]" in shown or "answered" in status
        if left is None:
            assert "note: line 2: stock(item='x') failed: the shop wants a key; the program went on without it" in shown
            assert "incomplete" not in shown
        else:
            assert last.startswith(f"incomplete: line 2: {call} ")
            assert last.endswith(f"The value rests on a run that went on without this call, {left}")

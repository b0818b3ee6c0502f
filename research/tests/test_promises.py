"""What ATC promises of every strategy holds for these: instructions, images, types, questions, refusals, dry runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atc import Agent, ApprovalRequest, FakeModel, Result, ToolError, Toolset
from atc.calls.broker import CallPolicy
from atc.result import Effect
from tests.support.agent import agent, double
from tests.support.images import JPEG, PNG
from tests.support.tools import make_tool

NUMBER, TEXT = {"type": "number"}, {"type": "string"}


def code(source: str) -> str:
    return f"```python\n{source}\n```"


def act(tool: str, **arguments: Any) -> str:
    return f"Action: {tool}\nAction Input: {json.dumps(arguments)}"


def plan(*calls: tuple[str, dict[str, Any]]) -> str:
    return json.dumps([{"tool": tool, "args": arguments} for tool, arguments in calls])


def model_of(made: Agent) -> FakeModel:
    model = made._resources.model()
    assert isinstance(model, FakeModel)
    return model


# -- what a prompt shows -----------------------------------------------------------------------------------------------

DOUBLED = {
    "codeact": [code("print(double(n=21))"), code("final_answer(42)")],
    "plan": [plan(("double", {"n": 21})), "42"],
    "react": [act("double", n=21), "Final Answer: 42"],
}


@pytest.mark.parametrize("strategy", DOUBLED)
def test_the_instructions_and_the_images_stand_with_the_task(strategy: str) -> None:
    wish, task = "our tenant is t-4711; answer in German", "double the number in the image"
    made = agent(*DOUBLED[strategy], strategy=strategy, instructions=wish)
    assert made.run(task, images=[PNG, JPEG]).value == 42
    for prompt in model_of(made).prompts:
        (with_images,) = [message for message in prompt if message.images]
        assert task in with_images.content
        assert "comes with 2 images" in with_images.content
        assert f"```text\n{wish}\n```\n\n" in with_images.content


# -- the type of an answer ---------------------------------------------------------------------------------------------


@pytest.fixture
def cities() -> Toolset:
    return Toolset([make_tool("cities", lambda _: [{"name": "Lyon"}, {"name": "Nice"}])])


def test_react_goes_on_after_an_answer_of_another_type(cities: Toolset) -> None:
    replies = ("Final Answer: many", "Final Answer: 2")
    result = agent(*replies, tools=cities, strategy="react").run("How many?", answer=int)
    assert (result.status, result.value) == ("answered", 2)
    assert agent("Final Answer: 42", tools=cities, strategy="react").run("Say it.", answer=str).value == "42"
    ended = agent(*["Final Answer: many"] * 10, tools=cities, strategy="react").run("How many?", answer=int)
    assert (ended.status, ended.fault and ended.fault.case) == ("unsolved", "answer_type")


def test_codeact_goes_on_after_an_answer_of_another_type(cities: Toolset) -> None:
    replies = (code("rows = cities()\nfinal_answer(rows)"), code("final_answer(len(rows))"))
    result = agent(*replies, tools=cities, strategy="codeact").run("How many?", answer=int)
    assert (result.status, result.value) == ("answered", 2)
    assert [revision.fault and revision.fault.case for revision in result.revisions] == ["answer_type", None]


def test_plan_plans_again_after_an_answer_of_another_type(cities: Toolset) -> None:
    calls = plan(("cities", {}))
    made = agent(calls, '"two"', calls, "2", tools=cities, strategy="plan")
    result = made.run("How many?", answer=int)
    assert (result.status, result.value) == ("answered", 2)
    assert "The answer must be of type `int`" in model_of(made).prompts[1][-1].content


# -- questions ---------------------------------------------------------------------------------------------------------


def test_the_user_is_asked() -> None:
    asks = act("ask_user", question="Which city?")
    result = agent(asks, 'Final Answer: "Rome"', strategy="react", ask_user=lambda question: "Rome").run("which?")
    assert [(call.tool, call.value) for call in result.calls] == [("ask_user", "Rome")]
    assert agent(asks, strategy="react", ask_user="stop").run("which?").question == "Which city?"
    assert agent(code("ask_user(question='Which?')"), strategy="codeact", ask_user="stop").run("a").question == "Which?"


def test_a_run_that_begins_again_does_not_ask_what_was_answered() -> None:
    asks = [act("ask_user", question=f"{which}?") for which in ("First", "Second")]
    first = agent(*asks, strategy="react", ask_user="stop").run("ask")
    second = agent(*asks).resume(first.run_id, reply="1")
    assert (first.question, second.question) == ("First?", "Second?")
    third = agent(*asks, "Final Answer: 3").resume(first.run_id, reply="2")
    assert [call.value for call in third.calls] == ["1", "2"]


# -- writes that were refused, or are in doubt -------------------------------------------------------------------------


def send(arguments: dict[str, Any]) -> str:
    if arguments["to"] == "nobody":
        raise ToolError("there is no such address", status="not_found")
    if arguments["to"] == "broken":
        raise OSError("the wire broke")
    return "sent"


POST = Toolset([
    make_tool("send", send, Effect.WRITE, required=("to",), to=TEXT),
    make_tool("count", lambda _: 42),
])  # fmt: skip


def partly(result: Result, status: str, value: Any = 42) -> bool:
    """Whether a run gave its value as a part of what was wanted, and names the write that was left undone."""
    assert result.fault is not None
    assert (result.fault.tool, result.fault.cause, bool(result.fault.hint)) == ("send", status, True)
    return (result.status, result.partial, result.value) == (status, True, value)


def posted(*replies: str, **given: Any) -> Result:
    return agent(*replies, tools=POST, policy=CallPolicy(retry_wait_s=0.001), **given).run("send it and count")


def test_steps_of_code_are_one_program_after_the_other() -> None:
    first = code("try:\n    send(to='ann')\nexcept ToolError:\n    print('refused')")
    result = posted(first, code("final_answer(count())"), strategy="codeact", approve=lambda _: False)
    assert partly(result, "denied")
    assert result.fault is not None
    assert result.fault.line == 0  # a step runs behind those before it


def test_a_call_that_failed_was_seen_and_gone_on_from() -> None:
    result = posted(act("send", to="nobody"), act("count"), "Final Answer: 42", strategy="react")
    assert (result.status, result.partial) == ("answered", True)
    assert [(fault.case, fault.tool) for fault in result.remarks] == [("failed", "send")]
    assert partly(posted(act("send", to="broken"), act("count"), "Final Answer: 42", strategy="react"), "in_doubt")


def test_a_step_whose_program_caught_a_refusal_is_the_last() -> None:
    """No later step rests on a write that was refused."""
    found = make_tool("find_room", lambda _: {"room": "r-1"}, required=("city",), city=TEXT)
    given = {"type": "string", "description": "The id, from `find_room`."}
    book = make_tool("book", lambda a: f"b-{a['room_id']}", Effect.WRITE, required=("room_id",), room_id=given)
    first = "try:\n    send(to='no one')\nexcept ToolError:\n    pass\nanswer = find_room(city='Lyon')"
    replies = [code(first), code("answer = book(room_id=step1['room'])")]

    def approve(request: ApprovalRequest) -> bool:
        return request.tool == "book"

    made = agent(
        *replies, tools=Toolset([found, book, *POST.values()]), strategy="layered", check=False, approve=approve
    )
    result = made.run("Book a room in Lyon.")
    assert (result.status, result.partial, result.value) == ("denied", True, None)
    assert [call.tool for call in result.calls] == ["send", "find_room"]


# -- responses that cannot be had --------------------------------------------------------------------------------------

LARGE = Toolset([make_tool("fetch", lambda _: "x" * 3_000_000, Effect.WRITE)])


def test_a_plan_cannot_refer_to_a_response_that_cannot_be_had() -> None:
    steps = plan(("fetch", {}), ("fetch", {"n": "$1"}))
    result = agent(steps, tools=LARGE, strategy="plan", max_revisions=0).run("fetch it")
    assert (result.status, len(result.calls)) == ("unsolved", 1)
    assert result.fault is not None
    assert "it was done, and the response has" in result.fault.reason


def test_react_is_shown_why_there_is_no_response() -> None:
    made = agent(act("fetch"), "Final Answer: done", tools=LARGE, strategy="react")
    made.run("fetch it")
    assert "it was done, and the response has" in model_of(made).prompts[1][-1].content


# -- a tool that breaks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["react", "codeact", "plan"])
def test_a_tool_that_breaks_is_said_to_be_down_with_what_gives_the_same(strategy: str) -> None:
    def breaks(arguments: dict[str, Any]) -> Any:
        raise ToolError("KeyError", cause="broken")

    def record(**fields: Any) -> dict[str, Any]:
        return {"type": "object", "properties": fields, "required": list(fields)}

    current = {"current": {"temperature": 3, "wind": {"speed_mph": 1}}}
    wind = record(speed_mph={**NUMBER, "description": "Wind"})
    tools = Toolset([
        make_tool(
            "weather_a", breaks, returns=record(temperature=NUMBER, wind_kmh=NUMBER), required=("city",), city=TEXT
        ),
        make_tool(
            "weather_b", lambda _: current, returns=record(current=record(temperature=NUMBER, wind=wind)),
            required=("city_name",), city_name=TEXT,
        ),
    ])  # fmt: skip
    a, b = ("weather_a", {"city": "Lyon"}), ("weather_b", {"city_name": "Lyon"})
    replies = {
        "react": [act(a[0], **a[1]), act(b[0], **b[1]), "Final Answer: 3"],
        "plan": [plan(a), plan(b), "3"],
        "codeact": [
            code("final_answer(weather_a(city='Lyon')['temperature'])"),
            code("final_answer(weather_b(city_name='Lyon')['current']['temperature'])"),
        ],
    }[strategy]
    made = agent(*replies, tools=tools, strategy=strategy, policy=CallPolicy(retry_wait_s=0.001, call_timeout_s=0.2))
    result = made.run("How warm is it in Lyon?")
    assert (result.status, result.value) == ("answered", 3)
    assert any("weather_a is down" in message.content for message in model_of(made).prompts[1])


# -- dry runs, and where an argument came from -------------------------------------------------------------------------

ORDERS = {"orders": [{"id": "o17", "total": 30}, {"id": "o18", "total": 45}]}
CANCEL = ("cancel", {"order": "$1.orders[0].id"})
CANCELLED = {
    "react": [act("find_orders"), act("cancel", order="o17", why="o17")],
    "plan": [plan(("find_orders", {}), CANCEL, ("find_orders", {}), CANCEL)],
    "codeact": [code("found = find_orders()"), code('cancel(order=found["orders"][0]["id"])')],
}


@pytest.mark.parametrize("strategy", CANCELLED)
def test_a_dry_run_ends_with_what_was_planned(strategy: str) -> None:
    done: list[Any] = []
    tools = Toolset([
        make_tool("find_orders", lambda _: ORDERS),
        make_tool("cancel", done.append, Effect.WRITE, required=("order",), order=TEXT, why=TEXT),
    ])  # fmt: skip
    result = agent(*CANCELLED[strategy], tools=tools, rules="none", strategy=strategy).run("cancel one", dry_run=True)
    assert (result.status, [call.arguments["order"] for call in result.planned], done) == ("planned", ["o17"], [])
    assert result.dry_run is not None
    (order, *_) = result.dry_run.planned[0].feeds
    found = (order.kind, order.argument, order.tool, order.path)
    assert found == ("same", "order", "find_orders", ("orders", 0, "id"))
    assert (result.dry_run.stop is None) == (strategy == "codeact")


def test_a_call_without_a_program_names_equal_values_alone() -> None:
    requests: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    tools = Toolset([
        make_tool("list_products", lambda _: {"items": [{"id": 5, "name": "Bread", "stock": 30}]}),
        make_tool("change_stock", lambda _: {}, Effect.WRITE, product_id={"type": "integer"}),
    ])  # fmt: skip
    calls = plan(("list_products", {}), ("change_stock", {"product_id": 30}))
    agent(calls, tools=tools, strategy="plan", approve=approve).run("Add 12 to each product")
    (feed,) = requests[0].feeds
    assert (feed.kind, feed.path, feed.row) == ("same", ("items", 0, "stock"), {"id": 5, "name": "Bread"})


# -- what the chain has ------------------------------------------------------------------------------------------------


def test_one_layer_is_the_chain_and_its_programs_may_look() -> None:
    made = agent(code("answer = double(n=21)"), tools=[double], strategy="layered", max_revisions=0)
    assert made.run("double 21").value == 42
    assert "`look(found=found)` ends the program" in model_of(made).prompts[0][-1].content

"""What of a tool's response comes back from the broker: plain JSON of bounded size, and no secret."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc import wording
from atc.calls.contract import CallReply
from atc.calls.redact import Redactor
from atc.errors import ToolError
from atc.facts import Drift
from tests.support.broker import WRITE, House, counted, never
from tests.support.tools import make_tool

# -- responses -------------------------------------------------------------------------------------------------------


def test_a_long_text_is_cut_and_a_large_structure_refused() -> None:
    tools = [make_tool("text", lambda _: "ü" * 1000), make_tool("listing", lambda _: ["x" * 10] * 100)]
    house = House(*tools, response_bytes=500)
    cut = house.call("text", n=1).value
    assert cut == "ü" * 250 + " … [cut: it has 2,002 bytes]"
    assert house.last.notes == ("the response was cut from 2,002 bytes",)
    reply = house.call("listing", n=1)
    assert reply.status == "too_large"
    assert "over the limit of 500: ask for less" in str(reply.error)


@pytest.mark.parametrize("response", [["x"] * 1000, float("nan"), {1, 2}, object(), "huge", "deep"])
def test_an_effect_whose_response_cannot_be_used_is_still_done(response: Any) -> None:
    if response == "huge":
        response = 10**5000
    if response == "deep":
        for _ in range(200):
            response = [response]
    house = House(
        make_tool("book", lambda _: response, WRITE), make_tool("look", lambda _: response), response_bytes=500
    )
    assert house.call("book", n=1) == CallReply(value=None)
    assert house.last.status == "ok"
    assert "it was done" in house.last.notes[0]
    house.journal.begin_attempt()
    house.call("book", n=1)
    assert house.last.status == "replayed"
    assert house.call("look", n=1).status in ("too_large", "bad_response")
    assert house.last.status == "failed"


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ({1: (2, 3)}, {"1": [2, 3]}),
        ("half \ud83d", "half ?"),
        (None, None),
        (2**60, 2**60),
        ({"a": [None, True, 1.5]}, {"a": [None, True, 1.5]}),
    ],
)
def test_a_response_is_plain_json(response: Any, value: Any) -> None:
    house = House(make_tool("look", lambda _: response))
    assert house.call("look", n=1).value == value
    assert house.last.value == value


def test_a_response_that_differs_from_its_schema_is_noted_and_kept() -> None:
    returns = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    house = House(make_tool("look", lambda _: {"n": "one"}, returns=returns))
    assert house.call("look", n=1).value == {"n": "one"}
    assert house.last.status == "ok"
    assert house.last.drift == (Drift(path=("n",), what='"one" is not of type "integer"'),)
    assert wording.drifted(house.last.drift[0]) == (
        'response differs from its schema: $.n: "one" is not of type "integer"'
    )
    assert house.last.notes == ()


@pytest.mark.parametrize(
    "wrong", [RuntimeError("bug"), OSError(5, "I/O"), KeyError("x"), asyncio.CancelledError(), RecursionError("deep")]
)
def test_whatever_a_transport_raises_is_the_tools_failure(wrong: BaseException) -> None:
    def raises(_: Any) -> Any:
        raise wrong

    house = House(make_tool("look", raises), make_tool("book", raises, WRITE))
    assert house.call("look", n=1).error is not None
    assert house.last.status == "failed"
    assert house.call("book", n=1).error is not None
    assert house.last.status == "in_doubt"


@pytest.mark.parametrize("status", [404.5, ["x"], True, "w" * 500])
def test_an_odd_status_of_a_users_tool_is_taken_as_text(status: Any) -> None:
    _, function = counted(ToolError({"not": "text"}, status=status))  # type: ignore[arg-type]
    reply = House(make_tool("look", function)).call("look", n=1)
    assert reply.error == "{'not': 'text'}"
    assert isinstance(reply.status, str)
    assert len(reply.status) <= 100


# -- secrets ---------------------------------------------------------------------------------------------------------


SECRET = 'sk-"very"/secret 1'
SPELLINGS = [SECRET, 'sk-\\"very\\"/secret 1', "sk-%22very%22%2Fsecret%201", "sk-%22very%22%2Fsecret+1"]


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_secret_leaves_the_broker_nowhere(spelled: str) -> None:
    tools = [
        make_tool("look", lambda _: {"token": f"<{spelled}>", spelled: [spelled]}, any={}),
        make_tool("fails", counted(ToolError(f"401 for {spelled}", status=f"{spelled}"))[1], any={}),
        make_tool("book", lambda _: spelled, WRITE, any={}),
        make_tool("typed", never, any={"type": "integer"}),
    ]
    house = House(*tools, secrets=(SECRET,))
    replies = [house.call(tool.name, any=f"x {spelled}") for tool in tools] + [house.call(f"no {spelled}")]
    told = repr([replies, house.events, house.broker.calls, house.journal.entries])
    assert spelled not in told
    assert SECRET not in told
    assert replies[0].value == {"token": "<[secret]>", "[secret]": ["[secret]"]}
    assert replies[1].error == "401 for [secret]"


def test_what_the_environment_calls_a_secret_is_one() -> None:
    names = [
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "PGPASSWORD",
        "DB_PASS",
        "GITLAB_PAT",
        "MY_PWD",
        "ATC_AUTH_petstore",
        "apikey",
        "SSH_KEYS",
        "CLIENT_SECRETS",
    ]
    for name in names:
        assert Redactor((), {name: "hunter2hunter2"}).text("a hunter2hunter2 b") == "a [secret] b", name
    for name in ["PWD", "OLDPWD", "KEYBOARD", "TOKENIZERS_PARALLELISM", "MONKEY", "PATH", "PASSAGE"]:
        assert Redactor((), {name: "hunter2hunter2"}).text("a hunter2hunter2 b") == "a hunter2hunter2 b", name


def test_a_short_value_is_no_secret() -> None:
    assert Redactor(["demo"], {"X_TOKEN": "true"}).value({"demo": "true"}) == {"demo": "true"}

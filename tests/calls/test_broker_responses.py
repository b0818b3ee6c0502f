"""What of a tool's response comes back from the broker: plain JSON of bounded size, and no secret."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from atc import wording
from atc._host.redaction import Redactor
from atc._records.records import Drift
from atc.calls.contract import CallReply
from atc.calls.entry import Unread, call_key
from atc.calls.journal import Journal
from atc.errors import JournalError, ToolError
from tests.support.broker import READ, UNKNOWN, WRITE, House, counted, never
from tests.support.tools import make_tool

# -- responses -------------------------------------------------------------------------------------------------------


LARGE = {"text": ("ü" * 1000, "2,002"), "list": (["x" * 10] * 100, "1,400"), "bytes": (b"x" * 900, "1,214")}


@pytest.mark.parametrize("kind", LARGE)
def test_a_response_over_the_limit_is_refused_whatever_it_is(kind: str) -> None:
    response, size = LARGE[kind]
    house = House(make_tool("look", lambda _: response), response_bytes=500)
    said = f"the response has {size} bytes, over the limit of 500: ask for less"
    assert house.call("look", n=1) == CallReply(error=said, status="too_large")
    assert (house.last.status, house.last.value, house.last.notes) == ("failed", None, ())


@pytest.mark.parametrize("effect", [WRITE, UNKNOWN])
@pytest.mark.parametrize("kind", LARGE)
def test_an_effect_with_such_a_response_is_done_and_its_value_says_so(kind: str, effect: Any) -> None:
    response, size = LARGE[kind]
    seen, function = counted(response)
    house = House(make_tool("book", function, effect, returns={"type": "string"}), response_bytes=500)
    said = f"it was done, and the response has {size} bytes, over the limit of 500: ask for less"
    for status in ("ok", "replayed"):
        assert house.call("book", n=1) == CallReply(error=said, status="too_large", done=True)
        assert (house.last.status, house.last.succeeded, house.last.error) == (status, True, said)
        assert (house.last.value, house.last.observation, house.last.drift) == (None, said, ())
        house.journal.begin_attempt()
    assert len(seen) == 1


def test_a_journal_that_is_read_back_knows_why_there_is_no_response(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.begin_attempt()
    entry = journal.begin(1, call_key("book", {}), {}, WRITE)
    journal.succeed(entry, None, unread=Unread("it was done, and …", "too_large"))
    journal.close()
    again = Journal(tmp_path / "journal")
    again.begin_attempt()
    found = again.claim(call_key("book", {}))
    assert found is not None
    assert (found.state, found.unread) == ("done", Unread("it was done, and …", "too_large"))
    again.close()


@pytest.mark.parametrize("wrong", ["text", ["one"], ["a", 2], {}])
def test_a_journal_that_says_something_else_there_is_refused(wrong: Any, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.begin_attempt()
    journal.succeed(journal.begin(1, call_key("look", {}), {}, READ), None)
    journal.close()
    first, last = path.read_text().splitlines()
    path.write_text(f"{first}\n{json.dumps(json.loads(last) | {'unread': wrong})}\n")
    with pytest.raises(JournalError):
        Journal(path)


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
    for status in ("ok", "replayed"):
        reply = house.call("book", n=1)
        assert (reply.value, reply.done, house.last.status) == (None, True, status)
        assert str(reply.error).startswith("it was done, and ")
        house.journal.begin_attempt()
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
    "wrong",
    [
        RuntimeError("bug"), OSError(5, "I/O"), KeyError("x"), asyncio.CancelledError(), RecursionError("deep"),
        KeyboardInterrupt(), SystemExit(3), GeneratorExit(), BaseExceptionGroup("", [SystemExit()]),
    ],
)  # fmt: skip
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

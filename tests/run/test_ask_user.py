"""A program may ask the user: within the broker's gates, never twice, and for as long as the user takes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from atc import Agent, Result, Toolset, UsageError
from atc.calls import question
from atc.errors import InputNeeded
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.run.ask_user import MAX_QUESTIONS
from tests.support.agent import agent, code, double
from tests.support.few import few
from tests.support.tools import make_tool

CITY = "```python\ncity = ask_user(question='Which city?')\nanswer = [double(n=2), city]\n```"


class User:
    """Answers what was prepared, and remembers what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    def __call__(self, question: str) -> Any:
        self.asked.append(question)
        found = self._answers.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found


def kinds(made: Agent) -> list[str]:
    return [event["kind"] for event in made.store.find("last").events()]


# -- asked and answered -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [True, False])
def test_the_users_words_are_the_calls_value(sync: bool) -> None:
    user = User("Rome")

    async def later(question: str) -> Any:
        await asyncio.sleep(0)
        return user(question)

    made = agent(CITY, ask_user=user if sync else later)
    result = made.run("double it")
    assert (result.status, result.value, user.asked) == ("answered", [4, "Rome"], ["Which city?"])
    asked = next(call for call in result.calls if call.tool == "ask_user")
    assert (asked.status, asked.effect, asked.value) == ("ok", Effect.READ, "Rome")
    assert result.question is None
    (event,) = (e for e in made.store.find("last").events() if e["kind"] == "question_asked")
    assert event["data"] == {"question": "Which city?", "number": 1}


def test_a_revision_gets_the_same_answer_unasked() -> None:
    user = User("Rome")
    broken = code("city = ask_user(question='Which city?')\nanswer = [1][double(n=2)]")
    result = agent(broken, CITY, ask_user=user).run("double it")
    assert (result.value, user.asked) == ([4, "Rome"], ["Which city?"])
    assert [call.status for call in result.calls if call.tool == "ask_user"] == ["ok", "replayed"]


def test_it_is_asked_while_both_clocks_stand_still() -> None:
    async def slow(question: str) -> str:
        await asyncio.sleep(0.6)
        return "Rome"

    result = agent(CITY, ask_user=slow, call_timeout_s=0.3, wall_s=0.5).run("double it")
    assert result.value == [4, "Rome"]


def test_the_runs_own_budget_goes_on() -> None:
    async def never(question: str) -> str:
        await asyncio.Event().wait()
        return ""

    result = agent(CITY, ask_user=never, budget_s=0.5).run("double it")
    assert result.status == "budget"


@pytest.mark.parametrize("answer", [" ", 7, "x" * (question.MAX_REPLY + 1), ValueError("api_key=hunter2hunter2")])
def test_a_user_who_cannot_answer_is_an_error_that_a_program_may_catch(answer: Any) -> None:
    source = (
        "try:\n    city = ask_user(question='Which city?')\nexcept ToolError:\n    city = 'none'\n"
        "answer = [double(n=2), city]"
    )
    result = agent(code(source), ask_user=User(answer)).run("double it")
    assert (result.status, result.value) == ("answered", [4, "none"])
    (call,) = (call for call in result.calls if call.tool == "ask_user")
    assert call.status == "failed"
    assert "hunter2" not in (call.error or "")


def test_an_answer_that_nobody_has_is_the_fault_of_a_program_that_goes_on_without() -> None:
    result = agent(CITY, ask_user=User(None), max_revisions=0).run("double it")
    assert result.fault is not None
    assert (result.status, result.fault.tool) == ("unsolved", "ask_user")


def test_an_answer_may_rest_on_the_users_words_and_holds_no_made_up_id() -> None:
    result = agent(code("answer = double(n=int(ask_user(question='How many?')))"), ask_user=User("21")).run("double")
    assert result.value == 42


# -- where it is offered ----------------------------------------------------------------------------------------------


def prompts(**settings: Any) -> list[list[str]]:
    model = FakeModel(["```python\nanswer = double(n=21)\n```"])
    Agent([double], model=model, sentence=False, **settings).run("double 21")
    return [[message.content for message in messages] for messages in model.prompts]


def test_prompts_are_the_same_byte_for_byte_where_it_is_not_wanted() -> None:
    plain, wanted = prompts(), prompts(ask_user="stop")
    assert plain == prompts(ask_user="never")
    assert "ask_user" not in json.dumps(plain)
    assert "def ask_user(question: str) -> str:" in wanted[0][-1]
    assert wanted[0][:-1] == plain[0][:-1]
    before, _, rest = wanted[0][-1].partition("def ask_user(")
    assert plain[0][-1].startswith(before.rstrip())
    assert plain[0][-1].endswith(rest.split('"""', 2)[2].lstrip())


def test_beside_many_tools_it_is_always_offered_and_never_found(monkeypatch: pytest.MonkeyPatch) -> None:
    many = Toolset([make_tool(f"weather_{n}", lambda _: 1) for n in range(30)])
    model = FakeModel([code("answer = [weather_1(n=1), ask_user(question='Which?')]")])
    made = Agent(many, model=model, sentence=False, **few(monkeypatch, 4), ask_user=User("both"))
    result = made.run("which weather_1?")
    assert result.value == [1, "both"]
    chosen = made.store.find("last").first("tools_chosen")
    assert chosen is not None
    assert "ask_user" not in chosen["tools"]
    assert "def find_tools(" in model.prompts[0][-1].content


def test_wrong_use_is_named() -> None:
    with pytest.raises(UsageError, match="ask_user takes 'never', 'ask', 'stop' or a function, not 'always'"):
        agent(ask_user="always")
    taken = Toolset([make_tool("ask_user", lambda _: 1)])
    with pytest.raises(UsageError, match="a tool is named 'ask_user'"):
        agent(tools=taken, ask_user="stop")
    assert agent(code("answer = ask_user()"), tools=taken).run("a").value == 1


# -- nobody is there ---------------------------------------------------------------------------------------------------


class Desk:
    """Books, once."""

    def __init__(self) -> None:
        self.booked: list[Any] = []
        self.tools = Toolset([make_tool("book", self._book, Effect.WRITE)])

    def _book(self, arguments: dict[str, Any]) -> Any:
        self.booked.append(arguments["n"])
        return {"id": arguments["n"]}

    def agent(self, *replies: str, **settings: Any) -> Agent:
        return agent(*replies, tools=self.tools, **settings)


BOOK = code(
    "first = book(n=1)\nday = ask_user(question=' Which day? ')\nanswer = [first['id'], book(n=int(day))['id']]"
)


@pytest.mark.parametrize("ask", ["ask", "stop"])
def test_a_run_that_nobody_answers_stops_and_goes_on_with_the_reply(ask: Any) -> None:
    desk = Desk()
    result = desk.agent(BOOK, ask_user=ask).run("book two")
    assert (result.status, result.question, result.value, desk.booked) == ("needs_input", "Which day?", None, [1])
    assert result.fault is not None
    assert result.run_id in result.fault.hint
    assert result.program
    assert result.in_doubt == ()
    again = desk.agent().resume(result.run_id)
    assert (again.status, again.question, desk.booked) == ("needs_input", "Which day?", [1])
    done = desk.agent().resume(result.run_id, reply=" 7 ")
    assert (done.status, done.value, desk.booked) == ("answered", [1, 7], [1, 7])
    assert [call.status for call in done.calls] == ["replayed", "ok", "ok"]
    assert Result.model_validate_json(result.model_dump_json()).question == "Which day?"


def test_a_program_cannot_catch_that_nobody_is_there() -> None:
    desk = Desk()
    source = "try:\n    ask_user(question='Shall I?')\nexcept BaseException:\n    pass\nanswer = book(n=1)"
    assert desk.agent(code(source), ask_user="stop").run("book").status == "needs_input"
    assert desk.booked == []


@pytest.mark.slow
def test_an_answer_is_kept_where_a_later_question_stops_the_run() -> None:
    two = code("a = ask_user(question='First?')\nb = ask_user(question='Second?')\nanswer = [a, b, double(n=1)]")
    made = agent(two, ask_user="stop")
    first = made.run("ask twice")
    second = agent().resume(first.run_id, reply="1")
    assert (second.question, agent().resume(first.run_id, reply="2").value) == ("Second?", ["1", "2", 2])
    user = User("3")
    third = agent(two, ask_user="stop").run("ask twice")
    agent().resume(third.run_id, reply="1")
    assert agent(ask_user=user).resume(third.run_id).value == ["1", "3", 2]
    assert user.asked == ["Second?"], "the first was answered before"


def test_a_reply_must_fit_what_was_asked() -> None:
    answered = agent("```python\nanswer = double(n=21)\n```").run("double 21")
    with pytest.raises(UsageError, match="ended with an answer"):
        agent().resume(answered.run_id, reply="1")
    failed = agent("none", max_revisions=0).run("double 21")
    with pytest.raises(UsageError, match="has asked nothing"):
        agent().resume(failed.run_id, reply="1")
    asked = agent(CITY, ask_user="stop").run("double 21")
    for reply in ("", "  ", 7, "x" * (question.MAX_REPLY + 1)):
        with pytest.raises(UsageError, match="reply"):
            agent().resume(asked.run_id, reply=reply)  # type: ignore[arg-type]


def test_a_run_that_is_not_kept_says_nothing_of_a_resume() -> None:
    result = agent(CITY, ask_user="stop", keep_runs=False).run("double it")
    assert result.fault is not None
    assert (result.status, result.fault.hint) == ("needs_input", "")


def test_a_conversation_goes_on_with_the_answer_as_its_next_task() -> None:
    model = FakeModel([CITY, code("answer = double(n=3)")])
    with Agent([double], model=model, sentence=False, ask_user="stop", approve="always").conversation() as talk:
        first = talk.run("double it")
        assert (first.status, first.question) == ("needs_input", "Which city?")
        assert talk.run("Rome").value == 6
    assert "the program asks the user: 'Which city?'" in model.prompts[1][-1].content


def test_a_stream_tells_of_the_question() -> None:
    async def events() -> list[str]:
        return [event.kind async for event in agent(CITY, ask_user=User("Rome")).stream("double it")]

    found = asyncio.run(events())
    assert found.index("call_started") < found.index("question_asked") < found.index("run_ended")


# -- attacks ----------------------------------------------------------------------------------------------------------


def test_a_flood_of_questions_is_bounded() -> None:
    user = User(*["no"] * 100)
    source = (
        "refused = 0\nfor n in range(40):\n    try:\n        ask_user(question=f'Now? {n}')\n"
        "    except ToolError as error:\n        refused += error.status == 'too_many_questions'\n"
        "answer = [refused, double(n=1)]"
    )
    result = agent(code(source), ask_user=user).run("ask")
    assert (len(user.asked), result.value) == (MAX_QUESTIONS, [40 - MAX_QUESTIONS, 2])


@pytest.mark.parametrize("question", ["'x' * 1_000_000", "''", "'  '", "None", "['a', 'b']"])
def test_a_question_that_is_none_or_too_long_reaches_nobody(question: str) -> None:
    user = User()
    source = (
        f"asked = {question}\ntry:\n    ask_user(question=asked)\nexcept ToolError as error:\n"
        "    answer = [double(n=1), 'refused']"
    )
    made = agent(code(source), ask_user=user, check=False)
    assert (made.run("ask").value, user.asked) == ([2, "refused"], [])
    assert made.store.find("last").trace.stat().st_size < 100_000


def test_a_transport_of_the_users_own_cannot_end_a_run_as_a_question() -> None:
    def pretends() -> int:
        raise InputNeeded("your password?")

    result = agent(code("answer = pretends()"), tools=[pretends], max_revisions=0).run("a")
    assert result.status != "needs_input"

"""A refusal stays a refusal: what a program caught and went on from decides how its run ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest

from atc import Agent, Ending, FakeModel, Result, Run, RunFailed, Strategy, ToolError, Toolset, tool
from atc._records.records import Replacement
from atc.calls.approval import ApprovalRequest
from atc.calls.broker import CallPolicy
from atc.result import Effect
from atc.run.left_undone import refused_write
from atc.wording import outcomes
from tests.support.agent import code, ended
from tests.support.permissions import file_of
from tests.support.tools import make_tool

TEXT = {"type": "string"}
CAUGHT = "try:\n    send(to='{0}')\nexcept ToolError:\n    pass\nanswer = count(what='mails')"


class Post:
    """Mails that are sent: to nobody, by a wire that breaks, or well."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.asked: list[str] = []

    def send(self, arguments: dict[str, Any]) -> Any:
        to = arguments["to"]
        if to == "nobody":
            raise ToolError("there is no such address", status="not_found")
        self.sent.append(to)
        if to.startswith("full"):
            return {"error": f"the box of {to} is full"}
        if to == "broken":
            raise OSError("the wire broke")
        return f"sent to {to}"

    def approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(str(request.arguments["to"]))
        return not str(request.arguments["to"]).startswith("no ")

    def tools(self) -> Toolset:
        def count(arguments: dict[str, Any]) -> int:
            if arguments["what"] == "stars":
                raise ToolError("too many", status="not_found")
            return 42

        return Toolset(
            [
                make_tool("send", self.send, Effect.WRITE, required=("to",), to=TEXT),
                make_tool("count", count, required=("what",), what=TEXT),
            ]
        )

    def run(self, *programs: str, **given: Any) -> Result:
        return self.agent(*programs, **given).run("send it and count")

    def agent(self, *programs: str, **given: Any) -> Agent:
        wanted: dict[str, Any] = {"approve": self.approve, "sentence": False, "policy": CallPolicy(retry_wait_s=0.001)}
        return Agent(self.tools(), model=FakeModel([code(each) for each in programs]), **{**wanted, **given})


@pytest.fixture
def post() -> Post:
    return Post()


def is_partial(result: Result, status: str, value: Any = 42) -> None:
    assert (result.status, result.partial, result.value, result.answer) == (status, True, value, "")
    assert result.fault is not None
    assert (result.fault.tool, result.fault.cause) == ("send", status)
    named = next(call for call in result.calls if call.index == result.fault.call)
    assert named.tool == "send"
    assert named.status in ("refused", "in_doubt")
    assert result.fault.hint
    with pytest.raises(RunFailed, match=f"ended as {status}"):
        result.unwrap()
    read_back = Result.model_validate_json(result.model_dump_json())
    assert (read_back.partial, read_back.value, read_back.fault) == (True, value, result.fault)


@pytest.mark.parametrize(("to", "status"), [("no one", "denied"), ("broken", "in_doubt")])
def test_a_settled_write_that_was_not_done_is_no_answer(post: Post, to: str, status: str) -> None:
    sends = f"got = parallel(lambda: send(to='a'), lambda: send(to='{to}'), settle=True)\n"
    result = post.run(sends + "answer = [each for each in got if not isinstance(each, Exception)]")
    is_partial(result, status, ["sent to a"])
    assert [call.status for call in result.calls] == ["ok", "refused" if status == "denied" else "in_doubt"]


@pytest.mark.parametrize("uses", ["answer = got", "answer = [each['id'] for each in got[1:]]"])
def test_a_settled_refusal_ends_the_run_where_its_error_is_taken_for_a_value(post: Post, uses: str) -> None:
    result = post.run(f"got = parallel(lambda: count(what='mails'), lambda: send(to='no one'), settle=True)\n{uses}")
    assert (result.status, result.value, result.partial) == ("denied", None, False)
    assert result.fault is not None
    assert (result.fault.tool, result.fault.cause) == ("send", "denied")


# -- a write that was refused, or is in doubt -------------------------------------------------------------------------


def test_a_refusal_that_a_program_caught_ends_the_run_as_denied(post: Post) -> None:
    result = post.run(CAUGHT.format("no one"))
    is_partial(result, "denied")
    assert result.fault is not None
    assert (result.fault.line, result.fault.source_line.strip()) == (2, "send(to='no one')")
    assert (len(result.revisions), result.usage.model_calls, post.sent) == (1, 1, [])
    assert {name: ended(result)[name] for name in ("status", "partial", "value")} == {
        "status": "denied",
        "partial": True,
        "value": 42,
    }


RULES = """
[[rules]]
deny = "send"
arguments = { to = "A*" }
[[rules]]
deny = "count"
arguments = { what = "secrets" }
"""


def test_a_rule_that_denies_it_is_a_refusal_too(post: Post, tmp_path: Path) -> None:
    given: dict[str, Any] = {"permissions": file_of(tmp_path, RULES), "approve": "always"}
    is_partial(post.run(CAUGHT.format("Ann"), **given), "denied")
    assert post.sent == []
    text = "try:\n    count(what='secrets')\nexcept ToolError:\n    pass\nanswer = count(what='mails')"
    assert remarked(post.run(text, **given), partial=False) == ["count"]  # a read that was denied is one that failed


def test_an_answer_that_only_says_what_was_refused_is_kept(post: Post) -> None:
    result = post.run("try:\n    answer = send(to='no one')\nexcept ToolError as error:\n    answer = error.status")
    is_partial(result, "denied", "denied")


def test_a_write_in_doubt_that_a_program_caught_ends_the_run_as_in_doubt(post: Post) -> None:
    result = post.run(CAUGHT.format("broken"))
    is_partial(result, "in_doubt")
    assert [call.arguments for call in result.in_doubt] == [{"to": "broken"}]


@pytest.mark.parametrize(
    ("end", "left"),
    [
        ("if count(what='mails') > 99:\n    answer = 1", "the program ended without setting `answer`"),
        ("answer = [][0]", "line 5: IndexError: list index out of range (it is empty)"),
    ],
)
def test_a_write_in_doubt_is_told_where_there_is_no_answer(post: Post, end: str, left: str) -> None:
    program = f"try:\n    send(to='broken')\nexcept ToolError:\n    pass\n{end}"
    with post.agent(program, program, max_revisions=1) as agent:
        given, written = agent.run_program(program), agent.run("send it and count")
    for result in (given, written):
        assert (result.status, result.value, result.partial) == ("in_doubt", None, False)
        assert result.fault is not None
        assert (result.fault.tool, result.fault.cause, result.fault.line) == ("send", "in_doubt", 2)
        (remark,) = result.remarks
        assert outcomes.remark(remark.message, remark.case).endswith(left)


ALIKE = """for tool, to in ((send, 'broken'), (send, 'broken'), (send_mail, 'Ann'), (send_mail, 'Bob')):
    try:
        tool(to=to)
    except ToolError:
        pass
"""


@pytest.mark.parametrize("end", ["answer = count(what='mails')", "answer = [][0]"])
def test_a_write_that_was_refused_beside_one_in_doubt_is_told(post: Post, end: str) -> None:
    sent = {"ok": {"type": "boolean"}}
    pair = [
        make_tool(n, post.send, Effect.WRITE, returns={"type": "object", "properties": sent}, required=("to",), to=TEXT)
        for n in ("send", "send_mail")
    ]
    model = FakeModel([code(ALIKE + end)])
    tools = Toolset([*pair, post.tools()["count"]])
    with Agent(tools, model=model, approve="always", sentence=False, max_revisions=0) as agent:
        result = agent.run("send it and count")
    assert (post.sent, [call.arguments["to"] for call in result.in_doubt]) == (["broken"], ["broken"])
    assert [(each.tool, each.arguments["to"]) for each in result.not_done] == [
        ("send_mail", "Ann"),
        ("send_mail", "Bob"),
    ]
    assert "not done: send_mail(to='Ann')" in outcomes.effects(result.done, result.not_done[:1], in_doubt=True)
    if result.partial:
        assert [each.invocation and each.invocation.arguments["to"] for each in result.remarks] == [
            "Ann"
        ]  # the first of those alike


def test_in_doubt_outranks_denied(post: Post) -> None:
    text = (
        "for to in ['no one', 'broken', 'Ann']:\n    try:\n        send(to=to)\n    except ToolError:\n        pass\n"
    )
    result = post.run(f"{text}answer = count(what='mails')")
    is_partial(result, "in_doubt")
    assert post.sent == ["broken", "Ann"]


def test_calls_that_go_out_together_are_each_looked_at(post: Post) -> None:
    text = """def to(name):
    try:
        return send(to=name)
    except ToolError:
        return None
answer = parallel(lambda: to('Ann'), lambda: to('no one'), lambda: to('Bo'))"""
    is_partial(post.run(text), "denied", ["sent to Ann", None, "sent to Bo"])


def test_a_refusal_is_not_made_good_by_another_write(post: Post) -> None:
    text = "try:\n    answer = send(to='no one')\nexcept ToolError:\n    answer = send(to='Ann')"
    is_partial(post.run(text), "denied", "sent to Ann")


def test_a_value_that_is_kept_has_the_type_that_was_asked_for(post: Post) -> None:
    assert post.run(CAUGHT.format("no one"), answer=float).value == 42.0
    told = "try:\n    answer = send(to='no one')\nexcept ToolError as error:\n    answer = error.status"
    result = post.run(told, answer=int)
    assert (result.status, result.partial, result.value) == ("denied", True, None)


def test_nothing_is_put_into_words_after_a_refusal(post: Post) -> None:
    result = post.run(CAUGHT.format("no one"), sentence=True)
    assert (result.status, result.usage.model_calls) == ("denied", 1)


# -- revisions, stages and requests ------------------------------------------------------------------------------------


def test_after_a_refusal_a_program_that_fails_is_revised_as_ever(post: Post) -> None:
    fails = f"{CAUGHT.format('no one')}\nanswer = [][answer]"
    is_partial(post.run(fails, CAUGHT.format("no one")), "denied")


def test_a_refusal_of_a_revised_program_stays_one_unless_the_tool_was_called_since(post: Post) -> None:
    fails = f"{CAUGHT.format('no one')}\nanswer = [][answer]"
    is_partial(post.run(fails, "answer = count(what='mails')"), "denied")
    result = post.run(fails, "send(to='Ann')\nanswer = count(what='mails')")
    assert (result.status, result.partial, post.sent) == ("answered", False, ["Ann"])


def test_a_write_in_doubt_of_a_revised_program_stays_in_doubt(post: Post) -> None:
    fails = f"{CAUGHT.format('broken')}\nanswer = [][answer]"
    is_partial(post.run(fails, "answer = count(what='mails')"), "in_doubt")


def test_a_failure_of_a_revised_program_is_forgotten(post: Post) -> None:
    result = post.run("answer = send(to='nobody')", "answer = count(what='mails')")
    assert (result.status, result.partial, result.remarks) == ("answered", False, ())


def test_what_the_journal_answers_is_done(post: Post) -> None:
    text = "send(to='Ann')\nanswer = count(what='mails')"
    result = post.run(f"{text}\nanswer = [][answer]", text)
    assert (result.status, result.partial, post.sent) == ("answered", False, ["Ann"])
    assert [call.status for call in result.calls] == ["ok", "ok", "replayed", "replayed"]


def test_a_resumed_run_keeps_a_no_and_asks_again_where_nobody_could_be_asked(post: Post) -> None:
    made = post.agent(CAUGHT.format("no one"))
    is_partial(made.run("send it"), "denied")
    is_partial(made.resume("last"), "denied")
    is_partial(post.agent(approve="always").resume("last"), "denied")
    assert (post.asked, post.sent) == (["no one"], [])
    nobody = post.agent(CAUGHT.format("Ann"), approve="never").run("send it")
    is_partial(nobody, "denied")
    again = post.agent(approve="always").resume(nobody.run_id)
    assert (again.status, again.partial, again.value, post.sent) == ("answered", False, 42, ["Ann"])


def test_a_task_of_a_conversation_answers_for_itself_alone(post: Post) -> None:
    agent = post.agent(CAUGHT.format("broken"), "answer = count(what='mails')", CAUGHT.format("broken"))
    talk = agent.conversation()
    is_partial(talk.run("send it"), "in_doubt")
    second = talk.run("count them")
    assert (second.status, second.partial) == ("answered", False)
    third = talk.run("send it")
    is_partial(third, "in_doubt")  # it is refused, as the first task may have done it
    assert [call.status for call in third.calls] == ["refused", "ok"]


def test_a_dry_run_that_plans_a_write_refuses_nothing(post: Post) -> None:
    result = post.agent(CAUGHT.format("Ann")).run("send it", dry_run=True)
    assert (result.status, result.partial, result.remarks) == ("planned", False, ())


def test_a_dry_run_is_refused_what_a_rule_denies(post: Post, tmp_path: Path) -> None:
    agent = post.agent(CAUGHT.format("Ann"), permissions=file_of(tmp_path, RULES))
    is_partial(agent.run("send it", dry_run=True), "denied")


def test_a_run_that_asks_ends_with_its_question_and_is_judged_when_it_goes_on(post: Post) -> None:
    text = CAUGHT.format("no one").replace("answer =", "ask_user(question='Which?')\nanswer =")
    made = post.agent(text, ask_user="stop")
    assert (asked := made.run("send it")).status == "needs_input"
    assert not asked.partial
    is_partial(made.resume("last", reply="that one"), "denied")


# -- failures ----------------------------------------------------------------------------------------------------------


def remarked(result: Result, partial: bool) -> list[str | None]:
    assert (result.status, result.partial, result.fault) == ("answered", partial, None)
    assert result.unwrap() == result.value
    return [fault.tool for fault in result.remarks]


def test_the_failure_of_a_write_that_a_program_caught_makes_a_partial_answer(post: Post) -> None:
    result = post.run(CAUGHT.format("nobody"))
    assert remarked(result, partial=True) == ["send"]
    assert result.remarks[0].message == "line 2: send(to='nobody') failed: there is no such address"
    result = post.run(
        "try:\n    send(to={'a': 1})\nexcept ToolError:\n    pass\nanswer = count(what='mails')", check=False
    )
    assert remarked(result, partial=True) == ["send"]
    assert result.remarks[0].case == "invalid_arguments"


STATED = "send(to='{0}') answered with an error: the box of {0} is full"


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        (["send(to='full a')\nanswer = count(what='mails')"], [f"line 1: {STATED.format('full a')}"]),
        (
            ["for to in ('full a', 'Ann', 'Bob', 'full b'):\n    send(to=to)\nanswer = count(what='mails')"],
            [f"line 2: {STATED.format('full a')}", f"line 2: {STATED.format('full b')}"],
        ),
        (["sent = send(to='full a')\nif 'error' in sent:\n    send(to='Ann')\nanswer = count(what='mails')"], []),
        (["send(to='full a')\nsend(to='Ann')\nanswer = count(what='mails')"], []),
        (["sent = send(to='full a')\nanswer = [count(what='mails'), sent.get('error')]"], []),
        (
            ["send(to='full a')\nanswer = count(what='mails')['x']", "send(to='full a')\nanswer = count(what='mails')"],
            [f"line 1: {STATED.format('full a')}"],
        ),
        (["send(to='full a')\nlook(n=1)", "answer = count(what='mails')"], [STATED.format("full a")]),
        (["answer = send(to='full a')", "answer = count(what='mails')"], []),
    ],
)
def test_a_write_that_answered_with_an_error_which_nobody_looks_at_is_a_remark(
    post: Post, programs: list[str], said: list[str]
) -> None:
    result = post.run(*programs)
    assert (result.status, result.partial) == ("answered", bool(said))
    assert [each.message for each in result.remarks] == said
    assert all(each.case == "stated" for each in result.remarks)
    assert Result.model_validate_json(result.model_dump_json()).remarks == result.remarks


def test_the_failure_of_a_read_is_a_remark(post: Post) -> None:
    text = (
        "try:\n    stars = count(what='stars')\nexcept ToolError:\n    stars = 0\nanswer = stars + count(what='mails')"
    )
    assert remarked(post.run(text), partial=False) == ["count"]


def test_writes_come_first_and_alike_ones_once(post: Post) -> None:
    text = """for what in ['stars', 'stars', 'mails']:
    try:
        count(what=what)
    except ToolError:
        pass
try:
    send(to='nobody')
except ToolError:
    pass
answer = count(what='all')"""
    assert remarked(post.run(text), partial=True) == ["send", "count"]


EACH = "for to in {0}:\n    try:\n        send(to=to)\n    except ToolError:\n        pass"
FIRST = EACH.replace("send(to=to)", "send(to=to)\n        break")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("try:\n    send(to='nobody')\nexcept ToolError:\n    send(to='Ann')", True),
        (FIRST.format(["nobody", "Ann", "Bo"]), True),
        (EACH.format(["nobody", "Ann", "Bo"]), False),
        (EACH.format(["Ann", "nobody", "Bo"]), False),
        (EACH.format(["Ann", "Bo", "nobody"]), False),
        ("send(to='Ann')\ntry:\n    send(to='nobody')\nexcept ToolError:\n    pass", False),
    ],
    ids=["another try", "the first that can", "of a list the first", "the second", "the last", "no later one"],
)
def test_a_later_call_makes_a_failure_good_but_not_the_next_of_a_list(post: Post, text: str, good: bool) -> None:
    result = post.run(f"{text}\nanswer = count(what='mails')")
    assert remarked(result, partial=not good) == ([] if good else ["send"])


def test_a_substitute_makes_a_failure_good(post: Post) -> None:
    """What takes the place of a broken tool is told by the bans, and by the journal after a crash."""
    seen: list[tuple[bool, Any]] = []

    class Routed(Strategy):
        name = "routed"

        async def solve(self, context: Run) -> Ending:
            with context.attempt():
                await context.call("send", {"to": "nobody"})
                context.broker.ban("send", [Replacement(tool="count")])
                seen.append((refused_write(context), (await context.call("count", {"what": "mails"})).value))
            return Ending("answered", 1)

    result = post.run(strategy=Routed())
    assert remarked(result, partial=False) == []
    assert seen == [(False, 42)]


def test_what_an_earlier_stage_did_is_done(post: Post) -> None:
    class Twice(Strategy):
        name = "twice"

        async def solve(self, context: Run) -> Ending:
            await context.execute("answer = send(to='Ann')")
            context.begin_stage()
            done = await context.execute(CAUGHT.format("Ann"))
            return Ending("answered", done.value)

    assert remarked(post.run(strategy=Twice()), partial=False) == []
    assert post.sent == ["Ann"]


def test_what_a_revision_was_refused_in_place_of_the_recorded_call_is_not_done(post: Post) -> None:
    text = "answer = count(what='mails')"
    result = post.run(f"send(to='Ann')\n{text}\nanswer = [][answer]", CAUGHT.format("Bo"))
    assert remarked(result, partial=True) == ["send"]
    assert result.remarks[0].status == "already_done"


def test_the_failures_that_a_result_names_are_bounded(post: Post) -> None:
    text = "\n".join(f"try:\n    send(to='nobody')\nexcept ToolError:\n    n = {n}" for n in range(30))
    result = post.run(f"{text}\nanswer = count(what='mails')")
    assert len(remarked(result, partial=True)) == 20
    assert sum(call.status == "failed" for call in result.calls) == 30


# -- other strategies --------------------------------------------------------------------------------------------------


def test_the_paper_way_keeps_a_refusal(post: Post) -> None:
    is_partial(post.run(CAUGHT.format("no one"), strategy="atc-paper"), "denied")


def test_a_given_program_is_judged_alike(post: Post) -> None:
    with post.agent() as agent:
        first = agent.run_program(CAUGHT.format("no one"))
        is_partial(first, "denied")
        assert agent.run_program("answer = count(what='mails')", run=first.run_id).status == "answered"
        assert remarked(agent.run_program(CAUGHT.format("nobody")), partial=True) == ["send"]
        is_partial(agent.run_program(CAUGHT.format("broken")), "in_doubt")
        told = agent.run_program("try:\n    answer = send(to='no one')\nexcept ToolError as e:\n    answer = e.status")
        is_partial(told, "denied", "denied")


def test_a_strategy_can_ask_before_it_goes_on(post: Post) -> None:
    asked: list[bool] = []

    class Asks(Strategy):
        name = "asks"

        async def solve(self, context: Run) -> Ending:
            await context.execute("answer = count(what='mails')")
            asked.append(refused_write(context))
            await context.execute(CAUGHT.format("no one"))
            asked.append(refused_write(context))
            return Ending("answered", 1)

    is_partial(post.run(strategy=Asks()), "denied", 1)
    assert asked == [False, True]


@pytest.mark.parametrize(("revised", "status"), [(False, "denied"), (True, "answered")])
def test_what_a_warning_held_back_a_revision_may_leave_out(post: Post, revised: bool, status: str) -> None:
    class Warned(Strategy):
        name = "warned"

        async def solve(self, context: Run) -> Ending:
            await context.execute(CAUGHT.format("Ann"), {"send": ("is that her address?",)})
            if revised:
                await context.execute("answer = count(what='mails')")
            return Ending("answered", 42)

    result = post.run(strategy=Warned(), approve="always")
    assert (result.status, result.partial, post.sent) == (status, status == "denied", [])
    assert result.calls[0].error_status == "warned"


# -- pages -------------------------------------------------------------------------------------------------------------


def paged(failing: Callable[[int], Exception | None], instead: Any = None) -> Toolset:
    """A list in pages of two, of which some fail."""

    def page(arguments: dict[str, Any]) -> Any:
        number = arguments.get("page", 1)
        if (error := failing(number)) is not None:
            raise error
        return instead or [number] * (2 if number < 3 else 1)

    whole = {"type": "integer"}
    properties = {"page": whole | {"default": 1}, "per_page": whole | {"default": 2}}
    numbers = {"type": "array", "items": whole}
    return Toolset([make_tool("numbers", page, returns=numbers, **properties)])


def pages(program: str, tools: Toolset) -> Result:
    return Agent(tools, model=FakeModel([code(program)]), sentence=False, approve="always", max_revisions=0).run("all")


def test_the_page_behind_the_last_is_no_failure() -> None:
    tools = paged(lambda n: ToolError("no such page", status=404) if n > 3 else None)
    result = pages("answer = len(all_pages(numbers))", tools)
    assert (result.status, result.value, result.partial, result.remarks) == ("answered", 5, False, ())
    assert [call.status for call in result.calls] == ["ok", "ok", "ok", "failed"]


def test_a_page_that_fails_is_one() -> None:
    tools = paged(lambda n: ToolError("no", status="teapot") if n == 2 else None)
    caught = "try:\n    answer = all_pages(numbers)\nexcept ToolError:\n    answer = numbers(page=1)"
    assert remarked(pages(caught, tools), partial=False) == ["numbers"]


# -- responses that cannot be had --------------------------------------------------------------------------------------


def large(kind: str, effect: Effect) -> Toolset:
    values: dict[str, Any] = {"text": "x" * 3_000_000, "bytes": b"x" * 3_000_000, "list": ["x" * 100] * 30_000}
    return Toolset([make_tool("fetch", lambda _: values[kind], effect)])


@pytest.mark.parametrize("kind", ["text", "bytes", "list"])
def test_a_large_answer_of_a_read_is_refused(kind: str) -> None:
    tools = large(kind, Effect.READ)
    agent = Agent(tools, model=FakeModel([code("answer = len(fetch())")]), sentence=False, max_revisions=0)
    result = agent.run("how long?")
    assert (result.status, result.value) == ("unsolved", None)
    assert result.fault is not None
    assert (result.fault.tool, result.fault.status) == ("fetch", "too_large")
    assert "over the limit of 2,000,000: ask for less" in result.fault.message


def test_a_large_page_is_refused() -> None:
    result = pages("answer = len(all_pages(numbers))", paged(lambda _: None, "x" * 3_000_000))
    assert (result.status, result.value, [call.error_status for call in result.calls]) == (
        "unsolved", None, ["too_large"],
    )  # fmt: skip
    assert result.fault is not None
    assert "over the limit of 2,000,000: ask for less" in result.fault.message


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.UNKNOWN])
@pytest.mark.parametrize("kind", ["text", "bytes", "list"])
def test_a_large_answer_of_a_write_is_no_null(kind: str, effect: Effect) -> None:
    model = FakeModel([code("answer = len(fetch() or [])"), code("fetch()\nanswer = 'done'")])
    result = Agent(large(kind, effect), model=model, sentence=False, approve="always").run("fetch it")
    fault = result.revisions[0].fault
    assert fault is not None
    assert (fault.kind, fault.case, fault.tool, fault.line) == ("response", "unread", "fetch", 1)
    assert "it was done, and the response has" in fault.message
    assert "over the limit of 2,000,000: ask for less" in fault.message
    prompt = model.prompts[1][-1].content
    assert "it was done, and the response has" in prompt
    assert "None" not in prompt.partition("Earlier programs")[2]
    assert (result.status, result.value, result.partial) == ("answered", "done", False)
    assert [call.status for call in result.calls] == ["ok", "replayed"]


# -- warnings ----------------------------------------------------------------------------------------------------------


class Order(TypedDict):
    order_id: str
    title: str


@tool(effect="read")
def list_orders() -> list[Order]:
    """List orders."""
    return [{"order_id": "o-17431", "title": "Kite"}]


@tool(effect="read")
def get_order(order_id: str) -> Order:
    """Show one order by its id."""
    return {"order_id": order_id, "title": "Kite"}


@pytest.mark.parametrize(
    ("text", "unresolved"),
    [
        ("answer = get_order(order_id='o-99321')", ["get_order"]),
        ("answer = get_order(order_id=list_orders()[0]['order_id'])", []),
        ("answer = get_order(order_id='o-5')", []),  # the task has it
        ("rows = list_orders()\nanswer = rows if rows else get_order(order_id='o-99321')", []),  # it was not called
    ],
)
def test_a_warning_that_the_run_did_not_settle_is_a_remark(text: str, unresolved: list[str]) -> None:
    agent = Agent([list_orders, get_order], model=FakeModel([code(text)] * 4), sentence=False)
    result = agent.run("Show an order, say o-5")
    assert remarked(result, partial=False) == unresolved
    for fault in result.remarks:
        assert (fault.case, fault.call, fault.finding and fault.finding.kind) == ("unresolved", 1, "invented_id")
        assert "unresolved warning: the order_id given to get_order stands in neither the task" in fault.message
    assert [each.case for each in Result.model_validate_json(result.model_dump_json()).remarks] == [
        "unresolved" for _ in unresolved
    ]


def test_a_warning_stands_after_the_failures() -> None:
    text = (
        "try:\n    found = fetch(name='x')\nexcept ToolError:\n    found = None\nanswer = get_order(order_id='o-99321')"
    )

    @tool(effect="read")
    def fetch(name: str) -> str:
        """Fetch it."""
        raise ToolError("no such name", status="not_found")

    agent = Agent([list_orders, get_order, fetch], model=FakeModel([code(text)] * 4), sentence=False)
    assert [fault.case for fault in agent.run("Show an order of x").remarks] == ["failed", "unresolved"]

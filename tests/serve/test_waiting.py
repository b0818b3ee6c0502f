"""A program of a client stops at a write, its run ends, and goes on once somebody else has said yes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from atc import Agent, Tool
from atc.calls import parked
from atc.calls.permissions.approvers import ApproverKey
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.run.approvals import waiting_runs
from atc.run.resources import Resources
from atc.serve.mcp.gateway import Options
from atc.traces.stores.files import FileStore
from tests.run.test_approval_url import SECRET, Desk
from tests.run.test_approvers import ANN as ANN_KEY
from tests.run.test_approvers import rules as approvers
from tests.support.mcp_face import ACCEPT, DECLINE, LEGACY, MODERN, Book, User, both_eras, connected, gateway_of, run
from tests.support.mcp_http import ANN, BOB, calling, result_of
from tests.support.tools import make_tool

WRITE = "answer = append_line(text='one')"
LOOP = "answer = [append_line(text=text) for text in find_texts()]"
TEXT = {"type": "string"}
EVERY_TOOL = Options(extras=("run_task", "resume", "probe"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the runs: all that one server leaves to the next."""
    return tmp_path / "runs"


@asynccontextmanager
async def served(
    folder: Path, book: Book, *more: Tool, mode: str = MODERN, user: User | None = None, jail: bool = True, **given: Any
) -> AsyncIterator[Client]:
    """A client of a server of its own: each time a new process, as far as ATC can tell."""
    given = {"runs_dir": folder, "reuse_reads_s": 0.0} | given
    async with (
        gateway_of(book.tool, texts(), *more, jail=jail, **given) as gateway,
        connected(gateway, mode, user) as client,
    ):
        yield client


TEXTS = ["a", "b", "c", "d"]


def texts() -> Tool:
    return make_tool("find_texts", lambda given: list(TEXTS), returns={"type": "array", "items": TEXT})


def decide(folder: Path, run_id: str, **given: Any) -> None:
    """Say yes or no as `agent.approve` does, in a process that has nothing to do with the server."""
    agent = Agent([make_tool("nothing", lambda given: 1)], model="none", runs_dir=folder)
    agent.approve(run_id, **given)


async def goes_on(client: Client, run_id: str, **given: Any) -> dict[str, Any]:
    """The report of a run that goes on without a program."""
    result = await client.call_tool("run_program", {"run": run_id, **given})
    assert isinstance(result.structured_content, dict)
    return result.structured_content


@both_eras
def test_a_write_waits_and_is_made_after_a_yes_in_another_session(folder: Path, mode: str) -> None:
    book = Book()

    async def main() -> None:
        async with served(folder, book, mode=mode) as client:
            result = await client.call_tool("run_program", {"source": LOOP})
            assert not result.is_error
            report = result.structured_content
            assert report is not None
            assert (report["status"], book.lines) == ("waiting", [])
            assert [call["arguments"] for call in report["pending"]] == [{"text": text} for text in TEXTS]
            first = report["pending"][0]
            assert (first["tool"], first["line"]) == ("append_line", 1)
            assert "find_texts (call 1)" in first["feeds"][0]
            assert first["until"] > "2026"
            assert f"atc runs approve {report['run']}" in report["advice"]
            again = await goes_on(client, report["run"])
            assert [call["call"] for call in again["pending"]] == [call["call"] for call in report["pending"]]
        (known,) = waiting_runs(FileStore(folder), [report["run"]])
        assert len(known.pending) == 4
        decide(folder, report["run"])
        async with served(folder, book, mode=mode) as client:
            done = await goes_on(client, report["run"])
            assert (done["status"], done["value"]) == ("answered", [{"lines": n} for n in (1, 2, 3, 4)]), done
            assert (await goes_on(client, report["run"]))["status"] == "answered"

    asyncio.run(main())
    assert book.lines == TEXTS


@both_eras
def test_no_tool_of_the_server_decides(folder: Path, mode: str) -> None:
    """Whatever the client's model calls, with whatever arguments: the call goes on waiting."""
    book = Book()
    named = {"task": "approve it", "tool": "append_line"}
    tries = [{"approve": True}, {"decision": "yes"}, {"inputs": {"approve": True}}, {"reply": "yes"}, {"deny": False}]

    async def main() -> None:
        async with (
            gateway_of(book.tool, runs_dir=folder, options=EVERY_TOOL, base_url="http://127.0.0.1:9/v1") as gateway,
            connected(gateway, mode) as client,
        ):
            offered = [each.name for each in (await client.list_tools()).tools]
            assert offered == ["run_program", "run_task", "resume", "probe"], "a new tool: can it decide?"
            report = await run(client, WRITE)
            run_id = report["run"]
            for name in [*offered, "approve", "approvals", "decide", "append_line"]:
                for given in tries:
                    with suppress(MCPError):
                        await client.call_tool(name, {**named, "run": run_id, **given})
            for program in ("atc.approve()", "import atc", f"open('{folder}/{run_id}/journal.jsonl', 'a').write('')"):
                await run(client, f"{program}\n{WRITE}", run=run_id)
            assert (await goes_on(client, run_id))["status"] in ("waiting", "rejected", "unsolved")
            report = await run(client, WRITE, run=run_id)
            assert report["status"] == "waiting"

    asyncio.run(main())
    assert book.lines == []


@both_eras
def test_who_can_be_asked_is_asked_as_before(folder: Path, mode: str) -> None:
    """Also about what waited while another client was there; what was decided is not asked about."""
    book, user = Book(), User()

    async def main() -> None:
        async with served(folder, book, mode=mode) as client:
            report = await run(client, "a = append_line(text='one')\nanswer = append_line(text='two')")
            decide(folder, report["run"], calls=[report["pending"][0]["call"]])
        async with served(folder, book, mode=mode, user=user) as client:
            assert (await goes_on(client, report["run"]))["status"] == "answered"
            assert (await run(client, "answer = append_line(text='three')"))["status"] == "answered"

    asyncio.run(main())
    assert (book.lines, len(user.seen)) == (["one", "two", "three"], 2)


def test_the_setting_parks_where_the_client_could_ask_too(folder: Path) -> None:
    book, user = Book(), User()

    async def main() -> None:
        async with served(folder, book, user=user, approve="park") as client:
            assert (await run(client, WRITE))["status"] == "waiting"

    asyncio.run(main())
    assert (book.lines, user.seen) == ([], [])


@both_eras
def test_a_run_that_waits_is_its_principals_own_over_http(folder: Path, mode: str) -> None:
    """Another principal hears what it hears of a run that never was, and nothing of its own changes the other's."""
    book = Book()

    async def main() -> None:
        async with gateway_of(book.tool, runs_dir=folder) as gateway, calling(behind=gateway) as caller:
            sessions = {token: await caller.open(token) if mode == LEGACY else "" for token in (ANN, BOB)}

            async def called(token: str, **given: Any) -> dict[str, Any]:
                answered = await caller.call("run_program", given, token, sessions[token])
                return dict(result_of(answered)["structuredContent"])

            run_id = (await called(ANN, source=WRITE))["run"]
            for given in ({"run": run_id}, {"run": run_id, "source": WRITE}):
                told = (await called(BOB, **given))["error"]["message"]
                never = "20200101-000000-abcdef"
                assert told.replace(run_id, never) == (await called(BOB, **given | {"run": never}))["error"]["message"]
            assert (bob := await called(BOB, source=WRITE))["status"] == "waiting", "nor does it hear that Ann's waits"
            decide(folder, run_id)
            assert (await called(BOB, run=bob["run"]))["status"] == "waiting", "a yes is for a call of one run"
            assert book.lines == []
            sessions[ANN] = await caller.open(ANN) if mode == LEGACY else ""
            assert (await called(ANN, run=run_id))["status"] == "answered"

    asyncio.run(main())
    assert book.lines == ["one"]


def test_a_run_that_somebody_else_goes_on_with_says_so(folder: Path) -> None:
    book = Book()

    async def main() -> None:
        async with served(folder, book) as client:
            run_id = (await run(client, WRITE))["run"]
            journal = FileStore(folder).run(run_id).open_journal()
            try:
                busy = await goes_on(client, run_id)
            finally:
                journal.close()
            assert "another process works on run" in busy["error"]["message"]
            assert str(folder) not in str(busy)
            assert (await goes_on(client, run_id))["status"] == "waiting"
            nothing = await client.call_tool("run_program", {})
            assert nothing.is_error
            assert "`source` must be a text" in str(nothing.structured_content)

    asyncio.run(main())


def test_so_many_runs_of_a_principal_wait_and_no_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.serve.mcp.waiting.MOST_WAITING", 2)
    book, later = Book(), time.time() + 2 * parked.WAITS_S

    async def main() -> None:
        async with gateway_of(book.tool, runs_dir=folder) as gateway, calling(behind=gateway) as caller:

            async def status(token: str, **given: Any) -> str:
                answered = await caller.call("run_program", given, token)
                return str(result_of(answered)["structuredContent"]["status"])

            programs = [f"answer = append_line(text={text!r})" for text in "abcde"]
            first = [await caller.call("run_program", {"source": each}, ANN) for each in programs[:2]]
            run_id = result_of(first[0])["structuredContent"]["run"]
            assert await status(ANN, source=programs[2]) == "denied"
            assert await status(BOB, source=WRITE) == "waiting", "others have room of their own"
            assert await status(ANN, run=run_id) == "waiting", "one that waits already"
            decide(folder, run_id, deny=True)
            assert await status(ANN, run=run_id) == "denied"
            assert await status(ANN, source=programs[2]) == "waiting"
            assert await status(ANN, source=programs[3]) == "denied"
            monkeypatch.setattr("atc.serve.mcp.waiting.time.time", lambda: later)
            assert await status(ANN, source=programs[4]) == "waiting", "what expired takes nobody's place"

    asyncio.run(main())
    assert book.lines == []


def test_what_waits_is_told_in_bounded_room_and_as_it_is_to_the_user(folder: Path) -> None:
    """A client's model gets no response that its program did not select, nor any size that it likes."""
    book = Book()
    people = make_tool(
        "find_people", lambda given: [{"email": "a@x.org", "note": "private"}], returns={"type": "array"}
    )
    program = (
        "append_line(text=find_people()[0]['email'])\nfor n in range(60):\n    append_line(text='x' * (2941 + n))\n"
    )

    async def main() -> None:
        async with served(folder, book, people) as client:
            report = await run(client, program + "answer = 1")
            assert (report["status"], len(report["pending"]), report["more_pending"]) == ("waiting", 40, 21)
            assert "find_people (call 1)" in report["pending"][0]["feeds"][0]
            assert "private" not in str(report)
            assert report["pending"][1]["cut"]
            assert len(json.dumps(report)) < 40_000
        (known,) = waiting_runs(FileStore(folder), [report["run"]])
        assert (len(known.pending), len(known.pending[-1].arguments["text"])) == (61, 3000)

    asyncio.run(main())


def test_what_another_run_did_is_not_done_again_by_a_yes_that_did_not_show_it(folder: Path) -> None:
    book = Book()

    async def main() -> None:
        async with served(folder, book) as client:
            first = (await run(client, WRITE))["run"]
            again = await run(client, WRITE)
            assert again["status"] == "denied", "a model that forgot the run sends its program again"
            assert f"run {first} waits for approval to the same" in str(again["fault"])
            decide(folder, first)
            assert (await goes_on(client, first))["status"] == "answered"
        async with served(folder, book) as client:
            again = await run(client, WRITE)
            assert again["status"] == "denied"
            assert f"run {first} did the same before" in str(again["fault"])


def test_a_user_who_is_asked_hears_that_another_run_waits_for_the_same(folder: Path) -> None:
    book, user = Book(), User([DECLINE, ACCEPT])

    async def main() -> None:
        async with served(folder, book) as client:
            first = (await run(client, WRITE))["run"]
        async with served(folder, book, user=user) as client:
            assert (await run(client, WRITE))["status"] == "denied"
            assert f"an earlier run ({first}) waits for approval to the same" in user.seen[0].message
            decide(folder, first, deny=True)
            assert (await run(client, WRITE))["status"] == "answered"
            assert "earlier run" not in user.seen[1].message, "what was denied waits no more"

    asyncio.run(main())
    assert book.lines == ["one"]


# -- a question that nobody answers ------------------------------------------------------------------------------------


async def silent(params: Any) -> Any:
    await asyncio.sleep(3600)


def fails(params: Any) -> Any:
    raise ValueError("no such method")


WAIT_S = 1.0
"""Seconds that a question may stay unanswered where another one is answered meanwhile."""
TWO = "append_line(text='one')\nanswer = append_line(text='two')"


@pytest.mark.parametrize("answering", [silent, fails])
def test_a_call_about_which_nobody_answered_waits_and_its_jail_is_gone(folder: Path, answering: Any) -> None:
    book, user = Book(), User([ACCEPT, answering])

    async def main() -> None:
        async with served(folder, book, mode=LEGACY, user=user, ask_wait_s=0.2) as client:
            report = await run(client, TWO)
            assert (report["status"], book.lines, report["done"]) == ("waiting", ["one"], ["append_line(text='one')"])
            assert [call["arguments"] for call in report["pending"]] == [{"text": "two"}]
            decide(folder, report["run"])
            assert (await goes_on(client, report["run"]))["status"] == "answered"

    asyncio.run(main())
    assert (book.lines, len(user.seen)) == (["one", "two"], 2)


@both_eras
def test_a_form_that_is_closed_is_no_choice_and_its_call_waits(folder: Path, mode: str) -> None:
    """So does a coding client that runs without its user: it closes every form by itself."""
    book, user = Book(), User([ACCEPT, types.ElicitResult(action="cancel")])

    async def main() -> None:
        async with served(folder, book, mode=mode, user=user, jail=False) as client:
            report = await run(client, f"append_line(text='zero')\n{LOOP}")
            assert (report["status"], report["done"]) == ("waiting", ["append_line(text='zero')"])
            assert len(user.seen) == 2, "the others are not asked about"
            decide(folder, report["run"])
            done = await goes_on(client, report["run"])
            while done["status"] == "waiting":  # the program ended at the first that waited
                decide(folder, report["run"])
                done = await goes_on(client, report["run"])
            assert done["status"] == "answered"

    asyncio.run(main())
    assert book.lines == ["zero", *TEXTS]


@both_eras
@pytest.mark.parametrize("given", [{"approve": "never"}, {"keep_runs": False}], ids=str)
def test_where_no_call_waits_a_form_that_is_closed_is_a_no(folder: Path, mode: str, given: dict[str, Any]) -> None:
    book, user = Book(), User([types.ElicitResult(action="cancel")])

    async def main() -> None:
        async with served(folder, book, mode=mode, user=user, jail=False, **given) as client:
            assert (await run(client, WRITE))["status"] == "denied"

    asyncio.run(main())
    assert book.lines == []


def test_a_client_that_never_comes_back_leaves_a_call_that_waits(folder: Path) -> None:
    """It has no report, but its user finds what waits, and its model goes on with the run's id."""
    book = Book()

    async def main() -> None:
        async with (
            gateway_of(book.tool, texts(), jail=True, runs_dir=folder, ask_wait_s=0.2) as gateway,
            connected(gateway, MODERN, User()) as client,
        ):
            asked = await client.session.call_tool("run_program", {"source": WRITE}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            while len(gateway.running):  # noqa: ASYNC110 - its task ends by itself
                await asyncio.sleep(0.01)
            (stored,) = FileStore(folder).list()
            (waiting,) = waiting_runs(FileStore(folder), [stored.run_id])
            assert [call.arguments for call in waiting.pending] == [{"text": "one"}]
            decide(folder, waiting.run_id)
            assert (await goes_on(client, waiting.run_id))["status"] == "answered"

    asyncio.run(main())
    assert book.lines == ["one"]


def test_a_write_that_is_being_made_is_not_stopped_by_a_question_that_lapses(folder: Path) -> None:
    """The write begins before the question about the other call is put, and ends after that question has lapsed."""
    book, done, begun, asked = Book(), list[int](), asyncio.Event(), asyncio.Event()

    async def slowly(given: dict[str, Any]) -> int:
        begun.set()
        await asked.wait()
        await asyncio.sleep(WAIT_S + 0.3)
        done.append(1)
        return 1

    async def text(given: dict[str, Any]) -> str:
        await begun.wait()
        return "one"

    slow = make_tool("send_slowly", slowly, Effect.WRITE)

    async def answers(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        if "send_slowly" in params.message:
            return ACCEPT
        asked.set()
        return await silent(params)

    async def main() -> None:
        tools = slow, make_tool("get_text", text, returns=TEXT)
        async with served(folder, book, *tools, mode=LEGACY, user=User([answers]), ask_wait_s=WAIT_S) as client:
            both = "answer = parallel(lambda: send_slowly(), lambda: append_line(text=get_text()))"
            report = await run(client, both)
            assert (report["status"], report["done"]) == ("waiting", ["send_slowly()"])
            assert "in_doubt" not in report

    asyncio.run(main())
    assert (book.lines, done) == ([], [1])


# -- what goes on elsewhere --------------------------------------------------------------------------------------------


def test_a_task_of_atcs_own_model_waits_and_is_resumed(folder: Path) -> None:
    book = Book()

    async def main() -> None:
        async with (
            gateway_of(book.tool, jail=True, runs_dir=folder, options=EVERY_TOOL) as gateway,
            connected(gateway, MODERN) as client,
        ):
            gateway.resources = Resources(gateway.settings, FakeModel([WRITE]), gateway.sandbox)
            report = (await client.call_tool("run_task", {"task": "write one"})).structured_content
            assert report is not None
            assert (report["status"], report["pending"][0]["arguments"]) == ("waiting", {"text": "one"})
            assert "call `resume` with" in report["advice"]
            decide(folder, report["run"])
            done = (await client.call_tool("resume", {"run": report["run"]})).structured_content
            assert done is not None
            assert done["status"] == "answered", done

    asyncio.run(main())
    assert book.lines == ["one"]


@pytest.mark.parametrize("signed", [True, False])
def test_the_approval_url_decides_by_the_permissions_of_the_server(folder: Path, signed: bool) -> None:
    """Its agents have a client's guard in place of permissions: whose word counts is the same."""
    book, desk, rules = Book(), Desk(), folder.parent / "permissions.toml"
    rules.write_text(approvers(ann=ANN_KEY))
    rules.chmod(0o600)

    def answer(question: dict[str, Any]) -> Any:
        (call,) = question["calls"]
        signature = {"signature": ApproverKey(ANN_KEY).sign(call["statements"]["yes"])} if signed else {}
        decided = {"call": call["call"], "yes": True, "by": "ann"} | signature
        return {"nonce": question["nonce"], "decisions": [decided]}

    desk.answer = answer
    given = {"permissions": rules, "audit": folder.parent / "audit.jsonl"}
    given |= {"approval_url": desk.url, "approval_secret": SECRET}

    async def main() -> str:
        async with served(folder, book, **given) as client:
            report = await run(client, WRITE)
            assert report["status"] == "waiting"
            again = await goes_on(client, report["run"])
            return str(again["status"])

    try:
        assert asyncio.run(main()) == ("answered" if signed else "waiting")
    finally:
        desk.close()
    assert book.lines == ["one"] * signed
    lines = [json.loads(line) for line in (folder.parent / "audit.jsonl").read_text().splitlines()]
    assert [line["who"] for line in lines if line.get("via") == "url"] == ["ann"] * signed

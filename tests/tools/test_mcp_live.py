"""Servers that come and go: their tools are there at once, keep their names, and leave with a line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Agent, Toolset
from atc.errors import ToolError, ToolImportError, UsageError
from atc.models.fake import FakeModel
from atc.schemas.protocol import Protocol, Source
from atc.settings import Settings
from atc.tools.mcp.failures import Unreachable
from atc.tools.mcp.importer import labels_of, told_apart
from atc.tools.mcp.lists import KeptList, KeptLists, server_key
from atc.tools.mcp.live import LiveTools, live_tools
from atc.tools.mcp.live_server import MOST_S, Backoff, Hooks, Limits, LiveServer
from atc.tools.mcp.spec import read_specs
from atc.tools.tool import PROGRESS, Progress
from tests.support.kept_files import kept_file, put
from tests.support.mcp import entry, gone, one, raw_server, reading

PATIENCE_S = 60.0
QUICK = Limits(quiet_s=0.0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.tools.mcp.stdio.GRACE_S", 0.3)
    monkeypatch.setattr("atc.tools.mcp.live_server._LOOKS_S", 0.05)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return tmp_path / "catalogue" / "mcp-lists"


def server(folder: Path, tools: list[Any] | None = None, **plan: Any) -> dict[str, Any]:
    """One server of a configuration."""
    folder.mkdir(exist_ok=True)
    command = raw_server(folder, tools, **plan)
    return {"command": command[0], "args": command[1:]}


def config(folder: Path, **servers: Any) -> str:
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return str(file)


def opened(word: str, lists: Path | None, limits: Limits = QUICK, **options: Any) -> LiveTools:
    return live_tools([word], folder=lists, limits=limits, **options)


def living(live: LiveTools, act: Callable[[LiveTools], Awaitable[Any]] | None = None) -> Any:
    """Enter it, wait until all are listed, act, leave."""

    async def run() -> Any:
        async with live:
            await live.settled()
            return await act(live) if act is not None else None

    return asyncio.run(run())


async def changed(live: LiveTools, until: Callable[[], bool]) -> None:
    """Wait until the tools are as they should be."""
    heard = asyncio.Event()
    forget = live.on_change(lambda tools: heard.set())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not until():
                await heard.wait()
                heard.clear()
    finally:
        forget()


def heard(file: Path, method: str) -> list[dict[str, Any]]:
    lines = [json.loads(line)[1] for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if line.get("method") == method]


# Kept lists


def test_kept_lists_are_there_before_any_server_runs(tmp_path: Path, lists: Path) -> None:
    log = tmp_path / "heard"
    word = config(tmp_path, a=server(tmp_path / "a", calls={"look": {"value": 1}}, heard_file=str(log)))
    assert not opened(word, lists).tools
    living(opened(word, lists))
    before = len(log.read_text())
    live = opened(word, lists)
    assert [*live.tools] == ["look"]
    living(live)
    assert len(log.read_text()) == before  # nobody called: nobody was started
    assert [stat.S_IMODE(file.stat().st_mode) for file in lists.iterdir()] == [0o600]
    assert stat.S_IMODE(lists.stat().st_mode) == 0o700


def test_a_kept_list_is_read_anew_at_the_first_call_and_when_it_is_old(tmp_path: Path, lists: Path) -> None:
    log = tmp_path / "heard"
    plan = server(tmp_path / "a", calls={"look": {"value": 7}}, heard_file=str(log))
    word = config(tmp_path, a=plan)
    living(opened(word, lists))
    file = Path(plan["args"][-1])
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "pages": [{"tools": [reading("look"), reading("listen")]}]}))
    assert [*opened(word, lists).tools] == ["look"]

    async def call(live: LiveTools) -> Any:
        value = await one(live.tools, "look")
        await changed(live, lambda: "listen" in live.tools)
        return value

    assert living(opened(word, lists), call) == "7"
    assert len(heard(log, "tools/list")) == 2
    assert [*opened(word, lists).tools] == ["look", "listen"]
    living(opened(word, lists, Limits(max_age_s=0.0)), lambda live: live.refresh())
    assert len(heard(log, "tools/list")) > 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("look", "loot"),
        lambda text: "",
        lambda text: "{}",
        lambda text: text.replace("atc-mcp-list 1", "atc-mcp-list 9"),
    ],
)
def test_a_damaged_list_is_dropped_with_a_line(
    tmp_path: Path, lists: Path, damage: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    word = config(tmp_path, a={"command": "no-such-command"})
    lists.mkdir(parents=True)
    kept = KeptLists(lists)
    spec = read_specs(Path(word))[0]
    tool = Protocol(name="look", source=Source(kind="mcp", location="x", operation="look"))
    kept.write(server_key(spec), KeptList.of([tool], None))
    assert [*opened(word, lists).tools] == ["look"]
    file = next(lists.iterdir())
    file.write_text(damage(file.read_text()))
    assert not opened(word, lists).tools
    assert "is dropped" in caplog.text
    assert not file.exists()


def test_no_credential_is_part_of_the_key_or_the_file(tmp_path: Path, lists: Path) -> None:
    made = server(tmp_path / "a", [reading("look", description="token sk-secret-0001 here")])
    first = config(tmp_path, a={**made, "env": {"API_TOKEN": "sk-secret-0001"}})
    living(opened(first, lists))
    assert "sk-secret-0001" not in next(lists.iterdir()).read_text()
    second = config(tmp_path, a={**made, "env": {"API_TOKEN": "sk-secret-0002"}})
    assert [*opened(second, lists).tools] == ["look"]


# Names


def test_equal_names_are_called_after_their_servers_also_when_one_is_down(tmp_path: Path, lists: Path) -> None:
    a, b = (server(tmp_path / name, [reading("search"), reading(f"own_{name}")]) for name in "ab")
    living(opened(config(tmp_path, a=a, b=b), lists))
    names = ["a_search", "own_a", "b_search", "own_b"]
    assert [*opened(config(tmp_path, a=a, b=b), lists).tools] == names
    Path(b["args"][-2]).unlink()  # its script is gone

    async def down(live: LiveTools) -> None:
        await live.refresh()
        assert [*live.tools] == ["a_search", "own_a"]
        assert [*live.down] == ["b"]

    living(opened(config(tmp_path, a=a, b=b), lists), down)


def test_a_name_stays_when_the_other_server_has_given_it_up(tmp_path: Path, lists: Path) -> None:
    a, b = (server(tmp_path / name, [reading("search")]) for name in "ab")
    word = config(tmp_path, a=a, b=b)
    living(opened(word, lists))
    plan = Path(b["args"][-1])
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "pages": [{"tools": [reading("find")]}]}))
    living(opened(word, lists), lambda live: live.refresh())
    assert [*opened(word, lists).tools] == ["a_search", "find"]


def test_tools_of_other_sources_keep_their_names(tmp_path: Path, lists: Path) -> None:
    (tmp_path / "own.py").write_text(
        'from atc import tool\n\n@tool(effect="read")\ndef search() -> int:\n    """Look."""\n    return 1\n'
    )
    word = config(tmp_path, a=server(tmp_path / "a", [reading("search")]))
    for words in ([str(tmp_path / "own.py"), word], [word, str(tmp_path / "own.py")]):
        live = live_tools(words, folder=lists)
        living(live)
        assert sorted(live.tools) == ["a_search", "search"]


NAMES = st.lists(st.sampled_from(["search", "find", "b_search", "a.b", "a-b", "print", "", "é"]), unique=True)


@given(st.dictionaries(st.sampled_from(["a", "b", "a_b", "c d"]), NAMES, min_size=1), st.randoms())
def test_names_are_unique_and_do_not_hang_on_the_order(servers: dict[str, list[str]], random: Any) -> None:
    pairs = list(servers.items())
    made = dict(zip(servers, told_apart(pairs, {"find"}), strict=True))
    every = [name for names in made.values() for name in names.values()]
    assert len(set(every)) == len(every)
    assert "find" not in every
    assert all(name.isidentifier() for name in every)
    shuffled = [(label, random.sample(names, len(names))) for label, names in random.sample(pairs, len(pairs))]
    again = told_apart(shuffled, {"find"})
    assert {label: dict(names) for (label, _), names in zip(shuffled, again, strict=True)} == made


def test_a_kept_program_is_there_while_the_tools_are_that_it_calls(tmp_path: Path, lists: Path) -> None:
    word = config(tmp_path, a=server(tmp_path / "a", calls={"look": {"value": 1}}))
    tools = Toolset.from_mcp(Path(word))
    put(Settings.load().kept_dir, kept_file("twice", "answer = [look()] * 2\n", ["look"], of=tools, parameters={}))
    live = live_tools([word, "kept"], folder=lists, limits=QUICK, only=["twice"])
    assert [each.name for each in live.tools.left_out] == ["twice"]
    found = living(live, lambda live: asyncio.sleep(0, live.tools))
    assert (list(found), list(found.inner_tools), found.left_out) == (["twice"], ["look"], ())


def test_servers_without_a_name_get_a_telling_one() -> None:
    words = ["uvx mcp-server-time --x", "https://git.example/mcp", "python -m server.py", "https://git.example/b"]
    assert labels_of([read_specs(word)[0] for word in words]) == [
        "mcp_server_time",
        "git_example",
        "server",
        "git_example_2",
    ]


# A server's life


def test_a_server_stays_up_between_runs_and_ends_with_its_owner(tmp_path: Path, lists: Path) -> None:
    word = config(tmp_path, a=server(tmp_path / "a", calls={"look": {"about": True}}))

    async def twice(live: LiveTools) -> list[int]:
        found = []
        for _ in range(2):
            async with live.tools.opened():
                found.append((await one(live.tools, "look"))["pid"])
        return found

    first, second = living(opened(word, lists), twice)
    assert first == second
    assert gone(first)


@pytest.mark.slow
def test_an_idle_server_is_ended_and_started_again(tmp_path: Path, lists: Path) -> None:
    word = config(tmp_path, a=server(tmp_path / "a", calls={"look": {"about": True}}))

    async def idle(live: LiveTools) -> tuple[int, int]:
        first = (await one(live.tools, "look"))["pid"]
        await asyncio.to_thread(gone, first)
        return first, (await one(live.tools, "look"))["pid"]

    first, second = living(opened(word, lists, Limits(idle_s=0.05, quiet_s=0.0)), idle)
    assert first != second


@pytest.mark.slow
def test_a_run_that_holds_a_server_keeps_it_from_ending(tmp_path: Path, lists: Path) -> None:
    word = config(tmp_path, a=server(tmp_path / "a", calls={"look": {"about": True}}))

    async def held(live: LiveTools) -> tuple[int, int]:
        async with live.tools.opened():
            first = (await one(live.tools, "look"))["pid"]
            await asyncio.sleep(0.2)
            return first, (await one(live.tools, "look"))["pid"]

    first, second = living(opened(word, lists, Limits(idle_s=0.02, quiet_s=0.0)), held)
    assert first == second


def test_a_server_that_dies_is_started_again_but_ever_later(
    tmp_path: Path, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atc.tools.mcp.live_server.FIRST_S", 1000.0)
    log = tmp_path / "heard"
    calls = {"die": {"exit": 3}, "look": {"value": 1}}
    word = config(tmp_path, a=server(tmp_path / "a", calls=calls, heard_file=str(log)))

    async def dying(live: LiveTools) -> list[Any]:
        return [await one(live.tools, name) for name in ("die", "die", "look", "look")]

    first, second, third, fourth = living(opened(word, lists), dying)
    assert (first.outcome, first.cause) == ("unknown", "broken")
    assert second.outcome == "unknown"
    for waiting in (third, fourth):
        assert isinstance(waiting, ToolError)
        assert (waiting.outcome, waiting.status, waiting.transient) == ("refused", "unreachable", False)
        assert "has failed 2 times and is tried again in" in str(waiting)
    assert len(heard(log, "initialize")) == 3  # for the list, and two starts


def test_a_server_that_is_not_tried_yet_says_why_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.tools.mcp.live_server.FIRST_S", 1000.0)

    async def started() -> None:
        """Nothing is done at a start."""

    async def tried() -> list[str]:
        [spec] = read_specs({"mcpServers": {"a": {"command": "/nowhere/x"}}})
        server = LiveServer(spec, Hooks(started, lambda _: None, lambda: None), Limits())
        said = []
        async with server:
            for _ in range(4):
                with pytest.raises(Unreachable) as caught:
                    async with server.connected():
                        pass
                said.append(str(caught.value))
        return said

    *before, third, fourth = asyncio.run(tried())
    assert all(each.startswith("cannot be started: there is no command '/nowhere/x'") for each in before)
    for waiting in (third, fourth):
        assert waiting.startswith("has failed 2 times and is tried again in ")
        assert waiting.endswith(f"(the last time it {before[0]})")


def test_a_server_that_died_unseen_costs_no_call(tmp_path: Path, lists: Path) -> None:
    word = config(tmp_path, a=server(tmp_path / "a", calls={"look": {"about": True}}))

    async def killed(live: LiveTools) -> tuple[int, int]:
        first = (await one(live.tools, "look"))["pid"]
        os.killpg(first, signal.SIGKILL)
        await asyncio.to_thread(gone, first)
        async with asyncio.timeout(PATIENCE_S):
            while live._entries[0].server.running() is not None:  # noqa: ASYNC110 - nothing else tells
                await asyncio.sleep(0.01)
        return first, (await one(live.tools, "look"))["pid"]

    first, second = living(opened(word, lists), killed)
    assert first != second


def test_delays_grow_and_end() -> None:
    now = [0.0]
    backoff = Backoff(lambda: now[0], lambda: 1.0)
    waits = []
    for _ in range(14):
        backoff.failed()
        waits.append(backoff.wait_s)
    assert waits[:5] == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == MOST_S
    now[0] += 100
    assert backoff.wait_s == MOST_S - 100
    backoff.well()
    assert (backoff.wait_s, backoff.failures) == (0.0, 0)


def test_a_server_that_is_down_comes_back_by_itself(
    tmp_path: Path, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atc.tools.mcp.live_server.FIRST_S", 0.01)
    made = server(tmp_path / "a", calls={"look": {"value": 1}})
    script = Path(made["args"][-2])
    away = script.rename(script.with_suffix(".away"))
    word = config(tmp_path, a=made, b=server(tmp_path / "b", [reading("listen")]))

    async def back(live: LiveTools) -> str:
        assert [*live.tools] == ["listen"]
        line = live.down["a"]
        away.rename(script)
        await changed(live, lambda: "look" in live.tools)
        assert not live.down
        return line

    line = living(opened(word, lists), back)
    assert line.startswith("a (")
    assert "\n" not in line


@pytest.mark.slow
def test_nobody_hangs_on_a_server_that_says_nothing(tmp_path: Path, lists: Path) -> None:
    word = config(tmp_path, a={"command": "sleep", "args": ["60"]}, b=server(tmp_path / "b", [reading("listen")]))

    async def settled() -> dict[str, str]:
        async with opened(word, lists, Limits(start_timeout_s=0.3)) as live:
            await live.settled()
            assert [*live.tools] == ["listen"]
            return dict(live.down)

    assert "did not answer within 0.3 s" in asyncio.run(settled())["a"]

    async def left_at_once() -> None:
        async with opened(word, None) as live:
            await live.settled(0.05)

    asyncio.run(left_at_once())


@pytest.mark.slow
def test_servers_that_are_silent_do_not_keep_the_others_waiting(
    tmp_path: Path, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atc.tools.mcp.live_server._TURN_S", 0.2)
    silent = {f"s{n}": {"command": "sleep", "args": ["600"]} for n in range(6)}
    word = config(tmp_path, **silent, a=server(tmp_path / "a", [reading("look")]))

    async def run() -> None:
        async with opened(word, lists, Limits(start_timeout_s=500.0)) as live:
            await changed(live, lambda: "look" in live.tools)
            assert live.coming == tuple(silent)

    asyncio.run(run())


# What servers say unasked


def test_a_changed_list_is_followed_and_a_toolset_that_was_taken_stays(tmp_path: Path, lists: Path) -> None:
    pages = [{"tools": [reading("grow"), reading("grown", description="New.")]}]
    grow = {"pages": pages, "notify": ["notifications/tools/list_changed"] * 20, "value": 1}
    word = config(tmp_path, a=server(tmp_path / "a", calls={"grow": grow}))

    async def growing(live: LiveTools) -> tuple[Toolset, Toolset]:
        before = live.tools
        async with before.opened():
            assert await one(before, "grow") == "1"
            await changed(live, lambda: "grown" in live.tools)
            assert await one(before, "grow") == "1"
        return before, live.tools

    before, after = living(opened(word, lists), growing)
    assert [*before] == ["grow"]
    assert [*after] == ["grow", "grown"]
    assert after["grow"] is before["grow"]


MODERN = """
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("modern")
reads = ToolAnnotations(read_only_hint=True)

@server.tool(annotations=reads)
async def grow(context: Context) -> int:
    server.add_tool(grown, annotations=reads)
    await context.notify_tools_changed()
    return 1

def grown() -> int:
    return 2

server.run()
"""


@pytest.mark.slow
def test_the_subscription_of_newer_versions_is_followed(tmp_path: Path, lists: Path) -> None:
    (tmp_path / "modern.py").write_text(MODERN)
    word = config(tmp_path, a={"command": sys.executable, "args": [str(tmp_path / "modern.py")]})

    async def growing(live: LiveTools) -> Any:
        await one(live.tools, "grow")
        await changed(live, lambda: "grown" in live.tools)
        return await one(live.tools, "grown")

    assert living(opened(word, lists), growing) == {"result": 2}


def test_progress_of_a_call_is_heard_by_who_listens(tmp_path: Path, lists: Path) -> None:
    reports = [{"progress": 1, "total": 2, "message": "half\n\u001b[31mdone"}, {"progress": 2}]
    word = config(tmp_path, a=server(tmp_path / "a", calls={"work": {"progress": reports, "value": 1}}))
    told: list[Progress] = []

    async def listening(live: LiveTools) -> None:
        assert await one(live.tools, "work") == "1"
        token = PROGRESS.set(told.append)
        assert await one(live.tools, "work") == "1"
        PROGRESS.reset(token)

    living(opened(word, lists), listening)
    assert [(each.tool, each.done, each.total) for each in told] == [("work", 1.0, 2.0), ("work", 2.0, None)]
    assert told[0].message == "half [31mdone"


@pytest.mark.slow
def test_a_call_that_is_cancelled_is_cancelled_at_the_server(tmp_path: Path, lists: Path) -> None:
    log = tmp_path / "heard"
    calls = {"long": {"sleep": 0.2, "value": 1}, "look": {"value": 2}}
    word = config(tmp_path, a=server(tmp_path / "a", calls=calls, heard_file=str(log)))

    def begun() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not any(each["params"]["name"] == "long" for each in heard(log, "tools/call")):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    async def cancelling(live: LiveTools) -> Any:
        await one(live.tools, "look")
        call = asyncio.create_task(one(live.tools, "long"))
        await asyncio.to_thread(begun)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return await one(live.tools, "look")

    assert living(opened(word, lists), cancelling) == "2"
    cancelled = heard(log, "notifications/cancelled")
    asked = [each["id"] for each in heard(log, "tools/call") if each["params"]["name"] == "long"]
    assert [each["params"]["requestId"] for each in cancelled] == asked


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", {"messages": [], "maxTokens": 10}),
        ("roots/list", {}),
        ("elicitation/create", {"message": "yes?", "requestedSchema": {"type": "object", "properties": {}}}),
    ],
)
def test_what_a_server_asks_is_refused(tmp_path: Path, lists: Path, method: str, params: dict[str, Any]) -> None:
    log = tmp_path / "heard"
    ask = {"ask": {"method": method, "params": params}}
    word = config(tmp_path, a=server(tmp_path / "a", calls={"pry": ask}, heard_file=str(log)))
    reply = living(opened(word, lists), lambda live: one(live.tools, "pry"))
    assert "not supported" in reply["error"]["message"]
    capabilities = heard(log, "initialize")[0]["params"]["capabilities"]
    assert not {"sampling", "roots", "elicitation"} & capabilities.keys()


# Wrong input


def test_what_is_wrong_with_the_words_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolImportError, match="no tools are named"):
        live_tools([])
    with pytest.raises(ToolImportError, match="there is no file"):
        live_tools(["nowhere.json"])
    with pytest.raises(UsageError, match="the limit is 200"):
        LiveTools(read_specs("true") * 201)
    with pytest.raises(ToolImportError):
        live_tools(["mcp:true"], documents=tmp_path / "none")


def test_patterns_and_documents_hold_for_tools_that_come_later(tmp_path: Path, lists: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "look.json").write_text(json.dumps({"name": "look", "description": "By hand."}))
    word = config(tmp_path, a=server(tmp_path / "a", [reading("look"), entry("write_it")]))
    live = opened(word, lists, only=["l*", "nothing_yet"], documents=docs)
    assert not live.tools
    living(live)
    assert [*live.tools] == ["look"]
    assert live.tools["look"].protocol.description == "By hand."
    assert live.tools["look"].protocol.source.kind == "mcp"


def test_a_tool_that_cannot_be_one_costs_itself_alone(tmp_path: Path, lists: Path) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(150):
        deep = {"type": "array", "items": deep}
    wrong = [entry("deep", inputSchema={"type": "object", "properties": {"x": deep}})]
    word = config(tmp_path, a=server(tmp_path / "a", [*wrong, reading("look")]))
    live = opened(word, lists)
    living(live)
    assert [*live.tools] == ["look"]


def test_a_tool_with_a_huge_document_is_left_out(tmp_path: Path, lists: Path, caplog: pytest.LogCaptureFixture) -> None:
    huge = {"type": "object", "properties": {"x": {"enum": [f"value {n}" for n in range(40_000)]}}}
    word = config(tmp_path, a=server(tmp_path / "a", [entry("huge", inputSchema=huge), reading("look")]))
    live = opened(word, lists)
    living(live)
    assert [*live.tools] == ["look"]
    assert "a: the tool 'huge' is left out: its document has" in caplog.text


@pytest.mark.slow
def test_a_run_passes_progress_on(tmp_path: Path, lists: Path) -> None:
    calls = {"work": {"progress": [{"progress": 1, "total": 3}], "value": 5}}
    word = config(tmp_path, a=server(tmp_path / "a", calls=calls))
    told: list[Progress] = []

    async def run(live: LiveTools) -> Any:
        PROGRESS.set(told.append)
        model = FakeModel(["```python\nanswer = work()\n```"])
        async with Agent(live.tools, model=model, sentence=False) as agent:
            return await agent.arun("do it")

    result = living(opened(word, lists), run)
    assert (result.status, result.value) == ("answered", "5"), result.fault
    assert told == [Progress("work", 1.0, 3.0)]


OWNER = """
import asyncio, sys
from atc.tools.mcp.live import live_tools

async def main():
    async with live_tools([sys.argv[1]]) as live:
        await live.settled()
        async with live.tools.opened():
            about = await live.tools["look"].transport({})
            print(about["pid"], flush=True)
            await live.tools["long"].transport({})

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_an_owner_that_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    calls = {"look": {"about": True}, "long": {"sleep": 3}}
    word = config(tmp_path, a=server(tmp_path / "a", calls=calls), b={"command": "sleep", "args": ["1"]})
    with subprocess.Popen([sys.executable, "-c", OWNER, word], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(number)
        owner.wait(60)
    assert gone(pid)


def test_what_was_a_read_when_its_list_was_kept_must_be_one_now(tmp_path: Path, lists: Path) -> None:
    plan = server(
        tmp_path / "a", calls={"wipe": {"value": 1}, "look": {"value": 2}}, calls_file=str(tmp_path / "calls")
    )
    word = config(tmp_path, a=plan)
    living(opened(word, lists))
    file = Path(plan["args"][-1])
    writes = entry("wipe", annotations={"readOnlyHint": False})
    file.write_text(json.dumps({**json.loads(file.read_text()), "pages": [{"tools": [writes, reading("look")]}]}))

    async def calls(live: LiveTools) -> list[Any]:
        before = live.tools
        assert before["wipe"].protocol.effect == "read"
        found = [await one(before, "wipe"), await one(before, "look")]
        await changed(live, lambda: live.tools["wipe"].protocol.effect == "write")
        return [*found, await one(live.tools, "wipe")]

    refused, value, after = living(opened(word, lists), calls)
    assert (refused.status, refused.outcome) == ("changed", "refused")
    assert (value, after) == ("2", "1")
    assert [json.loads(line)["name"] for line in (tmp_path / "calls").read_text().splitlines()] == ["look", "wipe"]

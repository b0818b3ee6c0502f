"""`atc graph`: what it prints and asks of the store, and what it says to wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atc.catalogue.graph.edges import Learnt
from atc.catalogue.graph.lessons import Lessons
from atc.cli import graph
from atc.schemas.protocol import Protocol, Source
from atc.tools.sources import open_tools
from atc.wording.sketches import WORDS
from tests.support.cli import atc

TOOLS = '''
from typing import TypedDict
from atc import tool

class User(TypedDict):
    user_id: int
    name: str

class Users(TypedDict):
    users: list[User]

@tool(effect="read")
def search_user(name: str) -> Users:
    """Find users.\\x1b[2J"""
    return {"users": []}

@tool(effect="read")
def get_user(user_id: int) -> User:
    """One user."""
    return {"user_id": user_id, "name": "x"}

@tool(effect="read")
def get_orders(user_id: int) -> list[str]:
    """What a user ordered."""
    return []
'''
EDGE = ("search_user", ("users", "[]", "user_id"), "get_user", "user_id")
T = ("-t", "tools.py")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("tools.py").write_text(TOOLS)
    protocols()  # a second module of one name in one process gets another name: from here on it stays


def protocols() -> dict[str, Protocol]:
    return {name: tool.protocol for name, tool in open_tools(["tools.py"]).items()}


def learnt() -> Learnt:
    with graph._store() as store:
        return store.learnt(protocols())


def taught() -> None:
    """A run in which one tool's user was another one's argument."""
    calls = {"search_user": 1, "get_user": 2}
    with graph._store() as store:
        levels = {("search_user", 0): 1, ("get_user", 1): 2}
        followed = {("search_user", "get_user"): 1}
        store.add(Lessons("a", True, calls, ((3, "get_user"),), followed, {EDGE: 2}, levels=levels), protocols())


def printed(*arguments: str) -> Any:
    ran = atc("graph", *arguments, "--json")
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def refused(*arguments: str, code: int = 2) -> str:
    ran = atc("graph", *arguments)
    assert ran.exit_code == code, ran.output
    assert json.loads(atc("graph", *arguments, "--json").stdout)["error"]["message"] in ran.stderr.replace("\n", " ")
    return ran.stderr


def test_show_says_what_feeds_a_tool_what_it_feeds_and_why() -> None:
    taught()
    printed("correct", "get_orders[]", "get_user.user_id", "--absent", *T)
    printed("correct", "--instead", "get_user", "get_orders", "--absent", *T)
    found = printed("show", "get_user", *T)
    assert (found["calls"]["ok"], found["calls"]["failed"]) == pytest.approx((2, 1), abs=0.2)
    fed = found["fed_by"][0]
    assert (fed["from"], fed["to"]) == ("search_user.users[].user_id", "get_user.user_id")
    assert (fed["path"], fed["why"]) == (["users", "[]", "user_id"], WORDS[fed["evidence"]])
    assert found["taken_away"] == [{"from": "get_orders[]", "to": "get_user.user_id"}]
    ran = atc("graph", "show", "get_user", *T)
    assert ran.exit_code == 0
    for text in (
        "get_user (read, functions): One user.",
        "2 calls in answered runs, 1 that failed, the last on 2",
        "search_user.users[].user_id",
        "taken away by you: get_orders[] → get_user.user_id",
        "not in its place, you say: get_orders",
    ):
        assert text in ran.stdout
    assert "\x1b" not in atc("graph", "show", "search_user", *T).stdout


def test_show_says_what_is_not_there() -> None:
    ran = atc("graph", "show", "search_user", *T)
    for text in (
        "no run has called it yet",
        "what feeds it: nothing",
        "nothing feeds name",
        "what can take its place: nothing",
    ):
        assert text in ran.stdout
    assert "there is no tool 'get_usr': did you mean get_user" in refused("show", "get_usr", *T)


def test_a_damaged_store_is_a_line_beside_the_result() -> None:
    taught()
    file = next(Path().rglob("learnt-*.db"))
    file.write_bytes(b"no database at all" * 1000)
    ran = atc("graph", "show", "get_user", *T, "--json")
    assert (ran.exit_code, json.loads(ran.stdout)["calls"]["ok"]) == (0, 0)
    assert ran.stderr.startswith("atc: ")
    assert file.name in ran.stderr


@pytest.mark.parametrize(("said", "kept"), [("--exists", {EDGE: True}), ("--absent", {EDGE: False}), ("--clear", {})])
def test_an_edge_is_corrected_in_the_words_in_which_it_is_shown(said: str, kept: dict[Any, bool]) -> None:
    shown = printed("show", "get_user", *T)["fed_by"][0]
    printed("correct", shown["from"], shown["to"], "--exists", *T)
    made = printed("correct", shown["from"], shown["to"], said, *T)
    assert learnt().corrected_feeds == kept
    assert made == {
        "supplier": EDGE[0],
        "path": list(EDGE[1]),
        "consumer": EDGE[2],
        "parameter": EDGE[3],
        "there": kept.get(EDGE),
    }
    ran = atc("graph", "correct", "--instead", "get_user", "search_user", said, *T)
    assert ran.stdout.startswith("search_user in place of get_user: ")
    assert list(learnt().corrected_substitutes.values()) == list(kept.values())
    printed("correct", "--same", "get_user.user_id", "get_orders.user_id", said, *T)
    assert list(learnt().corrected_same.values()) == list(kept.values())
    (means,) = printed("show", "get_user", *T)["means"]
    assert (means["same"] == ["get_orders.user_id"]) is (said != "--absent")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search_user.users[].user_id", "get_user.user_id"), "give one of three: --exists"),
        (("search_user.users[].user_id", "get_user.user_id", "--exists", "--clear"), "give one of three"),
        (("search_user.users[].userid", "get_user.user_id", "--exists"), "did you mean users[].user_id"),
        (
            ("search_user.users[].user_id", "get_user.id", "--absent"),
            "'id' is no argument of get_user: did you mean user_id?",
        ),
        (
            ("search_user.users[].user_id", "get_user.user_id", "--absent", "--instead"),
            "there is no tool 'search_user.users[]",
        ),
        (("get_user.user_id", "get_user.user_id", "--absent", "--same"), "is the same as itself"),
        (("get_user.user_id", "get_orders", "--absent", "--same"), "write get_orders.ARGUMENT"),
        (("get_user", "get_orders", "--absent", "--same", "--instead"), "give one of them"),
        (("get_user", "get_user", "--absent", "--instead"), "a tool cannot take its own place"),
    ],
)
def test_a_wrong_correction_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("correct", *arguments, *T)
    assert not learnt()


def test_tools_are_forgotten_or_everything_is() -> None:
    taught()
    assert printed("forget", "get_orders", *T) == {"forgotten": ["get_orders"], "facts": 0}
    forgotten = printed("forget", "get_user", *T)
    assert (forgotten["forgotten"], forgotten["facts"] > 0) == (["get_user"], True)
    assert list(learnt().calls) == ["search_user"]
    assert atc("graph", "forget", "--all").stdout.endswith(" about all tools\n")
    assert not learnt()
    assert "name the tools to forget, or a source with --tools, or give --all" in refused("forget")
    assert "leave the names out, or leave --all out" in refused("forget", "get_user", "--all")
    assert "leave --all out to forget those of --tools" in refused("forget", "--all", *T)
    assert "say with --tools" in refused("forget", "get_user")
    assert "did you mean get_user" in refused("forget", "get_usr", *T)


def test_a_source_is_forgotten_alone() -> None:
    taught()
    shop = Protocol(name="get_item", source=Source(kind="openapi", location="http://shop"))
    gone = shop.model_copy(update={"name": "get_price"})
    with graph._store() as store:
        store.add(Lessons("b", True, {"get_item": 1, "get_price": 1}), {"get_item": shop, "get_price": gone})
    ran = atc("graph", "forget", *T)
    assert ran.stdout.startswith("forgot ")
    assert ran.stdout.endswith(" facts about all tools of tools.py\n")
    assert not learnt()
    Path("shop.json").write_text(shop.model_dump_json())
    with graph._store() as store:
        assert set(store.learnt({"get_item": shop, "get_price": gone}).calls) == {"get_item", "get_price"}
    assert printed("forget", "-t", "shop.json") == {"forgotten": ["get_item"], "facts": 2}  # the shop has no price now
    with graph._store() as store:
        assert not store.learnt({"get_item": shop, "get_price": gone})


def test_list_names_all_that_feeds_something() -> None:
    taught()
    found = printed("list", *T)
    assert [(each["from"], each["to"], each["evidence"]) for each in found] == [
        ("search_user.users[].user_id", "get_user.user_id", "seen"),
        ("search_user.users[].user_id", "get_orders.user_id", "names"),
    ]
    shown = atc("graph", "list", *T).stdout
    assert "search_user.users[].user_id  get_orders.user_id  names fit" in shown
    Path("one.py").write_text("def now() -> str:\n    return ''\n")
    assert atc("graph", "list", "-t", "one.py").stdout == "what feeds what: nothing\n"

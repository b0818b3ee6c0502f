"""Kept programs among the tools that they call: how these are found, what is refused, and whose files count."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from atc import Toolset
from atc._host.trust import TrustStore
from atc.calls.permissions import Permissions
from atc.errors import ToolImportError, UsageError
from atc.result import Effect
from atc.schemas.protocol import SourceKey
from atc.settings import Settings
from atc.tools.kept import UsedTool
from atc.tools.kept_files import MAX_FILE, KeptFile, kept_text
from atc.tools.kept_folders import read_bytes, read_places
from atc.tools.kept_tools import depth_of, kept_tool, with_kept
from atc.tools.sources import looked_at, open_tools
from tests.support.kept_files import WARM, kept_file, put, tools
from tests.support.tools import make_tool

TELL = kept_file("tell", "answer = send(to='me', text=city)\n", ["send"])


def named(name: str, *calls: str, program: str = "answer = 1\n") -> KeptFile:
    return kept_file(name, program, kept=calls, of={})


def reasons(files: Sequence[KeptFile]) -> dict[str, str]:
    return {each.name: each.reason for each in with_kept(tools(), files)[1]}


# -- effects, names, nesting -------------------------------------------------------------------------------------------


def test_the_effect_is_the_strongest_of_its_calls_and_not_what_a_file_says() -> None:
    both = kept_file("both", "answer = send('x', str(temperature(city)))\n", ["temperature", "send"])
    made, left = with_kept(tools(), [WARM, TELL, both, named("nothing")])
    assert left == []
    effects = {name: tool.protocol.effect.value for name, tool in made.items() if tool.kept is not None}
    assert effects == {"is_warm": "read", "tell": "write", "both": "write", "nothing": "read"}
    unknown = Toolset([tools()["temperature"].graded(Effect.UNKNOWN), tools()["send"]])
    assert [kept_tool(each, unknown).protocol.effect.value for each in (WARM, both)] == ["unknown", "write"]
    outer = with_kept(tools(), [TELL, named("outer", "tell")])[0]["outer"]
    assert outer.protocol.effect is Effect.WRITE


def test_what_strangers_write_stays_so() -> None:
    tool = make_tool("temperature", None)
    strange = replace(tool, protocol=tool.protocol.model_copy(update={"untrusted": True}))
    assert kept_tool(WARM, Toolset([strange])).protocol.untrusted is True
    own = replace(tool, protocol=tool.protocol.model_copy(update={"untrusted": False}))
    assert kept_tool(WARM, Toolset([own])).protocol.untrusted is False
    assert kept_tool(WARM, Toolset([tool])).protocol.untrusted is None


def test_a_tool_is_found_by_what_it_is_known_by_at_its_source() -> None:
    renamed = Toolset([tools()["temperature"].called("weather_temperature"), make_tool("warmth", None)])
    inner = kept_tool(WARM, renamed).inner
    assert {name: tool.name for name, tool in inner.items()} == {"temperature": "weather_temperature"}


def test_a_kept_program_stands_in_for_no_tool_nor_a_tool_for_one() -> None:
    found = reasons([WARM, named("temperature", program="answer = 1\n")])
    assert "has this name: keep the run again" in found["temperature"]
    only = Toolset([tools()["send"]])
    made, left = with_kept(only, [WARM, named("temperature")])
    assert [each.name for each in left] == ["is_warm"]
    assert "it calls 'temperature' (function: " in left[0].reason
    assert "temperature" in made
    calls_kept = named("outer", "send")
    assert "it calls 'send' (kept: kept), which is not among the tools" in reasons([calls_kept])["outer"]


@pytest.mark.parametrize("name", ["temperature", "shop_temperature", "warmth"])
def test_a_kept_program_takes_no_name_of_a_tool(name: str) -> None:
    tool = tools()["temperature"]
    source = tool.protocol.source.model_copy(update={"title": "Shop"})
    shop = replace(tool, protocol=tool.protocol.model_copy(update={"source": source}))
    given = Toolset([shop if name != "warmth" else shop.called("warmth")])
    with pytest.raises(ToolImportError, match="has this name: keep the run again with another one"):
        kept_tool(named(name), given)


def test_sets_are_not_joined_to_give_a_kept_program_a_tools_name() -> None:
    made, _ = with_kept(tools(), [WARM])
    with pytest.raises(UsageError, match="a kept program and a tool are named 'is_warm'"):
        made + Toolset([make_tool("is_warm", None)])


def test_kept_programs_are_nested_to_three_and_in_no_circle() -> None:
    chain = [named("a"), named("b", "a"), named("c", "b"), named("d", "c"), named("e", "d")]
    for files in (chain, chain[::-1]):
        made, left = with_kept(tools(), files)
        assert {name: depth_of(tool) for name, tool in made.items() if tool.kept} == {"a": 1, "b": 2, "c": 3}
        told = {each.name: each.reason for each in left}
        assert "more than 3 deep" in told["d"]
        assert "calls 'd', which is left out" in told["e"]
    circle = reasons([named("a", "b"), named("b", "c"), named("c", "a"), named("x", "x")])
    assert "in a circle: a → b → c → a" in circle["c"]
    assert set(circle) == {"a", "b", "c", "x"}
    assert "in a circle" in circle["x"]


def test_many_that_call_each_other_are_refused_soon() -> None:
    chain = [named(f"n{i}", f"n{i + 1}") for i in range(3_000)]
    made, left = with_kept(tools(), chain)
    assert (len(made), len(left)) == (2, 3_000)


def test_a_missing_tool_is_named_with_its_source() -> None:
    gone = replace(WARM, uses=(UsedTool("temperature", SourceKey("mcp", "weather\x1b[2J", "temperature"), "0" * 64),))
    with pytest.raises(ToolImportError, match=r"it calls 'temperature' \(mcp: weather\\x1b\[2J\), which is not among"):
        kept_tool(gone, Toolset([tools()["send"]]))


# -- how they travel ---------------------------------------------------------------------------------------------------


def test_its_tools_go_where_it_goes() -> None:
    made, _ = with_kept(tools(), [WARM, TELL, named("outer", "is_warm", "tell")])
    assert list(made.only("is_warm").inner_tools) == ["temperature"]
    assert sorted(made.select("outer").inner_tools) == ["send", "temperature"]
    assert list(made.inner_tools) == []
    assert [tool.kept is not None for tool in made.only("outer", "send").values()] == [True, False]


def test_an_inner_tool_does_not_hide_another_of_its_name() -> None:
    made, _ = with_kept(tools(), [WARM])
    other = Toolset([made["is_warm"], make_tool("temperature", None)])
    with pytest.raises(UsageError, match="a kept program calls 'temperature' of"):
        _ = other.inner_tools


def test_documents_are_for_the_tools_that_it_calls_and_not_for_itself() -> None:
    made, _ = with_kept(tools(), [WARM])
    known = {
        name: make_tool(name, None, Effect.WRITE).protocol.model_copy(update={"description": "other"}) for name in made
    }
    again = made.with_protocols(known)
    assert again["is_warm"].protocol == made["is_warm"].protocol
    assert again["is_warm"].inner["temperature"].protocol.description == "other"


def test_permissions_say_what_its_tools_do_and_not_what_it_does(tmp_path: Path) -> None:
    made, _ = with_kept(tools(), [WARM, TELL])
    file = tmp_path / "permissions.toml"
    file.write_text('[effects]\nsend = "read"\nis_warm = "read"\ntell = "write"\ntemperature = "write"\n')
    graded = Permissions.load(file).graded(made)
    assert graded["tell"].protocol.effect is Effect.READ
    assert graded["is_warm"].protocol.effect is Effect.WRITE
    assert graded["is_warm"].inner["temperature"].protocol.effect is Effect.WRITE


# -- words of the command line -----------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text('def temperature(city: str) -> float:\n    """Tell how warm it is."""\n    return 7.0\n')
    return str(path)


def file_of(module: str, name: str = "is_warm") -> KeptFile:
    return kept_file(name, "answer = temperature(city) > 15\n", ["temperature"], of=open_tools([module]))


def own() -> Path:
    return Settings.load().kept_dir


def test_the_data_folders_own_count(module: str) -> None:
    with pytest.raises(ToolImportError, match="no program is kept yet"):
        open_tools(["kept"])
    put(own(), file_of(module))
    assert list(open_tools(["kept", module])) == ["temperature", "is_warm"]
    assert list(looked_at(["kept"])) == ["is_warm"]
    assert looked_at(["kept"])["is_warm"].protocol.effect is Effect.UNKNOWN
    assert list(open_tools([module, str(own() / "is_warm.atc"), "kept"])) == ["temperature", "is_warm"]
    with pytest.raises(ToolImportError, match="say where they are: --tools "):
        open_tools(["kept"])


def test_one_that_cannot_be_there_is_left_out_of_a_folder_and_an_error_by_name(module: str) -> None:
    put(own(), file_of(module), WARM, kept_file("lost", "answer = gone(city)\n", ["gone"], of={"gone": GONE}))
    opened = open_tools([module, "kept"])
    assert list(opened) == ["temperature", "is_warm"]
    assert [each.name for each in opened.left_out] == ["lost"]
    assert opened.only("is_warm").left_out == opened.left_out
    with pytest.raises(ToolImportError, match=r"lost\.atc: it calls 'gone'"):
        open_tools([module, str(own() / "lost.atc")])


GONE = make_tool("gone", None)


def test_a_pattern_does_not_take_from_a_kept_program_what_it_calls(tmp_path: Path) -> None:
    document = tmp_path / "api.yaml"
    document.write_text(
        "openapi: 3.1.0\ninfo: {title: Weather, version: '1'}\nservers: [{url: 'http://weather.example'}]\npaths:\n"
        "  /t:\n    get:\n      operationId: temperature\n      responses: {'200': {description: ok}}\n"
    )
    opened = open_tools([str(document)])
    put(own(), kept_file("is_warm", "answer = temperature()\n", ["temperature"], of=opened, parameters={}))
    assert "is_warm" in open_tools([str(document), "kept"], only=["is_warm"], strict=False)


# -- whose files count -------------------------------------------------------------------------------------------------


def trust(*paths: Path) -> None:
    for path in paths:
        TrustStore().add(read_bytes(path))


def test_a_file_of_another_folder_counts_once_it_is_trusted_as_it_is(module: str, tmp_path: Path) -> None:
    (path,) = put(tmp_path / "repo", file_of(module))
    for word in (str(path), str(path.parent)):
        with pytest.raises(ToolImportError, match=r"is not trusted: .*not in your data folder.*`atc trust /"):
            open_tools([module, word])
    trust(path)
    assert "is_warm" in open_tools([module, str(path.parent)])
    assert "is_warm" in open_tools([module]).with_kept(path)
    path.write_text(path.read_text().replace("> 15", "> 16"))
    with pytest.raises(ToolImportError, match="it has changed since you trusted it"):
        open_tools([module, str(path)])
    trust(path)
    kept = open_tools([module, str(path)])["is_warm"].kept
    assert kept is not None
    assert "> 16" in kept.program


def test_a_place_in_the_home_folder(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    trust(*put(tmp_path / "repo", file_of(module)))
    for place in ("~/repo", "~/repo/is_warm.atc"):
        assert "is_warm" in open_tools([module]).with_kept(place)
    with pytest.raises(ToolImportError, match="~nobody-is-here"):
        open_tools([module]).with_kept("~nobody-is-here/x.atc")


def test_a_new_file_in_a_trusted_folder_does_not_count(module: str, tmp_path: Path) -> None:
    trust(*put(tmp_path / "repo", file_of(module)))
    put(tmp_path / "repo", file_of(module, "other"))
    opened = open_tools([module, str(tmp_path / "repo")])
    assert list(opened) == ["temperature", "is_warm"]
    assert [each.name for each in opened.left_out] == ["other"]
    assert "is not trusted" in opened.left_out[0].reason


def test_nothing_of_a_file_is_parsed_before_it_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "bad.atc"
    path.write_text("no file of a kept program")
    with pytest.raises(ToolImportError, match="is not trusted"):
        read_places([path])


def test_files_of_a_repository_are_not_picked_up(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "kept", file_of(module))
    put(tmp_path, file_of(module))
    monkeypatch.setenv("ATC_KEPT_DIR", str(tmp_path / "mine"))
    monkeypatch.chdir(tmp_path)
    assert list(open_tools([module])) == ["temperature"]
    with pytest.raises(ToolImportError, match="no program is kept yet"):
        open_tools(["kept"])


@pytest.mark.parametrize("others", [0o020, 0o002])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_can_write_does_not_count(module: str, what: str, others: int) -> None:
    (path,) = put(own(), file_of(module))
    changed = path if what == "file" else path.parent
    os.chown(changed, -1, 12345) if os.getuid() == 0 else None
    changed.chmod(changed.stat().st_mode | others)
    if os.getuid() != 0 and others == 0o020:
        pytest.skip("the user's group may be the user's alone")
    opened = open_tools([module, "kept"])
    assert list(opened) == ["temperature"]
    assert "others can write to" in opened.left_out[0].reason
    trust(path)
    assert "is_warm" in open_tools([module, "kept"])


@pytest.mark.parametrize("kind", ["link", "pipe", "huge", "missing", "folder"])
def test_what_is_no_ordinary_file_is_not_read(kind: str, module: str, tmp_path: Path) -> None:
    path = own() / "is_warm.atc"
    (elsewhere,) = put(tmp_path / "elsewhere", file_of(module))
    own().mkdir(parents=True)
    match kind:
        case "link":
            path.symlink_to(elsewhere)
        case "pipe":
            os.mkfifo(path)
        case "huge":
            path.write_text(kept_text(file_of(module)) + "#" * MAX_FILE)
        case "folder":
            path.mkdir()
            (path / "x.atc").mkdir()
    told = {
        "link": "is a link", "pipe": "is no ordinary file", "huge": "has more than 200,000 bytes",
        "missing": "there is no file", "folder": "is no ordinary file",
    }[kind]  # fmt: skip
    with pytest.raises(ToolImportError, match=told):
        open_tools([module, str(path)])


def test_a_folder_holds_kept_programs_or_documents(module: str, tmp_path: Path) -> None:
    trust(*put(tmp_path / "repo", file_of(module)))
    (tmp_path / "repo" / "tool.json").write_text('{"name": "tool"}')
    with pytest.raises(ToolImportError, match="holds protocol documents and kept programs: put them into two folders"):
        open_tools([module, str(tmp_path / "repo")])


def test_a_document_is_no_kept_program(tmp_path: Path) -> None:
    (tmp_path / "tool.json").write_text('{"name": "tool", "effect": "read", "source": {"kind": "kept"}}')
    with pytest.raises(ToolImportError, match=r"source\.kind: 'kept' is for files NAME.atc"):
        open_tools([str(tmp_path)])

"""Where tools are: every form that a word on the command line may take, and what is said of every wrong one."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from atc import Agent, Toolset
from atc.cli import options
from atc.errors import EnvironmentProblem, ToolImportError, UsageError
from atc.settings import Settings
from atc.tools.sources import open_tools
from atc.tools.tool import IMPORTERS, answer_of

FILE = '''
from atc import Tool, Toolset, Protocol, tool
import helper_of_mine

def double(n: int) -> int:
    """Twice."""
    return helper_of_mine.twice(n)

def _private(n: int) -> int:
    return n

def toolset() -> Toolset:
    return Toolset.from_functions(double)

def broken() -> Toolset:
    raise RuntimeError("no database")

def lies() -> "Toolset":
    return 5

TOOLS = Toolset.from_functions(double)
MANY = [double, Tool(Protocol(name="shown"))]
ONE = Tool(Protocol(name="shown"))
EMPTY = []
NUMBER = 5
TEXT = "double"
'''


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("attic", "cellar", "mine"):  # of another test of this process: a file of that name is called otherwise
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("mine.py").write_text(FILE)
    Path("helper_of_mine.py").write_text("def twice(n):\n    return 2 * n\n")
    Path("openapi.json").write_text(
        json.dumps(
            {
                "openapi": "3.0.3",
                "info": {"title": "t", "version": "1"},
                "servers": [{"url": "http://localhost"}],
                "paths": {"/x": {"get": {"operationId": "getX", "responses": {"200": {"description": "ok"}}}}},
            }
        )
    )
    Path("protocols").mkdir()
    Path("protocols/look.json").write_text(json.dumps({"name": "look"}))
    before = set(sys.modules)
    yield
    for name, module in list(sys.modules.items()):
        if name not in before and str(tmp_path) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("mine.py:double", ["double"]),
        ("mine.py:TOOLS", ["double"]),
        ("mine.py:toolset", ["double"]),
        ("mine.py:MANY", ["double", "shown"]),
        ("mine.py:ONE", ["shown"]),
        ("mine:double", ["double"]),
        ("openapi.json", ["get_x"]),
        ("protocols", ["look"]),
        ("protocols/look.json", ["look"]),
    ],
)
def test_a_word_names_tools(source: str, names: list[str]) -> None:
    assert list(open_tools([source])) == names


def test_the_document_of_a_tool_that_openapi_described_is_no_openapi_document() -> None:
    Path("made.json").write_text(
        json.dumps({"name": "made", "source": {"kind": "openapi", "location": "swagger.json"}})
    )
    assert list(open_tools(["made.json"])) == ["made"]


def test_a_file_gives_all_its_public_functions() -> None:
    Path("mine.py").write_text("from os.path import join\ndef one(): 'One.'\ndef two(): 'Two.'\ndef _three(): pass\n")
    assert list(open_tools(["mine.py"])) == ["one", "two"]


def test_a_tool_of_a_script_is_the_same_when_a_command_reads_the_script() -> None:
    """Else a run of the script could not go on with ``atc resume --tools SCRIPT``: its tools would be gone."""
    Path("cellar.py").write_text(
        "from atc import Toolset\ndef one() -> int:\n    'One.'\n    return 1\n"
        "if __name__ == '__main__':\n    ran = Toolset.from_functions(one)['one'].protocol\n"
    )
    ran = runpy.run_path("cellar.py", run_name="__main__")["ran"]
    assert ran == open_tools(["cellar.py"])["one"].protocol
    assert ran.source.location == "cellar:one"


def test_several_words_are_joined_in_their_order() -> None:
    assert list(open_tools(["protocols", "mine.py:double"])) == ["look", "double"]
    assert len(open_tools(["atlas"])) > 10


def test_the_bundled_tools_need_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("atc.atlas")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pycountry", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install .*\[atlas\]'"):
        open_tools(["atlas"])


@pytest.mark.parametrize("name", ["json", "calendar", "pytest", "with space", "1st"])
def test_a_file_never_takes_the_place_of_another_module(name: str) -> None:
    before = sys.modules.get(name)
    Path(f"{name}.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Car:\n    n: 'int'\n"
        "def make(n: int) -> Car:\n    'Make.'\n    return Car(n)\n"
    )
    assert list(open_tools([f"{name}.py"])) == ["make"]
    assert sys.modules.get(name) is before


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "names no tools"),
        ("nothing", "names no tools: there is no such file or folder. Give `atlas`"),
        ("nothing.py", "there is no file nothing.py"),
        ("nothing.yaml", "there is no file nothing.yaml in /"),
        ("localhost:8000/openapi.json", "is an address without its scheme: write http://localhost:8000/openapi.json"),
        ("comma.json", "comma.json is no JSON: "),
        ("vscode.json", 'names MCP servers under "servers": put them under "mcpServers"'),
        ("bare.json", 'names MCP servers at its top: put them under "mcpServers"'),
        ("starts.py", "starts.py begins a run while it is read for its tools: put that part below `if __name__"),
        ("mine.py:missing", "mine has no missing"),
        ("mine.py:broken", "failed: RuntimeError: no database"),
        ("mine.py:lies", "did not return the Toolset that it promised"),
        ("mine.py:EMPTY", "must be a list of functions or tools"),
        ("mine.py:NUMBER", "is a int: give a Toolset"),
        ("mine.py:TEXT", "is a str: give a Toolset"),
        ("empty.py", "defines no public function"),
        ("wrong.py", "wrong.py cannot be imported: SyntaxError"),
        ("leaves.py", "leaves.py cannot be imported: SystemExit: 3"),
        ("no.such.module:x", "module no.such.module cannot be imported: ModuleNotFoundError"),
        (":x", "cannot be imported"),
        ("folder.py", "there is no file folder.py"),
        ("mien.py", "there is no file mien.py: did you mean mine.py?"),
        ("mien.py:double", "there is no file mien.py: did you mean mine.py?"),
        ("opnapi.json", "there is no file opnapi.json: did you mean openapi.json?"),
        ("protocols/lok.json", "there is no file protocols/lok.json: did you mean protocols/look.json?"),
        ("mine", "there is no such file or folder: did you mean mine.py? Give `atlas`"),
        ("atlass", "there is no such file or folder: did you mean atlas? Give `atlas`"),
        ("localhost:8000", "is an address without its scheme: write http://localhost:8000 or https://localhost:8000"),
        ("api.example.org:443/v1", "is an address without its scheme: write http://api.example.org:443/v1"),
        ("broken.json", "broken.json"),
        ("empty", "empty"),
    ],
)
def test_a_wrong_word_is_told(source: str, words: str) -> None:
    Path("empty.py").write_text("x = 1")
    Path("comma.json").write_text('{"mcpServers": {"shop": {"command": "python",}}}')
    Path("vscode.json").write_text('{"servers": {"shop": {"command": "python"}}}')
    Path("bare.json").write_text('{"shop": {"url": "https://shop.example/mcp"}}')
    Path("starts.py").write_text(
        "from atc import Agent, tool\n@tool(effect='read')\ndef one() -> int:\n    'One.'\n    return 1\n"
        "with Agent([one], keep_runs=False) as agent:\n    agent.run_program('answer = one()')\n"
    )
    Path("wrong.py").write_text("def (")
    Path("leaves.py").write_text("raise SystemExit(3)")
    Path("broken.json").write_text("{")
    Path("empty").mkdir()
    before = set(sys.modules)
    with pytest.raises(ToolImportError) as caught:
        open_tools([source])
    assert words in str(caught.value)
    assert {name for name in set(sys.modules) - before if name in ("wrong", "leaves")} == set()


def package(monkeypatch: pytest.MonkeyPatch, entry: str, code: str, name: str = "acme") -> None:
    """Install a package with one entry point, as far as Python can see."""
    folder = Path("site") / f"{name}_tools-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-tools\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[atc.tools]\n{entry}\n")
    Path("site", f"{name}_tools.py").write_text(code)
    monkeypatch.syspath_prepend(Path("site").resolve())


ACME = """
from atc import Protocol, Source, Tool, Toolset

def open_acme(argument: str) -> Toolset:
    if argument == "broken":
        raise OSError("no such board")
    if argument == "nothing":
        return None
    return Toolset([Tool(Protocol(name=argument, source=Source(kind="acme", location="https://acme.example")))])
"""


def test_another_package_adds_a_source_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, "acme = acme_tools:open_acme", ACME)
    assert list(open_tools(["mine.py:double"])) == ["double"]
    assert "acme_tools" not in sys.modules  # nothing is imported before a word names it
    (tool,) = open_tools(["acme:board"]).values()
    assert (tool.name, tool.protocol.source.kind, tool.protocol.source.remote) == ("board", "acme", True)
    with pytest.raises(ToolImportError, match=r"'nothing' names no tools.*installed sources: acme:…"):
        open_tools(["nothing"])


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("broken", "acme_tools:open_acme of the package acme-tools.* failed: OSError: no such board"),
        ("nothing", "made a NoneType: it must be a function of the ARG of NAME:ARG that returns an atc.Toolset"),
    ],
)
def test_what_fails_in_another_package_is_named(monkeypatch: pytest.MonkeyPatch, argument: str, words: str) -> None:
    package(monkeypatch, "acme = acme_tools:open_acme", ACME)
    with pytest.raises(ToolImportError, match=words):
        open_tools([f"acme:{argument}"])


def test_two_packages_with_one_source_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, "acme = acme_tools:open_acme", ACME)
    package(monkeypatch, "acme = other_tools:open_acme", ACME, name="other")
    with pytest.raises(
        ToolImportError, match=r"several packages have a tool source 'acme': acme-tools .*, other-tools"
    ):
        open_tools(["acme:board"])


def test_no_word_is_told_too() -> None:
    with pytest.raises(ToolImportError, match="no tools are named: give `atlas`"):
        open_tools([])


def test_options_reach_the_openapi_importer() -> None:
    seen: Any = open_tools(["openapi.json"], base_url="http://127.0.0.1:1")["get_x"].transport
    assert "127.0.0.1:1" in repr(seen)


def service(title: str, *operations: str) -> dict[str, Any]:
    """An OpenAPI document of reads."""
    paths = {
        f"/{each}": {"get": {"operationId": each, "responses": {"200": {"description": "ok"}}}} for each in operations
    }
    servers = [{"url": "http://localhost"}]
    return {"openapi": "3.0.3", "info": {"title": title, "version": "1"}, "servers": servers, "paths": paths}


def written(name: str, title: str, *operations: str) -> str:
    """Write such a document; its name."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(json.dumps(service(title, *operations)))
    return name


@pytest.mark.parametrize("turned", [False, True], ids=["as given", "the other way round"])
def test_equal_names_of_two_sources_get_their_source_in_front(turned: bool) -> None:
    Path("attic.py").write_text("def list_items(): 'List.'\ndef sweep(): 'Sweep.'\n")
    shop, library = written("a.json", "Shop", "list_items", "pay"), written("b.json", "City Library", "list_items")
    words = [shop, library, "attic.py"]
    tools = open_tools(words[::-1] if turned else words)
    assert {*tools} == {"shop_list_items", "pay", "city_library_list_items", "attic_list_items", "sweep"}
    assert tools["attic_list_items"].protocol.plain_name == "list_items"
    assert tools["attic_list_items"].protocol.source.operation == "list_items"


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        ({"a.json": "FastAPI", "b.json": "FastAPI"}, {"fast_api_a_list_items", "fast_api_b_list_items"}),
        ({"x/openapi.json": "FastAPI", "y/openapi.json": "FastAPI"}, None),
        ({"a.json": "", "b.json": "Shop"}, {"a_list_items", "shop_list_items"}),
        ({"a.json": "So " + "long " * 30, "b.json": "B"}, {"so_long_long_long_long_long_list_items", "b_list_items"}),
        ({"a.json": "商店", "b.json": "Shop"}, None),
    ],
)  # fmt: skip
def test_sources_of_any_title_are_told_apart(sources: dict[str, str], names: set[str] | None) -> None:
    words = [written(name, title, "list_items") for name, title in sources.items()]
    tools = open_tools(words)
    assert len(tools) == 2
    assert set(tools) == set(open_tools(words[::-1]))
    assert all(name.isidentifier() and len(name) <= 64 for name in tools)
    assert names is None or set(tools) == names


def test_a_made_name_takes_nobody_elses() -> None:
    words = [written("a.json", "Shop", "list_items", "shop_list_items"), written("b.json", "Library", "list_items")]
    tools = open_tools(words)
    assert {"shop_list_items", "shop_a_list_items", "library_list_items"} == {*tools}
    assert tools["shop_list_items"].protocol.source.operation == "shop_list_items"


def test_joining_step_by_step_gives_the_same_names() -> None:
    one, two, three = (open_tools([written(f"{title}.json", title, "list_items")]) for title in ("A", "B", "C"))
    assert set((one + two) + three) == set(one + (two + three)) == {"a_list_items", "b_list_items", "c_list_items"}
    assert list((one + two).only("a_list_items")) == ["a_list_items"]


def test_two_tools_of_one_name_in_one_source_are_an_error() -> None:
    tools = open_tools(["mine.py:double", "mine.py:double"])  # a word that is given twice counts once
    with pytest.raises(UsageError, match="two tools are named 'double' and both come from mine:double: leave one out"):
        tools + tools


def test_only_takes_the_full_name_and_the_plain_one_where_it_is_of_one_tool() -> None:
    words = [written("a.json", "Shop", "list_items", "pay"), written("b.json", "Library", "list_items")]
    both = open_tools(words)
    assert list(both.select("shop_list_items", "pay")) == ["shop_list_items", "pay"]
    assert list(both.select("list_*")) == ["shop_list_items", "library_list_items"]
    assert list(both.select("shop_pay")) == ["shop_pay"]  # the name that was asked for is the one that programs have
    with pytest.raises(UsageError, match=r"several sources have a tool 'list_items'.*shop_list_items or library_list_"):
        both.select("list_items")
    with pytest.raises(UsageError, match=r"no tool fits the pattern 'shop_list_item': did you mean shop_list_items"):
        both.select("shop_list_item")
    alone = open_tools(words[:1], only=["shop_list_items"], strict=False)
    assert list(alone.select("shop_list_items")) == ["shop_list_items"]
    with pytest.raises(UsageError, match="no tool fits the pattern 'shop_\\*'"):
        alone.select("shop_*")  # a wildcard says nothing of a name that no tool bears


def test_a_misspelt_only_is_told_what_a_document_has_though_nothing_of_it_was_read() -> None:
    words = [written("a.json", "Shop", "list_items", "pay"), "mine.py:double"]
    for pattern, said in (("list_item", "did you mean list_items?"), ("zzz", "there are double, list_items, pay")):
        with pytest.raises(UsageError, match=re.escape(f"no tool fits the pattern {pattern!r}: {said}")):
            options.opened(words, only=[pattern])
        with pytest.raises(UsageError, match=re.escape(f"no tool fits the pattern {pattern!r}: {said}")):
            options.opened_live(options.Source(words, [pattern]), Settings())


def test_methods_are_called_after_their_class() -> None:
    class Shop:
        def items(self) -> list[str]:
            """Items."""
            return ["apple"]

    class Library(Shop):
        def items(self) -> list[str]:
            """Items."""
            return ["book"]

    tools = Toolset.from_functions(Shop().items, Library().items)
    assert list(tools) == ["shop_items", "library_items"]
    assert asyncio.run(answer_of(tools["library_items"].transport, {})).value == ["book"]  # type: ignore[arg-type]


def test_an_agent_tells_functions_of_two_modules_apart() -> None:
    Path("attic.py").write_text("def list_items(): 'List.'\n")
    Path("cellar.py").write_text("def list_items(): 'List.'\n")
    found = [tool for word in ("attic.py", "cellar.py") for tool in open_tools([word]).values()]
    assert list(Agent(found).tools) == ["attic_list_items", "cellar_list_items"]


@pytest.mark.parametrize("name", IMPORTERS)
def test_each_importer_of_a_toolset_is_where_the_table_says(name: str) -> None:
    assert callable(resolve_name(IMPORTERS[name]))

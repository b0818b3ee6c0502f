"""Where tools are: every form that a word on the command line may take, and what is said of every wrong one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc.errors import EnvironmentProblem, ToolImportError
from atc.tools.sources import open_tools

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


def test_a_file_gives_all_its_public_functions() -> None:
    Path("mine.py").write_text("from os.path import join\ndef one(): 'One.'\ndef two(): 'Two.'\ndef _three(): pass\n")
    assert list(open_tools(["mine.py"])) == ["one", "two"]


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
        ("nothing.yaml", "there is no file nothing.yaml"),
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
        ("broken.json", "broken.json"),
        ("empty", "empty"),
    ],
)
def test_a_wrong_word_is_told(source: str, words: str) -> None:
    Path("empty.py").write_text("x = 1")
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
        ("broken", "acme_tools:open_acme failed: OSError: no such board"),
        ("nothing", "acme_tools:open_acme returned a NoneType, not a Toolset"),
    ],
)
def test_what_fails_in_another_package_is_named(monkeypatch: pytest.MonkeyPatch, argument: str, words: str) -> None:
    package(monkeypatch, "acme = acme_tools:open_acme", ACME)
    with pytest.raises(ToolImportError, match=words):
        open_tools([f"acme:{argument}"])


def test_two_packages_with_one_source_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, "acme = acme_tools:open_acme", ACME)
    package(monkeypatch, "acme = other_tools:open_acme", ACME, name="other")
    with pytest.raises(ToolImportError, match="several installed packages offer a tool source 'acme'"):
        open_tools(["acme:board"])


def test_no_word_is_told_too() -> None:
    with pytest.raises(ToolImportError, match="no tools are named: give `atlas`"):
        open_tools([])


def test_options_reach_the_openapi_importer() -> None:
    seen: Any = open_tools(["openapi.json"], base_url="http://127.0.0.1:1")["get_x"].transport
    assert "127.0.0.1:1" in repr(seen)

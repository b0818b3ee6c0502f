"""What an import costs, counted in modules and not in seconds; and that the public names are what they say."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import atc

HEAVY = {"anyio", "bm25s", "griffe", "httpx", "jinja2", "jsonschema_rs", "numpy", "openai", "pydantic", "rich", "yaml"}
RUN_MAIN = "from atc.cli import main\ntry: main()\nexcept SystemExit: pass"
LISTED = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def modules_after(source: str) -> set[str]:
    """The modules of a fresh interpreter that has run ``source`` (what it prints goes first)."""
    ran = subprocess.run([sys.executable, "-c", f"{source}\n{LISTED}"], capture_output=True, text=True, check=True)
    return set(json.loads(ran.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def bare() -> set[str]:
    return modules_after("pass")


def test_importing_the_package_loads_the_package_alone(bare: set[str]) -> None:
    loaded = modules_after("import atc") - bare
    assert {name for name in loaded if name.split(".")[0] not in sys.stdlib_module_names} == {"atc"}
    assert len(loaded) < 20


def test_a_tool_is_declared_without_the_agent(bare: set[str]) -> None:
    loaded = modules_after("from atc import tool, ToolError") - bare
    assert not {"openai", "numpy", "bm25s", "atc.agent"} & loaded


A_RUN = """
import os, sys, threading
import atc
from atc import Agent, FakeModel, tool

@tool(effect="read")
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@tool(effect="read")
def double(x: int) -> int:
    "Double a number."
    return 2 * x

room, executed = os.path.dirname(atc.__file__), set()

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(room):
        executed.add(code.co_filename)

replies = ["answer = double(x=add(a=1, b=2)['sum'])", "answer = double(x=add(a=1, b=2))"]
threading.setprofile(note)
sys.setprofile(note)
with Agent([add, double], model=FakeModel(replies), runs_dir=sys.argv[1], catalogue=sys.argv[2]) as agent:
    result = agent.run("Double the sum of 1 and 2.")
    agent.catalogue.settle()
sys.setprofile(None)
assert result.value == 6 and len(result.revisions) == 2, result
print(len(executed))
"""
"""A run over two functions whose first program fails and whose second one answers; it prints how many files of the
package execute."""


def test_a_run_of_two_functions_loads_what_it_needs(bare: set[str], tmp_path: Path) -> None:
    """The bounds are what is loaded today and some: a part that is not used is imported where it is used."""
    command = [sys.executable, "-c", f"{A_RUN}\n{LISTED}", str(tmp_path / "runs"), str(tmp_path / "catalogue")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    executed, listed = ran.stdout.splitlines()[-2:]
    loaded = set(json.loads(listed)) - bare
    assert not {"bm25s", "griffe", "httpx", "numpy", "openai", "opentelemetry", "rich", "tenacity", "yaml"} & loaded
    assert len({name for name in loaded if name.split(".")[0] == "atc"}) <= 198
    assert int(executed) <= 158


@pytest.mark.parametrize(("argument", "most"), [("--version", 120), ("--help", 300)])
def test_the_root_of_the_command_line_imports_no_command(bare: set[str], argument: str, most: int) -> None:
    loaded = modules_after(f"import sys\nsys.argv = ['atc', {argument!r}]\n{RUN_MAIN}") - bare
    assert {name for name in loaded if name.startswith("atc")} == {"atc", "atc.cli"}
    assert not (HEAVY - ({"rich"} if argument == "--help" else set())) & loaded
    assert len(loaded) < most


def test_a_list_of_tools_loads_no_index_no_graph_and_no_model(bare: set[str]) -> None:
    loaded = modules_after(f"import sys\nsys.argv = ['atc', 'tools', 'list', '-t', 'atlas']\n{RUN_MAIN}") - bare
    assert not {"anyio", "bm25s", "httpx", "jinja2", "numpy", "openai", "tenacity", "atc.agent", "atc.models"} & loaded
    assert len({name for name in loaded if name.split(".")[0] == "atc"}) <= 75


def test_an_import_leaves_the_search_for_garbage_as_it_was() -> None:
    for switch in ("enable", "disable"):
        source = f"import gc; gc.{switch}()\nfrom atc import ToolError\nprint(gc.isenabled(), gc.get_freeze_count())"
        ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
        assert ran.stdout == f"{switch == 'enable'} 0\n"


def test_the_lists_of_public_names_agree() -> None:
    source = ast.parse(Path(atc.__file__).read_text())
    block = next(node for node in source.body if isinstance(node, ast.If))
    imported = {n.module: tuple(name.name for name in n.names) for n in block.body if isinstance(n, ast.ImportFrom)}
    assert imported == atc._MODULES
    assert sorted(name for names in imported.values() for name in names) == sorted(atc.__all__)
    assert set(atc.__all__) <= set(dir(atc))


EACH_FIRST = """
import concurrent.futures.thread, logging, os, random, sys  # they look for their own
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("register_at_fork", "pidfd_open", "O_DIRECTORY", "O_CLOEXEC"):
    delattr(os, name)
import atc
for home, names in atc._MODULES.items():
    for module in [m for m in sys.modules if m.split(".")[0] == "atc"]:
        del sys.modules[module]
    import atc
    assert [getattr(atc, name).__name__ for name in names] == list(names)
    print(home)
"""


@pytest.mark.slow
def test_each_public_name_can_be_the_first_that_is_used() -> None:
    """What is used first decides the order of all imports: none may run into a circle, or need what only Unix has."""
    ran = subprocess.run([sys.executable, "-c", EACH_FIRST], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == list(atc._MODULES)


def test_a_name_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="module 'atc' has no attribute 'Agnet'"):
        atc.Agnet  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Agnet'"):
        exec("from atc import Agnet")  # noqa: S102


def test_what_goes_wrong_in_an_import_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: str) -> None:
        raise AttributeError("module 'os' has no attribute 'pidfd_open'")

    monkeypatch.setattr("importlib.import_module", broken)
    monkeypatch.delitem(vars(atc), "Agent", raising=False)
    with pytest.raises(ImportError, match=r"^atc\.agent cannot be imported: module 'os' has no attribute"):
        atc.Agent  # noqa: B018

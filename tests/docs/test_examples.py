"""The examples: each says how it is run, stands on a page, needs no more than it says, and answers rightly."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from atc.errors import ModelUnavailable
from atc.models.embedded import EmbeddedModel
from tests.support.docs import DOCUMENTS, ROOT, blocks_of

FOLDER = ROOT / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LIMIT_S = 120
"""Seconds of one example, while the machine does other things too; alone, each takes less than a minute."""


@dataclass(frozen=True)
class Expected:
    """What an example needs and prints.

    Attributes:
        end: a regular expression of the end of its output.
        extras: that it needs beside those of the README.
    """

    end: str
    extras: tuple[str, ...] = ()


EXPECTED = {
    "agree.py": Expected(r"value: 13[34]\d(\.\d+)?\n.*"),
    "approval_in_a_web_handler.py": Expected(r"answered R-204-8"),
    "endpoint.py": Expected(r"answered 520774"),
    "functions.py": Expected(r"answered 148"),
    "openapi_with_a_key.py": Expected(r"answered 17"),
    "probing.py": Expected(r"answered 12\.5"),
    "shop_server.py": Expected(r"", ("mcp",)),  # its client has gone, so it ends
    "thousands_of_tools.py": Expected(r"answered 640"),
}
README_EXTRAS = ("local", "atlas")


def command_of(script: Path) -> list[str]:
    """The command in its docstring, for this interpreter."""
    said = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    line = next(line for line in said.splitlines() if line.strip().startswith(("python examples/", "atc ")))
    words = shlex.split(line)
    return [sys.executable, *words[1:]] if words[0] == "python" else [sys.executable, "-m", *words]


def each_of(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("example", paths, ids=[path.name for path in paths])


# -- what each says of itself ------------------------------------------------------------------------------------------


@each_of(SCRIPTS)
def test_an_example_compiles_and_says_how_it_is_run(example: Path) -> None:
    source = example.read_text(encoding="utf-8")
    compile(source, str(example), "exec")
    assert f"examples/{example.name}" in " ".join(command_of(example))
    assert example.name in EXPECTED, "the table above says what it prints"


def test_every_example_stands_on_a_page_as_it_is() -> None:
    linked = {
        (document.parent / target).resolve()
        for document in DOCUMENTS
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", document.read_text(encoding="utf-8"))
    }
    shown: set[Path] = set()
    for document in DOCUMENTS:
        parts: dict[str, list[str]] = {}
        for block in blocks_of(document):
            title, _, name = block.title.partition(": ")
            if title.startswith("examples/") and name:
                assert block.body in (ROOT / title).read_text(encoding="utf-8"), f"{document.name}: {name} is otherwise"
            elif title.startswith("examples/"):
                parts.setdefault(title, []).append(block.body)
        for title, bodies in parts.items():
            same = bodies[0] if len(bodies) == 1 else lines_of("".join(bodies))
            text = (ROOT / title).read_text(encoding="utf-8")
            assert same == (text if len(bodies) == 1 else lines_of(text)), f"{document.name} shows {title} otherwise"
            shown.add(ROOT / title)
    assert [path.name for path in [*SCRIPTS, *NOTEBOOKS] if path not in shown | linked] == []


def lines_of(text: str) -> list[str]:
    """Its lines, but the empty ones: parts of a file are set apart by these."""
    return [line for line in text.splitlines() if line.strip()]


@each_of(SCRIPTS)
def test_an_example_imports_only_what_is_installed_for_it(example: Path) -> None:
    tree = ast.parse(example.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    there = distributions(README_EXTRAS + EXPECTED[example.name].extras)
    for top in {name.partition(".")[0] for name in names} - {"atc", *sys.stdlib_module_names}:
        assert there & {plain(name) for name in packages_of().get(top, ())}, f"{top} comes with none of its extras"


@each_of(NOTEBOOKS)
def test_a_notebook_holds_what_it_printed(example: Path) -> None:
    cells = json.loads(example.read_text(encoding="utf-8"))["cells"]
    run = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in run] == list(range(1, len(run) + 1))
    outputs = [output for cell in run for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"execute_result", "stream"}
    assert any("answered 216" in "".join(output.get("text", "")) for output in outputs)
    assert not re.search(r"/(home|root|work|Users)/", json.dumps(outputs)), "a path of the machine that ran it"


packages_of = cache(packages_distributions)


def distributions(extras: tuple[str, ...]) -> set[str]:
    """The packages that an installation with these extras asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: set[str] = set()
    waiting = [*project["dependencies"], f"atc-runtime[{','.join(extras)}]"]
    for need in waiting:
        match = re.match(r"([\w.-]+)(?:\[([\w, -]+)\])?", need)
        assert match is not None
        name, asked = match.groups()
        if name == project["name"]:
            for extra in (asked or "").split(","):
                waiting.extend(project["optional-dependencies"][extra.strip()])
        else:
            found.add(plain(name))
    return found


def plain(name: str) -> str:
    """The name of a distribution in its one spelling (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


# -- what each does ----------------------------------------------------------------------------------------------------


@pytest.fixture
def model() -> None:
    try:
        EmbeddedModel().check()
    except ModelUnavailable as missing:
        pytest.skip(f"the embedded model cannot be had here: {missing}")


# It wants two programs that agree, and the embedded model seldom writes them in two minutes; a scripted model runs it
# in tests/run/test_seam.py.
NEEDS_A_LARGER_MODEL = {"agree.py"}


@pytest.mark.slow
@each_of([path for path in SCRIPTS if path.name not in NEEDS_A_LARGER_MODEL])
def test_an_example_answers_rightly_and_leaves_nothing(
    example: Path, model: None, nothing_left: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(own := tmp_path / "own"))
    own.mkdir()
    before = sorted(FOLDER.rglob("*"))
    ran = subprocess.run(
        command_of(example), cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(rf"^{EXPECTED[example.name].end}\s*\Z", ran.stdout, re.MULTILINE), ran.stdout + ran.stderr
    assert list(own.iterdir()) == []
    assert [path for path in sorted(FOLDER.rglob("*")) if path not in before and "__pycache__" not in path.parts] == []


@pytest.mark.slow
@each_of(NOTEBOOKS)
def test_a_notebook_runs_and_its_outputs_stand_in_it(
    example: Path, model: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the extra dev has nbclient, which runs notebooks")
    nbclient = pytest.importorskip("nbclient", reason="the extra dev has nbclient, which runs notebooks")
    pytest.importorskip("ipykernel", reason="the extra dev has ipykernel, in which notebooks run")
    kept = nbformat.read(example, as_version=4)
    nbformat.validate(kept)
    ran = nbformat.from_dict(kept)
    nbclient.NotebookClient(ran, timeout=LIMIT_S, kernel_name="python3").execute(cwd=str(FOLDER))
    for was, now in zip(codes(kept), codes(ran), strict=True):
        assert kinds(was) == kinds(now), was.source
        assert printed(was) == printed(now), was.source
    assert any("text/html" in kinds(cell) for cell in codes(ran))


def codes(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell: Any) -> list[str]:
    """The kinds of its outputs: streams, and what a value is shown as."""
    return [
        kind for each in cell.outputs for kind in sorted(each.get("data", {each.get("name", each.output_type): ""}))
    ]


def printed(cell: Any) -> str:
    return "".join(each.text for each in cell.outputs if each.output_type == "stream" and each.name == "stdout")

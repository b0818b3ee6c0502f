"""What the documents show is run: every Python block, every `$ atc …` line, every figure's command exists."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atc.cli import app
from deploy.recording import PICTURE, drawn, recorded
from tests.support.docs import DOCUMENTS, ROOT, blocks
from tests.support.fake_openai_server import says, serving

PROGRAM = (
    '```python\nfound = find_cities(name="Lyon", country_code="FR")\nanswer = found["cities"][0]["population"]\n```'
)
UNSAFE = ("model pull", "model serve", "tools serve-demo", "make ", "pip ", "model info")
"""Commands that fetch, or that never end: shown, not run here."""


def commands() -> list[str]:
    lines = [line[2:] for _, body in blocks("console") for line in body.splitlines() if line.startswith("$ atc ")]
    return sorted({line for line in lines if not any(word in line for word in UNSAFE)})


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """A scripted model that the documents' snippets and commands find in the environment."""
    with serving(says(PROGRAM)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
        monkeypatch.setenv("ATC_MODEL", "tiny")
        monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))
        yield server


OTHERS = [(name, source) for name, source in blocks("python") if not name.startswith("README.md-")]


@pytest.mark.parametrize(("name", "source"), OTHERS, ids=[name for name, _ in OTHERS])
def test_python_blocks_run(name: str, source: str, endpoint: object, tmp_path: Path) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(source)
    exec(compile(source, str(script), "exec"), {"__name__": "snippet"})  # noqa: S102 - our own documents


def test_the_program_of_the_readme_waits_without_a_model_and_the_tools_take_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its commands run at a terminal in :mod:`deploy.recording`."""
    for name in ("ATC_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    shop, remind, asked = (source for name, source in blocks("python") if name.startswith("README.md-"))
    (tmp_path / "shop.py").write_text(shop)
    scope: dict[str, object] = {"__name__": "remind"}
    exec(compile(remind, "remind.py", "exec"), scope)  # noqa: S102 - our own document
    with serving(says(f"```python\n{scope['PROGRAM']}```")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
        monkeypatch.setenv("ATC_MODEL", "tiny")
        exec(compile(asked, "README.md", "exec"), scope)  # noqa: S102 - our own document
    monkeypatch.delitem(sys.modules, "shop")
    assert capsys.readouterr().out == "waiting\nwaiting\n"


@pytest.mark.slow
def test_the_recording_shows_what_the_commands_of_the_readme_print() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(recorded()), "python -m deploy.recording --write"


def paced(line: str) -> object:
    """The conformance suite takes its time; it runs among the slow tests."""
    return pytest.param(line, marks=pytest.mark.slow) if "sandbox check" in line else line


@pytest.mark.parametrize("line", [paced(line) for line in commands()])
def test_commands_run(line: str, endpoint: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if any(word in line for word in ("runs show", "atc resume")):
        CliRunner().invoke(app, ["run", "How many people live in Lyon?", "--tools", "atlas", "--set", "sentence=false"])
    result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
    assert result.exit_code == 0, result.output


def test_every_command_is_documented() -> None:
    text = "".join(document.read_text() for document in DOCUMENTS)
    for command in (
        "run",
        "batch",
        "chat",
        "tools list",
        "tools show",
        "tools stub",
        "tools search",
        "tools index",
        "tools call",
        "tools learn",
        *(f"graph {command}" for command in ("list", "show", "correct", "forget")),
        "model pull",
        "model serve",
        "model info",
        "runs list",
        "runs show",
        "runs search",
        "runs delete",
        "runs approvals",
        "permissions audit",
        "sandbox serve",
        "resume",
        "tools serve-demo",
        "doctor",
        "trust",
    ):
        assert f"atc {command}" in text, f"`atc {command}` is in no document"


def test_links_between_documents_hold() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_benchmark_named_in_the_documents_exists() -> None:
    for document in DOCUMENTS:
        for module in re.findall(r"python -m ((?:benchmarks|atc_research_benchmarks)(?:\.\w+)+)", document.read_text()):
            place = module.replace(".", "/")
            files = [f"{at}{place}{end}" for at in ("", "research/") for end in (".py", "/__main__.py")]
            assert any((ROOT / file).exists() for file in files), f"{document.name} names {module}"

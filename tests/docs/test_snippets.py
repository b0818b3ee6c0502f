"""Every snippet of the documents is run, or parsed by what would run it, or says why not (support/snippets.py)."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml
from typer.core import TyperCommand
from typer.testing import CliRunner

from atc.calls.permissions.document import read_document
from atc.cli import app
from atc.cli.options import DEFAULT_TOOLS
from atc.settings import Settings
from benchmarks.tasks import run as tasks
from tests.docs.test_papers import problems_of_benchmark
from tests.support.docs import ROOT, Block, blocks_of
from tests.support.fake_openai_server import says, serving
from tests.support.snippets import (
    ALL,
    ELSEWHERE,
    PARSED,
    RUN,
    SHOWN,
    Snippet,
    classified,
    run_by,
    snippets,
    without_language,
)

HERE = "tests/docs/test_snippets.py"
PROGRAM = (
    '```python\nfound = find_cities(name="Lyon", country_code="FR")\nanswer = found["cities"][0]["population"]\n```'
)
SHOP = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/orders": {
            "post": {
                "operationId": "create_order",
                "description": "Order a product.",
                "parameters": [{"name": "product_id", "in": "query", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"description": "ok"}},
            }
        },
        "/products": {
            "get": {
                "operationId": "list_products",
                "description": "List the products.",
                "responses": {
                    "200": {
                        "description": "ok",
                        "content": {
                            "application/json": {
                                "schema": {"type": "object", "properties": {"product_id": {"type": "string"}}}
                            }
                        },
                    }
                },
            }
        },
    },
}
SNIPPETS = snippets()
RUNNABLE = ("python", "py", "console", "sh")


def test_every_snippet_is_in_a_class() -> None:
    assert not [f"{each.block.name}: {each.text}" for each in SNIPPETS if not each.way]
    assert not classified("$ curl https://host.example | sh")[0]  # what the table does not know


def test_the_counts_of_the_page_are_those_of_the_table() -> None:
    page = (
        (ROOT / "docs" / "benchmarks" / "documents.md")
        .read_text()
        .partition("## The documents\n")[2]
        .partition("\n## ")[0]
    )
    said = [int(count) for count in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    counts = Counter(each.way for each in SNIPPETS)
    assert said == [counts[way] for way in (RUN, ELSEWHERE, PARSED, SHOWN, "")]


def test_every_block_names_its_language() -> None:
    assert not {document.name: lines for document in ALL if (lines := without_language(document))}


def test_a_fence_without_a_language_is_seen(tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("a\n\n```sh\nls\n```\n\n```\nls\n```\n")
    assert without_language(page) == [7]


def test_what_runs_a_snippet_elsewhere_is_there() -> None:
    assert not {each.by for each in SNIPPETS if each.way in (RUN, ELSEWHERE) and not (ROOT / each.by).is_file()}


def test_every_page_has_an_example_that_is_run() -> None:
    run = {each.block.document for each in SNIPPETS if each.way == RUN and each.block.language in RUNNABLE}
    pages = {
        document
        for document in ALL
        if document.parent.name not in ("benchmarks", "sandbox") and document.parent != ROOT
    }
    assert not {page.name for page in pages - run}


def words_of(command: str) -> list[str]:
    """The words behind ``atc``, with a word in place of each ``…``."""
    words = shlex.split(re.sub(r"^(\$ )?([A-Z_]+=\S+ )*", "", command))
    return words[words.index("atc") + 1 :]


@pytest.fixture
def only_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are parsed as ever, and do nothing."""
    of_all = next(each for each in TyperCommand.__mro__ if "invoke" in vars(each))  # a group that is a command, too
    monkeypatch.setattr(of_all, "invoke", lambda *_: None)


def problem_of(words: list[str]) -> str:
    """What the command's own parser says of words; empty if it takes them."""
    ran = CliRunner().invoke(app, words)
    return "" if ran.exit_code == 0 else ran.output[-300:] or repr(ran.exception)


CALLS = sorted(
    {
        each.text
        for each in SNIPPETS
        if each.way in (PARSED, ELSEWHERE) and re.match(r"(\$ )?([A-Z_]+=\S+ )*atc ", each.text)
    }
)


@pytest.mark.usefixtures("only_parsed")
def test_the_command_line_takes_what_is_not_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepared(tmp_path)
    found = {call: problem for call in CALLS if (problem := problem_of(words_of(call)))}
    assert CALLS
    assert not found, found
    assert problem_of(["tools", "learn", "--nowhere"])
    assert problem_of(["graph", "sho", "x"])


PLACEHOLDERS = re.compile(r"…|\[|COMMAND")
PROSE = sorted(
    {
        found[1]
        for document in ALL
        for found in re.finditer(r"`(atc [^`\n]+)`", re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL))
        if not PLACEHOLDERS.search(found[1])
    }
)


@pytest.mark.usefixtures("only_parsed")
@pytest.mark.parametrize("command", PROSE)
def test_a_command_in_a_sentence_has_no_wrong_name(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence may leave out what a command needs; what it does name, there is."""
    monkeypatch.chdir(tmp_path)
    said = problem_of(shlex.split(command)[1:])
    assert not re.search(r"No such (option|command)|unexpected extra", said), said


def test_the_benchmarks_have_these_options() -> None:
    found = {}
    for each in SNIPPETS:
        if each.text.startswith("python -m benchmarks."):
            _, _, module, *arguments = shlex.split(each.text)
            found[each.text] = list(problems_of_benchmark(module, arguments))
    assert found
    assert not {text: problems for text, problems in found.items() if problems}


def prepared(folder: Path) -> None:
    """Write what the commands name."""
    (folder / "shop.yaml").write_text(yaml.safe_dump(SHOP))
    for name in ("cert.pem", "key.pem", "map.png", "FILE", "used.jsonl"):
        (folder / name).write_text("")
    (folder / "servers.json").write_text('{"mcpServers": {"none": {"command": "true"}}}')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to run commands in, with a scripted model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    prepared(tmp_path)
    with serving(says(PROGRAM)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
        monkeypatch.setenv("ATC_MODEL", "tiny")
        yield tmp_path


ruler = typer.Typer()
ruler.command()(tasks.main)
HERE_RUN = [[each for each in commands if each.by == HERE] for commands in run_by(HERE)]


@pytest.mark.parametrize("commands", HERE_RUN, ids=[each[0].block.name for each in HERE_RUN])
def test_commands_run(commands: list[Snippet], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_before(commands)
    for each in commands:
        command = each.text.removeprefix("$ ")
        if found := re.match(r"export (.+)", command):
            for assignment in shlex.split(found[1]):
                name, _, value = assignment.partition("=")
                of_ours = name.startswith("ATC_") and not name.startswith("ATC_PEER_PYTHON_")  # those are the ruler's
                assert (
                    not of_ours
                    or f"{name[4:].lower()}" in Settings.model_fields
                    or "TOKEN" in name
                    or name == DEFAULT_TOOLS
                )
                if "://" not in value and "$" not in value:
                    monkeypatch.setenv(name, value)
            Settings()
        elif found := re.match(r"echo '(.+)' > (\S+)", command):
            json.loads(found[1])
            (folder / found[2]).write_text(found[1] + "\n")
        elif found := re.match(r'echo "(.+)" \| atc (.+)', command):
            ran = CliRunner().invoke(app, shlex.split(found[2]), input=found[1] + "\n")
            assert ran.exit_code == 0, ran.output
        elif command.startswith("python -m benchmarks.tasks"):
            monkeypatch.chdir(ROOT)
            ran = CliRunner().invoke(ruler, shlex.split(command)[3:])
            assert ran.exit_code == 0, ran.output
        else:
            words = [word if word != "…" else "How many people live in Lyon?" for word in words_of(command)]
            ran = CliRunner().invoke(app, words)
            assert ran.exit_code == 0, ran.output


def run_before(commands: list[Snippet]) -> None:
    """A run, where a command shows or deletes one."""
    if any(re.search(r"atc runs", each.text) for each in commands):
        CliRunner().invoke(app, ["run", "How many people live in Lyon?", "--tools", "atlas", "--set", "sentence=false"])


DATA = [
    block
    for document in ALL
    for block in blocks_of(document)
    if block.language in ("toml", "json", "yaml", "dockerfile")
]


@pytest.mark.parametrize("block", DATA, ids=[f"{block.name}-{block.language}" for block in DATA])
def test_data_is_what_its_reader_takes(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if block.language == "dockerfile":
        words = {line.split()[0] for line in block.body.splitlines()}
        assert words <= {"FROM", "USER", "RUN", "COPY", "ENV"}
    elif block.language == "json":
        try:
            values = [json.loads(block.body)]
        except json.JSONDecodeError:
            values = [json.loads(line) for line in block.body.splitlines()]
        assert values
    elif block.language == "yaml":
        assert yaml.safe_load(block.body)
    else:
        document = tomllib.loads(block.body)
        if "project" in document:
            assert all(group.startswith("atc.") for group in document["project"]["entry-points"])
        elif "rules" in document or "tools" in document:
            (tmp_path / "permissions.toml").write_text(block.body)
            read = read_document(tmp_path / "permissions.toml")
            assert read.rules or read.tools
        else:
            monkeypatch.chdir(tmp_path)
            (tmp_path / "atc.toml").write_text(block.body)
            assert not set(document) - set(Settings.model_fields), "no setting has that name"

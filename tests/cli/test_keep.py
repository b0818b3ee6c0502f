"""``atc runs keep`` and ``atc tools call``: a run becomes a tool, and is called from a terminal without a model."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc import Agent
from atc.cli.call import arguments_of
from atc.errors import UsageError
from atc.models.base import NoModel
from atc.models.fake import FakeModel
from atc.run.given_program import run_given
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.sources import open_tools
from tests.support.agent import code
from tests.support.cli import at_a_terminal, atc
from tests.support.fake_openai_server import Server, says

DOUBLED = "```python\nanswer = [double(n=n) for n in [4, 5]]\n```"
LOOKED = ("```python\nlook(double(n=21))\n```", "```python\nanswer = double(n=42)\n```")


pytestmark = pytest.mark.usefixtures("settled_anew")


def ran(endpoint: Callable[..., Server], task: str, *replies: str) -> None:
    endpoint(*map(says, replies))
    done = atc("run", task, "--tools", "tools.py", "--json")
    assert done.exit_code == 0, done.output


def test_a_run_is_kept_and_called(endpoint: Callable[..., Server]) -> None:
    ran(endpoint, "double 4 and 5", DOUBLED)
    kept = atc("runs", "keep", "last", "--as", "doubles", "--yes")
    assert kept.exit_code == 0, kept.output
    for line in (
        "doubles(ns: list of integer)",
        "double `ns`  (the task's words: --about says it otherwise)",
        "reads; calls double",
        "parameter ns, in the run [4, 5]: it stands in the task; goes into double(n=…)",
        "answer = [double(n=n) for n in ns]",
        "call it: atc tools call doubles ns=…",
    ):
        assert line in kept.output
    called = atc("tools", "call", "doubles", "ns=7", "ns=8", "--json")
    assert called.exit_code == 0, called.output
    result = json.loads(called.stdout)
    assert (result["value"], result["usage"]["model_calls"]) == ([14, 16], 0)
    assert [call["within"] for call in result["calls"]] == ["doubles", "doubles"]
    assert "value: [2]" in atc("tools", "call", "doubles", "ns=[1]").output
    assert json.loads(atc("tools", "call", "doubles", "-", "--json", stdin='{"ns": [3]}').stdout)["value"] == [6]
    assert json.loads(atc("tools", "call", "doubles", "--json-arguments", '{"ns": [3]}', "--json").stdout)["value"] == [
        6
    ]


def test_a_tool_that_is_no_kept_program_is_called_too(endpoint: Callable[..., Server]) -> None:
    called = atc("tools", "call", "double", "n=4", "--tools", "tools.py", "--json")
    assert called.exit_code == 0, called.output
    assert json.loads(called.stdout)["value"] == 8
    unasked = atc("tools", "call", "book", "n=4", "--tools", "tools.py", "--approve", "never")
    assert unasked.exit_code == 4
    planned = atc("tools", "call", "book", "n=4", "--tools", "tools.py", "--dry-run", "--json")
    assert (planned.exit_code, json.loads(planned.stdout)["status"]) == (0, "planned")
    booked = atc("tools", "call", "book", "n=4", "--tools", "tools.py", "--approve", "always", "--json")
    assert json.loads(booked.stdout)["value"].startswith("booked")


def test_options_change_what_is_kept(endpoint: Callable[..., Server]) -> None:
    ran(endpoint, "double 4 and 5", DOUBLED)
    changed = atc("runs", "keep", "last", "--as", "doubles", "--param", "ns=numbers", "--about", "Doubles.", "--yes")
    assert changed.exit_code == 0, changed.output
    again = atc("runs", "keep", "last", "--as", "doubles", "--constant", "ns", "--yes")
    assert (again.exit_code, "is there already" in again.output, "--force" in again.output) == (2, True, True)
    fixed = atc("runs", "keep", "last", "--as", "doubles", "--constant", "ns", "--force", "--yes", "--json")
    assert fixed.exit_code == 0, fixed.output
    record = json.loads(fixed.stdout)
    assert record["parameters"] == []
    assert [each["value"] for each in record["constants"]] == [[4, 5]]
    assert Path(record["file"]) == Settings.load().kept_dir / "doubles.atc"
    assert json.loads(atc("tools", "call", "doubles", "--json").stdout)["value"] == [8, 10]


def test_words_that_may_fix_what_is_a_parameter_now_are_told_of(endpoint: Callable[..., Server]) -> None:
    ran(endpoint, "double four and 5", "```python\nanswer = double(n=4) + double(n=5)\n```")
    for more, told in (([], False), (["--lift", "4"], True), (["--lift", "4", "--about", "Doubles."], False)):
        shown = atc("runs", "keep", "last", "--as", "doubles", "--dry-run", *more)
        assert shown.exit_code == 0, shown.output
        assert ("said without" in shown.output and "say it with --about" in " ".join(shown.output.split())) is told


def test_without_a_terminal_a_yes_is_an_option(endpoint: Callable[..., Server]) -> None:
    ran(endpoint, "double 4 and 5", DOUBLED)
    shown = atc("runs", "keep", "last", "--as", "doubles", "--dry-run", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["name"]) == (0, "doubles")
    unasked = atc("runs", "keep", "last", "--as", "doubles", stdin="y\n")
    assert (unasked.exit_code, "give --yes" in unasked.output) == (2, True)
    assert not (Settings.load().kept_dir / "doubles.atc").exists()


def test_a_value_that_a_call_had_returned_is_confirmed_or_asked_about(
    endpoint: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(endpoint, "double it twice", *LOOKED)
    unsaid = atc("runs", "keep", "last", "--as", "twice", "--yes")
    assert unsaid.exit_code == 2
    assert "42: double had returned it: it may hold for that run alone" in unsaid.output
    assert "--confirm 42" in unsaid.output
    said = atc("runs", "keep", "last", "--as", "twice", "--yes", "--confirm", "42")
    assert said.exit_code == 0, said.output

    at_a_terminal(monkeypatch, "n", "y")
    sys.modules.pop("tools", None)
    no = atc("runs", "keep", "last", "--as", "again")
    assert (no.exit_code, "keep this as the tool again?" in no.output) == (4, True)
    assert "answer = double(n=42)" in no.output
    yes = atc("runs", "keep", "last", "--as", "again")
    assert yes.exit_code == 0, yes.output
    assert (Settings.load().kept_dir / "again.atc").exists()


def test_a_kept_file_that_is_named_alone_finds_its_tools_where_its_run_had_them(
    endpoint: Callable[..., Server],
) -> None:
    ran(endpoint, "double 4 and 5", DOUBLED)
    kept = atc("runs", "keep", "last", "--as", "doubles", "--into", "lib", "--yes")
    assert "then offer it: --tools tools.py --tools lib/doubles.atc" in " ".join(kept.output.split())
    assert atc("trust", "lib", "--yes").exit_code == 0
    for place in ("lib/doubles.atc", "lib"):
        called = atc("tools", "call", "doubles", "ns=7", "--tools", place, "--json")
        assert called.exit_code == 0, called.output
        assert json.loads(called.stdout)["value"] == [14]
    assert atc("runs", "delete", "all").exit_code == 0
    asked = atc("tools", "call", "doubles", "ns=7", "--tools", "lib")
    assert (asked.exit_code, "say where they are: --tools tools.py" in " ".join(asked.output.split())) == (2, True), (
        asked.output
    )


def test_where_tools_of_python_are_is_said_and_nothing_of_other_kept_programs(
    endpoint: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pop.py").write_text("def people(city: str) -> int:\n    'People.'\n    return 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    people = importlib.import_module("pop").people

    def local(city: str) -> int:
        """Count people, too."""
        return 4

    for name, function in (("one", people), ("other", local)):
        model = FakeModel([code(f"answer = {function.__name__}(city='Lyon')")])
        with Agent([function], model=model, approve="always", sentence=False) as agent:
            agent.keep(agent.run("people of Lyon").run_id, name)
    asked = atc("tools", "call", "one", "city=Oslo")
    assert (asked.exit_code, "say where they are: --tools pop.py" in " ".join(asked.output.split())) == (2, True)
    called = atc("tools", "call", "one", "city=Oslo", "--tools", "pop.py", "--approve", "always")
    assert (called.exit_code, "other" in called.output) == (0, False), called.output
    missed = atc("tools", "call", "other", "city=Oslo", "--tools", "pop.py")
    assert (missed.exit_code, "that defines local" in " ".join(missed.output.split())) == (2, True)


def test_the_effect_of_a_kept_program_is_not_known_without_its_tools(endpoint: Callable[..., Server]) -> None:
    ran(endpoint, "double 4 and 5", DOUBLED)
    atc("runs", "keep", "last", "--as", "doubles", "--yes")
    alone = atc("tools", "list", "-t", "kept").output
    assert ("needs its tools" in alone, "say where they are: --tools tools.py" in " ".join(alone.split())) == (
        True,
        True,
    )
    beside = atc("tools", "list", "-t", "kept", "--tools", "tools.py").output
    assert ("read (kept)" in beside, "needs its tools" in beside) == (True, False), beside
    stub = atc("tools", "stub", "-t", "kept", "doubles")
    assert ("May have an effect" in stub.output, "not known without the tools" in stub.output) == (False, True)
    stub = atc("tools", "stub", "-t", "kept", "doubles", "--tools", "tools.py")
    assert (stub.exit_code, "effect" in stub.output) == (0, False), stub.output


def test_where_others_could_write_the_tools_are_named_by_the_user(
    endpoint: Callable[..., Server], tmp_path: Path
) -> None:
    ran(endpoint, "double 4 and 5", DOUBLED)
    atc("runs", "keep", "last", "--as", "doubles", "--yes")
    (trace,) = tmp_path.glob("runs/*/trace.jsonl")
    trace.chmod(0o666)
    refused = atc("tools", "call", "doubles", "ns=1")
    assert (refused.exit_code, "are not loaded" in refused.output, "--tools" in refused.output) == (2, True, True)
    again = atc("runs", "keep", "last", "--as", "other", "--yes")
    assert (again.exit_code, "are not loaded" in again.output) == (2, True)
    shown = atc("runs", "keep", "last", "--as", "other", "--yes", "--tools", "tools.py")
    assert (shown.exit_code, "only after an approval that shows it" in shown.output) == (2, True)
    sys.modules.pop("tools", None)
    called = atc("tools", "call", "doubles", "ns=1", "--tools", "tools.py", "--json")
    assert json.loads(called.stdout)["value"] == [2]


def test_what_others_could_have_written_is_not_read(endpoint: Callable[..., Server], tmp_path: Path) -> None:
    ran(endpoint, "double 4 and 5", DOUBLED)
    atc("runs", "keep", "last", "--as", "doubles", "--yes")
    (path,) = tmp_path.rglob("doubles.atc")
    path.write_text("no header")
    path.chmod(0o666)
    refused = atc("tools", "call", "doubles", "ns=1")
    assert (refused.exit_code, "is not trusted" in refused.output) == (2, True), refused.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["doubel", "n=1", "--tools", "tools.py"], "did you mean double?"),
        (["double", "n=x", "--tools", "tools.py"], "n takes an integer, as JSON, not 'x'"),
        (["double", "--tools", "tools.py"], "double needs 'n'"),
        (["double", "m=1", "--tools", "tools.py"], "no argument 'm'; it takes n"),
        (["double", "1", "--tools", "tools.py"], "an argument is KEY=VALUE, not '1'"),
        (["double", "n=1", "n=2", "--tools", "tools.py"], "'n' is given twice"),
        (["double", "--json-arguments", "[1]", "--tools", "tools.py"], "is no JSON object"),
        (["nothing"], "no program is kept as 'nothing'"),
        (["../../etc/passwd"], "no program is kept as"),
    ],
)
def test_a_wrong_call_says_what_to_write(endpoint: Callable[..., Server], arguments: list[str], message: str) -> None:
    wrong = atc("tools", "call", *arguments)
    assert (wrong.exit_code, message in wrong.output) == (2, True), wrong.output


PROTOCOL = Protocol(
    name="t",
    parameters={
        "type": "object",
        "properties": {
            "days": {"type": "integer"},
            "share": {"type": ["number", "null"]},
            "text": {"type": "string"},
            "maybe": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "on": {"type": "boolean"},
            "any": {},
            "place": {"$ref": "#/$defs/Place"},
        },
        "$defs": {"Place": {"type": "object"}},
    },
)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("days=7", 7),
        ("share=0.5", 0.5),
        ("share=null", None),
        ("text=7", "7"),
        ("text=a=b", "a=b"),
        ("text=", ""),
        ("maybe=null", None),
        ("maybe=7", "7"),
        ("tags=a", ["a"]),
        ('tags=["a", "b"]', ["a", "b"]),
        ("on=true", True),
        ("any=7", 7),
        ("any=x y", "x y"),
        ('place={"a": 1}', {"a": 1}),
    ],
)
def test_a_text_of_the_command_line_is_what_the_tool_takes(pair: str, value: Any) -> None:
    assert [*arguments_of(PROTOCOL, [pair]).values()] == [value]


@pytest.mark.parametrize("pair", ["days=x", "on=yes", "place=x", "days=[" + "[" * 100_000])
def test_a_text_that_the_tool_does_not_take_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match="as JSON, not"):
        arguments_of(PROTOCOL, [pair])


def ran_booked(endpoint: Callable[..., Server]) -> None:
    """A run that wrote is kept as ``booking``."""
    endpoint(says("```python\nanswer = book(n=4)\n```"))
    done = atc("run", "book 4", "--tools", "tools.py", "--approve", "always", "--json")
    assert done.exit_code == 0, done.output
    kept = atc("runs", "keep", "last", "--as", "booking", "--yes")
    assert kept.exit_code == 0, kept.output


@pytest.mark.parametrize(
    ("where", "only"),
    [((), False), (("--tools", "tools.py"), True), (("--tools", "kept", "--tools", "tools.py"), False)],
)
def test_a_call_of_a_kept_program_that_was_denied_goes_on_as_it_says(
    endpoint: Callable[..., Server], where: tuple[str, ...], only: bool
) -> None:
    ran_booked(endpoint)
    narrowed = ("--tools", "tools.py", "--only", "book") if only else ()
    denied = atc("tools", "call", "booking", "n=5", "--approve", "never", "--json", *narrowed)
    assert denied.exit_code == 4, denied.output
    done = atc("resume", json.loads(denied.stdout)["run_id"], "--approve", "always", "--json", *where)
    assert (done.exit_code, json.loads(done.stdout)["status"]) == (0, "answered"), done.output
    assert [call["within"] for call in json.loads(done.stdout)["calls"]] == ["booking"]


@pytest.mark.parametrize("where", [(), ("--tools", "tools.py")])
def test_a_dry_run_of_a_kept_program_is_applied(
    endpoint: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, where: tuple[str, ...]
) -> None:
    ran_booked(endpoint)
    planned = atc("tools", "call", "booking", "n=5", "--dry-run", "--json")
    assert json.loads(planned.stdout)["status"] == "planned", planned.output
    at_a_terminal(monkeypatch, "y")
    done = atc("runs", "apply", json.loads(planned.stdout)["run_id"], *where)
    assert done.exit_code == 0, done.output
    assert "booked" in done.output
    assert "n ← the task" in done.output


def test_the_arguments_of_a_call_are_the_users_own(endpoint: Callable[..., Server]) -> None:
    ran_booked(endpoint)
    planned = json.loads(atc("tools", "call", "booking", "n=5", "--dry-run", "--json").stdout)
    assert [feed["kind"] for feed in planned["dry_run"]["planned"][0]["feeds"]] == ["task"]
    Path("rules.toml").write_text('[[rules]]\nallow = "book"\nfrom = { n = "task" }\n')
    allowed = atc("tools", "call", "booking", "n=5", "--set", "permissions=rules.toml", "--json")
    assert json.loads(allowed.stdout)["status"] == "answered", allowed.output
    denied = json.loads(atc("tools", "call", "booking", "n=5", "--approve", "never", "--json").stdout)["run_id"]
    gone_on = atc("resume", denied, "--set", "permissions=rules.toml", "--json")
    assert json.loads(gone_on.stdout)["status"] == "answered", gone_on.output


def test_the_arguments_of_a_clients_program_stay_its_models(endpoint: Callable[..., Server]) -> None:
    Path("rules.toml").write_text('[[rules]]\nallow = "book"\nfrom = { n = "task" }\n')
    tools = open_tools(["tools.py"])
    with Agent(tools, permissions="rules.toml", model=NoModel()) as agent:
        clients = asyncio.run(run_given(agent, "answer = book(n=n)", inputs={"n": 5}, author="a client")).result
        assert clients.status == "denied"
        assert agent.resume(clients.run_id).status == "denied"
        assert agent.run_program("answer = book(n=n)", inputs={"n": 5}).status == "answered"


def test_where_the_tools_are_is_named_where_a_run_does_not_say_it(endpoint: Callable[..., Server]) -> None:
    with Agent(open_tools(["tools.py"]), model=NoModel()) as agent:
        run_id = agent.run_program("answer = [double(n=n) for n in ns]", inputs={"ns": [4, 5]}).run_id
        waits = Agent(agent.tools, approve="park", model=NoModel()).call("book", n=4).run_id
    kept = atc("runs", "keep", run_id, "--as", "doubles", "--yes", "--tools", "tools.py")
    assert "call it: atc tools call doubles ns=… --tools tools.py" in kept.output, kept.output
    decided = atc("runs", "approve", waits, "--deny")
    assert f"`atc resume {waits} --tools …` continues it" in " ".join(decided.output.split())

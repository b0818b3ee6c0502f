"""`atc run`: what it prints, on which stream, whom it asks, and the exit code it leaves with."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from atc.cli.console import clean
from tests.support.cli import GOOD, atc
from tests.support.fake_openai_server import fails, says
from tests.support.terminal import Terminal

BOOK = """```python
try:
    answer = book(n=1)
except ToolError as error:
    answer = 'no: ' + str(error.status)
    double(n=1)
```"""
ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202e]")

pytestmark = pytest.mark.usefixtures("settled")


# -- atc run ---------------------------------------------------------------------------------------------------------


def test_a_solved_task_is_told_in_plain_lines_and_leaves_with_0(endpoint: Any) -> None:
    endpoint(says(GOOD))
    ran = atc("run", "double 21", "--tools", "tools.py", "--trace")
    assert ran.exit_code == 0
    assert ran.stderr == ""
    assert not ESCAPES.search(ran.stdout)
    for line in ("── program 1 ──", "answer = double(n=21)", "  ✓ 1. double(n=21)", "      → 42", "── answer ──"):
        assert line in ran.stdout
    assert re.search("isolation: process/[NL]$", ran.stdout, re.MULTILINE)
    assert Path(ran.stdout.strip().splitlines()[-1].removeprefix("trace: ")).is_file()


def test_the_type_of_the_value_is_an_option(endpoint: Any) -> None:
    Path("type.json").write_text('{"type": "integer", "maximum": 50}')
    Path("own_answer_types.py").write_text("Rows = list[int]\n")
    for given, reply, value in (
        ("number", GOOD, 42),
        ("type.json", GOOD, 42),
        ("own_answer_types:Rows", GOOD.replace("double(n=21)", "[double(n=21), '7']"), [42, 7]),
    ):
        endpoint(says(reply))
        ran = atc("run", "double 21", "--tools", "tools.py", "--answer", given, "--json")
        assert (ran.exit_code, json.loads(ran.stdout)["value"]) == (0, value)
    endpoint(*[says(GOOD)] * 9)
    ran = atc("run", "double 21", "--tools", "tools.py", "--answer", "text")
    assert ran.exit_code == 1
    assert "`answer` must be of type `str`" in ran.stdout


@pytest.mark.parametrize("given", ["nonsense", "none.json", "no_such_module:T", "json:dumps", "json:nothing"])
def test_what_is_no_type_is_wrong_use_and_the_choices_are_listed(given: str) -> None:
    ran = atc("run", "double 21", "--tools", "tools.py", "--answer", given)
    assert ran.exit_code == 2
    assert given.split(":")[0] in ran.stderr
    if given == "nonsense":
        assert "number, text, list, yes/no, record, FILE.json" in ran.stderr


def test_json_is_the_result_and_nothing_else(endpoint: Any) -> None:
    endpoint(says(GOOD))
    ran = atc("run", "double 21", "--tools", "tools.py", "--json", "--trace")
    result = json.loads(ran.stdout)
    assert (ran.exit_code, result["status"], result["value"], result["calls"][0]["tool"]) == (
        0,
        "answered",
        42,
        "double",
    )
    assert ran.stderr == ""


def test_a_task_is_read_from_standard_input(endpoint: Any) -> None:
    server = endpoint(says(GOOD))
    assert atc("run", "-", "--tools", "tools.py", "--json", stdin="double 21 from a pipe\n").exit_code == 0
    assert "double 21 from a pipe" in server.requests[0]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "x"], 2, "no tools are named: name them with --tools SOURCE, or in ATC_TOOLS"),
        (["run", "  ", "-t", "tools.py"], 2, "the task is empty"),
        (["run", "x", "-t", "nothing.py"], 2, "there is no file nothing.py"),
        (["run", "x", "-t", "nothing.json"], 2, "there is no file nothing.json"),
        (["run", "x", "-t", "nothing"], 2, "'nothing' names no tools"),
        (["run", "x", "-t", "tools.py:missing"], 2, "has no missing"),
        (["run", "x", "-t", "no_module:x"], 2, "module no_module cannot be imported"),
        (["run", "x", "-t", "broken.py"], 2, "broken.py cannot be imported: ZeroDivisionError"),
        (["run", "x", "-t", "leaves.py"], 2, "leaves.py cannot be imported: SystemExit"),
        (["run", "x", "-t", "tools.py", "--only", "doubel"], 2, "fits the pattern 'doubel': did you mean double?"),
        (["run", "x", "-t", "tools.py", "--only", "zz*"], 2, "no tool fits the pattern 'zz*': there are double"),
        (["run", "x", "-t", "tools.py", "--sandbox", "podman"], 2, "no sandbox driver is named 'podman'"),
        (["run", "x", "-t", "tools.py", "--set", "sandbox_require=magic"], 2, "sandbox_require"),
        (["run", "x", "-t", "tools.py", "--set", "budget_s=-1"], 2, "budget_s"),
        (["run", "x", "-t", "tools.py", "--approve", "maybe"], 2, "approve: Input should be"),
        (["run", "x", "-t", "tools.py", "--openapi", "auth.x"], 2, "takes auth.SCHEME=CREDENTIAL"),
        (["run", "x", "-t", "http://127.0.0.1:9/openapi.json"], 3, "127.0.0.1:9"),
        pytest.param(
            *(["run", "x", "-t", "tools.py", "--set", "base_url=http://127.0.0.1:9/v1"], 3, "127.0.0.1:9"),
            marks=pytest.mark.slow,  # it is tried several times
        ),
        (["tools", "list", "-t", "nothing"], 2, "names no tools"),
        (["tools", "show", "nothing", "-t", "tools.py"], 2, "there is no tool 'nothing'; the tools are double, book"),
        (["tools", "show", "bok", "-t", "tools.py"], 2, "there is no tool 'bok': did you mean book?"),
        (["tools", "search", "books"], 2, "say what is searched: tools, such as --tools atlas, or an index"),
        (["tools", "stub", "-t", "tools.py", "nothing"], 2, "there is no tool 'nothing'"),
        (["runs", "show", "nothing"], 2, "no run is named 'nothing'"),
        (["resume", "last"], 2, "no run is named 'last'"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_what_is_wrong_is_one_line_on_the_error_stream(arguments: list[str], code: int, words: str) -> None:
    Path("broken.py").write_text("1 / 0")
    Path("leaves.py").write_text("raise SystemExit(0)")
    ran = atc(*arguments)
    assert ran.exit_code == code, ran.output
    assert words in ran.stderr
    assert "Traceback" not in ran.output
    assert "── answer" not in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (["run", "x", "--json"], 2, "UsageError"),
        (["run", "x", "-t", "tools.py", "--nonsense", "--json"], 2, "UsageError"),
        (["nonsense", "--json"], 2, "UsageError"),
        (["runs", "--limit", "none", "--json"], 2, "UsageError"),
        (["run", "x", "-t", "nothing.py", "--json"], 2, "ToolImportError"),
        (["tools", "list", "-t", "nothing", "--json"], 2, "ToolImportError"),
        (["run", "x", "-t", "tools.py", "--set", "budget_s=-1", "--json"], 2, "SettingsError"),
        (["run", "x", "-t", "tools.py", "--sandbox", "http://127.0.0.1:9", "--json"], 3, "SandboxUnavailable"),
        (["tools", "search", "x", "--index", "nothing", "--json"], 3, "ToolIndexError"),
    ],
)
def test_with_json_an_error_is_a_document_on_stdout_too(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, kind: str
) -> None:
    monkeypatch.setenv("ATC_SANDBOX_TOKEN", "t" * 32)
    endpoint(says(GOOD))
    ran = atc(*arguments)
    assert ran.exit_code == code, ran.output
    error = json.loads(ran.stdout)["error"]
    assert (error["kind"], set(error)) == (kind, {"kind", "message", "hint"})
    words = error["message"].split()[:4]
    assert all(word in ran.stderr for word in words)
    assert "Traceback" not in ran.output


def test_without_json_an_error_leaves_stdout_alone() -> None:
    for arguments in (
        ["run", "x"],
        ["run", "--json-is-my-task", "-t", "nothing.py"],
        ["tools", "list", "-t", "nothing"],
    ):
        assert atc(*arguments).stdout == ""


def test_an_error_is_said_where_it_happens_and_at_the_end(endpoint: Any) -> None:
    reason = "the reply holds no program"
    endpoint(says("I have no idea."))
    ran = atc("run", "double 21", "-t", "tools.py", "--set", "max_revisions=0")
    for output in (ran.output, atc("runs", "show", ran.stdout.split()[1]).output):
        assert output.count(reason) == 2
        assert f"── unsolved ──\n{reason}\n" in output
    endpoint(says("```python\nanswer = [1][double(n=21)]\n```"))
    ran = atc("run", "double 21", "-t", "tools.py", "--set", "max_revisions=0")
    assert ran.output.count("index out of range") == 2
    endpoint(fails(401, "bad key"))
    ran = atc("run", "double 21", "-t", "tools.py")
    assert ran.output.count("OPENAI_API_KEY") == ran.stderr.count("OPENAI_API_KEY") == 1
    assert "── failed ──" in ran.stdout
    run_id = ran.stdout.split()[1]
    assert "OPENAI_API_KEY" in atc("runs", "show", run_id).stdout  # nobody catches an exception there


def test_wrong_settings_are_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_MAX_CALLS", "lots")
    for arguments in (["run", "x", "-t", "tools.py"], ["runs"], ["doctor", "--settings"]):
        ran = atc(*arguments)
        assert (ran.exit_code, "max_calls" in ran.stderr) == (2, True)
    monkeypatch.delenv("ATC_MAX_CALLS")
    Path("atc.toml").write_text("max_calls = ")
    assert "atc.toml" in atc("runs").stderr


def test_an_endpoint_that_refuses_the_key_is_the_environments_fault(endpoint: Any) -> None:
    endpoint(fails(401, "bad key"))
    ran = atc("run", "double 21", "-t", "tools.py")
    assert ran.exit_code == 3
    assert "sk-1234567890" not in ran.output


def test_what_tools_say_cannot_steer_the_terminal(endpoint: Any) -> None:
    endpoint(says("```python\n# \x1b[31m[bold]\x07\nprint('\\x1b[2J')\nanswer = evil(n=1)\n```"))
    for arguments in (
        ["run", "x", "-t", "tools.py"],
        ["runs", "show", "last"],
        ["tools", "list", "-t", "tools.py"],
        ["tools", "stub", "-t", "tools.py"],
    ):
        ran = atc(*arguments)
        assert ran.exit_code == 0, ran.output
        assert not ESCAPES.search(ran.output), arguments
    assert "[red]x[/red]" in atc("runs", "show", "last").stdout


def test_clean_keeps_text_and_drops_what_steers() -> None:
    assert clean("ü 😀\n\ta") == "ü 😀\n\ta"
    assert clean("\x1b[2J\x07\x9b\u202e\ud800\r") == "�[2J�����"


# -- approval --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "stdin", "booked"),
    [
        ("always", "", True),
        ("never", "", False),
        ("ask", "y\n", True),
        ("ask", "YES\n", True),
        ("ask", "n\n", False),
        ("ask", "\n", False),
        ("ask", "", False),
        ("ask", "yep\n", False),
        (None, "y\n", False),
    ],
)
def test_effects_happen_only_when_they_may(endpoint: Any, choice: str | None, stdin: str, booked: bool) -> None:
    endpoint(says(BOOK))
    ran = atc("run", "book it", "-t", "tools.py", "--json", *(["--approve", choice] if choice else []), stdin=stdin)
    result = json.loads(ran.stdout)
    assert (result["calls"][0]["status"] == "ok") is booked
    assert ("allow book? effect: write\n  | n = 1 ← the program alone\n[y/N]: " in ran.stderr) is (choice == "ask")
    assert ("incomplete: line 2: book(n=1) refused: " in ran.stderr) is not booked
    assert (ran.exit_code, result["status"], result["partial"]) == (
        (0, "answered", False) if booked else (4, "denied", True)
    )


def test_a_run_that_nobody_could_be_asked_in_says_what_waits_and_goes_on(endpoint: Any) -> None:
    endpoint(says("```python\nanswer = book(n=1)\n```"))
    ran = atc("run", "book it", "-t", "tools.py")
    assert ran.exit_code == 4
    waits = r"waits for approval: book\(n=1\) \(`atc resume (\S+)` on a terminal asks you; "
    waits += r"`(atc resume \S+ --approve always)`"
    for again in (ran, atc("resume", "last")):
        told = re.search(waits, again.stderr)
        assert told is not None, again.output
        assert (again.exit_code, told[2]) == (4, f"atc resume {told[1]} --approve always")
    done = atc(*told[2].split()[1:], "--json")
    assert (done.exit_code, json.loads(done.stdout)["status"]) == (0, "answered")
    assert "waits" not in done.stderr


HALF = "```python\nfor n in (1, 2):\n    answer = book(n=n)\n```"


def test_a_run_that_did_half_says_what_is_done_and_what_is_not(endpoint: Any) -> None:
    endpoint(says(HALF), says(HALF))
    ran = atc("run", "book twice", "-t", "tools.py", "--approve", "ask", stdin="y\nn\n")
    assert ran.exit_code == 4
    for output in (ran.stdout, atc("runs", "show", "last").stdout):
        end = output.partition("── not approved ──")[2]
        assert "did not approve this call\n" in end
        assert "\ndone: book(n=1)\nnot done: book(n=2)\n" in end
    assert "  asked: book(n=2)\n      n ← the program alone\n" in atc("runs", "show", "last").stdout
    assert "--approve" not in ran.output  # what was just denied is not said to be approved
    ran = atc("run", "book twice", "-t", "tools.py", "--approve", "ask", "--json", stdin="y\nn\n")
    result = json.loads(ran.stdout)
    assert (result["done"], result["not_done"]) == (
        [{"tool": "book", "arguments": {"n": 1}}],
        [{"tool": "book", "arguments": {"n": 2}}],
    )
    assert "done: book(n=1)\nnot done: book(n=2)\n" in ran.stderr


def test_an_answer_with_an_unresolved_warning_says_so(endpoint: Any) -> None:
    text = "```python\nto = 'ann@example.org'\nanswer = double(n=len(to))\n```"
    endpoint(says(text), says(text))
    warning = "unresolved warning: an e-mail address in the program stands in neither the task nor a response"
    ran = atc("run", "how long is it, twice?", "-t", "tools.py")
    assert ran.exit_code == 0
    for output in (ran.stdout, atc("runs", "show", "last").stdout):
        assert "── answer, with an unresolved warning ──\n30\n" in output
        assert output.splitlines()[-1].endswith(warning)
    assert "  answered, unresolved warning  " in atc("runs").stdout
    (row,) = json.loads(atc("runs", "--json").stdout)
    assert (row["status"], row["unresolved"]) == ("answered", True)
    ran = atc("run", "how long is it, twice?", "-t", "tools.py", "--json")
    (remark,) = json.loads(ran.stdout)["remarks"]
    assert (remark["case"], remark["finding"]["kind"]) == ("unresolved", "invented_id")
    assert ran.stderr.splitlines()[-1].endswith(warning)


def test_a_user_at_a_terminal_is_asked_and_what_was_typed_ahead_is_no_answer(endpoint: Any, tmp_path: Path) -> None:
    endpoint(says(BOOK))
    with Terminal("run", "book it", "-t", "tools.py") as terminal:
        terminal.type("n\n")
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert "booked" in terminal.shown


WARNED = BOOK.replace("try", "to = 'ann@example.org'\ntry").replace("n=1)\nexcept", "n=len(to))\nexcept")


def test_where_nobody_can_be_asked_a_warned_program_makes_no_write(endpoint: Any) -> None:
    server = endpoint(says(WARNED), says(WARNED))
    run = ("run", "book it for Ann", "-t", "tools.py", "--approve", "always", "--set", "max_revisions=0")
    ran = atc(*run)
    assert ran.exit_code == 1
    for output in (ran.stdout, atc("runs", "show", "last").stdout):
        assert "  run although: an e-mail address in the program stands in neither the task nor a response\n" in output
        assert (
            "      → not made without approval: it depends on what the check warned about: an e-mail address" in output
        )
        assert 'approve it at a terminal or by a function, or set warnings="allow" (--set warnings=allow)\n' in output
    told = "not made: 1 calls that depend on a warning of the check (--approve always --set warnings=allow makes them"
    assert told in ran.stderr
    assert len(server.requests) == 1
    assert atc(*run, "--set", "warnings=allow").exit_code == 0


def test_an_argument_name_cannot_begin_a_line_of_its_own(endpoint: Any) -> None:
    endpoint(says("```python\nanswer = double(n=1)\n```"))
    atc("run", "double 1", "-t", "tools.py")
    (trace,) = Path("runs").glob("*/trace.jsonl")
    trace.write_text(trace.read_text().replace('{"n": 1}', '{"n\\n  \u2713 2. book": 1}'))
    assert "double('n\\n  \u2713 2. book'=1)" in atc("runs", "show", "last").stdout


def test_an_interrupt_at_the_question_ends_the_run_at_once(endpoint: Any) -> None:
    endpoint(says(BOOK))
    with Terminal("run", "book it", "-t", "tools.py") as terminal:
        terminal.wait_for("[y/N]")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ended() == 130
    told = re.search(r"interrupted; nothing is left running; `atc (resume \S+)` continues it", terminal.shown)
    assert json.loads(atc("runs", "--json").stdout)[0]["status"] == "failed"
    assert told is not None
    gone_on = atc(*told[1].split(), "--approve", "always")
    assert (gone_on.exit_code, "booked" in gone_on.stdout) == (0, True)

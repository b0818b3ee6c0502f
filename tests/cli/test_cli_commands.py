"""The other commands: what each prints, on which stream, and the exit code it leaves with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from atc.cli import COMMANDS, app, commands_of, loaded
from atc.cli.console import print_table
from atc.errors import SandboxUnavailable
from tests.support.cli import GOOD, TOOLS, atc
from tests.support.fake_openai_server import says

pytestmark = pytest.mark.usefixtures("settled")


# -- atc tools -------------------------------------------------------------------------------------------------------


def test_tools_are_listed_shown_and_rendered() -> None:
    listed = atc("tools", "list", "-t", "tools.py")
    assert listed.exit_code == 0
    assert re.search(r"double +read +n +Twice a number", listed.stdout)
    protocols = json.loads(atc("tools", "list", "-t", "tools.py", "--json").stdout)
    assert [protocol["name"] for protocol in protocols] == ["double", "book", "evil", "slow"]
    assert json.loads(atc("tools", "show", "double", "-t", "tools.py").stdout) == protocols[0]
    stub = atc("tools", "stub", "-t", "tools.py", "double")
    assert 'def double(n: int) -> int:\n    """Twice a number."""' in stub.stdout
    assert atc("tools", "stub", "-t", "tools.py").stdout.count("def ") == 4


def test_in_a_pipe_a_row_is_a_line_and_nothing_is_cut() -> None:
    sentence = "What it does is told at length, " * 40
    more = f'@tool(effect=\'read\')\ndef wordy(n: int) -> int:\n    """{sentence}\n\n    And on."""\n    return n\n'
    Path("tools.py").write_text(TOOLS + more)
    for arguments in (["tools", "list", "-t", "tools.py"], ["tools", "search", "wordy", "-t", "tools.py"]):
        (row,) = [line for line in atc(*arguments).stdout.splitlines() if "wordy" in line]
        assert f"{sentence.strip()} And on." in row
    assert not any(line.endswith(" ") for line in atc("tools", "list", "-t", "tools.py").stdout.splitlines())


def test_one_long_cell_does_not_make_every_row_long(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "arguments", "text")
    for n in range(50):
        table.add_row(f"tool{n}", "x" * 100_000 if n == 7 else "x", Text("[red]y\nz\x1b[2J"))
    print_table(table)
    shown = capsys.readouterr().out
    assert len(shown) < 110_000
    assert shown.count("\n") == 51
    assert "tool8" in shown
    assert "[red]y z\N{REPLACEMENT CHARACTER}[2J" in shown


# -- atc runs, show, resume ------------------------------------------------------------------------------------------


def test_runs_are_listed_and_read_back(endpoint: Any) -> None:
    assert "no runs in" in atc("runs").stdout
    assert json.loads(atc("runs", "--json").stdout) == []
    endpoint(says(GOOD))
    atc("run", "double 21", "-t", "tools.py")
    (row,) = json.loads(atc("runs", "--json").stdout)
    assert (row["status"], row["calls"], row["task"], row["revisions"]) == ("answered", 1, "double 21", 0)
    assert row["run_id"] in atc("runs").stdout
    shown = atc("runs", "show", row["run_id"][-6:])
    assert "task: double 21" in shown.stdout
    assert "── answer ──\n42\n" in shown.stdout
    assert [event["kind"] for event in json.loads(atc("runs", "show", "last", "--json").stdout)][-1] == "run_ended"
    ran = atc("resume", "last")
    assert (ran.exit_code, "ended with an answer" in ran.stderr) == (2, True)


def test_a_run_that_was_cut_off_is_resumed_with_its_tools(endpoint: Any) -> None:
    atc(
        "tools", "list", "-t", "tools.py"
    )  # the first load in a process has the file's name, all others one of their own
    for budget_s, n in ((1.2, 3), (12, 30)):  # a busy machine may use up the first before the slow call begins
        endpoint(says(f"```python\nanswer = [book(n=1), slow(n={n})]\n```"))
        first = atc(
            "run", "book it", "-t", "tools.py", "--set", f"budget_s={budget_s}", "--approve", "always", "--json"
        )
        result = json.loads(first.stdout)
        if "slow" in [call["tool"] for call in result["calls"]]:
            break
    assert (first.exit_code, result["status"]) == (6, "budget"), result
    assert f"in doubt: slow({{'n': {n}}}) may or may not have happened" in first.stderr
    again = atc("resume", "last", "--json", "--approve", "always")
    calls = json.loads(again.stdout)["calls"]
    assert ", 1 replayed" in atc("runs").stdout
    assert [(call["tool"], call["status"]) for call in calls][:3] == [
        ("slow", "in_doubt"),
        ("book", "replayed"),
        ("slow", "refused"),
    ]
    assert (again.exit_code, json.loads(again.stdout)["status"]) == (6, "in_doubt")


def test_a_run_begun_elsewhere_needs_its_tools_named() -> None:
    from atc import Agent
    from atc.models.fake import FakeModel

    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    with pytest.raises(Exception):  # noqa: B017 - it is cut off somehow
        Agent([double], model=FakeModel([RuntimeError("cut off")])).run("double 21")
    ran = atc("resume", "last")
    assert (ran.exit_code, "name them with --tools" in ran.stderr) == (2, True)


# -- atc doctor ------------------------------------------------------------------------------------------------------


def test_the_doctor_looks_at_everything(endpoint: Any) -> None:
    endpoint(says(GOOD))
    checks = {check["name"]: check for check in json.loads(atc("doctor", "--json").stdout)}
    assert {"python", "model", "sandbox", "atlas"} <= set(checks)
    assert checks["sandbox"]["found"].startswith(("process: tier N", "process: tier L"))
    assert all(check["ok"] or not check["needed"] for check in checks.values())
    ran = atc("doctor")
    assert ran.exit_code == 0
    assert "sandbox" in ran.stdout


KEYED = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {f"/{name}": {"get": {"operationId": name, "responses": {}}} for name in ("pens", "inks")},
    "components": {"securitySchemes": {"shop_key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "security": [{"shop_key": []}],
}


def test_a_missing_credential_is_named_before_a_run(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint(says(GOOD))
    Path("shop.json").write_text(json.dumps(KEYED))
    way = "pass auth={'shop_key': …} to the import (`atc run --openapi auth.shop_key=…`), or set ATC_AUTH_SHOP_KEY"
    told = f"no credential is set for 'shop_key', which pens, inks need: {way}"
    for arguments in (["tools", "list", "-t", "shop.json"], ["tools", "list", "-t", "shop.json", "--json"]):
        ran = atc(*arguments)
        assert (ran.exit_code, ran.stderr) == (0, f"note: {told}\n")
    ran = atc("doctor", "--tools", "shop.json", "--json")
    assert ran.exit_code == 3
    check = json.loads(ran.stdout)[-1]
    assert (check["name"], check["ok"], check["fix"]) == ("tools shop.json", False, told)
    assert "no credential for 'shop_key', which 2 need" in atc("doctor", "-t", "shop.json").stdout
    assert json.loads(atc("doctor", "-t", "nothing.json", "--json").stdout)[-1]["found"] == "cannot be opened"
    monkeypatch.setenv("ATC_AUTH_SHOP_KEY", "s3cret-shop")
    assert atc("tools", "list", "-t", "shop.json").stderr == ""
    assert json.loads(atc("doctor", "-t", "shop.json", "--json").stdout)[-1]["found"] == "2 tools"


def test_the_doctor_says_what_is_missing_and_how_to_mend_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.sandboxes.process import driver as process

    real = process.start_zygote

    def without_landlock(settings: dict[str, Any]) -> Any:
        if settings["tier"] != "F":
            raise SandboxUnavailable("this kernel does not have it")
        return real(settings)

    monkeypatch.setattr(process, "start_zygote", without_landlock)
    ran = atc("doctor", "--json")
    sandbox = next(check for check in json.loads(ran.stdout) if check["name"] == "sandbox")
    assert ran.exit_code == 3
    assert (sandbox["ok"], "Landlock" in sandbox["fix"]) == (False, True)
    assert "tier F" in sandbox["found"]
    assert "not L: this kernel does not have it" in sandbox["found"]


def test_the_doctor_says_that_runs_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may have a root that cannot be written, or a user without a home folder."""
    from atc.cli import doctor

    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "a/b"))
    assert doctor._runs().ok
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").write_text("no folder")
    told = doctor._runs()
    assert (told.ok, f"{tmp_path / 'a'} cannot be written" in told.found, "ATC_RUNS_DIR" in told.fix) == (
        False,
        True,
        True,
    )
    (tmp_path / "a").unlink()
    monkeypatch.setattr("os.access", lambda *_: False)
    assert f"{tmp_path} cannot be written" in doctor._runs().found


def test_the_doctor_looks_at_what_the_settings_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.cli import doctor

    assert doctor._runs().ok
    assert doctor._telemetry() == []
    monkeypatch.setenv("ATC_STORE", "mysql://me:geheim@host/base")
    monkeypatch.setenv("ATC_OTEL", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "pigeons")
    found = [doctor._runs(), *doctor._telemetry()]
    assert [(check.ok, check.needed) for check in found] == [(False, True), (False, True)]
    assert "geheim" not in str(found)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "ray" else object())
    assert (doctor._extras().ok, "[ray]" in doctor._extras().fix) == (False, True)


def test_the_doctor_lists_every_setting_and_hides_the_key() -> None:
    rows = json.loads(atc("doctor", "--settings", "--json").stdout)
    assert rows["max_calls"] == {"value": 200, "meaning": "most tool calls of a run", "variable": "ATC_MAX_CALLS"}
    text = atc("doctor", "--settings")
    assert "ATC_SANDBOX_REQUIRE" in text.stdout
    assert "sk-1234567890" not in text.stdout + json.dumps(rows)


# -- every command ---------------------------------------------------------------------------------------------------


def _commands() -> Iterator[tuple[str, ...]]:
    yield ()
    for name in COMMANDS:
        yield (name,)
        yield from ((name, inner) for inner in commands_of(loaded(name)))


@pytest.mark.parametrize("path", list(_commands()), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    ran = atc(*path, "--help")
    assert ran.exit_code == 0
    assert "Usage: " in ran.stdout
    assert atc(*path, "-h").stdout == ran.stdout


@pytest.mark.parametrize("group", ["", "tools", "runs", "mcp"])
def test_the_lines_in_a_list_are_the_commands_own(group: str) -> None:
    """A list is printed without importing its commands: what it says of them must be what they say."""
    listing: Any = loaded(group) if group else get_command(app)
    shown = atc(*filter(None, [group]), "--help").stdout
    assert listing.table
    for name, command in commands_of(listing).items():
        if name in listing.table:
            line = listing.table[name][1]
            assert " ".join(command.help.split()).startswith(line.removesuffix("."))
            assert line[:30] in shown or name == "help"


def test_the_shell_completes_commands_and_options() -> None:
    for words, complete in (("atc ru", {"run", "runs"}), ("atc tools s", {"search", "serve-demo", "show", "stub"})):
        assert set(_completed(words)) == complete
    assert "--tools" in _completed("atc run --to")


def _completed(words: str) -> list[str]:
    place = str(len(words.split()) - 1)
    environment = {"_ATC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}
    return CliRunner().invoke(app, [], env=environment, prog_name="atc").stdout.split()


def test_the_version_is_told() -> None:
    import atc as package

    assert atc("--version").stdout == f"atc {package.__version__}\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m atc tools list -t atlas --json | head -c 10"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.stdout, ran.stderr) == ("[\n  {\n    ", "")


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_something_it_can_show() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    Path("tools.py").write_text(TOOLS.replace("Twice", "Zweifach \u00fc"))
    for arguments in (
        ["tools", "list", "-t", "tools.py"],
        ["tools", "list", "-t", "tools.py", "--json"],
        ["tools", "list", "-t", "nichts-\u00fc"],
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "atc", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        assert ran.returncode == (2 if arguments[-1].startswith("nichts") else 0)


def test_a_stub_within_a_budget_is_what_a_prompt_would_show() -> None:
    whole = atc("tools", "stub", "-t", "atlas", "sun_times", "get_city")
    assert whole.stdout.count("def ") == 2
    cut = atc(
        "tools", "stub", "-t", "atlas", "sun_times", "get_city", "--budget", "120", "--task", "When does the sun set?"
    )
    assert len(cut.stdout) < 0.3 * len(whole.stdout)
    assert "sunset" in cut.stdout
    assert "sun_times: line\nget_city: arguments\n" in cut.stderr
    shown = json.loads(atc("tools", "stub", "-t", "atlas", "sun_times", "get_city", "--budget", "20", "--json").stdout)
    assert shown["tokens"] <= 20
    assert [*shown["grades"], *shown["left_out"]] == ["sun_times", "get_city"]

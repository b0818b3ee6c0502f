"""``atc runs record``: from a run of the shell to a test."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, tool
from atc.models.fake import FakeModel
from tests.support.cli import atc


@tool(effect="read")
def customer(name: str) -> dict[str, Any]:
    """Find a customer."""
    return {"id": 48213, "name": name, "email": "ada@example.com", "key": "ghp_" + "a1B2" * 9 if name == "Key" else ""}


@tool(effect="write")
def send(to: str, text: str) -> dict[str, Any]:
    """Send a message."""
    return {"sent": True, "to": to}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, _sandbox_of_all: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("atc.sandboxes.drivers.open_sandbox", _sandbox_of_all.open)


def ran(program: str, task: str = "Write to Ada") -> str:
    with Agent([customer, send], model=FakeModel([program]), approve="always", sentence=False) as agent:
        result = agent.run(task)
        assert result.status == "answered", result.fault
        return result.run_id


LETTER = "c = customer('Ada')\nanswer = send(c['email'], f\"Dear {c['name']}, you are {c['id']}\")"


def test_a_run_becomes_two_files() -> None:
    ran(LETTER)
    made = atc("runs", "record", "last")
    assert made.exit_code == 0, made.output
    assert Path("tests/test_write_to_ada.py").is_file()
    data = json.loads(Path("tests/test_write_to_ada.json").read_text())
    assert data["about"].startswith("Data of run ")
    assert "customer, send answered" in data["about"]
    assert "pytest tests/test_write_to_ada.py" in made.stdout
    again = atc("runs", "record", "last")
    assert again.exit_code == 2
    assert "replace it with --force" in again.stderr
    assert atc("runs", "record", "last", "--force").exit_code == 0


def test_stand_ins_and_json() -> None:
    run_id = ran(LETTER)
    made = atc(
        "runs", "record", run_id, "-o", "t", "--name", "ada", "--redact", "calls.0.value.email", "--redact",
        "calls.0.arguments.name", "--json",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout) == {
        "run_id": run_id,
        "test": "t/test_ada.py",
        "data": "t/test_ada.json",
        "calls": 2,
        "replaced": ["calls.0.value.email", "calls.0.arguments.name"],
    }
    text = Path("t/test_ada.json").read_text()
    assert "ada@example.com" not in text
    assert "Ada" not in text
    assert json.loads(text)["replaced"]


def test_stand_ins_with_which_the_program_calls_otherwise_are_refused() -> None:
    ran("answer = 'ada' in customer('Ada')['email'] and send('x', 'y')")
    made = atc("runs", "record", "last", "--redact", "calls.0.value.email")
    assert made.exit_code == 2
    assert "with these stand-ins the program does otherwise" in made.stderr
    assert "recorded, and not made, line 1: send(" in made.stderr
    assert not Path("tests").exists()


def test_a_value_does_not_stay_in_another_spelling() -> None:
    ran("answer = customer('Ada')['email'].upper()", "Write to ADA@Example.com")
    made = atc("runs", "record", "last", "--name", "ada", "--redact", "calls.0.value.email")
    assert made.exit_code == 0, made.output
    assert "ada@example.com" not in Path("tests/test_ada.json").read_text().lower()


@pytest.mark.parametrize("spelled", ["48_213", "0xBC55", "int('\\x34\\x38213')"])
def test_a_value_that_the_program_spells_otherwise_is_told(spelled: str) -> None:
    ran(f"answer = customer('Ada')['id'] == {spelled}")
    made = atc("runs", "record", "last", "--redact", "calls.0.value.id")
    assert made.exit_code == 2
    assert "what --redact names still stands in program" in made.stderr
    assert not Path("tests").exists()


def test_a_credential_is_refused_with_the_option_that_helps() -> None:
    ran("answer = customer('Key')")
    made = atc("runs", "record", "last")
    assert made.exit_code == 2
    assert "--redact calls.0.value.key" in made.stderr
    assert "ghp_" not in made.output
    assert atc("runs", "record", "last", "--redact", "calls.0.value.key").exit_code == 0


def test_a_run_without_an_answer_and_a_wrong_name_are_told() -> None:
    ran("answer = customer('Ada')['id']")
    assert "is no name for a test" in atc("runs", "record", "last", "--name", "../x").stderr
    assert atc("runs", "record", "nobody").exit_code == 2
    with Agent([customer], model=FakeModel(["answer = 1 / 0"] * 3), max_revisions=1) as agent:
        failed = agent.run("no").run_id
    assert "has no answer" in atc("runs", "record", failed).stderr


def test_a_run_that_others_can_write_is_recorded_after_a_yes(tmp_path: Path) -> None:
    run_id = ran("answer = customer('Ada')['id']")
    os.chmod(tmp_path / "runs" / run_id, 0o777)
    made = atc("runs", "record", run_id)
    assert made.exit_code == 2
    assert "is not recorded without a question" in made.stderr
    assert atc("runs", "record", run_id, "--yes").exit_code == 0

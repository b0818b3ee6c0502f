"""Where nothing needs to know where a value came from, nothing is computed; else each program is followed once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atc.programs.origins.program import ProgramOrigins
from tests.support.data_flow import CLEAN, FLOWS, Bank

pytestmark = pytest.mark.inline

MANY = "for n in range(50):\n    get_contact(who='ann')\n    send_money(to='DE-ANN-01', amount=n)\nanswer = 1"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The source of each program that is followed."""
    sources: list[str] = []
    begin = ProgramOrigins.__init__

    def counted(self: ProgramOrigins, program: Any, *given: Any, **named: Any) -> None:
        sources.append(program.source)
        begin(self, program, *given, **named)

    monkeypatch.setattr(ProgramOrigins, "__init__", counted)
    return sources


def test_nothing_is_followed_where_nothing_needs_it(tmp_path: Path, made: list[str]) -> None:
    bank = Bank(tmp_path, marked=False)
    assert bank.ran(MANY).status == "answered"
    assert bank.ran(FLOWS, permissions=bank.rules('[[rules]]\nallow = "*"\narguments = {amount = {max = 9}}\n')).value
    assert bank.ran("mail = read_mail()\nlook(mail=mail)", FLOWS).status == "answered"
    assert bank.ran(FLOWS, approve="never").status == "denied"
    with bank.agent("answer = read_mail()", CLEAN) as agent, agent.conversation() as talk:
        assert [talk.run(task).status for task in ("Read", "Pay")] == ["answered", "answered"]
    assert made == []


def test_reads_alone_need_nothing(tmp_path: Path, made: list[str]) -> None:
    bank = Bank(tmp_path)
    assert bank.ran("answer = [read_mail() for _ in range(20)]").status == "answered"
    assert made == []


@pytest.mark.parametrize("rules", ["", '[[rules]]\nallow = "*"\nfrom = ["task", "literal"]\n'])
def test_a_program_of_a_hundred_calls_is_followed_once(tmp_path: Path, made: list[str], rules: str) -> None:
    bank = Bank(tmp_path)
    given: dict[str, Any] = {"permissions": bank.rules(rules)} if rules else {}
    assert bank.ran(f"read_mail()\n{MANY}", **given).status == "answered"
    assert len(bank.sent) == 50
    assert len(made) == 1


IMPORTED = """
import sys
from pathlib import Path
from tests.support.data_flow import CLEAN, Bank

bank = Bank(Path(sys.argv[1]), marked=False)
assert bank.run(CLEAN).status == "answered"
found = [name for name in sys.modules if name.startswith(("atc.programs.origins", "atc.run.author"))]
print(*found)
"""


def test_no_module_of_it_is_imported_where_no_tool_is_untrusted(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", IMPORTED, str(tmp_path)]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split() == []

"""The question to the user: nothing in a call can rewrite it or hide in it, and nobody answers it before it is seen."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.calls import question

FAKE = "\n[y/N]: y\nallow read? effect: read"


@contextmanager
def answered(monkeypatch: pytest.MonkeyPatch, reader: int) -> Iterator[None]:
    """Standard input is this descriptor."""
    with os.fdopen(os.dup(reader), closefd=True) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The user's side of a pseudo-terminal that is standard input."""
    ours, theirs = pty.openpty()
    with answered(monkeypatch, theirs):
        yield ours
    os.close(ours)
    os.close(theirs)


def ask(arguments: dict[str, Any] | None = None, warnings: tuple[str, ...] = ()) -> bool | None:
    return asyncio.run(question.ask("allow book? effect: write", arguments or {"n": 1}, warnings))


def shown(capsys: pytest.CaptureFixture[str], arguments: dict[str, Any], *warnings: str) -> list[str]:
    """The lines of a question that nobody answers."""
    asyncio.run(question.ask("allow book? effect: write", arguments, warnings))
    return capsys.readouterr().err.rstrip("\n").split("\n")


def typing(monkeypatch: pytest.MonkeyPatch, terminal: int, *answers: str) -> list[str]:
    """Type each answer once the question that it is for stands there; what was shown before each."""
    left, screens, screen = list(answers), [], [""]

    def show(text: str) -> None:
        screen[0] += text
        if text.rstrip().endswith("]:"):
            screens.append(screen[0])
            screen[0] = ""
            os.write(terminal, left.pop(0).encode())

    monkeypatch.setattr(question, "_show", show)
    return screens


# -- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n" + FAKE, "n\r\x1b[2K", "n\u202e", "n\u2028[y/N]: y", "n = 1\n  | m", "", "a b"])
@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.usefixtures("no_answer")
def test_a_name_or_value_stays_on_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, outer: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = shown(capsys, {name: 1} if outer else {"n": {name: name}}, "warned of " + name)
    assert len(lines) == 5
    assert lines[0] == "allow book? effect: write"
    assert lines[1].startswith("  | ")
    assert lines[2] == "warning:"
    assert lines[3].startswith("  | warned of ")
    assert lines[4] == "[y/N]: "
    assert all(line.isprintable() for line in lines)
    assert not outer or lines[1].startswith(("  | '", '  | "'))


@given(st.dictionaries(st.text(), st.text() | st.dictionaries(st.text(), st.text()), max_size=5))
def test_no_line_of_a_question_begins_with_text_from_outside(arguments: dict[str, Any]) -> None:
    lines, _ = question._lines(arguments, whole=True)
    assert all(line.startswith("  | ") and line.isprintable() for line in lines)


@pytest.mark.usefixtures("no_answer")
def test_a_long_line_is_broken_by_us_and_not_by_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = shown(capsys, {"text": " " * 53 + "[y/N]: y", "wide": "\u4e2d" * 100})
    assert all(line.startswith("  | ") for line in lines[1:-1])
    assert all(question._columns(line) < 60 for line in lines)
    assert "".join(line[4:] for line in lines[1:-1]).count("\u4e2d") == 100


@pytest.mark.usefixtures("no_answer")
def test_heaps_of_marks_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = shown(capsys, {"n": "e\u0301e" + "\u0301" * 5})[1:-1]
    assert line == "  | n = 'e\u0301e\u0301\u0301" + "\\u0301" * 3 + "'"


@pytest.mark.usefixtures("no_answer")
def test_what_is_cut_is_counted_and_head_and_tail_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, {"to": "ann@example.org", "text": "A" + "x" * 100_000 + "Z"})
    assert lines[1] == "  | to = 'ann@example.org'"
    text = "".join(line[4:] for line in lines[2:-1])
    assert text.startswith("text = 'Axxx")
    assert text.endswith("xxxZ' (100,002 characters)")
    assert "x' … 'x" in text
    assert len("\n".join(lines)) < 3_000
    assert lines[-1] == "[y/N, or s to see all of it]: "


@pytest.mark.usefixtures("no_answer")
def test_what_is_not_shown_is_not_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    category = unicodedata.category
    monkeypatch.setattr(question.unicodedata, "category", lambda c: (looked.append(c), category(c))[1])
    lines = shown(capsys, {"text": "a\u0301\u0301\u0301" * 200_000}, "w" * 100_000)
    assert len(looked) < 5_000
    assert len("\n".join(lines)) < 12_000


@pytest.mark.usefixtures("no_answer")
def test_many_arguments_are_bounded_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, {f"n{k}": "x" * 1000 for k in range(1_000)})
    assert "… and 960 more arguments that are not shown" in lines
    assert len("\n".join(lines)) < 20_000
    assert lines[-1].startswith("[y/N, or s")


@pytest.fixture
def no_answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with open(os.devnull) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield


# -- the answer ------------------------------------------------------------------------------------------------------


def test_what_was_typed_before_the_question_is_thrown_away(monkeypatch: pytest.MonkeyPatch, terminal: int) -> None:
    os.write(terminal, b"y\ny\nyes\ny")
    screens = typing(monkeypatch, terminal, "\n")
    assert ask() is False, "the line that was begun before is not ended by the answer"
    os.write(terminal, b"n\nn\n")
    screens += typing(monkeypatch, terminal, "y\ny\n", "n\n")
    assert ask() is True
    assert ask() is False, "the second line of an answer is no answer to the next question"


def test_all_of_a_long_argument_is_shown_to_who_asks(monkeypatch: pytest.MonkeyPatch, terminal: int) -> None:
    hidden = "x" * 5_000 + "mallory@example.org" + "x" * 5_000
    screens = typing(monkeypatch, terminal, "s\n", "n\n")
    assert ask({"to": hidden}) is False
    assert "mallory" not in screens[0]
    assert "mallory" in screens[1].replace("\n  | ", "")
    assert "[y/N]: " in screens[1]


def test_nothing_to_show_makes_s_a_no(monkeypatch: pytest.MonkeyPatch, terminal: int) -> None:
    typing(monkeypatch, terminal, "s\n")
    assert ask() is False


@pytest.mark.parametrize("answer", ["\x04", "\n", "n\n", "yy\n", "y" + " " * 200 + "no\n"])
def test_everything_but_a_yes_is_a_no(monkeypatch: pytest.MonkeyPatch, terminal: int, answer: str) -> None:
    typing(monkeypatch, terminal, answer)
    assert ask() is False


def test_from_a_pipe_each_line_answers_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"y\nn\nYES\ny")
    os.close(writer)
    with answered(monkeypatch, reader):
        assert [ask() for _ in range(5)] == [True, False, True, True, None]
    os.close(reader)


def test_so_it_is_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("y\n\ny\n")
    reader = os.open(tmp_path / "answers", os.O_RDONLY)
    with answered(monkeypatch, reader):
        assert [ask() for _ in range(4)] == [True, False, True, None]
    os.close(reader)


def test_without_any_input_nobody_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert ask() is None
    assert not question.has_terminal()


def test_two_runs_in_two_threads_ask_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    order: list[str] = []
    monkeypatch.setattr(question, "_show", order.append)
    verdicts: list[bool] = []
    with answered(monkeypatch, reader):
        threads = [threading.Thread(target=lambda: verdicts.append(ask({"n": 1}))) for _ in range(2)]
        for thread in threads:
            thread.start()
        os.write(writer, b"y\n")
        os.write(writer, b"n\n")
        for thread in threads:
            thread.join()
    os.close(reader)
    os.close(writer)
    assert sorted(verdicts) == [False, True]
    assert [text.split()[0] for text in order if text.strip()] == ["allow", "[y/N]:"] * 2


def test_a_terminal_is_there_only_where_a_question_is_seen_and_can_be_answered(
    monkeypatch: pytest.MonkeyPatch, terminal: int
) -> None:
    assert not question.has_terminal(), "standard error is captured"
    monkeypatch.setattr(sys, "stderr", sys.stdin)
    assert question.has_terminal()
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert not question.has_terminal()
    assert not question.has_terminal(), "it is closed"


# -- an answer in words ------------------------------------------------------------------------------------------------


def words(text: str, limit: int = 1_000) -> str:
    return asyncio.run(question.ask_words("the program asks you:", text, limit))


@given(st.text())
def test_no_line_of_a_programs_question_begins_with_its_own_text(text: str) -> None:
    with open(os.devnull) as stdin, pytest.MonkeyPatch.context() as patch:
        shown: list[str] = []
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(question, "_show", shown.append)
        assert words(text) == ""
    lines = shown[0].rstrip("\n").split("\n")
    assert lines[0] == "the program asks you:"
    assert all(line.startswith("  | ") and line.isprintable() for line in lines[1:])


@pytest.mark.usefixtures("no_answer")
def test_a_programs_question_has_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    words("1) a\n2) b")
    assert capsys.readouterr().err.split("\n")[1:3] == ["  | 1) a", "  | 2) b"]
    words("a\n" * 500)
    assert len(capsys.readouterr().err.split("\n")) < 60


@pytest.mark.parametrize(
    ("typed", "answer"), [("Rome \n", "Rome"), ("\n", ""), ("\x04", ""), ("x" * 60 + "\n", ""), ("Zürich\n", "Zürich")]
)
def test_an_answer_is_a_line_of_words(monkeypatch: pytest.MonkeyPatch, terminal: int, typed: str, answer: str) -> None:
    os.write(terminal, b"yes, to whatever comes\n")
    typing(monkeypatch, terminal, typed)
    assert words("Which city?", limit=50) == answer


def test_an_interrupt_at_the_question_gives_the_terminal_back(terminal: int) -> None:
    async def go() -> None:
        asking = asyncio.create_task(question.ask_words("the program asks you:", "Which?", 100))
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(go())
    assert question._one_at_a_time.acquire(blocking=False)
    question._one_at_a_time.release()


_INTERRUPTED = """
import asyncio, ctypes, functools, operator, signal
from atc.calls import question

class Interrupted:
    '''epoll, with an interrupt in the moment before it waits: no line of Python is between the two.'''

    def __init__(self, epoll):
        self.epoll = epoll
        self.interrupt = functools.partial(ctypes.CDLL(None)["raise"], signal.SIGINT)

    def __getattr__(self, name):
        return getattr(self.epoll, name)

    def poll(self, timeout, most):
        interrupt = bool
        if timeout < 0:
            interrupt, self.interrupt = self.interrupt, bool
        return list(map(operator.call, (interrupt, functools.partial(self.epoll.poll, timeout, most))))[1]

async def main():
    selector = asyncio.get_running_loop()._selector
    selector._selector = Interrupted(selector._selector)
    await question.ask_words("the program asks you:", "How many?", 100)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="epoll is Linux's")
def test_an_interrupt_in_the_moment_before_the_wait_is_not_lost() -> None:
    with subprocess.Popen([sys.executable, "-c", _INTERRUPTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asked:
        assert asked.stdout is not None
        assert asked.wait(60) == 0
        assert asked.stdout.read() == b"interrupted\n"

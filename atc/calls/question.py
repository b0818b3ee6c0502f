"""One question to the user at the terminal: what a call would do, or what a program asks; nothing in it can steer the
screen.

The answer is one line of standard input. At a terminal, what was typed before the question is thrown away: nobody
approves what he has not seen. From a pipe or a file each question takes one line, as whoever wrote the lines meant it.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import signal
import socket
import sys
import threading
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, get_args

from atc._host.invisible import visible
from atc._records.choices import AskUserChoice
from atc.errors import UsageError
from atc.wording.abridged import Abridged, abridged

SHOWN = 2_000
"""Characters of all arguments together that a question shows; ``s`` shows the rest."""
MOST_WHOLE = 200_000
"""Characters of all arguments together that ``s`` shows: a terminal keeps no more, and nobody reads it."""
SHOWN_OF_ONE = 80
"""Characters of one argument that are always shown, however many there are."""
MOST_ARGUMENTS = 40
MOST_WARNINGS, SHOWN_OF_WARNING = 10, 500
SHOWN_OF_ORIGIN = 500
"""Characters of where one argument came from, where few have that much."""
MOST_LINES = 12
"""Lines that a program's own question may have; what follows stands on the last one."""
_MAX_ANSWER = 100
_GUTTER = "  | "  # before every line that an argument can fill: no line of a question begins with text from outside
_CODE = "    "  # in Markdown a line that begins so is code: nothing in it is a link, an image or bold
_YES, _WHOLE = {"y", "yes"}, {"s", "show"}
YES = "y"

Origins = Mapping[str, Sequence[tuple[str, str]]]


@dataclass(frozen=True)
class About:
    """What a question about a call says beside its arguments.

    Attributes:
        origins: by argument, which part of it comes from where; an empty text stands for all of it.
        careful: what to look at before approval, a sentence each; it stands before the arguments.
        done: the calls with effects that are done already.
        wait_s: seconds until nobody waits any more.
    """

    origins: Origins = field(default_factory=dict)
    careful: Sequence[str] = ()
    done: Sequence[str] = ()
    wait_s: float | None = None


_NOTHING = About()
_NO_OTHERS: Mapping[str, str] = {}
_one_at_a_time = threading.Lock()  # of the process: two runs share one terminal


def has_terminal() -> bool:
    """Whether somebody can see a question (standard error) and answer it (standard input)."""
    try:
        return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    except ValueError:  # a closed stream
        return False


async def ask(
    heading: str, arguments: Mapping[str, Any], warnings: Sequence[str] = (), about: About = _NOTHING
) -> bool | None:
    """Ask once. Any answer but yes is a no.

    Returns:
        The answer; ``None`` where the input has ended and is no terminal: nobody was asked. At one, that is a key.
    """
    answer = await choose(heading, arguments, warnings, about)
    return None if answer is None else answer == YES


async def choose(
    heading: str,
    arguments: Mapping[str, Any],
    warnings: Sequence[str] = (),
    about: About = _NOTHING,
    others: Mapping[str, str] = _NO_OTHERS,
) -> str | None:
    """Ask once, with other answers beside yes and no.

    Args:
        others: letters, and what each says; neither ``y`` nor ``s``.

    Returns:
        :data:`YES`, one of the letters, or an empty text for all else, which is a no; ``None`` as :func:`ask`.
    """
    async with _alone():
        whole = False
        while True:
            lines, cut = _lines(arguments, whole, about.origins)
            lines = [*_careful(about.careful), *lines, *_warned(warnings)]
            lines += _done(about.done)
            if about.wait_s is not None:
                lines.append(f"the run waits {about.wait_s:,.0f} s for you; then it ends")
            lines += [f"{letter}: {visible(meaning)}" for letter, meaning in others.items()]
            _show("\n".join([heading, *lines]) + "\n")
            _forget_what_was_typed()
            more = cut and not whole
            letters = "/".join(["y", *others, "N"])
            _show(f"[{letters}, or s to see all of it]: " if more else f"[{letters}]: ")
            line = await _line()
            if not _echoes():
                _show("\n")
                if line is None:
                    return None
            answer = (line or "").strip().lower()
            if not (more and answer in _WHOLE):
                return YES if answer in _YES else answer if answer in others else ""
            whole = True


async def ask_words(heading: str, text: str, limit: int) -> str:
    """Ask for an answer in words, of one line.

    Args:
        heading: ours, before the question.
        text: the question, from outside.
        limit: bytes of an answer.

    Returns:
        It without the spaces around it; empty at the end of the input, and for an empty line or one over the limit.
    """
    async with _alone():
        *lines, last = text.strip().split("\n", MOST_LINES - 1)
        shown = [_GUTTER + piece for line in (*lines, last) for piece in _pieces(visible(line))]
        _show("\n".join([heading, *shown]) + "\n")
        _forget_what_was_typed()
        _show("[your answer, or an empty line if you cannot say]: ")
        answer = (await _line(limit) or "").strip()
        if not _echoes():
            _show("\n")
        return answer


@contextlib.asynccontextmanager
async def _alone() -> AsyncIterator[None]:
    """One question at a time: two runs share one terminal."""
    while not _one_at_a_time.acquire(blocking=False):  # noqa: ASYNC110 - who has it may be in another event loop
        await asyncio.sleep(0.05)
    try:
        yield
    finally:
        _one_at_a_time.release()


def visible_name(name: str) -> str:
    """Return an ordinary name as it is, any other in quotation marks."""
    return visible(name if name.isidentifier() and len(name) <= SHOWN else abridged(name, SHOWN).text)


def indented(arguments: Mapping[str, Any], origins: Origins | None = None) -> tuple[list[str], bool]:
    """The arguments for a dialog that may render Markdown: a line each, set in by four places, where nothing is markup.

    Args:
        origins: as :attr:`About.origins`.

    Returns:
        The lines, and whether something is not shown.
    """
    texts, cut = _texts(arguments, False, origins or {})
    if left := len(arguments) - len(texts):
        texts.append([_left(left)])
    return [_CODE + text for lines in texts for text in lines], cut


def indented_warnings(warnings: Sequence[str], what: str = "warnings") -> list[str]:
    """Warnings, or other texts, in the same way."""
    left = len(warnings) - MOST_WARNINGS
    lines = [_CODE + visible(_cut(each, SHOWN_OF_WARNING)) for each in warnings[:MOST_WARNINGS]]
    return [*lines, f"{_CODE}… and {left} more {what}"] if left > 0 else lines


def _lines(arguments: Mapping[str, Any], whole: bool, origins: Origins | None = None) -> tuple[list[str], bool]:
    texts, cut = _texts(arguments, whole, origins or {})
    lines = [_GUTTER + piece for given in texts for text in given for piece in _pieces(text)]
    if left := len(arguments) - len(texts):
        lines.append(_left(left))
    if whole and cut:
        lines.append(f"… of all arguments {MOST_WHOLE:,} characters are shown at most: these are not whole")
    return lines, cut


def _left(arguments: int) -> str:
    return f"… and {arguments:,} more arguments that are not shown"


def _texts(arguments: Mapping[str, Any], whole: bool, origins: Origins) -> tuple[list[list[str]], bool]:
    room = MOST_WHOLE if whole else SHOWN
    given = list(islice(arguments.items(), room // SHOWN_OF_ONE if whole else MOST_ARGUMENTS))
    lengths = [len(abridged(part, room).text) for pair in given for part in pair]
    limit = _fair_share(lengths, room)
    named = sum(len(origins.get(name, ())) for name, _ in given)
    room_of_origin = min(SHOWN_OF_ORIGIN, max(SHOWN_OF_ONE, SHOWN // max(1, named)))
    texts: list[list[str]] = []
    cut = len(given) < len(arguments)
    for name, value in given:
        shown_name, shown = _name(name, limit), abridged(value, limit)
        cut = cut or shown.cut or shown_name.cut
        came = [(part, f" ← {_cut(origin, room_of_origin)}") for part, origin in origins.get(name, ())]
        whole_came = "".join(origin for part, origin in came if not part)
        texts.append([f"{shown_name.text} = {shown.text}{whole_came}"])
        texts[-1] += [f"  {_cut(part, room_of_origin)}{origin}" for part, origin in came if part]
    return texts, cut


def _name(name: str, limit: int) -> Abridged:
    ordinary = len(name) <= limit and name.isidentifier()
    return Abridged(visible(name), False) if ordinary else abridged(name, limit)


def _careful(told: Sequence[str]) -> list[str]:
    pieces = [piece for each in told for piece in _pieces(visible(_cut(each, SHOWN_OF_WARNING)))]
    return ["careful:", *(_GUTTER + piece for piece in pieces), "arguments:"] if pieces else []


def _warned(warnings: Sequence[str]) -> list[str]:
    lines = []
    for warning in warnings[:MOST_WARNINGS]:
        lines += ["warning:", *(_GUTTER + piece for piece in _pieces(visible(_cut(warning, SHOWN_OF_WARNING))))]
    left = len(warnings) - MOST_WARNINGS
    return [*lines, f"… and {left} more warnings"] if left > 0 else lines


def _done(calls: Sequence[str]) -> list[str]:
    if not calls:
        return []
    shown = [f"… {len(calls) - MOST_WARNINGS:,} calls before"] if len(calls) > MOST_WARNINGS else []
    shown += [visible(_cut(each, SHOWN_OF_WARNING)) for each in calls[-MOST_WARNINGS:]]
    return ["done already:", *(_GUTTER + piece for text in shown for piece in _pieces(text))]


def _fair_share(lengths: Sequence[int], left: int) -> int:
    """Characters of one name or value, so that all fit: short ones are whole, the longest share what is left."""
    whole = left
    for number, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - number)
        if length > share:
            return max(share, SHOWN_OF_ONE)
        left -= length
    return whole


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]} …[{len(text) - limit:,} of {len(text):,} characters are not shown]… {text[-tail:]}"


def _pieces(text: str) -> Iterator[str]:
    """A text in pieces that each fit a line of the terminal, which so never breaks one by itself."""
    width = max(20, shutil.get_terminal_size().columns - len(_GUTTER) - 1)
    begun, used = 0, 0
    for at, character in enumerate(text):
        if used + _columns(character) > width:
            yield text[begun:at]
            begun, used = at, 0
        used += _columns(character)
    yield text[begun:]


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in ("W", "F") else 1 for character in text)


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


# -- the answer ------------------------------------------------------------------------------------------------------


def _forget_what_was_typed() -> None:
    try:
        import termios  # only Unix has it
    except ImportError:
        return
    with contextlib.suppress(termios.error, OSError, ValueError, AttributeError):  # a pipe: a line for each question
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _echoes() -> bool:
    """Whether the line break of the answer stands on the screen already."""
    return sys.stdin is not None and sys.stdin.isatty()


async def _line(limit: int = _MAX_ANSWER) -> str | None:
    """The next line of standard input, read without a thread, so that an interrupt need not wait for the next key.

    ``None`` where the input has ended, and empty where it has more bytes than ``limit``. It is read byte by byte: not a
    byte after it is taken, for that is the next question's.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (io.UnsupportedOperation, AttributeError):
        text = sys.stdin.readline() if sys.stdin is not None else ""  # no real input: nobody has to wait for it
        return text or None
    line = bytearray()
    with _woken_by_signals(asyncio.get_running_loop()):
        while (byte := await _byte(descriptor)) not in (b"", b"\n"):
            line += byte[: limit + 1 - len(line)]
    if not (line or byte):
        return None
    return line.decode("utf-8", "replace") if len(line) <= limit else ""


async def _byte(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a file: it never lets anyone wait
        return os.read(descriptor, 1)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 1)


@contextlib.contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Python only notes a signal that comes in the moment before the loop begins to wait, and its handler waits for the
    next event. Here that is a key: Ctrl-C would have no effect."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        try:
            before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        except ValueError:  # in another thread than the main one no handler runs
            yield
            return
        if before == -1:
            loop.add_reader(ours, ours.recv, 4096)
        else:  # the loop handles signals itself, and is woken
            signal.set_wakeup_fd(before)
        try:
            yield
        finally:
            if before == -1:
                signal.set_wakeup_fd(-1)
                loop.remove_reader(ours)


# ----------------------------------------------------------------------------------------------------------------------
# Who answers the questions that programs ask the user: a function, the terminal, or nobody now.
#
# One vocabulary for the agent, the settings and the command line: ``"never"`` (no program can ask), ``"ask"`` (at the
# terminal; where there is none the run stops with the question), ``"stop"`` (it stops), or a function.


Answerer = Callable[[str], str | Awaitable[str | None] | None]
"""From a question to the user's words; ``None`` where the user cannot answer."""
AskUser = AskUserChoice | Answerer
HEADING = "the program asks you (what you answer goes to it, to the model and to the tools that it calls):"
MAX_QUESTION = 1_000
"""Characters of a question."""
MAX_REPLY = 20_000
"""Characters of an answer, as many as of a task."""


def checked_ask_user(choice: AskUser | None, setting: AskUserChoice = "never") -> AskUser:
    """Return the choice, else the setting.

    Raises:
        UsageError: it is neither one of the words nor a function.
    """
    asked = setting if choice is None else choice
    if not callable(asked) and asked not in get_args(AskUserChoice):
        raise UsageError(f"ask_user takes 'never', 'ask', 'stop' or a function, not {asked!r}")
    return asked


def checked_reply(reply: Any) -> str:
    """The answer that a user gives to a run's question, without the spaces around it.

    Raises:
        UsageError: it is no text, empty, or far too long.
    """
    if not isinstance(reply, str) or not reply.strip():
        raise UsageError("reply is empty: say in words what the run asked for")
    if len(reply) > MAX_REPLY:
        raise UsageError(f"reply has {len(reply):,} characters; the limit is {MAX_REPLY:,}")
    return reply.strip()


def answerer_of(choice: AskUser) -> Answerer | None:
    """The function that answers; ``None`` where nobody does now."""
    if callable(choice):
        return choice
    return ask_at_terminal if choice == "ask" and has_terminal() else None


async def ask_at_terminal(text: str) -> str | None:
    """Ask the user on standard error and read a line of standard input."""
    return await ask_words(HEADING, text, MAX_REPLY) or None

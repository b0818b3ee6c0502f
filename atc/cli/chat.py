"""``atc chat``: tasks one after the other, each of which may refer to those before."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from atc.agent import Agent
from atc.cli import options
from atc.cli.console import WRONG_USE, clean, err, exit_code_of, exit_code_of_run, guarded, out
from atc.cli.run import report
from atc.cli.view import RunView
from atc.errors import AtcError
from atc.invisible import visible
from atc.models.resolve import prepare_model

_COMMANDS = {
    "/new": "begin a new conversation",
    "/show": "the tasks so far, and what came of them",
    "/help": "these lines",
    "/quit": "end; Ctrl-D does, too",
}
_MAX_LINE = 100_000
"""Bytes of a line that are read: a task is shorter."""


@guarded
@options.takes("model", "strategy", "sandbox", "approve", "read_only", "ask_user", "answer", "instructions")
def chat(
    source: options.Source,
    given: options.Given,
    verbose: options.Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line for each task instead.")] = False,
) -> None:
    """Solve a series of tasks, each of which may refer to earlier ones ("and in Rome?").

    Each line is a task; `/help` lists what else a line can be. On a terminal Ctrl-C stops the task; at the prompt it
    ends the conversation, as Ctrl-D does. Elsewhere lines are read to their end, and the exit code is that of the first
    task that was not answered, as `atc run` has it.
    """
    prepare_model(**given)  # it loads while the first task is typed
    view = None if as_json else RunView(out, verbose=verbose)
    agent = Agent(source.opened(), on_event=view, **given)
    terminal = sys.stdin is not None and sys.stdin.isatty() and not as_json
    with agent:
        code = _Chat(agent, view, source.note, as_json=as_json, terminal=terminal).to_the_end()
    raise typer.Exit(0 if terminal else code)


class _Chat:
    """Reads lines and solves them as tasks of a conversation."""

    def __init__(self, agent: Agent, view: RunView | None, source: str, *, as_json: bool, terminal: bool) -> None:
        self._agent, self._view, self._source = agent, view, source
        self._as_json, self._terminal = as_json, terminal
        self._code = 0
        self._kept = agent.settings.keep_runs
        self._conversation = agent.conversation()

    def to_the_end(self) -> int:
        """Read until there is no more; the exit code of the first task that was not answered."""
        if self._terminal:
            self._say("each line is a task; /help lists what else it can be")
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  # input() then has a history and an editor
        try:
            while (line := self._next_line()) is not None:
                if line.startswith("/"):
                    if not self._obeys(line.strip()):
                        break
                elif line.strip():
                    self._solve(line.strip())
        finally:
            self._conversation.close()
        return self._code

    def _next_line(self) -> str | None:
        if not self._terminal:
            return _line_of_input()
        try:
            return input("> ")
        except EOFError:
            out.print()
            return None

    def _obeys(self, command: str) -> bool:
        """Do what a line that is no task says; whether the chat goes on."""
        if command == "/quit":
            return False
        if command == "/new":
            self._conversation.close()
            self._conversation = self._agent.conversation()
            self._say("a new conversation: nothing of the one before is known to it")
        elif command == "/show":
            self._show()
        elif command == "/help":
            for name, what in _COMMANDS.items():
                self._say(f"{name:6}  {what}")
        else:
            known = ", ".join(_COMMANDS)
            hint = "a task may begin with a space before the /"
            self._failed(WRONG_USE, "UsageError", f"there is no {command[:100]!r}, but {known}; {hint}")
        return True

    def _solve(self, task: str) -> None:
        try:
            result = asyncio.run(self._conversation.arun(task, source=self._source))
        except AtcError as error:
            self._failed(exit_code_of(error), type(error).__name__, str(error))
            return
        except KeyboardInterrupt:
            if not self._terminal:
                raise
            again = f"; if you leave now, `atc resume {self._conversation.id}` goes on with it" if self._kept else ""
            self._say(f"stopped; what it did until then is kept{again}")
            return
        finally:
            if self._view is not None:
                self._view.close()
        if self._as_json:
            _print_line(result.model_dump(mode="json"))
        report(result, viewed=not self._as_json)
        self._code = self._code or exit_code_of_run(result.status)

    def _show(self) -> None:
        for turn in self._conversation.turns:
            came = turn.value if turn.answered else f"{turn.status}: {turn.problem}"
            self._say(f"{turn.number}. {visible(turn.task)}")
            for line in came.split("\n"):
                self._say(f"   {visible(line)}")
            for call in (*turn.done, *(f"{call} (in doubt)" for call in turn.in_doubt)):
                self._say(f"   did {visible(call)}")
        self._say(f"atc show {self._conversation.id} has all of it" if self._conversation.turns else "no task yet")

    def _failed(self, code: int, kind: str, message: str) -> None:
        self._code = self._code or code
        if self._as_json:
            _print_line({"error": {"kind": kind, "message": clean(message), "hint": ""}})
        err.print(Text(f"atc: {clean(message)}", style="red"))

    def _say(self, text: str) -> None:
        """Print a line of our own: beside JSON documents, on stderr."""
        (err if self._as_json else out).print(Text(clean(text), style="dim"))


def _print_line(document: dict[str, Any]) -> None:
    """Print one JSON document on a line of its own, at once."""
    sys.stdout.write(json.dumps(document, default=str) + "\n")
    sys.stdout.flush()


def _line_of_input() -> str | None:
    """The next line of standard input, and not a byte after it: a question to the user reads the line after it."""
    if sys.stdin is None:
        return None
    try:
        descriptor = sys.stdin.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return sys.stdin.readline() or None
    line = bytearray()
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte[: _MAX_LINE - len(line)]
    return None if not byte and not line else line.decode("utf-8", "replace")

"""``atc run`` and ``atc chat``: solve one task, or one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from atc._host.invisible import visible
from atc.cli import options
from atc.cli.console import (
    WAITING,
    WRONG_USE,
    Interrupted,
    clean,
    err,
    exit_code_of,
    exit_code_of_run,
    guarded,
    out,
    print_json,
)
from atc.errors import AtcError
from atc.models.resolve import prepare_model
from atc.wording import doubts, outcomes
from atc.wording.outcomes import caveats

if TYPE_CHECKING:
    from atc._records.events import Event
    from atc.agent import Agent
    from atc.cli.view import RunView
    from atc.result import Result


Images = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="FILE",
        help="Show the model this PNG, JPEG, WebP or GIF with the task. May be given several times.",
    ),
]


@guarded
@options.takes(
    "model", "strategy", "sandbox", "approve", "read_only", "probe", "ask_user", "answer", "instructions", panels=True
)
def run(
    task: Annotated[str, typer.Argument(help="Your task, in plain words; `-` reads it from standard input.")],
    source: options.Source,
    given: options.Given,
    image: Images = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Make only reads; list the calls with effects, and where their arguments come from."
        ),
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print the path of the run's trace at the end.", hidden=True)
    ] = False,
    verbose: options.Verbose = False,
    as_json: options.Json = False,
) -> None:
    """Solve a task: write a program that calls the tools, run it in the sandbox, revise it if it fails."""
    prepare_model(**given)  # it loads while the rest is imported
    from atc.agent import Agent
    from atc.cli.view import RunView

    view = Shown(None if as_json else RunView(out, verbose=verbose))
    agent = Agent(source.opened(), on_event=view, **given)
    with view.shown(kept=agent.settings.keep_runs):
        text = sys.stdin.read() if task == "-" else task
        result = asyncio.run(agent.arun(text, images=image or (), source=source.note, dry_run=dry_run))
    finish(result, as_json=as_json, trace=trace)


class Shown:
    """Hands the events of a run to its view, and says after Ctrl-C how to go on with the run.

    Args:
        view: of the run; ``None`` where nothing is shown.
    """

    def __init__(self, view: RunView | None) -> None:
        self._view = view
        self._run_id = ""

    def __call__(self, event: Event) -> None:
        if event.kind == "run_started" and not event.data.get("dry_run"):  # of that there is nothing to go on with
            self._run_id = event.data["run_id"]
        if self._view is not None:
            self._view(event)

    @contextlib.contextmanager
    def shown(self, *, kept: bool) -> Iterator[None]:
        """Show what happens in a block, which is a run. ``kept``: the run is, and so can be resumed.

        Raises:
            Interrupted: it was stopped by Ctrl-C, and can be gone on with.
        """
        try:
            yield
        except KeyboardInterrupt:
            if kept and self._run_id:
                raise Interrupted(f"`atc resume {self._run_id}` continues it") from None
            raise
        finally:
            if self._view is not None:
                self._view.close()


def finish(result: Result, *, as_json: bool, trace: bool) -> None:
    """Print what is left to print, and leave with the exit code of a result."""
    if as_json:
        print_json(result.model_dump(mode="json"))
    report(result, viewed=not as_json)
    if trace and not as_json:
        out.print(f"trace: {result.trace}", markup=False)
    raise typer.Exit(exit_code_of_run(result))


def report(result: Result, *, viewed: bool) -> None:
    """Print on stderr what the user must see to: calls in doubt, those not made or that wait for approval, and that a
    run is incomplete.

    Args:
        result: of the run.
        viewed: its events were shown: the last of them says what the result's fault says.
    """
    said = result.fault.call if viewed and result.partial and result.fault is not None else None
    for call in (call for call in result.in_doubt if call.index != said):
        err.print(
            f"in doubt: {call.tool}({clean(str(call.arguments))}) may or may not have happened; check it by hand",
            markup=False,
        )
    if result.in_doubt and result.trace is not None and not (viewed and result.status == "in_doubt"):
        err.print(doubts.to_settle(result.run_id), markup=False)
    refused = [call.error_status for call in result.calls if call.status == "refused"]
    if warned := refused.count("warned"):
        hint = "--approve always --set warnings=allow makes them; on a terminal you are asked"
        err.print(f"not made: {warned} calls that depend on a warning of the check ({hint})", markup=False)
    if result.status == "denied" and result.trace is not None:
        unasked = [call for call in result.calls if call.refused_by == "nobody"]
        if unasked and all(call.refused_by in (None, "nobody") for call in result.calls):
            first = unasked[0]
            flow = first.data_flow
            alone = flow is not None and (flow.is_of_strangers or flow.is_of_session)
            waits = outcomes.waits(result.run_id, first.tool, first.arguments, alone=alone)
            err.print(clean(waits), markup=False)
    denied = sum(call.error_status == "denied" and call.refused_by != "user" for call in result.calls)
    if denied and result.status != "denied":  # else the fault says it
        hint = "--approve ask or always makes them; a function of yours that only reads: @atc.tool(effect='read')"
        err.print(f"not approved: {denied} calls ({hint})", markup=False)
    if not viewed and result.status not in ("answered", "planned", "waiting"):
        for line in outcomes.effects(result.done, result.not_done, in_doubt=result.status == "in_doubt"):
            err.print(clean(line), markup=False)
    for caveat in caveats(result) if not viewed else ():
        err.print(clean(caveat), markup=False)


_COMMANDS = {
    "/new": "begin a new conversation",
    "/show": "the tasks so far, and what came of them",
    "/help": "these lines",
    "/quit": "end; Ctrl-D does, too",
}
_MAX_LINE = 100_000
"""Bytes of a line that are read: a task is shorter."""


@guarded
@options.takes(
    "model", "strategy", "sandbox", "approve", "read_only", "probe", "ask_user", "answer", "instructions", panels=True
)
def chat(
    source: options.Source,
    given: options.Given,
    verbose: options.Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line for each task.")] = False,
) -> None:
    """Solve a series of tasks, each of which may refer to earlier ones ("and in Rome?").

    Each line is a task; `/help` lists what else a line can be. On a terminal Ctrl-C stops the task; at the prompt it
    ends the conversation, as Ctrl-D does. Elsewhere it reads all lines, and the exit code is that of the first task
    that was not answered.
    """
    prepare_model(**given)  # it loads while the first task is typed
    from atc.agent import Agent
    from atc.cli.view import RunView

    view = None if as_json else RunView(out, verbose=verbose, goes_on="the next line")
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
                elif line.strip() and self._waits_no_more():
                    self._solve(self._conversation.arun(line.strip(), source=self._source))
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

    def _waits_no_more(self) -> bool:
        """Continue the task before, if its calls waited for approval and are decided; whether the next may begin."""
        if not (waiting := self._conversation.pending):
            return True
        from atc.run.approvals import undecided

        stored = self._agent.store.run(self._conversation.id)
        try:
            left = [call for call in undecided(stored) if call.until > time.time()]
            if left:
                number = len(self._conversation.turns)
                said = outcomes.conversation_waits(stored.run_id, number, left, then="the next line")
                self._failed(WAITING, "UsageError", said)
                return False
        except AtcError as error:
            self._failed(exit_code_of(error), type(error).__name__, str(error))
            return False
        self._say(f"goes on with the task before, which waited for approval: {outcomes.pending(waiting)}")
        self._solve(self._conversation.aresume())
        return not self._conversation.pending

    def _solve(self, work: Coroutine[Any, Any, Result[Any]]) -> None:
        try:
            result = asyncio.run(work)
        except AtcError as error:
            self._failed(exit_code_of(error), type(error).__name__, str(error))
            return
        except KeyboardInterrupt:
            if not self._terminal:
                raise
            again = f"; if you leave now, `atc resume {self._conversation.id}` continues it" if self._kept else ""
            self._say(f"stopped; what it did until then is kept{again}")
            return
        finally:
            if self._view is not None:
                self._view.close()
        if self._as_json:
            _print_line(result.model_dump(mode="json"))
        report(result, viewed=not self._as_json)
        self._code = self._code or exit_code_of_run(result)

    def _show(self) -> None:
        for turn in self._conversation.turns:
            came = turn.value if turn.answered else f"{turn.status}: {turn.problem}"
            self._say(f"{turn.number}. {visible(turn.task)}")
            for line in came.split("\n"):
                self._say(f"   {visible(line)}")
            for call in (*turn.done, *(f"{call} (in doubt)" for call in turn.in_doubt)):
                self._say(f"   did {visible(call)}")
        self._say(f"atc runs show {self._conversation.id} has all of it" if self._conversation.turns else "no task yet")

    def _failed(self, code: int, kind: str, message: str) -> None:
        self._code = self._code or code
        if self._as_json:
            _print_line({"error": {"kind": kind, "message": clean(message), "hint": ""}})
        err.print(Text(f"atc: {clean(message)}", style="red"))

    def _say(self, text: str) -> None:
        (err if self._as_json else out).print(Text(clean(text), style="dim"))


def _print_line(document: dict[str, Any]) -> None:
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

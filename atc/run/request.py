"""The request of a run, checked before the run begins; of a resumed one, read back from its trace."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from atc._host.loading import names_code
from atc._host.redaction import Redactor
from atc._records.choices import AskUserChoice
from atc.calls.journal import Journal
from atc.calls.own_exceptions import KeepTraceback
from atc.calls.question import AskUser, checked_reply
from atc.errors import AtcError, JournalError, UsageError
from atc.models.base import Model
from atc.models.images import Image, Images, read_again, read_images
from atc.parts import STRATEGIES
from atc.run.preamble import NO_PREAMBLE, Preamble
from atc.settings import MAX_INSTRUCTIONS, Settings
from atc.traces.emitter import TraceBehind
from atc.traces.stores.base import NoTrace, RunStore, StoredRun, TraceWriter

if TYPE_CHECKING:
    from atc.calls.applying import Applying
    from atc.programs.answers.types import AnswerType
    from atc.run.conversation import Upcoming

MAX_TASK = 100_000
"""Characters of a task."""


class RunOptions(TypedDict, total=False):
    """Names what :meth:`atc.Agent.run`, ``arun`` and ``stream`` take beside a task, as those of a conversation do.

    Attributes:
        images: shown to the model with the task: paths, bytes or ``data:`` URLs (:class:`atc.Image`).
        instructions: standing wishes that replace the agent's own, such as "answer in German".
        dry_run: make only reads, and list calls with effects in ``planned`` and ``dry_run`` of the result.
        source: where the tools are; the trace keeps it, for a resume.
    """

    images: Images
    instructions: str | None
    dry_run: bool
    source: str | None


@dataclass(frozen=True)
class Request:
    """The request of a run.

    Attributes:
        task: what the user wants.
        answer: the type that the value shall have; ``None``: any.
        images: shown to the model with the task.
        preamble: what stands before the task: standing instructions, and the earlier tasks of a conversation.
        source: where the tools are, for a resume.
        turn: the task's place in a conversation.
        ask_user: who answers what programs ask; ``None``: as the agent has it.
        given: of a resumed run, the question that it ended with, and the user's answer.
        dry_run: calls with effects are planned, not made.
        sentence: whether the answer is said in a sentence, where the agent does not say; ``None``: as it has it.
        parks: of a resumed run, whether it was begun with ``approve="park"``: it goes on so where nobody can be asked.
        seconds: that the run may take at most, beside the limit of the settings; ``None``: no more limit.
        begin_apply: of a run that applies its plan, says so in the journal, and returns what holds the writes to it.
        claim: notes whose the run is, in a thread, once it has its place and before it can do anything.
    """

    task: str
    answer: AnswerType | None = None
    images: tuple[Image, ...] = ()
    preamble: Preamble = NO_PREAMBLE
    source: str | None = None
    turn: Upcoming | None = None
    ask_user: AskUser | None = None
    given: tuple[tuple[str, str], ...] = ()
    dry_run: bool = False
    sentence: bool | None = None
    parks: bool = False
    seconds: float | None = None
    begin_apply: Callable[[Journal, Redactor], Applying] | None = None
    claim: Callable[[], None] | None = None

    def settings(self, own: Settings) -> Settings:
        """Return the agent's own settings, with what this run changes of them."""
        changed: dict[str, Any] = {}
        if self.sentence is not None and "sentence" not in own.model_fields_set:
            changed["sentence"] = self.sentence
        if self.seconds is not None:
            changed["budget_s"] = min(self.seconds, own.budget_s or self.seconds)
        return own.model_copy(update=changed) if changed else own

    def for_trace(self) -> dict[str, Any]:
        """Return its fields of ``run_started``: what a resume needs."""
        optional = {
            "answer": self.answer.record() if self.answer is not None else None,
            "images": [image.facts() for image in self.images],
            "dry_run": self.dry_run,
            "applies": self.begin_apply is not None,
        }
        given = {name: value for name, value in optional.items() if value}
        return {"task": self.task, "source": self.source} | self.preamble.for_trace() | given


def settings_of(settings: Settings, approve: Any, ask_user: Any) -> dict[str, Any]:
    """Return the settings of a run as its trace has them: without keys, with who is asked in place of what was set."""
    asked = {"approve": approve, "ask_user": ask_user}
    given = {name: "function" if callable(value) else value for name, value in asked.items()}
    return settings.model_dump(mode="json", exclude={"api_key", "approval_url"}) | given


def started(
    run_id: str, model: Model, strategy: tuple[str, str | None], tools: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the ``run_started`` of a run, without its request."""
    return {
        "run_id": run_id,
        "model": model.name,
        "endpoint": model.endpoint,
        "strategy": strategy[0],
        "strategy_given": strategy[1],
        "tools": tools,
        "settings": settings,
    }


def checked_task(task: str) -> str:
    """Return the task without the spaces around it.

    Raises:
        UsageError: it is empty or far too long.
    """
    if not isinstance(task, str):
        raise UsageError(f"the task is a {type(task).__name__}: give a text, which says in plain words what is wanted")
    if not task.strip():
        raise UsageError("the task is empty: say in plain words what is wanted")
    if len(task) > MAX_TASK:
        raise UsageError(
            f"the task has {len(task):,} characters; the limit is {MAX_TASK:,}: give data through a tool instead"
        )
    return task.strip()


def request_of(
    task: str, answer: AnswerType | None, turn: Upcoming | None, own: str, **options: Unpack[RunOptions]
) -> Request:
    """Make the request of a run.

    Args:
        task: what the user wants.
        answer: the type that the value shall have.
        turn: the task's place in a conversation.
        own: the agent's instructions, if the options have none.
        options: of the run.

    Raises:
        UsageError: a part of it cannot be used.
    """
    dry_run, instructions = options.get("dry_run", False), options.get("instructions")
    if not isinstance(dry_run, bool):
        raise UsageError(f"dry_run is True or False, not {dry_run!r}")  # a word such as "no" would be true
    return Request(
        task=checked_task(task),
        answer=answer,
        images=read_images(options.get("images", ())),
        preamble=preamble_of(own if instructions is None else instructions, turn),
        source=options.get("source"),
        turn=turn,
        dry_run=dry_run,
    )


def preamble_of(instructions: str, turn: Upcoming | None) -> Preamble:
    """Return what stands before a task.

    Raises:
        UsageError: the instructions are no text, or too long.
    """
    if not isinstance(instructions, str) or len(instructions) > MAX_INSTRUCTIONS:
        what = f"{len(instructions):,} characters" if isinstance(instructions, str) else type(instructions).__name__
        raise UsageError(f"instructions are a text of at most {MAX_INSTRUCTIONS:,} characters, not {what}")
    text = instructions.strip()
    return Preamble(text) if turn is None else Preamble(text, turn.turns, turn.number)


def resumable(stored: StoredRun, *, trust_run: bool = False, strategy_given: bool = False) -> dict[str, Any]:
    """Return the ``run_started`` of a stored run that can go on.

    Args:
        stored: the run.
        trust_run: code that it names is imported wherever it lies; else as :func:`without_code` says.
        strategy_given: the user gives its strategy.

    Raises:
        TraceError: a line of its trace is damaged.
        UsageError: its trace has no beginning, it has ended with an answer, or it names code that is not imported.
        JournalError: it has no journal.
    """
    started, ended = stored.first("run_started"), stored.last("run_ended")
    if started is None or not isinstance(started.get("task"), str):
        raise UsageError(f"run {stored.run_id} has no beginning in its trace {stored.where}: it cannot be resumed")
    stored.check()
    if not stored.has_journal:
        raise JournalError(f"run {stored.run_id} has no journal: what it did is not known, so it cannot be resumed")
    if ended is not None and ended.get("status") == "answered":
        raise UsageError(
            f"run {stored.run_id} ended with an answer: there is nothing to resume (`atc runs show` reads it)"
        )
    if ended is not None and ended.get("status") == "planned":
        how = f"`atc runs apply {stored.run_id}` (agent.apply) makes what was planned; `atc runs show` reads it"
        raise UsageError(f"run {stored.run_id} was a dry run and did nothing that could be resumed: {how}")
    return started if trust_run else without_code(stored, started, strategy_given=strategy_given)


def check_rules(stored: StoredRun) -> None:
    """Check that a run was begun without permissions, where there are none now: without them it would be bound by
    nothing, and anybody could decide about its calls.

    Raises:
        UsageError: it was begun under some.
    """
    if named := _setting(stored.first("run_started") or {}, "permissions"):
        raise UsageError(
            f"run {stored.run_id} was begun under the permissions of {named}, and here are none: name them "
            "(ATC_PERMISSIONS, --set permissions=FILE where a command has it, Agent(permissions=…))"
        )


def without_code(stored: StoredRun, started: dict[str, Any], *, strategy_given: bool) -> dict[str, Any]:
    """Return the ``run_started`` of a run that others may have written: nothing that it names is imported.

    A type of answer becomes its JSON Schema; a strategy must be a bundled one, or be given.

    Raises:
        UsageError: its strategy is code.
    """
    why = stored.why_strange()
    if not why:
        return started
    opened_by = started.get("strategy_given", "chain")
    if not strategy_given and opened_by is not None and opened_by not in STRATEGIES.own:
        raise UsageError(
            f"run {stored.run_id} names code as its strategy ({str(opened_by)[:100]!r}), and {why}: if you know who "
            "wrote it, say so (`atc resume --trust-run`, trust_run=True); else begin a new run"
        )
    answer = started.get("answer")
    if isinstance(answer, Mapping) and names_code(str(answer.get("opened_by"))):
        started = started | {"answer": {name: each for name, each in answer.items() if name != "opened_by"}}
    return started


async def records_of(
    request: Request, store: RunStore, stored: StoredRun | None, *, resumed: bool
) -> tuple[Journal, TraceWriter]:
    """Make the place of a run and open its journal, its conversation's or its own, and its trace. One thread writes
    both from now on.

    Args:
        request: of the run.
        store: where runs are kept; one that is down refuses here, before anything runs.
        stored: the run, if it is kept.
        resumed: it goes on: the journal holds every write that its trace tells of.

    Raises:
        EnvironmentProblem: the run cannot be kept.
        JournalError: it is damaged or lacks a call, or another process works on the run.
    """
    turn, trace = request.turn, None
    journal = None if turn is None or resumed else turn.journal
    if stored is not None:
        opened, trace = await _in_a_thread(request.claim, store, stored, journal, resumed=resumed)
    else:
        opened = journal or Journal()
    if turn is not None:
        opened = turn.take(opened)
    return opened, NoTrace() if trace is None or opened.behind is None else TraceBehind(trace, opened.behind.writer)


def traceback_keeper(stored: StoredRun | None, journal: Journal) -> KeepTraceback | None:
    """Return what keeps the traceback of a call's exception beside a run, in the thread that writes it."""
    if stored is None or (behind := journal.behind) is None:
        return None

    def keep(number: int, text: str) -> str:
        behind.writer.submit(stored.keep_traceback, number, text)
        return stored.traceback_place(number)

    return keep


def refuse_undone(journal: Journal, run_id: str) -> None:
    """Refuse to go on with a run of which something was undone: its journal would answer as if it were done.

    Raises:
        UsageError: something was.
    """
    if found := next((undo for undo in journal.undone.values() if undo.state != "refused"), None):
        raise UsageError(f"run {run_id} was undone by run {found.run}: begin a new run")


async def _in_a_thread(
    claim: Callable[[], None] | None, store: RunStore, stored: StoredRun, kept: Journal | None, *, resumed: bool
) -> tuple[Journal, TraceWriter]:
    """The journal may be long, as the trace that it is held against may be, and a database may be slow."""

    def opened() -> tuple[Journal, TraceWriter]:
        store.check()
        stored.make()
        journal = kept or stored.open_journal()
        try:
            if resumed:
                journal.require(stored.begun_writes())
            if claim is not None:
                claim()
            trace = stored.open_trace()
            journal.write_behind(writer)  # at last: what fails before is closed here
            return journal, trace
        except BaseException:
            closed(journal)
            raise

    def closed(journal: Journal) -> None:
        if journal is not kept:
            journal.release()

    def closed_late(late: Future[tuple[Journal, TraceWriter]]) -> None:
        if late.exception() is None:
            threading.Thread(target=closed, args=late.result()[:1]).start()

    before = None if kept is None else kept.behind
    writer = ThreadPoolExecutor(1, "atc-journal") if before is None else before.writer
    # a thread starts where another one waits for that: of many runs at once the event loop would wait for each
    starting = asyncio.get_running_loop().run_in_executor(None, writer.submit, opened)
    try:
        return await asyncio.shield(asyncio.wrap_future(await asyncio.shield(starting)))
    except asyncio.CancelledError:
        starting.add_done_callback(lambda begun: begun.result().add_done_callback(closed_late))
        raise


def resumed_request(
    stored: StoredRun,
    started: Mapping[str, Any],
    answer: Any,
    default: AnswerType | None,
    images: Images,
    reply: str | None = None,
) -> Request:
    """Return the request of a stored run, read back from its trace.

    Args:
        stored: the run.
        answer: the type of the answer, where the user gives it again.
        reply: the user's answer to the question that it ended with.

    Raises:
        UsageError: an image cannot be had, another type or image is given, the run has asked nothing that ``reply``
            could answer, or the trace holds something else.
    """
    from atc.programs.answers.opening import resumed as resumed_answer
    from atc.traces.reading import FAILS, damaged

    run_id, said = stored.run_id, _setting(started, "sentence")
    try:
        return Request(
            started["task"],
            resumed_answer(run_id, started.get("answer"), answer, default),
            read_again(run_id, started.get("images", ()), read_images(images)),
            Preamble.from_trace(started),
            started.get("source"),
            ask_user=_asked_as_before(started),
            given=() if reply is None else ((_open_question(stored), checked_reply(reply)),),
            dry_run=bool(started.get("dry_run")),  # it stays one
            sentence=said if isinstance(said, bool) else None,
            parks=parked_before(started),
        )
    except AtcError:
        raise
    except FAILS as error:
        raise damaged(stored.where, 1, error) from None


def _setting(started: Mapping[str, Any], name: str) -> Any:
    settings = started.get("settings")
    return settings.get(name) if isinstance(settings, Mapping) else None


def _asked_as_before(started: Mapping[str, Any]) -> AskUserChoice:
    """Return who answers a resumed run's questions, if its agent does not say; a function of before is nobody now."""
    before = _setting(started, "ask_user")
    return "ask" if before == "ask" else "stop" if before in ("stop", "function") else "never"


def parked_before(started: Mapping[str, Any]) -> bool:
    """Whether a resumed run was begun with calls that wait for approval."""
    return bool(_setting(started, "approve") == "park")


def _open_question(stored: StoredRun) -> str:
    ended = stored.last("run_ended") or {}
    question = ended.get("question")
    if ended.get("status") != "needs_input" or not isinstance(question, str):
        raise UsageError(f"run {stored.run_id} has asked nothing: reply is for a run that ended as needs_input")
    return question

"""The journal of a run: what was asked of tools and what came of it, written before and after every call.

A revised program runs from its start; a call that already succeeded is answered from here. The n-th success of a tool
(:mod:`atc.calls.entry` says which tools are the same) with the same canonical arguments answers the n-th such call of a
later program. A call with effects whose outcome was never learned is *in doubt*: it is reported, and never made again,
but with the idempotency key that it bore (:mod:`atc.calls.idempotency`).
A read that is older than a write which the later program leaves out is made anew (:meth:`Journal.read_anew`).
A call that was begun and never handed to its tool (it waited for a connection, say) is *not done*, and may be made
again.

A run has *stages*. Within one, every program is a revision of the one before. :meth:`Journal.begin_stage` ends a stage
whose last program succeeded and commits what that program did.

================================================  ==================================================
of an earlier stage                               in a later stage
================================================  ==================================================
a read                                            is made anew
a write that the successful program did           is refused; with ``new_request`` it is made anew
a write that only failed programs did             answers the same call, and must be asked for (once a
                                                  program) before the tool is called with other arguments
a write in doubt                                  stays in doubt
================================================  ==================================================

The tasks of a conversation share a journal: :meth:`Journal.begin_request` begins each but the first. A read is made
anew there, or answered from here for some time. A write is never answered from an earlier task. One that led to an
answer is made anew; one that did not is refused until a task has an answer; one in doubt stays in doubt.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from atc import wording
from atc._records.origins import CallOrigins
from atc._records.records import Replacement
from atc.calls.entry import CallEntry, CallKey, EarlierReads, KnownTools, Unread, call_key, same_tool
from atc.calls.idempotency import SentKey
from atc.calls.journal_file import WHAT_NOW, JournalFile, boot_id
from atc.calls.journal_records import (
    Records,
    Sources,
    StageBegins,
    WrittenBehind,
    ban_record,
    begin_record,
    read_ban,
    read_begin,
    read_stage,
    read_value,
    stage_record,
    value_record,
)
from atc.calls.json_values import to_json_value
from atc.calls.parked import (
    Decision,
    ParkedCall,
    ParkedCalls,
    ReadsAgain,
    decision_record,
)
from atc.calls.program_start import ProgramStart, ReplyTimes, Starts, digest_of_text
from atc.errors import CallRefused, JournalError, UsageError
from atc.result import Effect
from atc.schemas.protocol import SourceKey
from atc.tools.keys import KeyRule
from atc.tools.tool import NextPage

if TYPE_CHECKING:
    from atc.calls.plans import Plan
    from atc.calls.settled import Settlement, Undo

__all__ = ["CallKey", "CallEntry", "Journal", "call_key"]
_ENCODER = json.JSONEncoder(allow_nan=False)


class Journal:
    """Records that are only appended, and their index in memory.

    Args:
        records: where they are kept (:class:`~atc.calls.journal_records.Records`), or the path of a file; ``None``
            keeps them in memory only. What is there is read back and continued. The beginning of a record at the very
            end of a file, which a crash cut short, is dropped: its call was not begun yet, or is in doubt. Any other
            damage could hide a write that was made, so such a file is refused as it is. One process at a time may hold
            it.

    Attributes:
        attempt: number of the program that runs, from 0; -1 before the first.
        stage: number of the current stage, from 0.
        inputs: what was handed to the current stage: values of earlier ones, by name. ``input_origins``: where they
            came from, as far as that was found.
        new_request: whether the current stage may do again what earlier stages did.
        task_inputs: what was handed to the current task of a conversation; ``first_stage``: that of this task.
        request: number of the current task of a conversation, from 0. ``before``: the last call of the task before.
        banned: writes that were surely refused, each with the one that may be called in its place, for as long as this
            journal is used: what the one was asked for, the other may have done. ``ban_sources``: what both are known
            by at their sources.
        parked: the writes that wait for approval.
        undone: by the number of a call, the last that is known about its inverse.
        reads_again: of a run that goes on after it waited for approval, what its reads answered then.
        plan: what the last program of a dry run planned; ``applied``: the yes to that.
        kept: the file stays open and locked when a task ends, for the next one: see :meth:`handed_over`.

    Raises:
        JournalError: they cannot be read, written or understood, or another process holds them.
    """

    def __init__(self, records: Records | Path | None = None) -> None:
        self.entries: dict[int, CallEntry] = {}
        self.attempt = -1
        self.stage = 0
        self.inputs: dict[str, Any] = {}
        self.input_origins: CallOrigins = {}
        self.new_request = False
        self.request = self.before = 0
        self.banned: dict[str, tuple[Replacement, ...]] = {}
        self.ban_sources: dict[str, tuple[SourceKey | None, SourceKey | None]] = {}
        self.kept = False
        self.task_inputs: dict[str, Any] = {}
        self._task_origins: CallOrigins = {}
        self.first_stage = 0
        self._tools = KnownTools()
        self._acted: dict[CallKey, CallEntry] = {}  # the first call with effects of each tool
        self._equal: dict[str, list[CallEntry]] = {}  # by the digest of their arguments
        self._unended: list[CallEntry] = []  # the calls with effects, but not all that have ended: see _all_in_doubt
        self._left: dict[CallKey, CallEntry] = {}  # done for earlier requests that had no answer
        self._reads = EarlierReads()
        self.undone: dict[int, Undo] = {}
        self.parked = ParkedCalls(self.entries)
        self.reads_again = ReadsAgain()
        self.plan: Plan | None = None
        self.applied: Decision | None = None
        self._starts = Starts()
        self._successes: dict[CallKey, list[CallEntry]] = {}  # that may answer a call: all but what stages left behind
        self._committed: dict[CallKey, CallEntry] = {}
        self._claimed: Counter[CallKey] = Counter()
        self._claims: set[int] = set()
        self._met: set[int] = set()
        self._taken_up: set[int] = set()  # in doubt, and sent again by the program that runs
        self._own: set[int] = set()  # begun by this process
        self._earlier: tuple[tuple[int, int], list[CallEntry], list[CallEntry]] | None = None
        self._last_begun = 0
        self._begun_before: dict[int, int] = {}  # the last call begun when this write was done, or left out
        self._reads_after = 0  # no read up to this number answers the program that runs
        self._goes_on = ""  # read back: the digest of the program that began last
        self._requests = 0  # new requests that were begun
        self._repeated = 0  # of these, those that are still to be begun again: see begin_again
        self._closed = False
        self._cut_off: set[int] = set()
        self._waiting: dict[int, str] = {}  # read back: begun and not sent, with the start of the machine
        self._file: Records | None = JournalFile(records) if isinstance(records, Path) else records
        self._boot = boot_id() if self._file is None else self._file.marks
        if self._file is not None:
            self._file.read(self._apply)
            self._settle()

    @property
    def name(self) -> str:
        """Return where it is, for messages."""
        return "in memory" if self._file is None else self._file.name

    @property
    def last(self) -> int:
        """Return the number of the last call that was begun, parked or planned; 0 without one."""
        planned = 0 if self.plan is None else self.plan.last
        return max(max(self.entries, default=0), self.parked.last, planned)

    def require(self, calls: Iterable[tuple[int, bool]]) -> None:
        """Check that these calls are in the journal, for another record shows that they were begun.

        Args:
            calls: numbers of calls, each with whether it was sent to its tool too.

        Raises:
            JournalError: one is missing, so a part of the file is gone.
        """
        for number, sent in calls:
            entry = self.entries.get(number)
            if entry is None or (sent and not entry.sent):
                was = "sent to its tool" if sent else "begun"
                raise JournalError(f"the journal {self.name} lacks call {number}, which was {was}: {WHAT_NOW}")

    def begin_stage(
        self,
        *,
        new_request: bool = False,
        inputs: Mapping[str, Any] | None = None,
        origins: CallOrigins | None = None,
    ) -> None:
        """End the stage, whose last program succeeded, and begin the next one. On disk before this returns.

        Call it only after a success: it commits every write that the last program of this process made or was answered
        from here. What other programs of the stage did, and what is in doubt, is not committed.

        Args:
            new_request: the user asks for something new, so a write may equal one of an earlier stage.
            inputs: values of earlier stages, for the programs of this one. They are written as they are.
            origins: where they came from, as far as that was found.

        Raises:
            ValueError: an input is neither a JSON value nor bytes.
            JournalError: it cannot be written; the stage goes on.
        """
        values = to_json_value(dict(inputs or {}))
        repeated = new_request and self._repeated > 0
        new_request = new_request and not repeated
        commits = {entry.number: entry for entry in self.entries.values() if self._is_of_last_program(entry)}
        begins = StageBegins(self.stage + 1, list(commits), new_request, values, origins=origins or {})
        self._append(stage_record(begins), sync=True)
        self._repeated -= repeated
        self._begin_stage(commits, begins)

    def begin_request(
        self, *, answered: bool, inputs: Mapping[str, Any] | None = None, origins: CallOrigins | None = None
    ) -> None:
        """Begin the next task of a conversation, in a stage of its own. On disk before this returns.

        Args:
            answered: whether the task before it was answered. What it did stands in no call's way then.
            inputs: values of earlier tasks, for the programs of this one. They are written as they are.
            origins: where they came from, as far as that was found.

        Raises:
            ValueError: an input is neither a JSON value nor bytes.
            JournalError: it cannot be written; the task before goes on.
        """
        values = to_json_value(dict(inputs or {}))
        commits = {e.number: e for e in self.entries.values() if answered and self._is_of_last_program(e)}
        begins = StageBegins(
            self.stage + 1, list(commits), True, values, self.request + 1, answered, origins=origins or {}
        )
        self._append(stage_record(begins), sync=True)
        self._begin_request(commits, begins)

    def reusable(self, key: CallKey, seconds: float) -> tuple[CallEntry, float] | None:
        """Return the same read of an earlier task, at most so many seconds old, and its age; ``None`` without one.

        No read is used again after a write of the conversation, or while one is in doubt. Each is used once a task: a
        program that reads twice looks for a change. Reads of another process are not used.
        """
        found = self._reads.take(key, seconds)
        return None if found is None or self._all_in_doubt() else found

    def reuse(self, number: int, earlier: CallEntry, arguments: dict[str, Any]) -> None:
        """Write the answer of an earlier task's read down as one of this task: its revisions are given it, too."""
        entry = self.begin(number, earlier.key, arguments, Effect.READ)
        self._reads.same_time(entry, earlier)
        self.succeed(entry, earlier.value, earlier.next_page)

    def forget_reads(self) -> None:
        """Let no later task use the reads again that were made so far."""
        self._reads = EarlierReads()

    def ban(self, tool: str, substitute: Replacement, sources: Sources = (None, None)) -> None:
        """Write down that a write is not called again, and what may be called in its place. On disk before this
        returns, and so before the substitute can act.

        Args:
            tool: its name.
            substitute: the one that may be called.
            sources: what both are known by at their sources.

        Raises:
            JournalError: it cannot be written; nothing may take the tool's place.
        """
        self._append(ban_record(tool, substitute, sources), sync=True)
        self.banned[tool], self.ban_sources[tool] = (substitute,), sources

    @property
    def run_key(self) -> str:
        """Return the key under which this run takes digests of tools: they tell no credential, and nothing of another
        run. Its record stands before the first one that has such a digest."""
        if not self.parked.run_key:
            key = secrets.token_hex(16)
            self._append({"run_key": key}, sync=False)
            self.parked.run_key = key
        return self.parked.run_key

    def park(self, call: ParkedCall) -> None:
        """Write down that a call waits for approval. On disk before this returns.

        Raises:
            JournalError: it cannot be written; the call is neither made nor asked about.
        """
        self._append(call.record(), sync=True)
        call.round = self.reads_again.round
        self.parked.add(call)

    def decide(self, number: int, decision: Decision) -> None:
        """Write down the yes or no to a parked call. On disk before this returns.

        Raises:
            UsageError: no such call waits, or it was decided before: the first decision counts.
            JournalError: it cannot be written.
        """
        call = self.parked.undecided(number)
        self._append(decision_record(number, decision), sync=True)
        call.decision = decision

    def settle(self, number: int, found: Settlement) -> None:
        """Write down that a call in doubt was done, or surely was not. On disk before this returns.

        Raises:
            UsageError: no such call is in doubt.
            JournalError: it cannot be written; the call stays in doubt.
        """
        entry = self.entries.get(number)
        if entry is None or not entry.in_doubt or self._is_under_way(entry):
            raise UsageError(f"call {number} is not in doubt")
        from atc.calls.settled import settled_record  # few runs have a call in doubt

        self._append(settled_record(number, found), sync=True)
        self._end_doubt(entry, found)

    def undo(self, number: int, undo: Undo) -> None:
        """Write down that the inverse of a call is about to be made, or what came of it. On disk before this returns.

        Raises:
            JournalError: it cannot be written; the inverse must not be made.
        """
        from atc.calls.settled import undo_record

        self._append(undo_record(number, undo), sync=True)
        self.undone[number] = undo

    def keep_plan(self, plan: Plan) -> None:
        """Write down what a program of a dry run planned, for who applies it. On disk before this returns.

        Raises:
            JournalError: it cannot be written; nothing can be applied.
        """
        self._append(plan.record(), sync=True)
        self.plan, self.applied = plan, None

    def begin_apply(self, yes: Decision) -> None:
        """Write down that the plan is applied from now on. On disk before this returns.

        The reads of before are made anew. Once a write of the plan was begun they answer the same calls again: what was
        done changes what they would say, and the plan goes on from where it was.

        Raises:
            JournalError: it cannot be written; nothing may be called.
        """
        from atc.calls.plans import apply_record

        last = self.last
        began = any(entry.effect is not Effect.READ for entry in self.entries.values())
        reads_until = 0 if began else last
        self._append(apply_record(last, yes, reads_until), sync=True)
        self._begin_apply(yes, reads_until)

    def _begin_apply(self, yes: Decision, reads_until: int) -> None:
        self.applied = yes
        self._drop_reads(reads_until, 0)

    def go_on_waiting(self, now: float, seconds: float) -> None:
        """Go on with a run that waited for approval: its reads are made again, and held against what they answered.

        Whether the last program asked for a parked call again is not written down, so no number tells which reads came
        before it: all count but those that were made after their own program parked a write. A read that failed is
        always made again, and held against that: a program may have caught it. One that came before a write which was
        made by an approval is not: what was done changes what it would say, and the program goes on from there.

        Args:
            now: in seconds since 1970.
            seconds: for which reads count as new. One that was made after a call was parked is always made again: it
                did not see what that call would change.
        """
        if (first := self.parked.first) is None:
            return
        after = first if 0 <= now - self.parked.since <= seconds else 0  # a clock may have been set back
        after = max(after, self.parked.last_made(self.before))
        last = max(max(self.entries, default=0), self.parked.last)
        self._append({"reads_again": last, "after": after}, sync=False)
        self._begin_round(last, after)

    def _begin_round(self, last: int, after: int) -> None:
        reads = [entry for entry in self.entries.values() if entry.effect is Effect.READ and not entry.after_parked]
        failed = [e for e in reads if e.state in ("refused", "unknown") and e.attempt == self.attempt]
        answering = [e for of_key in self._successes.values() for e in of_key if e.effect is Effect.READ]
        answering = [e for e in answering if not (e.after_parked or self._is_older_read(e))]
        self.reads_again.begin_round([*failed, *answering])
        self._drop_reads(last, after)

    def read_anew(self, program: str, asked: Collection[CallKey]) -> None:
        """Let no read answer the program that begins which is older than a write that it does not ask for.

        That read says what was so before the write, and this program would not know that it was done. A program that
        asks for the write again is answered both, in the order of the record. One that goes on after its process ended
        is answered as it was before. A later program that asks for the write again has the older reads again, too.

        Args:
            program: its text.
            asked: the tools that it may call, without a digest.

        Raises:
            JournalError: it cannot be written down.
        """
        goes_on, self._goes_on = self._goes_on == digest_of_text(program), ""
        if goes_on:
            return
        left_out: dict[CallKey, int] = {}
        for entry in self.entries.values():
            if self._written_in_this_task(entry):
                tool = entry.key._replace(digest="")
                before = self._begun_before.setdefault(entry.number, self._last_begun)  # in doubt: it may still be done
                left_out[tool] = max(before, left_out.get(tool, 0))
        of_these = [n for tool, n in left_out.items() if not any(same_tool(tool, each) for each in asked)]
        after = max(of_these, default=0)
        if after != self._reads_after:
            self._append({"reads_after": after}, sync=False)
            self._reads_after = after

    @property
    def has_written(self) -> bool:
        """Whether this task did a write, or may have done one."""
        return any(map(self._written_in_this_task, self.entries.values()))

    def _written_in_this_task(self, entry: CallEntry) -> bool:
        done = entry.state == "done" or entry.in_doubt
        return done and entry.effect is not Effect.READ and entry.number > self.before

    def _is_older_read(self, entry: CallEntry) -> bool:
        return entry.effect is Effect.READ and entry.number <= self._reads_after

    def _drop_reads(self, last: int, after: int) -> None:
        for key, recorded in [*self._successes.items()]:
            kept = [e for e in recorded if e.effect is not Effect.READ or not after < e.number <= last]
            if len(kept) < len(recorded):
                self._successes[key] = kept

    def begin_again(self) -> None:
        """Begin anew after a resume: what acts starts over, and not in the stage in which it was cut off.

        Its first program gets the inputs of its task of a conversation alone, and a request that was begun before is no
        new one when it is begun again: what was done for it is refused.
        """
        self.new_request, self.inputs, self._repeated = False, self.task_inputs, self._requests
        self.input_origins = self._task_origins
        self._starts.begin_again()

    def start_of(self, program: str) -> ProgramStart:
        """Return the clock and the seed of a program that is about to run: those that it had before in this stage.

        A new program gets new ones. Their record is on disk no later than the first call that acts or waits for
        approval: what that call says may rest on them.

        Args:
            program: its text.

        Raises:
            JournalError: it cannot be written.
        """
        start = self._starts.find(program, self.stage, self.request)
        if start is None:
            start = ProgramStart.new()
            self._append(self._starts.add(program, self.stage, self.request, start), sync=False)
        return start

    def last_start(self, program: str) -> tuple[ProgramStart, dict[int, float]] | None:
        """Return the clock and the seed with which a program ran last, and how long it had run at its replies, by their
        numbers; ``None`` where it never ran."""
        return self._starts.last(program)

    def reply_times(self, start: ProgramStart) -> ReplyTimes:
        """Return what says with the replies of a program how long it has run."""

        def note(number: int, passed_s: float) -> None:
            self._append({"reply": number, "passed": passed_s, "of": start.seed}, sync=False)

        return ReplyTimes(self._starts.said[start.seed], note)

    def begin_attempt(self) -> None:
        """Begin a new program, which may claim earlier successes again, from the first one on."""
        self.attempt += 1
        self.reads_again.begin_program()
        self._forget_claims()

    def claim(self, key: CallKey) -> CallEntry | None:
        """Return the recorded success that answers this call, if an earlier program made it; each answers once."""
        if not self._earlier_calls()[0]:
            return None
        found: list[tuple[CallEntry, CallKey]] = []
        for each in self._tools.same(key):
            recorded, position = self._successes.get(each, []), self._claimed[each]
            while position < len(recorded) and self._is_older_read(recorded[position]):
                position = self._claimed[each] = position + 1
            if position < len(recorded) and self._is_earlier(recorded[position]):
                found.append((recorded[position], each))
        if not found:
            return None
        entry, known = min(found, key=lambda pair: pair[0].number)
        self._claimed[known] += 1
        self._claims.add(entry.number)
        if entry.effect is Effect.READ:
            self.reads_again.note_answered(key)
        return entry

    def committed(self, key: CallKey) -> CallEntry | None:
        """Return the same call with effects, done in an earlier stage, unless this stage may do it again."""
        return None if self.new_request else self._same(self._committed, key)

    def left(self, key: CallKey) -> CallEntry | None:
        """Return the same call with effects, done for an earlier task that had no answer, or none from this call."""
        return self._same(self._left, key)

    def doubtful(self, key: CallKey) -> CallEntry | None:
        """Return the same call with effects, begun before, whose outcome is unknown; not one that is under way."""
        for entry in self._all_in_doubt():
            if entry.key.digest == key.digest and same_tool(entry.key, key) and not self._is_under_way(entry):
                self._met.add(entry.number)
                return entry
        return None

    def to_send_again(self, key: CallKey, rule: KeyRule | None, tool: str, now: float) -> CallEntry | None:
        """Return the same call in doubt that an earlier program of this request began, if it may be sent again with its
        idempotency key: each once by the program that runs.

        Args:
            key: of the call.
            rule: how its tool's calls bear a key now.
            tool: the digest of the tool.
            now: in seconds since 1970.
        """
        equal = [entry for entry in self._equal.get(key.digest, ()) if same_tool(entry.key, key)]
        for entry in equal:
            mine = entry.number > self.before and not self.new_request and entry.number not in self._taken_up
            if entry.again or not mine or not entry.in_doubt or not self._is_earlier(entry):
                continue
            if entry.idempotency is not None and entry.idempotency.holds(rule, tool, now):
                self._taken_up.add(entry.number)  # the next one may ask before this one is begun
                self._met.update(each.number for each in equal if entry.number in (each.number, each.again))
                return entry
        return None

    def in_doubt(self) -> CallEntry | None:
        """Return the first call with effects whose outcome is unknown, of any task and process."""
        return next(iter(self._all_in_doubt()), None)

    def _all_in_doubt(self) -> list[CallEntry]:
        """What was done, or surely was not, stays so: it is looked at once."""
        self._unended = [entry for entry in self._unended if entry.state in ("open", "unknown")]
        return [entry for entry in self._unended if entry.in_doubt]

    def doubtful_tools(self) -> Mapping[tuple[str, SourceKey | None], CallEntry]:
        """Return the tools of all calls with effects whose outcome is unknown; not of those that are under way.

        Each by its name and by what it is known by at its source, with its first such call.
        """
        found: dict[tuple[str, SourceKey | None], CallEntry] = {}
        for entry in self._all_in_doubt():
            if not self._is_under_way(entry):
                found.setdefault((entry.tool, entry.key.source), entry)
        return found

    def equal_writes(self, key: CallKey) -> Iterator[CallEntry]:
        """Yield the writes of any tool with these arguments that were done or may have been, and still count.

        What an earlier stage or task did counts as long as the same call of the same tool would be refused for it. A
        call of this tool as a read counts if its outcome is unknown: the tool has effects now, and may have had then.
        So does a call that was in doubt and of which a read or a person says that it was not done.
        """
        for entry in self._equal.get(key.digest, ()):
            if entry.effect is Effect.READ:
                if entry.is_unknown and same_tool(entry.key, key) and not self._is_under_way(entry):
                    yield entry
                continue
            done = entry.state == "done" and (
                entry.key in self._successes
                or (not self.new_request and entry.key in self._committed)
                or entry.key in self._left
            )
            if done or entry.in_doubt or entry.is_settled_as_not_done or self._is_under_way(entry):
                yield entry

    @property
    def has_acted(self) -> bool:
        """Whether this journal holds a call with effects, or one that waits for approval."""
        return bool(self._acted or self.parked)

    def acted(self, tool: str, source: SourceKey | None = None) -> CallEntry | None:
        """Return a call of this tool that this journal holds as a write, whatever the tool is said to do now."""
        return self._same(self._acted, CallKey(tool, "", source))

    def unasked(self, tool: str, source: SourceKey | None = None) -> CallEntry | None:
        """Return a write that an earlier program did, or may have done, and that this one has not asked for (yet)."""
        asked = CallKey(tool, "", source)
        earlier = [entry for entry in self._earlier_calls()[1] if same_tool(entry.key, asked)]
        for entry in earlier:
            if entry.in_doubt and entry.number > self.before and entry.number not in self._met:
                return entry
        for key in dict.fromkeys(entry.key for entry in earlier):
            for entry in self._successes.get(key, ())[self._claimed[key] :]:
                if self._is_earlier(entry):
                    return entry
        return None

    def _earlier_calls(self) -> tuple[list[CallEntry], list[CallEntry]]:
        """They are looked for once a program: what it makes itself is none of them."""
        program = self.stage, self.attempt
        if self._earlier is None or self._earlier[0] != program:
            calls = [entry for entry in self.entries.values() if self._is_earlier(entry)]
            self._earlier = program, calls, [entry for entry in calls if entry.effect is not Effect.READ]
        return self._earlier[1:]

    def begin(
        self,
        number: int,
        key: CallKey,
        arguments: dict[str, Any],
        effect: Effect,
        original: dict[str, Any] | None = None,
        approved: int = 0,
        after_parked: bool = False,
        idempotency: SentKey | None = None,
        again: int = 0,
    ) -> CallEntry:
        """Write down that a call is about to be made. On disk before this returns, if it has effects.

        Args:
            number: of the call.
            key: of what is sent.
            arguments: what is sent, masked.
            effect: of the tool.
            original: the arguments as the program gave them, masked, where a repair changed them.
            approved: number of the parked call whose yes lets it through.
            after_parked: of a read, whether its program has parked a write before.
            idempotency: the key that a write bears.
            again: number of the call in doubt that this one sends again.
        """
        entry = CallEntry(number, key, arguments, effect, self.attempt, self.stage)
        entry.original, entry.approved = original, approved
        entry.after_parked, entry.idempotency, entry.again = after_parked, idempotency, again
        has_effects = effect is not Effect.READ
        if self._is_written:
            self._append(begin_record(entry, self._boot if has_effects else ""), sync=has_effects)
        self._note(entry)
        self._own.add(number)
        self._reads.note(entry)
        return entry

    def mark(self, entry: CallEntry) -> None:
        """Write down that a write is about to be handed to its tool: it may be, once that is :meth:`written`.

        It is not synced, for :meth:`begin` was: after the end of this process the mark can be read as long as the
        machine was not started anew, and if it was, a call that was begun is in doubt.

        Raises:
            CallRefused: the call has ended, or its program has: it must not be sent any more.
        """
        if entry.state != "open" or (entry.effect is not Effect.READ and self._is_earlier(entry)):
            raise CallRefused("its program ended before this call was sent", status="stopped")
        self._mark(entry)

    def send(self, entry: CallEntry) -> None:
        """Note that a call is handed to its tool, and mark it, where it is not: right before it happens.

        Raises:
            CallRefused: as :meth:`mark`.
        """
        if entry.sent:
            return
        self.mark(entry)
        entry.sent = True  # what waited for the mark to be written may have been cut off, and is not sent

    def succeed(self, entry: CallEntry, value: Any, next_page: NextPage = None, unread: Unread | None = None) -> None:
        """Write down the answer of a call, the next page that its headers name, or why its answer cannot be had."""
        self._mark_sent(entry)
        if self._is_written:
            record = value_record(entry.number, value, next_page, unread)
            self._append(record, sync=entry.effect is not Effect.READ)
        self._done(entry, value, next_page, unread)

    def fail(self, entry: CallEntry, *, surely_not_done: bool, message: str) -> None:
        """Write down that a call failed, and whether it surely did nothing."""
        state: Literal["refused", "unknown"] = "refused" if surely_not_done else "unknown"
        if not surely_not_done:
            self._mark_sent(entry)
        self._append({"call": entry.number, "failed": state, "message": message}, sync=entry.effect is not Effect.READ)
        entry.state, entry.failure = state, message
        self._reads.note(entry)

    def cut_off(self, entry: CallEntry, message: str) -> None:
        """End a call that is not under way any more and whose outcome nobody will learn."""
        self._cut_off.add(entry.number)
        if entry.state == "open" and not entry.sent:
            with contextlib.suppress(JournalError):  # without this record it is read back as not sent too
                self.fail(entry, surely_not_done=True, message=message)

    def write_behind(self, writer: ThreadPoolExecutor | None = None) -> None:
        """Have one thread write the records from now on, in their order. What is "on disk before this returns" is there
        before :meth:`written` returns then, and before any write is sent that is begun later."""
        if self._file is not None and self.behind is None:
            self._file = WrittenBehind(self._file, writer or ThreadPoolExecutor(1, "atc-journal"))

    @property
    def behind(self) -> WrittenBehind | None:
        """Return the records that a thread writes; ``None`` where none does."""
        return self._file if isinstance(self._file, WrittenBehind) else None

    async def written(self) -> None:
        """Wait until all that was written down so far is on disk, where a thread writes it.

        Raises:
            JournalError: it cannot be.
        """
        if self.behind is not None:
            await self.behind.written()

    def close(self) -> None:
        """Close the file, unless it is kept. No call is begun, sent or answered from now on."""
        self._closed = True
        if self._file is not None and not self.kept:
            self._file.close()

    async def aclose(self) -> None:
        """:meth:`close`, and wait for a thread that writes: it ends with a file that is not kept."""
        self.close()
        if self.behind is not None:
            try:
                await asyncio.wrap_future(self.behind.writer.submit(int))
            finally:
                if not self.kept:
                    self.behind.writer.shutdown(wait=False)

    def release(self) -> None:
        """Close the file, also if it is kept; a thread that writes is waited for."""
        self.kept = False
        self.close()
        if self.behind is not None:
            self.behind.writer.shutdown()

    def handed_over(self) -> Journal:
        """Return this journal for the next task, open. What an earlier task left behind holds this one, now closed."""
        self._closed = True
        new = copy.copy(self)
        new._closed = False
        new._claimed, new._claims, new._met, new._taken_up = Counter(), set(self._claims), set(), set()
        return new

    @property
    def _is_written(self) -> bool:
        """Whether records go to a file, or are refused because the run has ended; in memory nothing is made of them."""
        return self._file is not None or self._closed

    def _append(self, record: dict[str, Any], *, sync: bool, mark: bool = False) -> None:
        if self._closed:
            raise JournalError("the run has ended: its journal is closed")
        if self._file is not None:
            self._file.append(_ENCODER.encode(record), sync=sync, mark=mark)

    def _mark(self, entry: CallEntry) -> None:
        if entry.effect is not Effect.READ and self._boot and not (entry.marked or entry.sent):
            self._append({"call": entry.number, "sent": True}, sync=False, mark=True)
        entry.marked = True

    def _mark_sent(self, entry: CallEntry) -> None:
        self._mark(entry)
        entry.sent = True

    def _note(self, entry: CallEntry) -> None:
        self.entries[entry.number] = entry
        self._last_begun = max(self._last_begun, entry.number)
        self._tools.note(entry.key)
        self._equal.setdefault(entry.key.digest, []).append(entry)
        if entry.effect is not Effect.READ:
            self._acted.setdefault(entry.key._replace(digest=""), entry)
            self._unended.append(entry)

    def _same(self, entries: Mapping[CallKey, CallEntry], key: CallKey) -> CallEntry | None:
        if not entries:
            return None
        return next((entries[each] for each in self._tools.same(key) if each in entries), None)

    def _done(self, entry: CallEntry, value: Any, next_page: NextPage, unread: Unread | None) -> None:
        entry.state, entry.value, entry.next_page, entry.unread = "done", value, next_page, unread
        if entry.effect is not Effect.READ:
            self._begun_before[entry.number] = self._last_begun
        self._reads.note(entry)
        self._settle_tries(entry)
        if entry.effect is not Effect.READ or entry.stage == self.stage:
            self._successes.setdefault(entry.key, []).append(entry)

    def _settle_tries(self, entry: CallEntry) -> None:
        """Note that one of several tries of a call was done: nobody doubts the others any more."""
        if not (entry.again or entry.settled):
            return
        tried = entry.again or entry.number
        for each in self._equal[entry.key.digest]:
            if each is not entry and tried in (each.number, each.again):
                each.settled_by = entry.number

    def _end_doubt(self, entry: CallEntry, found: Settlement) -> None:
        from atc.calls.settled import SETTLED

        entry.settled, entry.sent = found, True
        said = wording.settled(found.done, found.by, found.at)
        if not found.done:
            entry.state, entry.failure = "refused", said
        elif entry.number > self.before:
            self._done(entry, None, None, Unread(said, SETTLED))
        else:  # of an earlier task, which ended without an answer
            entry.state, entry.unread = "done", Unread(said, SETTLED)
            self._settle_tries(entry)
            self._left[entry.key] = entry

    # -- conversations -------------------------------------------------------------------------------------------------

    def _begin_request(self, commits: dict[int, CallEntry], begins: StageBegins) -> None:
        done = [entry for recorded in self._successes.values() for entry in recorded if entry.number not in commits]
        if begins.answered:
            self._left = {}
        else:
            self._left = self._left | self._committed
        self._left |= {entry.key: entry for entry in done if entry.effect is not Effect.READ}
        self._reads.end_task(self.entries)
        self.reads_again = ReadsAgain()  # what a task before had read when it waited is nothing to this one
        self._begin_stage({}, begins._replace(new_request=False))
        self._successes, self._committed = {}, {}
        self.task_inputs, self._task_origins = begins.inputs, begins.origins
        self._requests = self._repeated = 0
        self.first_stage = self.stage
        self.request, self.before = self.request + 1, max(self.entries, default=0)

    # -- programs and stages ------------------------------------------------------------------------------------------

    def _is_earlier(self, entry: CallEntry) -> bool:
        return entry.number not in self._own or (entry.stage, entry.attempt) < (self.stage, self.attempt)

    def _is_under_way(self, entry: CallEntry) -> bool:
        return entry.state == "open" and not self._is_earlier(entry) and entry.number not in self._cut_off

    def _is_of_last_program(self, entry: CallEntry) -> bool:
        if entry.state != "done" or entry.effect is Effect.READ:
            return False
        return not self._is_earlier(entry) or entry.number in self._claims

    def _forget_claims(self) -> None:
        self._claimed.clear()
        self._claims.clear()
        self._met.clear()
        self._taken_up.clear()

    def _begin_stage(self, commits: dict[int, CallEntry], begins: StageBegins) -> None:
        self.stage, self.inputs, self.new_request = self.stage + 1, begins.inputs, begins.new_request
        self.input_origins = begins.origins
        self._requests += begins.new_request
        for entry in commits.values():
            self._committed.setdefault(entry.key, entry)
        left = {
            key: [entry for entry in recorded if entry.effect is not Effect.READ and entry.number not in commits]
            for key, recorded in self._successes.items()
        }
        self._successes = {key: recorded for key, recorded in left.items() if recorded}
        self._forget_claims()

    # -- reading the file back ----------------------------------------------------------------------------------------

    def _apply(self, record: dict[str, Any]) -> None:
        if "call" not in record:
            self._apply_other(record)
            return
        number = record["call"]
        if "begin" in record:
            self._apply_begin(record)
            return
        entry = self.entries[number]
        if entry.state != "open":
            raise ValueError(f"call {number} has ended before")
        if "sent" in record:
            if record["sent"] is not True or self._waiting.pop(number, None) is None:
                raise ValueError(f"call {number} cannot have been sent")
            entry.sent = True
            return
        if "value" in record:
            self._done(entry, *read_value(record))
        elif record["failed"] in ("refused", "unknown"):
            entry.state, entry.failure = record["failed"], str(record.get("message", ""))
        else:
            raise ValueError("not an outcome")
        if self._waiting.pop(number, None) is not None and entry.state != "refused":
            raise ValueError(f"call {number} was never sent")

    def _apply_other(self, record: dict[str, Any]) -> None:
        kinds: dict[str, Callable[[dict[str, Any]], None]] = {
            "stage": self._apply_stage,
            "ban": self._apply_ban,
            "run_key": self._apply_run_key,
            "pending": lambda record: self.parked.apply_pending(record, self.reads_again.round),
            "decision": self.parked.apply_decision,
            "reads_again": self._apply_reads_again,
            "reads_after": self._apply_reads_after,
            "plan": self._apply_plan,
            "apply": self._apply_plan,
            "settled": self._apply_settled,
            "undo": self._apply_undo,
            "start": self._apply_start,
            "reply": self._starts.apply_reply,
        }
        kinds[next((kind for kind in record if kind in kinds), "")](record)

    def _apply_start(self, record: dict[str, Any]) -> None:
        self._starts.apply_start(record)
        self._goes_on = record["start"]

    def _apply_run_key(self, record: dict[str, Any]) -> None:
        self.parked.run_key = str(record["run_key"])

    def _apply_reads_again(self, record: dict[str, Any]) -> None:
        last, after = record["reads_again"], record["after"]
        if type(last) is not int or type(after) is not int:
            raise ValueError("not which reads are made again")
        self._begin_round(last, after)

    def _apply_settled(self, record: dict[str, Any]) -> None:
        from atc.calls.settled import read_settled

        number, found = read_settled(record)
        entry = self.entries[number]
        if entry.effect is Effect.READ or entry.settled_by or entry.state not in ("open", "unknown"):
            raise ValueError(f"call {number} cannot have been in doubt")
        self._waiting.pop(number, None)
        self._end_doubt(entry, found)

    def _apply_reads_after(self, record: dict[str, Any]) -> None:
        after = record["reads_after"]
        if type(after) is not int or not 0 <= after <= self._last_begun:
            raise ValueError("not the number of a call")
        self._reads_after = after

    def _apply_undo(self, record: dict[str, Any]) -> None:
        from atc.calls.settled import read_undo

        number, undo = read_undo(record)
        if self.entries[number].state != "done":
            raise ValueError(f"call {number} was not done, and cannot be undone")
        self.undone[number] = undo

    def _apply_plan(self, record: dict[str, Any]) -> None:
        from atc.calls.plans import read_apply, read_plan  # few runs have a plan

        if "plan" in record:
            self.plan, self.applied = read_plan(record), None
        else:
            self._begin_apply(*read_apply(record))

    def _apply_ban(self, record: dict[str, Any]) -> None:
        tool, substitute, sources = read_ban(record)
        self.banned[tool], self.ban_sources[tool] = (substitute,), sources

    def _apply_begin(self, record: dict[str, Any]) -> None:
        entry, boot = read_begin(record)
        if entry.number in self.entries:
            raise ValueError("not the beginning of a new call")
        if entry.stage != self.stage:
            raise ValueError(f"a call of another stage than {self.stage}")
        base = self.entries.get(entry.again)
        if entry.again and (base is None or base.again or base.key.digest != entry.key.digest):
            raise ValueError("it sends another call again")
        self._note(entry)
        self.attempt = max(self.attempt, entry.attempt)
        entry.sent = not boot  # without it there are no marks, so it may have been
        if boot:
            self._waiting[entry.number] = boot

    def _apply_stage(self, record: dict[str, Any]) -> None:
        begins = read_stage(record)
        commits = {number: self.entries[number] for number in begins.commits}
        if begins.stage != self.stage + 1:
            raise ValueError(f"not the stage after {self.stage}")
        if len(commits) != len(begins.commits):
            raise ValueError("it commits a call twice")
        if any(e.effect is Effect.READ or e not in self._successes.get(e.key, ()) for e in commits.values()):
            raise ValueError("it commits what was not done")
        if begins.request is None:
            self._begin_stage(commits, begins)
            return
        if begins.request != self.request + 1:
            raise ValueError(f"not the task after {self.request}")
        self._begin_request(commits, begins)

    def _settle(self) -> None:
        """Decide whether calls that were begun and not marked as sent were made. Marks hold until the next start."""
        not_done = [self.entries[number] for number, boot in self._waiting.items() if boot == self._boot]
        for entry in self.entries.values():
            entry.sent = entry.sent or entry.number in self._waiting
        self._waiting.clear()
        for entry in not_done:
            entry.sent = False
            self.fail(entry, surely_not_done=True, message="the process ended before it was sent")

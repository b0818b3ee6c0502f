"""Fault → tool: trace a failure to the one call it came from (ATC §3.3), by structure.

First the journal: a call that was refused or failed and whose error ended the program. Then the value that failed,
followed back to its call (:mod:`atc.programs.attribution.trace`). Evidence is what the tool really answered there.
Nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atc._host.syntax import walk
from atc._records.outcome import Outcome, ProgramError
from atc._records.records import FaultCase, FaultKind, Place
from atc._records.rules import DEFAULT, Rules
from atc.facts import Fault
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.values import NOTHING, Origin
from atc.programs.attribution.inputs import awaits_a_value, line_inputs, misfit_facts
from atc.programs.attribution.trace import Suspect, Tracer, calls_at, reports_nothing, suspects_of, wanted_key
from atc.programs.program import Program
from atc.programs.responses import (
    MISSING,
    answered,
    blames_arguments,
    drift,
    failure_case,
    invocation,
    is_empty_response,
    is_nothing,
    names_error,
    observed,
    pages_of,
    places,
)
from atc.programs.syntax import idle_values, reads_one_of, says_impossible, span_of
from atc.programs.words import has_word
from atc.result import Call, Effect
from atc.schemas.validate import types_of
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from atc.programs.answers.types import AnswerType

_PROGRAM_ERRORS = {
    "SyntaxError",
    "IndentationError",
    "ImportError",
    "ModuleNotFoundError",
    "RecursionError",
    "NotImplementedError",
    "PermissionError",
}
MAX_NAMED = 200
"""Values within an argument that are looked for in the words of a refusal."""
_CONFLICTS = frozenset({409, "conflict"})
_ALLOW_WARNINGS = 'approve it at a terminal or by a function, or set warnings="allow" (--set warnings=allow)'

_RAISE_CALLS = "A run may make more calls with a higher max_calls (ATC_MAX_CALLS, --set max_calls=…)."
_GIVE_A_TOOL = "Give the run a tool that does this, or ask for what its tools can do."


@dataclass
class Attribution:
    """Traces the failure of one program.

    Args:
        program: what ran.
        outcome: how it ended.
        calls: the calls that it made, replays included, in order.
        tools: all that the program could call.
        rules: the ids of the rules that are on (:mod:`atc._records.rules`).
        inputs: names of the values of earlier stages in the program's scope: an answer may rest on one of them.
        answer_type: the type that the answer shall have.
        stated: whether the answer may rest on the task alone.
        looked: whether the author was shown what calls of earlier programs gave: an answer may rest on that.
    """

    program: Program
    outcome: Outcome
    calls: Sequence[Call]
    tools: Toolset
    rules: Rules = DEFAULT
    inputs: Collection[str] = ()
    answer_type: AnswerType | None = None
    stated: bool = False
    looked: bool = False
    _tree: ast.Module | None = field(init=False, default=None)
    _flow: Flow | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._tree = self.program.tree
        if self._tree is not None:
            self._flow = self.program.flow({protocol.name: protocol for protocol in self.tools.protocols})

    def fault(self) -> Fault | None:
        """Return the fault of this program; ``None`` when it gave an answer that rests on something."""
        found = self._found()
        if found is None:
            return None
        finished = sum(call.succeeded for call in self.calls)
        found = found.model_copy(update={"calls_made": len(self.calls), "calls_finished": finished})
        if self._tree is None or self._flow is None:
            return found
        return found.model_copy(update={"inputs": line_inputs(found, self._tree, self._flow, self.calls)})

    def _found(self) -> Fault | None:
        outcome = self.outcome
        warned = next((c for c in self.calls if c.status == "refused" and c.error_status == "warned"), None)
        if warned is not None:  # also where the program caught the refusal: its answer would hide what was not done
            return self._made(
                "program",
                FaultCase.WARNED,
                warned.line,
                call=warned.index,
                hint=_ALLOW_WARNINGS,
                invocation=invocation(warned),
                reason=warned.error or "",
            )
        if outcome.kind == "raised" and outcome.error is not None:
            return self._raised(outcome.error)
        if outcome.kind == "limit":
            return Fault(kind="limit", case=FaultCase.TIME, speaker="sandbox", reason=outcome.detail)
        if outcome.kind in ("killed", "violation"):
            return Fault(kind="sandbox", case=FaultCase.ENDED, speaker="sandbox", reason=outcome.detail)
        return self._answer()

    # -- an exception ended it -----------------------------------------------------------------------------------------

    def _raised(self, error: ProgramError) -> Fault:
        if error.type == "MemoryError":
            return self._made("limit", FaultCase.MEMORY, error.line)
        if self._flow is not None and awaits_a_value(self.program, self._flow, error):
            return self._made("program", FaultCase.AWAITED, error.line, raised=error.raised)
        tracer = Tracer(self._tree, self._flow, self.calls, error) if self._tree and self._flow else None
        failed = self._failed_call(error, tracer)
        if failed is not None:
            return self._refused(failed, error)
        if error.type == "NotImplementedError" and says_impossible(self.program.nodes, error.line):
            said = {"raised": error.raised, "reason": error.message, "hint": _GIVE_A_TOOL}
            return self._made("program", FaultCase.IMPOSSIBLE, error.line, **said)
        if error.type == "TypeError" and error.tool in self.tools:  # its stub would not take them
            wrong = {"tool": error.tool, "key": error.parameter or None, "reason": error.message}
            return self._made("arguments", FaultCase.SIGNATURE, error.line, speaker="python", **wrong)
        if (settled := self._settled(error)) is not None:
            return self._misread(Suspect(settled, (), MISSING), error)
        suspect = tracer.suspect() if tracer and error.type not in _PROGRAM_ERRORS else None
        if suspect is not None and self._states_error(suspect.call):
            return self._stated(suspect.call, error.line, raised=error.raised)
        return self._of_program(error) if suspect is None else self._misread(suspect, error)

    def _of_program(self, error: ProgramError) -> Fault:
        empty = next((c for c in reversed(self.calls) if c.succeeded and is_empty_response(c)), None)
        found = answered(empty) if empty is not None else None
        return self._made("program", FaultCase.RAISED, error.line, raised=error.raised, answered=found)

    def _failed_call(self, error: ProgramError, tracer: Tracer | None) -> Call | None:
        """The program says which one by its number. It is believed only of a call that failed in this program; without
        a number, the last one that failed is taken, of the tool that the error names. What was raised at no line, where
        the answer was read, may name one, too."""
        failed = [call for call in self.calls if call.error is not None]
        own, given = error.type == "ToolError", not error.line  # the answer holds an error that was settled
        if not own and not given and (tracer is None or not tracer.in_handler()):
            return None
        named = next((call for call in failed if call.index == error.call), None)
        if given or (named is not None and (not own or named.tool == error.tool)):
            return named
        likely = [call for call in failed if not own or call.tool == error.tool]
        if likely and any(call.cause != likely[-1].cause for call in likely):
            return likely[-1].model_copy(update={"cause": None})  # it may have been another one that ended the program
        return likely[-1] if likely else None

    def _settled(self, error: ProgramError) -> Call | None:
        """Return the call whose error ``parallel`` gave in the place of a result, and was taken for one."""
        if error.origin is None or error.type not in ("TypeError", "AttributeError"):
            return None
        return next((call for call in self.calls if call.index == error.origin[0] and call.error is not None), None)

    def _refused(self, call: Call, error: ProgramError) -> Fault:
        status, line = call.error_status, call.line or error.line
        if status == "invalid_arguments" and (supplier := self._supplier(call)) is not None:
            return self._supplied(supplier, call, line)
        kind: FaultKind = "tool"
        if call.succeeded:
            kind = "response"
        elif status == "too_many_calls":
            kind = "limit"
        elif call.cause is None and blames_arguments(call):
            kind = "arguments"
        idle = "idle-call" in self.rules and self._is_idle(call)
        return self._made(
            kind,
            FaultCase.UNREAD if call.succeeded else failure_case(call),
            line,
            tool=call.tool,
            call=call.index,
            cause=call.cause,
            invocation=invocation(call),
            speaker="broker" if call.status == "refused" else "tool",
            reason=call.error or "",
            status=status,
            hint=_RAISE_CALLS if kind == "limit" else "",
            raised=None if error.line or error.type == "ToolError" else error.raised,
            idle=idle,
            origins=tuple((name, origin.place) for name, origin in self._blamed(call)),
        )

    def _is_idle(self, call: Call) -> bool:
        if call.effect is Effect.WRITE or self._tree is None or self._flow is None:
            return False
        made = {span for span, m in self._flow.calls.items() if m.tool == call.tool and m.node.lineno == call.line}
        return bool(made) and made <= {span_of(value) for value in idle_values(walk(self._tree))}

    def _origins(self, call: Call) -> list[tuple[str, Origin]]:
        found = []
        for made in self._flow.calls.values() if self._flow else ():
            if made.tool == call.tool and made.node.lineno <= call.line <= (made.node.end_lineno or 0):
                for name, value in made.arguments.items():
                    parts = dict.fromkeys(origin for origin, _ in value.parts())
                    found += [(str(name), origin) for origin in sorted(parts, key=str)[:2]]
        return found[:4]

    def _blamed(self, call: Call) -> list[tuple[str, Origin]]:
        """A conflict with what is there is about no argument that its words do not name."""
        found, words = self._origins(call), (call.service_message or call.error or "").casefold()
        named = [(name, origin) for name, origin in found if _names(words, name, call.arguments.get(name))]
        return named if named or call.error_status in _CONFLICTS else found

    def _supplier(self, call: Call) -> Suspect | None:
        """It is at fault where its response had nothing there, or is not what its schema says."""
        for name, origin in self._origins(call):
            given = [call.arguments.get(name, MISSING)] if not name.isdigit() else list(call.arguments.values())
            for source in self.calls:
                if source.tool == origin.tool and source.succeeded and source.index < call.index:
                    for at, value in places(source.value, origin.path):
                        same = value in given or (is_nothing(value) and any(map(is_nothing, given)))
                        if same and (is_nothing(value) or drift(source, at)):
                            return Suspect(source, at, value)
        return None

    def _supplied(self, supplier: Suspect, refused: Call, line: int) -> Fault:
        source = supplier.call
        return self._made(
            "response",
            FaultCase.SUPPLIED,
            line,
            tool=source.tool,
            call=source.index,
            answered=answered(source),
            invocation=invocation(refused),
            speaker="broker",
            reason=refused.error or "",
            status=refused.error_status,
            **self._where(supplier),
        )

    # -- a value was not what the program took it for ------------------------------------------------------------------

    def _misread(self, suspect: Suspect, error: ProgramError) -> Fault:
        call = suspect.call
        if not call.succeeded:
            return self._made(
                "tool",
                FaultCase.WENT_ON,
                error.line,
                tool=call.tool,
                call=call.index,
                cause=call.cause,
                reason=call.error or "",
                status=call.error_status,
            )
        if suspect.derived and reports_nothing(error) and (found := self._searched(suspect)) is not None:
            return self._kept_nothing(*found, error)
        return self._made(
            "response",
            FaultCase.MISREAD,
            error.line,
            tool=call.tool,
            call=call.index,
            answered=answered(call),
            raised=error.raised,
            **self._where(suspect, wanted_key(error)),
        )

    def _searched(self, suspect: Suspect) -> tuple[Sequence[Call], tuple[str | int, ...], Any] | None:
        """The pages that were read, the place, and what stands there in all of them; ``None`` where nothing does."""
        items = next((i for i, step in enumerate(suspect.path) if isinstance(step, int)), len(suspect.path))
        pages = pages_of(suspect.call, self.calls)
        path, listed = next(places(suspect.call.value, suspect.path[:items], exact=True))
        if len(pages) < 2:
            return None if is_nothing(suspect.value) else (pages, path, listed)
        lists = [next(places(page.value, path, exact=True))[1] for page in pages]
        every = [item for each in lists if isinstance(each, list) for item in each]
        return (pages, path, every) if every else None

    def _kept_nothing(
        self, pages: Sequence[Call], path: tuple[str | int, ...], listed: Any, error: ProgramError
    ) -> Fault:
        """Blame no tool for what a list does not have, of which all pages were read, as its schema says they are.

        A call by itself may have given a part of its list.
        """
        call = pages[0]
        where: dict[str, Any] = {"place": Place(tool=call.tool, path=path), "observed": observed(listed)}
        if len(pages) == 1:
            where["answered"] = answered(call)
        if not call.page or any(drift(page, path) for page in pages):
            where["tool"] = call.tool
        kind: FaultKind = "response" if "tool" in where else "program"
        return self._made(kind, FaultCase.NOTHING_KEPT, error.line, call=call.index, raised=error.raised, **where)

    def _where(self, suspect: Suspect, wanted: str | None = None) -> dict[str, Any]:
        call, path, value = suspect.call, suspect.path, suspect.value
        if value is MISSING and path:
            wanted, path = str(path[-1]), path[:-1]
            value = next(places(call.value, path, exact=True), ((), None))[1]
        return {
            "place": Place(tool=call.tool, path=path),
            "observed": observed(value),
            "drift": drift(call, suspect.path),
            "key": wanted if isinstance(value, dict) else None,
        }

    # -- it ended, but without an answer that rests on something -----------------------------------------------------

    def _answer(self) -> Fault | None:
        succeeded = [call for call in self.calls if call.succeeded]
        if not self.outcome.answered:
            return self._nothing_behind(FaultCase.NO_ANSWER)
        if not succeeded and not self._rests_on_inputs():
            if not self.calls:
                return self._made("answer", FaultCase.NO_CALLS)
            failed = self.calls[-1]
            return self._made("answer", FaultCase.NO_SUCCESS, **self._failure(failed))
        if (stated := self._behind_answer()) is not None:
            return self._stated(stated, self._answer_line())
        if is_nothing(self.outcome.value) and not self._returned_by_write():
            return self._empty()
        idle = all(is_empty_response(call) and not self._writes(call) for call in succeeded)
        if idle and not self._rests_on_inputs():
            return self._nothing_behind(FaultCase.NOTHING_FOUND)
        unpacked = next(self._unpacked(succeeded), None) if "unpacked-keys" in self.rules else None
        if unpacked is not None or self.answer_type is None:
            return unpacked
        facts = misfit_facts(self.answer_type, self.outcome.value, self._flow, self.calls)
        return self._made("answer", FaultCase.ANSWER_TYPE, self._answer_line(), **facts) if facts else None

    def _behind_answer(self) -> Call | None:
        if self._flow is None or not any(self._states_error(call) for call in self.calls):
            return None
        origins = self._flow.scope.names.get("answer", NOTHING).derived().origins
        behind = (call for origin in sorted(origins, key=str) for call in calls_at(origin, self._flow, self.calls))
        return next((call for call in behind if self._states_error(call)), None)

    def _states_error(self, call: Call) -> bool:
        """Return whether a response states an error, in a field that the program does not name (RETO §3.4)."""
        return call.body_error is not None and call.succeeded and not names_error(self.program, call)

    def _stated(self, call: Call, line: int, **facts: Any) -> Fault:
        reason = call.body_error.message if call.body_error is not None else ""
        made = {"tool": call.tool, "call": call.index, "invocation": invocation(call), "answered": answered(call)}
        return self._made("response", FaultCase.STATED, line, speaker="tool", reason=reason, **made, **facts)

    def _rests_on_inputs(self) -> bool:
        """What the program's author was shown is enough where it calls nothing."""
        if self.stated or (self.looked and not self.calls):
            return True
        return self._tree is not None and reads_one_of(self._tree, self.inputs)

    def _unpacked(self, succeeded: Sequence[Call]) -> Iterator[Fault]:
        """Find ``price, stock = get_product(…)``, which runs, and gives the names of the fields: nobody means that."""
        for node in walk(self._tree) if self._tree else ():
            match node:
                case ast.Assign(targets=[ast.Tuple()], value=ast.Call(func=ast.Name(id=tool), lineno=line)):
                    at = (call for call in succeeded if call.tool == tool and call.line == line)
                    for call in (call for call in at if isinstance(call.value, dict)):
                        yield self._made(
                            "response",
                            FaultCase.UNPACKED,
                            line,
                            tool=tool,
                            call=call.index,
                            answered=answered(call),
                            place=Place(tool=tool),
                            observed=observed(call.value),
                        )

    def _nothing_behind(self, case: FaultCase) -> Fault:
        call = next((c for c in reversed(self.calls) if c.succeeded and is_empty_response(c)), None)
        if call is None:
            return self._made("answer", case, self._answer_line())
        return self._made("answer", case, call.line, tool=call.tool, call=call.index, answered=answered(call))

    def _failure(self, call: Call) -> dict[str, Any]:
        return {
            "tool": call.tool,
            "call": call.index,
            "cause": call.cause,
            "reason": call.error or "",
            "status": call.error_status,
        }

    def _empty(self) -> Fault | None:
        """``None`` is an answer where its type names it, no call failed behind it, and no key was missing."""
        empty = {"kind": "answer", "case": FaultCase.EMPTY, "value": self.outcome.value}
        value = self._flow.scope.names.get("answer", NOTHING) if self._flow else NOTHING
        behind = list(suspects_of(value, self._flow, self.calls)) if self._flow else []
        failed = next((s.call for s in behind if not s.call.succeeded), None)
        if failed is not None:
            return self._made(**empty, line=failed.line, **self._failure(failed))
        null = next((s for s in behind if not s.derived and is_nothing(s.value)), None)
        typed = self.answer_type is not None and self.answer_type.names_none
        if typed and self.outcome.value is None and (null is None or null.value is not MISSING):
            return None
        if null is not None:
            return self._made(
                **empty,
                line=self._answer_line(),
                tool=null.call.tool,
                call=null.call.index,
                answered=answered(null.call),
                **self._where(null),
            )
        empty_calls = [call for call in self.calls if call.succeeded and is_empty_response(call)]
        behind_it = [call for call in empty_calls if any(s.call is call for s in behind)]
        if empty_calls:
            call = (behind_it or empty_calls)[-1]
            return self._made(**empty, line=call.line, tool=call.tool, call=call.index, answered=answered(call))
        if self.outcome.value is None and not behind and self.answer_type is None:
            empty["case"] = FaultCase.OWN_NONE
        return self._made(**empty, line=self._answer_line())

    def _returned_by_write(self) -> bool:
        """Many writes return nothing; a null of the program's own says the same, where all that it wrote did so."""
        writes = [call for call in self.calls if call.succeeded and self._writes(call)]
        if self._flow is None or not writes or any(not call.succeeded and self._writes(call) for call in self.calls):
            return False
        behind = list(suspects_of(self._flow.scope.names.get("answer", NOTHING), self._flow, self.calls))
        if not behind:
            return self.outcome.value is None and all(is_nothing(call.value) for call in writes)
        return all(suspect.call in writes and not suspect.path and not suspect.derived for suspect in behind)

    def _writes(self, call: Call) -> bool:
        """Return whether a call changed something, or may have and its document says that it returns nothing."""
        if call.effect is Effect.UNKNOWN and call.tool in self.tools:
            return types_of(self.tools[call.tool].protocol.returns or {}) == {"null"}
        return call.effect is Effect.WRITE

    def _answer_line(self) -> int:
        """Return the last line that sets the answer; of those whose call was not made, none if there is another."""
        made = {(call.tool, call.line) for call in self.calls}
        found = self._flow.calls.values() if self._flow else ()
        unmade = {each.node.lineno for each in found if (each.tool, each.node.lineno) not in made}
        stored, ran = 0, 0
        for node in walk(self._tree) if self._tree else ():
            if not isinstance(node, ast.Name) or node.id != "answer" or not isinstance(node.ctx, ast.Store):
                continue
            stored = max(stored, node.lineno)
            if node.lineno not in unmade:
                ran = max(ran, node.lineno)
        return ran or stored

    def _made(self, kind: FaultKind, case: FaultCase, line: int = 0, **facts: Any) -> Fault:
        return Fault(kind=kind, case=case, line=line, source_line=self.program.line(line)[:300], **facts)


def _names(words: str, name: str, value: Any) -> bool:
    todo, names, given = [value], [name], list[str]()
    for each in todo:
        if isinstance(each, dict):
            names += each
            todo += each.values()
        elif isinstance(each, list):
            todo += each
        elif isinstance(each, str | int | float):
            given.append(str(each))
        if len(todo) > MAX_NAMED:
            break
    spelled = [form for each in names for form in (each, each.replace("_", " "))]
    return any(has_word(words, each.casefold()) for each in (*spelled, *given))

"""Fault → tool: trace a failure to the one call it came from (ATC §3.3), by structure.

First the journal: a call that was refused or failed and whose error ended the program. Then the value that failed,
followed back to the call it came from: by the sandbox's own claim where the recorded response bears it out, else through
the syntax tree. Evidence is what the tool really answered there. Nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.execution.sandbox import Outcome, ProgramError
from atc.programs.evidence import MISSING, describe, expression, places, short
from atc.programs.extract import NotParsed, parse
from atc.programs.flow import Flow, Span, span_of
from atc.programs.values import NOTHING, Value, join_all
from atc.result import Call, Fault

_PROGRAM_ERRORS = {"NameError", "UnboundLocalError", "SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError",
                   "RecursionError", "AssertionError", "NotImplementedError", "StopIteration", "PermissionError"}  # fmt: skip
_REFUSED_WORDS = {"invalid_arguments", "not_found", "invalid", "bad_request", "unknown_id", "conflict"}


@dataclass
class Suspect:
    """A call and a place in its response that the failing value came from; ``proof`` tells how well the record fits."""

    call: Call
    path: tuple[str | int, ...]
    value: Any
    proof: int = 0


@dataclass
class Attribution:
    """Traces the failure of one program.

    Args:
        source: the program.
        outcome: how it ended.
        calls: the calls that it made, replays included, in order.
        tools: the names of all tools.
    """

    source: str
    outcome: Outcome
    calls: Sequence[Call]
    tools: Collection[str]
    _flow: Flow | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        try:
            self._tree: ast.Module | None = parse(self.source)
            self._flow = Flow(self._tree, self.tools)
        except NotParsed:
            self._tree = None

    def fault(self) -> Fault | None:
        """The fault of this program; ``None`` when it gave an answer that rests on something."""
        outcome = self.outcome
        if outcome.kind == "raised" and outcome.error is not None:
            return self._raised(outcome.error)
        if outcome.kind == "limit":
            return Fault(kind="limit", message=f"the program was stopped: {outcome.detail}")
        if outcome.kind in ("killed", "violation"):
            return Fault(kind="sandbox", message=f"the program ended wrongly: {outcome.detail}")
        return self._answer()

    # -- an exception ended it -----------------------------------------------------------------------------------------

    def _raised(self, error: ProgramError) -> Fault:
        if error.type == "MemoryError":
            return self._made("limit", "the program used up its memory", error.line)
        failed = self._failed_call(error)
        if failed is not None:
            return self._refused(failed, error)
        if error.type in _PROGRAM_ERRORS or error.type == "ToolError":
            return self._of_program(error)
        suspect = self._claimed(error) or self._traced(error)
        if suspect is None:
            return self._of_program(error)
        return self._misread(suspect, error)

    def _of_program(self, error: ProgramError) -> Fault:
        """The program's own fault; a call that found nothing is told beside it, for it may be the reason."""
        nothing = next((c for c in reversed(self.calls) if c.succeeded and hollow(c.value)), None)
        evidence = _found_nothing(nothing) if nothing is not None else ""
        return self._made("program", f"{error.type}: {error.message}", error.line, evidence=evidence)

    def _failed_call(self, error: ProgramError) -> Call | None:
        """The call whose error the program did not catch. The program's word alone is not enough."""
        if error.type != "ToolError":
            return None
        for call in reversed(self.calls):
            if not call.succeeded and call.tool == error.tool and call.error is not None:
                if error.message.endswith(call.error[-200:]) or call.error[:200] in error.message:
                    return call
        return None

    def _refused(self, call: Call, error: ProgramError) -> Fault:
        status = call.error_status
        if status == "too_many_calls":
            kind, what = "limit", "was not called: "
        elif call.status == "refused" or status in (400, 404, 409, 410, 422) or status in _REFUSED_WORDS:
            kind, what = "arguments", "refused its arguments: " if status == "invalid_arguments" else "refused: "
        else:
            kind, what = "tool", "failed: "
        arguments = ", ".join(f"{name}={short(value, 80)}" for name, value in call.arguments.items())
        line = call.line or error.line
        text = f"{call.tool}({arguments}) {what}{call.error}"
        return self._made(kind, text, line, tool=call.tool, call=call.index, evidence=self._argument_origins(call))

    def _argument_origins(self, call: Call) -> str:
        """Where the refused arguments came from, for those that another tool's response supplied."""
        if self._flow is None:
            return ""
        said = []
        for made in self._flow.calls.values():
            if made.tool == call.tool and made.node.lineno <= call.line <= (made.node.end_lineno or 0):
                for name, value in made.arguments.items():
                    said += [f"argument {name} came from {origin}" for origin in sorted(value.origins, key=str)[:2]]
        return "; ".join(said[:4])

    # -- a value was not what the program took it for ------------------------------------------------------------------

    def _claimed(self, error: ProgramError) -> Suspect | None:
        """The sandbox's claim, if the recorded response has that place."""
        if error.origin is None:
            return None
        number, path = error.origin
        own = [call for call in self.calls if call.succeeded]
        call = self._by_number(number)
        if call is None or call not in own:
            return None
        for at, value in places(call.value, path, exact=True):
            suspect = Suspect(call, at, value)
            suspect.proof = _proof(suspect, error)
            if value is not MISSING or suspect.proof:
                return suspect
        return None

    def _by_number(self, number: int) -> Call | None:
        """The n-th call of this program: the sandbox counts its own calls from 1."""
        return self.calls[number - 1] if 0 < number <= len(self.calls) else None

    def _traced(self, error: ProgramError) -> Suspect | None:
        if self._flow is None or self._tree is None:
            return None
        suspects = [s for part in self._failing_parts(error) for s in self._suspects(part, error)]
        proven = [s for s in suspects if s.proof]
        if proven:
            return max(proven, key=lambda s: s.proof)
        return suspects[0] if len({s.call.tool for s in suspects}) == 1 else None

    def _failing_parts(self, error: ProgramError) -> Iterator[Value]:
        """The abstract values in the expression that failed, the likeliest first."""
        assert self._tree is not None
        assert self._flow is not None
        for node in _expressions_at(self._tree, error):
            for part in _parts(node):
                yield self._flow.at(span_of(part))

    def _suspects(self, value: Value, error: ProgramError) -> Iterator[Suspect]:
        whole = value if value.origins else value.derived()
        for origin in sorted(whole.origins, key=str):
            for call in reversed(self.calls):
                if call.tool != origin.tool or (call.line and not self._same_site(call.line, origin.line)):
                    continue
                if not call.succeeded:
                    yield Suspect(call, origin.path, MISSING, proof=2)
                    continue
                for at, found in places(call.value, origin.path):
                    suspect = Suspect(call, at, found)
                    suspect.proof = _proof(suspect, error)
                    yield suspect

    def _same_site(self, line: int, site: int) -> bool:
        """Whether a call that says it was made at ``line`` can be the one that stands at ``site``."""
        assert self._flow is not None
        ends = [span[1] for span in self._flow.calls if span[0] == site]
        return site <= line <= max(ends, default=site)

    def _misread(self, suspect: Suspect, error: ProgramError) -> Fault:
        call, path = suspect.call, suspect.path
        if not call.succeeded:
            text = f"{call.tool} failed ({call.error}), and the program went on with what it did not get"
            return self._made("tool", text, error.line, tool=call.tool, call=call.index)
        wanted = _wanted(error)
        where = expression(call.tool, path)
        if suspect.value is MISSING:
            where, inner = expression(call.tool, path[:-1]), next(iter(places(call.value, path[:-1], exact=True)), ((), None))[1]
            wanted, suspect = path[-1], Suspect(call, path[:-1], inner)
        lacks = f"has no {wanted!r}: it " if wanted is not None and isinstance(suspect.value, dict) else ""
        text = f"{where} {lacks}{describe(suspect.value)} ({error.type}: {error.message})"
        evidence = _found_nothing(call) if hollow(call.value) else f"{call.tool}({short(call.arguments, 150)}) answered {short(call.value, 500)}"
        return self._made("response", text, error.line, tool=call.tool, call=call.index, evidence=evidence)

    # -- it ended, but without an answer that rests on something ---------------------------------------------------------

    def _answer(self) -> Fault | None:
        if not self.outcome.answered:
            return self._nothing_said("the program ended without setting `answer`")
        if not any(call.succeeded for call in self.calls):
            failed = next((call for call in reversed(self.calls)), None)
            text = "the answer rests on no successful call of a tool"
            return self._made("answer", text + (f": {failed.tool} said {failed.error}" if failed else ""), tool=failed.tool if failed else None)
        if self.outcome.value in (None, "", [], {}) and self.outcome.value is not False and self.outcome.value != 0:
            return self._empty()
        if all(hollow(call.value) for call in self.calls if call.succeeded):
            return self._nothing_said("the answer rests on nothing: every tool that was called answered emptily")
        return None

    def _nothing_said(self, text: str) -> Fault:
        """A fault of the answer, with the last call that answered emptily, if one did."""
        call = next((c for c in reversed(self.calls) if c.succeeded and hollow(c.value)), None)
        if call is None:
            return self._made("answer", text, self._answer_line())
        return self._made("answer", f"{text}: {_found_nothing(call)}", call.line, tool=call.tool, call=call.index)

    def _empty(self) -> Fault:
        """An empty answer: traced to a call that answered emptily, if there is one behind it."""
        text = f"the program's answer is empty ({self.outcome.value!r})"
        value = self._flow.scope.get("answer", NOTHING) if self._flow else NOTHING
        behind = join_all([value, value.derived()])
        for origin in sorted(behind.origins, key=lambda o: -len(o.path)):
            for call in self.calls:
                if call.tool == origin.tool and not call.succeeded:
                    return self._made("answer", f"{text}: {call.tool} failed: {call.error}", call.line, tool=call.tool, call=call.index)
        blame = [c for c in self.calls if c.succeeded and hollow(c.value)]
        blame = [c for c in blame if c.tool in {o.tool for o in behind.origins}] or blame
        if blame:
            call = blame[-1]
            return self._made("answer", f"{text}: {_found_nothing(call)}", call.line, tool=call.tool, call=call.index)
        return self._made("answer", f"{text}, although every tool answered something", self._answer_line())

    def _answer_line(self) -> int:
        nodes = ast.walk(self._tree) if self._tree else ()
        stores = [n.lineno for n in nodes if isinstance(n, ast.Name) and n.id == "answer" and isinstance(n.ctx, ast.Store)]
        return max(stores, default=0)

    def _made(self, kind: Any, message: str, line: int = 0, **more: Any) -> Fault:
        lines = self.source.split("\n")
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        said = f"line {line}: {message}" if line else message
        return Fault(kind=kind, message=said[:1000], line=line, source_line=text[:300], **more)


def _expressions_at(tree: ast.Module, error: ProgramError) -> list[ast.expr]:
    exact = [n for n in ast.walk(tree) if isinstance(n, ast.expr) and error.span is not None and span_of(n) == error.span]
    if exact:
        return exact
    inside = [n for n in ast.walk(tree) if isinstance(n, ast.expr) and n.lineno <= error.line <= (n.end_lineno or n.lineno)]
    return [n for n in inside if isinstance(n, ast.Subscript | ast.Attribute | ast.Call | ast.BinOp)]


def _parts(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Subscript() | ast.Attribute():
            return [node.value]
        case ast.Call():
            base = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            return [*base, *node.args, *(keyword.value for keyword in node.keywords)]
        case ast.BinOp():
            return [node.left, node.right]
        case ast.Compare():
            return [node.left, *node.comparators]
        case _:
            return [node]


def _proof(suspect: Suspect, error: ProgramError) -> int:
    """How well what stands at the place explains the exception: 0 not at all, 3 exactly."""
    value, message = suspect.value, error.message
    if value is MISSING:
        return 3 if error.type in ("KeyError", "IndexError", "TypeError") and _wanted(error) in (None, suspect.path[-1]) else 1
    match error.type:
        case "KeyError":
            return 3 if isinstance(value, dict) and _wanted(error) not in value else 0
        case "IndexError":
            return 3 if value == [] else 2 if isinstance(value, list | str) else 0
        case "TypeError" | "AttributeError":
            return 3 if _type_name(value) in _types_in(message) else 0
        case "ValueError" | "ZeroDivisionError":
            if isinstance(value, list | dict | str) and not value or value == 0:
                return 3
            return 2 if isinstance(value, str) and value in message else 0
        case _:
            return 0


def _wanted(error: ProgramError) -> str | None:
    if error.type != "KeyError":
        return None
    try:
        key = ast.literal_eval(error.message)
    except (ValueError, SyntaxError):
        return error.message
    return key if isinstance(key, str) else str(key)


def _type_name(value: Any) -> str:
    return type(value).__name__


def _types_in(message: str) -> set[str]:
    words = {w.strip("'\".,:") for w in message.replace("(", " ").split()}
    return {"NoneType", "dict", "list", "str", "int", "float", "bool"} & words | ({"list"} if "list indices" in message else set()) | (
        {"str"} if "string indices" in message else set()
    )


def _found_nothing(call: Call) -> str:
    arguments = ", ".join(f"{name}={short(value, 60)}" for name, value in call.arguments.items())
    return f"{call.tool}({arguments}) found nothing, it answered {short(call.value, 150)}: ask with fewer or other arguments"


def hollow(value: Any) -> bool:
    """Whether a response says nothing: empty, null, or an object whose every list is empty."""
    if value in (None, "", [], {}):
        return value is not False and value != 0 or value is None
    lists = [v for v in value.values() if isinstance(v, list)] if isinstance(value, dict) else []
    return bool(lists) and not any(lists)

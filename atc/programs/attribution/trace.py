"""Follow the value that failed back to the call whose response it came from (ATC §3.3).

Two ways: the sandbox knows containers of responses by identity and claims where the value was; and the syntax tree
says from which calls, along which paths, the failing expression can have its value. Either is only believed as far as
the journal's recorded response explains the exception.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from atc._host.syntax import child_nodes, walk
from atc._records.outcome import ProgramError
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.values import Origin, Value
from atc.programs.responses import MISSING, drift, is_empty_response, is_nothing, is_page_after_last, places
from atc.programs.syntax import enclosing, may_catch_a_tools_error, span_of
from atc.result import Call

# ----------------------------------------------------------------------------------------------------------------------
# What CPython writes into its exceptions, as far as attribution reads it: the one table of these texts.
#
# They are no interface of Python's, and versions differ. Each form has programs that raise it; a test runs them on the
# Python at hand, so that another wording is seen where Python changes it.


@dataclass(frozen=True)
class Text:
    """One form of a message.

    Attributes:
        says: finds it; groups are what it names.
        examples: expressions that raise it.
        before: the version of Python from which on nothing raises it.
    """

    says: re.Pattern[str]
    examples: tuple[str, ...]
    before: tuple[int, int] = (9, 0)

    def find(self, message: str) -> re.Match[str] | None:
        """Return the form in a message; ``None`` where the message has another one."""
        return self.says.search(message)


TEXTS = {
    "null": Text(
        re.compile("NoneType"),
        (
            "dict().get(1)['a']",
            "None.a",
            "len(None)",
            "[*None]",
            "1 + None",
            "int(None)",
            "list()[None]",
            "float(None)",
            "dict().get(1)()",
        ),
    ),
    "empty": Text(
        re.compile("empty|at least|not enough|mean requires|no median"),
        (
            "max([])",
            "min(x for x in [])",
            "(lambda: [0 for a, b in [[]]])()",
            "__import__('statistics').mean([])",
            "__import__('statistics').median([])",
            "__import__('statistics').stdev([1])",
            "__import__('functools').reduce(max, [])",
        ),
    ),
    "sliced": Text(re.compile("^unhashable type: 'slice'$"), ("{}[0:1]",), before=(3, 12)),
    "indices": Text(
        re.compile(r"^(list|str|tuple)\w* indices must be (?!.*NoneType$)"),
        ("list()['a']", "str()['b']", "tuple()['a']"),
    ),
    "operands": Text(re.compile(r"'(\w+)' and '(\w+)'$"), ("1 + 'a'", "[] < {}", "{} - []", "'a' > 1", "sum(['a'])")),
    "types": Text(  # not the functions of these names: `int() argument must be …`
        re.compile(r"\b(NoneType|dict|list|str|int|float|bool)\b(?!\(\))"),
        (
            "{}.a",
            "[].get",
            "'a'.items",
            "(1).get",
            "int()()",
            "len(1)",
            "int([])",
            "float({})",
            "'' .join([1])",
            "[*1]",
        ),
    ),
    "name": Text(
        re.compile(r"'(\w+)'"),
        ("missing", "(lambda: [missing for _ in [0]])()", "exec('def f():\\n if 0: x = 1\\n return x\\nf()')"),
    ),
}

# ----------------------------------------------------------------------------------------------------------------------
# Follow the value that failed back to the call whose response it came from (ATC §3.3).


Part = tuple[ast.expr, int | None]
"""An expression whose value can have failed, and the side of the operator that it stands on."""


class Tracer:
    """Traces one exception of one program.

    Args:
        tree: the program.
        flow: its analysis.
        calls: the calls that it made, in order.
        error: the exception.
    """

    def __init__(self, tree: ast.Module, flow: Flow, calls: Sequence[Call], error: ProgramError) -> None:
        self._tree, self._flow, self._calls, self._error = tree, flow, calls, error
        self.statement, self.around = enclosing(tree, error.line, error.span)

    def suspect(self) -> Suspect | None:
        """Return the call and the place in its response that explain the exception best; ``None`` if none does."""
        if self._raised_by_itself() or self._error.type in ("NameError", "UnboundLocalError"):
            return self._guard()
        if self._of_own_list():
            return None
        claim, traced = self._claimed(), list(self._traced())
        suspects = sorted(traced, key=lambda s: (-self._score(s), s.call.index))
        best = suspects[0] if suspects else None
        if claim is not None and (best is None or self._score(claim) >= self._score(best)):
            best = claim
        elif claim is not None and best is not None:  # the claim is right about the call where the tree has several
            same = [s for s in suspects if s.call is claim.call and self._score(s) == self._score(best)]
            best = same[0] if same else best
        return best if best is not None and self._score(best) else None

    def _score(self, suspect: Suspect) -> int:
        return explanation_score(suspect, self._error)

    def _of_own_list(self) -> bool:
        """Return whether the list that was too short is the program's own, and not empty: no tool is to blame."""
        return self._error.type == "IndexError" and bool(self._error.items) and self._error.origin is None

    # -- the sandbox's claim -------------------------------------------------------------------------------------------

    def _claimed(self) -> Suspect | None:
        """Return the sandbox's claim, if the recorded response has that place."""
        if self._error.origin is None:
            return None
        number, path = self._error.origin
        call = next((call for call in self._calls if call.index == number), None)
        if call is None:
            return None
        at, value = next(places(call.value, path, exact=True))
        suspect = Suspect(call, at, value)
        return suspect if call.succeeded and self._score(suspect) else None

    # -- the syntax tree -----------------------------------------------------------------------------------------------

    def _traced(self) -> Iterator[Suspect]:
        empty = is_of_empty(self._error)  # no key of an item was asked for
        for node in self._failing_nodes():
            for part, side in parts_of(node):
                for expression in (part, *(() if empty else self._returned_by(part))):
                    yield from self._suspects(self._flow.at(span_of(expression)), side)

    def _returned_by(self, part: ast.expr) -> Iterator[ast.expr]:
        """Yield what a function that is handed over gives back: the keys by which things are sorted."""
        for function in self._flow.at(span_of(part)).functions:
            if isinstance(function.node, ast.Lambda):
                yield function.node.body
            elif function.node is not None:
                yield from (n.value for n in walk(function.node) if isinstance(n, ast.Return) and n.value)

    def _failing_nodes(self) -> list[ast.AST]:
        exact = [n for n in walk(self._tree) if hasattr(n, "lineno") and span_of(n) == self._error.span]
        if exact:
            return [self._unpacked(n) for n in exact if isinstance(n, ast.expr)] or list(exact)
        line = self._error.line
        inside = [n for n in walk(self._tree) if isinstance(n, ast.expr) and n.lineno <= line <= (n.end_lineno or 0)]
        return [n for n in inside if isinstance(n, ast.Subscript | ast.Attribute | ast.Call | ast.BinOp | ast.Compare)]

    def _unpacked(self, node: ast.expr) -> ast.AST:
        if not isinstance(node, ast.Tuple | ast.List) or not isinstance(node.ctx, ast.Store):
            return node
        for whole in walk(self._tree):
            targets = whole.targets if isinstance(whole, ast.Assign) else [getattr(whole, "target", None)]
            if node in targets:
                return whole
        return node

    def _suspects(self, value: Value, side: int | None = None) -> Iterator[Suspect]:
        return suspects_of(value, self._flow, self._calls, side)

    # -- what the program says itself ----------------------------------------------------------------------------------

    def _raised_by_itself(self) -> bool:
        return isinstance(self.statement, ast.Raise | ast.Assert)

    def in_handler(self) -> bool:
        """Return whether the program raised it while it handled what may have been a tool's error."""
        handlers = [node for node in self.around if isinstance(node, ast.ExceptHandler)]
        return self._raised_by_itself() and any(may_catch_a_tools_error(node.type) for node in handlers)

    def _guard(self) -> Suspect | None:
        for condition in self._conditions():
            for part in (condition, *walk(condition)):
                for suspect in self._suspects(self._flow.at(span_of(part))) if isinstance(part, ast.expr) else ():
                    failed = not suspect.call.succeeded
                    if failed or is_nothing(suspect.value) or (is_empty_response(suspect.call) and not suspect.path):
                        return suspect
        return None

    def _conditions(self) -> Iterator[ast.expr]:
        """Yield what had to be so for the program to come here; for a name without a value, what kept it from one."""
        if not self._raised_by_itself():
            quoted = TEXTS["name"].find(self._error.message)
            name = quoted[1] if quoted else ""
            for node in walk(self._tree):
                bound = {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                if isinstance(node, ast.For | ast.If | ast.While) and name in bound:
                    yield node.iter if isinstance(node, ast.For) else node.test
            return
        if isinstance(self.statement, ast.Assert):
            yield self.statement.test
        for node in reversed(self.around):
            if isinstance(node, ast.If | ast.While):
                yield node.test
            elif isinstance(node, ast.For):  # `for …: … else: raise`
                yield node.iter


def suspects_of(value: Value, flow: Flow, calls: Sequence[Call], side: int | None = None) -> Iterator[Suspect]:
    """Yield every call, and every place in its response, that a value can be or can be made from."""
    for origin in sorted(value.derived().origins, key=str):
        derived = value.open or origin not in value.origins
        for call in calls_at(origin, flow, calls):
            if not call.succeeded:
                yield Suspect(call, origin.path, MISSING, derived, side)
            else:
                for at, found in places(call.value, origin.path):
                    yield Suspect(call, at, found, derived, side)


def calls_at(origin: Origin, flow: Flow, calls: Sequence[Call]) -> list[Call]:
    """Return the calls that were made at the origin's place; all of its tool where that is not known."""
    own = [call for call in calls if call.tool == origin.tool and not is_page_after_last(call)]
    ends = [span[1] for span in flow.calls if span[0] == origin.line]
    there = [call for call in own if origin.line <= call.line <= max(ends, default=origin.line)]
    return there or own


def parts_of(node: ast.AST) -> list[Part]:
    """Return what can have failed in an expression or a statement, the likeliest first."""
    match node:
        case ast.Subscript():
            return [(node.value, None), (node.slice, None)]
        case ast.Attribute():
            return [(node.value, None)]
        case ast.Call():
            inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            return [(part, None) for part in (*inner, *node.args, *(keyword.value for keyword in node.keywords))]
        case ast.BinOp():
            return [(node.left, 0), (node.right, 1)]
        case ast.AugAssign():
            return [(node.target, 0), (node.value, 1)]
        case ast.Compare():
            return [(node.left, 0), *((part, 1) for part in node.comparators)]
        case ast.Assign():
            return [(node.value, None)]
        case ast.For() | ast.comprehension():
            return [(node.iter, None)]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return [(generator.iter, None) for generator in node.generators]
        case ast.Tuple() | ast.List():  # the targets of an unpacking
            return [(part, None) for part in node.elts]
        case ast.JoinedStr():
            return [(part.value, None) for part in node.values if isinstance(part, ast.FormattedValue)]
        case ast.expr():
            return [(node, None)]
        case _:
            return [(child, None) for child in child_nodes(node) if isinstance(child, ast.expr)]


# ----------------------------------------------------------------------------------------------------------------------
# The explanation score: how well a response explains the exception that ended a program.


@dataclass(frozen=True)
class Suspect:
    """A call, and a place in its response that the failing value is, or (``derived``) was made from.

    ``side`` is the operand that the value is in ``a + b`` or ``a < b``: 0, 1, or ``None``.
    """

    call: Call
    path: tuple[str | int, ...]
    value: Any
    derived: bool = False
    side: int | None = None


def explanation_score(suspect: Suspect, error: ProgramError) -> int:
    """Score how well what a call returned explains an exception, from 0 to 4.

    0: not at all, 1: perhaps, 2: well, 3: exactly. One more, where the response differs from its schema.
    """
    found = _score_of_failed_call(suspect, error) if not suspect.call.succeeded else _score_of_value(suspect, error)
    return found + bool(found and drift(suspect.call, suspect.path))


def wanted_key(error: ProgramError) -> str | None:
    """Return the key that a ``KeyError`` asked for."""
    if error.type != "KeyError":
        return None
    try:
        return str(ast.literal_eval(error.message))
    except (ValueError, SyntaxError):
        return error.message


def reports_nothing(error: ProgramError) -> bool:
    """Return whether the exception says that something was null, empty or not there."""
    missing = error.type in ("KeyError", "StopIteration", "IndexError")
    return missing or TEXTS["null"].find(error.message) is not None or is_of_empty(error)


def is_of_empty(error: ProgramError) -> bool:
    """Return whether the exception says that a sequence was empty: what works on its items was not evaluated."""
    kinds = ("ValueError", "StatisticsError", "TypeError")
    return error.type in kinds and TEXTS["empty"].find(error.message) is not None


def _score_of_failed_call(suspect: Suspect, error: ProgramError) -> int:
    if not reports_nothing(error):
        return 0
    given = {str(value) for value in suspect.call.arguments.values()}
    return 3 if wanted_key(error) in given else 2


def _score_of_value(suspect: Suspect, error: ProgramError) -> int:
    value, sure = suspect.value, not suspect.derived
    match error.type:
        case "KeyError":
            return 3 if sure and isinstance(value, dict) and wanted_key(error) not in value else 0
        case "IndexError":
            if sure and isinstance(value, list | str):
                return 2 if value else 3
            return 3 if value is MISSING or value == [] else int(error.items == 0)
        case "StopIteration":
            return 3 if value is MISSING or value == [] else 1
        case "ZeroDivisionError":
            return 3 if is_nothing(value) or (value == 0 and not isinstance(value, bool)) else 0
        case "TypeError" | "AttributeError":
            return _score_of_type(suspect, error.message)
        case "ValueError" | "OverflowError" | "InvalidOperation" | "StatisticsError":
            if is_of_empty(error):  # nothing was there, or the program kept nothing of it
                return 3 if value is MISSING or value in ("", [], {}) else 1
            if isinstance(value, str) and len(value) > 1 and value in error.message:
                return 2
            return int(sure and not isinstance(value, dict))
        case _:
            return 0


def _score_of_type(suspect: Suspect, message: str) -> int:
    odd = _odd_types(message, suspect.side)
    kind = "NoneType" if suspect.value is MISSING else type(suspect.value).__name__
    if "NoneType" in odd:
        return 3 if kind == "NoneType" else 0
    return 3 if kind in odd and (not suspect.derived or drift(suspect.call, suspect.path)) else 0


def _odd_types(message: str, side: int | None) -> Sequence[str]:
    """Return the types that a message names as wrong. Of two operands: the one of ``side``, or the null one."""
    if TEXTS["sliced"].find(message):
        return ["dict"]
    if found := TEXTS["indices"].find(message):
        return [found[1]]
    if pair := TEXTS["operands"].find(message):
        types = [pair[1], pair[2]]
        if "NoneType" in types:
            return ["NoneType"] if side is None or types[side] == "NoneType" else []
        return types if side is None else [types[side]]
    return TEXTS["types"].says.findall(message)

"""Follow the value that failed back to the call whose response it came from (ATC §3.3).

Two ways: the sandbox knows containers of responses by identity and claims where the value was; and the syntax tree
says from which calls, along which paths, the failing expression can have its value. Either is only believed as far as
the journal's recorded response explains the exception.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from atc.outcome import ProgramError
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.values import Origin, Value
from atc.programs.attribution.python_texts import TEXTS
from atc.programs.attribution.responses import MISSING, is_empty_response, is_nothing, is_page_after_last, places
from atc.programs.attribution.score import Suspect, explanation_score, is_of_empty
from atc.programs.syntax import enclosing, span_of
from atc.result import Call

_TAKE_A_TOOLS_ERROR = frozenset({"ToolError", "Exception", "BaseException"})
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
        """The call and the place in its response that explain the exception best; ``None`` if none does."""
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
        """Whether the list that was too short is the program's own, and not empty: no tool is to blame for that."""
        return self._error.type == "IndexError" and bool(self._error.items) and self._error.origin is None

    # -- the sandbox's claim -------------------------------------------------------------------------------------------

    def _claimed(self) -> Suspect | None:
        """The sandbox's claim, if the recorded response has that place."""
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
        """What a function that is handed over gives back: the keys by which things are sorted."""
        for function in self._flow.at(span_of(part)).functions:
            if isinstance(function.node, ast.Lambda):
                yield function.node.body
            elif function.node is not None:
                yield from (n.value for n in ast.walk(function.node) if isinstance(n, ast.Return) and n.value)

    def _failing_nodes(self) -> list[ast.AST]:
        """What failed: the expression exactly there, else what can fail on its line."""
        exact = [n for n in ast.walk(self._tree) if hasattr(n, "lineno") and span_of(n) == self._error.span]
        if exact:
            return [self._unpacked(n) for n in exact if isinstance(n, ast.expr)] or list(exact)
        line = self._error.line
        inside = [
            n for n in ast.walk(self._tree) if isinstance(n, ast.expr) and n.lineno <= line <= (n.end_lineno or 0)
        ]
        return [n for n in inside if isinstance(n, ast.Subscript | ast.Attribute | ast.Call | ast.BinOp | ast.Compare)]

    def _unpacked(self, node: ast.expr) -> ast.AST:
        """For the targets of an unpacking the statement that does it."""
        if not isinstance(node, ast.Tuple | ast.List) or not isinstance(node.ctx, ast.Store):
            return node
        for whole in ast.walk(self._tree):
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
        """Whether the program raised it while it handled what may have been a tool's error."""
        handlers = [node for node in self.around if isinstance(node, ast.ExceptHandler)]
        return self._raised_by_itself() and any(may_catch_a_tools_error(node.type) for node in handlers)

    def _guard(self) -> Suspect | None:
        """A call that answered nothing, on which it depended that the program came here."""
        for condition in self._conditions():
            for part in (condition, *ast.walk(condition)):
                for suspect in self._suspects(self._flow.at(span_of(part))) if isinstance(part, ast.expr) else ():
                    failed = not suspect.call.succeeded
                    if failed or is_nothing(suspect.value) or (is_empty_response(suspect.call) and not suspect.path):
                        return suspect
        return None

    def _conditions(self) -> Iterator[ast.expr]:
        """What had to be so for the program to come here; for a name without a value, what kept it from having one."""
        if not self._raised_by_itself():
            quoted = TEXTS["name"].find(self._error.message)
            name = quoted[1] if quoted else ""
            for node in ast.walk(self._tree):
                bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
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
    """Every call, and every place in its response, that a value can be or can be made from."""
    for origin in sorted(value.derived().origins, key=str):
        derived = value.open or origin not in value.origins
        for call in calls_at(origin, flow, calls):
            if not call.succeeded:
                yield Suspect(call, origin.path, MISSING, derived, side)
            else:
                for at, found in places(call.value, origin.path):
                    yield Suspect(call, at, found, derived, side)


def calls_at(origin: Origin, flow: Flow, calls: Sequence[Call]) -> list[Call]:
    """The calls that were made at the origin's place; all of its tool where that is not known."""
    own = [call for call in calls if call.tool == origin.tool and not is_page_after_last(call)]
    ends = [span[1] for span in flow.calls if span[0] == origin.line]
    there = [call for call in own if origin.line <= call.line <= max(ends, default=origin.line)]
    return there or own


def parts_of(node: ast.AST) -> list[Part]:
    """What can have failed in an expression or a statement, the likeliest first."""
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
            return [(child, None) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def may_catch_a_tools_error(caught: ast.expr | None) -> bool:
    """Whether a handler of this type of exception may catch that of a tool. ``None`` catches all."""
    if caught is None:
        return True
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(not isinstance(kind, ast.Name) or kind.id in _TAKE_A_TOOLS_ERROR for kind in kinds)

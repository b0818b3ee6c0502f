"""The program's answer, held to the type that was asked for, by the types that the type checker infers.

The checker is asked for the type of ``answer`` behind each statement that sets it, and at the program's end. Only an
end at which every value is surely refused is a finding, at the lines whose values come there.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from atc.answers.inferred import members_of, refuses
from atc.answers.types import AnswerType
from atc.facts import Finding
from atc.programs.check.diagnostics import Diagnostic
from atc.programs.program import Program

_PROBE = "reveal_type(answer)"
REVEALED = "revealed-type"
_TROUBLE = "invalid-"
"""Beginning of the rules by which a program contradicts its own types: what is inferred of it is no evidence then."""
_DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "cast", "reveal_type"})


def probed(program: Program) -> str | None:
    """The program with its answer's types asked for, line by line as before; ``None`` where the types are not reliable.

    That is where a function sets the answer, or where annotations say what nobody checked.
    """
    tree = program.tree
    if tree is None or any(map(_hides_types, program.nodes)):
        return None
    lines = program.source.split("\n")
    for node in sorted(_settings(tree), key=_end, reverse=True):
        row, column = _end(node)
        text = lines[row - 1].encode()
        lines[row - 1] = text[:column].decode() + f"; {_PROBE}" + text[column:].decode()
    return "\n".join(lines) + f"\n{_PROBE}\n"


def answer_findings(
    program: Program, diagnostics: Sequence[Diagnostic], wanted: AnswerType, records: Collection[str]
) -> list[Finding]:
    """Warnings where no value that comes to the answer is of the type that is wanted, as far as documents tell.

    Args:
        program: the program.
        diagnostics: of the type checker, of what :func:`probed` made of it.
        wanted: the type that the answer is held to.
        records: names of ``TypedDict`` classes.
    """
    if program.tree is None or any(each.rule.startswith(_TROUBLE) for each in diagnostics):
        return []
    revealed = sorted((d.line, d.column, d.revealed) for d in diagnostics if d.rule == REVEALED)
    behind = len(program.source.split("\n"))
    at_end = next((text for line, _, text in revealed if line > behind), "")
    if not at_end or not refuses(wanted, at_end, records):
        return []
    final = set(map(ast.dump, members_of(at_end)))
    ends = sorted(_end(node)[0] for node in _settings(program.tree))
    shown = [text for line, _, text in revealed if line <= behind]
    found = {
        line: text
        for line, text in zip(ends, shown, strict=False)
        if len(ends) == len(shown) and final.issuperset(map(ast.dump, members_of(text)))
    }
    if not found:  # set by a loop, an unpacking, …
        stored = (n for n in program.nodes if isinstance(n, ast.Name) and n.id == "answer")
        found = {max((n.lineno for n in stored if isinstance(n.ctx, ast.Store)), default=0): at_end}
    starts = {_end(node)[0]: node.lineno for node in _settings(program.tree)}
    return [
        Finding(
            kind="answer_type",
            severity="warning",  # the types are those of documents
            line=starts.get(line, line),
            source_line=program.line(starts.get(line, line))[:160],
            name="answer",
            expected=(wanted.text,),
            found=text,
        )
        for line, text in found.items()
    ]


def _hides_types(node: ast.AST) -> bool:
    match node:
        case ast.Global(names=names):
            return "answer" in names
        case ast.AnnAssign() | ast.arg(annotation=ast.expr()):
            return True
        case ast.FunctionDef(returns=ast.expr()) | ast.AsyncFunctionDef(returns=ast.expr()):
            return True
        case ast.Name(id=name):
            return name in _DYNAMIC
    return False


def _settings(tree: ast.Module) -> list[ast.stmt]:
    """The module's statements that set ``answer``, and nothing but that name."""
    found: list[ast.stmt] = []
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AugAssign) and any(_is_answer(target) for target in targets):
            found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            todo += ast.iter_child_nodes(node)
    return found


def _is_answer(target: ast.expr | None) -> bool:
    return isinstance(target, ast.Name) and target.id == "answer"


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0

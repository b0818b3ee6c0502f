"""Tell where a failing value came from: the call whose response it is part of, and the way to it.

Responses are remembered by the identity of their containers, so a value is recognised however many variables, loops
and functions it went through. What is told here is a claim that the host checks against its own journal.
"""

import ast
import types

MAX_CONTAINERS = 200_000
MISSING = object()


class Origins:
    """The containers of all responses so far: identity -> (call number, path)."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, tuple[object, ...]]] = {}
        self._alive: list[object] = []  # an identity is only good while its object lives

    def add(self, call: int, response: object) -> None:
        todo: list[tuple[object, tuple[object, ...]]] = [(response, ())]
        self._alive.append(response)
        while todo and len(self._known) < MAX_CONTAINERS:
            value, path = todo.pop()
            if isinstance(value, dict):
                self._known[id(value)] = (call, path)
                todo += [(item, (*path, key)) for key, item in value.items()]
            elif isinstance(value, list):
                self._known[id(value)] = (call, path)
                todo += [(item, (*path, index)) for index, item in enumerate(value)]

    def find(self, value: object) -> tuple[int, tuple[object, ...]] | None:
        return self._known.get(id(value)) if isinstance(value, (dict, list)) else None


def describe(error: BaseException, source: str, filename: str, origins: Origins) -> dict[str, object]:
    """The exception as plain data: type, message, tool (of a ToolError), position in the program, origin of the value."""
    report: dict[str, object] = {"type": type(error).__name__, "message": _text(error), "line": 0, "span": None}
    report["tool"] = getattr(error, "tool", None) if type(error).__name__ == "ToolError" else None
    report["origin"], report["trace"] = None, []
    if isinstance(error, SyntaxError) and error.filename == filename:
        return report | {"line": error.lineno or 0}
    inner = None
    for frame, position in _program_frames(error, filename):
        inner, report["line"], report["span"] = frame, position[0] or 0, list(position)
        report["trace"].append([frame.f_code.co_name, position[0] or 0])  # type: ignore[attr-defined]
    report["trace"] = report["trace"][-20:]  # type: ignore[index]
    if inner is not None:
        try:
            report["origin"] = _origin(inner, report["span"], source, origins)
        except Exception as problem:  # an odd object of the program: the report goes out without the claim
            report["origin_problem"] = type(problem).__name__
    return report


def _text(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except Exception:
        return "(no message: its __str__ failed)"


def _program_frames(error: BaseException, filename: str):  # type: ignore[no-untyped-def]
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == filename:
            positions = list(tb.tb_frame.f_code.co_positions())
            index = tb.tb_lasti // 2
            line, end_line, column, end_column = positions[index] if 0 <= index < len(positions) else (tb.tb_lineno,) * 4
            yield tb.tb_frame, (tb.tb_lineno if line is None else line, end_line, column, end_column)
        tb = tb.tb_next


def _origin(frame: types.FrameType, span: object, source: str, origins: Origins) -> list[object] | None:
    """Resolve the failing expression's parts by plain look-ups of names and keys; nothing is executed again."""
    for node in _nodes_at(ast.parse(source), span):
        for part in _parts(node):
            found = _trace(part, frame, origins)
            if found:
                call, path = found
                return [call, [key if isinstance(key, (str, int)) else repr(key) for key in path]]
    return None


def _nodes_at(tree: ast.Module, span: object) -> list[ast.expr]:
    """The expressions exactly at ``span``; statements there give their own expressions."""
    here = [n for n in ast.walk(tree) if isinstance(n, (ast.expr, ast.stmt)) and _span(n) == span]
    return [n for n in here if isinstance(n, ast.expr)] or [
        c for n in here for c in ast.iter_child_nodes(n) if isinstance(c, ast.expr)
    ]


def _span(node: ast.expr | ast.stmt) -> list[int | None]:
    return [node.lineno, node.end_lineno, node.col_offset, node.end_col_offset]


def _parts(node: ast.expr) -> list[ast.expr]:
    """What can have failed in an expression, the likeliest first (encoded columns count bytes, as ``ast`` does)."""
    if isinstance(node, ast.Subscript):
        return [node.value]
    if isinstance(node, ast.Attribute):
        return [node.value]
    if isinstance(node, ast.Call):
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*inner, *node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    return [node]


def _trace(node: ast.expr, frame: types.FrameType, origins: Origins) -> tuple[int, tuple[object, ...]] | None:
    """The origin of an expression: of its value, or of the container that it was looked up in."""
    found = origins.find(_value(node, frame))
    if found is None and isinstance(node, ast.Subscript):
        container, key = origins.find(_value(node.value, frame)), _value(node.slice, frame)
        if container and key is not MISSING:
            return container[0], (*container[1], key)
    return found


def _value(node: ast.expr, frame: types.FrameType) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, MISSING))
    if isinstance(node, ast.Subscript):
        container, key = _value(node.value, frame), _value(node.slice, frame)
        if type(container) is dict and isinstance(key, (str, int)):
            return container.get(key, MISSING)
        if type(container) is list and type(key) is int and -len(container) <= key < len(container):
            return container[key]
    return MISSING



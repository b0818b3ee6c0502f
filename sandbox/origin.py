"""Finds where a failing value came from: the call whose response it is part of, and the path in it.

Responses are remembered by the identity of their containers, so a value is recognised however many variables, loops
and functions it went through. The result is a claim that the host checks against its own journal.
"""

import ast
import os
import sys
import types

import planned

MAX_CONTAINERS = 200_000
MAX_STEPS_BACK = 5
MAX_MESSAGE = 2000  # as many as the host keeps
MISSING = object()
_CONTAINERS = (dict, list)  # a response has no other
_NOT_LOADED = ("failed to map segment", "cannot open shared object file")  # messages of the loader behind the walls
Place = tuple[int, tuple[object, ...]]
"""The number of a call, and a path in its response."""


class Origins:
    """The containers of all responses so far: identity -> (call number, path)."""

    def __init__(self) -> None:
        self._known: dict[int, Place] = {}
        self._alive: list[object] = []  # an identity is only good while its object lives

    def add(self, call: int, response: object) -> None:
        """Remember the containers of a response."""
        if type(response) not in _CONTAINERS:
            return
        todo: list[tuple[object, tuple[object, ...]]] = [(response, ())]
        self._alive.append(response)
        while todo and len(self._known) < MAX_CONTAINERS:
            value, path = todo.pop()
            if isinstance(value, dict):
                self._known[id(value)] = (call, path)
                todo += [(item, (*path, key)) for key, item in value.items() if type(item) in _CONTAINERS]
            elif isinstance(value, list):
                self._known[id(value)] = (call, path)
                todo += [(item, (*path, index)) for index, item in enumerate(value) if type(item) in _CONTAINERS]

    def find(self, value: object) -> Place | None:
        """Return where a list or dict stood in a response, if it did; of a tool's error, the call that it is of."""
        if type(value).__name__ == "ToolError" and isinstance(value, Exception):
            number = _number(value)
            return None if number is None else (number, ())
        return self._known.get(id(value)) if isinstance(value, (dict, list)) else None


def describe(error: BaseException, source: str, filename: str, origins: Origins) -> dict[str, object]:
    """Return an exception as plain data.

    These are type, message, tool (of a ToolError and of a StubError, which is a TypeError to the program), the
    argument that a stub would not take, the number of the call that failed, position in the program, origin of the
    value, length of the list that was too short, and a hint about a module that is not here.
    """
    kind = type(error).__name__
    report: dict[str, object] = {"type": "TypeError" if kind == "StubError" else kind, "message": _text(error)}
    report["tool"] = getattr(error, "tool", None) if kind in ("ToolError", "StubError") else None
    report["parameter"] = getattr(error, "parameter", None) if kind == "StubError" else None
    report["call"], report["line"], report["span"] = _failed_call(error), 0, None
    report["origin"], report["trace"], report["items"], report["hint"] = None, [], None, ""
    if isinstance(error, SyntaxError) and error.filename == filename:
        return report | {"line": error.lineno or 0}
    inner, trace = None, []
    for frame, position in _program_frames(error, filename):
        inner, report["line"], report["span"] = frame, position[0] or 0, list(position)
        trace.append([frame.f_code.co_name, position[0] or 0])
    report["trace"] = trace[-20:]
    if isinstance(error, planned.PlannedValue):
        report["origin"] = error.place
    elif inner is not None:
        try:
            failed = Failed(inner, source, report["span"], origins)
            report["items"], report["hint"] = failed.items(error), _import_hint(error)
            report["origin"] = failed.origin(str(report["message"]))
        except (Exception, planned.PlannedValue) as problem:  # an odd object: the report goes out without the claim
            report["origin_problem"] = type(problem).__name__
    return report


def _failed_call(error: BaseException) -> int | None:
    link: BaseException | None = error
    for _ in range(10):
        if link is None:
            break
        if type(link).__name__ == "ToolError":
            return _number(link)
        link = link.__cause__ or link.__context__
    return None


def _number(error: BaseException) -> int | None:
    number = getattr(error, "_call", None)
    return number if type(number) is int and number else None


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE]
    except (Exception, planned.PlannedValue):
        return "(no message: its __str__ failed)"


def _import_hint(error: BaseException) -> str:
    setting = "setting `sandbox_preload` or ATC_SANDBOX_PRELOAD"
    link: BaseException | None = error
    for _ in range(10):  # a package raises its own error from that of a part that failed
        if not isinstance(link, ImportError):
            return ""
        name = link.name if isinstance(link.name, str) else ""
        if any(words in _text(link) for words in _NOT_LOADED):
            return f"what has C parts must be preloaded: add {_package_of(str(link.path))!r} to the {setting}"
        if name and not _opens_files():
            return f"tier F has only preloaded modules, as no file can be opened: {setting}"
        if isinstance(link, ModuleNotFoundError) and name.split(".")[0] not in sys.stdlib_module_names:
            return f"programs have the standard library; other packages must be preloaded: {setting}"
        link = link.__cause__ or link.__context__
    return ""


def _package_of(path: str) -> str:
    for folder in sorted(sys.path, key=len, reverse=True):
        if folder and path.startswith(f"{folder}/"):
            *packages, file = path[len(folder) + 1 :].split("/")
            return ".".join(packages) or file.split(".")[0]
    return path


def _opens_files() -> bool:
    try:
        os.stat(os.path.dirname(os.__file__))
    except OSError:
        return False
    return True


def _program_frames(error: BaseException, filename: str):  # type: ignore[no-untyped-def]
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == filename:
            positions = list(tb.tb_frame.f_code.co_positions())
            index = tb.tb_lasti // 2
            line, end_line, column, end_column = (
                positions[index] if 0 <= index < len(positions) else (tb.tb_lineno,) * 4
            )
            yield tb.tb_frame, (tb.tb_lineno if line is None else line, end_line, column, end_column)
        tb = tb.tb_next


class Failed:
    """The expression that failed. Its parts are found again by look-ups of names and keys; nothing is executed."""

    def __init__(self, frame: types.FrameType, source: str, span: object, origins: Origins) -> None:
        self._frame, self._origins = frame, origins
        self._tree = ast.parse(source)
        self._nodes = _nodes_at(self._tree, span)

    def origin(self, message: str) -> list[object] | None:
        """The call and the path in its response of the part that failed; of several that of the null one."""
        claims = []
        for part in [part for node in self._nodes for part in _parts(node)]:
            found = self._trace(part)
            if found:
                path = [key if isinstance(key, (str, int)) else repr(key) for key in found[1]]
                claims.append((self._value(part), [found[0], path]))
        if "NoneType" in message:
            claims = [claim for claim in claims if claim[0] is None] or claims
        return claims[0][1] if claims else None

    def items(self, error: BaseException) -> int | None:
        """How many items there really are where a position was not there."""
        if type(error) is not IndexError:
            return None
        for node in self._nodes:
            if isinstance(node, ast.Subscript):
                container = self._value(node.value)
                if type(container) in (list, tuple, str):
                    return len(container)  # type: ignore[arg-type]
                if ast.unparse(node.slice) in ("0", "-1"):
                    return 0
        return None

    def _trace(self, node: ast.expr, depth: int = 0) -> Place | None:
        """The origin of an expression: of its value, or of the container that it was looked up in."""
        value = self._value(node)
        found = self._origins.find(value)
        if found is not None or depth > MAX_STEPS_BACK:
            return found
        if isinstance(node, ast.Subscript):
            return self._inside(node.value, self._value(node.slice))
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            return self._inside(node.func.value, self._value(node.args[0]))
        if isinstance(node, ast.Name) and value is not MISSING:
            return self._set_from(node, value, depth)
        return None

    def _inside(self, node: ast.expr, key: object) -> Place | None:
        container = self._origins.find(self._value(node))
        return (container[0], (*container[1], key)) if container and key is not MISSING else None

    def _set_from(self, name: ast.Name, value: object, depth: int) -> Place | None:
        """Where a variable has its value from: the last assignment before it, or the loop, that still gives just
        that."""
        for node in sorted(ast.walk(self._tree), key=lambda n: -getattr(n, "lineno", 0)):
            if isinstance(node, ast.Assign) and node.lineno <= name.lineno and _is_name(node.targets[0], name.id):
                found = self._trace(node.value, depth + 1) if self._value(node.value) is value else None
            elif isinstance(node, (ast.For, ast.comprehension)) and _is_name(node.target, name.id):
                found = self._item(self._value(node.iter), value)
            else:
                continue
            if found is not None:
                return found
        return None

    def _item(self, container: object, value: object) -> Place | None:
        found = self._origins.find(container)
        if found is None or type(container) is not list:
            return None
        index = next((i for i, item in enumerate(container) if item is value), None)
        return None if index is None else (found[0], (*found[1], index))

    def _value(self, node: ast.expr) -> object:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._frame.f_locals.get(node.id, self._frame.f_globals.get(node.id, MISSING))
        if isinstance(node, ast.Subscript):
            container, key = self._value(node.value), self._value(node.slice)
            if type(container) is dict and isinstance(key, (str, int)):
                return container.get(key, MISSING)
            if type(container) is list and type(key) is int and -len(container) <= key < len(container):
                return container[key]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            container, key = self._value(node.func.value), self._value(node.args[0])
            if type(container) is dict and isinstance(key, (str, int)):
                return container.get(key)
        return MISSING


def _is_name(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def _nodes_at(tree: ast.Module, span: object) -> list[ast.expr]:
    here = [n for n in ast.walk(tree) if isinstance(n, (ast.expr, ast.stmt)) and _span(n) == span]
    return [n for n in here if isinstance(n, ast.expr)] or [
        c for n in here for c in ast.iter_child_nodes(n) if isinstance(c, ast.expr)
    ]


def _span(node: ast.expr | ast.stmt) -> list[int | None]:
    return [node.lineno, node.end_lineno, node.col_offset, node.end_col_offset]


def _parts(node: ast.expr) -> list[ast.expr]:
    """What can have failed in an expression, the likeliest first (encoded columns count bytes, as ``ast`` does)."""
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return [node.value]
    if isinstance(node, ast.Call):
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*inner, *node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    return [node]

"""Tell a bug of a user's function from a refusal, and from an end of its host, by the exception that came out of it.

A function that was called with arguments that fit its schema fails in one of two ways. Other arguments may help: it
raised an exception of its own ("no such city"), or looked a value up that is not there. Or none can: the code is wrong.
Only the second ends a run, so whatever is uncertain counts as the first.
"""

from __future__ import annotations

import ast
import asyncio
import dis
import inspect
import linecache
import re
import signal
import sysconfig
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

from atc._host.syntax import syntax_tree, walk

_OF_CODE = (NameError, ImportError, AttributeError, TypeError)
_UNSURE = (ConnectionError, TimeoutError, InterruptedError, BlockingIOError, MemoryError, UnboundLocalError)
_ANYTHING = re.compile(r"\b(Any|object|Union)\b|^(dict|list|tuple|set)$|\|(?! None)")
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_EXPLICIT = ("RAISE_VARARGS", "RERAISE")


def is_bug(error: BaseException, function: Callable[..., Any]) -> bool:
    """Whether no other arguments of a function would help against an exception that it raised.

    So it is where Python itself raised one of its own exceptions, not a ``raise`` of the user's, and either

    - it is a wrong name, type, attribute or import in the user's own code, not about a ``None``, which may stand for
      something that was not found; or
    - the expression that failed takes nothing from the arguments.

    Args:
        error: what the function raised, with its traceback. Its arguments fitted their schema.
        function: the function.
    """
    if type(error).__module__ != "builtins" or not isinstance(error, Exception) or isinstance(error, _UNSURE):
        return False
    steps = list(_steps(error.__traceback__, _code_of(function)))
    if not steps:
        return False  # it never began, or hides behind a wrapper
    frame, at = steps[-1]
    own = _is_own(frame.f_code)
    if own and _operation(frame.f_code, at).startswith(_EXPLICIT):
        return False
    if own and isinstance(error, _OF_CODE) and not _of_none(error) and _is_typed(error, function):
        return not isinstance(error, AttributeError) or _operation(frame.f_code, at).startswith("LOAD_")
    return not _takes_arguments(*steps[0])


def is_of_host(error: BaseException) -> bool:
    """Whether what came out of a function's call is not the function's own: its caller gave it up, or a signal came.

    The handler of a signal runs amid whatever the main thread does. Python's own, for Ctrl-C, leaves no frame, so an
    interrupt that no statement raised is the user's, too.
    """
    if isinstance(error, asyncio.CancelledError):
        return True  # who made the call knows whether it was the function that cancelled it
    steps = list(_steps(error.__traceback__))
    if isinstance(error, GeneratorExit):
        return len(steps) == 1 and not _in_task()  # our own coroutine is closed
    amid = threading.current_thread() is threading.main_thread()
    if not (amid and steps and isinstance(error, KeyboardInterrupt | SystemExit)):
        return False
    handlers = (signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
    codes = {_code_of(getattr(handler, "func", handler)) for handler in handlers if callable(handler)}
    if any(frame.f_code in codes for frame, _ in steps):
        return True
    frame, at = steps[-1]
    silent = signal.getsignal(signal.SIGINT) is signal.default_int_handler and isinstance(error, KeyboardInterrupt)
    return silent and not _operation(frame.f_code, at).startswith(_EXPLICIT)


def _in_task() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # there is no loop any more
        return False


def _steps(trace: TracebackType | None, code: CodeType | None = None) -> Iterator[tuple[FrameType, int]]:
    inside = code is None
    while trace is not None:
        inside = inside or trace.tb_frame.f_code is code
        if inside:
            yield trace.tb_frame, trace.tb_lasti
        trace = trace.tb_next


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    unwrapped = inspect.unwrap(function)
    return getattr(getattr(unwrapped, "__func__", unwrapped), "__code__", None)


def _is_own(code: CodeType) -> bool:
    """Whether code is the user's: of a file that is no library's (what ``eval`` is given has none)."""
    name = code.co_filename
    return not name.startswith(("<", *_LIBRARIES)) and "-packages" not in name


def _operation(code: CodeType, at: int) -> str:
    return dis.opname[code.co_code[at]] if 0 <= at < len(code.co_code) else ""


def _of_none(error: BaseException) -> bool:
    return (error.obj is None and error.name is not None) if isinstance(error, AttributeError) else "None" in str(error)


def _is_typed(error: BaseException, function: Callable[..., Any]) -> bool:
    if not isinstance(error, TypeError | AttributeError):
        return True
    given = inspect.signature(function).parameters.values()
    empty = inspect.Parameter.empty
    return not any(p.annotation is empty or _ANYTHING.search(inspect.formatannotation(p.annotation)) for p in given)


# -- what an expression takes from the arguments -----------------------------------------------------------------------


def _takes_arguments(frame: FrameType, at: int) -> bool:
    """Whether the expression that failed in the function has anything from its arguments; true where it is unknown."""
    code = frame.f_code
    lines, positions = linecache.getlines(code.co_filename), list(code.co_positions())[at // 2 : at // 2 + 1]
    try:
        tree = syntax_tree("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    functions = (n for n in walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    body = next((n for n in functions if _begins(n) == code.co_firstlineno and n.name == code.co_name), None)
    if body is None or not positions:
        return True
    failed = [node for node in walk(body) if _span(node) == positions[0]]
    if not failed:
        return True
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARKEYWORDS)]
    return bool(_names(failed[0]) & _tainted(body, set(given)))


def _begins(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _span(node: ast.AST) -> tuple[int | None, ...]:
    return tuple(getattr(node, name, None) for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"))


def _names(node: ast.AST | None) -> set[str]:
    return {n.id for n in walk(node) if isinstance(n, ast.Name)} if node is not None else set()


def _tainted(body: ast.AST, names: set[str]) -> set[str]:
    while True:
        found = {name for taken, into in _flows(body) if _names(taken) & names for name in _names(into)}
        if found <= names:
            return names
        names = names | found


def _flows(body: ast.AST) -> Iterator[tuple[ast.AST | None, ast.AST]]:
    for node in walk(body):
        match node:
            case ast.Assign():
                for target in node.targets:
                    yield node.value, target
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                yield node.value, node.target
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                yield node.iter, node.target
            case ast.withitem(optional_vars=ast.AST() as target):
                yield node.context_expr, target
            case ast.Call(func=ast.Attribute(value=receiver)):
                yield node, receiver
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node, ast.Name(name)
            case ast.Match():
                for case in node.cases:
                    yield node.subject, case

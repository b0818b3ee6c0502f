"""Values that a program may hold and that are not there: of a planned call, and of a response that cannot be had.

Nobody knows the value of a call that a dry run planned and did not make. A program can keep it, put it into containers,
look up its parts, write it into an f-string and pass it on to other calls. Whatever decides or computes by it ends the
program, so that nothing is made up; but Python asks no object about `is` and `type()`, nor about a pattern of a list.
The host lists what was planned until then.
"""

import ast
import sys
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

MAX_STEPS = 12  # as many steps of a path as the host takes
Place = tuple[int, tuple[object, ...]]
"""The number of a planned call, and a path in what it will return."""


class Ended(BaseException):
    """The program has come to its end: it needed a value that is not known. No handler of an honest one catches it."""


class PlannedValue(Ended):
    """The program decides or computes by a value that is not known."""

    def __init__(self, tool: str, place: Place) -> None:
        super().__init__(f"what {tool} returns is not known in a dry run")
        self.tool, self.place = tool, place


_made: list[int] = []
"""A number for each value that is not known: empty in every run but a dry one."""
_first: list[BaseException] = []
"""What ended the program: one that catches it all the same makes no more calls, and gives no answer."""


class Unknown:
    """What a planned call will return, or a part of that."""

    __slots__ = ("_place", "_tool")

    def __init__(self, tool: str, number: int, path: tuple[object, ...] = ()) -> None:
        object.__setattr__(self, "_tool", tool)
        object.__setattr__(self, "_place", (number, path))
        _made.append(number)

    def __getitem__(self, key: object) -> "Unknown":
        if type(key) not in (str, int) or len(place_of(self)[1]) >= MAX_STEPS:
            stop(self)
        number, path = place_of(self)
        return Unknown(object.__getattribute__(self, "_tool"), number, (*path, key))

    def get(self, key: object, default: object = None) -> "Unknown":
        """A member, as of a dict. Whether it will be there is not known; nor is it here."""
        return self[key]

    def __copy__(self) -> "Unknown":
        return self

    def __deepcopy__(self, memo: object) -> "Unknown":
        return self

    def __getattr__(self, name: str) -> NoReturn:
        stop(self)

    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]  # isinstance() decides by it
        stop(self)


class UnknownText(Unknown):
    """An f-string that holds such a value: it can be passed on, and has no parts."""

    __slots__ = ("_parts",)

    def __init__(self, first: Unknown, parts: list[object] | None) -> None:
        super().__init__(object.__getattribute__(first, "_tool"), *place_of(first))
        object.__setattr__(self, "_parts", parts)

    def __getitem__(self, key: object) -> NoReturn:
        stop(self)

    def get(self, key: object, default: object = None) -> NoReturn:
        """A text has no such method."""
        stop(self)


def stop(value: Unknown, *_: object) -> NoReturn:
    """End the program, which needs a value that is not known.

    Raises:
        PlannedValue: always.
    """
    error = PlannedValue(object.__getattribute__(value, "_tool"), place_of(value))
    _first.append(error)
    raise error


TEXT = "_atc_text"
"""What stands for an f-string in a dry run."""
_CONVERSIONS: dict[int, Callable[[Any], Any]] = {
    -1: lambda value: value,
    ord("s"): str,
    ord("r"): repr,
    ord("a"): ascii,
}


def text(*parts: Any) -> object:
    """The value of an f-string: of each part a constant text, or its value, conversion and format.

    Where a value is not known, neither is the text.
    """
    values: list[Any] = [value for part in parts if type(part) is tuple for value in (part[0], part[2])]
    for value in values:
        if type(value) in (Unknown, UnknownText):
            return UnknownText(value, _text_parts(parts))
    return "".join(part if type(part) is str else format(_CONVERSIONS[part[1]](part[0]), part[2]) for part in parts)


def _text_parts(parts: tuple[Any, ...]) -> list[object] | None:
    made: list[object] = []
    for part in parts:
        if type(part) is str:
            made.append({"value": part})
        elif type(part[2]) in (Unknown, UnknownText):
            return None
        elif type(part[0]) in (Unknown, UnknownText):
            form = form_of(part[0]) if part[1] in (-1, ord("s")) and part[2] == "" else None
            if form is None:
                return None
            made.append(form)
        else:
            made.append({"value": format(_CONVERSIONS[part[1]](part[0]), part[2])})
    return made


def is_instance(value: object, classes: Any) -> bool:
    """Say whether a value is of a class, as the built-in does; of a planned call's value only that it is no exception.

    A plan is what happens if each of its calls succeeds, so ``parallel(…, settle=True)`` has values there.
    """
    if type(value) in (Unknown, UnknownText):
        named = classes if type(classes) is tuple else (classes,)
        if all(type(each) is type and issubclass(each, BaseException) for each in named):
            return False
    return isinstance(value, classes)


class Texts(ast.NodeTransformer):
    """Lets :func:`text` make the f-strings of a program."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """Return the call that stands for an f-string."""
        parts = [self._part(part) if isinstance(part, ast.FormattedValue) else part for part in node.values]
        return ast.copy_location(ast.Call(ast.Name(TEXT, ast.Load()), parts, []), node)

    def _part(self, part: ast.FormattedValue) -> ast.expr:
        value = self.visit(part.value)
        spec = self.visit(part.format_spec) if part.format_spec is not None else ast.Constant("")
        return ast.copy_location(ast.Tuple([value, ast.Constant(part.conversion), spec], ast.Load()), part)


def rewritten(source: str, filename: str) -> ast.Module:
    """A program whose f-strings may hold values that are not known. Its lines stay where they are.

    Raises:
        SyntaxError: it is no program.
    """
    tree: ast.Module = Texts().visit(ast.parse(source, filename))
    return ast.fix_missing_locations(tree)


def watch(filename: str) -> None:
    """End the program of this file at the first ``TypeError`` after a call was planned, whoever would catch it.

    With it the C parts of Python refuse what they do not know, and a handler would make something up.
    """

    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != filename:
            return None
        frame.f_trace_lines = False
        if event == "exception" and _made and isinstance(argument[1], TypeError):
            _first.append(argument[1].with_traceback(argument[2]))
            raise Ended
        return trace

    threading.settrace(trace)
    sys.settrace(trace)


def stopped() -> BaseException | None:
    """What has ended the program, if it needed such a value."""
    return _first[0] if _first else None


def place_of(value: Unknown) -> Place:
    """The planned call and the path in what it will return."""
    place: Place = object.__getattribute__(value, "_place")
    return place


def places_in(value: object) -> list[Place]:
    """The unknown parts of what a program passes on, in lists, tuples and dicts too."""
    found: list[Place] = []
    todo: list[Any] = [value] if _made else []
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if type(part) in (Unknown, UnknownText):
            found.append(place_of(part))
        elif isinstance(part, (list, tuple, dict)) and id(part) not in seen:
            seen.add(id(part))
            todo += [*part.values()][::-1] if isinstance(part, dict) else [*part][::-1]
    return found


def form_of(value: object, convert: Callable[[object], object] = str) -> dict[str, object] | None:
    """Return how a value that is not known is made of what planned calls will answer; ``None`` where that is not said.

    Args:
        value: that rests on such calls.
        convert: makes a JSON value of a part that is known.
    """
    if type(value) is Unknown:
        return {"hole": place_of(value)}
    if type(value) is UnknownText:
        parts = object.__getattribute__(value, "_parts")
        return None if parts is None else {"text": parts}
    if not places_in(value):
        return {"value": convert(value)}
    if isinstance(value, dict) and all(type(key) is str for key in value):
        items = {key: form_of(each, convert) for key, each in value.items()}
        return None if None in items.values() else {"object": items}
    if isinstance(value, (list, tuple)):
        listed = [form_of(each, convert) for each in value]
        return None if None in listed else {"list": listed}
    return None


class Unread:
    """The response of a call that was made and whose response cannot be handed over: it is too large, or no JSON.

    A program can keep it and never look at it. Whatever reads it is told what happened: no null stands in its place.

    Args:
        failed: makes the error.
    """

    __slots__ = ("_failed",)

    def __init__(self, failed: Callable[[], Exception]) -> None:
        object.__setattr__(self, "_failed", failed)

    def __getitem__(self, key: object) -> NoReturn:
        read(self)

    def __copy__(self) -> "Unread":
        return self

    def __deepcopy__(self, memo: object) -> "Unread":
        return self

    def __getattr__(self, name: str) -> NoReturn:
        read(self)

    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]  # isinstance() decides by it
        read(self)


def read(value: Unread, *_: object) -> NoReturn:
    """Say why there is no value.

    Raises:
        Exception: the one that the value was made with.
    """
    failed: Callable[[], Exception] = object.__getattribute__(value, "_failed")
    raise failed()


OPERATIONS = """
bool str repr format bytes int float complex index len length_hint iter next contains reversed hash call enter exit
aenter aexit await aiter anext eq ne lt le gt ge neg pos abs invert round trunc floor ceil setitem delitem setattr
delattr fspath reduce reduce_ex add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or radd rsub
rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand rxor ror iadd isub imul imatmul itruediv
ifloordiv imod ipow ilshift irshift iand ixor ior
""".split()
"""All that Python asks an object for, but for its attributes and its parts."""
for _name in OPERATIONS:
    setattr(Unknown, f"__{_name}__", stop)
    setattr(Unread, f"__{_name}__", read)
Mapping.register(Unknown)  # or a `match` would take its patterns of objects for wrong, without asking

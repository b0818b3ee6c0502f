"""What a user's function says of itself: its docstring, read into parts, and the keys of its ``TypedDict`` types."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import typing_extensions

from atc.schemas.protocol import Status


@dataclass(frozen=True)
class Docs:
    """The parts of a docstring."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    statuses: tuple[Status, ...] = ()


def read_docstring(function: Callable[..., Any]) -> Docs:
    """Take apart a docstring in Google's, Numpy's or Sphinx's style, whichever it is."""
    text = inspect.getdoc(function)
    if not text:
        return Docs()
    if "\n" not in text:
        return Docs(text.strip())  # in no style has one line parts
    import griffe  # only here: a toolset of short docstrings need not pay for it

    quiet: Any = {style: {"warnings": False} for style in ("google", "numpy", "sphinx")}
    sections = griffe.parse_auto(griffe.Docstring(text, lineno=1), per_style_options=quiet, default="google")
    body: list[str] = []
    parameters: dict[str, str] = {}
    returns: list[str] = []
    statuses: dict[int | str, str] = {}
    for section in sections:
        if section.kind is griffe.DocstringSectionKind.text:
            body.append(section.value.strip())
        elif section.kind is griffe.DocstringSectionKind.admonition:
            body.append(f"{section.title}: {section.value.contents}".strip())
        elif section.kind is griffe.DocstringSectionKind.parameters:
            parameters |= {item.name.lstrip("*"): _one_line(item.description) for item in section.value}
        elif section.kind is griffe.DocstringSectionKind.returns:
            returns += [_one_line(item.description) for item in section.value]
        elif section.kind is griffe.DocstringSectionKind.raises:
            statuses |= dict(_status(str(item.annotation), _one_line(item.description)) for item in section.value)
    return Docs(
        "\n\n".join(filter(None, body)),
        parameters,
        " ".join(returns),
        tuple(Status(code=code, description=meaning) for code, meaning in statuses.items()),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _status(exception: str, description: str) -> tuple[int | str, str]:
    word, colon, rest = description.partition(":")
    word = word.strip("` ")
    if exception.rpartition(".")[2] == "ToolError" and colon and word.isidentifier():
        return word, rest.strip()
    return exception, description


def with_modern_typeddicts(hint: Any) -> Any:
    """Return a type hint in which every ``typing.TypedDict``, however deep, is one that pydantic accepts.

    A hint without any is returned as it is. A TypedDict that refers to itself is left alone.
    """
    return hint if sys.version_info >= (3, 12) else _modern(hint, ())


def _modern(hint: Any, inside: tuple[Any, ...]) -> Any:
    if typing.is_typeddict(hint) and hint not in inside:
        return _rebuilt(hint, (*inside, hint))
    arguments = typing.get_args(hint)
    if not arguments or typing.get_origin(hint) is typing.Literal:
        return hint
    made = tuple(_modern(argument, inside) for argument in arguments)
    if all(new is old for new, old in zip(made, arguments, strict=True)):
        return hint
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return functools.reduce(operator.or_, made)
    if typing.get_origin(hint) is typing.Annotated:
        return typing.Annotated[(made[0], *hint.__metadata__)]
    origin = typing.get_origin(hint)
    return origin[made if len(made) > 1 else made[0]] if hasattr(origin, "__class_getitem__") else hint.copy_with(made)


def keys_of(hint: Any) -> dict[str, tuple[Any, bool]]:
    """The keys of a TypedDict: the type of each without qualifiers, and whether it is required.

    The class itself does not know where its module has ``from __future__ import annotations``: then
    ``NotRequired[int]`` was a text when the class was made, and the key is taken for required.

    Raises:
        NameError: a type is not to be found at the top level of its module.
    """
    return {
        name: _unqualified(field, name in hint.__required_keys__)
        for name, field in typing_extensions.get_type_hints(hint, include_extras=True).items()
    }


def _unqualified(hint: Any, required: bool) -> tuple[Any, bool]:
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return _unqualified(typing.get_args(hint)[0], origin is typing.Required)
    if origin is typing_extensions.ReadOnly:
        return _unqualified(typing.get_args(hint)[0], required)
    if origin is typing.Annotated:
        inner, required = _unqualified(hint.__origin__, required)
        return typing.Annotated[(inner, *hint.__metadata__)], required
    return hint, required


def _rebuilt(hint: Any, inside: tuple[Any, ...]) -> Any:
    fields = {}
    for name, (kind, required) in keys_of(hint).items():
        wrapper = typing_extensions.Required if required else typing_extensions.NotRequired
        fields[name] = wrapper[_modern(kind, inside)]
    make: Any = typing_extensions.TypedDict  # its name is known at run time only, which no type checker allows
    made = make(hint.__name__, fields)
    made.__doc__, made.__module__ = hint.__doc__, hint.__module__
    return made

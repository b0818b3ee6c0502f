"""``typing.TypedDict`` for pydantic, which before Python 3.12 takes only the one of ``typing_extensions``."""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing
from typing import Any

import typing_extensions


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


def _rebuilt(hint: Any, inside: tuple[Any, ...]) -> Any:
    fields = {}
    for name, field in typing.get_type_hints(hint, include_extras=True).items():
        if typing.get_origin(field) in (typing.Required, typing.NotRequired):
            field = typing.get_args(field)[0]
        wrapper = typing_extensions.Required if name in hint.__required_keys__ else typing_extensions.NotRequired
        fields[name] = wrapper[_modern(field, inside)]
    make: Any = typing_extensions.TypedDict  # its name is known at run time only, which no type checker allows
    made = make(hint.__name__, fields)
    made.__doc__, made.__module__ = hint.__doc__, hint.__module__
    return made

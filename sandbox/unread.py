"""The response of a call that was made and whose response cannot be handed over: it is too large, or no JSON.

A program can keep it and never look at it. Whatever reads it is told what happened: no null stands in its place.
"""

from collections.abc import Callable
from typing import NoReturn

import planned


class Unread:
    """Raises an error wherever it is read.

    Args:
        failed: makes the error.
    """

    __slots__ = ("_failed",)

    def __init__(self, failed: Callable[[], Exception]) -> None:
        object.__setattr__(self, "_failed", failed)

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


for _name in (*planned.OPERATIONS, "getitem"):
    setattr(Unread, f"__{_name}__", read)

"""The calls of a program: what it asks of the host and what it gets, one reply for each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from atc._records.origins import CallOrigins


class CallRequest(NamedTuple):
    """A call as the program asked for it.

    Attributes:
        number: the program's own number of the call; numbers rise.
        tool: the tool's name.
        arguments: JSON values and bytes by parameter.
        line: of the program, by its own claim; 0 when unknown.
        page: the page of an ``all_pages`` that the host reads, from 1; 0 for a call by itself.
        unknown: arguments that rest on calls which a dry run planned, by its own claim; they are not in ``arguments``.
            Each has the program's numbers of those calls, with paths in their responses.
        forms: how such arguments are made of these responses, of those that have a form (:mod:`atc.calls.forms`);
            ``None`` of a sandbox that does not say it.
        origins: where the arguments of a call that no program makes come from, if its caller knows; never by a sandbox.
        outer: the outermost line on the way to the call, of a program that calls kept programs; 0 when unknown.
        within: the kept program that its line belongs to; empty without one. It is a claim, as the line is.
    """

    number: int
    tool: str
    arguments: dict[str, Any]
    line: int
    page: int = 0
    unknown: Mapping[str, Sequence[tuple[int, tuple[str | int, ...]]]] = MappingProxyType({})
    forms: Mapping[str, Any] | None = None
    origins: CallOrigins | None = None
    outer: int = 0
    within: str = ""

    @property
    def shown_line(self) -> int:
        """Return the line of its author's own text that led to the call."""
        return self.outer if self.within else self.line


class CallReply(NamedTuple):
    """Holds what the host answers to a call: a value, or an error that the program may catch as ``ToolError``.

    ``planned``: a dry run did not make the call, so nobody knows the value. A program can hand it on, and ends where it
    decides or computes by it.

    ``ends``: the program ends here, as one that ran to its end without an answer. It gets no reply.

    ``done``: the call was made, and ``error`` says why its response cannot be had. It is raised where the program reads
    the value, and not by the call: a program that needs no response goes on.

    ``passed_s``: how long the program has run, for the clock of one with a start; ``None``: no longer than was said.
    """

    value: Any = None
    error: str | None = None
    status: int | str | None = None
    planned: bool = False
    ends: bool = False
    done: bool = False
    passed_s: float | None = None


CallHandler = Callable[[CallRequest], Awaitable[CallReply]]

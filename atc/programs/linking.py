"""Join a program with the kept programs that it calls, so that it runs as one text.

The program's own text stands first, unchanged: its lines keep their numbers. Behind it stands one function for each
kept program that it calls, itself or by another one; the sandbox defines these first (``Job.hoisted``). So a call that a
kept program makes is an ordinary call of the run, and needs its own permission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from atc.errors import UsageError
from atc.programs.program import Program
from atc.tools.tool import Tool


class NotLinked(UsageError):
    """A program cannot be joined with a kept program that it calls; the message says which, why, and what to do."""


@dataclass(frozen=True)
class LinkedPart:
    """Says where the function of a kept program stands in a linked text.

    Attributes:
        name: of the kept program, as programs call it.
        first, last: its lines, from 1.
        lines: by line of the linked text, the line of the kept program's own text.
    """

    name: str
    first: int
    last: int
    lines: Mapping[int, int]


@dataclass(frozen=True)
class Linked:
    """A program joined with the kept programs that it calls.

    Attributes:
        own: the program as its author wrote it.
        source: the whole text.
        hoisted: how many statements at its end are run first.
        parts: where each kept program stands.
    """

    own: Program
    source: str
    hoisted: int
    parts: tuple[LinkedPart, ...]

    def within(self, line: int) -> str:
        """Return the name of the kept program that a line of the whole text belongs to; empty for the program's own."""
        part = self._part(line)
        return "" if part is None else part.name

    def line_in_kept(self, line: int) -> int:
        """Return the line of the kept program's own text; 0 where the line is not of one."""
        part = self._part(line)
        return 0 if part is None else part.lines.get(line, 0)

    def _part(self, line: int) -> LinkedPart | None:
        return next((part for part in self.parts if part.first <= line <= part.last), None)


def link(program: Program, tools: Mapping[str, Tool]) -> Linked | None:
    """Join a program with the kept programs that it names, and those that these name.

    Args:
        program: as its author wrote it.
        tools: all that there are, by name: kept programs, and the tools that these call.

    Returns:
        The linked program; ``None`` where it names no kept program, or is no program.

    Raises:
        NotLinked: a kept program calls itself, is nested too deeply, is not fit to be a function
            (:func:`unfit_constructs`), or calls a tool that is not there; or the whole is too long.
    """
    raise NotImplementedError


@dataclass(frozen=True)
class Unfit:
    """Names what keeps a program from being kept.

    Attributes:
        construct: as it is written: ``global``, ``exec()``, ``look()``, ``from math import *``.
        line: of the program, from 1.
    """

    construct: str
    line: int


def unfit_constructs(program: Program) -> tuple[Unfit, ...]:
    """Return what a program has that a kept program cannot have, in the order of its lines.

    A kept program becomes the body of a function: it cannot reach the names of a module (``global``, ``globals()``,
    ``locals()``, ``vars()``, ``dir()``, ``exec``, ``eval``, ``from … import *``), nor end the program that calls it
    (``exit()``, ``quit()``, ``sys.exit()``, ``SystemExit``), nor look (``look()``).

    Raises:
        NotParsed: it is no program.
    """
    raise NotImplementedError

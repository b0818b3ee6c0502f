"""One version of a program, and what is derived from its source: parsed once, analysed once for each set of tools."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping

from atc._host.lazy import lazy
from atc._host.syntax import child_nodes, syntax_tree, walk
from atc.programs.analysis.flow import Flow
from atc.programs.syntax import sets_answer
from atc.schemas.protocol import Protocol

MAX_SOURCE = 60_000
"""Characters of a program; a longer one is refused unread."""
MAX_NESTING = 80
"""Brackets open at once; more is refused before Python's parser sees it."""
MAX_DEPTH = 120
"""Levels of the syntax tree."""
_LONG_NUMBER = re.compile(r"0[xob][0-9a-f_]{2000}", re.IGNORECASE)


class NotParsed(Exception):
    """Source that is no Python program. ``line`` is 0 when the whole is at fault."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message, self.line = message, line


class Program:
    """One version of a program. Equal to every other program of the same source; nothing in it is ever changed.

    It is made where a reply is read (:func:`atc.programs.extract.extract`) and handed on to repair, check and
    attribution. A repair makes a new one. The syntax tree is shared: who rewrites nodes copies them first.

    Args:
        source: the text, with lines that end in ``\\n``.
        hoisted: how many statements at its end run first (:mod:`atc.programs.linking`); its tree begins with them.
    """

    def __init__(self, source: str, hoisted: int = 0) -> None:
        self.source, self.hoisted = source, hoisted
        self._flows: dict[tuple[int, ...], tuple[tuple[Protocol, ...], Flow]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __repr__(self) -> str:
        return f"Program({self.source!r})"

    @property
    def tree(self) -> ast.Module | None:
        """Return the syntax tree; ``None`` where the source is no program (see :attr:`problem`)."""
        return self._parsed if isinstance(self._parsed, ast.Module) else None

    @property
    def module(self) -> ast.Module:
        """Return the syntax tree of a program that is known to parse.

        Raises:
            NotParsed: the source is no program.
        """
        if isinstance(self._parsed, NotParsed):
            raise self._parsed
        return self._parsed

    @property
    def problem(self) -> NotParsed | None:
        """Return why the source is no program; ``None`` where it is one."""
        return self._parsed if isinstance(self._parsed, NotParsed) else None

    @lazy
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return all nodes of the tree, as ``ast.walk`` gives them.

        Raises:
            NotParsed: the source is no program.
        """
        return tuple(walk(self.module))

    @lazy
    def sets_answer(self) -> bool:
        """Return whether some statement gives the module's ``answer`` a value; not where the source is no program."""
        return self.tree is not None and sets_answer(self.tree)

    @lazy
    def lines(self) -> list[str]:
        """Return the lines of the source, without their ends."""
        return self.source.split("\n")

    def line(self, number: int) -> str:
        """Return the text of a line, counted from 1, without its margin; empty where there is none."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def flow(self, protocols: Mapping[str, Protocol]) -> Flow:
        """Return the data flow of this program over these tools; analysed once for the same protocols.

        Raises:
            NotParsed: the source is no program.
        """
        key = tuple(map(id, protocols.values()))  # valid as long as the protocols live: they are kept beside the flow
        if key not in self._flows:
            self._flows[key] = (tuple(protocols.values()), Flow(self.module, protocols))
        return self._flows[key][1]

    @lazy
    def _parsed(self) -> ast.Module | NotParsed:
        try:
            tree = parse(self.source)
        except NotParsed as problem:
            return problem
        if self.hoisted:
            tree.body = tree.body[-self.hoisted :] + tree.body[: -self.hoisted]
        return tree


def parse(source: str) -> ast.Module:
    """Parse a program, with size and nesting bounded first. The only way from a program's text to its tree.

    Raises:
        NotParsed: it is too long, nested too deeply, or not Python.
    """
    if len(source) > MAX_SOURCE:
        raise NotParsed(f"the program has {len(source):,} characters; the limit is {MAX_SOURCE:,}")
    depth = 0
    for bracket in re.finditer(r"[()\[\]{}]", source):  # those in texts count too: a bound need not be exact
        depth += 1 if bracket[0] in "([{" else -1
        if depth > MAX_NESTING:
            raise NotParsed(f"more than {MAX_NESTING} brackets are open at once")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = syntax_tree(source)
    except SyntaxError as error:
        raise NotParsed(f"syntax error: {error.msg}", error.lineno or 0) from None
    except UnicodeEncodeError:
        raise NotParsed("not a program: it holds a lone surrogate, which is no character") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotParsed(f"not a program: {error or type(error).__name__}") from None
    if (line := _too_deep(tree)) is not None:
        raise NotParsed(f"nested deeper than {MAX_DEPTH} levels", line)
    for node in walk(tree) if _LONG_NUMBER.search(source) else ():
        if isinstance(node, ast.Constant) and type(node.value) is int:
            node.value = _Number(node.value)
    return tree


class _Number(int):
    """A number that can always be written out: Python refuses that in decimal beyond some thousands of digits."""

    def __repr__(self) -> str:
        return hex(self)

    def __neg__(self) -> _Number:
        return _Number(-int(self))

    def __pos__(self) -> _Number:
        return self


def _too_deep(tree: ast.Module) -> int | None:
    """Return the line from which the tree is too deep to be walked by functions that call themselves."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in child_nodes(node)]
        if not level:
            return None
    return min(getattr(node, "lineno", 0) for node in level)

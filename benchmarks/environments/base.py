"""What an environment is: tasks with outcomes that can be checked, and tools that count their own calls."""

from __future__ import annotations

import abc
import ast
import gzip
import json
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.calls.json_values import canonical
from atc.errors import EnvironmentProblem, ToolError, UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool, Toolset, Transport

GoldCall = tuple[str, dict[str, Any]]
"""A call of a task's own solution: the tool's name and its arguments."""


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        id: its name, unique in its environment.
        text: what a user asks.
        tools: the names of the tools that are offered.
        stated: whether the text says everything that the solution needs. A data set may cut a text short or leave
            arguments out; no system can solve such a task but by luck.
    """

    id: str
    text: str
    tools: tuple[str, ...]
    stated: bool = True


@dataclass(frozen=True)
class Gold:
    """A task's own solution, as far as it can be executed.

    Attributes:
        calls: in their order.
        answer: what the solution answers; ``None`` where only what the calls left behind is judged.
        spoil: a call that makes a solved task unsolved, for tasks whose solution changes nothing.
        judged: whether what is answered counts; else any answer will do, and each of the calls is needed.
        alternatives: other answers that are right after these calls. ``near``: answers that are nearly right and wrong.
            The self test holds the judge to both.
    """

    calls: tuple[GoldCall, ...] = ()
    answer: Any = None
    spoil: GoldCall | None = None
    judged: bool = True
    alternatives: tuple[Any, ...] = ()
    near: tuple[Any, ...] = ()


@dataclass(frozen=True)
class MadeCall:
    """One call that reached a tool.

    Attributes:
        done: false where the tool refused it and surely did nothing.
        answer: what it gave, or the sentence that it failed with.
        answered: whether it gave an answer: neither an error nor silence. What may have been done need not be answered.
    """

    tool: str
    arguments: dict[str, Any]
    effect: Effect
    done: bool
    answer: Any = None
    answered: bool = False


class Episode:
    """One try at a task: fresh tools, the calls that reached them, and a judge.

    Args:
        tools: the tools, with their effects.
        judge: tells whether an answer, and what the calls left behind, is right.
        gold: the calls of the task's own solution, where it is known; what it repeats is no needless repetition.

    Attributes:
        tools: the same tools; every call that reaches one is noted.
        calls: the calls so far, in the order in which they ended.
        gold_tools: of the solution.
        needed: how often the solution calls each tool; ``None`` where it is not known.
    """

    def __init__(self, tools: Toolset, judge: Callable[[Any], bool], gold: Iterable[GoldCall] | None = None) -> None:
        self.calls: list[MadeCall] = []
        self.tools = Toolset(Tool(tool.protocol, _Counted(tool, self.calls)) for tool in tools.values())
        self._judge = judge
        calls = None if gold is None else list(gold)
        self._gold = Counter((tool, canonical(arguments)) for tool, arguments in calls or ())
        self.needed = None if calls is None else Counter(tool for tool, _ in calls)
        self.gold_tools = None if self.needed is None else frozenset(self.needed)

    def check(self, value: Any) -> bool:
        """Tell whether the task is solved: ``value`` is the answer, as plain JSON values."""
        return self._judge(value)

    @property
    def writes(self) -> int:
        """Calls with an effect that were done."""
        return sum(self._written.values())

    @property
    def repeated_writes(self) -> int:
        """Effects that were done again with the same arguments, beyond what the task's own solution does."""
        return sum(max(0, times - max(1, self._gold[key])) for key, times in self._written.items())

    @property
    def forbidden_writes(self) -> int:
        """Effects of tools that the task's own solution has no use for, where it is known."""
        if self.gold_tools is None:
            return 0
        return sum(times for (tool, _), times in self._written.items() if tool not in self.gold_tools)

    @property
    def answered(self) -> Counter[str]:
        """How often each tool was called and gave an answer."""
        return Counter(call.tool for call in self.calls if call.answered)

    @property
    def path(self) -> float | None:
        """Path% of ATC §5 over calls: the share of the solution's calls that were made; ``None`` where it is not known.

        The solution calls each tool so many times, and so many calls of that tool count, whatever their arguments.
        A call that the tool refused, or that gave no answer, does not count.
        """
        return self._right / self.needed.total() if self.needed else None

    @property
    def precision(self) -> float | None:
        """Prec% of ATC §5 over calls: the share of the calls that are the solution's; ``None`` where there are none.

        What a call counts for in :attr:`path`, it counts for here. All other calls that reached a tool count as wrong:
        those of other tools, those beyond the solution's number, and those that the tool refused.
        """
        return self._right / len(self.calls) if self.needed is not None and self.calls else None

    @property
    def called(self) -> bool | None:
        """Whether each call of the solution was made and answered, whatever its arguments; ``None`` where they are not
        known."""
        return None if self.path is None else self.path == 1

    @property
    def path_names(self) -> float | None:
        """Path% over names: the share of the solution's tools of which a call was answered, however often."""
        return len(self.gold_tools & self.answered.keys()) / len(self.gold_tools) if self.gold_tools else None

    @property
    def precision_names(self) -> float | None:
        """Prec% over names: the share of the called tools that are the solution's and gave an answer."""
        if self.gold_tools is None or not self.calls:
            return None
        return len(self.gold_tools & self.answered.keys()) / len({call.tool for call in self.calls})

    @property
    def _right(self) -> int:
        """Answered calls that the solution makes too: of each tool at most as many as it makes."""
        return (self.answered & (self.needed or Counter())).total()

    @property
    def _written(self) -> Counter[tuple[str, str]]:
        done = (call for call in self.calls if call.done and call.effect is Effect.WRITE)
        return Counter((call.tool, canonical(call.arguments)) for call in done)


class Environment(abc.ABC):
    """A set of tasks over the same kind of tools.

    Attributes:
        name: as it is asked for and reported.
    """

    name: str

    @abc.abstractmethod
    def tasks(self) -> list[Task]:
        """All tasks, always in the same order.

        Raises:
            EnvironmentProblem: the data is not there; the message says what is missing.
        """

    @abc.abstractmethod
    def open(self, task: Task) -> Episode:
        """Begin a task anew: nothing is left of an earlier try."""

    @abc.abstractmethod
    def gold(self, task: Task) -> Gold | None:
        """The task's own solution; ``None`` where the data holds none that can be executed."""


# Parts that environments share --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Served:
    """A transport that is a plain function of the arguments."""

    answer: Callable[[dict[str, Any]], Any]

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        return self.answer(arguments)

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return None


def served(protocol: Protocol, answer: Callable[[dict[str, Any]], Any]) -> Tool:
    """A tool that is answered by a function; it may raise :class:`ToolError`."""
    return Tool(protocol, Served(answer))


class _Counted:
    """Passes calls on and notes them."""

    def __init__(self, tool: Tool, calls: list[MadeCall]) -> None:
        if tool.transport is None:
            raise UsageError(f"the tool {tool.name!r} of an environment cannot be called: give it a transport")
        self._tool, self._calls = tool, calls
        self._transport: Transport = tool.transport

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        done, answer, answered = True, None, False  # also where it ended without a word: it may have acted
        try:
            answer = await self._transport(arguments)
            answered = True
            return answer
        except ToolError as error:
            done, answer = error.outcome == "unknown", error.message
            raise
        finally:
            self._calls.append(MadeCall(self._tool.name, arguments, self._tool.protocol.effect, done, answer, answered))

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return self._transport.opened()


@dataclass(frozen=True)
class DataFolder:
    """The folder ``executable/<name>`` of a data directory.

    Args:
        directory: the data directory; ``None`` when none was given.
        name: the environment's.
        inside: the folder, where it is another one.
    """

    directory: Path | None
    name: str
    inside: str = ""

    @cached_property
    def path(self) -> Path:
        """
        Raises:
            EnvironmentProblem: there is no such folder.
        """
        if self.directory is None:
            raise EnvironmentProblem(f"{self.name} needs its data: give its directory with --data DIR or in ATC_DATA")
        path = self.directory / (self.inside or f"executable/{self.name}")
        if not path.is_dir():
            raise EnvironmentProblem(
                f"{self.name} has no data: there is no folder {path}; give the directory with --data DIR"
            )
        return path

    def lines(self, file: str) -> list[dict[str, Any]]:
        """The objects of a gzip file with a JSON object a line."""
        return [json.loads(line) for line in self._text(file).splitlines() if line]

    def document(self, file: str) -> Any:
        """The value of a gzip JSON file."""
        return json.loads(self._text(file))

    def _text(self, file: str) -> str:
        try:
            with gzip.open(self.path / file, "rt", encoding="utf-8") as text:
                return text.read()
        except (OSError, EOFError) as error:
            raise EnvironmentProblem(f"{self.name}: {self.path / file} cannot be read: {error}") from None


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda base, exponent: _power(base, exponent),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": math.sqrt,
    "abs": abs,
    "round": round,
    "min": min,
    "max": max,
    "log": math.log,
    "exp": math.exp,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_MAX_EXPRESSION = 1_000


def calculate(expression: str) -> float:
    """Compute arithmetic from its text; ``^`` is a power as ``**`` is.

    Raises:
        ToolError: it is no arithmetic, or its value is no number.
    """
    try:
        if len(expression) > _MAX_EXPRESSION:
            raise ValueError(f"it has over {_MAX_EXPRESSION} characters")
        value: float = _computed(ast.parse(expression.strip().replace("^", "**"), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError) as error:
        raise ToolError(f"cannot evaluate {expression[:200]!r}: {error}", status="invalid") from None
    return value


def _computed(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_computed(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _computed(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_computed(left), _computed(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_computed, args))
    raise ValueError(f"{ast.unparse(node)!r} is no arithmetic")


def _power(base: float, exponent: float) -> float:
    """Exact where that is small; else as floats, which overflow instead of growing without end."""
    small = abs(exponent) <= 64 and abs(base) < 1e15
    power: float = base**exponent if small else math.pow(base, exponent)
    return power

"""What the model makes of refused arguments (RETO §3.4, Alg. 1, tier 2): how often it is asked, and is right or wrong.

    python -m benchmarks.programs.repair_by_model run --data DIR --model NAME --out rows.jsonl
    python -m benchmarks.programs.repair_by_model table rows.jsonl

A *cell* is a call of a task's own solution with one mistake (:mod:`benchmarks.programs.repair_by_model_mistakes`). The
calls before it are made as the solution has them, in the jail, by a program that no model wrote. In front of the tool
stands a check, for most services that are recorded take anything: it refuses the mistake in words, as an HTTP 400, as
an exception of a function, or as an error in the body. So the words are ours, and what they are about is a real call.
The agent has its defaults, but for the check of programs and for revisions: a cell ends with its first program.

*Right* is a call that passed the check with the arguments that were meant. *Wrong* is any other that passed, and each
that passed where nothing says what was meant. A row holds no text of the data's; ``--show`` prints what was given, said
and sent.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import TypeAdapter

from atc.agent import Agent
from atc.calls.sending import CallPolicy
from atc.cli.console import err, guarded
from atc.errors import ToolError, UsageError
from atc.models.base import Model, NoModel, WrappedModel
from atc.models.fake import FakeModel
from atc.models.messages import ModelRequest, Reply, estimate_tokens
from atc.models.resolve import resolve_model
from atc.result import Effect
from atc.run.chain import Chain
from atc.run.writer import WritingOptions
from atc.sandboxes.contract import Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from atc.tools.functions import failure_of
from atc.tools.tool import Tool, Toolset, Transport
from benchmarks.common import AsJson, MaybeData, listed, print_json, show
from benchmarks.environments import Environment, Task, open_environment
from benchmarks.environments.base import GoldCall
from benchmarks.programs.argument_repair import same
from benchmarks.programs.argument_repair_mistakes import Draw
from benchmarks.programs.repair_by_model_mistakes import KINDS, Arguments, Mistake, Place
from benchmarks.tasks.read_tasks import in_part, order

ENVIRONMENTS = "atlas,api_bank,bfcl,comptoolbench,complexfuncbench"
TASKS = 40
"""Of an environment, drawn by a hash: enough for each kind of mistake."""
FORMS = ("status", "exception", "body")
"""How a refusal comes: as an HTTP status, as an exception of the user's function, as an error in a response."""
NO_MODEL, RIGHT, GUESS = "none", "right", "guess"
"""In place of a model: none; one that always knows what was meant; one that always guesses wrong, as a model might.
What the last two say shows what is let through of right repairs, and of wrong ones."""
Outcome = Literal["right", "wrong", "none"]
Gave = Literal["", "nothing", "the same", "right", "another"]


@dataclass(frozen=True)
class Cell:
    """A call with one mistake.

    Attributes:
        before: the calls that the program makes first.
        right: the call of the solution.
        key: the argument that is wrong.
        form: how the tool refuses it.
    """

    environment: str
    task: Task
    before: tuple[GoldCall, ...]
    right: GoldCall
    key: str
    kind: str
    mistake: Mistake
    form: str

    @property
    def id(self) -> str:
        return f"{self.environment}/{self.task.id}/{len(self.before)}/{self.key}/{self.kind}"

    @property
    def given(self) -> Arguments:
        """The arguments with the mistake."""
        others = {name: value for name, value in self.right[1].items() if name != self.key}
        return others if self.mistake.given is None else self.right[1] | {self.key: self.mistake.given}

    @property
    def program(self) -> str:
        """The calls before, and then the wrong one."""
        calls = [*self.before, (self.right[0], self.given)]
        lines = [
            f"r{number} = {name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
            for number, (name, arguments) in enumerate(calls)
        ]
        return "\n".join([*lines, f"answer = r{len(calls) - 1}"])


@dataclass(frozen=True)
class Row:
    """What came of a cell.

    Attributes:
        knowable: whether the arguments and the refusal say what was meant.
        asked: questions to the model.
        outcome: of the call: passed as it was meant, passed otherwise, not passed.
        gave: what the model gave: the right arguments, those that it was shown, others. Where it gave the right ones
            and the outcome is ``none``, they were not sent: a repair may say nothing that was not there.
        ruled: passed without a question, so after a repair by rule.
        prompt_tokens, completion_tokens: of the questions; characters by four where the model does not count.
    """

    cell: str
    kind: str
    form: str
    model: str
    tool: str
    knowable: bool
    asked: int = 0
    outcome: Outcome = "none"
    gave: Gave = ""
    ruled: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


_ROW = TypeAdapter(Row)


# -- the cells ---------------------------------------------------------------------------------------------------------


async def cells(environment: Environment, tasks: int = TASKS) -> list[Cell]:
    """The mistakes that can be made in the reads of an environment's solutions, always the same ones.

    Of a task that is stated and not sealed; a call counts only where the tool answers it as the solution has it.
    """
    open_tasks = [task for task in environment.tasks() if task.stated and in_part(environment.name, task.id, "open")]
    drawn = sorted(open_tasks, key=lambda task: order(environment, task))[:tasks]
    calls = {task.id: gold.calls for task in drawn if (gold := environment.gold(task)) is not None}
    values: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for name, arguments in (call for own in calls.values() for call in own):
        for key, value in arguments.items():
            values[name, key].append(value)
    found: list[Cell] = []
    for task in drawn:
        async for before, responses, right, tool in _answered(environment, task, calls.get(task.id, ())):
            for place in _places(task, responses, right, tool, values):
                for kind, make in KINDS.items():
                    if (mistake := make(place)) is not None:
                        form = FORMS[place.draw.number(f"form/{kind}/{place.key}", len(FORMS))]
                        found.append(Cell(environment.name, task, before, right, place.key, kind, mistake, form))
    return found


async def _answered(environment: Environment, task: Task, calls: Sequence[GoldCall]) -> Any:
    """Yield each read of a solution that its tool answers, with the calls and responses before it."""
    episode = environment.open(task)
    responses: list[Any] = []
    async with episode.tools.opened():
        for number, (name, arguments) in enumerate(calls):
            tool = episode.tools[name]
            assert tool.transport is not None  # an episode has no others
            try:
                response = await tool.transport(dict(arguments))
            except ToolError:
                return  # what comes after it hangs on it
            if tool.protocol.effect is Effect.READ:
                yield tuple(calls[:number]), list(responses), (name, dict(arguments)), tool
            responses.append(response)


def _places(
    task: Task, responses: list[Any], right: GoldCall, tool: Tool, values: Mapping[tuple[str, str], list[Any]]
) -> Iterator[Place]:
    schema = tool.protocol.parameters
    required, known = schema.get("required", ()), schema.get("properties", {})
    draw = Draw(f"{task.id}/{right[0]}/{json.dumps(right[1], sort_keys=True, default=str)}")
    for key, value in right[1].items():
        if isinstance(own := known.get(key), dict):
            others = values[right[0], key]
            yield Place(key, value, own, key in required, task.text.casefold(), responses, others, draw)


def drawn(found: Sequence[Cell], each: int) -> list[Cell]:
    """So many cells of each kind, by a hash; of one tool and argument one at first, and of all forms in turn."""
    chosen: list[Cell] = []
    for kind in KINDS:
        own = sorted(
            (cell for cell in found if cell.kind == kind), key=lambda cell: Draw(cell.id).number("draw", 2**62)
        )
        seen: Counter[Any] = Counter()
        ranked: list[tuple[int, int, Cell]] = []
        for number, cell in enumerate(own):
            place = cell.right[0], cell.key
            ranked.append((seen[place], number, cell))
            seen[place] += 1
        kept = [cell for _, _, cell in sorted(ranked, key=lambda entry: entry[:2])[:each]]
        first = Draw(kind).number("form", len(FORMS))
        chosen += [replace(cell, form=FORMS[(first + at) % len(FORMS)]) for at, cell in enumerate(kept)]
    return chosen


# -- one cell ----------------------------------------------------------------------------------------------------------


class Strict:
    """A transport with a check in front of it, which refuses what the mistake's service refuses.

    Attributes:
        accepted: the arguments of the calls that the check let through to the tool.
    """

    def __init__(self, inner: Transport, cell: Cell) -> None:
        self.accepted: list[Arguments] = []
        self._inner, self._cell = inner, cell

    async def __call__(self, arguments: Arguments) -> Any:
        cell = self._cell
        if not cell.mistake.accepts(arguments.get(cell.key)) and not self._is_of_before(arguments):
            if cell.form == "status":
                raise ToolError(cell.mistake.says, status=400)
            if cell.form == "exception":
                raise failure_of(ValueError(cell.mistake.says))
            return {"error": cell.mistake.says}
        if not self._is_of_before(arguments):
            self.accepted.append(arguments)  # a recorded service knows few calls, and refuses others that it would take
        return await self._inner(arguments)

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return self._inner.opened()

    def _is_of_before(self, arguments: Arguments) -> bool:
        """Whether it is a call that the program makes before, of the same tool."""
        return any(name == self._cell.right[0] and same(arguments, given) for name, given in self._cell.before)


class Writes(WrappedModel):
    """Gives the program, and leaves all other questions to the model.

    Attributes:
        asked: how often it was asked.
        replies: of the model.
    """

    def __init__(self, inner: Model, program: str) -> None:
        super().__init__(inner)
        self.asked = 0
        self.replies: list[Reply] = []
        self._program = program

    async def generate(self, request: ModelRequest) -> Reply:
        if request.format is not None:  # of the arguments; a program has none
            self.asked += 1  # also where it gives no reply
            reply = await super().generate(request)
            self.replies.append(reply)
            return reply
        text = f"```python\n{self._program}\n```"
        return Reply(text, "stop", estimate_tokens(request.messages), estimate_tokens(text), 0.0, model=self.name)


async def measured(environment: Environment, cell: Cell, model: Model, sandbox: Sandbox, *, shown: bool = False) -> Row:
    """Run a cell's program, and tell what reached the tool."""
    episode = environment.open(cell.task)
    tool = episode.tools[cell.right[0]]
    assert tool.transport is not None
    strict = Strict(tool.transport, cell)
    others = [other for other in episode.tools.values() if other.name != tool.name]
    tools = Toolset([*others, Tool(tool.protocol, strict)])
    writes = Writes(model, cell.program)
    async with tools.opened():
        agent = Agent(
            tools,
            model=writes,
            sandbox=sandbox,
            strategy=Chain(WritingOptions(check=False)),
            max_revisions=0,
            max_tools=max(20, len(tools)),
            sentence=False,
            keep_runs=False,
            learn=False,
            approve=lambda request: True,
            warnings="allow",
            policy=CallPolicy(retry_wait_s=0.001),
        )
        await agent.arun(cell.task.text)
    sent = strict.accepted[-1] if strict.accepted else None
    right = sent is not None and cell.mistake.knowable and same(sent, cell.right[1])
    row = Row(
        cell.id,
        cell.kind,
        cell.form,
        model.name,
        tool.name,
        cell.mistake.knowable,
        writes.asked,
        "none" if sent is None else "right" if right else "wrong",
        _gave(cell, writes.replies),
        sent is not None and not writes.asked,
        sum(reply.prompt_tokens for reply in writes.replies),
        sum(reply.completion_tokens for reply in writes.replies),
    )
    if shown:
        said = [reply.text for reply in writes.replies]
        _print({"cell": cell.id, "says": cell.mistake.says, "given": cell.given, "model": said, "sent": sent})
    return row


def scripted(name: str, cell: Cell) -> Model | None:
    """What stands in place of a model, for one cell; ``None`` where it has nothing to say."""
    if name == NO_MODEL:
        return NoModel()
    if cell.mistake.guess is None if name == GUESS else not cell.mistake.knowable:
        return None
    said = cell.right[1] if name == RIGHT else cell.right[1] | {cell.key: cell.mistake.guess}
    return FakeModel([json.dumps(said, default=str)] * 2, name=name)


def _gave(cell: Cell, replies: Sequence[Reply]) -> Gave:
    if not replies:
        return ""
    value = replies[-1].value
    if not isinstance(value, dict):
        return "nothing"
    if same(value, cell.given):
        return "the same"
    return "right" if cell.mistake.knowable and same(value, cell.right[1]) else "another"


def _print(line: Mapping[str, Any]) -> None:
    print(json.dumps(line, ensure_ascii=False, default=str), flush=True)


# -- the command -------------------------------------------------------------------------------------------------------


def read_rows(files: Sequence[Path]) -> list[Row]:
    """The rows of some files.

    Raises:
        UsageError: a line is none.
    """
    rows = []
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.exists() else (), 1):
            try:
                rows.append(_ROW.validate_json(line))
            except ValueError as error:
                raise UsageError(f"{file}, line {number} is no row of this benchmark: {error}") from None
    return rows


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each kind of mistake what came of it, and a last line for all."""
    made = []
    for kind in [*KINDS, "all"]:
        own = [row for row in rows if kind in (row.kind, "all")]
        if not own:
            continue
        asked = [row for row in own if row.asked]
        made.append(
            {
                "mistake": kind,
                "knowable": "" if kind == "all" else "yes" if own[0].knowable else "no",
                "calls": len(own),
                "by rule": sum(row.ruled and row.outcome == "right" for row in own),
                "by rule, wrong": sum(row.ruled and row.outcome == "wrong" for row in own),
                "asked": len(asked),
                "right": sum(row.outcome == "right" for row in asked),
                "wrong": sum(row.outcome == "wrong" for row in asked),
                "right, not sent": sum(row.outcome == "none" and row.gave == "right" for row in asked),
                "other, not sent": sum(row.outcome == "none" and row.gave == "another" for row in asked),
                "given back": sum(row.gave in ("the same", "nothing") for row in asked),
                "tokens a question": round(
                    sum(row.prompt_tokens + row.completion_tokens for row in asked)
                    / max(1, sum(row.asked for row in asked))
                ),
            }
        )
    return made


app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command("run")
@guarded
def run(
    out: Annotated[Path, typer.Option(help="Rows are written to its end; cells that it has are not run again.")],
    data: MaybeData = None,
    env: Annotated[str, typer.Option(help="Environments, with commas.")] = ENVIRONMENTS,
    model: Annotated[
        str, typer.Option(help=f"As `atc run --model` takes it; else {NO_MODEL}, {RIGHT} or {GUESS}.")
    ] = NO_MODEL,
    each: Annotated[int, typer.Option(min=1, help="Cells of each kind of mistake.")] = 3,
    kinds: Annotated[str, typer.Option(help="Kinds of mistakes, with commas.")] = ",".join(KINDS),
    show: Annotated[bool, typer.Option("--show", help="Print what was given, said and sent.")] = False,
) -> None:
    """Run the cells, and write a row for each."""
    wanted = listed(kinds, KINDS, "kinds")

    async def all_of_them() -> None:
        environments = {name: open_environment(name, data) for name in listed(env, ENVIRONMENTS.split(","), "env")}
        found = [cell for each_one in environments.values() for cell in await cells(each_one)]
        settings = Settings.load()
        opened = None if model in (NO_MODEL, RIGHT, GUESS) else resolve_model(settings, model)
        sandbox = open_sandbox(settings)
        known = {(row.cell, row.model) for row in read_rows([out])}
        chosen = [cell for cell in drawn(found, each) if cell.kind in wanted]
        try:
            for number, cell in enumerate(chosen, 1):
                asked = opened or scripted(model, cell)
                if asked is None or (cell.id, asked.name) in known:
                    continue
                row = await measured(environments[cell.environment], cell, asked, sandbox, shown=show)
                with out.open("a", encoding="utf-8") as rows:
                    rows.write(json.dumps(asdict(row)) + "\n")
                err.print(f"{number} of {len(chosen)}: {row.kind}, asked {row.asked}, {row.outcome}", markup=False)
        finally:
            if opened is not None:
                await opened.aclose()
            await sandbox.aclose()

    asyncio.run(all_of_them())


@app.command("table")
@guarded
def print_table(files: Annotated[list[Path], typer.Argument(exists=True)], as_json: AsJson = False) -> None:
    """Print what came of each kind of mistake."""
    rows = table(read_rows(files))
    if as_json:
        print_json({"repairs": rows})
        return
    columns = list(rows[0]) if rows else []
    show("Arguments that the model was asked about", columns, [list(row.values()) for row in rows])


if __name__ == "__main__":
    app()

"""Is a right program left alone? Each task's own solution, written as a program, is what a scripted model replies.

``python -m benchmarks.tasks.right_programs --data DIR --env api_bank`` counts, for tasks that say all that their
solution needs and are not sealed, how many programs are sent back before they run, and by which findings. It takes no
language model, and prints no task. What a call's argument has from an earlier response is read from there, where the
two are equal. A value that neither the task nor an earlier response gives (an id that the solution never looked up) is
warned of rightly: those programs are counted apart, and run again for the same task with these values named in it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.agent import Agent
from atc.cli.console import guarded, out, print_json
from atc.errors import ToolError
from atc.facts import Finding
from atc.models.fake import FakeModel
from atc.result import Result
from atc.sandboxes.contract import Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.schemas.identifiers import THINGS, is_identifier
from atc.schemas.protocol import parameters_of
from atc.settings import Settings
from benchmarks.common import ALL, AsJson, listed
from benchmarks.environments import ENVIRONMENTS, Environment, Task, open_environment
from benchmarks.tasks.read_tasks import in_part, order

REPLIES = 12
"""Of the scripted model, all the same: more than a run asks for."""
SHORTEST = 3
"""Characters of a value that is read from a response; shorter ones, but for ids, are equal by chance."""
MOST_ITEMS = 50
"""Items of a list of a response that are looked through."""


def places(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the plain values in a response, each with the subscripts that read it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from places(part, f"{path}[{key!r}]")
    elif isinstance(value, list):
        for number, part in enumerate(value[:MOST_ITEMS]):
            yield from places(part, f"{path}[{number}]")
    else:
        yield path, value


@dataclass(frozen=True)
class RightProgram:
    """A task's own solution as a program.

    Attributes:
        source: the program, a call a line; empty where the solution makes none.
        not_given: by line, the values without spaces that stand there and that nothing gave.
        responses: of its calls; ``None`` of a call that failed.
    """

    source: str
    not_given: Mapping[int, list[str]]
    responses: Sequence[Any] = ()


@dataclass(frozen=True)
class _Writer:
    """Writes values as a program does: as literals, or from the latest response that has them.

    Attributes:
        text: the task, in lower case. ``choices``: the values among which the tool's document lets choose.
        responses: of the calls so far.
        not_given: what is written as a literal though neither the task nor a response has it.
    """

    text: str
    choices: frozenset[str]
    responses: Sequence[Any]
    not_given: list[str] = field(default_factory=list)

    def source(self, value: Any, name: str) -> str:
        """An expression for the value of an argument, or of a part of one. ``name``: of the argument or the part."""
        if isinstance(value, list):
            return f"[{', '.join(self.source(part, name) for part in value)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self.source(part, key)}' for key, part in value.items())}}}"
        written, least = str(value), 1 if is_identifier(name, THINGS) else SHORTEST
        if isinstance(value, bool) or len(written) < least or written.casefold() in self.text:
            return repr(value)
        if written in self.choices:
            return repr(value)
        for number in reversed(range(len(self.responses))):
            for path, part in places(self.responses[number]):
                if part == value and not isinstance(part, bool):
                    return f"r{number}{path}"
        if " " not in written:
            self.not_given.append(written)
        return repr(value)


def _choices(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from map(str, values if isinstance(values := schema.get("enum"), list) else ())
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _choices(part)


async def right_program(environment: Environment, task: Task) -> RightProgram:
    """A task's own solution as a program, which answers with the last response."""
    gold, episode = environment.gold(task), environment.open(task)
    lines: list[str] = []
    responses: list[Any] = []
    not_given: dict[int, list[str]] = {}
    async with episode.tools.opened():
        for number, (name, arguments) in enumerate(gold.calls if gold is not None else ()):
            protocol = episode.tools[name].protocol
            writer = _Writer(task.text.casefold(), frozenset(_choices(protocol.parameters)), responses)
            written = {each.original: each.name for each in parameters_of(protocol)}
            given = [f"{written.get(key, key)}={writer.source(value, key)}" for key, value in arguments.items()]
            lines.append(f"r{number} = {name}({', '.join(given)})")
            not_given |= {len(lines): writer.not_given} if writer.not_given else {}
            transport = episode.tools[name].transport
            assert transport is not None  # an episode has no others
            try:
                responses.append(await transport(dict(arguments)))
            except ToolError:
                responses.append(None)
    source = "\n".join([*lines, f"answer = r{len(lines) - 1}"]) if lines else ""
    return RightProgram(source, not_given, responses)


async def _run(environment: Environment, sandbox: Sandbox, rules: str, task: Task, program: str) -> tuple[Result, bool]:
    episode = environment.open(task)
    async with episode.tools.opened():
        agent = Agent(
            episode.tools,
            model=FakeModel([f"```python\n{program}\n```"] * REPLIES),
            sandbox=sandbox,
            sentence=False,
            keep_runs=False,
            learn=False,
            approve=lambda request: True,
            rules=rules,
            stub_tokens=ALL,
        )
        result = await agent.arun(task.text)
        return result, episode.check(result.value)


def _findings(result: Result) -> list[Finding]:
    return [finding for revision in result.revisions for finding in revision.findings]


async def count(environment: Environment, sandbox: Sandbox, rules: str, limit: int | None) -> dict[str, Any]:
    """How the right programs of an environment fared: tasks, those sent back, and those by each finding."""
    tasks = [task for task in environment.tasks() if task.stated and in_part(environment.name, task.id, "open")]
    tasks = sorted(tasks, key=lambda task: order(environment, task))[:limit]
    tried = ran_at_once = solved_at_once = named = named_ran = 0
    sent_back: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for task in tasks:
        program = await right_program(environment, task)
        if not program.source:
            continue
        tried += 1
        result, solved = await _run(environment, sandbox, rules, task, program.source)
        found = _findings(result)
        if found and all(finding.line in program.not_given for finding in found):
            named += 1
            values = " ".join(value for line in program.not_given.values() for value in line)
            told = replace(task, text=f"{task.text}\n({values})")
            result, solved = await _run(environment, sandbox, rules, told, program.source)
            found = _findings(result)
            named_ran += not found
        else:
            ran_at_once += not found
        sent_back.update({f"{finding.kind} ({finding.severity})" for finding in found})
        failed.update({revision.fault.case for revision in result.revisions if revision.fault is not None})
        solved_at_once += len(result.revisions) == 1 and solved
    return {
        "environment": environment.name,
        "tasks": tried,
        "ran_at_once": ran_at_once,
        "not_given": named,
        "ran_once_named": named_ran,
        "solved_at_once": solved_at_once,
        "sent_back_by": dict(sent_back.most_common()),
        "failed_by": dict(failed.most_common()),
    }


@guarded
def main(
    env: Annotated[str, typer.Option(help="Environments, with commas.")] = "api_bank,comptoolbench,complexfuncbench",
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/NAME.")] = None,
    rules: Annotated[str, typer.Option(help="As `atc run --rules` takes them.")] = "default",
    limit: Annotated[int | None, typer.Option(min=1, help="Tasks of each environment, drawn by a hash.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count how many right programs are sent back before they run, and by what."""

    async def all_of_them() -> list[dict[str, Any]]:
        sandbox = open_sandbox(Settings.load())
        try:
            environments = [open_environment(name, data) for name in listed(env, ENVIRONMENTS, "env")]
            return [await count(each, sandbox, rules, limit) for each in environments]
        finally:
            await sandbox.aclose()

    rows = asyncio.run(all_of_them())
    if as_json:
        print_json(rows)
        return
    for row in rows:
        sent_back, failed = (
            ", ".join(f"{kind} {times}" for kind, times in row[key].items()) or "nothing"
            for key in ("sent_back_by", "failed_by")
        )
        out.print(
            f"{row['environment']}: {row['tasks']} tasks; ran at once {row['ran_at_once']}; with values that nothing "
            f"gives {row['not_given']}, of which {row['ran_once_named']} ran once the task named them; solved so "
            f"{row['solved_at_once']}; sent back by: {sent_back}; failed by: {failed}",
            markup=False,
        )


if __name__ == "__main__":
    typer.run(main)

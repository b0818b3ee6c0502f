"""Is a right program left alone? Each task's own solution, written as a program, is what a scripted model replies.

``python -m benchmarks.right_programs --data DIR --env api_bank`` counts, for tasks that say all that their solution
needs and are not sealed, how many programs are sent back before they run, and by which findings. It takes no language
model, and prints no task. What a call's argument has from an earlier response is read from there, where the two are
equal; where a solution has a value that nothing gives (an id), it is refused rightly.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.agent import Agent
from atc.cli.console import guarded, out, print_json
from atc.errors import ToolError
from atc.models.fake import FakeModel
from atc.sandboxes.contract import Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from benchmarks.environments import ENVIRONMENTS, Environment, Task, open_environment
from benchmarks.quick import order
from benchmarks.read_tasks import in_part
from benchmarks.tasks import listed

REPLIES = 12
"""Of the scripted model, all the same: more than a run asks for."""
SHORTEST = 3
"""Characters of a value that is read from a response; shorter ones are equal by chance."""
MOST_ITEMS = 50
"""Items of a list of a response that are looked through."""


def _places(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values in a response, each with the subscripts that read it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _places(part, f"{path}[{key!r}]")
    elif isinstance(value, list):
        for number, part in enumerate(value[:MOST_ITEMS]):
            yield from _places(part, f"{path}[{number}]")
    else:
        yield path, value


def _source(value: Any, text: str, responses: Sequence[Any]) -> str:
    """A value as a program writes it: as a literal where the task has it, else from the last response that has it."""
    if isinstance(value, list):
        return f"[{', '.join(_source(part, text, responses) for part in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_source(part, text, responses)}' for key, part in value.items())}}}"
    if not isinstance(value, bool) and len(str(value)) >= SHORTEST and str(value).casefold() not in text:
        for number in reversed(range(len(responses))):
            for path, part in _places(responses[number]):
                if part == value:
                    return f"r{number}{path}"
    return repr(value)


async def right_program(environment: Environment, task: Task) -> str:
    """A task's own solution as a program, which answers with the last response; empty where it makes no call."""
    gold, episode = environment.gold(task), environment.open(task)
    lines: list[str] = []
    responses: list[Any] = []
    async with episode.tools.opened():
        for number, (name, arguments) in enumerate(gold.calls if gold is not None else ()):
            given = (f"{key}={_source(value, task.text.casefold(), responses)}" for key, value in arguments.items())
            lines.append(f"r{number} = {name}({', '.join(given)})")
            transport = episode.tools[name].transport
            assert transport is not None  # an episode has no others
            try:
                responses.append(await transport(dict(arguments)))
            except ToolError:
                responses.append(None)
    return "\n".join([*lines, f"answer = r{len(lines) - 1}"]) if lines else ""


async def count(environment: Environment, sandbox: Sandbox, rules: str, limit: int | None) -> dict[str, Any]:
    """How the right programs of an environment fared: tasks, those sent back, and those by each finding."""
    tasks = [task for task in environment.tasks() if task.stated and in_part(environment.name, task.id, "open")]
    tasks = sorted(tasks, key=lambda task: order(environment, task))[:limit]
    tried = ran_at_once = solved_at_once = 0
    sent_back: Counter[str] = Counter()
    for task in tasks:
        program = await right_program(environment, task)
        if not program:
            continue
        tried += 1
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
                repairs=0,
                max_tools=max(20, len(episode.tools)),
            )
            result = await agent.arun(task.text)
        kinds = {f"{found.kind} ({found.severity})" for revision in result.revisions for found in revision.findings}
        sent_back.update(kinds)
        ran_at_once += not kinds
        solved_at_once += len(result.revisions) == 1 and episode.check(result.value)
    return {
        "environment": environment.name,
        "tasks": tried,
        "ran_at_once": ran_at_once,
        "solved_at_once": solved_at_once,
        "sent_back_by": dict(sent_back.most_common()),
    }


@guarded
def main(
    env: Annotated[str, typer.Option(help="Environments, with commas.")] = "api_bank,comptoolbench,complexfuncbench",
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/NAME.")] = None,
    rules: Annotated[str, typer.Option(help="As `atc run --rules` takes them.")] = "default",
    limit: Annotated[int | None, typer.Option(min=1, help="Tasks of each environment, drawn by a hash.")] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
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
        by = ", ".join(f"{kind} {times}" for kind, times in row["sent_back_by"].items()) or "nothing"
        out.print(
            f"{row['environment']}: {row['tasks']} tasks; ran at once {row['ran_at_once']}, "
            f"solved so {row['solved_at_once']}; sent back by: {by}",
            markup=False,
        )


if __name__ == "__main__":
    typer.run(main)

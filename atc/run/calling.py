"""Call one tool, or one kept program, without a model: checked, run in the jail, journalled, and kept as a run."""

from __future__ import annotations

import asyncio
import copy
import itertools
import keyword
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from atc._host.blocking import in_thread
from atc.calls.json_values import to_json_value
from atc.calls.permissions import agent_permissions
from atc.errors import UsageError
from atc.run.given import NAME as GIVEN
from atc.run.given_program import GivenRun, run_given
from atc.run.kept_checks import misfit
from atc.run.resources import catalogue_of
from atc.sandboxes.inputs import name_problem
from atc.schemas.protocol import Protocol, parameters_of
from atc.schemas.validate import problems
from atc.tools.kept_files import SUFFIX
from atc.tools.kept_folders import WORD, read_places
from atc.tools.kept_tools import with_kept
from atc.traces.emitter import Listener
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.agent import Agent


async def call_tool(
    agent: Agent,
    name: str,
    arguments: Mapping[str, Any],
    *,
    author: str = "",
    dry_run: bool = False,
    listener: Listener | None = None,
    run_id: str = "",
    tools_from: str | None = None,
) -> GivenRun:
    """Call a tool of an agent by a program of one line, whose inputs are the arguments.

    Args:
        agent: whose tools, sandbox, approval and limits count. Its model is not asked.
        name: of the tool, as programs call it.
        arguments: JSON values and bytes, by the parameters' names, as programs write them or as the tool has them.
        author: who asked for it; names the run.
        dry_run: calls with effects are planned, not made.
        listener: told of every event.
        run_id: of a new run; made here when not given.
        tools_from: is noted in its trace: where the tools are.

    Returns:
        The run; the value of its result is what the tool returned.

    Raises:
        UsageError: there is no such tool, or an argument is missing, unknown, or not what the tool's schema says.
        EnvironmentProblem: not the isolation that was asked for.
    """
    if name not in agent.tools:
        agent = await asyncio.to_thread(_with_own_kept, agent, name)
    tool = agent.tools[name]
    given = await asyncio.to_thread(checked_arguments, tool.protocol, arguments)  # they may be large
    source, inputs = program_of(name, given, {*agent.tools, *agent.tools.inner_tools})
    return await run_given(
        agent,
        source,
        author=author,
        inputs=inputs,
        by_user=True,
        dry_run=dry_run,
        listener=listener,
        run_id=run_id,
        tools_from=tools_from,
    )


async def with_kept_again(agent: Agent, stored: StoredRun, *, trust_run: bool = False) -> Agent:
    """Return the same agent with the kept program of the data folder that a run called, which goes on.

    Args:
        agent: where it has the program, it is returned itself.
        stored: the run. Where others could have written its trace, nothing that it names is read.
        trust_run: read it even then.

    Raises:
        UsageError: the program cannot be among these tools.
    """
    found = await in_thread(_own_kept_of, agent, stored, trust_run)
    return agent if found is None else await asyncio.to_thread(_with_own_kept, agent, found)


def _own_kept_of(agent: Agent, stored: StoredRun, trust_run: bool) -> str | None:
    if (stored.first("run_started") or {}).get("strategy") != GIVEN:
        return None
    match (stored.first("tools_chosen") or {}).get("tools"):
        case [str(name)] if name not in agent.tools and name.isidentifier():
            is_there = (agent.settings.kept_dir / f"{name}{SUFFIX}").exists()
            return name if is_there and (trust_run or not stored.why_strange()) else None
    return None


def _with_own_kept(agent: Agent, name: str) -> Agent:
    read = read_places([WORD], own=agent.settings.kept_dir)
    tools, left = with_kept(agent.tools, [file for file in read.files if file.name not in agent.tools])
    missed = {each.name: each.reason for each in (*read.left_out, *left)}
    if name not in tools:
        near = get_close_matches(name, tools, 3)
        meant = f"did you mean {' or '.join(near)}?" if near else "`agent.tools` has the names of those that there are"
        raise UsageError(missed.get(name, f"there is no tool {name!r}: {meant}"))
    made = copy.copy(agent)
    made.settings, held = agent_permissions.held_to(agent.permissions, agent.settings, tools.only(name))
    if problem := misfit(tools[name], tools):
        raise UsageError(problem)
    made.catalogue = catalogue_of(held, None, None, made.settings)
    made.tools = made.catalogue.tools
    return made


def checked_arguments(protocol: Protocol, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by the names that programs write, once the tool's schema takes them.

    Raises:
        UsageError: one is missing, unknown, or not what the schema says; each is named.
    """
    parameters = parameters_of(protocol)
    names = {each.original: each.name for each in parameters} | {each.name: each.name for each in parameters}
    originals = {each.name: each.original for each in parameters}
    takes = f"it takes {', '.join(originals)}" if originals else "it takes no arguments"
    is_open = protocol.parameters.get("additionalProperties") not in (None, False)
    if unknown := [name for name in arguments if name not in names and not (is_open and name.isidentifier())]:
        near = get_close_matches(unknown[0], originals, 1)
        meant = f"did you mean {near[0]!r}? {takes}" if near else takes
        raise UsageError(f"{protocol.name} has no parameter {unknown[0]!r}: {meant}")
    if missing := [each.name for each in parameters if each.required and not {each.name, each.original} & {*arguments}]:
        raise UsageError(f"{protocol.name} needs {', '.join(map(repr, missing))}: {takes}")
    try:
        given = {names.get(name, name): to_json_value(value) for name, value in arguments.items()}
    except ValueError as error:
        raise UsageError(f"an argument of {protocol.name} is no JSON value: {error}") from None
    if len(given) < len(arguments):
        raise UsageError(f"an argument of {protocol.name} is given twice, by both of its names: {takes}")
    sent = {originals.get(name, name): value for name, value in given.items()}
    if wrong := problems(protocol.parameters, sent):
        raise UsageError(f"{protocol.name} does not take these arguments: {'; '.join(map(str, wrong[:3]))}")
    return given


def program_of(name: str, arguments: Mapping[str, Any], tools: Collection[str]) -> tuple[str, dict[str, Any]]:
    """Return the program of one line that calls a tool, and its inputs.

    Args:
        name: of the tool.
        arguments: by the names that programs write.
        tools: the names of all tools, which no input can have.
    """
    inputs: dict[str, Any] = {}
    written = []
    for parameter, value in arguments.items():
        others = (f"{parameter}_{number}" for number in itertools.count(1))
        free = (each for each in itertools.chain([parameter], others) if each not in inputs)
        own = next(each for each in free if not name_problem(each, tools))
        inputs[own] = value
        written.append(f"**{{{parameter!r}: {own}}}" if keyword.iskeyword(parameter) else f"{parameter}={own}")
    return f"answer = {name}({', '.join(written)})", inputs

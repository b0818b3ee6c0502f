"""Reads off a run what it teaches: off its result, its events, or its trace on disk."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from atc._records.events import Event
from atc.catalogue.graph.lessons import Fields, Lessons
from atc.programs.lessons.witness import MAX_COUNT, Answer, Made
from atc.programs.responses import blames_arguments
from atc.result import Call, Result
from atc.schemas.protocol import Protocol, parameters_of
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.schemas.infer.outline import Outline

# ----------------------------------------------------------------------------------------------------------------------
# Which keys of arguments meant which parameter, as the repairs of answered calls say (RETO §3.4): names, no values.


MAX_KEYS, MAX_KEY = 20, 64
"""Keys of one tool that one run teaches, and characters of one."""


def respelt(calls: Sequence[Made], program: str, tools: Mapping[str, Protocol]) -> dict[tuple[str, str], str]:
    """Return the parameter that was meant, for a tool and a key that none of its parameters has.

    Args:
        calls: of the program that answered.
        program: their source. A key that does not stand there may be data.
        tools: the protocols by name.
    """
    found: dict[tuple[str, str], set[str]] = {}
    words = set(re.findall(r"\w+", program))
    for call in calls:
        if call.repairs and call.tool in tools:
            parameters = parameters_of(tools[call.tool])
            names, known = {each.original for each in parameters}, {each.name for each in parameters}
            for key, name in _keys(call):
                if name in names and key in words and key not in names | known:
                    found.setdefault((call.tool, key), set()).add(name)
    counts: dict[str, int] = {}
    made: dict[tuple[str, str], str] = {}
    for (tool, key), meant in found.items():
        counts[tool] = counts.get(tool, 0) + 1
        if len(meant) == 1 and counts[tool] <= MAX_KEYS:
            made[tool, key] = meant.pop()
    return made


def _keys(call: Made) -> list[tuple[str, str]]:
    """Return the keys of the arguments themselves that became another, and changed nothing else."""
    made = []
    for repair in call.repairs:
        kind, path, name = repair.get("kind"), repair.get("path"), repair.get("name")
        alone = kind == "respelt" or (kind == "model" and repair.get("given") == repair.get("sent"))
        if alone and isinstance(path, list | tuple) and len(path) == 1 and isinstance(name, str):
            key = path[0]
            if isinstance(key, str) and key.isidentifier() and len(key) <= MAX_KEY:
                made.append((key, name))
    return made


# ----------------------------------------------------------------------------------------------------------------------
# Reads off a run what it teaches: off its result, its events, or its trace on disk.


_NO_FAILURE_OF_THE_TOOL = {"denied", "credential", "in_doubt"}
"""Causes that say nothing about the tool."""
"""States of a call that gave its program a value."""


class _Request(NamedTuple):
    """One request of a run: the program that answered it, that program's calls, all calls, and the tools that broke
    with those that were used in their place."""

    run_id: str
    number: int
    answered: bool
    program: str
    own: Sequence[Made]
    calls: Sequence[Made]
    replaced: Sequence[tuple[str, str]] = ()
    task: str = ""
    warned: bool = False

    @property
    def shows(self) -> bool:
        """Return whether its answer shows that what the program did was right, as far as an answer can.

        It does not where a call was refused by the user or a rule, or the check's warnings about it stayed unresolved.
        """
        refused = any(call.cause in ("denied", "in_doubt") for call in self.calls)
        return self.answered and bool(self.run_id) and not refused and not self.warned


def lessons_of(
    run: StoredRun | Result[Any] | Iterable[Event | Mapping[str, Any]],
    tools: Mapping[str, Protocol],
    *,
    request: int = 0,
    warned: bool = False,
) -> Lessons:
    """Return what a finished run teaches; of a conversation its last request. Linear in the run.

    Args:
        run: a run on disk, its result, or the events of its trace.
        tools: the protocols by the names that programs call them by; calls of other tools teach nothing.
        request: of a result that belongs to a conversation, the number of its task; a trace has it.
        warned: of a result, that the program which answered ran although the check had warned about its writes; a trace
            has it.

    Raises:
        UsageError: a newer version of ATC wrote the trace.
        OSError: it cannot be read.
    """
    if isinstance(run, Result):
        found = _of_result(run, request)._replace(warned=warned)
    else:
        requests = list(_of_events(run.latest() if isinstance(run, StoredRun) else run))
        found = requests[-1] if requests else _Request("", 0, False, "", (), ())
    return _lessons(found, tools)


def all_lessons(run: StoredRun, tools: Mapping[str, Protocol]) -> Iterator[Lessons]:
    """Yield what each request of a run on disk teaches, in order: a conversation has several.

    Raises:
        TraceError: a line of its trace is damaged.
        UsageError, OSError: as :func:`lessons_of`.
    """
    run.check()
    for request in _of_events(run.events()):
        yield _lessons(request, tools)


# -- what happened ---------------------------------------------------------------------------------------------------


def _of_result(result: Result[Any], number: int) -> _Request:
    called = result.calls if result.dry_run is None else ()  # a dry run teaches nothing
    calls = [_made(dict(call) | {"repairs": [dict(each) for each in call.repairs]}) for call in called]
    last = max((call.attempt for call in calls), default=0)
    own = [call for call in calls if call.attempt == last]
    replaced = [each for revision in result.revisions for each in revision.substituted]
    return _Request(result.run_id, number, result.status == "answered", result.program, own, calls, replaced)


def _of_events(events: Iterable[Event | Mapping[str, Any]]) -> Iterator[_Request]:
    """Yield the requests of a trace. A run that was resumed goes on with the same request."""
    run_id, number, written, running, task = "", -1, "", "", ""
    answered, program = False, ""
    own: list[Made] = []
    calls: list[Made] = []
    replaced: list[tuple[str, str]] = []

    dry = warned = False

    def request() -> _Request:
        if dry:
            return _Request(run_id, number, False, "", (), ())
        program_run = running if running == program else ""
        return _Request(run_id, number, answered, program_run, own, calls, replaced, task, warned)

    for event in events:
        kind, data = (event.kind, event.data) if isinstance(event, Event) else (event["kind"], event["data"])
        match kind:
            case "run_started":
                turn = data.get("turn", 0)
                if turn != number and run_id:
                    yield request()
                    answered, program, own, calls, replaced, warned = False, "", [], [], [], False
                run_id, number, dry = str(data.get("run_id", "")), turn, bool(data.get("dry_run"))
                named = data.get("strategy") == "given"  # by its program, and nobody asked for anything in words
                task = given if isinstance(given := data.get("task"), str) and not named else ""
            case "program_written":
                written = data.get("program", "")
            case "program_started":
                running, own, warned = written, [], bool(data.get("warnings"))
            case "call_ended":
                made = _made(data)
                own.append(made)
                calls.append(made)
            case "run_ended":
                answered, program = data.get("status") == "answered", data.get("program", "")
            case "substituted":
                replaced.append((str(data.get("tool")), str(data.get("by"))))
    if run_id:
        yield request()


def _made(call: Mapping[str, Any]) -> Made:
    """Return a call of a trace, whose file anybody may have edited: what is no call teaches nothing."""
    index, tool, arguments, line = (call.get(name) for name in ("index", "tool", "arguments", "line"))
    return Made(
        index if isinstance(index, int) else 0,
        tool if isinstance(tool, str) else "",
        arguments if isinstance(arguments, dict) else {},
        call.get("value"),
        str(call.get("status")),
        str(call.get("effect")),
        line if isinstance(line, int) else 0,
        attempt if isinstance(attempt := call.get("attempt"), int) else 0,
        status if isinstance(status := call.get("error_status"), int | str) else None,
        cause if isinstance(cause := call.get("cause"), str) else None,
        _records(call.get("repairs")),
    )


def _records(found: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


# -- what it teaches -------------------------------------------------------------------------------------------------


def _lessons(request: _Request, tools: Mapping[str, Protocol]) -> Lessons:
    failed = tuple((call.number, call.tool) for call in request.calls if call.tool in tools and _failed_as_a_tool(call))
    known = [(tool, by) for tool, by in request.replaced if tool in tools and by in tools and tool != by]
    digest = hashlib.sha256(f"{request.run_id}:{request.number}".encode("utf-8", "replace")).hexdigest()[:32]
    answer = Answer.of(request.program, request.own, tools) if request.shows else None
    shapes, observed = _observed(request.calls, tools) if request.run_id else ({}, (0, 0))
    if answer is None:
        replaced = {pair: False for pair in known if _broke(pair[1], failed)}
        return Lessons(digest, failed=failed, replaced=replaced, shapes=shapes, observed=observed)
    counted = answer.counted
    follows = Counter((a.tool, b.tool) for a, b in pairwise(counted) if a.tool != b.tool)
    calls = Counter(call.tool for call in counted)
    return Lessons(
        digest,
        True,
        _bounded(calls),
        failed,
        _bounded(follows),
        _bounded(answer.feeds()),
        {pair: pair[1] in calls for pair in known if pair[1] in calls or _broke(pair[1], failed)},
        shapes,
        observed,
        _bounded(answer.levels()),
        respelt(counted, request.program, tools),
    )


def _observed(calls: Sequence[Made], tools: Mapping[str, Protocol]) -> tuple[dict[str, Outline], tuple[int, int]]:
    """An answer that came from the journal was counted when the call was made."""
    own = [call for call in calls if call.status == "ok" and call.tool in tools and not call.is_empty]
    responses: dict[str, list[Any]] = {}
    for call in own:
        if len(kept := responses.setdefault(call.tool, [])) < MAX_COUNT:
            kept.append(call.value)
    found = Fields(tools, responses).outlines(responses)
    numbers = [call.number for call in own if call.tool in found]
    return found, (min(numbers, default=0), max(numbers, default=0))


def _broke(tool: str, failed: Iterable[tuple[int, str]]) -> bool:
    return any(name == tool for _, name in failed)


def _bounded(counts: Mapping[Any, int]) -> dict[Any, int]:
    return {key: min(count, MAX_COUNT) for key, count in counts.items()}


def _failed_as_a_tool(call: Made) -> bool:
    if call.status != "failed" or call.cause in _NO_FAILURE_OF_THE_TOOL:
        return False
    return not blames_arguments(Call.model_construct(status="failed", error_status=call.error_status))
